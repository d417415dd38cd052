//! `OUTPUT.dikast.json`: what an unfinished output was asked, and of which input.
//!
//! It is written before the rows it speaks of, so that it covers every row in the output whenever the run ends, and
//! removed when no row is left.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufReader, Read as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::reader::hashed::{Mark, mark_of};
use super::settings::Settings;
use crate::exit::{Failure, Result};

const MAX_BYTES: u64 = 4 << 20;

/// What an unfinished run left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Left {
    settings: Settings,
    rows: u64,
    input: Mark,
}

/// The file's JSON.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    settings: Map<String, Value>,
    /// Rows read.
    rows: u64,
    /// Bytes of the input up to the end of the last row read, and their SHA-256.
    bytes: u64,
    sha256: String,
}

/// The file beside an output.
#[derive(Debug)]
pub(super) struct Sidecar {
    path: PathBuf,
    settings: Settings,
}

impl Sidecar {
    /// The file beside `output`; nothing is written yet.
    pub(super) fn beside(output: &Path, settings: Settings) -> Self {
        Self { path: with_suffix(output, ".dikast.json"), settings }
    }

    /// Writes that `rows` rows have been read, up to `mark`.
    pub(super) fn write(&self, rows: u64, mark: &Mark) -> Result<()> {
        let doing = || Failure::io(format!("writing {}", self.path.display()));
        let stored = Stored {
            settings: self.settings.json().clone(),
            rows,
            bytes: mark.bytes,
            sha256: mark.sha256.clone(),
        };
        let mut json = serde_json::to_vec_pretty(&stored).unwrap_or_default();
        json.push(b'\n');
        // Renamed into place, so that a killed run leaves the old one or the new one, never half of it.
        let new = with_suffix(&self.path, ".new");
        fs::write(&new, json).map_err(doing())?;
        fs::rename(&new, &self.path).map_err(doing())
    }

    /// Removes the file: the output is complete.
    pub(super) fn remove(&self) -> Result<()> {
        match fs::remove_file(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(Failure::io(format!("removing {}", self.path.display()))(e))
            }
            _ => Ok(()),
        }
    }

    /// What an earlier run left; `None` if there is no file, or none that can be read as one.
    pub(super) fn left(&self) -> Option<Left> {
        let mut bytes = Vec::new();
        File::open(&self.path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
        let Stored { settings, rows, bytes, sha256 } = serde_json::from_slice(&bytes).ok()?;
        Some(Left { settings: Settings::from_json(settings), rows, input: Mark { bytes, sha256 } })
    }

    /// Checks that a run with other settings would not continue what `left` speaks of.
    pub(super) fn check_settings(&self, left: &Left) -> std::result::Result<(), String> {
        let differences = left.settings.differences(&self.settings);
        if differences.is_empty() {
            return Ok(());
        }
        Err(format!("its rows were written with other settings: {}", differences.join(", ")))
    }
}

impl Left {
    /// Checks that the first `rows` rows of an output were read from what `input` still starts with.
    pub(super) fn check_input(&self, rows: u64, input: &Path) -> Result<std::result::Result<(), String>> {
        if rows > self.rows {
            let message = format!("it has {rows} rows, but only {} are known to be of this input", self.rows);
            return Ok(Err(message));
        }
        let doing = || Failure::io(format!("reading {}", input.display()));
        let file = File::open(input).map_err(doing())?;
        let mark = mark_of(BufReader::with_capacity(1 << 16, file), self.input.bytes).map_err(doing())?;
        if mark != self.input {
            return Ok(Err(format!(
                "{} has changed: its first {} bytes are not those that were read",
                input.display(),
                self.input.bytes
            )));
        }
        Ok(Ok(()))
    }
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn settings(labels: &str) -> Settings {
        let fields = json!({"--labels": labels});
        Settings::from_json(fields.as_object().cloned().unwrap_or_default())
    }

    #[test]
    fn what_is_written_is_read_and_compared() {
        let dir = tempfile::tempdir().unwrap();
        let (input, output) = (dir.path().join("in.jsonl"), dir.path().join("out.jsonl"));
        std::fs::write(&input, "one\ntwo\nthree\n").unwrap();
        let sidecar = Sidecar::beside(&output, settings("a,b"));
        assert_eq!(sidecar.left(), None);
        sidecar.write(2, &mark_of(&b"one\ntwo\n"[..], 99).unwrap()).unwrap();
        let left = sidecar.left().unwrap();
        assert_eq!(sidecar.check_settings(&left), Ok(()));
        let other = Sidecar::beside(&output, settings("a,c"));
        assert!(other.check_settings(&left).unwrap_err().contains("--labels (a,b then, a,c now)"));
        assert_eq!(left.check_input(2, &input).unwrap(), Ok(()));
        assert!(left.check_input(3, &input).unwrap().unwrap_err().contains("only 2"));
        for changed in ["one\nTwo\nthree\n", "one\n"] {
            std::fs::write(&input, changed).unwrap();
            assert!(left.check_input(2, &input).unwrap().unwrap_err().contains("has changed"));
        }
        sidecar.remove().unwrap();
        sidecar.remove().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "only the input is left");
    }

    #[test]
    fn a_foreign_file_is_none_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let sidecar = Sidecar::beside(&dir.path().join("out"), settings("a"));
        for content in ["", "{}", "[]", "{\"rows\": 1}"] {
            std::fs::write(dir.path().join("out.dikast.json"), content).unwrap();
            assert_eq!(sidecar.left(), None, "{content}");
        }
    }
}
