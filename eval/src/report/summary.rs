//! From answers to figures.

use std::collections::BTreeMap;

use super::predictions::names;
use super::{
    Agreement, Calibration, Comparison, Difference, Evaluation, Flip, Interval, MarginBin, NoiseFloor,
    Paired, Scores, SetReport,
};
use crate::data::{Example, Gold, Question};
use crate::evaluate::Evaluated;
use crate::metrics::{
    Judged, RESAMPLES, accuracy, bootstrap, brier, calibration_error, macro_f1, mcnemar, mean, median,
    reliability, wilson,
};
use crate::outcome::{Answered, Outcome};

/// Bins of a reliability diagram.
const BINS: usize = 10;
/// Margins at which bins begin.
const MARGINS: [f64; 8] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0];

/// The figures of an evaluation.
pub fn summarize<S>(examples: &[Example], evaluated: &Evaluated<S>, noise: Option<NoiseFloor>) -> Evaluation {
    let all: Vec<&Outcome> = evaluated.outcomes.iter().collect();
    let mut order: Vec<&str> = Vec::new();
    let mut sets: BTreeMap<&str, Vec<&Outcome>> = BTreeMap::new();
    for outcome in &all {
        let set = examples[outcome.example].set.as_str();
        if !sets.contains_key(set) {
            order.push(set);
        }
        sets.entry(set).or_default().push(outcome);
    }
    let (margins, flips) = against(examples, &all);
    Evaluation {
        format_version: 1,
        candidate: evaluated.candidate.facts.clone(),
        reference: evaluated.reference.as_ref().map(|r| r.facts.clone()),
        total: set_report("all", examples, &all),
        sets: order.into_iter().map(|name| set_report(name, examples, &sets[name])).collect(),
        blocks: evaluated.blocks.clone(),
        drift_examples: evaluated.drift_examples,
        margins,
        flips,
        noise,
        skipped: evaluated.skipped.clone(),
    }
}

/// A question with both answers.
struct Pair<'a> {
    outcome: &'a Outcome,
    question: &'a Question,
    candidate: &'a Answered,
    reference: Option<&'a Answered>,
}

fn pairs<'a>(examples: &'a [Example], outcomes: &'a [&'a Outcome]) -> impl Iterator<Item = Pair<'a>> {
    outcomes.iter().flat_map(|outcome| {
        let questions = examples[outcome.example].questions.iter().zip(&outcome.candidate).enumerate();
        questions.map(|(i, (question, candidate))| Pair {
            outcome,
            question,
            candidate,
            reference: outcome.reference.as_ref().and_then(|r| r.get(i)),
        })
    })
}

fn set_report(name: &str, examples: &[Example], outcomes: &[&Outcome]) -> SetReport {
    let compared = outcomes.iter().any(|o| o.reference.is_some());
    let candidate = Known::of(examples, outcomes, |p| Some(p.candidate));
    let reference = Known::of(examples, outcomes, |p| p.reference);
    SetReport {
        name: name.to_owned(),
        examples: outcomes.len(),
        questions: pairs(examples, outcomes).count(),
        comparison: compared.then(|| comparison(examples, outcomes)),
        scores: candidate.as_ref().map(Known::scores),
        reference_scores: reference.as_ref().map(Known::scores),
        paired: candidate.as_ref().zip(reference.as_ref()).map(|(c, r)| paired(c, r)),
    }
}

fn comparison(examples: &[Example], outcomes: &[&Outcome]) -> Comparison {
    let (mut same, mut decisions, mut top, mut questions) = (0, 0, 0, 0);
    for pair in pairs(examples, outcomes) {
        let Some(reference) = pair.reference else { continue };
        for i in 0..reference.decisions(pair.question.rule) {
            decisions += 1;
            same += u64::from(pair.candidate.agrees(reference, pair.question.rule, i));
        }
        questions += 1;
        top += u64::from(pair.candidate.top() == reference.top());
    }
    let agreement = |agreeing, of| Agreement { agreeing, of, interval: wilson(agreeing, of) };
    let distances = |f: fn(&Outcome) -> Option<f64>| {
        difference(&outcomes.iter().filter_map(|o| f(o)).collect::<Vec<_>>())
    };
    Comparison {
        agreement: agreement(same, decisions),
        top1: agreement(top, questions),
        logit_l2: distances(|o| o.logit_l2),
        hidden_l2: distances(|o| o.hidden_l2),
    }
}

fn difference(values: &[f64]) -> Option<Difference> {
    let largest = values.iter().copied().fold(0.0, f64::max);
    Some(Difference { mean: mean(values)?, median: median(values)?, largest })
}

/// Agreement by margin, and the decisions that differ.
fn against(examples: &[Example], outcomes: &[&Outcome]) -> (Vec<MarginBin>, Vec<Flip>) {
    let bin = |pair: &[f64]| MarginBin { from: pair[0], to: pair[1], agreeing: 0, of: 0 };
    let mut bins: Vec<MarginBin> = MARGINS.windows(2).map(bin).collect();
    let mut flips = Vec::new();
    for pair in pairs(examples, outcomes) {
        let Some(reference) = pair.reference else { continue };
        let rule = pair.question.rule;
        let mut flipped: Option<f64> = None;
        for i in 0..reference.decisions(rule) {
            let margin = reference.margin(rule, i);
            let agrees = pair.candidate.agrees(reference, rule, i);
            let last = bins.len() - 1;
            let at = bins.iter().position(|b| margin < b.to).unwrap_or(last);
            bins[at].of += 1;
            bins[at].agreeing += u64::from(agrees);
            if !agrees {
                flipped = Some(flipped.map_or(margin, |m| m.max(margin)));
            }
        }
        if let Some(margin) = flipped {
            let example = &examples[pair.outcome.example];
            flips.push(Flip {
                id: example.id.clone(),
                set: example.set.clone(),
                question: pair.question.name.clone(),
                reference: names(pair.question, &reference.chosen),
                candidate: names(pair.question, &pair.candidate.chosen),
                margin,
            });
        }
    }
    bins.retain(|b| b.of > 0);
    flips.sort_by(|a, b| b.margin.total_cmp(&a.margin));
    (bins, flips)
}

/// A model's answers to the questions whose right answer is known, by example.
struct Known<'a> {
    /// Judged questions of each example that has some.
    examples: Vec<Vec<Judged>>,
    answers: Vec<(&'a Question, &'a Gold, &'a Answered)>,
}

impl<'a> Known<'a> {
    fn of(
        examples: &'a [Example],
        outcomes: &'a [&'a Outcome],
        side: impl Fn(&Pair<'a>) -> Option<&'a Answered>,
    ) -> Option<Self> {
        let mut classes: BTreeMap<&str, u32> = BTreeMap::new();
        let mut known = Self { examples: Vec::new(), answers: Vec::new() };
        for outcome in outcomes.chunks(1) {
            let mut judged = Vec::new();
            for pair in pairs(examples, outcome) {
                let (Some(gold), Some(answered)) = (&pair.question.gold, side(&pair)) else { continue };
                let mut numbers = |options: &[usize]| {
                    let mut numbers: Vec<u32> = options
                        .iter()
                        .map(|o| {
                            let next = classes.len() as u32;
                            *classes.entry(pair.question.options[*o].as_str()).or_insert(next)
                        })
                        .collect();
                    numbers.sort_unstable();
                    numbers
                };
                let gold_numbers = numbers(&gold.options());
                judged.push(Judged { gold: gold_numbers, chosen: numbers(&answered.chosen) });
                known.answers.push((pair.question, gold, answered));
            }
            if !judged.is_empty() {
                known.examples.push(judged);
            }
        }
        (!known.examples.is_empty()).then_some(known)
    }

    /// The judged questions of some examples.
    fn at<'b>(&'b self, places: &'b [usize]) -> impl Iterator<Item = &'b Judged> {
        places.iter().flat_map(|p| &self.examples[*p])
    }

    fn scores(&self) -> Scores {
        let everywhere: Vec<usize> = (0..self.examples.len()).collect();
        let with = |f: fn(&Self, &[usize]) -> f64| Interval {
            value: f(self, &everywhere),
            interval: bootstrap(everywhere.len(), RESAMPLES, |places| f(self, places)),
        };
        let judgements = self.answers.iter().flat_map(|(q, gold, a)| a.judgements(q.rule, gold));
        let bins = reliability(&judgements.collect::<Vec<_>>(), BINS);
        let briers: Vec<f64> =
            self.answers.iter().map(|(_, gold, a)| brier(&a.probabilities, |i| gold.holds(i))).collect();
        Scores {
            questions: self.answers.len(),
            accuracy: with(Self::accuracy),
            macro_f1: with(Self::macro_f1),
            calibration: Calibration {
                ece: calibration_error(&bins).unwrap_or(0.0),
                brier: mean(&briers).unwrap_or(0.0),
                bins,
            },
        }
    }

    fn accuracy(&self, places: &[usize]) -> f64 {
        accuracy(self.at(places)).unwrap_or(0.0)
    }

    fn macro_f1(&self, places: &[usize]) -> f64 {
        macro_f1(self.at(places)).unwrap_or(0.0)
    }
}

/// Both models on the same questions: `Known` lists them in the same order.
fn paired(candidate: &Known<'_>, reference: &Known<'_>) -> Paired {
    let everywhere: Vec<usize> = (0..candidate.examples.len().min(reference.examples.len())).collect();
    let with = |f: fn(&Known<'_>, &[usize]) -> f64| Interval {
        value: f(candidate, &everywhere) - f(reference, &everywhere),
        interval: bootstrap(everywhere.len(), RESAMPLES, |p| f(candidate, p) - f(reference, p)),
    };
    let (mut only_candidate, mut only_reference) = (0, 0);
    for (c, r) in candidate.at(&everywhere).zip(reference.at(&everywhere)) {
        let right = [c, r].map(|j| j.gold == j.chosen);
        only_candidate += u64::from(right == [true, false]);
        only_reference += u64::from(right == [false, true]);
    }
    Paired {
        accuracy: with(|known, places| known.accuracy(places)),
        macro_f1: with(|known, places| known.macro_f1(places)),
        only_candidate,
        only_reference,
        mcnemar_p: mcnemar(only_candidate, only_reference),
    }
}
