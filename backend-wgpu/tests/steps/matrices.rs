//! Products on cooperative matrices. They pass without running where the device has none.

use dikast_core::backend::Backend;
use dikast_core::graph::{Activation, InputKind};
use dikast_wgpu::{DeviceOptions, Matrices, ProductChoice};

use crate::device::{roomy, split};
use crate::harness::{Case, Packing, Ready, compare, f16_path, open, run};

/// The products are exact; the adder of a matrix unit may drop bits that an f32 addition would keep.
const TOLERANCE: f32 = 2e-5;

/// Tiles, and the choice by rows.
const CHOICES: [ProductChoice; 6] = [
    ProductChoice::Auto,
    ProductChoice::Cooperative { m: 1, n: 1 },
    ProductChoice::Cooperative { m: 1, n: 2 },
    ProductChoice::Cooperative { m: 2, n: 1 },
    ProductChoice::Cooperative { m: 4, n: 1 },
    ProductChoice::Cooperative { m: 2, n: 2 },
];

/// All uses of a quantized weight: three parts, a residual, a gate.
fn products(seed: u64, packing: &Packing, k: usize, n: usize) -> Ready {
    let mut case = Case::new(seed, packing);
    let x = case.random_activations("x", k, 3.0);
    let codes = case.b.quantize("q", x);
    let (weight, scales) = case.quantized("w", 3 * n, k, 3);
    let plain = case.b.quant_linear("plain", codes, weight, scales, None);
    let more = case.b.quant_linear("more", codes, weight, scales, Some(plain));
    let (weight, scales) = case.quantized("gated", 2 * n, k, 2);
    case.b.quant_linear_gated("gated.out", codes, weight, scales, Activation::GeluTanh);
    let spans = case.b.input(InputKind::ClassSpans);
    let out = case.b.pool_spans("labels", more, spans);
    case.finish(out, packing)
}

/// Some device has them, or the tests below say nothing.
fn available() -> bool {
    let Some(backend) = open(&f16_path()) else { return false };
    if !backend.uses_matrices() {
        eprintln!("NOT RUN: the device has no cooperative matrices");
    }
    backend.uses_matrices()
}

#[test]
fn every_tile_gives_the_cpus_values() {
    if !available() {
        return;
    }
    for product in CHOICES {
        for (i, (lengths, k, n)) in [
            (&[(1, 1)][..], 128, 4),
            (&[(5, 0), (9, 1)], 128, 31),
            (&[(33, 1), (64, 1)], 256, 67),
            (&[(70, 2)], 640, 130),
            (&[(150, 2), (3, 1)], 2048, 257),
        ]
        .into_iter()
        .enumerate()
        {
            let ready = products(i as u64 + 21, &Packing::new(i as u64, lengths), k, n);
            let error = compare(&ready, &DeviceOptions { product, ..f16_path() }, |_| TOLERANCE);
            println!("{product:?} {lengths:?} {k} {n}: {error:.1e}");
        }
    }
}

/// Alone, together, in any order, in any bucket and with any tile: the same bits in every row of every step.
#[test]
fn rows_have_the_same_bits_in_any_batch_bucket_and_tile() {
    if !available() {
        return;
    }
    let packing = Packing::new(3, &[(40, 3), (1, 1), (97, 9), (12, 2), (33, 4)]);
    let ready = products(1, &packing, 384, 68);
    let mut want: Vec<Option<Vec<Vec<u32>>>> = vec![None; packing.sequences.len()];
    for product in CHOICES {
        let Some(backend) = open(&DeviceOptions { product, ..f16_path() }) else { return };
        for which in [vec![0, 1, 2, 3, 4], vec![4, 2, 0], vec![0], vec![1], vec![2], vec![3, 1]] {
            let batch = packing.batch(&which);
            for bucket in [backend.bucket(&batch.sizes), roomy(&batch.sizes)] {
                let taps = run(&backend, &ready, &batch, &bucket);
                for (&sequence, rows) in which.iter().zip(split(&ready, &packing, &which, &taps)) {
                    let want = want[sequence].get_or_insert_with(|| rows.clone());
                    for (step, (a, b)) in rows.iter().zip(want.iter()).enumerate() {
                        assert_eq!(a, b, "sequence {sequence} in {which:?}, tensor {step}, {product:?}");
                    }
                }
            }
        }
    }
}

/// They can be turned off.
#[test]
fn without_matrices_the_portable_loops_run() {
    let Some(backend) = open(&DeviceOptions { matrices: Matrices::Off, ..f16_path() }) else { return };
    assert!(!backend.uses_matrices());
    let packing = Packing::new(5, &[(33, 1)]);
    let options = DeviceOptions { matrices: Matrices::Off, ..f16_path() };
    compare(&products(31, &packing, 128, 36), &options, |_| 1e-5);
}
