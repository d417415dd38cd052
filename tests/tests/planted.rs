//! Faults planted into single kernels and shaders: the parity report finds them and says at which step. Where there is no device
//! nothing runs, and the tests say so; `DIKAST_TEST_CUDA=required` and `DIKAST_TEST_GPU=required` make that a failure.

use std::path::Path;

use dikast_core::backend::{Backend, Planted};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::Int8Mode;
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_parity::{Recording, Report, Tolerance, judge, record};
use dikast_quantize::{Options, Scheme, convert};
use dikast_tests::clef::{cases, engine, folder, sequence};
use dikast_tests::gpu;
use dikast_wgpu::{DeviceOptions, Int8Products, Precision};

const REQUIRED: &str = "DIKAST_TEST_CUDA";

/// A fault, the kinds of step that it may reach, and a part of the first step's name.
struct Fault {
    planted: Planted,
    kinds: &'static [&'static str],
    first: &'static str,
}

fn fault(kernel: &str, from: &str, to: &str, kinds: &'static [&'static str], first: &'static str) -> Fault {
    let planted = Planted { kernel: kernel.to_owned(), from: from.to_owned(), to: to.to_owned() };
    Fault { planted, kinds, first }
}

/// `clef-tiny` in INT8.
fn quantized() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let scheme = Scheme::Int8ConvRot { group: Group::new(64).expect("a size") };
    convert(&folder().join("model"), dir.path(), Options::new(scheme), &mut |_, _| {}).expect("converted");
    dir
}

fn load<B: Backend>(backend: B, model: &Path, int8: Int8Mode) -> Engine<B, Clef> {
    engine(backend, model, ClefOptions { int8, ..ClefOptions::default() })
}

fn recorded<B: Backend>(engine: &mut Engine<B, Clef>) -> Recording {
    let case = cases().into_iter().find(|c| c.expected.id == "text_noul").expect("a record");
    let own: ClefSequence = sequence(engine, &case);
    pollster::block_on(record(engine, &[&own])).expect("a recording")
}

/// What `dikast parity` says of a backend with a fault, or without.
fn reported<B: Backend>(backend: B, model: &Path) -> Report {
    reported_in(backend, model, Int8Mode::Exact)
}

fn reported_in<B: Backend>(backend: B, model: &Path, int8: Int8Mode) -> Report {
    let mut cpu = load(CpuBackend::new(), model, int8);
    let want = recorded(&mut cpu);
    let found = recorded(&mut load(backend, model, int8));
    let definition = (cpu.graph(), cpu.model().weights());
    judge("clef-tiny", definition, &found, &want, Tolerance::F16.quantized()).expect("a report")
}

/// Where the report says that a fault is.
fn found_at(report: &Report, fault: &Fault) -> String {
    let Fault { planted, kinds, first } = fault;
    let text = report.to_text(false);
    assert!(!report.pass, "{planted:?} was not found: {text}");
    let off = report.first_off().unwrap_or_else(|| panic!("{planted:?} has no place: {text}"));
    assert!(off.tensor.contains(first), "{planted:?} is at {}: {text}", off.tensor);
    // Everything else has its own operands, and is as sound as before.
    let others: Vec<_> = report.off().filter(|s| !kinds.contains(&s.step.as_str())).collect();
    assert!(others.is_empty(), "{planted:?} also at {others:?}");
    format!("{} in {}: {:.1e} at {} ({})", planted.to, planted.kernel, off.worst, off.tensor, off.step)
}

#[test]
fn in_cuda_kernels() {
    let open = |planted: Option<Planted>| {
        // The kernels for any chip, so that the same ones get the faults everywhere.
        CudaBackend::open(CudaOptions { planted, portable: true, poison: true, ..CudaOptions::default() })
    };
    let sound = match open(None) {
        Ok(backend) => backend,
        Err(error) if std::env::var(REQUIRED).is_ok_and(|v| v == "required") => {
            panic!("no CUDA device, and {REQUIRED}=required: {error}")
        }
        Err(error) => {
            eprintln!("NOT RUN, no CUDA device: {error}");
            return;
        }
    };
    let model = quantized();
    let report = reported(sound, model.path());
    assert!(report.pass, "{}", report.to_text(false));
    let products: &[&str] = &["Int8Linear", "Int8LinearGated"];
    for fault in [
        // A scale of another row, no rotation, a turn the other way.
        fault("sm89_int8_gemm", "p.scales[t]", "p.scales[t ^ 1]", products, "layer.0."),
        fault(
            "rotate_quantize",
            "if (WIDE && digits == 0) return;",
            "return;",
            &["RotateQuantize"],
            "in.codes",
        ),
        fault("head_rotary", "second ? by.y : -by.y", "by.y", &["HeadRotary"], "layer.3."),
    ] {
        let backend = open(Some(fault.planted.clone())).expect("it opened before");
        println!("{}", found_at(&reported(backend, model.path()), &fault));
    }
}

#[test]
fn in_shaders() {
    let Some(backend) = gpu::open(Precision::Auto) else { return };
    let model = quantized();
    let report = reported(backend, model.path());
    assert!(report.pass, "{}", report.to_text(false));
    let products: &[&str] = &["Int8Linear", "Int8LinearGated"];
    for fault in [
        // A turn the other way, a scale of another row.
        fault("head_rotary", "select(turn.y, -turn.y, first)", "turn.y", &["HeadRotary"], "layer.3."),
        fault("int8_product", "scales[row]", "scales[row ^ 1u]", products, "layer.0."),
        unrotated(),
    ] {
        let Some(backend) = gpu::open(Precision::Auto) else { return };
        let options = DeviceOptions { planted: Some(fault.planted.clone()), ..DeviceOptions::from_env() };
        println!("{}", found_at(&reported(backend.again(&options), model.path()), &fault));
    }
}

/// No rotation.
fn unrotated() -> Fault {
    fault("rotate_quantize", "reach < params.group", "reach < 1u", &["RotateQuantize"], "in.codes")
}

#[test]
fn in_shaders_that_multiply_weights_alone() {
    let base = DeviceOptions { int8: Int8Products::WeightOnly, ..DeviceOptions::from_env() };
    let Some(backend) = gpu::open_with(&base) else { return };
    let model = quantized();
    let report = reported_in(backend, model.path(), Int8Mode::Standard);
    assert!(report.pass, "{}", report.to_text(false));
    let judged = |name: &str| report.steps.iter().filter(|s| s.step.starts_with(name)).count();
    assert!(judged("Int8Linear") >= 32 && judged("RotateQuantize") >= 28, "{}", report.to_text(true));
    let fault = unrotated();
    let options = DeviceOptions { planted: Some(fault.planted.clone()), ..base };
    let Some(backend) = gpu::open_with(&options) else { return };
    println!("{}", found_at(&reported_in(backend, model.path(), Int8Mode::Standard), &fault));
}

#[test]
fn a_text_that_is_not_there_is_no_fault() {
    let Some(backend) = gpu::open(Precision::Auto) else { return };
    let planted = Planted { kernel: "head_rotary".into(), from: "no such text".into(), to: String::new() };
    let options = DeviceOptions { planted: Some(planted), ..DeviceOptions::from_env() };
    let files = dikast_core::checkpoint::ModelFiles::open(folder().join("model")).expect("the fixture");
    let model = Clef::load_with(&files, ClefOptions::default()).expect("it loads");
    let case = cases().into_iter().find(|c| c.expected.id == "text_noul").expect("a record");
    let options = Engine::with_model(
        backend.again(&options),
        model,
        dikast_core::engine::EngineOptions::default(),
        &mut |_, _| {},
    )
    .and_then(|mut engine| {
        let own = sequence(&engine, &case);
        pollster::block_on(engine.logits(&[&own])).map(drop)
    });
    assert!(options.is_err(), "a shader that cannot be compiled ran");
}
