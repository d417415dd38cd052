//! CLEF through CUDA: the published code's goldens, every step by its definition, INT8 bit for bit, batches, the embedded
//! model. On a machine without a device nothing runs, and the tests say so; `DIKAST_TEST_CUDA=required` makes that a failure.

use std::path::Path;

use dikast_core::backend::{Backend, Taps};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::request::DecideRequest;
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_parity::{Tolerance, judge, record};
use dikast_quantize::{Options, Scheme, convert};
use dikast_tests::clef::{Case, cases, engine, folder, sequence, softmax, worst};
use dikast_tests::int8;

const REQUIRED: &str = "DIKAST_TEST_CUDA";

/// Both kinds of kernels: those for the device, and those for any.
fn backends() -> Vec<(&'static str, CudaBackend)> {
    let open = |portable| {
        // Values that nobody wrote are NaN.
        CudaBackend::open(CudaOptions { portable, poison: true, ..CudaOptions::default() })
    };
    let mut found = Vec::new();
    for (name, portable) in [("best", false), ("portable", true)] {
        match open(portable) {
            Ok(backend) => found.push((name, backend)),
            Err(error) if std::env::var(REQUIRED).is_ok_and(|v| v == "required") => {
                panic!("no CUDA device, and {REQUIRED}=required: {error}")
            }
            Err(error) => {
                eprintln!("NOT RUN, no CUDA device: {error}");
                break;
            }
        }
    }
    found
}

fn quantized() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let scheme = Scheme::Int8ConvRot { group: Group::new(64).expect("a size") };
    convert(&folder().join("model"), dir.path(), Options::new(scheme), &mut |_, _| {}).expect("converted");
    dir
}

fn load<B: Backend>(backend: B, model: &Path, int8: Int8Mode) -> Engine<B, Clef> {
    engine(backend, model, ClefOptions { int8, ..ClefOptions::default() })
}

fn run<B: Backend>(engine: &mut Engine<B, Clef>, sequences: &[&ClefSequence]) -> Vec<Vec<f32>> {
    pollster::block_on(engine.logits(sequences)).expect("a run")
}

/// Text, pictures and videos are among every third record; an emulated device takes its time.
fn some() -> Vec<Case> {
    cases().into_iter().step_by(3).collect()
}

#[test]
fn goldens_of_the_reference() {
    for (name, backend) in backends() {
        let mut cuda = load(backend, &folder().join("model"), Int8Mode::Standard);
        let cases = some();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&cuda, c)).collect();
        let found = run(&mut cuda, &sequences.iter().collect::<Vec<_>>());
        let (logits, probabilities) = worst(&cases, &found);
        println!("{name}: logits {logits:.1e}, probabilities {probabilities:.1e}");
        assert!(logits < 1e-3 && probabilities < 5e-4, "{name}: {logits:.1e}, {probabilities:.1e}");
    }
}

/// A code that flips is another draw of the quantizer's noise for all that follows: no more of it than on the CPU.
#[test]
fn quantization_costs_what_it_costs_on_the_cpu() {
    let model = quantized();
    for mode in [Int8Mode::Exact, Int8Mode::Standard] {
        for (name, backend) in backends() {
            let mut cpu = load(CpuBackend::new(), model.path(), mode);
            let mut cuda = load(backend, model.path(), mode);
            let cases = some();
            let sequences: Vec<_> = cases.iter().map(|c| sequence(&cpu, c)).collect();
            let packed: Vec<&ClefSequence> = sequences.iter().collect();
            let want = worst(&cases, &run(&mut cpu, &packed)).1;
            let found = worst(&cases, &run(&mut cuda, &packed)).1;
            println!("{name}, {mode:?}: {found:.1e} off, {want:.1e} on the CPU");
            assert!(found < 1.5 * want + 5e-3, "{name}, {mode:?}: {found:.1e}, {want:.1e}");
        }
    }
}

#[test]
fn codes_and_sums_are_exact() {
    let model = quantized();
    for mode in [Int8Mode::Exact, Int8Mode::Standard] {
        for (name, backend) in backends() {
            let mut cuda = load(backend, model.path(), mode);
            let case = cases().into_iter().find(|c| c.expected.id == "text_noul").expect("a record");
            let own = sequence(&cuda, &case);
            let mut taps = Taps::all(cuda.graph());
            pollster::block_on(cuda.run(&[&own], &mut taps)).expect("a run");
            let exact = int8::exact(cuda.graph(), cuda.model().weights(), &taps, usize::MAX);
            let exact = exact.unwrap_or_else(|e| panic!("{name}, {mode:?}: {e}"));
            // Eight gated rows and six mixers whose rows are kept; eight blocks of three products, two of them not gated.
            assert!(exact.quantizers >= 14 && exact.products >= 22, "{name}, {mode:?}: {exact:?}");
        }
    }
}

#[test]
fn every_step_does_what_it_says() {
    let coded = quantized();
    for (model, tolerance) in
        [(folder().join("model"), Tolerance::F32), (coded.path().to_owned(), Tolerance::F32.quantized())]
    {
        let mut cpu = load(CpuBackend::new(), &model, Int8Mode::Exact);
        let cases: Vec<_> = cases()
            .into_iter()
            .filter(|c| ["text_noul", "image_one"].contains(&c.expected.id.as_str()))
            .collect();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&cpu, c)).collect();
        let sequences: Vec<&ClefSequence> = sequences.iter().collect();
        let want = pollster::block_on(record(&mut cpu, &sequences)).expect("a recording");
        for (name, backend) in backends() {
            let mut cuda = load(backend, &model, Int8Mode::Exact);
            let found = pollster::block_on(record(&mut cuda, &sequences)).expect("a recording");
            let definition = (cpu.graph(), cpu.model().weights());
            let report = judge("clef-tiny", definition, &found, &want, tolerance).expect("a report");
            println!("{name} {}", report.to_text(false));
            assert!(report.pass && report.steps.len() > 150, "{name}");
        }
    }
}

#[test]
fn batches_change_no_bit() {
    let model = quantized();
    for (name, backend) in backends() {
        let mut cuda = load(backend, model.path(), Int8Mode::Standard);
        let cases = some();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&cuda, c)).collect();
        let bits = |logits: &[f32]| logits.iter().map(|l| l.to_bits()).collect::<Vec<_>>();
        let together = run(&mut cuda, &sequences.iter().rev().collect::<Vec<_>>());
        for (i, (case, together)) in cases.iter().zip(together.iter().rev()).enumerate() {
            let alone = run(&mut cuda, &[&sequences[i]]).remove(0);
            assert_eq!(bits(&alone), bits(together), "{name}: {}", case.expected.id);
        }
    }
}

#[test]
fn the_embedded_model_answers_as_on_the_cpu() {
    for (name, backend) in backends() {
        let files = dikast_models::clef_mini();
        let load = || Clef::load(&files).expect("it loads");
        let options = EngineOptions::default();
        let mut cuda = Engine::with_model(backend, load(), options.clone(), &mut |_, _| {}).expect("it fits");
        let mut cpu =
            Engine::with_model(CpuBackend::new(), load(), options, &mut |_, _| {}).expect("it fits");
        let request = r#"{"state": {"text": "The parcel came late and broken. I want my money back."},
            "questions": {"late": {"type": "noul", "instructions": "Did it come late?"},
                "wish": {"type": "choice", "criteria": {"refund": null, "exchange": null, "nothing": null}}}}"#;
        let request = DecideRequest::from_json(request).expect("a request");
        let own = cpu.prepare(&request).expect("a sequence");
        let (found, want) = (run(&mut cuda, &[&own]).remove(0), run(&mut cpu, &[&own]).remove(0));
        for (found, want) in own.by_question(&found).iter().zip(&own.by_question(&want)) {
            for (p, q) in softmax(found).iter().zip(softmax(want)) {
                assert!((p - q).abs() < 0.03, "{name}: {found:?} {want:?}");
            }
        }
    }
}
