//! The state cache of CUDA: later questions on a state that is on the device have the bits of the whole request. On a machine
//! without a device nothing runs, and the tests say so; `DIKAST_TEST_CUDA=required` makes that a failure.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use dikast_core::backend::Backend as _;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions, StateCacheUse};
use dikast_core::models::clef::Clef;
use dikast_core::numerics::hadamard::Group;
use dikast_core::request::DecideRequest;
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_quantize::{Options, Scheme, convert};
use dikast_server::{Config, ModelSource, Server};
use dikast_tests::clef::{cases, folder, sequence};

const REQUIRED: &str = "DIKAST_TEST_CUDA";

type Cuda = Engine<CudaBackend, Clef>;

/// Values that nobody wrote are NaN.
fn open(portable: bool) -> dikast_core::Result<CudaBackend> {
    CudaBackend::open(CudaOptions { portable, poison: true, ..CudaOptions::default() })
}

/// A device, where there is one.
fn device(portable: bool) -> Option<CudaBackend> {
    match open(portable) {
        Ok(backend) => Some(backend),
        Err(error) if std::env::var(REQUIRED).is_ok_and(|v| v == "required") => {
            panic!("no CUDA device, and {REQUIRED}=required: {error}")
        }
        Err(error) => {
            eprintln!("NOT RUN, no CUDA device: {error}");
            None
        }
    }
}

/// An engine with a cache of some bytes; none without a device.
fn engine(model: &Path, portable: bool, state_cache: u64) -> Option<Cuda> {
    let backend = device(portable)?;
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

/// Questions of two kinds about a state; another number, other questions.
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

/// What a server answers.
fn http(address: SocketAddr, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
    body.to_owned()
}

/// The answers of a server with a cache of some bytes, and what it says of the cache.
fn served(state_cache: u64, bodies: &[String]) -> (Vec<String>, Vec<f64>) {
    let files = ModelFiles::open(folder().join("model").as_path()).expect("the fixture");
    let source = ModelSource::new("clef", files, || open(false));
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let config = Config { listen, state_cache, decimals: 15, ..Config::default() };
    let server = Server::start(config, vec![source]).expect("it starts");
    assert!(server.wait_ready());
    let address = server.address();
    let answers = bodies.iter().map(|body| http(address, "POST", "/v1/systemone", body)).collect();
    let metrics = http(address, "GET", "/metrics", "");
    let counted = ["hits_total", "kept_total", "evicted_total", "entries", "bytes"].map(|name| {
        let name = format!("decisions_state_cache_{name}{{model=\"clef\"}} ");
        let value = metrics.lines().find_map(|line| line.strip_prefix(&name)).expect("counted");
        value.parse().expect("a number")
    });
    server.stop();
    server.join().expect("a quiet end");
    (answers, counted.to_vec())
}

#[test]
fn a_server_keeps_states_and_answers_the_same() {
    if device(false).is_none() {
        return;
    }
    let body = |state: &str, question: &str| {
        serde_json::json!({"model": "clef", "state": state, "questions": {
            "a": {"type": "noul", "instructions": question},
            "b": {"type": "choice", "criteria": {"one": null, "two": question}},
        }})
        .to_string()
    };
    let (one, other) = (state("a", 40), state("b", 30));
    let bodies = [
        body(&one, "Is it so?"),
        body(&one, "Or is it not?"),
        body(&other, "Is it so?"),
        body(&one, "Is it late?"),
    ];
    let (want, nothing) = served(0, &bodies);
    assert_eq!(nothing, [0.0; 5]);
    let (found, counted) = served(1 << 30, &bodies);
    assert_eq!(found, want);
    assert_ne!(want[0], want[1]);
    assert_eq!(counted[..4], [2.0, 2.0, 0.0, 2.0]);
    assert!(counted[4] > 0.0);
}
