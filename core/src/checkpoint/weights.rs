//! The strict view of a checkpoint's tensors.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::container::{self, Entry};
use super::{
    Blob, Companion, Digest, Expected, ModelFiles, StoredType, TensorSpec, TensorView, Values, listed,
    parallel, scan, shards, shown,
};
use crate::{Error, Result};

/// What [`Weights::open`] checks besides names, types and shapes, which it always does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checks {
    /// Reads every value and refuses NaN, infinities, and scales that are not greater than zero.
    pub values: bool,
    /// Compares the weight files with `SHA256SUMS` where that exists.
    pub sums: bool,
}

impl Checks {
    /// Everything.
    pub const ALL: Self = Self { values: true, sums: true };
    /// Only the headers: no weight is read.
    pub const HEADERS: Self = Self { values: false, sums: false };
}

impl Default for Checks {
    fn default() -> Self {
        Self::ALL
    }
}

/// The checked tensors of a checkpoint by name. Clones share everything.
///
/// Made by [`Weights::open`]; afterwards every tensor that the model expects is there with an allowed type and the
/// exact shape, nothing else is, and (unless switched off) every value is finite.
#[derive(Debug, Clone)]
pub struct Weights(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    files: Vec<WeightFile>,
    tensors: BTreeMap<String, Tensor>,
    /// Other name → name.
    aliases: BTreeMap<String, String>,
    metadata: BTreeMap<String, String>,
}

#[derive(Debug)]
struct WeightFile {
    name: String,
    blob: Blob,
    digest: OnceLock<Digest>,
}

#[derive(Debug)]
struct Tensor {
    dtype: StoredType,
    shape: Vec<usize>,
    values: Values,
    file: usize,
    range: Range<usize>,
}

/// Tensors found, not yet compared with what is expected: name → (file, entry).
type Found = BTreeMap<String, (usize, Entry)>;

impl Weights {
    /// Opens the weights of a model: `model.safetensors`, or the shards that `model.safetensors.index.json` names.
    /// Nothing is copied; the tensors borrow the files' bytes.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the file or tensor, what was found and what is allowed:
    /// a missing or damaged file, a wrong SHA-256, an index that disagrees with its shards, missing or unexpected
    /// tensors (all of them in one message), a second name with other bytes, a wrong type or shape, a scale without a
    /// quantized weight or the reverse, a value that is not finite, a scale that is not greater than zero.
    pub fn open(files: &ModelFiles, expected: &Expected, checks: Checks) -> Result<Self> {
        let plan = shards::plan(files)?;
        let blobs = plan.files.iter().map(|name| files.needed(name)).collect::<Result<Vec<_>>>()?;
        let opened: Vec<(&String, &Blob)> = plan.files.iter().zip(blobs).collect();
        // Headers first: they are cheap, and a wrong model should not be hashed to find out.
        let containers = opened
            .iter()
            .map(|(name, blob)| container::parse(name, blob.bytes()))
            .collect::<Result<Vec<_>>>()?;
        if let Some(listed) = &plan.listed {
            let names = |c: &container::Container| c.entries.keys().cloned().collect();
            let there: Vec<_> =
                plan.files.iter().zip(&containers).map(|(f, c)| (f.clone(), names(c))).collect();
            shards::check(listed, &there)?;
        }
        let mut found = Found::new();
        let mut metadata = BTreeMap::new();
        for (file, container) in containers.into_iter().enumerate() {
            metadata.extend(container.metadata);
            // The index has been compared with the shards, so no name can come twice.
            found.extend(container.entries.into_iter().map(|(name, entry)| (name, (file, entry))));
        }
        let blob = |file: usize| opened.get(file).map_or(&[][..], |(_, b)| b.bytes());
        merge_aliases(&mut found, expected, blob)?;
        let tensors = match_expected(found, expected, plan.item())?;

        let digests =
            parallel::map(
                &opened,
                |(name, blob)| {
                    if checks.sums { files.check_sum(name, blob) } else { Ok(None) }
                },
            );
        let weight_files = opened.iter().zip(digests).map(|((name, blob), digest)| {
            let digest = digest?.map_or_else(OnceLock::new, OnceLock::from);
            Ok(WeightFile { name: (*name).clone(), blob: (*blob).clone(), digest })
        });
        let aliases = expected.aliases.iter().map(|a| (a.other.clone(), a.name.clone())).collect();
        let weights =
            Self(Arc::new(Inner { files: weight_files.collect::<Result<_>>()?, tensors, aliases, metadata }));
        if checks.values {
            weights.check_values()?;
        }
        Ok(weights)
    }

    /// A tensor by its name in the specification (aliases are resolved).
    ///
    /// # Errors
    /// [`Error::Internal`] when the name is not part of the checked set.
    pub fn tensor(&self, name: &str) -> Result<TensorView<'_>> {
        self.find(name)
            .ok_or_else(|| Error::Internal(format!("the checkpoint has no tensor {}", shown(name))))
    }

    /// A tensor that is there only in some checkpoints: scales.
    pub fn find(&self, name: &str) -> Option<TensorView<'_>> {
        let name = self.0.aliases.get(name).map_or(name, String::as_str);
        self.0.tensors.get(name).map(|t| self.view(t))
    }

    /// All tensors in the order of their names, ignored ones and second names left out.
    pub fn iter(&self) -> impl Iterator<Item = (&str, TensorView<'_>)> {
        self.0.tensors.iter().map(|(name, t)| (name.as_str(), self.view(t)))
    }

    /// Takes the files' pages out of this process's memory where they are mapped: for whoever has copied what it needs.
    /// What is read later is mapped again.
    pub fn release(&self) {
        #[cfg(feature = "native")]
        for file in &self.0.files {
            if let Blob::Mapped(mapped) = &file.blob {
                mapped.release();
            }
        }
    }

    /// Bytes of all tensors.
    pub fn total_bytes(&self) -> u64 {
        self.0.tensors.values().map(|t| t.range.len() as u64).sum()
    }

    /// The `__metadata__` of the files' headers, joined.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.0.metadata
    }

    /// The weight files by name.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Blob)> {
        self.0.files.iter().map(|f| (f.name.as_str(), &f.blob))
    }

    /// SHA-256 of the weights: of the one file, or of the lines `DIGEST  NAME` of all shards in the order of their
    /// names (that is, of what `sha256sum` prints for them). Computed once, on first use; that reads every file.
    pub fn digest(&self) -> Digest {
        let digests = parallel::map(&self.0.files, |f| *f.digest.get_or_init(|| Digest::of(f.blob.bytes())));
        match digests[..] {
            [single] => single,
            _ => {
                let lines = self.0.files.iter().zip(digests).map(|(f, d)| format!("{d}  {}\n", f.name));
                Digest::of(lines.collect::<String>().as_bytes())
            }
        }
    }

    fn view<'a>(&'a self, t: &'a Tensor) -> TensorView<'a> {
        TensorView {
            dtype: t.dtype,
            shape: &t.shape,
            bytes: &self.0.files[t.file].blob.bytes()[t.range.clone()],
        }
    }

    fn check_values(&self) -> Result<()> {
        let (names, views): (Vec<&String>, Vec<_>) =
            self.0.tensors.iter().map(|(name, t)| (name, (self.view(t), t.values))).unzip();
        match scan::first_bad(&views) {
            None => Ok(()),
            Some(bad) => {
                let allowed = match views[bad.tensor].1 {
                    Values::Finite => "finite numbers",
                    Values::Positive => "finite numbers over 0",
                };
                let message = format!("{} found at index {}, allowed: {allowed}", bad.value, bad.index);
                Err(Error::checkpoint(names[bad.tensor], message))
            }
        }
    }
}

/// Brings every tensor with two names under its first name.
fn merge_aliases<'a>(found: &mut Found, expected: &Expected, blob: impl Fn(usize) -> &'a [u8]) -> Result<()> {
    for alias in &expected.aliases {
        let Some((file, entry)) = found.remove(&alias.other) else { continue };
        if let Some((first_file, first)) = found.get(&alias.name) {
            let same = first.dtype == entry.dtype
                && first.shape == entry.shape
                && blob(*first_file).get(first.range.clone()) == blob(file).get(entry.range.clone());
            if !same {
                let message = format!("differs from {}, but both name one tensor", alias.name);
                return Err(Error::checkpoint(&alias.other, message));
            }
        } else {
            found.insert(alias.name.clone(), (file, entry));
        }
    }
    Ok(())
}

/// Takes every expected tensor out of `found`; nothing may be left.
fn match_expected(mut found: Found, expected: &Expected, item: &str) -> Result<BTreeMap<String, Tensor>> {
    let mut taken = Vec::new();
    let mut missing = Vec::new();
    let mut reasons = BTreeMap::new();
    for spec in &expected.tensors {
        let Some(at) = found.remove(&spec.name) else {
            missing.push(spec.name.clone());
            // A scale is not the news when its weight is missing.
            for companion in &spec.companions {
                found.remove(&companion.tensor.name);
            }
            continue;
        };
        let stored = StoredType::from_file(at.1.dtype);
        for Companion { when, tensor } in &spec.companions {
            let because = format!(" ({} is {})", spec.name, at.1.dtype);
            if stored != Some(*when) {
                reasons.insert(tensor.name.clone(), because);
            } else if let Some(at) = found.remove(&tensor.name) {
                taken.push((tensor, at));
            } else {
                missing.push(format!("{}{because}", tensor.name));
            }
        }
        taken.push((spec, at));
    }
    found.retain(|name, _| !expected.ignored.contains(name));
    if !missing.is_empty() || !found.is_empty() {
        let unexpected: Vec<String> =
            found.keys().map(|n| format!("{}{}", shown(n), reasons.get(n).map_or("", |r| r))).collect();
        return Err(Error::checkpoint(item, difference(&missing, &unexpected, &expected.ignored)));
    }
    taken.into_iter().map(|(spec, at)| Ok((spec.name.clone(), checked(spec, at)?))).collect()
}

fn difference(missing: &[String], unexpected: &[String], ignored: &[String]) -> String {
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("{} missing: {}", count(missing.len()), listed(missing)));
    }
    if !unexpected.is_empty() {
        let besides = if ignored.is_empty() { "nothing".to_owned() } else { listed(ignored) };
        parts.push(format!(
            "{} not expected: {}; allowed besides the model's own: {besides}",
            count(unexpected.len()),
            listed(unexpected)
        ));
    }
    parts.join("; ")
}

fn count(n: usize) -> String {
    if n == 1 { "1 tensor".to_owned() } else { format!("{n} tensors") }
}

/// Type and shape of one tensor.
fn checked(spec: &TensorSpec, (file, entry): (usize, Entry)) -> Result<Tensor> {
    let Some(dtype) = StoredType::from_file(entry.dtype).filter(|t| spec.allowed.contains(t)) else {
        let allowed = spec.allowed.iter().map(|t| t.name()).collect::<Vec<_>>().join(", ");
        return Err(Error::checkpoint(&spec.name, format!("stored as {}, allowed: {allowed}", entry.dtype)));
    };
    if entry.shape != spec.shape {
        // A hostile shape may have millions of dimensions.
        let rank = entry.shape.len();
        let found = if rank <= 8 { format!("{:?}", entry.shape) } else { format!("of {rank} dimensions") };
        return Err(Error::checkpoint(&spec.name, format!("shape {found} found, allowed: {:?}", spec.shape)));
    }
    Ok(Tensor { dtype, shape: entry.shape, values: spec.values, file, range: entry.range })
}
