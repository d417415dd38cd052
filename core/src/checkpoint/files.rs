//! The files of a model, wherever their bytes live.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of one file: compiled in, owned, or memory-mapped.
#[derive(Debug, Clone)]
pub enum Blob {
    /// Compiled into the program.
    Static(&'static [u8]),
    /// Read into memory.
    Owned(Arc<[u8]>),
}

impl Blob {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Static(b) => b,
            Self::Owned(b) => b,
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

    /// A file by name.
    pub fn get(&self, name: &str) -> Option<&Blob> {
        self.files.get(name)
    }
}
