//! Which files hold the weights: one `model.safetensors`, or shards named by an index, and files that a model has
//! besides.

use std::collections::{BTreeMap, BTreeSet};

use super::{ModelFiles, SideFile, json, shown};
use crate::{Error, Result};

/// The usual single file.
pub(super) const SINGLE: &str = "model.safetensors";
/// The index of a sharded checkpoint.
pub(super) const INDEX: &str = "model.safetensors.index.json";

/// The weight files and, for a sharded checkpoint, which tensor the index puts where.
#[derive(Debug)]
pub(super) struct Plan {
    /// File names, in order; not empty.
    pub(super) files: Vec<String>,
    /// Prefix that the tensors of a file get, by file.
    pub(super) prefixes: BTreeMap<String, String>,
    /// Tensor → file, from the index.
    pub(super) listed: Option<BTreeMap<String, String>>,
}

impl Plan {
    /// The file that a message about the set of tensors should name.
    pub(super) fn item(&self) -> &str {
        if self.listed.is_some() { INDEX } else { SINGLE }
    }
}

/// Finds the weight files.
///
/// # Errors
/// [`Error::Checkpoint`] for a malformed index, a shard name that is not a plain file name, or a `model.safetensors`
/// beside an index that does not list it.
pub(super) fn plan(files: &ModelFiles, side_files: &[SideFile]) -> Result<Plan> {
    let mut plan = own(files)?;
    for side in side_files {
        // An index may list such a file as one of its shards.
        if !plan.files.contains(&side.file) {
            if files.get(&side.file).is_none() {
                continue;
            }
            plan.files.push(side.file.clone());
        }
        plan.prefixes.insert(side.file.clone(), side.prefix.clone());
    }
    plan.files.sort_unstable();
    Ok(plan)
}

/// The model's own files.
fn own(files: &ModelFiles) -> Result<Plan> {
    let prefixes = BTreeMap::new();
    let Some(index) = files.get(INDEX) else {
        return Ok(Plan { files: vec![SINGLE.to_owned()], prefixes, listed: None });
    };
    let fail = |message: String| Error::checkpoint(INDEX, message);
    let root = json::object(INDEX, index.bytes())?;
    let Some(serde_json::Value::Object(map)) = root.get("weight_map") else {
        return Err(fail("no object `weight_map`".to_owned()));
    };
    let mut listed = BTreeMap::new();
    for (tensor, file) in map {
        let Some(file) = file.as_str() else {
            return Err(fail(format!("weight_map.{}: not a file name", shown(tensor))));
        };
        if !plain(file) {
            let found = shown(file);
            return Err(fail(format!(
                "weight_map.{}: {found}: allowed: a plain *.safetensors name",
                shown(tensor)
            )));
        }
        listed.insert(tensor.clone(), file.to_owned());
    }
    let names: BTreeSet<&String> = listed.values().collect();
    if names.is_empty() {
        return Err(fail("weight_map is empty".to_owned()));
    }
    if files.get(SINGLE).is_some() && !names.iter().any(|n| *n == SINGLE) {
        return Err(fail(format!(
            "{SINGLE} is there too, but not listed: which of the two holds the weights?"
        )));
    }
    Ok(Plan { files: names.into_iter().cloned().collect(), prefixes, listed: Some(listed) })
}

/// The names of the files that hold a model's weights, from the files there are so far: the shards of
/// `model.safetensors.index.json` where that is one of them, `model.safetensors` otherwise.
///
/// For callers that fetch files one by one; a [`super::Weights`] finds its files itself, those of
/// [`super::Expected::side_files`] included.
///
/// # Errors
/// [`Error::Checkpoint`] for a malformed index.
pub fn weight_files(files: &ModelFiles) -> Result<Vec<String>> {
    Ok(plan(files, &[])?.files)
}

/// A name without any path in it.
fn plain(name: &str) -> bool {
    name.ends_with(".safetensors") && !name.contains(['/', '\\', ':', '\0']) && !name.contains("..")
}

/// Compares the tensors of the shards with the index, both ways.
///
/// # Errors
/// [`Error::Checkpoint`] listing the differences.
pub(super) fn check(listed: &BTreeMap<String, String>, found: &[(String, Vec<String>)]) -> Result<()> {
    let mut absent: BTreeMap<(&str, &str), ()> =
        listed.iter().map(|(tensor, file)| ((file.as_str(), tensor.as_str()), ())).collect();
    let mut extra = Vec::new();
    let files: BTreeSet<&String> = listed.values().collect();
    // A file besides the model's own is not in the index.
    for (file, tensors) in found.iter().filter(|(file, _)| files.contains(file)) {
        for tensor in tensors {
            if absent.remove(&(file.as_str(), tensor.as_str())).is_none() {
                extra.push(format!("{} in {file}", shown(tensor)));
            }
        }
    }
    let absent: Vec<String> = absent.into_keys().map(|(file, t)| format!("{} in {file}", shown(t))).collect();
    let mut parts = Vec::new();
    if !absent.is_empty() {
        parts.push(format!("{} listed but not there: {}", absent.len(), super::listed(&absent)));
    }
    if !extra.is_empty() {
        parts.push(format!("{} there but not listed: {}", extra.len(), super::listed(&extra)));
    }
    if parts.is_empty() { Ok(()) } else { Err(Error::checkpoint(INDEX, parts.join("; "))) }
}
