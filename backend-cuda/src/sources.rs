//! The kernels' sources, compiled in.

use std::collections::HashSet;

use dikast_core::{Error, Result};
use sha2::{Digest, Sha256};

/// A kernel that a build embedded.
#[derive(Debug)]
pub(super) struct Embedded {
    pub(super) name: &'static str,
    pub(super) target: &'static str,
    pub(super) image: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

macro_rules! sources {
    ($($file:literal),* $(,)?) => {
        static SOURCES: &[(&str, &str)] =
            &[$(($file, include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels/", $file)))),*];
    };
}

sources![
    "ahead.cuh",
    "attention.cu",
    "attention.cuh",
    "attention_half.cu",
    "base.cuh",
    "bi_lstm.cu",
    "causal_conv.cu",
    "convert.cuh",
    "embed.cu",
    "epilogue.cuh",
    "joint.cu",
    "causal_attention.cu",
    "causal_attention.cuh",
    "causal_attention_f32.cu",
    "convert.cuh",
    "embed.cu",
    "epilogue.cuh",
    "head_rotary.cu",
    "gated_delta.cuh",
    "gated_delta_chunks.cu",
    "gated_delta_state.cu",
    "l2_normalize.cu",
    "layer_norm.cu",
    "linear.cu",
    "mbarrier.cuh",
    "media.cu",
    "mma.cuh",
    "pipeline.cuh",
    "pool.cu",
    "prefix_rows.cu",
    "quantize.cu",
    "rms_norm.cu",
    "rms_norm_quantize.cu",
    "rotate.cuh",
    "rotate_quantize.cu",
    "rotate_quantize_gate.cu",
    "row.cuh",
    "row_op.cu",
    "row_op.cuh",
    "score.cu",
    "select_rows.cu",
    "sm89_fp8_gemm.cu",
    "sm89_int8_gemm.cu",
    "sm90_attention_half.cu",
    "sm90_causal_attention.cu",
    "sm90_fp8_few.cu",
    "sm90_fp8_gemm.cu",
    "sm90_gated_delta_state.cu",
    "sm90_half_gemm.cu",
    "sm90_int8_gemm.cu",
    "sm90_linear.cu",
    "sm90_split_linear.cu",
    "span.cuh",
    "split_rows.cu",
    "split_rows.cuh",
    "stream.cuh",
    "tensor_copy.cuh",
    "tile.cuh",
    "tile_halves.cu",
    "tile_rows.cu",
    "warpgroup_gemm.cuh",
    "wgmma.cuh",
    "wgmma_attention.cuh",
    "wgmma_delta.cuh",
    "wgmma_half.cuh",
    "wgmma_int8.cuh",
];

fn file(name: &str) -> Result<&'static str> {
    SOURCES
        .iter()
        .find(|(n, _)| *n == name)
        .map(|(_, text)| *text)
        .ok_or_else(|| Error::Internal(format!("there is no kernel file {name}")))
}

/// The source of a kernel with its headers in place, so that the run-time compiler needs no files.
pub(super) fn assembled(kernel: &str) -> Result<String> {
    let mut out = String::new();
    append(&format!("{kernel}.cu"), &mut HashSet::new(), &mut out)?;
    Ok(out)
}

fn append(name: &str, seen: &mut HashSet<String>, out: &mut String) -> Result<()> {
    if !seen.insert(name.to_owned()) {
        return Ok(());
    }
    for line in file(name)?.lines() {
        match line.strip_prefix("#include \"").and_then(|rest| rest.strip_suffix('"')) {
            Some(header) => append(header, seen, out)?,
            None if line == "#pragma once" => {}
            None => {
                out.push_str(line);
                out.push('\n');
            }
        }
    }
    Ok(())
}

/// SHA-256 of a source and the compiler's options, as hexadecimal digits.
pub(super) fn key(source: &str, options: &[String], compiler: i32) -> String {
    let mut hash = Sha256::new();
    hash.update(source);
    for option in options {
        hash.update([0]);
        hash.update(option);
    }
    hash.update(compiler.to_le_bytes());
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// Digest of all sources: part of an answer's receipt.
pub(super) fn digest() -> String {
    let all: String = SOURCES.iter().map(|(name, text)| format!("{name}\n{text}")).collect();
    key(&all, &[], 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_assembles_without_includes() {
        for (name, _) in SOURCES.iter().filter(|(n, _)| n.ends_with(".cu")) {
            let source = assembled(name.trim_end_matches(".cu")).expect("assembles");
            assert!(!source.contains("#include"), "{name}");
            assert!(source.contains("extern \"C\" __global__"), "{name}");
            assert_eq!(source.matches("DEVICE void release_successor()").count(), 1, "{name}");
        }
    }

    #[test]
    fn every_file_is_listed() {
        let listed: HashSet<&str> = SOURCES.iter().map(|(n, _)| *n).collect();
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../kernels");
        for entry in std::fs::read_dir(folder).expect("the kernels are there") {
            let name = entry.expect("readable").file_name().into_string().expect("UTF-8");
            if name.ends_with(".cu") || name.ends_with(".cuh") {
                assert!(listed.contains(name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn keys_differ_by_source_options_and_compiler() {
        let keys = [
            key("a", &[], 0),
            key("b", &[], 0),
            key("a", &["b".to_owned()], 0),
            key("a", &[String::new()], 0),
            key("a", &[], 1),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
        assert!(keys.iter().all(|k| k.len() == 64));
        assert_eq!(digest().len(), 64);
    }
}
