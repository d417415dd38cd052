//! What a model answered.

use dikast_core::{Error, Result};

use crate::data::{Gold, Question, Rule};
use crate::metrics::Judgement;

/// The answer to one question.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// Logits of the options in request order.
    pub logits: Vec<f32>,
    /// Their probabilities: softmax, or sigmoid of each.
    pub probabilities: Vec<f64>,
    /// The options chosen, in rising order: one where they compete, any number where they do not.
    pub chosen: Vec<usize>,
}

/// One example, answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Its place among the examples.
    pub example: usize,
    /// Tokens read.
    pub tokens: usize,
    /// The candidate's answers, one a question.
    pub candidate: Vec<Answered>,
    /// The reference's.
    pub reference: Option<Vec<Answered>>,
    /// Relative distance of all logits of the example.
    pub logit_l2: Option<f64>,
    /// Relative distance of the final hidden states of the rows that the head reads of questions and options.
    pub hidden_l2: Option<f64>,
}

impl Answered {
    /// The decision that logits stand for.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the question for a logit that is not finite.
    pub fn new(question: &Question, logits: Vec<f32>) -> Result<Self> {
        if let Some(bad) = logits.iter().find(|l| !l.is_finite()) {
            let message = format!("a logit is {bad}; the model's values overflow on this input");
            return Err(Error::checkpoint(format!("question {:?}", question.name), message));
        }
        let (probabilities, chosen) = match question.rule {
            Rule::Best => {
                let probabilities = softmax(&logits);
                let best = first_largest(&logits);
                (probabilities, best.into_iter().collect())
            }
            Rule::Threshold(threshold) => {
                let probabilities: Vec<f64> = logits.iter().map(|l| sigmoid(f64::from(*l))).collect();
                // As the engine decides: on the probability in f32.
                let chosen = (0..probabilities.len()).filter(|&i| probabilities[i] as f32 >= threshold);
                let chosen = chosen.collect();
                (probabilities, chosen)
            }
        };
        Ok(Self { logits, probabilities, chosen })
    }

    /// Decisions in it: one where options compete, one for each option where they do not.
    pub fn decisions(&self, rule: Rule) -> usize {
        if rule == Rule::Best { 1 } else { self.logits.len() }
    }

    /// Whether decision `i` is the same in both.
    pub fn agrees(&self, other: &Self, rule: Rule, i: usize) -> bool {
        match rule {
            Rule::Best => self.chosen == other.chosen,
            Rule::Threshold(_) => self.chosen.contains(&i) == other.chosen.contains(&i),
        }
    }

    /// How far decision `i` was from being another: the lead over the second option, or the distance from the threshold.
    pub fn margin(&self, rule: Rule, i: usize) -> f64 {
        match rule {
            Rule::Threshold(threshold) => (self.probabilities[i] - f64::from(threshold)).abs(),
            Rule::Best => {
                let mut sorted = self.probabilities.clone();
                sorted.sort_by(|a, b| b.total_cmp(a));
                sorted.first().copied().unwrap_or(0.0) - sorted.get(1).copied().unwrap_or(0.0)
            }
        }
    }

    /// The option with the largest logit, the first of equals.
    pub fn top(&self) -> Option<usize> {
        first_largest(&self.logits)
    }

    /// Confidence and truth of every decision.
    pub fn judgements(&self, rule: Rule, gold: &Gold) -> Vec<Judgement> {
        match rule {
            Rule::Best => {
                let chosen = self.chosen.first().copied();
                let confidence = chosen.map_or(0.0, |c| self.probabilities[c]);
                vec![Judgement { confidence, right: chosen.is_some_and(|c| gold.holds(c)) }]
            }
            Rule::Threshold(_) => (0..self.probabilities.len())
                .map(|i| {
                    let (p, chosen) = (self.probabilities[i], self.chosen.contains(&i));
                    let confidence = if chosen { p } else { 1.0 - p };
                    Judgement { confidence, right: chosen == gold.holds(i) }
                })
                .collect(),
        }
    }
}

impl Gold {
    /// Whether an option is right.
    pub fn holds(&self, option: usize) -> bool {
        match self {
            Self::One(right) => *right == option,
            Self::Many(right) => right.contains(&option),
        }
    }

    /// The right options in rising order.
    pub fn options(&self) -> Vec<usize> {
        match self {
            Self::One(right) => vec![*right],
            Self::Many(right) => right.iter().copied().collect(),
        }
    }
}

fn first_largest(logits: &[f32]) -> Option<usize> {
    (0..logits.len()).reduce(|best, i| if logits[i] > logits[best] { i } else { best })
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// In f64, the same on every platform.
fn softmax(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let e: Vec<f64> = logits.iter().map(|l| libm::exp(f64::from(*l) - f64::from(largest))).collect();
    let sum: f64 = e.iter().sum();
    e.into_iter().map(|e| e / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(rule: Rule, options: usize) -> Question {
        let options = (0..options).map(|i| i.to_string()).collect();
        Question { name: "q".to_owned(), options, rule, gold: None }
    }

    #[test]
    fn competing_options_give_one_decision() -> Result<()> {
        let answered = Answered::new(&question(Rule::Best, 3), vec![0.0, 2.0, 2.0])?;
        assert_eq!(
            (answered.chosen.clone(), answered.top(), answered.decisions(Rule::Best)),
            (vec![1], Some(1), 1)
        );
        assert!((answered.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(answered.margin(Rule::Best, 0), 0.0, "two are equal");
        let judged = answered.judgements(Rule::Best, &Gold::One(2));
        assert!(judged.len() == 1 && !judged[0].right && judged[0].confidence < 0.5);
        Ok(())
    }

    #[test]
    fn labels_on_their_own_give_a_decision_each() -> Result<()> {
        let rule = Rule::Threshold(0.5);
        let answered = Answered::new(&question(rule, 3), vec![0.0, -3.0, 3.0])?;
        assert_eq!(
            (answered.chosen.clone(), answered.decisions(rule)),
            (vec![0, 2], 3),
            "the threshold itself counts"
        );
        let other = Answered::new(&question(rule, 3), vec![-0.1, -3.0, 3.0])?;
        let same: Vec<bool> = (0..3).map(|i| answered.agrees(&other, rule, i)).collect();
        assert_eq!(same, [false, true, true]);
        assert_eq!(answered.margin(rule, 0), 0.0);
        let right: Vec<bool> =
            answered.judgements(rule, &Gold::Many([2].into())).iter().map(|j| j.right).collect();
        assert_eq!(right, [false, true, true]);
        Ok(())
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let failed = Answered::new(&question(Rule::Best, 2), vec![1.0, f32::NAN]);
        assert!(matches!(failed, Err(Error::Checkpoint { .. })), "{failed:?}");
    }
}
