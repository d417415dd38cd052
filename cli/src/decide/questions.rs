//! The questions of the flags as one map.

use std::collections::HashSet;
use std::path::Path;

use dikast_core::Error;
use dikast_core::request::Json;

use super::shorthand::{Shorthand, slug};
use crate::args::{Asked, AskedArgs};
use crate::exit::{Failure, Result};
use crate::source;

/// Questions in the order in which they were asked.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Questions(Vec<Entry>);

#[derive(Debug, Clone, PartialEq)]
struct Entry {
    id: String,
    /// The id was made here, so that showing it tells nothing.
    derived: bool,
    /// `{type, instructions, criteria}`.
    question: Json,
}

impl Questions {
    /// The questions of the flags; there may be none.
    ///
    /// # Errors
    /// A file that cannot be read, or a value that is no question. What the questions say is checked where they are
    /// parsed.
    pub(crate) fn collect(args: &AskedArgs) -> Result<Self> {
        let mut found: Vec<(Option<String>, Json)> = Vec::new();
        for asked in &args.0 {
            match asked {
                Asked::Questions(value) => {
                    found.extend(map(value)?.into_iter().map(|(id, question)| (Some(id), question)));
                }
                Asked::Ask(text) => found.push(Shorthand::noul(text)?.into_question()),
                Asked::Choose(text) => found.push(Shorthand::choice(text)?.into_question()),
                Asked::Rate(text) => found.push(Shorthand::score(text)?.into_question()),
            }
        }
        // Given ids come first: one that is made gives way to them, also to a later one.
        let mut taken: HashSet<String> = found.iter().filter_map(|(id, _)| id.clone()).collect();
        let named = found.into_iter().enumerate().map(|(i, (id, question))| match id {
            Some(id) => Entry { id, derived: false, question },
            None => {
                let text = question.get("instructions").and_then(Json::as_str).unwrap_or_default();
                let id = unique(&slug(text), i, &taken);
                taken.insert(id.clone());
                Entry { id, derived: true, question }
            }
        });
        Ok(Self(named.collect()))
    }

    /// Nothing is asked.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The questions as people read them; the id stands before them if it was given.
    pub(super) fn titles(&self) -> Vec<String> {
        let title = |entry: &Entry| {
            let text = match entry.question.get("instructions") {
                None | Some(Json::Null) => String::new(),
                Some(Json::String(text)) => text.clone(),
                Some(other) => other.to_string(),
            };
            match (entry.derived, text.is_empty()) {
                (true, _) => text,
                (false, true) => entry.id.clone(),
                (false, false) => format!("{}: {text}", entry.id),
            }
        };
        self.0.iter().map(title).collect()
    }

    /// The map of a request; null if nothing is asked.
    pub(crate) fn into_tree(self) -> Json {
        if self.is_empty() {
            return Json::Null;
        }
        Json::Object(self.0.into_iter().map(|entry| (entry.id, entry.question)).collect())
    }
}

/// An id that is not taken; `place` counts questions from 0.
fn unique(slug: &str, place: usize, taken: &HashSet<String>) -> String {
    let base = if slug.is_empty() { format!("question_{}", place + 1) } else { slug.to_owned() };
    if !taken.contains(&base) {
        return base;
    }
    let numbered = (2_usize..).map(|n| format!("{base}_{n}"));
    numbered.into_iter().find(|id| !taken.contains(id)).unwrap_or(base)
}

/// The map of `--questions`: JSON, or a file that holds it.
fn map(value: &str) -> Result<Vec<(String, Json)>> {
    let value = value.trim();
    let (name, text) = if value.starts_with(['{', '[']) {
        ("--questions".to_owned(), value.to_owned())
    } else {
        let path = value.strip_prefix('@').unwrap_or(value);
        if matches!(path, "" | "-") {
            return Err(Failure::usage("--questions: JSON or the name of a file is needed"));
        }
        (format!("--questions {path}"), source::read_file(Path::new(path))?)
    };
    match Json::parse(text) {
        Ok(Json::Object(entries)) => Ok(entries),
        Ok(other) => {
            let message =
                format!("{name}: {} found, a map of question id to question is needed", other.kind());
            Err(Failure::usage(message))
        }
        Err(Error::InvalidRequest { message, .. }) => Err(Failure::usage(format!("{name}: {message}"))),
        Err(error) => Err(Failure::usage(format!("{name}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(asked: &[Asked]) -> Vec<String> {
        let questions = Questions::collect(&AskedArgs(asked.to_vec())).unwrap();
        questions.0.into_iter().map(|entry| entry.id).collect()
    }

    #[test]
    fn ids_are_readable_and_unique() {
        let ask = |text: &str| Asked::Ask(text.to_owned());
        let map = Asked::Questions(r#"{"is_it_late_2": {"type": "noul"}}"#.to_owned());
        let asked =
            [ask("Is it late?"), ask("Is it late"), ask("is IT late!"), ask("?!"), map, ask("x:Why?")];
        let expected = ["is_it_late", "is_it_late_3", "is_it_late_4", "question_4", "is_it_late_2", "x"];
        assert_eq!(ids(&asked), expected);
    }

    #[test]
    fn titles_show_ids_that_were_given() {
        let asked = [
            Asked::Ask("Is it late?".into()),
            Asked::Ask("late:Is it late?".into()),
            Asked::Questions(
                r#"{"a": {"type": "noul"}, "b": {"type": "noul", "instructions": {"x": 1.0}}}"#.into(),
            ),
        ];
        let titles = Questions::collect(&AskedArgs(asked.to_vec())).unwrap().titles();
        assert_eq!(titles, ["Is it late?", "late: Is it late?", "a", "b: {\"x\":1.0}"]);
    }

    #[test]
    fn mistakes_are_named() {
        for (value, part) in [
            ("[1]", "a list found"),
            ("{", "--questions: "),
            ("no/such/file", "no/such/file"),
            ("-", "the name of a file"),
        ] {
            let failure = Questions::collect(&AskedArgs(vec![Asked::Questions(value.into())])).unwrap_err();
            assert!(failure.code() == 2 && failure.to_string().contains(part), "{failure}");
        }
    }
}
