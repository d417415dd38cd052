//! Weights on the device.

use std::sync::{Mutex, PoisonError};

use dikast_core::checkpoint::{StoredType, TensorView, Weights};
use dikast_core::graph::{Graph, Weight, WeightId};
use dikast_core::{Error, Result};

use crate::device::{Device, Upload};
use crate::format::Format;
use crate::placement::{Kind, Placed, Placement, StorageLimits};

/// Bytes of rows converted at once.
const BLOCK: u64 = 4 << 20;

/// The weights of a graph on the device, and the tables that stay on the host.
#[derive(Debug)]
pub struct WgpuResident {
    pub(crate) placement: Placement,
    pub(crate) slabs: Vec<wgpu::Buffer>,
    /// By weight: the largest magnitude of its values; not known (infinite) for E4M3 and for tables on the host.
    pub(crate) largest: Vec<f32>,
    /// For the rows that stay on the host.
    pub(crate) weights: Weights,
    /// Activation memory, shared by all plans: they run one after the other. Grows when a plan needs more.
    pub(crate) banks: Mutex<Vec<wgpu::Buffer>>,
}

impl WgpuResident {
    pub(crate) fn upload(
        device: &Device,
        graph: &Graph,
        weights: &Weights,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let placement =
            Placement::new(graph, weights, StorageLimits::of(&device.limits), &device.adapter.name)?;
        let bytes = placement.device_bytes();
        if let Some(available) = device.memory
            && bytes > available
        {
            return Err(Error::OutOfMemory { device: device.adapter.name.clone(), needed: bytes, available });
        }
        device.guarded(bytes, || {
            let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST;
            let slabs = placement
                .slabs
                .iter()
                .map(|&size| device.buffer("weights", size, usage))
                .collect::<Result<Vec<_>>>()?;
            let mut upload = Upload::new(device);
            let mut largest = Vec::new();
            let (mut done, total) = (0, placement.weights.iter().map(bytes_of).sum());
            for (index, weight) in graph.weights().iter().enumerate() {
                let placed = &placement.weights[index];
                if placed.kind == Kind::HostRows {
                    largest.push(f32::INFINITY);
                    continue;
                }
                let source = Source { views: views(weights, weight)?, placed };
                let mut most = 0.0f32;
                for piece in &placed.pieces {
                    let step = (BLOCK / placed.row_bytes()).max(1) as usize / 4 * 4;
                    let step = step.max(4);
                    for first in (0..piece.rows).step_by(step) {
                        let rows = first..(first + step).min(piece.rows);
                        let mut bytes = source.rows(piece.first + rows.start..piece.first + rows.end);
                        most = most.max(largest_magnitude(&bytes, placed.format));
                        bytes.resize(bytes.len().next_multiple_of(4), 0);
                        let offset = piece.offset + rows.start as u64 * placed.row_bytes();
                        upload.write(&slabs[piece.slab], offset, &bytes)?;
                        done += bytes.len() as u64;
                        progress(done.min(total), total);
                    }
                }
                largest.push(most);
            }
            upload.flush()?;
            Ok(Self { placement, slabs, largest, weights: weights.clone(), banks: Mutex::new(Vec::new()) })
        })
    }

    /// Activation buffers of at least these sizes; those that are too small are replaced.
    pub(crate) fn banks(&self, device: &Device, sizes: &[u64]) -> Result<Vec<wgpu::Buffer>> {
        let mut banks = self.banks.lock().unwrap_or_else(PoisonError::into_inner);
        let usage = wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC;
        for (index, &size) in sizes.iter().enumerate() {
            if banks.get(index).is_some_and(|b| b.size() >= size) {
                continue;
            }
            let bank = device.buffer("activations", size, usage)?;
            if index < banks.len() {
                banks[index] = bank;
            } else {
                banks.push(bank);
            }
        }
        Ok(banks[..sizes.len()].to_vec())
    }

    pub(crate) fn placed(&self, id: WeightId) -> &Placed {
        self.placement.weight(id)
    }

    /// The largest magnitude of a weight's values.
    pub(crate) fn largest(&self, id: WeightId) -> f32 {
        self.largest[id.index()]
    }
}

/// The stored tensors of a weight.
pub(crate) fn views<'a>(weights: &'a Weights, weight: &Weight) -> Result<Vec<TensorView<'a>>> {
    weight.parts.iter().map(|p| weights.tensor(p)).collect()
}

fn bytes_of(placed: &Placed) -> u64 {
    placed.pieces.iter().map(|p| (p.rows as u64 * placed.row_bytes()).next_multiple_of(4)).sum()
}

/// A weight's bytes in the form that the device gets.
struct Source<'a> {
    views: Vec<TensorView<'a>>,
    placed: &'a Placed,
}

impl Source<'_> {
    fn rows(&self, rows: std::ops::Range<usize>) -> Vec<u8> {
        let mut out = Vec::with_capacity(rows.len() * self.placed.row_bytes() as usize);
        let mut first = 0;
        for view in &self.views {
            let count = view.shape.first().copied().unwrap_or(1);
            let (from, to) = (rows.start.max(first), rows.end.min(first + count));
            if from < to {
                pack_rows(view, from - first..to - first, self.placed, &mut out);
            }
            first += count;
        }
        out
    }
}

/// Appends rows of a stored tensor in the form that the device gets.
pub(crate) fn pack_rows(
    view: &TensorView<'_>,
    rows: std::ops::Range<usize>,
    placed: &Placed,
    out: &mut Vec<u8>,
) {
    if placed.kind == Kind::Vector || (placed.kind == Kind::Table && view.dtype != StoredType::F32) {
        let width = view.row_len();
        let mut values = vec![0.0; rows.len() * width];
        decode(view, rows, &mut values);
        for row in values.chunks(width.max(1)) {
            out.extend_from_slice(bytemuck::cast_slice(row));
            if placed.kind == Kind::Table {
                pad(out, placed.row_bytes(), width * 4);
            }
        }
        return;
    }
    let width = view.row_len() * view.dtype.bytes();
    let bytes = &view.bytes[rows.start * width..rows.end * width];
    if width as u64 == placed.row_bytes() {
        out.extend_from_slice(bytes);
        return;
    }
    for row in bytes.chunks(width.max(1)) {
        out.extend_from_slice(row);
        pad(out, placed.row_bytes(), width);
    }
}

fn pad(out: &mut Vec<u8>, row_bytes: u64, width: usize) {
    out.resize(out.len() + row_bytes as usize - width, 0);
}

/// Widens rows; a scalar has no first dimension and is one row.
fn decode(view: &TensorView<'_>, rows: std::ops::Range<usize>, out: &mut [f32]) {
    if view.shape.is_empty() {
        TensorView { shape: &[1], ..*view }.decode_rows(rows, out);
    } else {
        view.decode_rows(rows, out);
    }
}

fn largest_magnitude(bytes: &[u8], format: Format) -> f32 {
    match format {
        // Never more than 448; no one asks.
        Format::E4m3 | Format::Int8 => f32::INFINITY,
        Format::Bf16 => {
            let most = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]) & 0x7fff).max();
            half::bf16::from_bits(most.unwrap_or(0)).to_f32()
        }
        Format::F16 => {
            let most = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]) & 0x7fff).max();
            half::f16::from_bits(most.unwrap_or(0)).to_f32()
        }
        Format::F32 => {
            let most = bytes
                .chunks_exact(4)
                .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]) & 0x7fff_ffff)
                .max();
            f32::from_bits(most.unwrap_or(0))
        }
    }
}
