//! SHA-256 of what passes by.

use std::io::Write;

use dikast_core::checkpoint::Digest;
use sha2::{Digest as _, Sha256};

/// Writes on and hashes.
pub(crate) struct Hashed<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Hashed<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, hash: Sha256::new(), bytes: 0 }
    }

    /// Bytes written and their digest.
    pub(crate) fn finish(self) -> (u64, Digest, W) {
        (self.bytes, Digest(self.hash.finalize().into()), self.out)
    }
}

impl<W: Write> Write for Hashed<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
