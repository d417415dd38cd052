//! What a step costs at least, whoever executes it: the arithmetic of its products and the bytes it must touch.
//! Divided by what a device reaches, the larger of both bounds the step's time from below (the roofline).

use super::{Graph, LstmDirection, Sizes, Step, TensorId, Weight};

/// The least work of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cost {
    /// Floating-point operations of products: see [`Graph::flops`].
    pub flops: u64,
    /// Bytes read and written: see [`Graph::bytes`].
    pub bytes: u64,
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.flops = self.flops.saturating_add(other.flops);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl Graph {
    /// Both parts of a step's cost.
    pub fn cost(&self, step: &Step, sizes: &Sizes, stored: impl Fn(&Weight) -> u64) -> Cost {
        Cost { flops: self.flops(step, sizes), bytes: self.bytes(step, sizes, stored) }
    }

    /// Floating-point operations of a step: a multiplication and an addition count as two, and only sums of products
    /// count. Elementwise work (norms, activations, softmax, quantizers) is bound by bytes and counts as nothing.
    ///
    /// | step | operations |
    /// | --- | --- |
    /// | `Linear`, `QuantLinear` | 2 · rows · N · K |
    /// | `LinearGated`, `QuantLinearGated` | 2 · rows · 2N · K |
    /// | `Attention` | 4 · pairs · heads · head_dim, for q·kᵀ and p·v |
    /// | `BiLstm` | 2 · 2 · rows · 4h · (in + h) |
    /// | `Dot` | 2 · labels · D |
    /// | `HopfieldMix` | 4 · labels · D |
    /// | `Int8Linear`, `Int8LinearGated` | as their FP8 counterparts |
    /// | `CausalConv` | 2 · rows · C · taps |
    /// | `GatedDelta` | 7 · rows · value heads · d_k · d_v, those of the recurrence |
    /// | `CausalAttention` | 4 · pairs · heads · head_dim, half of all pairs |
    /// | `SoftmaxPool` | 4 · rows · D |
    /// | `JointScore` | 2 · labels · (H + W) |
    ///
    /// Pairs are those of a query and a key of the same sequence, all sequences taken as equally long: exact for such
    /// a batch, fewer than there are in a mixed one.
    pub fn flops(&self, step: &Step, sizes: &Sizes) -> u64 {
        let rows = |id: TensorId| self.rows(id, sizes);
        match *step {
            Step::Linear { x, weight, .. } | Step::LinearGated { x, weight, .. } => {
                product([2, rows(x), elements(self.weight(weight))])
            }
            Step::QuantLinear { codes, weight, .. } | Step::QuantLinearGated { codes, weight, .. } => {
                product([2, rows(codes), elements(self.weight(weight))])
            }
            Step::Attention { q, k, heads, head_dim, .. } => {
                let pairs = product([rows(q.tensor), rows(k.tensor)]) / (sizes.sequences.max(1) as u64);
                product([4, pairs, heads as u64, head_dim as u64])
            }
            Step::BiLstm { x, forward, backward, .. } => {
                let matrices = |d: LstmDirection| {
                    elements(self.weight(d.input)).saturating_add(elements(self.weight(d.hidden)))
                };
                product([2, rows(x), matrices(forward).saturating_add(matrices(backward))])
            }
            Step::Dot { classes, .. } => product([2, self.len(classes, sizes) as u64]),
            Step::HopfieldMix { classes, .. } => product([4, self.len(classes, sizes) as u64]),
            Step::Embed { .. }
            | Step::RmsNorm { .. }
            | Step::RmsNormQuantize { .. }
            | Step::Quantize { .. }
            | Step::LayerNorm { .. }
            | Step::SelectRows { .. }
            | Step::PoolSpans { .. }
            | Step::PoolText { .. }
            | Step::L2Normalize { .. }
            | Step::Concat { .. }
            | Step::PairProduct { .. }
            | Step::Scale { .. }
            | Step::Rows { .. }
            | Step::RotateQuantize { .. }
            | Step::HeadRotary { .. }
            | Step::AddPositions { .. }
            | Step::MergeRows { .. }
            | Step::ReplaceRows { .. }
            | Step::PoolTableRows { .. }
            | Step::Sum { .. }
            | Step::PairFeatures { .. } => 0,
            Step::Int8Linear { codes, weight, .. } | Step::Int8LinearGated { codes, weight, .. } => {
                product([2, rows(codes), elements(self.weight(weight))])
            }
            Step::CausalConv { out, weight, .. } => product([2, rows(out), elements(self.weight(weight))]),
            Step::GatedDelta { x, value_heads, key_dim, value_dim, .. } => {
                product([7, rows(x), value_heads as u64, key_dim as u64, value_dim as u64])
            }
            Step::CausalAttention { q, heads, head_dim, .. } => {
                let pairs = product([rows(q.tensor), rows(q.tensor)]) / (2 * sizes.sequences.max(1) as u64);
                product([4, pairs, heads as u64, head_dim as u64])
            }
            Step::SoftmaxPool { x, .. } => product([4, self.len(x, sizes) as u64]),
            Step::JointScore { lexical, option, .. } => {
                product([2, (self.len(lexical, sizes) + self.len(option, sizes)) as u64])
            }
        }
    }

    /// Bytes that a step must read and write when nothing is left in a cache: every operand once, every result once,
    /// activations at the size of [`super::DType::bytes`], weights as `stored` says of the whole weight. Of an
    /// embedding table only the rows of the batch count, of a matrix whose rows a step picks by number only those
    /// rows, of a fused projection only the columns that are read.
    pub fn bytes(&self, step: &Step, sizes: &Sizes, stored: impl Fn(&Weight) -> u64) -> u64 {
        let tensor = |id: TensorId| self.tensor_bytes(id, sizes);
        let outputs = step.outputs().into_iter().map(tensor).fold(0, u64::saturating_add);
        let weights = step.weights().into_iter().map(|id| self.weight(id));
        let (read, weights): (u64, u64) = match *step {
            Step::Embed { ids, .. } => {
                let row = |w: &Weight| stored(w) / w.shape.first().map_or(1, |&n| n.max(1) as u64);
                let picked = weights.map(|w| product([self.rows(ids, sizes), row(w)]));
                (sum(step.reads().into_iter().map(tensor)), sum(picked))
            }
            Step::PoolTableRows { ids, table, .. } => {
                let w = self.weight(table);
                let row = stored(w) / w.shape.first().map_or(1, |&n| n.max(1) as u64);
                (sum(step.reads().into_iter().map(tensor)), product([self.rows(ids, sizes), row]))
            }
            Step::SelectRows { rows, out, .. } => (tensor(rows).saturating_add(tensor(out)), 0),
            Step::PoolSpans { spans, out, .. } => (tensor(spans).saturating_add(tensor(out)), 0),
            Step::Concat { left_rows, out, .. } => {
                (left_rows.map_or(0, tensor).saturating_add(tensor(out)), 0)
            }
            Step::Attention { q, k, v, q_offsets, kv_offsets, kv_lengths, .. } => {
                let columns = [q, k, v].map(|c| {
                    let whole = tensor(c.tensor);
                    let width = self.width(c.tensor, sizes).max(1);
                    product([whole / width, c.width as u64])
                });
                let rest = [Some(q_offsets), Some(kv_offsets), kv_lengths].into_iter().flatten().map(tensor);
                (sum(columns.into_iter().chain(rest)), sum(weights.map(stored)))
            }
            _ => (sum(step.reads().into_iter().map(tensor)), sum(weights.map(stored))),
        };
        read.saturating_add(weights).saturating_add(outputs)
    }

    fn rows(&self, id: TensorId, sizes: &Sizes) -> u64 {
        self.tensor(id).shape.first().map_or(1, |d| d.bind(sizes)) as u64
    }

    /// Columns of a matrix, 1 for a vector.
    fn width(&self, id: TensorId, sizes: &Sizes) -> u64 {
        self.tensor(id).shape.iter().skip(1).map(|d| d.bind(sizes) as u64).fold(1, u64::saturating_mul)
    }

    fn tensor_bytes(&self, id: TensorId, sizes: &Sizes) -> u64 {
        product([self.len(id, sizes) as u64, self.tensor(id).dtype.bytes() as u64])
    }
}

fn elements(weight: &Weight) -> u64 {
    weight.shape.iter().map(|&n| n as u64).fold(1, u64::saturating_mul)
}

fn product<const N: usize>(factors: [u64; N]) -> u64 {
    factors.into_iter().fold(1, u64::saturating_mul)
}

fn sum(terms: impl IntoIterator<Item = u64>) -> u64 {
    terms.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Columns, GraphBuilder, InputKind};

    fn sizes() -> Sizes {
        Sizes { tokens: 12, sequences: 3, labels: 6, ..Sizes::default() }
    }

    /// Two bytes an element, as BF16.
    fn stored(weight: &Weight) -> u64 {
        2 * elements(weight)
    }

    fn graph() -> Graph {
        let mut b = GraphBuilder::new("test");
        let ids = b.input(InputKind::TokenIds);
        let offsets = b.input(InputKind::SequenceOffsets);
        let spans = b.input(InputKind::ClassSpans);
        let table = b.weight("table", &[100, 8]);
        let x = b.embed("x", ids, table, None);
        let qkv = b.weight("qkv", &[24, 8]);
        let qkv = b.linear("qkv", x, qkv, None, None, None);
        let part = |start| Columns { tensor: qkv, start, width: 8 };
        let y = b.attention("y", (part(0), part(8), part(16)), (offsets, offsets), None, (2, 4), 1.0, None);
        let classes = b.pool_spans("classes", y, spans);
        let score = b.weight("score", &[1, 8]);
        let logits = b.linear("logits", classes, score, None, None, None);
        b.finish(logits).expect("a sound graph")
    }

    fn cost(name: &str) -> Cost {
        let graph = graph();
        let step = graph.steps().iter().find(|s| s.name() == name).expect("the step");
        graph.cost(step, &sizes(), stored)
    }

    #[test]
    fn products_count_twice_their_size() {
        assert_eq!(cost("Linear").flops, 2 * 12 * 24 * 8);
        assert_eq!(cost("Linear").bytes, 4 * 12 * 8 + 2 * 24 * 8 + 4 * 12 * 24);
    }

    #[test]
    fn attention_counts_pairs_within_a_sequence() {
        // Three sequences of four: 3 · 16 pairs.
        assert_eq!(cost("Attention").flops, 4 * 48 * 8);
        assert_eq!(cost("Attention").bytes, 4 * (3 * 12 * 8 + 2 * 4 + 12 * 8));
    }

    #[test]
    fn tables_count_by_the_rows_that_are_read() {
        assert_eq!(cost("Embed"), Cost { flops: 0, bytes: 4 * 12 + 2 * 12 * 8 + 4 * 12 * 8 });
        assert_eq!(cost("PoolSpans"), Cost { flops: 0, bytes: 4 * 6 * 2 + 2 * (4 * 6 * 8) });
    }

    #[test]
    fn sizes_beyond_all_bounds_saturate() {
        let huge = Sizes { tokens: usize::MAX / 64, sequences: 1, ..sizes() };
        let graph = graph();
        let flops = graph.steps().iter().map(|s| graph.flops(s, &huge)).max();
        assert_eq!(flops, Some(u64::MAX));
        let most = usize::MAX;
        for tokens in [usize::MAX / 64, most] {
            let huge = Sizes { tokens, sequences: most, labels: most, text_tokens: most, ..Sizes::default() };
            assert!(graph.activation_bytes(&huge) > u64::MAX / 2);
            assert_eq!(graph.arena(|_| u64::MAX, 256, true).bytes, u64::MAX);
            let bytes = graph.steps().iter().map(|s| graph.bytes(s, &huge, stored)).max();
            assert_eq!(bytes, Some(u64::MAX));
        }
    }
}
