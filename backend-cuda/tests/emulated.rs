//! Everything that this crate does on a device, on the CPU that plays one (kernels/emulator): the checks of the `cuda_check`
//! example, steps and small models, through the driver's and the run-time compiler's own interfaces.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(dead_code, unreachable_pub, clippy::print_stdout, reason = "modules of a command-line tool")]

#[path = "../examples/cuda_check/exits.rs"]
mod exits;
#[path = "../examples/cuda_check/fp8_tiles.rs"]
mod fp8_tiles;
#[path = "../examples/cuda_check/heads.rs"]
mod heads;
#[path = "../examples/cuda_check/models.rs"]
mod models;
#[path = "../examples/cuda_check/report.rs"]
mod report;
#[path = "../examples/cuda_check/steps.rs"]
mod steps;
#[path = "../examples/cuda_check/synth.rs"]
mod synth;

use std::path::{Path, PathBuf};
use std::process::Command;

use dikast_core::backend::Backend as _;
use dikast_cuda::{CudaBackend, CudaOptions, LargeTiles};
use dikast_tests::data::data_dir;
use dikast_tests::gpu::REQUIRED;
use report::Report;

/// Set in the process that has the emulator on its library path.
const INSIDE: &str = "DIKAST_INSIDE_EMULATOR";

/// Whether there is a C++ compiler; where there is none it is said.
///
/// # Panics
/// When [`REQUIRED`] says that there must be one.
fn can_build() -> bool {
    let compiler = std::env::var_os("CXX").unwrap_or_else(|| "g++".into());
    let found = Command::new(&compiler).arg("--version").output().is_ok_and(|o| o.status.success());
    if !found {
        let message = format!("no {} to build the emulator with", compiler.display());
        assert!(std::env::var(REQUIRED).as_deref() != Ok("required"), "{message}");
        eprintln!("NOT RUN, {message}");
    }
    found
}

fn emulator(script: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/emulator").join(script)
}

/// Runs `test` of this file again with the emulator in place of the driver, and with its settings; false where that is so
/// already. The library path of a process cannot change while it runs.
///
/// # Panics
/// When the test fails there.
fn elsewhere(test: &str, settings: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    if !can_build() {
        return true;
    }
    let status = Command::new(emulator("run"))
        .arg(std::env::current_exe().expect("this program's path"))
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .env("DIKAST_EMULATOR", settings)
        .status()
        .expect("bash runs");
    assert!(status.success(), "{test} on the emulator: {status}");
    true
}

fn options() -> CudaOptions {
    // Named, so that they are tested whatever the defaults are; those of large tiles are among the exits.
    CudaOptions {
        poison: true,
        warpgroups: true,
        split_rows: true,
        large_tiles: LargeTiles::Copied,
        ..CudaOptions::default()
    }
}

#[test]
fn the_emulator_computes_right_and_catches_faults() {
    if !can_build() {
        return;
    }
    let output = Command::new(emulator("self_test")).output().expect("bash runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn small_steps_pass() {
    if elsewhere("small_steps_pass", "guard") {
        return;
    }
    let cuda = CudaBackend::open(options()).expect("the emulated device opens");
    assert_eq!(cuda.capabilities().device, "emulated");
    let mut report = Report::default();
    steps::all(&mut report, "emulated", &cuda, true);
    assert!(report.finish(None));
}

/// Split rows, clusters and warpgroup products: what only Hopper does.
#[test]
fn heads_on_hopper_pass() {
    if elsewhere("heads_on_hopper_pass", "capability=90,random=1") {
        return;
    }
    let mut report = Report::default();
    let cuda = CudaBackend::open(options()).expect("the emulated device opens");
    heads::all(&mut report, "emulated", &cuda, true);
    assert!(report.finish(None));
}

/// Lanes, warps and blocks take turns at random, so that what depends on their order would show.
#[test]
fn small_models_give_the_reference_logits_and_states() {
    if elsewhere("small_models_give_the_reference_logits_and_states", "random=1") {
        return;
    }
    let mut report = Report::default();
    models::goldens(&mut report, "emulated", &|| CudaBackend::open(options()), &data_dir());
    assert!(report.finish(None));
}

/// Either operand as the 64-row side of Hopper's products: the same bits, whatever the tile.
#[test]
fn fp8_products_of_every_tile_have_the_same_bits() {
    if elsewhere("fp8_products_of_every_tile_have_the_same_bits", "capability=90,processors=132,guard,check")
    {
        return;
    }
    let cuda = CudaBackend::open(options()).expect("the emulated device opens");
    let mut report = Report::default();
    fp8_tiles::tiles(&mut report, "emulated", &cuda, true, false);
    assert!(report.finish(None));
}

/// Results of large tiles by every exit, in clusters too, and attention over what they hand on.
#[test]
fn fp8_products_leave_by_every_exit_with_the_same_bits() {
    if elsewhere(
        "fp8_products_leave_by_every_exit_with_the_same_bits",
        "capability=90,processors=16,guard,random=3",
    ) {
        return;
    }
    let cuda = CudaBackend::open(options()).expect("the emulated device opens");
    let mut report = Report::default();
    steps::halves(&mut report, "emulated", &cuda);
    exits::all(&mut report, "emulated", &cuda, true);
    assert!(report.finish(None));
}
