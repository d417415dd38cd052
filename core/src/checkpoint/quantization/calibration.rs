//! Sums that a file carries of its own weights, to find codes that are read in another way than they were written.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::checkpoint::json;
use crate::numerics::hadamard::Group;
use crate::numerics::int8::dequantize_row;
use crate::{Error, Result};

/// Key of the sums in a file's `__metadata__`.
pub(super) const CALIBRATION: &str = "engine_calibration";
/// Allowed difference, relative to the sum of magnitudes: f64 sums of tens of thousands of numbers, in any order.
const TOLERANCE: f64 = 1e-9;

/// Sums over the first row of a matrix, dequantized and rotated back.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sums {
    /// Of the values. The rotation keeps it, since all rows of the regular matrix sum to one: it tells wrong codes and
    /// scales, not a wrong rotation.
    pub(super) check: f64,
    /// Of the magnitudes, which every other rotation changes.
    pub(super) check_abs: f64,
}

impl Sums {
    /// The sums of a first row.
    pub(super) fn of(codes: &[i8], scale: f32, rotation: Option<Group>) -> Self {
        let mut row = vec![0.0; codes.len()];
        dequantize_row(codes, scale, rotation, &mut row);
        Self { check: row.iter().sum(), check_abs: row.iter().map(|v| v.abs()).sum() }
    }
}

/// The recorded sums by module: `{"layers": {MODULE: {"check": …, "check_abs": …}}}`.
///
/// # Errors
/// [`Error::Checkpoint`] when the text is no such object.
fn recorded(file: &str, text: &str) -> Result<Vec<(String, [Option<f64>; 2])>> {
    let item = format!("{file}: {CALIBRATION}");
    let root = json::object(&item, text.as_bytes())?;
    let Some(layers) = json::Fields::new(&item, "", &root).object("layers")? else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for (module, value) in layers {
        let numbers = ["check", "check_abs"].map(|key| value.get(key).filter(|v| !v.is_null()));
        if let Some(bad) = numbers.into_iter().flatten().find(|v| !v.as_f64().is_some_and(f64::is_finite)) {
            let message = format!("a sum of {} found, allowed: a number", json::short(bad));
            return Err(Error::checkpoint(format!("{item}: {}", super::shown(module)), message));
        }
        all.push((module.clone(), numbers.map(|n| n.and_then(Value::as_f64))));
    }
    Ok(all)
}

/// Compares what a file recorded with what is found; `first_row` gives the codes, scale and rotation of a module that is
/// stored as codes.
///
/// # Errors
/// [`Error::Checkpoint`] naming the module.
pub(in crate::checkpoint) fn checked<'a>(
    file: &str,
    metadata: &BTreeMap<String, String>,
    first_row: impl Fn(&str) -> Option<(&'a [i8], f32, Option<Group>)>,
) -> Result<()> {
    let Some(text) = metadata.get(CALIBRATION) else { return Ok(()) };
    for (module, [check, check_abs]) in recorded(file, text)? {
        // A layer that stayed as it was has flags there, but no sums that could be compared.
        let Some((codes, scale, rotation)) = first_row(&module) else { continue };
        let found = Sums::of(codes, scale, rotation);
        for (name, want, found) in [("check", check, found.check), ("check_abs", check_abs, found.check_abs)]
        {
            let allowed = TOLERANCE * found_size(codes, scale);
            if let Some(want) = want.filter(|want| (want - found).abs() > allowed) {
                let message = format!(
                    "the first row sums to {found} ({name}), but {file} recorded {want}: codes, scale or rotation are \
                     not those that were written"
                );
                return Err(Error::checkpoint(format!("{module}.weight"), message));
            }
        }
    }
    Ok(())
}

/// The size of a row's sums: every sum is at most `Σ|q|·s·√G`, and rounding errors scale with it.
fn found_size(codes: &[i8], scale: f32) -> f64 {
    codes.iter().map(|c| f64::from(c.unsigned_abs())).sum::<f64>() * f64::from(scale)
}
