//! Largest media accepted.

use crate::{Error, Result};

/// Largest media accepted, checked before memory is taken for pixels. The defaults are far above what a decision
/// needs; a server for strangers lowers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaLimits {
    /// Bytes of one encoded picture.
    pub picture_bytes: usize,
    /// Bytes of one encoded video.
    pub video_bytes: usize,
    /// Pixels of the longer side of a picture or frame.
    pub side: u32,
    /// Pixels of one picture or frame as stored.
    pub pixels: u64,
    /// Frames of one video as stored.
    pub frames: usize,
    /// Pixels of all frames of one video as stored: what has to be decoded to choose from it.
    pub video_pixels: u64,
    /// Pixels of the frames chosen from one video: what is kept in memory, at three bytes a pixel.
    pub clip_pixels: u64,
    /// Patches of one picture or video after resizing.
    pub patches: usize,
}

impl Default for MediaLimits {
    fn default() -> Self {
        Self {
            picture_bytes: 16 << 20,
            video_bytes: 64 << 20,
            side: 65_535,
            pixels: 1 << 26,
            frames: 1 << 14,
            video_pixels: 1 << 31,
            clip_pixels: 1 << 27,
            // The most that the released settings make of a picture.
            patches: 1 << 16,
        }
    }
}

impl MediaLimits {
    /// Bytes of an encoded picture.
    pub(super) fn check_picture_bytes(&self, name: &str, bytes: usize) -> Result<()> {
        within(|| format!("bytes of {name}"), bytes as u64, self.picture_bytes as u64)
    }

    /// Bytes of an encoded video.
    pub(super) fn check_video_bytes(&self, name: &str, bytes: usize) -> Result<()> {
        within(|| format!("bytes of {name}"), bytes as u64, self.video_bytes as u64)
    }

    /// One picture or frame: neither empty nor too large.
    pub(super) fn check_size(&self, name: &str, width: u32, height: u32) -> Result<()> {
        if width == 0 || height == 0 {
            return Err(Error::invalid(
                name,
                format!("{width} x {height} pixels found, at least 1 x 1 is needed"),
            ));
        }
        let longer = width.max(height);
        let side = || format!("pixels of the longer side of {name} ({width} x {height})");
        within(side, u64::from(longer), u64::from(self.side))?;
        let pixels = u64::from(width) * u64::from(height);
        within(|| format!("pixels of {name} ({width} x {height})"), pixels, self.pixels)
    }

    /// A video as stored.
    pub(super) fn check_stored(&self, name: &str, frames: usize, width: u32, height: u32) -> Result<()> {
        self.check_size(name, width, height)?;
        within(|| format!("frames of {name}"), frames as u64, self.frames as u64)?;
        let pixels = u64::from(width) * u64::from(height) * frames as u64;
        let what = || format!("pixels to decode of {name} ({frames} frames of {width} x {height})");
        within(what, pixels, self.video_pixels)
    }

    /// The frames chosen from a video.
    pub(super) fn check_chosen(&self, name: &str, frames: usize, width: u32, height: u32) -> Result<()> {
        let pixels = (u64::from(width) * u64::from(height)).saturating_mul(frames as u64);
        let what = || format!("pixels of the frames chosen from {name} ({frames} of {width} x {height})");
        within(what, pixels, self.clip_pixels)
    }

    /// Memory that a decoder of one picture may take: 8 bytes a pixel hold every stored form.
    pub(super) fn memory(&self) -> u64 {
        self.pixels.saturating_mul(8)
    }
}

/// [`Error::TooLarge`] unless the count is within the limit.
pub(super) fn within(what: impl FnOnce() -> String, actual: u64, limit: u64) -> Result<()> {
    if actual <= limit { Ok(()) } else { Err(Error::TooLarge { what: what(), limit, actual }) }
}
