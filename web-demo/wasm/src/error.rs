//! The core's errors as JavaScript objects.

use dikast_core::Error;
use js_sys::JSON;
use serde_json::{Value, json};
use wasm_bindgen::JsValue;

/// Result of everything that JavaScript calls.
pub(crate) type Result<T> = std::result::Result<T, JsValue>;

/// `{kind, message, …}`: the variant's name, its text, and its fields under their own names.
pub(crate) fn thrown(error: &Error) -> JsValue {
    let text = described(error).to_string();
    JSON::parse(&text).unwrap_or_else(|_| JsValue::from_str(&text))
}

fn described(error: &Error) -> Value {
    let mut object = match error {
        Error::InvalidRequest { field, message } => {
            json!({"kind": "InvalidRequest", "field": field, "detail": message})
        }
        Error::TooLarge { what, limit, actual } => {
            json!({"kind": "TooLarge", "what": what, "limit": limit, "actual": actual})
        }
        Error::Checkpoint { item, message } => json!({"kind": "Checkpoint", "item": item, "detail": message}),
        Error::Unsupported { device, need } => json!({"kind": "Unsupported", "device": device, "need": need}),
        Error::OutOfMemory { device, needed, available } => {
            json!({"kind": "OutOfMemory", "device": device, "needed": needed, "available": available})
        }
        Error::DeviceLost { device, message } => {
            json!({"kind": "DeviceLost", "device": device, "detail": message})
        }
        Error::Io { path, message } => json!({"kind": "Io", "path": path, "detail": message}),
        _ => json!({"kind": "Internal"}),
    };
    object["message"] = error.to_string().into();
    object
}
