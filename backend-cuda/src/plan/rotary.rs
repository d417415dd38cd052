//! Head norms and rotary positions.

use bytemuck::Zeroable;
use dikast_core::graph::Step;
use dikast_core::{Error, Result};

use super::Builder;
use crate::args::{self, Address};
use crate::launch::Launch;
use crate::layout::Stored;

/// Parts of one step.
const MOST_PARTS: usize = 4;
/// Frequencies of one step: the pairs of columns are in the first of a warp's quadruples.
const MOST_PAIRS: usize = 64;
/// Columns of a head, which a warp holds in registers.
const WIDEST: usize = 256;
/// Radians per position up to which a sine has all its bits at any position.
const FASTEST: f32 = 1024.0;

args::arguments! {
    /// `head_rotary.cu`
    RotaryPart {
        x: Address, weight: Address,
        pitch: i32, stride: i32, width: i32, count: i32, column: i32, pad: i32,
    }
    /// `head_rotary.cu`
    HeadRotary {
        parts: [RotaryPart; MOST_PARTS], positions: Address, rows: Address, out: Address,
        inverse: [f32; MOST_PAIRS], axis: [i32; MOST_PAIRS],
        heads: i32, pairs: i32, axes: i32, out_pitch: i32, eps: f32, pad: i32,
    }
}

impl Builder<'_> {
    pub(super) fn head_rotary(&self, step: &Step) -> Result<Launch> {
        let Step::HeadRotary { ref parts, eps, ref frequencies, positions, out } = *step else {
            return Err(Error::Internal("not a rotary step".to_owned()));
        };
        let pairs = frequencies.len();
        let Some(from) = parts.first().map(|p| self.stored(p.heads.tensor)) else {
            return Err(Error::Internal("a rotary step without heads".to_owned()));
        };
        if parts.len() > MOST_PARTS || parts.iter().any(|p| self.stored(p.heads.tensor) != from) {
            return Err(self
                .device
                .lacks(format!("rotary positions of more than {MOST_PARTS} parts or of several formats")));
        }
        if pairs > MOST_PAIRS || pairs % 4 != 0 || !frequencies.iter().all(|f| f.inverse.abs() <= FASTEST) {
            return Err(self.device.lacks(format!(
                "{pairs} rotary frequencies (a multiple of 4, at most {MOST_PAIRS}, of at most {FASTEST} radians, is needed)"
            )));
        }
        let mut arguments = HeadRotary {
            positions: self.tensor(positions)?,
            rows: self.rows(out)?,
            out: self.tensor(out)?,
            pairs: pairs as i32,
            axes: self.cols(positions) as i32,
            out_pitch: self.cols(out) as i32,
            eps,
            ..HeadRotary::zeroed()
        };
        for (i, f) in frequencies.iter().enumerate() {
            (arguments.inverse[i], arguments.axis[i]) = (f.inverse, f.axis as i32);
        }
        let mut column = 0;
        for (to, part) in arguments.parts.iter_mut().zip(parts) {
            let h = part.heads;
            let pitch = self.cols(h.tensor);
            let apart = [h.start, h.stride, h.width, pitch];
            if apart.iter().any(|n| n % 4 != 0) || h.width > WIDEST || 2 * pairs > h.width {
                return Err(self.device.lacks(format!(
                    "rotary positions of heads {} wide ({} to {WIDEST}, and all distances multiples of 4, are needed)",
                    h.width,
                    2 * pairs
                )));
            }
            *to = RotaryPart {
                x: self.tensor(h.tensor)? + (from.bytes() * h.start) as u64,
                weight: part.norm.map_or(Ok(0), |w| self.vector(w))?,
                pitch: pitch as i32,
                stride: h.stride as i32,
                width: h.width as i32,
                count: h.count as i32,
                column,
                pad: 0,
            };
            column += (h.count * h.width) as i32;
            arguments.heads += h.count as i32;
        }
        let entry = match (from, self.stored(out)) {
            (Stored::F32, Stored::F32) => "head_rotary_f32",
            (Stored::F32, Stored::BF16) => "head_rotary_f32_bf16",
            (Stored::BF16, Stored::F32) => "head_rotary_bf16_f32",
            (Stored::BF16, Stored::BF16) => "head_rotary_bf16",
            (Stored::F16 | Stored::Split, _) | (_, Stored::F16 | Stored::Split) => {
                return Err(self
                    .device
                    .lacks("rotary positions of rows that are neither float32 nor bfloat16"));
            }
        };
        self.by_row("head_rotary", entry, out, &arguments)
    }
}
