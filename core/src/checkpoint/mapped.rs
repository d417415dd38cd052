//! Memory-mapped files, with the `unsafe` that mapping takes.
#![allow(unsafe_code)]

use std::fmt;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// A whole file, mapped read-only. Clones share the mapping.
///
/// The file must not be changed or truncated while it is mapped: replace a model by renaming a new file over it, never
/// by writing into it.
#[derive(Clone)]
pub struct Mapped(Arc<memmap2::Mmap>);

impl Mapped {
    /// Maps a regular file that is not empty.
    pub(super) fn open(path: &Path) -> std::io::Result<Self> {
        let file = File::open(path)?;
        // SAFETY: the mapping is private to this process and read-only, lives as long as the `Mmap`, and is handed out
        // as plain bytes, for which every bit pattern is valid. What remains is the documented condition above: another
        // process that truncates or rewrites a model's file in place is outside of what any reader of a mapping can
        // guard against.
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Ok(Self(Arc::new(map)))
    }

    /// Tells the system that some bytes are not needed for now: they leave the memory and are read again when they are
    /// looked at. Only a hint; without effect where there is no such call.
    pub(super) fn release(&self, range: std::ops::Range<usize>) {
        #[cfg(unix)]
        if range.start < range.end && range.end <= self.0.len() {
            // SAFETY: the pages belong to a read-only mapping of a file, so that dropping them loses nothing: the next
            // access reads the same bytes from the file, under the documented condition that nobody changes it.
            let _ = unsafe {
                self.0.unchecked_advise_range(
                    memmap2::UncheckedAdvice::DontNeed,
                    range.start,
                    range.end - range.start,
                )
            };
        }
        #[cfg(not(unix))]
        let _ = range;
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Mapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mapped({} bytes)", self.0.len())
    }
}
