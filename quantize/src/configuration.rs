//! `config.json` of an FP8 checkpoint: what compressed-tensors readers look for.

use dikast_core::checkpoint::Expected;
use dikast_core::{Error, Result};
use serde::Serialize as _;
use serde_json::{Value, json};

use crate::plan::{Coding, Plan};

const CONFIG: &str = "config.json";
/// The version of compressed-tensors whose form this is.
const VERSION: &str = "0.20.1";

/// The source's configuration with `quantization_config`, indented as the source is.
pub(crate) fn with_fp8(source: &[u8], plan: &Plan, expected: &Expected) -> Result<Vec<u8>> {
    let mut json: Value =
        serde_json::from_slice(source).map_err(|e| Error::checkpoint(CONFIG, e.to_string()))?;
    let Some(fields) = json.as_object_mut() else {
        return Err(Error::checkpoint(CONFIG, "is no JSON object"));
    };
    fields.shift_remove("quantization_config");
    fields.insert("quantization_config".to_owned(), fp8(plan, expected));
    let indent = " ".repeat(indent(source));
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
    json.serialize(&mut serde_json::Serializer::with_formatter(&mut out, formatter))
        .map_err(|e| Error::Internal(e.to_string()))?;
    if source.ends_with(b"\n") {
        out.push(b'\n');
    }
    Ok(out)
}

/// Spaces before the first key.
fn indent(source: &[u8]) -> usize {
    let second = source.split(|b| *b == b'\n').nth(1).unwrap_or(b"  ");
    second.iter().take_while(|b| **b == b' ').count().clamp(1, 8)
}

fn fp8(plan: &Plan, expected: &Expected) -> Value {
    let common = |dynamic: bool, strategy: &str, observer: Value| {
        json!({
            "actorder": null,
            "block_structure": null,
            "dynamic": dynamic,
            "group_size": null,
            "num_bits": 8,
            "observer": observer,
            "observer_kwargs": {},
            "strategy": strategy,
            "symmetric": true,
            "type": "float",
        })
    };
    json!({
        "config_groups": {
            "group_0": {
                "format": "float-quantized",
                "input_activations": common(true, "token", Value::Null),
                "output_activations": null,
                "targets": ["Linear"],
                "weights": common(false, "channel", "minmax".into()),
            },
        },
        "format": "float-quantized",
        "global_compression_ratio": null,
        "ignore": ignored(plan, expected),
        "kv_cache_scheme": null,
        "quant_method": "compressed-tensors",
        "quantization_status": "compressed",
        "sparsity_config": {},
        "transform_config": {},
        "version": VERSION,
    })
}

/// Linear modules that stay as they are: matrices that could be codes, and those that have a bias or are called
/// projections, which tables have not and are not.
fn ignored(plan: &Plan, expected: &Expected) -> Vec<String> {
    let named = |name: &str| expected.tensors.iter().any(|t| t.name == name);
    let mut modules: Vec<String> = plan
        .items()
        .filter(|i| i.coding == Coding::Plain && i.spec.shape.len() == 2)
        .filter_map(|i| i.spec.name.strip_suffix(".weight").map(|m| (m, !i.spec.companions.is_empty())))
        .filter(|(m, could)| *could || named(&format!("{m}.bias")) || m.ends_with("_proj"))
        .map(|(m, _)| m.to_owned())
        .collect();
    modules.sort();
    modules
}
