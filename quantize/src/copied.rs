//! The files of a release that go along unchanged.

use std::path::Path;

use dikast_core::checkpoint::Digest;
use dikast_core::checkpoint::parse_sums;
use dikast_core::{Error, Result};

use crate::write::{WrittenFile, io_error, write_small};

/// Their names, as far as they are there.
pub(crate) const NAMES: [&str; 16] = [
    "LICENSE",
    "LICENSE.txt",
    "NOTICE",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "joint_head_config.json",
    "merges.txt",
    "preprocessor_config.json",
    "processor_config.json",
    "special_tokens_map.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
];
/// Larger than any of these is.
const MAX_BYTES: u64 = 64 << 20;
const SUMS: &str = "SHA256SUMS";

/// Copies them, each compared with the release's `SHA256SUMS` where that lists it; `config` stands for `config.json`.
pub(crate) fn copy(from: &Path, to: &Path, config: Option<&[u8]>) -> Result<Vec<WrittenFile>> {
    let list = read(&from.join(SUMS))?.unwrap_or_default();
    let sums = parse_sums(&list)?;
    let mut written = Vec::new();
    for name in NAMES {
        let Some(bytes) = read(&from.join(name))? else { continue };
        if let Some(want) = sums.get(name).filter(|want| **want != Digest::of(&bytes)) {
            let found = Digest::of(&bytes);
            return Err(Error::checkpoint(name, format!("SHA-256 is {found}, but {SUMS} says {want}")));
        }
        let own = config.filter(|_| name == "config.json");
        written.push(write_small(to, name, own.unwrap_or(&bytes))?);
    }
    Ok(written)
}

/// A small regular file, if it is there.
fn read(path: &Path) -> Result<Option<Vec<u8>>> {
    let about = match std::fs::metadata(path) {
        Ok(about) => about,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io_error(path, &e)),
    };
    if !about.is_file() {
        return Ok(None);
    }
    if about.len() > MAX_BYTES {
        let what = format!("bytes of {}", path.display());
        return Err(Error::TooLarge { what, limit: MAX_BYTES, actual: about.len() });
    }
    std::fs::read(path).map(Some).map_err(|e| io_error(path, &e))
}
