//! The WebGPU backend against the published code's goldens and against the CPU.

use dikast_core::backend::{Backend, Taps};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_tests::clef::{Case, cases, differences, engine, folder, sequence};
use dikast_tests::gpu;
use dikast_wgpu::{Precision, WgpuBackend};

fn tiny(precision: Precision) -> Option<Engine<WgpuBackend, Clef>> {
    Some(engine(gpu::open(precision)?, &folder().join("model"), ClefOptions::default()))
}

/// Probabilities of one question.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp: Vec<f64> = logits.iter().map(|l| f64::from(l - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}

/// The largest errors of logits and of probabilities over all records.
fn worst(cases: &[Case], found: &[Vec<f32>]) -> (f32, f64) {
    let (mut logits, mut probabilities) = (0.0_f32, 0.0_f64);
    for (case, found) in cases.iter().zip(found) {
        let mut rest = found.as_slice();
        for question in &case.expected.questions {
            let (own, tail) = rest.split_at(question.logits.len());
            rest = tail;
            assert!(own.iter().all(|l| l.is_finite()), "{}: {own:?}", case.expected.id);
            logits = logits.max(differences(own, &question.logits).0);
            for (p, want) in softmax(own).iter().zip(&question.probabilities) {
                probabilities = probabilities.max((p - f64::from(*want)).abs());
            }
        }
        assert!(rest.is_empty());
    }
    (logits, probabilities)
}

fn run<B: Backend>(engine: &mut Engine<B, Clef>, sequences: &[&ClefSequence]) -> Vec<Vec<f32>> {
    pollster::block_on(engine.logits(sequences)).expect("a run")
}

fn golden(precision: Precision) -> Option<(f32, f64)> {
    let mut engine = tiny(precision)?;
    let cases = cases();
    let sequences: Vec<_> = cases.iter().map(|c| sequence(&engine, c)).collect();
    let found = run(&mut engine, &sequences.iter().collect::<Vec<_>>());
    Some(worst(&cases, &found))
}

#[test]
fn all_records_in_f32() {
    let Some((logits, probabilities)) = golden(Precision::F32) else { return };
    println!("logits {logits:.1e}, probabilities {probabilities:.1e}");
    assert!(logits < 1e-3 && probabilities < 5e-4, "{logits:.1e}, {probabilities:.1e}");
}

#[test]
fn all_records_in_f16() {
    let Some((logits, probabilities)) = golden(Precision::Auto) else { return };
    println!("logits {logits:.1e}, probabilities {probabilities:.1e}");
    assert!(probabilities < 5e-3, "{probabilities:.1e}");
}

/// Every step's output of a record with text alone (nothing of the vision tower runs) and of one with pictures.
#[test]
fn every_step_of_a_record() {
    let Some(mut gpu) = tiny(Precision::F32) else { return };
    let mut cpu = engine(CpuBackend::new(), &folder().join("model"), ClefOptions::default());
    let cases = cases();
    let with_media = cases.iter().find(|c| !c.media.is_empty()).expect("a record with media");
    let without = cases.iter().find(|c| c.media.is_empty()).expect("a record without");
    for case in [without, with_media] {
        let own = sequence(&cpu, case);
        let (mut a, mut b) = (Taps::all(gpu.graph()), Taps::all(cpu.graph()));
        pollster::block_on(gpu.run(&[&own], &mut a)).expect("a run");
        pollster::block_on(cpu.run(&[&own], &mut b)).expect("a run");
        let mut most = (0.0, String::new());
        for id in cpu.graph().steps().iter().flat_map(|s| s.outputs()) {
            let (found, want) = (a.get(id).expect("tapped"), b.get(id).expect("tapped"));
            let name = &cpu.graph().tensor(id).name;
            assert!(found.iter().all(|v| v.is_finite()), "{name}");
            let (_, relative) = differences(found, want);
            if relative > most.0 {
                most = (relative, name.clone());
            }
            assert!(relative < 1e-4, "{}: {name}: {relative:.1e}", case.expected.id);
        }
        println!("{}: {:.1e} at {}", case.expected.id, most.0, most.1);
    }
}

/// A record's bits do not depend on what else is in the batch, nor on the order.
#[test]
fn batches_change_no_bit() {
    for precision in [Precision::F32, Precision::Auto] {
        let Some(mut engine) = tiny(precision) else { return };
        // Text alone and with media; a software device takes its time.
        let cases: Vec<_> =
            cases().into_iter().step_by(if precision == Precision::F32 { 5 } else { 3 }).collect();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&engine, c)).collect();
        let bits = |logits: &[f32]| logits.iter().map(|l| l.to_bits()).collect::<Vec<_>>();
        let together = run(&mut engine, &sequences.iter().rev().collect::<Vec<_>>());
        for (i, (case, together)) in cases.iter().zip(together.iter().rev()).enumerate() {
            let alone = run(&mut engine, &[&sequences[i]]).remove(0);
            assert_eq!(bits(&alone), bits(together), "{}", case.expected.id);
        }
    }
}
