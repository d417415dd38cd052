//! What the commands need from an engine, and the choice of the backend behind it at run time.

use dikast_core::answers::Classification;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::request::ClassifyRequest;
use dikast_core::{Error, Result};

/// Something that answers classification requests.
pub(crate) trait Classifier {
    /// One result a request, in order.
    fn classify(&mut self, requests: &[ClassifyRequest]) -> Vec<Result<Classification>>;
}

/// `--backend`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum BackendChoice {
    /// The fastest one that this machine has.
    #[default]
    Auto,
    /// The reference backend; works everywhere.
    Cpu,
    /// WebGPU.
    Wgpu,
    /// NVIDIA CUDA.
    Cuda,
}

/// Loads a model onto the chosen backend.
pub(crate) fn load(
    files: &ModelFiles,
    backend: BackendChoice,
    options: EngineOptions,
) -> crate::exit::Result<Box<dyn Classifier>> {
    match backend {
        BackendChoice::Auto | BackendChoice::Cpu => {
            let engine =
                Engine::load(CpuBackend::new(), files, options).map_err(crate::exit::Failure::Model)?;
            Ok(Box::new(CpuClassifier(engine)))
        }
        BackendChoice::Wgpu => Err(not_built_in("wgpu").into()),
        BackendChoice::Cuda => Err(not_built_in("cuda").into()),
    }
}

fn not_built_in(device: &str) -> Error {
    Error::Unsupported {
        device: device.to_owned(),
        need: "a backend that this build of dikast does not contain; use --backend cpu or auto".to_owned(),
    }
}

struct CpuClassifier(Engine<CpuBackend>);

impl Classifier for CpuClassifier {
    fn classify(&mut self, requests: &[ClassifyRequest]) -> Vec<Result<Classification>> {
        pollster::block_on(self.0.classify(requests))
    }
}

#[cfg(test)]
pub(crate) mod fake {
    //! A deterministic classifier for tests: no model, scores from lengths.

    use dikast_core::answers::{Receipt, ScoredLabel};
    use dikast_core::request::Mode;

    use super::*;

    /// Refuses the text `bad`, has no memory for `huge` and its neighbours, loses the device at `lost`; otherwise
    /// it prefers labels near the text's length.
    #[derive(Debug, Default)]
    pub(crate) struct FakeClassifier {
        /// Requests answered so far.
        pub(crate) seen: usize,
    }

    impl Classifier for FakeClassifier {
        fn classify(&mut self, requests: &[ClassifyRequest]) -> Vec<Result<Classification>> {
            self.seen += requests.len();
            // As an engine does when one request breaks the pass of all.
            if requests.len() > 1 && requests.iter().any(|r| r.text == "huge") {
                let full = Error::OutOfMemory { device: "fake".into(), needed: 2, available: 1 };
                return vec![Err(full); requests.len()];
            }
            requests.iter().map(answer).collect()
        }
    }

    fn answer(request: &ClassifyRequest) -> Result<Classification> {
        match request.text.as_str() {
            "huge" => return Err(Error::OutOfMemory { device: "fake".into(), needed: 2, available: 1 }),
            "bad" => return Err(Error::invalid("text", "refused by the fake")),
            "lost" => return Err(Error::DeviceLost { device: "fake".into(), message: "gone".into() }),
            _ => {}
        }
        let near = |l: &String| -(l.chars().count().abs_diff(request.text.chars().count()) as f32);
        let logits: Vec<f32> = request.labels.names().iter().map(near).collect();
        let sum: f32 = logits.iter().map(|l| l.exp()).sum();
        let score = |l: f32| match request.mode {
            Mode::SingleLabel => l.exp() / sum,
            Mode::MultiLabel => 1.0 / (1.0 + (-l).exp()),
        };
        let scored = request.labels.names().iter().zip(&logits);
        Ok(Classification {
            scores: scored
                .map(|(label, l)| ScoredLabel { label: label.clone(), score: score(*l), logit: Some(*l) })
                .collect(),
            labels: request.labels.clone(),
            chunked: false,
            mode: request.mode,
            threshold: request.threshold,
            receipt: Receipt { model: "fake".into(), backend: "cpu".into(), tokens: 7, ..Receipt::default() },
        })
    }
}
