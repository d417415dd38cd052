//! What a request can fail with, and how each family of clients reads it.

use std::time::Duration;

use dikast_core::Error;
use dikast_core::request::Json;

use super::cloudflare;
use super::dialect::Dialect;
use super::json::{list, object};
use super::path::parts;

/// Why a request is not answered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    /// What kind it is.
    pub(crate) kind: Kind,
    /// The field, if one is to blame.
    pub(crate) field: Option<String>,
    /// What was found and what is allowed, without the caller's texts.
    pub(crate) message: String,
    /// A stable name for programs.
    pub(crate) code: &'static str,
    /// When to try again.
    pub(crate) retry_after: Option<Duration>,
}

/// Kinds of failures, each with a status of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The body is no JSON.
    Json,
    /// A field is missing, wrong or over a limit of counts.
    Invalid,
    /// Labels are missing and the server has none of its own (vLLM's form says 400).
    NoLabels,
    /// More tokens than the model reads.
    TooLong,
    /// More bytes than the server reads.
    TooLarge,
    /// The body did not arrive in time.
    SlowBody,
    /// No key, or an unknown one.
    Unauthorized,
    /// The server has no such model.
    UnknownModel,
    /// The server has no such route.
    NotFound,
    /// The route has no such method.
    Method,
    /// An encoding or a type of the body that is not read.
    MediaType,
    /// The caller's own deadline has passed.
    Late,
    /// The key has sent too many requests.
    Limited,
    /// No place or no time for it now.
    Overloaded,
    /// A fault of the server.
    Internal,
}

impl Failure {
    fn new(kind: Kind, code: &'static str, message: impl Into<String>) -> Self {
        Self { kind, field: None, message: message.into(), code, retry_after: None }
    }

    /// A wrong field.
    pub(crate) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        let code = if message.starts_with("missing") {
            "missing"
        } else if field.starts_with("questions") && field.ends_with(".type") {
            "unsupported_question_type"
        } else {
            "invalid"
        };
        Self { field: Some(field), ..Self::new(Kind::Invalid, code, message) }
    }

    /// Too many of something in a field.
    pub(crate) fn too_many(field: impl Into<String>, unit: &str, found: u64, most: u64) -> Self {
        let message = format!("at most {most} {unit}, got {found}");
        Self { field: Some(field.into()), ..Self::new(Kind::Invalid, "too_long", message) }
    }

    /// No labels, and none configured.
    pub(crate) fn no_labels() -> Self {
        let message = "missing; this server has no labels of its own (--default-labels)";
        Self { field: Some("labels".into()), ..Self::new(Kind::NoLabels, "missing", message) }
    }

    /// More bytes than allowed.
    pub(crate) fn too_large(what: &str, most: u64) -> Self {
        Self::new(Kind::TooLarge, "request_too_large", format!("{what}: at most {most} bytes are read"))
    }

    /// The body did not arrive in time.
    pub(crate) fn slow_body(limit: Duration) -> Self {
        let message = format!("the body did not arrive within {} s", limit.as_secs());
        Self::new(Kind::SlowBody, "request_timeout", message)
    }

    /// A body of a type or encoding that is not read.
    pub(crate) fn media_type(message: impl Into<String>) -> Self {
        Self::new(Kind::MediaType, "unsupported_media_type", message)
    }

    /// No key, or an unknown one.
    pub(crate) fn unauthorized(found: bool) -> Self {
        let what = if found { "unknown key" } else { "no key" };
        let message = format!("{what}; send Authorization: Bearer <key>");
        Self::new(Kind::Unauthorized, "invalid_api_key", message)
    }

    /// An unknown model; `served` are the known ones.
    pub(crate) fn unknown_model(name: &str, served: &str) -> Self {
        const SHOWN: usize = 80;
        let shown: String = name.chars().take(SHOWN).collect();
        let message = format!("{shown:?} is not served here; served: {served}");
        Self { field: Some("model".into()), ..Self::new(Kind::UnknownModel, "model_not_found", message) }
    }

    /// An unknown route.
    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::new(Kind::NotFound, "route_not_found", message)
    }

    /// A route without that method.
    pub(crate) fn method() -> Self {
        Self::new(
            Kind::Method,
            "method_not_allowed",
            "this route has no such method; Allow lists those it has",
        )
    }

    /// No place or no time.
    pub(crate) fn overloaded(code: &'static str, message: impl Into<String>, retry_after: Duration) -> Self {
        Self { retry_after: Some(retry_after), ..Self::new(Kind::Overloaded, code, message) }
    }

    /// The caller's own deadline has passed. No fault of the server: balancers must not count it as one.
    pub(crate) fn late(message: impl Into<String>) -> Self {
        Self::new(Kind::Late, "deadline_exceeded", message)
    }

    /// A key that has sent too many requests.
    pub(crate) fn limited(retry_after: Duration) -> Self {
        let message = "this key has sent too many requests; Retry-After says when it may send the next";
        Self { retry_after: Some(retry_after), ..Self::new(Kind::Limited, "rate_limit_exceeded", message) }
    }

    /// A fault of the server.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(Kind::Internal, "internal_error", message)
    }

    /// The status on a path of that family.
    pub(crate) fn status(&self, dialect: Dialect) -> u16 {
        match self.kind {
            Kind::Json if matches!(dialect, Dialect::Decisions | Dialect::Cloudflare) => 400,
            Kind::Invalid if dialect == Dialect::Decisions => 400,
            Kind::Json | Kind::Invalid => 422,
            Kind::NoLabels => 400,
            Kind::TooLong | Kind::TooLarge => 413,
            Kind::SlowBody | Kind::Late => 408,
            Kind::Unauthorized => 401,
            Kind::UnknownModel | Kind::NotFound => 404,
            Kind::Method => 405,
            Kind::MediaType => 415,
            Kind::Limited => 429,
            Kind::Overloaded => 503,
            Kind::Internal => 500,
        }
    }

    /// The body on a path of that family. A fault of the server shows the request's id and nothing else.
    pub(crate) fn body(&self, dialect: Dialect, request_id: &str) -> Json {
        let message = match (&self.field, self.kind) {
            (_, Kind::Internal) => format!("a fault of this server; request {request_id}"),
            (Some(field), _) => format!("{field}: {}", self.message),
            (None, _) => self.message.clone(),
        };
        match dialect {
            Dialect::Cloudflare => cloudflare::refused(self.cloudflare_code(), &message),
            Dialect::Labels => object([("error", message.into()), ("error_type", self.tei_type().into())]),
            Dialect::SystemOne | Dialect::Decisions => self.shared_body(dialect, message),
        }
    }

    /// `error` for readers of OpenAI's form, `detail` for readers of FastAPI's.
    fn shared_body(&self, dialect: Dialect, message: String) -> Json {
        let detail = if self.status(dialect) == 422 {
            let field = self.field.as_deref().filter(|field| *field != "request").unwrap_or_default();
            let loc = std::iter::once("body".to_owned()).chain(parts(field)).map(Json::from);
            list([object([
                ("loc", list(loc)),
                ("msg", self.message.as_str().into()),
                ("type", self.code.into()),
            ])])
        } else {
            object([("error_type", self.detail_type().into()), ("message", message.as_str().into())])
        };
        let error = object([
            ("message", message.into()),
            ("type", self.openai_type().into()),
            ("param", self.field.clone().map_or(Json::Null, Json::from)),
            ("code", self.code.into()),
        ]);
        object([("error", error), ("detail", detail)])
    }

    fn openai_type(&self) -> &'static str {
        match self.kind {
            Kind::Unauthorized => "authentication_error",
            Kind::UnknownModel | Kind::NotFound => "not_found_error",
            Kind::SlowBody | Kind::Late => "timeout_error",
            Kind::Limited => "rate_limit_error",
            Kind::Overloaded => "overloaded_error",
            Kind::Internal => "internal_error",
            _ => "invalid_request_error",
        }
    }

    fn detail_type(&self) -> &'static str {
        match self.kind {
            Kind::TooLong | Kind::TooLarge => self.code,
            _ => self.openai_type(),
        }
    }

    fn tei_type(&self) -> &'static str {
        match self.kind {
            Kind::Limited | Kind::Overloaded | Kind::Late => "Overloaded",
            Kind::Internal => "Backend",
            Kind::Unauthorized => "Unauthorized",
            Kind::UnknownModel | Kind::NotFound => "NotFound",
            _ => "Validation",
        }
    }

    /// Codes of Workers AI.
    fn cloudflare_code(&self) -> i64 {
        match self.kind {
            Kind::Json | Kind::SlowBody | Kind::Late => 6003,
            Kind::Invalid | Kind::NoLabels | Kind::MediaType => 5012,
            Kind::TooLong | Kind::TooLarge => 5021,
            Kind::Unauthorized => 10_000,
            Kind::UnknownModel => 7000,
            Kind::NotFound | Kind::Method => 7001,
            Kind::Limited | Kind::Overloaded => 3040,
            Kind::Internal => 5000,
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidRequest { field, message }
                if field == "request"
                    && (message.starts_with("not JSON") || message.starts_with("not UTF-8")) =>
            {
                Self { field: Some(field), ..Self::new(Kind::Json, "json_invalid", message) }
            }
            Error::InvalidRequest { field, message } => Self::invalid(field, message),
            Error::TooLarge { what, limit, actual } => too_large(&what, limit, actual),
            Error::Unsupported { device, need } => {
                Self::new(Kind::Invalid, "unsupported", format!("{device} has no {need}"))
            }
            Error::OutOfMemory { .. } => {
                Self::overloaded("out_of_memory", "no memory for it now", Duration::from_secs(1))
            }
            Error::DeviceLost { .. } => Self::overloaded(
                "device_lost",
                "the device went away; it is being opened again",
                Duration::from_secs(2),
            ),
            // What the operator has to repair is not the caller's to read.
            other => Self::internal(other.to_string()),
        }
    }
}

/// What is over a limit of the core: tokens and bytes are the request's size, the rest are counts.
fn too_large(what: &str, limit: u64, actual: u64) -> Failure {
    let counts = || format!("at most {limit}, got {actual}");
    if what.starts_with("tokens of questions and media") {
        let message = format!(
            "the questions and media alone are too long, and they are never cut: {} tokens",
            counts()
        );
        return Failure::new(Kind::TooLong, "context_length_exceeded", message);
    }
    if ["input tokens", "tokens of", "patches of"].iter().any(|start| what.starts_with(start)) {
        let message = format!("{what}: {}", counts());
        return Failure::new(Kind::TooLong, "context_length_exceeded", message);
    }
    if let Some(field) = what.strip_prefix("bytes of ")
        && !field.starts_with("the id of")
        && !field.starts_with("label")
    {
        let message = format!("{what}: {}", counts());
        return Failure::new(Kind::TooLarge, "request_too_large", message);
    }
    match what.split_once(" of ") {
        Some((unit, field)) if !field.contains(' ') || field.contains('"') => {
            Failure::too_many(field, unit, actual, limit)
        }
        _ if !what.contains(' ') => Failure::too_many(what, "", actual, limit).without_unit(limit, actual),
        _ => Failure::new(Kind::Invalid, "too_long", format!("{what}: {}", counts())),
    }
}

impl Failure {
    fn without_unit(self, limit: u64, actual: u64) -> Self {
        Self { message: format!("at most {limit}, got {actual}"), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core(what: &str) -> Failure {
        Error::TooLarge { what: what.into(), limit: 10, actual: 11 }.into()
    }

    #[test]
    fn a_limit_of_counts_names_the_field_and_both_numbers() {
        let failure = core("levels of questions.mood.criteria");
        let body = failure.body(Dialect::SystemOne, "r").to_string();
        let expected = r#"{"error":{"message":"questions.mood.criteria: at most 10 levels, got 11","type":"invalid_request_error","param":"questions.mood.criteria","code":"too_long"},"detail":[{"loc":["body","questions","mood","criteria"],"msg":"at most 10 levels, got 11","type":"too_long"}]}"#;
        assert_eq!(body, expected);
        assert_eq!(core("questions").message, "at most 10, got 11");
        assert_eq!(core("questions").field.as_deref(), Some("questions"));
    }

    #[test]
    fn statuses_depend_on_the_family() {
        let json: Failure = Error::invalid("request", "not JSON: line 1").into();
        let all = |f: &Failure| {
            [Dialect::SystemOne, Dialect::Decisions, Dialect::Cloudflare, Dialect::Labels]
                .map(|d| f.status(d))
        };
        assert_eq!(all(&json), [422, 400, 400, 422]);
        assert_eq!(all(&Failure::invalid("a", "b")), [422, 400, 422, 422]);
        assert_eq!(all(&core("input tokens")), [413; 4]);
        assert_eq!(all(&core("bytes of images[0]")), [413; 4]);
        assert_eq!(all(&core("patches of images[0] (resized to 1 x 2)")), [413; 4]);
        assert_eq!(all(&core("bytes of the id of questions.a")), [422, 400, 422, 422]);
        assert_eq!(all(&core("pixels of images[0] (1 x 2)")), [422, 400, 422, 422]);
        assert_eq!(core("input tokens").code, "context_length_exceeded");
        assert!(core("tokens of questions and media, which are never cut").message.contains("alone"));
    }

    #[test]
    fn a_fault_of_the_server_shows_its_id_only() {
        let failure: Failure = Error::Internal("secret path".into()).into();
        for dialect in [Dialect::SystemOne, Dialect::Decisions, Dialect::Cloudflare, Dialect::Labels] {
            let body = failure.body(dialect, "req-7").to_string();
            assert!(body.contains("req-7") && !body.contains("secret"), "{body}");
            assert_eq!(failure.status(dialect), 500);
        }
    }

    #[test]
    fn other_statuses_have_a_plain_detail() {
        let body = Failure::unknown_model("x", "clef").body(Dialect::SystemOne, "r");
        let detail = body.get("detail").map(ToString::to_string);
        let expected =
            r#"{"error_type":"not_found_error","message":"model: \"x\" is not served here; served: clef"}"#;
        assert_eq!(detail.as_deref(), Some(expected));
    }
}
