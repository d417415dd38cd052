//! The listing.

use std::fmt;

use super::{DType, Graph, Tensor};

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dtype = match self.dtype {
            DType::F32 => "f32",
            DType::I32 => "i32",
            DType::F8E4M3 => "f8e4m3",
            DType::I8 => "i8",
        };
        write!(f, "{}: {dtype}[", self.name)?;
        for (i, dim) in self.shape.iter().enumerate() {
            write!(f, "{}{dim}", if i == 0 { "" } else { ", " })?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "graph {}", self.name)?;
        for input in &self.inputs {
            writeln!(f, "  input  {}", self.tensor(input.tensor))?;
        }
        for (index, step) in self.steps.iter().enumerate() {
            let outputs: Vec<String> = step.outputs().iter().map(|&id| self.tensor(id).to_string()).collect();
            let reads: Vec<&str> = step.reads().iter().map(|&id| self.tensor(id).name.as_str()).collect();
            write!(f, "{index:>4}  {} = {}({}", outputs.join(", "), step.name(), reads.join(", "))?;
            for id in step.weights() {
                let weight = self.weight(id);
                write!(f, "; {}{:?}", weight.name, weight.shape)?;
            }
            writeln!(f, ")")?;
        }
        writeln!(f, "  output {}", self.tensor(self.output))
    }
}
