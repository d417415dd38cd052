//! Limits on tokens: refused with both numbers, cut and counted when asked for.

use dikast_core::Error;
use dikast_core::request::{DecideRequest, Question, StateTruncation};
use dikast_core::tokens::clef::MediaLayout;

use crate::fixture::{PROMPT, case, prepare};

fn refused(request: &DecideRequest) -> (String, u64, u64) {
    match prepare(request) {
        Err(Error::TooLarge { what, limit, actual }) => (what, limit, actual),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_state_that_is_too_long_is_refused_unless_cutting_is_asked_for() {
    let mut case = case("truncated_total");
    let cut = case.record();
    assert_eq!(cut.ids.len(), 384);
    assert!(cut.dropped_state_tokens > 0);

    case.request.truncation = StateTruncation::Refuse;
    let all = 384 + cut.dropped_state_tokens as u64;
    assert_eq!(refused(&case.request), ("input tokens".to_owned(), 384, all));

    case.request.max_tokens = Some(all as usize);
    let whole = prepare(&case.request).unwrap();
    assert_eq!((whole.ids.len() as u64, whole.dropped_state_tokens), (all, 0));
    // The end is what was dropped.
    let (start, end) = (cut.state.start as usize, cut.state.end as usize);
    assert_eq!(cut.ids[start..end], whole.ids[start..end]);
    assert_eq!(cut.ids[end..], whole.ids[whole.state.end as usize..]);
}

#[test]
fn a_limit_on_the_state_alone() {
    let mut case = case("truncated_state");
    let cut = case.record();
    assert_eq!(cut.state.end - cut.state.start, 33);

    case.request.truncation = StateTruncation::Refuse;
    let found = 33 + cut.dropped_state_tokens as u64;
    assert_eq!(refused(&case.request), ("tokens of state (max_state_tokens)".to_owned(), 33, found));
    case.request.max_state_tokens = Some(found as usize);
    assert_eq!(prepare(&case.request).unwrap().dropped_state_tokens, 0);
}

#[test]
fn questions_are_never_cut() {
    let mut request = DecideRequest::new("some text", vec![Question::noul("q", "yes?")]);
    request.truncation = StateTruncation::End;
    let whole = prepare(&request).unwrap();
    let fixed = whole.ids.len() - (whole.state.end - whole.state.start) as usize;

    request.max_tokens = Some(fixed);
    let cut = prepare(&request).unwrap();
    assert_eq!((cut.ids.len(), cut.state.start), (fixed, cut.state.end));
    request.max_tokens = Some(fixed - 1);
    let (what, limit, actual) = refused(&request);
    assert!(what.contains("never cut"), "{what}");
    assert_eq!((limit, actual), (fixed as u64 - 1, fixed as u64));
}

#[test]
fn a_request_cannot_raise_the_engines_limit() {
    let mut request = DecideRequest::new("s", vec![Question::noul("q", "yes?")]);
    request.max_tokens = Some(1001);
    let error = PROMPT.prepare(&request, &MediaLayout::default(), 1000).map(drop);
    assert_eq!(error, Err(Error::TooLarge { what: "max_tokens".to_owned(), limit: 1000, actual: 1001 }));
}
