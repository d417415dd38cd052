//! The heads' steps where rows between products are split: against the CPU, a sequence alone and among others; and what that
//! gains in whole forwards.

use dikast_core::backend::{Backend, Batch};
use dikast_core::checkpoint::StoredType;
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{Activation, GraphBuilder, InputKind, Sizes, TensorId};
use dikast_core::{Error, Result};

use crate::report::Report;
use crate::steps::{Case, bits, case, distance, tame_table};

/// Rows of the table that tokens name.
const TABLE: usize = 512;
/// Labels of a sequence, each of two tokens at its start.
const LABELS: usize = 2;
const NAMES: [&str; 14] = [
    "classes", "text", "text1", "text2", "classes2", "query", "keys", "q", "k", "v", "context", "pair",
    "hidden", "logits",
];

/// A cross-attention head `width` wide, as GLiClass has it.
fn head(b: &mut GraphBuilder, x: TensorId, width: usize, heads: usize) -> TensorId {
    let gelu = Some(Activation::GeluErf);
    let (spans, rows) = (b.input(InputKind::ClassSpans), b.input(InputKind::TextRows));
    let weight = b.weight("final.weight", &[width]);
    let x = b.rms_norm("final", x, weight, 1e-6);
    let classes = b.pool_spans("classes", x, spans);
    let text = b.select_rows("text", x, rows);
    let linear = |b: &mut GraphBuilder, name: &str, x, columns, activation| {
        let (weight, bias) = (
            b.weight(format!("{name}.weight"), &[columns, b.width(x)]),
            b.weight(format!("{name}.bias"), &[columns]),
        );
        b.linear(name, x, weight, Some(bias), activation, None)
    };
    let norm = |b: &mut GraphBuilder, name: &str, x| {
        let (weight, bias) =
            (b.weight(format!("{name}.weight"), &[width]), b.weight(format!("{name}.bias"), &[width]));
        b.layer_norm(name, x, weight, bias, 1e-5)
    };
    let text1 = linear(b, "text1", text, width, gelu);
    let classes1 = linear(b, "classes1", classes, width, gelu);
    let text2 = linear(b, "text2", text1, width, None);
    let classes2 = linear(b, "classes2", classes1, width, None);
    let query = norm(b, "query", classes2);
    let keys = norm(b, "keys", text2);
    let q = linear(b, "q", query, width, None);
    let k = linear(b, "k", keys, width, None);
    let v = linear(b, "v", text2, width, None);
    let (labels, texts) = (b.input(InputKind::LabelOffsets), b.input(InputKind::TextOffsets));
    let lengths = b.input(InputKind::TextLengths);
    let dim = width / heads;
    let operands = (b.columns(q), b.columns(k), b.columns(v));
    let scale = (dim as f32).sqrt().recip();
    let context = b.attention("context", operands, (labels, texts), Some(lengths), (heads, dim), scale, None);
    let out = linear(b, "out", context, width, None);
    let normed = norm(b, "normed", out);
    let pair = b.concat("pair", normed, None, classes2);
    let hidden = linear(b, "hidden", pair, width / 2, gelu);
    linear(b, "logits", hidden, 1, None)
}

/// Sequences of these lengths; the first is the same in every batch.
fn batch_of(lengths: &[usize]) -> Batch {
    let tokens: usize = lengths.iter().sum();
    let labels = LABELS * lengths.len();
    let sizes = Sizes {
        tokens,
        sequences: lengths.len(),
        labels,
        text_tokens: tokens - 2 * labels,
        ..Sizes::default()
    };
    let mut batch = Batch::new(sizes);
    let (mut ids, mut spans, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    let (mut label_offsets, mut text_offsets) = (vec![0], vec![0]);
    let mut text_lengths = Vec::new();
    for (s, &length) in lengths.iter().enumerate() {
        let start = ids.len() as i32;
        ids.extend((0..length).map(|t| ((t + 7 * s * s) % TABLE) as i32));
        spans.extend((0..LABELS as i32).flat_map(|l| [start + 2 * l, start + 2 * l + 2]));
        rows.extend(start + 2 * LABELS as i32..start + length as i32);
        label_offsets.push((LABELS * (s + 1)) as i32);
        text_offsets.push(rows.len() as i32);
        // The last row of some does not count.
        text_lengths.push((length - 2 * LABELS) as i32 - (s % 2) as i32);
    }
    batch.set(InputKind::TokenIds, ids);
    batch.set(InputKind::ClassSpans, spans);
    batch.set(InputKind::TextRows, rows);
    batch.set(InputKind::LabelOffsets, label_offsets);
    batch.set(InputKind::TextOffsets, text_offsets);
    batch.set(InputKind::TextLengths, text_lengths);
    batch
}

/// `small` leaves out what takes a CPU long.
pub fn all<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    // Text rows for every tile, full and not; labels for the two smallest.
    let batches: &[(usize, usize)] = if small {
        &[(1, 0), (3, 40), (9, 25), (5, 140), (9, 150)]
    } else {
        &[(1, 0), (3, 40), (9, 25), (5, 140), (33, 80)]
    };
    // From 1024 on, parts of k are longer than rings.
    for (width, heads) in [(128, 2), (256, 2), (1024, 8), (2048, 16)] {
        let some = match width {
            0..=256 => batches.len(),
            1024 if small => 3,
            _ if small => continue,
            _ => batches.len(),
        };
        let name = format!("{label} head {width} wide");
        let built = case((TABLE, width), tame_table(TABLE, width, 37), StoredType::BF16, |b, x| {
            head(b, x, width, heads)
        });
        let Some(case) = report.outcome(&name, built) else { continue };
        let mut first: Option<Vec<Vec<u32>>> = None;
        for &(count, more) in &batches[..some] {
            let lengths: Vec<usize> = (0..count).map(|s| if s == 0 { 21 } else { more + s }).collect();
            let name = format!("{name}, {count} sequences");
            let Some((off, same)) = report.outcome(&name, one(cuda, &case, &lengths, &mut first)) else {
                break;
            };
            // Logits are small beside what they are sums of.
            let near = |&(name, d): &(&str, f64)| d < if name == "logits" { 1e-3 } else { 1e-4 };
            let texts: Vec<String> = off.iter().map(|(name, d)| format!("{name} {d:.1e}")).collect();
            let other: Vec<&str> = same.iter().filter(|(_, same)| !same).map(|(name, _)| *name).collect();
            let good = off.iter().all(near) && other.is_empty();
            let detail = format!("off by {}; other bits than alone: {other:?}", texts.join(", "));
            report.check(&name, good, &detail);
        }
    }
}

/// Distances from the CPU, where it is asked, and whether the first sequence's rows have the bits of the batch before.
type Outcome = (Vec<(&'static str, f64)>, Vec<(&'static str, bool)>);

fn one<B: Backend>(
    cuda: &B,
    case: &Case,
    lengths: &[usize],
    first: &mut Option<Vec<Vec<u32>>>,
) -> Result<Outcome> {
    let batch = batch_of(lengths);
    let ours = case.run(cuda, &batch, &NAMES)?;
    let theirs = if lengths.len() < 10 { Some(case.run(&CpuBackend::new(), &batch, &NAMES)?) } else { None };
    let (labels, text) = (batch.sizes.labels, batch.sizes.text_tokens);
    let head: Vec<Vec<u32>> = NAMES
        .iter()
        .zip(&ours)
        .map(|(name, values)| {
            let of_text = ["text", "text1", "text2", "keys", "k", "v"].contains(name);
            let (rows, own) = if of_text { (text, lengths[0] - 2 * LABELS) } else { (labels, LABELS) };
            bits(&values[..values.len() / rows * own])
        })
        .collect();
    if ours.iter().any(Vec::is_empty) {
        return Err(Error::Internal("an empty tap".to_owned()));
    }
    let known = first.get_or_insert_with(|| head.clone());
    let same = NAMES.iter().zip(known.iter().zip(&head)).map(|(name, (a, b))| (*name, a == b)).collect();
    let off = theirs.map_or(Vec::new(), |theirs| {
        NAMES.iter().zip(ours.iter().zip(&theirs)).map(|(name, (a, b))| (*name, distance(a, b))).collect()
    });
    Ok((off, same))
}
