//! The frames of a video that the model is shown.

use super::sampling;
use super::{Picture, VideoSettings};
use crate::{Error, Result};

/// Slowest and fastest frame rates that mean anything; between them all times are finite.
const RATES: std::ops::RangeInclusive<f64> = 1e-3..=1e4;

/// Decoded frames, all of one size, with their times. Never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Clip {
    frames: Vec<Picture>,
    times: Vec<f64>,
    fps: f64,
}

impl Clip {
    /// Frames of a constant rate; frame `i` is shown at `i / fps` seconds. All of them are used, unless
    /// [`Self::sampled`] chooses.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] without frames, for frames of different sizes, or for a rate that is not a number
    /// from 0.001 to 10,000.
    pub fn new(frames: Vec<Picture>, fps: f64) -> Result<Self> {
        check_rate("video", fps)?;
        let times = (0..frames.len()).map(|i| i as f64 / fps).collect();
        Self::timed(frames, times, fps)
    }

    /// Frames with their times in seconds; `fps` is the mean rate of the source, which [`Self::sampled`] goes by.
    ///
    /// # Errors
    /// As [`Self::new`]; and for times that are not one a frame, finite, at least 0 and in order.
    pub fn timed(frames: Vec<Picture>, times: Vec<f64>, fps: f64) -> Result<Self> {
        check_rate("video", fps)?;
        let Some(first) = frames.first() else {
            return Err(Error::invalid("video", "0 frames found, at least 1 is needed"));
        };
        let size = (first.width(), first.height());
        if let Some(i) = frames.iter().position(|f| (f.width(), f.height()) != size) {
            let (w, h) = (frames[i].width(), frames[i].height());
            return Err(Error::invalid(
                "video",
                format!("frame {i} has {w} x {h} pixels, allowed: {} x {}, as the first", size.0, size.1),
            ));
        }
        let ordered = times.iter().all(|t| t.is_finite() && *t >= 0.0) && times.is_sorted();
        if times.len() != frames.len() || !ordered {
            return Err(Error::invalid(
                "video",
                format!(
                    "{} times found for {} frames, allowed: one a frame, in seconds, at least 0 and in order",
                    times.len(),
                    frames.len()
                ),
            ));
        }
        Ok(Self { frames, times, fps })
    }

    /// The frames that the processor chooses from these, see [`VideoSettings::choose`].
    #[must_use]
    pub fn sampled(self, settings: &VideoSettings) -> Self {
        let chosen = sampling::choose(settings, self.frames.len(), self.fps);
        let mut wanted = chosen.into_iter().peekable();
        let (mut frames, mut times) = (Vec::new(), Vec::new());
        for (i, (frame, time)) in self.frames.into_iter().zip(self.times).enumerate() {
            if wanted.next_if_eq(&i).is_some() {
                frames.push(frame);
                times.push(time);
            }
        }
        Self { frames, times, fps: self.fps }
    }

    /// The frames.
    pub fn frames(&self) -> &[Picture] {
        &self.frames
    }

    /// When each frame is shown, in seconds.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Mean frame rate of the source, in frames a second.
    pub fn fps(&self) -> f64 {
        self.fps
    }
}

/// A frame rate that means something.
pub(super) fn check_rate(name: &str, fps: f64) -> Result<()> {
    if RATES.contains(&fps) {
        return Ok(());
    }
    Err(Error::invalid(
        name,
        format!("frame rate {fps} found, allowed: {} to {} frames a second", RATES.start(), RATES.end()),
    ))
}
