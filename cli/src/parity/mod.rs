//! `dikast parity`: does a device do what the steps say?

pub(crate) mod requests;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions, Model};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::models::gliclass::GliClass;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::{Error, Result as CoreResult};
use dikast_parity::{Recording, Report, Tolerance, judge, record};

use crate::args::ParityArgs;
use crate::classifier::{BackendChoice, OnBackend, choose, open_cuda, open_device};
use crate::exit::{Failure, Result};
use crate::model;

/// Judges the models on the backends and prints what was found.
pub(crate) fn run(args: &ParityArgs) -> Result<()> {
    let backends = backends(args.backend)?;
    let mut reports = Vec::new();
    for files in models(args.model.as_deref())? {
        reports.extend(if model::is_clef(&files) {
            clef(&files, &backends, args)?
        } else {
            gliclass(&files, &backends, args)?
        });
    }
    let mut out = anstream::stdout();
    for report in &reports {
        writeln!(out, "{}", report.to_text(args.steps)).map_err(Failure::Stdout)?;
    }
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&reports).map_err(|e| Error::Internal(e.to_string()))?;
        write(path, &text)?;
    }
    if let Some(path) = &args.html {
        for (i, report) in reports.iter().enumerate() {
            write(&numbered(path, i), &report.to_html())?;
        }
    }
    let failed = reports.iter().filter(|r| !r.pass).count();
    if failed == 0 { Ok(()) } else { Err(Failure::OutOfContract { failed, all: reports.len() }) }
}

fn models(dir: Option<&Path>) -> Result<Vec<ModelFiles>> {
    Ok(match dir {
        Some(dir) => vec![model::open(Some(dir))?],
        None => vec![dikast_models::gliclass_mini(), dikast_models::clef_mini()],
    })
}

/// The backends to judge: the one asked for, or every GPU backend that opens.
fn backends(choice: BackendChoice) -> Result<Vec<BackendChoice>> {
    if choice != BackendChoice::Auto {
        return Ok(vec![choice]);
    }
    let opened =
        [(BackendChoice::Cuda, open_cuda().map(drop)), (BackendChoice::Wgpu, open_device().map(drop))];
    let mut found = Vec::new();
    let mut reasons = Vec::new();
    for (backend, outcome) in opened {
        match outcome {
            Ok(()) => found.push(backend),
            Err(reason) => reasons.push(reason.to_string()),
        }
    }
    if found.is_empty() {
        let need = format!("a device to judge: {}", reasons.join("; "));
        return Err(Failure::Engine(Error::Unsupported { device: "this machine".to_owned(), need }));
    }
    Ok(found)
}

fn gliclass(files: &ModelFiles, backends: &[BackendChoice], args: &ParityArgs) -> Result<Vec<Report>> {
    let model = GliClass::load(files).map_err(Failure::Model)?;
    let quantized = model.format().contains("FP8");
    let engine = cpu(model.clone())?;
    let mut sequences = Vec::new();
    for request in requests::classify() {
        sequences.extend(engine.prepare(&request)?.sequences);
    }
    judged(files.name(), &model, engine, &sequences, quantized, backends, args)
}

fn clef(files: &ModelFiles, backends: &[BackendChoice], args: &ParityArgs) -> Result<Vec<Report>> {
    let int8 = if args.exact { Int8Mode::Exact } else { Int8Mode::Standard };
    let options = ClefOptions { int8, ..ClefOptions::default() };
    let model = Clef::load_with(files, options).map_err(Failure::Model)?;
    let quantized = model.format().contains("INT8");
    let engine = cpu(model.clone())?;
    let sequences = requests::decide()?.iter().map(|r| engine.prepare(r)).collect::<CoreResult<Vec<_>>>()?;
    judged(files.name(), &model, engine, &sequences, quantized, backends, args)
}

fn options() -> EngineOptions {
    EngineOptions { max_tokens: 2048, ..EngineOptions::default() }
}

fn cpu<M: Model>(model: M) -> Result<Engine<CpuBackend, M>> {
    Ok(Engine::with_model(CpuBackend::new(), model, options(), &mut |_, _| {})?)
}

/// A report for each backend.
fn judged<M: Model + Clone>(
    name: &str,
    model: &M,
    cpu: Engine<CpuBackend, M>,
    sequences: &[M::Sequence],
    quantized: bool,
    backends: &[BackendChoice],
    args: &ParityArgs,
) -> Result<Vec<Report>> {
    let sequences: Vec<&M::Sequence> = sequences.iter().collect();
    // One recording at a time is large enough.
    drop(cpu);
    let against = if args.against == BackendChoice::Auto { BackendChoice::Cpu } else { args.against };
    let expected = choose(model.clone(), 0, against, Record(&sequences))?;
    let tolerance = if args.strict { Tolerance::F32 } else { Tolerance::F16 };
    let tolerance = if quantized { tolerance.quantized() } else { tolerance };
    backends
        .iter()
        .map(|&backend| {
            let found = choose(model.clone(), 0, backend, Record(&sequences))?;
            let definition = (model.graph(), model.weights());
            Ok(judge(name, definition, &found, &expected, tolerance)?)
        })
        .collect()
}

/// Records sequences on a backend.
struct Record<'a, M: Model>(&'a [&'a M::Sequence]);

impl<M: Model> OnBackend<M> for Record<'_, M> {
    type Output = Recording;

    fn run<B: Backend + 'static>(self, model: M, open: fn() -> CoreResult<B>) -> Result<Recording> {
        let mut engine = Engine::with_model(open()?, model, options(), &mut |_, _| {})?;
        Ok(pollster::block_on(record(&mut engine, self.0))?)
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(Failure::io(format!("writing {}", path.display())))
}

/// `report.html`, `report-2.html`, …
fn numbered(path: &Path, index: usize) -> PathBuf {
    if index == 0 {
        return path.to_owned();
    }
    let stem = path.file_stem().map_or_else(String::new, |s| s.to_string_lossy().into_owned());
    let end = path.extension().map_or_else(String::new, |e| format!(".{}", e.to_string_lossy()));
    path.with_file_name(format!("{stem}-{}{end}", index + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_numbered_from_the_second_on() {
        let path = Path::new("out/report.html");
        assert_eq!(numbered(path, 0), path);
        assert_eq!(numbered(path, 1), Path::new("out/report-2.html"));
        assert_eq!(numbered(Path::new("report"), 2), Path::new("report-3"));
    }
}
