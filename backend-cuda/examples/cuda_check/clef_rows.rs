//! CLEF's row functions, its INT8 row quantizer and its causal convolution against the CPU.
//!
//! The quantizer is exact in its rows: rows as they are must give the CPU's codes and scales bit for bit; rows that a device
//! computes must give the codes that the CPU's quantizer makes of the device's own rows.

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{StoredType, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{
    Columns, Elements, Graph, GraphBuilder, Heads, InputKind, Residency, Rotation, RowOp, Sizes, TensorId,
    Weight, WeightId,
};
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::{self, Int8Mode};
use dikast_core::{Error, Result};
use dikast_cuda::{CudaBackend, RowKernel};
use serde_json::json;

use crate::report::Report;
use crate::steps::distance;
use crate::synth::{self, Random};

/// Lengths of the sequences; none may be empty.
const LENGTHS: [usize; 11] = [5, 1, 2, 70, 3, 4, 9, 6, 7, 1, 8];
/// Depth from which products write bfloat16.
const DEEP: usize = 640;

/// `small` leaves out the wide rows.
pub fn rows<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    copies(report, label, cuda, small);
    functions(report, label, cuda, small);
    halves(report, label, cuda);
    convolutions(report, label, cuda, small);
}

struct Case {
    graph: Graph,
    weights: Weights,
}

/// A graph over the rows of tables, each with its width and values.
fn case(
    tables: &[(&str, usize, &[f32])],
    build: impl FnOnce(&mut GraphBuilder, &[TensorId], TensorId) -> TensorId,
) -> Result<Case> {
    let mut b = GraphBuilder::new("rows");
    let ids = b.input(InputKind::TokenIds);
    let offsets = b.input(InputKind::SequenceOffsets);
    let mut given = Vec::new();
    let mut x = Vec::new();
    for (name, width, values) in tables {
        let weight = format!("{name}.table");
        let table = b.add_weight(Weight {
            name: weight.clone(),
            parts: vec![weight.clone()],
            shape: vec![values.len() / width, *width],
            elements: Elements::Real,
            residency: Residency::HostRows,
        });
        given.push((weight, values.to_vec()));
        x.push(b.embed(name, ids, table, None));
    }
    let out = build(&mut b, &x, offsets);
    let graph = b.finish(out)?;
    let choose = |spec: &dikast_core::checkpoint::TensorSpec| {
        if spec.allowed == [StoredType::I8] { StoredType::I8 } else { StoredType::F32 }
    };
    let given: Vec<(&str, Vec<f32>)> = given.iter().map(|(n, v)| (n.as_str(), v.clone())).collect();
    let weights = synth::weights(&synth::expected_of(&graph), choose, &given, 7)?;
    Ok(Case { graph, weights })
}

/// Sequences of these lengths over the tables' rows from `first` on.
fn batch(first: usize, lengths: &[usize]) -> Batch {
    let tokens = lengths.iter().sum();
    let mut batch = Batch::new(Sizes { tokens, sequences: lengths.len(), ..Sizes::NONE });
    batch.set(InputKind::TokenIds, (first..first + tokens).map(|i| i as i32).collect());
    let ends = lengths.iter().scan(0, |at, l| {
        *at += *l as i32;
        Some(*at)
    });
    batch.set(InputKind::SequenceOffsets, std::iter::once(0).chain(ends).collect());
    batch
}

impl Case {
    /// All tensors that steps write.
    fn run<B: Backend>(&self, backend: &B, batch: &Batch) -> Result<Taps> {
        let resident = backend.load(&self.graph, &self.weights, &mut |_, _| {})?;
        let mut plan = backend.plan(&self.graph, &resident, &backend.bucket(&batch.sizes))?;
        let mut taps = Taps::all(&self.graph);
        pollster::block_on(backend.run(&mut plan, &resident, batch, &mut taps))?;
        Ok(taps)
    }

    fn tensor<'a>(&self, taps: &'a Taps, name: &str) -> Result<&'a [f32]> {
        let id = self.graph.find(name).ok_or_else(|| Error::Internal(format!("no tensor {name}")))?;
        taps.get(id).ok_or_else(|| Error::Internal(format!("{name} was not tapped")))
    }
}

/// Bits, all NaN alike.
fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect()
}

fn differing(a: &[f32], b: &[f32]) -> usize {
    a.len().abs_diff(b.len()) + bits(a).iter().zip(bits(b)).filter(|(a, b)| **a != *b).count()
}

fn rotation(group: usize, mode: Int8Mode) -> Rotation {
    Rotation { group: Group::new(group), mode }
}

const MODES: [(&str, Int8Mode); 2] = [("standard", Int8Mode::Standard), ("exact", Int8Mode::Exact)];

/// Rows of many sizes: tiny, huge, of zeros, with one value far above the others, with ties between codes, not finite.
fn wild(rows: usize, width: usize) -> Vec<f32> {
    let mut random = Random::new(width as u64);
    let mut values = Vec::with_capacity(rows * width);
    for row in 0..rows {
        let size =
            [1.0, 3e-3, 1e-20, 1e-27, 3e-29, 1e-31, 1e-38, 0.0, 1e30, 3e36, 3e38, 300.0, 3e37][row % 13];
        for i in 0..width {
            let far = if row % 13 == 11 && i % 17 == 0 { 1e4 } else { 1.0 };
            let v: f32 = match row {
                13 => {
                    if i == 0 {
                        127.0
                    } else {
                        i as f32 % 64.0 + 0.5
                    }
                }
                14 if i == width / 2 => f32::INFINITY,
                15 if i == width - 1 => f32::NAN,
                // Doubled, they overflow; summed, they do not.
                16 => {
                    if i % 4 < 2 {
                        1.75e38
                    } else {
                        -1.75e38
                    }
                }
                17 => {
                    if i % 16 == 0 {
                        3.3e38
                    } else {
                        0.0
                    }
                }
                _ => (size * far * random.normal()).clamp(f32::MIN, f32::MAX),
            };
            values.push(v);
        }
    }
    values
}

fn copies<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    let wide = [(0, 8208), (256, 17_408), (256, 18_432), (1024, 12_288), (1024, 32_768)];
    let narrow = [
        (0, 16),
        (0, 304),
        (4, 16),
        (4, 1040),
        (16, 48),
        (16, 2064),
        (64, 64),
        (64, 128),
        (64, 1216),
        (256, 256),
        (256, 768),
        (256, 5120),
        (256, 6144),
        (1024, 1024),
        (1024, 3072),
    ];
    for (group, width) in narrow.into_iter().chain(wide.into_iter().filter(|_| !small)) {
        let rows = 41;
        let result = (|| {
            let values = wild(rows, width);
            let case = case(&[("x", width, &values)], |b, x, _| {
                let op = RowOp::Copy { x: x[0] };
                for (name, mode) in MODES {
                    b.rotate_quantize(name, op, rotation(group, mode), false);
                }
                b.sum("twice", vec![x[0]; 2])
            })?;
            let batch = batch(0, &[rows]);
            let (ours, theirs) = (case.run(cuda, &batch)?, case.run(&CpuBackend::new(), &batch)?);
            let mut counts = Vec::new();
            for (name, _) in MODES {
                for part in ["codes", "scales"] {
                    let name = format!("{name}.{part}");
                    let count = differing(case.tensor(&ours, &name)?, case.tensor(&theirs, &name)?);
                    if count > 0 {
                        counts.push(format!("{name} {count}"));
                    }
                }
            }
            Ok(counts)
        })();
        let name = format!("{label} rotate_quantize copy {width} in groups of {group}");
        if let Some(counts) = report.outcome(&name, result) {
            report.check(&name, counts.is_empty(), &format!("codes and scales that differ: {counts:?}"));
        }
    }
}

/// Values that codes of the CPU's quantizer differ in, from the device's own rows.
fn unlike_own_rows(case: &Case, taps: &Taps, name: &str, rotation: Rotation) -> Result<usize> {
    let rows = case.tensor(taps, &format!("{name}.rows"))?;
    let (codes, scales) =
        (case.tensor(taps, &format!("{name}.codes"))?, case.tensor(taps, &format!("{name}.scales"))?);
    let width = rows.len() / scales.len().max(1);
    let mut count = 0;
    let (mut scratch, mut want) = (vec![0.0; width], vec![0; width]);
    for ((row, codes), scale) in rows.chunks(width).zip(codes.chunks(width)).zip(scales) {
        let own = int8::quantize_row(row, rotation.group, rotation.mode, &mut scratch, &mut want);
        count += usize::from(own.to_bits() != scale.to_bits());
        count += codes.iter().zip(&want).filter(|(a, b)| **a != f32::from(**b)).count();
    }
    Ok(count)
}

/// What the three functions that compute give, rows and codes: the names are those of [`row_functions`].
const FUNCTIONS: [&str; 3] = ["rms", "gated", "sigmoid"];

/// All functions that compute, alone and quantized, over `x` and gates in a matrix of twice `width` columns.
fn row_functions(
    b: &mut GraphBuilder,
    x: TensorId,
    gates: TensorId,
    width: usize,
    head: usize,
    turn: Rotation,
) -> TensorId {
    let norm = b.weight("norm.weight", &[width]);
    let head_norm = b.weight("head_norm.weight", &[head]);
    let gate = Columns { tensor: gates, start: width, width };
    // The second half of each double head.
    let heads = Heads { tensor: gates, start: head, stride: 2 * head, width: head, count: width / head };
    let mut out = x;
    for (name, op) in [
        ("rms", RowOp::RmsNorm { x, weight: norm, eps: 1e-6 }),
        ("gated", RowOp::GatedRmsNorm { x, gate, weight: head_norm, eps: 1e-6 }),
        ("sigmoid", RowOp::SigmoidGate { x, gate: heads }),
    ] {
        b.rotate_quantize(name, op, turn, true);
        out = b.row_op(&format!("{name} alone"), op);
    }
    out
}

fn functions<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    let shapes = [
        (128, 32, 64),
        (128, 16, 4),
        (256, 64, 256),
        (768, 256, 256),
        (5120, 512, 1024),
        (6144, 128, 256),
        (8192, 256, 256),
    ];
    for (width, head, group) in shapes.into_iter().filter(|s| !small || s.0 <= 6144) {
        for (mode_name, mode) in MODES {
            let name =
                format!("{label} row functions {width} in heads of {head}, groups of {group}, {mode_name}");
            let rows = 37;
            let turn = rotation(group, mode);
            let result = (|| {
                let mut random = Random::new(5);
                let mut values = |width: usize| -> Vec<f32> {
                    (0..rows * width).map(|i| random.normal() * [1.0, 30.0, 1e-3][i / width % 3]).collect()
                };
                let (x, gates) = (values(width), values(2 * width));
                let case = case(&[("x", width, &x), ("gates", 2 * width, &gates)], |b, x, _| {
                    row_functions(b, x[0], x[1], width, head, turn)
                })?;
                let batch = batch(0, &[rows]);
                let (ours, theirs) = (case.run(cuda, &batch)?, case.run(&CpuBackend::new(), &batch)?);
                let mut good = true;
                let mut details = Vec::new();
                for name in FUNCTIONS {
                    let kept = case.tensor(&ours, &format!("{name}.rows"))?;
                    let want = case.tensor(&theirs, &format!("{name}.rows"))?;
                    let alone = bits(case.tensor(&ours, &format!("{name} alone"))?) == bits(kept);
                    let own = unlike_own_rows(&case, &ours, name, turn)?;
                    let codes = format!("{name}.codes");
                    let codes = differing(case.tensor(&ours, &codes)?, case.tensor(&theirs, &codes)?);
                    let off = distance(kept, want);
                    good &= off < 1e-6 && own == 0 && alone && codes * 1000 <= want.len();
                    details.push(format!(
                        "{name}: off by {off:.1e} ({} of {} bits differ), {codes} codes differ, {own} from own rows, alone the same {alone}",
                        differing(kept, want), want.len()
                    ));
                }
                Ok((good, details.join("; ")))
            })();
            if let Some((good, detail)) = report.outcome(&name, result) {
                report.check(&name, good, &detail);
            }
        }
    }
}

/// An INT8 weight and its scales. Without the ending of a module's weight, nobody asks whether it is rotated.
fn int8_weight(b: &mut GraphBuilder, name: &str, n: usize, k: usize) -> (WeightId, WeightId) {
    let weight = b.add_weight(Weight {
        name: name.to_owned(),
        parts: vec![name.to_owned()],
        shape: vec![n, k],
        elements: Elements::Int8,
        residency: Residency::Device,
    });
    (weight, b.weight(format!("{name}.weight_scale"), &[n, 1]))
}

/// Rows in bfloat16: what a deep product writes.
fn halves<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    for (width, head, group) in [(128, 32, 64), (768, 128, 256)] {
        let name = format!("{label} bfloat16 rows {width}");
        let tokens = LENGTHS.iter().sum::<usize>();
        let turn = rotation(group, Int8Mode::Standard);
        let exact = rotation(group, Int8Mode::Exact);
        let result = (|| {
            let mut random = Random::new(5);
            let x: Vec<f32> = (0..tokens * DEEP).map(|_| random.normal()).collect();
            let case = case(&[("x", DEEP, &x)], |b, x, offsets| {
                let (q, _) =
                    b.rotate_quantize("q", RowOp::Copy { x: x[0] }, rotation(64, Int8Mode::Standard), false);
                let product = |b: &mut GraphBuilder, name: &str, n: usize| {
                    let w = int8_weight(b, &format!("{name}.int8"), n, DEEP);
                    b.int8_linear(name, q, w, None, None)
                };
                let (rows, gates) = (product(b, "rows", width), product(b, "gates", 2 * width));
                let _ = b.rotate_quantize("copy", RowOp::Copy { x: rows }, turn, false);
                let _ = b.rotate_quantize("copy exact", RowOp::Copy { x: rows }, exact, false);
                let taps = b.weight("conv.weight", &[width, 1, 4]);
                let x = Columns { tensor: gates, start: 8, width };
                let conv = b.causal_conv("conv", x, taps, offsets);
                let head_norm = b.weight("head_norm.weight", &[head]);
                let gate = Columns { tensor: gates, start: width, width };
                let op = RowOp::GatedRmsNorm { x: conv, gate, weight: head_norm, eps: 1e-6 };
                let _ = b.rotate_quantize("gated", op, turn, true);
                let heads =
                    Heads { tensor: gates, start: head, stride: 2 * head, width: head, count: width / head };
                let (_, kept) =
                    b.rotate_quantize("sigmoid", RowOp::SigmoidGate { x: rows, gate: heads }, exact, true);
                kept.unwrap_or(rows)
            })?;
            let batch = batch(0, &LENGTHS);
            let (ours, theirs) = (case.run(cuda, &batch)?, case.run(&CpuBackend::new(), &batch)?);
            let mut good = true;
            let mut details = Vec::new();
            // Bfloat16 is what the quantizer rounds to anyway.
            for name in ["copy.codes", "copy.scales", "copy exact.codes", "copy exact.scales"] {
                let count = differing(case.tensor(&ours, name)?, case.tensor(&theirs, name)?);
                good &= count == 0;
                details.push(format!("{name} {count} differ"));
            }
            for name in ["conv", "gated.rows", "sigmoid.rows"] {
                let off = distance(case.tensor(&ours, name)?, case.tensor(&theirs, name)?);
                good &= off < 6e-3;
                details.push(format!("{name} off by {off:.1e}"));
            }
            for (name, turn) in [("gated", turn), ("sigmoid", exact)] {
                let own = unlike_own_rows(&case, &ours, name, turn)?;
                good &= own == 0;
                details.push(format!("{name} {own} from own rows"));
            }
            let same = alone_is_the_same(&case, cuda, &ours, &["conv", "gated.rows", "sigmoid.codes"])?;
            Ok((good && same, format!("{}, sequences alone the same {same}", details.join(", "))))
        })();
        if let Some((good, detail)) = report.outcome(&name, result) {
            report.check(&name, good, &detail);
        }
    }
}

/// Whether every sequence of [`LENGTHS`] has the same bits in a batch of its own.
fn alone_is_the_same<B: Backend>(case: &Case, cuda: &B, all: &Taps, names: &[&str]) -> Result<bool> {
    let mut first = 0;
    for length in LENGTHS {
        let alone = case.run(cuda, &batch(first, &[length]))?;
        for name in names {
            let (all, alone) = (case.tensor(all, name)?, case.tensor(&alone, name)?);
            let width = alone.len() / length;
            if bits(&all[first * width..(first + length) * width]) != bits(alone) {
                return Ok(false);
            }
        }
        first += length;
    }
    Ok(true)
}

fn convolutions<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    for (width, start) in [(4, 0), (200, 8), (1280, 4), (10_240, 0)] {
        if small && width > 2000 {
            continue;
        }
        let name = format!("{label} causal_conv {width}");
        let pitch = start + width + 12;
        let result = (|| {
            let mut random = Random::new(9);
            let tokens = LENGTHS.iter().sum::<usize>();
            let x: Vec<f32> = (0..tokens * pitch).map(|_| 2.0 * random.normal()).collect();
            let case = case(&[("x", pitch, &x)], |b, x, offsets| {
                let taps = b.weight("conv.weight", &[width, 1, 4]);
                b.causal_conv("conv", Columns { tensor: x[0], start, width }, taps, offsets)
            })?;
            let batch = batch(0, &LENGTHS);
            let (ours, theirs) = (case.run(cuda, &batch)?, case.run(&CpuBackend::new(), &batch)?);
            let (ours_rows, want) = (case.tensor(&ours, "conv")?, case.tensor(&theirs, "conv")?);
            let off = distance(ours_rows, want);
            let same = alone_is_the_same(&case, cuda, &ours, &["conv"])?;
            Ok((
                off < 1e-6 && same,
                format!(
                    "off by {off:.1e}, {} of {} bits differ, sequences alone the same {same}",
                    differing(ours_rows, want),
                    want.len()
                ),
            ))
        })();
        if let Some((good, detail)) = report.outcome(&name, result) {
            report.check(&name, good, &detail);
        }
    }
}

/// Times at the sizes of CLEF 27B.
pub fn bench(report: &mut Report, cuda: &CudaBackend) {
    let kernels = [
        ("rms_norm 5120 f32", RowKernel::RmsNorm { kept: false }, 5120),
        ("rms_norm 5120 f32, rows kept", RowKernel::RmsNorm { kept: true }, 5120),
        ("gated_rms_norm 6144 bf16", RowKernel::GatedRmsNorm, 6144),
        ("sigmoid_gate 6144 bf16", RowKernel::SigmoidGate, 6144),
        ("copy 17408 bf16", RowKernel::Copy, 17_408),
        ("causal_conv 10240 bf16", RowKernel::CausalConv, 10_240),
    ];
    for (name, kernel, width) in kernels {
        for tokens in [298, 1502, 12_016] {
            let Some(time) = report.outcome(name, cuda.time_rows(kernel, width, tokens)) else { continue };
            let rate = time.bytes as f64 / time.microseconds / 1e3;
            report.figure(
                format!("{name} m={tokens}: {:.1} us, {rate:.0} GB/s", time.microseconds),
                json!({ "rows": name, "m": tokens, "us": time.microseconds, "gb_s": rate }),
            );
        }
    }
}
