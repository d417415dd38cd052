//! Does a checkpoint decide as another one does, and are its decisions right?
//!
//! [`read`] takes files of labelled or unlabelled examples, [`evaluate`] runs a model on them beside the one that it was
//! made from, and [`Evaluation`] holds what was found: decisions that agree, relative distances of logits and hidden
//! states, drift block by block, accuracy with paired bootstrap intervals, calibration, and what the reference differs by
//! from itself. It is written as JSON, as a table and as one page.
//!
//! ```text
//! files ─► read ─► examples ─┬─► reference, with taps ─┐
//!                            └─► candidate, with taps ─┴─► outcomes ─► Evaluation ─► results.json, report.html
//!                                                               └────► predictions.jsonl
//! ```

mod data;
mod drift;
mod evaluate;
pub mod metrics;
mod noise;
mod outcome;
mod report;
mod subject;

pub use data::{Example, Format, Gold, Question, ReadOptions, Request, Rule, read};
pub use drift::{BlockDrift, Blocks};
pub use evaluate::{Evaluated, Limits, Side, evaluate, logits_of};
pub use noise::{NoiseRun, batch_orders};
pub use outcome::{Answered, Outcome};
pub use report::{
    Agreement, Calibration, Comparison, Difference, Evaluation, Flip, Interval, MarginBin, ModelFacts,
    NoiseFloor, Paired, Scores, SetReport, Skipped, predictions, summarize,
};
pub use subject::Subject;
