//! What of a folder is done, so that an interrupted run goes on where it stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;

use dikast_core::Result;
use dikast_core::checkpoint::{Digest, parse_sums};
use serde::{Deserialize, Serialize};

use crate::report::MatrixError;
use crate::write::{WrittenFile, write_small};

/// Its name while the folder is not complete.
pub(crate) const PROGRESS: &str = "progress.json";
/// What a file's name ends with while it is not complete.
pub(crate) const PART: &str = ".part";

#[derive(Debug, Default, Serialize, Deserialize)]
struct State {
    /// What the folder is made from, and how.
    identity: String,
    files: BTreeMap<String, Done>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Done {
    bytes: u64,
    digest: String,
    errors: Vec<MatrixError>,
}

/// The files of a folder that are complete.
#[derive(Debug)]
pub(crate) struct Progress<'a> {
    dir: &'a Path,
    state: Mutex<State>,
}

impl<'a> Progress<'a> {
    /// What an earlier run of the same identity left in `dir`; what another one left is removed.
    pub(crate) fn open(dir: &'a Path, identity: &str) -> Self {
        let bytes = std::fs::read(dir.join(PROGRESS)).unwrap_or_default();
        let mut state: State = serde_json::from_slice(&bytes).unwrap_or_default();
        if state.identity != identity {
            for name in state.files.keys().filter(|n| crate::is_output(n)) {
                // If it stays, it is written over.
                let _ = std::fs::remove_file(dir.join(name));
            }
            state = State { identity: identity.to_owned(), files: BTreeMap::new() };
        }
        let there = |name: &str, done: &Done| {
            std::fs::metadata(dir.join(name)).is_ok_and(|m| m.is_file() && m.len() == done.bytes)
        };
        state.files.retain(|name, done| there(name, done) && done.digest().is_some());
        Self { dir, state: Mutex::new(state) }
    }

    /// A file that is complete, and the errors of its matrices.
    pub(crate) fn done(&self, name: &str) -> Option<(WrittenFile, Vec<MatrixError>)> {
        let state = self.state.lock().ok()?;
        let done = state.files.get(name)?;
        let file = WrittenFile { name: name.to_owned(), bytes: done.bytes, digest: done.digest()? };
        Some((file, done.errors.clone()))
    }

    /// Notes that a file is complete.
    pub(crate) fn finished(&self, file: &WrittenFile, errors: &[MatrixError]) -> Result<()> {
        let Ok(mut state) = self.state.lock() else { return Ok(()) };
        let done = Done { bytes: file.bytes, digest: file.digest.to_string(), errors: errors.to_vec() };
        state.files.insert(file.name.clone(), done);
        let text = serde_json::to_vec(&*state).unwrap_or_default();
        // Renamed into place, so that it is never half written.
        let part = format!("{PROGRESS}{PART}");
        write_small(self.dir, &part, &text)?;
        std::fs::rename(self.dir.join(&part), self.dir.join(PROGRESS))
            .map_err(|e| crate::write::io_error(&self.dir.join(PROGRESS), &e))
    }

    /// The folder is complete.
    pub(crate) fn end(self) {
        // Left behind, it would only be one file too many.
        let _ = std::fs::remove_file(self.dir.join(PROGRESS));
    }
}

impl Done {
    fn digest(&self) -> Option<Digest> {
        let line = format!("{}  x\n", self.digest);
        parse_sums(line.as_bytes()).ok()?.get("x").copied()
    }
}

/// Weight files that an interrupted run completed in a folder.
pub fn finished_files(dir: &Path) -> usize {
    let bytes = std::fs::read(dir.join(PROGRESS)).unwrap_or_default();
    serde_json::from_slice::<State>(&bytes).map_or(0, |s| s.files.len())
}
