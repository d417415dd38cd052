//! The small steps of CLEF's joint head and of pictures' rows against the CPU: odd sizes, several sequences, empty lists,
//! and every row's bits in any batch and bucket.

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{StoredType, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{
    Activation, Dim, Elements, Graph, GraphBuilder, InputKind, JointScales, JointScore, Residency, Sizes,
    Symbol, Weight, WeightId,
};
use dikast_core::{Error, Result};

use crate::report::Report;
use crate::steps::distance;
use crate::synth::{self, Random};

/// Rows of the table of positions, of the LM head, of the types of questions.
const POSITIONS: usize = 9;
const VOCABULARY: usize = 50;
const TYPES: usize = 3;
/// Patches of a media token.
const MERGE: usize = 4;

/// A sequence: everything in it follows from its own numbers.
struct Sequence {
    /// Token ids are those from here on.
    first_id: usize,
    tokens: usize,
    media: usize,
    /// Options of each question.
    questions: Vec<usize>,
}

fn sequences() -> Vec<Sequence> {
    let shapes: [(usize, usize, &[usize]); 7] = [
        (40, 3, &[2, 4]),
        (1, 0, &[1]),
        (97, 9, &[33, 0, 2, 65]),
        (12, 0, &[]),
        (33, 1, &[32]),
        (64, 5, &[3, 1, 1, 5, 2, 2, 2, 4, 31]),
        (5, 2, &[0]),
    ];
    let mut first_id = 0;
    shapes
        .iter()
        .map(|&(tokens, media, questions)| {
            let sequence = Sequence { first_id, tokens, media, questions: questions.to_vec() };
            first_id += tokens;
            sequence
        })
        .collect()
}

impl Sequence {
    fn rows(&self, symbol: Symbol) -> usize {
        let labels = self.questions.iter().sum();
        match symbol {
            Symbol::Tokens => self.tokens,
            Symbol::Sequences => 1,
            Symbol::Labels => labels,
            Symbol::Questions => self.questions.len(),
            Symbol::OptionTokens => (0..labels).map(option_tokens).sum(),
            Symbol::Patches => MERGE * self.media,
            Symbol::MediaTokens => self.media,
            Symbol::TextTokens | Symbol::Frames => 0,
        }
    }
}

/// Some options have no token.
fn option_tokens(label: usize) -> usize {
    (label + 2) % 4
}

fn batch_of(sequences: &[&Sequence], patch_values: usize) -> Batch {
    let sum = |symbol| sequences.iter().map(|s| s.rows(symbol)).sum();
    let mut batch = Batch::new(Sizes {
        tokens: sum(Symbol::Tokens),
        sequences: sequences.len(),
        labels: sum(Symbol::Labels),
        questions: sum(Symbol::Questions),
        option_tokens: sum(Symbol::OptionTokens),
        patches: sum(Symbol::Patches),
        media_tokens: sum(Symbol::MediaTokens),
        ..Sizes::NONE
    });
    let mut inputs: Vec<(InputKind, Vec<i32>)> = Vec::new();
    let mut put = |kind, values: &mut dyn Iterator<Item = usize>| {
        let values = values.map(|v| v as i32);
        match inputs.iter_mut().find(|(k, _)| *k == kind) {
            Some((_, list)) => list.extend(values),
            None => inputs.push((kind, values.collect())),
        }
    };
    let (mut row, mut question, mut label, mut ids) = (0, 0, 0, 0);
    let (mut pixels, mut weights) = (Vec::new(), Vec::new());
    put(InputKind::OptionOffsets, &mut [0].into_iter());
    put(InputKind::OptionTokenOffsets, &mut [0].into_iter());
    for (index, s) in sequences.iter().enumerate() {
        put(InputKind::TokenIds, &mut (s.first_id..s.first_id + s.tokens));
        put(InputKind::LastRows, &mut [row + s.tokens - 1].into_iter());
        for (q, &options) in s.questions.iter().enumerate() {
            let start = row + 3 * q % s.tokens;
            put(InputKind::QuestionSpans, &mut [start, (start + q % 4).min(row + s.tokens)].into_iter());
            put(InputKind::QuestionTypes, &mut [(s.first_id + q) % TYPES].into_iter());
            put(InputKind::QuestionSequences, &mut [index].into_iter());
            put(InputKind::LabelQuestions, &mut std::iter::repeat_n(question, options));
            label += options;
            put(InputKind::OptionOffsets, &mut [label].into_iter());
            question += 1;
        }
        for l in 0..s.rows(Symbol::Labels) {
            let start = row + 5 * l % s.tokens;
            put(InputKind::ClassSpans, &mut [start, (start + 1 + l % 2).min(row + s.tokens)].into_iter());
            let tokens = option_tokens(l);
            put(InputKind::OptionTokens, &mut (0..tokens).map(|t| (s.first_id + 7 * (l + t)) % VOCABULARY));
            ids += tokens;
            put(InputKind::OptionTokenOffsets, &mut [ids].into_iter());
        }
        for p in 0..MERGE * s.media {
            put(InputKind::PositionTaps, &mut (0..4).map(|t| (s.first_id + p * (t + 1)) % POSITIONS));
            weights.extend((0..4).map(|t| ((s.first_id + p + t) % 9) as f32 / 9.0));
            let mut random = Random::new((1000 * s.first_id + p) as u64);
            pixels.extend((0..patch_values).map(|_| random.normal()));
        }
        // Not in the order of the rows.
        put(InputKind::MediaRows, &mut (0..s.media).map(|m| row + (2 * (s.media - m) - 1) % s.tokens));
        row += s.tokens;
    }
    for (kind, list) in inputs {
        batch.set(kind, list);
    }
    for kind in [
        InputKind::QuestionSpans,
        InputKind::QuestionTypes,
        InputKind::QuestionSequences,
        InputKind::LabelQuestions,
        InputKind::ClassSpans,
        InputKind::OptionTokens,
        InputKind::PositionTaps,
        InputKind::MediaRows,
    ] {
        if batch.get(kind).is_err() {
            batch.set(kind, Vec::new());
        }
    }
    batch.set_reals(InputKind::Patches, pixels);
    batch.set_reals(InputKind::PositionWeights, weights);
    batch
}

fn table(b: &mut GraphBuilder, name: &str, shape: [usize; 2], residency: Residency) -> WeightId {
    b.add_weight(Weight {
        name: name.to_owned(),
        parts: vec![name.to_owned()],
        shape: shape.to_vec(),
        elements: Elements::Real,
        residency,
    })
}

/// The head's steps on rows of the tables.
fn head_graph(tokens: usize, h: usize, w: usize) -> Result<Graph> {
    let mut b = GraphBuilder::new("head");
    let ids = b.input(InputKind::TokenIds);
    let rows = table(&mut b, "hidden.table", [tokens, h], Residency::HostRows);
    let hidden = b.embed("hidden", ids, rows, None);
    let rows = table(&mut b, "narrow.table", [tokens, w], Residency::HostRows);
    let narrow = b.embed("narrow", ids, rows, None);
    let (last, spans) = (b.input(InputKind::LastRows), b.input(InputKind::QuestionSpans));
    let options = b.input(InputKind::ClassSpans);
    let summary = b.select_rows("summary", hidden, last);
    let question = b.pool_spans("question", hidden, spans);
    let base = b.pool_spans("base", narrow, spans);
    let option = b.pool_spans("option", narrow, options);
    let lm = table(&mut b, "lm_head.weight", [VOCABULARY, h], Residency::HostRows);
    let ids = (b.input(InputKind::OptionTokens), b.input(InputKind::OptionTokenOffsets));
    let lexical = b.pool_table_rows("lexical", ids, Symbol::Labels.into(), lm);
    let groups = b.input(InputKind::OptionOffsets);
    let pooled = b.softmax_pool("pooled", option, base, groups, 3.0 / (w as f32).sqrt());
    let kinds = b.input(InputKind::QuestionTypes);
    let types = b.weight("types", &[TYPES, w]);
    let kind = b.embed("kind", kinds, types, None);
    let two = b.sum("two", vec![base, kind]);
    let fields = b.sum("fields", vec![base, pooled, kind]);
    let eight = b.sum("eight", vec![fields, kind, base, pooled, two, base, kind, fields]);
    let owner = b.input(InputKind::LabelQuestions);
    let _ = b.pair_features("exact pairs", two, option, owner);
    let pairs = b.pair_features("pairs", eight, option, owner);
    let first = b.weight("scorer.1", &[w, 4 * w]);
    let inner = b.linear("silu", pairs, first, None, Some(Activation::Silu), None);
    let second = b.weight("scorer.2", &[1, w]);
    let residual = b.linear("residual", inner, second, None, None, None);
    let scales = JointScales {
        prior: b.weight("prior", &[]),
        joint: b.weight("joint", &[]),
        gate: b.weight("gate", &[]),
    };
    let sequence = b.input(InputKind::QuestionSequences);
    let operands =
        JointScore { question, summary, sequence, lexical, field: fields, option, owner, residual };
    let out = b.joint_score("logits", operands, scales);
    b.finish(out)
}

/// Patches with positions, merged, in the place of tokens; `again` reads the tokens once more, so that they stay.
fn media_graph(tokens: usize, d: usize, again: bool) -> Result<Graph> {
    let mut b = GraphBuilder::new("media");
    let pixels = b.patches(d);
    let positions = b.weight("positions", &[POSITIONS, d]);
    let taps = (b.input(InputKind::PositionTaps), b.input(InputKind::PositionWeights));
    let x = b.add_positions("embedded", pixels, positions, taps);
    let norm = b.weight("norm.weight", &[d]);
    let normed = b.rms_norm("normed", x, norm, 1e-6);
    let _ = b.merge_rows("merged pixels", pixels, MERGE, Symbol::MediaTokens.into());
    let merged = b.merge_rows("merged", normed, MERGE, Symbol::MediaTokens.into());
    let ids = b.input(InputKind::TokenIds);
    let rows = table(&mut b, "tokens.table", [tokens, MERGE * d], Residency::HostRows);
    let tokens = b.embed("tokens", ids, rows, None);
    let rows = b.input(InputKind::MediaRows);
    let replaced = b.replace_rows("replaced", tokens, rows, merged);
    let out = b.sum("sum", vec![replaced, if again { tokens } else { replaced }]);
    b.finish(out)
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

/// All tensors that steps write; the forward of its own must end in the same bits.
fn run<B: Backend>(
    backend: &B,
    (graph, weights): (&Graph, &Weights),
    batch: &Batch,
    bucket: &Sizes,
) -> Result<Taps> {
    let resident = backend.load(graph, weights, &mut |_, _| {})?;
    let mut plan = backend.plan(graph, &resident, bucket)?;
    let mut taps = Taps::all(graph);
    let output = pollster::block_on(backend.run(&mut plan, &resident, batch, &mut taps))?;
    if taps.get(graph.output()).map(bits) != Some(bits(&output)) {
        return Err(Error::Internal("the forward differs from the launches one by one".to_owned()));
    }
    Ok(taps)
}

/// What has no rounding of its own, or the CPU's own order of roundings.
const EXACT: [&str; 7] = ["lexical", "kind", "two", "exact pairs", "embedded", "merged pixels", "tokens"];

struct Outcome {
    worst: (f64, String),
    inexact: Vec<String>,
    other_bits: Vec<String>,
}

fn compare<B: Backend>(cuda: &B, graph: &Graph, stored: StoredType, patch_values: usize) -> Result<Outcome> {
    let given = [("prior", vec![1.3]), ("joint", vec![9.0]), ("gate", vec![-0.4])];
    let given: Vec<_> =
        given.into_iter().filter(|(n, _)| graph.weights().iter().any(|w| w.name == *n)).collect();
    let weights = synth::weights(&synth::expected_of(graph), |_| stored, &given, 7)?;
    let model = (graph, &weights);
    let sequences = sequences();
    let all: Vec<&Sequence> = sequences.iter().collect();
    let whole = batch_of(&all, patch_values);
    let ours = run(cuda, model, &whole, &cuda.bucket(&whole.sizes))?;
    let cpu = CpuBackend::new();
    let theirs = run(&cpu, model, &whole, &cpu.bucket(&whole.sizes))?;
    let outputs: Vec<_> = graph.steps().iter().flat_map(|s| s.outputs()).collect();
    let missing = || Error::Internal("a tensor was not tapped".to_owned());
    let mut outcome = Outcome { worst: (0.0, String::new()), inexact: Vec::new(), other_bits: Vec::new() };
    for &id in &outputs {
        let name = &graph.tensor(id).name;
        let (a, b) = (ours.get(id).ok_or_else(missing)?, theirs.get(id).ok_or_else(missing)?);
        let off = distance(a, b);
        if off.is_nan() || off > outcome.worst.0 {
            outcome.worst = (off, name.clone());
        }
        if EXACT.contains(&name.as_str()) && bits(a) != bits(b) {
            outcome.inexact.push(name.clone());
        }
    }
    // Rows of each sequence in other batches and another bucket.
    for which in [vec![0], vec![4, 2, 0], vec![3, 1], vec![6, 5], vec![1]] {
        let chosen: Vec<&Sequence> = which.iter().map(|&i| all[i]).collect();
        let batch = batch_of(&chosen, patch_values);
        for bucket in [cuda.bucket(&batch.sizes), cuda.bucket(&whole.sizes)] {
            let part = run(cuda, model, &batch, &bucket)?;
            for &id in &outputs {
                let Dim::Sym(symbol) = graph.tensor(id).shape[0] else { continue };
                let values = part.get(id).ok_or_else(missing)?;
                let width: usize = graph.tensor(id).shape[1..].iter().map(|d| d.bind(&bucket)).product();
                let mut at = 0;
                for &s in &which {
                    let count = all[s].rows(symbol) * width;
                    let before: usize = all[..s].iter().map(|s| s.rows(symbol) * width).sum();
                    let same = ours.get(id).ok_or_else(missing)?.get(before..before + count).map(bits)
                        == values.get(at..at + count).map(bits);
                    if !same {
                        outcome.other_bits.push(format!("{} of {s} in {which:?}", graph.tensor(id).name));
                    }
                    at += count;
                }
            }
        }
    }
    Ok(outcome)
}

/// All checks of this file; `small` leaves out what takes a CPU long.
pub fn head<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    let tokens = sequences().iter().map(|s| s.tokens).sum();
    let mut check = |name: String, graph: Result<Graph>, stored: StoredType, patch_values: usize| {
        let result = graph.and_then(|graph| compare(cuda, &graph, stored, patch_values));
        if let Some(Outcome { worst, inexact, other_bits }) = report.outcome(&name, result) {
            let (worst, at) = worst;
            let good = worst < 2e-5 && inexact.is_empty() && other_bits.is_empty();
            let few = &other_bits[..other_bits.len().min(4)];
            report.check(
                &name,
                good,
                &format!("off by {worst:.1e} in {at:?}, not exact {inexact:?}, other bits {few:?}"),
            );
        }
    };
    for (h, w, stored) in [
        (20, 12, StoredType::F32),
        (36, 132, StoredType::F16),
        (320, 64, StoredType::BF16),
        (1284, 2052, StoredType::BF16),
        (5120, 1024, StoredType::BF16),
    ] {
        if !small || h * w < 1 << 17 {
            check(format!("{label} joint head {h}/{w} {stored:?}"), head_graph(tokens, h, w), stored, 0);
        }
    }
    for (d, again) in [(4, false), (20, true), (1152, false), (1152, true)] {
        if !small || d < 1000 {
            let name = format!("{label} rows of pictures {d}{}", if again { ", tokens kept" } else { "" });
            check(name, media_graph(tokens, d, again), StoredType::BF16, d);
        }
    }
}
