//! What the device reaches at most: a copy by a shader, and products of large squares through the backend's own loops.

use std::sync::Arc;
use std::time::{Duration, Instant};

use dikast_core::backend::{Backend, Batch, Ceilings};
use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, StoredType, TensorSpec, Values, Weights};
use dikast_core::graph::{Elements, Graph, GraphBuilder, InputKind, Residency, Sizes, Weight};
use dikast_core::{Error, Result};

use crate::backend::WgpuBackend;
use crate::device::Device;
use crate::shaders::Shader;

/// Bytes of each of the two buffers of the copy: several times the largest cache.
const COPY: u64 = 1 << 30;
/// The same where the processor plays the device.
const COPY_SOFTWARE: u64 = 64 << 20;
/// Copies in one submission.
const COPIES: usize = 8;
/// Workgroups of the copy along x, of 256 invocations with 16 bytes each.
const COPY_GROUPS: u32 = 4096;
/// Rows, columns and inner width of the products, on a GPU and in software.
const SIDE: usize = 4096;
const SIDE_SOFTWARE: usize = 256;
/// Rows of the embedding table that the activations come from.
const TABLE: usize = 64;
/// The best of all tries in this time counts: a device that has idled needs a while to come back to its clocks.
const TRYING: Duration = Duration::from_millis(500);

/// Measures all of them.
///
/// # Errors
/// [`Error::Unsupported`] where steps cannot be timed, and what the device says.
pub(crate) async fn measure(backend: &WgpuBackend) -> Result<Ceilings> {
    let (quantized_product_flops, product_flops) = products(backend).await?;
    Ok(Ceilings { copy_bytes: copy(&backend.device)?, product_flops, quantized_product_flops })
}

/// Bytes a second, read and written.
fn copy(device: &Device) -> Result<f64> {
    let row = u64::from(COPY_GROUPS) * 256 * 16;
    let most = if device.software { COPY_SOFTWARE } else { COPY };
    let limits = &device.limits;
    let size = most.min(limits.max_buffer_size).min(limits.max_storage_buffer_binding_size) / row * row;
    let rows = u32::try_from(size / row).unwrap_or(0).min(limits.max_compute_workgroups_per_dimension);
    let submit = device.guarded(2 * size, || {
        let usage = wgpu::BufferUsages::STORAGE;
        let (a, b) = (device.buffer("copy", size, usage)?, device.buffer("copy", size, usage)?);
        let module = device.raw.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: Some("copy"),
            source: wgpu::ShaderSource::Wgsl(Shader::Copy.source().into()),
        });
        let pipeline = device.raw.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some("copy"),
            layout: None,
            module: &module,
            entry_point: Some(Shader::Copy.entry()),
            compilation_options: Default::default(),
            cache: None,
        });
        let bind = |from: &wgpu::Buffer, to: &wgpu::Buffer| {
            let entries = [(0, from), (1, to)]
                .map(|(binding, b)| wgpu::BindGroupEntry { binding, resource: b.as_entire_binding() });
            let layout = &pipeline.get_bind_group_layout(0);
            device.raw.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout,
                entries: &entries,
            })
        };
        let ways = [bind(&a, &b), bind(&b, &a)];
        Ok(move || {
            let mut encoder = device.raw.create_command_encoder(&Default::default());
            let mut pass = encoder.begin_compute_pass(&Default::default());
            pass.set_pipeline(&pipeline);
            for way in ways.iter().cycle().take(COPIES) {
                pass.set_bind_group(0, way, &[]);
                pass.dispatch_workgroups(COPY_GROUPS, rows, 1);
            }
            drop(pass);
            device.queue.submit([encoder.finish()]);
        })
    })?;
    let (started, mut best) = (Instant::now(), f64::INFINITY);
    while best.is_infinite() || started.elapsed() < TRYING {
        let start = Instant::now();
        submit();
        device.wait()?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(2.0 * row as f64 * f64::from(rows) * COPIES as f64 / best.max(1e-9))
}

/// Operations a second of `QuantLinear` and of `Linear` with a bfloat16 weight.
async fn products(backend: &WgpuBackend) -> Result<(f64, f64)> {
    let side = if backend.device.software { SIDE_SOFTWARE } else { SIDE };
    let (graph, weights) = squares(side)?;
    let sizes = Sizes { tokens: side, sequences: 1, labels: 1, ..Sizes::default() };
    let resident = backend.load(&graph, &weights, &mut |_, _| {})?;
    let mut plan = backend.plan(&graph, &resident, &backend.bucket(&sizes))?;
    let mut batch = Batch::new(sizes);
    batch.set(InputKind::TokenIds, (0..side).map(|t| (t % TABLE) as i32).collect());
    let (started, mut best) = (Instant::now(), [u64::MAX; 2]);
    while best[0] == u64::MAX || started.elapsed() < TRYING {
        let times = backend.profile(&mut plan, &resident, &batch).await?;
        let of = |name: &str| {
            let same = times.iter().filter(|t| graph.steps()[t.step].name() == name);
            same.map(|t| t.nanos.max(1)).min().unwrap_or(u64::MAX)
        };
        best = [best[0].min(of("QuantLinear")), best[1].min(of("Linear"))];
    }
    let rate = |nanos: u64| 2.0 * (side as f64).powi(3) / nanos as f64 * 1e9;
    Ok((rate(best[0]), rate(best[1])))
}

/// Embedded rows, normed and quantized, through one square of either kind.
fn squares(side: usize) -> Result<(Graph, Weights)> {
    // Random enough: no denormals, no NaN, both signs.
    let mut random = 1u32;
    let mut bytes = |count: usize| -> Vec<u8> {
        (0..count)
            .map(|_| {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (random >> 24) as u8
            })
            .collect()
    };
    let mut bf16 = |count: usize, sign: u8| -> Vec<u8> {
        bytes(2 * count).chunks_exact(2).flat_map(|b| [b[0], 0x3f | b[1] & sign]).collect()
    };
    let table = bf16(TABLE * side, 0x80);
    let norm = bf16(side, 0);
    let scales = bf16(side, 0);
    let real = bf16(side * side, 0x80);
    let codes = bytes(side * side).into_iter().map(|b| b & 0xb7).collect();
    let checkpoint = checkpoint(vec![
        ("table", StoredType::BF16, [TABLE, side].to_vec(), table),
        ("norm", StoredType::BF16, [side].to_vec(), norm),
        ("scales", StoredType::BF16, [side, 1].to_vec(), scales),
        ("real", StoredType::BF16, [side, side].to_vec(), real),
        ("codes", StoredType::F8E4M3, [side, side].to_vec(), codes),
    ])?;
    let mut b = GraphBuilder::new("ceilings");
    let whole = |name: &str, shape: [usize; 2], elements, residency| Weight {
        name: name.to_owned(),
        parts: vec![name.to_owned()],
        shape: shape.to_vec(),
        elements,
        residency,
    };
    let table = b.add_weight(whole("table", [TABLE, side], Elements::Real, Residency::HostRows));
    let ids = b.input(InputKind::TokenIds);
    let x = b.embed("x", ids, table, None);
    let codes = b.add_weight(whole("codes", [side, side], Elements::E4M3, Residency::Device));
    let scales = b.add_weight(whole("scales", [side, 1], Elements::Real, Residency::Device));
    let quantized = b.quantize("quantized", x);
    b.quant_linear("codes", quantized, codes, scales, None);
    let norm = b.weight("norm", &[side]);
    let normed = b.rms_norm("normed", x, norm, 1e-6);
    let real = b.weight("real", &[side, side]);
    let out = b.linear("real", normed, real, None, None, None);
    Ok((b.finish(out)?, checkpoint))
}

/// A checkpoint in memory.
fn checkpoint(stored: Vec<(&str, StoredType, Vec<usize>, Vec<u8>)>) -> Result<Weights> {
    let (mut entries, mut data, mut expected) = (Vec::new(), Vec::<u8>::new(), Expected::default());
    for (name, dtype, shape, bytes) in stored {
        let tag = if dtype == StoredType::F8E4M3 { "F8_E4M3" } else { "BF16" };
        let (start, end) = (data.len(), data.len() + bytes.len());
        entries.push(format!(
            r#""{name}":{{"dtype":"{tag}","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
        ));
        data.extend(bytes);
        expected.tensors.push(TensorSpec {
            name: name.to_owned(),
            allowed: vec![dtype],
            shape,
            values: Values::Finite,
            companions: vec![],
        });
    }
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header.as_bytes());
    file.extend(data);
    let blob = Blob::Owned(Arc::new(file));
    let files = ModelFiles::from_memory("ceilings", [("model.safetensors".to_owned(), blob)]);
    Weights::open(&files, &expected, Checks::HEADERS).map_err(|e| Error::Internal(e.to_string()))
}
