//! Times of the row functions, of the quantizer behind them and of the convolution, on made-up rows.

use dikast_core::Result;
use dikast_core::numerics::int8::Int8Mode;

use super::conv::CausalConv;
use super::rows::{Quantized, Quantizer, RotateQuantize, RowFunction, quantizer};
use crate::backend::CudaBackend;
use crate::launch::Launch;
use crate::layout::{self, Stored};
use crate::memory::DeviceMemory;

/// A kernel with the formats that it has in a deep model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKernel {
    /// Rows in f32; `kept` writes the normed rows too.
    RmsNorm {
        /// Whether the rows are written.
        kept: bool,
    },
    /// Rows in bfloat16.
    Copy,
    /// Heads of 128, rows and gates in bfloat16, gates part of a wider matrix.
    GatedRmsNorm,
    /// Heads of 256, rows and gates in bfloat16, gates part of a wider matrix.
    SigmoidGate,
    /// Channels in bfloat16, part of a wider matrix.
    CausalConv,
}

/// What a kernel took.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RowTime {
    /// Microseconds a launch, from device memory.
    pub microseconds: f64,
    /// Bytes that it must read and write.
    pub bytes: usize,
}

/// Device bytes over which launches are spread so that operands come from memory, not from the cache.
const COLD_BYTES: usize = 256 << 20;

impl CudaBackend {
    /// Times a kernel on `tokens` rows `width` wide, in groups of 256, `standard`.
    ///
    /// # Errors
    /// As for any work on the device.
    pub fn time_rows(&self, kernel: RowKernel, width: usize, tokens: usize) -> Result<RowTime> {
        let kept = kernel == RowKernel::RmsNorm { kept: true };
        let gated = matches!(kernel, RowKernel::GatedRmsNorm | RowKernel::SigmoidGate);
        let stored = if matches!(kernel, RowKernel::RmsNorm { .. }) { Stored::F32 } else { Stored::BF16 };
        let convolved = kernel == RowKernel::CausalConv;
        // Beside the gates or channels lies half as much again.
        let pitch = width / 2 * 3;
        let x_bytes = stored.bytes() * tokens * width;
        let wide_bytes = if gated || convolved { 2 * tokens * pitch } else { 0 };
        let out_bytes = if convolved { 2 * tokens * width } else { layout::codes_bytes(tokens, width) };
        let kept_bytes = if kept { 4 * tokens * width } else { 0 };
        let bytes = x_bytes
            + if gated { x_bytes } else { 0 }
            + if convolved { x_bytes } else { tokens * width + 4 * tokens }
            + kept_bytes;
        let copies = COLD_BYTES.div_ceil(bytes).clamp(2, 32);

        let memory = |bytes: usize| -> Result<DeviceMemory> {
            let memory = DeviceMemory::new(&self.device, bytes.max(16))?;
            // Small numbers in every format here.
            memory.fill(0x3C)?;
            Ok(memory)
        };
        let weight = memory(4 * 4 * width)?;
        let scales = memory(4 * layout::token_capacity(tokens))?;
        let sizes = memory(16)?;
        sizes.write(0, &[tokens as i32, 1, 0, tokens as i32])?;
        let mut buffers = Vec::new();
        let mut launches = Vec::new();
        for _ in 0..copies {
            let [x, wide, out, rows] = [x_bytes, wide_bytes, out_bytes, kept_bytes].map(memory);
            let (x, wide, out, rows) = (x?, wide?, out?, rows?);
            launches.push(if convolved {
                let arguments = CausalConv {
                    x: wide.address(),
                    weight: weight.address(),
                    offsets: sizes.address() + 8,
                    out: out.address(),
                    rows: sizes.address(),
                    sequences: sizes.address() + 4,
                    pitch: pitch as i32,
                    channels: width as i32,
                    block_rows: super::conv::block_rows(tokens) as i32,
                    pad: 0,
                    before: 0,
                };
                let grid = super::conv::grid(width, tokens);
                let function = self.kernels.function("causal_conv", "causal_conv_bf16", grid.shared)?;
                Launch::new("causal_conv_bf16", function, grid, &arguments)
            } else {
                let head = if kernel == RowKernel::SigmoidGate { 256 } else { 128 };
                let normed = if kernel == RowKernel::GatedRmsNorm { head } else { width };
                let op = RowFunction {
                    x: x.address(),
                    gate: wide.address(),
                    weight: weight.address(),
                    share: 1.0 / normed as f64,
                    width: width as i32,
                    stored: stored as i32,
                    gate_pitch: pitch as i32,
                    gate_head: head as i32,
                    gate_stride: head as i32,
                    gate_stored: Stored::BF16 as i32,
                    head: normed as i32,
                    eps: 1e-6,
                };
                let arguments = RotateQuantize {
                    op,
                    kept: if kept { rows.address() } else { 0 },
                    codes: out.address(),
                    scales: scales.address(),
                    rows: sizes.address(),
                    capacity: layout::token_capacity(tokens) as i32,
                    digits: 4,
                    kept_stored: Stored::F32 as i32,
                    pad: 0,
                };
                let quantized = match kernel {
                    RowKernel::RmsNorm { .. } => Quantized::RmsNorm,
                    RowKernel::GatedRmsNorm => Quantized::GatedRmsNorm([Stored::BF16; 2]),
                    RowKernel::SigmoidGate => Quantized::SigmoidGate([Stored::BF16; 2]),
                    _ => Quantized::Copy(Stored::BF16),
                };
                let Quantizer { file, entry, grid } =
                    quantizer(quantized, (4, Int8Mode::Standard), width, tokens, self.device.processors)
                        .ok_or_else(|| self.device.lacks(format!("codes of rows {width} wide")))?;
                Launch::new(entry, self.kernels.function(file, entry, grid.shared)?, grid, &arguments)
            });
            buffers.push([x, wide, out, rows]);
        }
        let microseconds = self.time_launches(&launches)?;
        drop(buffers);
        Ok(RowTime { microseconds, bytes })
    }
}
