//! INT8 products: every kernel and tile bit for bit, the steps in a graph, times at the shapes of CLEF 27B.

use dikast_core::Result;
use dikast_core::backend::{Backend, Batch, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::{
    Activation, Elements, GraphBuilder, InputKind, Residency, Rotation, RowOp, Sizes, Weight, WeightId,
};
use dikast_core::numerics::int8::Int8Mode;
use dikast_cuda::{CudaBackend, Int8Case, Int8Trial};
use serde_json::json;

use crate::report::Report;
use crate::synth;

/// The products of CLEF 27B: name, weight rows, depth, whether gated, whether in 16 bits.
const PRODUCTS: [(&str, usize, usize, bool, bool); 5] = [
    ("qkvz", 16_384, 5120, false, true),
    ("qkv", 14_336, 5120, false, true),
    ("out", 5120, 6144, false, false),
    ("gate", 34_816, 5120, true, true),
    ("down", 5120, 17_408, false, false),
];

fn name_of(trial: &Int8Trial) -> String {
    let [down, across] = trial.cluster;
    let [stages, slots] = trial.ring;
    let short = trial.kernel.trim_start_matches("sm90_int8_gemm_").trim_end_matches("_int8_gemm");
    let stream = if trial.stream { "s" } else { "" };
    let chosen = if trial.chosen { "*" } else { "" };
    format!("{short}/{down}x{across}/{stages}+{slots}{stream}{chosen}")
}

/// Every kernel and tile on products of odd sizes, against sums made on the host.
pub fn kernels(report: &mut Report, label: &str, cuda: &CudaBackend, small: bool) {
    let mut cases = Vec::new();
    let sizes = [
        // Weight rows, depth, tokens, bucket.
        (64, 64, 1, 1),
        (72, 130, 17, 64),
        (136, 700, 65, 320),
        (640, 1000, 298, 320),
        (5120, 1152, 300, 512),
        (2176, 17_408, 33, 64),
        (1024, 5120, 160, 160),
    ];
    for (n, k, tokens, bucket) in sizes {
        if small && n * k * bucket > 1 << 26 {
            continue;
        }
        for (gated, bias, residual, sixteen) in [
            (false, false, false, false),
            (false, false, false, true),
            (false, false, true, false),
            (false, true, true, false),
            (false, true, false, true),
            (true, false, false, true),
            (true, false, false, false),
            (true, true, false, true),
        ] {
            cases.push(Int8Case { n, k, tokens, bucket, gated, bias, residual, sixteen });
        }
    }
    // Results whose rows are no multiple of 16 bytes, and of columns that end inside a tile.
    cases.push(Int8Case { n: 67, k: 400, tokens: 40, bucket: 64, ..plain(false) });
    cases.push(Int8Case { n: 1036, k: 1400, tokens: 140, bucket: 320, residual: true, ..plain(false) });
    cases.push(Int8Case { n: 2 * 52, k: 900, tokens: 140, bucket: 320, gated: true, ..plain(true) });
    for case in cases {
        let name = format!(
            "{label} int8 {}x{} m={}/{}{}{}{} {}",
            case.n,
            case.k,
            case.tokens,
            case.bucket,
            if case.gated { " gated" } else { "" },
            if case.bias { " bias" } else { "" },
            if case.residual { " residual" } else { "" },
            if case.sixteen { "bf16" } else { "f32" }
        );
        let Some(trials) = report.outcome(&name, cuda.try_int8(case, false)) else { return };
        // The gate's exponential may differ between the kernel for any chip and Hopper's; not between tiles.
        let bad: Vec<String> = trials
            .iter()
            .filter(|t| t.wrong > 0 || t.differing > 0)
            .map(|t| format!("{} ({} wrong, {} differ)", name_of(t), t.wrong, t.differing))
            .collect();
        report.check(&name, bad.is_empty(), &format!("{} kernels; bad: {bad:?}", trials.len()));
    }
}

fn plain(sixteen: bool) -> Int8Case {
    let (n, k, tokens, bucket) = (64, 64, 1, 1);
    Int8Case { n, k, tokens, bucket, gated: false, bias: false, residual: false, sixteen }
}

/// Times of every tile at CLEF's shapes.
pub fn bench(report: &mut Report, cuda: &CudaBackend) {
    for tokens in [298usize, 1502, 2270, 12_016] {
        let mut best_of_all = 0.0;
        for (name, n, k, gated, sixteen) in PRODUCTS {
            let case = Int8Case {
                n,
                k,
                tokens,
                bucket: if tokens == 298 { 320 } else { tokens.next_multiple_of(128) },
                gated,
                bias: false,
                residual: !sixteen,
                sixteen,
            };
            let label = format!("int8 {name} {n}x{k} m={tokens}");
            let Some(mut trials) = report.outcome(&label, cuda.try_int8(case, true)) else { return };
            let bad = trials.iter().filter(|t| t.wrong > 0 || t.differing > 0).count();
            report.check(&label, bad == 0, &format!("{} kernels, {bad} wrong", trials.len()));
            trials.sort_by(|a, b| {
                a.microseconds.unwrap_or(f64::MAX).total_cmp(&b.microseconds.unwrap_or(f64::MAX))
            });
            let tops = |us: f64| 2.0 * (n * k * tokens) as f64 / us / 1e6;
            let text: Vec<String> = trials
                .iter()
                .map(|t| {
                    let us = t.microseconds.unwrap_or(f64::NAN);
                    format!(
                        "{} {us:.1}us({:.0}T){}",
                        name_of(t),
                        tops(us),
                        if t.wrong > 0 { " WRONG" } else { "" }
                    )
                })
                .collect();
            // A layer has qkvz or qkv.
            if name != "qkv" {
                best_of_all += trials.first().and_then(|t| t.microseconds).unwrap_or(f64::NAN);
            }
            let times: Vec<_> = trials
                .iter()
                .map(|t| json!({ "kernel": name_of(t), "us": t.microseconds, "tops": t.microseconds.map(tops), "blocks": t.blocks }))
                .collect();
            report.figure(
                format!("{label}: {}", text.join("  ")),
                json!({ "int8": name, "n": n, "k": k, "m": tokens, "times": times }),
            );
        }
        report.figure(
            format!("int8 layer m={tokens}: {best_of_all:.1} us with the best kernels"),
            json!({ "int8_layer": tokens, "us": best_of_all }),
        );
    }
}

/// An INT8 weight and its scales.
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

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|v| v.to_bits()).collect()
}

/// The steps in a graph against the CPU, with rows of the quantizer before them, whole and in smaller batches.
pub fn int8<B: Backend>(report: &mut Report, label: &str, cuda: &B, small: bool) {
    for (n, k) in [(72, 64), (130, 320), (256, 640), (1024, 1500), (5120, 5120)] {
        if small && n * k > 1 << 20 {
            continue;
        }
        let name = format!("{label} int8 steps {n}x{k}");
        if let Some((exact, rounded, same)) = report.outcome(&name, steps(cuda, n, k)) {
            report.check(
                &name,
                exact && rounded && same,
                &format!(
                    "plain, biased and residual exact {exact}, 16 bits exact {rounded}, alone the same {same}"
                ),
            );
        }
    }
}

/// Deep products with bfloat16 weights of rows that a row function made: near the CPU's, and the same bits in any batch.
pub fn halves<B: Backend>(report: &mut Report, label: &str, cuda: &B) {
    let name = format!("{label} bfloat16 products of rows");
    if let Some((off, same)) = report.outcome(&name, half_steps(cuda)) {
        // One rounding of the rows to bfloat16, where the backend does so.
        let good = off.iter().all(|d| *d < 4e-3) && same;
        report.check(
            &name,
            good,
            &format!(
                "plain, residual, gated off by {:.1e} {:.1e} {:.1e}, alone the same bits {same}",
                off[0], off[1], off[2]
            ),
        );
    }
}

fn half_steps<B: Backend>(cuda: &B) -> Result<([f64; 3], bool)> {
    let (rows, k, n) = (300, 1100, 1160);
    let mut random = synth::Random::new(9);
    let table: Vec<f32> = (0..rows * k).map(|_| random.normal()).collect();
    let mut b = GraphBuilder::new("halves");
    let ids = b.input(InputKind::TokenIds);
    let table_id = b.add_weight(Weight {
        name: "table".into(),
        parts: vec!["table".into()],
        shape: vec![rows, k],
        elements: Elements::Real,
        residency: Residency::HostRows,
    });
    let x = b.embed("x", ids, table_id, None);
    let made = b.row_op("made", RowOp::Copy { x });
    let w = b.weight("w", &[n, k]);
    let plain = b.linear("plain", made, w, None, None, None);
    let rich = b.linear("rich", made, w, None, None, Some(plain));
    let pair = b.weight("pair", &[2 * n, k]);
    let gated = b.linear_gated("gated", made, pair, Activation::Silu);
    let out = b.concat("all", rich, None, gated);
    let graph = b.finish(out)?;
    let expected = synth::expected_of(&graph);
    let weights = synth::weights(&expected, |_| StoredType::BF16, &[("table", table)], 7)?;
    let names = ["plain", "rich", "gated", "all"];
    let resident = cuda.load(&graph, &weights, &mut |_, _| {})?;
    let ours = taps(cuda, &graph, &resident, 130, &names)?;
    let cpu = CpuBackend::new();
    let theirs = taps(&cpu, &graph, &cpu.load(&graph, &weights, &mut |_, _| {})?, 130, &names)?;
    let off = [0, 1, 2].map(|i| crate::steps::distance(&ours[i], &theirs[i]));
    let mut same = true;
    for tokens in [1, 17, 64, 65, 300] {
        let part = taps(cuda, &graph, &resident, tokens, &names)?;
        let few = tokens.min(130);
        same &= (0..names.len()).all(|i| {
            let width = ours[i].len() / 130;
            bits(&part[i][..few * width]) == bits(&ours[i][..few * width])
        });
    }
    Ok((off, same))
}

fn steps<B: Backend>(cuda: &B, n: usize, k: usize) -> Result<(bool, bool, bool)> {
    let rows = 300;
    let mut random = synth::Random::new(5);
    let table: Vec<f32> = (0..rows * k).map(|_| random.normal()).collect();
    let mut b = GraphBuilder::new("int8");
    let ids = b.input(InputKind::TokenIds);
    let table_id = b.add_weight(Weight {
        name: "table".into(),
        parts: vec!["table".into()],
        shape: vec![rows, k],
        elements: Elements::Real,
        residency: Residency::HostRows,
    });
    let x = b.embed("x", ids, table_id, None);
    let rotation = Rotation { group: None, mode: Int8Mode::Exact };
    let (q, _) = b.rotate_quantize("q", RowOp::Copy { x }, rotation, false);
    let w = int8_weight(&mut b, "w", n, k);
    let bias = b.weight("bias", &[n]);
    let plain = b.int8_linear("plain", q, w, None, None);
    let biased = b.int8_linear("biased", q, w, Some(bias), None);
    let rich = b.int8_linear("rich", q, w, Some(bias), Some(plain));
    let gated = b.int8_linear_gated("gated", q, w, None, Activation::Silu);
    // Read by a quantizer alone: 16 bits where the product is deep.
    let narrow = b.int8_linear("narrow", q, w, None, None);
    let (nq, _) = b.rotate_quantize("nq", RowOp::Copy { x: narrow }, rotation, false);
    let v = int8_weight(&mut b, "v", 64, n);
    let last = b.int8_linear("last", nq, v, None, None);
    let two = b.concat("two", biased, None, rich);
    let three = b.concat("three", two, None, gated);
    let out = b.concat("all", three, None, last);
    let graph = b.finish(out)?;
    let expected = synth::expected_of(&graph);
    let choose = |spec: &dikast_core::checkpoint::TensorSpec| {
        if spec.allowed == [StoredType::I8] { StoredType::I8 } else { StoredType::F32 }
    };
    let weights = synth::weights(&expected, choose, &[("table", table)], 7)?;
    let names = ["plain", "biased", "rich", "gated", "narrow", "all"];
    let run = |tokens: usize| -> Result<Vec<Vec<f32>>> {
        let resident = cuda.load(&graph, &weights, &mut |_, _| {})?;
        taps(cuda, &graph, &resident, tokens, &names)
    };
    let ours = run(130)?;
    let cpu = CpuBackend::new();
    let resident = cpu.load(&graph, &weights, &mut |_, _| {})?;
    let theirs = taps(&cpu, &graph, &resident, 130, &names)?;
    let exact = (0..3).all(|i| bits(&ours[i]) == bits(&theirs[i]));
    let half = |x: &f32| half::bf16::from_f32(*x).to_f32().to_bits();
    let rounded = bits(&ours[4]) == bits(&theirs[4])
        || bits(&ours[4]) == theirs[4].iter().map(half).collect::<Vec<_>>();
    let mut same = true;
    for tokens in [1, 17, 64, 65, 300] {
        let part = run(tokens)?;
        let few = tokens.min(130);
        same &= (0..names.len()).all(|i| {
            let width = ours[i].len() / 130;
            bits(&part[i][..few * width]) == bits(&ours[i][..few * width])
        });
    }
    Ok((exact, rounded, same))
}

fn taps<B: Backend>(
    backend: &B,
    graph: &dikast_core::graph::Graph,
    resident: &B::Resident,
    tokens: usize,
    names: &[&str],
) -> Result<Vec<Vec<f32>>> {
    let sizes = Sizes { tokens, sequences: 1, ..Sizes::default() };
    let mut batch = Batch::new(sizes);
    batch.set(InputKind::TokenIds, (0..tokens as i32).collect());
    let mut plan = backend.plan(graph, resident, &backend.bucket(&batch.sizes))?;
    let mut taps = Taps::named(graph, names)?;
    pollster::block_on(backend.run(&mut plan, resident, &batch, &mut taps))?;
    Ok(names
        .iter()
        .map(|n| graph.find(n).and_then(|id| taps.get(id)).map(<[f32]>::to_vec).unwrap_or_default())
        .collect())
}
