//! One step of a graph on given operands: what another backend's step should have written.

use super::execute;
use super::store::{Operands, Store};
use crate::backend::Batch;
use crate::checkpoint::Weights;
use crate::graph::{DType, Graph, TensorId};
use crate::numerics::e4m3;
use crate::numerics::int8::Int8Rows;
use crate::{Error, Result};

/// Executes the step of a graph with this index on operands as a tap gives them: row-major, codes as their values.
/// `operand` is asked for every tensor that the step reads and the batch does not bring along. `int8` says what the codes of
/// `standard` INT8 quantizers are there.
///
/// The outputs come in the order of [`crate::graph::Step::outputs`]; `None` when an operand is not there.
///
/// # Errors
/// [`Error::Internal`] for a step or operand that does not fit the graph.
pub fn replay(
    graph: &Graph,
    weights: &Weights,
    batch: &Batch,
    step: usize,
    int8: Int8Rows,
    operand: impl Fn(TensorId) -> Option<Vec<f32>>,
) -> Result<Option<Vec<Vec<f32>>>> {
    let step = graph.steps().get(step).ok_or_else(|| Error::Internal(format!("there is no step {step}")))?;
    let mut store = Store::new(graph, &batch.sizes);
    for id in step.reads() {
        if let Some(input) = graph.inputs().iter().find(|i| i.tensor == id) {
            store.put_input(input, batch)?;
            continue;
        }
        let Some(values) = operand(id) else { return Ok(None) };
        if values.len() != graph.len(id, &batch.sizes) {
            let name = &graph.tensor(id).name;
            return Err(Error::Internal(format!("{} values for tensor {name}", values.len())));
        }
        match graph.tensor(id).dtype {
            DType::F32 => store.put_f32(id, values),
            DType::I32 => store.put_i32(id, values.iter().map(|&v| v as i32).collect()),
            DType::F8E4M3 => store.put_codes(id, values.iter().map(|&v| e4m3::encode(v)).collect()),
            // Of mode `exact` these are whole numbers, so that nothing is lost.
            DType::I8 if int8 == Int8Rows::Unrounded && values.iter().any(|v| v.fract() != 0.0) => {
                store.put_f32(id, values);
            }
            DType::I8 => store.put_int8(id, values.iter().map(|&v| v as i8).collect()),
        }
    }
    execute(step, &Operands { graph, weights, int8 }, &mut store)?;
    step.outputs().into_iter().map(|id| store.widened(id)).collect::<Result<_>>().map(Some)
}
