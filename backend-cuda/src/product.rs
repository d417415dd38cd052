//! The launch of an FP8 product.

use dikast_core::Result;

use crate::args;
use crate::compile::Kernels;
use crate::device::Device;
use crate::gemm::Choice;
use crate::launch::Launch;
use crate::layout::Stored;
use crate::tensor_map::Matrix;

/// `product` by the kernel chosen; `stored` is the format of its results, `tokens` the rows that they have room for.
pub(crate) fn launch(
    device: &Device,
    kernels: &Kernels,
    choice: &Choice,
    product: args::Fp8Gemm,
    (stored, tokens): (Stored, usize),
) -> Result<Launch> {
    let function = kernels.function(choice.kernel, choice.entry, choice.grid.shared)?;
    let Some((box_columns, added)) = choice.boxes() else {
        return Ok(Launch::new(choice.entry, function, choice.grid, &product));
    };
    let columns = product.columns as usize;
    let matrix = |address, added| Matrix { address, rows: tokens, columns, stored, box_columns, added };
    let out = matrix(product.out, added).map(device)?;
    // A residual that is added to where it lies, or none, is not looked at.
    let residual = if product.residual == 0 { out } else { matrix(product.residual, false).map(device)? };
    let arguments = args::Fp8GemmBoxes { product, pad: [0; 8], residual, out };
    Ok(Launch::new(choice.entry, function, choice.grid, &arguments))
}
