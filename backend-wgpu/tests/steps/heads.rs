//! The scorers' own steps and the LSTM.

use dikast_core::checkpoint::StoredType;
use dikast_core::graph::{InputKind, LstmDirection};

use crate::harness::{Case, Packing, compare, f16_path, f32_path};

fn packing(seed: u64) -> Packing {
    Packing::new(seed, &[(11, 3), (6, 0), (9, 5), (30, 11)])
}

#[test]
fn scorers() {
    for width in [2, 6, 64, 190, 1026] {
        let packing = packing(width as u64);
        let mut case = Case::new(width as u64, &packing);
        let scale = 1.0 / (width as f32).sqrt();
        let text = case.sequence_rows("text", width, 3.0 * scale);
        let value = case.sequence_rows("value", width, 1.0);
        let classes = case.label_rows("classes", width, 1.0);
        let query = case.label_rows("query", width, 1.0);
        let owner = case.b.input(InputKind::LabelSequences);
        let offsets = case.b.input(InputKind::LabelOffsets);
        case.b.pair_product("pairs", text, classes, owner);
        case.b.hopfield_mix("mixed", (query, text, value), classes, offsets, 4.0);
        let dots = case.b.dot("dots", text, classes, owner);
        let by = case.given("by", &[], &[14.25], StoredType::BF16);
        case.b.scale("scaled rows", classes, by);
        let out = case.b.scale("scaled", dots, by);
        compare(&case.finish(out, &packing), &f32_path(), |name| match name {
            "pairs" | "scaled rows" => 2e-6,
            _ => 1e-5,
        });
    }
}

#[test]
fn lstm() {
    for (width, hidden, dtype) in [
        (5, 3, StoredType::F32),
        (16, 8, StoredType::BF16),
        (70, 33, StoredType::F16),
        (24, 300, StoredType::F32),
    ] {
        let packing = packing(hidden as u64);
        let mut case = Case::new(hidden as u64, &packing);
        let x = case.random_activations("x", width, 1.0);
        let mut direction = |suffix: &str| LstmDirection {
            input: case.weight(&format!("ih{suffix}"), &[4 * hidden, width], 0.3, dtype),
            hidden: case.weight(&format!("hh{suffix}"), &[4 * hidden, hidden], 0.2, dtype),
            input_bias: case.weight(&format!("bi{suffix}"), &[4 * hidden], 0.5, dtype),
            hidden_bias: case.weight(&format!("bh{suffix}"), &[4 * hidden], 0.5, dtype),
        };
        let directions = (direction(""), direction("_reverse"));
        let rows = case.b.input(InputKind::TextRows);
        let text = case.b.select_rows("text", x, rows);
        let (offsets, lengths) = (case.b.input(InputKind::TextOffsets), case.b.input(InputKind::TextLengths));
        let out = case.b.bi_lstm("lstm", text, (offsets, lengths), directions);
        let ready = case.finish(out, &packing);
        // The recurrence carries rounding along.
        compare(&ready, &f32_path(), |_| 5e-5);
        compare(&ready, &f16_path(), |_| 5e-3);
    }
}
