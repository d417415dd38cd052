//! INT8 CLEF through WebGPU against the CPU: the fixture, quantized in groups of 64.

use std::path::Path;

use dikast_core::backend::{Backend, Taps};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine};
use dikast_core::graph::DType;
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::Int8Mode;
use dikast_quantize::{Options, Scheme, convert};
use dikast_tests::clef::{cases, engine, folder, sequence};
use dikast_tests::gpu;
use dikast_wgpu::Precision;

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

/// In both modes and on both paths, probabilities as the CPU has them for the same codes.
#[test]
fn probabilities_are_the_cpus() {
    let model = quantized();
    for mode in [Int8Mode::Exact, Int8Mode::Standard] {
        let mut cpu = load(CpuBackend::new(), model.path(), mode);
        // Pictures, text alone, many questions: every fourth will do.
        let cases: Vec<_> = cases().into_iter().step_by(4).collect();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&cpu, c)).collect();
        let packed: Vec<&ClefSequence> = sequences.iter().collect();
        let want = pollster::block_on(cpu.logits(&packed)).expect("a run");
        for precision in [Precision::F32, Precision::Auto] {
            let Some(backend) = gpu::open(precision) else { return };
            let mut gpu = load(backend, model.path(), mode);
            let found = pollster::block_on(gpu.logits(&packed)).expect("a run");
            let mut worst = 0.0_f64;
            for (case, (a, b)) in cases.iter().zip(found.iter().zip(&want)) {
                let mut first = 0;
                for question in &case.expected.questions {
                    let own = first..first + question.logits.len();
                    first = own.end;
                    for (p, q) in softmax(&a[own.clone()]).iter().zip(softmax(&b[own])) {
                        worst = worst.max((p - q).abs());
                    }
                }
            }
            println!("{mode:?}, {precision:?}: probabilities {worst:.1e}");
            assert!(worst < 5e-3, "{mode:?}, {precision:?}: {worst:.1e}");
        }
    }
}

/// Codes of one record, step by step: where the rows before the quantizer agree to a rounding, nearly all codes are the same
/// and none is off by more than the step of bfloat16 that the rounding may flip.
#[test]
fn codes_of_a_record_are_the_cpus() {
    let model = quantized();
    let mut cpu = load(CpuBackend::new(), model.path(), Int8Mode::Exact);
    let Some(backend) = gpu::open(Precision::F32) else { return };
    let mut gpu = load(backend, model.path(), Int8Mode::Exact);
    let case = cases().into_iter().find(|c| c.expected.id == "text_noul").expect("a record");
    let own = sequence(&cpu, &case);
    let (mut a, mut b) = (Taps::all(gpu.graph()), Taps::all(cpu.graph()));
    pollster::block_on(gpu.run(&[&own], &mut a)).expect("a run");
    pollster::block_on(cpu.run(&[&own], &mut b)).expect("a run");
    let (mut all, mut differ) = (0, 0);
    for id in cpu.graph().steps().iter().flat_map(|s| s.outputs()) {
        let tensor = cpu.graph().tensor(id);
        if tensor.dtype == DType::I8 {
            let (found, want) = (a.get(id).expect("tapped"), b.get(id).expect("tapped"));
            let off = found.iter().zip(want).filter(|(a, b)| a != b).count();
            let most = found.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            println!("{}: {off} of {}, at most {most}", tensor.name, want.len());
            all += want.len();
            differ += off;
        }
    }
    assert!(all > 0 && differ * 50 < all, "{differ} of {all} codes differ");
}
