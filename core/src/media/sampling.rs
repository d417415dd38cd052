//! Which frames of a video the model is shown.

use super::VideoSettings;

impl VideoSettings {
    /// The frames that the processor chooses from `total` frames of rate `fps`, in order: [`Self::fps`] a second,
    /// within the settings' bounds and never more than there are, spread evenly from the first to the last.
    /// All of them when the settings do not sample.
    pub fn choose(&self, total: usize, fps: f64) -> Vec<usize> {
        choose(self, total, fps)
    }
}

/// `sample_frames` of the reference's video processor: `int(total / fps · wanted)`, clamped, then `linspace` rounded
/// half to even, all in 64-bit floats.
pub(super) fn choose(settings: &VideoSettings, total: usize, fps: f64) -> Vec<usize> {
    if !settings.sample || total == 0 {
        return (0..total).collect();
    }
    let wanted = (total as f64 / fps * settings.fps) as usize;
    let count = wanted.max(settings.min_frames).min(settings.max_frames).min(total);
    let last = (total - 1) as f64;
    let step = last / (count.max(2) - 1) as f64;
    let mut chosen: Vec<usize> = (0..count).map(|i| (i as f64 * step).round_ties_even() as usize).collect();
    if count > 1 {
        chosen[count - 1] = total - 1;
    }
    chosen
}
