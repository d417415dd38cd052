//! The statistics against scikit-learn and SciPy (`data/statistics.py` made the expected numbers).

use dikast_eval::metrics::{
    Judged, Judgement, RESAMPLES, accuracy, bootstrap, brier, calibration_error, macro_f1, mcnemar, quantile,
    reliability, wilson,
};
use serde_json::Value;

fn expected() -> Value {
    serde_json::from_str(include_str!("data/statistics.json")).expect("JSON")
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

fn pair(value: &Value) -> [f64; 2] {
    [number(&value[0]), number(&value[1])]
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(number).collect()
}

fn classes(value: &Value) -> Vec<u32> {
    value.as_array().expect("a list").iter().map(|v| v.as_u64().expect("a class") as u32).collect()
}

fn near(found: f64, want: f64, allowed: f64, what: &str) {
    assert!((found - want).abs() <= allowed, "{what}: {found}, expected {want}");
}

fn judged(gold: &[u32], chosen: &[u32]) -> Vec<Judged> {
    gold.iter().zip(chosen).map(|(g, c)| Judged { gold: vec![*g], chosen: vec![*c] }).collect()
}

#[test]
fn scores_and_calibration_of_one_label() {
    let all = expected();
    let gold = classes(&all["gold"]);
    for model in all["models"].as_array().expect("models") {
        let judged = judged(&gold, &classes(&model["chosen"]));
        near(accuracy(&judged).expect("some"), number(&model["accuracy"]), 1e-12, "accuracy");
        near(macro_f1(&judged).expect("some"), number(&model["macro_f1"]), 1e-12, "macro-F1");
        let rows: Vec<Vec<f64>> =
            model["probabilities"].as_array().expect("rows").iter().map(numbers).collect();
        let briers = rows.iter().zip(&gold).map(|(row, g)| brier(row, |i| i == *g as usize));
        near(briers.sum::<f64>() / gold.len() as f64, number(&model["brier"]), 1e-12, "Brier");
        let judgements: Vec<Judgement> = rows
            .iter()
            .zip(&judged)
            .map(|(row, j)| Judgement { confidence: row[j.chosen[0] as usize], right: j.gold == j.chosen })
            .collect();
        let bins = reliability(&judgements, 10);
        let want = model["bins"].as_array().expect("bins");
        assert_eq!(bins.len(), want.len());
        for (bin, want) in bins.iter().zip(want) {
            assert_eq!(Some(bin.count), want["count"].as_u64());
            near(bin.confidence, number(&want["confidence"]), 1e-12, "confidence");
            near(bin.accuracy, number(&want["accuracy"]), 1e-12, "accuracy of a bin");
        }
        near(calibration_error(&bins).expect("some"), number(&model["ece"]), 1e-12, "ECE");
    }
}

#[test]
fn several_labels_are_right_together_or_not() {
    let all = expected();
    let sets = |key: &str| -> Vec<Vec<u32>> {
        all["multi_label"][key].as_array().expect("rows").iter().map(classes).collect()
    };
    let judged: Vec<Judged> =
        sets("gold").into_iter().zip(sets("chosen")).map(|(gold, chosen)| Judged { gold, chosen }).collect();
    near(accuracy(&judged).expect("some"), number(&all["multi_label"]["accuracy"]), 1e-12, "accuracy");
    near(macro_f1(&judged).expect("some"), number(&all["multi_label"]["macro_f1"]), 1e-12, "macro-F1");
}

#[test]
fn bootstrap_intervals_are_those_of_scipy_up_to_chance() {
    let all = expected();
    let gold = classes(&all["gold"]);
    let models: Vec<Vec<Judged>> = all["models"]
        .as_array()
        .expect("models")
        .iter()
        .map(|m| judged(&gold, &classes(&m["chosen"])))
        .collect();
    let of = |model: &[Judged], places: &[usize]| accuracy(places.iter().map(|p| &model[*p])).expect("some");
    // An accuracy moves in steps of 1/80; ends of an interval of 2,000 resamples are off by one step at most.
    let step = 1.01 / gold.len() as f64;
    for (model, want) in models.iter().zip(all["models"].as_array().expect("models")) {
        let found = bootstrap(gold.len(), RESAMPLES, |p| of(model, p)).expect("two or more");
        let want = pair(&want["accuracy_interval"]);
        near(found[0], want[0], step, "low end");
        near(found[1], want[1], step, "high end");
    }
    let found = bootstrap(gold.len(), RESAMPLES, |p| of(&models[0], p) - of(&models[1], p)).expect("some");
    let want = pair(&all["accuracy_difference_interval"]);
    near(found[0], want[0], step, "low end of the difference");
    near(found[1], want[1], step, "high end of the difference");
    let f1 = |model: &[Judged], places: &[usize]| macro_f1(places.iter().map(|p| &model[*p])).expect("some");
    let found = bootstrap(gold.len(), RESAMPLES, |p| f1(&models[0], p) - f1(&models[1], p)).expect("some");
    let want = pair(&all["macro_f1_difference_interval"]);
    near(found[0], want[0], step, "low end of the difference in F1");
    near(found[1], want[1], step, "high end of the difference in F1");
    assert_eq!(bootstrap(1, RESAMPLES, |_| 0.0), None);
}

#[test]
fn proportions_have_wilson_intervals_and_mcnemar_tests() {
    let all = expected();
    for case in all["wilson"].as_array().expect("cases") {
        let [hits, of, low, high] = [0, 1, 2, 3].map(|i| number(&case[i]));
        let found = wilson(hits as u64, of as u64).expect("some");
        near(found[0], low, 1e-9, "low end");
        near(found[1], high, 1e-9, "high end");
    }
    for case in all["mcnemar_cases"].as_array().expect("cases") {
        let [a, b, p] = [0, 1, 2].map(|i| number(&case[i]));
        near(mcnemar(a as u64, b as u64), p, 1e-9, "p");
    }
    let only = numbers(&all["only"]);
    near(mcnemar(only[0] as u64, only[1] as u64), number(&all["mcnemar"]), 1e-12, "p of the models");
    assert_eq!((mcnemar(0, 0), wilson(0, 0)), (1.0, None));
}

#[test]
fn quantiles_are_interpolated_as_numpy_does() {
    let all = expected();
    let rows = all["models"][0]["probabilities"].as_array().expect("rows");
    let mut values: Vec<f64> = rows.iter().map(|r| number(&r[0])).collect();
    values.sort_by(f64::total_cmp);
    for case in all["quantiles"].as_array().expect("cases") {
        near(quantile(&values, number(&case[0])).expect("some"), number(&case[1]), 1e-12, "quantile");
    }
}
