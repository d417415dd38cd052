//! Single steps against the CPU, on random rows of odd sizes, activations poisoned before each run.

use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::{StoredType, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{
    Activation, Columns, Elements, Graph, GraphBuilder, InputKind, RelativeBias, Residency, Sizes, TensorId,
    Weight, WeightId,
};
use dikast_core::numerics::fp8;
use dikast_core::{Error, Result};

use crate::report::Report;
use crate::synth::{self, Random};

/// A graph over rows of one table, its weights, and the rows.
pub struct Case {
    graph: Graph,
    weights: Weights,
    table_rows: usize,
}

/// The rows in question: of very different sizes, one of zeros, one tiny.
fn table(rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..rows)
        .flat_map(|r| {
            let size = match r % 11 {
                3 => 0.0,
                5 => 1e-39,
                n => 10f32.powi(n as i32 - 5),
            };
            (0..width).map(|_| random.normal() * size).collect::<Vec<_>>()
        })
        .collect()
}

pub fn tame_table(rows: usize, width: usize, seed: u64) -> Vec<f32> {
    let mut random = Random::new(seed);
    (0..rows * width).map(|_| random.normal()).collect()
}

pub fn case(
    shape: (usize, usize),
    values: Vec<f32>,
    real: StoredType,
    build: impl FnOnce(&mut GraphBuilder, TensorId) -> TensorId,
) -> Result<Case> {
    case_with(shape, &[("table", values)], real, build)
}

/// The same with the values of more weights given.
fn case_with(
    (rows, width): (usize, usize),
    given: &[(&str, Vec<f32>)],
    real: StoredType,
    build: impl FnOnce(&mut GraphBuilder, TensorId) -> TensorId,
) -> Result<Case> {
    let mut b = GraphBuilder::new("case");
    let ids = b.input(InputKind::TokenIds);
    let table = b.add_weight(Weight {
        name: "table".into(),
        parts: vec!["table".into()],
        shape: vec![rows, width],
        elements: Elements::Real,
        residency: Residency::HostRows,
    });
    let x = b.embed("x", ids, table, None);
    let out = build(&mut b, x);
    let graph = b.finish(out)?;
    let expected = synth::expected_of(&graph);
    let choose = |spec: &dikast_core::checkpoint::TensorSpec| {
        if spec.allowed == [StoredType::F8E4M3] { StoredType::F8E4M3 } else { real }
    };
    let weights = synth::weights(&expected, choose, given, 7)?;
    Ok(Case { graph, weights, table_rows: rows })
}

impl Case {
    fn batch(&self, tokens: usize) -> Batch {
        let sizes = Sizes { tokens, sequences: 1, labels: 0, text_tokens: 0, ..Sizes::default() };
        let mut batch = Batch::new(sizes);
        batch.set(InputKind::TokenIds, (0..tokens).map(|t| (t % self.table_rows) as i32).collect());
        batch
    }

    /// The tapped tensors by name.
    pub fn run<B: Backend>(&self, backend: &B, batch: &Batch, names: &[&str]) -> Result<Vec<Vec<f32>>> {
        let resident = backend.load(&self.graph, &self.weights, &mut |_, _| {})?;
        let bucket = backend.bucket(&batch.sizes);
        let mut plan = backend.plan(&self.graph, &resident, &bucket)?;
        let mut taps = Taps::named(&self.graph, names)?;
        let output = pollster::block_on(backend.run(&mut plan, &resident, batch, &mut taps))?;
        let taken = names
            .iter()
            .map(|n| {
                let id = self.graph.find(n).ok_or_else(|| Error::Internal((*n).to_owned()))?;
                taps.get(id).map(<[f32]>::to_vec).ok_or_else(|| Error::Internal(format!("no tap {n}")))
            })
            .collect::<Result<Vec<_>>>()?;
        // The captured forward and the tapped one are the same arithmetic.
        let tapped = self.graph.find(names[names.len() - 1]) == Some(self.graph.output());
        if tapped && bits(&output) != bits(&taken[taken.len() - 1]) {
            return Err(Error::Internal(
                "the captured forward differs from the launches one by one".to_owned(),
            ));
        }
        Ok(taken)
    }
}

pub fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

/// ‖a − b‖ / ‖b‖ in f64; NaN when either has one.
pub fn distance(a: &[f32], b: &[f32]) -> f64 {
    let (mut num, mut den) = (0.0, 0.0);
    for (a, b) in a.iter().zip(b) {
        num += (f64::from(*a) - f64::from(*b)).powi(2);
        den += f64::from(*b).powi(2);
    }
    if a.len() != b.len() { f64::NAN } else { (num / den.max(1e-300)).sqrt() }
}

/// Largest elementwise difference over the row's largest value.
fn row_distance(a: &[f32], b: &[f32], width: usize) -> f64 {
    let mut worst = 0.0f64;
    for (a, b) in a.chunks(width).zip(b.chunks(width)) {
        let most = b.iter().fold(0.0f64, |m, v| m.max(f64::from(v.abs()))).max(1e-30);
        for (a, b) in a.iter().zip(b) {
            let d = (f64::from(*a) - f64::from(*b)).abs() / most;
            worst = if d.is_nan() { f64::NAN } else { worst.max(d) };
        }
    }
    worst
}

/// `small` leaves out what takes a CPU long.
pub fn all<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    quantizers(report, label, cuda);
    norms(report, label, cuda);
    linears(report, label, cuda, small);
    products(report, label, cuda, small);
    attentions(report, label, cuda);
    if !small {
        rows_in_any_linear(report, label, cuda);
    }
    halves(report, label, cuda);
}

fn quantizers<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    for (rows, width) in [(1, 32), (7, 320), (64, 2048), (130, 5120), (33, 8192), (9, 100)] {
        let name = format!("{label} quantize {rows}x{width}");
        let mut values = table(rows, width, 3);
        if rows > 8 {
            values[8 * width + 3] = f32::NAN;
            values[2 * width] = f32::INFINITY;
            // Scales of all sizes, quotients halfway between codes, zeros of both signs.
            values[6 * width..7 * width].iter_mut().for_each(|v| *v *= 1e33);
            values[width..2 * width].iter_mut().for_each(|v| *v *= 1e-22);
            for (i, v) in values[4 * width..5 * width].iter_mut().enumerate() {
                *v = (i as f32 % 255.0) / 16.0 * if i % 2 == 0 { -1.0 } else { 1.0 };
            }
            values[4 * width + 7] = 448.0;
            // Zeros of both signs in a row of numbers, and large numbers beside small ones.
            values[4 * width + 1] = -0.0;
            values[4 * width + 2] = 0.0;
            values[6 * width..7 * width].iter_mut().step_by(3).for_each(|x| *x *= 1e30);
        }
        let result = (|| {
            let case = case((rows, width), values, StoredType::BF16, |b, x| {
                let q = b.quantize("q", x);
                let w = fp8_weight(b, "w", 16, width);
                b.quant_linear("y", q, w.0, w.1, None)
            })?;
            let batch = case.batch(rows);
            let names = ["q.codes", "q.scales"];
            let (ours, theirs) =
                (case.run(cuda, &batch, &names)?, case.run(&CpuBackend::new(), &batch, &names)?);
            Ok((bits(&ours[0]) == bits(&theirs[0]), bits_or_nan(&ours[1]) == bits_or_nan(&theirs[1])))
        })();
        if let Some((codes, scales)) = report.outcome(&name, result) {
            report.check(&name, codes && scales, &format!("codes equal {codes}, scales equal {scales}"));
        }
    }
}

fn bits_or_nan(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect()
}

fn fp8_weight(b: &mut GraphBuilder, name: &str, n: usize, k: usize) -> (WeightId, WeightId) {
    let weight = b.add_weight(Weight {
        name: name.to_owned(),
        parts: vec![name.to_owned()],
        shape: vec![n, k],
        elements: Elements::E4M3,
        residency: Residency::Device,
    });
    (weight, b.weight(format!("{name}.weight_scale"), &[n, 1]))
}

fn norms<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    for (rows, width) in [(1, 32), (7, 384), (130, 2048), (5, 5120)] {
        let name = format!("{label} norms {rows}x{width}");
        let result = (|| {
            let case = case((rows, width), table(rows, width, 5), StoredType::BF16, |b, x| {
                let norm = b.weight("norm.weight", &[width]);
                let bias = b.weight("norm.bias", &[width]);
                let n = b.rms_norm("n", x, norm, 1e-6);
                let q = b.rms_norm_quantize("q", x, norm, 1e-6);
                let w = fp8_weight(b, "w", 16, width);
                let _ = b.quant_linear("y", q, w.0, w.1, None);
                let l = b.layer_norm("l", x, norm, bias, 1e-5);
                let _ = b.l2_normalize("u", x, 1e-8);

                b.concat("both", n, None, l)
            })?;
            let batch = case.batch(rows);
            let names = ["n", "l", "u", "q.codes", "q.scales", "both"];
            let (ours, theirs) =
                (case.run(cuda, &batch, &names)?, case.run(&CpuBackend::new(), &batch, &names)?);
            let mut codes = vec![0; width];
            let mut exact = true;
            for (r, row) in ours[0].chunks(width).enumerate() {
                let scale = fp8::quantize_row(row, &mut codes);
                let decoded: Vec<f32> =
                    codes.iter().map(|&c| dikast_core::numerics::e4m3::decode(c)).collect();
                exact &= bits(&decoded) == bits(&ours[3][r * width..(r + 1) * width]);
                exact &= scale.to_bits() == ours[4][r].to_bits();
            }
            let worst = (0..3).map(|i| row_distance(&ours[i], &theirs[i], width)).fold(0.0, f64::max);
            let nan = ours.iter().flatten().any(|v| v.is_nan());
            Ok((exact, if nan { f64::NAN } else { worst }))
        })();
        if let Some((exact, worst)) = report.outcome(&name, result) {
            let good = exact && worst < 3e-5;
            report.check(
                &name,
                good,
                &format!("codes of the normed row exact {exact}, rows off by {worst:.1e}"),
            );
        }
    }
}

fn linears<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    for stored in [StoredType::BF16, StoredType::F32] {
        for (rows, k, n) in
            [(1, 32, 1), (5, 64, 48), (33, 320, 640), (70, 2048, 2048), (100, 4096, 1024), (8, 512, 1)]
        {
            if small && k * n > 1 << 20 {
                continue;
            }
            let name = format!("{label} linear {stored:?} {rows}x{k}x{n}");
            let result = (|| {
                let case = case((rows, k), tame_table(rows, k, 9), stored, |b, x| {
                    let (w, bias) = (b.weight("w", &[n, k]), b.weight("b", &[n]));
                    let plain = b.linear("plain", x, w, None, None, None);
                    let rich = b.linear("rich", x, w, Some(bias), Some(Activation::GeluErf), Some(plain));
                    if n % 2 == 0 && n > 1 {
                        b.linear_gated("gated", x, w, Activation::GeluTanh)
                    } else {
                        rich
                    }
                })?;
                let batch = case.batch(rows);
                let last = if n % 2 == 0 && n > 1 { "gated" } else { "rich" };
                let names = ["plain", "rich", last];
                let (ours, theirs) =
                    (case.run(cuda, &batch, &names)?, case.run(&CpuBackend::new(), &batch, &names)?);
                Ok((0..3).map(|i| distance(&ours[i], &theirs[i])).fold(0.0, f64::max))
            })();
            if let Some(worst) = report.outcome(&name, result) {
                report.check(&name, worst < 2e-5, &format!("off by {worst:.1e}"));
            }
        }
    }
}

/// A row's bits in float32 products of every tile: few tokens, many, gated or not.
fn rows_in_any_linear<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    let (n, k, rows) = (2048, 2048, 100);
    let name = format!("{label} linear {n}x{k}, a row's bits in any batch");
    let result = (|| {
        let case = case((rows, k), tame_table(rows, k, 19), StoredType::BF16, |b, x| {
            let (w, bias) = (b.weight("w", &[n, k]), b.weight("b", &[n]));
            let plain = b.linear("plain", x, w, None, None, None);
            let rich = b.linear("rich", x, w, Some(bias), Some(Activation::GeluErf), Some(plain));
            let gated = b.linear_gated("gated", x, w, Activation::GeluTanh);
            b.concat("both", rich, None, gated)
        })?;
        let names = ["both"];
        let width = n + n / 2;
        let theirs = case.run(&CpuBackend::new(), &case.batch(rows), &names)?;
        let (mut first, mut wrong, mut worst) = (None, Vec::new(), 0.0f64);
        for tokens in [3, 64, 65, 128, 300, 513, 1500, 2100] {
            let ours = case.run(cuda, &case.batch(tokens), &names)?;
            let few = width * tokens.min(rows);
            worst = worst.max(distance(&ours[0][..few], &theirs[0][..few]));
            let head = bits(&ours[0][..3 * width]);
            if first.get_or_insert_with(|| head.clone()) != &head {
                wrong.push(tokens);
            }
        }
        Ok((worst, wrong))
    })();
    if let Some((worst, wrong)) = report.outcome(&name, result) {
        let good = worst < 2e-5 && wrong.is_empty();
        report.check(&name, good, &format!("off by {worst:.1e}, other bits with {wrong:?} tokens"));
    }
}

/// What deep products hand on in 16 bits: attention over it against the CPU's over the same rows, and quantizers of it.
pub fn halves<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    let (heads, dim, depth) = (4, 64, 1024);
    let inner = heads * dim;
    let name = format!("{label} 16-bit rows between deep products");
    let lengths = [1usize, 5, 64, 65, 200, 300, 17];
    let attended = [1usize, 5, 60, 65, 0, 300, 16];
    let rows: usize = lengths.iter().sum();
    let attention = |b: &mut GraphBuilder, qkv: TensorId| {
        let offsets = b.input(InputKind::SequenceOffsets);
        let counts = b.input(InputKind::AttendedLengths);
        let part = |i: usize| Columns { tensor: qkv, start: i * inner, width: inner };
        let bias = RelativeBias {
            table: b.weight("relative_attention_bias.weight", &[32, heads]),
            buckets: 32,
            max_distance: 128,
        };
        let operands = (part(0), part(1), part(2));
        b.attention("context", operands, (offsets, offsets), Some(counts), (heads, dim), 1.0, Some(bias))
    };
    let batch_of = |which: std::ops::Range<usize>| {
        let before: usize = lengths[..which.start].iter().sum();
        let tokens: usize = lengths[which.clone()].iter().sum();
        let mut batch = Batch::new(Sizes {
            tokens,
            sequences: which.len(),
            labels: 0,
            text_tokens: 0,
            ..Sizes::default()
        });
        batch.set(InputKind::TokenIds, (before as i32..(before + tokens) as i32).collect());
        let ends = lengths[which.clone()].iter().scan(0, |at, l| {
            *at += *l as i32;
            Some(*at)
        });
        batch.set(InputKind::SequenceOffsets, std::iter::once(0).chain(ends).collect());
        batch.set(InputKind::AttendedLengths, attended[which].iter().map(|&l| l as i32).collect());
        batch
    };
    let result = (|| {
        let bias = tame_table(32, heads, 29);
        let given = |table: Vec<f32>| [("table", table), ("relative_attention_bias.weight", bias.clone())];
        let rows_in = given(tame_table(rows, depth, 23));
        let deep = case_with((rows, depth), &rows_in, StoredType::BF16, |b, x| {
            let q = b.quantize("x.q", x);
            let w = fp8_weight(b, "qkv.w", 3 * inner, depth);
            let qkv = b.quant_linear("qkv", q, w.0, w.1, None);
            let context = attention(b, qkv);
            let c = b.quantize("c", context);
            let w = fp8_weight(b, "o.w", 64, inner);
            let y = b.quant_linear("y", c, w.0, w.1, None);
            let w = fp8_weight(b, "wi.w", 512, depth);
            let gated = b.quant_linear_gated("gated", q, w.0, w.1, Activation::GeluTanh);
            let g = b.quantize("g", gated);
            let w = fp8_weight(b, "wo.w", 64, 256);
            let z = b.quant_linear("z", g, w.0, w.1, None);
            b.concat("both", y, None, z)
        })?;
        let names = ["qkv", "context", "c.codes", "c.scales", "gated", "g.codes", "g.scales", "both"];
        let ours = deep.run(cuda, &batch_of(0..7), &names)?;
        // The CPU's attention over our q, k, v.
        let alone = case_with((rows, 3 * inner), &given(ours[0].clone()), StoredType::BF16, attention)?;
        let context = alone.run(&CpuBackend::new(), &batch_of(0..7), &["context"])?;
        let theirs = deep.run(&CpuBackend::new(), &batch_of(0..7), &["qkv", "gated"])?;
        let off = [
            row_distance(&ours[0], &theirs[0], 3 * inner),
            row_distance(&ours[1], &context[0], inner),
            row_distance(&ours[4], &theirs[1], 256),
        ];
        // Codes are exact in what is stored.
        let mut exact = true;
        for (x, codes, scales, width) in [(1, 2, 3, inner), (4, 5, 6, 256)] {
            let mut wanted = vec![0; width];
            for (r, row) in ours[x].chunks(width).enumerate() {
                let scale = fp8::quantize_row(row, &mut wanted);
                let decoded: Vec<f32> =
                    wanted.iter().map(|&c| dikast_core::numerics::e4m3::decode(c)).collect();
                exact &= bits(&decoded) == bits(&ours[codes][r * width..(r + 1) * width]);
                exact &= scale.to_bits() == ours[scales][r].to_bits();
            }
        }
        // The last sequence alone, and the one before.
        let mut same = true;
        for s in [5, 6] {
            let part = deep.run(cuda, &batch_of(s..s + 1), &["both"])?;
            let before: usize = lengths[..s].iter().sum();
            same &= bits(&part[0]) == bits(&ours[7][before * 128..(before + lengths[s]) * 128]);
        }
        Ok((off, exact, same))
    })();
    if let Some((off, exact, same)) = report.outcome(&name, result) {
        let good = off[0] < 2e-3 && off[1] < 2e-3 && off[2] < 8e-3 && exact && same;
        report.check(
            &name,
            good,
            &format!(
                "q, k, v off by {:.1e}, attention {:.1e}, gated {:.1e}; codes exact {exact}, alone the same bits {same}",
                off[0], off[1], off[2]
            ),
        );
    }
}

fn products<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    let sizes = [1, 64, 65, 96, 130, 192, 256, 300, 520];
    for (n, k) in [(48, 32), (384, 128), (640, 320), (2048, 2048), (6144, 2048), (10240, 2048), (2048, 5120)]
    {
        if small && k * n > 1 << 20 {
            continue;
        }
        let name = format!("{label} fp8 product {n}x{k}");
        let rows = 520;
        let built = case((rows, k), tame_table(rows, k, 11), StoredType::BF16, |b, x| {
            let q = b.quantize("q", x);
            let w = fp8_weight(b, "w", n, k);
            let plain = b.quant_linear("plain", q, w.0, w.1, None);
            let rich = b.quant_linear("rich", q, w.0, w.1, Some(plain));
            let gated = b.quant_linear_gated("gated", q, w.0, w.1, Activation::GeluTanh);
            // One output of all three, so that all three run captured too.
            let two = b.concat("two", plain, None, rich);
            b.concat("all", two, None, gated)
        });
        let Some(case) = report.outcome(&name, built) else { continue };
        let names = ["plain", "rich", "gated", "all"];
        let reference = case.run(&CpuBackend::new(), &case.batch(130), &names);
        let Some(reference) = report.outcome(&name, reference) else { continue };
        let mut first: Option<Vec<Vec<u32>>> = None;
        for tokens in sizes {
            let name = format!("{name} m={tokens}");
            let Some(ours) = report.outcome(&name, case.run(cuda, &case.batch(tokens), &names)) else {
                break;
            };
            let rows = tokens.min(130);
            let off: Vec<f64> = (0..3)
                .map(|i| {
                    let width = ours[i].len() / tokens;
                    distance(&ours[i][..rows * width], &reference[i][..rows * width])
                })
                .collect();
            // The first row's bits are the same in every batch.
            let row: Vec<Vec<u32>> = ours.iter().map(|y| bits(&y[..y.len() / tokens])).collect();
            let same = first.get_or_insert_with(|| row.clone()) == &row;
            let good = off.iter().all(|d| *d < 1.5e-3) && same;
            report.check(
                &name,
                good,
                &format!(
                    "off by {:.1e} {:.1e} gated {:.1e}, first row's bits kept {same}",
                    off[0], off[1], off[2]
                ),
            );
        }
    }
}

fn attentions<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    for (heads, dim, biased) in [(4, 64, true), (2, 32, true), (8, 16, false), (2, 128, false), (3, 24, true)]
    {
        let name = format!("{label} attention {heads}x{dim}{}", if biased { " with bias" } else { "" });
        let inner = heads * dim;
        let lengths = [1usize, 5, 64, 65, 200, 300, 17];
        let attended = [1usize, 5, 60, 65, 0, 300, 16];
        let rows: usize = lengths.iter().sum();
        let result = (|| {
            let case = case((rows, 3 * inner), tame_table(rows, 3 * inner, 13), StoredType::BF16, |b, x| {
                let offsets = b.input(InputKind::SequenceOffsets);
                let counts = b.input(InputKind::AttendedLengths);
                let part = |i: usize| Columns { tensor: x, start: i * inner, width: inner };
                let bias = biased.then(|| RelativeBias {
                    table: b.weight("relative_attention_bias.weight", &[32, heads]),
                    buckets: 32,
                    max_distance: 128,
                });
                let scale = if biased { 1.0 } else { (dim as f32).sqrt().recip() };
                b.attention(
                    "context",
                    (part(0), part(1), part(2)),
                    (offsets, offsets),
                    Some(counts),
                    (heads, dim),
                    scale,
                    bias,
                )
            })?;
            let sizes = Sizes {
                tokens: rows,
                sequences: lengths.len(),
                labels: 0,
                text_tokens: 0,
                ..Sizes::default()
            };
            let mut batch = Batch::new(sizes);
            batch.set(InputKind::TokenIds, (0..rows as i32).collect());
            let mut offsets = vec![0];
            offsets.extend(lengths.iter().scan(0, |at, l| {
                *at += *l as i32;
                Some(*at)
            }));
            batch.set(InputKind::SequenceOffsets, offsets);
            batch.set(InputKind::AttendedLengths, attended.iter().map(|&l| l as i32).collect());
            let names = ["context"];
            let ours = case.run(cuda, &batch, &names)?;
            let theirs = case.run(&CpuBackend::new(), &batch, &names)?;
            // The last sequence alone.
            let tail = rows - 17;
            let mut alone =
                Batch::new(Sizes { tokens: 17, sequences: 1, labels: 0, text_tokens: 0, ..Sizes::default() });
            alone.set(InputKind::TokenIds, (tail as i32..rows as i32).collect());
            alone.set(InputKind::SequenceOffsets, vec![0, 17]);
            alone.set(InputKind::AttendedLengths, vec![16]);
            let alone = case.run(cuda, &alone, &names)?;
            let same = bits(&alone[0]) == bits(&ours[0][tail * inner..]);
            Ok((row_distance(&ours[0], &theirs[0], inner), same))
        })();
        if let Some((worst, same)) = report.outcome(&name, result) {
            let good = worst < 2e-4 && same;
            report.check(&name, good, &format!("rows off by {worst:.1e}, alone the same bits {same}"));
        }
    }
}
