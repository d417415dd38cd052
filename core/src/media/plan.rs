//! Grid and token count from sizes alone.

use super::limits::within;
use super::smart_resize::{self, Bounds};
use super::{Grid, MediaKind, MediaLimits, ProcessorConfig};
use crate::Result;

/// Sizes as decoded, before resizing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaSize {
    /// A picture.
    Image {
        /// Pixels of a row.
        width: u32,
        /// Rows.
        height: u32,
    },
    /// The frames of a video that are shown to the model.
    Video {
        /// Frames.
        frames: usize,
        /// Pixels of a row.
        width: u32,
        /// Rows.
        height: u32,
    },
}

impl MediaSize {
    /// Picture or video.
    pub fn kind(&self) -> MediaKind {
        match self {
            Self::Image { .. } => MediaKind::Image,
            Self::Video { .. } => MediaKind::Video,
        }
    }
}

/// What a picture or video will become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// Pixels of a row after resizing.
    pub width: usize,
    /// Rows after resizing.
    pub height: usize,
    /// The patches.
    pub grid: Grid,
    /// Tokens of the model.
    pub tokens: usize,
}

impl ProcessorConfig {
    /// Grid and token count from sizes alone; `name` is what errors call it.
    ///
    /// # Errors
    /// [`crate::Error::TooLarge`] over a limit; [`crate::Error::InvalidRequest`] for an empty picture, an aspect ratio
    /// above 200, or a video of fewer frames than a temporal patch has.
    pub fn plan(&self, name: &str, size: &MediaSize, limits: &MediaLimits) -> Result<Plan> {
        match *size {
            MediaSize::Image { width, height } => limits.check_size(name, width, height)?,
            MediaSize::Video { frames, width, height } => {
                limits.check_size(name, width, height)?;
                limits.check_chosen(name, frames, width, height)?;
            }
        }
        let plan = self.resized(name, size)?;
        let what = || format!("patches of {name} (resized to {} x {})", plan.width, plan.height);
        within(what, plan.grid.patches() as u64, limits.patches as u64)?;
        Ok(plan)
    }

    /// The plan without limits.
    pub(super) fn resized(&self, name: &str, size: &MediaSize) -> Result<Plan> {
        let factor = self.factor();
        let (t, (height, width)) = match *size {
            MediaSize::Image { width, height } => {
                let bounds =
                    Bounds { factor, min_pixels: self.image.min_pixels, max_pixels: self.image.max_pixels };
                (1, smart_resize::image(name, height, width, bounds)?)
            }
            MediaSize::Video { frames, width, height } => {
                let bounds = Bounds {
                    factor,
                    min_pixels: self.video.min_pixels,
                    max_pixels: self.video_pixels(frames),
                };
                let size = smart_resize::video(name, frames, self.temporal, height, width, bounds)?;
                (frames.div_ceil(self.temporal), size)
            }
        };
        let (width, height) = (width as usize, height as usize);
        let grid = Grid { t, h: height / self.patch, w: width / self.patch };
        Ok(Plan { width, height, grid, tokens: grid.tokens(self.merge) })
    }

    /// Most pixels of a video of so many frames.
    fn video_pixels(&self, frames: usize) -> u64 {
        let video = &self.video;
        if !video.cap_pixels_per_frame || frames == 0 {
            return video.max_pixels;
        }
        let frames = frames as u64;
        let cap = video.max_frame_tokens * self.factor() * self.factor();
        let floor = (video.min_pixels as f64 * 1.05) as u64;
        cap.min(video.max_pixels / frames).max(floor).saturating_mul(frames)
    }
}
