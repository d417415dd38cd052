//! Logits → answers.

use super::confidence::{first_largest, of_choice, of_score};
use super::{Answer, DecideReceipt, Decision, StateTokens};
use crate::request::quote::step;
use crate::request::{Confidence, Criteria, DecideRequest, Question, StateTruncation};
use crate::tokens::clef::Record;
use crate::{Error, Result};

/// Turns the logits of a request's options into its answers. `logits` has one row a question, in the order of
/// [`crate::tokens::clef::QuestionSlots::options`]; the token counts of the receipt are filled here.
///
/// Probabilities are the softmax of a question's own logits, in f64, without any temperature.
///
/// # Errors
/// [`Error::Checkpoint`] naming the model for a logit that is not finite, [`Error::Internal`] for logits that do not
/// belong to the request.
pub fn decide(
    request: &DecideRequest,
    record: &Record,
    logits: &[Vec<f32>],
    mut receipt: DecideReceipt,
) -> Result<Decision> {
    if logits.len() != request.questions.len() {
        let message = format!("logits of {} questions, {} asked", logits.len(), request.questions.len());
        return Err(Error::Internal(message));
    }
    let mut answers = Vec::with_capacity(logits.len());
    for (question, row) in request.questions.iter().zip(logits) {
        if row.len() != question.option_count() {
            let message = format!("{} logits for {} options", row.len(), question.option_count());
            return Err(Error::Internal(message));
        }
        if let Some(logit) = row.iter().find(|logit| !logit.is_finite()) {
            // Every stored value was checked to be finite, so it is their products that overflow.
            let field = step(&question.id);
            let message =
                format!("a logit of questions.{field} is {logit}; the model's values overflow on this input");
            return Err(Error::checkpoint(format!("model {}", receipt.model), message));
        }
        answers.push((question.id.clone(), answer(question, row, request.confidence)));
    }
    receipt.tokens = record.ids.len() as u64;
    receipt.dropped_state_tokens = record.dropped_state_tokens as u64;
    let used = u64::from(record.state.end - record.state.start);
    let tokens = StateTokens { found: used + receipt.dropped_state_tokens, used };
    let truncation = (request.truncation == StateTruncation::End).then_some(tokens);
    Ok(Decision { answers, truncation, receipt })
}

fn answer(question: &Question, logits: &[f32], confidence: Confidence) -> Answer {
    let read = softmax(logits);
    let mut probabilities = vec![0.0; read.len()];
    for (place, p) in question.reading_order().into_iter().zip(read) {
        probabilities[place] = p;
    }
    match &question.criteria {
        Criteria::Noul { .. } => Answer::Noul { probability: probabilities[0] },
        Criteria::Choice(options) => {
            let ids = options.iter().map(|(id, _)| id.clone());
            Answer::choice(ids.zip(probabilities).collect(), confidence)
        }
        Criteria::Score(levels) => Answer::Score {
            score: probabilities.iter().enumerate().map(|(level, p)| level as f64 * p).sum(),
            confidence: of_score(confidence, &probabilities),
            legend: levels.clone(),
            probabilities,
        },
    }
}

impl Answer {
    /// The answer to a choice: ids and probabilities of the options in request order, which sum to 1.
    pub fn choice(probabilities: Vec<(String, f64)>, confidence: Confidence) -> Self {
        let values: Vec<f64> = probabilities.iter().map(|(_, p)| *p).collect();
        Self::Choice {
            choice: first_largest(&values),
            confidence: of_choice(confidence, &values),
            probabilities,
        }
    }
}

/// Softmax of finite logits in f64, the same on every platform.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exponentials: Vec<f64> =
        logits.iter().map(|logit| libm::exp(f64::from(*logit) - f64::from(largest))).collect();
    let sum: f64 = exponentials.iter().sum();
    exponentials.into_iter().map(|e| e / sum).collect()
}
