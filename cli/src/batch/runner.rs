//! The loop: read a group of rows, answer it, write its records, forget it.

use std::io::BufRead;

use dikast_core::Error;
use dikast_core::answers::{Classification, Decision};
use dikast_core::request::{ClassifyRequest, DecideRequest};

use super::output::Output;
use super::progress::Progress;
use super::reader::{Reader, Row, Source};
use super::resume::Done;
use super::totals::Totals;
use super::writer::{Encoder, Form, Record};
use crate::classifier::Classifier;
use crate::decider::Decider;
use crate::exit::Result;
use crate::request::{Question, fit};

/// A group is full when its rows have this many bytes; with [`Source::MAX_ROW_BYTES`] this bounds memory.
const GROUP_BYTES: usize = 1 << 20;

/// Answers the questions of rows.
pub(super) trait Answerer {
    /// What a row asks.
    type Question;
    /// What the engine is asked.
    type Request;
    /// What it answers.
    type Answer;

    /// The summary's words for answers to something that was cut, after `3 rows`.
    const CUT: &'static str;

    /// Most rows of a group: enough to fill the engine's batches, little to redo after an interruption.
    const GROUP_ROWS: usize;

    /// The request of a question.
    fn request(&mut self, question: Self::Question) -> dikast_core::Result<Self::Request>;

    /// One result a request, in order.
    fn answer(&mut self, requests: &[Self::Request]) -> Vec<dikast_core::Result<Self::Answer>>;

    /// Whether something was cut that the answer is about.
    fn is_cut(answer: &Self::Answer) -> bool;
}

/// Rows of texts.
pub(super) struct Classifying<'c>(pub(super) &'c mut dyn Classifier);

impl Answerer for Classifying<'_> {
    type Question = Question;
    type Request = ClassifyRequest;
    type Answer = Classification;

    const GROUP_ROWS: usize = 128;
    const CUT: &'static str = "with labels that --truncate right cut; their records name them in cut_labels";

    fn request(&mut self, question: Question) -> dikast_core::Result<ClassifyRequest> {
        fit(self.0, question)
    }

    fn answer(&mut self, requests: &[ClassifyRequest]) -> Vec<dikast_core::Result<Classification>> {
        self.0.classify(requests)
    }

    fn is_cut(answer: &Classification) -> bool {
        !answer.receipt.cut_labels.is_empty()
    }
}

/// Rows of typed questions.
pub(super) struct Deciding<'d>(pub(super) &'d mut dyn Decider);

impl Answerer for Deciding<'_> {
    type Question = DecideRequest;
    type Request = DecideRequest;
    type Answer = Decision;

    const GROUP_ROWS: usize = 8;
    const CUT: &'static str = "with a state that was cut at its end; their records say x_truncated";

    fn request(&mut self, question: DecideRequest) -> dikast_core::Result<DecideRequest> {
        Ok(question)
    }

    /// Pixels are large: requests with pictures go alone, so that one request's are in memory at a time.
    fn answer(&mut self, requests: &[DecideRequest]) -> Vec<dikast_core::Result<Decision>> {
        let seen = |r: &DecideRequest| !(r.images.is_empty() && r.videos.is_empty());
        requests.chunk_by(|a, b| !seen(a) && !seen(b)).flat_map(|group| self.0.decide(group)).collect()
    }

    fn is_cut(answer: &Decision) -> bool {
        answer.receipt.dropped_state_tokens > 0
    }
}

/// Answers the reader's remaining rows.
///
/// # Errors
/// The streams fail, or the device is lost. What was written before stays and can be resumed.
pub(super) fn run<R: BufRead, S: Source, F: Form, A>(
    reader: &mut Reader<R, S>,
    answerer: &mut A,
    encoder: &Encoder<F>,
    output: &mut Output,
    done: Done,
    progress: &mut Progress,
) -> Result<Totals>
where
    A: Answerer<Question = S::Question, Answer = F::Answer>,
{
    let mut totals = Totals { rows: done.rows, failed: done.failed };
    loop {
        let rows = read_group(reader, A::GROUP_ROWS)?;
        if rows.is_empty() {
            return Ok(totals);
        }
        let (rows_read, mark) = (reader.rows_read(), reader.mark());
        let outcomes = answer(rows, answerer);
        // A lost device says nothing about a row: its record would hide the row from a later --resume.
        let lost = outcomes.iter().position(|(_, o)| matches!(o, Err(Error::DeviceLost { .. })));
        let written = &outcomes[..lost.unwrap_or(outcomes.len())];
        let records: Vec<_> =
            written.iter().map(|(row, outcome)| Record { row, outcome: outcome.as_ref() }).collect();
        output.write_records(&encoder.encode(&records), rows_read, &mark)?;
        totals.rows += written.len() as u64;
        totals.failed += written.iter().filter(|(_, o)| o.is_err()).count() as u64;
        progress.add_cut(written.iter().filter(|(_, o)| o.as_ref().is_ok_and(A::is_cut)).count() as u64);
        progress.advance(totals, reader.bytes_read());
        if let Some((_, Err(error))) = lost.and_then(|i| outcomes.get(i)) {
            return Err(error.clone().into());
        }
    }
}

fn read_group<R: BufRead, S: Source>(
    reader: &mut Reader<R, S>,
    most: usize,
) -> Result<Vec<Row<S::Question>>> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    while rows.len() < most && bytes < GROUP_BYTES {
        let Some(row) = reader.next_row()? else { break };
        bytes += row.bytes;
        rows.push(row);
    }
    Ok(rows)
}

/// A row and its answer, or the row's or the engine's error.
type Outcome<A> = (Row<<A as Answerer>::Question>, dikast_core::Result<<A as Answerer>::Answer>);

/// The outcome of every row, in order; rows that are no request never reach the engine.
fn answer<A: Answerer>(mut rows: Vec<Row<A::Question>>, answerer: &mut A) -> Vec<Outcome<A>> {
    let mut requests = Vec::with_capacity(rows.len());
    let mut errors = Vec::with_capacity(rows.len());
    for row in &mut rows {
        // The question is moved out; what stays behind is never read.
        let question = std::mem::replace(&mut row.question, Err(Error::Internal(String::new())));
        match question.and_then(|question| answerer.request(question)) {
            Ok(request) => {
                requests.push(request);
                errors.push(None);
            }
            Err(error) => errors.push(Some(error)),
        }
    }
    let mut answers = answer_apart(&requests, answerer).into_iter();
    let missing = || Err(Error::Internal("the engine gave no answer".into()));
    let outcome = |error: Option<Error>| error.map_or_else(|| answers.next().unwrap_or_else(missing), Err);
    let outcomes: Vec<_> = errors.into_iter().map(outcome).collect();
    rows.into_iter().zip(outcomes).collect()
}

/// A failed forward pass fails every request in it, whichever was to blame: those requests are tried alone.
fn answer_apart<A: Answerer>(
    requests: &[A::Request],
    answerer: &mut A,
) -> Vec<dikast_core::Result<A::Answer>> {
    let mut answers = answerer.answer(requests);
    if requests.len() > 1 {
        for (request, answer) in requests.iter().zip(&mut answers) {
            let own = matches!(
                answer,
                Ok(_) | Err(Error::InvalidRequest { .. } | Error::TooLarge { .. } | Error::DeviceLost { .. })
            );
            if !own && let Some(alone) = answerer.answer(std::slice::from_ref(request)).pop() {
                *answer = alone;
            }
        }
    }
    answers
}
