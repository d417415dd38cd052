//! A release folder, quantized into a folder of its own.

use std::path::Path;

use dikast_core::checkpoint::{Blob, Checks, Digest, Expected, ModelFiles, Recipe, Weights, parse_sums};
use dikast_core::{Error, Result};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::card::{CARD, card, has_fp8};
use crate::pattern::Pattern;
use crate::plan::{Plan, SHARD_BYTES, Scheme};
use crate::progress::{PART, PROGRESS, Progress};
use crate::report::Report;
use crate::source::{Checkpoint, Dequantized, Source};
use crate::write::{write_resumable, write_small};
use crate::{configuration, copied, family};

const SUMS: &str = "SHA256SUMS";
const PROVENANCE: &str = "provenance.json";
const CONFIG: &str = "config.json";
/// Bytes hashed between two releases of memory.
const CHUNK: usize = 64 << 20;

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// How the large matrices are stored.
    pub scheme: Scheme,
    /// Bytes after which a new shard begins.
    pub shard_bytes: u64,
    /// Matrices that stay as they are although the scheme is for them.
    pub keep: Vec<Pattern>,
    /// Take a source that is quantized already for the numbers that its codes stand for.
    pub requantize: bool,
}

impl Options {
    /// A scheme with shards of the usual size.
    pub const fn new(scheme: Scheme) -> Self {
        Self { scheme, shard_bytes: SHARD_BYTES, keep: Vec::new(), requantize: false }
    }
}

/// Quantizes the model in `source` into `target`, a folder of its own: weights, configurations, tokenizer, a model card,
/// `provenance.json` and `SHA256SUMS`. The same source gives the same bytes. What was written is opened again as the
/// engine does and compared with its sums. `progress` gets bytes of tensors written and in all.
///
/// Weight files have their names only when they are complete, and `config.json` comes after them. Where this ends before
/// its time, the complete ones stay with a note of what they were made from: the same call goes on from there, another
/// one writes them anew.
///
/// # Errors
/// [`Error::Checkpoint`] naming the file or tensor of a source that is damaged, quantized already or not finite;
/// [`Error::InvalidRequest`] where the scheme or a pattern does not fit the model; [`Error::Io`] naming the file that
/// cannot be read or written.
#[allow(clippy::needless_pass_by_value, reason = "most callers make them on the spot")]
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
    let numbers: Box<dyn Source> = if options.requantize {
        Box::new(Dequantized(weights.clone()))
    } else {
        Box::new(Checkpoint(weights.clone()))
    };
    let plan =
        Plan::keeping(&expected, options.scheme, options.shard_bytes, numbers.as_ref(), &options.keep)?;
    let recipe = Recipe { name: "absmax".to_owned(), version: 1 };
    let job =
        Job { source, target, files: &files, expected: &expected, weights: &weights, options: &options };
    let identity = identity(&job)?;
    job.write(&plan, &recipe, numbers.as_ref(), Some(&identity), None, progress)
}

/// Whether [`convert`] may write a file of this name.
pub fn is_output(name: &str) -> bool {
    let name = name.strip_suffix(PART).unwrap_or(name);
    let weights = name.ends_with(".safetensors") || name == "model.safetensors.index.json";
    weights || [SUMS, PROVENANCE, PROGRESS, CARD].contains(&name) || copied::NAMES.contains(&name)
}

/// A source and what is to be made of it.
pub(crate) struct Job<'a> {
    pub(crate) source: &'a Path,
    pub(crate) target: &'a Path,
    pub(crate) files: &'a ModelFiles,
    pub(crate) expected: &'a Expected,
    pub(crate) weights: &'a Weights,
    pub(crate) options: &'a Options,
}

/// What calibration has to say in the new folder.
pub(crate) struct Notes {
    /// For `provenance.json`.
    pub(crate) provenance: Value,
    /// For the model card.
    pub(crate) card: String,
}

impl Job<'_> {
    /// Writes and verifies the folder; with an identity, an interrupted run of the same goes on.
    pub(crate) fn write(
        &self,
        plan: &Plan,
        recipe: &Recipe,
        numbers: &dyn Source,
        identity: Option<&str>,
        notes: Option<&Notes>,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Report> {
        let (target, options) = (self.target, self.options);
        let state = identity.map(|identity| Progress::open(target, identity));
        let weights = write_resumable(target, plan, recipe, numbers, state.as_ref(), progress)?;
        // The configuration comes after the weights: without it, nothing takes the folder for a model.
        let config = match has_fp8(plan) {
            true => Some(configuration::with_fp8(self.files.read(CONFIG)?.bytes(), plan, self.expected)?),
            false => None,
        };
        let mut written = copied::copy(self.source, target, config.as_deref())?;
        written.extend(weights.files);
        let source_bytes = self.weights.total_bytes();
        let mut about = provenance(self.files, options, recipe);
        if let Some(notes) = notes {
            about["calibration"] = notes.provenance.clone();
        }
        written.push(write_small(target, PROVENANCE, format!("{about:#}\n").as_bytes())?);
        let sizes = (source_bytes, weights.bytes);
        let text = card(self.files, options, plan, sizes, &weights.errors, notes.map(|n| n.card.as_str()));
        written.push(write_small(target, CARD, text.as_bytes())?);
        written.sort_by(|a, b| a.name.cmp(&b.name));
        let lines: String = written.iter().map(|f| format!("{}  {}\n", f.digest, f.name)).collect();
        write_small(target, SUMS, lines.as_bytes())?;
        if let Some(state) = state {
            state.end();
        }
        verify(target, self.expected)?;
        Ok(Report {
            files: written,
            source_bytes,
            bytes: weights.bytes,
            parameters: weights.parameters,
            quantized: plan.quantized(),
            resumed: weights.resumed,
            errors: weights.errors,
        })
    }
}

/// What a folder is made from, and how, as far as that can be told without reading all of it: names, sizes and times of
/// the weight files, the configuration, and the options.
fn identity(job: &Job<'_>) -> Result<String> {
    let mut text = format!("{} {:?}\n", env!("CARGO_PKG_VERSION"), job.options);
    text.push_str(&format!("{}\n", Digest::of(job.files.read(CONFIG)?.bytes())));
    for (name, blob) in job.weights.files() {
        let about = std::fs::metadata(job.source.join(name));
        let time = about.and_then(|m| m.modified()).ok();
        let time = time.and_then(|t| t.duration_since(std::time::UNIX_EPOCH).ok()).map(|t| t.as_nanos());
        text.push_str(&format!("{name} {} {time:?}\n", blob.bytes().len()));
    }
    Ok(Digest::of(text.as_bytes()).to_string())
}

/// Opens what was written as the engine does, and compares every byte on disk with its sum.
fn verify(target: &Path, expected: &Expected) -> Result<()> {
    let files = ModelFiles::open(target)?;
    let weights = Weights::open(&files, expected, Checks::HEADERS)?;
    weights.check_recorded()?;
    family::check_runs(&files, &weights)?;
    check_sums(&files, &weights)
}

/// Compares the weight files with `SHA256SUMS` where that lists them, a little in memory at a time.
pub(crate) fn check_sums(files: &ModelFiles, weights: &Weights) -> Result<()> {
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
fn provenance(files: &ModelFiles, options: &Options, recipe: &Recipe) -> Value {
    let scheme = options.scheme;
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
    if !options.keep.is_empty() {
        json["keep"] = options.keep.iter().map(Pattern::as_str).collect();
    }
    if options.requantize {
        json["requantized"] = true.into();
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
