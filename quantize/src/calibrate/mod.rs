//! Calibration: codes that keep the decisions, found from what the model sees on examples.
//!
//! Layer by layer in the order of the data, each product with the activations of the layers quantized before it. For small
//! models: all tokens of the calibration set go through the CPU in one batch and stay in memory.
//!
//! ```text
//! calibration set ─► inputs of each product, in both models ─► smooth, target, clip, gptq, refit, bias ─► codes
//! selection set   ─► how each product is smoothed (search), products that are better left alone (rescue)
//! report set      ─► agreement and distances, before and after, never looked at before
//! ```

mod algebra;
mod linear;
mod measured;
mod partial;
mod rescue;
mod sets;
mod stages;
mod steps;
mod yardstick;

use std::collections::BTreeMap;
use std::path::Path;

use dikast_core::backend::{Batch, Taps};
use dikast_core::checkpoint::{Checks, ModelFiles, Recipe, StoredType, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions, Model as _};
use dikast_core::models::clef::Clef;
use dikast_core::numerics::hadamard::Group;
use dikast_core::{Error, Result};
use dikast_eval::metrics::relative_l2;
use dikast_eval::{Blocks, Example, Subject};

use crate::convert::{Job, Options, check_sums};
use crate::family;
use crate::plan::{Plan, Scheme};
use crate::report::Report;
use crate::source::{Checkpoint, Coded};
use linear::{Inputs, Matrix};
pub use measured::Measured;
use partial::Partial;
use stages::{Fold, Stage};
pub use steps::{Rescue, Steps};
use yardstick::Yardstick;

/// Version of the recipe.
const VERSION: u32 = 2;
/// Most tokens of a calibration set: their activations are kept in memory.
const MOST_TOKENS: usize = 1 << 16;

/// The examples of a calibration.
#[derive(Debug, Clone, Copy)]
pub struct Sets<'a> {
    /// From which codes are found.
    pub calibrate: &'a [Example],
    /// By which the steps choose that choose by answers. Where it is empty and they need it, every fifth example of the
    /// calibration set is it, and no longer in that one.
    pub select: &'a [Example],
    /// On which the result is measured; may be empty.
    pub report: &'a [Example],
}

/// What a calibration did.
#[derive(Debug, Clone, PartialEq)]
pub struct Calibrated {
    /// What was written.
    pub report: Report,
    /// What was measured, where there is a report set.
    pub measured: Option<Measured>,
    /// Products that stay as they were.
    pub rescued: Vec<String>,
    /// Examples from which the codes were found.
    pub calibrate: usize,
    /// Examples by which was chosen.
    pub select: usize,
    /// Tokens of the calibration set.
    pub tokens: usize,
}

/// Quantizes the model in `source` into `target` as [`convert`](crate::convert) does, with codes found by the steps.
/// `said` gets a line for each thing that is done.
///
/// # Errors
/// As [`convert`](crate::convert); [`Error::InvalidRequest`] for sets that share an example, an empty calibration set, one
/// that is too long, and for a model or scheme that has no such calibration.
pub fn calibrate(
    source: &Path,
    target: &Path,
    options: &Options,
    steps: Steps,
    sets: Sets<'_>,
    said: &mut dyn FnMut(&str),
) -> Result<Calibrated> {
    sets::disjoint(&[("calibrate", sets.calibrate), ("select", sets.select), ("report", sets.report)])?;
    let group = match options.scheme {
        Scheme::Int8 => None,
        Scheme::Int8ConvRot { group } => Some(group),
        other => {
            let message = format!("{} found, but only int8 and int8-convrot are calibrated", other.name());
            return Err(Error::invalid("scheme", message));
        }
    };
    if sets.calibrate.is_empty() {
        return Err(Error::invalid("calibrate", "no examples found, at least one is needed"));
    }
    let (own, held) = sets::held_back(sets.calibrate);
    let sets = match steps.choose() && sets.select.is_empty() {
        true if held.is_empty() => {
            let message = format!(
                "no examples found, and {} of the calibration set are too few to hold some back; search and rescue need some",
                sets.calibrate.len()
            );
            return Err(Error::invalid("select", message));
        }
        true => Sets { calibrate: &own, select: &held, ..sets },
        false => sets,
    };
    let files = ModelFiles::open(source)?;
    if !family::is_clef(&files)? {
        return Err(Error::invalid(
            "calibrate",
            format!("{} is no CLEF model, the only kind that is calibrated", files.name()),
        ));
    }
    let expected = family::expected_tensors(&files)?;
    let weights = Weights::open(&files, &expected, Checks::ALL)?;
    check_sums(&files, &weights)?;
    let base = Checkpoint(weights.clone());
    // Refuses what cannot be quantized before any work is done.
    let naive_plan = Plan::keeping(&expected, options.scheme, options.shard_bytes, &base, &options.keep)?;
    let reference = Clef::load(&files)?;
    let yardstick = match steps.choose() {
        true => Some(Yardstick::new(&reference, sets.select)?),
        false => None,
    };
    let mut work = Work {
        files: &files,
        expected: &expected,
        options,
        group,
        steps,
        yardstick,
        partial: Partial { base, changed: BTreeMap::new(), coded: BTreeMap::new() },
        weights: BTreeMap::new(),
        coded_modules: naive_plan.items().filter_map(|i| i.int8().map(|(m, _)| m.to_owned())).collect(),
    };
    let tokens = work.find_codes(&reference, sets.calibrate, said)?;
    let rescued = work.rescue(&reference, said)?;
    let plan = Plan::new(&expected, options.scheme, options.shard_bytes, &work.partial)?;
    let measured = match sets.report {
        [] => None,
        report => {
            said("measuring on the report set");
            let bytes = (naive_plan.tensor_bytes(), plan.tensor_bytes());
            Some(Measured::new(work.naive()?, work.model()?, &reference, report, bytes)?)
        }
    };
    let recipe = Recipe { name: steps.to_string(), version: VERSION };
    let notes = measured::notes(steps, sets, tokens, &rescued, measured.as_ref());
    let job = Job { source, target, files: &files, expected: &expected, weights: &weights, options };
    let report = job.write(&plan, &recipe, &work.partial, None, Some(&notes), &mut |_, _| {})?;
    let (calibrate, select) = (sets.calibrate.len(), sets.select.len());
    Ok(Calibrated { report, measured, rescued, calibrate, select, tokens })
}

/// A calibration on its way.
#[derive(Clone)]
struct Work<'a> {
    files: &'a ModelFiles,
    expected: &'a dikast_core::checkpoint::Expected,
    options: &'a Options,
    group: Option<Group>,
    steps: Steps,
    /// The selection set, where a step chooses by it.
    yardstick: Option<Yardstick>,
    partial: Partial,
    /// The matrices of the products done so far as numbers, with the scales that were folded into them.
    weights: BTreeMap<String, Vec<f32>>,
    /// The modules that the scheme and the patterns choose.
    coded_modules: std::collections::BTreeSet<String>,
}

impl Work<'_> {
    fn model(&self) -> Result<Clef> {
        self.partial.model(self.files, self.expected, self.options.scheme)
    }

    /// Finds the codes of every product; tokens of the set.
    fn find_codes(
        &mut self,
        reference: &Clef,
        examples: &[Example],
        said: &mut dyn FnMut(&str),
    ) -> Result<usize> {
        let sequences = sequences(reference, examples, "calibrate")?;
        let all: Vec<&ClefSequence> = sequences.iter().collect();
        let read: Vec<bool> = sequences.iter().flat_map(read).collect();
        let batch = reference.pack(&all)?;
        let tokens = batch.sizes.tokens;
        if tokens > MOST_TOKENS {
            let what = "tokens of the calibration set".to_owned();
            return Err(Error::TooLarge { what, limit: MOST_TOKENS as u64, actual: tokens as u64 });
        }
        let blocks = Blocks::of(reference.graph());
        let mut wanted = first_input(reference, &blocks, &batch)?;
        let mut found = wanted.clone();
        let stages = stages::stages(&reference.config().text);
        for layer in 0..blocks.len() {
            let other = replayed(reference, &blocks, layer, &batch, &wanted)?;
            for stage in stages.iter().filter(|s| s.layer == layer) {
                let model = self.model()?;
                let own = replayed(&model, &Blocks::of(model.graph()), layer, &batch, &found)?;
                let input = |all: &BTreeMap<String, Vec<f32>>| {
                    all.get(&stage.input)
                        .cloned()
                        .ok_or_else(|| Error::Internal(format!("the graph has no tensor {}", stage.input)))
                };
                let (own, other) = (input(&own)?, input(&other)?);
                let inputs = Inputs {
                    width: stage.channels.len(),
                    found: own,
                    reference: other,
                    channels: stage.channels.clone(),
                    read: read.clone(),
                };
                self.stage(stage, &inputs, said)?;
            }
            let model = self.model()?;
            let place = format!("layer.{layer}.out");
            let output = |mut all: BTreeMap<String, Vec<f32>>| {
                all.remove(&place).ok_or_else(|| Error::Internal(format!("the graph has no tensor {place}")))
            };
            found = output(replayed(&model, &Blocks::of(model.graph()), layer, &batch, &found)?)?;
            wanted = output(other)?;
            said(&format!("layer {layer}: output {:.5} from the reference's", relative_l2(&found, &wanted)));
        }
        Ok(tokens)
    }

    /// Quantizes the matrices of one input.
    fn stage(&mut self, stage: &Stage, inputs: &Inputs, said: &mut dyn FnMut(&str)) -> Result<()> {
        let matrices: Vec<Matrix> =
            stage.modules.iter().map(|m| self.matrix(m, inputs.width)).collect::<Result<_>>()?;
        if !self.steps.smooth {
            return self.quantize(stage, inputs, &matrices, None);
        }
        let Some(yardstick) = self.yardstick.clone().filter(|_| self.steps.search) else {
            let scales = linear::nearest_products(inputs, &matrices, self.group)?;
            return self.quantize(stage, inputs, &matrices, scales.as_deref());
        };
        let mut best: Option<(f64, usize, Self)> = None;
        let tried = linear::smoothings(inputs, &matrices);
        for (i, scales) in std::iter::once(None).chain(tried.iter().map(Some)).enumerate() {
            let mut with = self.clone();
            with.quantize(stage, inputs, &matrices, scales.map(Vec::as_slice))?;
            let apart = yardstick.apart(with.model()?)?.mean();
            if best.as_ref().is_none_or(|(b, ..)| apart < *b) {
                best = Some((apart, i, with));
            }
        }
        if let Some((apart, i, with)) = best {
            *self = with;
            let how = match i {
                0 => "not smoothed".to_owned(),
                _ => format!("smoothed by {}", linear::ALPHAS[i - 1]),
            };
            said(&format!("{}: {how}, answers {apart:.5} apart", stage.name));
        }
        Ok(())
    }

    /// A matrix of the source.
    fn matrix(&self, module: &str, width: usize) -> Result<Matrix> {
        let original = self.partial.base.0.tensor(&format!("{module}.weight"))?.to_f32();
        let rows = original.len() / width.max(1);
        Ok(Matrix { module: module.to_owned(), rows, weight: original.clone(), original })
    }

    /// Quantizes the matrices of one input with some scales of its channels.
    fn quantize(
        &mut self,
        stage: &Stage,
        inputs: &Inputs,
        matrices: &[Matrix],
        scales: Option<&[f32]>,
    ) -> Result<()> {
        let (mut inputs, mut matrices) = (inputs.clone(), matrices.to_vec());
        if let Some(scales) = scales {
            linear::smooth(&mut inputs, &mut matrices, scales);
            self.fold(&stage.fold, scales)?;
        }
        let coded = linear::quantize(&inputs, &matrices, scales, self.group, self.steps)?;
        for (matrix, coded) in matrices.into_iter().zip(coded) {
            if self.coded_modules.contains(&matrix.module) {
                self.partial.coded.insert(matrix.module.clone(), coded);
            } else if scales.is_some() {
                self.leave(&matrix.module, matrix.weight.clone());
            }
            self.weights.insert(matrix.module, matrix.weight);
        }
        Ok(())
    }

    /// The model with the codes of the scheme without any step.
    fn naive(&self) -> Result<Clef> {
        let mut naive = Partial { changed: BTreeMap::new(), coded: BTreeMap::new(), ..self.partial.clone() };
        for module in &self.coded_modules {
            let view = self.partial.base.0.tensor(&format!("{module}.weight"))?;
            let matrix = self.matrix(module, view.shape.last().copied().unwrap_or(1))?;
            let width = matrix.original.len() / matrix.rows.max(1);
            naive.coded.insert(module.clone(), linear::naive(&matrix, width, self.group));
        }
        naive.model(self.files, self.expected, self.options.scheme)
    }

    /// A matrix as numbers that are not the source's.
    fn leave(&mut self, module: &str, weight: Vec<f32>) {
        self.partial.changed.insert(format!("{module}.weight"), (StoredType::BF16, weight));
    }

    /// Divides what computes an input by the scales of its channels.
    fn fold(&mut self, fold: &Fold, scales: &[f32]) -> Result<()> {
        match fold {
            Fold::Norm { weight, readers } => {
                let mut values = self.partial.values(weight)?;
                // Stored around zero.
                values.iter_mut().zip(scales).for_each(|(w, s)| *w = (1.0 + *w) / s - 1.0);
                self.partial.changed.insert(weight.clone(), (StoredType::F32, values));
                for reader in readers {
                    let mut values = self.partial.values(reader)?;
                    for row in values.chunks_exact_mut(scales.len()) {
                        row.iter_mut().zip(scales).for_each(|(w, s)| *w *= s);
                    }
                    self.partial.changed.insert(reader.clone(), (StoredType::F32, values));
                }
            }
            Fold::GatedNorm(weight) => {
                let mut values = self.partial.values(weight)?;
                values.iter_mut().zip(scales).for_each(|(w, s)| *w /= s);
                self.partial.changed.insert(weight.clone(), (StoredType::F32, values));
            }
            Fold::Rows(module) => {
                if let Some(weight) = self.weights.get_mut(module) {
                    let width = weight.len() / scales.len().max(1);
                    for (row, s) in weight.chunks_exact_mut(width.max(1)).zip(scales) {
                        row.iter_mut().for_each(|w| *w /= s);
                    }
                }
                if let Some(Coded { scales: own, bias, .. }) = self.partial.coded.get_mut(module) {
                    own.iter_mut().zip(scales).for_each(|(w, s)| *w /= s);
                    bias.iter_mut().flatten().zip(scales).for_each(|(b, s)| *b /= s);
                } else if let Some(weight) = self.weights.get(module).cloned() {
                    self.leave(module, weight);
                }
            }
        }
        Ok(())
    }
}

fn engine(model: Clef) -> Result<Engine<CpuBackend, Clef>> {
    let options = EngineOptions { max_tokens: model.longest(), ..EngineOptions::default() };
    Engine::with_model(CpuBackend::new(), model, options, &mut |_, _| {})
}

/// The examples as sequences.
fn sequences(model: &Clef, examples: &[Example], set: &str) -> Result<Vec<ClefSequence>> {
    let longest = model.longest();
    let one = |e: &Example| {
        Subject::sequence(model, &e.request, longest)
            .map_err(|error| Error::invalid(set, format!("{}: {error}", e.id)))
    };
    examples.iter().map(one).collect()
}

/// Which tokens the head reads by themselves: those of questions and options, and the last.
fn read(sequence: &ClefSequence) -> Vec<bool> {
    let mut read = vec![false; Clef::tokens(sequence)];
    Clef::answer_rows(sequence).into_iter().for_each(|row| read[row] = true);
    if let Some(last) = read.last_mut() {
        *last = true;
    }
    read
}

/// The input of the first layer, which is the same in both models.
fn first_input(model: &Clef, blocks: &Blocks, batch: &Batch) -> Result<Vec<f32>> {
    let Some((_, input, _)) = blocks.get(0) else {
        return Err(Error::Internal("the graph has no layers".to_owned()));
    };
    let name = model.graph().tensor(input).name.clone();
    let mut taps = Taps::named(model.graph(), &[&name])?;
    pollster::block_on(engine(model.clone())?.forward(batch, &mut taps))?;
    taps.get(input).map(<[f32]>::to_vec).ok_or_else(|| Error::Internal(format!("{name} was not tapped")))
}

/// The tensors of a layer on an input, by name.
fn replayed(
    model: &Clef,
    blocks: &Blocks,
    layer: usize,
    batch: &Batch,
    input: &[f32],
) -> Result<BTreeMap<String, Vec<f32>>> {
    let graph = model.graph();
    let made = blocks.replay(layer, (graph, model.weights()), batch, input)?;
    let made = made.ok_or_else(|| Error::Internal(format!("layer {layer} cannot be run alone")))?;
    Ok(made.into_iter().map(|(id, values)| (graph.tensor(id).name.clone(), values)).collect())
}
