//! The engine's errors in the words of the command line: which flag is meant, and what helps.

use dikast_core::Error;

use crate::decider::TOO_LONG;

/// Names of request fields inside the engine's messages, with the words around them, and the flags for them.
const FIELDS: [[&str; 2]; 3] = [
    ["(allow_duplicate_labels scores", "(--allow-duplicate-labels scores"],
    ["(allow_empty_labels accepts", "(--allow-empty-labels accepts"],
    ["(allow_markers accepts", "(--allow-markers accepts"],
];

/// The message of an error, as the commands print it and write it into records.
pub(crate) fn message(error: &Error) -> String {
    match error {
        Error::InvalidRequest { field, message } => {
            let mut message = message.clone();
            for [name, flag] in FIELDS {
                message = message.replace(name, flag);
            }
            format!("invalid request: {field}: {message}")
        }
        Error::TooLarge { what, limit, .. } => match remedy(what, *limit) {
            Some(remedy) => format!("{error}; {remedy}"),
            None => error.to_string(),
        },
        _ => error.to_string(),
    }
}

/// What to do about something too large, where a flag helps.
fn remedy(what: &str, limit: u64) -> Option<String> {
    if what.contains("--chunk-chars") {
        // It already says what fits.
        return None;
    }
    if what == TOO_LONG {
        let drops = "--truncate end drops the end of the state, --max-tokens raises the limit";
        return Some(drops.into());
    }
    if what.starts_with("tokens of questions and media") {
        return Some("use fewer questions, options or pictures, or a higher --max-tokens".into());
    }
    if what.starts_with("input tokens") && what.contains("besides the text") {
        return Some(
            "use fewer or shorter labels, --chunk for groups of labels, or a higher --max-tokens".into(),
        );
    }
    if what.starts_with("input tokens") {
        return Some(
            "--truncate text drops the end of the text, --chunk judges it window by window, --max-tokens raises the \
             limit"
                .into(),
        );
    }
    match what {
        "max_tokens" => Some("see --max-tokens".into()),
        "labels of one forward pass of this model" => {
            Some(format!("--chunk --chunk-labels {limit} judges them in groups"))
        }
        w if w.starts_with("forward passes") => {
            Some("raise --chunk-chars or --chunk-labels, or lower --chunk-overlap".into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use dikast_core::request::ClassifyRequest;

    #[test]
    fn duplicate_labels_name_the_flag() {
        let request = json!({"text": "t", "labels": ["a", "a"]});
        let message = message(&ClassifyRequest::from_json(&request).unwrap_err());
        assert!(message.contains("(--allow-duplicate-labels scores"), "{message}");
        assert!(!message.contains("(allow_"), "{message}");
    }

    #[test]
    fn long_input_names_three_ways_out() {
        let error = Error::TooLarge { what: "input tokens".into(), limit: 8, actual: 9 };
        let message = message(&error);
        assert!(message.starts_with("too large: input tokens: 9 found, 8 allowed; "), "{message}");
        for flag in ["--truncate text", "--chunk", "--max-tokens"] {
            assert!(message.contains(flag), "{message}");
        }
    }

    #[test]
    fn many_labels_name_groups() {
        let what = "labels of one forward pass of this model";
        let message = message(&Error::TooLarge { what: what.into(), limit: 25, actual: 40 });
        assert!(message.contains("--chunk --chunk-labels 25"), "{message}");
    }
}
