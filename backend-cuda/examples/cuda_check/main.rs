//! Parity first, then timing, on a machine with an NVIDIA GPU.
//!
//! ```text
//! cuda_check [--data tests/data] [--mini models/gliclass-mini] [--out FOLDER]
//!            [--only PART] [--seconds 60] [--early off] [--small on] [--nvrtc on] [--model FOLDER] [--work FOLDER]
//!            [--prefetch MIB] [--few off] [--large-tiles mixed|staged|copied|added] [--warpgroups off] [--split off] [--format bf16] [--vision on|lazy] [--budget GIB]
//! ```
//! Parts: `exits` (FP8 products by every tile and exit, and the 16-bit rows between them), `steps`, `models`, `queue` and `bench`, all of which run without `--only`; `tiny`, `memory`, `dry`; and for CLEF
//! `clef` (its steps and models), `clef-steps`, `int8` (products tile by tile), `int8-bench`, `clef-kernels` (times of its kernels),
//! `clef-delta` and `clef-delta-bench` (the gated delta rule: checks; small checks and times), `clef-models`, `clef-layers` (full-size layers against the CPU), `clef-tiny`,
//! `clef-synth` (writes the 27B in INT8, or `--format bf16`, into `--model`), `clef-bench` (times of the checkpoint there, then many callers for
//! `--seconds`), `clef-callers` (these alone), `clef-cache` (first and second request on a state), `clef-memory` (memory and
//! times of single requests, without the vision tower unless `--vision on|lazy`, which ask about a picture too), `clef-long` (16,384 and 65,536 tokens, without and
//! within `--budget`), `clef-faults` (a NaN in a weight, too little memory), `clef-formats` (INT8 beside BF16, eight layers made in `--work`), `clef-dry`.
//!
//! `--only tiny` is one small model and the small steps, for tools that make everything slow; `--only memory` loads the
//! full-size model and says what it takes; `--nvrtc on`
//! compiles the kernels at run time.
//! `--prefetch` says how far ahead of the products their weights are asked for (0 for not at all); `--only ahead` compares.
//! `--only fp8-tiles` compares every kernel of FP8 products bit for bit (`steps` does so too); `--only few` compares forwards with and
//! without the kernel of few tokens, `--few off` leaves it out. `--large-tiles` says how results of large FP8 products leave,
//! `--warpgroups off` takes the attention of any chip.
//! `--only file-synth` writes the full-size FP8 model into `--model`, `file` loads it from there, `refused` expects that a card
//! which others have filled refuses it. `--mini none` leaves the embedded model out of `models`.
//! `--only heads` is the heads' steps over split rows, and, without `--small on`, forwards with and without them; `--split off`
//! leaves them out everywhere.
//! `--only dry` runs the small checks with the CPU in the GPU's place, to test this tool itself.
//! Prints each check as it ends and a short table last; writes `cuda_check.json` into the folder. Exit code 1 when a
//! check failed. Without a GPU it prints the reason and exits with 2.
#![allow(clippy::print_stdout, unreachable_pub, reason = "a command-line tool in one crate")]

mod ahead;
mod bench;
mod clef;
mod clef_attention;
mod clef_bench;
mod clef_cache;
mod clef_callers;
mod clef_delta;
mod clef_faults;
mod clef_head;
mod clef_int8;
mod clef_layers;
mod clef_long;
mod clef_models;
mod clef_rows;
mod exits;
mod few;
mod file;
mod fp8_tiles;
mod heads;
mod heads_bench;
mod models;
mod queue;
mod report;
mod steps;
mod synth;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use dikast_core::Result;
use dikast_core::backend::Backend;
use dikast_core::checkpoint::StoredType;
use dikast_core::cpu::CpuBackend;
use dikast_cuda::{CudaBackend, CudaOptions, LargeTiles, Prefetch};
use dikast_synth::Format;
use report::Report;

struct Arguments {
    data: PathBuf,
    mini: PathBuf,
    clef_mini: PathBuf,
    model: Option<PathBuf>,
    work: PathBuf,
    out: Option<PathBuf>,
    only: Option<String>,
    early: bool,
    small: bool,
    nvrtc: bool,
    seconds: u64,
    prefetch: Prefetch,
    few: bool,
    large_tiles: LargeTiles,
    warpgroups: bool,
    split_rows: bool,
    /// Store made-up models in bfloat16.
    bf16: bool,
    /// The vision tower of models that are loaded for text: `on`, `lazy`, or else none.
    vision: String,
    /// GiB of device memory.
    budget: u64,
}

fn arguments() -> Arguments {
    let mut parsed = Arguments {
        data: PathBuf::from("tests/data"),
        mini: PathBuf::from("models/gliclass-mini"),
        clef_mini: PathBuf::from("models/clef-mini"),
        model: None,
        work: std::env::temp_dir(),
        out: None,
        only: None,
        early: true,
        small: false,
        nvrtc: false,
        seconds: 60,
        prefetch: Prefetch::default(),
        few: true,
        large_tiles: LargeTiles::default(),
        warpgroups: true,
        split_rows: true,
        bf16: false,
        vision: String::new(),
        budget: 48,
    };
    let mut rest = std::env::args().skip(1);
    while let Some(name) = rest.next() {
        let value = rest.next().unwrap_or_default();
        match name.as_str() {
            "--data" => parsed.data = value.into(),
            "--mini" => parsed.mini = value.into(),
            "--clef-mini" => parsed.clef_mini = value.into(),
            "--model" => parsed.model = Some(value.into()),
            "--work" => parsed.work = value.into(),
            "--out" => parsed.out = Some(value.into()),
            "--early" => parsed.early = value != "off",
            "--small" => parsed.small = value == "on",
            "--nvrtc" => parsed.nvrtc = value == "on",
            "--few" => parsed.few = value != "off",
            "--warpgroups" => parsed.warpgroups = value != "off",
            "--large-tiles" => {
                parsed.large_tiles = match value.as_str() {
                    "added" => LargeTiles::Added,
                    "copied" => LargeTiles::Copied,
                    "staged" => LargeTiles::Staged,
                    _ => LargeTiles::Mixed,
                };
            }
            "--split" => parsed.split_rows = value != "off",
            "--format" => parsed.bf16 = value == "bf16",
            "--vision" => parsed.vision = value,
            "--budget" => parsed.budget = value.parse().unwrap_or(48),
            "--seconds" => parsed.seconds = value.parse().unwrap_or(60),
            "--prefetch" => {
                // More than any cache is no use.
                let mib = value.parse().unwrap_or(0).min(1024);
                parsed.prefetch = Prefetch { bytes: mib << 20, ..parsed.prefetch };
            }
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
    if arguments.mini.as_os_str() != "none" {
        models::mini(report, label, open, &arguments.mini);
    }
    models::full_block(report, label, open, StoredType::F8E4M3);
    models::invariance(report, label, open, 24);
}

/// Eight layers as the 27B's sixty-four come.
const EIGHT_LAYERS: [&str; 8] = {
    const L: &str = "linear_attention";
    const F: &str = "full_attention";
    [L, L, L, F, L, L, L, F]
};

/// CLEF on one backend: steps, small models, full-size layers.
fn check_clef<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    arguments: &Arguments,
    wants: &dyn Fn(&str) -> bool,
    (some, layer_tokens): (usize, usize),
) {
    let tiny = arguments.data.join("clef-tiny");
    if wants("clef-steps")
        && let Some(backend) = report.outcome(&format!("{label} backend"), open())
    {
        clef::steps(report, label, &backend, arguments.small);
    }
    if wants("clef-models") {
        let places = clef_models::Places { tiny: &tiny, mini: &arguments.clef_mini };
        clef_models::all(report, label, open, &places, some);
    }
    if wants("clef-layers") {
        clef_layers::all(report, label, open, &tiny.join("model"), layer_tokens);
    }
}

/// The CPU in the GPU's place, on little work.
fn dry_clef(report: &mut Report, arguments: &Arguments) {
    let open = || Ok(CpuBackend::new());
    check_clef(report, "dry", &open, arguments, &|part| part != "clef-layers", (6, 0));
    let tiny = arguments.data.join("clef-tiny");
    if let Some(loaded) =
        clef_bench::all(report, "dry", &open, &tiny.join("model"), &clef_bench::Plan::small())
    {
        let load = clef_callers::Load { callers: 4, seconds: 2, longest: 200, media: &tiny.join("media") };
        clef_callers::concurrent(report, "dry", &loaded, &load);
    }
}

fn main() -> ExitCode {
    let start = Instant::now();
    let arguments = arguments();
    let mut report = Report::default();
    if arguments.only.as_deref() == Some("dry") {
        let open = || Ok(CpuBackend::new());
        steps::all(&mut report, "dry", &CpuBackend::new(), true);
        heads::all(&mut report, "dry", &CpuBackend::new(), true);
        models::goldens(&mut report, "dry", &open, &arguments.data);
        models::mini(&mut report, "dry", &open, &arguments.mini);
        models::invariance(&mut report, "dry", &open, 2);
        let load = queue::Load { callers: 8, seconds: 2, shape: (1, 256) };
        queue::concurrent(&mut report, "dry", || Ok(CpuBackend::new()), &load);
        return if report.finish(arguments.out.as_deref()) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if let Some(only @ ("clef-synth" | "file-synth")) = arguments.only.as_deref() {
        let format = if arguments.bf16 { Format::Bf16 } else { clef::int8_format() };
        let write = |folder: &Path| {
            if only == "clef-synth" { clef::whole(folder, format) } else { file::write(folder) }
        };
        return match arguments.model.as_deref().map(write) {
            Some(Ok(said)) => {
                println!("{said}");
                ExitCode::SUCCESS
            }
            Some(Err(error)) => {
                println!("{error}");
                ExitCode::FAILURE
            }
            None => ExitCode::from(2),
        };
    }
    if arguments.only.as_deref() == Some("clef-dry") {
        dry_clef(&mut report, &arguments);
        return if report.finish(arguments.out.as_deref()) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if arguments.only.as_deref() == Some("clef-dry-layers") {
        let open = || Ok(CpuBackend::new());
        check_clef(&mut report, "dry", &open, &arguments, &|part| part == "clef-layers", (6, 24));
        return if report.finish(arguments.out.as_deref()) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let wants = |part: &str| arguments.only.as_deref().is_none_or(|only| only == part);
    let cache = if arguments.nvrtc { None } else { CudaOptions::default().cache };
    let options = CudaOptions {
        poison: true,
        early: arguments.early,
        prefetch: arguments.prefetch,
        few: arguments.few,
        large_tiles: arguments.large_tiles,
        warpgroups: arguments.warpgroups,
        split_rows: arguments.split_rows,
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
    if wants("steps") || arguments.only.as_deref() == Some("fp8-tiles") {
        fp8_tiles::tiles(&mut report, "best", &cuda, arguments.small, true);
    }
    if wants("steps") {
        steps::all(&mut report, "best", &cuda, arguments.small);
        heads::all(&mut report, "best", &cuda, arguments.small);
        if let Some(cuda) = report.outcome("portable backend", CudaBackend::open(portable.clone())) {
            steps::all(&mut report, "sm89", &cuda, arguments.small);
            heads::all(&mut report, "sm89", &cuda, arguments.small);
        }
        exits::all(&mut report, "best", &cuda, arguments.small);
        println!("steps done after {:.1} s", start.elapsed().as_secs_f64());
    }
    if arguments.only.as_deref() == Some("heads") {
        heads::all(&mut report, "best", &cuda, arguments.small);
        if !arguments.small {
            heads_bench::compare(&mut report, &options);
        }
        println!("heads done after {:.1} s", start.elapsed().as_secs_f64());
    }
    if arguments.only.as_deref() == Some("exits") {
        steps::halves(&mut report, "best", &cuda);
        exits::all(&mut report, "best", &cuda, arguments.small);
    }
    if arguments.only.as_deref() == Some("int8-bench") {
        clef_int8::bench(&mut report, &cuda);
    }
    if arguments.only.as_deref() == Some("clef-kernels") {
        let timed = CudaBackend::open(CudaOptions { poison: false, ..options.clone() });
        if let Some(timed) = report.outcome("backend", timed) {
            clef::times(&mut report, &timed);
        }
    }
    if let Some(part @ ("clef-delta" | "clef-delta-bench")) = arguments.only.as_deref() {
        clef_delta::delta(&mut report, "best", &cuda, arguments.small || part == "clef-delta-bench");
        if part == "clef-delta-bench" {
            let timed = CudaBackend::open(CudaOptions { poison: false, ..options.clone() });
            if let Some(timed) = report.outcome("backend", timed) {
                clef_delta::bench(&mut report, &timed);
            }
        } else if let Some(cuda) = report.outcome("portable backend", CudaBackend::open(portable.clone())) {
            clef_delta::delta(&mut report, "sm89", &cuda, arguments.small);
        }
        println!("gated delta rule done after {:.1} s", start.elapsed().as_secs_f64());
    }
    if arguments.only.as_deref() == Some("clef-attention") {
        clef_attention::attention(&mut report, "best", &cuda, arguments.small);
        if let Some(cuda) = report.outcome("portable backend", CudaBackend::open(portable.clone())) {
            clef_attention::attention(&mut report, "sm89", &cuda, arguments.small);
        }
    }
    if arguments.only.as_deref() == Some("tiny") {
        let open = || CudaBackend::open(options.clone());
        models::goldens(&mut report, "tiny", &open, &arguments.data);
        steps::all(&mut report, "tiny", &cuda, true);
        heads::all(&mut report, "tiny", &cuda, true);
    }
    if wants("int8") {
        clef_int8::kernels(&mut report, "best", &cuda, arguments.small);
        clef_int8::halves(&mut report, "best", &cuda);
        if let Some(cuda) = report.outcome("portable backend", CudaBackend::open(portable.clone())) {
            clef_int8::kernels(&mut report, "sm89", &cuda, true);
        }
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
    let only_clef = |part: &str| arguments.only.as_deref().is_some_and(|only| only == "clef" || only == part);
    if ["clef-steps", "clef-models", "clef-layers"].into_iter().any(only_clef) {
        check_clef(
            &mut report,
            "best",
            &|| CudaBackend::open(options.clone()),
            &arguments,
            &only_clef,
            (1, 200),
        );
        check_clef(
            &mut report,
            "sm89",
            &|| CudaBackend::open(portable.clone()),
            &arguments,
            &only_clef,
            (1, 200),
        );
        println!("CLEF done after {:.1} s", start.elapsed().as_secs_f64());
    }
    if arguments.only.as_deref() == Some("clef-tiny") {
        // For tools that make everything slow.
        let wants = |part: &str| part != "clef-layers";
        check_clef(&mut report, "tiny", &|| CudaBackend::open(options.clone()), &arguments, &wants, (6, 0));
    }
    let timed = CudaOptions { poison: false, ..options.clone() };
    if let Some(only @ ("clef-bench" | "clef-callers" | "clef-memory")) = arguments.only.as_deref() {
        let Some(model) = &arguments.model else {
            println!("{only} needs --model");
            return ExitCode::from(2);
        };
        let open = || CudaBackend::open(timed.clone());
        let loaded = match only {
            "clef-bench" => clef_bench::all(&mut report, "CLEF", &open, model, &clef_bench::Plan::full()),
            "clef-callers" => clef_bench::load(&mut report, "CLEF", &open, model, true),
            _ => {
                let lazy = arguments.vision == "lazy";
                let tower = lazy || arguments.vision == "on";
                let lengths: &[usize] = if tower { &[2270] } else { &[100, 298, 1502, 2270] };
                let open = || CudaBackend::open(CudaOptions { lazy_media: lazy, ..timed.clone() });
                let label = if lazy { "CLEF lazy" } else { "CLEF" };
                let loaded = clef_bench::singles(&mut report, label, &open, model, tower, lengths);
                if let Some(loaded) = loaded.filter(|_| tower) {
                    let media = arguments.data.join("clef-tiny/media");
                    clef_bench::picture(&mut report, label, &loaded, &media);
                }
                None
            }
        };
        println!("loaded, and times taken where asked for, after {:.1} s", start.elapsed().as_secs_f64());
        if let Some(loaded) = loaded {
            let media = arguments.data.join("clef-tiny/media");
            let load =
                clef_callers::Load { callers: 32, seconds: arguments.seconds, longest: 1500, media: &media };
            clef_callers::concurrent(&mut report, "CLEF", &loaded, &load);
        }
    }
    let budgeted = |memory_budget| CudaBackend::open(CudaOptions { memory_budget, ..timed.clone() });
    if arguments.only.as_deref() == Some("clef-long") {
        let Some(model) = &arguments.model else {
            println!("clef-long needs --model");
            return ExitCode::from(2);
        };
        let lengths: &[usize] = if arguments.small { &[300, 600] } else { &[16_384, 65_536] };
        clef_long::all(&mut report, "CLEF", &budgeted, model, lengths, arguments.budget << 30);
    }
    if arguments.only.as_deref() == Some("clef-faults") {
        clef_faults::all(&mut report, "clef-tiny", &budgeted, &arguments.data.join("clef-tiny/model"));
    }
    if arguments.only.as_deref() == Some("clef-cache") {
        let Some(model) = &arguments.model else {
            println!("clef-cache needs --model");
            return ExitCode::from(2);
        };
        let shape = if arguments.small { (300, 1) } else { (1502, 20) };
        clef_cache::cache(&mut report, "CLEF", &|| CudaBackend::open(timed.clone()), model, shape);
    }
    if arguments.only.as_deref() == Some("clef-formats") {
        let lender = arguments.data.join("clef-tiny/model");
        let open = || CudaBackend::open(timed.clone());
        let (work, lengths) = (arguments.work.as_path(), [100, 298, 1502, 2270]);
        clef_bench::formats(&mut report, "CLEF", &open, (work, &lender), &EIGHT_LAYERS, &lengths);
    }
    if let Some(only @ ("file" | "refused")) = arguments.only.as_deref() {
        let Some(model) = &arguments.model else {
            println!("{only} needs --model");
            return ExitCode::from(2);
        };
        let part = if only == "file" { file::load } else { file::refused };
        part(&mut report, &timed, model);
    }
    if arguments.only.as_deref() == Some("ahead") {
        ahead::compare(&mut report, &options);
    }
    if arguments.only.as_deref() == Some("few") {
        few::compare(&mut report, &options, if arguments.small { 2 } else { 24 });
    }
    if wants("queue") {
        let load = queue::Load { callers: 64, seconds: arguments.seconds, shape: (24, 32_768) };
        queue::concurrent(&mut report, "best", || CudaBackend::open(CudaOptions::default()), &load);
    }
    if arguments.only.as_deref() == Some("clef-rows") {
        clef_rows::rows(&mut report, "best", &cuda, arguments.small);
    }
    if arguments.only.as_deref() == Some("memory") {
        bench::memory(&mut report, &options);
    }
    if wants("bench") {
        bench::products(&mut report, &cuda);
        bench::forwards(&mut report, &options);
        println!("times done after {:.1} s", start.elapsed().as_secs_f64());
    }
    if report.finish(arguments.out.as_deref()) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
