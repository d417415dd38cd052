//! CLEF's own steps in f32, and the products behind them in f16; odd sizes, several sequences.

use dikast_core::backend::Backend;
use dikast_core::checkpoint::StoredType;
use dikast_core::graph::{
    Activation, Columns, DeltaHeads, Frequency, Heads, InputKind, JointScales, JointScore, Residency,
    RotaryHeads, RowOp, Symbol,
};
use dikast_wgpu::DeviceOptions;

use crate::clef_inputs::{MERGE, PATCH_VALUES, POSITIONS, TYPES, VOCABULARY, rows};
use crate::device::roomy;
use crate::harness::{Case, Packing, Ready, bits, compare, f16_path, f32_path, open, run};

fn packing(seed: u64) -> Packing {
    Packing::new(seed, &[(40, 3), (1, 1), (97, 9), (12, 0), (33, 4), (64, 2)])
}

#[test]
fn row_functions() {
    for (i, (heads, width)) in [(1, 5), (3, 20), (2, 128), (5, 300)].into_iter().enumerate() {
        let packing = packing(i as u64);
        let mut case = Case::new(i as u64, &packing);
        let d = heads * width;
        let x = case.random_activations("x", d, 3.0);
        let g = case.random_activations("g", 2 * d + 3, 2.0);
        let w = case.weight("w", &[d], 0.3, StoredType::BF16);
        case.b.row_op("rms", RowOp::RmsNorm { x, weight: w, eps: 1e-6 });
        let w = case.norm("head", width);
        let gate = Columns { tensor: g, start: 3, width: d };
        case.b.row_op("gated", RowOp::GatedRmsNorm { x, gate, weight: w, eps: 1e-6 });
        let gate = Heads { tensor: g, start: width, stride: 2 * width, width, count: heads };
        case.b.row_op("sigmoid", RowOp::SigmoidGate { x, gate });
        let out = case.b.row_op("copy", RowOp::Copy { x });
        let tolerance = |name: &str| if name == "copy" { 0.0 } else { 5e-6 };
        let error = compare(&case.finish(out, &packing), &f32_path(), tolerance);
        println!("{heads} × {width}: {error:.1e}");
    }
}

#[test]
fn silu_behind_products() {
    for (options, tolerance) in [(f32_path(), 1e-5), (f16_path(), 4e-3)] {
        let packing = packing(1);
        let mut case = Case::new(1, &packing);
        let (d, n) = (70, 52);
        let x = case.random_activations("x", d, 1.0);
        let norm = case.weight("norm", &[d], 0.2, StoredType::BF16);
        let x = case.b.row_op("normed", RowOp::RmsNorm { x, weight: norm, eps: 1e-6 });
        let w = case.weight("w", &[n, d], 0.2, StoredType::BF16);
        case.b.linear("linear", x, w, None, Some(Activation::Silu), None);
        let w = case.weight("wg", &[2 * n, d], 0.2, StoredType::BF16);
        let out = case.b.linear_gated("gated", x, w, Activation::Silu);
        let error = compare(&case.finish(out, &packing), &options, |_| tolerance);
        println!("{error:.1e}");
    }
}

/// A mixer of each kind, from its projected rows on.
fn mixers(seed: u64, packing: &Packing, sizes: (usize, usize, usize, usize)) -> Ready {
    let (key_heads, value_heads, key_dim, value_dim) = sizes;
    let mut case = Case::new(seed, packing);
    let channels = 2 * key_heads * key_dim + value_heads * value_dim;
    let rows = case.random_activations("rows", channels + 6, 1.0);
    let gates = case.random_activations("gates", 2 * value_heads, 3.0);
    let offsets = case.b.input(InputKind::SequenceOffsets);
    let taps = case.weight("taps", &[channels, 1, 4], 0.4, StoredType::BF16);
    let x = Columns { tensor: rows, start: 2, width: channels };
    let conv = case.b.causal_conv("conv", x, taps, offsets);
    let decay = case.weight("decay", &[value_heads], 1.5, StoredType::F32);
    let decay_bias = case.weight("decay bias", &[value_heads], 2.0, StoredType::BF16);
    let heads = DeltaHeads { decay, decay_bias, key_heads, value_heads, key_dim, value_dim };
    let out = case.b.gated_delta("delta", conv, gates, offsets, heads);
    case.finish(out, packing)
}

#[test]
fn convolution_and_delta_rule() {
    for (i, sizes) in [(1, 1, 4, 4), (2, 6, 32, 32), (2, 2, 20, 12), (1, 2, 128, 128), (3, 3, 7, 19)]
        .into_iter()
        .enumerate()
    {
        let packing = packing(i as u64);
        // The inverse of the device and the substitution of the CPU round differently.
        let tolerance = |name: &str| if name == "conv" { 2e-6 } else { 2e-5 };
        let error = compare(&mixers(i as u64, &packing, sizes), &f32_path(), tolerance);
        println!("{sizes:?}: {error:.1e}");
    }
}

/// Decay that keeps everything, and decay that forgets at once.
#[test]
fn long_memories_and_short_ones() {
    for (i, bias) in [-30.0f32, 30.0].into_iter().enumerate() {
        let packing = Packing::new(i as u64, &[(200, 1), (31, 1)]);
        let mut case = Case::new(i as u64, &packing);
        let x = case.random_activations("x", 3 * 16, 1.0);
        let gates = case.random_activations("gates", 2, 1.0);
        let offsets = case.b.input(InputKind::SequenceOffsets);
        let decay = case.given("decay", &[1], &[1.0], StoredType::F32);
        let decay_bias = case.given("decay bias", &[1], &[bias], StoredType::F32);
        let heads =
            DeltaHeads { decay, decay_bias, key_heads: 1, value_heads: 1, key_dim: 16, value_dim: 16 };
        let out = case.b.gated_delta("delta", x, gates, offsets, heads);
        let error = compare(&case.finish(out, &packing), &f32_path(), |_| 2e-5);
        println!("{bias}: {error:.1e}");
    }
}

#[test]
fn rotary_positions() {
    for (i, (heads, width, pairs)) in
        [(1, 2, 1), (3, 20, 5), (2, 64, 8), (1, 256, 32)].into_iter().enumerate()
    {
        let packing = packing(i as u64);
        let mut case = Case::new(i as u64, &packing);
        let x = case.random_activations("x", 3 * heads * width, 2.0);
        let norm = case.weight("norm", &[width], 0.2, StoredType::BF16);
        let stride = 2 * width;
        let queries = Heads { tensor: x, start: 0, stride, width, count: heads };
        let keys = case.b.heads(x, 2 * heads * width, width, heads);
        let parts =
            vec![RotaryHeads { heads: queries, norm: Some(norm) }, RotaryHeads { heads: keys, norm: None }];
        let frequencies = (0..pairs)
            .map(|p| Frequency { axis: p % 3, inverse: 1e4f32.powf(-(p as f32) / pairs as f32) })
            .collect();
        let positions = case.b.input(InputKind::TokenPositions);
        let out = case.b.head_rotary("rotary", parts, 1e-6, frequencies, positions);
        let error = compare(&case.finish(out, &packing), &f32_path(), |_| 2e-6);
        println!("{heads} × {width}: {error:.1e}");
    }
}

#[test]
fn causal_attention() {
    for (i, (heads, kv_heads, head_dim)) in
        [(1, 1, 3), (6, 2, 64), (4, 4, 33), (2, 1, 130), (4, 2, 256)].into_iter().enumerate()
    {
        let packing = packing(i as u64);
        let mut case = Case::new(i as u64, &packing);
        let q = case.random_activations("q", heads * head_dim, 1.0);
        let kv = case.random_activations("kv", 2 * kv_heads * head_dim + 1, 1.0);
        let part = |start, n: usize| Columns { tensor: kv, start, width: n * head_dim };
        let operands = (case.b.columns(q), part(1, kv_heads), part(1 + kv_heads * head_dim, kv_heads));
        let offsets = case.b.input(InputKind::SequenceOffsets);
        let scale = 1.0 / (head_dim as f32).sqrt();
        let out = case.b.causal_attention("context", operands, offsets, (heads, kv_heads, head_dim), scale);
        let error = compare(&case.finish(out, &packing), &f32_path(), |_| 1e-5);
        println!("{heads}/{kv_heads} × {head_dim}: {error:.1e}");
    }
}

/// A small vision tower and the rows it replaces.
fn tower(seed: u64, packing: &Packing) -> Ready {
    let mut case = Case::new(seed, packing);
    let (d, heads) = (22, 2);
    let pixels = case.b.patches(PATCH_VALUES);
    let w = case.weight("patches.w", &[d, PATCH_VALUES], 0.4, StoredType::BF16);
    let bias = case.weight("patches.b", &[d], 0.2, StoredType::BF16);
    let x = case.b.linear("projected", pixels, w, Some(bias), None, None);
    let table = case.weight("positions", &[POSITIONS, d], 0.5, StoredType::BF16);
    let taps = (case.b.input(InputKind::PositionTaps), case.b.input(InputKind::PositionWeights));
    let x = case.b.add_positions("embedded", x, table, taps);
    let width = d / heads;
    let frequencies = (0..4).map(|p| Frequency { axis: p % 2, inverse: 0.3f32.powi(p as i32) }).collect();
    let parts = vec![RotaryHeads { heads: case.b.heads(x, 0, width, heads), norm: None }];
    let positions = case.b.input(InputKind::PatchPositions);
    let q = case.b.head_rotary("turned", parts, 1e-6, frequencies, positions);
    let frames = case.b.input(InputKind::FrameOffsets);
    let operands = (case.b.columns(q), case.b.columns(q), case.b.columns(x));
    let context = case.b.attention("context", operands, (frames, frames), None, (heads, width), 0.3, None);
    let merged = case.b.merge_rows("merged", context, MERGE, Symbol::MediaTokens.into());
    let w = case.weight("out.w", &[24, MERGE * d], 0.1, StoredType::BF16);
    let media = case.b.linear("media", merged, w, None, Some(Activation::GeluErf), None);
    let tokens = case.random_activations("tokens", 24, 1.0);
    let rows = case.b.input(InputKind::MediaRows);
    let out = case.b.replace_rows("input", tokens, rows, media);
    case.finish(out, packing)
}

#[test]
fn vision_tower() {
    // Many media tokens, few, none at all.
    for shapes in [&[(40, 3), (1, 1), (97, 9), (12, 0)][..], &[(9, 1)], &[(5, 1), (7, 1)]] {
        let packing = Packing::new(3, shapes);
        let exact = |name: &str| if name == "tokens" { 0.0 } else { 1e-5 };
        println!("{shapes:?}: {:.1e}", compare(&tower(3, &packing), &f32_path(), exact));
        println!("f16: {:.1e}", compare(&tower(3, &packing), &f16_path(), |_| 5e-3));
    }
}

/// The head's own steps on random rows.
fn head(seed: u64, packing: &Packing, width: usize, table: (StoredType, Residency)) -> Ready {
    let mut case = Case::new(seed, packing);
    let hidden = case.random_activations("hidden", width + 1, 1.0);
    let (last, spans) = (case.b.input(InputKind::LastRows), case.b.input(InputKind::QuestionSpans));
    let summary = case.b.select_rows("summary", hidden, last);
    let question = case.b.pool_spans("question", hidden, spans);
    let values = case.normals(VOCABULARY * (width + 1), 1.0);
    let vocabulary = case.table("lm", [VOCABULARY, width + 1], &values, table.0, table.1);
    let ids = (case.b.input(InputKind::OptionTokens), case.b.input(InputKind::OptionTokenOffsets));
    let lexical = case.b.pool_table_rows("lexical", ids, Symbol::Labels.into(), vocabulary);
    let options = case.label_rows("options", width, 1.0);
    let w = case.weight("base.w", &[width, width + 1], 0.2, StoredType::BF16);
    let base = case.b.linear("base", question, w, None, None, None);
    let groups = case.b.input(InputKind::OptionOffsets);
    let pooled = case.b.softmax_pool("pooled", options, base, groups, 0.7);
    let kinds = case.b.input(InputKind::QuestionTypes);
    let values = case.normals(TYPES * width, 1.0);
    let types = case.table("types", [TYPES, width], &values, StoredType::BF16, Residency::Device);
    let kind = case.b.embed("kind", kinds, types, None);
    let fields = case.b.sum("fields", vec![base, pooled, kind]);
    let fields = case.b.sum("twice", vec![fields, kind]);
    let owner = case.b.input(InputKind::LabelQuestions);
    let pairs = case.b.pair_features("pairs", fields, options, owner);
    let w = case.weight("residual.w", &[1, 4 * width], 0.1, StoredType::F32);
    let residual = case.b.linear("residual", pairs, w, None, None, None);
    let scales = JointScales {
        prior: case.given("prior", &[], &[1.3], StoredType::F32),
        joint: case.given("joint", &[], &[9.0], StoredType::F32),
        gate: case.given("gate", &[], &[-0.4], StoredType::BF16),
    };
    let sequence = case.b.input(InputKind::QuestionSequences);
    let operands =
        JointScore { question, summary, sequence, lexical, field: fields, option: options, owner, residual };
    let out = case.b.joint_score("logits", operands, scales);
    case.finish(out, packing)
}

#[test]
fn joint_head() {
    let tables = [
        (StoredType::BF16, Residency::HostRows),
        (StoredType::F32, Residency::Device),
        (StoredType::F16, Residency::HostRows),
    ];
    for (i, (width, table)) in [5, 64, 300].into_iter().zip(tables).enumerate() {
        let packing = packing(i as u64);
        let tolerance = |name: &str| match name {
            // A division by the number of rows.
            "lexical" => 2e-7,
            "kind" => 0.0,
            _ => 1e-5,
        };
        let error = compare(&head(i as u64, &packing, width, table), &f32_path(), tolerance);
        println!("{width} {table:?}: {error:.1e}");
    }
}

/// Every sequence's rows of every step have the same bits, whatever the batch, its order and the bucket.
#[test]
fn batches_change_no_bit() {
    let packing = packing(7);
    let lm = (StoredType::BF16, Residency::HostRows);
    for ready in [mixers(7, &packing, (2, 4, 20, 24)), tower(7, &packing), head(7, &packing, 40, lm)] {
        same_bits(&ready, &packing);
    }
}

pub(crate) fn same_bits(ready: &Ready, packing: &Packing) {
    same_bits_on(&f16_path(), ready, packing);
}

pub(crate) fn same_bits_on(options: &DeviceOptions, ready: &Ready, packing: &Packing) {
    let Some(backend) = open(options) else { return };
    let graph = &ready.graph;
    let outputs: Vec<_> = graph.steps().iter().flat_map(|s| s.outputs()).collect();
    let mut want: Vec<Option<Vec<Vec<u32>>>> = vec![None; packing.sequences.len()];
    for which in [vec![0, 1, 2, 3, 4, 5], vec![4, 2, 0], vec![0], vec![1], vec![2], vec![3, 1, 5]] {
        let batch = packing.batch(&which);
        for bucket in [backend.bucket(&batch.sizes), roomy(&batch.sizes)] {
            let taps = run(&backend, ready, &batch, &bucket);
            for (i, &sequence) in which.iter().enumerate() {
                let own: Vec<Vec<u32>> = outputs
                    .iter()
                    .map(|&id| {
                        let dim = graph.tensor(id).shape[0];
                        let dikast_core::graph::Dim::Sym(symbol) = dim else { panic!("{dim} rows") };
                        let count = |s: &usize| rows(&packing.sequences[*s], symbol);
                        let values = bits(taps.get(id).expect("tapped"));
                        let width = values.len() / which.iter().map(count).sum::<usize>().max(1);
                        let first: usize = which[..i].iter().map(count).sum();
                        values[first * width..(first + count(&sequence)) * width].to_vec()
                    })
                    .collect();
                let want = want[sequence].get_or_insert_with(|| own.clone());
                for ((id, a), b) in outputs.iter().zip(&own).zip(want.iter()) {
                    assert_eq!(a, b, "sequence {sequence} in {which:?}, {}", graph.tensor(*id).name);
                }
            }
        }
    }
}
