//! The list of models, in a form that both families of SDKs read.

use dikast_core::request::Json;

use super::json::{count, list, object, push};

/// A served model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// Its id.
    pub(crate) id: String,
    /// One sentence.
    pub(crate) description: String,
    /// What it answers: `systemone`, `decision`, `classify`.
    pub(crate) capabilities: Vec<&'static str>,
    /// `text`, `image`.
    pub(crate) modalities: Vec<&'static str>,
    /// Largest number of tokens of a request.
    pub(crate) max_tokens: usize,
    /// How its weights are stored; unknown before they are loaded.
    pub(crate) format: Option<String>,
}

/// All models: OpenAI's half and TypeSafe's half. `since` is when they were served first, in seconds since 1970.
pub(crate) fn all(models: &[Listed], since: u64) -> Json {
    let short = |m: &Listed| {
        object([
            ("name", m.id.as_str().into()),
            ("description", m.description.as_str().into()),
            ("release_date", date(since).into()),
        ])
    };
    object([
        ("object", "list".into()),
        ("data", list(models.iter().map(|m| one(m, since)))),
        ("models", list(models.iter().map(short))),
    ])
}

/// One model, fields of both halves.
pub(crate) fn one(model: &Listed, since: u64) -> Json {
    let names = |all: &[&str]| list(all.iter().map(|&name| Json::from(name)));
    let mut json = object([
        ("id", model.id.as_str().into()),
        ("object", "model".into()),
        ("created", count(since)),
        ("owned_by", "dikast".into()),
        ("name", model.id.as_str().into()),
        ("description", model.description.as_str().into()),
        ("release_date", date(since).into()),
        ("capabilities", names(&model.capabilities)),
        ("x_max_input_tokens", count(model.max_tokens)),
        ("x_input_modalities", names(&model.modalities)),
    ]);
    if let Some(format) = &model.format {
        push(&mut json, "x_quantization", format.as_str().into());
    }
    json
}

/// `YYYY-MM-DD` (UTC) of seconds since 1970, by Howard Hinnant's `civil_from_days`.
fn date(seconds: u64) -> String {
    let days = (seconds / 86_400) as i64 + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{:02}", of_year - (153 * shifted + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, expected) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_709_164_800, "2024-02-29"),
            (1_735_689_599, "2024-12-31"),
            (1_796_083_200, "2026-12-01"),
        ] {
            assert_eq!(date(seconds), expected);
        }
    }

    #[test]
    fn both_halves() {
        let model = Listed {
            id: "m".into(),
            description: "d".into(),
            capabilities: vec!["systemone"],
            modalities: vec!["text"],
            max_tokens: 7,
            format: None,
        };
        let all = all(&[model], 0);
        let first = |key: &str| match all.get(key) {
            Some(Json::Array(items)) => items.first().cloned(),
            _ => None,
        };
        assert_eq!(first("data").and_then(|m| m.get("id").cloned()), Some("m".into()));
        assert_eq!(
            first("models").map(|m| m.to_string()).as_deref(),
            Some(r#"{"name":"m","description":"d","release_date":"1970-01-01"}"#)
        );
    }
}
