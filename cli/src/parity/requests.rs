//! What a model is asked: few requests, of different lengths and kinds.

use dikast_core::Result;
use dikast_core::request::{ClassifyRequest, DecideRequest, LabelSet};

const SHORT: &str = "Je voudrais changer la date de mon vol.";
const LONG: &str = "I ordered a blue kettle on Monday, paid twice by mistake, and the parcel that came on Thursday \
                    holds a red one with a crack in its lid. Please send the right one before the weekend, or give me \
                    my money back; I have written three times by now and nobody answered.";

/// Texts and labels.
pub(crate) fn classify() -> Vec<ClassifyRequest> {
    let labels = |names: &[&str]| LabelSet::flat(names.iter().copied());
    vec![
        ClassifyRequest::new(SHORT, labels(&["travel", "food"])),
        ClassifyRequest::new(
            LONG,
            labels(&["refund", "damaged parcel", "praise", "delivery", "login", "prices"]),
        ),
        ClassifyRequest::new("ok", labels(&["yes"])),
        ClassifyRequest::new(LONG.repeat(3), labels(&["complaint", "order", "question"])),
    ]
}

/// Typed questions about a text, about JSON, and about a picture.
pub(crate) fn decide() -> Result<Vec<DecideRequest>> {
    let text = format!(
        r#"{{"state": "{LONG}", "questions": {{
            "refund": {{"type": "noul", "instructions": "Does the writer ask for money back?"}},
            "team": {{"type": "choice", "instructions": "Which team?", "criteria": {{"billing": "charges", "shipping": null, "sales": null}}}},
            "anger": {{"type": "score", "instructions": "How angry is the writer?", "criteria": ["calm", "annoyed", "furious"]}}}}}}"#
    );
    let json = r#"{"state": {"order": {"id": 17, "items": ["kettle", "cup"], "late": true}, "total": 41.5},
        "questions": {"late": {"type": "noul", "instructions": "Is the order late?"}}}"#;
    let picture = r#"{"state": "What does the picture show?", "questions": {
        "kind": {"type": "choice", "instructions": "What is it?", "criteria": {"circle": null, "square": null, "text": null}}}}"#;
    let mut requests = [text.as_str(), json, picture]
        .into_iter()
        .map(DecideRequest::from_json)
        .collect::<Result<Vec<_>>>()?;
    requests[2].images.push(dikast_models::PICTURE.to_vec());
    Ok(requests)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_valid() {
        assert!(classify().iter().all(|r| r.validate().is_ok()));
        assert_eq!(decide().expect("valid").iter().filter(|r| !r.images.is_empty()).count(), 1);
    }
}
