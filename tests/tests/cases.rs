//! The request cases that concern classification, on the embedded model.

use dikast_core::Error;
use dikast_core::answers::Classification;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::request::{ClassifyRequest, Example, LabelSet, Mode, Truncation};

fn engine() -> Engine<CpuBackend> {
    Engine::load(CpuBackend::new(), &dikast_models::gliclass_mini(), EngineOptions::default())
        .expect("it loads")
}

fn request(text: &str, labels: &[&str]) -> ClassifyRequest {
    ClassifyRequest { threshold: 0.0, ..ClassifyRequest::new(text, LabelSet::flat(labels.iter().copied())) }
}

fn classify(
    engine: &mut Engine<CpuBackend>,
    requests: &[ClassifyRequest],
) -> Vec<Result<Classification, Error>> {
    pollster::block_on(engine.classify(requests))
}

fn names(answer: &Classification) -> Vec<&str> {
    answer.predictions().iter().map(|s| s.label.as_str()).collect()
}

/// batch-02: no text of a list is dropped.
#[test]
fn three_texts_give_three_answers_of_three_labels() {
    let texts =
        ["Il treno parte alle nove.", "Nuevo récord en los 800 metros.", "Der Zinssatz bleibt gleich."];
    let requests: Vec<_> = texts.iter().map(|t| request(t, &["transport", "sport", "finance"])).collect();
    let answers = classify(&mut engine(), &requests);
    assert_eq!(answers.len(), 3);
    for answer in answers {
        assert_eq!(names(&answer.expect("an answer")), ["transport", "sport", "finance"]);
    }
}

/// batch-03: labels per text.
#[test]
fn each_text_has_its_own_labels() {
    let requests = [request("Great soup.", &["food", "music"]), request("Slow waiter.", &["service"])];
    let answers = classify(&mut engine(), &requests);
    assert_eq!(names(answers[0].as_ref().expect("an answer")), ["food", "music"]);
    assert_eq!(names(answers[1].as_ref().expect("an answer")), ["service"]);
}

/// A bad request in a batch gets its own error; the others get their answers.
#[test]
fn a_bad_request_does_not_disturb_the_others() {
    let mut engine = engine();
    let good = request("Great soup.", &["food", "music"]);
    let bad = request("Great soup.", &[]);
    let alone = classify(&mut engine, std::slice::from_ref(&good)).remove(0).expect("an answer");
    let answers = classify(&mut engine, &[bad.clone(), good.clone(), bad, good]);
    assert!(matches!(&answers[0], Err(Error::InvalidRequest { .. })), "{:?}", answers[0]);
    assert_eq!(answers[1].as_ref(), Ok(&alone));
    assert!(answers[2].is_err());
    assert_eq!(answers[3].as_ref(), Ok(&alone));
}

/// len-01: the truncation flag works for one text and for many.
#[test]
fn long_texts_are_cut_only_when_asked() {
    let mut engine = engine();
    let text = "a long story about ships ".repeat(100);
    let mut long = request(&text, &["news", "sport"]);
    long.max_tokens = Some(128);
    assert!(matches!(
        classify(&mut engine, std::slice::from_ref(&long)).remove(0),
        Err(Error::TooLarge { limit: 128, actual, .. }) if actual > 400
    ));
    long.truncation = Truncation::Text;
    for answer in classify(&mut engine, &[long.clone(), long.clone()]) {
        let answer = answer.expect("an answer");
        assert_eq!(answer.receipt.tokens, 128);
        assert!(answer.receipt.dropped_text_tokens > 272, "{:?}", answer.receipt);
        assert_eq!(answer.scores.len(), 2);
    }
}

/// len-02: exactly limit − 1, limit and limit + 1 tokens, labels included.
#[test]
fn the_limit_itself_is_allowed() {
    let mut engine = engine();
    let base = engine.prepare(&request("ship ship ship", &["a", "b"])).expect("valid").tokens;
    let limit = base + 10;
    for (words, fits) in [(12, true), (13, true), (14, false)] {
        let mut r = request(&vec!["ship"; words].join(" "), &["a", "b"]);
        assert_eq!(engine.prepare(&r).expect("valid").tokens, base + words as u64 - 3);
        r.max_tokens = Some(limit as usize);
        let answer = classify(&mut engine, &[r]).remove(0);
        match answer {
            Ok(_) => assert!(fits, "{words}"),
            Err(Error::TooLarge { limit: l, actual, .. }) => {
                assert_eq!((fits, l, actual), (false, limit, limit + 1));
            }
            Err(e) => panic!("{e}"),
        }
    }
}

/// ex-01: an example without labels does not vanish.
#[test]
fn an_example_without_labels_counts() {
    let mut engine = engine();
    let plain = request("The file will not open.", &["bug", "praise"]);
    let example = Example { text: "Thanks a lot!".to_owned(), labels: vec![] };
    let shown = ClassifyRequest { examples: vec![example], ..plain.clone() };
    let answers = classify(&mut engine, &[plain, shown]);
    let score = |i: usize| answers[i].as_ref().map(|a| a.scores[0].score);
    assert_ne!(score(0), score(1));
}

/// num-01: probabilities, never logits, for 3, 30 and 255 options.
#[test]
fn scores_are_probabilities() {
    let options = EngineOptions { max_tokens: 4096, ..EngineOptions::default() };
    let mut engine =
        Engine::load(CpuBackend::new(), &dikast_models::gliclass_mini(), options).expect("it loads");
    for count in [3, 30, 255] {
        let labels: Vec<String> = (0..count).map(|i| format!("option {i}")).collect();
        for mode in [Mode::SingleLabel, Mode::MultiLabel] {
            let mut r = ClassifyRequest::new("The match ended two to one.", LabelSet::flat(labels.clone()));
            r.mode = mode;
            let answer = classify(&mut engine, &[r]).remove(0).expect("an answer");
            assert_eq!(answer.scores.len(), count);
            assert!(answer.scores.iter().all(|s| (0.0..=1.0).contains(&s.score)));
            if mode == Mode::SingleLabel {
                assert!((answer.scores.iter().map(|s| s.score).sum::<f32>() - 1.0).abs() < 1e-3);
            }
        }
    }
}

/// num-02: the raw logits belong to the scores.
#[test]
fn the_softmax_of_the_logits_is_the_answer() {
    let mut r = request("The match ended two to one.", &["sport", "law"]);
    r.mode = Mode::SingleLabel;
    let answer = classify(&mut engine(), &[r]).remove(0).expect("an answer");
    let logits: Vec<f32> = answer.scores.iter().map(|s| s.logit.expect("one window")).collect();
    let sum: f32 = logits.iter().map(|x| x.exp()).sum();
    for (s, l) in answer.scores.iter().zip(&logits) {
        assert!((s.score - l.exp() / sum).abs() < 1e-4);
    }
}

/// One option is certain by construction.
#[test]
fn a_single_label_has_probability_one() {
    let mut r = request("The match ended two to one.", &["sport"]);
    r.mode = Mode::SingleLabel;
    let answer = classify(&mut engine(), &[r]).remove(0).expect("an answer");
    assert_eq!(answer.scores[0].score, 1.0);
}
