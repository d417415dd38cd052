//! Steps over split rows, several of a kind in one launch.

use dikast_core::graph::{Step, TensorId};
use dikast_core::{Error, Result};

use super::{Builder, ROW_THREADS, activation_number};
use crate::args::{Address, SelectRows, arguments};
use crate::forms::Form;
use crate::launch::{Grid, Launch};
use crate::layout::{self, Stored};
use crate::split::{self, COLUMNS, Kind, MOST_PRODUCTS};
use crate::split_linear;

arguments! {
    /// `split_rows.cuh`
    SplitRows { data: Address, width: i32, capacity: i32, stored: i32, pad: i32 }
    /// `split_rows.cu`
    Gather {
        x: Address, weight: Address, index: Address, selected_rows: Address, spans: Address, pooled_rows: Address,
        selected: SplitRows, pooled: SplitRows, width: i32, first: i32, eps: f32, pad: i32,
    }
    /// `split_rows.cu`
    Norm {
        x: SplitRows, out: SplitRows, weight: Address, bias: Address, rows: Address, eps: f32, first: i32,
    }
    /// `split_rows.cu`
    Norms { of: [Norm; 2] }
    /// `split_rows.cu`
    SplitConcat { left: SplitRows, right: SplitRows, out: SplitRows, rows: Address }
    /// `sm90_split_linear.cu`
    Product {
        x: Address, more: Address, weight: Address, bias: Address, residual: Address, out: Address, rows: Address,
        k_blocks: i32, x_blocks: i32, columns: i32, capacity: i32, activation: i32, stored: i32, first: i32, pad: i32,
    }
    /// `sm90_split_linear.cu`
    Products { of: [Product; MOST_PRODUCTS], stages: i32, pad: i32 }
}

/// The first block of a part that there is not.
const NONE: i32 = i32::MAX;

impl Builder<'_> {
    /// Whether a tensor is kept split.
    pub(super) fn is_split(&self, id: TensorId) -> bool {
        self.stored(id) == Stored::Split
    }

    /// How a step is launched if it makes or reads split rows.
    pub(super) fn split_kind(&self, step: &Step) -> Option<Kind> {
        split::kind(step, &self.split)
    }

    /// One launch for steps of a kind; none where the batch has no rows for them.
    pub(super) fn split_steps(&self, steps: &[Step]) -> Result<Option<Launch>> {
        // A product reads both halves of a concatenation; what gathers rows norms them.
        let (before, steps) = match steps {
            [before @ (Step::Concat { .. } | Step::RmsNorm { .. }), rest @ ..] if !rest.is_empty() => {
                (Some(before), rest)
            }
            _ => (None, steps),
        };
        let rows = |s: &&Step| s.outputs().iter().any(|&out| self.capacity(out) > 0);
        let steps: Vec<&Step> = steps.iter().filter(rows).collect();
        let Some(&first) = steps.first() else { return Ok(None) };
        match self.split_kind(first) {
            Some(Kind::Gather) => self.gather(&steps, before).map(Some),
            Some(Kind::Norm) => self.split_norms(&steps).map(Some),
            Some(Kind::Concat) => self.split_concat(first).map(Some),
            Some(Kind::Product) => self.split_products(&steps, before).map(Some),
            None => Err(Error::Internal("not a step of split rows".to_owned())),
        }
    }

    fn split_rows(&self, id: TensorId) -> Result<SplitRows> {
        Ok(SplitRows {
            data: self.tensor(id)?,
            width: self.quads_wide(id)?,
            capacity: layout::token_capacity(self.capacity(id)) as i32,
            stored: self.real(id)? as i32,
            pad: 0,
        })
    }

    /// The rows that a step selects as float32 at another address: to look at them.
    pub(crate) fn moved_rows(&self, step: &Step, to: Address) -> Result<Launch> {
        let Step::SelectRows { x, rows, out } = *step else {
            return Err(Error::Internal("no selection of rows".to_owned()));
        };
        let arguments = SelectRows {
            x: self.float32(x)?,
            index: self.tensor(rows)?,
            out: to,
            rows: self.rows(out)?,
            width: self.quads_wide(out)?,
            pad: 0,
        };
        self.by_row("select_rows", "select_rows", out, &arguments)
    }

    /// Rows and means of rows, after `norm` if there is one.
    fn gather(&self, steps: &[&Step], norm: Option<&Step>) -> Result<Launch> {
        let none = SplitRows { data: 0, width: 0, capacity: 0, stored: 0, pad: 0 };
        let mut arguments = Gather {
            x: 0,
            weight: 0,
            index: 0,
            selected_rows: 0,
            spans: 0,
            pooled_rows: 0,
            selected: none,
            pooled: none,
            width: 0,
            first: 0,
            eps: 0.0,
            pad: 0,
        };
        let mut pooled = 0;
        for step in steps {
            match **step {
                Step::SelectRows { x, rows, out } => {
                    (arguments.x, arguments.width) = (self.float32(x)?, self.row_width(x)?);
                    arguments.index = self.tensor(rows)?;
                    arguments.selected_rows = self.rows(out)?;
                    arguments.selected = self.split_rows(out)?;
                    arguments.first = self.capacity(out) as i32;
                }
                Step::PoolSpans { x, spans, out } => {
                    (arguments.x, arguments.width) = (self.float32(x)?, self.row_width(x)?);
                    arguments.spans = self.tensor(spans)?;
                    arguments.pooled_rows = self.rows(out)?;
                    arguments.pooled = self.split_rows(out)?;
                    pooled = self.capacity(out);
                }
                _ => return Err(Error::Internal("neither rows nor spans".to_owned())),
            }
        }
        if let Some(&Step::RmsNorm { x, weight, eps, .. }) = norm {
            (arguments.x, arguments.weight, arguments.eps) = (self.float32(x)?, self.vector(weight)?, eps);
        }
        let grid = Grid::new(arguments.first as usize + pooled, 1, ROW_THREADS);
        let entry = if arguments.width <= 2048 { "gather_2" } else { "gather_8" };
        self.launch("split_rows", entry, grid, &arguments)
    }

    fn split_norms(&self, steps: &[&Step]) -> Result<Launch> {
        let mut of = Vec::with_capacity(2);
        let (mut blocks, mut width) = (0, 0);
        for step in steps {
            let Step::LayerNorm { x, weight, bias, eps, out } = **step else {
                return Err(Error::Internal("not a norm".to_owned()));
            };
            self.row_width(x)?;
            of.push(Norm {
                x: self.split_rows(x)?,
                out: self.split_rows(out)?,
                weight: self.vector(weight)?,
                bias: self.vector(bias)?,
                rows: self.rows(x)?,
                eps,
                first: blocks as i32,
            });
            blocks += self.capacity(x);
            width = width.max(self.cols(x));
        }
        let none = of.first().map(|&norm| Norm { first: NONE, ..norm });
        of.extend(none);
        let [first, second, ..] = of[..] else {
            return Err(Error::Internal("no norm".to_owned()));
        };
        let entry = if width <= 2048 { "split_norm_2" } else { "split_norm_8" };
        self.launch("split_rows", entry, Grid::new(blocks, 1, ROW_THREADS), &Norms { of: [first, second] })
    }

    fn split_concat(&self, step: &Step) -> Result<Launch> {
        let Step::Concat { left, right, out, .. } = *step else {
            return Err(Error::Internal("not a concatenation".to_owned()));
        };
        let arguments = SplitConcat {
            left: self.split_rows(left)?,
            right: self.split_rows(right)?,
            out: self.split_rows(out)?,
            rows: self.rows(out)?,
        };
        self.by_row("split_rows", "split_concat", out, &arguments)
    }

    /// Products that do not need each other; of one, `halves` may be the concatenation that it reads.
    fn split_products(&self, steps: &[&Step], halves: Option<&Step>) -> Result<Launch> {
        let mut of = Vec::with_capacity(MOST_PRODUCTS);
        let (mut weight_rows, mut k_blocks, mut tokens) = (Vec::new(), 0, 0);
        for step in steps {
            let Step::Linear { x, weight, bias, activation, residual, out } = **step else {
                return Err(Error::Internal("not a product".to_owned()));
            };
            let (first, second) = match halves {
                Some(&Step::Concat { left, right, .. }) => (left, Some(right)),
                _ => (x, None),
            };
            let columns = self.cols(out);
            let (head, tail) = self.resident.address((weight, Form::Real { half: 0 }))?;
            if tail != 0 || !self.is_split(first) || second.is_some_and(|s| !self.is_split(s)) {
                return Err(Error::Internal("a product that is not over split rows".to_owned()));
            }
            of.push(Product {
                x: self.tensor(first)?,
                more: second.map_or(Ok(0), |s| self.tensor(s))?,
                weight: head,
                bias: bias.map_or(Ok(0), |b| self.vector(b))?,
                residual: residual.map_or(Ok(0), |r| self.float32(r))?,
                out: self.tensor(out)?,
                rows: self.rows(x)?,
                k_blocks: layout::k_blocks(self.cols(x), 2) as i32,
                x_blocks: (self.cols(first) / COLUMNS) as i32,
                columns: columns as i32,
                capacity: layout::token_capacity(self.capacity(x)) as i32,
                activation: activation_number(activation),
                stored: self.real(out)? as i32,
                first: 0,
                pad: 0,
            });
            weight_rows.push(layout::weight_rows(columns, 0));
            k_blocks = k_blocks.max(layout::k_blocks(self.cols(x), 2));
            tokens = tokens.max(self.capacity(x));
        }
        let choice = split_linear::choose(self.device.processors, &weight_rows, k_blocks, tokens);
        for (product, first) in of.iter_mut().zip(&choice.first) {
            product.first = *first as i32;
        }
        let none = of.first().map(|&product| Product { first: NONE, ..product });
        while let (Some(none), true) = (none, of.len() < MOST_PRODUCTS) {
            of.push(none);
        }
        let of = of.try_into().map_err(|_| Error::Internal("too many products".to_owned()))?;
        let arguments = Products { of, stages: choice.stages as i32, pad: 0 };
        self.launch("sm90_split_linear", choice.entry, choice.grid, &arguments)
    }
}
