//! Products that stay as they were.

use dikast_core::Result;
use dikast_core::models::clef::Clef;

use super::stages::{self, Stage};
use super::{Rescue, Work};

impl Work<'_> {
    /// Leaves the products as they were whose codes cost the logits of the selection set most; their names.
    ///
    /// One after the other, each time that which brings the logits nearest, for a budget of bytes that which does so most
    /// for each of them. What it brings is measured beside all that are chosen already.
    pub(super) fn rescue(&mut self, reference: &Clef, said: &mut dyn FnMut(&str)) -> Result<Vec<String>> {
        let mut rescued = Vec::new();
        let Some(yardstick) = self.yardstick.clone().filter(|_| self.steps.rescue != Rescue::None) else {
            return Ok(rescued);
        };
        let stages = stages::stages(&reference.config().text);
        let numbers = |work: &Self, stage: &Stage| -> usize {
            stage.modules.iter().filter_map(|m| work.partial.coded.get(m)).map(|c| c.codes.len()).sum()
        };
        let all: usize = stages.iter().map(|s| numbers(self, s)).sum();
        let (mut products, mut budget) = match self.steps.rescue {
            Rescue::None => (0, 0),
            Rescue::Products(n) => (n, usize::MAX),
            Rescue::Percent(p) => (usize::MAX, all * usize::from(p) / 100),
        };
        let rescue = self.steps.rescue;
        let weigh = |gain: f64, size: usize| match rescue {
            Rescue::Percent(_) => gain / size.max(1) as f64,
            _ => gain,
        };
        let mut apart = yardstick.apart(self.model()?)?.logits;
        // What each brought when it was last measured; nothing is measured again that would have to bring more than ever.
        let mut candidates: Vec<(f64, Stage)> = Vec::new();
        for stage in stages.into_iter().filter(|s| numbers(self, s) > 0) {
            candidates.push((f64::INFINITY, stage));
        }
        while products > 0 {
            candidates.retain(|(_, stage)| numbers(self, stage) <= budget);
            let mut best: Option<(f64, f64, Self, usize)> = None;
            candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (place, (worth, stage)) in candidates.iter_mut().enumerate() {
                if best.as_ref().is_some_and(|(b, ..)| *worth <= *b) {
                    break;
                }
                let mut without = self.clone();
                without.uncode(stage);
                let found = yardstick.apart(without.model()?)?.logits;
                *worth = weigh(apart / found - 1.0, numbers(self, stage));
                // What does not help is no rescue.
                if *worth > 0.0 && best.as_ref().is_none_or(|(b, ..)| *worth > *b) {
                    best = Some((*worth, found, without, place));
                }
            }
            let Some((_, found, without, place)) = best else { break };
            let (_, stage) = candidates.remove(place);
            said(&format!("{} stays as it was: logits {found:.5} apart, {apart:.5} before", stage.name));
            budget -= numbers(self, &stage);
            products -= 1;
            apart = found;
            *self = without;
            rescued.push(stage.name);
        }
        Ok(rescued)
    }

    /// Makes the codes of a product numbers again.
    fn uncode(&mut self, stage: &Stage) {
        for module in &stage.modules {
            if self.partial.coded.remove(module).is_some()
                && let Some(weight) = self.weights.get(module).cloned()
            {
                self.leave(module, weight);
            }
        }
    }
}
