//! Accuracy and macro-F1.

use std::collections::BTreeMap;

/// What was chosen and what is right, as class numbers in rising order. Options of the same name are one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// The right classes.
    pub gold: Vec<u32>,
    /// The chosen classes.
    pub chosen: Vec<u32>,
}

/// The share of questions whose chosen classes are exactly the right ones; `None` of nothing.
pub fn accuracy<'a>(judged: impl IntoIterator<Item = &'a Judged>) -> Option<f64> {
    let (mut hits, mut all) = (0_u64, 0_u64);
    for j in judged {
        hits += u64::from(j.gold == j.chosen);
        all += 1;
    }
    (all > 0).then(|| hits as f64 / all as f64)
}

/// The mean of the classes' F1 over all classes that are right or chosen somewhere; a class that is never both has 0.
/// `None` of nothing.
pub fn macro_f1<'a>(judged: impl IntoIterator<Item = &'a Judged>) -> Option<f64> {
    // Right and chosen, chosen, right.
    let mut classes: BTreeMap<u32, [u64; 3]> = BTreeMap::new();
    for j in judged {
        for class in &j.chosen {
            let counts = classes.entry(*class).or_default();
            counts[1] += 1;
            counts[0] += u64::from(j.gold.contains(class));
        }
        for class in &j.gold {
            classes.entry(*class).or_default()[2] += 1;
        }
    }
    let count = classes.len();
    let sum: f64 =
        classes.into_values().map(|[both, chosen, gold]| 2.0 * both as f64 / (chosen + gold) as f64).sum();
    (count > 0).then(|| sum / count as f64)
}
