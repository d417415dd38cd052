//! A release folder, quantized into a folder of its own.

use std::path::Path;

use dikast_core::checkpoint::{Blob, Checks, Digest, Expected, ModelFiles, Recipe, Weights, parse_sums};
use dikast_core::{Error, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::plan::{Plan, SHARD_BYTES, Scheme};
use crate::source::Checkpoint;
use crate::write::{WrittenFile, write_small, write_weights};
use crate::{copied, family};

const SUMS: &str = "SHA256SUMS";
const PROVENANCE: &str = "provenance.json";
/// Bytes hashed between two releases of memory.
const CHUNK: usize = 64 << 20;

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How the large matrices are stored.
    pub scheme: Scheme,
    /// Bytes after which a new shard begins.
    pub shard_bytes: u64,
}

impl Options {
    /// A scheme with shards of the usual size.
    pub const fn new(scheme: Scheme) -> Self {
        Self { scheme, shard_bytes: SHARD_BYTES }
    }
}

/// What was done.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Every file of the new folder, `SHA256SUMS` left out.
    pub files: Vec<WrittenFile>,
    /// Bytes of the weights before.
    pub source_bytes: u64,
    /// Bytes of the weight files after.
    pub bytes: u64,
    /// Numbers of the model, scales left out.
    pub parameters: u64,
    /// Matrices that were quantized.
    pub quantized: usize,
}

/// Quantizes the model in `source` into `target`, an empty folder: weights, configurations, tokenizer, `provenance.json`
/// and `SHA256SUMS`. The same source gives the same bytes. What was written is opened again and compared with its sums.
/// `progress` gets bytes of tensors written and in all.
///
/// # Errors
/// [`Error::Checkpoint`] naming the file or tensor of a source that is damaged, quantized already or not finite;
/// [`Error::InvalidRequest`] where the scheme does not fit the model; [`Error::Io`] naming the file that cannot be read
/// or written.
pub fn convert(
    source: &Path,
    target: &Path,
    options: Options,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Report> {
    let files = ModelFiles::open(source)?;
    let expected = family::expected_tensors(&files)?;
    // Only the headers: values are looked at as they pass by, and hashing must not fill the memory.
    let weights = Weights::open(&files, &expected, Checks::HEADERS)?;
    check_sums(&files, &weights)?;
    let source_bytes = weights.total_bytes();
    let checkpoint = Checkpoint(weights);
    let plan = Plan::new(&expected, options.scheme, options.shard_bytes, &checkpoint)?;
    let recipe = Recipe { name: "absmax".to_owned(), version: 1 };

    let mut written = copied::copy(source, target)?;
    let weights = write_weights(target, &plan, &recipe, &checkpoint, progress)?;
    written.extend(weights.files);
    let text = format!("{:#}\n", provenance(&files, options.scheme, &recipe));
    written.push(write_small(target, PROVENANCE, text.as_bytes())?);
    written.sort_by(|a, b| a.name.cmp(&b.name));
    let lines: String = written.iter().map(|f| format!("{}  {}\n", f.digest, f.name)).collect();
    write_small(target, SUMS, lines.as_bytes())?;
    verify(target, &expected)?;
    Ok(Report {
        files: written,
        source_bytes,
        bytes: weights.bytes,
        parameters: weights.parameters,
        quantized: plan.quantized(),
    })
}

/// Whether [`convert`] may write a file of this name.
pub fn is_output(name: &str) -> bool {
    let weights = name.ends_with(".safetensors") || name == "model.safetensors.index.json";
    weights || name == SUMS || name == PROVENANCE || copied::NAMES.contains(&name)
}

/// Opens what was written as the engine does, and compares every byte on disk with its sum.
fn verify(target: &Path, expected: &Expected) -> Result<()> {
    let files = ModelFiles::open(target)?;
    let weights = Weights::open(&files, expected, Checks::HEADERS)?;
    weights.check_recorded()?;
    check_sums(&files, &weights)
}

/// Compares the weight files with `SHA256SUMS` where that lists them, a little in memory at a time.
fn check_sums(files: &ModelFiles, weights: &Weights) -> Result<()> {
    let Some(list) = files.get(SUMS) else { return Ok(()) };
    let sums = parse_sums(list.bytes())?;
    for (name, blob) in weights.files() {
        let Some(want) = sums.get(name) else { continue };
        let found = digest(blob);
        if found != *want {
            return Err(Error::checkpoint(name, format!("SHA-256 is {found}, but {SUMS} says {want}")));
        }
    }
    Ok(())
}

fn digest(blob: &Blob) -> Digest {
    let bytes = blob.bytes();
    let mut hash = Sha256::new();
    for start in (0..bytes.len()).step_by(CHUNK) {
        let range = start..bytes.len().min(start + CHUNK);
        hash.update(&bytes[range.clone()]);
        blob.release(range);
    }
    Digest(hash.finalize().into())
}

/// Where the new folder came from. Marks of the source that say that its weights are synthetic stay.
fn provenance(files: &ModelFiles, scheme: Scheme, recipe: &Recipe) -> Value {
    let before = files.get(PROVENANCE).and_then(|b| serde_json::from_slice::<Value>(b.bytes()).ok());
    let mut json = json!({
        "tool": concat!("dikast quantize ", env!("CARGO_PKG_VERSION")),
        "source": files.name(),
        "scheme": scheme.name(),
        "recipe": {"name": recipe.name, "version": recipe.version},
    });
    if let Scheme::Int8ConvRot { group } = scheme {
        json["group_size"] = group.size().into();
    }
    if let Some(before) = before {
        for key in ["synthetic", "note", "like", "seed"] {
            if let Some(value) =
                before.get(key).filter(|_| before.get("synthetic") == Some(&Value::Bool(true)))
            {
                json[key] = value.clone();
            }
        }
        json["source_provenance"] = before;
    }
    json
}
