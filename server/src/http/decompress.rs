//! Compressed bodies, with a limit of what they may become.

use std::io::Read;

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use crate::wire::failure::Failure;

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Plain,
    Gzip,
    Zstd,
}

impl Encoding {
    /// The encoding that a request declares.
    pub(super) fn of(headers: &HeaderMap) -> Result<Self, Failure> {
        let mut all = headers.get_all(CONTENT_ENCODING).iter();
        let (first, more) = (all.next(), all.next());
        let Some(value) = first else { return Ok(Self::Plain) };
        match value.to_str().unwrap_or_default().trim().to_ascii_lowercase().as_str() {
            _ if more.is_some() => {}
            "" | "identity" => return Ok(Self::Plain),
            "gzip" | "x-gzip" => return Ok(Self::Gzip),
            "zstd" => return Ok(Self::Zstd),
            _ => {}
        }
        Err(Failure::media_type("another Content-Encoding found; one of gzip, zstd and identity is read"))
    }
}

/// The plain bytes, at most `most` of them.
pub(super) fn decompress(encoding: Encoding, bytes: Bytes, most: usize) -> Result<Bytes, Failure> {
    match encoding {
        Encoding::Plain if bytes.len() > most => Err(too_large(most)),
        Encoding::Plain => Ok(bytes),
        Encoding::Gzip => limited(MultiGzDecoder::new(&bytes[..]), most, "gzip"),
        Encoding::Zstd => zstd(&bytes, most),
    }
}

fn zstd(bytes: &[u8], most: usize) -> Result<Bytes, Failure> {
    // The decoder sets aside the window at once. Encoders choose no larger one than their text, but round it up.
    let window = window(bytes).ok_or_else(|| broken("zstd"))?;
    if window > (most as u64).next_power_of_two().max(8 << 20) {
        return Err(too_large(most));
    }
    limited(StreamingDecoder::new(bytes).map_err(|_| broken("zstd"))?, most, "zstd")
}

/// Bytes that a zstd frame wants to look back at (RFC 8878, 3.1.1.1); `None` where there is no frame.
fn window(bytes: &[u8]) -> Option<u64> {
    let rest = bytes.strip_prefix(&[0x28, 0xb5, 0x2f, 0xfd])?;
    let (&descriptor, rest) = rest.split_first()?;
    if descriptor & 0x20 == 0 {
        let &window = rest.first()?;
        let base = 1_u64 << (10 + (window >> 3));
        return Some(base + base / 8 * u64::from(window & 7));
    }
    // A single segment: its window is its whole content, whose size stands behind the dictionary's id.
    let id = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let mut value = [0; 8];
    value[..size].copy_from_slice(rest.get(id..id + size)?);
    Some(u64::from_le_bytes(value).saturating_add(if size == 2 { 256 } else { 0 }))
}

fn limited(decoder: impl Read, most: usize, name: &str) -> Result<Bytes, Failure> {
    let mut plain = Vec::new();
    decoder.take(most as u64 + 1).read_to_end(&mut plain).map_err(|_| broken(name))?;
    if plain.len() > most { Err(too_large(most)) } else { Ok(plain.into()) }
}

fn too_large(most: usize) -> Failure {
    Failure::too_large("the body after decompression", most as u64)
}

fn broken(name: &str) -> Failure {
    Failure::invalid("request", format!("the body is no {name} data"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::GzEncoder;
    use std::io::Write as _;

    fn gzip(plain: &[u8]) -> Bytes {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(plain).expect("in memory");
        encoder.finish().expect("in memory").into()
    }

    fn zstd(plain: &[u8]) -> Bytes {
        ruzstd::encoding::compress_to_vec(plain, ruzstd::encoding::CompressionLevel::Fastest).into()
    }

    #[test]
    fn both_come_back() {
        let plain = "0123456789".repeat(1000).into_bytes();
        for (encoding, bytes) in [(Encoding::Gzip, gzip(&plain)), (Encoding::Zstd, zstd(&plain))] {
            assert!(bytes.len() < plain.len() / 2, "{encoding:?}");
            assert_eq!(decompress(encoding, bytes, 10_000).as_deref(), Ok(&plain[..]), "{encoding:?}");
        }
    }

    #[test]
    fn bombs_and_rubbish_are_refused() {
        let plain = vec![0; 1 << 20];
        for (encoding, bytes) in [(Encoding::Gzip, gzip(&plain)), (Encoding::Zstd, zstd(&plain))] {
            assert!(bytes.len() < 10_000);
            let failure = decompress(encoding, bytes.clone(), (1 << 20) - 1).expect_err("too large");
            assert_eq!(failure.code, "request_too_large");
            assert!(decompress(encoding, bytes.slice(..bytes.len() - 9), 1 << 21).is_err());
            assert!(decompress(encoding, Bytes::from_static(b"not compressed"), 100).is_err());
        }
        // A window of gigabytes in six bytes.
        let bomb = Bytes::from_static(&[0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 1, 0, 0]);
        assert_eq!(window(&bomb), Some(1 << 31));
        assert_eq!(decompress(Encoding::Zstd, bomb, 1000).expect_err("refused").code, "request_too_large");
        assert_eq!(window(&[0x28, 0xb5, 0x2f, 0xfd, 0x60, 0x10, 0x01]), Some(0x110 + 256));
        assert_eq!(window(&[0x28, 0xb5, 0x2f, 0xfd, 0xe0, 1]), None);
    }

    #[test]
    fn encodings_by_name() {
        let of = |names: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for name in names {
                headers.append(CONTENT_ENCODING, axum::http::HeaderValue::from_static(name));
            }
            Encoding::of(&headers).ok()
        };
        assert_eq!(of(&[]), Some(Encoding::Plain));
        assert_eq!(of(&["GZIP"]), Some(Encoding::Gzip));
        assert_eq!(of(&["zstd"]), Some(Encoding::Zstd));
        assert_eq!([of(&["br"]), of(&["gzip, zstd"]), of(&["gzip", "zstd"])], [None; 3]);
    }
}
