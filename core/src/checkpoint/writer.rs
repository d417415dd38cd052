//! Writing a safetensors file, tensor by tensor.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;

use serde_json::{Map, Value, json};

use super::{StoredTensor, StoredType};
use crate::{Error, Result};

/// A file's header and the order in which its tensors' bytes follow.
#[derive(Debug, Clone, PartialEq)]
pub struct FileLayout {
    header: Vec<u8>,
    tensors: Vec<StoredTensor>,
    /// Bytes of the markers, which come last.
    markers: Vec<u8>,
}

/// What a file holds besides its tensors.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileNotes {
    /// `__metadata__`; `{"format": "pt"}` is always there.
    pub metadata: BTreeMap<String, String>,
    /// Tensors of U8 `[n]` whose bytes are known beforehand, by name.
    pub markers: BTreeMap<String, Vec<u8>>,
}

impl FileLayout {
    /// Lays tensors out as the reference writer does: by type, widest first, then by name; `{"format": "pt"}` as
    /// metadata; the header padded to 8 bytes.
    ///
    /// # Errors
    /// [`Error::Internal`] when two tensors have one name or the sizes overflow.
    pub fn new(mut tensors: Vec<StoredTensor>) -> Result<Self> {
        let rank = |t: &StoredTensor| match t.dtype {
            StoredType::F32 => 0,
            StoredType::BF16 => 1,
            StoredType::F16 => 2,
            StoredType::F8E4M3 => 3,
            StoredType::I8 => 4,
        };
        tensors.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
        Self::in_order(tensors, &FileNotes::default())
    }

    /// Lays a quantized file out: codes first, then F32, then the narrower types, each by name, markers last. So a
    /// writer that finds the scales while it writes the codes has them in time, and every tensor is aligned as long as
    /// matrices of codes have multiples of four elements.
    ///
    /// # Errors
    /// As [`FileLayout::new`].
    pub fn quantized(mut tensors: Vec<StoredTensor>, notes: &FileNotes) -> Result<Self> {
        let rank = |t: &StoredTensor| (t.dtype != StoredType::I8, std::cmp::Reverse(t.dtype.bytes()));
        tensors.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.name.cmp(&b.name)));
        Self::in_order(tensors, notes)
    }

    fn in_order(tensors: Vec<StoredTensor>, notes: &FileNotes) -> Result<Self> {
        let fault = |what: String| Error::Internal(format!("file layout: {what}"));
        let stored = tensors.iter().map(|t| (&t.name, t.dtype.name(), t.shape.clone(), t.bytes()));
        let markers = notes.markers.iter().map(|(n, b)| (n, "U8", vec![b.len()], b.len() as u64));
        let mut names = BTreeSet::new();
        let mut metadata = notes.metadata.clone();
        metadata.entry("format".to_owned()).or_insert_with(|| "pt".to_owned());
        // In order, so that the same tensors give the same bytes.
        let mut header = Map::new();
        header.insert("__metadata__".to_owned(), json!(metadata));
        let mut end = 0u64;
        for (name, dtype, shape, bytes) in stored.chain(markers) {
            let start = end;
            end = start.checked_add(bytes).ok_or_else(|| fault("the file is too long".to_owned()))?;
            if name == "__metadata__" || !names.insert(name) {
                return Err(fault(format!("two tensors are called {name}")));
            }
            let entry = json!({"dtype": dtype, "shape": shape, "data_offsets": [start, end]});
            header.insert(name.clone(), entry);
        }
        let mut json = serde_json::to_vec(&Value::Object(header)).map_err(|e| fault(e.to_string()))?;
        json.resize(json.len().next_multiple_of(8), b' ');
        let mut header = (json.len() as u64).to_le_bytes().to_vec();
        header.extend(json);
        Ok(Self { header, tensors, markers: notes.markers.values().flatten().copied().collect() })
    }

    /// The tensors in file order, markers left out.
    pub fn tensors(&self) -> &[StoredTensor] {
        &self.tensors
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        let tensors = self.tensors.iter().map(StoredTensor::bytes).sum::<u64>();
        self.header.len() as u64 + tensors + self.markers.len() as u64
    }

    /// Writes the file; `fill` writes each tensor's bytes, in file order. Markers are written here.
    ///
    /// # Errors
    /// [`Error::Io`] from writing, what `fill` returns, and [`Error::Internal`] when it wrote too few or too many
    /// bytes.
    pub fn write<W: Write>(
        &self,
        out: &mut W,
        mut fill: impl FnMut(&StoredTensor, &mut dyn Write) -> std::io::Result<()>,
    ) -> Result<()> {
        let io = |e: std::io::Error| Error::Io { path: "output".to_owned(), message: e.to_string() };
        out.write_all(&self.header).map_err(io)?;
        for tensor in &self.tensors {
            let mut counted = Counted { out, bytes: 0 };
            fill(tensor, &mut counted).map_err(io)?;
            if counted.bytes != tensor.bytes() {
                let (found, need) = (counted.bytes, tensor.bytes());
                return Err(Error::Internal(format!(
                    "{}: {found} bytes written, {need} needed",
                    tensor.name
                )));
            }
        }
        out.write_all(&self.markers).map_err(io)?;
        out.flush().map_err(io)
    }
}

/// Counts what passes through.
struct Counted<'a, W> {
    out: &'a mut W,
    bytes: u64,
}

impl<W: Write> Write for Counted<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}
