//! Placeholders of pictures and videos.

use super::{MERGE, MediaIds, MediaSpan};
use crate::media::MediaKind;
use crate::request::validate::at_most;
use crate::tokens::{Span, Tokenizer};
use crate::{Error, Result};

/// What the preprocessor made of a request's media. Grids are `[time, height, width]` in patches; height and width
/// are multiples of [`MERGE`].
#[derive(Debug, Clone, Copy, Default)]
pub struct MediaLayout<'m> {
    /// One grid a picture; its time is 1.
    pub images: &'m [[u32; 3]],
    /// Videos.
    pub videos: &'m [VideoGrid],
    /// How videos are written.
    pub video_form: VideoForm,
}

/// A preprocessed video.
#[derive(Debug, Clone, PartialEq)]
pub struct VideoGrid {
    /// `[frame pairs, height, width]`.
    pub grid: [u32; 3],
    /// Time of each frame pair in seconds, see [`pair_seconds`].
    pub seconds: Vec<f64>,
}

/// How a video is written, which depends on the version of the reference's processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum VideoForm {
    /// `<|vision_start|>` before the first time stamp and `<|vision_end|>` after the last frame pair, besides those
    /// around each frame pair: transformers 5.10 to 5.24, with which the releases were tested.
    #[default]
    Nested,
    /// Only those around each frame pair: transformers up to 5.8.
    Flat,
}

/// Time of each frame pair: the mean of its two frames' times, where a frame's time is its index in the source over
/// the source's rate. The last frame is its own partner if their number is odd.
pub fn pair_seconds(frame_indices: &[u32], fps: f64) -> Vec<f64> {
    let time = |index: u32| f64::from(index) / fps;
    frame_indices
        .chunks(2)
        .map(|pair| match *pair {
            [first, second] => (time(first) + time(second)) / 2.0,
            [first] => time(first),
            _ => 0.0,
        })
        .collect()
}

/// Rows of the media part, before it has a place in the sequence.
#[derive(Debug, Default)]
pub(super) struct MediaPart {
    pub(super) ids: Vec<u32>,
    pub(super) spans: Vec<MediaSpan>,
}

impl MediaLayout<'_> {
    /// No picture and no video.
    pub fn is_empty(&self) -> bool {
        self.images.is_empty() && self.videos.is_empty()
    }

    /// Placeholders of the pictures, then of the videos, then a line feed; nothing without media.
    pub(super) fn part(&self, tokenizer: &Tokenizer, ids: MediaIds, max_tokens: usize) -> Result<MediaPart> {
        let mut part = MediaPart::default();
        if self.is_empty() {
            return Ok(part);
        }
        at_most("tokens of pictures and videos", self.pads()?, max_tokens)?;
        for (item, &grid) in self.images.iter().enumerate() {
            part.frame(ids, MediaKind::Image, item, 0, grid);
        }
        for (item, video) in self.videos.iter().enumerate() {
            let nested = self.video_form == VideoForm::Nested;
            part.ids.extend(nested.then_some(ids.vision_start));
            for (frame, seconds) in video.seconds.iter().enumerate() {
                // One digit, halves to even on the exact binary value, as C prints it.
                part.ids.extend(tokenizer.plain_ids(&format!("<{seconds:.1} seconds>"))?);
                part.frame(ids, MediaKind::Video, item, frame, video.grid);
            }
            part.ids.extend(nested.then_some(ids.vision_end));
        }
        part.ids.extend(tokenizer.plain_ids("\n")?);
        Ok(part)
    }

    /// Checks the grids; how many rows the vision tower writes.
    fn pads(&self) -> Result<usize> {
        let fault = |what: String| Error::Internal(format!("media grid: {what}"));
        let mut pads = 0_usize;
        let images = self.images.iter().map(|&grid| (grid, 1));
        let videos = self.videos.iter().map(|video| (video.grid, video.seconds.len()));
        for (grid @ [time, height, width], frames) in images.chain(videos) {
            if [time, height, width].contains(&0) || height % MERGE != 0 || width % MERGE != 0 {
                return Err(fault(format!("{grid:?} has a side that is 0 or no multiple of {MERGE}")));
            }
            if time as usize != frames {
                return Err(fault(format!("{grid:?} has {frames} frame pairs")));
            }
            let rows = u64::from(height / MERGE) * u64::from(width / MERGE);
            let rows = rows.checked_mul(u64::from(time)).and_then(|rows| usize::try_from(rows).ok());
            pads = rows.and_then(|rows| pads.checked_add(rows)).unwrap_or(usize::MAX);
        }
        if self.videos.iter().flat_map(|video| &video.seconds).any(|seconds| !(0.0..1e9).contains(seconds)) {
            return Err(fault("a time stamp is negative, not finite or over 30 years".to_owned()));
        }
        Ok(pads)
    }
}

impl MediaPart {
    /// `<|vision_start|>`, the pads of one frame, `<|vision_end|>`.
    fn frame(&mut self, ids: MediaIds, kind: MediaKind, item: usize, frame: usize, grid: [u32; 3]) {
        let [_, height, width] = grid;
        let grid = [height / MERGE, width / MERGE];
        let pad = match kind {
            MediaKind::Image => ids.image_pad,
            MediaKind::Video => ids.video_pad,
        };
        self.ids.push(ids.vision_start);
        let start = self.ids.len();
        self.ids.extend(std::iter::repeat_n(pad, grid[0] as usize * grid[1] as usize));
        let rows = Span { start: start as u32, end: self.ids.len() as u32 };
        self.spans.push(MediaSpan { kind, item: item as u32, frame: frame as u32, rows, grid });
        self.ids.push(ids.vision_end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_the_mean_time() {
        assert_eq!(pair_seconds(&[0, 1, 2, 3], 2.0), [0.25, 1.25]);
        assert_eq!(pair_seconds(&[0, 10, 20], 10.0), [0.5, 2.0]);
        assert!(pair_seconds(&[], 2.0).is_empty());
    }

    #[test]
    fn time_stamps_round_like_c() {
        for (seconds, text) in
            [(0.25, "0.2"), (0.75, "0.8"), (0.35, "0.3"), (1.25, "1.2"), (0.05, "0.1"), (12.96, "13.0")]
        {
            assert_eq!(format!("{seconds:.1}"), text);
        }
    }
}
