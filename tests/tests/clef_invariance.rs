//! A decision request has the same bits alone, in any batch and in any order, up to the limits of questions and options.

use dikast_core::answers::{Answer, Decision};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::request::{DecideRequest, Json, Question};
use dikast_tests::clef::{cases, engine, folder, sequence};

fn tiny() -> Engine<CpuBackend, Clef> {
    engine(CpuBackend::new(), &folder().join("model"), ClefOptions::default())
}

fn logits(engine: &mut Engine<CpuBackend, Clef>, sequences: &[&ClefSequence]) -> Vec<Vec<u32>> {
    let logits = pollster::block_on(engine.logits(sequences)).expect("it runs");
    logits.iter().map(|l| l.iter().map(|x| x.to_bits()).collect()).collect()
}

#[test]
fn every_record_has_the_same_bits_in_any_batch() {
    let mut engine = tiny();
    let sequences: Vec<ClefSequence> = cases().iter().map(|case| sequence(&engine, case)).collect();
    let forwards: Vec<&ClefSequence> = sequences.iter().collect();
    let alone: Vec<Vec<u32>> = forwards.iter().flat_map(|one| logits(&mut engine, &[one])).collect();
    let packed = pollster::block_on(engine.run(&forwards, &mut dikast_core::backend::Taps::none()));
    let packed: Vec<Vec<u32>> =
        packed.expect("it runs").iter().map(|l| l.iter().map(|x| x.to_bits()).collect()).collect();
    assert_eq!(alone, packed, "all in one pass");
    let backwards: Vec<&ClefSequence> = sequences.iter().rev().collect();
    let mut reversed = logits(&mut engine, &backwards);
    reversed.reverse();
    assert_eq!(alone, reversed, "in the other order");
    // A shuffle that moves every record next to others than before.
    let order: Vec<usize> = (0..sequences.len()).map(|i| (i * 7 + 3) % sequences.len()).collect();
    let shuffled: Vec<&ClefSequence> = order.iter().map(|&i| &sequences[i]).collect();
    for (found, &i) in logits(&mut engine, &shuffled).iter().zip(&order) {
        assert_eq!(*found, alone[i], "record {i} in a shuffle");
    }
    for batch_tokens in [1, 700] {
        let options = EngineOptions { batch_tokens, ..engine.options().clone() };
        let mut other =
            Engine::with_model(CpuBackend::new(), engine.model().clone(), options, &mut |_, _| {})
                .expect("it loads");
        assert_eq!(alone, logits(&mut other, &forwards), "{batch_tokens} tokens a batch");
    }
}

fn options(n: usize) -> Question {
    Question::choice("c", "Which one?", (0..n).map(|i| (format!("option {i}"), Json::Null)))
}

fn levels(n: usize) -> Question {
    Question::score("s", "How much?", (0..n).map(|i| Json::from(format!("level {i}").as_str())))
}

/// Requests at the edges of what is allowed.
fn edges() -> Vec<DecideRequest> {
    let noul = |i: usize| Question::noul(format!("q{i}"), format!("Is it number {i}?"));
    let state = "The third one of ten, they said.";
    [
        vec![noul(0)],
        (0..64).map(noul).collect(),
        vec![options(1)],
        vec![options(2)],
        vec![options(255)],
        vec![levels(1)],
        vec![levels(10)],
        vec![options(1), noul(1), levels(10), Question { id: "d".to_owned(), ..options(255) }],
    ]
    .into_iter()
    .map(|questions| DecideRequest::new(state, questions))
    .collect()
}

fn decide(engine: &mut Engine<CpuBackend, Clef>, requests: &[DecideRequest]) -> Vec<Decision> {
    pollster::block_on(engine.decide(requests)).into_iter().map(|d| d.expect("an answer")).collect()
}

#[test]
fn limits_of_questions_options_and_levels() {
    let mut engine = tiny();
    let requests = edges();
    let together = decide(&mut engine, &requests);
    for (request, decision) in requests.iter().zip(&together) {
        assert_eq!(decide(&mut engine, std::slice::from_ref(request)), std::slice::from_ref(decision));
        assert_eq!(decision.answers.len(), request.questions.len());
        for ((id, answer), question) in decision.answers.iter().zip(&request.questions) {
            assert_eq!(*id, question.id);
            let probabilities: Vec<f64> = match answer {
                Answer::Noul { probability } => vec![*probability, 1.0 - probability],
                Answer::Choice { probabilities, .. } => probabilities.iter().map(|(_, p)| *p).collect(),
                Answer::Score { probabilities, .. } => probabilities.clone(),
            };
            assert_eq!(probabilities.len(), question.option_count());
            assert!((probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{probabilities:?}");
            assert!(probabilities.len() > 1 || probabilities == [1.0]);
        }
    }
}

/// One more than allowed is refused, and does not disturb its neighbours.
#[test]
fn requests_over_the_limits_fail_alone() {
    let mut engine = tiny();
    let noul = |i: usize| Question::noul(format!("q{i}"), "?");
    let bad: Vec<DecideRequest> = [
        vec![],
        (0..65).map(noul).collect(),
        vec![options(0)],
        vec![options(256)],
        vec![levels(0)],
        vec![levels(11)],
    ]
    .into_iter()
    .map(|questions| DecideRequest::new("s", questions))
    .collect();
    let good = &edges()[0];
    let alone = decide(&mut engine, std::slice::from_ref(good)).remove(0);
    let mixed: Vec<DecideRequest> = bad.iter().flat_map(|b| [b.clone(), good.clone()]).collect();
    for (i, answer) in pollster::block_on(engine.decide(&mixed)).into_iter().enumerate() {
        match answer {
            Ok(decision) => assert!(i % 2 == 1 && decision == alone, "request {i}"),
            Err(error) => assert_eq!(i % 2, 0, "request {i}: {error}"),
        }
    }
}
