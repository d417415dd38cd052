//! One file on its way in.

use dikast_core::{Error, Result};
use js_sys::Uint8Array;
use sha2::{Digest as _, Sha256};

/// Growth of a file whose length nobody said.
const STEP: usize = 1 << 20;

/// A file that arrives in pieces: its bytes so far and, if wanted, their running SHA-256.
#[derive(Debug)]
pub(crate) struct Incoming {
    name: String,
    bytes: Vec<u8>,
    sum: Option<Sha256>,
}

impl Incoming {
    /// A file of `expected` bytes, or of 0 when that is not known. The memory is asked for at once.
    pub(crate) fn new(name: String, expected: usize, sum: bool) -> Result<Self> {
        let mut bytes = Vec::new();
        reserve(&mut bytes, expected)?;
        Ok(Self { name, bytes, sum: sum.then(Sha256::new) })
    }

    /// The next piece.
    pub(crate) fn write(&mut self, piece: &Uint8Array) -> Result<()> {
        let start = self.bytes.len();
        let end = start + piece.length() as usize;
        if end > self.bytes.capacity() {
            reserve(&mut self.bytes, (end - start).max(start / 2).max(STEP))?;
        }
        self.bytes.resize(end, 0);
        let place = &mut self.bytes[start..];
        piece.copy_to(place);
        if let Some(sum) = &mut self.sum {
            sum.update(place);
        }
        Ok(())
    }

    /// Name, bytes, and SHA-256 in hexadecimal digits.
    pub(crate) fn end(self) -> (String, Vec<u8>, Option<String>) {
        let hex = |sum: Sha256| sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        (self.name, self.bytes, self.sum.map(hex))
    }
}

/// Room for more bytes, or [`Error::OutOfMemory`]; the module goes on either way.
fn reserve(bytes: &mut Vec<u8>, more: usize) -> Result<()> {
    bytes.try_reserve_exact(more).map_err(|_| Error::OutOfMemory {
        device: "WebAssembly memory".to_owned(),
        needed: (bytes.len() as u64).saturating_add(more as u64),
        available: u64::from(u32::MAX).saturating_sub(memory_bytes()),
    })
}

/// Bytes that the module has already.
fn memory_bytes() -> u64 {
    core::arch::wasm32::memory_size::<0>() as u64 * (64 << 10)
}
