//! The last words of a module that stops.

use js_sys::{Reflect, global};
use wasm_bindgen::prelude::wasm_bindgen;

/// Where the worker looks for the reason after a trap.
const PLACE: &str = "dikastPanic";

/// Runs when the module starts: a panic leaves its message in a global before it stops the module.
#[wasm_bindgen(start)]
pub(crate) fn remember_panics() {
    std::panic::set_hook(Box::new(|panic| {
        // There is nobody left to tell if this fails.
        let _ = Reflect::set(&global(), &PLACE.into(), &panic.to_string().into());
    }));
}
