//! INT8: the row quantizer and the products, bit for bit.

use dikast_core::backend::Backend;
use dikast_core::checkpoint::StoredType;
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{Activation, Columns, Elements, Residency, Rotation, RowOp, Weight, WeightId};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::Int8Mode;
use dikast_wgpu::{DeviceOptions, Int8Products, ProductChoice};

use crate::clef::same_bits;
use crate::harness::{Case, Packing, Ready, bits, compare, f32_path, open, run};

/// Codes on both sides, in any loop.
fn packed(product: ProductChoice) -> DeviceOptions {
    DeviceOptions { int8: Int8Products::Packed, product, ..f32_path() }
}

/// Asserts that the named tensors have the same bits on the CPU and on the device.
fn exact(ready: &Ready, names: &[&str]) {
    exact_in(ready, names, ProductChoice::Auto);
}

fn exact_in(ready: &Ready, names: &[&str], product: ProductChoice) {
    let Some(backend) = open(&packed(product)) else { return };
    let batch = ready.packing.whole();
    let device = run(&backend, ready, &batch, &backend.bucket(&batch.sizes));
    let cpu = run(&CpuBackend::new(), ready, &batch, &batch.sizes);
    for name in names {
        let id = ready.graph.find(name).expect("a tensor");
        let (a, b) = (device.get(id).expect("tapped"), cpu.get(id).expect("tapped"));
        let differ = bits(a).iter().zip(bits(b)).filter(|(a, b)| **a != *b).count();
        let first = a.iter().zip(b).position(|(a, b)| a.to_bits() != b.to_bits());
        let pair = first.map(|i| (i, a[i], b[i]));
        assert_eq!((a.len(), differ), (b.len(), 0), "{name}: first (place, device, CPU) {pair:?}");
    }
}

/// An INT8 weight in `parts` stacked tensors, and its scales.
pub(crate) fn int8(case: &mut Case, name: &str, rows: usize, k: usize, parts: usize) -> (WeightId, WeightId) {
    let (mut names, mut scales) = (Vec::new(), Vec::new());
    for part in 0..parts {
        let codes: Vec<f32> = (0..rows / parts * k)
            .map(|_| (case.random.below(256) as f32 - 128.0).clamp(-128.0, 127.0))
            .collect();
        names.push(format!("{name}.{part}.weight"));
        case.store(&names[part], &[rows / parts, k], &codes, StoredType::I8);
        let values: Vec<f32> =
            (0..rows / parts).map(|_| 0.001 + 0.0007 * case.random.normal().abs()).collect();
        scales.push(format!("{name}.{part}.weight_scale"));
        case.store(&scales[part], &[rows / parts, 1], &values, StoredType::F32);
    }
    let whole = |name: String, parts, width, elements| Weight {
        name,
        parts,
        shape: vec![rows, width],
        elements,
        residency: Residency::Device,
    };
    let weight = case.b.add_weight(whole(format!("{name}.weight"), names, k, Elements::Int8));
    (weight, case.b.add_weight(whole(format!("{name}.scale"), scales, 1, Elements::Real)))
}

/// Rows of many magnitudes, each with its own fault or none.
pub(crate) fn wild(case: &mut Case, rows: usize, width: usize) -> Vec<f32> {
    let mut values = Vec::with_capacity(rows * width);
    for row in 0..rows {
        let scale = [1.0, 3e-3, 1e-20, 1e-27, 3e-29, 1e-31, 1e-38, 0.0, 1e30, 3e36, 3e38, 300.0][row % 12];
        for i in 0..width {
            let mut v = scale * case.random.normal();
            if row % 12 == 11 && i % 17 == 0 {
                // One value far above the others.
                v *= 1e4;
            }
            values.push(v.clamp(f32::MIN, f32::MAX));
        }
    }
    // Ties between two codes, and rows that are not finite.
    if rows > 14 {
        (0..width).for_each(|i| values[12 * width + i] = if i == 0 { 127.0 } else { i as f32 % 64.0 + 0.5 });
        values[13 * width + width / 2] = f32::INFINITY;
        values[14 * width + width - 1] = f32::NAN;
    }
    values
}

#[test]
fn codes_are_the_cpus_bit_for_bit() {
    for (group, widths) in [
        (None, [1, 7, 300]),
        (Some(4), [4, 20, 1028]),
        (Some(16), [16, 48, 2064]),
        (Some(64), [64, 128, 1216]),
        (Some(256), [256, 1280, 3072]),
        (Some(1024), [1024, 2048, 3072]),
    ] {
        let group = group.map(|g| Group::new(g).expect("a size"));
        for width in widths {
            let packing = Packing::new(width as u64, &[(23, 1), (9, 1)]);
            let mut case = Case::new(width as u64, &packing);
            let values = wild(&mut case, packing.tokens(), width);
            let x = case.activations("x", width, &values);
            let mut out = x;
            let mut names = Vec::new();
            for (name, mode) in [("exact", Int8Mode::Exact), ("standard", Int8Mode::Standard)] {
                let rotation = Rotation { group, mode };
                case.b.rotate_quantize(name, RowOp::Copy { x }, rotation, false);
                let kept = format!("{name}.kept");
                let (_, rows) = case.b.rotate_quantize(&kept, RowOp::Copy { x }, rotation, true);
                out = rows.expect("rows");
                names.extend([name, &kept].map(|n| [format!("{n}.codes"), format!("{n}.scales")]).concat());
            }
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            exact(&case.finish(out, &packing), &names);
        }
    }
}

#[test]
fn row_functions_before_the_quantizer() {
    let packing = Packing::new(1, &[(23, 1), (9, 1)]);
    let mut case = Case::new(1, &packing);
    let d = 128;
    let x = case.random_activations("x", d, 2.0);
    let g = case.random_activations("g", 2 * d, 1.0);
    let rotation = Rotation { group: Group::new(64), mode: Int8Mode::Exact };
    let w = case.weight("w", &[d], 0.3, StoredType::BF16);
    case.b.rotate_quantize("rms", RowOp::RmsNorm { x, weight: w, eps: 1e-6 }, rotation, true);
    let w = case.norm("head", 32);
    let op = RowOp::GatedRmsNorm { x, gate: Columns { tensor: g, start: d, width: d }, weight: w, eps: 1e-6 };
    case.b.rotate_quantize("gated", op, rotation, false);
    let op = RowOp::SigmoidGate { x, gate: case.b.heads(g, 0, 32, 4) };
    let (_, rows) = case.b.rotate_quantize("sigmoid", op, rotation, true);
    // A row off by a rounding may be off by one step of bfloat16, and that by a code or two.
    let tolerance = |name: &str| if name.ends_with("rows") { 5e-6 } else { 2.5 / 127.0 };
    let ready = case.finish(rows.expect("rows"), &packing);
    println!("{:.1e}", compare(&ready, &f32_path(), tolerance));
    let packing = Packing::new(1, &[(23, 1), (9, 1), (40, 2), (1, 1), (2, 1), (33, 1)]);
    let mut case = Case::new(2, &packing);
    let x = case.random_activations("x", d, 2.0);
    let w = case.weight("w", &[d], 0.3, StoredType::BF16);
    let (q, _) = case.b.rotate_quantize("q", RowOp::RmsNorm { x, weight: w, eps: 1e-6 }, rotation, true);
    let (w, scales) = int8(&mut case, "w8", 72, d, 2);
    let residual = case.random_activations("residual", 72, 1.0);
    let out = case.b.int8_linear("product", q, (w, scales), None, Some(residual));
    same_bits(&case.finish(out, &packing), &packing);
}

const fn tile(threads_m: u32, threads_n: u32, rows: u32, depth: u32) -> ProductChoice {
    ProductChoice::Tile { threads_m, threads_n, rows, depth, buffers: 1 }
}

/// Those that the backend takes, those worth a try, and one that is hardly one.
const TILES: [ProductChoice; 7] = [
    ProductChoice::Auto,
    tile(16, 8, 4, 32),
    tile(8, 16, 8, 32),
    tile(8, 8, 8, 32),
    tile(16, 16, 4, 64),
    tile(16, 16, 8, 64),
    tile(1, 2, 4, 4),
];

#[test]
fn products_are_the_cpus_bit_for_bit() {
    for (i, (k, n)) in [(4, 4), (64, 72), (7, 3), (320, 130), (1100, 68)].into_iter().enumerate() {
        let packing = Packing::new(i as u64, &[(70, 1), (9, 1)]);
        let mut case = Case::new(i as u64, &packing);
        let x = case.random_activations("x", k, 1.0);
        let rotation = Rotation { group: None, mode: Int8Mode::Exact };
        let (q, _) = case.b.rotate_quantize("q", RowOp::Copy { x }, rotation, false);
        let w = int8(&mut case, "w", n, k, 1);
        case.b.int8_linear("plain", q, w, None, None);
        let bias = case.weight("bias", &[n], 0.3, StoredType::F32);
        case.b.int8_linear("biased", q, w, Some(bias), None);
        let residual = case.random_activations("residual", n, 1.0);
        case.b.int8_linear("both", q, w, Some(bias), Some(residual));
        let gated = int8(&mut case, "gated.w", 2 * n, k, 2);
        let bias = case.weight("gated.bias", &[2 * n], 0.3, StoredType::F32);
        case.b.int8_linear_gated("gated.relu", q, gated, Some(bias), Activation::Relu);
        let out = case.b.int8_linear_gated("gated", q, gated, None, Activation::Silu);
        let ready = case.finish(out, &packing);
        for product in TILES {
            exact_in(&ready, &["plain", "biased", "both", "gated.relu"], product);
        }
        println!("{k} → {n}: {:.1e}", compare(&ready, &f32_path(), |_| 1e-6));
    }
}
