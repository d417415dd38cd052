//! Where the state comes from, and whether it is text or JSON.

use std::io::IsTerminal as _;
use std::path::Path;

use dikast_core::Error;
use dikast_core::request::Json;

use crate::args::{DecideArgs, StateAs};
use crate::exit::{Failure, Result};
use crate::{source, terminal};

/// The state of `--state` or standard input.
pub(super) fn read(args: &DecideArgs) -> Result<Json> {
    let text = match args.state.as_deref() {
        Some("-") => source::without_last_line_end(source::read_stdin()?),
        Some(value) => match value.strip_prefix('@') {
            Some("") => return Err(Failure::usage("--state: @ must be followed by the name of a file")),
            Some(path) => source::without_last_line_end(source::read_file(Path::new(path))?),
            None => value.to_owned(),
        },
        None if !(args.image.is_empty() && args.video.is_empty()) => String::new(),
        None if std::io::stdin().is_terminal() => {
            return Err(Failure::usage(
                "no state: give --state, --image, --video or --input, or pipe one in",
            ));
        }
        None => source::without_last_line_end(source::read_stdin()?),
    };
    parse(text, args.state_as)
}

fn parse(text: String, form: StateAs) -> Result<Json> {
    match form {
        StateAs::Text => Ok(Json::String(text)),
        StateAs::Json => match Json::parse(&text) {
            Ok(tree @ (Json::Object(_) | Json::Array(_) | Json::String(_))) => Ok(tree),
            Ok(other) => {
                let message =
                    format!("--state: {} found, a map, a list or a string is allowed", other.kind());
                Err(Failure::usage(message))
            }
            Err(error) => Err(Failure::usage(format!("--state: {}", reason(error)))),
        },
        StateAs::Auto if text.trim_start().starts_with(['{', '[']) => match Json::parse(&text) {
            Ok(tree) => Ok(tree),
            // Something that ends like JSON as well may be JSON with a mistake.
            Err(error) if text.trim_end().ends_with(['}', ']']) => {
                terminal::warn(&format!(
                    "the state looks like JSON, but is read as text ({}); --state-as text says that it is text, \
                     --state-as json that it is not",
                    reason(error)
                ));
                Ok(Json::String(text))
            }
            Err(_) => Ok(Json::String(text)),
        },
        StateAs::Auto => Ok(Json::String(text)),
    }
}

/// The error without the field: it is the state.
fn reason(error: Error) -> String {
    match error {
        Error::InvalidRequest { message, .. } => message,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str, form: StateAs) -> Option<&'static str> {
        parse(text.to_owned(), form).ok().map(|state| state.kind())
    }

    #[test]
    fn json_is_found_where_people_expect_it() {
        for (text, auto, json) in [
            ("hello", "a string", None),
            ("{\"a\": 1}", "a map", Some("a map")),
            (" [1, 2]\n", "a list", Some("a list")),
            ("[sic] he said", "a string", None),
            ("{\"a\": 1} and more", "a string", None),
            ("{a: 1}", "a string", None),
            ("\"quoted\"", "a string", Some("a string")),
            ("42", "a string", None),
            ("", "a string", None),
        ] {
            assert_eq!(kind(text, StateAs::Auto), Some(auto), "{text}");
            assert_eq!(kind(text, StateAs::Json), json, "{text}");
            assert_eq!(parse(text.to_owned(), StateAs::Text).unwrap(), Json::from(text));
        }
    }
}
