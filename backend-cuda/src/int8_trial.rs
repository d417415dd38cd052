//! INT8 products on their own: every kernel, tile and cut that a product can have, checked bit for bit and timed.

use dikast_core::graph::Activation;
use dikast_core::{Error, Result};

use crate::backend::CudaBackend;
use crate::device::Target;
use crate::gemm::Chip;
use crate::int8_gemm::{self, Choice, End, Exit, Operands, Shape};
use crate::launch::Launch;
use crate::layout::{self, K_BLOCK, Stored};
use crate::memory::DeviceMemory;
use crate::plan::Int8Gemm;

/// A product of random codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Int8Case {
    /// Rows of the weight; of both halves where gated.
    pub n: usize,
    /// Depth.
    pub k: usize,
    /// Rows of the activations.
    pub tokens: usize,
    /// Rows that the kernels are chosen and launched for, at least `tokens`.
    pub bucket: usize,
    /// SiLU of the first half of the columns times the second.
    pub gated: bool,
    /// Adds a bias.
    pub bias: bool,
    /// Adds a residual.
    pub residual: bool,
    /// Results in bfloat16, else float32.
    pub sixteen: bool,
}

/// What one kernel made of a product.
#[derive(Debug, Clone, PartialEq)]
pub struct Int8Trial {
    /// Kernel entry point.
    pub kernel: &'static str,
    /// Whether the plan would take this one.
    pub chosen: bool,
    /// Row tiles and token tiles of a cluster.
    pub cluster: [usize; 2],
    /// Stages of the ring, and slots of staged rows.
    pub ring: [usize; 2],
    /// Whether items are cut along k.
    pub stream: bool,
    /// Blocks along x and y.
    pub blocks: [usize; 2],
    /// Sampled results that are not the ones computed on the host; gated ones may differ by rounding.
    pub wrong: usize,
    /// Elements that differ from the first kernel's.
    pub differing: usize,
    /// Microseconds a product, where it was timed.
    pub microseconds: Option<f64>,
}

/// Device bytes over which weights are spread so that they come from memory, not from the cache.
const COLD_BYTES: usize = 256 << 20;
/// Results compared between kernels, from both ends.
const COMPARED_BYTES: usize = 32 << 20;
/// Results computed on the host.
const SAMPLES: usize = 300;
/// Kernels of a product.
const MOST_TRIALS: usize = 18;

struct Xorshift(u64);

impl Xorshift {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn codes(&mut self, count: usize) -> Vec<i8> {
        let mut codes = Vec::with_capacity(count + 8);
        while codes.len() < count {
            codes.extend(self.next().to_le_bytes().map(u8::cast_signed));
        }
        codes.truncate(count);
        codes
    }

    /// Numbers of both signs around `size`.
    fn reals(&mut self, count: usize, size: f32) -> Vec<f32> {
        (0..count).map(|_| size * ((self.next() >> 40) as f32 / 8_388_608.0 - 1.0)).collect()
    }
}

/// A product on the host and on the device.
struct Product {
    case: Int8Case,
    stored: Stored,
    columns: usize,
    half: usize,
    k_blocks: usize,
    weight_rows: usize,
    capacity: usize,
    host: Host,
    weights: DeviceMemory,
    copies: usize,
    codes: DeviceMemory,
    scales: DeviceMemory,
    row_scales: DeviceMemory,
    bias: DeviceMemory,
    residual: DeviceMemory,
    out: DeviceMemory,
    rows: DeviceMemory,
    partials: DeviceMemory,
    flags: DeviceMemory,
}

/// Operands in the device's order.
struct Host {
    weight: Vec<i8>,
    codes: Vec<i8>,
    scales: Vec<f32>,
    row_scales: Vec<f32>,
    bias: Vec<f32>,
    residual: Vec<f32>,
}

impl Product {
    fn new(backend: &CudaBackend, case: Int8Case, copies: usize) -> Result<Self> {
        if case.tokens > case.bucket
            || case.n == 0
            || case.k == 0
            || case.tokens == 0
            || (case.gated && !case.n.is_multiple_of(2))
        {
            return Err(Error::Internal(format!("no product: {case:?}")));
        }
        let stored = if case.sixteen { Stored::BF16 } else { Stored::F32 };
        let columns = if case.gated { case.n / 2 } else { case.n };
        let half = if case.gated { columns } else { 0 };
        let k_blocks = layout::k_blocks(case.k, 1);
        let weight_rows = layout::weight_rows(case.n, half);
        let capacity = layout::token_capacity(case.bucket);
        let mut random = Xorshift(0x9E37_79B9_7F4A_7C15);
        let mut host = Host {
            weight: random.codes(layout::weight_bytes(case.n, half, k_blocks)),
            codes: random.codes(layout::codes_bytes(case.bucket, case.k)),
            scales: random.reals(capacity, 0.01),
            row_scales: random.reals(weight_rows, 0.003),
            bias: random.reals(weight_rows, 1.0),
            residual: random.reals(if case.residual { case.bucket * columns } else { 0 }, 10.0),
        };
        // Beyond the depth there are zeros.
        for k in case.k..k_blocks * K_BLOCK {
            (0..weight_rows).for_each(|row| host.weight[weight_at(row, k, k_blocks)] = 0);
            (0..capacity).for_each(|row| host.codes[layout::code_offset(row, k, capacity)] = 0);
        }
        let memory = |bytes| DeviceMemory::new(&backend.device, bytes);
        let weights = memory(copies * host.weight.len())?;
        (0..copies).try_for_each(|copy| weights.write(copy * host.weight.len(), &host.weight))?;
        let filled = |values: &[f32]| -> Result<DeviceMemory> {
            let block = memory(4 * values.len())?;
            block.write(0, values)?;
            Ok(block)
        };
        let codes = memory(host.codes.len())?;
        codes.write(0, &host.codes)?;
        let rows = memory(4)?;
        rows.write(0, &[case.tokens as i32])?;
        let flags = memory(4 * int8_gemm::FLAGS)?;
        flags.fill(0)?;
        Ok(Self {
            weights,
            codes,
            scales: filled(&host.scales)?,
            row_scales: filled(&host.row_scales)?,
            bias: filled(&host.bias)?,
            residual: filled(&host.residual)?,
            out: memory(stored.bytes() * columns * case.bucket)?,
            rows,
            partials: memory(int8_gemm::scratch_bytes(k_blocks))?,
            flags,
            case,
            stored,
            columns,
            half,
            k_blocks,
            weight_rows,
            capacity,
            host,
            copies,
        })
    }

    fn shape(&self) -> Shape {
        let end = End {
            columns: self.columns,
            gate: self.case.gated.then_some(Activation::Silu),
            bias: self.case.bias,
            residual: self.case.residual,
            stored: self.stored,
        };
        Shape {
            operands: Operands::Int8,
            weight_rows: self.weight_rows,
            k_blocks: self.k_blocks,
            tokens: self.case.bucket,
            exit: Exit::of(Operands::Int8, end),
        }
    }

    fn launches(&self, backend: &CudaBackend, choice: Choice) -> Result<Vec<Launch>> {
        let function = backend.kernels.function(choice.kernel, choice.entry, choice.grid.shared)?;
        let given = |there: bool, block: &DeviceMemory| if there { block.address() } else { 0 };
        let launch = |copy: usize| {
            let arguments = Int8Gemm {
                codes: self.codes.address(),
                scales: self.scales.address(),
                weight: self.weights.address() + (copy * self.host.weight.len()) as u64,
                weight_scales: self.row_scales.address(),
                bias: given(self.case.bias, &self.bias),
                residual: given(self.case.residual, &self.residual),
                out: self.out.address(),
                rows: self.rows.address(),
                partials: self.partials.address(),
                flags: self.flags.address(),
                capacity: self.capacity as i32,
                k_blocks: self.k_blocks as i32,
                columns: self.columns as i32,
                gated: i32::from(self.case.gated),
                activation: if self.case.gated { 4 } else { 0 },
                row_tiles: choice.row_tiles as i32,
                cluster_tokens: choice.cluster_tokens as i32,
                stages: choice.stages as i32,
                slots: choice.slots as i32,
                stream: i32::from(choice.partials > 0),
                stored: self.stored as i32,
                pad: 0,
            };
            Launch::new(choice.entry, function.clone(), choice.grid, &arguments)
        };
        Ok((0..self.copies).map(launch).collect())
    }

    /// Bytes from the beginning and the end of the results.
    fn results(&self) -> Result<Vec<u8>> {
        let bytes = self.stored.bytes() * self.columns * self.case.tokens;
        if bytes <= COMPARED_BYTES {
            return self.out.read(0, bytes);
        }
        let mut results = self.out.read(0, COMPARED_BYTES / 2)?;
        results.extend(self.out.read::<u8>(bytes - COMPARED_BYTES / 2, COMPARED_BYTES / 2)?);
        Ok(results)
    }

    /// f32 of row `t` of the activations and row `w` of the weight, as the device orders them.
    fn value(&self, t: usize, w: usize) -> f32 {
        let sum: i32 = (0..self.case.k)
            .map(|k| {
                let x = self.host.codes[layout::code_offset(t, k, self.capacity)];
                i32::from(x) * i32::from(self.host.weight[weight_at(w, k, self.k_blocks)])
            })
            .sum();
        let y = (sum as f32 * self.host.scales[t]) * self.host.row_scales[w];
        if self.case.bias { y + self.host.bias[w] } else { y }
    }

    /// Result `(t, n)`.
    fn expected(&self, t: usize, n: usize) -> f32 {
        let first = self.value(t, layout::place_of(n, self.half));
        if self.case.gated {
            let up = self.value(t, layout::place_of(n + self.half, self.half));
            return first / (1.0 + (-first).exp()) * up;
        }
        if self.case.residual { first + self.host.residual[t * self.columns + n] } else { first }
    }

    /// Samples, the corners among them, that are not as computed here.
    fn wrong(&self) -> Result<usize> {
        let mut random = Xorshift(0x1234_5678_9ABC_DEF1);
        let (tokens, columns) = (self.case.tokens, self.columns);
        let corners = [(0, 0), (0, columns - 1), (tokens - 1, 0), (tokens - 1, columns - 1)];
        let samples = (0..SAMPLES.min(tokens * columns))
            .map(|_| ((random.next() >> 20) as usize % tokens, (random.next() >> 20) as usize % columns));
        let mut wrong = 0;
        for (t, n) in corners.into_iter().chain(samples.collect::<Vec<_>>()) {
            let (at, expected) = (t * columns + n, self.expected(t, n));
            let (got, expected) = if self.case.sixteen {
                let bits = self.out.read::<u16>(2 * at, 1)?[0];
                (half::bf16::from_bits(bits).to_f32(), half::bf16::from_f32(expected).to_f32())
            } else {
                (self.out.read::<f32>(4 * at, 1)?[0], expected)
            };
            let near = if self.case.sixteen { 0.01 } else { 1e-5 };
            let good = if self.case.gated {
                (got - expected).abs() <= near * expected.abs() + 1e-30
            } else {
                got.to_bits() == expected.to_bits()
            };
            wrong += usize::from(!good);
        }
        Ok(wrong)
    }
}

/// Place of element `k` of a weight's row.
fn weight_at(row: usize, k: usize, k_blocks: usize) -> usize {
    let tile = row / layout::TILE_ROWS * k_blocks + k / K_BLOCK;
    tile * layout::TILE_ROWS * K_BLOCK + layout::code_offset(row % layout::TILE_ROWS, k % K_BLOCK, 0)
}

impl CudaBackend {
    /// Runs a product with every kernel that can do it, on poisoned memory, and compares; with `timed`, times each with
    /// weights from device memory, one product after the other as in a forward.
    ///
    /// # Errors
    /// A case without elements; as for any work on the device.
    pub fn try_int8(&self, case: Int8Case, timed: bool) -> Result<Vec<Int8Trial>> {
        let weight_bytes = layout::weight_bytes(
            case.n,
            if case.gated { case.n / 2 } else { 0 },
            layout::k_blocks(case.k, 1),
        );
        let copies = if timed { COLD_BYTES.div_ceil(weight_bytes.max(1)).clamp(2, 8) } else { 1 };
        let product = Product::new(self, case, copies)?;
        let (shape, chip) = (
            product.shape(),
            Chip {
                target: self.device.target,
                processors: self.device.processors,
                shared: self.device.shared,
            },
        );
        let chosen =
            if self.options.portable { int8_gemm::portable(shape) } else { int8_gemm::choose(chip, shape) };
        let mut choices = vec![chosen];
        if self.device.target == Target::Hopper && shape.exit != Exit::Portable {
            let rest = int8_gemm::candidates(chip, shape).into_iter().filter(|c| *c != chosen);
            choices.extend(rest.take(if timed { MOST_TRIALS } else { usize::MAX }));
        }
        if !timed && chosen.kernel != "sm89_int8_gemm" {
            choices.push(int8_gemm::portable(shape));
        }
        let mut first: Option<Vec<u8>> = None;
        let mut trials = Vec::new();
        for choice in choices {
            let launches = product.launches(self, choice)?;
            product.out.fill(0xFF)?;
            product.partials.fill(0xFF)?;
            launches[0].submit(&self.device, false)?;
            self.device.synchronize(choice.entry)?;
            let results = product.results()?;
            let wrong = product.wrong()?;
            let size = product.stored.bytes();
            let reference = first.get_or_insert_with(|| results.clone());
            let pairs = results.chunks(size).zip(reference.chunks(size));
            let differing = pairs.filter(|(a, b)| a != b).count();
            let microseconds = if timed { Some(self.time_launches(&launches)?) } else { None };
            trials.push(Int8Trial {
                kernel: choice.entry,
                chosen: choice == chosen,
                cluster: [choice.grid.cluster / choice.cluster_tokens.max(1), choice.cluster_tokens],
                ring: [choice.stages, choice.slots],
                stream: choice.partials > 0,
                blocks: choice.grid.blocks,
                wrong,
                differing,
                microseconds,
            });
        }
        Ok(trials)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_weight_have_places_of_their_own() {
        let (rows, k, k_blocks) = (192, 300, 3);
        let places: std::collections::HashSet<_> =
            (0..rows).flat_map(|r| (0..k).map(move |k| weight_at(r, k, k_blocks))).collect();
        assert_eq!(places.len(), rows * k);
        assert!(places.iter().all(|&at| at < layout::weight_bytes(rows, 0, k_blocks)));
    }
}
