//! Writing a CLEF folder.

use std::path::Path;

use dikast_core::checkpoint::{self, Expected, StoredType, TensorSpec};
use dikast_core::media::ProcessorConfig;
use dikast_core::models::clef::{ClefConfig, expected_tensors};
use dikast_core::numerics::bf16;
use dikast_core::{Error, Result};
use dikast_quantize::{Plan, Rows, SHARD_BYTES, Scheme, Source, write_weights};
use serde_json::Value;

use super::{preset, statistics, tokenizer};
use crate::provenance::Provenance;
use crate::recipe::{CONFIG, Format, PROVENANCE, Recipe, TOKENIZER, TOKENIZER_CONFIG, Written};
use crate::write::io;

const HEAD_CONFIG: &str = "joint_head_config.json";
const PROCESSOR_CONFIG: &str = "processor_config.json";

/// Whether a configuration is that of a CLEF model.
pub(crate) fn is_clef(config: &Value) -> bool {
    config.get("model_type").and_then(Value::as_str) == Some("qwen3_5")
}

/// Writes a model; see [`crate::write()`].
pub(crate) fn write(dir: &Path, recipe: &Recipe, progress: &mut dyn FnMut(u64, u64)) -> Result<Written> {
    let scheme = match recipe.format {
        Format::Bf16 => Scheme::Keep,
        Format::Int8ConvRot { group } => Scheme::Int8ConvRot { group },
        Format::Fp8 => {
            return Err(Error::invalid("quant", "fp8 found, allowed for CLEF: bf16, int8-convrot"));
        }
    };
    let files = small_files(recipe)?;
    let expected = expected(&files)?;
    let numbers = Drawn { seed: recipe.seed };
    let plan = Plan::new(&expected, scheme, SHARD_BYTES, &numbers)?;

    std::fs::create_dir_all(dir).map_err(|e| io(dir, &e))?;
    for (name, bytes) in &files {
        let path = dir.join(name);
        std::fs::write(&path, bytes).map_err(|e| io(&path, &e))?;
    }
    let path = dir.join(PROVENANCE);
    let provenance = Provenance::of(recipe).to_json();
    std::fs::write(&path, format!("{provenance:#}\n")).map_err(|e| io(&path, &e))?;
    let how = checkpoint::Recipe { name: "absmax".to_owned(), version: 1 };
    let written = write_weights(dir, &plan, &how, &numbers, progress)?;
    Ok(Written { bytes: written.bytes, parameters: written.parameters })
}

/// Configurations and tokenizer by name: those of a folder, or those of the releases.
pub(super) fn small_files(recipe: &Recipe) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let mut json = recipe.config.clone();
    if let Some(fields) = json.as_object_mut() {
        fields.remove("quantization_config");
    }
    let pretty = |value: &Value| format!("{value:#}\n").into_bytes();
    let mut all = vec![(CONFIG, pretty(&json))];
    match &recipe.tokenizer {
        Some(files) => {
            for name in [HEAD_CONFIG, PROCESSOR_CONFIG, TOKENIZER] {
                all.push((name, files.read(name)?.bytes().to_vec()));
            }
            all.extend(files.get(TOKENIZER_CONFIG).map(|b| (TOKENIZER_CONFIG, b.bytes().to_vec())));
        }
        None => {
            let hidden = json.pointer("/text_config/hidden_size").unwrap_or(&Value::Null);
            all.push((HEAD_CONFIG, pretty(&preset::head(hidden))));
            all.push((PROCESSOR_CONFIG, pretty(&preset::processor())));
            all.push((TOKENIZER, tokenizer::tokenizer().to_string().into_bytes()));
            all.push((TOKENIZER_CONFIG, pretty(&tokenizer::settings())));
        }
    }
    Ok(all)
}

/// The tensors of these configurations, all of which are read as the engine will read them.
pub(super) fn expected(files: &[(&'static str, Vec<u8>)]) -> Result<Expected> {
    let of =
        |name: &str| files.iter().find(|(n, _)| *n == name).map_or(&[][..], |(_, bytes)| bytes.as_slice());
    ProcessorConfig::from_json(of(PROCESSOR_CONFIG))?;
    Ok(expected_tensors(&ClefConfig::from_json(of(CONFIG), of(HEAD_CONFIG))?))
}

/// Numbers that are drawn when they are asked for.
struct Drawn {
    seed: u64,
}

impl Source for Drawn {
    fn open<'a>(&'a self, spec: &'a TensorSpec) -> Result<Box<dyn Rows + 'a>> {
        let width = if spec.shape.len() < 2 {
            spec.shape.iter().product()
        } else {
            spec.shape.iter().skip(1).product()
        };
        Ok(Box::new(DrawnRows(statistics::source(&spec.name, &spec.shape, width, self.seed))))
    }
}

struct DrawnRows(crate::statistics::Source);

impl Rows for DrawnRows {
    fn dtype(&self) -> StoredType {
        StoredType::BF16
    }

    fn row(&self, row: usize, out: &mut [f32]) {
        self.0.row(row, out);
        // So that codes of this seed are the codes of its BF16 weights.
        out.iter_mut().for_each(|v| *v = bf16::round(*v));
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
