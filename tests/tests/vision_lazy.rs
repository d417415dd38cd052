//! A vision tower that comes onto the CUDA device with the first picture. On a machine without a device nothing runs, and the
//! test says so; `DIKAST_TEST_CUDA=required` makes that a failure.

use std::sync::{Mutex, PoisonError};

use dikast_core::Error;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_tests::clef::{cases, engine, folder, sequence};

/// Memory in use is everybody's: one test at a time.
static TURN: Mutex<()> = Mutex::new(());

const REQUIRED: &str = "DIKAST_TEST_CUDA";

fn open(lazy_media: bool) -> dikast_core::Result<CudaBackend> {
    // Values that nobody wrote are NaN.
    CudaBackend::open(CudaOptions { lazy_media, poison: true, ..CudaOptions::default() })
}

fn load(lazy_media: bool) -> Engine<CudaBackend, Clef> {
    let backend = open(lazy_media).expect("it opened before");
    engine(backend, &folder().join("model"), ClefOptions::default())
}

fn used(engine: &Engine<CudaBackend, Clef>) -> u64 {
    engine.backend().memory_in_use().expect("the device answers")
}

fn bits(engine: &mut Engine<CudaBackend, Clef>, own: &ClefSequence) -> Vec<u32> {
    let logits = pollster::block_on(engine.logits(&[own])).expect("a run").concat();
    assert!(!logits.is_empty() && logits.iter().all(|l| l.is_finite()));
    logits.iter().map(|l| l.to_bits()).collect()
}

#[test]
fn the_tower_comes_with_the_first_picture() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    match open(true) {
        Ok(_) => {}
        Err(error) if std::env::var(REQUIRED).is_ok_and(|v| v == "required") => {
            panic!("no CUDA device, and {REQUIRED}=required: {error}")
        }
        Err(error) => {
            eprintln!("NOT RUN, no CUDA device: {error}");
            return;
        }
    }
    let mut resident = load(false);
    let all = used(&resident);
    let of = |id: &str| {
        let case = cases().into_iter().find(|c| c.expected.id == id).expect("a record");
        sequence(&resident, &case)
    };
    let (text, picture) = (of("text_noul"), of("image_one"));
    let want = [&text, &picture].map(|own| bits(&mut resident, own));
    let both = used(&resident);
    drop(resident);

    let mut lazy = load(true);
    let tower: u64 = lazy
        .model()
        .weights()
        .iter()
        .filter(|(name, _)| name.starts_with("model.visual."))
        .map(|(_, tensor)| tensor.bytes.len() as u64)
        .sum();
    let first = used(&lazy);
    assert!(tower > 0 && first + tower <= all, "{first} and {tower} are more than {all}");
    assert_eq!(bits(&mut lazy, &text), want[0]);
    let after_text = used(&lazy);
    assert_eq!(bits(&mut lazy, &picture), want[1]);
    let after_picture = used(&lazy);
    println!(
        "{first} bytes loaded, {after_text} after a text, {after_picture} after a picture; {all} and {both} resident"
    );
    assert!(after_picture >= after_text + tower);
    // Once.
    assert_eq!(bits(&mut lazy, &picture), want[1]);
    assert_eq!(bits(&mut lazy, &text), want[0]);
    assert_eq!(used(&lazy), after_picture);

    // A new device has it not, and gets it again.
    lazy.replace_backend(open(true).expect("it opened before")).expect("it fits");
    assert!(used(&lazy) < after_picture);
    assert_eq!(bits(&mut lazy, &picture), want[1]);
}

#[test]
fn a_picture_without_room_is_refused_and_texts_go_on() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let Ok(backend) = open(true) else {
        eprintln!("NOT RUN, no CUDA device");
        return;
    };
    let small = |backend| {
        let files = ModelFiles::open(&folder().join("model")).expect("the fixture");
        let options = EngineOptions { max_tokens: 512, batch_tokens: 512, ..EngineOptions::default() };
        Engine::with_model(backend, Clef::load(&files).expect("it loads"), options, &mut |_, _| {})
    };
    let sound = small(backend).expect("it fits");
    let of = |id: &str| {
        let case = cases().into_iter().find(|c| c.expected.id == id).expect("a record");
        sequence(&sound, &case)
    };
    let (text, picture) = (of("text_noul"), of("image_one"));
    let needed = sound.budget().expect("a budget").device();
    drop(sound);
    let within = |budget: u64| {
        let options = CudaOptions { lazy_media: true, memory_budget: Some(budget), ..CudaOptions::default() };
        small(CudaBackend::open(options).expect("it opened before"))
    };
    // The upload needs a little more than the engine counts, and says how much: just that.
    let least = match within(needed) {
        Err(Error::OutOfMemory { needed, .. }) => needed,
        other => panic!("{:?}", other.map(|_| "loaded")),
    };
    let mut tight = within(least).expect("it fits");
    let before = bits(&mut tight, &text);
    let refusal = pollster::block_on(tight.logits(&[&picture]));
    match refusal {
        Err(Error::OutOfMemory { needed, available, .. }) => assert!(needed > available),
        other => panic!("{other:?}"),
    }
    assert_eq!(bits(&mut tight, &text), before);
}
