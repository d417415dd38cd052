//! Questions as people write them on a command line: `id:Which team?=billing: charges|sales`.

use dikast_core::request::Json;

use crate::exit::{Failure, Result};

/// Most characters of an id that is made of a text.
const MAX_SLUG: usize = 40;

/// A question of a flag.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Shorthand {
    id: Option<String>,
    kind: &'static str,
    instructions: String,
    criteria: Json,
}

impl Shorthand {
    /// `--ask`: the question, and `=true: …|false: …` where that follows.
    pub(super) fn noul(text: &str) -> Result<Self> {
        let (id, text) = split_id(text);
        let sides = |(at, _)| Some((&text[..at], sides(&text[at + 1..])?));
        let (question, criteria) = text.match_indices('=').find_map(sides).unwrap_or((text, Json::Null));
        Self::new("--ask", "noul", id, question, criteria)
    }

    /// `--choose`: the question and its options.
    pub(super) fn choice(text: &str) -> Result<Self> {
        let (id, rest) = split_id(text);
        let (question, options) = split_options("--choose", text, rest)?;
        let described = options.into_iter().map(|option| match option.split_once(": ") {
            Some((name, description)) => (name.trim().to_owned(), Json::from(description.trim())),
            None => (option.to_owned(), Json::Null),
        });
        Self::new("--choose", "choice", id, question, Json::Object(described.collect()))
    }

    /// `--rate`: the question and its levels.
    pub(super) fn score(text: &str) -> Result<Self> {
        let (id, rest) = split_id(text);
        let (question, levels) = split_options("--rate", text, rest)?;
        Self::new("--rate", "score", id, question, Json::Array(levels.into_iter().map(Json::from).collect()))
    }

    fn new(flag: &str, kind: &'static str, id: Option<&str>, question: &str, criteria: Json) -> Result<Self> {
        let instructions = question.trim().to_owned();
        // The model reads the id where there is no question.
        if instructions.is_empty() && id.is_none() {
            return Err(Failure::usage(format!("{flag}: there is no question")));
        }
        Ok(Self { id: id.map(str::to_owned), kind, instructions, criteria })
    }

    /// The id if one was given, and the question as a request has it.
    pub(super) fn into_question(self) -> (Option<String>, Json) {
        let mut entries = vec![("type".to_owned(), Json::from(self.kind))];
        if !self.instructions.is_empty() {
            entries.push(("instructions".to_owned(), Json::String(self.instructions)));
        }
        if self.criteria != Json::Null {
            entries.push(("criteria".to_owned(), self.criteria));
        }
        (self.id, Json::Object(entries))
    }
}

/// `id:question`. An id is a word that starts with a letter, and no space follows its colon, as one does in prose;
/// `http://…` is no id either.
fn split_id(text: &str) -> (Option<&str>, &str) {
    let Some((id, rest)) = text.split_once(':') else { return (None, text) };
    let word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let is_id = id.starts_with(|c: char| c.is_alphabetic() || c == '_') && id.chars().all(word);
    let follows = !rest.is_empty() && !rest.starts_with(|c: char| c.is_whitespace() || c == '/' || c == ':');
    if is_id && follows { (Some(id), rest) } else { (None, text) }
}

/// The question and its options. `whole` is what the flag was given.
fn split_options<'t>(flag: &str, whole: &str, text: &'t str) -> Result<(&'t str, Vec<&'t str>)> {
    let wrong = |message: &str| Failure::usage(format!("{flag} {whole:?}: {message}"));
    let at = text.find("?=").map(|at| at + 1).or_else(|| text.find('='));
    let at = at.ok_or_else(|| wrong("no options found; write them as QUESTION=first|second"))?;
    let options: Vec<&str> = text[at + 1..].split('|').map(str::trim).collect();
    if options.iter().any(|option| option.is_empty()) {
        return Err(wrong("there is an empty option"));
    }
    Ok((&text[..at], options))
}

/// `true: …|false: …`, one or both, or `yes` and `no`; `None` if the text is anything else.
fn sides(text: &str) -> Option<Json> {
    let side = |part: &str| {
        let (name, description) = part.split_once(": ")?;
        let name = match name.trim() {
            "true" | "yes" => "true",
            "false" | "no" => "false",
            _ => return None,
        };
        Some((name.to_owned(), Json::from(description.trim())))
    };
    let sides: Vec<_> = text.split('|').map(side).collect::<Option<_>>()?;
    // Twice the same side is text.
    let twice = matches!(&sides[..], [(a, _), (b, _)] if a == b) || sides.len() > 2;
    (!twice).then_some(Json::Object(sides))
}

/// A text as an id: its first words in small letters; empty if it has none.
pub(super) fn slug(text: &str) -> String {
    let text: String = text.chars().filter(|c| !matches!(c, '\'' | '’')).collect();
    let mut out = String::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        if !out.is_empty() {
            if out.chars().count() + 1 + word.chars().count() > MAX_SLUG {
                break;
            }
            out.push('_');
        }
        out.extend(word.chars().take(MAX_SLUG));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(shorthand: Result<Shorthand>) -> (Option<String>, String) {
        let (id, question) = shorthand.unwrap().into_question();
        (id, question.to_string())
    }

    #[test]
    fn yes_or_no() {
        for (text, id, json) in [
            ("Is it urgent?", None, r#"{"type":"noul","instructions":"Is it urgent?"}"#),
            ("urgent:Is it urgent?", Some("urgent"), r#"{"type":"noul","instructions":"Is it urgent?"}"#),
            ("Note: is it?", None, r#"{"type":"noul","instructions":"Note: is it?"}"#),
            ("http://x.y is up?", None, r#"{"type":"noul","instructions":"http://x.y is up?"}"#),
            ("Is a=b?", None, r#"{"type":"noul","instructions":"Is a=b?"}"#),
            (
                "Is x=1?=yes: one|false: other",
                None,
                r#"{"type":"noul","instructions":"Is x=1?","criteria":{"true":"one","false":"other"}}"#,
            ),
            ("a=true: x|true: y", None, r#"{"type":"noul","instructions":"a=true: x|true: y"}"#),
        ] {
            assert_eq!(tree(Shorthand::noul(text)), (id.map(str::to_owned), json.to_owned()), "{text}");
        }
    }

    #[test]
    fn options_and_levels() {
        for (text, id, json) in [
            (
                "Which team?=billing: charges, refunds | sales|tech",
                None,
                r#"{"type":"choice","instructions":"Which team?","criteria":{"billing":"charges, refunds","sales":null,"tech":null}}"#,
            ),
            (
                "t:Is a=b?=yes|no=maybe",
                Some("t"),
                r#"{"type":"choice","instructions":"Is a=b?","criteria":{"yes":null,"no=maybe":null}}"#,
            ),
            ("team:=a|b", Some("team"), r#"{"type":"choice","criteria":{"a":null,"b":null}}"#),
        ] {
            assert_eq!(tree(Shorthand::choice(text)), (id.map(str::to_owned), json.to_owned()), "{text}");
        }
        let json = r#"{"type":"score","instructions":"Urgency","criteria":["low","high: now"]}"#;
        assert_eq!(tree(Shorthand::score("Urgency=low|high: now")), (None, json.to_owned()));
    }

    #[test]
    fn mistakes_are_named() {
        for (made, part) in [
            (Shorthand::choice("Which team?"), "no options found"),
            (Shorthand::score("Urgency=low||high"), "empty option"),
            (Shorthand::choice("Which?="), "empty option"),
            (Shorthand::choice("=a|b"), "no question"),
            (Shorthand::noul("  "), "no question"),
        ] {
            let failure = made.unwrap_err();
            assert!(failure.code() == 2 && failure.to_string().contains(part), "{failure}");
        }
    }

    #[test]
    fn slugs() {
        assert_eq!(slug("Is it urgent?"), "is_it_urgent");
        assert_eq!(slug("What's  the Größe (cm)?"), "whats_the_größe_cm");
        assert_eq!(slug("何時ですか？"), "何時ですか");
        assert_eq!(slug("?!"), "");
        let long = slug(&"many words ".repeat(20));
        assert!(long.len() <= MAX_SLUG && long.starts_with("many_words_many"), "{long}");
        assert_eq!(slug(&"x".repeat(99)).len(), MAX_SLUG);
    }
}
