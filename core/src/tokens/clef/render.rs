//! Values of a request as the text that the model reads.

use crate::request::Json;
use crate::request::decide::{ReadOption, write_string};

/// A string as it is, anything else as [`Json::to_sorted_text`].
pub fn render(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        other => other.to_sorted_text(),
    }
}

/// An option: `{"description":…,"option_id":"…"}`, without a description if it has none.
pub(super) fn render_option(option: &ReadOption<'_>) -> String {
    let mut text = String::from("{");
    if let Some(description) = &option.description {
        text.push_str("\"description\":");
        text.push_str(&description.to_sorted_text());
        text.push(',');
    }
    text.push_str("\"option_id\":");
    write_string(&mut text, &option.id);
    text.push('}');
    text
}
