//! Writing a model folder.

use std::io::{BufWriter, Write};
use std::path::Path;

use dikast_core::checkpoint::{FileLayout, StoredTensor, StoredType};
use dikast_core::models::gliclass::{GliClassConfig, expected_tensors};
use dikast_core::numerics::fp8;
use dikast_core::{Error, Result};
use half::bf16;
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::statistics::Source;
use crate::tokenizer::tokenizer;

/// How the encoder's projections are stored; everything else is BF16.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// BF16.
    Bf16,
    /// E4M3 codes with a BF16 scale per output channel (compressed-tensors FP8_DYNAMIC).
    Fp8,
}

/// Rows drawn at once: what is in memory of a tensor.
const ROWS: usize = 1024;

/// Writes `config.json`, `tokenizer.json` and `model.safetensors` of a GLiClass model into `dir`; returns the bytes of
/// the weights. `progress` gets bytes done and bytes in all.
///
/// # Errors
/// [`Error::Io`] when the folder cannot be written; errors of the configuration.
pub fn write(
    dir: &Path,
    config: &Value,
    format: Format,
    seed: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<u64> {
    let io = |path: &Path| {
        let path = path.display().to_string();
        move |e: std::io::Error| Error::Io { path: path.clone(), message: e.to_string() }
    };
    let mut json = config.clone();
    if format == Format::Fp8 {
        json["quantization_config"] = quantization_config();
    }
    let text = serde_json::to_vec_pretty(&json).map_err(|e| Error::Internal(e.to_string()))?;
    let parsed = GliClassConfig::from_json(&text)?;
    std::fs::create_dir_all(dir).map_err(io(dir))?;
    let put = |name: &str, bytes: &[u8]| {
        let path = dir.join(name);
        std::fs::write(&path, bytes).map_err(io(&path))
    };
    put("config.json", &text)?;
    let markers = [parsed.class_token_index, parsed.text_token_index, parsed.example_token_index];
    let pieces = markers.into_iter().min().unwrap_or(0) as usize;
    put("tokenizer.json", tokenizer(pieces, markers).to_string().as_bytes())?;

    let stored = expected_tensors(&parsed).stored(|spec| {
        let quantized = format == Format::Fp8 && !spec.companions.is_empty();
        if quantized { StoredType::F8E4M3 } else { StoredType::BF16 }
    });
    let layout = FileLayout::new(stored)?;
    let path = dir.join("model.safetensors");
    let file = std::fs::File::create(&path).map_err(io(&path))?;
    let mut done = 0;
    layout.write(&mut BufWriter::with_capacity(1 << 20, file), |tensor, out| {
        fill(tensor, &layout, seed, out)?;
        done += tensor.bytes();
        progress(done, layout.file_bytes());
        Ok(())
    })?;
    Ok(layout.file_bytes())
}

/// The bytes of one tensor, a few rows at a time. A scale is drawn with the weight it belongs to.
fn fill(tensor: &StoredTensor, layout: &FileLayout, seed: u64, out: &mut dyn Write) -> std::io::Result<()> {
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
        for bytes in block {
            out.write_all(&bytes)?;
        }
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
mod tests {
    use super::*;
    use crate::preset;
    use dikast_core::checkpoint::ModelFiles;
    use dikast_core::models::gliclass::GliClass;

    fn tiny() -> Value {
        let mut config = preset("gliclass-multilang-ultra").expect("a preset");
        let encoder = &mut config["encoder_config"];
        for (key, value) in [
            ("vocab_size", 403),
            ("d_model", 64),
            ("d_ff", 96),
            ("d_kv", 16),
            ("num_heads", 4),
            ("num_layers", 2),
        ] {
            encoder[key] = value.into();
        }
        for (key, value) in [
            ("vocab_size", 403),
            ("hidden_size", 64),
            ("class_token_index", 400),
            ("text_token_index", 401),
            ("example_token_index", 402),
            ("scorer_mlp_hidden_size", 32),
        ] {
            config[key] = value.into();
        }
        config
    }

    #[test]
    fn a_synthetic_checkpoint_loads_and_is_the_same_for_the_same_seed() {
        let dir = tempfile::tempdir().expect("a folder");
        for (format, name) in [(Format::Bf16, "BF16"), (Format::Fp8, "FP8 W8A8")] {
            let write = |folder: &str, seed| {
                let path = dir.path().join(format!("{name}-{folder}"));
                let bytes = write(&path, &tiny(), format, seed, &mut |_, _| {}).expect("it is written");
                let file = std::fs::read(path.join("model.safetensors")).expect("the file");
                assert_eq!(file.len() as u64, bytes);
                let model = GliClass::load(&ModelFiles::open(&path).expect("the folder")).expect("it loads");
                assert_eq!(model.format(), name);
                file
            };
            let first = write("a", 1);
            assert_eq!(first, write("b", 1));
            assert_ne!(first, write("c", 2));
        }
    }

    #[test]
    fn the_published_sizes_are_met() {
        let config = preset("gliclass-multilang-ultra").expect("a preset").to_string();
        let expected = expected_tensors(&GliClassConfig::from_json(config.as_bytes()).expect("valid"));
        let bytes = |fp8: bool| {
            let choose = |t: &dikast_core::checkpoint::TensorSpec| {
                if fp8 && !t.companions.is_empty() { StoredType::F8E4M3 } else { StoredType::BF16 }
            };
            FileLayout::new(expected.stored(choose)).expect("a layout").file_bytes()
        };
        assert_eq!((bytes(true), bytes(false)), (2_259_902_516, 3_416_522_340));
    }
}
