//! Writing the weight files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;

use dikast_core::checkpoint::{Digest, FileLayout, FileNotes, Int8Layer, Recipe, StoredTensor, StoredType};
use dikast_core::numerics::int8::quantize_weight_row;
use dikast_core::{Error, Result};
use rayon::prelude::*;
use serde_json::json;

use crate::hash::Hashed;
use crate::plan::{Item, Plan, PlannedFile};
use crate::source::{Source, rows_of};

/// Elements of a block of rows: what is in memory of a tensor.
const BLOCK: usize = 4 << 20;
/// Most files written at once. Hashing and writing one is the work of one thread, and the rows of one are encoded by all;
/// several files keep both busy.
const AT_ONCE: usize = 8;
const INDEX: &str = "model.safetensors.index.json";

/// One file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenFile {
    /// Its name.
    pub name: String,
    /// Its bytes.
    pub bytes: u64,
    /// Their SHA-256.
    pub digest: Digest,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The weight files and their index.
    pub files: Vec<WrittenFile>,
    /// Bytes of the weight files.
    pub bytes: u64,
    /// Numbers of the model, scales left out.
    pub parameters: u64,
}

/// Writes the weight files of a plan into `dir`, which is there. `progress` gets bytes of tensors done and in all.
///
/// Up to eight files are written at once, each with a block of rows and its scales in memory, besides whatever the source
/// keeps. The bytes are the same on any number of processors.
///
/// # Errors
/// [`Error::Io`] naming the file; [`Error::Checkpoint`] naming a tensor that has a number that is not finite, or does
/// not fit the type that it is to be stored in.
pub fn write_weights(
    dir: &Path,
    plan: &Plan,
    recipe: &Recipe,
    source: &dyn Source,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Written> {
    let all = plan.tensor_bytes();
    let mut files = write_files(dir, plan, recipe, source, &mut |done| progress(done, all))?;
    let mut index = BTreeMap::new();
    for file in plan.files.iter().filter(|f| f.indexed) {
        let stored = file.items.iter().flat_map(Item::stored).map(|t| t.name);
        let markers = file.items.iter().filter_map(Item::module).map(Int8Layer::marker);
        index.extend(stored.chain(markers).map(|name| (name, file.name.clone())));
    }
    let bytes = files.iter().map(|f| f.bytes).sum();
    if !index.is_empty() {
        let items = plan.files.iter().filter(|f| f.indexed).flat_map(|f| &f.items);
        let total: u64 = items.flat_map(Item::stored).map(|t| t.bytes()).sum();
        let json = json!({"metadata": {"total_size": total}, "weight_map": index});
        files.push(write_small(dir, INDEX, format!("{json:#}\n").as_bytes())?);
    }
    Ok(Written { files, bytes, parameters: plan.parameters() })
}

/// Writes all weight files, in the order of the plan; `progress` gets the bytes of tensors done.
fn write_files(
    dir: &Path,
    plan: &Plan,
    recipe: &Recipe,
    source: &dyn Source,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<WrittenFile>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let write_some = |wrote: &Sender<u64>| {
        let mut outcomes = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = plan.files.get(place) else { break };
            let outcome = notes(file, recipe, source).and_then(|notes| {
                write_file(&dir.join(&file.name), file, &notes, source, &mut |bytes| {
                    // Nobody listens any more only when this call has ended.
                    let _ = wrote.send(bytes);
                })
            });
            if outcome.is_err() {
                stop.store(true, Ordering::Relaxed);
            }
            outcomes.push((place, outcome));
        }
        outcomes
    };
    let mut outcomes = thread::scope(|scope| {
        let (wrote, written) = channel();
        let count = AT_ONCE.min(plan.files.len());
        let writers: Vec<_> = (0..count)
            .map(|_| {
                let wrote = wrote.clone();
                scope.spawn(|| {
                    let wrote = wrote;
                    write_some(&wrote)
                })
            })
            .collect();
        drop(wrote);
        let mut done = 0;
        for bytes in written {
            done += bytes;
            progress(done);
        }
        let ended = writers.into_iter().map(|w| w.join());
        ended.collect::<thread::Result<Vec<_>>>().map(|all| all.into_iter().flatten().collect::<Vec<_>>())
    })
    .map_err(|_| Error::Internal("a thread that writes files panicked".to_owned()))?;
    outcomes.sort_by_key(|(place, _)| *place);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Writes a file that is in memory.
pub(crate) fn write_small(dir: &Path, name: &str, bytes: &[u8]) -> Result<WrittenFile> {
    let path = dir.join(name);
    std::fs::write(&path, bytes).map_err(|e| io_error(&path, &e))?;
    Ok(WrittenFile { name: name.to_owned(), bytes: bytes.len() as u64, digest: Digest::of(bytes) })
}

pub(crate) fn io_error(path: &Path, error: &io::Error) -> Error {
    Error::Io { path: path.display().to_string(), message: error.to_string() }
}

/// Markers and metadata: they need the first row of every matrix of codes before anything is written.
fn notes(file: &PlannedFile, recipe: &Recipe, source: &dyn Source) -> Result<FileNotes> {
    let coded: Vec<&Item> = file.items.iter().filter(|i| i.group.is_some()).collect();
    if coded.is_empty() {
        return Ok(FileNotes::default());
    }
    let layers = coded
        .par_iter()
        .map(|item| {
            let (_, width) = rows_of(&item.spec.shape);
            let (mut row, mut wide, mut codes) = (vec![0.0; width], vec![0.0; width], vec![0; width]);
            source.open(&item.spec)?.row(0, &mut row);
            let scale = quantize_weight_row(&row, item.group, &mut wide, &mut codes);
            if !scale.is_finite() {
                return Err(not_finite(&item.spec.name, 0));
            }
            Ok(Int8Layer::new(item.module().unwrap_or_default(), item.group, &codes, scale))
        })
        .collect::<Result<Vec<_>>>()?;
    Int8Layer::notes(&layers, recipe)
}

fn not_finite(name: &str, row: usize) -> Error {
    Error::checkpoint(
        name,
        format!("a number that is not finite found in row {row}, allowed: finite numbers"),
    )
}

fn write_file(
    path: &Path,
    file: &PlannedFile,
    notes: &FileNotes,
    source: &dyn Source,
    wrote: &mut dyn FnMut(u64),
) -> Result<WrittenFile> {
    let stored: Vec<StoredTensor> = file.items.iter().flat_map(Item::stored).collect();
    let coded = file.items.iter().any(|i| i.group.is_some());
    let layout = if coded { FileLayout::quantized(stored, notes)? } else { FileLayout::new(stored)? };
    let items: BTreeMap<&str, &Item> = file.items.iter().map(|i| (i.name.as_str(), i)).collect();
    let created = File::create(path).map_err(|e| io_error(path, &e))?;
    let mut out = Hashed::new(BufWriter::with_capacity(1 << 20, created));
    let mut scales: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    // The layout knows only errors of writing; ours wait here.
    let mut fault = None;
    let result = layout.write(&mut out, |tensor, out| {
        if let Some(bytes) = scales.remove(&tensor.name) {
            out.write_all(&bytes)?;
            wrote(bytes.len() as u64);
            return Ok(());
        }
        let outcome = match items.get(tensor.name.as_str()) {
            Some(item) => tensor_bytes(item, source, out, wrote),
            None => Err(Fault::Engine(Error::Internal(format!("{} has no source", tensor.name)))),
        };
        match outcome {
            Ok(found) => {
                if let Some(module) = item_module(&items, &tensor.name) {
                    let bytes = found.into_iter().flat_map(f32::to_le_bytes).collect();
                    scales.insert(format!("{module}.weight_scale"), bytes);
                }
                Ok(())
            }
            Err(Fault::Write(e)) => Err(e),
            Err(Fault::Engine(e)) => {
                fault = Some(e);
                Err(io::Error::other("stopped"))
            }
        }
    });
    if let Some(fault) = fault {
        return Err(fault);
    }
    result.map_err(|e| match e {
        Error::Io { message, .. } => Error::Io { path: path.display().to_string(), message },
        other => other,
    })?;
    let (bytes, digest, out) = out.finish();
    let written = out.into_inner().map_err(|e| io_error(path, e.error()))?;
    written.sync_all().map_err(|e| io_error(path, &e))?;
    let name = file.name.clone();
    Ok(WrittenFile { name, bytes, digest })
}

fn item_module<'a>(items: &BTreeMap<&str, &'a Item>, name: &str) -> Option<&'a str> {
    items.get(name).and_then(|i| i.module())
}

enum Fault {
    Write(io::Error),
    Engine(Error),
}

/// Writes one tensor, a block of rows at a time; the scales of its rows where it is quantized.
fn tensor_bytes(
    item: &Item,
    source: &dyn Source,
    out: &mut dyn Write,
    wrote: &mut dyn FnMut(u64),
) -> std::result::Result<Vec<f32>, Fault> {
    let rows = source.open(&item.spec).map_err(Fault::Engine)?;
    let (count, width) = rows_of(&item.spec.shape);
    let row_bytes = width * item.dtype.bytes();
    let step = (BLOCK / width.max(1)).max(1);
    let mut scales = Vec::new();
    let mut block = vec![0; step.min(count) * row_bytes];
    for first in (0..count).step_by(step) {
        let here = step.min(count - first);
        let block = &mut block[..here * row_bytes];
        let found: Vec<Option<f32>> = block
            .par_chunks_mut(row_bytes.max(1))
            .enumerate()
            .map_init(
                || (vec![0.0; width], vec![0.0; if item.group.is_some() { width } else { 0 }]),
                |(row, wide), (i, bytes)| {
                    rows.row(first + i, row);
                    encode(item, row, wide, bytes)
                },
            )
            .collect();
        if let Some(bad) = found.iter().position(Option::is_none) {
            return Err(Fault::Engine(not_finite(&item.spec.name, first + bad)));
        }
        if item.group.is_some() {
            scales.extend(found.into_iter().flatten());
        }
        out.write_all(block).map_err(Fault::Write)?;
        wrote(block.len() as u64);
    }
    rows.done();
    Ok(scales)
}

/// Encodes one row; its scale where it is quantized, `None` where a number is not finite as stored.
fn encode(item: &Item, row: &[f32], wide: &mut [f64], bytes: &mut [u8]) -> Option<f32> {
    match item.dtype {
        StoredType::I8 => {
            let scale = quantize_weight_row(row, item.group, wide, bytemuck::cast_slice_mut(bytes));
            return scale.is_finite().then_some(scale);
        }
        StoredType::F32 => {
            for (to, v) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
                *to = v.to_le_bytes();
            }
        }
        StoredType::BF16 => {
            for (to, v) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
                *to = half::bf16::from_f32(*v).to_le_bytes();
            }
        }
        StoredType::F16 => {
            for (to, v) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
                *to = half::f16::from_f32(*v).to_le_bytes();
            }
        }
        // Refused by the plan.
        StoredType::F8E4M3 => return None,
    }
    // Sources give numbers of the type that they name, so rounding cannot overflow.
    row.iter().all(|v| v.is_finite()).then_some(1.0)
}
