//! What a batch brings along: one buffer, one upload.
//!
//! The batch's sizes, its input tensors, lists of attention tasks made from the offsets, and the embedding rows gathered
//! on the host. Every index is checked here, so a shader never reads a row that is not there.

use dikast_core::backend::Batch;
use dikast_core::graph::{Dim, Graph, InputKind, Sizes, Step, TensorId, WeightId};
use dikast_core::{Error, Result};

use crate::placement::{Kind, Placed, Placement};
use crate::recipe::Binding;
use crate::resident::{WgpuResident, pack_rows, views};

/// Queries of one attention task; `attention.wgsl` has the same number.
pub(crate) const TASK_QUERIES: usize = 32;
/// Words of one attention task.
const TASK_WORDS: usize = 5;
/// Bytes at the start of the buffer for the batch's sizes.
const SIZES_BYTES: u64 = 16;

/// The buffer's layout for a bucket.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Bytes of the whole.
    pub(crate) bytes: u64,
    tensors: Vec<Region<InputKind>>,
    tasks: Vec<Region<TaskKey>>,
    gathers: Vec<Region<Gather>>,
    checks: Vec<Check>,
}

#[derive(Debug)]
struct Region<K> {
    key: K,
    offset: u64,
    bytes: u64,
}

/// Attention over the same sequences shares a list of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TaskKey {
    q_offsets: InputKind,
    kv_offsets: InputKind,
    kv_lengths: Option<InputKind>,
}

impl TaskKey {
    fn new(
        graph: &Graph,
        q_offsets: TensorId,
        kv_offsets: TensorId,
        kv_lengths: Option<TensorId>,
    ) -> Result<Self> {
        Ok(Self {
            q_offsets: kind(graph, q_offsets)?,
            kv_offsets: kind(graph, kv_offsets)?,
            kv_lengths: kv_lengths.map(|id| kind(graph, id)).transpose()?,
        })
    }
}

/// Rows of a table on the host, one a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gather {
    ids: InputKind,
    table: WeightId,
    row_bytes: u64,
}

/// What an input must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Every value is in `0..limit`.
    Below(InputKind, Dim),
    /// Every value is in `0..=limit`.
    UpTo(InputKind, Dim),
    /// No value is negative.
    Counts(InputKind),
    /// Ascending from 0 to the number of rows.
    Offsets(InputKind, Dim),
    /// First row, end and zero rows; not empty.
    TextSpans(InputKind, Dim),
}

/// What was written for a batch.
#[derive(Debug)]
pub(crate) struct Filled {
    /// Bytes from the start that count.
    pub(crate) used: usize,
    /// Tasks of each list.
    pub(crate) tasks: Vec<u32>,
}

impl Inputs {
    pub(crate) fn new(graph: &Graph, placement: &Placement, capacity: &Sizes, align: u64) -> Result<Self> {
        let mut this =
            Self { bytes: SIZES_BYTES, tensors: vec![], tasks: vec![], gathers: vec![], checks: vec![] };
        for input in graph.inputs() {
            let len: usize = input.kind.shape().iter().map(|d| d.bind(capacity)).product();
            let region = this.region(input.kind, len as u64 * 4, align);
            this.tensors.push(region);
        }
        for step in graph.steps() {
            this.add_checks(graph, step)?;
            if let Step::Attention { q, q_offsets, kv_offsets, kv_lengths, .. } = *step {
                let key = TaskKey::new(graph, q_offsets, kv_offsets, kv_lengths)?;
                if !this.tasks.iter().any(|t| t.key == key) {
                    let rows = graph.tensor(q.tensor).shape[0].bind(capacity);
                    let most = rows / TASK_QUERIES + capacity.sequences;
                    let region = this.region(key, (most * TASK_WORDS * 4) as u64, align);
                    this.tasks.push(region);
                }
            }
        }
        // Last, so that the unused end of the buffer need not be written.
        for step in graph.steps() {
            if let Step::Embed { ids, table, .. } = *step
                && placement.weight(table).kind == Kind::HostRows
            {
                let row_bytes = placement.weight(table).row_bytes();
                let key = Gather { ids: kind(graph, ids)?, table, row_bytes };
                if !this.gathers.iter().any(|g| g.key == key) {
                    let rows = graph.tensor(ids).shape[0].bind(capacity) as u64;
                    let region = this.region(key, rows * row_bytes, align);
                    this.gathers.push(region);
                }
            }
        }
        Ok(this)
    }

    fn region<K>(&mut self, key: K, bytes: u64, align: u64) -> Region<K> {
        let offset = self.bytes.next_multiple_of(align);
        // A binding of nothing is not allowed; one of a whole structure always is.
        let bytes = bytes.max(16 * TASK_WORDS as u64).next_multiple_of(16);
        self.bytes = offset + bytes;
        Region { key, offset, bytes }
    }

    /// An input tensor.
    pub(crate) fn tensor(&self, graph: &Graph, id: TensorId) -> Result<Binding> {
        let kind = kind(graph, id)?;
        let region = self.tensors.iter().find(|r| r.key == kind);
        region.map(Region::binding).ok_or_else(|| missing(kind))
    }

    /// The rows gathered from a table on the host.
    pub(crate) fn gathered(&self, graph: &Graph, ids: TensorId, table: WeightId) -> Result<Binding> {
        let kind = kind(graph, ids)?;
        let region = self.gathers.iter().find(|r| r.key.ids == kind && r.key.table == table);
        region.map(Region::binding).ok_or_else(|| missing(kind))
    }

    /// A list of attention tasks and its number.
    pub(crate) fn tasks(
        &self,
        graph: &Graph,
        q_offsets: TensorId,
        kv_offsets: TensorId,
        kv_lengths: Option<TensorId>,
    ) -> Result<(usize, Binding)> {
        let key = TaskKey::new(graph, q_offsets, kv_offsets, kv_lengths)?;
        let list = self.tasks.iter().position(|t| t.key == key).ok_or_else(|| missing(key.q_offsets))?;
        Ok((list, self.tasks[list].binding()))
    }

    fn add_checks(&mut self, graph: &Graph, step: &Step) -> Result<()> {
        let rows = |id: TensorId| graph.tensor(id).shape[0];
        let kind = |id: TensorId| kind(graph, id);
        let mut add = |check: Check| {
            if !self.checks.contains(&check) {
                self.checks.push(check);
            }
        };
        match *step {
            Step::Embed { ids, table, segments, .. } => {
                add(Check::Below(kind(ids)?, Dim::Fixed(graph.weight(table).shape[0])));
                if let Some((ids, table)) = segments {
                    add(Check::Below(kind(ids)?, Dim::Fixed(graph.weight(table).shape[0])));
                }
            }
            Step::Attention { q, k, q_offsets, kv_offsets, kv_lengths, .. } => {
                add(Check::Offsets(kind(q_offsets)?, rows(q.tensor)));
                add(Check::Offsets(kind(kv_offsets)?, rows(k.tensor)));
                if let Some(lengths) = kv_lengths {
                    add(Check::Counts(kind(lengths)?));
                }
            }
            Step::SelectRows { x, rows: list, .. } => add(Check::Below(kind(list)?, rows(x))),
            Step::PoolSpans { x, spans, .. } => add(Check::UpTo(kind(spans)?, rows(x))),
            Step::PoolText { x, spans, .. } => add(Check::TextSpans(kind(spans)?, rows(x))),
            Step::BiLstm { x, offsets, lengths, .. } => {
                add(Check::Offsets(kind(offsets)?, rows(x)));
                add(Check::Counts(kind(lengths)?));
            }
            Step::Concat { left, left_rows: Some(list), .. } => add(Check::Below(kind(list)?, rows(left))),
            Step::PairProduct { text, owner, .. } | Step::Dot { text, owner, .. } => {
                add(Check::Below(kind(owner)?, rows(text)));
            }
            Step::HopfieldMix { classes, offsets, .. } => {
                add(Check::Offsets(kind(offsets)?, rows(classes)));
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks a batch and writes it; `staging` is [`Inputs::bytes`] long.
    pub(crate) fn fill(
        &self,
        graph: &Graph,
        resident: &WgpuResident,
        batch: &Batch,
        staging: &mut [u8],
    ) -> Result<Filled> {
        for check in &self.checks {
            check.holds(batch)?;
        }
        let sizes = &batch.sizes;
        let sizes = [sizes.tokens, sizes.sequences, sizes.labels, sizes.text_tokens].map(|n| n as u32);
        staging[..SIZES_BYTES as usize].copy_from_slice(bytemuck::cast_slice(&sizes));
        for region in &self.tensors {
            write(staging, region.offset, bytemuck::cast_slice(batch.get(region.key)?));
        }
        let mut tasks = Vec::with_capacity(self.tasks.len());
        for region in &self.tasks {
            tasks.push(write_tasks(region, batch, staging)?);
        }
        let mut used = self.gathers.first().map_or(self.bytes, |g| g.offset);
        for region in &self.gathers {
            let Gather { ids, table, row_bytes } = region.key;
            let ids = batch.get(ids)?;
            gather(graph, resident, table, ids, &mut staging[region.offset as usize..])?;
            used = region.offset + ids.len() as u64 * row_bytes;
        }
        Ok(Filled { used: used.next_multiple_of(4).min(self.bytes) as usize, tasks })
    }
}

impl<K> Region<K> {
    fn binding(&self) -> Binding {
        Binding::Input { offset: self.offset, bytes: self.bytes }
    }
}

fn kind(graph: &Graph, id: TensorId) -> Result<InputKind> {
    graph.inputs().iter().find(|i| i.tensor == id).map(|i| i.kind).ok_or_else(|| {
        Error::Internal(format!("{} holds indices but is no input of the graph", graph.tensor(id).name))
    })
}

fn missing(kind: InputKind) -> Error {
    Error::Internal(format!("nothing was laid out for input {}", kind.name()))
}

fn write(staging: &mut [u8], offset: u64, bytes: &[u8]) {
    let offset = offset as usize;
    staging[offset..offset + bytes.len()].copy_from_slice(bytes);
}

/// Blocks of queries of one sequence: first and last query row, place in the sequence, first and last key row.
fn write_tasks(region: &Region<TaskKey>, batch: &Batch, staging: &mut [u8]) -> Result<u32> {
    let (queries, keys) = (batch.get(region.key.q_offsets)?, batch.get(region.key.kv_offsets)?);
    let lengths = region.key.kv_lengths.map(|kind| batch.get(kind)).transpose()?;
    let mut count = 0;
    let mut at = region.offset;
    for (s, (q, k)) in queries.windows(2).zip(keys.windows(2)).enumerate() {
        let length = lengths.and_then(|l| l.get(s)).copied().unwrap_or(i32::MAX);
        let key_end = k[0].saturating_add(length).min(k[1]);
        for first in (q[0]..q[1]).step_by(TASK_QUERIES) {
            let task = [first, (first + TASK_QUERIES as i32).min(q[1]), first - q[0], k[0], key_end];
            write(staging, at, bytemuck::cast_slice(&task));
            at += (TASK_WORDS * 4) as u64;
            count += 1;
        }
    }
    Ok(count)
}

/// Copies rows of a table on the host in their stored form.
fn gather(
    graph: &Graph,
    resident: &WgpuResident,
    table: WeightId,
    ids: &[i32],
    staging: &mut [u8],
) -> Result<()> {
    let placed: &Placed = resident.placed(table);
    let parts = views(&resident.weights, graph.weight(table))?;
    let row_bytes = placed.row_bytes() as usize;
    let mut row = Vec::with_capacity(row_bytes);
    for (id, out) in ids.iter().zip(staging.chunks_exact_mut(row_bytes)) {
        let mut id = *id as usize;
        for part in &parts {
            if id < part.shape[0] {
                row.clear();
                pack_rows(part, id..id + 1, placed, &mut row);
                out.copy_from_slice(&row);
                break;
            }
            id -= part.shape[0];
        }
    }
    Ok(())
}

impl Check {
    fn holds(self, batch: &Batch) -> Result<()> {
        let bind = |dim: Dim| dim.bind(&batch.sizes);
        let all = |kind: InputKind, limit: usize| {
            let inside = |v: &i32| usize::try_from(*v).is_ok_and(|v| v < limit);
            if batch.get(kind)?.iter().all(inside) {
                Ok(())
            } else {
                Err(Error::Internal(format!("{}: a value is not in 0..{limit}", kind.name())))
            }
        };
        match self {
            Self::Below(kind, limit) => all(kind, bind(limit)),
            Self::UpTo(kind, limit) => all(kind, bind(limit) + 1),
            Self::Counts(kind) => all(kind, usize::MAX),
            Self::Offsets(kind, rows) => {
                let rows = bind(rows);
                all(kind, rows + 1)?;
                let offsets = batch.get(kind)?;
                let ascending = offsets.windows(2).all(|w| w[0] <= w[1]);
                let whole =
                    offsets.first() == Some(&0) && offsets.last().copied() == i32::try_from(rows).ok();
                if ascending && whole {
                    Ok(())
                } else {
                    Err(Error::Internal(format!("{}: not ascending from 0 to {rows}", kind.name())))
                }
            }
            Self::TextSpans(kind, rows) => {
                all(kind, usize::MAX)?;
                let rows = bind(rows) as i64;
                let inside = |s: &[i32]| {
                    let [first, end, zeros] = [s[0], s[1], s[2]].map(i64::from);
                    first <= end && end <= rows && end - first + zeros > 0
                };
                if batch.get(kind)?.chunks_exact(3).all(inside) {
                    Ok(())
                } else {
                    Err(Error::Internal(format!("{}: a text span is empty or out of range", kind.name())))
                }
            }
        }
    }
}
