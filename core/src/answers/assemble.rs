//! The logits of a request's sequences → its answer.

use super::probabilities::{sigmoid, softmax};
use super::{Classification, Receipt, ScoredLabel};
use crate::request::{ClassifyRequest, Mode};
use crate::tokens::gliclass::Prepared;
use crate::{Error, Result};

/// Joins the logits of all sequences, one row for each of [`Prepared::sequences`].
///
/// Each window of text is scored over all labels; of several windows a label keeps its best score, and competing
/// labels are divided by the sum of their best scores. The token counts and the cut labels of the receipt are filled
/// here.
///
/// # Errors
/// [`Error::Checkpoint`] naming the model for a logit that is not finite, [`Error::Internal`] for logits that do not
/// belong to the sequences.
pub fn assemble(
    request: &ClassifyRequest,
    prepared: &Prepared,
    logits: &[Vec<f32>],
    mut receipt: Receipt,
) -> Result<Classification> {
    let windows = join_groups(request.labels.len(), prepared, logits)?;
    if let Some((i, logit)) = windows.iter().find_map(|w| w.iter().enumerate().find(|(_, l)| !l.is_finite()))
    {
        // Every stored value was checked to be finite, so it is their products that overflow.
        let message =
            format!("the logit of labels[{i}] is {logit}; the model's values overflow on this input");
        return Err(Error::checkpoint(format!("model {}", receipt.model), message));
    }
    let mut best = vec![0.0_f32; request.labels.len()];
    for window in &windows {
        let scores = match request.mode {
            Mode::MultiLabel => window.iter().copied().map(sigmoid).collect(),
            Mode::SingleLabel => softmax(window),
        };
        for (best, score) in best.iter_mut().zip(scores) {
            *best = best.max(score);
        }
    }
    if request.mode == Mode::SingleLabel && request.chunking.is_some() {
        let sum: f64 = best.iter().copied().map(f64::from).sum();
        best.iter_mut().for_each(|score| *score = (f64::from(*score) / sum) as f32);
    }
    let one_window = match &windows[..] {
        [window] => Some(window),
        _ => None,
    };
    let scores = request.labels.names().iter().zip(best).enumerate();
    receipt.tokens = prepared.tokens;
    receipt.dropped_text_tokens = prepared.dropped_text_tokens;
    receipt.cut_labels.clone_from(&prepared.cut_labels);
    Ok(Classification {
        scores: scores
            .map(|(i, (label, score))| ScoredLabel {
                label: label.clone(),
                score,
                logit: one_window.map(|window| window[i]),
            })
            .collect(),
        labels: request.labels.clone(),
        mode: request.mode,
        threshold: request.threshold,
        chunked: request.chunking.is_some(),
        receipt,
    })
}

/// One row of logits over all labels for each window, checked to be complete.
fn join_groups(labels: usize, prepared: &Prepared, logits: &[Vec<f32>]) -> Result<Vec<Vec<f32>>> {
    let fault = |message: String| Err(Error::Internal(message));
    let groups = &prepared.groups;
    if logits.len() != prepared.sequences.len() || logits.len() != prepared.windows * groups.len() {
        return fault(format!("logits of {} sequences, {} prepared", logits.len(), prepared.sequences.len()));
    }
    if groups.is_empty() || groups.iter().map(|group| group.len()).sum::<usize>() != labels {
        return fault(format!("label groups {groups:?} do not cover {labels} labels"));
    }
    let mut windows = Vec::with_capacity(prepared.windows);
    for rows in logits.chunks_exact(groups.len()) {
        let mut window = Vec::with_capacity(labels);
        for (group, row) in groups.iter().zip(rows) {
            // A model with a fixed number of slots has more logits than labels.
            let Some(row) = row.get(..group.len()) else {
                return fault(format!("{} logits for {} labels", row.len(), group.len()));
            };
            window.extend_from_slice(row);
        }
        windows.push(window);
    }
    Ok(windows)
}
