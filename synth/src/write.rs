//! Writing a model folder.

use std::io::{BufWriter, Write};
use std::path::Path;

use dikast_core::checkpoint::{FileLayout, StoredTensor, StoredType};
use dikast_core::models::gliclass::{GliClassConfig, expected_tensors};
use dikast_core::numerics::fp8;
use dikast_core::tokens::Tokenizer;
use dikast_core::tokens::gliclass::check_tokenizer;
use dikast_core::{Error, Result};
use half::bf16;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::provenance::Provenance;
use crate::recipe::{CONFIG, Format, PROVENANCE, Recipe, TOKENIZER, TOKENIZER_CONFIG, WEIGHTS, Written};
use crate::statistics::Source;
use crate::tokenizer::tokenizer;

/// Rows drawn at once: what is in memory of a tensor.
const ROWS: usize = 1024;

/// Writes a GLiClass or CLEF model into `dir`, which is made where it is missing: configurations, `tokenizer.json`,
/// `provenance.json` and the weight files. `progress` gets bytes of the weights done and in all.
///
/// # Errors
/// [`Error::Io`] naming the file that cannot be written; [`Error::Unsupported`] for a configuration of another kind
/// of model, [`Error::Checkpoint`] for a faulty one and for a tokenizer that does not belong to it. Nothing is written
/// in the last two cases.
pub fn write(dir: &Path, recipe: &Recipe, progress: &mut dyn FnMut(u64, u64)) -> Result<Written> {
    if crate::clef::is_clef(&recipe.config) {
        return crate::clef::write(dir, recipe, progress);
    }
    if let Format::Int8ConvRot { .. } = recipe.format {
        let message = "int8-convrot found, allowed for GLiClass: bf16, fp8";
        return Err(Error::invalid("quant", message));
    }
    let mut json = recipe.config.clone();
    if let Some(fields) = json.as_object_mut() {
        fields.remove("quantization_config");
        if recipe.format == Format::Fp8 {
            fields.insert("quantization_config".to_owned(), quantization_config());
        }
    }
    let text = serde_json::to_vec_pretty(&json).map_err(|e| Error::Internal(e.to_string()))?;
    let config = GliClassConfig::from_json(&text)?;
    let tokenizer = tokenizer_files(recipe, &config)?;
    let expected = expected_tensors(&config);
    let layout = FileLayout::new(expected.stored(|spec| {
        let quantized = recipe.format == Format::Fp8 && !spec.companions.is_empty();
        if quantized { StoredType::F8E4M3 } else { StoredType::BF16 }
    }))?;

    std::fs::create_dir_all(dir).map_err(|e| io(dir, &e))?;
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).map_err(|e| io(&path, &e))
    };
    put(CONFIG, &text)?;
    for (name, bytes) in &tokenizer {
        put(name, bytes)?;
    }
    let provenance = Provenance::of(recipe).to_json();
    put(PROVENANCE, format!("{provenance:#}\n").as_bytes())?;

    let path = dir.join(WEIGHTS);
    let file = std::fs::File::create(&path).map_err(|e| io(&path, &e))?;
    let (mut done, all) = (0, layout.file_bytes());
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let written = layout.write(&mut out, |tensor, out| {
        fill(tensor, &layout, recipe.seed, out, &mut |bytes| {
            done += bytes;
            progress(done, all);
        })
    });
    // The layout does not know the file's name.
    written.map_err(|e| match e {
        Error::Io { message, .. } => Error::Io { path: path.display().to_string(), message },
        other => other,
    })?;
    let parameters =
        expected.tensors.iter().map(|t| t.shape.iter().map(|&n| n as u64).product::<u64>()).sum();
    Ok(Written { bytes: all, parameters })
}

pub(crate) fn io(path: &Path, error: &std::io::Error) -> Error {
    Error::Io { path: path.display().to_string(), message: error.to_string() }
}

/// The tokenizer's files by name, checked against the configuration.
fn tokenizer_files(recipe: &Recipe, config: &GliClassConfig) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let Some(files) = &recipe.tokenizer else {
        let markers = [config.class_token_index, config.text_token_index, config.example_token_index];
        let pieces = markers.into_iter().min().unwrap_or(0) as usize;
        return Ok(vec![(TOKENIZER, tokenizer(pieces, markers).to_string().into_bytes())]);
    };
    let bytes = files.read(TOKENIZER)?.bytes().to_vec();
    check_tokenizer(config, &Tokenizer::from_bytes(&bytes)?)?;
    let settings = files.get(TOKENIZER_CONFIG).map(|blob| (TOKENIZER_CONFIG, blob.bytes().to_vec()));
    Ok(std::iter::once((TOKENIZER, bytes)).chain(settings).collect())
}

/// The bytes of one tensor, a few rows at a time. A scale is drawn with the weight it belongs to.
fn fill(
    tensor: &StoredTensor,
    layout: &FileLayout,
    seed: u64,
    out: &mut dyn Write,
    wrote: &mut dyn FnMut(u64),
) -> std::io::Result<()> {
    let weight =
        tensor.name.strip_suffix("_scale").and_then(|w| layout.tensors().iter().find(|t| t.name == w));
    let (is_scale, drawn) = (weight.is_some(), weight.unwrap_or(tensor));
    let (rows, width) = match drawn.shape.as_slice() {
        [rows, width] => (*rows, *width),
        shape => (1, shape.iter().product()),
    };
    let source = Source::new(&drawn.name, &drawn.shape, seed);
    for first in (0..rows).step_by(ROWS) {
        let block: Vec<Vec<u8>> = (first..rows.min(first + ROWS))
            .into_par_iter()
            .map(|row| {
                let mut values = vec![0.0; width];
                source.row(row, &mut values);
                let values: Vec<bf16> = values.into_iter().map(bf16::from_f32).collect();
                if !is_scale && tensor.dtype == StoredType::BF16 {
                    return values.iter().flat_map(|v| v.to_le_bytes()).collect();
                }
                let mut codes = vec![0; width];
                let scale = fp8::quantize_row_bf16(&values, &mut codes);
                if is_scale { scale.to_le_bytes().to_vec() } else { codes }
            })
            .collect();
        for bytes in &block {
            out.write_all(bytes)?;
        }
        wrote(block.iter().map(|bytes| bytes.len() as u64).sum());
    }
    Ok(())
}

/// What compressed-tensors writes for FP8_DYNAMIC.
fn quantization_config() -> Value {
    json!({
        "quant_method": "compressed-tensors", "format": "float-quantized", "quantization_status": "compressed",
        "config_groups": {"group_0": {
            "targets": ["Linear"],
            "weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true, "dynamic": false},
            "input_activations":
                {"num_bits": 8, "type": "float", "strategy": "token", "symmetric": true, "dynamic": true},
            "output_activations": null
        }}
    })
}

#[cfg(test)]
mod tests;
