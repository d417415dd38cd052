//! What an evaluation found, as JSON, as a table and as one page.

mod html;
mod predictions;
mod summary;
mod svg;
mod text;

pub use predictions::predictions;
pub use summary::summarize;

use serde::Serialize;

use crate::drift::BlockDrift;
use crate::metrics::Bin;
use crate::noise::NoiseRun;

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    /// Version of this form.
    pub format_version: u32,
    /// The model in question.
    pub candidate: ModelFacts,
    /// The model that it was made from.
    pub reference: Option<ModelFacts>,
    /// All examples together.
    pub total: SetReport,
    /// Each set, in the order in which they first stand in the data.
    pub sets: Vec<SetReport>,
    /// The drift of each block.
    pub blocks: Vec<BlockDrift>,
    /// Examples over which that is a mean.
    pub drift_examples: usize,
    /// Agreement by the reference's margin.
    pub margins: Vec<MarginBin>,
    /// Decisions that are not the reference's.
    pub flips: Vec<Flip>,
    /// The reference against itself.
    pub noise: Option<NoiseFloor>,
    /// Examples that were left out.
    pub skipped: Vec<Skipped>,
}

/// A model, and where it ran.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ModelFacts {
    /// Its name.
    pub name: String,
    /// Its family.
    pub family: String,
    /// How its large matrices are stored.
    pub format: String,
    /// SHA-256 of the weights up to 1 GiB.
    pub digest: Option<String>,
    /// Bytes of all weights as stored.
    pub weight_bytes: u64,
    /// Bytes on the device with room for a full batch.
    pub device_bytes: u64,
    /// Bytes of tables that stay on the host.
    pub host_bytes: u64,
    /// Backend.
    pub backend: String,
    /// Device.
    pub device: String,
    /// Median milliseconds of an example alone, heads included.
    pub median_ms: Option<f64>,
}

/// One set of examples.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SetReport {
    /// Its name; `all` for all of them.
    pub name: String,
    /// Examples run.
    pub examples: usize,
    /// Questions asked.
    pub questions: usize,
    /// Against the reference.
    pub comparison: Option<Comparison>,
    /// Against what is right, of the candidate.
    pub scores: Option<Scores>,
    /// Against what is right, of the reference.
    pub reference_scores: Option<Scores>,
    /// The two on the same questions.
    pub paired: Option<Paired>,
}

/// The candidate against the reference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Comparison {
    /// Decisions that are the same.
    pub agreement: Agreement,
    /// Questions with the same largest logit.
    pub top1: Agreement,
    /// Relative distance of an example's logits.
    pub logit_l2: Option<Difference>,
    /// Relative distance of an example's final hidden states, rows of questions and options.
    pub hidden_l2: Option<Difference>,
}

/// How many are the same.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Agreement {
    /// The same.
    pub agreeing: u64,
    /// Compared.
    pub of: u64,
    /// Wilson's 95 % interval of the share.
    pub interval: Option<[f64; 2]>,
}

/// Distances of all examples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Difference {
    /// Their mean.
    pub mean: f64,
    /// Their median.
    pub median: f64,
    /// The largest.
    pub largest: f64,
}

/// A figure with its 95 % bootstrap interval over examples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Interval {
    /// The figure.
    pub value: f64,
    /// The interval; `None` with fewer than two examples.
    pub interval: Option<[f64; 2]>,
}

/// Answers against what is right.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Scores {
    /// Questions of which the right answer is known.
    pub questions: usize,
    /// Of those, answered right; where labels do not compete, all labels of the text.
    pub accuracy: Interval,
    /// Mean F1 of the classes.
    pub macro_f1: Interval,
    /// Are probabilities what they say?
    pub calibration: Calibration,
}

/// Calibration of the decisions.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Calibration {
    /// Expected calibration error over ten bins of equal width.
    pub ece: f64,
    /// Mean Brier score of a question, `Σ (p − y)²` over its options.
    pub brier: f64,
    /// The bins that hold decisions.
    pub bins: Vec<Bin>,
}

/// Two models on the same questions: differences are the candidate's less the reference's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Paired {
    /// Difference in accuracy, with its paired bootstrap interval.
    pub accuracy: Interval,
    /// Difference in macro-F1, with its paired bootstrap interval.
    pub macro_f1: Interval,
    /// Questions that only the candidate has right.
    pub only_candidate: u64,
    /// Questions that only the reference has right.
    pub only_reference: u64,
    /// McNemar's exact test of those two.
    pub mcnemar_p: f64,
}

/// Decisions by how sure the reference was.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MarginBin {
    /// Smallest margin.
    pub from: f64,
    /// Largest margin, in the bin only at 1.
    pub to: f64,
    /// Decisions that are the same.
    pub agreeing: u64,
    /// Decisions.
    pub of: u64,
}

/// A decision that is not the reference's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Flip {
    /// The example.
    pub id: String,
    /// Its set.
    pub set: String,
    /// The question.
    pub question: String,
    /// What the reference chose.
    pub reference: Vec<String>,
    /// What the candidate chose.
    pub candidate: Vec<String>,
    /// The reference's margin.
    pub margin: f64,
}

/// The reference against itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NoiseFloor {
    /// Examples compared, the first ones.
    pub examples: usize,
    /// Each other way of running them.
    pub runs: Vec<NoiseRun>,
}

/// An example that was left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// The example.
    pub id: String,
    /// Its set.
    pub set: String,
    /// Why.
    pub reason: String,
}

impl Evaluation {
    /// As JSON, indented, with a line end.
    ///
    /// # Errors
    /// [`dikast_core::Error::Internal`] when it cannot be written.
    pub fn to_json(&self) -> dikast_core::Result<String> {
        let text =
            serde_json::to_string_pretty(self).map_err(|e| dikast_core::Error::Internal(e.to_string()))?;
        Ok(text + "\n")
    }

    /// As one self-contained page.
    pub fn to_html(&self) -> String {
        html::page(self)
    }

    /// As tables for a terminal.
    pub fn to_text(&self) -> String {
        text::tables(self)
    }
}
