//! How a device is chosen and limited.

use std::time::Duration;

use dikast_core::backend::Planted;

/// Environment variable that names an adapter: its number in [`crate::adapters`], or a part of its name.
pub const ADAPTER_VARIABLE: &str = "DIKAST_ADAPTER";

/// Which adapter to use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AdapterChoice {
    /// What the platform calls its fastest; software adapters last.
    #[default]
    Fastest,
    /// Number in the order of [`crate::adapters`]. Native only.
    Index(usize),
    /// The first whose name contains this, upper and lower case alike. Native only.
    Name(String),
}

/// Type in which products multiply; sums and the residual stream are f32 in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// f16 for operands whose values are known to fit, where the device has `shader-f16`.
    #[default]
    Auto,
    /// f32 everywhere.
    F32,
}

/// Loop of the matrix products, for tests and measurements.
///
/// `Skinny` and `Tile` sum in the same order with the same operations. Software devices compile both to the same bits, and there
/// `Auto` takes either, by the number of rows. GPU drivers may compile what follows the sum to other last bits in one loop than
/// in the other, so on a GPU `Auto` keeps to tiles. `Cooperative` is another sum of the same exact products; `Auto` takes it
/// where the device has it, for every number of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProductChoice {
    /// By the number of rows and the device.
    #[default]
    Auto,
    /// The loop for few rows.
    Skinny,
    /// A register tile: four times `threads_m × threads_n` invocations, each of `rows × 8` results over a quarter of K, `depth`
    /// columns of it at once. Packed products of INT8 codes take `threads_m × threads_n` invocations over all of K. Numbers are rounded down to powers of two, and to what the device has room for.
    Tile {
        /// Invocations along the rows.
        threads_m: u32,
        /// Invocations along the columns.
        threads_n: u32,
        /// Rows of an invocation: 4 or 8.
        rows: u32,
        /// K per step, a multiple of 4 and at most four times either number of invocations.
        depth: u32,
        /// Tiles in workgroup memory: with 2 one is filled while the other is multiplied.
        buffers: u32,
    },
    /// Cooperative matrices, where the device has them: tiles of `32 m × 32 n` results, both 1, 2 or 4. Products that
    /// cannot have them run as with `Auto`.
    Cooperative {
        /// Subgroups along the rows.
        m: u32,
        /// Subgroups along the columns.
        n: u32,
    },
}

/// Whether products of E4M3 operands may run on cooperative matrices (tensor cores).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matrices {
    /// Where the device has them and `shader-f16` is in use; native only.
    #[default]
    Auto,
    /// Never: the loops that every device has.
    Off,
}

/// How products with INT8 weights multiply where the model's quantizers are `standard`. With `exact` ones they are always
/// [`Int8Products::Packed`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Int8Products {
    /// Packed where the adapter says that its hardware does that (of the interfaces, Vulkan alone tells); elsewhere
    /// weights alone.
    #[default]
    Auto,
    /// Weights alone are codes: rows are rotated and scaled, but not rounded to codes, and multiplied in f16, where
    /// the device has it, or f32. Sums are f32.
    WeightOnly,
    /// Rows are codes too, multiplied four at a time (`dot4I8Packed`) and summed in i32: exact. Devices that lack the
    /// instruction do the same in several.
    Packed,
}

/// Limits lower than what the adapter grants. A value of `None` takes what it grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LimitOverrides {
    /// Bytes of one buffer.
    pub buffer: Option<u64>,
    /// Bytes of one storage binding; larger weights are split by rows.
    pub binding: Option<u64>,
    /// Workgroups in one dimension of a dispatch.
    pub workgroups: Option<u32>,
    /// Bytes of workgroup memory.
    pub workgroup_memory: Option<u32>,
    /// Invocations of a workgroup.
    pub invocations: Option<u32>,
}

/// How a device is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Which adapter.
    pub adapter: AdapterChoice,
    /// Type of the products' operands.
    pub precision: Precision,
    /// Limits to stay under.
    pub limits: LimitOverrides,
    /// Bytes that weights and activations may take; `None` for no limit of our own (WebGPU does not tell).
    pub memory: Option<u64>,
    /// How long the device may take for one batch or one part of an upload before it counts as lost. Native only.
    pub timeout: Duration,
    /// Cooperative matrices.
    pub matrices: Matrices,
    /// Loop of the products.
    pub product: ProductChoice,
    /// Products with INT8 weights.
    pub int8: Int8Products,
    /// A fault in a shader, named by its entry point: for tests.
    pub planted: Option<Planted>,
}

impl Default for DeviceOptions {
    fn default() -> Self {
        Self {
            adapter: AdapterChoice::default(),
            precision: Precision::default(),
            limits: LimitOverrides::default(),
            memory: None,
            timeout: Duration::from_secs(120),
            matrices: Matrices::default(),
            product: ProductChoice::default(),
            int8: Int8Products::default(),
            planted: None,
        }
    }
}

impl DeviceOptions {
    /// The defaults, with the adapter that [`ADAPTER_VARIABLE`] names, if it is set and not empty.
    pub fn from_env() -> Self {
        let adapter = match std::env::var(ADAPTER_VARIABLE) {
            Ok(value) if !value.is_empty() => {
                value.parse().map_or(AdapterChoice::Name(value), AdapterChoice::Index)
            }
            _ => AdapterChoice::Fastest,
        };
        Self { adapter, ..Self::default() }
    }
}
