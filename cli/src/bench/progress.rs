//! Which measurement is running, on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar of measurements.
pub(super) struct Progress(ProgressBar);

impl Progress {
    pub(super) fn start(measurements: usize) -> Self {
        let style = ProgressStyle::with_template("{wide_bar} {pos} of {len}  {msg}")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        // Hides itself where standard error is no terminal. It never ticks by itself: that would cost time.
        let bar = ProgressBar::with_draw_target(Some(measurements as u64), ProgressDrawTarget::stderr());
        Self(bar.with_style(style))
    }

    /// The next measurement.
    pub(super) fn now(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.inc(1);
    }

    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
