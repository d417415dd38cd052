//! Parity first, then timing, on a machine with an NVIDIA GPU.
//!
//! ```text
//! cuda_check [--data tests/data] [--mini models/gliclass-mini] [--out FOLDER]
//!            [--only steps|models|queue|bench|rows|tiny|memory|dry] [--seconds 60] [--early off] [--small on] [--nvrtc on]
//!            [--only steps|models|queue|bench|delta|tiny|memory|dry] [--seconds 60] [--early off] [--small on] [--nvrtc on]
//! ```
//! `--only tiny` is one small model and the small steps, for tools that make everything slow; `--only memory` loads the
//! full-size model and says what it takes; `--only delta` is the gated delta rule alone, checks and times; `--nvrtc on`
//! compiles the kernels at run time.
//! `--only dry` runs the small checks with the CPU in the GPU's place, to test this tool itself.
//! Prints each check as it ends and a short table last; writes `cuda_check.json` into the folder. Exit code 1 when a
//! check failed. Without a GPU it prints the reason and exits with 2.
#![allow(clippy::print_stdout, unreachable_pub, reason = "a command-line tool in one crate")]

mod bench;
mod clef_head;
mod clef_rows;
mod clef_attention;
mod clef_delta;
mod models;
mod queue;
mod report;
mod steps;
mod synth;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use dikast_core::Result;
use dikast_core::backend::Backend;
use dikast_core::checkpoint::StoredType;
use dikast_core::cpu::CpuBackend;
use dikast_cuda::{CudaBackend, CudaOptions};
use report::Report;

struct Arguments {
    data: PathBuf,
    mini: PathBuf,
    out: Option<PathBuf>,
    only: Option<String>,
    early: bool,
    small: bool,
    nvrtc: bool,
    seconds: u64,
}

fn arguments() -> Arguments {
    let mut parsed = Arguments {
        data: PathBuf::from("tests/data"),
        mini: PathBuf::from("models/gliclass-mini"),
        out: None,
        only: None,
        early: true,
        small: false,
        nvrtc: false,
        seconds: 60,
    };
    let mut rest = std::env::args().skip(1);
    while let Some(name) = rest.next() {
        let value = rest.next().unwrap_or_default();
        match name.as_str() {
            "--data" => parsed.data = value.into(),
            "--mini" => parsed.mini = value.into(),
            "--out" => parsed.out = Some(value.into()),
            "--early" => parsed.early = value != "off",
            "--small" => parsed.small = value == "on",
            "--nvrtc" => parsed.nvrtc = value == "on",
            "--seconds" => parsed.seconds = value.parse().unwrap_or(60),
            "--only" => parsed.only = Some(value),
            other => println!("ignored: {other} {value}"),
        }
    }
    parsed
}

/// The checks of whole models on one backend.
fn check_models<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    arguments: &Arguments,
) {
    models::goldens(report, label, open, &arguments.data);
    models::mini(report, label, open, &arguments.mini);
    models::full_block(report, label, open, StoredType::F8E4M3);
    models::invariance(report, label, open, 24);
}

fn main() -> ExitCode {
    let start = Instant::now();
    let arguments = arguments();
    let mut report = Report::default();
    if arguments.only.as_deref() == Some("dry") {
        let open = || Ok(CpuBackend::new());
        steps::all(&mut report, "dry", &CpuBackend::new(), true);
        clef_head::head(&mut report, "dry", &CpuBackend::new(), true);
        clef_rows::rows(&mut report, "dry", &CpuBackend::new(), true);
        clef_delta::delta(&mut report, "dry", &CpuBackend::new(), true);
        models::goldens(&mut report, "dry", &open, &arguments.data);
        models::mini(&mut report, "dry", &open, &arguments.mini);
        models::invariance(&mut report, "dry", &open, 2);
        let load = queue::Load { callers: 8, seconds: 2, shape: (1, 256) };
        queue::concurrent(&mut report, "dry", || Ok(CpuBackend::new()), &load);
        return if report.finish(arguments.out.as_deref()) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let wants = |part: &str| arguments.only.as_deref().is_none_or(|only| only == part);
    let cache = if arguments.nvrtc { None } else { CudaOptions::default().cache };
    let options = CudaOptions {
        poison: true,
        early: arguments.early,
        embedded: !arguments.nvrtc,
        cache,
        ..CudaOptions::default()
    };
    let cuda = match CudaBackend::open(options.clone()) {
        Ok(cuda) => cuda,
        Err(error) => {
            println!("{error}");
            return ExitCode::from(2);
        }
    };
    println!("{}: {:?}", cuda.capabilities().device, cuda.capabilities().details);
    let portable = CudaOptions { portable: true, ..options.clone() };
    if wants("steps") {
        steps::all(&mut report, "best", &cuda, arguments.small);
        clef_head::head(&mut report, "best", &cuda, arguments.small);
        clef_rows::rows(&mut report, "best", &cuda, arguments.small);
        clef_delta::delta(&mut report, "best", &cuda, arguments.small);
        if let Some(cuda) = report.outcome("portable backend", CudaBackend::open(portable.clone())) {
            steps::all(&mut report, "sm89", &cuda, arguments.small);
            clef_head::head(&mut report, "sm89", &cuda, arguments.small);
        }
        println!("steps done after {:.1} s", start.elapsed().as_secs_f64());
    }
    if arguments.only.as_deref() == Some("clef-attention") {
        clef_attention::attention(&mut report, "best", &cuda, arguments.small);
    }
    if arguments.only.as_deref() == Some("clef-attention-bench") {
        let timed =
            report.outcome("backend", CudaBackend::open(CudaOptions { poison: false, ..options.clone() }));
        if let Some(timed) = timed {
            clef_attention::bench(&mut report, &timed);
        }
    }
    if arguments.only.as_deref() == Some("tiny") {
        let open = || CudaBackend::open(options.clone());
        models::goldens(&mut report, "tiny", &open, &arguments.data);
        steps::all(&mut report, "tiny", &cuda, true);
        clef_head::head(&mut report, "tiny", &cuda, true);
        clef_rows::rows(&mut report, "tiny", &cuda, true);
        clef_delta::delta(&mut report, "tiny", &cuda, true);
    }
    if wants("models") {
        let best = || CudaBackend::open(options.clone());
        check_models(&mut report, "best", &best, &arguments);
        check_models(&mut report, "sm89", &|| CudaBackend::open(portable.clone()), &arguments);
        models::full_block(&mut report, "best", &best, StoredType::BF16);
        let uncaptured = CudaOptions { captured_tokens: 256, ..options.clone() };
        models::long(&mut report, "best", &|| CudaBackend::open(uncaptured.clone()));
        println!("models done after {:.1} s", start.elapsed().as_secs_f64());
    }
    if wants("queue") {
        let load = queue::Load { callers: 64, seconds: arguments.seconds, shape: (24, 32_768) };
        queue::concurrent(&mut report, "best", || CudaBackend::open(CudaOptions::default()), &load);
    }
    if arguments.only.as_deref() == Some("rows") {
        clef_rows::rows(&mut report, "best", &cuda, arguments.small);
    }
    if arguments.only.as_deref() == Some("memory") {
        bench::memory(&mut report, &options);
    }
    if arguments.only.as_deref() == Some("delta") {
        clef_delta::delta(&mut report, "delta", &cuda, arguments.small);
        if !arguments.small {
            clef_delta::bench(&mut report, &cuda);
        }
    }
    if wants("bench") {
        clef_delta::bench(&mut report, &cuda);
        bench::products(&mut report, &cuda);
        bench::forwards(&mut report, &options);
        println!("times done after {:.1} s", start.elapsed().as_secs_f64());
    }
    if report.finish(arguments.out.as_deref()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
