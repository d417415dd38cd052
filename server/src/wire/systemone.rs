//! System One: `state` and a map of questions.

use dikast_core::answers::{DecideOutput, Decision};
use dikast_core::request::{Confidence, DecideRequest, Json, Rules, gather_pictures};

use super::failure::Failure;

/// A request. The model's name stays in [`DecideRequest::model`].
///
/// Pictures in the state and in `assets` become pictures of the request, see [`gather_pictures`].
pub(crate) fn request(mut body: Json, confidence: Confidence) -> Result<DecideRequest, Failure> {
    gather_pictures(&mut body)?;
    let rules = Rules { scalars: false, ..Rules::default() };
    let mut request = DecideRequest::from_tree(body, &rules)?;
    request.confidence = confidence;
    Ok(request)
}

/// The response.
pub(crate) fn response(decision: &Decision, decimals: u8) -> Json {
    decision.to_json(&DecideOutput { decimals: Some(decimals), receipt: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<DecideRequest, Failure> {
        request(Json::parse(text).expect("JSON"), Confidence::default())
    }

    #[test]
    fn wrong_fields_are_named() {
        for (body, field) in [
            (r#"{"state":null,"questions":{"a":{"type":"noul"}}}"#, "state"),
            (r#"{"state":3,"questions":{"a":{"type":"noul"}}}"#, "state"),
            (r#"{"state":"x","questions":{}}"#, "questions"),
            (r#"{"state":"x","questions":{"a":{"type":"box"}}}"#, "questions.a.type"),
            (r#"{"state":"x","questions":{"a":{"type":"choice","criteria":["x"]}}}"#, "questions.a.criteria"),
            (
                r#"{"state":"x","questions":{"a":{"type":"score","criteria":["x",null]}}}"#,
                "questions.a.criteria[1]",
            ),
            (r#"{"state":"x","stream":true,"questions":{"a":{"type":"noul"}}}"#, "stream"),
            (r#"{"state":"x","images":["https://a/b.png"],"questions":{"a":{"type":"noul"}}}"#, "images[0]"),
        ] {
            assert_eq!(read(body).expect_err(body).field.as_deref(), Some(field), "{body}");
        }
        assert_eq!(
            read(r#"{"state":"x","questions":{"a":{"type":"box"}}}"#).expect_err("refused").code,
            "unsupported_question_type"
        );
    }

    #[test]
    fn extras_of_clients_are_ignored() {
        let body = r#"{"model":"m","state":"x","keep_alive":"5m","temperature":1,"stream":false,"questions":{"a":{"type":"noul","x":1}}}"#;
        let request = read(body).expect("a request");
        assert_eq!((request.model.as_deref(), request.questions.len()), (Some("m"), 1));
    }
}
