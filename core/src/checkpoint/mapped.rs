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
