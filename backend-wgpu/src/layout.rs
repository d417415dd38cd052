//! Where activations lie.
//!
//! Every tensor has a place in one of a few buffers ("banks"). A step writes to a bank that it does not read from, so
//! that its inputs can be bound read-only and no writable binding aliases another; WebGPU forbids both otherwise.
//! Within a bank, tensors whose lives do not overlap share bytes.

use dikast_core::graph::{DType, Graph, RowOp, Sizes, Step, TensorId};
use dikast_core::numerics::int8::Int8Mode;

use crate::format::Element;
use crate::inputs::TASK_QUERIES;

/// Words of what `delta_chunks.wgsl` works out for a chunk and a head.
pub(crate) const DELTA_RECORD: usize = 4 * TASK_QUERIES + 2 * TASK_QUERIES * TASK_QUERIES;

/// A tensor's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) bank: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

/// The graph's INT8 codes that are kept unrounded on a device, by tensor index.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Unrounded(Vec<Option<Element>>);

impl Unrounded {
    /// What quantizers of mode `standard` make, as `element`; nothing without one.
    pub(crate) fn new(graph: &Graph, element: Option<Element>) -> Self {
        let mut all = vec![None; graph.tensors().len()];
        for step in graph.steps() {
            if let Step::RotateQuantize { rotation, codes, .. } = step
                && rotation.mode == Int8Mode::Standard
            {
                all[codes.index()] = element;
            }
        }
        Self(all)
    }

    /// How a tensor of codes is kept unrounded; `None` for codes.
    pub(crate) fn of(&self, id: TensorId) -> Option<Element> {
        self.0.get(id.index()).copied().flatten()
    }
}

/// All activations of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// By tensor index; `None` for inputs and for tensors that no step touches.
    pub(crate) tensors: Vec<Option<Place>>,
    /// By step index: memory that a step needs for itself.
    pub(crate) scratch: Vec<Vec<Place>>,
    /// Bytes of each bank.
    pub(crate) banks: Vec<u64>,
}

/// Row stride of an f32 matrix or of codes, in elements: rows start at multiples of four.
pub(crate) fn stride(columns: usize) -> usize {
    columns.next_multiple_of(4)
}

/// Bytes of a tensor with the symbols bound.
pub(crate) fn tensor_bytes(graph: &Graph, id: TensorId, sizes: &Sizes, unrounded: &Unrounded) -> u64 {
    let tensor = graph.tensor(id);
    let rows = tensor.shape.first().map_or(1, |d| d.bind(sizes)) as u64;
    let columns: usize = tensor.shape.iter().skip(1).map(|d| d.bind(sizes)).product();
    let element = unrounded.of(id).map_or(1, Element::bytes);
    let bytes = match tensor.dtype {
        DType::F8E4M3 | DType::I8 => rows * stride(columns) as u64 * u64::from(element),
        DType::F32 if tensor.shape.len() > 1 => rows * stride(columns) as u64 * 4,
        DType::F32 | DType::I32 => rows * columns as u64 * 4,
    };
    bytes.next_multiple_of(16)
}

/// Bytes of the scratch memory of a step: the projected inputs of the two directions of an LSTM; the records of the chunks
/// of a gated delta rule; the rows before the quantizer, where no one else wants them.
fn scratch_bytes(graph: &Graph, step: &Step, sizes: &Sizes) -> Vec<u64> {
    match *step {
        Step::BiLstm { x, forward, backward, .. } => {
            let rows = graph.tensor(x).shape[0].bind(sizes) as u64;
            [forward, backward]
                .iter()
                .map(|d| rows * stride(graph.weight(d.input).shape[0]) as u64 * 4)
                .collect()
        }
        Step::GatedDelta { x, value_heads, .. } => {
            let rows = graph.tensor(x).shape[0].bind(sizes);
            let chunks = (rows / TASK_QUERIES).saturating_add(sizes.sequences) as u64;
            vec![chunks.saturating_mul((value_heads * DELTA_RECORD) as u64 * 4)]
        }
        Step::RotateQuantize { op, rows: None, .. } if !matches!(op, RowOp::Copy { .. }) => {
            vec![tensor_bytes(graph, op.x(), sizes, &Unrounded::default())]
        }
        _ => Vec::new(),
    }
}

impl Layout {
    pub(crate) fn new(graph: &Graph, sizes: &Sizes, align: u64, unrounded: &Unrounded) -> Self {
        let last = graph.last_uses();
        let mut banks: Vec<Bank> = Vec::new();
        let mut tensors: Vec<Option<Place>> = vec![None; graph.tensors().len()];
        let mut scratch = Vec::new();
        for (now, step) in graph.steps().iter().enumerate() {
            banks.iter_mut().for_each(|b| b.live.retain(|l| l.last >= now));
            let read: Vec<usize> =
                step.reads().iter().filter_map(|id| tensors[id.index()].map(|p| p.bank)).collect();
            let free = (0..).find(|b| !read.contains(b)).unwrap_or(0);
            for id in step.outputs() {
                let bytes = tensor_bytes(graph, id, sizes, unrounded);
                let until = last[id.index()].unwrap_or(now);
                tensors[id.index()] = Some(Bank::place(&mut banks, free, bytes, align, until));
            }
            // Scratch is written from what the step reads, then read to write its outputs.
            let other = (0..).find(|b| *b != free && !read.contains(b)).unwrap_or(0);
            scratch.push(
                scratch_bytes(graph, step, sizes)
                    .into_iter()
                    .map(|bytes| Bank::place(&mut banks, other, bytes, align, now))
                    .collect(),
            );
        }
        Self { tensors, scratch, banks: banks.iter().map(|b| b.bytes).collect() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.banks.iter().sum()
    }
}

#[derive(Debug, Default)]
struct Bank {
    bytes: u64,
    /// Sorted by start.
    live: Vec<Live>,
}

#[derive(Debug)]
struct Live {
    start: u64,
    end: u64,
    last: usize,
}

impl Bank {
    /// First fit.
    fn place(banks: &mut Vec<Self>, bank: usize, bytes: u64, align: u64, last: usize) -> Place {
        while banks.len() <= bank {
            banks.push(Self::default());
        }
        let this = &mut banks[bank];
        let need = bytes.max(1).next_multiple_of(align);
        let (mut start, mut slot) = (0, this.live.len());
        for (i, live) in this.live.iter().enumerate() {
            if start + need <= live.start {
                slot = i;
                break;
            }
            start = live.end;
        }
        this.live.insert(slot, Live { start, end: start + need, last });
        this.bytes = this.bytes.max(start + need);
        Place { bank, offset: start, bytes }
    }
}
