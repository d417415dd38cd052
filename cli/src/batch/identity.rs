//! Which file on disk something opened is, whatever name or descriptor it was opened by.

use std::fs::Metadata;
use std::io;

/// A regular file on disk: its device and inode. Pipes, terminals and devices have none, as writing them loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    /// The identity in the facts of a file. Only Unix tells it.
    #[cfg(unix)]
    pub(super) fn of(facts: &Metadata) -> Option<Self> {
        use std::os::unix::fs::MetadataExt as _;
        facts.is_file().then(|| Self { device: facts.dev(), inode: facts.ino() })
    }

    /// The identity in the facts of a file. Only Unix tells it.
    #[cfg(not(unix))]
    pub(super) fn of(_: &Metadata) -> Option<Self> {
        None
    }

    /// The file that standard input reads.
    pub(super) fn of_stdin() -> Option<Self> {
        Self::of_stream(&io::stdin())
    }

    /// The file that standard output writes.
    pub(super) fn of_stdout() -> Option<Self> {
        Self::of_stream(&io::stdout())
    }

    #[cfg(unix)]
    fn of_stream(stream: &impl std::os::fd::AsFd) -> Option<Self> {
        let file = std::fs::File::from(stream.as_fd().try_clone_to_owned().ok()?);
        Self::of(&file.metadata().ok()?)
    }

    #[cfg(not(unix))]
    fn of_stream<S>(_: &S) -> Option<Self> {
        None
    }
}
