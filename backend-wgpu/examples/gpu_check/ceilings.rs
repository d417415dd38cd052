//! What the device can do at most, measured in the same run as the rest.

use std::time::Instant;

use dikast_core::{Error, Result};
use dikast_wgpu::{ProductChoice, WgpuBackend};
use serde_json::{Value, json};

use crate::products;

/// Bytes of each of the two buffers of the copy.
const COPY: u64 = 1 << 30;
/// Copies in one submission.
const COPIES: u64 = 16;

/// The device's ceilings.
pub(crate) struct Ceilings {
    /// Bytes a second, read and written.
    pub(crate) bandwidth: f64,
    /// FLOP/s of the portable product.
    pub(crate) portable: f64,
    /// FLOP/s of the product on cooperative matrices; `None` without them.
    pub(crate) cooperative: Option<f64>,
    pub(crate) report: Value,
}

/// The largest rates: a copy, and the product of a large square in the best of several tiles.
pub(crate) async fn measure() -> Result<Ceilings> {
    let bandwidth = copy().await?;
    let side = 4096;
    let (graph, weights) = products::graph(side, side)?;
    let best = |rates: Vec<(ProductChoice, f64)>| rates.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let mut found = Vec::new();
    let mut capabilities = Value::Null;
    let mut has_matrices = false;
    for (name, options) in crate::paths() {
        let backend = WgpuBackend::open(&options).await?;
        if name == "cooperative" {
            has_matrices = backend.uses_matrices();
            let c = dikast_core::backend::Backend::capabilities(&backend);
            capabilities = json!({ "device": c.device.clone(), "details": c.details.clone() });
        }
        let choices = if name == "cooperative" { products::COOPERATIVE } else { products::LARGE };
        let mut rates = Vec::new();
        for &product in choices {
            let options = dikast_wgpu::DeviceOptions { product, ..options.clone() };
            let backend = WgpuBackend::open(&options).await?;
            let times = products::times(&backend, &graph, &weights, side, 3).await?;
            let flops = 2.0 * (side as f64).powi(3);
            // E4M3 comes first.
            rates.extend(times.first().map(|t| (product, flops / t.1 as f64 * 1e9)));
        }
        found.push((name, best(rates)));
    }
    let rate = |i: usize| found[i].1.as_ref().map_or(0.0, |b| b.1);
    let list: Vec<Value> = found
        .iter()
        .map(|(name, b)| {
            let (choice, rate) = b.as_ref().map_or((ProductChoice::Auto, 0.0), |b| *b);
            json!({ "path": name, "tile": format!("{choice:?}"), "tflops": rate / 1e12 })
        })
        .collect();
    eprintln!("copy {:.2} TB/s; products 4096³: {list:?}", bandwidth / 1e12);
    Ok(Ceilings {
        bandwidth,
        portable: rate(1).max(rate(2)),
        cooperative: has_matrices.then(|| rate(0)),
        report: json!({ "adapter": capabilities, "copy_tb_s": bandwidth / 1e12, "product_4096": list }),
    })
}

/// A copy in WGSL: what a shader can move. (A copy command of the interface may be far slower.)
const COPY_SHADER: &str = "
@group(0) @binding(0) var<storage, read> a: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<u32>>;
@compute @workgroup_size(256)
fn copy(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
    let i = id.y * groups.x * 256u + id.x;
    b[i] = a[i];
}";
/// Workgroups of the copy along x.
const COPY_GROUPS: u32 = 4096;

/// Bytes a second of a copy, read and written.
async fn copy() -> Result<f64> {
    let internal = |e: String| Error::Internal(e);
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = wgpu::Backends::PRIMARY;
    let options = wgpu::RequestAdapterOptions {
        power_preference: wgpu::PowerPreference::HighPerformance,
        ..Default::default()
    };
    let adapter = wgpu::Instance::new(descriptor).request_adapter(&options).await;
    let adapter = adapter.map_err(|e| internal(e.to_string()))?;
    let row = u64::from(COPY_GROUPS) * 256 * 16;
    let has = adapter.limits();
    let size = COPY.min(has.max_buffer_size).min(has.max_storage_buffer_binding_size) / row * row;
    let limits = wgpu::Limits {
        max_buffer_size: size,
        max_storage_buffer_binding_size: size,
        ..wgpu::Limits::default()
    };
    let descriptor = wgpu::DeviceDescriptor { required_limits: limits, ..Default::default() };
    let (device, queue) = adapter.request_device(&descriptor).await.map_err(|e| internal(e.to_string()))?;
    let usage = wgpu::BufferUsages::STORAGE;
    let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
    let [a, b] = [(); 2].map(|()| device.create_buffer(&descriptor));
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: None,
        source: wgpu::ShaderSource::Wgsl(COPY_SHADER.into()),
    });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: Some("copy"),
        compilation_options: Default::default(),
        cache: None,
    });
    let bind = |from: &wgpu::Buffer, to: &wgpu::Buffer| {
        let entries = [(0, from), (1, to)]
            .map(|(binding, b)| wgpu::BindGroupEntry { binding, resource: b.as_entire_binding() });
        let layout = &pipeline.get_bind_group_layout(0);
        device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout, entries: &entries })
    };
    let ways = [bind(&a, &b), bind(&b, &a)];
    let mut best = f64::MAX;
    let begin = Instant::now();
    // A card that has idled needs a while to come back to its clocks.
    while begin.elapsed().as_secs_f64() < 0.5 {
        let mut encoder = device.create_command_encoder(&Default::default());
        let mut pass = encoder.begin_compute_pass(&Default::default());
        pass.set_pipeline(&pipeline);
        for i in 0..COPIES {
            pass.set_bind_group(0, &ways[i as usize % 2], &[]);
            pass.dispatch_workgroups(COPY_GROUPS, (size / row) as u32, 1);
        }
        drop(pass);
        let start = Instant::now();
        queue.submit([encoder.finish()]);
        device.poll(wgpu::PollType::wait_indefinitely()).map_err(|e| internal(e.to_string()))?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok((2 * size * COPIES) as f64 / best)
}
