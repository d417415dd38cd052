//! Exit codes, and the one failure type behind them.

pub(crate) mod advice;

use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;

use dikast_core::Error;

use crate::terminal;

/// The exit codes, as `--help` and the man page print them.
pub(crate) const CODES: &str = "Exit codes:
  0  success
  1  any other failure (output not writable, a fault of this program)
  2  wrong usage, invalid request, unreadable input
  3  the model cannot be read or is not supported
  4  the backend or device is not available, or it failed
  5  batch finished, but some rows have an error record
  6  parity: something is out of its contract";

/// Result of a command.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why a command failed; each variant has one exit code.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Arguments or input that the caller must change.
    Usage(String),
    /// The model's files cannot be loaded.
    Model(Error),
    /// An error of the engine.
    Engine(Error),
    /// A file or stream failed.
    Io {
        /// What was being done, for example `writing out.jsonl`.
        doing: String,
        /// What the operating system said.
        source: io::Error,
    },
    /// Standard output failed.
    Stdout(io::Error),
    /// Batch: the run finished, these rows have an error record.
    RowsFailed {
        /// Rows with an error record.
        failed: u64,
        /// Rows in the output.
        rows: u64,
    },
    /// Parity: these reports are out of contract.
    OutOfContract {
        /// Reports that failed.
        failed: usize,
        /// Reports made.
        all: usize,
    },
}

impl Failure {
    /// [`Failure::Usage`] with a message.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    /// [`Failure::Io`] for `map_err`.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// Whether the reader of standard output went away, as with `| head`: nothing to complain about. A named pipe that
    /// was asked for by its path is another matter: what it lacks is missing somewhere.
    fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Stdout(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }

    /// The exit code.
    pub(crate) fn code(&self) -> u8 {
        if self.is_closed_pipe() {
            return 0;
        }
        match self {
            Self::Usage(_) => 2,
            Self::Model(Error::OutOfMemory { .. } | Error::DeviceLost { .. }) => 4,
            Self::Model(Error::Internal(_)) => 1,
            Self::Model(_) => 3,
            Self::Engine(error) => match error {
                Error::InvalidRequest { .. } | Error::TooLarge { .. } => 2,
                Error::Checkpoint { .. } | Error::Io { .. } => 3,
                Error::Unsupported { .. } | Error::OutOfMemory { .. } | Error::DeviceLost { .. } => 4,
                _ => 1,
            },
            Self::Io { .. } | Self::Stdout(_) => 1,
            Self::RowsFailed { .. } => 5,
            Self::OutOfContract { .. } => 6,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) => f.write_str(message),
            Self::Model(Error::Unsupported { need, .. }) => {
                write!(f, "model: dikast does not run models with {need}")
            }
            Self::Model(error) => write!(f, "model: {error}"),
            Self::Engine(error) => f.write_str(&advice::message(error)),
            Self::Io { doing, source } => write!(f, "{doing}: {source}"),
            Self::Stdout(source) => write!(f, "writing to standard output: {source}"),
            Self::OutOfContract { failed, all } => write!(f, "{failed} of {all} reports are out of contract"),
            Self::RowsFailed { failed, rows } => {
                let of = terminal::counted(*rows, "row");
                let has = if *failed == 1 { "it has" } else { "each has" };
                write!(f, "{failed} of {of} failed; {has} an error record in the output")
            }
        }
    }
}

impl std::error::Error for Failure {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

/// Prints a failure to standard error and turns it into the exit code.
pub(crate) fn report(outcome: Result<()>) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    if !failure.is_closed_pipe() {
        let message = failure.to_string();
        let message = terminal::visible(&message);
        let style = anstyle::AnsiColor::Red.on_default().bold();
        // Nothing is left to tell anybody when standard error is closed too.
        let _ = writeln!(anstream::stderr(), "{style}error:{style:#} {message}");
    }
    ExitCode::from(failure.code())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_its_code() {
        let unsupported = Error::Unsupported { device: "wgpu".into(), need: "x".into() };
        assert_eq!(Failure::usage("x").code(), 2);
        assert_eq!(Failure::Engine(Error::invalid("labels", "x")).code(), 2);
        assert_eq!(Failure::Engine(unsupported.clone()).code(), 4);
        assert_eq!(Failure::Model(unsupported).code(), 3);
        assert_eq!(Failure::Model(Error::checkpoint("config.json", "x")).code(), 3);
        assert_eq!(Failure::Engine(Error::Internal("x".into())).code(), 1);
        assert_eq!(Failure::RowsFailed { failed: 1, rows: 2 }.code(), 5);
        assert_eq!(Failure::io("writing")(io::Error::other("x")).code(), 1);
    }

    #[test]
    fn a_model_that_is_not_run_is_named_without_our_parts() {
        let need = "scorer_type \"decoder-kv\"";
        let failure =
            Failure::Model(Error::Unsupported { device: "the GLiClass loader".into(), need: need.into() });
        assert_eq!(failure.to_string(), format!("model: dikast does not run models with {need}"));
    }

    #[test]
    fn a_closed_pipe_is_a_failure_unless_it_is_standard_output() {
        assert_eq!(Failure::Stdout(io::ErrorKind::BrokenPipe.into()).code(), 0);
        assert_eq!(Failure::Stdout(io::ErrorKind::StorageFull.into()).code(), 1);
        assert_eq!(Failure::io("writing out")(io::ErrorKind::BrokenPipe.into()).code(), 1);
    }
}
