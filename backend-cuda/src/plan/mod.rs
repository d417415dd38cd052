//! A graph made ready for a bucket: every step as a launch over fixed addresses.

mod ahead;
mod causal;
mod conv;
mod delta;
mod half;
mod int8;
mod joint;
mod media;
mod prefix;
mod rotary;
mod row_trial;
mod rows;
mod split;

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use dikast_core::backend::Prefix;
use dikast_core::checkpoint::StoredType;
use dikast_core::graph::{
    Activation, ArenaLayout, Columns, Dim, Graph, LstmDirection, Pool, Sizes, Step, TensorId, WeightId,
};
use dikast_core::{Error, Result};

use crate::args::{self, Address};
use crate::compile::Kernels;
use crate::device::{Device, Target};
use crate::forms::{self, Form};
use crate::gemm;
use crate::inputs::InputLayout;
use crate::launch::{Grid, Launch};
use crate::layout::{self, Stored};
use crate::linear;
use crate::prefix::Pieces;
use crate::product;
use crate::resident::CudaResident;

pub use ahead::Prefetch;
pub(crate) use int8::Int8Gemm;
pub use row_trial::{RowKernel, RowTime};

/// Threads of the kernels that take one row a block.
const ROW_THREADS: usize = 256;
/// Widest row of those kernels.
const WIDEST_ROW: usize = 8192;
/// The launches of a graph in a bucket, with the step each belongs to.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) launches: Vec<(usize, Launch)>,
    pub(crate) layout: ArenaLayout,
}

/// What a program is built from.
pub(crate) struct Builder<'a> {
    pub(crate) device: &'a Arc<Device>,
    pub(crate) kernels: &'a Kernels,
    pub(crate) graph: &'a Graph,
    pub(crate) resident: &'a CudaResident,
    pub(crate) bucket: Sizes,
    pub(crate) inputs: &'a InputLayout,
    /// Address of the uploaded block.
    pub(crate) block: Address,
    /// Address of the output, when it is not in the arena.
    pub(crate) output: Option<Address>,
    /// Address of the activations.
    pub(crate) arena: Address,
    pub(crate) layout: ArenaLayout,
    /// Format of every tensor.
    pub(crate) stored: Vec<Stored>,
    /// The kernels for any chip even on Hopper.
    pub(crate) portable: bool,
    /// Whether FP8 products of few tokens have their own kernel.
    pub(crate) few: bool,
    pub(crate) large_tiles: gemm::LargeTiles,
    /// Whether attention over binary16 rows has warpgroup products.
    pub(crate) warpgroups: bool,
    /// Kernels for some FP8 products: weight rows, depth, entry point.
    pub(crate) preferred: &'a [(usize, usize, &'static str)],
    pub(crate) prefetch: Prefetch,
    /// Whether each tensor is split rows, by index; and of each step the last that runs in one launch with it.
    pub(crate) split: Vec<bool>,
    pub(crate) together: Vec<usize>,
    /// Whether rows are kept, or sequences go on after kept ones.
    pub(crate) prefix: Prefix,
    /// What the steps keep, in that case.
    pub(crate) pieces: Option<&'a Pieces>,
}

impl Builder<'_> {
    pub(crate) fn build(self) -> Result<Program> {
        let mut launches = Vec::new();
        let ahead = self.ahead();
        for (index, step) in self.graph.steps().iter().enumerate() {
            let last = self.together[index];
            let first = index == 0 || self.together[index - 1] != last;
            if self.split_kind(step).is_some() || !first || last > index {
                // The first of those that run together launches all.
                if first {
                    let launch = self.split_steps(&self.graph.steps()[index..=last])?;
                    launches.extend(launch.map(|launch| (index, launch)));
                }
                continue;
            }
            if step.outputs().iter().all(|&out| self.capacity(out) == 0) && self.kept_after(step) == 0 {
                // No pictures, say. Where rows are kept there are no questions, but keys for them.
                continue;
            }
            for launch in self.step(step, &ahead[index])? {
                let [x, y] = launch.grid.blocks;
                // A tensor without rows in this bucket needs no work.
                if x > 0 && y > 0 {
                    if y > 65_535 {
                        return Err(self
                            .device
                            .lacks(format!("a batch of this size in step {}", step.name())));
                    }
                    launches.push((index, launch));
                }
            }
        }
        Ok(Program { launches, layout: self.layout })
    }

    /// The launches of a step, which asks for `ahead` where it can.
    fn step(&self, step: &Step, ahead: &Range<Address>) -> Result<Vec<Launch>> {
        let launch = match *step {
            Step::Embed { ids, table, segments, out } => self.embed((ids, table), segments, out)?,
            Step::RmsNorm { x, weight, eps, out } => {
                let arguments = args::RmsNorm {
                    x: self.tensor(x)?,
                    weight: self.vector(weight)?,
                    out: self.tensor(out)?,
                    rows: self.rows(x)?,
                    width: self.row_width(x)?,
                    eps,
                };
                self.by_row("rms_norm", "rms_norm_rows", x, &arguments)?
            }
            Step::RmsNormQuantize { x, weight, eps, codes, scales } => {
                let (ahead, grid) = self.asking(ahead, self.row_grid(x));
                let arguments = args::RmsNormQuantize {
                    x: self.tensor(x)?,
                    weight: self.vector(weight)?,
                    codes: self.tensor(codes)?,
                    scales: self.tensor(scales)?,
                    rows: self.rows(x)?,
                    width: self.row_width(x)?,
                    capacity: self.codes_capacity(codes),
                    eps,
                    pad: 0,
                    ahead,
                };
                let entry = by_quads(
                    self.cols(x),
                    ["rms_norm_quantize_2", "rms_norm_quantize_5", "rms_norm_quantize_8"],
                );
                self.launch("rms_norm_quantize", entry, grid, &arguments)?
            }
            Step::Quantize { x, codes, scales } => {
                let (ahead, grid) = self.asking(ahead, self.row_grid(x));
                let arguments = args::Quantize {
                    x: self.tensor(x)?,
                    codes: self.tensor(codes)?,
                    scales: self.tensor(scales)?,
                    rows: self.rows(x)?,
                    width: self.row_width(x)?,
                    capacity: self.codes_capacity(codes),
                    ahead,
                };
                let entries = match self.stored(x) {
                    Stored::Split => return Err(Error::Internal("codes of split rows".to_owned())),
                    Stored::F32 => ["quantize_f32_2", "quantize_f32_5", "quantize_f32_8"],
                    Stored::F16 => ["quantize_f16_2", "quantize_f16_5", "quantize_f16_8"],
                    Stored::BF16 => ["quantize_bf16_2", "quantize_bf16_5", "quantize_bf16_8"],
                };
                let entry = by_quads(self.cols(x), entries);
                self.launch("quantize", entry, grid, &arguments)?
            }
            Step::LayerNorm { x, weight, bias, eps, out } => {
                let arguments = args::LayerNorm {
                    x: self.tensor(x)?,
                    weight: self.vector(weight)?,
                    bias: self.vector(bias)?,
                    out: self.tensor(out)?,
                    rows: self.rows(x)?,
                    width: self.row_width(x)?,
                    eps,
                };
                self.by_row("layer_norm", "layer_norm", x, &arguments)?
            }
            Step::L2Normalize { x, eps, out } => {
                let arguments = args::L2Normalize {
                    x: self.tensor(x)?,
                    out: self.tensor(out)?,
                    rows: self.rows(x)?,
                    width: self.row_width(x)?,
                    eps,
                };
                self.by_row("l2_normalize", "l2_normalize", x, &arguments)?
            }
            Step::Linear { x, weight, bias, activation, residual, out } => {
                if let Some(launches) = self.half_linear(step)? {
                    return Ok(launches);
                }
                self.linear((x, weight), bias, activation, residual, out, false)?
            }
            Step::LinearGated { x, weight, activation, out } => {
                if let Some(launches) = self.half_linear(step)? {
                    return Ok(launches);
                }
                self.linear((x, weight), None, Some(activation), None, out, true)?
            }
            Step::QuantLinear { codes, scales, weight, weight_scales, residual, out } => {
                self.quant_linear((codes, scales), (weight, weight_scales), residual, out, None)?
            }
            Step::QuantLinearGated { codes, scales, weight, weight_scales, activation, out } => {
                self.quant_linear((codes, scales), (weight, weight_scales), None, out, Some(activation))?
            }
            Step::Attention { k, v, .. } => {
                return self.with_prefix(step, [k, v], self.attention(step)?);
            }
            Step::SelectRows { x, rows, out } => {
                let arguments = args::SelectRows {
                    x: self.tensor(x)?,
                    index: self.tensor(rows)?,
                    out: self.tensor(out)?,
                    rows: self.rows(out)?,
                    width: self.cols(out) as i32,
                    pad: 0,
                };
                self.by_row("select_rows", "select_rows", out, &arguments)?
            }
            Step::Concat { left, left_rows, right, out } => {
                let arguments = args::Concat {
                    left: self.tensor(left)?,
                    index: left_rows.map_or(Ok(0), |rows| self.tensor(rows))?,
                    right: self.tensor(right)?,
                    out: self.tensor(out)?,
                    rows: self.rows(out)?,
                    left_width: self.cols(left) as i32,
                    right_width: self.cols(right) as i32,
                };
                self.by_row("select_rows", "concat", out, &arguments)?
            }
            Step::PoolSpans { x, spans, out } => {
                let arguments = args::PoolSpans {
                    x: self.tensor(x)?,
                    spans: self.tensor(spans)?,
                    out: self.tensor(out)?,
                    rows: self.rows(out)?,
                    width: self.cols(out) as i32,
                    pad: 0,
                };
                self.by_column("pool_spans", out, &arguments)?
            }
            Step::PoolText { x, spans, pool, out } => {
                let arguments = args::PoolText {
                    x: self.tensor(x)?,
                    spans: self.tensor(spans)?,
                    out: self.tensor(out)?,
                    rows: self.rows(out)?,
                    width: self.cols(out) as i32,
                    pool: pool_number(pool),
                };
                self.by_column("pool_text", out, &arguments)?
            }
            Step::BiLstm { x, offsets, lengths, forward, backward, out } => {
                let hidden = self.cols(out) / 2;
                let arguments = args::BiLstm {
                    x: self.tensor(x)?,
                    offsets: self.tensor(offsets)?,
                    lengths: self.tensor(lengths)?,
                    forward: self.direction(forward)?,
                    backward: self.direction(backward)?,
                    out: self.tensor(out)?,
                    rows: self.rows(lengths)?,
                    width: self.cols(x) as i32,
                    hidden: hidden as i32,
                };
                let shared = 3 * 4 * hidden;
                let grid = Grid::new(2, self.capacity(lengths), ROW_THREADS).shared(shared);
                self.launch("bi_lstm", "bi_lstm", grid, &arguments)?
            }
            Step::PairProduct { text, classes, owner, out } => {
                let arguments = args::PairProduct {
                    text: self.tensor(text)?,
                    classes: self.tensor(classes)?,
                    owner: self.tensor(owner)?,
                    out: self.tensor(out)?,
                    rows: self.rows(out)?,
                    half: (self.cols(classes) / 2) as i32,
                    pad: 0,
                };
                self.by_row("score", "pair_product", out, &arguments)?
            }
            Step::HopfieldMix { query, key, value, classes, offsets, beta, out } => {
                let arguments = args::HopfieldMix {
                    query: self.tensor(query)?,
                    key: self.tensor(key)?,
                    value: self.tensor(value)?,
                    classes: self.tensor(classes)?,
                    offsets: self.tensor(offsets)?,
                    out: self.tensor(out)?,
                    rows: self.rows(key)?,
                    width: self.cols(classes) as i32,
                    beta,
                };
                self.by_row("score", "hopfield_mix", key, &arguments)?
            }
            Step::Dot { text, classes, owner, out } => {
                let arguments = args::Dot {
                    text: self.tensor(text)?,
                    classes: self.tensor(classes)?,
                    owner: self.tensor(owner)?,
                    out: self.tensor(out)?,
                    rows: self.rows(out)?,
                    width: self.cols(classes) as i32,
                    pad: 0,
                };
                self.by_row("score", "dot_rows", out, &arguments)?
            }
            Step::Scale { x, by, out } => {
                let arguments = args::Scale {
                    x: self.tensor(x)?,
                    by: self.vector(by)?,
                    out: self.tensor(out)?,
                    rows: self.rows(out)?,
                    width: self.cols(out) as i32,
                    pad: 0,
                };
                let elements = self.capacity(out) * self.cols(out);
                self.launch(
                    "score",
                    "scale",
                    Grid::new(elements.div_ceil(ROW_THREADS), 1, ROW_THREADS),
                    &arguments,
                )?
            }
            Step::Rows { .. } | Step::RotateQuantize { .. } => self.row_function(step)?,
            Step::Int8Linear { .. } | Step::Int8LinearGated { .. } => self.int8_linear(step)?,
            Step::CausalConv { x, .. } => return self.with_tail(step, x, self.causal_conv(step)?),
            Step::GatedDelta { .. } => return self.gated_delta(step),
            Step::HeadRotary { .. } => self.head_rotary(step)?,
            Step::CausalAttention { k, v, .. } => {
                return self.with_prefix(step, [k, v], self.causal_attention(step)?);
            }
            Step::AddPositions { .. } | Step::MergeRows { .. } | Step::ReplaceRows { .. } => {
                return self.media_rows(step);
            }
            Step::PoolTableRows { .. }
            | Step::SoftmaxPool { .. }
            | Step::Sum { .. }
            | Step::PairFeatures { .. }
            | Step::JointScore { .. } => self.joint(step)?,
        };
        Ok(vec![launch])
    }

    fn embed(
        &self,
        (ids, table): (TensorId, WeightId),
        segments: Option<(TensorId, WeightId)>,
        out: TensorId,
    ) -> Result<Launch> {
        let (segment_ids, segment_table) = match segments {
            Some((ids, table)) => (self.tensor(ids)?, self.vector(table)?),
            None => (0, 0),
        };
        let Some((offset, stored)) = self.inputs.table_of(table) else {
            if segments.is_some() {
                return Err(self.device.lacks("segments beside a table on the device"));
            }
            let arguments = args::SelectRows {
                x: self.vector(table)?,
                index: self.tensor(ids)?,
                out: self.tensor(out)?,
                rows: self.rows(out)?,
                width: self.cols(out) as i32,
                pad: 0,
            };
            return self.by_row("select_rows", "select_rows", out, &arguments);
        };
        let arguments = args::Embed {
            rows_in_order: self.block + offset as u64,
            segment_ids,
            segments: segment_table,
            out: self.tensor(out)?,
            rows: self.rows(out)?,
            width: self.cols(out) as i32,
            stored: self.real_number(stored)?,
        };
        self.by_row("embed", "embed", out, &arguments)
    }

    /// The kernels' number of a stored type of reals.
    fn real_number(&self, stored: StoredType) -> Result<i32> {
        Ok(match stored {
            StoredType::F32 => Stored::F32,
            StoredType::F16 => Stored::F16,
            StoredType::BF16 => Stored::BF16,
            other => return Err(self.device.lacks(format!("a table in {other:?}"))),
        } as i32)
    }

    fn linear(
        &self,
        (x, weight): (TensorId, WeightId),
        bias: Option<WeightId>,
        activation: Option<Activation>,
        residual: Option<TensorId>,
        out: TensorId,
        gated: bool,
    ) -> Result<Launch> {
        let (k, columns) = (self.cols(x), self.cols(out));
        if k % 4 != 0 {
            return Err(self
                .device
                .lacks(format!("products over a depth of {k} (a multiple of 4 is needed)")));
        }
        let half = if gated { columns } else { 0 };
        let (head, tail) = self.resident.address((weight, Form::Real { half }))?;
        let rows = layout::weight_rows(if gated { 2 * columns } else { columns }, half);
        let arguments = args::Linear {
            x: self.tensor(x)?,
            weight: head,
            weight_tail: tail,
            bias: bias.map_or(Ok(0), |b| self.vector(b))?,
            residual: residual.map_or(Ok(0), |r| self.tensor(r))?,
            out: self.tensor(out)?,
            rows: self.rows(x)?,
            k: k as i32,
            k_blocks: layout::k_blocks(k, 2) as i32,
            columns: columns as i32,
            gated: i32::from(gated),
            activation: activation_number(activation),
            pad: 0,
        };
        let shape = linear::Shape { rows, planes: if tail == 0 { 1 } else { 2 }, tokens: self.capacity(x) };
        let choice = linear::choose(self.device.target, self.device.processors, self.portable, shape);
        self.launch(choice.kernel, choice.entry, choice.grid, &arguments)
    }

    fn quant_linear(
        &self,
        (codes, scales): (TensorId, TensorId),
        (weight, weight_scales): (WeightId, WeightId),
        residual: Option<TensorId>,
        out: TensorId,
        gate: Option<Activation>,
    ) -> Result<Launch> {
        let columns = self.cols(out);
        let half = if gate.is_some() { columns } else { 0 };
        let weight_rows = layout::weight_rows(if gate.is_some() { 2 * columns } else { columns }, half);
        let k_blocks = layout::k_blocks(self.cols(codes), 1);
        let stored = self.stored(out);
        let (target, residual) = (self.tensor(out)?, residual.map_or(Ok(0), |r| self.tensor(r))?);
        let shape = gemm::Shape {
            weight_rows,
            k_blocks,
            tokens: self.capacity(codes),
            exit: gemm::Exit::of(columns, gate.is_some(), stored, residual == target, self.large_tiles),
        };
        if let Target::Portable(capability) = self.device.target
            && capability < 89
        {
            return Err(self.device.lacks("FP8 products (compute capability 8.9 or newer)"));
        }
        let chip = gemm::Chip {
            target: self.device.target,
            processors: self.device.processors,
            shared: self.device.shared,
        };
        // Hopper's kernel has the one activation that mT5 gates with compiled in.
        let portable = self.portable || !matches!(gate, None | Some(Activation::GeluTanh));
        let wanted =
            |&&(n, k, _): &&(usize, usize, &str)| (n, layout::k_blocks(k, 1)) == (weight_rows, k_blocks);
        let preferred = self
            .preferred
            .iter()
            .find(wanted)
            .filter(|_| !portable)
            .and_then(|p| gemm::candidates(chip, shape).into_iter().find(|choice| choice.entry == p.2));
        let choice = match preferred {
            Some(choice) => choice,
            None if portable => gemm::portable(shape),
            None => gemm::choose(chip, shape, self.few),
        };
        let arguments = args::Fp8Gemm {
            codes: self.tensor(codes)?,
            scales: self.tensor(scales)?,
            weight: self.resident.address((weight, Form::Codes { half }))?.0,
            weight_scales: self.resident.address((weight_scales, Form::RowScales { half }))?.0,
            residual,
            out: target,
            rows: self.rows(codes)?,
            capacity: self.codes_capacity(codes),
            k_blocks: k_blocks as i32,
            columns: columns as i32,
            gated: i32::from(gate.is_some()),
            activation: activation_number(gate),
            row_tiles: choice.row_tiles as i32,
            cluster_tokens: choice.cluster_tokens as i32,
            stages: choice.stages as i32,
            stored: stored as i32,
            pad: 0,
        };
        if choice.grid.shared > self.device.shared {
            let need = format!("{} bytes of shared memory for {}", choice.grid.shared, choice.entry);
            return Err(self.device.lacks(need));
        }
        product::launch(self.device, self.kernels, &choice, arguments, (stored, self.capacity(out)))
    }

    fn attention(&self, step: &Step) -> Result<Launch> {
        let Step::Attention { q, k, v, q_offsets, kv_offsets, kv_lengths, heads, head_dim, scale, bias, out } =
            *step
        else {
            return Err(Error::Internal("not an attention step".to_owned()));
        };
        let list = self
            .inputs
            .list(q_offsets, kv_offsets, kv_lengths)
            .ok_or_else(|| Error::Internal("attention without a tile list".to_owned()))?;
        let (table, reach) = match bias {
            Some(b) => (self.resident.address((b.table, forms::distances(&b)))?.0, b.max_distance),
            None => (0, 0),
        };
        let [keys, values] = self.keys_and_values(step, [k, v])?;
        let arguments = args::Attention {
            q: self.columns(q)?,
            k: keys.0,
            v: values.0,
            out: self.tensor(out)?,
            bias: table,
            tiles: self.block + list.tiles as u64,
            tile_count: self.block + list.count as u64,
            q_pitch: self.cols(q.tensor) as i32,
            k_pitch: keys.1,
            v_pitch: values.1,
            out_pitch: self.cols(out) as i32,
            head_dim: head_dim as i32,
            reach: reach as i32,
            scale,
            heads: heads as i32,
            split_capacity: if self.is_split(out) {
                layout::token_capacity(self.capacity(out)) as i32
            } else {
                0
            },
            pad: 0,
        };
        if self.stored(q.tensor) == Stored::F16 {
            let hopper = self.device.target == Target::Hopper;
            let table = 4 * (2 * reach + 1).next_multiple_of(4);
            // Memory as in the kernels; two blocks fit a multiprocessor.
            let blocks = (heads * list.capacity).min(2 * self.device.processors);
            let grid = Grid::new(blocks, 1, 256);
            if hopper && !self.portable && self.warpgroups {
                let grid = grid.shared(1024 + 10 * 8192 + 2 * table + 8 * 20 * 32 * 4);
                return self.launch("sm90_attention_half", "sm90_attention_half_64", grid, &arguments);
            }
            // Steps of keys, values and queries, three tables of biases, and where the halves meet.
            let steps = if hopper { 3 } else { 2 };
            let grid = grid.shared(steps * 3 * 64 * 144 + 3 * table + 4 * 36 * 32 * 4);
            return self.launch("attention_half", "attention_half_64", grid, &arguments);
        }
        // Split queries, keys and values, and the next keys and values; wide heads keep values where keys were.
        let bytes = |width: usize, apart: bool| {
            let (planes, raw) = if apart { (6, 2 * 64 * width * 4) } else { (4, 0) };
            planes * 64 * (width + 8) * 2 + raw + 4 * (2 * reach + 1)
        };
        let (shared, entry) = [
            (16, true, "attention_16"),
            (32, true, "attention_32"),
            (64, true, "attention_64"),
            (80, true, "attention_80_apart"),
            (80, false, "attention_80"),
            (128, true, "attention_128_apart"),
            (128, false, "attention_128"),
        ]
        .into_iter()
        .map(|(width, apart, entry)| (width, bytes(width, apart), entry))
        // The last of a width is refused where it does not fit.
        .find(|&(width, shared, entry)| {
            width >= head_dim && (!entry.ends_with("_apart") || shared <= self.device.shared)
        })
        .map(|(_, shared, entry)| (shared, entry))
        .ok_or_else(|| self.device.lacks(format!("attention heads {head_dim} wide (128 at most)")))?;
        let apart = [head_dim, self.cols(out)]
            .into_iter()
            .chain([q, k, v].into_iter().flat_map(|c| [c.start, self.cols(c.tensor)]));
        if apart.into_iter().any(|n| n % 4 != 0) {
            return Err(self.device.lacks("attention with widths that are no multiple of 4"));
        }
        let grid = Grid::new(heads, list.capacity, 256).shared(shared);
        self.launch("attention", entry, grid, &arguments)
    }

    fn direction(&self, d: LstmDirection) -> Result<args::LstmDirection> {
        Ok(args::LstmDirection {
            input: self.vector(d.input)?,
            hidden: self.vector(d.hidden)?,
            bias: self.resident.address((d.input_bias, Form::SumWith(d.hidden_bias)))?.0,
        })
    }

    fn by_row<T: Pod>(
        &self,
        kernel: &'static str,
        entry: &'static str,
        rows: TensorId,
        arguments: &T,
    ) -> Result<Launch> {
        self.launch(kernel, entry, self.row_grid(rows), arguments)
    }

    fn row_grid(&self, rows: TensorId) -> Grid {
        Grid::new(self.capacity(rows), 1, ROW_THREADS)
    }

    fn by_column<T: Pod>(&self, entry: &'static str, out: TensorId, arguments: &T) -> Result<Launch> {
        let grid = Grid::new(self.cols(out).div_ceil(ROW_THREADS), self.capacity(out), ROW_THREADS);
        self.launch("pool", entry, grid, arguments)
    }

    fn launch<T: Pod>(
        &self,
        kernel: &'static str,
        entry: &'static str,
        grid: Grid,
        arguments: &T,
    ) -> Result<Launch> {
        if grid.shared > self.device.shared {
            return Err(self.device.lacks(format!("{} bytes of shared memory for {entry}", grid.shared)));
        }
        Ok(Launch::new(entry, self.kernels.function(kernel, entry, grid.shared)?, grid, arguments))
    }

    fn stored(&self, id: TensorId) -> Stored {
        self.stored.get(id.index()).copied().unwrap_or_default()
    }

    fn tensor(&self, id: TensorId) -> Result<Address> {
        if let Some(output) = self.output
            && id == self.graph.output()
        {
            return Ok(output);
        }
        if let Some(offset) = self.inputs.offset(id) {
            return Ok(self.block + offset as u64);
        }
        let offset = self.layout.offsets.get(id.index()).copied().flatten();
        offset
            .map(|o| self.arena + o)
            .ok_or_else(|| Error::Internal(format!("tensor {} has no place", self.graph.tensor(id).name)))
    }

    /// Address of the first row of some columns.
    fn columns(&self, c: Columns) -> Result<Address> {
        Ok(self.tensor(c.tensor)? + (self.stored(c.tensor).bytes() * c.start) as u64)
    }

    /// Address of a tensor that a kernel reads or writes as float32.
    fn float32(&self, id: TensorId) -> Result<Address> {
        if self.stored(id) != Stored::F32 {
            let name = &self.graph.tensor(id).name;
            return Err(Error::Internal(format!("tensor {name} is not stored as float32")));
        }
        self.tensor(id)
    }

    /// Address of memory that a step may use while it runs, [`scratch_bytes`] large: after the activations.
    fn scratch(&self) -> Address {
        self.arena + activation_bytes(&self.layout)
    }

    /// Address of the number of rows that a tensor has in the batch.
    fn rows(&self, id: TensorId) -> Result<Address> {
        match self.graph.tensor(id).shape.first() {
            Some(Dim::Sym(symbol)) => Ok(self.block + InputLayout::size_offset(*symbol) as u64),
            _ => Err(Error::Internal(format!("tensor {} has no symbolic rows", self.graph.tensor(id).name))),
        }
    }

    fn vector(&self, weight: WeightId) -> Result<Address> {
        Ok(self.resident.address((weight, Form::Vector))?.0)
    }

    fn capacity(&self, id: TensorId) -> usize {
        self.graph.tensor(id).shape.first().map_or(0, |d| d.bind(&self.bucket))
    }

    fn codes_capacity(&self, id: TensorId) -> i32 {
        layout::token_capacity(self.capacity(id)) as i32
    }

    fn cols(&self, id: TensorId) -> usize {
        self.graph.tensor(id).shape.iter().skip(1).map(|d| d.bind(&self.bucket)).product()
    }

    /// Width of a row that is taken in quadruples.
    fn quads_wide(&self, id: TensorId) -> Result<i32> {
        let width = self.cols(id);
        match i32::try_from(width) {
            Ok(quads) if quads % 4 == 0 && quads > 0 => Ok(quads),
            _ => Err(self.device.lacks(format!("rows {width} wide (a multiple of 4 is needed)"))),
        }
    }

    /// Width of a row that one block holds in registers.
    fn row_width(&self, id: TensorId) -> Result<i32> {
        let width = self.cols(id);
        if width.is_multiple_of(4) && width <= WIDEST_ROW {
            return Ok(width as i32);
        }
        Err(self
            .device
            .lacks(format!("rows {width} wide (a multiple of 4, at most {WIDEST_ROW}, is needed)")))
    }
}

/// Bytes of activations and of what the steps need while they run, one at a time.
pub(crate) fn arena_bytes(graph: &Graph, bucket: &Sizes, keep_all: bool) -> usize {
    arena_bytes_prefix(graph, bucket, keep_all, None, Prefix::None)
}

/// The same for a plan that keeps rows or goes on after kept ones.
pub(crate) fn arena_bytes_prefix(
    graph: &Graph,
    bucket: &Sizes,
    keep_all: bool,
    pieces: Option<&Pieces>,
    prefix: Prefix,
) -> usize {
    let scratch = |step: &Step| {
        let of = [delta::scratch_bytes, int8::scratch_bytes, half::scratch_bytes];
        of.map(|bytes| bytes(graph, step, bucket)).into_iter().max()
    };
    let scratch = graph.steps().iter().filter_map(scratch).max();
    let joined = pieces.map_or(0, |p| prefix::scratch_bytes(p, bucket, prefix));
    activation_bytes(&layout::arena(graph, bucket, keep_all)) as usize + scratch.unwrap_or(0).max(joined)
}

fn activation_bytes(layout: &ArenaLayout) -> u64 {
    layout.bytes.next_multiple_of(layout::ALIGN)
}

/// The instance of a row kernel with the fewest registers that hold a row: quadruples for 256 threads.
fn by_quads(width: usize, entries: [&'static str; 3]) -> &'static str {
    match width {
        0..=2048 => entries[0],
        2049..=5120 => entries[1],
        _ => entries[2],
    }
}

fn activation_number(activation: Option<Activation>) -> i32 {
    match activation {
        None => 0,
        Some(Activation::GeluErf) => 1,
        Some(Activation::GeluTanh) => 2,
        Some(Activation::Relu) => 3,
        Some(Activation::Silu) => 4,
    }
}

fn pool_number(pool: Pool) -> i32 {
    match pool {
        Pool::First => 0,
        Pool::Last => 1,
        Pool::Avg => 2,
        Pool::Sum => 3,
        Pool::Max => 4,
        Pool::Rms => 5,
        Pool::AbsMax => 6,
        Pool::AbsAvg => 7,
    }
}
