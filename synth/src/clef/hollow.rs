//! A CLEF folder whose weights are zeros that take no room on a disk.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write};
use std::path::Path;

use dikast_core::checkpoint::{self, FileLayout, FileNotes, Int8Layer, StoredType, TensorSpec};
use dikast_core::{Error, Result};

use super::write::{expected, small_files};
use crate::recipe::{Format, Recipe, WEIGHTS, Written};
use crate::write::io;

/// Writes a model; see [`crate::hollow()`].
pub(crate) fn hollow(dir: &Path, recipe: &Recipe) -> Result<Written> {
    let group = match recipe.format {
        Format::Bf16 => None,
        Format::Int8ConvRot { group } => Some(group),
        Format::Fp8 => {
            return Err(Error::invalid("quant", "fp8 found, allowed for CLEF: bf16, int8-convrot"));
        }
    };
    let files = small_files(recipe)?;
    let expected = expected(&files)?;
    let stored = |spec: &TensorSpec| {
        let has = |dtype| spec.allowed.contains(&dtype);
        match group {
            Some(_) if has(StoredType::I8) => StoredType::I8,
            _ if has(StoredType::BF16) => StoredType::BF16,
            _ => StoredType::F32,
        }
    };
    let tensors = expected.stored(stored);
    let coded = tensors.iter().filter(|t| t.dtype == StoredType::I8);
    let layers: Vec<Int8Layer> = coded
        .filter_map(|t| {
            let row = vec![0; t.shape.get(1).copied().unwrap_or(0)];
            Some(Int8Layer::new(t.name.strip_suffix(".weight")?, group, &row, 0.0))
        })
        .collect();
    let how = checkpoint::Recipe { name: "hollow".to_owned(), version: 1 };
    let notes = if group.is_some() { Int8Layer::notes(&layers, &how)? } else { FileNotes::default() };
    let layout = FileLayout::quantized(tensors, &notes)?;

    std::fs::create_dir_all(dir).map_err(|e| io(dir, &e))?;
    for (name, bytes) in &files {
        let path = dir.join(name);
        std::fs::write(&path, bytes).map_err(|e| io(&path, &e))?;
    }
    let path = dir.join(WEIGHTS);
    let mut out = Sparse(File::create(&path).map_err(|e| io(&path, &e))?);
    let zeros = vec![0; 1 << 20];
    layout.write(&mut out, |tensor, out| {
        let mut left = tensor.bytes();
        while left > 0 {
            let some = left.min(zeros.len() as u64) as usize;
            out.write_all(&zeros[..some])?;
            left -= some as u64;
        }
        Ok(())
    })?;
    out.0.set_len(layout.file_bytes()).map_err(|e| io(&path, &e))?;
    let parameters =
        expected.tensors.iter().map(|t| t.shape.iter().map(|&n| n as u64).product::<u64>()).sum();
    Ok(Written { bytes: layout.file_bytes(), parameters })
}

/// A file in which zeros are left out.
struct Sparse(File);

impl Write for Sparse {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        const ZEROS: [u8; 4096] = [0; 4096];
        if bytes.chunks(ZEROS.len()).any(|some| some != &ZEROS[..some.len()]) {
            return self.0.write(bytes);
        }
        self.0.seek(SeekFrom::Current(bytes.len() as i64))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}
