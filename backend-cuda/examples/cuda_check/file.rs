//! A full-size model in a file: what loading it takes, and that a card without room refuses it.

use std::path::Path;
use std::time::Instant;

use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::{ClassifyRequest, LabelSet};
use dikast_core::{Error, Result};
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_synth::{Format, Recipe};
use serde_json::json;

use crate::report::Report;

/// Writes Multilang Ultra in FP8, the bytes that `dikast synth --like gliclass-multilang-ultra --quant fp8` writes.
pub fn write(folder: &Path) -> Result<String> {
    const LIKE: &str = "gliclass-multilang-ultra";
    let config = dikast_synth::preset(LIKE).ok_or_else(|| Error::Internal(format!("no preset {LIKE}")))?;
    let recipe = Recipe { config, format: Format::Fp8, seed: 1, tokenizer: None, like: LIKE.to_owned() };
    let start = Instant::now();
    let written = dikast_synth::write(folder, &recipe, &mut |_, _| {})?;
    Ok(format!("{} bytes in {:.1} s", written.bytes, start.elapsed().as_secs_f64()))
}

/// Seconds and this process's memory from the file to the first answer.
pub fn load(report: &mut Report, options: &CudaOptions, folder: &Path) {
    let result = (|| -> Result<()> {
        let began = Host::now();
        let start = Instant::now();
        let backend = CudaBackend::open(options.clone())?;
        let (opening, opened) = (start.elapsed().as_secs_f64(), Host::now());
        // From here on the peak is that of loading.
        let reset = std::fs::write("/proc/self/clear_refs", "5").is_ok();
        let start = Instant::now();
        let files = ModelFiles::open(folder)?;
        let model = GliClass::load(&files)?;
        let checked = start.elapsed().as_secs_f64();
        let mut engine = Engine::with_model(backend, model, EngineOptions::default(), &mut |_, _| {})?;
        let (seconds, loaded) = (start.elapsed().as_secs_f64(), Host::now());
        let request = ClassifyRequest::new("rain in the north", LabelSet::flat(["weather", "sport"]));
        let answers = pollster::block_on(engine.classify(&[request]));
        let (first, answered) = (start.elapsed().as_secs_f64(), Host::now());
        report.check(
            "an answer from the file",
            answers.iter().all(Result::is_ok),
            &format!("{}", answers.len()),
        );
        let growth = |host: Host| (host.resident.saturating_sub(opened.resident)) / 1_000_000;
        let peak = loaded.peak.saturating_sub(opened.resident) / 1_000_000;
        report.check(
            "host memory grows by less than 300 MB",
            growth(loaded) < 300,
            &format!(
                "{} MB when loaded, {} MB after the first answer, peak {peak} MB",
                growth(loaded),
                growth(answered)
            ),
        );
        report.figure(
            format!(
                "load from the file {seconds:.2} s (checked after {checked:.2}), first answer after {first:.2} s, device opened in {opening:.2} s; host memory +{} MB, peak +{peak} MB{}",
                growth(loaded),
                if reset { "" } else { " (of the process)" }
            ),
            json!({ "load_s": seconds, "checked_s": checked, "first_answer_s": first, "opening_s": opening,
                "began": began.json(), "opened": opened.json(), "loaded": loaded.json(), "answered": answered.json() }),
        );
        Ok(())
    })();
    report.outcome("loading from a file", result);
}

/// On a card that others have filled: refused with numbers, and nothing was allocated.
pub fn refused(report: &mut Report, options: &CudaOptions, folder: &Path) {
    let result = (|| -> Result<()> {
        let backend = CudaBackend::open(options.clone())?;
        let model = GliClass::load(&ModelFiles::open(folder)?)?;
        let (graph, weights) = (model.graph().clone(), model.weights().clone());
        let before = backend.memory_in_use()?;
        let mut told = 0;
        for (name, refusal) in [
            ("checking", backend.check(&graph, &weights).err()),
            (
                "loading",
                dikast_core::backend::Backend::load(&backend, &graph, &weights, &mut |_, _| told += 1).err(),
            ),
        ] {
            let refused = matches!(refusal, Some(Error::OutOfMemory { .. }));
            let message = refusal.map_or_else(|| "not refused".to_owned(), |e| e.to_string());
            report.check(&format!("{name} on a full card"), refused, &message);
        }
        let grown = backend.memory_in_use()?.saturating_sub(before);
        report.check(
            "nothing was uploaded",
            told == 0 && grown == 0,
            &format!("{told} pieces, {grown} bytes more in use"),
        );
        Ok(())
    })();
    report.outcome("a full card", result);
}

/// This process's memory in bytes (Linux; 0 elsewhere).
#[derive(Clone, Copy)]
struct Host {
    resident: u64,
    anonymous: u64,
    peak: u64,
}

impl Host {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bytes = |name: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(name));
            line.and_then(|l| l.split_whitespace().next()).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
                << 10
        };
        Self { resident: bytes("VmRSS:"), anonymous: bytes("RssAnon:"), peak: bytes("VmHWM:") }
    }

    fn json(self) -> serde_json::Value {
        json!({ "resident": self.resident, "anonymous": self.anonymous, "peak": self.peak })
    }
}
