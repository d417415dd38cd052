//! Pixels → normalised patches.

use super::bicubic;
use super::{Grid, Media, MediaKind, Picture, Plan, ProcessorConfig};
use crate::{Error, Result};

/// What the vision tower is fed for one picture or video.
#[derive(Debug, Clone, PartialEq)]
pub struct Patches {
    /// Picture or video.
    pub kind: MediaKind,
    /// The grid.
    pub grid: Grid,
    /// `[t * h * w, 3 * temporal * patch * patch]`, patches in the order of [`super::patch_coordinates`], values of a
    /// patch in the order channel, time, row, column.
    pub values: Vec<f32>,
    /// Time of each temporal patch in seconds, the mean of its first and last frame's, `[t]`; empty for a picture.
    pub timestamps: Vec<f64>,
}

impl ProcessorConfig {
    /// Resizes and normalises. All frames of a clip are used, see [`super::Clip::sampled`] for choosing some. The last
    /// frame is repeated to fill the last temporal patch, a picture to fill its only one.
    ///
    /// Memory is taken for the result and for one resized frame; [`Self::plan`] checks sizes against limits first.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for an aspect ratio above 200, or a video of fewer frames than a temporal patch has.
    pub fn patches(&self, media: &Media) -> Result<Patches> {
        let name = match media.kind() {
            MediaKind::Image => "image",
            MediaKind::Video => "video",
        };
        let plan = self.resized(name, &media.size())?;
        let (frames, times, normalisation) = match media {
            Media::Image(picture) => (std::slice::from_ref(picture), &[][..], &self.image.normalisation),
            Media::Video(clip) => (clip.frames(), clip.times(), &self.video.normalisation),
        };
        let count = plan.grid.patches().checked_mul(self.patch_values());
        let count = count.filter(|n| *n <= isize::MAX as usize / size_of::<f32>()).ok_or_else(|| {
            Error::TooLarge {
                what: format!("patches of {name}"),
                limit: u64::from(u32::MAX),
                actual: u64::MAX,
            }
        })?;
        let table = normalisation.table();
        let mut values = vec![0.0; count];
        for t in 0..plan.grid.t {
            for slot in 0..self.temporal {
                let index = (t * self.temporal + slot).min(frames.len() - 1);
                self.scatter(&frames[index], &plan, t, slot, &table, &mut values);
            }
        }
        Ok(Patches { kind: media.kind(), grid: plan.grid, values, timestamps: self.timestamps(times) })
    }

    /// Mean of the first and the last frame's time of each temporal patch; the last frame fills the last patch.
    fn timestamps(&self, times: &[f64]) -> Vec<f64> {
        let at = |i: usize| times[i.min(times.len() - 1)];
        (0..times.len()).step_by(self.temporal).map(|i| (at(i) + at(i + self.temporal - 1)) / 2.0).collect()
    }

    /// Resizes one frame and writes it to its slot of the patches of time `t`.
    fn scatter(
        &self,
        frame: &Picture,
        plan: &Plan,
        t: usize,
        slot: usize,
        table: &[[f32; 256]; 3],
        values: &mut [f32],
    ) {
        let (patch, merge) = (self.patch, self.merge);
        let size = (frame.height() as usize, frame.width() as usize);
        let pixels = bicubic::resize(frame.rgb(), size, (plan.height, plan.width));
        let Grid { h, w, .. } = plan.grid;
        let frame_values = h * w * self.patch_values();
        let out = &mut values[t * frame_values..][..frame_values];
        let plane = patch * patch;
        for (y, row) in pixels.chunks_exact(plan.width * 3).enumerate() {
            let (patch_row, inner_row) = (y / patch, y % patch);
            for (patch_col, strip) in row.chunks_exact(patch * 3).enumerate() {
                // Blocks in raster order, then patches within a block.
                let block = (patch_row / merge) * (w / merge) + patch_col / merge;
                let index = (block * merge + patch_row % merge) * merge + patch_col % merge;
                let start = index * self.patch_values() + slot * plane + inner_row * patch;
                for (c, values_of) in table.iter().enumerate() {
                    let to = &mut out[start + c * self.temporal * plane..][..patch];
                    for (value, pixel) in to.iter_mut().zip(strip.chunks_exact(3)) {
                        *value = values_of[usize::from(pixel[c])];
                    }
                }
            }
        }
    }
}
