//! The state cache of CUDA: later questions on a state that is on the device have the bits of the whole request. On a machine
//! without a device nothing runs, and the tests say so; `DIKAST_TEST_CUDA=required` makes that a failure.

use std::path::Path;

use dikast_core::backend::Backend as _;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions, StateCacheUse};
use dikast_core::models::clef::Clef;
use dikast_core::numerics::hadamard::Group;
use dikast_core::request::DecideRequest;
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_quantize::{Options, Scheme, convert};
use dikast_tests::clef::{cases, folder, sequence};

const REQUIRED: &str = "DIKAST_TEST_CUDA";

type Cuda = Engine<CudaBackend, Clef>;

/// An engine with a cache of some bytes; none without a device.
fn engine(model: &Path, portable: bool, state_cache: u64) -> Option<Cuda> {
    // Values that nobody wrote are NaN.
    let backend = match CudaBackend::open(CudaOptions { portable, poison: true, ..CudaOptions::default() }) {
        Ok(backend) => backend,
        Err(error) if std::env::var(REQUIRED).is_ok_and(|v| v == "required") => {
            panic!("no CUDA device, and {REQUIRED}=required: {error}")
        }
        Err(error) => {
            eprintln!("NOT RUN, no CUDA device: {error}");
            return None;
        }
    };
    let files = ModelFiles::open(model).expect("the fixture");
    let model = Clef::load(&files).expect("it loads");
    let options = EngineOptions { max_tokens: 16_384, batch_tokens: 16_384, state_cache };
    Some(Engine::with_model(backend, model, options, &mut |_, _| {}).expect("it fits"))
}

fn quantized() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let scheme = Scheme::Int8ConvRot { group: Group::new(64).expect("a size") };
    convert(&folder().join("model"), dir.path(), Options::new(scheme), &mut |_, _| {}).expect("converted");
    dir
}

/// A state of some words.
fn state(which: &str, words: usize) -> String {
    (0..words).map(|i| format!("{which}{} ", i * 7 % 31)).collect()
}

/// Questions of three kinds about a state; another number, other questions.
fn asked(engine: &Cuda, state: &str, number: usize) -> ClefSequence {
    let mut questions = serde_json::Map::new();
    for i in 0..=number {
        let question = match (i + number) % 2 {
            0 => serde_json::json!({"type": "noul", "instructions": format!("Is {number} so, or {i}?")}),
            _ => {
                serde_json::json!({"type": "choice", "criteria": {"one": null, "two": format!("{i}"), "many": null}})
            }
        };
        questions.insert(format!("q{i}"), question);
    }
    let body = serde_json::json!({"state": state, "questions": questions});
    engine.prepare(&DecideRequest::from_json(body.to_string()).expect("a request")).expect("a sequence")
}

type Bits = Vec<Vec<u32>>;

fn bits(logits: &[Vec<f32>]) -> Bits {
    logits.iter().map(|l| l.iter().map(|x| x.to_bits()).collect()).collect()
}

/// Bits without a cache, of each sequence alone.
fn whole(engine: &mut Cuda, sequences: &[&ClefSequence]) -> Bits {
    let logits = sequences.iter().map(|s| pollster::block_on(engine.logits(&[s])).expect("a run").remove(0));
    let logits: Vec<_> = logits.collect();
    assert!(logits.iter().flatten().all(|l| l.is_finite()));
    bits(&logits)
}

fn cached(engine: &mut Cuda, sequences: &[&ClefSequence]) -> Bits {
    bits(&pollster::block_on(engine.logits_of_states(sequences)).expect("a run"))
}

fn later_questions_have_the_bits_of_whole_requests(model: &Path) {
    for portable in [false, true] {
        let Some(mut cuda) = engine(model, portable, 1 << 30) else { return };
        if portable && cuda.backend().capabilities().device == "emulated" {
            // The same kernels.
            continue;
        }
        let (long, other) = (state("a", 60), state("b", 30));
        let one = asked(&cuda, &long, 0);
        assert!(one.record.state.end >= 192, "{:?}", one.record.state);
        let [two, three, strange] = [asked(&cuda, &long, 1), asked(&cuda, &long, 3), asked(&cuda, &other, 1)];
        let picture = cases().into_iter().find(|c| c.expected.id == "image_one").expect("a record");
        let picture = sequence(&cuda, &picture);
        let all = [&one, &two, &three, &strange, &picture];
        let want = whole(&mut cuda, &all);
        assert_eq!(cuda.state_cache(), StateCacheUse::default());

        // The first asks, the second finds, and then both in one batch with another state and a picture.
        assert_eq!(cached(&mut cuda, &[&one]), want[..1]);
        assert_eq!(cached(&mut cuda, &[&two]), want[1..2]);
        let found = cuda.state_cache();
        assert_eq!((found.entries, found.kept, found.hits), (1, 1, 1), "{found:?}");
        assert_eq!(cached(&mut cuda, &all), want);
        let found = cuda.state_cache();
        assert_eq!((found.entries, found.kept, found.hits, found.evicted), (2, 2, 4, 0), "{found:?}");
        let turned: Vec<_> = all.iter().rev().copied().collect();
        assert_eq!(cached(&mut cuda, &turned), want.iter().rev().cloned().collect::<Bits>());
    }
}

#[test]
fn later_questions_have_the_bits_of_whole_requests_in_int8() {
    later_questions_have_the_bits_of_whole_requests(quantized().path());
}

#[test]
fn later_questions_have_the_bits_of_whole_requests_as_stored() {
    later_questions_have_the_bits_of_whole_requests(&folder().join("model"));
}

#[test]
fn a_small_budget_forgets_the_oldest_state() {
    let model = folder().join("model");
    let Some(mut cuda) = engine(&model, false, 1 << 30) else { return };
    let states = ["a", "b", "c"].map(|s| state(s, 20));
    let sequences: Vec<ClefSequence> =
        (0..6).map(|i| asked(&cuda, &states[i % 3], usize::from(i > 2))).collect();
    let sequences: Vec<&ClefSequence> = sequences.iter().collect();
    let want = whole(&mut cuda, &sequences);
    assert_eq!(cached(&mut cuda, &sequences[..1]), want[..1]);
    let bytes = cuda.state_cache().bytes;
    assert!(bytes > 0);
    drop(cuda);

    // Room for two of three.
    let Some(mut cuda) = engine(&model, false, bytes * 5 / 2) else { return };
    for (i, sequence) in sequences.iter().enumerate() {
        assert_eq!(cached(&mut cuda, &[sequence]), want[i..=i]);
        assert!(cuda.state_cache().bytes <= bytes * 5 / 2);
    }
    let found = cuda.state_cache();
    assert_eq!((found.entries, found.hits, found.kept, found.evicted), (2, 0, 6, 4), "{found:?}");
    // All three in one batch: the third is computed whole.
    assert_eq!(cached(&mut cuda, &sequences[..3]), want[..3]);
    // Room for none.
    let Some(mut cuda) = engine(&model, false, bytes - 1) else { return };
    assert_eq!(cached(&mut cuda, &sequences[..1]), want[..1]);
    assert_eq!(cuda.state_cache(), StateCacheUse::default());
}

/// The instructions alone may be shared; what is shorter than a unit of rows is not kept.
#[test]
fn different_states_do_not_share_and_short_ones_are_not_kept() {
    let Some(mut cuda) = engine(&folder().join("model"), false, 1 << 30) else { return };
    let (one, two) = (state("a", 30), state("a", 29) + "x");
    let mut short = asked(&cuda, "s", 1);
    // Sixty rows of state; where they came from is no matter to the model.
    short.record.state.end = 63;
    let sequences = [asked(&cuda, &one, 1), asked(&cuda, &two, 1), short];
    let sequences: Vec<&ClefSequence> = sequences.iter().collect();
    let want = whole(&mut cuda, &sequences);
    assert_ne!(want[0], want[1]);
    assert_eq!(cached(&mut cuda, &sequences), want);
    assert!(cuda.state_cache().kept <= 2, "{:?}", cuda.state_cache());
    assert_eq!(cached(&mut cuda, &sequences[2..]), want[2..]);
    assert!(cuda.state_cache().kept <= 2, "{:?}", cuda.state_cache());
}
