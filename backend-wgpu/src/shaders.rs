//! The shaders: one WGSL file a step, and the parts that several steps share.
//!
//! A module's text is a preamble and then files one after the other; WGSL does not care for their order. The preamble
//! is a few lines, and all that ever varies in the text:
//!
//! ```wgsl
//! enable f16;        // where an operand of a product is f16; and `wgpu_cooperative_matrix` where it needs that
//! alias X = f16;     // type in which the left operand of a product is multiplied
//! alias W = f16;     // type in which the weight is multiplied
//! fn round_x(v: vec4<f32>) -> vec4<f32> { return to_half(v); } // rounding that goes with X, and likewise `round_w`
//! ```
//!
//! E4M3 codes are exact in either type: there the types only say how a tile is kept in workgroup memory, f16 as bit patterns
//! that need no `enable`.
//!
//! The storage of a weight is chosen by the part that is put beside the step (`format_*.wgsl`: `Word` and `decode`), the
//! shape of a product by another (`tile.wgsl`, `skinny.wgsl` or `coop.wgsl`). Numbers (tile sizes, invocations a workgroup)
//! are pipeline-overridable constants.

mod clef;

pub(crate) use clef::{ClefShader, RowCodes};

use crate::format::{Element, Format};

/// A step's shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Shader {
    Embed(Format),
    RmsNorm,
    RmsNormQuantize,
    Quantize,
    LayerNorm,
    L2Normalize,
    Linear(Product),
    LinearGated(Product),
    QuantLinear(Product),
    QuantLinearGated(Product),
    Attention,
    SelectRows,
    PoolSpans,
    PoolText,
    Lstm(Format),
    Concat,
    PairProduct,
    HopfieldMix,
    Dot,
    Scale,
    /// Of no step: it measures the device.
    #[cfg_attr(target_arch = "wasm32", allow(dead_code, reason = "browsers have no clock for it"))]
    Copy,
    Clef(ClefShader),
    /// INT8 products of rows that are not rounded to codes.
    WeightLinear(Product),
    WeightLinearGated(Product),
}

/// What varies in a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Product {
    pub(crate) core: Core,
    /// Storage of the weight.
    pub(crate) format: Format,
    /// Type in which the left operand is multiplied.
    pub(crate) x: Element,
    /// Type in which the weight is multiplied.
    pub(crate) w: Element,
}

impl Product {
    /// `round_x` and `round_w`: what a value becomes before it is multiplied. Codes and f16 weights are exact as they
    /// are, and a bfloat16 has too many digits for a binary16 only where that is a denormal.
    fn rounding(self) -> String {
        let x = match (self.format, self.x) {
            // Rows that go with INT8 weights are stored as they are multiplied.
            (Format::E4m3 | Format::Int8, _) | (_, Element::F32) => "v",
            (_, Element::F16) => "to_half(v)",
        };
        let w = match (self.format, self.w) {
            (Format::Bf16, Element::F16) => "small_to_half(v, v)",
            (Format::F32, Element::F16) => "to_half(v)",
            _ => "v",
        };
        let function =
            |name: &str, value: &str| format!("fn {name}(v: vec4<f32>) -> vec4<f32> {{ return {value}; }}\n");
        function("round_x", x) + &function("round_w", w)
    }
}

/// The loop of a product. The tile and the skinny loop give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Core {
    /// Register tiles, operands through workgroup memory.
    Tile,
    /// Few rows, straight from storage memory.
    Skinny,
    /// Cooperative matrices of f16; quantized weights alone.
    Cooperative,
}

macro_rules! wgsl {
    ($name:literal) => {
        include_str!(concat!("../../shaders/", $name, ".wgsl"))
    };
}

const COMMON: &str = wgsl!("parts/common");
const REDUCE: &str = wgsl!("parts/reduce");
const ROW_SUMS: &str = wgsl!("parts/row_sums");
const ROW_DOT: &str = wgsl!("parts/row_dot");
const ROW_CODES: &str = wgsl!("parts/row_codes");
const MASK: &str = wgsl!("parts/mask");
const ACTIVATION: &str = wgsl!("parts/activation");
const QUANTIZER: &str = wgsl!("parts/quantizer");
const HALF: &str = wgsl!("parts/half");
const E4M3: &str = wgsl!("parts/e4m3");

impl Shader {
    /// The entry point.
    pub(crate) fn entry(self) -> &'static str {
        match self {
            Self::Embed(_) => "embed",
            Self::RmsNorm => "rms_norm",
            Self::RmsNormQuantize => "rms_norm_quantize",
            Self::Quantize => "quantize",
            Self::LayerNorm => "layer_norm",
            Self::L2Normalize => "l2_normalize",
            Self::Linear(_)
            | Self::LinearGated(_)
            | Self::QuantLinear(_)
            | Self::QuantLinearGated(_)
            | Self::WeightLinear(_)
            | Self::WeightLinearGated(_) => "product",
            Self::Attention => "attention",
            Self::SelectRows => "select_rows",
            Self::PoolSpans => "pool_spans",
            Self::PoolText => "pool_text",
            Self::Lstm(_) => "lstm",
            Self::Concat => "concat",
            Self::PairProduct => "pair_product",
            Self::HopfieldMix => "hopfield_mix",
            Self::Dot => "dot_rows",
            Self::Scale => "scale",
            Self::Copy => "copy",
            Self::Clef(shader) => shader.entry(),
        }
    }

    /// Whether binding 1, the batch's sizes, is there. Attention has its rows from the list of tasks, a copy has none.
    pub(crate) fn reads_sizes(self) -> bool {
        match self {
            Self::Attention | Self::Copy => false,
            Self::Clef(shader) => !shader.has_tasks(),
            _ => true,
        }
    }

    /// Whether every index in the shader is inside its buffer by construction. Products clamp rows to the batch's, columns
    /// to the piece's and k to the sum's length, and store only rows and columns that there are; attention clamps rows to its
    /// task's and distances to the table's; both index workgroup memory by invocation and by constants. Tasks, sizes and
    /// parameters come from `inputs.rs` and from the plan, which check them against the buffers.
    pub(crate) fn keeps_bounds(self) -> bool {
        let packed = matches!(self, Self::Clef(ClefShader::Int8Linear | ClefShader::Int8LinearGated));
        packed || self.product().is_some() || self == Self::Attention
    }

    /// The module's text.
    pub(crate) fn source(self) -> String {
        let mut text = String::new();
        if let Some(product) = self.product() {
            let Product { x, w, .. } = product;
            let codes = product.format == Format::E4m3;
            match product.core {
                Core::Cooperative => text.push_str("enable f16;\nenable wgpu_cooperative_matrix;\n"),
                Core::Skinny if codes => text.push_str("alias X = f32;\nalias W = f32;\n"),
                Core::Tile if codes => {}
                Core::Tile | Core::Skinny => {
                    if x == Element::F16 || w == Element::F16 {
                        text.push_str("enable f16;\n");
                    }
                    text.push_str(&format!("alias X = {};\nalias W = {};\n", x.wgsl(), w.wgsl()));
                }
            }
            if product.core == Core::Skinny || (product.core == Core::Tile && !codes) {
                text.push_str(&product.rounding());
            }
        }
        for part in self.parts() {
            text.push_str(part);
        }
        text
    }

    fn product(self) -> Option<Product> {
        match self {
            Self::Linear(p)
            | Self::LinearGated(p)
            | Self::QuantLinear(p)
            | Self::QuantLinearGated(p)
            | Self::WeightLinear(p)
            | Self::WeightLinearGated(p) => Some(p),
            _ => None,
        }
    }

    fn parts(self) -> Vec<&'static str> {
        let (step, shared): (_, &[&str]) = match self {
            Self::Embed(_) => (wgsl!("embed"), &[]),
            Self::RmsNorm => (wgsl!("rms_norm"), &[REDUCE, ROW_SUMS, MASK]),
            Self::RmsNormQuantize => {
                (wgsl!("rms_norm_quantize"), &[REDUCE, ROW_SUMS, MASK, ROW_CODES, QUANTIZER])
            }
            Self::Quantize => (wgsl!("quantize"), &[REDUCE, ROW_CODES, QUANTIZER]),
            Self::LayerNorm => (wgsl!("layer_norm"), &[REDUCE, ROW_SUMS, MASK]),
            Self::L2Normalize => (wgsl!("l2_normalize"), &[REDUCE, ROW_SUMS, MASK]),
            Self::Linear(_) => (wgsl!("linear"), &[ACTIVATION]),
            Self::LinearGated(_) => (wgsl!("linear_gated"), &[ACTIVATION]),
            Self::QuantLinear(_) => (wgsl!("quant_linear"), &[]),
            Self::QuantLinearGated(_) => (wgsl!("quant_linear_gated"), &[ACTIVATION]),
            Self::WeightLinear(_) => (wgsl!("clef/weight_linear"), &[]),
            Self::WeightLinearGated(_) => (wgsl!("clef/weight_linear_gated"), &[ACTIVATION]),
            Self::Attention => (wgsl!("attention"), &[]),
            Self::SelectRows => (wgsl!("select_rows"), &[]),
            Self::PoolSpans => (wgsl!("pool_spans"), &[]),
            Self::PoolText => (wgsl!("pool_text"), &[]),
            Self::Lstm(_) => (wgsl!("lstm"), &[]),
            Self::Concat => (wgsl!("concat"), &[]),
            Self::PairProduct => (wgsl!("pair_product"), &[]),
            Self::HopfieldMix => (wgsl!("hopfield_mix"), &[REDUCE, ROW_DOT, MASK]),
            Self::Dot => (wgsl!("dot"), &[REDUCE, ROW_DOT, MASK]),
            Self::Scale => (wgsl!("scale"), &[]),
            Self::Copy => (wgsl!("copy"), &[]),
            Self::Clef(shader) => shader.parts(),
        };
        let mut parts = shared.to_vec();
        if self.reads_sizes() {
            parts.push(COMMON);
        }
        let cooperative = self.product().is_some_and(|p| p.core == Core::Cooperative);
        if let Some(format) = self.format().filter(|_| !cooperative) {
            parts.push(match format {
                Format::E4m3 => wgsl!("parts/format_e4m3"),
                Format::Int8 => wgsl!("parts/format_int8"),
                Format::Bf16 => wgsl!("parts/format_bf16"),
                Format::F16 => wgsl!("parts/format_f16"),
                Format::F32 => wgsl!("parts/format_f32"),
            });
            if format == Format::E4m3 {
                parts.push(E4M3);
            }
        }
        if let Some(product) = self.product() {
            if product.rounding().contains("half") {
                parts.push(HALF);
            }
            match product.core {
                Core::Tile => parts.extend([wgsl!("parts/tile"), staged(product)]),
                Core::Skinny => parts.push(wgsl!("parts/skinny")),
                Core::Cooperative => parts.push(wgsl!("parts/coop")),
            }
            parts.extend(operand(product));
            if product.core == Core::Tile && product.format == Format::E4m3 {
                parts.push(wgsl!("parts/quad_codes"));
            }
        }
        parts.push(step);
        parts
    }

    fn format(self) -> Option<Format> {
        match self {
            Self::Embed(format) | Self::Lstm(format) | Self::Clef(ClefShader::PoolTableRows(format)) => {
                Some(format)
            }
            _ => self.product().map(|p| p.format),
        }
    }
}

/// How the left operand is read; by cooperative matrices both.
fn operand(product: Product) -> Vec<&'static str> {
    match (product.core, product.format, product.x) {
        (Core::Cooperative, Format::Int8, _) => vec![wgsl!("parts/coop_int8")],
        (Core::Cooperative, ..) => vec![wgsl!("parts/coop_e4m3")],
        (_, Format::E4m3, _) => vec![wgsl!("parts/x_e4m3")],
        (_, Format::Int8, Element::F16) => vec![wgsl!("parts/x_f16")],
        _ => vec![MASK, wgsl!("parts/x_f32")],
    }
}

/// How a tile is kept in workgroup memory.
fn staged(product: Product) -> &'static str {
    match (product.format, product.x) {
        (Format::E4m3, Element::F16) => wgsl!("parts/staged_codes"),
        (Format::E4m3, Element::F32) => wgsl!("parts/staged_codes_f32"),
        _ => wgsl!("parts/staged_values"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every module that the backend can ask for.
    fn all() -> Vec<Shader> {
        let mut all = vec![
            Shader::RmsNorm,
            Shader::RmsNormQuantize,
            Shader::Quantize,
            Shader::LayerNorm,
            Shader::L2Normalize,
            Shader::Attention,
            Shader::SelectRows,
            Shader::PoolSpans,
            Shader::PoolText,
            Shader::Concat,
            Shader::PairProduct,
            Shader::HopfieldMix,
            Shader::Dot,
            Shader::Scale,
            Shader::Copy,
        ];
        all.extend(ClefShader::all().map(Shader::Clef));
        let elements = [Element::F16, Element::F32];
        for format in [Format::E4m3, Format::Bf16, Format::F16, Format::F32] {
            all.extend([Shader::Embed(format), Shader::Lstm(format)]);
            if format == Format::E4m3 {
                let (core, x) = (Core::Cooperative, Element::F16);
                let product = Product { core, format, x, w: x };
                all.extend([Shader::QuantLinear(product), Shader::QuantLinearGated(product)]);
                let product = Product { format: Format::Int8, ..product };
                all.extend([Shader::WeightLinear(product), Shader::WeightLinearGated(product)]);
            }
            for core in [Core::Tile, Core::Skinny] {
                for x in elements {
                    if format == Format::E4m3 {
                        let product = Product { core, format: Format::Int8, x, w: x };
                        all.extend([Shader::WeightLinear(product), Shader::WeightLinearGated(product)]);
                    }
                    for w in elements {
                        let product = Product { core, format, x, w };
                        all.extend(if format == Format::E4m3 {
                            [Shader::QuantLinear(product), Shader::QuantLinearGated(product)]
                        } else {
                            [Shader::Linear(product), Shader::LinearGated(product)]
                        });
                    }
                }
            }
        }
        all
    }

    #[test]
    fn every_shader_is_valid() {
        use naga::valid::{Capabilities, ValidationFlags, Validator};
        for shader in all() {
            let source = shader.source();
            let module = naga::front::wgsl::parse_str(&source)
                .unwrap_or_else(|e| panic!("{shader:?}: {}", e.emit_to_string(&source)));
            let f16 = source.starts_with("enable f16;");
            // `unpack2x16float` is in every WebGPU device.
            let mut allowed = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
            allowed.set(Capabilities::SHADER_FLOAT16, f16);
            let cooperative = source.contains("enable wgpu_cooperative_matrix;");
            allowed.set(Capabilities::COOPERATIVE_MATRIX, cooperative);
            Validator::new(ValidationFlags::all(), allowed)
                .validate(&module)
                .unwrap_or_else(|e| panic!("{shader:?}: {}", e.emit_to_string(&source)));
            let entry = &module.entry_points[0];
            assert_eq!(module.entry_points.len(), 1, "{shader:?}");
            assert_eq!(entry.name, shader.entry(), "{shader:?}");
            let storage = module
                .global_variables
                .iter()
                .filter(|(_, v)| matches!(v.space, naga::AddressSpace::Storage { .. }))
                .count();
            assert!(storage <= 8, "{shader:?} binds {storage} storage buffers; WebGPU grants 8");
        }
    }
}
