//! Text that looks like control tokens.

use dikast_core::Error;
use dikast_core::request::{DecideRequest, Json, Question, SpecialTokens};
use dikast_core::tokens::clef::{DEFAULT_MAX_TOKENS, Record};

use crate::fixture::{PROMPT, case, cases, prepare};

fn added(record: &Record, from: u32, to: u32) -> Vec<u32> {
    let ids = &record.ids[from as usize..to as usize];
    let known = PROMPT.tokenizer().added_tokens();
    ids.iter().copied().filter(|id| known.iter().any(|token| token.id == *id)).collect()
}

#[test]
fn benign_text_has_the_same_ids_either_way() {
    for mut case in cases() {
        let live = case.record();
        case.request.special_tokens = SpecialTokens::Data;
        let same = case.record() == live;
        assert_eq!(same, case.id != "specials_in_state", "{}", case.id);
    }
}

#[test]
fn as_data_nothing_that_the_caller_wrote_becomes_a_control_token() {
    let all: String = PROMPT.tokenizer().added_tokens().iter().map(|token| token.content.as_str()).collect();
    let json = Json::Object(vec![(all.clone(), Json::from(all.as_str()))]);
    let mut request = DecideRequest::new(
        json.clone(),
        vec![
            Question::choice(all.as_str(), json.clone(), [(all.clone(), json.clone())]),
            Question::score("s", all.as_str(), [Json::from(all.as_str())]),
        ],
    );
    let record = prepare(&request).unwrap();
    let (before, after) = (PROMPT.before().len() as u32, record.ids.len() as u32);
    // What stands after the last option is the prompt's own.
    let last = record.questions[1].options[0].end;
    assert!(added(&record, before, last).is_empty());
    assert!(!added(&record, last, after).is_empty());

    request.special_tokens = SpecialTokens::Live;
    let live = prepare(&request).unwrap();
    let known = PROMPT.tokenizer().added_tokens().len();
    // Twice in the state, its key included; then in the id, the instructions and the options.
    assert_eq!(added(&live, live.state.start, live.state.end).len(), 2 * known);
    assert!(live.ids.len() < record.ids.len());
}

#[test]
fn a_live_pad_beside_media_is_refused_and_as_data_it_is_text() {
    let mut case = case("image_one");
    case.request.state = Json::from("what is <|image_pad|>?");
    match PROMPT.prepare(&case.request, &case.layout(), DEFAULT_MAX_TOKENS) {
        Err(Error::InvalidRequest { field, message }) => {
            assert_eq!(field, "state");
            assert!(message.contains("<|image_pad|>"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    case.request.special_tokens = SpecialTokens::Data;
    assert_eq!(case.record().media_rows.len(), 6);
}
