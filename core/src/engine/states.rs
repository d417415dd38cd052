//! The state cache: what a device keeps of the first rows of CLEF sequences, the instructions and the state, for later
//! questions on the same state. Content-addressed, within a budget; the least recently used goes first.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::{ClefSequence, Engine, Model, batch_len};
use crate::backend::{Backend, Batch, Prefix, Taps};
use crate::graph::Sizes;
use crate::models::clef::Clef;
use crate::tokens::Span;
use crate::tokens::clef::{QuestionSlots, Record};
use crate::{Error, Result};

/// Rows are kept in multiples of this: chunks of the delta rule, and tiles of the attention, stay what they are in the
/// whole sequence, and so do all sums.
pub(super) const UNIT: usize = 64;
/// Room for kept rows in a plan: powers of two from here on.
const FEWEST_ROWS: usize = 1024;

/// What the state cache holds and did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateCacheUse {
    /// States on the device.
    pub entries: usize,
    /// Bytes of device memory that they take.
    pub bytes: u64,
    /// Sequences whose state was there.
    pub hits: u64,
    /// States computed and kept.
    pub kept: u64,
    /// States that made room for others.
    pub evicted: u64,
}

/// States on the device, and the plans for them.
pub(super) struct States<B: Backend> {
    /// By the token ids of the kept rows: positions of text are their indices, and the model is the engine's.
    kept: HashMap<Vec<u32>, Kept<B::Snapshot>>,
    plans: HashMap<(Sizes, Prefix), B::Plan>,
    facts: StateCacheUse,
    clock: u64,
}

struct Kept<S> {
    snapshot: S,
    bytes: u64,
    /// When it was last asked for.
    used: u64,
}

impl<B: Backend> Default for States<B> {
    fn default() -> Self {
        Self { kept: HashMap::new(), plans: HashMap::new(), facts: StateCacheUse::default(), clock: 0 }
    }
}

impl<B: Backend> std::fmt::Debug for States<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("States").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl<B: Backend> States<B> {
    /// Forgets all states: before the device goes. What was counted stays.
    pub(super) fn clear(&mut self) {
        self.kept.clear();
        self.plans.clear();
        self.facts.bytes = 0;
    }

    /// Whether the state of these ids is there; it counts as used now.
    fn touch(&mut self, ids: &[u32]) -> bool {
        self.clock += 1;
        let Some(kept) = self.kept.get_mut(ids) else { return false };
        kept.used = self.clock;
        true
    }

    /// Makes room for `bytes` within `budget`, but never of states in `needed`; whether that was possible.
    fn make_room(&mut self, bytes: u64, budget: u64, needed: &[Option<&[u32]>]) -> bool {
        let is_needed = |ids: &[u32]| needed.contains(&Some(ids));
        let pinned: u64 = self.kept.iter().filter(|(ids, _)| is_needed(ids)).map(|(_, k)| k.bytes).sum();
        if pinned.saturating_add(bytes) > budget {
            return false;
        }
        while self.facts.bytes.saturating_add(bytes) > budget {
            let others = self.kept.iter().filter(|(ids, _)| !is_needed(ids));
            let Some(oldest) = others.min_by_key(|(_, k)| k.used).map(|(ids, _)| ids.clone()) else {
                return false;
            };
            self.facts.bytes -= self.kept.remove(&oldest).map_or(0, |k| k.bytes);
            self.facts.evicted += 1;
        }
        true
    }

    fn insert(&mut self, ids: &[u32], snapshot: B::Snapshot, bytes: u64) {
        self.kept.insert(ids.to_vec(), Kept { snapshot, bytes, used: self.clock });
        self.facts.bytes += bytes;
        self.facts.kept += 1;
    }

    /// The plan of a batch, made at its first use.
    fn plan<'a>(
        plans: &'a mut HashMap<(Sizes, Prefix), B::Plan>,
        backend: &B,
        model: &Clef,
        resident: &B::Resident,
        batch: &Batch,
        prefix: Prefix,
    ) -> Result<&'a mut B::Plan> {
        let bucket = backend.bucket(&batch.sizes);
        match plans.entry((bucket, prefix)) {
            Entry::Occupied(made) => Ok(made.into_mut()),
            Entry::Vacant(place) => {
                Ok(place.insert(backend.plan_prefix(model.graph(), resident, &bucket, prefix)?))
            }
        }
    }
}

impl<B: Backend, M: Model> Engine<B, M> {
    /// What the state cache holds and did so far; nothing with models that have no states.
    pub fn state_cache(&self) -> StateCacheUse {
        StateCacheUse { entries: self.states.kept.len(), ..self.states.facts }
    }
}

impl<B: Backend> Engine<B, Clef> {
    /// [`Engine::logits`] with the state cache, where [`super::EngineOptions::state_cache`] gives it room and the backend
    /// has one: the same bits, and only the questions are computed where the state is known.
    ///
    /// # Errors
    /// As [`Backend::run`].
    pub async fn logits_of_states(&mut self, sequences: &[&ClefSequence]) -> Result<Vec<Vec<f32>>> {
        if self.options.state_cache == 0 {
            return self.logits(sequences).await;
        }
        let mut logits = Vec::with_capacity(sequences.len());
        let mut rest = sequences;
        while !rest.is_empty() {
            let (batch, tail) = rest.split_at(batch_len::<Clef>(rest, self.options.batch_tokens));
            logits.extend(self.run_after_states(batch).await?);
            rest = tail;
        }
        Ok(logits)
    }

    /// One batch: states that are not there are computed first, one by one.
    async fn run_after_states(&mut self, sequences: &[&ClefSequence]) -> Result<Vec<Vec<f32>>> {
        let mut known: Vec<Option<&[u32]>> = Vec::with_capacity(sequences.len());
        for sequence in sequences {
            let ids = match prefix(sequence) {
                Some(ids) if self.have(ids, &known).await? => Some(ids),
                _ => None,
            };
            known.push(ids);
        }
        let rows: usize = known.iter().flatten().map(|ids| ids.len()).sum();
        if rows == 0 {
            return self.run(sequences, &mut Taps::none()).await;
        }
        let rest: Vec<ClefSequence> =
            sequences.iter().zip(&known).map(|(s, ids)| after(s, ids.map_or(0, <[u32]>::len))).collect();
        let batch = self.model.pack(&rest.iter().collect::<Vec<_>>())?;
        let prefix = Prefix::After { rows: rows.next_power_of_two().max(FEWEST_ROWS) };
        let States { kept, plans, .. } = &mut self.states;
        let plan = States::<B>::plan(plans, &self.backend, &self.model, &self.resident, &batch, prefix)?;
        let snapshots: Vec<Option<&B::Snapshot>> =
            known.iter().map(|ids| ids.and_then(|ids| kept.get(ids)).map(|k| &k.snapshot)).collect();
        let flat = self.backend.run_after(plan, &self.resident, &batch, &snapshots).await?;
        if flat.len() != batch.sizes.labels {
            return Err(Error::Internal(format!("{} logits for {} labels", flat.len(), batch.sizes.labels)));
        }
        let mut left = flat.as_slice();
        Ok(rest
            .iter()
            .map(|s| {
                let (own, tail) = left.split_at(Clef::outputs(s));
                left = tail;
                own.to_vec()
            })
            .collect())
    }

    /// Whether the state of these ids is on the device, computed now if it was not. Not if there is no room for it: the
    /// states in `needed` stay.
    async fn have(&mut self, ids: &[u32], needed: &[Option<&[u32]>]) -> Result<bool> {
        if self.states.touch(ids) {
            self.states.facts.hits += 1;
            return Ok(true);
        }
        let Some(bytes) = self.backend.snapshot_bytes(self.model.graph(), ids.len()) else {
            return Ok(false);
        };
        if !self.states.make_room(bytes, self.options.state_cache, needed) {
            return Ok(false);
        }
        let positions = (0..ids.len() as i32).map(|i| [i; 3]).collect();
        let record = Record { ids: ids.to_vec(), positions, ..Record::default() };
        let batch = self.model.pack(&[&ClefSequence { record, media: Vec::new() }])?;
        let plans = &mut self.states.plans;
        let plan =
            States::<B>::plan(plans, &self.backend, &self.model, &self.resident, &batch, Prefix::Keep)?;
        match self.backend.keep(plan, &self.resident, &batch).await {
            Ok(snapshot) => {
                self.states.insert(ids, snapshot, bytes);
                Ok(true)
            }
            // Others took the memory: the answer needs none of it.
            Err(Error::OutOfMemory { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Ids of the rows that may be kept: whole units of instructions and state; none with media, whose rows their ids do not
/// tell.
fn prefix(sequence: &ClefSequence) -> Option<&[u32]> {
    let record = &sequence.record;
    let rows = record.state.end as usize / UNIT * UNIT;
    let text = sequence.media.is_empty() && record.media_rows.is_empty();
    record.ids.get(..rows).filter(|ids| text && !ids.is_empty())
}

/// A sequence without its first rows.
fn after(sequence: &ClefSequence, rows: usize) -> ClefSequence {
    let ClefSequence { record, media } = sequence;
    if rows == 0 {
        return sequence.clone();
    }
    let by = rows as u32;
    let moved = |span: Span| Span { start: span.start.saturating_sub(by), end: span.end.saturating_sub(by) };
    let question = |q: &QuestionSlots| QuestionSlots {
        kind: q.kind,
        span: moved(q.span),
        options: q.options.iter().copied().map(moved).collect(),
        option_ids: q.option_ids.clone(),
    };
    ClefSequence {
        record: Record {
            ids: record.ids[rows..].to_vec(),
            positions: record.positions[rows..].to_vec(),
            media: moved(record.media),
            media_rows: Vec::new(),
            media_spans: Vec::new(),
            state: moved(record.state),
            questions: record.questions.iter().map(question).collect(),
            dropped_state_tokens: record.dropped_state_tokens,
        },
        media: media.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::CpuBackend;
    use crate::request::QuestionKind;

    /// A record of `state` rows of instructions and state and 20 more.
    fn sequence(state: u32) -> ClefSequence {
        let rows = state + 20;
        let span = |start| Span { start: state + start, end: state + start + 2 };
        let question = QuestionSlots {
            kind: QuestionKind::Choice,
            span: span(3),
            options: vec![span(8), span(12)],
            option_ids: vec!["a".to_owned(), "b".to_owned()],
        };
        let record = Record {
            ids: (0..rows).collect(),
            positions: (0..rows as i32).map(|i| [i; 3]).collect(),
            state: Span { start: 10, end: state },
            questions: vec![question],
            ..Record::default()
        };
        ClefSequence { record, media: Vec::new() }
    }

    #[test]
    fn whole_units_of_text_are_kept() {
        let rows = |state| prefix(&sequence(state)).map(<[u32]>::len);
        assert_eq!([63, 64, 127, 128, 200].map(rows), [None, Some(64), Some(64), Some(128), Some(192)]);
        let mut with_media = sequence(200);
        with_media.record.media_rows.push(20);
        assert_eq!(prefix(&with_media), None);
    }

    #[test]
    fn what_comes_after_keeps_its_positions_and_moves_its_spans() {
        let whole = sequence(130);
        let rest = after(&whole, 128).record;
        assert_eq!((rest.ids.len(), rest.ids[0], rest.positions[0]), (22, 128, [128; 3]));
        assert_eq!(rest.questions[0].span, Span { start: 5, end: 7 });
        assert_eq!(rest.questions[0].options, [Span { start: 10, end: 12 }, Span { start: 14, end: 16 }]);
        assert_eq!(after(&whole, 0), whole);
    }

    #[test]
    fn the_least_recently_used_makes_room_unless_it_is_needed() {
        let mut states = States::<CpuBackend>::default();
        let ids: Vec<Vec<u32>> = (0..4).map(|i| vec![i]).collect();
        for ids in &ids[..3] {
            assert!(!states.touch(ids) && states.make_room(10, 30, &[]));
            states.insert(ids, (), 10);
        }
        assert!(states.touch(&ids[0]));
        assert!(states.make_room(10, 30, &[Some(&ids[1])]));
        assert!(states.touch(&ids[0]) && states.touch(&ids[1]) && !states.touch(&ids[2]));
        // Both that are left are needed: nothing goes.
        assert!(!states.make_room(20, 30, &[Some(&ids[0]), Some(&ids[1])]));
        assert!(!states.make_room(31, 30, &[]));
        assert_eq!((states.facts.bytes, states.facts.evicted, states.kept.len()), (20, 1, 2));
        // The device is lost: nothing is there, and what happened happened.
        states.clear();
        assert_eq!((states.facts.bytes, states.facts.evicted, states.kept.len()), (0, 1, 0));
        assert!(!states.touch(&ids[0]) && states.make_room(30, 30, &[]));
    }
}
