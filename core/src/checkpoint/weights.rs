//! The strict view of a checkpoint's tensors.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use super::container::{self, Entry};
use super::quantization::{self, Context, Rotations};
use super::{
    Blob, Companion, Digest, Expected, ModelFiles, Slice, Storage, StoredType, TensorSpec, TensorView,
    Values, listed, parallel, scan, shards, shown,
};
use crate::numerics::hadamard::Group;
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
    /// Rows of tensors under names of their own.
    slices: BTreeMap<String, Tensor>,
    /// Other name → name.
    aliases: BTreeMap<String, String>,
    rotations: Rotations,
    metadata: BTreeMap<String, String>,
}

#[derive(Debug)]
struct WeightFile {
    name: String,
    blob: Blob,
    metadata: BTreeMap<String, String>,
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
pub(super) type Found = BTreeMap<String, (usize, Entry)>;

impl Weights {
    /// Opens the weights of a model: `model.safetensors`, or the shards that `model.safetensors.index.json` names, and
    /// what there is of [`Expected::side_files`]. Nothing is copied; the tensors borrow the files' bytes.
    ///
    /// A matrix of INT8 codes must be described, by `MODULE.comfy_quant`, by `_quantization_metadata` in a file's
    /// header, by `quantization_config` in `config.json` or `quantization_config.json`, or by
    /// `MODULE.int8_convrot_groupsize`; all descriptions must agree. Sums that a file recorded of its rows
    /// (`engine_calibration`) are compared together with the values.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the file or tensor, what was found and what is allowed:
    /// a missing or damaged file, a wrong SHA-256, an index that disagrees with its shards, missing or unexpected
    /// tensors (all of them in one message), a second name with other bytes, a wrong type or shape, a scale without a
    /// quantized weight or the reverse, codes that are not described, are described twice and differently, or not
    /// understood, a value that is not finite, a scale that is not greater than zero.
    pub fn open(files: &ModelFiles, expected: &Expected, checks: Checks) -> Result<Self> {
        let plan = shards::plan(files, &expected.side_files)?;
        let blobs = plan.files.iter().map(|name| files.needed(name)).collect::<Result<Vec<_>>>()?;
        let opened: Vec<(&String, &Blob)> = plan.files.iter().zip(blobs).collect();
        // Headers first: they are cheap, and a wrong model should not be hashed to find out.
        let mut containers = opened
            .iter()
            .map(|(name, blob)| container::parse(name, blob.bytes()))
            .collect::<Result<Vec<_>>>()?;
        if let Some(listed) = &plan.listed {
            let names = |c: &container::Container| c.entries.keys().cloned().collect();
            let there: Vec<_> =
                plan.files.iter().zip(&containers).map(|(f, c)| (f.clone(), names(c))).collect();
            shards::check(listed, &there)?;
        }
        let mut found = gather(&mut containers, &plan)?;
        let bytes: Vec<&[u8]> = opened.iter().map(|(_, b)| b.bytes()).collect();
        let headers = plan
            .files
            .iter()
            .zip(&containers)
            .map(|(file, c)| quantization::header(file, &c.metadata))
            .collect::<Result<Vec<_>>>()?;
        let fused = quantization::split(&mut found, expected)?;
        merge_aliases(&mut found, expected, |file| bytes.get(file).copied().unwrap_or_default())?;
        let context = Context { headers: &headers, bytes: &bytes, fused: &fused };
        let rotations = quantization::resolve(&mut found, expected, files, &context)?;
        let tensors = match_expected(found, expected, &plan)?;

        let digests =
            parallel::map(
                &opened,
                |(name, blob)| {
                    if checks.sums { files.check_sum(name, blob) } else { Ok(None) }
                },
            );
        let mut metadata = BTreeMap::new();
        let weight_files =
            opened.iter().zip(digests).zip(containers).map(|(((name, blob), digest), container)| {
                let digest = digest?.map_or_else(OnceLock::new, OnceLock::from);
                metadata.extend(container.metadata.clone());
                Ok(WeightFile {
                    name: (*name).clone(),
                    blob: (*blob).clone(),
                    metadata: container.metadata,
                    digest,
                })
            });
        let weight_files = weight_files.collect::<Result<_>>()?;
        let aliases = expected.aliases.iter().map(|a| (a.other.clone(), a.name.clone())).collect();
        let slices = expected.slices.iter().map(|s| Ok((s.name.clone(), slice(&tensors, s)?)));
        let slices = slices.collect::<Result<_>>()?;
        let weights =
            Self(Arc::new(Inner { files: weight_files, tensors, slices, aliases, rotations, metadata }));
        if checks.values {
            weights.check_values()?;
            weights.check_recorded()?;
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
        self.0.tensors.get(name).or_else(|| self.0.slices.get(name)).map(|t| self.view(t))
    }

    /// How a projection ([`TensorSpec::projection`], [`TensorSpec::int8_projection`]) is stored: the type of
    /// `MODULE.weight`, the names of its scale and bias where they are there, the rotation of its codes.
    ///
    /// # Errors
    /// [`Error::Internal`] when `MODULE.weight` is not part of the checked set.
    pub fn storage(&self, module: &str) -> Result<Storage> {
        let there = |part: &str| {
            let name = format!("{module}.{part}");
            self.find(&name).is_some().then_some(name)
        };
        Ok(Storage {
            dtype: self.tensor(&format!("{module}.weight"))?.dtype,
            scale: there("weight_scale"),
            bias: there("bias"),
            rotation: self.0.rotations.get(module).copied().flatten(),
        })
    }

    /// All tensors in the order of their names, ignored ones and second names left out.
    pub fn iter(&self) -> impl Iterator<Item = (&str, TensorView<'_>)> {
        self.0.tensors.iter().map(|(name, t)| (name.as_str(), self.view(t)))
    }

    /// Tells the system that a tensor is not needed for now; see [`Blob::release`].
    pub fn release(&self, name: &str) {
        if let Some(t) = self.0.tensors.get(name) {
            self.0.files[t.file].blob.release(t.range.clone());
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

    /// Compares the sums that the files recorded of their own rows.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the matrix.
    pub fn check_recorded(&self) -> Result<()> {
        for file in &self.0.files {
            quantization::checked(&file.name, &file.metadata, |module| self.first_codes(module))?;
        }
        Ok(())
    }

    /// Codes, scale and rotation of the first row of a module that is stored as codes.
    fn first_codes(&self, module: &str) -> Option<(&[i8], f32, Option<Group>)> {
        let rotation = *self.0.rotations.get(module)?;
        let (weight, scale) =
            (self.find(&format!("{module}.weight"))?, self.find(&format!("{module}.weight_scale"))?);
        let mut first = [0.0];
        TensorView { shape: &[usize::MAX], ..scale }.decode_rows(0..1, &mut first);
        Some((bytemuck::cast_slice(weight.bytes.get(..weight.row_len())?), first[0], rotation))
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

/// Some rows of a checked tensor.
fn slice(tensors: &BTreeMap<String, Tensor>, slice: &Slice) -> Result<Tensor> {
    let whole = tensors.get(&slice.of).filter(|t| t.shape.first().is_some_and(|&n| slice.rows.end <= n));
    let Some(whole) = whole.filter(|_| slice.rows.start <= slice.rows.end) else {
        return Err(Error::Internal(format!("rows {:?} of {} do not exist", slice.rows, slice.of)));
    };
    let row = whole.range.len() / whole.shape[0].max(1);
    let mut shape = whole.shape.clone();
    shape[0] = slice.rows.len();
    let first = whole.range.start;
    let range = first + slice.rows.start * row..first + slice.rows.end * row;
    Ok(Tensor { dtype: whole.dtype, shape, values: whole.values, file: whole.file, range })
}

/// The tensors of all files under the names that the model uses.
fn gather(containers: &mut [container::Container], plan: &shards::Plan) -> Result<Found> {
    let mut found = Found::new();
    for (index, (file, container)) in plan.files.iter().zip(containers).enumerate() {
        let prefix = plan.prefixes.get(file).map_or("", String::as_str);
        for (name, entry) in std::mem::take(&mut container.entries) {
            let name = if name.starts_with(prefix) { name } else { format!("{prefix}{name}") };
            if let Some((before, _)) = found.insert(name.clone(), (index, entry)) {
                let first = plan.files.get(before).map_or("", String::as_str);
                let message = format!("both in {first} and in {file}; which of the two holds?");
                return Err(Error::checkpoint(shown(&name), message));
            }
        }
    }
    Ok(found)
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
fn match_expected(
    mut found: Found,
    expected: &Expected,
    plan: &shards::Plan,
) -> Result<BTreeMap<String, Tensor>> {
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
        for Companion { when, required, tensor } in &spec.companions {
            let because = format!(" ({} is {})", spec.name, at.1.dtype);
            if stored != Some(*when) {
                reasons.insert(tensor.name.clone(), because);
            } else if let Some(at) = found.remove(&tensor.name) {
                taken.push((tensor, at));
            } else if *required {
                missing.push(format!("{}{because}", tensor.name));
            }
        }
        taken.push((spec, at));
    }
    found.retain(|name, _| {
        !expected.ignored.contains(name) && !expected.ignored_prefixes.iter().any(|p| name.starts_with(p))
    });
    if !missing.is_empty() || !found.is_empty() {
        let unexpected: Vec<String> =
            found.keys().map(|n| format!("{}{}", shown(n), reasons.get(n).map_or("", |r| r))).collect();
        let mut message = difference(&missing, &unexpected, expected);
        for side in expected.side_files.iter().filter(|s| !plan.files.contains(&s.file)) {
            if missing.iter().any(|name| name.starts_with(&side.prefix)) {
                message.push_str(&format!("; {} is not there", side.file));
            }
        }
        return Err(Error::checkpoint(plan.item(), message));
    }
    taken.into_iter().map(|(spec, at)| Ok((spec.name.clone(), checked(spec, at)?))).collect()
}

fn difference(missing: &[String], unexpected: &[String], expected: &Expected) -> String {
    let mut parts = Vec::new();
    if !missing.is_empty() {
        parts.push(format!("{} missing: {}", count(missing.len()), listed(missing)));
    }
    if !unexpected.is_empty() {
        let mut ignored = expected.ignored.clone();
        ignored.extend(expected.ignored_prefixes.iter().map(|p| format!("{p}*")));
        let besides = if ignored.is_empty() { "nothing".to_owned() } else { listed(&ignored) };
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
