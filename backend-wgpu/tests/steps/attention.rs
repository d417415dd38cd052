//! Attention: self and cross, with and without bias, heads of odd and large widths.

use dikast_core::checkpoint::StoredType;
use dikast_core::graph::{Columns, InputKind, RelativeBias};

use crate::harness::{Case, Packing, compare, f32_path};

/// Scores of several units: the exponential magnifies rounding.
const TOLERANCE: f32 = 2e-5;

#[test]
fn self_attention_with_relative_bias() {
    for (i, (heads, head_dim, lengths)) in [
        (2, 64, &[(40, 1), (1, 1), (97, 1)][..]),
        (3, 5, &[(33, 1), (32, 1)]),
        (1, 33, &[(31, 1), (64, 1), (3, 1)]),
        (2, 130, &[(50, 1)]),
    ]
    .into_iter()
    .enumerate()
    {
        let packing = Packing::new(i as u64, lengths);
        let mut case = Case::new(i as u64, &packing);
        let inner = heads * head_dim;
        let qkv = case.random_activations("qkv", 3 * inner, 0.6);
        let part = |n: usize| Columns { tensor: qkv, start: n * inner, width: inner };
        // Saturates inside the longest sequence.
        let bias = RelativeBias {
            table: case.weight("bias", &[32, heads], 2.0, StoredType::BF16),
            buckets: 32,
            max_distance: 20,
        };
        let far = RelativeBias { max_distance: 1 << 40, ..bias };
        let offsets = case.b.input(InputKind::SequenceOffsets);
        let attended = case.b.input(InputKind::AttendedLengths);
        let qkv = (part(0), part(1), part(2));
        let shape = (heads, head_dim);
        case.b.attention("biased", qkv, (offsets, offsets), Some(attended), shape, 1.0, Some(bias));
        case.b.attention("far", qkv, (offsets, offsets), Some(attended), shape, 0.5, Some(far));
        let out = case.b.attention("plain", qkv, (offsets, offsets), None, shape, 0.3, None);
        let error = compare(&case.finish(out, &packing), &f32_path(), |_| TOLERANCE);
        println!("{heads} × {head_dim} {lengths:?}: {error:.1e}");
    }
}

#[test]
fn cross_attention_of_labels_over_text() {
    let packing = Packing::new(9, &[(40, 3), (5, 0), (70, 40)]);
    let mut case = Case::new(9, &packing);
    let (heads, head_dim) = (4, 12);
    let inner = heads * head_dim;
    let q = case.label_rows("q", inner, 1.0);
    let x = case.random_activations("x", inner, 1.0);
    let y = case.random_activations("y", inner + 3, 1.0);
    let rows = case.b.input(InputKind::TextRows);
    let k = case.b.select_rows("k", x, rows);
    let v = case.b.select_rows("v", y, rows);
    let offsets = (case.b.input(InputKind::LabelOffsets), case.b.input(InputKind::TextOffsets));
    let lengths = case.b.input(InputKind::TextLengths);
    let operands = (case.b.columns(q), case.b.columns(k), Columns { tensor: v, start: 3, width: inner });
    let out = case.b.attention("context", operands, offsets, Some(lengths), (heads, head_dim), 0.28, None);
    compare(&case.finish(out, &packing), &f32_path(), |_| TOLERANCE);
}

/// A sequence none of whose keys count: its queries get zeros.
#[test]
fn queries_without_keys() {
    let mut packing = Packing::new(2, &[(6, 1), (9, 1)]);
    packing.sequences[0].attended = 0;
    let mut case = Case::new(2, &packing);
    let x = case.random_activations("x", 8, 1.0);
    let offsets = case.b.input(InputKind::SequenceOffsets);
    let attended = case.b.input(InputKind::AttendedLengths);
    let all = case.b.columns(x);
    let out = case.b.attention("out", (all, all, all), (offsets, offsets), Some(attended), (2, 4), 1.0, None);
    compare(&case.finish(out, &packing), &f32_path(), |_| TOLERANCE);
}
