//! The rows of `decide`: bodies of System One requests.

use dikast_core::request::{DecideRequest, Json};
use dikast_core::{Error, Result};

use super::{Fields, Source, passed};
use crate::args::{DecideArgs, InputFormat};
use crate::decide::RULES;
use crate::exit::{self, Failure};

/// How a body becomes a request.
#[derive(Debug)]
pub(in crate::batch) struct BodySource {
    /// Field of the id.
    id: String,
    keep: Vec<String>,
    /// The questions of rows that have none of their own: a map, or null.
    questions: Json,
    /// A request with the options of the flags.
    options: DecideRequest,
}

impl BodySource {
    /// The fields that the flags name; `questions` are those of the flags.
    pub(in crate::batch) fn from_args(args: &DecideArgs, questions: Json) -> Self {
        let mut options = DecideRequest::new(Json::Null, Vec::new());
        args.set_options(&mut options);
        Self {
            id: args.batch.id_field.clone().unwrap_or_else(|| "id".to_owned()),
            keep: args.batch.keep.clone(),
            questions,
            options,
        }
    }

    fn request(&self, mut body: Json) -> Result<DecideRequest> {
        if let Json::Object(entries) = &mut body {
            entries.retain(|(name, value)| name != "questions" || *value != Json::Null);
            if self.questions != Json::Null && !entries.iter().any(|(name, _)| name == "questions") {
                entries.push(("questions".to_owned(), self.questions.clone()));
            }
        }
        let request = DecideRequest::from_tree(body, &RULES)?;
        let empty = matches!(&request.state, Json::String(text) if text.trim().is_empty());
        if empty && request.images.is_empty() && request.videos.is_empty() {
            return Err(Error::invalid("state", "empty, and there is no picture or video"));
        }
        Ok(DecideRequest {
            truncation: if self.options.truncation == Default::default() {
                request.truncation
            } else {
                self.options.truncation
            },
            special_tokens: self.options.special_tokens,
            confidence: self.options.confidence,
            ..request
        })
    }
}

impl Source for BodySource {
    type Question = DecideRequest;

    /// As large as the body of a request to a server may be.
    const MAX_ROW_BYTES: usize = 13 << 20;

    fn format(&self) -> InputFormat {
        InputFormat::Jsonl
    }

    fn delimiter(&self) -> u8 {
        b','
    }

    fn begin(&mut self, _: &[u8]) -> exit::Result<()> {
        Err(Failure::usage("the rows of decide are JSON"))
    }

    fn fields(&self, record: &str) -> Fields<DecideRequest> {
        let body = match Json::parse(record) {
            Ok(body @ Json::Object(_)) => body,
            Ok(_) => return self.failed(Error::invalid("row", "not a JSON object")),
            Err(Error::InvalidRequest { message, .. }) => return self.failed(Error::invalid("row", message)),
            Err(e) => return self.failed(e),
        };
        let (id, kept) = passed::on(record, |name| body.get(name).is_some(), &self.id, &self.keep);
        Fields { id, kept, question: self.request(body) }
    }

    fn kept(&self) -> usize {
        self.keep.len()
    }
}

#[cfg(test)]
mod tests {
    use dikast_core::request::StateTruncation;

    use super::*;

    fn source(questions: Json) -> BodySource {
        let options = DecideRequest::new(Json::Null, Vec::new());
        BodySource { id: "id".into(), keep: vec!["gold".into()], questions, options }
    }

    #[test]
    fn rows_have_their_own_questions_or_those_of_the_flags() {
        let own = r#"{"id": 7, "gold": 1.50, "state": "s", "questions": {"b": {"type": "noul"}}, "x_truncate": "end"}"#;
        let flags = Json::parse(r#"{"a": {"type": "noul"}}"#).unwrap();
        let ids = |source: &BodySource, row: &str| {
            let questions = source.fields(row).question.map(|r| r.questions);
            questions.map(|all| all.into_iter().map(|q| q.id).collect::<Vec<_>>())
        };
        let fields = source(flags.clone()).fields(own);
        assert_eq!((fields.id.text(), fields.kept[0].text()), ("7", "1.50"));
        assert_eq!(fields.question.unwrap().truncation, StateTruncation::End);
        assert_eq!(ids(&source(flags.clone()), own).unwrap(), ["b"]);
        for row in [r#"{"state": "s"}"#, r#"{"state": "s", "questions": null}"#] {
            assert_eq!(ids(&source(flags.clone()), row).unwrap(), ["a"]);
            assert!(ids(&source(Json::Null), row).unwrap_err().to_string().contains("questions: missing"));
        }
    }

    #[test]
    fn rows_that_are_no_body_say_why() {
        for (row, part) in [
            ("[1]", "row: not a JSON object"),
            ("{", "row: "),
            ("{\"questions\": {\"a\": {\"type\": \"noul\"}}}", "state: missing"),
            ("{\"state\": null, \"questions\": {\"a\": {\"type\": \"noul\"}}}", "state"),
            ("{\"state\": \"s\", \"questions\": {\"a\": {\"type\": \"box\"}}}", "noul, choice or score"),
        ] {
            let error = source(Json::Null).fields(row).question.unwrap_err().to_string();
            assert!(error.contains(part), "{row}: {error}");
        }
    }
}
