//! Times: ceilings, products, steps, whole forwards at the full shape.

use std::time::Instant;

use dikast_core::Result;
use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::StoredType;
use dikast_core::tokens::Sequence;
use dikast_cuda::{CudaBackend, CudaOptions};
use serde_json::json;

use crate::models::Synthetic;
use crate::report::Report;
use crate::synth;

/// The fused products of mT5-XL: name, weight rows, depth, gated.
const PRODUCTS: [(&str, usize, usize, bool); 4] = [
    ("qkv", 6144, 2048, false),
    ("o", 2048, 2048, false),
    ("wi", 10240, 2048, true),
    ("wo", 2048, 5120, false),
];

pub fn products(report: &mut Report, cuda: &CudaBackend) {
    if let Some(ceilings) = report.outcome("ceilings", cuda.ceilings()) {
        let rate = ceilings.copy_bytes_per_second / 1e12;
        report.figure(format!("copy {rate:.2} TB/s"), json!({ "copy_tb_s": rate }));
    }
    for (name, n, k, gated) in PRODUCTS {
        for tokens in [64, 128, 192, 256, 384, 512, 1024, 4096] {
            let label = format!("product {name} {n}x{k} m={tokens}");
            let Some(times) = report.outcome(&label, cuda.time_products(n, k, tokens, gated)) else { return };
            let flop = 2.0 * n as f64 * k as f64 * tokens as f64;
            let text: Vec<String> = times
                .iter()
                .map(|t| {
                    let mark = if t.chosen { "*" } else { "" };
                    let short = t.kernel.trim_start_matches("sm90_fp8_gemm_").trim_end_matches("_fp8_gemm");
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
        // Block 1 and everything after the last block.
        let names: Vec<usize> = (0..model.graph.steps().len()).collect();
        let per_block = 9;
        for range in [1 + per_block..1 + 2 * per_block, 1 + 24 * per_block..names.len()] {
            let times = backend.time_steps(&mut plan, &resident, &batch, range)?;
            let sum: f64 = times.iter().map(|t| t.microseconds).sum();
            let text: Vec<String> =
                times.iter().map(|t| format!("{} {:.1}", t.kernel, t.microseconds)).collect();
            let value: Vec<_> = times
                .iter()
                .map(|t| json!({ "step": t.step, "kernel": t.kernel, "us": t.microseconds }))
                .collect();
            report.figure(format!("   steps {sum:.1} us: {}", text.join(", ")), json!({ "steps": value }));
        }
    }
    let used = backend.memory_in_use()? as f64 / f64::from(1 << 30);
    report.figure(format!("device memory in use at the end {used:.3} GiB"), json!({ "used_gib": used }));
    Ok(())
}
