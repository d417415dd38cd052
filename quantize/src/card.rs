//! The new folder's model card: what it is, what was measured, how to make it again.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dikast_core::checkpoint::ModelFiles;

use crate::convert::Options;
use crate::plan::{Coding, Plan, Scheme};
use crate::report::MatrixError;

/// Its name.
pub(crate) const CARD: &str = "MODEL_CARD.md";

/// The card. `more` is what calibration measured.
pub(crate) fn card(
    source: &ModelFiles,
    options: &Options,
    plan: &Plan,
    (before, after): (u64, u64),
    errors: &[MatrixError],
    more: Option<&str>,
) -> String {
    let mut out = String::new();
    let name = source.name();
    let scheme = options.scheme;
    let _ = writeln!(out, "# {name}, {}\n", scheme.name());
    let _ = writeln!(
        out,
        "Made from `{name}` by `dikast quantize` {}: {}. Everything else is as it was.\n",
        env!("CARGO_PKG_VERSION"),
        what(scheme)
    );
    let _ = writeln!(out, "| | before | after |\n| --- | --- | --- |");
    let _ = writeln!(
        out,
        "| weights, bytes | {before} | {after} ({:.1} %) |",
        100.0 * after as f64 / before.max(1) as f64
    );
    let _ = writeln!(out, "| matrices as codes | | {} |", plan.quantized());
    let _ = writeln!(out, "| numbers of the model | {0} | {0} |\n", plan.parameters());
    if !options.keep.is_empty() {
        let kept = options.keep.iter().map(|p| format!("`{}`", p.as_str())).collect::<Vec<_>>().join(", ");
        let _ = writeln!(out, "Left as they were on request: {kept}.\n");
    }
    kinds(&mut out, errors);
    match more {
        Some(more) => out.push_str(more),
        None => out.push_str(
            "No decisions were measured here. `dikast eval THIS --reference SOURCE --data FILE` does: agreement, drift,\n\
             accuracy and calibration.\n",
        ),
    }
    let _ = writeln!(
        out,
        "\nLicence, intended use and limits are those of `{name}`; its own card says more. `provenance.json` names source and\n\
         recipe, `SHA256SUMS` every file."
    );
    out
}

fn what(scheme: Scheme) -> String {
    match scheme {
        Scheme::Keep => "nothing is quantized".to_owned(),
        Scheme::Int8 => "the large matrices are INT8 codes with one F32 scale a row; activations are quantized per token".to_owned(),
        Scheme::Int8ConvRot { group } => format!(
            "the large matrices are INT8 codes with one F32 scale a row, rotated in groups of {group} (ConvRot); activations are\nrotated and quantized per token"
        ),
        Scheme::Fp8W8A8 => "the large matrices are E4M3 codes with one BF16 scale a row (compressed-tensors FP8_DYNAMIC); activations\nare quantized per token".to_owned(),
    }
}

/// The errors by kind of matrix.
fn kinds(out: &mut String, errors: &[MatrixError]) {
    if errors.is_empty() {
        return;
    }
    let mut kinds: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for e in errors {
        kinds.entry(e.module.rsplit('.').next().unwrap_or(&e.module)).or_default().push(e.relative_l2);
    }
    let _ = writeln!(
        out,
        "Measured while writing, the relative error `‖Ŵ − W‖₂ / ‖W‖₂` of the codes:\n\n| matrix | count | mean | largest |\n| --- | --- | --- | --- |"
    );
    for (kind, values) in kinds {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let largest = values.iter().copied().fold(0.0, f64::max);
        let _ = writeln!(out, "| {kind} | {} | {mean:.5} | {largest:.5} |", values.len());
    }
    out.push('\n');
}

/// Whether anything of a plan is coded as FP8.
pub(crate) fn has_fp8(plan: &Plan) -> bool {
    plan.items().any(|i| i.coding == Coding::Fp8)
}
