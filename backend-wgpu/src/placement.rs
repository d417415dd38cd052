//! Where weights lie in GPU memory, worked out before anything is uploaded.
//!
//! Matrices keep their stored form, rows padded to four elements. Vectors (norm weights, biases, channel scales) and the
//! small tables of bias and segment embeddings are widened to f32: together under a thousandth of a model's bytes, and
//! every step then reads them the same way. A weight larger than one binding is cut into pieces of whole rows; one that
//! a gated step reads is also cut between its halves.

use std::collections::BTreeMap;

use dikast_core::checkpoint::Weights;
use dikast_core::graph::{Elements, Graph, Residency, Step, Weight, WeightId};
use dikast_core::{Error, Result};

use crate::format::Format;

/// Bytes of one buffer of weights, at most.
const SLAB: u64 = 256 << 20;

/// The granted limits that decide the placement.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StorageLimits {
    /// Bytes of one buffer.
    pub(crate) buffer: u64,
    /// Bytes of one binding.
    pub(crate) binding: u64,
    /// Alignment of a binding's offset.
    pub(crate) align: u64,
}

impl StorageLimits {
    pub(crate) fn of(limits: &wgpu::Limits) -> Self {
        Self {
            buffer: limits.max_buffer_size,
            binding: limits.max_storage_buffer_binding_size,
            align: u64::from(limits.min_storage_buffer_offset_alignment).max(4),
        }
    }
}

/// How a weight is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `[rows, columns]` in its stored form.
    Matrix,
    /// `[rows, columns]` widened to f32.
    Table,
    /// A list of f32; its "rows" are the elements.
    Vector,
    /// On the host; the rows that a batch needs are uploaded with it.
    HostRows,
}

/// Consecutive rows of a weight in one binding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) slab: usize,
    pub(crate) offset: u64,
    /// Bytes to bind, a multiple of 16.
    pub(crate) bytes: u64,
    pub(crate) first: usize,
    pub(crate) rows: usize,
}

/// One weight.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) kind: Kind,
    pub(crate) format: Format,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// In row order; empty for [`Kind::HostRows`].
    pub(crate) pieces: Vec<Piece>,
}

impl Placed {
    /// Bytes of a row.
    pub(crate) fn row_bytes(&self) -> u64 {
        match self.kind {
            Kind::Vector => 4,
            _ => self.format.row_bytes(self.columns),
        }
    }
}

/// All weights of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    /// By weight index.
    pub(crate) weights: Vec<Placed>,
    /// Bytes of each buffer.
    pub(crate) slabs: Vec<u64>,
    /// Bytes of the tables that stay on the host.
    pub(crate) host: u64,
}

impl Placement {
    /// # Errors
    /// [`Error::Checkpoint`] for a weight that is not as the graph says, [`Error::Unsupported`] for a storage type that
    /// no shader reads and for a row larger than one binding.
    pub(crate) fn new(graph: &Graph, weights: &Weights, limits: StorageLimits, device: &str) -> Result<Self> {
        let roles = roles(graph);
        let mut slabs = Slabs { limits, sizes: Vec::new() };
        let mut placed = Vec::new();
        let mut host = 0;
        for (index, weight) in graph.weights().iter().enumerate() {
            let role = roles.get(&index).cloned().unwrap_or_default();
            let kind = kind(weight, &role)?;
            let stored = stored(weights, weight, device)?;
            let format = if matches!(kind, Kind::Matrix | Kind::HostRows) { stored } else { Format::F32 };
            let (rows, columns) = match kind {
                Kind::Vector => (weight.shape.iter().product(), 1),
                _ => (weight.shape[0], weight.shape.iter().skip(1).product()),
            };
            let mut this = Placed { kind, format, rows, columns, pieces: Vec::new() };
            if kind == Kind::HostRows {
                host += rows as u64 * (columns * format.bytes()) as u64;
            } else {
                let unsupported = || Error::Unsupported {
                    device: device.to_owned(),
                    need: format!(
                        "a storage binding for a row of {} ({} bytes); {} bytes are granted",
                        weight.name,
                        this.row_bytes(),
                        limits.binding
                    ),
                };
                this.pieces =
                    slabs.place(rows, this.row_bytes(), role.cut_in_half).ok_or_else(unsupported)?;
            }
            placed.push(this);
        }
        Ok(Self { weights: placed, slabs: slabs.sizes, host })
    }

    pub(crate) fn device_bytes(&self) -> u64 {
        self.slabs.iter().sum()
    }

    pub(crate) fn weight(&self, id: WeightId) -> &Placed {
        &self.weights[id.index()]
    }
}

/// What the steps make of a weight.
#[derive(Debug, Clone, Default)]
struct Role {
    matrix: bool,
    table: bool,
    vector: bool,
    cut_in_half: bool,
}

fn roles(graph: &Graph) -> BTreeMap<usize, Role> {
    let mut roles: BTreeMap<usize, Role> = BTreeMap::new();
    for step in graph.steps() {
        let mut role = |id: WeightId, set: fn(&mut Role)| set(roles.entry(id.index()).or_default());
        match *step {
            Step::Embed { table, segments, .. } => {
                role(table, |r| r.matrix = true);
                if let Some((_, table)) = segments {
                    role(table, |r| r.table = true);
                }
            }
            Step::Linear { weight, bias, .. } => {
                role(weight, |r| r.matrix = true);
                if let Some(bias) = bias {
                    role(bias, |r| r.vector = true);
                }
            }
            Step::LinearGated { weight, .. } => role(weight, |r| (r.matrix, r.cut_in_half) = (true, true)),
            Step::QuantLinear { weight, weight_scales, .. } => {
                role(weight, |r| r.matrix = true);
                role(weight_scales, |r| r.vector = true);
            }
            Step::QuantLinearGated { weight, weight_scales, .. } => {
                role(weight, |r| (r.matrix, r.cut_in_half) = (true, true));
                role(weight_scales, |r| (r.vector, r.cut_in_half) = (true, true));
            }
            Step::Int8Linear { weight, weight_scales, bias, .. } => {
                role(weight, |r| r.matrix = true);
                role(weight_scales, |r| r.vector = true);
                if let Some(bias) = bias {
                    role(bias, |r| r.vector = true);
                }
            }
            Step::Int8LinearGated { weight, weight_scales, bias, .. } => {
                role(weight, |r| (r.matrix, r.cut_in_half) = (true, true));
                role(weight_scales, |r| r.vector = true);
                if let Some(bias) = bias {
                    role(bias, |r| r.vector = true);
                }
            }
            Step::CausalConv { weight, .. } => role(weight, |r| r.table = true),
            Step::AddPositions { table, .. } => role(table, |r| r.table = true),
            Step::PoolTableRows { table, .. } => role(table, |r| r.matrix = true),
            Step::Attention { bias: Some(bias), .. } => role(bias.table, |r| r.table = true),
            Step::BiLstm { forward, backward, .. } => {
                for direction in [forward, backward] {
                    role(direction.input, |r| r.matrix = true);
                    role(direction.hidden, |r| r.matrix = true);
                    role(direction.input_bias, |r| r.vector = true);
                    role(direction.hidden_bias, |r| r.vector = true);
                }
            }
            _ => {
                for id in step.weights() {
                    role(id, |r| r.vector = true);
                }
            }
        }
    }
    roles
}

fn kind(weight: &Weight, role: &Role) -> Result<Kind> {
    match (role.matrix, role.table, role.vector) {
        (true, false, false) if weight.residency == Residency::HostRows => Ok(Kind::HostRows),
        (true, false, false) => Ok(Kind::Matrix),
        (false, true, false) => Ok(Kind::Table),
        // What no step reads is small or a mistake; keep it as a list.
        (false, false, _) => Ok(Kind::Vector),
        _ => Err(Error::Internal(format!("weight {} is read in two forms", weight.name))),
    }
}

/// The storage of a weight's parts, which must agree with the graph and with each other.
fn stored(weights: &Weights, weight: &Weight, device: &str) -> Result<Format> {
    let mut rows = 0;
    let mut found = None;
    for name in &weight.parts {
        let view = weights.tensor(name)?;
        let format = Format::of(view.dtype);
        let elements = match format {
            Format::E4m3 => Elements::E4M3,
            Format::Int8 => Elements::Int8,
            Format::Bf16 | Format::F16 | Format::F32 => Elements::Real,
        };
        // A convolution's kernel is read as one row a filter.
        let row = |shape: &[usize]| shape.iter().skip(1).product::<usize>();
        let fits = row(view.shape) == row(&weight.shape) && view.shape.is_empty() == weight.shape.is_empty();
        if !fits || elements != weight.elements {
            let message =
                format!("{:?} {:?} does not fit {} {:?}", view.dtype, view.shape, weight.name, weight.shape);
            return Err(Error::checkpoint(name, message));
        }
        if *found.get_or_insert(format) != format {
            return Err(Error::Unsupported {
                device: device.to_owned(),
                need: format!("one storage type for {}", weight.parts.join(", ")),
            });
        }
        rows += view.shape.first().copied().unwrap_or(1);
    }
    match found {
        Some(format) if rows == weight.shape.first().copied().unwrap_or(1) => Ok(format),
        _ => Err(Error::checkpoint(&weight.name, format!("{rows} rows found, {:?} needed", weight.shape))),
    }
}

/// Buffers filled one after the other.
struct Slabs {
    limits: StorageLimits,
    sizes: Vec<u64>,
}

impl Slabs {
    /// Places rows; `None` when one group of four does not fit a binding.
    fn place(&mut self, rows: usize, row_bytes: u64, cut_in_half: bool) -> Option<Vec<Piece>> {
        let largest = self.limits.binding.min(self.limits.buffer);
        // Pieces start at multiples of four rows, so that results are written four columns at a time.
        let most = usize::try_from(largest / row_bytes.max(1)).unwrap_or(usize::MAX) / 4 * 4;
        let parts = if cut_in_half { [0..rows / 2, rows / 2..rows] } else { [0..rows, rows..rows] };
        let mut pieces = Vec::new();
        for part in parts {
            let mut first = part.start;
            while first < part.end {
                let count = (part.end - first).min(most);
                let bytes = (count as u64 * row_bytes).next_multiple_of(16);
                if count == 0 || bytes > largest {
                    return None;
                }
                let (slab, offset) = self.room(bytes);
                pieces.push(Piece { slab, offset, bytes, first, rows: count });
                first += count;
            }
        }
        Some(pieces)
    }

    fn room(&mut self, bytes: u64) -> (usize, u64) {
        let most = SLAB.min(self.limits.buffer);
        if let Some(size) = self.sizes.last_mut() {
            let offset = size.next_multiple_of(self.limits.align);
            if offset + bytes <= most {
                *size = offset + bytes;
                return (self.sizes.len() - 1, offset);
            }
        }
        self.sizes.push(bytes);
        (self.sizes.len() - 1, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slabs(buffer: u64, binding: u64) -> Slabs {
        Slabs { limits: StorageLimits { buffer, binding, align: 256 }, sizes: Vec::new() }
    }

    #[test]
    fn pieces_cover_the_rows_and_never_overlap() {
        for (rows, row_bytes, cut) in [(10, 64, false), (1000, 48, false), (1000, 48, true), (6, 4, true)] {
            let mut slabs = slabs(4096, 1024);
            let mut pieces = slabs.place(rows, row_bytes, cut).unwrap();
            pieces.extend(slabs.place(8, 16, false).unwrap().iter().map(|p| Piece { first: rows, ..*p }));
            let mut next = 0;
            for piece in &pieces {
                if piece.first < rows {
                    assert_eq!(piece.first, next);
                    next += piece.rows;
                    assert!(piece.rows as u64 * row_bytes <= piece.bytes && piece.bytes <= 1024);
                }
                assert_eq!(piece.offset % 256, 0);
                assert!(piece.offset + piece.bytes <= slabs.sizes[piece.slab]);
            }
            assert_eq!(next, rows);
            if cut {
                assert!(pieces.iter().any(|p| p.first == rows / 2));
            }
            pieces.sort_by_key(|p| (p.slab, p.offset));
            for pair in pieces.windows(2) {
                assert!(pair[0].slab != pair[1].slab || pair[0].offset + pair[0].bytes <= pair[1].offset);
            }
            assert!(slabs.sizes.iter().all(|&s| s <= 4096));
        }
    }

    #[test]
    fn a_row_over_the_binding_limit_is_refused() {
        assert!(slabs(4096, 1024).place(4, 512, false).is_none());
        assert!(slabs(4096, 1024).place(4, 256, false).is_some());
    }
}
