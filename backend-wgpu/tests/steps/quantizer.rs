//! FP8 codes and scales, bit for bit.

use dikast_core::backend::{Backend, Taps};
use dikast_core::cpu::CpuBackend;
use dikast_core::numerics::{e4m3, fp8};

use crate::harness::{Case, Packing, Random, bits, compare, f32_path, open, run};

/// Rows of one width through the device's quantizer, against the definition.
fn check(width: usize, rows: &[Vec<f32>]) {
    let packing = Packing::new(1, &[(rows.len(), 1)]);
    let mut case = Case::new(1, &packing);
    let values: Vec<f32> = rows.concat();
    let x = case.activations("x", width, &values);
    let quantized = case.b.quantize("q", x);
    let ready = case.finish(quantized.scales, &packing);
    let Some(backend) = open(&f32_path()) else { return };
    let batch = packing.whole();
    let taps = run(&backend, &ready, &batch, &backend.bucket(&batch.sizes));
    let ids = &packing.sequences[0].ids;
    let tapped = |id| taps.get(id).expect("tapped");
    let (got, scales) = (tapped(quantized.codes), tapped(quantized.scales));
    let mut codes = vec![0; width];
    for (r, &id) in ids.iter().enumerate() {
        let row = &rows[id as usize];
        let scale = fp8::quantize_row(row, &mut codes);
        let same = scale.to_bits() == scales[r].to_bits() || (scale.is_nan() && scales[r].is_nan());
        assert!(same, "scale {} on the device, {scale} by definition", scales[r]);
        for (c, &code) in codes.iter().enumerate() {
            let want = e4m3::decode(code).to_bits();
            assert_eq!(
                got[r * width + c].to_bits(),
                want,
                "x = {:e} ({:#x}), scale {scale:e}: {} on the device, {} by definition",
                row[c],
                row[c].to_bits(),
                got[r * width + c],
                f32::from_bits(want)
            );
        }
    }
}

/// Every boundary between two codes and the numbers around it, for many scales.
#[test]
fn ties_of_every_code() {
    let mut random = Random::new(7);
    let mut boundaries: Vec<f64> = Vec::new();
    for code in 0..0x7e_u8 {
        let (a, b) = (f64::from(e4m3::decode(code)), f64::from(e4m3::decode(code + 1)));
        boundaries.push((a + b) / 2.0);
    }
    let mut rows = Vec::new();
    let mut maxima = vec![448.0, 1.0, 7.0, 1e-3, 3.0e38, 1.2e-38, 4e-36, 1e-40];
    maxima.extend((0..16).map(|_| random.normal().abs() * 10.0 + 0.01));
    for largest in maxima {
        let scale = f64::from(largest) / 448.0;
        let mut row = vec![largest];
        for boundary in &boundaries {
            let exact = (boundary * scale) as f32;
            for step in -2..=2 {
                let near = f32::from_bits(exact.to_bits().saturating_add_signed(step));
                if near.abs() <= largest {
                    row.push(if random.bits() & 1 == 0 { near } else { -near });
                }
            }
        }
        row.resize(1 + boundaries.len() * 5, 0.0);
        rows.push(row);
    }
    check(1 + boundaries.len() * 5, &rows);
}

/// Random bit patterns of all magnitudes, denormals included.
#[test]
fn random_rows() {
    let mut random = Random::new(11);
    for width in [1, 6, 255, 1030] {
        let mut rows: Vec<Vec<f32>> = (0..24)
            .map(|_| {
                let ceiling = random.bits() & 0x7f7f_ffff;
                (0..width)
                    .map(|_| {
                        let bits = random.bits();
                        let magnitude = (bits & 0x7fff_ffff).min(ceiling);
                        f32::from_bits(magnitude | (bits & 0x8000_0000))
                    })
                    .collect()
            })
            .collect();
        rows.extend((0..24).map(|_| (0..width).map(|_| random.normal()).collect()));
        check(width, &rows);
    }
}

#[test]
fn rows_without_a_scale() {
    let smallest = f32::from_bits(1);
    check(3, &[vec![0.0, -0.0, 0.0], vec![smallest, -smallest, 0.0], vec![1.0, f32::NAN, 2.0]]);
    check(3, &[vec![f32::INFINITY, 0.0, 1.0], vec![f32::NEG_INFINITY; 3], vec![f32::MAX, -f32::MAX, 1.0]]);
    check(1, &[vec![-1e-44], vec![448.0], vec![-0.0]]);
}

/// Norm and quantizer in one pass: the norm may differ by rounding, so a code may differ by one step here and there.
#[test]
fn norm_and_quantizer_in_one_pass() {
    for width in [5, 64, 1100] {
        let packing = Packing::new(4, &[(30, 1)]);
        let mut case = Case::new(4, &packing);
        let x = case.random_activations("x", width, 5.0);
        let w = case.norm("w", width);
        let fused = case.b.rms_norm_quantize("fused", x, w, 1e-6);
        let ready = case.finish(fused.scales, &packing);
        // A step between codes is an eighth of the value at most, and the largest code stands for the scale.
        compare(&ready, &f32_path(), |name| if name == "fused.scales" { 1e-6 } else { 0.072 });
        let Some(backend) = open(&f32_path()) else { return };
        let batch = packing.whole();
        let device = run(&backend, &ready, &batch, &backend.bucket(&batch.sizes));
        let cpu = run(&CpuBackend::new(), &ready, &batch, &batch.sizes);
        let codes = |taps: &Taps| bits(taps.get(fused.codes).expect("tapped"));
        let (a, b) = (codes(&device), codes(&cpu));
        let moved = a.iter().zip(&b).filter(|(a, b)| a != b).count();
        assert!(moved * 200 <= a.len(), "{moved} of {} codes differ", a.len());
    }
}
