//! Lines of typed questions: System One requests with what would be right.

use std::path::{Component, Path};

use dikast_core::request::{Criteria, DecideRequest, Question as Asked};
use dikast_core::{Error, Result};
use serde_json::{Map, Value};

use super::{File, Gold, Question, Request, Rule, place, unknown};

/// Largest picture.
const MAX_PICTURE: u64 = 64 << 20;

/// The request and the questions of a line. `expected` is a map of question id → option: `true` or `false`, an option's
/// id, a level's number. `image_files` are pictures beside the file, or in the folder `NAME_images` beside `NAME.jsonl`.
pub(super) fn line(
    file: &File<'_>,
    number: u64,
    text: &str,
    map: &Map<String, Value>,
) -> Result<(Request, Vec<Question>)> {
    // From the text, not from the map: the request keeps every digit of its numbers.
    let mut request = DecideRequest::from_json(text).map_err(file.at(number))?;
    if let Some(names) = map.get("image_files").filter(|v| !v.is_null()) {
        let names = names.as_array().ok_or_else(|| file.fault(number, "image_files is no list"))?;
        for name in names {
            let name =
                name.as_str().ok_or_else(|| file.fault(number, "image_files holds what is no name"))?;
            request.images.push(picture(file, number, name)?);
        }
    }
    let none = Map::new();
    let expected = match map.get("expected") {
        None | Some(Value::Null) => &none,
        Some(Value::Object(expected)) => expected,
        Some(_) => return Err(file.fault(number, "expected is no map of question → option")),
    };
    if let Some(id) = expected.keys().find(|id| !request.questions.iter().any(|q| q.id == **id)) {
        return Err(file.fault(number, format!("expected names {id:?}, which is not asked")));
    }
    let questions = request
        .questions
        .iter()
        .map(|q| {
            let options = q.option_ids();
            let gold = match expected.get(&q.id) {
                None | Some(Value::Null) => None,
                Some(value) => {
                    let label = label(q, value).ok_or_else(|| {
                        file.fault(number, format!("expected of {:?} is neither a string nor a number", q.id))
                    })?;
                    let place =
                        place(&options, &label).ok_or_else(|| unknown(file, number, &label, &options))?;
                    Some(Gold::One(place))
                }
            };
            Ok(question(q, gold))
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((Request::Decide(request), questions))
}

/// A typed question: its options compete.
pub(super) fn question(asked: &Asked, gold: Option<Gold>) -> Question {
    Question { name: asked.id.clone(), options: asked.option_ids(), rule: Rule::Best, gold }
}

/// An option as its id.
fn label(question: &Asked, value: &Value) -> Option<String> {
    match (value, &question.criteria) {
        (Value::String(text), _) => Some(text.clone()),
        (Value::Bool(yes), Criteria::Noul { .. }) => Some(yes.to_string()),
        (Value::Number(level), Criteria::Score(_)) => Some(level.to_string()),
        _ => None,
    }
}

fn picture(file: &File<'_>, number: u64, name: &str) -> Result<Vec<u8>> {
    // What a file of examples names must lie beside it.
    if !Path::new(name).components().all(|c| matches!(c, Component::Normal(_))) {
        return Err(file.fault(number, format!("the picture {name:?} must lie below the file's folder")));
    }
    let beside = file.folder.join(name);
    let own = file.folder.join(format!("{}_images", file.set())).join(name);
    let path = if own.is_file() { own } else { beside };
    let io = |e: std::io::Error| file.fault(number, format!("the picture {}: {e}", path.display()));
    let bytes = std::fs::metadata(&path).map_err(io)?.len();
    if bytes > MAX_PICTURE {
        let what = format!("bytes of the picture {name}");
        return Err(Error::TooLarge { what, limit: MAX_PICTURE, actual: bytes });
    }
    std::fs::read(&path).map_err(io)
}
