//! The four products: every storage type, odd shapes, every loop, pieces.

use dikast_core::checkpoint::StoredType;
use dikast_core::graph::Activation;
use dikast_wgpu::{DeviceOptions, ProductChoice};

use crate::harness::{Case, Packing, Ready, compare, f16_path, f32_path};

const F32: f32 = 1e-5;
/// Operands are rounded to 11 bits; a small tensor has no large value to hide behind.
const F16: f32 = 5e-3;

fn linear(seed: u64, lengths: &[(usize, usize)], k: usize, n: usize, dtype: StoredType) -> Ready {
    let packing = Packing::new(seed, lengths);
    let mut case = Case::new(seed, &packing);
    let x = case.random_activations("x", k, 1.0);
    let w = case.norm("norm", k);
    let normed = case.b.rms_norm("normed", x, w, 1e-6);
    let scale = 1.0 / (k as f32).sqrt();
    let weight = case.weight("w", &[n, k], scale, dtype);
    let bias = case.weight("b", &[n], 0.5, StoredType::BF16);
    let plain = case.b.linear("plain", x, weight, None, None, None);
    let erf = case.b.linear("erf", normed, weight, Some(bias), Some(Activation::GeluErf), Some(plain));
    let relu = case.b.linear("relu", normed, weight, Some(bias), Some(Activation::Relu), Some(erf));
    let gated = case.weight("gated.w", &[2 * n, k], scale, dtype);
    case.b.linear_gated("gated", normed, gated, Activation::GeluTanh);
    case.finish(relu, &packing)
}

fn quantized(seed: u64, lengths: &[(usize, usize)], k: usize, n: usize) -> Ready {
    let packing = Packing::new(seed, lengths);
    let mut case = Case::new(seed, &packing);
    let x = case.random_activations("x", k, 3.0);
    let codes = case.b.quantize("q", x);
    let (weight, scales) = case.quantized("w", 3 * n, k, 3);
    let plain = case.b.quant_linear("plain", codes, weight, scales, None);
    let more = case.b.quant_linear("more", codes, weight, scales, Some(plain));
    let (weight, scales) = case.quantized("gated", 2 * n, k, 2);
    case.b.quant_linear_gated("gated.out", codes, weight, scales, Activation::GeluTanh);
    case.finish(more, &packing)
}

/// Lengths and labels of the sequences, K, N.
type Shape = (&'static [(usize, usize)], usize, usize);

const SHAPES: [Shape; 6] = [
    (&[(1, 1)], 8, 4),
    (&[(3, 1)], 7, 5),
    (&[(5, 0), (9, 1)], 33, 31),
    (&[(20, 1)], 64, 65),
    (&[(70, 2)], 100, 130),
    (&[(33, 1), (64, 1)], 129, 67),
];

#[test]
fn linear_in_every_storage_type() {
    for (i, (lengths, k, n)) in SHAPES.iter().enumerate() {
        for dtype in [StoredType::F32, StoredType::F16, StoredType::BF16] {
            let ready = linear(i as u64 + 1, lengths, *k, *n, dtype);
            let a = compare(&ready, &f32_path(), |_| F32);
            let b = compare(&ready, &f16_path(), |_| F16);
            println!("{lengths:?} {k} {n} {dtype:?}: {a:.1e} {b:.1e}");
        }
    }
}

/// Both paths multiply E4M3 values exactly, so both have the f32 tolerance.
#[test]
fn quantized_linear() {
    for (i, (lengths, k, n)) in SHAPES.iter().enumerate() {
        let ready = quantized(i as u64 + 11, lengths, *k, *n);
        compare(&ready, &f32_path(), |_| F32);
        compare(&ready, &f16_path(), |_| F32);
    }
}

#[test]
fn every_loop() {
    for product in [
        ProductChoice::Skinny,
        ProductChoice::Tile { threads_m: 8, threads_n: 8, rows: 8, depth: 16, buffers: 1 },
        ProductChoice::Tile { threads_m: 4, threads_n: 16, rows: 4, depth: 8, buffers: 2 },
        ProductChoice::Tile { threads_m: 16, threads_n: 16, rows: 8, depth: 16, buffers: 2 },
        ProductChoice::Tile { threads_m: 1, threads_n: 2, rows: 4, depth: 4, buffers: 1 },
    ] {
        for options in [f32_path(), f16_path()] {
            let options = DeviceOptions { product, ..options };
            let tolerance = if options.precision == Default::default() { F16 } else { F32 };
            compare(&linear(5, &[(19, 1)], 37, 41, StoredType::BF16), &options, |_| tolerance);
            compare(&quantized(6, &[(19, 1)], 37, 41), &options, |_| F32);
        }
    }
}

/// Every code, denormals among them, has its exact value in every loop: one code of x, 448, meets all codes of the weight.
#[test]
fn every_code_is_decoded_exactly() {
    let packing = Packing::new(1, &[(1, 1), (40, 1)]);
    let mut case = Case::new(1, &packing);
    let k = 256;
    // Row t of x has one value, so its code is that of 448 and all others are zero.
    let mut values = vec![0.0; packing.tokens() * k];
    for (t, row) in values.chunks_mut(k).enumerate() {
        row[(37 * t) % k] = 448.0;
    }
    let x = case.activations("x", k, &values);
    let codes = case.b.quantize("q", x);
    // Row n of the weight holds all codes but the two that are no number, from code n on.
    let all: Vec<f32> =
        (0..=255u8).filter(|c| c & 0x7f != 0x7f).map(dikast_core::numerics::e4m3::decode).collect();
    let weights: Vec<f32> = (0..k * k).map(|i| all[(i / k + i % k) % all.len()]).collect();
    let (weight, scales) = case.given_codes("w", [k, k], &weights);
    let out = case.b.quant_linear("out", codes, weight, scales, None);
    let ready = case.finish(out, &packing);
    for product in [
        ProductChoice::Auto,
        ProductChoice::Skinny,
        ProductChoice::Tile { threads_m: 8, threads_n: 8, rows: 4, depth: 32, buffers: 1 },
        ProductChoice::Tile { threads_m: 8, threads_n: 8, rows: 8, depth: 16, buffers: 1 },
    ] {
        for base in [f32_path(), f16_path()] {
            compare(&ready, &DeviceOptions { product, ..base }, |_| 0.0);
        }
    }
}
