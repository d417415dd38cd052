//! One description of how a matrix is stored, and several that must agree.

use serde_json::{Map, Value};

use super::FORMAT;
use crate::checkpoint::json::{Fields, short};
use crate::numerics::hadamard::Group;
use crate::{Error, Result};

/// A description and where it stands: rotation group, or `None` for codes that are not rotated.
pub(super) type Described = (String, Option<Group>);

/// The size of a group.
pub(super) fn group(item: &str, size: u64) -> Result<Group> {
    usize::try_from(size).ok().and_then(Group::new).ok_or_else(|| {
        // Writers disagree on the matrix for other sizes, and every choice runs.
        let sizes = Group::SIZES.map(|s| s.to_string()).join(", ");
        Error::checkpoint(item, format!("rotation groups of {size} found, allowed: {sizes}"))
    })
}

/// Reads a description: `format` (`quant_method` in a configuration), `convrot`, `convrot_groupsize`. Keys may stand in
/// an object `params`; others say where a file came from and are left alone.
pub(super) fn read(item: &str, map: &Map<String, Value>) -> Result<Option<Group>> {
    let root = Fields::new(item, "", map);
    let inner = root.object("params")?;
    let empty = Map::new();
    let inner = Fields::new(item, "params.", inner.unwrap_or(&empty));
    // The fields object that has a key.
    let of = |key: &str| -> Result<Fields<'_>> {
        match (root.get(key), inner.get(key)) {
            (Some(a), Some(b)) if a != b => Err(inner.bad(key, &format!("{}, as beside `params`", short(a)))),
            (None, Some(_)) => Ok(inner),
            _ => Ok(root),
        }
    };
    let method =
        if root.get("format").is_none() && inner.get("format").is_none() { "quant_method" } else { "format" };
    let fields = of(method)?;
    if fields.string(method)? != Some(FORMAT) {
        return Err(fields.bad(if fields.get(method).is_some() { method } else { "format" }, FORMAT));
    }
    if of("full_precision_matrix_mult")?.boolean("full_precision_matrix_mult", false)? {
        let fields = of("full_precision_matrix_mult")?;
        return Err(fields.bad("full_precision_matrix_mult", "false (products are computed with the codes)"));
    }
    let rotated = of("convrot")?.boolean("convrot", false)?;
    let fields = of("convrot_groupsize")?;
    let size = fields.integer("convrot_groupsize", 1..=u64::MAX)?;
    match (rotated, size) {
        (false, None) => Ok(None),
        (false, Some(_)) => Err(fields.bad("convrot_groupsize", "nothing, as convrot is not true")),
        (true, size) => group(item, size.unwrap_or(Group::DEFAULT.size() as u64)).map(Some),
    }
}

/// What several descriptions of one matrix say; `None` where there is none.
pub(super) fn agreed(described: &[Described]) -> Result<Option<&Described>> {
    let Some(first) = described.first() else { return Ok(None) };
    let named = |rotation: Option<Group>| match rotation {
        Some(group) => format!("codes rotated in groups of {group}"),
        None => "codes that are not rotated".to_owned(),
    };
    match described.iter().find(|d| d.1 != first.1) {
        None => Ok(Some(first)),
        Some(other) => {
            let message = format!("{} found, but {} says {}", named(other.1), first.0, named(first.1));
            Err(Error::checkpoint(&other.0, message))
        }
    }
}
