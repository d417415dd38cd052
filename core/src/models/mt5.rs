//! The mT5 (T5 v1.1) encoder: pre-norm blocks, relative position bias, gated feed-forward, no biases.
//!
//! ```text
//! h = embed(ids)
//! block:  h += o(attention(qkv(norm(h))))         unscaled scores + relative bias of block 0
//!         h += wo(gelu(wi_0 n) · (wi_1 n))        n = norm(h)
//! out = norm(h)
//! ```

use crate::checkpoint::{StoredType, Weights};
use crate::graph::{
    Activation, Columns, Elements, GraphBuilder, InputKind, RelativeBias, Residency, TensorId, Weight,
    WeightId,
};
use crate::models::gliclass::Mt5Config;
use crate::{Error, Result};

/// Where the encoder's tensors live in a GLiClass checkpoint.
pub const PREFIX: &str = "model.encoder_model.";

/// Adds the encoder to a graph; returns the last hidden state `[tokens, d_model]`.
///
/// `segments` is the table of segment embeddings, where the model has one.
///
/// # Errors
/// [`Error::Unsupported`] when projections that run as one product are stored in different formats.
pub fn encoder(
    b: &mut GraphBuilder,
    config: &Mt5Config,
    weights: &Weights,
    segments: Option<WeightId>,
) -> Result<TensorId> {
    let (d, eps) = (config.d_model, config.layer_norm_epsilon);
    let inner = config.num_heads * config.d_kv;
    let offsets = b.input(InputKind::SequenceOffsets);
    let attended = b.input(InputKind::AttendedLengths);
    let ids = b.input(InputKind::TokenIds);
    let segments = segments.map(|table| (b.input(InputKind::SegmentIds), table));
    let table = format!("{PREFIX}shared.weight");
    let table = b.add_weight(Weight {
        name: table.clone(),
        parts: vec![table],
        shape: vec![config.vocab_size, d],
        elements: Elements::Real,
        residency: Residency::HostRows,
    });
    let bias = RelativeBias {
        table: b.weight(
            format!("{PREFIX}encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
            &[config.relative_attention_num_buckets, config.num_heads],
        ),
        buckets: config.relative_attention_num_buckets,
        max_distance: config.relative_attention_max_distance,
    };

    let mut h = b.embed("embed", ids, table, segments);
    for i in 0..config.num_layers {
        let attention = format!("{PREFIX}encoder.block.{i}.layer.0");
        let feed_forward = format!("{PREFIX}encoder.block.{i}.layer.1");
        let projection = |module: &str, out, k| Projection { module: module.to_owned(), out, k };
        let qkv = ["q", "k", "v"].map(|p| projection(&format!("{attention}.SelfAttention.{p}"), inner, d));
        let o = [projection(&format!("{attention}.SelfAttention.o"), d, inner)];
        let wi = ["wi_0", "wi_1"]
            .map(|p| projection(&format!("{feed_forward}.DenseReluDense.{p}"), config.d_ff, d));
        let wo = [projection(&format!("{feed_forward}.DenseReluDense.wo"), d, config.d_ff)];

        let norm = b.weight(format!("{attention}.layer_norm.weight"), &[d]);
        let qkv = Fused::new(b, weights, &format!("block.{i}.qkv"), &qkv)?.normed(b, h, norm, eps, None);
        let part = |n: usize| Columns { tensor: qkv, start: n * inner, width: inner };
        let context = b.attention(
            &format!("block.{i}.context"),
            (part(0), part(1), part(2)),
            (offsets, offsets),
            Some(attended),
            (config.num_heads, config.d_kv),
            1.0,
            Some(bias),
        );
        h = Fused::new(b, weights, &format!("block.{i}.attention"), &o)?.residual(b, context, h);

        let norm = b.weight(format!("{feed_forward}.layer_norm.weight"), &[d]);
        let gated = Fused::new(b, weights, &format!("block.{i}.gated"), &wi)?.normed(
            b,
            h,
            norm,
            eps,
            Some(Activation::GeluTanh),
        );
        h = Fused::new(b, weights, &format!("block.{i}.out"), &wo)?.residual(b, gated, h);
    }
    let norm = b.weight(format!("{PREFIX}encoder.final_layer_norm.weight"), &[d]);
    Ok(b.rms_norm("encoder", h, norm, eps))
}

/// A linear layer of the checkpoint.
struct Projection {
    module: String,
    out: usize,
    k: usize,
}

/// Projections of the same input run as one product, in full precision or FP8 W8A8.
struct Fused {
    name: String,
    weight: WeightId,
    /// Scales of an FP8 weight.
    scales: Option<WeightId>,
}

impl Fused {
    fn new(b: &mut GraphBuilder, weights: &Weights, name: &str, parts: &[Projection]) -> Result<Self> {
        let mut fp8 = 0;
        for part in parts {
            fp8 +=
                usize::from(weights.tensor(&format!("{}.weight", part.module))?.dtype == StoredType::F8E4M3);
        }
        if fp8 != 0 && fp8 != parts.len() {
            let names: Vec<&str> = parts.iter().map(|p| p.module.as_str()).collect();
            return Err(Error::Unsupported {
                device: "the mT5 encoder".to_owned(),
                need: format!("one format for {}: {fp8} of {} are FP8", names.join(", "), parts.len()),
            });
        }
        let rows = parts.iter().map(|p| p.out).sum();
        let stacked = |suffix: &str, width, fp8| Weight {
            name: format!("{name}.{suffix}"),
            parts: parts.iter().map(|p| format!("{}.{suffix}", p.module)).collect(),
            shape: vec![rows, width],
            elements: if fp8 { Elements::E4M3 } else { Elements::Real },
            residency: Residency::Device,
        };
        let weight = b.add_weight(stacked("weight", parts[0].k, fp8 > 0));
        let scales = (fp8 > 0).then(|| b.add_weight(stacked("weight_scale", 1, false)));
        Ok(Self { name: name.to_owned(), weight, scales })
    }

    /// The product of a normed input, gated when an activation is given.
    fn normed(
        &self,
        b: &mut GraphBuilder,
        h: TensorId,
        norm: WeightId,
        eps: f32,
        activation: Option<Activation>,
    ) -> TensorId {
        let Self { name, weight, scales } = self;
        let normed = format!("{name}.norm");
        match scales {
            None => {
                let x = b.rms_norm(&normed, h, norm, eps);
                match activation {
                    None => b.linear(name, x, *weight, None, None, None),
                    Some(a) => b.linear_gated(name, x, *weight, a),
                }
            }
            Some(scales) => {
                let x = b.rms_norm_quantize(&normed, h, norm, eps);
                match activation {
                    None => b.quant_linear(name, x, *weight, *scales, None),
                    Some(a) => b.quant_linear_gated(name, x, *weight, *scales, a),
                }
            }
        }
    }

    /// The product added to the residual stream.
    fn residual(&self, b: &mut GraphBuilder, x: TensorId, h: TensorId) -> TensorId {
        let Self { name, weight, scales } = self;
        match scales {
            None => b.linear(name, x, *weight, None, None, Some(h)),
            Some(scales) => {
                let x = b.quantize(&format!("{name}.quantized"), x);
                b.quant_linear(name, x, *weight, *scales, Some(h))
            }
        }
    }
}
