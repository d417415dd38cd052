//! The Hadamard rotation, the INT8 quantizers, the product with its epilogue, SwiGLU.

use dikast_core::numerics::hadamard::{self, Group};
use dikast_core::numerics::int8::{
    Int8Mode, dequantize_row, dot, epilogue, quantize_row, quantize_row_bf16, quantize_row_bf16_division,
    quantize_row_f32, quantize_weight_row, to_grid,
};
use dikast_core::numerics::{bf16, swiglu};
use half::bf16 as Bf16;

use crate::file::{File, data, same, widen};

/// The rotation group in a tensor's name; `0` means none.
fn group(size: usize) -> Option<Group> {
    (size > 0).then(|| Group::new(size).expect("a power of four"))
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

#[test]
fn matrices() {
    let bytes = data("quant/hadamard.safetensors");
    let f = File::open(&bytes);
    for size in [4, 16, 64, 256] {
        let (want, group) = (f.i8(&format!("h{size}_pm1")), group(size).expect("some"));
        for (i, row) in want.chunks_exact(size).enumerate() {
            let mut unit = vec![0; size];
            unit[i] = 1;
            hadamard::rotate_i32(&mut unit, group);
            assert!(unit.iter().zip(row).all(|(a, b)| *a == i32::from(*b)), "H({size}), row {i}");
        }
    }
}

#[test]
fn rotations() {
    let bytes = data("quant/rotate.safetensors");
    let f = File::open(&bytes);
    let (x, k) = (f.bf16("x_bf16"), f.shape("x_bf16")[1]);
    for size in [16, 64, 256] {
        let group = group(size).expect("some");
        let of = |name: &str| format!("g{size}.{name}");
        let (want_f64, standard, linear) =
            (f.f64(&of("y_f64")), f.f32(&of("y_f32_standard")), f.f32(&of("y_f32_linear")));
        let (n, y, exponents) = (f.i32(&of("n_i32")), f.i32(&of("y_i32")), f.i32(&of("row_exp_i32")));
        for (m, row) in x.chunks_exact(k).enumerate() {
            let at = m * k..(m + 1) * k;
            let mut rotated = widen(row);
            hadamard::rotate(&mut rotated, group);
            assert_eq!(bits(&rotated), bits(&standard[at.clone()]), "standard, group {size}, row {m}");

            let want = &want_f64[at.clone()];
            let most = want.iter().fold(0f64, |m, v| m.max(v.abs()));
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-6 * most;
            assert!(rotated.iter().zip(want).all(|(a, b)| near(f64::from(*a), *b)));
            let mut other = widen(row);
            hadamard::rotate_left_to_right(&mut other, group);
            assert!(other.iter().zip(&linear[at.clone()]).all(|(a, b)| near(f64::from(*a), f64::from(*b))));
            let mut wide: Vec<f64> = row.iter().map(|v| v.to_f64()).collect();
            hadamard::rotate_f64(&mut wide, group);
            assert!(wide.iter().zip(want).all(|(a, b)| near(*a, *b)));

            let mut grid = vec![0; k];
            let exponent = to_grid(row.iter().copied(), Some(group), &mut grid).expect("finite");
            assert_eq!((exponent as i32 - 126, &grid[..]), (exponents[m], &n[at.clone()]));
            hadamard::rotate_i32(&mut grid, group);
            assert_eq!(grid, y[at], "integers, group {size}, row {m}");
        }
    }
}

/// Quantizes rows and compares with stored codes and scales.
fn check_rows(
    x: &[Bf16],
    codes: &[i8],
    scales: &[f32],
    what: &str,
    quantize: impl Fn(&[Bf16], &mut [f32], &mut [i8]) -> f32,
) {
    let k = x.len() / scales.len();
    let (mut scratch, mut mine) = (vec![f32::NAN; k], vec![77; k]);
    for (m, row) in x.chunks_exact(k).enumerate() {
        let scale = quantize(row, &mut scratch, &mut mine);
        assert!(same(scale, scales[m]), "{what}, row {m}: scale {scale} and not {}", scales[m]);
        assert_eq!(mine, codes[m * k..][..k], "{what}, row {m}");
    }
}

#[test]
fn activations() {
    let bytes = data("quant/act_quant.safetensors");
    let f = File::open(&bytes);
    let x = f.bf16("x_bf16");
    for size in [0, 16, 64, 256] {
        let group = group(size);
        for (name, mode) in [("standard", Int8Mode::Standard), ("exact", Int8Mode::Exact)] {
            let of = |part: &str| format!("g{size}.{name}.{part}");
            let (codes, scales) = (f.i8(&of("q")), f.f32(&of("scale")));
            check_rows(&x, codes, &scales, &of("bf16"), |row, scratch, codes| {
                quantize_row_bf16(row, group, mode, scratch, codes)
            });
            check_rows(&x, codes, &scales, &of("f32"), |row, scratch, codes| {
                quantize_row(&widen(row), group, mode, scratch, codes)
            });
        }
        let of = |part: &str| format!("g{size}.bf16div.{part}");
        check_rows(&x, f.i8(&of("q")), &f.f32(&of("scale")), &of(""), |row, scratch, codes| {
            quantize_row_bf16_division(row, group, scratch, codes)
        });

        let k = f.shape("x_bf16")[1];
        let (largest, exponents) =
            (f.i32(&format!("g{size}.exact.amax_i32")), f.i32(&format!("g{size}.exact.row_exp_i32")));
        for (m, row) in x.chunks_exact(k).enumerate() {
            let mut grid = vec![0; k];
            let exponent = to_grid(row.iter().copied(), group, &mut grid).expect("finite");
            if let Some(group) = group {
                hadamard::rotate_i32(&mut grid, group);
            }
            let most = grid.iter().map(|y| y.abs()).max();
            assert_eq!((exponent as i32 - 126, most), (exponents[m], Some(largest[m])), "row {m}");
        }
    }
    let bad = f.bf16("nonfinite.x_bf16");
    let (codes, scales) = (f.i8("nonfinite.g256.standard.q"), f.f32("nonfinite.g256.standard.scale"));
    for mode in [Int8Mode::Standard, Int8Mode::Exact] {
        check_rows(&bad, codes, &scales, "not finite", |row, scratch, codes| {
            quantize_row_bf16(row, group(256), mode, scratch, codes)
        });
    }
}

/// Quantizes the rows of a matrix.
fn quantized(w: &[f32], k: usize, group: Option<Group>) -> (Vec<i8>, Vec<f32>) {
    let (mut codes, mut wide) = (vec![77; w.len()], vec![f64::NAN; k]);
    let rows = w.chunks_exact(k).zip(codes.chunks_exact_mut(k));
    let scales = rows.map(|(row, codes)| quantize_weight_row(row, group, &mut wide, codes)).collect();
    (codes, scales)
}

#[test]
fn weights() {
    let bytes = data("quant/weight_quant.safetensors");
    let f = File::open(&bytes);
    let (w, k) = (widen(&f.bf16("w_bf16")), f.shape("w_bf16")[1]);
    for size in [0, 16, 64, 256] {
        let (codes, scales) = quantized(&w, k, group(size));
        assert_eq!(codes, f.i8(&format!("g{size}.q")), "group {size}");
        assert_eq!(bits(&scales), bits(&f.f32(&format!("g{size}.scale"))), "group {size}");

        let want = f.f32(&format!("g{size}.dequant_unrotated_f32"));
        let mut back = vec![0.0; k];
        for (n, want) in want.chunks_exact(k).enumerate() {
            dequantize_row(&codes[n * k..][..k], scales[n], group(size), &mut back);
            for (a, b) in back.iter().zip(want) {
                assert!((a - f64::from(*b)).abs() <= 1e-6 * f64::from(b.abs()), "group {size}, row {n}");
            }
        }
    }
}

/// All products of rows of codes, `[m, n]`.
fn products(x: &[i8], w: &[i8], k: usize) -> Vec<i32> {
    x.chunks_exact(k).flat_map(|a| w.chunks_exact(k).map(move |b| dot(a, b))).collect()
}

fn outputs(acc: &[i32], sx: &[f32], sw: &[f32], bias: Option<&[f32]>) -> Vec<f32> {
    let n = sw.len();
    let of = |(i, a): (usize, &i32)| epilogue(*a, sx[i / n], sw[i % n], bias.map(|b| b[i % n]));
    acc.iter().enumerate().map(of).collect()
}

fn rounded(y: &[f32]) -> Vec<u32> {
    bits(&y.iter().map(|v| bf16::round(*v)).collect::<Vec<_>>())
}

#[test]
fn matrix_products_and_epilogues() {
    let bytes = data("quant/int8_gemm.safetensors");
    let f = File::open(&bytes);
    for case in ["small", "ragged", "k17408"] {
        let of = |name: &str| format!("{case}.{name}");
        let acc = products(f.i8(&of("xq")), f.i8(&of("wq")), f.shape(&of("xq"))[1]);
        assert_eq!(acc, f.i32(&of("acc_i32")), "{case}");
        let (sx, sw, bias) = (f.f32(&of("x_scale")), f.f32(&of("w_scale")), f.f32(&of("bias_f32")));
        for (bias, name) in [(None, "y"), (Some(&bias[..]), "y_bias")] {
            let y = outputs(&acc, &sx, &sw, bias);
            assert_eq!(bits(&y), bits(&f.f32(&of(&format!("{name}_f32")))), "{case} {name}");
            assert_eq!(rounded(&y), bits(&widen(&f.bf16(&of(&format!("{name}_bf16"))))), "{case} {name}");
        }
    }
}

#[test]
fn whole_linear_layers() {
    let bytes = data("quant/convrot_linear.safetensors");
    let f = File::open(&bytes);
    let (x, w, bias) = (f.bf16("x_bf16"), widen(&f.bf16("w_bf16")), f.f32("bias_f32"));
    let k = f.shape("x_bf16")[1];
    let plain = f.f64("y_unquantized_f64");
    for size in [16, 64, 256] {
        let (wq, ws) = quantized(&w, k, group(size));
        assert_eq!(wq, f.i8(&format!("g{size}.w_q")));
        assert_eq!(bits(&ws), bits(&f.f32(&format!("g{size}.w_scale"))));
        for (name, mode) in [("standard", Int8Mode::Standard), ("exact", Int8Mode::Exact)] {
            let (mut xq, mut scratch) = (vec![0; x.len()], vec![0.0; k]);
            let rows = x.chunks_exact(k).zip(xq.chunks_exact_mut(k));
            let xs: Vec<f32> = rows
                .map(|(row, codes)| quantize_row_bf16(row, group(size), mode, &mut scratch, codes))
                .collect();
            let y = outputs(&products(&xq, &wq, k), &xs, &ws, Some(&bias));
            assert_eq!(bits(&y), bits(&f.f32(&format!("g{size}.{name}.y_f32"))), "{size} {name}");
            assert_eq!(rounded(&y), bits(&widen(&f.bf16(&format!("g{size}.{name}.y_bf16")))));

            let length = |v: &mut dyn Iterator<Item = f64>| v.map(|v| v * v).sum::<f64>().sqrt();
            let off = length(&mut y.iter().zip(&plain).map(|(a, b)| f64::from(*a) - b));
            let relative = off / length(&mut plain.iter().copied());
            assert!(relative < 0.03, "group {size}, {name}: relative error {relative}");
        }
        // What a backend computes that multiplies dequantized weights: the codes mean what they should.
        let mut row = vec![0.0; k];
        let want = f.f64(&format!("g{size}.weight_only.y_f64"));
        for n in 0..ws.len() {
            dequantize_row(&wq[n * k..][..k], ws[n], group(size), &mut row);
            for (m, x) in x.chunks_exact(k).enumerate() {
                let y: f64 =
                    x.iter().zip(&row).map(|(x, w)| x.to_f64() * w).sum::<f64>() + f64::from(bias[n]);
                let want = want[m * ws.len() + n];
                assert!((y - want).abs() <= 1e-4 * (1.0 + want.abs()), "{y} {want}");
            }
        }
    }
}

#[test]
fn swiglu_and_its_codes() {
    let bytes = data("quant/swiglu_quant.safetensors");
    let f = File::open(&bytes);
    let (gate, up) = (widen(&f.bf16("gate_bf16")), widen(&f.bf16("up_bf16")));
    for (name, form) in [("storage", swiglu::storage as fn(f32, f32) -> f32), ("once", swiglu::once)] {
        let h = f.bf16(&format!("h_{name}_bf16"));
        let mine: Vec<f32> = gate.iter().zip(&up).map(|(g, u)| form(*g, *u)).collect();
        assert_eq!(bits(&mine), bits(&widen(&h)), "{name}");
        for (mode_name, mode) in [("standard", Int8Mode::Standard), ("exact", Int8Mode::Exact)] {
            let of = |part: &str| format!("{name}.g256.{mode_name}.{part}");
            check_rows(&h, f.i8(&of("q")), &f.f32(&of("scale")), &of(""), |row, scratch, codes| {
                quantize_row_bf16(row, group(256), mode, scratch, codes)
            });
        }
    }
}

/// Four projections of the model fixture, which were rotated as an f32 matrix product. Our order of sums is another one:
/// codes of the weights are equal, their scales up to a unit in the last place, codes of activations up to one.
#[test]
fn projections_of_the_model_fixture() {
    let (golden, model) =
        (data("clef-tiny/golden/int8_convrot.safetensors"), data("clef-tiny/model/model.safetensors"));
    let (f, model) = (File::open(&golden), File::open(&model));
    let group = group(64);
    for module in ["linear_attn.in_proj_qkv", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"] {
        let of = |name: &str| format!("{module}.{name}");
        let name = format!("model.language_model.layers.0.{module}.weight");
        let (w, k) = (widen(&model.bf16(&name)), model.shape(&name)[1]);
        let (wq, ws) = quantized(&w, k, group);
        assert_eq!(wq, f.i8(&of("weight")), "{module}");
        for (n, (a, b)) in ws.iter().zip(f.f32(&of("weight_scale"))).enumerate() {
            assert!(a.to_bits().abs_diff(b.to_bits()) <= 1, "{module}, row {n}: {a} {b}");
        }
        assert_eq!(products(f.i8(&of("x_q")), &wq, k), f.i32(&of("acc")), "{module}");

        let (mut x, mut codes) = (f.f32(&of("x")), vec![0; k]);
        for (m, row) in x.chunks_exact_mut(k).enumerate() {
            let scale = quantize_row_f32(row, group, &mut codes);
            let want = f.f32(&of("x_scale"))[m];
            assert!((scale - want).abs() <= 1e-6 * want, "{module}, row {m}: {scale} {want}");
            let differ = codes.iter().zip(&f.i8(&of("x_q"))[m * k..]).map(|(a, b)| a.abs_diff(*b));
            assert!(differ.max() <= Some(1), "{module}, row {m}");
        }
    }
}
