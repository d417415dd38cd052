//! INT8 CLEF through WebGPU against the CPU: the fixture, quantized in groups of 64.

use std::path::Path;

use dikast_core::backend::{Backend, Taps};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine};
use dikast_core::graph::{RowOp, Step};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::{self, Int8Mode};
use dikast_quantize::{Options, Scheme, convert};
use dikast_tests::clef::{Case, cases, engine, engine_of, folder, sequence};
use dikast_tests::{gpu, int8 as contract};
use dikast_wgpu::{DeviceOptions, Int8Products, Precision};

fn quantized() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let scheme = Scheme::Int8ConvRot { group: Group::new(64).expect("a size") };
    convert(&folder().join("model"), dir.path(), Options::new(scheme), &mut |_, _| {}).expect("converted");
    dir
}

fn load<B: Backend>(backend: B, model: &Path, int8: Int8Mode) -> Engine<B, Clef> {
    engine(backend, model, ClefOptions { int8, ..ClefOptions::default() })
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp: Vec<f64> = logits.iter().map(|l| f64::from(l - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}

/// The largest difference of a probability from the unquantized reference's.
fn off(cases: &[Case], logits: &[Vec<f32>]) -> f64 {
    let mut worst = 0.0_f64;
    for (case, found) in cases.iter().zip(logits) {
        let mut first = 0;
        for question in &case.expected.questions {
            let own = first..first + question.logits.len();
            first = own.end;
            for (p, want) in softmax(&found[own]).iter().zip(&question.probabilities) {
                worst = worst.max((p - f64::from(*want)).abs());
            }
        }
    }
    worst
}

/// A rounding that flips one code early on is a different draw of the quantizer's noise later, so that the runs of two
/// devices differ by that noise. It is no larger here than on the CPU, in both modes and on both paths.
#[test]
fn quantization_costs_what_it_costs_on_the_cpu() {
    let model = quantized();
    for mode in [Int8Mode::Exact, Int8Mode::Standard] {
        let mut cpu = load(CpuBackend::new(), model.path(), mode);
        // Pictures, text alone, many questions: every fourth will do.
        let cases: Vec<_> = cases().into_iter().step_by(4).collect();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&cpu, c)).collect();
        let packed: Vec<&ClefSequence> = sequences.iter().collect();
        let want = off(&cases, &pollster::block_on(cpu.logits(&packed)).expect("a run"));
        for (precision, int8) in [
            (Precision::F32, Int8Products::Packed),
            (Precision::Auto, Int8Products::Packed),
            (Precision::Auto, Int8Products::WeightOnly),
        ] {
            let Some(backend) = gpu::open_with(&products(precision, int8)) else { return };
            let mut gpu = load(backend, model.path(), mode);
            let found = off(&cases, &pollster::block_on(gpu.logits(&packed)).expect("a run"));
            println!("{mode:?}, {precision:?}, {int8:?}: {found:.1e} off, {want:.1e} on the CPU");
            assert!(found < 1.5 * want + 5e-3, "{mode:?}, {precision:?}, {int8:?}: {found:.1e}, {want:.1e}");
        }
    }
}

fn products(precision: Precision, int8: Int8Products) -> DeviceOptions {
    DeviceOptions { precision, int8, ..DeviceOptions::from_env() }
}

/// Where weights alone are codes, nothing is left to flip: all records have the probabilities that the CPU finds with the
/// reals that the codes stand for.
#[test]
fn weights_alone_have_the_probabilities_of_what_they_stand_for() {
    let model = quantized();
    let files = contract::dequantized(model.path(), Group::new(64).expect("a size"));
    let mut cpu = engine_of(CpuBackend::new(), &files, ClefOptions::default());
    let cases = cases();
    let sequences: Vec<_> = cases.iter().map(|c| sequence(&cpu, c)).collect();
    let packed: Vec<&ClefSequence> = sequences.iter().collect();
    let want = pollster::block_on(cpu.logits(&packed)).expect("a run");
    for (precision, allowed) in [(Precision::F32, 5e-4), (Precision::Auto, 5e-3)] {
        let options = products(precision, Int8Products::WeightOnly);
        let Some(backend) = gpu::open_with(&options) else { return };
        let mut gpu = load(backend, model.path(), Int8Mode::Standard);
        let mut worst = 0.0_f64;
        for (case, (own, want)) in cases.iter().zip(packed.iter().zip(&want)) {
            // One at a time: all at once are too long for a software device's patience.
            let found = pollster::block_on(gpu.logits(&[*own])).expect("a run").remove(0);
            let mut first = 0;
            for question in &case.expected.questions {
                let own = first..first + question.logits.len();
                first = own.end;
                for (a, b) in softmax(&found[own.clone()]).iter().zip(softmax(&want[own])) {
                    assert!(a.is_finite(), "{}", case.expected.id);
                    worst = worst.max((a - b).abs());
                }
            }
            assert_eq!(first, found.len());
        }
        println!("{precision:?}: probabilities {worst:.1e}");
        assert!(worst < allowed, "{precision:?}: {worst:.1e}");
    }
}

/// Every quantizer whose rows a tap shows and every INT8 product of a whole run, worked out again on the CPU from what the
/// device had: bit for bit.
#[test]
fn codes_and_products_of_a_run_are_exact() {
    let model = quantized();
    for mode in [Int8Mode::Exact, Int8Mode::Standard] {
        let options = products(Precision::Auto, Int8Products::Packed);
        let Some(backend) = gpu::open_with(&options) else { return };
        let mut gpu = load(backend, model.path(), mode);
        let case = cases().into_iter().find(|c| c.expected.id == "text_noul").expect("a record");
        let own = sequence(&gpu, &case);
        let mut taps = Taps::all(gpu.graph());
        pollster::block_on(gpu.run(&[&own], &mut taps)).expect("a run");
        let graph = gpu.graph();
        let tap = |id| taps.get(id).expect("tapped");
        let (mut quantizers, mut products) = (0, 0);
        for step in graph.steps() {
            match *step {
                Step::RotateQuantize { op, rotation, codes, scales, rows } => {
                    let source = match (rows, op) {
                        (Some(rows), _) => rows,
                        (None, RowOp::Copy { x }) => x,
                        _ => continue,
                    };
                    let name = &graph.tensor(codes).name;
                    let width = tap(codes).len() / tap(scales).len();
                    let (mut scratch, mut want) = (vec![0.0; width], vec![0; width]);
                    for (i, row) in tap(source).chunks(width).enumerate() {
                        let scale =
                            int8::quantize_row(row, rotation.group, rotation.mode, &mut scratch, &mut want);
                        assert_eq!(scale.to_bits(), tap(scales)[i].to_bits(), "{name}, row {i}");
                        let found = &tap(codes)[i * width..][..width];
                        assert!(want.iter().zip(found).all(|(a, b)| f32::from(*a) == *b), "{name}, row {i}");
                    }
                    quantizers += 1;
                }
                Step::Int8Linear { codes, scales, weight, weight_scales, bias: None, residual, out } => {
                    let view = |part: &String| gpu.model().weights().tensor(part).expect("a weight");
                    let parts = |id| graph.weight(id).parts.iter().map(view);
                    let w: Vec<i8> =
                        parts(weight).flat_map(|v| v.bytes.iter().map(|b| b.cast_signed())).collect();
                    let s: Vec<f32> = parts(weight_scales).flat_map(|v| v.to_f32()).collect();
                    let k = w.len() / s.len();
                    for (row, (codes, found)) in
                        tap(codes).chunks(k).zip(tap(out).chunks(s.len())).enumerate()
                    {
                        let x: Vec<i8> = codes.iter().map(|c| *c as i8).collect();
                        for (n, found) in found.iter().enumerate() {
                            let acc = int8::dot(&x, &w[n * k..][..k]);
                            let mut want = int8::epilogue(acc, tap(scales)[row], s[n], None);
                            if let Some(residual) = residual {
                                want += tap(residual)[row * s.len() + n];
                            }
                            let name = &graph.tensor(out).name;
                            assert_eq!(found.to_bits(), want.to_bits(), "{name}, row {row}, column {n}");
                        }
                    }
                    products += 1;
                }
                _ => {}
            }
        }
        println!("{mode:?}: {quantizers} quantizers, {products} products");
        // Eight gated rows and six mixers whose rows are kept; eight blocks of three products, two of them not gated.
        assert!(quantizers >= 14 && products >= 22, "{quantizers}, {products}");
    }
}
