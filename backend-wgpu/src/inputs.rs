//! What a batch brings along: one buffer, one upload.
//!
//! The batch's sizes, its input tensors, lists of tasks made from the offsets, the turns of rotary positions, and the table
//! rows gathered on the host. Every index is checked here, so a shader never reads a row that is not there.

use dikast_core::backend::{Batch, InputChecks};
use dikast_core::graph::{DType, Dim, Frequency, Graph, InputKind, Sizes, Step, TensorId, WeightId};
use dikast_core::{Error, Result};

use crate::layout::stride;
use crate::placement::{Kind, Placed, Placement};
use crate::recipe::{Binding, SIZES, words};
use crate::resident::{WgpuResident, pack_rows, views};
use crate::turns::Turns;

/// Rows of one task; `attention.wgsl`, `causal_attention.wgsl` and `delta_chunks.wgsl` have the same number.
pub(crate) const TASK_QUERIES: usize = 32;
/// Words of one task.
const TASK_WORDS: usize = 5;
/// Bytes at the start of the buffer for the batch's sizes.
const SIZES_BYTES: u64 = SIZES as u64 * 4;

/// The buffer's layout for a bucket.
#[derive(Debug)]
pub(crate) struct Inputs {
    /// Bytes of the whole.
    pub(crate) bytes: u64,
    tensors: Vec<Region<InputKind>>,
    reals: Vec<Region<Reals>>,
    tasks: Vec<Region<TaskKey>>,
    turns: Vec<Region<Turns>>,
    gathers: Vec<Region<Gather>>,
    checks: InputChecks,
}

#[derive(Debug)]
struct Region<K> {
    key: K,
    offset: u64,
    bytes: u64,
}

/// An input of reals, its rows padded to four elements as every matrix's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Reals {
    kind: InputKind,
    rows: Dim,
    columns: usize,
}

/// Steps over the same sequences share a list of tasks.
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
            q_offsets: graph.input_kind(q_offsets)?,
            kv_offsets: graph.input_kind(kv_offsets)?,
            kv_lengths: kv_lengths.map(|id| graph.input_kind(id)).transpose()?,
        })
    }
}

/// Rows of a table on the host, one an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gather {
    ids: InputKind,
    table: WeightId,
    row_bytes: u64,
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
        let mut this = Self {
            bytes: SIZES_BYTES,
            tensors: vec![],
            reals: vec![],
            tasks: vec![],
            turns: vec![],
            gathers: vec![],
            checks: InputChecks::new(graph)?,
        };
        for input in graph.inputs() {
            if input.kind.dtype() == DType::F32 {
                let shape = &graph.tensor(input.tensor).shape;
                let columns = shape.iter().skip(1).map(|d| d.bind(capacity)).product();
                let key = Reals { kind: input.kind, rows: shape[0], columns };
                let bytes = (shape[0].bind(capacity) * stride(columns)) as u64 * 4;
                let region = this.region(key, bytes, align);
                this.reals.push(region);
            } else {
                let len: usize = input.kind.shape().iter().map(|d| d.bind(capacity)).product();
                let region = this.region(input.kind, len as u64 * 4, align);
                this.tensors.push(region);
            }
        }
        for step in graph.steps() {
            let (rows, q_offsets, kv_offsets, kv_lengths) = match *step {
                Step::Attention { q, q_offsets, kv_offsets, kv_lengths, .. } => {
                    (q.tensor, q_offsets, kv_offsets, kv_lengths)
                }
                Step::CausalAttention { q, offsets, .. } => (q.tensor, offsets, offsets, None),
                Step::CausalConv { x, offsets, .. } => (x.tensor, offsets, offsets, None),
                Step::GatedDelta { x, offsets, .. } => (x, offsets, offsets, None),
                Step::HeadRotary { positions, ref frequencies, .. } => {
                    this.add_turns(graph, positions, frequencies, capacity, align)?;
                    continue;
                }
                _ => continue,
            };
            let key = TaskKey::new(graph, q_offsets, kv_offsets, kv_lengths)?;
            if !this.tasks.iter().any(|t| t.key == key) {
                let rows = graph.tensor(rows).shape[0].bind(capacity);
                let groups = graph.tensor(q_offsets).shape[0].bind(capacity) - 1;
                let most = rows / TASK_QUERIES + groups;
                let region = this.region(key, (most * TASK_WORDS * 4) as u64, align);
                this.tasks.push(region);
            }
        }
        // Last, so that the unused end of the buffer need not be written.
        for step in graph.steps() {
            if let Step::Embed { ids, table, .. } | Step::PoolTableRows { ids, table, .. } = *step
                && placement.weight(table).kind == Kind::HostRows
            {
                let row_bytes = placement.weight(table).row_bytes();
                let key = Gather { ids: graph.input_kind(ids)?, table, row_bytes };
                if !this.gathers.iter().any(|g| g.key == key) {
                    let rows = graph.tensor(ids).shape[0].bind(capacity) as u64;
                    let region = this.region(key, rows * row_bytes, align);
                    this.gathers.push(region);
                }
            }
        }
        Ok(this)
    }

    fn add_turns(
        &mut self,
        graph: &Graph,
        positions: TensorId,
        frequencies: &[Frequency],
        capacity: &Sizes,
        align: u64,
    ) -> Result<()> {
        let kind = graph.input_kind(positions)?;
        if !self.turns.iter().any(|t| t.key.are(kind, frequencies)) {
            let key = Turns::new(kind, frequencies);
            let bytes = key.bytes(graph.tensor(positions).shape[0].bind(capacity));
            let region = self.region(key, bytes, align);
            self.turns.push(region);
        }
        Ok(())
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
        let kind = graph.input_kind(id)?;
        let integers = self.tensors.iter().find(|r| r.key == kind).map(Region::binding);
        let reals = || self.reals.iter().find(|r| r.key.kind == kind).map(Region::binding);
        integers.or_else(reals).ok_or_else(|| missing(kind))
    }

    /// Cosine and sine of every frequency of every row.
    pub(crate) fn turns(
        &self,
        graph: &Graph,
        positions: TensorId,
        frequencies: &[Frequency],
    ) -> Result<Binding> {
        let kind = graph.input_kind(positions)?;
        let region = self.turns.iter().find(|t| t.key.are(kind, frequencies));
        region.map(Region::binding).ok_or_else(|| missing(kind))
    }

    /// The rows gathered from a table on the host.
    pub(crate) fn gathered(&self, graph: &Graph, ids: TensorId, table: WeightId) -> Result<Binding> {
        let kind = graph.input_kind(ids)?;
        let region = self.gathers.iter().find(|r| r.key.ids == kind && r.key.table == table);
        region.map(Region::binding).ok_or_else(|| missing(kind))
    }

    /// A list of tasks and its number.
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

    /// Checks a batch and writes it; `staging` is [`Inputs::bytes`] long.
    pub(crate) fn fill(
        &self,
        graph: &Graph,
        resident: &WgpuResident,
        batch: &Batch,
        staging: &mut [u8],
    ) -> Result<Filled> {
        self.checks.hold(batch)?;
        write(staging, 0, bytemuck::cast_slice(&words(&batch.sizes)));
        for region in &self.tensors {
            write(staging, region.offset, bytemuck::cast_slice(batch.get(region.key)?));
        }
        for region in &self.reals {
            let Reals { kind, rows, columns } = region.key;
            let values = batch.get_reals(kind, rows.bind(&batch.sizes) * columns)?;
            let row_bytes = stride(columns) * 4;
            for (row, values) in values.chunks(columns.max(1)).enumerate() {
                write(staging, region.offset + (row * row_bytes) as u64, bytemuck::cast_slice(values));
            }
        }
        for region in &self.turns {
            region.key.write(batch, &mut staging[region.offset as usize..])?;
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
