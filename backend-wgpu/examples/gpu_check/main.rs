//! Figures of one GPU: ceilings, product shapes in every loop, and the whole forward pass at the full size of GLiClass
//! Multilang Ultra with synthetic FP8 weights: load time, memory, latency, and a profile with each step's share of its own
//! roofline. Parity is the tests' business: run those on the same device first.
//!
//! ```text
//! gpu_check [products] [forward] [all-loops] [quick] [DIR] > report.json
//! gpu_check tune [DIR] > times.json
//! gpu_check int8 [before=FILE] > int8.json
//! gpu_check clef [DIR] > clef.json
//! ```
//!
//! `int8`: products with INT8 weights at the shapes of the 9B, all loops in turns; `before=FILE` times another text of
//! `parts/int8_tile.wgsl` beside the built-in one. `clef`: CLEF of the 9B's shape in INT8 ConvRot instead, its checkpoint (11 GB) in `DIR`. `tune`: nothing but the times of the model's steps with every portable loop. `all-loops`: the products in every loop, not in the chosen one alone. `quick`: fewer sizes.
//! `DIR` gets the synthetic checkpoint (2.3 GB) unless it is there. The report is JSON on standard output, a table goes to
//! standard error. `DIKAST_ADAPTER` chooses the device.
#![allow(clippy::print_stdout, reason = "it is what the example is for")]

mod ceilings;
mod clef;
mod forward;
mod int8;
mod products;
mod roofline;

use std::path::PathBuf;

use dikast_core::Result;
use dikast_wgpu::{DeviceOptions, Matrices, Precision, WgpuBackend};
use serde_json::{Map, Value, json};

/// What is compared: the loops that every device has, and cooperative matrices.
fn paths() -> Vec<(&'static str, DeviceOptions)> {
    let base = DeviceOptions::from_env();
    vec![
        ("cooperative", base.clone()),
        ("portable f16", DeviceOptions { matrices: Matrices::Off, ..base.clone() }),
        ("portable f32", DeviceOptions { precision: Precision::F32, ..base }),
    ]
}

fn main() -> Result<()> {
    let (mut only, mut all_loops, mut quick) = (Vec::new(), false, false);
    let mut dir = std::env::temp_dir().join("dikast-ultra");
    let mut before = None;
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "products" | "forward" | "tune" | "clef" | "int8" => only.push(argument),
            "all-loops" => all_loops = true,
            "quick" => quick = true,
            other => match other.strip_prefix("before=") {
                Some(file) => before = Some(PathBuf::from(file)),
                None => dir = PathBuf::from(other),
            },
        }
    }
    let wanted = |what: &str| only.is_empty() || only.iter().any(|o| o == what);
    let mut report = Map::new();
    report.insert("weights".to_owned(), json!("synthetic: random values at the model's real shapes"));
    let start = std::time::Instant::now();
    let base = pollster::block_on(WgpuBackend::open(&DeviceOptions::from_env()))?;
    report.insert("open_s".to_owned(), json!(start.elapsed().as_secs_f64()));
    if wanted("tune") && !only.is_empty() {
        println!("{}", forward::tune(&base, &dir)?);
        return Ok(());
    }
    if wanted("int8") && !only.is_empty() {
        report.insert("int8".to_owned(), int8::measure(&base, before.as_deref(), quick)?);
        if only.len() == 1 {
            println!("{}", Value::Object(report));
            return Ok(());
        }
    }
    let ceilings = pollster::block_on(ceilings::measure(&base))?;
    report.insert("ceilings".to_owned(), ceilings.report.clone());
    if wanted("clef") && !only.is_empty() {
        report.insert("clef".to_owned(), clef::measure(&base, &dir, &ceilings)?);
    }
    if wanted("products") {
        report.insert("products".to_owned(), products::measure(&base, all_loops, quick)?);
    }
    if wanted("forward") {
        report.insert("forward".to_owned(), forward::measure(&base, &dir, &ceilings, quick)?);
    }
    println!("{}", Value::Object(report));
    Ok(())
}
