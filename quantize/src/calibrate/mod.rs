//! Calibration: codes that keep the decisions, found from what the model sees on examples.
//!
//! Layer by layer in the order of the data, each product with the activations of the layers quantized before it. For small
//! models: all tokens of the calibration set go through the CPU in one batch and stay in memory.
//!
//! ```text
//! calibration set ─► inputs of each product, in both models ─► smooth, target, clip, gptq, refit, bias ─► codes
//! selection set   ─► products that are better left alone (rescue)
//! report set      ─► agreement and distances, before and after, never looked at before
//! ```

mod algebra;
mod linear;
mod partial;
mod sets;
mod stages;
mod steps;

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
use dikast_eval::{Blocks, Comparison, Example, Limits, Subject, evaluate, summarize};
use serde_json::json;

use crate::convert::{Job, Notes, Options, check_sums};
use crate::family;
use crate::plan::{Plan, Scheme};
use crate::report::Report;
use crate::source::{Checkpoint, Coded};
use linear::{Inputs, Matrix};
use partial::Partial;
use stages::{Fold, Stage};
pub use steps::Steps;

/// Version of the recipe.
const VERSION: u32 = 1;
/// Most tokens of a calibration set: their activations are kept in memory.
const MOST_TOKENS: usize = 1 << 16;

/// The examples of a calibration.
#[derive(Debug, Clone, Copy)]
pub struct Sets<'a> {
    /// From which codes are found.
    pub calibrate: &'a [Example],
    /// By which products are chosen that stay as they were; needed only for that.
    pub select: &'a [Example],
    /// On which the result is measured; may be empty.
    pub report: &'a [Example],
}

/// What was measured on the report set, against the unquantized model.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The same scheme without any step.
    pub naive: Comparison,
    /// With the steps.
    pub calibrated: Comparison,
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
    if steps.rescue > 0 && sets.select.is_empty() {
        return Err(Error::invalid("select", "no examples found, but rescue needs some"));
    }
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
    let mut work = Work {
        files: &files,
        expected: &expected,
        options,
        group,
        steps,
        partial: Partial { base, changed: BTreeMap::new(), coded: BTreeMap::new() },
        weights: BTreeMap::new(),
        coded_modules: naive_plan.items().filter_map(|i| i.int8().map(|(m, _)| m.to_owned())).collect(),
    };
    let tokens = work.find_codes(&reference, sets.calibrate, said)?;
    let rescued = work.rescue(&reference, sets.select, said)?;
    let measured = match sets.report {
        [] => None,
        report => Some(work.measure(&reference, report, said)?),
    };
    let recipe = Recipe { name: steps.to_string(), version: VERSION };
    let plan = Plan::new(&expected, options.scheme, options.shard_bytes, &work.partial)?;
    let notes = notes(steps, sets, tokens, &rescued, measured.as_ref());
    let job = Job { source, target, files: &files, expected: &expected, weights: &weights, options };
    let report = job.write(&plan, &recipe, &work.partial, None, Some(&notes), &mut |_, _| {})?;
    Ok(Calibrated { report, measured, rescued, tokens })
}

struct Work<'a> {
    files: &'a ModelFiles,
    expected: &'a dikast_core::checkpoint::Expected,
    options: &'a Options,
    group: Option<Group>,
    steps: Steps,
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
                self.stage(stage, own, other)?;
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
    fn stage(&mut self, stage: &Stage, found: Vec<f32>, reference: Vec<f32>) -> Result<()> {
        let width = stage.channels.len();
        let mut matrices = Vec::with_capacity(stage.modules.len());
        for module in &stage.modules {
            let name = format!("{module}.weight");
            let original = self.partial.base.0.tensor(&name)?.to_f32();
            let rows = original.len() / width.max(1);
            matrices.push(Matrix { module: module.clone(), rows, weight: original.clone(), original });
        }
        let mut inputs = Inputs { width, found, reference, channels: stage.channels.clone() };
        let scales = match self.steps.smooth {
            true => linear::smooth(&mut inputs, &mut matrices, self.group)?,
            false => None,
        };
        if let Some(scales) = &scales {
            self.fold(&stage.fold, scales)?;
        }
        let coded = linear::quantize(&inputs, &matrices, scales.as_deref(), self.group, self.steps)?;
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

    /// Leaves the products as they were whose codes cost the logits of the selection set most; their names.
    fn rescue(
        &mut self,
        reference: &Clef,
        examples: &[Example],
        said: &mut dyn FnMut(&str),
    ) -> Result<Vec<String>> {
        if self.steps.rescue == 0 {
            return Ok(Vec::new());
        }
        let sequences = sequences(reference, examples, "select")?;
        let wanted = logits(reference.clone(), &sequences)?;
        let apart = |model: Clef| -> Result<f64> {
            let found = logits(model, &sequences)?;
            let sum: f64 = found.iter().zip(&wanted).map(|(a, b)| relative_l2(a, b)).sum();
            Ok(sum / sequences.len().max(1) as f64)
        };
        let with_all = apart(self.model()?)?;
        let mut gains = Vec::new();
        for stage in stages::stages(&reference.config().text) {
            let before = self.partial.clone();
            if !self.uncode(&stage) {
                continue;
            }
            gains.push((with_all - apart(self.model()?)?, stage));
            self.partial = before;
        }
        gains.sort_by(|a, b| b.0.total_cmp(&a.0));
        let mut rescued = Vec::new();
        // What does not help is no rescue.
        for (gain, stage) in gains.into_iter().filter(|(gain, _)| *gain > 0.0).take(self.steps.rescue) {
            self.uncode(&stage);
            said(&format!("{} stays as it was: logits {gain:.5} nearer alone", stage.name));
            rescued.push(stage.name);
        }
        Ok(rescued)
    }

    /// Makes the codes of a product numbers again; whether there were any.
    fn uncode(&mut self, stage: &Stage) -> bool {
        let mut any = false;
        for module in &stage.modules {
            if self.partial.coded.remove(module).is_some() {
                any = true;
                if let Some(weight) = self.weights.get(module).cloned() {
                    self.leave(module, weight);
                }
            }
        }
        any
    }

    /// Both ways of quantizing against the unquantized model.
    fn measure(&self, reference: &Clef, report: &[Example], said: &mut dyn FnMut(&str)) -> Result<Measured> {
        said("measuring on the report set");
        let mut naive = Partial { changed: BTreeMap::new(), coded: BTreeMap::new(), ..self.partial.clone() };
        for module in &self.coded_modules {
            let name = format!("{module}.weight");
            let view = self.partial.base.0.tensor(&name)?;
            let width = view.shape.last().copied().unwrap_or(1);
            let original = view.to_f32();
            let rows = original.len() / width.max(1);
            let matrix = Matrix { module: module.clone(), rows, weight: original.clone(), original };
            let inputs =
                Inputs { width, found: Vec::new(), reference: Vec::new(), channels: (0..width).collect() };
            let coded = linear::quantize(&inputs, &[matrix], None, self.group, Steps::NONE)?;
            naive.coded.extend(coded.into_iter().map(|c| (module.clone(), c)));
        }
        let naive = naive.model(self.files, self.expected, self.options.scheme)?;
        Ok(Measured {
            naive: compared(naive, reference, report)?,
            calibrated: compared(self.model()?, reference, report)?,
        })
    }
}

/// A model against the unquantized one.
fn compared(model: Clef, reference: &Clef, examples: &[Example]) -> Result<Comparison> {
    let (mut own, mut other) = (engine(model)?, engine(reference.clone())?);
    let limits = Limits { drift_examples: 0, timed_examples: 0, ..Limits::default() };
    let found = pollster::block_on(evaluate(&mut own, Some(&mut other), examples, limits, &mut |_, _| {}))?;
    if let Some(skipped) = found.skipped.first() {
        return Err(Error::invalid("report", format!("{}: {}", skipped.id, skipped.reason)));
    }
    summarize(examples, &found, None)
        .total
        .comparison
        .ok_or_else(|| Error::Internal("nothing was compared".to_owned()))
}

fn engine(model: Clef) -> Result<Engine<CpuBackend, Clef>> {
    let options = EngineOptions { max_tokens: model.longest(), ..EngineOptions::default() };
    Engine::with_model(CpuBackend::new(), model, options, &mut |_, _| {})
}

fn logits(model: Clef, sequences: &[ClefSequence]) -> Result<Vec<Vec<f32>>> {
    let all: Vec<&ClefSequence> = sequences.iter().collect();
    pollster::block_on(engine(model)?.logits(&all))
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

/// What the new folder says of its calibration.
fn notes(
    steps: Steps,
    sets: Sets<'_>,
    tokens: usize,
    rescued: &[String],
    measured: Option<&Measured>,
) -> Notes {
    let set = |examples: &[Example]| json!({"examples": examples.len(), "digest": sets::digest(examples).to_string()});
    let mut provenance = json!({
        "steps": steps.to_string(),
        "version": VERSION,
        "tokens": tokens,
        "calibrate": set(sets.calibrate),
        "select": set(sets.select),
        "report": set(sets.report),
        "rescued": rescued,
    });
    let mut card = format!(
        "Calibrated with the steps `{steps}` on {} examples ({tokens} tokens).\n",
        sets.calibrate.len()
    );
    if !rescued.is_empty() {
        card.push_str(&format!(
            "Left as they were, chosen on {} others: {}.\n",
            sets.select.len(),
            rescued.join(", ")
        ));
    }
    if let Some(measured) = measured {
        provenance["measured"] = json!({"naive": measured.naive, "calibrated": measured.calibrated});
        card.push_str(&format!(
            "\nMeasured on {} held-out examples against the unquantized model, the same scheme without calibration beside it:\n\n{}",
            sets.report.len(),
            measured.table()
        ));
    }
    Notes { provenance, card }
}

impl Measured {
    /// As a table in Markdown.
    pub fn table(&self) -> String {
        let mut out = String::from("| | not calibrated | calibrated | change |\n| --- | --- | --- | --- |\n");
        let agreement = |c: &Comparison| format!("{}/{}", c.agreement.agreeing, c.agreement.of);
        let change = self.calibrated.agreement.agreeing as i64 - self.naive.agreement.agreeing as i64;
        out.push_str(&format!(
            "| decisions that agree | {} | {} | {change:+} |\n",
            agreement(&self.naive),
            agreement(&self.calibrated)
        ));
        for (name, f) in [
            (
                "mean relative logit L2",
                (|c| c.logit_l2) as fn(&Comparison) -> Option<dikast_eval::Difference>,
            ),
            ("mean relative hidden L2", |c| c.hidden_l2),
        ] {
            if let (Some(a), Some(b)) = (f(&self.naive), f(&self.calibrated)) {
                let change = 100.0 * (b.mean / a.mean - 1.0);
                out.push_str(&format!("| {name} | {:.5} | {:.5} | {change:+.1} % |\n", a.mean, b.mean));
            }
        }
        out
    }
}
