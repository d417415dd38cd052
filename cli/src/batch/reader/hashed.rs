//! A stream that knows what was read from it.

use std::io::{self, BufRead, Read};

use sha2::{Digest as _, Sha256};

/// How much of an input was read, and what it was.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in crate::batch) struct Mark {
    /// Bytes.
    pub(in crate::batch) bytes: u64,
    /// Their SHA-256 in hexadecimal digits.
    pub(in crate::batch) sha256: String,
}

/// A stream with the digest of the bytes consumed so far.
#[derive(Debug)]
pub(super) struct Hashed<R> {
    inner: R,
    bytes: u64,
    digest: Sha256,
}

impl<R> Hashed<R> {
    /// Nothing is consumed yet.
    pub(super) fn new(inner: R) -> Self {
        Self { inner, bytes: 0, digest: Sha256::new() }
    }

    /// What was consumed so far.
    pub(super) fn mark(&self) -> Mark {
        let digest: [u8; 32] = self.digest.clone().finalize().into();
        Mark { bytes: self.bytes, sha256: dikast_core::checkpoint::Digest(digest).to_string() }
    }
}

impl<R: BufRead> Read for Hashed<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.fill_buf()?.read(buf)?;
        self.consume(n);
        Ok(n)
    }
}

impl<R: BufRead> BufRead for Hashed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // Only bytes that were just shown are consumed, so they are still in the buffer and nothing is read here.
        if amount > 0
            && let Ok(shown) = self.inner.fill_buf()
        {
            self.digest.update(&shown[..amount.min(shown.len())]);
            self.bytes += amount as u64;
        }
        self.inner.consume(amount);
    }
}

/// The mark behind the first `bytes` bytes of a stream, or behind all of them if there are fewer.
pub(in crate::batch) fn mark_of(stream: impl BufRead, bytes: u64) -> io::Result<Mark> {
    let mut hashed = Hashed::new(stream);
    io::copy(&mut (&mut hashed).take(bytes), &mut io::sink())?;
    Ok(hashed.mark())
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn the_mark_is_that_of_the_bytes_consumed() {
        let bytes = b"one line\nand another\n";
        for capacity in 1..30 {
            let mut hashed = Hashed::new(BufReader::with_capacity(capacity, &bytes[..]));
            let mut line = Vec::new();
            hashed.read_until(b'\n', &mut line).unwrap();
            assert_eq!(hashed.mark(), mark_of(&line[..], 99).unwrap());
            assert_eq!(hashed.mark(), mark_of(&bytes[..], 9).unwrap());
            assert_eq!(hashed.mark().bytes, 9);
        }
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(mark_of(&b""[..], 5).unwrap(), Mark { bytes: 0, sha256: empty.into() });
    }
}
