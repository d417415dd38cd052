//! Progress on standard error: a bar on a terminal, a line now and then in a log.

use std::io::Write as _;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::resume::Done;
use super::totals::Totals;
use crate::terminal::{self, counted};

/// Time between two lines in a log.
const LINE_EVERY: Duration = Duration::from_secs(30);

/// Progress of a run.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
    length: Option<u64>,
    shown: bool,
    live: bool,
    started: Instant,
    last_line: Instant,
    resumed: u64,
    totals: Totals,
    skipped: u64,
    cut: u64,
}

impl Progress {
    /// Starts with the rows already `done`; `live` draws a bar, otherwise lines are printed.
    pub(super) fn start(length: Option<u64>, done: Done, shown: bool, live: bool) -> Self {
        let bar = match length {
            Some(length) => ProgressBar::new(length).with_style(style("{wide_bar} {percent:>3}%  {msg}")),
            None => ProgressBar::no_length().with_style(style("{spinner} {msg}")),
        };
        let target = if shown && live { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        bar.set_draw_target(target);
        let now = Instant::now();
        let totals = Totals { rows: done.rows, failed: done.failed };
        let progress = Self {
            bar,
            length,
            shown,
            live,
            started: now,
            last_line: now,
            resumed: done.rows,
            totals,
            skipped: 0,
            cut: 0,
        };
        if done.rows > 0 {
            progress.say(&format!("resuming after {}", counted(done.rows, "row")));
        }
        progress
    }

    /// The bytes of the input that need no work: rows of an earlier run.
    pub(super) fn skipped(&mut self, bytes: u64) {
        self.skipped = bytes;
        self.bar.set_position(bytes);
        self.bar.reset_eta();
    }

    /// Counts rows with something that was cut.
    pub(super) fn add_cut(&mut self, rows: u64) {
        self.cut += rows;
    }

    /// Shows how far the run is.
    pub(super) fn advance(&mut self, totals: Totals, bytes: u64) {
        self.totals = totals;
        if !self.shown {
            return;
        }
        let mut message = self.message();
        if let Some(left) = self.left(bytes) {
            message.push_str(&format!(", {} left", HumanDuration(left)));
        }
        if self.live {
            self.bar.set_position(bytes);
            self.bar.set_message(message);
        } else if self.last_line.elapsed() >= LINE_EVERY {
            self.last_line = Instant::now();
            self.say(&message);
        }
    }

    /// Ends the bar and prints the summary; `cut` says what is with rows that were cut.
    pub(super) fn finish(&mut self, cut: &str) {
        self.bar.finish_and_clear();
        if self.totals.rows == self.resumed && self.resumed > 0 {
            self.say("no row was left to answer");
        } else {
            self.say(&format!("{} in {}", self.message(), took(self.started.elapsed())));
        }
        if self.cut > 0 && self.shown {
            terminal::warn(&format!("{} {cut}", counted(self.cut, "row")));
        }
    }

    fn message(&self) -> String {
        let Totals { rows, failed } = self.totals;
        let seconds = self.started.elapsed().as_secs_f64().max(1e-3);
        let rate = (rows - self.resumed) as f64 / seconds;
        let mut message = format!("{}, {rate:.*} rows/s", counted(rows, "row"), usize::from(rate < 10.0));
        if failed > 0 {
            message.push_str(&format!(", {failed} failed"));
        }
        message
    }

    /// The time left by the bytes read so far in this run.
    fn left(&self, bytes: u64) -> Option<Duration> {
        let read = bytes.checked_sub(self.skipped).filter(|n| *n > 0)?;
        let left = self.length?.saturating_sub(bytes);
        let seconds = self.started.elapsed().as_secs_f64() * left as f64 / read as f64;
        Duration::try_from_secs_f64(seconds).ok()
    }

    fn say(&self, message: &str) {
        if self.shown {
            // A closed standard error is no reason to stop the run.
            let _ = writeln!(std::io::stderr(), "dikast: {message}");
        }
    }
}

/// A duration that says something of short runs too.
fn took(time: Duration) -> String {
    if time < Duration::from_secs(60) {
        format!("{:.1} s", time.as_secs_f64())
    } else {
        HumanDuration(time).to_string()
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
