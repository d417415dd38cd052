//! INT8 weights multiplied by rows that are not rounded to codes, each step against its definition on the device's own operands.

use dikast_core::backend::Backend;
use dikast_core::checkpoint::StoredType;
use dikast_core::cpu::replay;
use dikast_core::graph::{Activation, Rotation, RowOp, Step};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::{Int8Mode, Int8Rows};
use dikast_wgpu::{DeviceOptions, Int8Products, LimitOverrides, ProductChoice};

use crate::clef::same_bits_on;
use crate::clef_int8::{int8, wild};
use crate::harness::{Case, Packing, Ready, bits, f16_path, f32_path, open, run};

/// Sums of exact products in another order; the adder of a matrix unit may drop bits that an f32 addition would keep.
const SUMS: f32 = 2e-5;

fn standard(group: Option<usize>) -> Rotation {
    Rotation { group: group.map(|g| Group::new(g).expect("a size")), mode: Int8Mode::Standard }
}

/// Both types of rows.
fn paths() -> [(DeviceOptions, f32); 2] {
    let alone = |options| DeviceOptions { int8: Int8Products::WeightOnly, ..options };
    [(alone(f32_path()), 1e-6), (alone(f16_path()), 5e-4)]
}

/// Every output of every step is within `tolerance(step)` times its largest magnitude of what its definition makes of the
/// device's own operands; scales have its bits. Returns the largest error, `None` without a device.
fn by_definition(ready: &Ready, options: &DeviceOptions, tolerance: impl Fn(&Step) -> f32) -> Option<f32> {
    let backend = open(options)?;
    let (graph, batch) = (&ready.graph, ready.packing.whole());
    let taps = run(&backend, ready, &batch, &backend.bucket(&batch.sizes));
    let tap = |id| taps.get(id).map(<[f32]>::to_vec);
    let mut most = 0.0_f32;
    for (index, step) in graph.steps().iter().enumerate() {
        let wanted = replay(graph, &ready.weights, &batch, index, Int8Rows::Unrounded, tap);
        let wanted = wanted.expect("a step").expect("its operands");
        for (id, want) in step.outputs().into_iter().zip(wanted) {
            let (name, found) = (&graph.tensor(id).name, taps.get(id).expect("tapped"));
            assert_eq!(found.len(), want.len(), "{name}");
            if name.ends_with(".scales")
                && matches!(step, Step::RotateQuantize { op: RowOp::Copy { .. }, .. })
            {
                assert_eq!(bits(found), bits(&want), "{name}");
                continue;
            }
            let finite = want.iter().filter(|v| v.is_finite());
            let largest = finite.fold(f32::MIN_POSITIVE, |most, v| most.max(v.abs()));
            for (i, (a, b)) in found.iter().zip(&want).enumerate() {
                // What is not finite is so on both.
                if a == b || (a.is_nan() && b.is_nan()) {
                    continue;
                }
                let error = (a - b).abs() / largest;
                let allowed = tolerance(step);
                assert!(
                    error <= allowed,
                    "{name}[{i}]: {a}, {b} by its definition, {error:.2e} of {largest}"
                );
                most = most.max(error);
            }
        }
    }
    Some(most)
}

#[test]
fn rows_are_rotated_and_scaled() {
    for (group, widths) in [
        (None, [1, 7, 300]),
        (Some(4), [4, 20, 1028]),
        (Some(16), [16, 48, 2064]),
        (Some(64), [64, 128, 1216]),
        (Some(256), [256, 1280, 3072]),
        (Some(1024), [1024, 2048, 3072]),
    ] {
        for width in widths {
            let packing = Packing::new(width as u64, &[(23, 1), (9, 1)]);
            let mut case = Case::new(width as u64, &packing);
            let values = wild(&mut case, packing.tokens(), width);
            let x = case.activations("x", width, &values);
            case.b.rotate_quantize("q", RowOp::Copy { x }, standard(group), false);
            let (_, rows) = case.b.rotate_quantize("kept", RowOp::Copy { x }, standard(group), true);
            let ready = case.finish(rows.expect("rows"), &packing);
            for (options, tolerance) in paths() {
                let Some(error) = by_definition(&ready, &options, |_| tolerance) else { return };
                println!("{group:?} {width} {:?}: {error:.1e}", options.precision);
            }
        }
    }
}

/// Projections of a normed row: plain, with a bias, with a residual, gated.
fn products(seed: u64, packing: &Packing, (k, n): (usize, usize), group: Option<usize>) -> Ready {
    let mut case = Case::new(seed, packing);
    let x = case.random_activations("x", k, 2.0);
    let w = case.weight("w", &[k], 0.3, StoredType::BF16);
    let op = RowOp::RmsNorm { x, weight: w, eps: 1e-6 };
    let (q, _) = case.b.rotate_quantize("q", op, standard(group), false);
    let w = int8(&mut case, "w8", n, k, 1);
    case.b.int8_linear("plain", q, w, None, None);
    let bias = case.weight("bias", &[n], 0.3, StoredType::F32);
    case.b.int8_linear("biased", q, w, Some(bias), None);
    let residual = case.random_activations("residual", n, 1.0);
    case.b.int8_linear("added", q, w, None, Some(residual));
    case.b.int8_linear("both", q, w, Some(bias), Some(residual));
    let gated = int8(&mut case, "gated.w", 2 * n, k, 2);
    let bias = case.weight("gated.bias", &[2 * n], 0.3, StoredType::F32);
    case.b.int8_linear_gated("gated.relu", q, gated, Some(bias), Activation::Relu);
    let out = case.b.int8_linear_gated("gated", q, gated, None, Activation::Silu);
    case.finish(out, packing)
}

fn allowed(step: &Step, rows: f32) -> f32 {
    if matches!(step, Step::RotateQuantize { .. }) { rows.max(5e-6) } else { SUMS }
}

#[test]
fn products_add_up_what_they_are_given() {
    for (i, (k, n, group)) in [
        (4, 4, None),
        (64, 72, Some(16)),
        (7, 3, None),
        (320, 130, Some(64)),
        (1100, 68, None),
        (512, 31, Some(256)),
    ]
    .into_iter()
    .enumerate()
    {
        for lengths in [&[(70, 1), (9, 1)][..], &[(3, 1)]] {
            let ready = products(i as u64, &Packing::new(i as u64, lengths), (k, n), group);
            for (options, rows) in paths() {
                let Some(error) = by_definition(&ready, &options, |step| allowed(step, rows)) else { return };
                println!("{k} → {n}, {lengths:?}, {:?}: {error:.1e}", options.precision);
            }
        }
    }
}

#[test]
fn every_loop() {
    let ready = products(9, &Packing::new(9, &[(67, 1), (33, 2)]), (384, 70), Some(64));
    for product in [
        ProductChoice::Auto,
        ProductChoice::Skinny,
        ProductChoice::Tile { threads_m: 8, threads_n: 8, rows: 8, depth: 16, buffers: 1 },
        ProductChoice::Tile { threads_m: 4, threads_n: 16, rows: 4, depth: 8, buffers: 2 },
        ProductChoice::Tile { threads_m: 1, threads_n: 2, rows: 4, depth: 4, buffers: 1 },
        ProductChoice::Cooperative { m: 1, n: 1 },
        ProductChoice::Cooperative { m: 1, n: 2 },
        ProductChoice::Cooperative { m: 2, n: 2 },
    ] {
        for (options, rows) in paths() {
            let options = DeviceOptions { product, ..options };
            if by_definition(&ready, &options, |step| allowed(step, rows)).is_none() {
                return;
            }
        }
    }
}

#[test]
fn batches_change_no_bit() {
    let packing = Packing::new(1, &[(23, 1), (9, 1), (40, 2), (1, 1), (2, 1), (33, 1)]);
    let ready = products(5, &packing, (256, 68), Some(64));
    for (options, _) in paths() {
        same_bits_on(&options, &ready, &packing);
    }
}

/// A quantizer of mode `exact` gives codes, whatever is asked for.
#[test]
fn exact_codes_stay_codes() {
    let Some(backend) = open(&paths()[1].0) else { return };
    assert!(backend.multiplies_weights_alone());
    let packing = Packing::new(1, &[(9, 1)]);
    let mut case = Case::new(1, &packing);
    let x = case.random_activations("x", 64, 1.0);
    let rotation = Rotation { mode: Int8Mode::Exact, ..standard(Some(16)) };
    let (q, _) = case.b.rotate_quantize("q", RowOp::Copy { x }, rotation, false);
    let w = int8(&mut case, "w", 8, 64, 1);
    let out = case.b.int8_linear("out", q, w, None, None);
    let ready = case.finish(out, &packing);
    let batch = ready.packing.whole();
    let taps = run(&backend, &ready, &batch, &backend.bucket(&batch.sizes));
    let codes = taps.get(ready.graph.find("q.codes").expect("codes")).expect("tapped");
    assert!(codes.iter().all(|c| c.fract() == 0.0) && codes.contains(&127.0) | codes.contains(&-127.0));
}

/// Weights in pieces, both halves of a gate alike.
#[test]
fn small_bindings_split_weights() {
    let ready = products(3, &Packing::new(3, &[(9, 1), (4, 1)]), (256, 134), Some(64));
    for (options, rows) in paths() {
        let limits = LimitOverrides { binding: Some(32 << 10), ..LimitOverrides::default() };
        let options = DeviceOptions { limits, ..options };
        if by_definition(&ready, &options, |step| allowed(step, rows)).is_none() {
            return;
        }
    }
}
