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

use crate::encode::{Found, encode, fp8_scale};
use crate::hash::Hashed;
use crate::plan::{Coding, Item, Plan, PlannedFile};
use crate::progress::{PART, Progress};
use crate::report::MatrixError;
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
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// The weight files and their index.
    pub files: Vec<WrittenFile>,
    /// Bytes of the weight files.
    pub bytes: u64,
    /// Numbers of the model, scales left out.
    pub parameters: u64,
    /// Weight files that were there already.
    pub resumed: usize,
    /// The errors of the matrices that were quantized here, in the order of the files.
    pub errors: Vec<MatrixError>,
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
    write_resumable(dir, plan, recipe, source, None, progress)
}

/// [`write_weights`] that leaves out what `state` says is done, and tells it what it does.
pub(crate) fn write_resumable(
    dir: &Path,
    plan: &Plan,
    recipe: &Recipe,
    source: &dyn Source,
    state: Option<&Progress<'_>>,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Written> {
    let all = plan.tensor_bytes();
    let resumed = plan.files.iter().filter(|f| state.is_some_and(|s| s.done(&f.name).is_some())).count();
    let written = write_files(dir, plan, (recipe, source), state, &mut |done| progress(done, all))?;
    let (mut files, errors): (Vec<_>, Vec<_>) = written.into_iter().unzip();
    let errors = errors.into_iter().flatten().collect();
    let mut index = BTreeMap::new();
    for file in plan.files.iter().filter(|f| f.indexed) {
        let stored = file.items.iter().flat_map(Item::stored).map(|t| t.name);
        let markers = file.items.iter().filter_map(Item::int8).map(|(m, _)| Int8Layer::marker(m));
        index.extend(stored.chain(markers).map(|name| (name, file.name.clone())));
    }
    let bytes = files.iter().map(|f| f.bytes).sum();
    if !index.is_empty() {
        let items = plan.files.iter().filter(|f| f.indexed).flat_map(|f| &f.items);
        let total: u64 = items.flat_map(Item::stored).map(|t| t.bytes()).sum();
        let json = json!({"metadata": {"total_size": total}, "weight_map": index});
        files.push(write_small(dir, INDEX, format!("{json:#}\n").as_bytes())?);
    }
    Ok(Written { files, bytes, parameters: plan.parameters(), resumed, errors })
}

/// Writes all weight files, in the order of the plan; `progress` gets the bytes of tensors done.
fn write_files(
    dir: &Path,
    plan: &Plan,
    (recipe, source): (&Recipe, &dyn Source),
    state: Option<&Progress<'_>>,
    progress: &mut dyn FnMut(u64),
) -> Result<Vec<(WrittenFile, Vec<MatrixError>)>> {
    let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    let write_some = |wrote: &Sender<u64>| {
        let mut outcomes = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = plan.files.get(place) else { break };
            // Nobody listens any more only when this call has ended.
            let mut wrote = |bytes| wrote.send(bytes).unwrap_or(());
            let outcome = match state.and_then(|s| s.done(&file.name)) {
                Some(done) => {
                    wrote(file.items.iter().flat_map(Item::stored).map(|t| t.bytes()).sum());
                    Ok(done)
                }
                None => notes(file, recipe, source)
                    .and_then(|notes| write_file(dir, file, &notes, source, &mut wrote))
                    .and_then(|done| {
                        state.map_or(Ok(()), |s| s.finished(&done.0, &done.1))?;
                        Ok(done)
                    }),
            };
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
    let coded: Vec<_> = file.items.iter().filter_map(|i| i.int8().map(|about| (i, about))).collect();
    if coded.is_empty() {
        return Ok(FileNotes::default());
    }
    let layers = coded
        .par_iter()
        .map(|(item, (module, group))| {
            let (_, width) = rows_of(&item.spec.shape);
            if let Some(coded) = source.coded(spec_module(item)) {
                let codes = coded.codes.get(..width).unwrap_or_default();
                return Ok(Int8Layer::new(
                    *module,
                    *group,
                    codes,
                    coded.scales.first().copied().unwrap_or(1.0),
                ));
            }
            let (mut row, mut wide, mut codes) = (vec![0.0; width], vec![0.0; width], vec![0; width]);
            source.open(&item.spec)?.row(0, &mut row);
            let scale = quantize_weight_row(&row, *group, &mut wide, &mut codes);
            if !scale.is_finite() {
                return Err(not_finite(&item.spec.name, 0));
            }
            Ok(Int8Layer::new(*module, *group, &codes, scale))
        })
        .collect::<Result<Vec<_>>>()?;
    Int8Layer::notes(&layers, recipe)
}

/// The module of a matrix, as the model names it.
fn spec_module(item: &Item) -> &str {
    item.spec.name.strip_suffix(".weight").unwrap_or(&item.spec.name)
}

fn not_finite(name: &str, row: usize) -> Error {
    Error::checkpoint(
        name,
        format!("a number that is not finite found in row {row}, allowed: finite numbers"),
    )
}

/// Writes a file under another name and renames it when it is complete.
fn write_file(
    dir: &Path,
    file: &PlannedFile,
    notes: &FileNotes,
    source: &dyn Source,
    wrote: &mut dyn FnMut(u64),
) -> Result<(WrittenFile, Vec<MatrixError>)> {
    let (path, part) = (dir.join(&file.name), dir.join(format!("{}{PART}", file.name)));
    let outcome = write_part(&part, file, notes, source, wrote)
        .and_then(|done| std::fs::rename(&part, &path).map(|()| done).map_err(|e| io_error(&path, &e)));
    if outcome.is_err() {
        // Half a file is of use to nobody; the error that brought us here is the one to report.
        let _ = std::fs::remove_file(&part);
    }
    outcome
}

fn write_part(
    path: &Path,
    file: &PlannedFile,
    notes: &FileNotes,
    source: &dyn Source,
    wrote: &mut dyn FnMut(u64),
) -> Result<(WrittenFile, Vec<MatrixError>)> {
    let created = File::create(path).map_err(|e| io_error(path, &e))?;
    let mut out = Hashed::new(BufWriter::with_capacity(1 << 20, created));
    let errors = write_tensors(&mut out, file, notes, source, wrote).map_err(|e| match e {
        Error::Io { message, .. } => Error::Io { path: path.display().to_string(), message },
        other => other,
    })?;
    let (bytes, digest, out) = out.finish();
    let written = out.into_inner().map_err(|e| io_error(path, e.error()))?;
    written.sync_all().map_err(|e| io_error(path, &e))?;
    Ok((WrittenFile { name: file.name.clone(), bytes, digest }, errors))
}

/// The weight files of a plan, in memory.
pub(crate) fn in_memory(plan: &Plan, recipe: &Recipe, source: &dyn Source) -> Result<Vec<(String, Vec<u8>)>> {
    let file = |file: &PlannedFile| {
        let mut out = Vec::new();
        write_tensors(&mut out, file, &notes(file, recipe, source)?, source, &mut |_| {})?;
        Ok((file.name.clone(), out))
    };
    plan.files.iter().map(file).collect()
}

/// Writes all of a file; the errors of its matrices, in the order of the plan.
fn write_tensors<W: Write>(
    out: &mut W,
    file: &PlannedFile,
    notes: &FileNotes,
    source: &dyn Source,
    wrote: &mut dyn FnMut(u64),
) -> Result<Vec<MatrixError>> {
    let stored: Vec<StoredTensor> = file.items.iter().flat_map(Item::stored).collect();
    let int8 = file.items.iter().any(|i| i.int8().is_some());
    let layout = if int8 { FileLayout::quantized(stored, notes)? } else { FileLayout::new(stored)? };
    // Every stored tensor with the item that it belongs to.
    let items: BTreeMap<String, &Item> =
        file.items.iter().flat_map(|i| i.stored().into_iter().map(move |t| (t.name, i))).collect();
    let mut scales: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut errors: BTreeMap<&str, MatrixError> = BTreeMap::new();
    // The layout knows only errors of writing; ours wait here.
    let mut fault = None;
    let result = layout.write(out, |tensor, out| {
        if let Some(bytes) = scales.remove(&tensor.name) {
            out.write_all(&bytes)?;
            wrote(bytes.len() as u64);
            return Ok(());
        }
        let outcome = match items.get(tensor.name.as_str()) {
            Some(item) if tensor.name == item.name => matrix(item, source, out, wrote).map(|found| {
                if let Some(module) = item.module() {
                    if item.int8().is_some() {
                        let bytes = found.scales.iter().flat_map(|s| s.to_le_bytes()).collect();
                        scales.insert(format!("{module}.weight_scale"), bytes);
                    }
                    if let Some(relative_l2) = found.relative() {
                        let module = spec_module(item).to_owned();
                        errors.insert(item.name.as_str(), MatrixError { module, relative_l2 });
                    }
                }
            }),
            Some(item) if tensor.dtype == StoredType::BF16 => fp8_scales(item, source, out, wrote),
            Some(item) => bias(item, source, out, wrote),
            None => Err(Fault::Engine(Error::Internal(format!("{} has no source", tensor.name)))),
        };
        match outcome {
            Ok(()) => Ok(()),
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
    result?;
    let mut in_order = Vec::new();
    for item in &file.items {
        in_order.extend(errors.remove(item.name.as_str()));
    }
    Ok(in_order)
}

enum Fault {
    Write(io::Error),
    Engine(Error),
}

type Outcome<T> = std::result::Result<T, Fault>;

/// What was found of a matrix.
#[derive(Default)]
struct Matrix {
    /// The scale of each row of codes.
    scales: Vec<f32>,
    square: f64,
    norm: f64,
    measured: bool,
}

impl Matrix {
    fn relative(&self) -> Option<f64> {
        let size = if self.norm > 0.0 { self.norm.sqrt() } else { 1.0 };
        self.measured.then(|| self.square.sqrt() / size)
    }
}

/// Writes one tensor, a block of rows at a time.
fn matrix(
    item: &Item,
    source: &dyn Source,
    out: &mut dyn Write,
    wrote: &mut dyn FnMut(u64),
) -> Outcome<Matrix> {
    if let Some(coded) = item.int8().and_then(|_| source.coded(spec_module(item))) {
        let bytes: &[u8] = bytemuck::cast_slice(&coded.codes);
        out.write_all(bytes).map_err(Fault::Write)?;
        wrote(bytes.len() as u64);
        return Ok(Matrix { scales: coded.scales.clone(), ..Matrix::default() });
    }
    let rows = source.open(&item.spec).map_err(Fault::Engine)?;
    let mut found = Matrix { measured: item.coding != Coding::Plain, ..Matrix::default() };
    let (_, width) = rows_of(&item.spec.shape);
    let row_bytes = width * item.dtype.bytes();
    let mut block = Vec::new();
    blocks(item, |first, count| {
        block.resize(count * row_bytes, 0);
        let coded: Vec<Option<Found>> = block
            .par_chunks_mut(row_bytes.max(1))
            .enumerate()
            .map_init(
                || (vec![0.0; width], vec![0.0; if item.coding == Coding::Plain { 0 } else { width }]),
                |(row, wide), (i, bytes)| {
                    rows.row(first + i, row);
                    encode(item, row, wide, bytes)
                },
            )
            .collect();
        if let Some(bad) = coded.iter().position(Option::is_none) {
            return Err(Fault::Engine(not_finite(&item.spec.name, first + bad)));
        }
        for row in coded.into_iter().flatten().filter(|_| found.measured) {
            found.scales.push(row.scale);
            found.square += row.square;
            found.norm += row.norm;
        }
        out.write_all(&block).map_err(Fault::Write)?;
        wrote(block.len() as u64);
        Ok(())
    })?;
    rows.done();
    Ok(found)
}

/// Writes the scales of FP8 codes, which stand before the codes in the file.
fn fp8_scales(
    item: &Item,
    source: &dyn Source,
    out: &mut dyn Write,
    wrote: &mut dyn FnMut(u64),
) -> Outcome<()> {
    let rows = source.open(&item.spec).map_err(Fault::Engine)?;
    let (_, width) = rows_of(&item.spec.shape);
    blocks(item, |first, count| {
        let scales: Vec<[u8; 2]> = (first..first + count)
            .into_par_iter()
            .map_init(
                || vec![0.0; width],
                |row, i| {
                    rows.row(i, row);
                    fp8_scale(row).to_le_bytes()
                },
            )
            .collect();
        out.write_all(scales.as_flattened()).map_err(Fault::Write)?;
        wrote(2 * count as u64);
        Ok(())
    })
}

/// Writes a correcting bias.
fn bias(item: &Item, source: &dyn Source, out: &mut dyn Write, wrote: &mut dyn FnMut(u64)) -> Outcome<()> {
    let found = source.coded(spec_module(item)).and_then(|c| c.bias.as_ref());
    let Some(found) = found else {
        return Err(Fault::Engine(Error::Internal(format!("{} has no bias", item.name))));
    };
    let bytes: Vec<u8> = found.iter().flat_map(|b| b.to_le_bytes()).collect();
    out.write_all(&bytes).map_err(Fault::Write)?;
    wrote(bytes.len() as u64);
    Ok(())
}

/// Calls `each` with the first row and the count of every block of rows.
fn blocks(item: &Item, mut each: impl FnMut(usize, usize) -> Outcome<()>) -> Outcome<()> {
    let (count, width) = rows_of(&item.spec.shape);
    let step = (BLOCK / width.max(1)).max(1);
    for first in (0..count).step_by(step) {
        each(first, step.min(count - first))?;
    }
    Ok(())
}
