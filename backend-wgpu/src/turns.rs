//! Turns of rotary positions: cosines and sines, worked out on the host.
//!
//! A device's own sine may be off by 2⁻¹¹, and is allowed to be anything for the large angles of long requests. The table is
//! that of the CPU backend: the angle a product of f32, its sine and cosine rounded once from f64.

use dikast_core::backend::Batch;
use dikast_core::graph::{Frequency, InputKind};
use dikast_core::{Error, Result};

/// What a table is made from; steps with the same positions and frequencies share it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Turns {
    positions: InputKind,
    frequencies: Vec<Frequency>,
}

impl Turns {
    pub(crate) fn new(positions: InputKind, frequencies: &[Frequency]) -> Self {
        Self { positions, frequencies: frequencies.to_vec() }
    }

    /// Whether this is the table of given positions and frequencies.
    pub(crate) fn are(&self, positions: InputKind, frequencies: &[Frequency]) -> bool {
        self.positions == positions && self.frequencies == frequencies
    }

    /// Bytes for so many rows.
    pub(crate) fn bytes(&self, rows: usize) -> u64 {
        rows as u64 * self.frequencies.len() as u64 * 8
    }

    /// Writes a batch's table, `[rows, frequencies]` of cosine and sine, to the start of `out`.
    ///
    /// # Errors
    /// [`Error::Internal`] for a frequency of an axis that the positions do not have.
    pub(crate) fn write(&self, batch: &Batch, out: &mut [u8]) -> Result<()> {
        let axes = self.positions.shape().iter().skip(1).map(|d| d.bind(&batch.sizes)).product::<usize>();
        if self.frequencies.iter().any(|f| f.axis >= axes) {
            return Err(Error::Internal(format!("{} has {axes} axes", self.positions.name())));
        }
        let mut out = out.chunks_exact_mut(8);
        for row in batch.get(self.positions)?.chunks(axes.max(1)) {
            for (f, out) in self.frequencies.iter().zip(&mut out) {
                let angle = f64::from(row[f.axis] as f32 * f.inverse);
                let turn = [libm::cos(angle) as f32, libm::sin(angle) as f32];
                out.copy_from_slice(bytemuck::cast_slice(&turn));
            }
        }
        Ok(())
    }
}
