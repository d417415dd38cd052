//! What an evaluation needs of a model family.

use dikast_core::engine::{ClefSequence, Model};
use dikast_core::media::MediaLimits;
use dikast_core::models::clef::Clef;
use dikast_core::models::gliclass::GliClass;
use dikast_core::tokens::gliclass::prepare;
use dikast_core::tokens::{Sequence, Span};
use dikast_core::{Error, Result};

use crate::data::{Question, Request};

/// A model that can be evaluated.
pub trait Subject: Model<Sequence: PartialEq> {
    /// Its family, for messages.
    const FAMILY: &'static str;
    /// The tensor of the final hidden states, `[tokens, width]`.
    const HIDDEN: &'static str;

    /// Its name.
    fn name(&self) -> &str;

    /// How its large matrices are stored.
    fn format(&self) -> String;

    /// Most tokens of a sequence unless somebody says less.
    fn longest(&self) -> usize;

    /// A request as one sequence.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a request to the other family or one that is not valid, [`Error::TooLarge`].
    fn sequence(&self, request: &Request, max_tokens: usize) -> Result<Self::Sequence>;

    /// Tokens of a sequence.
    fn tokens(sequence: &Self::Sequence) -> usize;

    /// The rows that the head reads of questions and options, each once and in order.
    fn answer_rows(sequence: &Self::Sequence) -> Vec<usize>;

    /// A sequence's logits, one row a question, options in request order.
    ///
    /// # Errors
    /// [`Error::Internal`] for logits that do not belong to the questions.
    fn by_question(sequence: &Self::Sequence, flat: &[f32], questions: &[Question]) -> Result<Vec<Vec<f32>>>;
}

impl Subject for GliClass {
    const FAMILY: &'static str = "GLiClass";
    const HIDDEN: &'static str = "encoder";

    fn name(&self) -> &str {
        self.name()
    }

    fn format(&self) -> String {
        self.format()
    }

    fn longest(&self) -> usize {
        1024
    }

    fn sequence(&self, request: &Request, max_tokens: usize) -> Result<Sequence> {
        let Request::Classify(request) = request else {
            return Err(other("typed questions", Self::FAMILY, "texts with labels"));
        };
        let mut prepared = prepare(self.config(), self.tokenizer(), request, max_tokens)?;
        match (prepared.sequences.pop(), prepared.sequences.is_empty()) {
            (Some(sequence), true) => Ok(sequence),
            _ => Err(Error::invalid("chunking", "several sequences, which have no single logit a label")),
        }
    }

    fn tokens(sequence: &Sequence) -> usize {
        sequence.ids.len()
    }

    fn answer_rows(sequence: &Sequence) -> Vec<usize> {
        rows(sequence.classes.iter().copied())
    }

    fn by_question(_: &Sequence, flat: &[f32], questions: &[Question]) -> Result<Vec<Vec<f32>>> {
        match questions {
            // A model with a fixed number of classes gives more logits than there are labels.
            [question] if question.options.len() <= flat.len() => {
                Ok(vec![flat[..question.options.len()].to_vec()])
            }
            _ => Err(Error::Internal(format!("{} logits for {} questions", flat.len(), questions.len()))),
        }
    }
}

impl Subject for Clef {
    const FAMILY: &'static str = "CLEF";
    const HIDDEN: &'static str = "norm";

    fn name(&self) -> &str {
        self.name()
    }

    fn format(&self) -> String {
        self.format()
    }

    fn longest(&self) -> usize {
        16_384.min(self.config().text.max_position_embeddings)
    }

    fn sequence(&self, request: &Request, max_tokens: usize) -> Result<ClefSequence> {
        let Request::Decide(request) = request else {
            return Err(other("texts with labels", Self::FAMILY, "typed questions"));
        };
        self.sequence(request, max_tokens, &MediaLimits::default())
    }

    fn tokens(sequence: &ClefSequence) -> usize {
        sequence.record.ids.len()
    }

    fn answer_rows(sequence: &ClefSequence) -> Vec<usize> {
        let questions = sequence.record.questions.iter();
        rows(questions.flat_map(|q| std::iter::once(q.span).chain(q.options.iter().copied())))
    }

    fn by_question(sequence: &ClefSequence, flat: &[f32], questions: &[Question]) -> Result<Vec<Vec<f32>>> {
        let read = sequence.by_question(flat);
        let slots = &sequence.record.questions;
        if read.len() != questions.len() || slots.len() != questions.len() {
            return Err(Error::Internal(format!("{} questions answered of {}", read.len(), questions.len())));
        }
        read.iter()
            .zip(slots)
            .zip(questions)
            .map(|((row, slots), question)| {
                let place = |id: &String| slots.option_ids.iter().position(|o| o == id);
                let ordered = question.options.iter().map(|id| place(id).and_then(|i| row.get(i)).copied());
                ordered.collect::<Option<Vec<f32>>>().ok_or_else(|| {
                    Error::Internal(format!("no logit for an option of question {:?}", question.name))
                })
            })
            .collect()
    }
}

fn other(found: &str, family: &str, allowed: &str) -> Error {
    Error::invalid("data", format!("{found} found, but a {family} model reads {allowed}"))
}

/// The rows of some spans, each once and in order.
fn rows(spans: impl Iterator<Item = Span>) -> Vec<usize> {
    let mut rows: Vec<usize> = spans.flat_map(|s| s.start as usize..s.end as usize).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}
