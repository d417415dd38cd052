//! What two backends may differ by.

use dikast_core::graph::{DType, Graph, Step, TensorId};
use serde::Serialize;

/// How far two runs of the same step may be apart.
///
/// Both runs carry the differences of all steps before, so these are bounds for a whole forward pass at a step, not for
/// the step alone.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Tolerance {
    /// Largest relative Euclidean distance of a tensor of reals.
    pub real: f64,
    /// Largest share of codes that differ: a value next to a rounding boundary may fall to either side.
    pub codes: f64,
}

impl Tolerance {
    /// Both backends compute in f32.
    pub const F32: Self = Self { real: 1e-3, codes: 0.02 };
    /// One of them multiplies in f16 or on tensor cores with split operands.
    pub const F16: Self = Self { real: 5e-2, codes: 0.25 };
}

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// Rows that were moved from where both have the same bits: not one bit may differ.
    Exact,
    /// Codes: the share that differs.
    Codes,
    /// Reals: the relative Euclidean distance.
    Real,
}

impl Rule {
    /// Name for a table.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Codes => "codes",
            Self::Real => "real",
        }
    }

    /// What is allowed.
    pub fn allowed(self, tolerance: &Tolerance) -> f64 {
        match self {
            Self::Exact => 0.0,
            Self::Codes => tolerance.codes,
            Self::Real => tolerance.real,
        }
    }
}

/// The rule of every tensor that a step writes, by tensor index.
pub(crate) fn rules(graph: &Graph) -> Vec<Option<Rule>> {
    let mut rules = vec![None; graph.tensors().len()];
    let mut exact: Vec<bool> = vec![false; graph.tensors().len()];
    for input in graph.inputs() {
        exact[input.tensor.index()] = true;
    }
    for step in graph.steps() {
        let moved = moves(step) && step.reads().into_iter().all(|id| exact[id.index()]);
        for id in step.outputs() {
            exact[id.index()] = moved;
            rules[id.index()] = Some(rule(graph, id, moved));
        }
    }
    rules
}

fn rule(graph: &Graph, id: TensorId, moved: bool) -> Rule {
    match graph.tensor(id).dtype {
        _ if moved => Rule::Exact,
        DType::F8E4M3 | DType::I8 => Rule::Codes,
        DType::F32 | DType::I32 => Rule::Real,
    }
}

/// Whether a step only moves rows.
fn moves(step: &Step) -> bool {
    match step {
        Step::Embed { segments, .. } => segments.is_none(),
        Step::SelectRows { .. }
        | Step::Concat { .. }
        | Step::MergeRows { .. }
        | Step::ReplaceRows { .. } => true,
        _ => false,
    }
}
