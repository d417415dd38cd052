//! Liveness: where each activation lies in one block of memory.

use super::{Graph, Sizes, TensorId};

/// Offsets of all activations in one arena; tensors whose lives do not overlap share bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArenaLayout {
    /// Byte offset of each tensor, by tensor index; `None` for tensors no step touches.
    pub offsets: Vec<Option<u64>>,
    /// Bytes of the whole arena.
    pub bytes: u64,
}

impl Graph {
    /// Index of the last step that reads (or, if nothing reads it, writes) each tensor.
    pub fn last_uses(&self) -> Vec<Option<usize>> {
        let mut last = vec![None; self.tensors.len()];
        for (index, step) in self.steps.iter().enumerate() {
            for id in step.reads().into_iter().chain(step.outputs()) {
                last[id.index()] = Some(index);
            }
        }
        last[self.output.index()] = Some(self.steps.len());
        last
    }

    /// Places every tensor (inputs too) for the given sizes, first fit in order of first write.
    ///
    /// `bytes_of` is the backend's size of a tensor; offsets are multiples of `align`. With `keep_all`, nothing is
    /// shared, so that every tensor can be tapped after the run. Sizes beyond all memory saturate, and so do the bytes
    /// of the whole arena.
    pub fn arena(&self, bytes_of: impl Fn(TensorId) -> u64, align: u64, keep_all: bool) -> ArenaLayout {
        self.arena_shared(bytes_of, align, keep_all, |id| id, |step| step)
    }

    /// [`Self::arena`] where tensors may be the same bytes: each lies where its `place_of` lies, which is as large as
    /// the largest of them and lives until the last of them. A place is its own place, and written before the others.
    ///
    /// Steps may run at the same time: `until` gives the last of the steps that run with a step, which follow one another, and
    /// what one of them reads or writes lives until then.
    pub fn arena_shared(
        &self,
        bytes_of: impl Fn(TensorId) -> u64,
        align: u64,
        keep_all: bool,
        place_of: impl Fn(TensorId) -> TensorId,
        until: impl Fn(usize) -> usize,
    ) -> ArenaLayout {
        let mut uses = self.last_uses();
        for step in uses.iter_mut().flatten().filter(|step| **step < self.steps.len()) {
            *step = until(*step);
        }
        let mut last = uses.clone();
        let mut bytes = vec![0_u64; self.tensors.len()];
        for (index, used) in uses.iter().enumerate() {
            let (id, place) = (TensorId::new(index), place_of(TensorId::new(index)).index());
            last[place] = last[place].max(*used);
            bytes[place] = bytes[place].max(bytes_of(id));
        }
        let mut offsets = vec![None; self.tensors.len()];
        // (offset, end, last step) of what is alive, sorted by offset.
        let mut live: Vec<(u64, u64, usize)> = Vec::new();
        let mut total = 0;
        let mut place = |id: TensorId, now: usize, live: &mut Vec<(u64, u64, usize)>| {
            if place_of(id) != id {
                offsets[id.index()] = offsets[place_of(id).index()];
                return;
            }
            let Some(until) = last[id.index()] else { return };
            live.retain(|&(_, _, end)| keep_all || end >= now);
            let need = bytes[id.index()].max(1).checked_next_multiple_of(align).unwrap_or(u64::MAX);
            let mut at = 0_u64;
            let mut slot = live.len();
            for (i, &(start, end, _)) in live.iter().enumerate() {
                if at.saturating_add(need) <= start {
                    slot = i;
                    break;
                }
                at = end;
            }
            let end = at.saturating_add(need);
            live.insert(slot, (at, end, until));
            offsets[id.index()] = Some(at);
            total = total.max(end);
        };
        for input in &self.inputs {
            place(input.tensor, 0, &mut live);
        }
        for (now, step) in self.steps.iter().enumerate() {
            for id in step.outputs() {
                place(id, now, &mut live);
            }
        }
        ArenaLayout { offsets, bytes: total }
    }

    /// Bytes of all activations and inputs at once alive, at most, in the reference's element sizes.
    pub fn activation_bytes(&self, sizes: &Sizes) -> u64 {
        let bytes = |id| (self.len(id, sizes) as u64).saturating_mul(self.tensor(id).dtype.bytes() as u64);
        self.arena(bytes, 64, false).bytes
    }
}
