//! What the commands need from an engine, and the choice of the backend behind it at run time.

use std::sync::OnceLock;

use dikast_core::answers::Classification;
use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions, Model};
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::ClassifyRequest;
use dikast_core::{Error, Result};
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_wgpu::{DeviceOptions, WgpuBackend};

use crate::terminal::warn;

/// Something that answers classification requests.
pub(crate) trait Classifier {
    /// One result a request, in order.
    fn classify(&mut self, requests: &[ClassifyRequest]) -> Vec<Result<Classification>>;

    /// Whether a request can be answered: everything that is checked before the forward pass.
    fn check(&self, request: &ClassifyRequest) -> Result<()>;
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

/// Weights from this size on are worth a graphics device when nobody chose a backend: a smaller model has answered on
/// the CPU before a device is open.
const WORTH_A_DEVICE: u64 = 256 << 20;

/// Work with a model on a backend that is chosen when the program runs.
pub(crate) trait OnBackend<M: Model = GliClass> {
    /// What comes out.
    type Output;

    /// Does the work. `open` opens the device; called again, it opens it anew.
    fn run<B: Backend + 'static>(
        self,
        model: M,
        open: fn() -> Result<B>,
    ) -> crate::exit::Result<Self::Output>;
}

/// Loads a model and does work with it on the chosen backend.
pub(crate) fn on_backend<W: OnBackend>(
    files: &ModelFiles,
    choice: BackendChoice,
    work: W,
) -> crate::exit::Result<W::Output> {
    let model = GliClass::load(files).map_err(crate::exit::Failure::Model)?;
    let bytes = model.weights().total_bytes();
    choose(model, bytes, choice, work)
}

/// Does work with a model whose weights have `bytes` bytes on the chosen backend.
pub(crate) fn choose<M: Model, W: OnBackend<M>>(
    model: M,
    bytes: u64,
    choice: BackendChoice,
    work: W,
) -> crate::exit::Result<W::Output> {
    let small = bytes < WORTH_A_DEVICE;
    match choice {
        BackendChoice::Cpu => work.run(model, open_cpu),
        BackendChoice::Auto if small => work.run(model, open_cpu),
        BackendChoice::Auto => match cuda_for(&model) {
            // Kept open, so that the same device opens at once.
            Ok(_device) => work.run(model, open_cuda),
            Err(reason) if has_device() => {
                warn(&instead_of_cuda("wgpu", &reason));
                work.run(model, open_device)
            }
            Err(reason) => {
                warn(&instead_of_cuda("cpu", &reason));
                work.run(model, open_cpu)
            }
        },
        BackendChoice::Wgpu => work.run(model, open_device),
        BackendChoice::Cuda => work.run(model, open_cuda),
    }
}

/// A CUDA device on which the model would load.
fn cuda_for(model: &impl Model) -> Result<CudaBackend> {
    let device = open_cuda()?;
    device.check(model.graph(), model.weights())?;
    Ok(device)
}

/// What `auto` took, and why not CUDA.
fn instead_of_cuda(taken: &str, reason: &Error) -> String {
    format!("using the {taken} backend: {reason}")
}

/// The backend for a model with that many bytes of weights; never [`BackendChoice::Auto`].
pub(crate) fn resolved(choice: BackendChoice, weight_bytes: u64) -> BackendChoice {
    match choice {
        BackendChoice::Auto if weight_bytes < WORTH_A_DEVICE => BackendChoice::Cpu,
        BackendChoice::Auto if dikast_cuda::driver().is_ok() => BackendChoice::Cuda,
        BackendChoice::Auto if has_device() => BackendChoice::Wgpu,
        BackendChoice::Auto => BackendChoice::Cpu,
        chosen => chosen,
    }
}

/// The backends on which a model with that many bytes of weights would run here: the CPU for a small one, and the GPU
/// backends that are not software.
pub(crate) fn others_worth_it(weight_bytes: u64) -> Vec<BackendChoice> {
    let small = weight_bytes < WORTH_A_DEVICE;
    let all = [
        (BackendChoice::Cpu, small),
        (BackendChoice::Cuda, dikast_cuda::driver().is_ok()),
        (BackendChoice::Wgpu, has_device()),
    ];
    all.into_iter().filter(|(_, worth)| *worth).map(|(backend, _)| backend).collect()
}

/// What `--memory-budget` says, for every device that this process opens.
static MEMORY_BUDGET: OnceLock<u64> = OnceLock::new();

/// Limits the memory of CUDA devices that are opened from here on.
pub(crate) fn limit_memory(bytes: Option<u64>) {
    if let Some(bytes) = bytes {
        // One command runs in a process, so nobody has set it before.
        let _ = MEMORY_BUDGET.set(bytes);
    }
}

/// Whether `--vision lazy` is given, for every device that this process opens.
static LAZY_MEDIA: OnceLock<()> = OnceLock::new();

/// Devices that are opened from here on get vision towers with the first picture, where `lazy`.
pub(crate) fn load_media_late(lazy: bool) {
    if lazy {
        let _ = LAZY_MEDIA.set(());
    }
}

pub(crate) fn open_cuda() -> Result<CudaBackend> {
    open_cuda_at(CudaOptions::default().device)
}

/// The CUDA device of that number.
pub(crate) fn open_cuda_at(device: usize) -> Result<CudaBackend> {
    CudaBackend::open(CudaOptions {
        device,
        memory_budget: MEMORY_BUDGET.get().copied(),
        lazy_media: LAZY_MEDIA.get().is_some(),
        ..CudaOptions::default()
    })
}

pub(crate) fn open_cpu() -> Result<CpuBackend> {
    Ok(CpuBackend::new())
}

/// Whether there is a graphics device that is not software.
fn has_device() -> bool {
    pollster::block_on(dikast_wgpu::adapters()).iter().any(|a| !a.is_software())
}

pub(crate) fn open_device() -> Result<WgpuBackend> {
    pollster::block_on(WgpuBackend::open(&DeviceOptions::from_env()))
}

/// Loads a model onto the chosen backend.
pub(crate) fn load(
    files: &ModelFiles,
    backend: BackendChoice,
    options: EngineOptions,
) -> crate::exit::Result<Box<dyn Classifier>> {
    on_backend(files, backend, Load(options))
}

struct Load(EngineOptions);

impl OnBackend for Load {
    type Output = Box<dyn Classifier>;

    fn run<B: Backend + 'static>(
        self,
        model: GliClass,
        open: fn() -> Result<B>,
    ) -> crate::exit::Result<Self::Output> {
        let engine = Engine::with_model(open()?, model, self.0, &mut |_, _| {})?;
        Ok(Box::new(EngineClassifier { engine, open }))
    }
}

struct EngineClassifier<B: Backend> {
    engine: Engine<B>,
    open: fn() -> Result<B>,
}

impl<B: Backend> Classifier for EngineClassifier<B> {
    fn classify(&mut self, requests: &[ClassifyRequest]) -> Vec<Result<Classification>> {
        let answers = pollster::block_on(self.engine.classify(requests));
        let lost = answers.iter().any(|a| matches!(a, Err(Error::DeviceLost { .. })));
        // A device may come back (a driver update, a reset): try once on a new one.
        if lost && (self.open)().and_then(|device| self.engine.replace_backend(device)).is_ok() {
            return pollster::block_on(self.engine.classify(requests));
        }
        answers
    }

    fn check(&self, request: &ClassifyRequest) -> Result<()> {
        self.engine.prepare(request).map(drop)
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

        /// One token a character, without labels.
        fn check(&self, request: &ClassifyRequest) -> Result<()> {
            let windows =
                request.chunking.map_or_else(|| vec![&request.text[..]], |c| c.windows(&request.text));
            let actual = windows.iter().map(|w| w.chars().count()).max().unwrap_or(0);
            let limit = request.max_tokens.unwrap_or(1024);
            if actual <= limit {
                return Ok(());
            }
            Err(Error::TooLarge { what: "input tokens".into(), limit: limit as u64, actual: actual as u64 })
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

#[cfg(test)]
mod tests {
    use dikast_core::request::LabelSet;

    use super::*;

    /// On a machine without a device this says so and passes, unless `DIKAST_TEST_GPU=required`.
    #[test]
    fn a_lost_device_is_opened_anew_within_the_same_request() {
        let device = match open_device() {
            Ok(device) => device,
            Err(error) if std::env::var("DIKAST_TEST_GPU").is_ok_and(|v| v == "required") => {
                panic!("{error}")
            }
            Err(error) => {
                eprintln!("NOT RUN, no device to test on: {error}");
                return;
            }
        };
        let model = GliClass::load(&dikast_models::gliclass_mini()).unwrap();
        let engine = Engine::with_model(device, model, EngineOptions::default(), &mut |_, _| {}).unwrap();
        let mut classifier = EngineClassifier { engine, open: open_device };
        let labels = LabelSet::flat(["travel", "food"].map(str::to_owned).to_vec());
        let request = ClassifyRequest::new("I would like to change my flight", labels);
        let mut scores = |lose: bool| -> Vec<f32> {
            if lose {
                classifier.engine.backend().destroy();
            }
            let answers = classifier.classify(std::slice::from_ref(&request));
            answers[0].as_ref().unwrap().scores.iter().map(|s| s.score).collect()
        };
        let before = scores(false);
        assert_eq!(scores(true), before);
        assert_eq!(scores(true), before);
    }

    #[test]
    fn the_fallback_is_explained_in_one_line() {
        let reason = Error::OutOfMemory { device: "GPU 0".into(), needed: 9, available: 8 };
        let line = instead_of_cuda("cpu", &reason);
        assert!(line.contains("cpu") && line.contains("GPU 0: 9 bytes needed, 8 available"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
}
