//! The measurements themselves.

use std::time::{Duration, Instant};

use dikast_core::Error;
use dikast_core::backend::{Backend, Batch, Ceilings, Taps};
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::ClassifyRequest;
use dikast_core::tokens::Sequence;
use dikast_synth::Provenance;
use pollster::block_on;

use super::profile::{self, Profile};
use super::report::{
    BackendFacts, CeilingFacts, Cell, FileCell, ModelFacts, Report, RequestTimes, SCHEMA, Settings, Times,
};
use super::timing::Repeats;
use super::{date, machine, progress, requests, sequences, text};
use crate::args::BenchArgs;
use crate::classifier::OnBackend;
use crate::exit::Result;

/// Passes of a profile: each one gives a time to every step.
const PASSES: usize = 20;

/// What to measure.
pub(super) struct Job<'a> {
    pub(super) args: &'a BenchArgs,
    pub(super) files: &'a ModelFiles,
    /// `--requests`.
    pub(super) requests: Option<Vec<ClassifyRequest>>,
    /// When the files began to be opened.
    pub(super) started: Instant,
}

impl OnBackend for Job<'_> {
    type Output = Report;

    fn run<B: Backend + 'static>(
        self,
        model: GliClass,
        open: fn() -> dikast_core::Result<B>,
    ) -> Result<Report> {
        let args = self.args;
        let options = match &self.requests {
            Some(_) => EngineOptions::default(),
            None => {
                let (tokens, batch) = (largest(&args.tokens), largest(&args.batch));
                // The texts of whole requests are corrected from above.
                EngineOptions {
                    max_tokens: 2 * tokens,
                    batch_tokens: tokens * batch,
                    ..EngineOptions::default()
                }
            }
        };
        let engine = Engine::with_model(open()?, model, options, &mut |_, _| {})?;
        let load_ms = self.started.elapsed().as_secs_f64() * 1e3;
        let mut bench = Bench { args, engine };
        let (measured, requests) = match &self.requests {
            Some(requests) => (Vec::new(), bench.requests(requests)?),
            None => (bench.cells()?, Vec::new()),
        };
        // The copy needs more memory than a small model.
        let peak_rss_bytes = machine::peak_rss();
        let ceilings = ceilings(bench.engine.backend())?;
        let results = measured
            .into_iter()
            .map(|(cell, profile)| Cell { steps: profile.map(|p| p.groups(ceilings.as_ref())), ..cell });
        Ok(Report {
            schema: SCHEMA,
            dikast: machine::build(),
            date: date::now(),
            machine: machine::machine(),
            backend: backend_facts(bench.engine.backend()),
            model: model_facts(bench.engine.model(), self.files),
            load_ms,
            peak_rss_bytes,
            ceilings: ceilings.as_ref().map(ceiling_facts),
            settings: Settings {
                labels: args.labels.get(),
                warmup: args.warmup,
                runs: args.runs.get(),
                seconds: args.seconds,
                seed: args.seed,
            },
            results: results.collect(),
            requests,
        })
    }
}

struct Bench<'a, B: Backend> {
    args: &'a BenchArgs,
    engine: Engine<B>,
}

impl<B: Backend> Bench<'_, B> {
    fn cells(&mut self) -> Result<Vec<(Cell, Option<Profile>)>> {
        let args = self.args;
        for tokens in &args.tokens {
            sequences::check(self.engine.model(), tokens.get(), args.labels.get())?;
        }
        let mut measured = Vec::new();
        let bar = progress::Progress::start(args.tokens.len() * args.batch.len());
        for tokens in args.tokens.iter().map(|n| n.get()) {
            for batch in args.batch.iter().map(|n| n.get()) {
                bar.now(&format!("{tokens} tokens × {batch}"));
                measured.push(self.cell(tokens, batch)?);
            }
        }
        bar.finish();
        Ok(measured)
    }

    fn requests(&mut self, all: &[ClassifyRequest]) -> Result<Vec<FileCell>> {
        let bar = progress::Progress::start(self.args.batch.len());
        let repeats = self.repeats();
        let mut measured = Vec::new();
        for batch in &self.args.batch {
            bar.now(&format!("{} requests by {batch}", all.len()));
            measured.push(requests::measure(&mut self.engine, all, batch.get(), &repeats)?);
        }
        bar.finish();
        Ok(measured)
    }

    fn cell(&mut self, tokens: usize, batch: usize) -> Result<(Cell, Option<Profile>)> {
        let mut rng = sequences::generator(self.args.seed, tokens);
        let labels = self.args.labels.get();
        let made: Vec<Sequence> =
            (0..batch).map(|_| sequences::sequence(self.engine.model(), tokens, labels, &mut rng)).collect();
        let packed = self.engine.pack(&made.iter().collect::<Vec<_>>())?;
        let forward = self.forward(&packed)?;
        let request = (batch == 1).then(|| self.request(tokens)).transpose()?;
        let profile = self.args.profile.then(|| self.profile(&packed)).transpose()?;

        let steps = 0..self.engine.graph().steps().len();
        let flops: u64 = steps.map(|i| profile::cost(self.engine.model(), i, &packed.sizes).flops).sum();
        let (gflop, seconds) = (flops as f64 * 1e-9, (forward.median_ms * 1e-3).max(1e-9));
        let cell = Cell {
            tokens,
            batch,
            forward,
            tokens_per_second: (tokens * batch) as f64 / seconds,
            requests_per_second: batch as f64 / seconds,
            gflop,
            gflop_per_second: gflop / seconds,
            request,
            steps: None,
        };
        Ok((cell, profile))
    }

    fn repeats(&self) -> Repeats {
        let BenchArgs { warmup, runs, seconds, .. } = *self.args;
        Repeats { warmup, runs: runs.get(), limit: Duration::from_secs(seconds.into()) }
    }

    fn forward(&mut self, batch: &Batch) -> Result<Times> {
        let times =
            self.repeats().measure(|| block_on(self.engine.forward(batch, &mut Taps::none())).map(drop))?;
        Ok(times)
    }

    /// From the text to the answer, and the host's part of it alone.
    fn request(&mut self, tokens: usize) -> Result<RequestTimes> {
        let mut rng = sequences::generator(self.args.seed, tokens);
        let (request, tokens) = text::request(self.engine.model(), tokens, self.args.labels.get(), &mut rng)?;
        let repeats = self.repeats();
        let prepare = repeats.measure(|| self.engine.prepare(&request).map(drop))?;
        let requests = std::slice::from_ref(&request);
        let times = repeats.measure(|| {
            block_on(self.engine.classify(requests)).into_iter().try_for_each(|answer| answer.map(drop))
        })?;
        Ok(RequestTimes { tokens: tokens as u64, times, prepare })
    }

    fn profile(&mut self, batch: &Batch) -> Result<Profile> {
        let limit = Duration::from_secs(self.args.seconds.into());
        let started = Instant::now();
        let mut passes = Vec::new();
        while passes.is_empty() || (passes.len() < PASSES && started.elapsed() < limit) {
            passes.push(block_on(self.engine.profile(batch))?);
        }
        Ok(Profile::new(self.engine.model(), &batch.sizes, &passes))
    }
}

fn largest(sizes: &[std::num::NonZeroUsize]) -> usize {
    sizes.iter().map(|n| n.get()).max().unwrap_or(1)
}

fn ceilings<B: Backend>(backend: &B) -> Result<Option<Ceilings>> {
    match block_on(backend.ceilings()) {
        Ok(ceilings) => Ok(Some(ceilings)),
        Err(Error::Unsupported { .. }) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

fn ceiling_facts(ceilings: &Ceilings) -> CeilingFacts {
    CeilingFacts {
        copy_gb_per_second: ceilings.copy_bytes * 1e-9,
        product_gflop_per_second: ceilings.product_flops * 1e-9,
        quantized_product_gflop_per_second: ceilings.quantized_product_flops * 1e-9,
    }
}

fn backend_facts<B: Backend>(backend: &B) -> BackendFacts {
    let capabilities = backend.capabilities();
    BackendFacts {
        name: capabilities.backend.clone(),
        device: capabilities.device.clone(),
        memory_bytes: capabilities.memory,
        details: capabilities.details.iter().cloned().collect(),
    }
}

fn model_facts(model: &GliClass, files: &ModelFiles) -> ModelFacts {
    ModelFacts {
        name: model.name().to_owned(),
        format: model.format(),
        bytes: model.weights().total_bytes(),
        synthetic: Provenance::read(files).is_some(),
    }
}
