//! The loop: read a group of rows, classify it, write its records, forget it.

use std::io::BufRead;

use dikast_core::Error;
use dikast_core::answers::Classification;
use dikast_core::request::ClassifyRequest;

use super::output::Output;
use super::progress::Progress;
use super::reader::{Reader, Row};
use super::resume::Done;
use super::totals::Totals;
use super::writer::{Encoder, Record};
use crate::classifier::Classifier;
use crate::exit::Result;
use crate::request::fit;

/// Most rows of a group: enough to fill the engine's batches, little to redo after an interruption.
const GROUP_ROWS: usize = 128;
/// A group is full when its rows have this many bytes; with [`super::reader::MAX_ROW_BYTES`] this bounds memory.
const GROUP_BYTES: usize = 1 << 20;

/// Classifies the reader's remaining rows.
///
/// # Errors
/// The streams fail, or the device is lost. What was written before stays and can be resumed.
pub(super) fn run<R: BufRead>(
    reader: &mut Reader<R>,
    classifier: &mut dyn Classifier,
    encoder: &Encoder,
    output: &mut Output,
    done: Done,
    progress: &mut Progress,
) -> Result<Totals> {
    let mut totals = Totals { rows: done.rows, failed: done.failed };
    loop {
        let rows = read_group(reader)?;
        if rows.is_empty() {
            return Ok(totals);
        }
        let (rows_read, mark) = (reader.rows_read(), reader.mark());
        let outcomes = classify(rows, classifier);
        // A lost device says nothing about a row: its record would hide the row from a later --resume.
        let lost = outcomes.iter().position(|(_, o)| matches!(o, Err(Error::DeviceLost { .. })));
        let written = &outcomes[..lost.unwrap_or(outcomes.len())];
        let records: Vec<Record<'_>> =
            written.iter().map(|(row, outcome)| Record { row, outcome: outcome.as_ref() }).collect();
        output.write_records(&encoder.encode(&records), rows_read, &mark)?;
        totals.rows += written.len() as u64;
        totals.failed += written.iter().filter(|(_, o)| o.is_err()).count() as u64;
        progress.add_cut(written.iter().filter(|(_, o)| has_cut_labels(o)).count() as u64);
        progress.advance(totals, reader.bytes_read());
        if let Some((_, Err(error))) = lost.and_then(|i| outcomes.get(i)) {
            return Err(error.clone().into());
        }
    }
}

fn has_cut_labels(outcome: &dikast_core::Result<Classification>) -> bool {
    outcome.as_ref().is_ok_and(|c| !c.receipt.cut_labels.is_empty())
}

fn read_group<R: BufRead>(reader: &mut Reader<R>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    while rows.len() < GROUP_ROWS && bytes < GROUP_BYTES {
        let Some(row) = reader.next_row()? else { break };
        bytes += row.bytes;
        rows.push(row);
    }
    Ok(rows)
}

/// The outcome of every row, in order; rows that are no request never reach the classifier.
fn classify(
    mut rows: Vec<Row>,
    classifier: &mut dyn Classifier,
) -> Vec<(Row, dikast_core::Result<Classification>)> {
    let mut requests = Vec::with_capacity(rows.len());
    let mut errors = Vec::with_capacity(rows.len());
    for row in &mut rows {
        // The question is moved out; what stays behind is never read.
        let question = std::mem::replace(&mut row.question, Err(Error::Internal(String::new())));
        match question.and_then(|question| fit(classifier, question)) {
            Ok(request) => {
                requests.push(request);
                errors.push(None);
            }
            Err(error) => errors.push(Some(error)),
        }
    }
    let mut answers = classify_apart(&requests, classifier).into_iter();
    let missing = || Err(Error::Internal("the engine gave no answer".into()));
    let outcome = |error: Option<Error>| error.map_or_else(|| answers.next().unwrap_or_else(missing), Err);
    let outcomes: Vec<_> = errors.into_iter().map(outcome).collect();
    rows.into_iter().zip(outcomes).collect()
}

/// A failed forward pass fails every request in it, whichever was to blame: those requests are tried alone.
fn classify_apart(
    requests: &[ClassifyRequest],
    classifier: &mut dyn Classifier,
) -> Vec<dikast_core::Result<Classification>> {
    let mut answers = classifier.classify(requests);
    if requests.len() > 1 {
        for (request, answer) in requests.iter().zip(&mut answers) {
            let own = matches!(
                answer,
                Ok(_) | Err(Error::InvalidRequest { .. } | Error::TooLarge { .. } | Error::DeviceLost { .. })
            );
            if !own && let Some(alone) = classifier.classify(std::slice::from_ref(request)).pop() {
                *answer = alone;
            }
        }
    }
    answers
}
