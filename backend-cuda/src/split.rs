//! Split rows: which activations Hopper keeps as two bfloat16 planes, and which steps run as one launch there.
//!
//! Products with float32 rows split them into heads and tails. Where rows are made for such products alone, whoever makes them
//! splits them, once: the products then find operands as they are (`kernels/sm90_split_linear.cu`).

use dikast_core::graph::{Graph, Sizes, Step, TensorId};

/// Columns of a k-block of bfloat16: split rows have whole ones.
pub(crate) const COLUMNS: usize = 64;
/// Products of one launch, as in the kernel.
pub(crate) const MOST_PRODUCTS: usize = 4;
/// Buckets beyond this run one step after the other: a step fills the chip, and its operands are large.
const MOST_TOKENS_TOGETHER: usize = 1024;

/// Whether each tensor may be split rows, by index: made and read by steps that know them.
///
/// None where there is causal attention: the head of such a model is small beside its layers.
pub(crate) fn rows(graph: &Graph) -> Vec<bool> {
    let mut split = vec![false; graph.tensors().len()];
    if graph.steps().iter().any(|s| matches!(s, Step::CausalAttention { .. })) {
        return split;
    }
    for step in graph.steps() {
        let Some(out) = made(step, &split) else { continue };
        let width: usize =
            graph.tensor(out).shape.iter().skip(1).map(|d| d.bind(&Sizes::default())).product();
        let mut readers = graph.steps().iter().filter(|s| s.reads().contains(&out)).peekable();
        split[out.index()] = width > 0
            && width.is_multiple_of(COLUMNS)
            && out != graph.output()
            && readers.peek().is_some()
            && readers.all(|s| takes(s, out));
    }
    split
}

/// What a step makes that may be split rows.
fn made(step: &Step, split: &[bool]) -> Option<TensorId> {
    match *step {
        Step::SelectRows { out, .. }
        | Step::PoolSpans { out, .. }
        | Step::LayerNorm { out, .. }
        | Step::Concat { left_rows: None, out, .. }
        | Step::Attention { bias: None, out, .. } => Some(out),
        // The other kernel's results are float32.
        Step::Linear { x, residual: None, out, .. } if split[x.index()] => Some(out),
        _ => None,
    }
}

/// Whether a step can read these rows split.
fn takes(step: &Step, rows: TensorId) -> bool {
    match *step {
        Step::Linear { x, residual, .. } => x == rows && residual != Some(rows),
        Step::LayerNorm { .. } | Step::Concat { left_rows: None, .. } => true,
        _ => false,
    }
}

/// What a step of split rows is launched as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Gather,
    Norm,
    Concat,
    Product,
}

/// How a step that makes or reads split rows is launched; none for the others.
pub(crate) fn kind(step: &Step, split: &[bool]) -> Option<Kind> {
    let is = |id: TensorId| split[id.index()];
    match *step {
        Step::SelectRows { out, .. } | Step::PoolSpans { out, .. } if is(out) => Some(Kind::Gather),
        Step::LayerNorm { x, out, .. } if is(x) || is(out) => Some(Kind::Norm),
        Step::Concat { left, left_rows: None, right, out } if is(left) || is(right) || is(out) => {
            Some(Kind::Concat)
        }
        Step::Linear { x, .. } if is(x) => Some(Kind::Product),
        _ => None,
    }
}

/// For each step, the last of the steps that run in one launch with it: neighbours of a kind that do not need each other; a
/// concatenation that only the product after it reads, which reads both halves instead; a norm of rows that only the steps after
/// it gather, which norm them.
pub(crate) fn together(graph: &Graph, split: &[bool], bucket: &Sizes) -> Vec<usize> {
    let steps = graph.steps();
    let mut last: Vec<usize> = (0..steps.len()).collect();
    let mut first = 0;
    while first < steps.len() {
        let mut end = first;
        if read_by_the_next(graph, split, first) {
            end = first + 1;
        } else if let Some(gathering) = gathered(graph, split, first) {
            end = first + gathering;
        } else if bucket.tokens <= MOST_TOKENS_TOGETHER {
            while end + 1 < steps.len() && joins(&steps[first..=end], &steps[end + 1], split) {
                end += 1;
            }
        }
        last[first..=end].fill(end);
        first = end + 1;
    }
    last
}

fn read_by_the_next(graph: &Graph, split: &[bool], index: usize) -> bool {
    let is = |id: TensorId| split[id.index()];
    let (Some(Step::Concat { left, left_rows: None, right, out }), Some(Step::Linear { x, .. })) =
        (graph.steps().get(index), graph.steps().get(index + 1))
    else {
        return false;
    };
    let readers = graph.steps().iter().filter(|s| s.reads().contains(out)).count();
    is(*left) && is(*right) && is(*out) && x == out && readers == 1
}

/// The number of steps after a norm that gather its rows, where nothing else reads them.
fn gathered(graph: &Graph, split: &[bool], index: usize) -> Option<usize> {
    let Some(&Step::RmsNorm { out, .. }) = graph.steps().get(index) else { return None };
    let after = &graph.steps()[index + 1..];
    let count =
        after.iter().take_while(|s| kind(s, split) == Some(Kind::Gather) && s.reads().contains(&out)).count();
    let count = if count > 1 && joins(&after[..1], &after[1], split) { 2 } else { count.min(1) };
    let readers = graph.steps().iter().filter(|s| s.reads().contains(&out)).count();
    (count > 0 && readers == count && out != graph.output()).then_some(count)
}

fn joins(steps: &[Step], next: &Step, split: &[bool]) -> bool {
    let most = match kind(next, split) {
        Some(Kind::Gather | Kind::Norm) => 2,
        Some(Kind::Product) => MOST_PRODUCTS,
        Some(Kind::Concat) | None => return false,
    };
    let alike = steps.iter().all(|s| match (s, next) {
        // One launch selects rows of what it pools.
        (Step::SelectRows { x: a, .. }, Step::PoolSpans { x: b, .. })
        | (Step::PoolSpans { x: a, .. }, Step::SelectRows { x: b, .. }) => a == b,
        _ => kind(s, split) == kind(next, split) && kind(s, split) != Some(Kind::Gather),
    });
    let reads = next.reads();
    alike && steps.len() < most && !steps.iter().flat_map(Step::outputs).any(|out| reads.contains(&out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::graph::{GraphBuilder, InputKind};

    /// The steps of a cross-attention scorer over text and classes `width` wide.
    fn scorer(width: usize) -> Graph {
        let mut b = GraphBuilder::new("scorer");
        let ids = b.input(InputKind::TokenIds);
        let table = b.weight("table", &[9, width]);
        let embedded = b.embed("embedded", ids, table, None);
        let norm = b.weight("final", &[width]);
        let hidden = b.rms_norm("hidden", embedded, norm, 1e-6);
        let spans = b.input(InputKind::ClassSpans);
        let classes = b.pool_spans("classes", hidden, spans);
        let rows = b.input(InputKind::TextRows);
        let text = b.select_rows("text", hidden, rows);
        let linear = |b: &mut GraphBuilder, name: &str, x, columns| {
            let weight = b.weight(format!("{name}.w"), &[columns, b.width(x)]);
            b.linear(name, x, weight, None, None, None)
        };
        let text1 = linear(&mut b, "text1", text, width);
        let classes1 = linear(&mut b, "classes1", classes, width);
        let (norm, bias) = (b.weight("n", &[width]), b.weight("b", &[width]));
        let query = b.layer_norm("query", classes1, norm, bias, 1e-5);
        let keys = b.layer_norm("keys", text1, norm, bias, 1e-5);
        let q = linear(&mut b, "q", query, width);
        let k = linear(&mut b, "k", keys, width);
        let v = linear(&mut b, "v", text1, width);
        let offsets = (b.input(InputKind::LabelOffsets), b.input(InputKind::TextOffsets));
        let operands = (b.columns(q), b.columns(k), b.columns(v));
        let context = b.attention("context", operands, offsets, None, (1, width), 1.0, None);
        let context = b.layer_norm("normed", context, norm, bias, 1e-5);
        let pair = b.concat("pair", context, None, classes1);
        let hidden = linear(&mut b, "mlp", pair, width);
        let logits = linear(&mut b, "logits", hidden, 1);
        b.finish(logits).expect("a graph")
    }

    fn names(graph: &Graph, tokens: usize) -> (Vec<String>, Vec<String>) {
        let split = rows(graph);
        let tensors = graph.tensors().iter().zip(&split).filter(|(_, s)| **s);
        let bucket = Sizes { tokens, ..Sizes::default() };
        let last = together(graph, &split, &bucket);
        let groups = (0..last.len()).filter(|&i| i == 0 || last[i - 1] != last[i]).filter(|&i| last[i] > i);
        let name = |i: usize| {
            graph.steps()[i].outputs().iter().map(|o| graph.tensor(*o).name.clone()).collect::<String>()
        };
        let groups = groups.map(|i| (i..=last[i]).map(name).collect::<Vec<_>>().join("+"));
        (tensors.map(|(t, _)| t.name.clone()).collect(), groups.collect())
    }

    #[test]
    fn rows_between_products_are_split_and_neighbours_run_together() {
        let graph = scorer(128);
        let (split, groups) = names(&graph, 64);
        let expected =
            ["classes", "text", "text1", "classes1", "query", "keys", "context", "normed", "pair", "mlp"];
        assert_eq!(split, expected);
        assert_eq!(groups, ["hidden+classes+text", "text1+classes1", "query+keys", "q+k+v", "pair+mlp"]);
        // Large buckets take one step after the other.
        assert_eq!(names(&graph, 4096).1, ["hidden+classes+text", "pair+mlp"]);
    }

    #[test]
    fn rows_without_whole_blocks_stay_float32() {
        let (split, groups) = names(&scorer(96), 64);
        // Two halves of 96 columns are three blocks, but nobody could read the halves split.
        assert!(split.iter().all(|name| name == "pair"), "{split:?}");
        assert!(groups.is_empty());
    }

    #[test]
    fn what_runs_together_has_bytes_of_its_own() {
        let graph = scorer(128);
        for tokens in [64, 4096] {
            let bucket = Sizes { tokens, sequences: 8, labels: 8, text_tokens: tokens, ..Sizes::default() };
            let (split, stored) = (rows(&graph), crate::layout::storage(&graph));
            let layout = crate::layout::arena(&graph, &bucket, false);
            let last = together(&graph, &split, &bucket);
            let range = |id: TensorId| {
                let shape = &graph.tensor(id).shape;
                let (n, width) = (shape[0].bind(&bucket), shape[1].bind(&bucket));
                let n = if split[id.index()] { crate::layout::token_capacity(n) } else { n };
                let start = layout.offsets[id.index()].expect("placed");
                start..start + (n * width * stored[id.index()].bytes()) as u64
            };
            let inputs: Vec<TensorId> = graph.inputs().iter().map(|i| i.tensor).collect();
            for (i, step) in graph.steps().iter().enumerate() {
                let others = (0..graph.steps().len()).filter(|&j| last[j] == last[i]);
                for other in others {
                    let used = graph.steps()[other].reads().into_iter().chain(if other == i {
                        Vec::new()
                    } else {
                        graph.steps()[other].outputs()
                    });
                    for read in used.filter(|r| !inputs.contains(r)) {
                        for out in step.outputs().into_iter().filter(|out| *out != read) {
                            let (a, b) = (range(out), range(read));
                            assert!(a.end <= b.start || b.end <= a.start, "{tokens}: {a:?} {b:?}");
                        }
                    }
                }
            }
        }
    }
}
