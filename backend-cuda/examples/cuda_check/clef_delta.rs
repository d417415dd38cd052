//! The gated delta rule against the CPU and against the plain recurrence in f64: all widths, float32 and bfloat16 rows,
//! sequences that end anywhere in a chunk, memories long and short; a sequence's bits in any batch; times at the 27B's size.

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{StoredType, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{
    DeltaHeads, Elements, Graph, GraphBuilder, InputKind, Residency, Rotation, RowOp, Sizes, Weight, WeightId,
};
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::{Error, Result};
use dikast_cuda::CudaBackend;
use serde_json::json;

use crate::report::Report;
use crate::steps::distance;
use crate::synth::{self, Random};

/// Depth of the products that hand on bfloat16 rows.
const DEEP: usize = 1024;
/// `A_log`: memories of hundreds of rows, of a few, of one.
const DECAYS: [f32; 3] = [-6.0, 0.0, 3.0];

#[derive(Clone, Copy)]
struct Shape {
    key_heads: usize,
    value_heads: usize,
    width: usize,
}

impl Shape {
    fn columns(self) -> usize {
        (2 * self.key_heads + self.value_heads) * self.width
    }
}

/// The rule on rows of a table of `rows`, or, for bfloat16, on what an INT8 product makes of them.
struct Case {
    shape: Shape,
    graph: Graph,
    weights: Weights,
    rows: usize,
}

impl Case {
    fn new(shape: Shape, rows: usize, sixteen: bool) -> Result<Self> {
        let Shape { key_heads, value_heads, width } = shape;
        let mut b = GraphBuilder::new("delta");
        let ids = b.input(InputKind::TokenIds);
        let offsets = b.input(InputKind::SequenceOffsets);
        let source_width = if sixteen { DEEP } else { shape.columns() };
        let table = rows_weight(&mut b, "source.table", rows, source_width);
        let source = b.embed(if sixteen { "source" } else { "x" }, ids, table, None);
        let rotation = Rotation { group: None, mode: Int8Mode::Exact };
        let x = if sixteen {
            let (q, _) = b.rotate_quantize("q", RowOp::Copy { x: source }, rotation, false);
            let weight = int8_weight(&mut b, "in", shape.columns(), DEEP);
            b.int8_linear("x", q, weight, None, None)
        } else {
            source
        };
        let table = rows_weight(&mut b, "gates.table", rows, 2 * value_heads);
        let gates = b.embed("gates", ids, table, None);
        let decay = b.weight("decay", &[value_heads]);
        let decay_bias = b.weight("decay_bias", &[value_heads]);
        let heads =
            DeltaHeads { decay, decay_bias, key_heads, value_heads, key_dim: width, value_dim: width };
        let mut out = b.gated_delta("delta", x, gates, offsets, heads);
        if sixteen {
            let (q, _) = b.rotate_quantize("after", RowOp::Copy { x: out }, rotation, false);
            let weight = int8_weight(&mut b, "out", 64, value_heads * width);
            out = b.int8_linear("out", q, weight, None, None);
        }
        let graph = b.finish(out)?;
        let mut random = Random::new(rows as u64);
        let mut normal = |count: usize, size: f32| (0..count).map(|_| size * random.normal()).collect();
        let given = [
            ("source.table", normal(rows * source_width, 1.0)),
            ("gates.table", normal(rows * 2 * value_heads, 2.0)),
            ("decay", (0..value_heads).map(|h| DECAYS[h % DECAYS.len()]).collect::<Vec<f32>>()),
            ("decay_bias", normal(value_heads, 1.0)),
        ];
        let choose = |spec: &dikast_core::checkpoint::TensorSpec| {
            if spec.allowed == [StoredType::I8] { StoredType::I8 } else { StoredType::F32 }
        };
        let weights = synth::weights(&synth::expected_of(&graph), choose, &given, 7)?;
        Ok(Self { shape, graph, weights, rows })
    }

    /// Sequences by first token id and length.
    fn batch(&self, sequences: &[(usize, usize)]) -> Batch {
        let tokens = sequences.iter().map(|s| s.1).sum();
        let mut batch = Batch::new(Sizes { tokens, sequences: sequences.len(), ..Sizes::NONE });
        let ids = sequences.iter().flat_map(|&(first, n)| first..first + n);
        batch.set(InputKind::TokenIds, ids.map(|id| (id % self.rows) as i32).collect());
        let mut offsets = vec![0];
        sequences.iter().for_each(|s| offsets.push(offsets[offsets.len() - 1] + s.1 as i32));
        batch.set(InputKind::SequenceOffsets, offsets);
        batch
    }

    /// `x`, `gates` and `delta`; the forward of its own must end in the same bits.
    fn run<B: Backend>(&self, backend: &B, batch: &Batch, bucket: &Sizes) -> Result<[Vec<f32>; 3]> {
        let resident = backend.load(&self.graph, &self.weights, &mut |_, _| {})?;
        let mut plan = backend.plan(&self.graph, &resident, bucket)?;
        let last = &self.graph.tensor(self.graph.output()).name;
        let mut taps = Taps::named(&self.graph, &["x", "gates", "delta", last])?;
        let output = pollster::block_on(backend.run(&mut plan, &resident, batch, &mut taps))?;
        let taken = |name: &str| {
            let id = self.graph.find(name).ok_or_else(|| Error::Internal(name.to_owned()))?;
            taps.get(id).map(<[f32]>::to_vec).ok_or_else(|| Error::Internal(format!("no tap {name}")))
        };
        if bits(&taken(last)?) != bits(&output) {
            return Err(Error::Internal("the forward differs from the launches one by one".to_owned()));
        }
        Ok([taken("x")?, taken("gates")?, taken("delta")?])
    }

    /// The plain recurrence on the rows that a run had.
    fn recurrence(&self, sequences: &[(usize, usize)], x: &[f32], gates: &[f32]) -> Result<Vec<f32>> {
        let Shape { key_heads, value_heads, width } = self.shape;
        let vector = |name: &str| -> Result<Vec<f32>> { Ok(self.weights.tensor(name)?.to_f32()) };
        let (decay, bias) = (vector("decay")?, vector("decay_bias")?);
        let unit = |row: &[f32], scale: f64| -> Vec<f64> {
            let sum: f64 = row.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>() + 1e-6;
            row.iter().map(|&v| f64::from(v) / sum.sqrt() * scale).collect()
        };
        let columns = self.shape.columns();
        let mut out = vec![0.0; x.len() / columns * value_heads * width];
        let mut first = 0;
        for &(_, rows) in sequences {
            for head in 0..value_heads {
                let key = head / (value_heads / key_heads) * width;
                let mut state = vec![0.0_f64; width * width];
                for row in first..first + rows {
                    let x = &x[row * columns..][..columns];
                    let q = unit(&x[key..][..width], 1.0 / (width as f64).sqrt());
                    let k = unit(&x[key_heads * width + key..][..width], 1.0);
                    let v = &x[(2 * key_heads + head) * width..][..width];
                    let gates = &gates[row * 2 * value_heads..][..2 * value_heads];
                    let a = f64::from(gates[head] + bias[head]);
                    let soft = if a > 20.0 { a } else { a.exp().ln_1p() };
                    let keep = (-f64::from(decay[head]).exp() * soft).exp();
                    let beta = 1.0 / (1.0 + (-f64::from(gates[value_heads + head])).exp());
                    let mut seen = vec![0.0; width];
                    for (s, k) in state.chunks_mut(width).zip(&k) {
                        for (s, seen) in s.iter_mut().zip(&mut seen) {
                            *s *= keep;
                            *seen += *s * k;
                        }
                    }
                    let mut y = vec![0.0; width];
                    for ((s, k), q) in state.chunks_mut(width).zip(&k).zip(&q) {
                        for j in 0..width {
                            s[j] += k * beta * (f64::from(v[j]) - seen[j]);
                            y[j] += s[j] * q;
                        }
                    }
                    let to = &mut out[(row * value_heads + head) * width..][..width];
                    to.iter_mut().zip(&y).for_each(|(to, y)| *to = *y as f32);
                }
            }
            first += rows;
        }
        Ok(out)
    }
}

fn rows_weight(b: &mut GraphBuilder, name: &str, rows: usize, width: usize) -> WeightId {
    b.add_weight(Weight {
        name: name.to_owned(),
        parts: vec![name.to_owned()],
        shape: vec![rows, width],
        elements: Elements::Real,
        residency: Residency::HostRows,
    })
}

fn int8_weight(b: &mut GraphBuilder, name: &str, n: usize, k: usize) -> (WeightId, WeightId) {
    // Not `NAME.weight`: a checkpoint would have to say whether its codes are rotated.
    let weight = b.add_weight(Weight {
        name: name.to_owned(),
        parts: vec![name.to_owned()],
        shape: vec![n, k],
        elements: Elements::Int8,
        residency: Residency::Device,
    });
    (weight, b.weight(format!("{name}.weight_scale"), &[n, 1]))
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

/// All checks of this file; `small` leaves out what takes a CPU long.
pub fn delta<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    let lengths = [63, 64, 1, 65, 300, 128, 2, 17, 191];
    for (key_heads, value_heads, width) in [(1, 3, 128), (2, 6, 32), (2, 2, 64)] {
        for sixteen in [true, false] {
            let shape = Shape { key_heads, value_heads, width };
            check(report, label, cuda, shape, &lengths, sixteen);
        }
    }
    if !small {
        let every: Vec<usize> = (1..=300).collect();
        check(report, label, cuda, Shape { key_heads: 1, value_heads: 3, width: 32 }, &every, false);
        check(report, label, cuda, Shape { key_heads: 16, value_heads: 48, width: 128 }, &[1502, 298], true);
    }
}

fn check<B: Backend>(
    report: &mut Report,
    label: &str,
    cuda: &B,
    shape: Shape,
    lengths: &[usize],
    sixteen: bool,
) {
    let Shape { key_heads, value_heads, width } = shape;
    let format = if sixteen { "bf16" } else { "f32" };
    let name =
        format!("{label} delta {key_heads}/{value_heads}x{width} {format}, {} sequences", lengths.len());
    let result = (|| {
        let mut first = 0;
        let sequences: Vec<(usize, usize)> = lengths
            .iter()
            .map(|&n| {
                first += n;
                (first - n, n)
            })
            .collect();
        let case = Case::new(shape, first, sixteen)?;
        let batch = case.batch(&sequences);
        let bucket = cuda.bucket(&batch.sizes);
        let [x, gates, ours] = case.run(cuda, &batch, &bucket)?;
        let off = distance(&ours, &case.recurrence(&sequences, &x, &gates)?);
        let cpu = CpuBackend::new();
        let [x, gates, theirs] = case.run(&cpu, &batch, &cpu.bucket(&batch.sizes))?;
        let cpu_off = distance(&theirs, &case.recurrence(&sequences, &x, &gates)?);
        // Each sequence's rows in other batches, and in this one's bucket.
        let mut differing = Vec::new();
        let some = sequences.len().min(9);
        for which in [vec![some - 1], vec![0], (0..some).rev().collect(), vec![some / 2, 0]] {
            let chosen: Vec<_> = which.iter().map(|&i| sequences[i]).collect();
            let batch = case.batch(&chosen);
            for bucket in [cuda.bucket(&batch.sizes), bucket] {
                let [_, _, part] = case.run(cuda, &batch, &bucket)?;
                let mut at = 0;
                for &(first, rows) in &chosen {
                    let row = value_heads * width;
                    if bits(&part[at..at + rows * row]) != bits(&ours[first * row..(first + rows) * row]) {
                        differing.push((rows, chosen.len()));
                    }
                    at += rows * row;
                }
            }
        }
        Ok((off, cpu_off, distance(&ours, &theirs), differing))
    })();
    // float32 rows of the widest heads do not fit the shared memory of every chip; no model has them.
    if let Err(Error::Unsupported { need, .. }) = &result
        && (width, sixteen) == (128, false)
    {
        report.check(&name, true, &format!("refused: {need}"));
        return;
    }
    if let Some((off, cpu_off, between, differing)) = report.outcome(&name, result) {
        // bfloat16 results are rounded to 2⁻⁹ of themselves, and their operands differ by what INT8 rows do.
        let good = if sixteen { off < 3e-3 } else { off < 2e-5 && between < 2e-5 };
        let text = format!("off by {off:.1e} (CPU {cpu_off:.1e}), from the CPU's {between:.1e}");
        let few = &differing[..differing.len().min(4)];
        report.check(&name, good && differing.is_empty(), &format!("{text}, other bits {few:?}"));
    }
}

/// Times of both kernels at the 27B's size.
pub fn bench(report: &mut Report, cuda: &CudaBackend) {
    let shape = Shape { key_heads: 16, value_heads: 48, width: 128 };
    let loaded = Case::new(shape, 256, true)
        .and_then(|case| Ok((cuda.load(&case.graph, &case.weights, &mut |_, _| {})?, case)));
    let Some((resident, case)) = report.outcome("delta at the 27B's size", loaded) else { return };
    for (count, tokens) in [(1, 64), (1, 298), (1, 1502), (1, 2270), (2, 1502), (8, 1502)] {
        let label = format!("delta {count}x{tokens}");
        let result = (|| -> Result<Vec<(&'static str, f64)>> {
            let sequences: Vec<_> = (0..count).map(|s| (31 * s, tokens)).collect();
            let batch = case.batch(&sequences);
            let mut plan = cuda.plan(&case.graph, &resident, &cuda.bucket(&batch.sizes))?;
            pollster::block_on(cuda.run(&mut plan, &resident, &batch, &mut Taps::none()))?;
            let kernels = cuda.kernels(&plan);
            let mut times = vec![Vec::new(); kernels.len()];
            for _ in 0..3 {
                let measured = pollster::block_on(cuda.profile(&mut plan, &resident, &batch))?;
                times.iter_mut().zip(&measured).for_each(|(all, t)| all.push(t.nanos as f64 / 1e3));
            }
            Ok(kernels
                .iter()
                .zip(&mut times)
                .filter(|((_, kernel), _)| kernel.contains("gated_delta"))
                .map(|((_, kernel), all)| {
                    all.sort_by(f64::total_cmp);
                    (*kernel, all[all.len() / 2])
                })
                .collect())
        })();
        if let Some(times) = report.outcome(&label, result) {
            let sum: f64 = times.iter().map(|t| t.1).sum();
            let text: Vec<String> = times.iter().map(|(kernel, us)| format!("{kernel} {us:.1}")).collect();
            report.figure(
                format!("{label}: {sum:.1} us: {}", text.join(", ")),
                json!({ "delta": [count, tokens], "us": sum, "kernels": times }),
            );
        }
    }
}
