//! Device memory of the 27B on CUDA, worked out for its real shapes from a checkpoint without contents. On a machine without a
//! device nothing runs, and the test says so; `DIKAST_TEST_CUDA=required` makes that a failure.
#![cfg(unix)]

use std::path::Path;

use dikast_core::backend::Backend as _;
use dikast_core::checkpoint::{Checks, ModelFiles};
use dikast_core::engine::{Engine, EngineOptions, Model as _};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::numerics::hadamard::Group;
use dikast_core::{Error, Result};
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_synth::{Format, Recipe};

const REQUIRED: &str = "DIKAST_TEST_CUDA";
const LIKE: &str = "clef-27b";
const GIB: u64 = 1 << 30;

fn model(folder: &Path, vision: bool) -> Clef {
    let config = dikast_synth::preset(LIKE).expect("a preset");
    let format = Format::Int8ConvRot { group: Group::DEFAULT };
    let recipe = Recipe { config, format, seed: 1, tokenizer: None, like: LIKE.to_owned() };
    dikast_synth::hollow(folder, &recipe).expect("written");
    let options = ClefOptions { vision, checks: Checks::HEADERS, ..ClefOptions::default() };
    Clef::load_with(&ModelFiles::open(folder).expect("a folder"), options).expect("it loads")
}

fn open(memory_budget: Option<u64>) -> Result<CudaBackend> {
    CudaBackend::open(CudaOptions { memory_budget, ..CudaOptions::default() })
}

#[test]
fn long_requests_fit_their_budget_and_too_small_ones_are_refused() {
    let backend = match open(None) {
        Ok(backend) => backend,
        Err(error) if std::env::var(REQUIRED).is_ok_and(|v| v == "required") => {
            panic!("no CUDA device, and {REQUIRED}=required: {error}")
        }
        Err(error) => {
            eprintln!("NOT RUN, no CUDA device: {error}");
            return;
        }
    };
    let folder = tempfile::tempdir().expect("a folder");
    let start = std::time::Instant::now();
    let model = model(folder.path(), false);
    println!("loaded after {:?}", start.elapsed());
    assert_eq!(model.format(), "INT8 ConvRot");
    let needed = |tokens: usize| {
        let bucket = backend.bucket(&model.full(tokens));
        let budget = backend.budget(model.graph(), model.weights(), &bucket).expect("a budget");
        println!("{tokens} tokens: {budget:?} after {:?}", start.elapsed());
        assert_eq!(budget.device_weights / GIB, 22, "{budget:?}");
        budget
    };
    let [short, long, longest] = [2270, 16_384, 65_536].map(needed);
    // What 2,270 tokens may take, and what 65,536 may; the driver's own memory comes on top of the first.
    assert!(short.device() <= 24 * GIB, "{short:?}");
    assert!(longest.device() <= 40 * GIB, "{longest:?}");
    // Activations are those of the rows, and no more: no step has scratch memory that grows faster.
    let per_token = |budget: dikast_core::backend::MemoryBudget, tokens: u64| budget.activations / tokens;
    assert!(per_token(longest, 65_536) <= per_token(long, 16_384) + 4096, "{long:?} {longest:?}");

    // The engine refuses what does not fit before anything is uploaded.
    let options = EngineOptions { max_tokens: 65_536, batch_tokens: 65_536, ..EngineOptions::default() };
    let tight = open(Some(20 * GIB)).expect("it opened before");
    let before = tight.memory_in_use().expect("the device answers");
    match Engine::with_model(tight, model, options, &mut |_, _| {}) {
        Err(Error::OutOfMemory { needed, available, .. }) => {
            assert!(needed == longest.device() && available <= 20 * GIB, "{needed} {available}");
        }
        other => panic!("{:?}", other.map(|_| "loaded")),
    }
    assert_eq!(backend.memory_in_use().expect("the device answers"), before);
}
