//! The questions of a Decisions body.

use std::collections::HashMap;

use dikast_core::request::limits::{MAX_LEVELS, MAX_OPTIONS, MAX_QUESTIONS};
use dikast_core::request::{Json, Question};

use super::decisions_input::{Pictures, instructions};
use super::failure::Failure;
use super::fields::{at_most, items, needed, present, string, wrong};

/// What the answer to a question repeats of it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    /// The caller's name for it.
    pub(super) name: Option<String>,
    /// Its type with its values.
    pub(super) kind: Kind,
}

/// Types of questions.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    /// True or not.
    Predicate,
    /// The values, strings and booleans, in order.
    Choice(Vec<Json>),
    /// The labels of the levels, in order.
    Score(Vec<String>),
}

/// The questions for the model and for the answer.
///
/// A predicate becomes a noul without criteria; the options of a choice are its values (a boolean beside a string of the
/// same name gets ` (boolean)` behind it); a level is its label, or `label: description`. The id that the model reads is the
/// question's name if it is not empty and no other question's, else `q` and its number from 1.
pub(super) fn read(value: &Json, pictures: &mut Pictures) -> Result<(Vec<Question>, Vec<Asked>), Failure> {
    let all = items("questions", value)?;
    if all.is_empty() {
        return Err(Failure::invalid("questions", "none found, at least one is needed"));
    }
    at_most("questions", "questions", all.len(), MAX_QUESTIONS)?;
    let mut names = Vec::with_capacity(all.len());
    for (i, question) in all.iter().enumerate() {
        names.push(match present(question, "name") {
            None => None,
            Some(name) => Some(string(&format!("questions.{i}.name"), name)?.to_owned()),
        });
    }
    let ids = ids(&names);
    let mut read = (Vec::with_capacity(all.len()), Vec::with_capacity(all.len()));
    for (i, ((value, name), id)) in all.iter().zip(names).zip(ids).enumerate() {
        let (question, kind) = one(&format!("questions.{i}"), id, value, pictures)?;
        read.0.push(question);
        read.1.push(Asked { name, kind });
    }
    Ok(read)
}

fn ids(names: &[Option<String>]) -> Vec<String> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in names.iter().flatten() {
        *uses.entry(name).or_default() += 1;
    }
    let made = |i: usize| format!("q{}", i + 1);
    let id = |(i, name): (usize, &Option<String>)| match name {
        Some(name) if !name.is_empty() && uses.get(name.as_str()) == Some(&1) => name.clone(),
        // A caller may have named another question like this.
        _ => {
            let mut id = made(i);
            while uses.contains_key(id.as_str()) {
                id.push('_');
            }
            id
        }
    };
    names.iter().enumerate().map(id).collect()
}

fn one(field: &str, id: String, value: &Json, pictures: &mut Pictures) -> Result<(Question, Kind), Failure> {
    if !matches!(value, Json::Object(_)) {
        return Err(wrong(field, value, "a map"));
    }

    let type_field = format!("{field}.type");
    let kind = string(&type_field, needed(value, field, "type")?)?;
    let asked = match present(value, "instructions") {
        Some(given) => Some(instructions(&format!("{field}.instructions"), given, pictures)?),
        None => None,
    };
    match kind {
        "predicate" => {
            let asked = asked.ok_or_else(|| Failure::invalid(format!("{field}.instructions"), "missing"))?;
            Ok((Question::noul(id, asked), Kind::Predicate))
        }
        "choice" => {
            let (options, values) = choices(&format!("{field}.choices"), needed(value, field, "choices")?)?;
            let question = Question { instructions: asked, ..Question::choice(id, Json::Null, options) };
            Ok((question, Kind::Choice(values)))
        }
        "score" => {
            let (levels, labels) = levels(&format!("{field}.levels"), needed(value, field, "levels")?)?;
            let question = Question { instructions: asked, ..Question::score(id, Json::Null, levels) };
            Ok((question, Kind::Score(labels)))
        }
        _ => {
            Err(Failure::invalid(type_field, "an unknown type found; predicate, choice or score is allowed"))
        }
    }
}

type Options = Vec<(String, Json)>;

fn choices(field: &str, value: &Json) -> Result<(Options, Vec<Json>), Failure> {
    let all = items(field, value)?;
    between(field, "choices", all.len(), MAX_OPTIONS)?;
    let mut values = Vec::with_capacity(all.len());
    for (i, choice) in all.iter().enumerate() {
        let field = format!("{field}.{i}");
        match needed(choice, &field, "value")? {
            value @ (Json::String(_) | Json::Bool(_)) => {
                if values.contains(value) {
                    return Err(Failure::invalid(format!("{field}.value"), "this value stands twice"));
                }
                values.push(value.clone());
            }
            other => return Err(wrong(&format!("{field}.value"), other, "a string or a boolean")),
        }
    }
    let mut options = Options::with_capacity(all.len());
    for (i, (choice, value)) in all.iter().zip(&values).enumerate() {
        let mut id = match value {
            Json::Bool(value) => value.to_string(),
            other => other.as_str().unwrap_or_default().to_owned(),
        };
        if matches!(value, Json::Bool(_)) {
            while values.iter().any(|other| other.as_str() == Some(&id)) {
                id.push_str(" (boolean)");
            }
        }
        options.push((id, description(&format!("{field}.{i}"), choice)?.map_or(Json::Null, Json::from)));
    }
    Ok((options, values))
}

fn levels(field: &str, value: &Json) -> Result<(Vec<Json>, Vec<String>), Failure> {
    let all = items(field, value)?;
    between(field, "levels", all.len(), MAX_LEVELS)?;
    let mut read = (Vec::new(), Vec::new());
    for (i, level) in all.iter().enumerate() {
        let field = format!("{field}.{i}");
        let label = string(&format!("{field}.label"), needed(level, &field, "label")?)?;
        read.0.push(match description(&field, level)? {
            Some(text) => format!("{label}: {text}").into(),
            None => label.into(),
        });
        read.1.push(label.to_owned());
    }
    Ok(read)
}

fn description<'v>(field: &str, map: &'v Json) -> Result<Option<&'v str>, Failure> {
    present(map, "description").map(|text| string(&format!("{field}.description"), text)).transpose()
}

fn between(field: &str, unit: &str, found: usize, most: usize) -> Result<(), Failure> {
    if found < 2 {
        return Err(Failure::invalid(field, format!("at least 2 {unit}, got {found}")));
    }
    at_most(field, unit, found, most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_whatever_the_names() {
        let names =
            |names: &[Option<&str>]| ids(&names.iter().map(|n| n.map(str::to_owned)).collect::<Vec<_>>());
        assert_eq!(names(&[None, Some("a"), Some(""), Some("a")]), ["q1", "q2", "q3", "q4"]);
        assert_eq!(names(&[None, Some("q1"), Some("b")]), ["q1_", "q1", "b"]);
        assert_eq!(names(&[None, Some("q1"), Some("q1_")]), ["q1__", "q1", "q1_"]);
    }

    #[test]
    fn equal_values_are_refused_and_types_told_apart() {
        let read = |text: &str| choices("c", &Json::parse(text).expect("JSON"));
        assert!(read(r#"[{"value":"a"},{"value":"a"}]"#).is_err());
        assert!(
            read(r#"[{"value":1},{"value":"a"}]"#).is_err_and(|f| f.field.as_deref() == Some("c.0.value"))
        );
        let (options, _) =
            read(r#"[{"value":true},{"value":"true"},{"value":"true (boolean)"}]"#).expect("read");
        let ids: Vec<&str> = options.iter().map(|(id, _)| id.as_str()).collect();
        assert_eq!(ids, ["true (boolean) (boolean)", "true", "true (boolean)"]);
    }
}
