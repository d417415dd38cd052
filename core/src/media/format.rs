//! What kind of file some bytes are.

use std::fmt;

use crate::{Error, Result};

/// A media file format, told by its first bytes; names and declared types are not trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// PNG, animated or not.
    Png,
    /// JPEG.
    Jpeg,
    /// WebP, animated or not.
    WebP,
    /// GIF, animated or not.
    Gif,
    /// MP4 and its relatives (ISO base media).
    Mp4,
    /// Matroska or WebM.
    Matroska,
}

impl Format {
    /// Looks at the first bytes.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for `name`, saying how the bytes begin and which formats there are.
    pub fn of(name: &str, bytes: &[u8]) -> Result<Self> {
        let at = |offset: usize, magic: &[u8]| bytes.get(offset..).is_some_and(|b| b.starts_with(magic));
        if at(0, b"\x89PNG\r\n\x1a\n") {
            Ok(Self::Png)
        } else if at(0, b"\xff\xd8\xff") {
            Ok(Self::Jpeg)
        } else if at(0, b"RIFF") && at(8, b"WEBP") {
            Ok(Self::WebP)
        } else if at(0, b"GIF87a") || at(0, b"GIF89a") {
            Ok(Self::Gif)
        } else if at(4, b"ftyp") {
            Ok(Self::Mp4)
        } else if at(0, b"\x1a\x45\xdf\xa3") {
            Ok(Self::Matroska)
        } else {
            Err(Error::invalid(name, unknown(bytes)))
        }
    }

    /// The format's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::WebP => "WebP",
            Self::Gif => "GIF",
            Self::Mp4 => "MP4",
            Self::Matroska => "Matroska or WebM",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn unknown(bytes: &[u8]) -> String {
    const ALLOWED: &str = "allowed: PNG, JPEG, WebP, GIF, and MP4 for videos";
    if bytes.is_empty() {
        return format!("0 bytes found, {ALLOWED}");
    }
    if bytes.starts_with(b"http://") || bytes.starts_with(b"https://") {
        return format!("an address found, which is not followed; {ALLOWED}");
    }
    let first: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
    format!("unknown format found, beginning with {}; {ALLOWED}", first.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_their_first_bytes() {
        for (bytes, format) in [
            (&b"\x89PNG\r\n\x1a\n...."[..], Format::Png),
            (b"\xff\xd8\xff\xe0", Format::Jpeg),
            (b"RIFF\x10\0\0\0WEBPVP8 ", Format::WebP),
            (b"GIF89a", Format::Gif),
            (b"\0\0\0\x20ftypisom", Format::Mp4),
            (b"\x1a\x45\xdf\xa3", Format::Matroska),
        ] {
            assert_eq!(Format::of("image", bytes).unwrap(), format);
        }
    }

    #[test]
    fn the_unknown_is_named() {
        for (bytes, said) in [
            (&b""[..], "0 bytes found"),
            (b"%PDF-1.7", "beginning with 25 50 44 46"),
            (b"RIFF\x10\0\0\0AVI ", "beginning with 52 49 46 46"),
            (b"https://example.org/a.png", "an address found, which is not followed"),
        ] {
            let error = Format::of("images[1]", bytes).unwrap_err().to_string();
            assert!(error.contains("images[1]") && error.contains(said) && error.contains("PNG"), "{error}");
        }
    }
}
