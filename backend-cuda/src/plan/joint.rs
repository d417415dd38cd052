//! The joint schema head.

use dikast_core::Result;
use dikast_core::graph::Step;

use super::{Builder, ROW_THREADS};
use crate::args::{Address, arguments};
use crate::launch::{Grid, Launch};
use crate::layout::Stored;

arguments! {
    /// `joint.cu`
    PoolTableRows {
        table: Address, ids: Address, offsets: Address, out: Address, rows: Address, width: i32, stored: i32,
    }
    /// `joint.cu`
    SoftmaxPool {
        x: Address, query: Address, offsets: Address, out: Address, rows: Address, width: i32, scale: f32,
    }
    /// `joint.cu`
    SumTerms { terms: [Address; MOST_TERMS], out: Address, rows: Address, count: i32, width: i32 }
    /// `joint.cu`
    PairFeatures {
        left: Address, right: Address, owner: Address, out: Address, rows: Address, width: i32, pad: i32,
    }
    /// `joint.cu`
    JointScore {
        question: Address, summary: Address, lexical: Address, field: Address, option: Address, residual: Address,
        prior_scale: Address, joint_scale: Address, gate: Address, owner: Address, sequence: Address,
        out: Address, rows: Address, hidden: i32, width: i32,
    }
}

/// Terms of one sum.
const MOST_TERMS: usize = 8;

impl Builder<'_> {
    pub(super) fn joint(&self, step: &Step) -> Result<Launch> {
        match *step {
            Step::PoolTableRows { ids, offsets, table, out } => {
                // Rows that the host gathered lie in the order of the ids; a table that lies here is float32.
                let (table, ids, stored) = match self.inputs.table_of(table) {
                    Some((offset, stored)) => (self.block + offset as u64, 0, self.real_number(stored)?),
                    None => (self.vector(table)?, self.tensor(ids)?, Stored::F32 as i32),
                };
                let arguments = PoolTableRows {
                    table,
                    ids,
                    offsets: self.tensor(offsets)?,
                    out: self.float32(out)?,
                    rows: self.rows(out)?,
                    width: self.quads_wide(out)?,
                    stored,
                };
                let parts = self.cols(out).div_ceil(4 * ROW_THREADS);
                let grid = Grid::new(self.capacity(out), parts, ROW_THREADS);
                self.launch("joint", "pool_table_rows", grid, &arguments)
            }
            Step::SoftmaxPool { x, query, offsets, scale, out } => {
                let arguments = SoftmaxPool {
                    x: self.float32(x)?,
                    query: self.float32(query)?,
                    offsets: self.tensor(offsets)?,
                    out: self.float32(out)?,
                    rows: self.rows(out)?,
                    width: self.row_width(out)?,
                    scale,
                };
                let entry = if self.cols(out) <= 2048 { "softmax_pool_2" } else { "softmax_pool_8" };
                self.by_row("joint", entry, out, &arguments)
            }
            Step::Sum { ref terms, out } => {
                if terms.len() > MOST_TERMS {
                    return Err(self
                        .device
                        .lacks(format!("a sum of {} terms ({MOST_TERMS} at most)", terms.len())));
                }
                let mut addresses = [0; MOST_TERMS];
                for (address, term) in addresses.iter_mut().zip(terms) {
                    *address = self.float32(*term)?;
                }
                let arguments = SumTerms {
                    terms: addresses,
                    out: self.float32(out)?,
                    rows: self.rows(out)?,
                    count: terms.len() as i32,
                    width: self.quads_wide(out)?,
                };
                self.launch("joint", "sum_terms", self.by_quad(out), &arguments)
            }
            Step::PairFeatures { left, right, owner, out } => {
                let arguments = PairFeatures {
                    left: self.float32(left)?,
                    right: self.float32(right)?,
                    owner: self.tensor(owner)?,
                    out: self.float32(out)?,
                    rows: self.rows(right)?,
                    width: self.quads_wide(right)?,
                    pad: 0,
                };
                self.launch("joint", "pair_features", self.by_quad(right), &arguments)
            }
            Step::JointScore {
                question,
                summary,
                sequence,
                lexical,
                field,
                option,
                owner,
                residual,
                prior_scale,
                joint_scale,
                gate,
                out,
            } => {
                let arguments = JointScore {
                    question: self.float32(question)?,
                    summary: self.float32(summary)?,
                    lexical: self.float32(lexical)?,
                    field: self.float32(field)?,
                    option: self.float32(option)?,
                    residual: self.float32(residual)?,
                    prior_scale: self.vector(prior_scale)?,
                    joint_scale: self.vector(joint_scale)?,
                    gate: self.vector(gate)?,
                    owner: self.tensor(owner)?,
                    sequence: self.tensor(sequence)?,
                    out: self.float32(out)?,
                    rows: self.rows(out)?,
                    hidden: self.quads_wide(question)?,
                    width: self.quads_wide(field)?,
                };
                self.by_row("joint", "joint_score", out, &arguments)
            }
            _ => Err(crate::support::lacking(step)),
        }
    }
}
