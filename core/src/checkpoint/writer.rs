//! Writing a safetensors file, tensor by tensor.

use std::io::Write;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

use super::{StoredTensor, StoredType};
use crate::{Error, Result};

/// A file's header and the order in which its tensors' bytes follow.
#[derive(Debug, Clone, PartialEq)]
pub struct FileLayout {
    header: Vec<u8>,
    tensors: Vec<StoredTensor>,
}

impl FileLayout {
    /// Lays tensors out as the reference writer does: by type, widest first, then by name; `{"format": "pt"}` as
    /// metadata; the header padded to 8 bytes.
    ///
    /// # Errors
    /// [`Error::Internal`] when two tensors have one name or the sizes overflow.
    pub fn new(mut tensors: Vec<StoredTensor>) -> Result<Self> {
        let fault = |e: &dyn std::fmt::Display| Error::Internal(format!("file layout: {e}"));
        tensors.sort_by(|a, b| dtype(b).cmp(&dtype(a)).then_with(|| a.name.cmp(&b.name)));
        let mut end = 0usize;
        let mut infos = Vec::with_capacity(tensors.len());
        for t in &tensors {
            let bytes = usize::try_from(t.bytes()).map_err(|e| fault(&e))?;
            let start = end;
            end = start.checked_add(bytes).ok_or_else(|| fault(&"the file is too long"))?;
            let info = TensorInfo { dtype: dtype(t), shape: t.shape.clone(), data_offsets: (start, end) };
            infos.push((t.name.clone(), info));
        }
        // Without its `std` the crate has a map type of its own.
        let format = std::iter::once(("format".to_owned(), "pt".to_owned())).collect();
        let metadata = Metadata::new(Some(format), infos).map_err(|e| fault(&e))?;
        let mut json = serde_json::to_vec(&metadata).map_err(|e| fault(&e))?;
        json.resize(json.len().next_multiple_of(8), b' ');
        let mut header = (json.len() as u64).to_le_bytes().to_vec();
        header.extend(json);
        Ok(Self { header, tensors })
    }

    /// The tensors in file order.
    pub fn tensors(&self) -> &[StoredTensor] {
        &self.tensors
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        self.header.len() as u64 + self.tensors.iter().map(StoredTensor::bytes).sum::<u64>()
    }

    /// Writes the file; `fill` writes each tensor's bytes, in file order.
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

fn dtype(t: &StoredTensor) -> Dtype {
    match t.dtype {
        StoredType::F32 => Dtype::F32,
        StoredType::F16 => Dtype::F16,
        StoredType::BF16 => Dtype::BF16,
        StoredType::F8E4M3 => Dtype::F8_E4M3,
        StoredType::I8 => Dtype::I8,
    }
}
