//! The causal convolution.

use dikast_core::graph::{Dim, Step};
use dikast_core::{Error, Result};

use super::Builder;
use crate::args::{self, Address};
use crate::inputs::InputLayout;
use crate::launch::{Grid, Launch};
use crate::layout::Stored;

/// Taps of the kernel, and channels of a thread.
const TAPS: usize = 4;
const CHANNELS: usize = 4;
const THREADS: usize = 256;

args::arguments! {
    /// `causal_conv.cu`
    CausalConv {
        x: Address, weight: Address, offsets: Address, out: Address, rows: Address, sequences: Address,
        pitch: i32, channels: i32, block_rows: i32, pad: i32, before: Address,
    }
}

/// Rows of a block. Every block reads three rows before its own: as many as keep the multiprocessors busy.
pub(super) fn block_rows(capacity: usize) -> usize {
    match capacity {
        0..=512 => 8,
        513..=4096 => 16,
        _ => 32,
    }
}

pub(super) fn grid(channels: usize, capacity: usize) -> Grid {
    Grid::new((channels / CHANNELS).div_ceil(THREADS), capacity.div_ceil(block_rows(capacity)), THREADS)
}

impl Builder<'_> {
    pub(super) fn causal_conv(&self, step: &Step) -> Result<Launch> {
        let Step::CausalConv { x, weight, offsets, out } = *step else {
            return Err(Error::Internal("not a convolution".to_owned()));
        };
        let (channels, pitch) = (self.cols(out), self.cols(x.tensor));
        let shape = &self.graph.weight(weight).shape;
        if shape.get(2) != Some(&TAPS) {
            return Err(self
                .device
                .lacks(format!("a convolution of another number of taps than {TAPS}: {shape:?}")));
        }
        if [channels, pitch, x.start].into_iter().any(|n| !n.is_multiple_of(CHANNELS)) {
            return Err(self.device.lacks(format!(
                "a convolution of {channels} channels from column {} on of {pitch} (multiples of {CHANNELS} are needed)",
                x.start
            )));
        }
        let Some(Dim::Offsets(sequences)) = self.graph.tensor(offsets).shape.first() else {
            return Err(Error::Internal("a convolution without sequences".to_owned()));
        };
        let before = self.kept_before(step);
        let entry = match (self.real(x.tensor)?, self.real(out)?, before) {
            (Stored::F32, Stored::F32, 0) => "causal_conv_f32",
            (Stored::BF16, Stored::BF16, 0) => "causal_conv_bf16",
            (Stored::BF16, Stored::F32, 0) => "causal_conv_bf16_to_f32",
            (Stored::F32, Stored::F32, _) => "causal_conv_f32_after",
            (Stored::BF16, Stored::BF16, _) => "causal_conv_bf16_after",
            (Stored::BF16, Stored::F32, _) => "causal_conv_bf16_to_f32_after",
            (from, to, _) => return Err(self.device.lacks(format!("a convolution of {from:?} to {to:?}"))),
        };
        let capacity = self.capacity(out);
        let arguments = CausalConv {
            x: self.tensor(x.tensor)? + (x.start * self.stored(x.tensor).bytes()) as u64,
            weight: self.vector(weight)?,
            offsets: self.tensor(offsets)?,
            out: self.tensor(out)?,
            rows: self.rows(out)?,
            sequences: self.block + InputLayout::size_offset(*sequences) as u64,
            pitch: pitch as i32,
            channels: channels as i32,
            block_rows: block_rows(capacity) as i32,
            pad: 0,
            before,
        };
        self.launch("causal_conv", entry, grid(channels, capacity), &arguments)
    }
}
