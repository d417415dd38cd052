//! Many threads ask one model at once: every answer is the one that the same request gets alone, and who takes a request
//! back leaves no trace.

use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions, Queue};
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::{ClassifyRequest, LabelSet};
use dikast_core::{Error, answers::Classification};

const CALLERS: usize = 64;
const EACH: usize = 6;

fn model() -> GliClass {
    GliClass::load(&dikast_models::gliclass_mini()).expect("the embedded model")
}

/// Requests of very different lengths.
fn requests() -> Vec<ClassifyRequest> {
    let words = ["rain", "stocks", "goal", "senate", "recipe", "orbit", "guitar", "flu"];
    let labels = ["weather", "economy", "sport", "politics", "food"];
    (0..16)
        .map(|i| {
            let text: Vec<&str> = (0..1 + i * i % 40).map(|w| words[(w * 7 + i) % words.len()]).collect();
            ClassifyRequest::new(text.join(" "), LabelSet::flat(labels[..2 + i % 4].iter().copied()))
        })
        .collect()
}

fn bits(answer: &Classification) -> Vec<(String, u32, Option<u32>)> {
    answer.scores.iter().map(|s| (s.label.clone(), s.score.to_bits(), s.logit.map(f32::to_bits))).collect()
}

#[test]
fn every_caller_gets_the_answer_of_his_request_alone() {
    let requests = requests();
    let mut engine = Engine::with_model(CpuBackend::new(), model(), EngineOptions::default(), &mut |_, _| {})
        .expect("loads");
    let alone: Vec<_> = requests
        .iter()
        .map(|r| {
            let answer = pollster::block_on(engine.classify(std::slice::from_ref(r))).remove(0);
            answer.expect("an answer")
        })
        .collect();
    let queue = Queue::start(model(), || Ok(CpuBackend::new()), EngineOptions::default()).expect("starts");
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let (queue, requests, alone) = (queue.clone(), &requests, &alone);
            scope.spawn(move || {
                for i in 0..EACH {
                    let which = (caller * 5 + i * 3) % requests.len();
                    let reply = queue.submit(requests[which].clone()).expect("taken");
                    // Every fifth goes away, some wait for the future, the others block.
                    match (caller + i) % 5 {
                        0 => drop(reply),
                        n => {
                            let answer = if n == 1 { pollster::block_on(reply) } else { reply.wait() };
                            let answer = answer.expect("an answer");
                            assert_eq!(bits(&answer), bits(&alone[which]));
                            assert_eq!(answer.receipt, alone[which].receipt);
                        }
                    }
                }
            });
        }
    });
}

#[test]
fn a_bad_request_is_refused_before_it_waits() {
    let queue = Queue::start(model(), || Ok(CpuBackend::new()), EngineOptions::default()).expect("starts");
    let empty = ClassifyRequest::new("text", LabelSet::flat(Vec::<String>::new()));
    assert!(matches!(queue.submit(empty), Err(Error::InvalidRequest { .. })));
    // And does not disturb the next one.
    let reply = queue.try_submit(requests().remove(0)).expect("valid").expect("room");
    assert!(reply.wait().is_ok());
}

#[test]
fn a_device_that_does_not_open_is_the_callers_error() {
    let open = || Err::<CpuBackend, _>(Error::Unsupported { device: "none".into(), need: "a device".into() });
    let error = Queue::start(model(), open, EngineOptions::default()).expect_err("no device");
    assert_eq!(error.to_string(), "not supported by none: a device");
}
