//! CLEF's attention against the CPU: causal attention, rotary positions, attention across rows and of pictures; odd sizes,
//! several sequences, and every row's bits in any batch. And their times at the 27B's sizes.

use std::fmt::Write as _;
use std::sync::Arc;

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{Blob, Checks, Expected, ModelFiles, StoredType, TensorSpec, Values, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{
    Columns, Elements, Frequency, Graph, GraphBuilder, Heads, InputKind, Residency, RotaryHeads, Rotation,
    RowOp, Sizes, TensorId, Weight, WeightId,
};
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::{Error, Result};
use serde_json::json;

use crate::report::Report;
use crate::steps::distance;
use crate::synth::Random;

/// Depth from which on INT8 products hand on bfloat16.
const DEEP: usize = 768;
/// Codes of the INT8 weights: small, so that products are near 1.
const CODE: f32 = 0.000_6;

/// All checks; `small` leaves out what takes a CPU long.
pub fn attention<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    rotary(report, label, cuda);
    causal(report, label, cuda, small);
    layers(report, label, cuda, small);
    across(report, label, cuda);
    pictures(report, label, cuda, small);
}

/// A graph, the values of its weights, and how the rows of a batch divide.
struct Case {
    b: GraphBuilder,
    values: Vec<(String, Vec<usize>, StoredType, Vec<u8>)>,
    random: Random,
}

impl Case {
    fn new(seed: u64) -> Self {
        Self { b: GraphBuilder::new("case"), values: Vec::new(), random: Random::new(seed) }
    }

    fn normals(&mut self, n: usize, size: f32) -> Vec<f32> {
        (0..n).map(|_| self.random.normal() * size).collect()
    }

    fn store(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.values.push((name.to_owned(), shape.to_vec(), StoredType::F32, bytes));
    }

    /// The rows of a table, one for each token of the longest batch.
    fn rows(&mut self, width: usize, values: &[f32]) -> TensorId {
        let shape = [values.len() / width, width];
        self.store("rows", &shape, values);
        let table = self.b.add_weight(Weight {
            name: "rows".to_owned(),
            parts: vec!["rows".to_owned()],
            shape: shape.to_vec(),
            elements: Elements::Real,
            residency: Residency::HostRows,
        });
        let ids = self.b.input(InputKind::TokenIds);
        self.b.embed("x", ids, table, None)
    }

    fn vector(&mut self, name: &str, width: usize) -> WeightId {
        let values = self.normals(width, 0.2);
        self.store(name, &[width], &values);
        self.b.weight(name, &[width])
    }

    /// A real weight.
    fn matrix(&mut self, name: &str, n: usize, k: usize) -> WeightId {
        let values = self.normals(n * k, 1.0 / (k as f32).sqrt());
        self.store(name, &[n, k], &values);
        self.b.weight(name, &[n, k])
    }

    /// The INT8 product of `x` with a weight of `n` rows.
    fn int8(&mut self, name: &str, op: RowOp, n: usize, k: usize) -> TensorId {
        let rotation = Rotation { group: None, mode: Int8Mode::Exact };
        let (codes, _) = self.b.rotate_quantize(&format!("{name}.in"), op, rotation, false);
        let bytes = (0..n * k).map(|_| (self.random.normal() * 40.0).clamp(-127.0, 127.0) as i8 as u8);
        let weight = (format!("{name}.weight"), vec![n, k], StoredType::I8, bytes.collect());
        self.values.push(weight);
        let scales = vec![CODE; n];
        self.store(&format!("{name}.scale"), &[n, 1], &scales);
        let weight = self.b.add_weight(Weight {
            name: format!("{name}.weight"),
            parts: vec![format!("{name}.weight")],
            shape: vec![n, k],
            elements: Elements::Int8,
            residency: Residency::Device,
        });
        let scales = self.b.weight(format!("{name}.scale"), &[n, 1]);
        self.b.int8_linear(name, codes, (weight, scales), None, None)
    }

    fn finish(self, out: TensorId) -> Result<Ready> {
        let graph = self.b.finish(out)?;
        let mut header = String::from("{");
        let mut data = Vec::new();
        let mut expected = Expected::default();
        for (i, (name, shape, dtype, bytes)) in self.values.iter().enumerate() {
            let comma = if i == 0 { "" } else { "," };
            let kind = if *dtype == StoredType::I8 { "I8" } else { "F32" };
            let range = [data.len(), data.len() + bytes.len()];
            let _ = write!(
                header,
                "{comma}\"{name}\":{{\"dtype\":\"{kind}\",\"shape\":{shape:?},\"data_offsets\":{range:?}}}"
            );
            data.extend(bytes);
            expected.tensors.push(TensorSpec {
                name: name.clone(),
                allowed: vec![*dtype],
                shape: shape.clone(),
                values: Values::Finite,
                companions: Vec::new(),
            });
        }
        header.push('}');
        while header.len() % 8 != 0 {
            header.push(' ');
        }
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.append(&mut data);
        // Codes must say whether they are rotated.
        let note = br#"{"quant_method": "int8_tensorwise", "convrot": false}"#;
        let files = [("model.safetensors", file), ("quantization_config.json", note.to_vec())];
        let files = files.map(|(name, data)| (name.to_owned(), Blob::Owned(Arc::from(data))));
        let files = ModelFiles::from_memory("made up", files);
        Ok(Ready { graph, weights: Weights::open(&files, &expected, Checks::HEADERS)? })
    }
}

struct Ready {
    graph: Graph,
    weights: Weights,
}

impl Ready {
    fn run<B: Backend>(&self, backend: &B, batch: &Batch, names: &[&str]) -> Result<Vec<Vec<f32>>> {
        let resident = backend.load(&self.graph, &self.weights, &mut |_, _| {})?;
        let mut plan = backend.plan(&self.graph, &resident, &backend.bucket(&batch.sizes))?;
        let mut taps = Taps::named(&self.graph, names)?;
        pollster::block_on(backend.run(&mut plan, &resident, batch, &mut taps))?;
        names
            .iter()
            .map(|n| {
                let id = self.graph.find(n).ok_or_else(|| Error::Internal((*n).to_owned()))?;
                taps.get(id).map(<[f32]>::to_vec).ok_or_else(|| Error::Internal(format!("no tap {n}")))
            })
            .collect()
    }
}

fn offsets(lengths: &[usize]) -> Vec<i32> {
    let ends = lengths.iter().scan(0, |at, l| {
        *at += *l as i32;
        Some(*at)
    });
    std::iter::once(0).chain(ends).collect()
}

/// Sequences of `lengths` rows, the first row of the table being `first`.
fn batch(lengths: &[usize], first: usize) -> Batch {
    let tokens: usize = lengths.iter().sum();
    let mut batch = Batch::new(Sizes { tokens, sequences: lengths.len(), ..Sizes::default() });
    batch.set(InputKind::TokenIds, (first as i32..(first + tokens) as i32).collect());
    batch.set(InputKind::SequenceOffsets, offsets(lengths));
    // Near and far ones, rows and columns of a picture here and there; they follow from the row of the table.
    let position = |row: usize| {
        let t = row as i32 * if row % 7 == 3 { 211 } else { 1 };
        if row % 5 == 2 { [t, t + row as i32 % 13, t + 4] } else { [t; 3] }
    };
    batch.set(InputKind::TokenPositions, (first..first + tokens).flat_map(position).collect());
    batch
}

/// The whole batch and some of its sequences alone: whether their rows of `name` have the same bits.
fn alone<B: Backend>(
    ready: &Ready,
    cuda: &B,
    lengths: &[usize],
    (name, whole): (&str, &[f32]),
) -> Result<bool> {
    let rows: usize = lengths.iter().sum();
    let width = whole.len() / rows;
    let mut same = true;
    for s in [lengths.len() - 1, lengths.len() / 2] {
        let before: usize = lengths[..s].iter().sum();
        let part = ready.run(cuda, &batch(&lengths[s..=s], before), &[name])?;
        let expected = &whole[before * width..(before + lengths[s]) * width];
        same &= part[0].iter().map(|v| v.to_bits()).eq(expected.iter().map(|v| v.to_bits()));
    }
    Ok(same)
}

fn frequencies(pairs: usize, axes: usize) -> Vec<Frequency> {
    let inverse = |i: usize| 1e6f64.powf(-(i as f64) / pairs as f64) as f32;
    (0..pairs).map(|i| Frequency { axis: i % axes, inverse: inverse(i) }).collect()
}

/// Queries followed by gates, keys, values: `[heads × 2, kv_heads, kv_heads]` heads side by side.
#[derive(Clone, Copy)]
struct Shape {
    heads: usize,
    kv_heads: usize,
    dim: usize,
}

impl Shape {
    fn width(self) -> usize {
        2 * (self.heads + self.kv_heads) * self.dim
    }

    fn gates(self, tensor: TensorId) -> Heads {
        Heads { tensor, start: self.dim, stride: 2 * self.dim, width: self.dim, count: self.heads }
    }

    fn rotary(self, case: &mut Case, x: TensorId, pairs: usize) -> TensorId {
        let norm = |case: &mut Case, name: &str| Some(case.vector(name, self.dim));
        let queries = RotaryHeads { heads: Heads { start: 0, ..self.gates(x) }, norm: norm(case, "q.norm") };
        let keys = RotaryHeads {
            heads: case.b.heads(x, 2 * self.heads * self.dim, self.dim, self.kv_heads),
            norm: norm(case, "k.norm"),
        };
        let positions = case.b.input(InputKind::TokenPositions);
        case.b.head_rotary("qk", vec![queries, keys], 1e-6, frequencies(pairs, 3), positions)
    }

    fn attention(self, case: &mut Case, (q, k): (TensorId, TensorId), v: Columns) -> TensorId {
        let Self { heads, kv_heads, dim } = self;
        let q = Columns { tensor: q, start: 0, width: heads * dim };
        let k = Columns { tensor: k, start: heads * dim, width: kv_heads * dim };
        let offsets = case.b.input(InputKind::SequenceOffsets);
        let scale = 1.0 / (dim as f32).sqrt();
        case.b.causal_attention("context", (q, k, v), offsets, (heads, kv_heads, dim), scale)
    }

    fn values(self, tensor: TensorId) -> Columns {
        let width = self.kv_heads * self.dim;
        Columns { tensor, start: self.width() - width, width }
    }
}

fn rotary<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    for (heads, kv_heads, dim, pairs) in
        [(6, 2, 64, 8), (4, 2, 128, 16), (24, 4, 256, 32), (3, 1, 72, 36), (9, 9, 16, 8), (1, 1, 132, 64)]
    {
        let shape = Shape { heads, kv_heads, dim };
        let name = format!("{label} rotary {heads}/{kv_heads}x{dim}, {pairs} pairs");
        let lengths = [3, 1, 40, 300, 17];
        let result = (|| {
            let mut case = Case::new(31);
            let rows = lengths.iter().sum::<usize>();
            let values = case.normals(rows * shape.width(), 3.0);
            let x = case.rows(shape.width(), &values);
            let out = shape.rotary(&mut case, x, pairs);
            let ready = case.finish(out)?;
            let whole = batch(&lengths, 0);
            let ours = ready.run(cuda, &whole, &["qk"])?.remove(0);
            let theirs = ready.run(&CpuBackend::new(), &whole, &["qk"])?.remove(0);
            Ok((distance(&ours, &theirs), alone(&ready, cuda, &lengths, ("qk", &ours))?))
        })();
        if let Some((off, same)) = report.outcome(&name, result) {
            report.check(&name, off < 1e-6 && same, &format!("off by {off:.1e}, alone the same bits {same}"));
        }
    }
}

fn causal<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    let shapes = [(6, 2, 64), (4, 4, 128), (4, 2, 128), (3, 1, 256), (6, 1, 256), (3, 3, 40), (12, 2, 96)];
    for (heads, kv_heads, dim) in shapes {
        let shape = Shape { heads, kv_heads, dim };
        let name = format!("{label} causal attention {heads}/{kv_heads}x{dim}");
        let lengths: &[usize] = if small { &[1, 64, 65, 2, 100] } else { &LENGTHS };
        let result = (|| {
            let mut case = Case::new(37);
            let rows = lengths.iter().sum::<usize>();
            let values = case.normals(rows * shape.width(), 2.0);
            let x = case.rows(shape.width(), &values);
            let out = shape.attention(&mut case, (x, x), shape.values(x));
            let ready = case.finish(out)?;
            let whole = batch(lengths, 0);
            let ours = ready.run(cuda, &whole, &["context"])?.remove(0);
            let theirs = ready.run(&CpuBackend::new(), &whole, &["context"])?.remove(0);
            Ok((distance(&ours, &theirs), alone(&ready, cuda, lengths, ("context", &ours))?))
        })();
        // Wide float32 heads need more shared memory than small chips have.
        if let (256, Err(Error::Unsupported { need, .. })) = (dim, &result) {
            report.check(&name, need.contains("shared memory"), &format!("refused: {need}"));
            continue;
        }
        if let Some((off, same)) = report.outcome(&name, result) {
            report.check(&name, off < 1e-5 && same, &format!("off by {off:.1e}, alone the same bits {same}"));
        }
    }
}

/// Rows of the sequences: around the sizes of tiles.
const LENGTHS: [usize; 12] = [1, 2, 63, 64, 65, 300, 127, 128, 129, 33, 200, 191];

/// Deep models: from an INT8 product's bfloat16 rows to the next product's codes.
fn layers<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    let shapes = [(6, 1, 256, 32), (3, 1, 256, 32), (4, 4, 128, 16), (6, 2, 64, 8), (8, 1, 128, 64)];
    for (heads, kv_heads, dim, pairs) in shapes {
        let shape = Shape { heads, kv_heads, dim };
        let name = format!("{label} bfloat16 attention {heads}/{kv_heads}x{dim}");
        let lengths: &[usize] = if small { &[1, 64, 65, 2, 100] } else { &LENGTHS };
        let rows = lengths.iter().sum::<usize>();
        let result = (|| {
            let mut case = Case::new(41);
            let values = case.normals(rows * DEEP, 1.0);
            let x = case.rows(DEEP, &values);
            let qkv = case.int8("qkv", RowOp::Copy { x }, shape.width(), DEEP);
            let qk = shape.rotary(&mut case, qkv, pairs);
            let context = shape.attention(&mut case, (qk, qk), shape.values(qkv));
            let gated = RowOp::SigmoidGate { x: context, gate: shape.gates(qkv) };
            let out = case.int8("out", gated, 64, heads * dim);
            let ready = case.finish(out)?;
            let whole = batch(lengths, 0);
            let ours = ready.run(cuda, &whole, &["qkv", "qk", "context", "out"])?;
            // The CPU on our operands.
            let cpu = CpuBackend::new();
            let mut turned = Case::new(41);
            // The same norms: drawn after the same numbers.
            let _ = turned.normals(rows * DEEP, 1.0);
            let _ = turned.normals(shape.width() * DEEP, 1.0);
            let x = turned.rows(shape.width(), &ours[0]);
            let out = shape.rotary(&mut turned, x, pairs);
            let qk = turned.finish(out)?.run(&cpu, &whole, &["qk"])?.remove(0);
            let mut attended = Case::new(41);
            let (wide, width) = ((heads + kv_heads) * dim, kv_heads * dim);
            let table: Vec<f32> = ours[1]
                .chunks(wide)
                .zip(ours[0].chunks(shape.width()))
                .flat_map(|(qk, qkv)| qk.iter().chain(&qkv[shape.width() - width..]).copied())
                .collect();
            let x = attended.rows(wide + width, &table);
            let v = Columns { tensor: x, start: wide, width };
            let out = shape.attention(&mut attended, (x, x), v);
            let context = attended.finish(out)?.run(&cpu, &whole, &["context"])?.remove(0);
            let off = [distance(&ours[1], &qk), distance(&ours[2], &context)];
            // Rounded to bfloat16 is what was to be tested.
            let rounded = ours[2].iter().all(|v| v.to_bits() & 0xFFFF == 0);
            let same = alone(&ready, cuda, lengths, ("context", &ours[2]))?;
            Ok((off, rounded, same))
        })();
        if let Some((off, rounded, same)) = report.outcome(&name, result) {
            let limits = if rounded { [2.5e-3, 4e-3] } else { [1e-6, 1e-5] };
            let good = off[0] < limits[0] && off[1] < limits[1] && same;
            report.check(
                &name,
                good,
                &format!(
                    "rotary off by {:.1e}, attention {:.1e}, bfloat16 {rounded}, alone the same bits {same}",
                    off[0], off[1]
                ),
            );
        }
    }
}

/// Few queries over the rows of their sequence, as in the joint head.
fn across<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    for (heads, dim) in [(16, 64), (4, 32), (2, 80), (3, 72)] {
        let name = format!("{label} attention across rows {heads}x{dim}");
        let width = heads * dim;
        let lengths = [5usize, 64, 200, 1, 90];
        let questions = [3usize, 1, 70, 0, 64];
        let result = (|| {
            let mut case = Case::new(43);
            let rows = lengths.iter().sum::<usize>();
            let values = case.normals(rows * 2 * width, 2.0);
            let x = case.rows(2 * width, &values);
            let spans = case.b.input(InputKind::QuestionSpans);
            let pooled = case.b.pool_spans("questions", x, spans);
            let w = case.matrix("q", width, 2 * width);
            let q = case.b.linear("queries", pooled, w, None, None, None);
            let (from, to) =
                (case.b.input(InputKind::QuestionOffsets), case.b.input(InputKind::SequenceOffsets));
            let part = |tensor, start| Columns { tensor, start, width };
            let operands = (part(q, 0), part(x, 0), part(x, width));
            let scale = 1.0 / (dim as f32).sqrt();
            let out = case.b.attention("context", operands, (from, to), None, (heads, dim), scale, None);
            let ready = case.finish(out)?;
            let mut batch = batch(&lengths, 0);
            batch.sizes.questions = questions.iter().sum();
            batch.set(InputKind::QuestionOffsets, offsets(&questions));
            let starts = offsets(&lengths);
            let spans = questions.iter().enumerate().flat_map(|(s, &count)| {
                let (start, end) = (starts[s], starts[s + 1]);
                (0..count as i32).flat_map(move |i| {
                    let first = start + i % (end - start);
                    [first, (first + 3).min(end)]
                })
            });
            batch.set(InputKind::QuestionSpans, spans.collect());
            let ours = ready.run(cuda, &batch, &["context"])?.remove(0);
            let theirs = ready.run(&CpuBackend::new(), &batch, &["context"])?.remove(0);
            Ok(distance(&ours, &theirs))
        })();
        if let Some(off) = report.outcome(&name, result) {
            report.check(&name, off < 1e-5, &format!("off by {off:.1e}"));
        }
    }
}

/// A block of the vision tower from its projected rows on: rotary rows and columns, attention within a frame.
fn tower(case: &mut Case, width: usize, (heads, dim): (usize, usize)) -> TensorId {
    let pixels = case.b.patches(width);
    let w = case.matrix("qkv", 3 * heads * dim, width);
    let qkv = case.b.linear("qkv", pixels, w, None, None, None);
    let d = heads * dim;
    let parts = [0, d].map(|start| RotaryHeads { heads: case.b.heads(qkv, start, dim, heads), norm: None });
    let quarter = dim / 4;
    let inverse = |j: usize| 1e4f64.powf(-(j as f64) / quarter as f64) as f32;
    let frequencies = [0, 1]
        .into_iter()
        .flat_map(|axis| (0..quarter).map(move |j| Frequency { axis, inverse: inverse(j) }))
        .collect();
    let positions = case.b.input(InputKind::PatchPositions);
    let qk = case.b.head_rotary("qk", parts.to_vec(), 1e-6, frequencies, positions);
    let part = |tensor, start| Columns { tensor, start, width: d };
    let frames = case.b.input(InputKind::FrameOffsets);
    let operands = (part(qk, 0), part(qk, d), part(qkv, 2 * d));
    let scale = 1.0 / (dim as f32).sqrt();
    case.b.attention("context", operands, (frames, frames), None, (heads, dim), scale, None)
}

/// Pictures of `frames` patches and a sequence of one row.
fn pictures_of(frames: &[usize], width: usize) -> Batch {
    let patches: usize = frames.iter().sum();
    let mut batch = Batch::new(Sizes {
        tokens: 1,
        sequences: 1,
        patches,
        media_tokens: patches / 4,
        frames: frames.len(),
        ..Sizes::default()
    });
    batch.set(InputKind::FrameOffsets, offsets(frames));
    let places = frames.iter().flat_map(|&count| (0..count as i32).flat_map(|i| [i / 32, i % 32]));
    batch.set(InputKind::PatchPositions, places.collect());
    let mut random = Random::new(47);
    batch.set_reals(InputKind::Patches, (0..patches * width).map(|_| random.normal()).collect());
    batch
}

fn pictures<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    for (heads, dim) in [(16, 72), (4, 16), (4, 32)] {
        let name = format!("{label} frames of a picture {heads}x{dim}");
        let result = (|| {
            let mut case = Case::new(53);
            let out = tower(&mut case, 64, (heads, dim));
            let ready = case.finish(out)?;
            let frames: &[usize] = if small { &[4, 64, 68] } else { &[16, 64, 132, 4, 400] };
            let whole = pictures_of(frames, 64);
            let ours = ready.run(cuda, &whole, &["qk", "context"])?;
            let theirs = ready.run(&CpuBackend::new(), &whole, &["qk", "context"])?;
            Ok([distance(&ours[0], &theirs[0]), distance(&ours[1], &theirs[1])])
        })();
        if let Some(off) = report.outcome(&name, result) {
            let good = off.iter().all(|off| *off < 2e-5);
            report.check(&name, good, &format!("rotary off by {:.1e}, attention {:.1e}", off[0], off[1]));
        }
    }
}

/// Times at the 27B's sizes: a layer's attention, a block of the vision tower, the joint head's attention.
pub fn bench<B: Backend>(report: &mut Report, cuda: &B) {
    let shape = Shape { heads: 24, kv_heads: 4, dim: 256 };
    for lengths in [vec![298], vec![1502], vec![1502; 8], vec![16_384], vec![65_536]] {
        let name = format!("attention of {} x {} tokens", lengths.len(), lengths[0]);
        let result = (|| {
            let mut case = Case::new(59);
            let rows = lengths.iter().sum::<usize>();
            let values = case.normals(1024 * DEEP, 1.0);
            let x = case.rows(DEEP, &values);
            let qkv = case.int8("qkv", RowOp::Copy { x }, shape.width(), DEEP);
            let qk = shape.rotary(&mut case, qkv, 32);
            let context = shape.attention(&mut case, (qk, qk), shape.values(qkv));
            let gated = RowOp::SigmoidGate { x: context, gate: shape.gates(qkv) };
            let out = case.int8("out", gated, 64, shape.heads * shape.dim);
            let ready = case.finish(out)?;
            let mut batch = batch(&lengths, 0);
            batch.set(InputKind::TokenIds, (0..rows).map(|r| (r % 1024) as i32).collect());
            times(cuda, &ready, &batch)
        })();
        if let Some(times) = report.outcome(&name, result) {
            let tokens = |n: usize| n as f64;
            let pairs: f64 = lengths.iter().map(|&n| tokens(n) * tokens(n + 1) / 2.0).sum();
            let flop = 4.0 * pairs * (shape.heads * shape.dim) as f64;
            print(report, &name, &times, &[("CausalAttention", flop)]);
        }
    }
    for patches in [1024, 4096] {
        let name = format!("vision attention of {patches} patches");
        let result = (|| {
            let mut case = Case::new(61);
            let out = tower(&mut case, 1152, (16, 72));
            times(cuda, &case.finish(out)?, &pictures_of(&[patches], 1152))
        })();
        if let Some(times) = report.outcome(&name, result) {
            let flop = 4.0 * (patches * patches * 16 * 72) as f64;
            print(report, &name, &times, &[("Attention", flop)]);
        }
    }
}

/// Microseconds of each step by name, the fastest of several runs.
fn times<B: Backend>(cuda: &B, ready: &Ready, batch: &Batch) -> Result<Vec<(&'static str, f64)>> {
    let resident = cuda.load(&ready.graph, &ready.weights, &mut |_, _| {})?;
    let mut plan = cuda.plan(&ready.graph, &resident, &cuda.bucket(&batch.sizes))?;
    let mut best: Vec<(&'static str, f64)> = Vec::new();
    for _ in 0..5 {
        let times = pollster::block_on(cuda.profile(&mut plan, &resident, batch))?;
        let of = |t: &dikast_core::backend::StepTime| {
            (ready.graph.steps().get(t.step).map_or("", dikast_core::graph::Step::name), t.nanos as f64 / 1e3)
        };
        let times: Vec<_> = times.iter().map(of).collect();
        if best.is_empty() {
            best = times;
        } else {
            best.iter_mut().zip(&times).for_each(|(b, t)| b.1 = b.1.min(t.1));
        }
    }
    Ok(best)
}

fn print(report: &mut Report, name: &str, times: &[(&'static str, f64)], flops: &[(&str, f64)]) {
    let text: Vec<String> = times
        .iter()
        .map(|(step, us)| {
            let rate = flops.iter().find(|(s, _)| s == step).map(|(_, flop)| flop / us / 1e6);
            format!("{step} {us:.1} us{}", rate.map_or(String::new(), |r| format!(" ({r:.0} TFLOP/s)")))
        })
        .collect();
    report.figure(format!("{name}: {}", text.join(", ")), json!({ "bench": name, "us": times }));
}
