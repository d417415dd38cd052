//! The files of a model, wherever their bytes live.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sums::{self, Digest};
use crate::{Error, Result};

/// Bytes of one file: compiled in, owned, or memory-mapped. Clones share the bytes.
#[derive(Debug, Clone)]
pub enum Blob {
    /// Compiled into the program.
    Static(&'static [u8]),
    /// Read into memory. A vector, because its memory can be asked for without risking the whole program.
    Owned(Arc<Vec<u8>>),
    /// Mapped from disk.
    #[cfg(feature = "native")]
    Mapped(super::Mapped),
}

impl Blob {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(b) => b,
            Self::Owned(b) => b,
            #[cfg(feature = "native")]
            Self::Mapped(b) => b.bytes(),
        }
    }

    /// Tells the system that some of the bytes are not needed for now, for callers that read a file once that is larger
    /// than the memory. They stay readable. Without effect for bytes that are not mapped.
    pub fn release(&self, range: std::ops::Range<usize>) {
        match self {
            Self::Static(_) | Self::Owned(_) => {
                let _ = range;
            }
            #[cfg(feature = "native")]
            Self::Mapped(b) => b.release(range),
        }
    }
}

/// A model's files by name (`config.json`, `model.safetensors`, `tokenizer.json`, …).
#[derive(Debug, Clone, Default)]
pub struct ModelFiles {
    name: String,
    files: BTreeMap<String, Blob>,
}

impl ModelFiles {
    /// Files whose bytes are already in memory.
    pub fn from_memory(name: impl Into<String>, files: impl IntoIterator<Item = (String, Blob)>) -> Self {
        Self { name: name.into(), files: files.into_iter().collect() }
    }

    /// The model's name: its folder, or the name given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A file by name, unchecked.
    pub fn get(&self, name: &str) -> Option<&Blob> {
        self.files.get(name)
    }

    /// The names of the files, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// A file that the model needs, checked against `SHA256SUMS` where that exists and lists it.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] when the file is missing, when its sum differs, or when `SHA256SUMS` is malformed.
    pub fn read(&self, name: &str) -> Result<&Blob> {
        let blob = self.needed(name)?;
        self.check_sum(name, blob)?;
        Ok(blob)
    }

    /// A file that the model needs, unchecked.
    pub(super) fn needed(&self, name: &str) -> Result<&Blob> {
        self.get(name).ok_or_else(|| {
            let there: Vec<String> = self.names().map(str::to_owned).collect();
            let there = if there.is_empty() { "nothing usable".to_owned() } else { super::listed(&there) };
            Error::checkpoint(
                name,
                format!("file not found in model {}; found {there}", super::shown(&self.name)),
            )
        })
    }

    /// Checks a file against `SHA256SUMS`; its digest where one was computed.
    pub(super) fn check_sum(&self, name: &str, blob: &Blob) -> Result<Option<Digest>> {
        let Some(list) = self.get(sums::FILE) else { return Ok(None) };
        let Some(want) = sums::parse(list.bytes())?.remove(name) else { return Ok(None) };
        let found = Digest::of(blob.bytes());
        if found == want {
            Ok(Some(found))
        } else {
            Err(Error::checkpoint(name, format!("SHA-256 is {found}, but {} says {want}", sums::FILE)))
        }
    }
}

#[cfg(feature = "native")]
mod directory {
    use std::fs;
    use std::io::Read;
    use std::path::Path;
    use std::sync::Arc;

    use super::{Blob, ModelFiles};
    use crate::checkpoint::{Mapped, sums};
    use crate::{Error, Result};

    /// The files of a model that are read into memory, and the largest size of each; weights are mapped and have none.
    const READ: [(&str, u64); 10] = [
        ("config.json", 16 << 20),
        ("joint_head_config.json", 16 << 20),
        ("model.safetensors.index.json", 16 << 20),
        ("processor_config.json", 16 << 20),
        ("provenance.json", 16 << 20),
        ("quantization_config.json", 16 << 20),
        ("special_tokens_map.json", 16 << 20),
        ("tokenizer.json", 64 << 20),
        ("tokenizer_config.json", 16 << 20),
        (sums::FILE, 4 << 20),
    ];

    /// What to do with a file of this name: nothing, map it (`None`), or read it up to a size.
    fn wanted(name: &str) -> Option<Option<u64>> {
        if name.ends_with(".safetensors") {
            return Some(None);
        }
        READ.iter().find(|(read, _)| *read == name).map(|(_, most)| Some(*most))
    }

    fn io(path: &Path, error: &std::io::Error) -> Error {
        Error::Io { path: path.display().to_string(), message: error.to_string() }
    }

    impl ModelFiles {
        /// Opens a model's directory: `*.safetensors` (memory-mapped), their index, the configurations, the tokenizer's
        /// files, `provenance.json` and `SHA256SUMS`; everything else is left alone, as is everything that is not a
        /// regular file or a link to one, except `SHA256SUMS`, which is then refused.
        ///
        /// The files must not be modified while the model is in use (see [`Mapped`]).
        ///
        /// # Errors
        /// [`Error::Io`] with the path when the directory or one of these files cannot be read;
        /// [`Error::TooLarge`] for one that is larger than any real one; [`Error::Checkpoint`] for a `SHA256SUMS` that
        /// is no file.
        pub fn open(dir: impl AsRef<Path>) -> Result<Self> {
            let dir = dir.as_ref();
            let mut files = Vec::new();
            for entry in fs::read_dir(dir).map_err(|e| io(dir, &e))? {
                let entry = entry.map_err(|e| io(dir, &e))?;
                // A name that is not UTF-8 is none of the names above.
                let Ok(name) = entry.file_name().into_string() else { continue };
                let Some(most) = wanted(&name) else { continue };
                match read(&entry.path(), most)? {
                    Some(blob) => files.push((name, blob)),
                    None if name == sums::FILE => {
                        return Err(Error::checkpoint(name, "not a file, so nothing could be checked"));
                    }
                    None => {}
                }
            }
            // "." and ".." have no name of their own.
            let full = fs::canonicalize(dir).map_err(|e| io(dir, &e))?;
            let name = dir.file_name().or(full.file_name()).map(|n| n.to_string_lossy().into_owned());
            Ok(Self::from_memory(name.unwrap_or_default(), files))
        }
    }

    fn read(path: &Path, most: Option<u64>) -> Result<Option<Blob>> {
        // Follows links: download caches keep the files elsewhere.
        let about = fs::metadata(path).map_err(|e| io(path, &e))?;
        if !about.is_file() {
            return Ok(None);
        }
        let Some(most) = most.or((about.len() == 0).then_some(0)) else {
            return Mapped::open(path).map(|m| Some(Blob::Mapped(m))).map_err(|e| io(path, &e));
        };
        let mut bytes = Vec::new();
        let file = fs::File::open(path).map_err(|e| io(path, &e))?;
        file.take(most + 1).read_to_end(&mut bytes).map_err(|e| io(path, &e))?;
        if bytes.len() as u64 > most {
            let what = format!("bytes of {}", path.display());
            return Err(Error::TooLarge { what, limit: most, actual: about.len().max(most + 1) });
        }
        Ok(Some(Blob::Owned(Arc::new(bytes))))
    }
}
