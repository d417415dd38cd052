//! Every answer with its whole distribution, a line an example.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::data::{Example, Question};
use crate::outcome::{Answered, Outcome};

/// `predictions.jsonl`: id, set, tokens, distances, and for each question the options, what is right, and logits,
/// probabilities and choice of both models.
pub fn predictions(examples: &[Example], outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    for outcome in outcomes {
        let example = &examples[outcome.example];
        let mut questions = Map::new();
        for (i, question) in example.questions.iter().enumerate() {
            let mut entry = Map::new();
            entry.insert("options".to_owned(), json!(question.options));
            if let Some(gold) = &question.gold {
                entry.insert("expected".to_owned(), json!(names(question, &gold.options())));
            }
            let reference = outcome.reference.as_ref().and_then(|r| r.get(i));
            for (side, answered) in [("candidate", outcome.candidate.get(i)), ("reference", reference)] {
                if let Some(answered) = answered {
                    entry.insert(side.to_owned(), distribution(question, answered));
                }
            }
            questions.insert(question.name.clone(), Value::Object(entry));
        }
        let line = json!({
            "id": example.id,
            "set": example.set,
            "tokens": outcome.tokens,
            "logit_l2": outcome.logit_l2,
            "hidden_l2": outcome.hidden_l2,
            "questions": questions,
        });
        let _ = writeln!(out, "{line}");
    }
    out
}

fn distribution(question: &Question, answered: &Answered) -> Value {
    // The shortest decimals that read back as the same f32.
    let logits: Vec<Value> = answered.logits.iter().map(|l| shortest(*l)).collect();
    json!({
        "chosen": names(question, &answered.chosen),
        "probabilities": answered.probabilities,
        "logits": logits,
    })
}

fn shortest(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, Value::from)
}

/// The ids of some options.
pub(super) fn names(question: &Question, options: &[usize]) -> Vec<String> {
    options.iter().filter_map(|o| question.options.get(*o)).cloned().collect()
}
