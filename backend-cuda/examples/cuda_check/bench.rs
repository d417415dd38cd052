//! Times: ceilings, products, steps, whole forwards at the full shape.

use std::time::Instant;

use dikast_core::Result;
use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::tokens::Sequence;
use dikast_cuda::{CudaBackend, CudaOptions, ProductKind};
use serde_json::json;

use crate::models::Synthetic;
use crate::report::Report;
use crate::synth;

/// The fused products of mT5-XL: name, weight rows, depth, kind.
pub const PRODUCTS: [(&str, usize, usize, ProductKind); 4] = [
    ("qkv", 6144, 2048, ProductKind::Plain),
    ("o", 2048, 2048, ProductKind::Residual),
    ("wi", 10240, 2048, ProductKind::Gated),
    ("wo", 2048, 5120, ProductKind::Residual),
];

/// Two of them as a library does them: no residual, 16 bits out.
const PLAIN: [(&str, usize, usize); 2] = [("o, plain", 2048, 2048), ("wo, plain", 2048, 5120)];

pub fn products(report: &mut Report, cuda: &CudaBackend) {
    if let Some(ceilings) = report.outcome("ceilings", pollster::block_on(cuda.ceilings())) {
        let (copy, real, fp8) = (
            ceilings.copy_bytes / 1e12,
            ceilings.product_flops / 1e12,
            ceilings.quantized_product_flops / 1e12,
        );
        report.figure(
            format!("copy {copy:.2} TB/s, Linear {real:.0} TFLOP/s, QuantLinear {fp8:.0} TFLOP/s"),
            json!({ "copy_tb_s": copy, "linear_tflops": real, "quant_linear_tflops": fp8 }),
        );
    }
    let fused = PRODUCTS.into_iter().flat_map(|(name, n, k, kind)| {
        [64, 128, 192, 256, 384, 512, 1024, 4096].map(|tokens| (name, n, k, kind, tokens))
    });
    let plain = PLAIN.into_iter().map(|(name, n, k)| (name, n, k, ProductKind::Plain, 4096));
    for (name, n, k, kind, tokens) in fused.chain(plain) {
        let label = format!("product {name} {n}x{k} m={tokens}");
        let Some(times) = report.outcome(&label, cuda.time_products(n, k, tokens, kind)) else { return };
        let flop = 2.0 * n as f64 * k as f64 * tokens as f64;
        let text: Vec<String> = times
            .iter()
            .map(|t| {
                let mark = if t.chosen { "*" } else { "" };
                let short = t
                    .kernel
                    .trim_start_matches("sm90_fp8_gemm_")
                    .trim_start_matches("sm90_fp8_")
                    .trim_end_matches("_fp8_gemm");
                let [down, across] = t.cluster;
                let rate = flop / t.microseconds / 1e6;
                format!("{short}/{down}x{across}{mark} {:.1}us({rate:.0}T)", t.microseconds)
            })
            .collect();
        let times: Vec<_> = times
                .iter()
                .map(|t| {
                    json!({ "kernel": t.kernel, "chosen": t.chosen, "cluster": t.cluster, "us": t.microseconds, "tflops": flop / t.microseconds / 1e6,
                        "shared": t.shared, "blocks": t.blocks })
                })
                .collect();
        let value = json!({ "product": name, "n": n, "k": k, "m": tokens, "times": times });
        report.figure(format!("{name:3} m={tokens:4} {}", text.join("  ")), value);
    }
}

/// What a process with the model on a device takes: device memory, growth of its own memory while loading.
pub fn memory(report: &mut Report, options: &CudaOptions) {
    let result = (|| -> Result<()> {
        let model = Synthetic::new(synth::ultra(24, 32_768), StoredType::F8E4M3)?;
        let resident_before = own_memory();
        let backend = CudaBackend::open(CudaOptions { poison: false, ..options.clone() })?;
        let (opened, context) = (own_memory(), backend.memory_in_use()?);
        let start = Instant::now();
        let resident = backend.load(&model.graph, &model.weights, &mut |_, _| {})?;
        let (loaded, seconds) = (own_memory(), start.elapsed().as_secs_f64());
        let mut plans = Vec::new();
        for (count, tokens) in [(1, 64), (1, 128), (1, 256), (32, 128)] {
            let sequences: Vec<Sequence> = (0..count).map(|i| model.sequence(tokens, 4, i as u64)).collect();
            let batch = model.batch(&sequences.iter().collect::<Vec<_>>())?;
            let mut plan = backend.plan(&model.graph, &resident, &backend.bucket(&batch.sizes))?;
            pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none()))?;
            plans.push(plan);
        }
        let used = backend.memory_in_use()?;
        let own = backend.own_bytes(&resident, &plans);
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        report.figure(
            format!(
                "device memory {:.3} GiB in use ({:.3} after opening), own allocations {:.3} GiB; load {seconds:.2} s; host memory {} MB, {} opened, {} loaded",
                gib(used), gib(context), gib(own), resident_before >> 20, opened >> 20, loaded >> 20
            ),
            json!({ "used_gib": gib(used), "opened_gib": gib(context), "own_gib": gib(own), "load_s": seconds,
                "host_bytes": [resident_before, opened, loaded] }),
        );
        // Time for a look from outside.
        std::thread::sleep(std::time::Duration::from_secs(2));
        Ok(())
    })();
    report.outcome("memory", result);
}

/// Bytes of this process in memory (Linux; 0 elsewhere).
fn own_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}

pub fn forwards(report: &mut Report, options: &CudaOptions) {
    if let Err(error) = full(report, options) {
        report.check("full-size forwards", false, &error.to_string());
    }
}

fn full(report: &mut Report, options: &CudaOptions) -> Result<()> {
    let start = Instant::now();
    let model = Synthetic::new(synth::ultra(24, 32_768), StoredType::F8E4M3)?;
    report.figure(format!("synthetic Ultra made in {:.1} s", start.elapsed().as_secs_f64()), json!(null));
    let backend = CudaBackend::open(CudaOptions { poison: false, ..options.clone() })?;
    let before = backend.memory_in_use()?;
    let start = Instant::now();
    let resident = backend.load(&model.graph, &model.weights, &mut |_, _| {})?;
    let seconds = start.elapsed().as_secs_f64();
    let held = (backend.memory_in_use()? - before) as f64 / f64::from(1 << 30);
    report.figure(
        format!("load {seconds:.2} s, {held:.3} GiB of weights and arena"),
        json!({ "load_s": seconds, "gib": held }),
    );

    for (count, tokens) in [(1, 64), (1, 128), (1, 192), (1, 256), (8, 128), (8, 256), (32, 128)] {
        let sequences: Vec<Sequence> = (0..count).map(|i| model.sequence(tokens, 4, i as u64)).collect();
        let batch = model.batch(&sequences.iter().collect::<Vec<_>>())?;
        let start = Instant::now();
        let mut plan = backend.plan(&model.graph, &resident, &backend.bucket(&batch.sizes))?;
        let planned = start.elapsed().as_secs_f64();
        let logits = pollster::block_on(backend.run(&mut plan, &resident, &batch, &mut Taps::none()))?;
        report.check(
            &format!("forward {count}x{tokens} is finite"),
            logits.iter().all(|x| x.is_finite()) && logits.len() == 4 * count,
            &format!("{:?}", &logits[..4]),
        );
        let repeats = if count * tokens > 1000 { 30 } else { 100 };
        let device = backend.time_forward(&mut plan, &resident, &batch, repeats)?;
        let (median, p99) = backend.time_requests(&mut plan, &resident, &batch, repeats)?;
        let rate = count as f64 / (median * 1e-6);
        report.figure(
            format!(
                "forward {count:2}x{tokens:3}: device {device:7.1} us, host {median:7.1} us (p99 {p99:.1}), {rate:.0} requests/s, {} kernels, planned in {planned:.2} s",
                backend.launches(&plan)
            ),
            json!({ "forward": [count, tokens], "device_us": device, "host_us": median, "host_p99_us": p99,
                "requests_per_second": rate, "kernels": backend.launches(&plan), "plan_s": planned }),
        );
        if count > 1 {
            let second = backend.plan(&model.graph, &resident, &backend.bucket(&batch.sizes))?;
            let mut plans = [plan, second];
            let seconds = backend.time_in_turns(&mut plans, &resident, &batch, &logits, 40);
            if let Some(seconds) = report.outcome(&format!("in turns {count}x{tokens}"), seconds) {
                let rate = count as f64 / seconds;
                report.figure(
                    format!(
                        "in turns {count:2}x{tokens:3}: {:.1} us a batch, {rate:.0} requests/s",
                        seconds * 1e6
                    ),
                    json!({ "in_turns": [count, tokens], "us": seconds * 1e6, "requests_per_second": rate }),
                );
            }
            plan = {
                let [first, _] = plans;
                first
            };
        }
        let times = pollster::block_on(backend.profile(&mut plan, &resident, &batch))?;
        let kernels = backend.kernels(&plan);
        // Block 1 and everything after the last block.
        let per_block = 9;
        for range in [1 + per_block..1 + 2 * per_block, 1 + 24 * per_block..model.graph.steps().len()] {
            let times: Vec<(&str, usize, f64)> = times
                .iter()
                .zip(&kernels)
                .filter(|(t, _)| range.contains(&t.step))
                .map(|(t, (_, kernel))| (*kernel, t.step, t.nanos as f64 / 1e3))
                .collect();
            let sum: f64 = times.iter().map(|t| t.2).sum();
            let text: Vec<String> = times.iter().map(|(kernel, _, us)| format!("{kernel} {us:.1}")).collect();
            let value: Vec<_> = times
                .iter()
                .map(|(kernel, step, us)| json!({ "step": step, "kernel": kernel, "us": us }))
                .collect();
            report.figure(format!("   steps {sum:.1} us: {}", text.join(", ")), json!({ "steps": value }));
        }
    }
    let used = backend.memory_in_use()? as f64 / f64::from(1 << 30);
    report.figure(format!("device memory in use at the end {used:.3} GiB"), json!({ "used_gib": used }));
    Ok(())
}
