//! Damaged and malicious model files: an answer or an error, never a panic.

use std::sync::Arc;

use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, TensorSpec, Weights};
use dikast_core::models::gliclass::{GliClassConfig, expected_tensors};
use proptest::prelude::*;
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};
use serde_json::{Value, json};

fn cases(n: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(n) }
}

fn expected() -> Expected {
    Expected {
        tensors: vec![
            TensorSpec::projection("p", 4, 8),
            TensorSpec::projection("q", 2, 3),
            TensorSpec::float("v", [5]),
            TensorSpec::float("s", []),
        ],
        ignored: vec!["position_embeddings".to_owned()],
        ..Expected::default()
    }
}

fn valid() -> Vec<u8> {
    let zeros = [0u8; 64];
    let ones = [0x80, 0x3F].repeat(4);
    let view =
        |dtype, shape: &[usize], data| TensorView::new(dtype, shape.to_vec(), data).expect("consistent");
    let tensors = [
        ("p.weight", view(Dtype::F8_E4M3, &[4, 8], &zeros[..32])),
        ("p.weight_scale", view(Dtype::BF16, &[4, 1], &ones)),
        ("q.weight", view(Dtype::BF16, &[2, 3], &zeros[..12])),
        ("v", view(Dtype::F32, &[5], &zeros[..20])),
        ("s", view(Dtype::F16, &[], &zeros[..2])),
    ];
    serialize(tensors, None).expect("serializable")
}

fn files(list: &[(&str, &[u8])]) -> ModelFiles {
    let own = |(name, bytes): &(&str, &[u8])| ((*name).to_owned(), Blob::Owned(Arc::new(bytes.to_vec())));
    ModelFiles::from_memory("hostile", list.iter().map(own))
}

/// Opens; what opens must be what was expected.
fn open(bytes: &[u8]) -> bool {
    let files = files(&[("model.safetensors", bytes)]);
    for checks in [Checks::ALL, Checks::HEADERS] {
        let Ok(weights) = Weights::open(&files, &expected(), checks) else { return false };
        for spec in expected().tensors {
            let view = weights.tensor(&spec.name).expect("checked");
            assert_eq!(view.shape, spec.shape);
            assert_eq!(view.bytes.len(), spec.shape.iter().product::<usize>() * view.dtype.bytes());
            assert!(checks == Checks::HEADERS || view.to_f32().iter().all(|v| v.is_finite()));
        }
    }
    true
}

#[test]
fn the_base_of_the_mutations_is_valid() {
    assert!(open(&valid()));
}

/// A number that a header may lie with.
fn liar() -> impl Strategy<Value = Value> {
    prop_oneof![
        (0u64..80).prop_map(Value::from),
        prop::sample::select(vec![
            json!(u64::MAX),
            json!(u64::MAX / 2),
            json!(1u64 << 61),
            json!(1u64 << 32),
            json!(u64::MAX / 8),
            json!(-1),
            json!(1.5),
            json!(1e30),
            json!(null),
            json!("8"),
            json!([]),
            json!({}),
        ]),
    ]
}

fn header(bytes: &[u8]) -> (Value, &[u8]) {
    let (length, rest) = bytes.split_first_chunk::<8>().expect("long enough");
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    (serde_json::from_slice(header).expect("valid"), data)
}

fn frame(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// Replaces the leaf that `at` selects, counted over all leaves; returns the old value.
fn replace_leaf(value: &mut Value, at: usize, new: &Value) -> Option<Value> {
    fn leaves(value: &Value) -> usize {
        match value {
            Value::Array(a) if !a.is_empty() => a.iter().map(leaves).sum(),
            Value::Object(o) if !o.is_empty() => o.values().map(leaves).sum(),
            _ => 1,
        }
    }
    fn walk(value: &mut Value, at: &mut usize, new: &Value) -> Option<Value> {
        match value {
            Value::Array(a) if !a.is_empty() => a.iter_mut().find_map(|v| walk(v, at, new)),
            Value::Object(o) if !o.is_empty() => o.values_mut().find_map(|v| walk(v, at, new)),
            leaf if *at == 0 => Some(std::mem::replace(leaf, new.clone())),
            _ => {
                *at -= 1;
                None
            }
        }
    }
    let mut at = at % leaves(value);
    walk(value, &mut at, new)
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn damaged_bytes(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6), cut in any::<prop::sample::Index>(), truncate in any::<bool>()) {
        let mut bytes = valid();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if truncate {
            bytes.truncate(cut.index(bytes.len()));
        }
        open(&bytes);
    }

    #[test]
    fn lying_headers(lies in prop::collection::vec((any::<usize>(), liar()), 1..4)) {
        let base = valid();
        let (mut header, data) = header(&base);
        for (at, value) in lies {
            replace_leaf(&mut header, at, &value);
        }
        open(&frame(&header.to_string(), data));
    }

    #[test]
    fn offsets_with_holes_and_overlaps(offsets in prop::collection::vec(0u64..90, 10), dtype in prop::sample::select(vec!["F32", "BF16", "F8_E4M3", "F4", "U8", "BOOL", "C64", "Q9"])) {
        let base = valid();
        let (mut header, data) = header(&base);
        for (tensor, pair) in header.as_object_mut().expect("object").values_mut().zip(offsets.chunks(2)) {
            tensor["data_offsets"] = json!(pair);
        }
        header["v"]["dtype"] = dtype.into();
        open(&frame(&header.to_string(), data));
    }

    #[test]
    fn lying_lengths(length in prop_oneof![any::<u64>(), 0u64..1000]) {
        let mut bytes = valid();
        bytes[..8].copy_from_slice(&length.to_le_bytes());
        let same = bytes == valid();
        prop_assert_eq!(open(&bytes), same);
    }

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..64), header in "[\\[\\]{}:,\"0-9a-z_]{0,40}") {
        prop_assert!(!open(&bytes));
        open(&frame(&header, &bytes));
    }

    #[test]
    fn arbitrary_sums(list in "([0-9a-f]{64}|[0-9a-fx]{60,66})( |  | \\*|\t)(model.safetensors|\\./model.safetensors|x|)(\n|\r\n|)", bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let model = valid();
        for list in [list.as_bytes(), &bytes] {
            let files = files(&[("model.safetensors", &model), ("SHA256SUMS", list)]);
            let _ = Weights::open(&files, &expected(), Checks::ALL);
            let _ = files.read("model.safetensors");
        }
    }

    #[test]
    fn lying_indexes(lies in prop::collection::vec((any::<usize>(), prop_oneof![
        liar(),
        prop::sample::select(vec!["model.safetensors", "../model.safetensors", "x.safetensors", "a/b.safetensors", ""]).prop_map(Value::from),
    ]), 0..3)) {
        let model = valid();
        let names = ["p.weight", "p.weight_scale", "q.weight", "v", "s"];
        let map: serde_json::Map<_, _> = names.iter().map(|n| ((*n).to_owned(), "model.safetensors".into())).collect();
        let mut index = json!({ "weight_map": map });
        let untouched = lies.is_empty();
        for (at, value) in lies {
            replace_leaf(&mut index, at, &value);
        }
        let index = index.to_string();
        let files = files(&[("model.safetensors", &model), ("model.safetensors.index.json", index.as_bytes())]);
        let opened = Weights::open(&files, &expected(), Checks::ALL);
        prop_assert!(opened.is_ok() || !untouched);
    }
}

proptest! {
    #![proptest_config(cases(10_000))]

    #[test]
    fn lying_configurations(lies in prop::collection::vec((any::<usize>(), prop_oneof![
        liar(),
        any::<bool>().prop_map(Value::from),
        (0u64..5000).prop_map(Value::from),
        prop::sample::select(vec!["pass", "first", "cross-attn", "mlp", "gelu", "t5", "mt5", "fixed", "average", "é\u{0}"]).prop_map(Value::from),
    ]), 1..4)) {
        let mut config: Value = serde_json::from_str(CONFIG).expect("valid");
        for (at, value) in lies {
            replace_leaf(&mut config, at, &value);
        }
        if let Ok(config) = GliClassConfig::from_json(config.to_string().as_bytes()) {
            // Whatever is accepted has a finite, consistent tensor list.
            let list = expected_tensors(&config).stored(|spec| spec.allowed[spec.allowed.len() - 1]);
            prop_assert!(list.iter().all(|t| t.bytes() > 0 && t.bytes() < 1 << 43));
        }
    }

    #[test]
    fn damaged_configurations(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)) {
        let mut bytes = CONFIG.as_bytes().to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let _ = GliClassConfig::from_json(&bytes);
    }
}

const CONFIG: &str = include_str!("../../tests/data/gliclass-tiny/mt5-fp8/config.json");
