//! Bytes from files and standard input, bounded and checked for UTF-8.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::exit::{Failure, Result};

/// Most bytes read for one text, label list or example list.
const MAX_BYTES: u64 = 16 << 20;

/// The text without a byte order mark.
fn strip_bom(text: &str) -> &str {
    text.strip_prefix('\u{FEFF}').unwrap_or(text)
}

/// The whole of a small UTF-8 file.
pub(crate) fn read_file(path: &Path) -> Result<String> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    read(file, &name)
}

/// The whole of standard input.
pub(crate) fn read_stdin() -> Result<String> {
    read(io::stdin().lock(), "standard input")
}

fn read(reader: impl Read, name: &str) -> Result<String> {
    let mut bytes = Vec::new();
    reader.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!("{name}: longer than {MAX_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        Failure::usage(format!("{name}: not UTF-8 (at byte {})", e.utf8_error().valid_up_to()))
    })?;
    Ok(strip_bom(&text).to_owned())
}

/// The whole of a binary file of at most `limit` bytes.
pub(crate) fn read_bytes(path: &Path, limit: usize) -> Result<Vec<u8>> {
    let name = path.display().to_string();
    let unreadable = |e: io::Error| Failure::usage(format!("{name}: {e}"));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > limit {
        return Err(Failure::usage(format!("{name}: longer than {limit} bytes")));
    }
    Ok(bytes)
}

/// Editors and `echo` end a file with a line end that nobody means.
pub(crate) fn without_last_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

/// An argument that is given inline or as `@FILE`.
pub(crate) fn inline_or_file(flag: &str, value: &str) -> Result<String> {
    match value.strip_prefix('@') {
        None => Ok(value.to_owned()),
        Some("" | "-") => Err(Failure::usage(format!("{flag}: @ must be followed by the name of a file"))),
        Some(path) => read_file(Path::new(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_checked() {
        assert_eq!(read(&b"\xEF\xBB\xBFhi"[..], "x").unwrap(), "hi");
        assert!(read(&b"ok\xFF"[..], "x").unwrap_err().to_string().contains("at byte 2"));
        assert!(read(io::repeat(b'a'), "x").unwrap_err().to_string().contains("longer"));
    }

    #[test]
    fn one_line_end_is_dropped() {
        for (text, left) in [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("\n", ""), ("", "")]
        {
            assert_eq!(without_last_line_end(text.into()), left);
        }
    }

    #[test]
    fn a_missing_file_is_the_callers_mistake() {
        assert_eq!(read_file(Path::new("no/such/file")).unwrap_err().code(), 2);
        assert_eq!(inline_or_file("--labels", "@").unwrap_err().code(), 2);
    }
}
