//! Products with bfloat16 weights in CLEF's layers: activations rounded to bfloat16 once, as the reference model's are.

use dikast_core::Result;
use dikast_core::graph::{Activation, Graph, Sizes, Step, TensorId, WeightId};

use super::int8::Int8Gemm;
use super::{Builder, activation_number};
use crate::args::{Address, arguments};
use crate::forms::Form;
use crate::gemm::Chip;
use crate::int8_gemm::{self, End, Exit, Operands, Shape};
use crate::launch::{Grid, Launch};
use crate::layout::{self, SHALLOW_BLOCKS, Stored};

arguments! {
    /// `tile_halves.cu`
    TileHalves { x: Address, out: Address, rows: Address, width: i32, k_blocks: i32, capacity: i32, stored: i32 }
}

/// Products with fewer columns stay in float32: they are small, and decay and write strength depend on some.
const FEWEST_COLUMNS: usize = 512;

/// A product that this file may do.
struct Product {
    x: TensorId,
    weight: WeightId,
    residual: Option<TensorId>,
    gated: bool,
    out: TensorId,
}

/// Deep products of what CLEF's row functions and gated products make, without bias and activation.
fn product(graph: &Graph, step: &Step) -> Option<Product> {
    let product = match *step {
        Step::Linear { x, weight, bias: None, activation: None, residual, out } => {
            Product { x, weight, residual, gated: false, out }
        }
        Step::LinearGated { x, weight, activation: Activation::Silu, out } => {
            Product { x, weight, residual: None, gated: true, out }
        }
        _ => return None,
    };
    let width = |id: TensorId| -> usize {
        graph.tensor(id).shape.iter().skip(1).map(|d| d.bind(&Sizes::default())).product()
    };
    let mut steps = graph.steps().iter();
    let made = steps.any(|s| match *s {
        Step::Rows { out, .. } | Step::LinearGated { activation: Activation::Silu, out, .. } => {
            out == product.x
        }
        _ => false,
    });
    let deep = layout::k_blocks(width(product.x), 2) > 2 * SHALLOW_BLOCKS;
    (made && deep && width(product.out) >= FEWEST_COLUMNS && width(product.x) % 4 == 0).then_some(product)
}

impl Builder<'_> {
    /// The launches of a product in bfloat16; none where it is done in float32.
    pub(super) fn half_linear(&self, step: &Step) -> Result<Option<Vec<Launch>>> {
        let Some(Product { x, weight, residual, gated, out }) = product(self.graph, step) else {
            return Ok(None);
        };
        let (columns, stored) = (self.cols(out), self.stored(out));
        let half = if gated { columns } else { 0 };
        let (head, tail) = self.resident.address((weight, Form::Real { half }))?;
        let rounded = residual.is_some_and(|r| self.stored(r) != Stored::F32) || stored == Stored::F16;
        if tail != 0 || self.portable || rounded {
            return Ok(None);
        }
        let k_blocks = layout::k_blocks(self.cols(x), 2);
        let gate = gated.then_some(Activation::Silu);
        let end = End { columns, gate, bias: false, residual: residual.is_some(), stored };
        let shape = Shape {
            operands: Operands::Half,
            weight_rows: layout::weight_rows(if gated { 2 * columns } else { columns }, half),
            k_blocks,
            tokens: self.capacity(x),
            exit: Exit::of(Operands::Half, end),
        };
        let chip = Chip {
            target: self.device.target,
            processors: self.device.processors,
            shared: self.device.shared,
        };
        let Some(choice) = int8_gemm::choose_half(chip, shape) else { return Ok(None) };
        let capacity = layout::token_capacity(self.capacity(x)) as i32;
        let tiling = TileHalves {
            x: self.tensor(x)?,
            out: self.scratch(),
            rows: self.rows(x)?,
            width: self.cols(x) as i32,
            k_blocks: k_blocks as i32,
            capacity,
            stored: self.stored(x) as i32,
        };
        let arguments = Int8Gemm {
            codes: self.scratch(),
            scales: 0,
            weight: head,
            weight_scales: 0,
            bias: 0,
            residual: residual.map_or(Ok(0), |r| self.tensor(r))?,
            out: self.tensor(out)?,
            rows: self.rows(x)?,
            partials: 0,
            flags: 0,
            capacity,
            k_blocks: k_blocks as i32,
            columns: columns as i32,
            gated: i32::from(gated),
            activation: activation_number(gate),
            row_tiles: choice.row_tiles as i32,
            cluster_tokens: choice.cluster_tokens as i32,
            stages: choice.stages as i32,
            slots: choice.slots as i32,
            stream: 0,
            stored: stored as i32,
            pad: 0,
        };
        let grid = Grid::new(self.capacity(x), 1, 256);
        Ok(Some(vec![
            self.launch("tile_halves", "tile_halves", grid, &tiling)?,
            self.launch(choice.kernel, choice.entry, choice.grid, &arguments)?,
        ]))
    }
}

/// Bytes that the step needs while it runs: the tiled activations.
pub(super) fn scratch_bytes(graph: &Graph, step: &Step, bucket: &Sizes) -> usize {
    let Some(Product { x, .. }) = product(graph, step) else { return 0 };
    let shape = &graph.tensor(x).shape;
    let rows = shape.first().map_or(0, |d| d.bind(bucket));
    let width: usize = shape.iter().skip(1).map(|d| d.bind(bucket)).product();
    layout::codes_bytes(rows, 2 * width)
}
