//! What a device may do to a run: small limits, no memory, loss; and what a run promises: invariance, taps, times.

use dikast_core::Error;
use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::graph::{Activation, Columns, InputKind, RelativeBias, Residency, Sizes};
use dikast_wgpu::{AdapterChoice, DeviceOptions, LimitOverrides, ProductChoice, WgpuBackend};

use crate::harness::{Case, Packing, Ready, bits, compare, f16_path, f32_path, open, open_anew, run};

/// A block of a transformer, quantized and not, with labels pooled from it: every kind of row.
fn block(seed: u64, packing: &Packing) -> Ready {
    let mut case = Case::new(seed, packing);
    let (d, heads, head_dim, ff) = (48, 3, 16, 72);
    let h = case.random_activations("h", d, 1.0);
    let w = case.norm("n1", d);
    let q = case.b.rms_norm_quantize("n1", h, w, 1e-6);
    let (qkv, scales) = case.quantized("qkv", 3 * d, d, 3);
    let qkv = case.b.quant_linear("qkv", q, qkv, scales, None);
    let part = |n: usize| Columns { tensor: qkv, start: n * d, width: d };
    let bias = RelativeBias {
        table: case.weight("bias", &[32, heads], 0.5, StoredType::BF16),
        buckets: 32,
        max_distance: 128,
    };
    let offsets = case.b.input(InputKind::SequenceOffsets);
    let lengths = case.b.input(InputKind::AttendedLengths);
    let operands = (part(0), part(1), part(2));
    let context = case.b.attention(
        "context",
        operands,
        (offsets, offsets),
        Some(lengths),
        (heads, head_dim),
        0.25,
        Some(bias),
    );
    let o = case.weight("o", &[d, d], 0.1, StoredType::BF16);
    let h = case.b.linear("attention", context, o, None, None, Some(h));
    let w = case.norm("n2", d);
    let n = case.b.rms_norm("n2", h, w, 1e-6);
    let erf = case.weight("erf", &[d, d], 0.1, StoredType::BF16);
    let bias = case.weight("erf.bias", &[d], 0.5, StoredType::BF16);
    case.b.linear("erf", n, erf, Some(bias), Some(Activation::GeluErf), Some(h));
    let (gate, scales) = case.quantized("quantized gate", 2 * ff, d, 2);
    case.b.quant_linear_gated("quantized gated", q, gate, scales, Activation::GeluTanh);
    let wi = case.weight("wi", &[2 * ff, d], 0.1, StoredType::BF16);
    let gated = case.b.linear_gated("gated", n, wi, Activation::GeluTanh);
    let q = case.b.quantize("q", gated);
    let (wo, scales) = case.quantized("wo", d, ff, 1);
    let h = case.b.quant_linear("out", q, wo, scales, Some(h));
    let spans = case.b.input(InputKind::ClassSpans);
    let classes = case.b.pool_spans("classes", h, spans);
    let w = case.weight("score", &[1, d], 0.2, StoredType::F16);
    let out = case.b.linear("logits", classes, w, None, None, None);
    case.finish(out, packing)
}

fn packing() -> Packing {
    Packing::new(3, &[(40, 3), (1, 1), (97, 9), (12, 2), (33, 4)])
}

/// Alone, together, in any order, in any bucket: the same bits in every row of every step. And with any of the loops that the
/// backend itself may choose between here.
#[test]
fn rows_have_the_same_bits_in_any_batch_bucket_and_loop() {
    let tiles = [
        ProductChoice::Tile { threads_m: 8, threads_n: 8, rows: 4, depth: 8, buffers: 1 },
        ProductChoice::Tile { threads_m: 16, threads_n: 8, rows: 8, depth: 32, buffers: 2 },
    ];
    let packing = packing();
    let ready = block(1, &packing);
    for base in [f32_path(), f16_path()] {
        let Some(backend) = open(&base) else { return };
        let mut agree = vec![ProductChoice::Auto];
        agree.extend(tiles);
        if backend.mixes_loops() {
            agree.push(ProductChoice::Skinny);
        } else {
            // One loop is the same with itself.
            same_bits(&ready, &packing, &base, &[ProductChoice::Skinny]);
        }
        same_bits(&ready, &packing, &base, &agree);
    }
}

/// Every row of every step has one and the same value, whatever the batch, its order, the bucket and the loop.
fn same_bits(ready: &Ready, packing: &Packing, base: &DeviceOptions, products: &[ProductChoice]) {
    let outputs = ready.graph.steps().iter().flat_map(|s| s.outputs());
    let names: Vec<&str> = outputs.map(|id| ready.graph.tensor(id).name.as_str()).collect();
    let mut want: Vec<Option<Vec<Vec<u32>>>> = vec![None; packing.sequences.len()];
    for &product in products {
        let Some(backend) = open(&DeviceOptions { product, ..base.clone() }) else { return };
        for which in [vec![0, 1, 2, 3, 4], vec![4, 2, 0], vec![0], vec![1], vec![2], vec![3, 1]] {
            let batch = packing.batch(&which);
            for bucket in [backend.bucket(&batch.sizes), roomy(&batch.sizes)] {
                let taps = run(&backend, ready, &batch, &bucket);
                let rows = split(ready, packing, &which, &taps);
                for (&sequence, rows) in which.iter().zip(rows) {
                    let want = want[sequence].get_or_insert_with(|| rows.clone());
                    for (name, (a, b)) in names.iter().zip(rows.iter().zip(want.iter())) {
                        // The backend keeps to one tile where an error function follows the sum.
                        if *name != "erf" || product == ProductChoice::Auto || backend.mixes_loops() {
                            assert_eq!(a, b, "sequence {sequence} in {which:?}, {name}, {product:?}");
                        }
                    }
                }
            }
        }
    }
}

pub(crate) fn roomy(sizes: &Sizes) -> Sizes {
    Sizes {
        tokens: sizes.tokens * 3 + 700,
        sequences: sizes.sequences + 5,
        labels: sizes.labels * 2 + 40,
        text_tokens: sizes.text_tokens + 9,
        questions: sizes.questions + 3,
        option_tokens: sizes.option_tokens * 2 + 1,
        patches: sizes.patches + 100,
        media_tokens: sizes.media_tokens + 70,
        frames: sizes.frames + 2,
    }
}

/// Every tapped tensor's rows of each sequence.
pub(crate) fn split(ready: &Ready, packing: &Packing, which: &[usize], taps: &Taps) -> Vec<Vec<Vec<u32>>> {
    let graph = &ready.graph;
    let mut out = vec![Vec::new(); which.len()];
    for id in graph.steps().iter().flat_map(|s| s.outputs()) {
        let values = bits(taps.get(id).expect("tapped"));
        let labels = graph.tensor(id).shape[0] == dikast_core::graph::Symbol::Labels.into();
        let count = |s: usize| {
            let s = &packing.sequences[s];
            if labels { s.classes.len() } else { s.ids.len() }
        };
        let rows: usize = which.iter().map(|&s| count(s)).sum();
        let width = values.len() / rows;
        let mut at = 0;
        for (out, &s) in out.iter_mut().zip(which) {
            let len = count(s) * width;
            out.push(values[at..at + len].to_vec());
            at += len;
        }
    }
    out
}

/// Weights in pieces, workgroups folded, little workgroup memory: the same answers.
#[test]
fn small_limits_split_weights_and_dispatches() {
    let packing = packing();
    let ready = block(2, &packing);
    let limits = LimitOverrides {
        buffer: Some(1 << 19),
        binding: Some(1 << 17),
        workgroups: Some(64),
        workgroup_memory: Some(16384),
        invocations: Some(128),
    };
    compare(
        &ready,
        &DeviceOptions { limits, ..f32_path() },
        |n| if n.contains("codes") { 0.08 } else { 1e-2 },
    );

    // Pieces of a few rows: two matrices, a gate and a table.
    let packing = Packing::new(3, &[(9, 2), (21, 1)]);
    let mut case = Case::new(3, &packing);
    let k = 300;
    let ids = case.b.input(InputKind::TokenIds);
    let values = case.normals(packing.tokens() * k, 1.0);
    let shape = [packing.tokens(), k];
    let table = case.table("table", shape, &values, StoredType::F32, Residency::Device);
    let x = case.b.embed("x", ids, table, None);
    let w = case.weight("w", &[101, k], 0.05, StoredType::F32);
    let bias = case.weight("b", &[101], 0.5, StoredType::F32);
    case.b.linear("linear", x, w, Some(bias), None, None);
    let w = case.weight("gate", &[2 * 120, k], 0.05, StoredType::BF16);
    case.b.linear_gated("gated", x, w, Activation::GeluErf);
    let q = case.b.quantize("q", x);
    let (w, s) = case.quantized("quantized", 460, k, 2);
    case.b.quant_linear("quant", q, w, s, None);
    let (w, s) = case.quantized("halves", 460, k, 2);
    let out = case.b.quant_linear_gated("quant gated", q, w, s, Activation::Relu);
    let ready = case.finish(out, &packing);
    let limits = LimitOverrides { binding: Some(64 << 10), ..LimitOverrides::default() };
    for product in [ProductChoice::Auto, ProductChoice::Skinny] {
        compare(&ready, &DeviceOptions { limits, product, ..f32_path() }, |_| 1e-5);
    }
}

#[test]
fn what_does_not_fit_is_a_typed_error() {
    let packing = packing();
    let ready = block(4, &packing);
    let sizes = packing.whole().sizes;
    let with = |limits, memory| open(&DeviceOptions { limits, memory, ..f32_path() });

    // Memory, before anything is uploaded and before a plan is made.
    let Some(backend) = with(LimitOverrides::default(), Some(10_000)) else { return };
    let load = backend.load(&ready.graph, &ready.weights, &mut |_, _| {});
    assert!(matches!(load, Err(Error::OutOfMemory { needed, available: 10_000, .. }) if needed > 10_000));
    let Some(backend) = with(LimitOverrides::default(), None) else { return };
    let budget = backend.budget(&ready.graph, &ready.weights, &sizes).unwrap();
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    assert!(budget.device_weights > 30_000 && budget.host_tables > 30_000 && budget.activations > 30_000);
    drop(resident);
    let Some(backend) = with(LimitOverrides::default(), Some(budget.device_weights + 1000)) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let plan = backend.plan(&ready.graph, &resident, &sizes);
    assert!(matches!(plan, Err(Error::OutOfMemory { .. })), "{plan:?}");

    // An activation larger than a binding, a weight row larger than a binding.
    let limits = LimitOverrides { binding: Some(16 << 10), ..LimitOverrides::default() };
    let Some(backend) = with(limits, None) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let plan = backend.plan(&ready.graph, &resident, &Sizes { tokens: 1000, ..sizes });
    assert!(matches!(plan, Err(Error::TooLarge { limit: 16384, .. })), "{plan:?}");
    let limits = LimitOverrides { binding: Some(256), ..LimitOverrides::default() };
    let Some(backend) = with(limits, None) else { return };
    let load = backend.load(&ready.graph, &ready.weights, &mut |_, _| {});
    assert!(matches!(load, Err(Error::Unsupported { .. })), "{load:?}");

    // More workgroups than a dispatch takes.
    let limits = LimitOverrides { workgroups: Some(2), ..LimitOverrides::default() };
    let Some(backend) = with(limits, None) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let mut plan = backend.plan(&ready.graph, &resident, &sizes).unwrap();
    let ran = pollster::block_on(backend.run(&mut plan, &resident, &packing.whole(), &mut Taps::none()));
    assert!(matches!(ran, Err(Error::TooLarge { .. })), "{ran:?}");
}

#[test]
fn bad_indices_never_reach_the_device() {
    let packing = packing();
    let ready = block(5, &packing);
    let Some(backend) = open(&f32_path()) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let good = packing.whole();
    let mut plan = backend.plan(&ready.graph, &resident, &backend.bucket(&good.sizes)).unwrap();
    let mut run = |kind, change: &dyn Fn(&mut Vec<i32>)| {
        let mut batch = good.clone();
        let mut values = batch.get(kind).unwrap().to_vec();
        change(&mut values);
        batch.set(kind, values);
        pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none()))
    };
    let want = run(InputKind::TokenIds, &|_| {}).unwrap();
    for (kind, change) in [
        (InputKind::TokenIds, &(|v: &mut Vec<i32>| v[3] = 183) as &dyn Fn(&mut Vec<i32>)),
        (InputKind::TokenIds, &|v| v[3] = -1),
        (InputKind::TokenIds, &|v| v.truncate(7)),
        (InputKind::SequenceOffsets, &|v| v[1] = 1000),
        (InputKind::SequenceOffsets, &|v| v.swap(1, 2)),
        (InputKind::SequenceOffsets, &|v| v[5] -= 1),
        (InputKind::AttendedLengths, &|v| v[0] = -5),
        (InputKind::ClassSpans, &|v| v[1] = 184),
    ] {
        let ran = run(kind, change);
        assert!(matches!(ran, Err(Error::Internal(_))), "{kind:?}: {ran:?}");
    }
    // A length beyond the sequence counts as the whole sequence, and nothing lingers from the errors.
    run(InputKind::AttendedLengths, &|v| v[0] = i32::MAX).unwrap();
    assert_eq!(bits(&run(InputKind::TokenIds, &|_| {}).unwrap()), bits(&want));
    let mut large = packing.whole();
    large.sizes.tokens = 100_000;
    let ran = pollster::block_on(backend.run(&mut plan, &resident, &large, &mut Taps::none()));
    assert!(matches!(ran, Err(Error::Internal(_))), "{ran:?}");
}

#[test]
fn a_lost_device_says_so_and_a_new_one_works() {
    let packing = packing();
    let ready = block(6, &packing);
    let Some(backend) = open_anew(&f32_path()) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let batch = packing.whole();
    let mut plan = backend.plan(&ready.graph, &resident, &backend.bucket(&batch.sizes)).unwrap();
    let go = |backend: &WgpuBackend, plan: &mut _, resident: &_| {
        pollster::block_on(backend.run(plan, resident, &batch, &mut Taps::none()))
    };
    let want = go(&backend, &mut plan, &resident).unwrap();
    backend.destroy();
    for _ in 0..2 {
        let ran = go(&backend, &mut plan, &resident);
        assert!(matches!(ran, Err(Error::DeviceLost { .. })), "{ran:?}");
    }
    let planned = backend.plan(&ready.graph, &resident, &batch.sizes);
    assert!(matches!(planned, Err(Error::DeviceLost { .. })), "{planned:?}");
    let loaded = backend.load(&ready.graph, &ready.weights, &mut |_, _| {});
    assert!(matches!(loaded, Err(Error::DeviceLost { .. })), "{loaded:?}");

    let Some(backend) = open_anew(&f32_path()) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let mut plan = backend.plan(&ready.graph, &resident, &backend.bucket(&batch.sizes)).unwrap();
    assert_eq!(bits(&go(&backend, &mut plan, &resident).unwrap()), bits(&want));
}

/// A program that goes on for long opens a device after every loss: nothing of the old ones may stay.
#[test]
fn forty_devices_one_after_another() {
    let packing = Packing::new(1, &[(3, 1)]);
    let ready = block(9, &packing);
    let batch = packing.whole();
    let mut want = None;
    for lost in 0..40 {
        let Some(backend) = open_anew(&f32_path()) else { return };
        let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
        // The first and the last one work; in between only opening and losing counts.
        if lost == 0 || lost == 39 {
            let mut plan = backend.plan(&ready.graph, &resident, &backend.bucket(&batch.sizes)).unwrap();
            let found =
                pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none())).unwrap();
            assert_eq!(bits(&found), *want.get_or_insert_with(|| bits(&found)));
        }
        backend.destroy();
    }
}

/// An ordinary request waits for no compiler, in whatever bucket, and two backends on a device share what is compiled.
#[test]
fn pipelines_are_built_at_load() {
    let packing = Packing::new(2, &[(90, 3)]);
    let ready = block(10, &packing);
    let Some(backend) = open_anew(&f32_path()) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let built = backend.pipelines();
    assert!(built > 0);
    let batch = packing.whole();
    let again = backend.again(&f32_path());
    let bucket = backend.bucket(&batch.sizes);
    for bucket in [bucket, Sizes { tokens: 300, sequences: 7, ..bucket }] {
        let mut plan = again.plan(&ready.graph, &resident, &bucket).unwrap();
        pollster::block_on(again.run(&mut plan, &resident, &batch, &mut Taps::none())).unwrap();
    }
    assert_eq!(backend.pipelines(), built);
}

#[test]
fn ceilings_are_measured() {
    let Some(backend) = open(&f16_path()) else { return };
    match pollster::block_on(backend.ceilings()) {
        Ok(ceilings) => {
            for rate in [ceilings.copy_bytes, ceilings.product_flops, ceilings.quantized_product_flops] {
                assert!(rate.is_finite() && rate > 0.0, "{ceilings:?}");
            }
        }
        Err(error) => assert!(matches!(error, Error::Unsupported { .. }), "{error}"),
    }
}

/// A run that is dropped before its result is read leaves a plan that works.
#[test]
fn a_dropped_run_leaves_a_usable_plan() {
    let packing = packing();
    let ready = block(7, &packing);
    let Some(backend) = open(&f32_path()) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let batch = packing.whole();
    let mut plan = backend.plan(&ready.graph, &resident, &backend.bucket(&batch.sizes)).unwrap();
    let mut none = Taps::none();
    drop(backend.run(&mut plan, &resident, &batch, &mut none));
    let first = pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut none)).unwrap();
    // Two plans share their memory.
    let mut other = backend.plan(&ready.graph, &resident, &roomy(&batch.sizes)).unwrap();
    let second = pollster::block_on(backend.run(&mut other, &resident, &batch, &mut none)).unwrap();
    let third = pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut none)).unwrap();
    assert_eq!(bits(&first), bits(&second));
    assert_eq!(bits(&first), bits(&third));
}

#[test]
fn every_step_is_timed() {
    let packing = packing();
    let ready = block(8, &packing);
    let Some(backend) = open(&f16_path()) else { return };
    let resident = backend.load(&ready.graph, &ready.weights, &mut |_, _| {}).unwrap();
    let batch = packing.whole();
    let mut plan = backend.plan(&ready.graph, &resident, &backend.bucket(&batch.sizes)).unwrap();
    let want = pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none())).unwrap();
    match pollster::block_on(backend.profile(&mut plan, &resident, &batch)) {
        Ok(times) => {
            assert_eq!(times.len(), ready.graph.steps().len());
            assert!(times.iter().enumerate().all(|(i, t)| t.step == i));
            assert!(times.iter().any(|t| t.nanos > 0));
        }
        Err(error) => assert!(matches!(error, Error::Unsupported { .. }), "{error}"),
    }
    let again = pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none())).unwrap();
    assert_eq!(bits(&want), bits(&again));
}

#[test]
fn an_adapter_that_is_not_there_is_a_typed_error() {
    for adapter in [AdapterChoice::Index(1000), AdapterChoice::Name("no such card".to_owned())] {
        let options = DeviceOptions { adapter, ..DeviceOptions::default() };
        let opened = pollster::block_on(WgpuBackend::open(&options));
        assert!(matches!(opened, Err(Error::Unsupported { .. })), "{opened:?}");
    }
    if open(&f32_path()).is_some() {
        let all = pollster::block_on(dikast_wgpu::adapters());
        let options = DeviceOptions {
            adapter: AdapterChoice::Name(all[0].name.to_uppercase()),
            ..DeviceOptions::default()
        };
        let backend = open_anew(&options).unwrap();
        assert_eq!(backend.capabilities().device, all[0].name);
    }
}
