//! E4M3, bfloat16 and the FP8 quantizers against stored vectors, bit for bit.

use dikast_core::numerics::{bf16, e4m3, fp8};

use crate::file::{File, data, same, widen};

#[test]
fn tables() {
    let bytes = data("quant/e4m3_tables.safetensors");
    let f = File::open(&bytes);
    let (wide, f16, bf) = (f.f32("decode_f32"), f.u16("decode_f16_bits"), f.u16("decode_bf16_bits"));
    for code in 0..=255u8 {
        let (i, v) = (usize::from(code), e4m3::decode(code));
        assert!(same(v, wide[i]), "{code:#x}");
        assert!(same(v, half::f16::from_bits(f16[i]).to_f32()), "{code:#x}");
        assert!(same(v, half::bf16::from_bits(bf[i]).to_f32()), "{code:#x}");
    }
    let (x, saturated, strict) =
        (f.f32("encode_in_f32"), f.u8("encode_rne_saturate"), f.u8("encode_rne_nan_on_overflow"));
    for ((x, code), strict) in x.iter().zip(saturated).zip(strict) {
        assert_eq!(e4m3::encode(*x), *code, "{x}");
        if !e4m3::is_nan(*strict) {
            assert_eq!(e4m3::encode(*x), *strict, "{x}");
        }
    }
    let (from_bf16, from_f16) = (f.u8("bf16_to_e4m3_saturate"), f.u8("f16_to_e4m3_saturate"));
    for bits in 0..=u16::MAX {
        let i = usize::from(bits);
        assert_eq!(e4m3::encode(half::bf16::from_bits(bits).to_f32()), from_bf16[i], "bf16 {bits:#x}");
        assert_eq!(e4m3::encode(half::f16::from_bits(bits).to_f32()), from_f16[i], "f16 {bits:#x}");
    }
    for (x, out) in f.f32("f32_to_bf16.in").iter().zip(f.bf16("f32_to_bf16.out")) {
        assert!(same(bf16::round(*x), out.to_f32()), "{x}");
    }
}

/// Quantizes rows of `k` activations and compares with stored codes and scales.
fn check_rows(x: &[f32], k: usize, codes: &[u8], scales: &[f32]) {
    let mut mine = vec![0xAA; k];
    for (m, row) in x.chunks_exact(k).enumerate() {
        let scale = fp8::quantize_row(row, &mut mine);
        assert_eq!(scale.to_bits(), scales[m].to_bits(), "row {m}");
        assert_eq!(mine, codes[m * k..][..k], "row {m}");
    }
}

/// Exact products of codes summed in f64, `[m, n]`.
fn products(x: &[u8], w: &[u8], k: usize) -> Vec<f64> {
    let dot = |a: &[u8], b: &[u8]| {
        a.iter().zip(b).map(|(a, b)| f64::from(e4m3::decode(*a)) * f64::from(e4m3::decode(*b))).sum()
    };
    x.chunks_exact(k).flat_map(|a| w.chunks_exact(k).map(move |b| dot(a, b))).collect()
}

/// `(acc · s_x) · s_w` in f32, in this order.
fn epilogue(acc: &[f64], sx: &[f32], sw: &[half::bf16]) -> Vec<f32> {
    let n = sw.len();
    acc.iter().enumerate().map(|(i, a)| *a as f32 * sx[i / n] * sw[i % n].to_f32()).collect()
}

#[test]
fn linear_of_the_quantization_vectors() {
    let bytes = data("quant/fp8_linear.safetensors");
    let f = File::open(&bytes);
    let k = 512;
    let x = f.bf16("x_bf16");
    check_rows(&widen(&x), k, f.u8("x_codes"), &f.f32("x_scale_f32"));

    let acc = products(f.u8("x_codes"), f.u8("w_codes"), k);
    for (a, b) in acc.iter().zip(f.f64("gemm_f64")) {
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} {b}");
    }
    let y = epilogue(&acc, &f.f32("x_scale_f32"), &f.bf16("w_scale_bf16"));
    assert_eq!(y, f.f32("y_f32"));
    assert_eq!(y.iter().map(|v| bf16::round(*v)).collect::<Vec<_>>(), widen(&f.bf16("y_bf16")));

    // The generic dynamic path of compressed-tensors, which rounds scale and quotient to bfloat16.
    let (codes, scales) = (f.u8("bf16_scale_path.x_codes"), f.u16("bf16_scale_path.x_scale_bf16"));
    let mut mine = vec![0; k];
    for (m, row) in x.chunks_exact(k).enumerate() {
        assert_eq!(fp8::quantize_row_bf16(row, &mut mine).to_bits(), scales[m], "row {m}");
        assert_eq!(mine, codes[m * k..][..k], "row {m}");
    }
}

#[test]
fn unit_vectors_of_the_model_fixture() {
    let bytes = data("gliclass-tiny/goldens/fp8-unit.safetensors");
    let f = File::open(&bytes);
    for (code, v) in f.f32("decode.table_f32").iter().enumerate() {
        assert!(same(e4m3::decode(code as u8), *v), "{code:#x}");
    }
    for (x, code) in f.f32("encode.in_f32").iter().zip(f.u8("encode.out_u8")) {
        assert_eq!(e4m3::encode(*x), *code, "{x}");
    }
    let k = 64;
    check_rows(&widen(&f.bf16("gemm.x_bf16")), k, f.u8("gemm.x_q_u8"), &f.f32("gemm.x_scale_f32"));

    let mut mine = vec![0; k];
    for (n, row) in f.bf16("gemm.w_bf16").chunks_exact(k).enumerate() {
        assert_eq!(fp8::quantize_row_bf16(row, &mut mine), f.bf16("gemm.w_scale_bf16")[n], "channel {n}");
        assert_eq!(mine, f.u8("gemm.w_q_u8")[n * k..][..k], "channel {n}");
    }
    let acc = products(f.u8("gemm.x_q_u8"), f.u8("gemm.w_q_u8"), k);
    assert_eq!(acc.iter().map(|v| *v as f32).collect::<Vec<_>>(), f.f32("gemm.acc_f32"));
    let y = epilogue(&acc, &f.f32("gemm.x_scale_f32"), &f.bf16("gemm.w_scale_bf16"));
    assert_eq!(y, f.f32("gemm.out_f32"));
    assert_eq!(y.iter().map(|v| bf16::round(*v)).collect::<Vec<_>>(), widen(&f.bf16("gemm.out_bf16")));
}
