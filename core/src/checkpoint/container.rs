//! The header of one safetensors file.

use std::collections::BTreeMap;
use std::ops::Range;

use safetensors::Dtype;
use safetensors::tensor::Metadata;

use crate::{Error, Result};

/// Header bytes allowed: thousands of tensors need a few hundred kilobytes.
const MAX_HEADER_BYTES: u64 = 8 << 20;

/// Where a tensor stands in its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    /// Bytes of the file; in bounds, and `shape product × dtype` long.
    pub(super) range: Range<usize>,
}

/// A parsed header.
#[derive(Debug, Clone, Default)]
pub(super) struct Container {
    pub(super) entries: BTreeMap<String, Entry>,
    pub(super) metadata: BTreeMap<String, String>,
}

/// Reads the header of a file. The `safetensors` crate parses and validates it (offsets without holes or overlaps,
/// sizes that fit the shapes); the frame around it is checked here, without arithmetic that could wrap.
///
/// # Errors
/// [`Error::Checkpoint`] naming the file.
pub(super) fn parse(file: &str, bytes: &[u8]) -> Result<Container> {
    let fail = |message: String| Error::checkpoint(file, message);
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(fail(format!("not a safetensors file: {} bytes found, at least 8 needed", bytes.len())));
    };
    let length = u64::from_le_bytes(*length);
    if length > MAX_HEADER_BYTES {
        return Err(fail(format!("header of {length} bytes found, {MAX_HEADER_BYTES} allowed")));
    }
    let Some((header, data)) = usize::try_from(length).ok().and_then(|n| rest.split_at_checked(n)) else {
        return Err(fail(format!(
            "header of {length} bytes found, but only {} bytes follow; truncated?",
            rest.len()
        )));
    };
    let parsed: Metadata =
        serde_json::from_slice(header).map_err(|e| fail(format!("bad safetensors header: {e}")))?;
    if parsed.data_len() != data.len() {
        let (says, has) = (parsed.data_len(), data.len());
        return Err(fail(format!(
            "the header describes {says} bytes of tensors, the file has {has}; truncated?"
        )));
    }
    let start = bytes.len() - data.len();
    let entries = parsed.tensors().into_iter().map(|(name, info)| {
        let (from, to) = info.data_offsets;
        // No overflow: the last offset is the length of `data`, and the crate has checked that they ascend.
        (name, Entry { dtype: info.dtype, shape: info.shape.clone(), range: start + from..start + to })
    });
    let metadata = parsed.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
    Ok(Container { entries: entries.collect(), metadata })
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn file(header: &str, data: usize) -> Vec<u8> {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(header.as_bytes());
        bytes.resize(bytes.len() + data, 0);
        bytes
    }

    #[test]
    fn reads_entries_and_metadata() {
        let header = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},
            "b":{"dtype":"F32","shape":[],"data_offsets":[6,10]}}"#;
        let c = parse("f", &file(header, 10)).expect("valid");
        assert_eq!(c.metadata["format"], "pt");
        assert_eq!(c.entries["a"].shape, [3]);
        assert_eq!(c.entries["b"].range, 8 + header.len() + 6..8 + header.len() + 10);
    }

    #[test]
    fn refuses_what_does_not_fit() {
        let one = r#"{"a":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]}}"#;
        let cases = [
            (vec![1, 2, 3], "at least 8"),
            (u64::MAX.to_le_bytes().to_vec(), "allowed"),
            (file(one, 6)[..20].to_vec(), "truncated"),
            (file(one, 5), "truncated"),
            (file(one, 7), "the file has 7"),
            (file("{", 0), "header"),
            (file(&one.replace("BF16", "BF17"), 6), "header"),
            (file(&one.replace("[3]", "[4]"), 6), "header"),
            (file(&one.replace("[3]", "[-3]"), 6), "header"),
            (file(&one.replace("[3]", "[18446744073709551615,18446744073709551615]"), 6), "header"),
            (file(&one.replace("[0,6]", "[6,12]"), 12), "header"),
            (file(&one.replace("[0,6]", "[6,0]"), 6), "header"),
            (
                file(
                    r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}"#,
                    3,
                ),
                "header",
            ),
        ];
        for (bytes, needle) in cases {
            let error = parse("f.safetensors", &bytes).expect_err(needle).to_string();
            assert!(
                error.starts_with("checkpoint: f.safetensors: ") && error.contains(needle),
                "{error} / {needle}"
            );
        }
    }

    #[test]
    fn sizes_that_add_up_to_almost_the_whole_address_space() {
        // Eight tensors of 2^61 - 1 bytes: each fits, and the sum plus the header would wrap.
        let size = usize::MAX / 8;
        let one = |i: usize| {
            format!(
                r#""t{i}":{{"dtype":"U8","shape":[{size}],"data_offsets":[{},{}]}}"#,
                i * size,
                (i + 1) * size
            )
        };
        let header = format!("{{{}}}", (0..8).map(one).collect::<Vec<_>>().join(","));
        assert!(parse("f", &file(&header, 4)).is_err());
    }
}
