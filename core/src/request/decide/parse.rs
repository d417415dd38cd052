//! The System One JSON form of a decision request.

use super::media::{MediaLimits, Reader};
use super::{Criteria, DecideRequest, Json, Question, QuestionKind, Side, StateTruncation};
use crate::request::quote::{quote, step};
use crate::{Error, Result};

/// What [`DecideRequest::from_json_with`] lets pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// Null, booleans and numbers where the published clients send strings, lists and maps: as the state, as
    /// instructions, as descriptions and as levels (but no null level). The reference reads them.
    pub scalars: bool,
    /// Largest media.
    pub media: MediaLimits,
}

/// What the reference reads, with the default limits of media.
impl Default for Rules {
    fn default() -> Self {
        Self { scalars: true, media: MediaLimits::default() }
    }
}

impl DecideRequest {
    /// A checked request from JSON text, see [`DecideRequest::from_tree`].
    pub fn from_json(text: impl AsRef<[u8]>) -> Result<Self> {
        Self::from_json_with(text, &Rules::default())
    }

    /// [`DecideRequest::from_json`] under other rules.
    pub fn from_json_with(text: impl AsRef<[u8]>, rules: &Rules) -> Result<Self> {
        Self::from_tree(Json::parse(text)?, rules)
    }

    /// A checked request from a JSON value.
    ///
    /// `state` and `questions` are needed.
    ///
    /// - `questions`: map of id → `{type, instructions, criteria}`. `noul`: criteria is a map with `true`, `false` or
    ///   both, or absent. `choice`: a map of option id → description or null. `score`: a list of levels, lowest first.
    ///   Other keys of a question are ignored.
    /// - `images`: list of `data:` URLs, of base64 strings, or of `{content_type, base64}`. URLs are never fetched.
    /// - `videos`: list of `{frames: [image, …], fps}`.
    /// - `x_truncate`: `"end"` cuts a state that is too long instead of refusing it.
    /// - `model`: a string.
    /// - `stream`: false; `assets` and `audio`: empty. What this crate cannot read must not be lost in silence.
    ///
    /// Other fields are ignored: published clients send some of their own.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] and [`Error::TooLarge`] naming the field.
    pub fn from_tree(tree: Json, rules: &Rules) -> Result<Self> {
        let Json::Object(entries) = tree else {
            return Err(Error::invalid("request", format!("{} found, a map is allowed", tree.kind())));
        };
        let mut request = Self::new(Json::Null, Vec::new());
        let (mut state, mut questions) = (None, None);
        let mut media = Reader::new(rules.media);
        for (key, value) in entries {
            match (key.as_str(), value) {
                ("state", value) => state = Some(value),
                ("questions", value) => questions = Some(value),
                (_, Json::Null) | ("stream", Json::Bool(false)) => {}
                ("model", Json::String(model)) => request.model = Some(model),
                ("model", other) => return Err(wrong("model", &other, "a string")),
                ("images", value) => request.images = media.images(&value)?,
                ("videos", value) => request.videos = media.videos(&value)?,
                ("x_truncate", Json::String(end)) if end == "end" => {
                    request.truncation = StateTruncation::End;
                }
                ("x_truncate", other) => return Err(wrong("x_truncate", &other, "\"end\"")),
                ("stream", other) => {
                    return Err(wrong("stream", &other, "false: nothing is streamed, so only that"));
                }
                ("assets", Json::Object(assets)) if assets.is_empty() => {}
                ("assets", _) => {
                    return Err(Error::invalid("assets", "not supported; send pictures as images"));
                }
                ("audio", Json::Array(clips)) if clips.is_empty() => {}
                ("audio", _) => {
                    return Err(Error::invalid(
                        "audio",
                        "not supported; the model reads text, pictures and videos",
                    ));
                }
                _ => {}
            }
        }
        request.state = state.ok_or_else(|| Error::invalid("state", "missing"))?;
        if !rules.scalars {
            structured("state", &request.state, false)?;
        }
        let questions = questions.ok_or_else(|| Error::invalid("questions", "missing"))?;
        request.questions = Question::all_from_tree(questions, rules)?;
        request.validate()?;
        Ok(request)
    }
}

impl Question {
    /// The questions of a request's `questions`, unchecked but for their kinds; see [`DecideRequest::from_tree`].
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] naming the field, which starts with `questions`.
    pub fn all_from_tree(questions: Json, rules: &Rules) -> Result<Vec<Self>> {
        const ALLOWED: &str = "a map of question id → question";
        match questions {
            Json::Object(entries) => {
                entries.into_iter().map(|(id, value)| question(id, value, rules)).collect()
            }
            other => Err(wrong("questions", &other, ALLOWED)),
        }
    }
}

fn question(id: String, value: Json, rules: &Rules) -> Result<Question> {
    let field = format!("questions.{}", step(&id));
    let Json::Object(entries) = value else {
        return Err(wrong(&field, &value, "a map with type, instructions and criteria"));
    };
    let (mut kind, mut instructions, mut criteria) = (None, None, None);
    for (key, value) in entries {
        match key.as_str() {
            "type" => kind = Some(question_kind(&format!("{field}.type"), &value)?),
            "instructions" => instructions = Some(value),
            "criteria" => criteria = Some(value),
            _ => {}
        }
    }
    let Some(kind) = kind else {
        return Err(Error::invalid(format!("{field}.type"), "missing; noul, choice or score is needed"));
    };
    if let Some(instructions) = &instructions
        && !rules.scalars
    {
        structured(&format!("{field}.instructions"), instructions, true)?;
    }
    let criteria = criteria.filter(|criteria| *criteria != Json::Null);
    let field = format!("{field}.criteria");
    let criteria = match kind {
        QuestionKind::Noul => noul(&field, criteria, rules)?,
        QuestionKind::Choice => choice(&field, criteria, rules)?,
        QuestionKind::Score => score(&field, criteria, rules)?,
    };
    Ok(Question { id, instructions, criteria })
}

fn question_kind(field: &str, value: &Json) -> Result<QuestionKind> {
    const ALLOWED: &str = "noul, choice or score is allowed";
    match value {
        Json::String(name) => QuestionKind::from_name(name)
            .ok_or_else(|| Error::invalid(field, format!("{} found, {ALLOWED}", quote(name)))),
        other => Err(Error::invalid(field, format!("{} found, {ALLOWED}", other.kind()))),
    }
}

fn noul(field: &str, criteria: Option<Json>, rules: &Rules) -> Result<Criteria> {
    let (mut yes, mut no) = (Side::Default, Side::Default);
    let entries = match criteria {
        None => Vec::new(),
        Some(Json::Object(entries)) => entries,
        Some(other) => return Err(wrong(field, &other, "a map with true, false or both")),
    };
    for (key, value) in entries {
        let side = match key.as_str() {
            "true" => &mut yes,
            "false" => &mut no,
            other => {
                let message = format!("key {} found, true and false are allowed", quote(other));
                return Err(Error::invalid(field, message));
            }
        };
        if !rules.scalars {
            structured(&format!("{field}.{key}"), &value, true)?;
        }
        *side = Side::Given(value);
    }
    Ok(Criteria::Noul { yes, no })
}

fn choice(field: &str, criteria: Option<Json>, rules: &Rules) -> Result<Criteria> {
    const ALLOWED: &str = "a map of option id → description or null";
    match criteria {
        None => Err(Error::invalid(field, format!("missing; a choice needs {ALLOWED}"))),
        Some(Json::Object(options)) => {
            if !rules.scalars {
                for (id, description) in &options {
                    structured(&format!("{field}.{}", step(id)), description, true)?;
                }
            }
            Ok(Criteria::Choice(options))
        }
        Some(Json::Array(_)) => {
            let hint =
                "write [\"a\", \"b\"] as {\"a\": null, \"b\": null}; a list of levels is for type score";
            Err(Error::invalid(field, format!("a list found, {ALLOWED} is allowed ({hint})")))
        }
        Some(other) => Err(wrong(field, &other, ALLOWED)),
    }
}

fn score(field: &str, criteria: Option<Json>, rules: &Rules) -> Result<Criteria> {
    const ALLOWED: &str = "a list of levels, lowest first";
    match criteria {
        None => Err(Error::invalid(field, format!("missing; a score needs {ALLOWED}"))),
        Some(Json::Array(levels)) => {
            if !rules.scalars {
                for (i, level) in levels.iter().enumerate() {
                    structured(&format!("{field}[{i}]"), level, false)?;
                }
            }
            Ok(Criteria::Score(levels))
        }
        Some(Json::Object(_)) => {
            let hint = "a map has no order; named options are for type choice";
            Err(Error::invalid(field, format!("a map found, {ALLOWED}, is allowed ({hint})")))
        }
        Some(other) => Err(wrong(field, &other, ALLOWED)),
    }
}

/// Refuses what the published clients never send: numbers, booleans, and null where it says nothing.
fn structured(field: &str, value: &Json, null: bool) -> Result<()> {
    match value {
        Json::String(_) | Json::Array(_) | Json::Object(_) => Ok(()),
        Json::Null if null => Ok(()),
        other => Err(wrong(field, other, "a string, a list or a map")),
    }
}

fn wrong(field: &str, value: &Json, allowed: &str) -> Error {
    Error::invalid(field, format!("{} found, {allowed} is allowed", value.kind()))
}
