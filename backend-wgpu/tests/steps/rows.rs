//! Norms, quantizer, rows moved and pooled.

use dikast_core::checkpoint::StoredType;
use dikast_core::graph::{InputKind, Pool, Residency};

use crate::harness::{Case, Packing, compare, f16_path, f32_path};

const WIDTHS: [usize; 6] = [1, 3, 64, 127, 300, 1100];

#[test]
fn norms() {
    for (i, width) in WIDTHS.into_iter().enumerate() {
        let packing = Packing::new(i as u64, &[(7, 1), (2, 1)]);
        let mut case = Case::new(i as u64, &packing);
        let x = case.random_activations("x", width, 20.0);
        let w = case.norm("w", width);
        let b = case.weight("b", &[width], 1.0, StoredType::F16);
        case.b.rms_norm("rms", x, w, 1e-6);
        case.b.layer_norm("layer", x, w, b, 1e-5);
        let out = case.b.l2_normalize("l2", x, 1e-8);
        // A row of one element is its own mean: what is left is rounding.
        let tolerance = |name: &str| if width == 1 && name == "layer" { 1e-2 } else { 1e-5 };
        compare(&case.finish(out, &packing), &f32_path(), tolerance);
    }
}

#[test]
fn embeddings_from_host_and_device() {
    for dtype in [StoredType::F32, StoredType::F16, StoredType::BF16] {
        for width in [6, 64] {
            let packing = Packing::new(3, &[(7, 1), (12, 1)]);
            let mut case = Case::new(3, &packing);
            let rows = packing.tokens();
            let ids = case.b.input(InputKind::TokenIds);
            let segments = case.b.input(InputKind::SegmentIds);
            let segment_table = case.weight("segments", &[2, width], 1.0, dtype);
            let values = case.normals(rows * width, 1.0);
            let host = case.table("host", [rows, width], &values, dtype, Residency::HostRows);
            case.b.embed("from host", ids, host, None);
            let device = case.table("device", [rows, width], &values, dtype, Residency::Device);
            case.b.embed("from device", ids, device, None);
            let out = case.b.embed("with segments", ids, host, Some((segments, segment_table)));
            // Exact.
            compare(&case.finish(out, &packing), &f16_path(), |_| 0.0);
        }
    }
}

#[test]
fn moved_and_pooled() {
    for (i, width) in WIDTHS.into_iter().enumerate() {
        let packing = Packing::new(i as u64 + 5, &[(11, 3), (6, 0), (9, 5)]);
        let mut case = Case::new(i as u64, &packing);
        let x = case.random_activations("x", width, 2.0);
        let rows = case.b.input(InputKind::TextRows);
        case.b.select_rows("selected", x, rows);
        let spans = case.b.input(InputKind::ClassSpans);
        let classes = case.b.pool_spans("classes", x, spans);
        let spans = case.b.input(InputKind::TextSpans);
        for (name, pool) in [
            ("first", Pool::First),
            ("last", Pool::Last),
            ("avg", Pool::Avg),
            ("sum", Pool::Sum),
            ("max", Pool::Max),
            ("rms", Pool::Rms),
            ("absmax", Pool::AbsMax),
            ("absavg", Pool::AbsAvg),
        ] {
            case.b.pool_text(name, x, spans, pool);
        }
        let text = case.b.pool_text("text", x, spans, Pool::First);
        let owner = case.b.input(InputKind::LabelSequences);
        let other = case.label_rows("other", 5, 1.0);
        case.b.concat("pairs", text, Some(owner), other);
        let out = case.b.concat("side by side", classes, None, other);
        let exact = ["x", "selected", "first", "last", "max", "absmax", "text"];
        compare(&case.finish(out, &packing), &f32_path(), |n| if exact.contains(&n) { 0.0 } else { 2e-6 });
    }
}
