//! Matrices that some writers store as one, taken apart.

use std::collections::BTreeMap;

use super::{GROUP_SIZE, MARKER, SCALE_ALIAS};
use crate::checkpoint::container::Entry;
use crate::checkpoint::weights::Found;
use crate::checkpoint::{Expected, shown};
use crate::{Error, Result};

/// Splits every fused matrix of `expected` that is in `found` into its parts by rows, with its scales and bias; its
/// markers count for each part. Nothing is copied: parts are ranges of the same file. Returns part → fused name.
///
/// # Errors
/// [`Error::Checkpoint`] when a part is there besides, or when the rows do not add up.
pub(in crate::checkpoint) fn split(
    found: &mut Found,
    expected: &Expected,
) -> Result<BTreeMap<String, String>> {
    let mut parts_of = BTreeMap::new();
    for fused in &expected.fused {
        let rows: usize = fused.parts.iter().map(|(_, rows)| rows).sum();
        if rows == 0 || !found.contains_key(&format!("{}.weight", fused.name)) {
            continue;
        }
        for ending in ["weight", "weight_scale", SCALE_ALIAS, "bias"] {
            let name = format!("{}.{ending}", fused.name);
            let Some((file, entry)) = found.remove(&name) else { continue };
            if entry.shape.first() != Some(&rows) || entry.range.len() % rows != 0 {
                let first =
                    entry.shape.first().map_or_else(|| "a scalar".to_owned(), |n| format!("{n} rows"));
                let names: Vec<&str> = fused.parts.iter().map(|(part, _)| part.as_str()).collect();
                let message = format!("{first} found, allowed: {rows}, those of {}", names.join(" and "));
                return Err(Error::checkpoint(shown(&name), message));
            }
            let width = entry.range.len() / rows;
            let mut start = entry.range.start;
            for (part, rows) in &fused.parts {
                let mut shape = entry.shape.clone();
                if let Some(first) = shape.first_mut() {
                    *first = *rows;
                }
                let range = start..start + rows * width;
                start = range.end;
                put(
                    found,
                    &name,
                    &format!("{part}.{ending}"),
                    (file, Entry { dtype: entry.dtype, shape, range }),
                )?;
            }
        }
        for ending in [MARKER, GROUP_SIZE] {
            let name = format!("{}.{ending}", fused.name);
            let Some(at) = found.remove(&name) else { continue };
            for (part, _) in &fused.parts {
                put(found, &name, &format!("{part}.{ending}"), at.clone())?;
            }
        }
        parts_of.extend(fused.parts.iter().map(|(part, _)| (part.clone(), fused.name.clone())));
    }
    Ok(parts_of)
}

fn put(found: &mut Found, from: &str, name: &str, at: (usize, Entry)) -> Result<()> {
    match found.insert(name.to_owned(), at) {
        None => Ok(()),
        Some(_) => Err(Error::checkpoint(from, format!("{name} is there too; which of the two holds?"))),
    }
}
