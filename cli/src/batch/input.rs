//! The bytes to read: a file, or standard input.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use super::files::is_stream;
use super::identity::Identity;
use crate::exit::{Failure, Result};

/// An opened input.
pub(super) struct Input {
    /// Its bytes.
    pub(super) bytes: Box<dyn BufRead>,
    /// How many there are, where that is known.
    pub(super) length: Option<u64>,
    /// Which file they are in.
    pub(super) identity: Option<Identity>,
}

/// Opens `--input`.
pub(super) fn open(path: &Path) -> Result<Input> {
    if is_stream(path) {
        let bytes = Box::new(BufReader::with_capacity(1 << 16, io::stdin()));
        return Ok(Input { bytes, length: None, identity: Identity::of_stdin() });
    }
    let unreadable = |e: io::Error| Failure::usage(format!("{}: {e}", path.display()));
    let file = File::open(path).map_err(unreadable)?;
    let facts = file.metadata().map_err(unreadable)?;
    if facts.is_dir() {
        return Err(Failure::usage(format!("{}: is a folder", path.display())));
    }
    let length = facts.is_file().then_some(facts.len());
    let bytes = Box::new(BufReader::with_capacity(1 << 16, file));
    Ok(Input { bytes, length, identity: Identity::of(&facts) })
}
