//! Where activations and operands lie on the device, and in which format: the host's half of `kernels/tile.cuh`.

use dikast_core::graph::{ArenaLayout, DType, Graph, RowOp, Sizes, Step, TensorId};

use crate::split;

/// Bytes of a row in one k-block.
pub(crate) const K_BLOCK: usize = 128;
/// Rows of a weight tile.
pub(crate) const TILE_ROWS: usize = 64;
/// Rows of a weight are padded to a multiple of this: the largest tile of weight rows.
const WEIGHT_ROWS_PADDED: usize = 128;
/// Token capacities are multiples of this: the largest tile of tokens.
pub(crate) const TOKEN_TILE: usize = 128;
/// Bytes after the last k-block that a tile may read when the tile height does not divide the capacity.
const CODES_SLACK: usize = TOKEN_TILE * K_BLOCK;

/// Tensors lie at multiples of this.
pub(crate) const ALIGN: u64 = 1024;
/// Products up to this many k-blocks keep float32 everywhere: their speed is no matter, and small models are compared
/// closely.
pub(crate) const SHALLOW_BLOCKS: usize = 4;
/// Width of heads whose attention reads 16-bit rows.
pub(crate) const HALF_HEAD: usize = 64;

/// How real numbers of an activation are stored; the numbers are the kernels'.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stored {
    /// float32.
    #[default]
    F32 = 0,
    /// binary16: where values are bounded by a projection's, and no more bits reach the result.
    F16 = 1,
    /// bfloat16: where they may be beyond binary16's range.
    BF16 = 2,
    /// Two bfloat16 planes, tiled as operands (`kernels/split_rows.cuh`).
    Split = 3,
}

impl Stored {
    /// Bytes of an element.
    pub(crate) fn bytes(self) -> usize {
        if matches!(self, Self::F32 | Self::Split) { 4 } else { 2 }
    }
}

/// The format of every tensor, by index.
///
/// GLiClass: what an FP8 product writes for attention, what such an attention writes for a quantizer, and what a gated FP8 product
/// writes for a quantizer, is rounded to 16 bits on its way: the FP8 codes around it keep four. Everything else, the
/// residual stream above all, is float32.
///
/// CLEF: what a deep INT8 product writes, and what the convolution, the delta rule, the rotary positions and the attention
/// make of it, is bfloat16, as the reference model's activations are; so is the gated product's result, which the quantizer
/// after it rounds to bfloat16 anyway. The residual stream, the vision tower and the head are float32.
pub(crate) fn storage(graph: &Graph) -> Vec<Stored> {
    let mut stored = vec![Stored::F32; graph.tensors().len()];
    sixteen_bits_of_clef(graph, &mut stored);
    let deep = |codes: TensorId| {
        let width = graph.tensor(codes).shape.get(1).map_or(0, |d| d.bind(&Sizes::default()));
        k_blocks(width, 1) > SHALLOW_BLOCKS
    };
    let read_only_by = |id: TensorId, wanted: &dyn Fn(&Step) -> bool| {
        let mut readers = graph.steps().iter().filter(|s| s.reads().contains(&id)).peekable();
        id != graph.output() && readers.peek().is_some() && readers.all(wanted)
    };
    let by_quantizers = |id: TensorId| read_only_by(id, &|s| matches!(s, Step::Quantize { .. }));
    // An attention takes all its operands in one format.
    let mut product = vec![false; stored.len()];
    for step in graph.steps() {
        match *step {
            Step::QuantLinear { codes, residual: None, out, .. } => product[out.index()] = deep(codes),
            Step::QuantLinearGated { codes, out, .. } if deep(codes) && by_quantizers(out) => {
                stored[out.index()] = Stored::BF16;
            }
            _ => {}
        }
    }
    for step in graph.steps() {
        let Step::Attention { q, k, v, head_dim: HALF_HEAD, out, .. } = *step else { continue };
        let operands = [q, k, v];
        let same = |s: &Step| s == step;
        if operands
            .iter()
            .all(|c| product[c.tensor.index()] && c.start % 8 == 0 && read_only_by(c.tensor, &same))
            && by_quantizers(out)
        {
            operands.iter().for_each(|c| stored[c.tensor.index()] = Stored::F16);
            stored[out.index()] = Stored::F16;
        }
    }
    stored
}

fn sixteen_bits_of_clef(graph: &Graph, stored: &mut [Stored]) {
    let deep = |codes: TensorId| {
        let width = graph.tensor(codes).shape.get(1).map_or(0, |d| d.bind(&Sizes::default()));
        k_blocks(width, 1) > SHALLOW_BLOCKS
    };
    let takes = |step: &Step, id: TensorId| match *step {
        Step::CausalConv { x, .. } => x.tensor == id,
        Step::GatedDelta { x, .. } => x == id,
        Step::HeadRotary { ref parts, .. } => parts.iter().all(|p| p.heads.tensor == id),
        Step::CausalAttention { .. } => true,
        Step::RotateQuantize { op, .. } => match op {
            RowOp::GatedRmsNorm { .. } | RowOp::SigmoidGate { .. } | RowOp::Copy { .. } => true,
            RowOp::RmsNorm { .. } => false,
        },
        _ => false,
    };
    let taken = |id: TensorId| {
        let mut readers = graph.steps().iter().filter(|s| s.reads().contains(&id)).peekable();
        id != graph.output() && readers.peek().is_some() && readers.all(|s| takes(s, id))
    };
    for step in graph.steps() {
        let (operand, out) = match *step {
            Step::Int8Linear { codes, residual: None, out, .. }
            | Step::Int8LinearGated { codes, out, .. } => (deep(codes), out),
            Step::CausalConv { x, out, .. } => (stored[x.tensor.index()] == Stored::BF16, out),
            Step::GatedDelta { x, out, .. } => (stored[x.index()] == Stored::BF16, out),
            Step::HeadRotary { ref parts, out, .. } => {
                (parts.iter().all(|p| stored[p.heads.tensor.index()] == Stored::BF16), out)
            }
            Step::CausalAttention { q, k, v, out, .. } => {
                ([q, k, v].iter().all(|c| stored[c.tensor.index()] == Stored::BF16), out)
            }
            _ => continue,
        };
        if operand && taken(out) {
            stored[out.index()] = Stored::BF16;
        }
    }
}

/// Where the activations lie for a bucket. What may be split rows has room for them.
pub(crate) fn arena(graph: &Graph, bucket: &Sizes, keep_all: bool) -> ArenaLayout {
    let stored = storage(graph);
    let split = split::rows(graph);
    let together = split::together(graph, &split, bucket);
    let bytes = |id: TensorId| {
        let tensor = graph.tensor(id);
        if graph.inputs().iter().any(|i| i.tensor == id) {
            // The uploaded block holds the inputs.
            return 0;
        }
        let elements = graph.len(id, bucket);
        match tensor.dtype {
            DType::I32 => 4 * elements as u64,
            DType::F32 if split[id.index()] => {
                let rows = tensor.shape.first().map_or(0, |d| d.bind(bucket));
                let width = elements.checked_div(rows).unwrap_or(0);
                4 * (token_capacity(rows) * width) as u64
            }
            DType::F32 => stored[id.index()].bytes() as u64 * elements as u64,
            DType::I8 | DType::F8E4M3 => {
                let rows = tensor.shape.first().map_or(0, |d| d.bind(bucket));
                codes_bytes(rows, elements.checked_div(rows).unwrap_or(0)) as u64
            }
        }
    };
    let places = places(graph, &stored, keep_all);
    graph.arena_shared(bytes, ALIGN, keep_all, |id| place_of_tensor(&places, id), |step| together[step])
}

/// By index, the tensor in whose place another lies: merged rows where the rows are; and, unless all tensors are to be
/// kept, rows some of which are replaced where the old ones are, and an FP8 product where the residual is that it is added
/// to, when nothing reads those later.
fn places(graph: &Graph, stored: &[Stored], keep_all: bool) -> Vec<Option<TensorId>> {
    let mut places = vec![None; stored.len()];
    let alike = |x: TensorId, out: TensorId| {
        // Inputs lie in the uploaded block.
        stored[x.index()] == stored[out.index()] && graph.inputs().iter().all(|i| i.tensor != x)
    };
    for step in graph.steps() {
        if let Step::MergeRows { x, out } = *step
            && alike(place_of_tensor(&places, x), out)
        {
            places[out.index()] = Some(place_of_tensor(&places, x));
        }
    }
    if keep_all {
        return places;
    }
    for (now, step) in graph.steps().iter().enumerate() {
        let (x, other, out) = match *step {
            Step::ReplaceRows { x, with, out, .. } => (x, with, out),
            Step::QuantLinear { residual: Some(x), scales, out, .. } => (x, scales, out),
            _ => continue,
        };
        let old = place_of_tensor(&places, x);
        let is_old = |id: TensorId| place_of_tensor(&places, id) == old;
        let read_later = graph.steps()[now + 1..].iter().any(|s| s.reads().into_iter().any(is_old));
        if alike(old, out) && !is_old(other) && !read_later && !is_old(graph.output()) {
            for place in places.iter_mut().filter(|p| **p == Some(out)) {
                *place = Some(old);
            }
            places[out.index()] = Some(old);
        }
    }
    places
}

fn place_of_tensor(places: &[Option<TensorId>], id: TensorId) -> TensorId {
    places[id.index()].unwrap_or(id)
}

/// k-blocks of rows of `k` elements.
pub(crate) fn k_blocks(k: usize, bytes_per_element: usize) -> usize {
    (k * bytes_per_element).div_ceil(K_BLOCK)
}

/// Rows of a weight on the device; `half` is the height of one half of a gated weight, or 0.
pub(crate) fn weight_rows(rows: usize, half: usize) -> usize {
    // Halves interleave by whole groups of eight rows.
    let rows = if half == 0 { rows } else { 2 * half.next_multiple_of(8) };
    rows.next_multiple_of(WEIGHT_ROWS_PADDED)
}

/// Bytes of one plane of a weight.
pub(crate) fn weight_bytes(rows: usize, half: usize, k_blocks: usize) -> usize {
    weight_rows(rows, half) * k_blocks * K_BLOCK
}

/// Place of a weight's row: halves of a gated weight interleave by eight rows.
pub(crate) fn place_of(row: usize, half: usize) -> usize {
    if half == 0 {
        return row;
    }
    let (up, r) = if row >= half { (1, row - half) } else { (0, row) };
    r / 8 * 16 + up * 8 + r % 8
}

/// Rows that a codes tensor has room for.
pub(crate) fn token_capacity(rows: usize) -> usize {
    rows.next_multiple_of(TOKEN_TILE)
}

/// Offset of column `k` of a row in the head plane of split rows.
pub(crate) fn split_offset(row: usize, k: usize, capacity: usize) -> usize {
    code_offset(row, 2 * k, capacity)
}

/// Bytes of a codes tensor of `rows` × `width` codes.
pub(crate) fn codes_bytes(rows: usize, width: usize) -> usize {
    k_blocks(width, 1) * token_capacity(rows) * K_BLOCK + CODES_SLACK
}

/// Offset of code `k` of a row in a codes tensor.
pub(crate) fn code_offset(row: usize, k: usize, capacity: usize) -> usize {
    let chunk = (k % K_BLOCK / 16) ^ (row & 7);
    (k / K_BLOCK * capacity + row) * K_BLOCK + chunk * 16 + k % 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use dikast_core::graph::{
        Activation, Columns, GraphBuilder, InputKind, Quantized, Residency, Symbol, Weight, WeightId,
    };
    use std::collections::HashSet;

    /// An FP8 weight and its scales.
    fn product(b: &mut GraphBuilder, name: &str, n: usize, k: usize) -> (WeightId, WeightId) {
        let weight = b.add_weight(Weight {
            name: name.to_owned(),
            parts: vec![name.to_owned()],
            shape: vec![n, k],
            elements: dikast_core::graph::Elements::E4M3,
            residency: Residency::Device,
        });
        (weight, b.weight(format!("{name}.weight_scale"), &[n, 1]))
    }

    /// Formats of q, k, v, of the attention's result and of the gated product in a block `depth` deep with heads `dim` wide;
    /// with `tap`, one more step reads q, k, v and the gated product.
    fn formats(depth: usize, dim: usize, tap: bool) -> [Stored; 3] {
        let mut b = GraphBuilder::new("block");
        let ids = b.input(InputKind::TokenIds);
        let offsets = b.input(InputKind::SequenceOffsets);
        let table = b.weight("table", &[8, depth]);
        let x = b.embed("x", ids, table, None);
        let q: Quantized = b.quantize("x.q", x);
        let w = product(&mut b, "qkv.w", 3 * 2 * dim, depth);
        let qkv = b.quant_linear("qkv", q, w.0, w.1, None);
        let part = |i: usize| Columns { tensor: qkv, start: i * 2 * dim, width: 2 * dim };
        let operands = (part(0), part(1), part(2));
        let context = b.attention("context", operands, (offsets, offsets), None, (2, dim), 1.0, None);
        let c = b.quantize("c", context);
        let w = product(&mut b, "o.w", 64, 2 * dim);
        let y = b.quant_linear("y", c, w.0, w.1, None);
        let w = product(&mut b, "wi.w", 256, depth);
        let gated = b.quant_linear_gated("gated", q, w.0, w.1, Activation::GeluTanh);
        let g = b.quantize("g", gated);
        let w = product(&mut b, "wo.w", 64, 128);
        let z = b.quant_linear("z", g, w.0, w.1, Some(y));
        let out = if tap {
            let both = b.concat("both", qkv, None, gated);
            b.concat("out", z, None, both)
        } else {
            z
        };
        let graph = b.finish(out).expect("a graph");
        let stored = storage(&graph);
        for name in ["x", "y", "z"] {
            assert_eq!(stored[graph.find(name).expect("there").index()], Stored::F32, "{name}");
        }
        ["qkv", "context", "gated"].map(|name| stored[graph.find(name).expect("there").index()])
    }

    #[test]
    fn deep_products_hand_on_sixteen_bits_to_those_that_read_them() {
        assert_eq!(formats(1024, 64, false), [Stored::F16, Stored::F16, Stored::BF16]);
        // Shallow products, and whoever else reads a tensor, keep float32.
        assert_eq!(formats(512, 64, false), [Stored::F32; 3]);
        assert_eq!(formats(1024, 64, true), [Stored::F32; 3]);
        // Heads of another width.
        assert_eq!(formats(1024, 32, false), [Stored::F32, Stored::F32, Stored::BF16]);
    }

    #[test]
    fn merged_and_replaced_rows_lie_where_the_rows_were() {
        let graph = |again: bool| {
            let mut b = GraphBuilder::new("media");
            let pixels = b.patches(16);
            let w = b.weight("w", &[8, 16]);
            let x = b.linear("x", pixels, w, None, None, None);
            let norm = b.weight("norm", &[8]);
            let n = b.rms_norm("n", x, norm, 1e-6);
            let merged = b.merge_rows("merged", n, 4, Symbol::MediaTokens.into());
            let wide = b.weight("wide", &[32, 32]);
            let media = b.linear("media", merged, wide, None, None, None);
            let ids = b.input(InputKind::TokenIds);
            let table = b.weight("table", &[9, 32]);
            let tokens = b.embed("tokens", ids, table, None);
            let rows = b.input(InputKind::MediaRows);
            let replaced = b.replace_rows("replaced", tokens, rows, media);
            let sum = b.sum("sum", vec![replaced, if again { tokens } else { replaced }]);
            b.finish(sum).expect("a graph")
        };
        let sizes = Sizes { tokens: 300, patches: 260, media_tokens: 65, ..Sizes::default() };
        for (again, keep_all) in [(false, false), (true, false), (false, true)] {
            let graph = graph(again);
            let layout = arena(&graph, &sizes, keep_all);
            let at = |name: &str| layout.offsets[graph.find(name).expect("there").index()].expect("placed");
            assert_eq!(at("merged"), at("n"));
            // The rows that the norm reads are not those that it writes.
            assert!(at("n") >= at("x") + 260 * 32 || at("x") >= at("n") + 260 * 32);
            assert_eq!(at("replaced") == at("tokens"), !again && !keep_all);
            // What replaces rows is alive with them.
            assert!(at("media") >= at("tokens") + 300 * 128 || at("tokens") >= at("media") + 65 * 128);
        }
    }

    #[test]
    fn codes_have_places_of_their_own() {
        for (rows, width) in [(1, 16), (7, 320), (130, 128), (129, 33)] {
            let capacity = token_capacity(rows);
            let places: HashSet<_> =
                (0..rows).flat_map(|r| (0..width).map(move |k| code_offset(r, k, capacity))).collect();
            assert_eq!(places.len(), rows * width);
            assert!(places.iter().all(|&at| at + CODES_SLACK < codes_bytes(rows, width)));
        }
    }

    #[test]
    fn gated_rows_alternate_by_eight() {
        assert_eq!((0..10).map(|r| place_of(r, 12)).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5, 6, 7, 16, 17]);
        assert_eq!([12, 19, 20].map(|r| place_of(r, 12)), [8, 15, 24]);
        for half in [1, 5, 8, 37, 320] {
            let places: HashSet<_> = (0..2 * half).map(|r| place_of(r, half)).collect();
            assert_eq!(places.len(), 2 * half);
            assert!(places.iter().all(|&p| p < weight_rows(2 * half, half)));
        }
        assert_eq!(place_of(77, 0), 77);
    }
}
