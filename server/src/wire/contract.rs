//! Two contracts share one path: the body tells which one it is.

use dikast_core::request::Json;

use super::failure::Failure;
use super::fields::a_map;

/// What a body asks by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Contract {
    /// `state` and a map of questions.
    SystemOne,
    /// `input` and a list of questions.
    Decisions,
}

/// The two accepted pairs, for messages.
const PAIRS: &str =
    "send state with a map of questions (System One), or input with a list of questions (Decisions)";

/// The contract of a body.
pub(crate) fn sniff(body: &Json) -> Result<Contract, Failure> {
    a_map(body)?;
    let (state, input) = (body.get("state").is_some(), body.get("input").is_some());
    match (state, input, body.get("questions")) {
        (true, false, Some(Json::Object(_))) => Ok(Contract::SystemOne),
        (false, true, Some(Json::Array(_))) => Ok(Contract::Decisions),
        (true, true, _) => Err(Failure::invalid("request", format!("state and input found; {PAIRS}"))),
        (false, false, _) => {
            Err(Failure::invalid("request", format!("neither state nor input found; {PAIRS}")))
        }
        (_, _, None) => Err(Failure::invalid("questions", format!("missing; {PAIRS}"))),
        (_, _, Some(other)) => {
            let beside = if state { "state" } else { "input" };
            Err(Failure::invalid("questions", format!("{} found beside {beside}; {PAIRS}", other.kind())))
        }
    }
}

/// Whether a body is meant for the other route: it gets a hint instead of a complaint about a missing state.
pub(crate) fn only_systemone(body: &Json) -> Result<(), Failure> {
    a_map(body)?;
    if body.get("state").is_none() && body.get("input").is_some() {
        let message = "this is a body of the Decisions form; send it to /v1/decisions, or send state and a map of questions";
        return Err(Failure::invalid("state", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Contract, Failure> {
        sniff(&Json::parse(text).expect("JSON"))
    }

    #[test]
    fn bodies_tell() {
        assert_eq!(of(r#"{"state":"x","questions":{}}"#), Ok(Contract::SystemOne));
        assert_eq!(of(r#"{"input":"x","questions":[]}"#), Ok(Contract::Decisions));
        for body in [
            r#"{"state":"x","input":"x","questions":[]}"#,
            r#"{"questions":[]}"#,
            r#"{"state":"x","questions":[]}"#,
            r#"{"input":"x","questions":{}}"#,
            r#"{"input":"x"}"#,
        ] {
            let failure = of(body).expect_err(body);
            assert!(failure.message.contains("state") && failure.message.contains("input"), "{failure:?}");
        }
        assert!(of("[]").is_err());
    }

    #[test]
    fn the_other_route_is_named() {
        let body = Json::parse(r#"{"input":"x","questions":[]}"#).expect("JSON");
        assert!(only_systemone(&body).is_err_and(|f| f.message.contains("/v1/decisions")));
    }
}
