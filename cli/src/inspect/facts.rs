//! The facts, as programs see them. Documented and stable: fields are added, never renamed.

use std::collections::BTreeMap;

use dikast_core::backend::Backend;
use dikast_core::checkpoint::{ModelFiles, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::Model as _;
use dikast_core::graph::{Graph, Sizes};
use dikast_core::models::clef::{self, Clef, ClefConfig, LayerType};
use dikast_core::models::gliclass::{self, GliClass, GliClassConfig};
use dikast_core::tokens::Tokenizer;
use dikast_cuda::{CudaBackend, CudaOptions};
use dikast_synth::Provenance;
use dikast_wgpu::{DeviceOptions, WgpuBackend};
use serde::Serialize;

use crate::args::InspectArgs;
use crate::exit::{Failure, Result};

/// Everything `inspect` says of a model.
#[derive(Debug, Serialize)]
pub(super) struct Facts {
    pub(super) name: String,
    /// Set when the folder says that its weights are synthetic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) synthetic: Option<Synthetic>,
    pub(super) architecture: Architecture,
    /// How the large projections are stored.
    pub(super) quantization: String,
    /// Numbers of the model, scales of quantized weights left out.
    pub(super) parameters: u64,
    pub(super) dtypes: Vec<Stored>,
    pub(super) bytes: Bytes,
    pub(super) memory: Vec<Memory>,
    pub(super) tokenizer: TokenizerFacts,
    pub(super) files: BTreeMap<String, u64>,
    pub(super) metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) graph: Option<String>,
}

/// Where synthetic weights came from, as `provenance.json` says.
#[derive(Debug, Serialize)]
pub(super) struct Synthetic {
    pub(super) tool: String,
    pub(super) like: String,
    pub(super) quant: String,
    pub(super) seed: Option<u64>,
}

impl From<Provenance> for Synthetic {
    fn from(Provenance { tool, like, quant, seed }: Provenance) -> Self {
        Self { tool, like, quant, seed }
    }
}

/// What the configuration says, by family.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Architecture {
    GliClass(GliClassFacts),
    Clef(ClefFacts),
}

/// What the configurations of a CLEF model say.
#[derive(Debug, Serialize)]
pub(super) struct ClefFacts {
    pub(super) family: &'static str,
    pub(super) backbone: &'static str,
    pub(super) layers: usize,
    pub(super) linear_layers: usize,
    pub(super) width: usize,
    pub(super) heads: usize,
    pub(super) key_value_heads: usize,
    pub(super) head_width: usize,
    pub(super) linear_key_heads: usize,
    pub(super) linear_value_heads: usize,
    pub(super) linear_head_width: usize,
    pub(super) feed_forward: usize,
    pub(super) embedding_rows: usize,
    pub(super) vision_blocks: usize,
    pub(super) vision_width: usize,
    pub(super) head_layers: usize,
    pub(super) head_routing_layers: usize,
    pub(super) decision_width: usize,
}

/// What `config.json` of a GLiClass model says.
#[derive(Debug, Serialize)]
pub(super) struct GliClassFacts {
    pub(super) family: &'static str,
    pub(super) encoder: &'static str,
    pub(super) layers: usize,
    pub(super) width: usize,
    pub(super) heads: usize,
    pub(super) head_width: usize,
    pub(super) feed_forward: usize,
    pub(super) embedding_rows: usize,
    pub(super) scorer: String,
    pub(super) pooling: String,
    pub(super) class_pooling: String,
    pub(super) lstm: bool,
    pub(super) segment_embeddings: bool,
    pub(super) max_labels: Option<usize>,
}

/// The tensors of one stored type.
#[derive(Debug, Serialize)]
pub(super) struct Stored {
    pub(super) dtype: String,
    pub(super) tensors: usize,
    pub(super) elements: u64,
    pub(super) bytes: u64,
}

/// Where the bytes of the weights are.
#[derive(Debug, Serialize)]
pub(super) struct Bytes {
    pub(super) total: u64,
    pub(super) parts: Vec<PartFacts>,
}

/// One part of the model.
#[derive(Debug, Serialize)]
pub(super) struct PartFacts {
    pub(super) part: &'static str,
    pub(super) tensors: usize,
    pub(super) bytes: u64,
}

/// What a backend needs for one forward pass.
#[derive(Debug, Serialize)]
pub(super) struct Memory {
    pub(super) backend: &'static str,
    pub(super) tokens: usize,
    #[serde(flatten)]
    /// `None` where the device is not found.
    pub(super) need: Option<Need>,
}

/// Bytes.
#[derive(Debug, Serialize)]
pub(super) struct Need {
    pub(super) weights: u64,
    pub(super) host_tables: u64,
    pub(super) activations: u64,
}

/// What `tokenizer.json` says.
#[derive(Debug, Serialize)]
pub(super) struct TokenizerFacts {
    pub(super) model: String,
    pub(super) vocabulary: usize,
    pub(super) largest_id: u32,
    pub(super) byte_fallback: bool,
    pub(super) normalizers: Vec<String>,
    pub(super) pre_tokenizers: Vec<String>,
    pub(super) added_tokens: Vec<AddedToken>,
    pub(super) prefix: Vec<u32>,
    pub(super) suffix: Vec<u32>,
    pub(super) ignored_sections: Vec<String>,
}

/// A token with a place of its own.
#[derive(Debug, Serialize)]
pub(super) struct AddedToken {
    pub(super) id: u32,
    pub(super) content: String,
    pub(super) special: bool,
}

impl Facts {
    /// The facts of a loaded GLiClass model.
    pub(super) fn of_gliclass(files: &ModelFiles, model: &GliClass, args: &InspectArgs) -> Result<Self> {
        let weights = model.weights();
        let parts = gliclass::part_sizes(weights);
        let parts = parts.map(|p| PartFacts { part: p.part.name(), tensors: p.tensors, bytes: p.bytes });
        let scale = |name: &str| gliclass::part_of(name) == gliclass::Part::Scales;
        Ok(Self {
            name: model.name().to_owned(),
            synthetic: Provenance::read(files).map(Synthetic::from),
            architecture: Architecture::GliClass(GliClassFacts::of(model.config())),
            quantization: model.format(),
            parameters: parameters(weights, scale),
            dtypes: dtypes(weights),
            bytes: Bytes { total: weights.total_bytes(), parts: parts.into() },
            memory: memory(model.graph(), weights, args.tokens.get())?,
            tokenizer: TokenizerFacts::of(model.tokenizer()),
            files: sizes(files),
            metadata: metadata(weights),
            digest: args.digest.then(|| weights.digest().to_string()),
            graph: args.graph.then(|| model.graph().to_string()),
        })
    }

    /// The facts of a loaded CLEF model.
    pub(super) fn of_clef(files: &ModelFiles, model: &Clef, args: &InspectArgs) -> Result<Self> {
        let weights = model.weights();
        let parts = clef::part_sizes(weights);
        let parts = parts.map(|p| PartFacts { part: p.part.name(), tensors: p.tensors, bytes: p.bytes });
        let scale = |name: &str| clef::part_of(name) == clef::Part::Scales;
        let tokens = args.tokens.get();
        let need = need(&CpuBackend::new(), model.graph(), weights, &model.full(tokens))?;
        Ok(Self {
            name: model.name().to_owned(),
            synthetic: Provenance::read(files).map(Synthetic::from),
            architecture: Architecture::Clef(ClefFacts::of(model.config())),
            quantization: model.format(),
            parameters: parameters(weights, scale),
            dtypes: dtypes(weights),
            bytes: Bytes { total: weights.total_bytes(), parts: parts.into() },
            memory: vec![Memory { backend: "cpu", tokens, need: Some(need) }],
            tokenizer: TokenizerFacts::of(model.prompt().tokenizer()),
            files: sizes(files),
            metadata: metadata(weights),
            digest: args.digest.then(|| weights.digest().to_string()),
            graph: args.graph.then(|| model.graph().to_string()),
        })
    }
}

impl ClefFacts {
    fn of(config: &ClefConfig) -> Self {
        let text = &config.text;
        Self {
            family: "CLEF",
            backbone: "Qwen3.5",
            layers: text.layer_types.len(),
            linear_layers: text.layer_types.iter().filter(|t| **t == LayerType::Linear).count(),
            width: text.hidden_size,
            heads: text.num_attention_heads,
            key_value_heads: text.num_key_value_heads,
            head_width: text.head_dim,
            linear_key_heads: text.linear_num_key_heads,
            linear_value_heads: text.linear_num_value_heads,
            linear_head_width: text.linear_value_head_dim,
            feed_forward: text.intermediate_size,
            embedding_rows: text.vocab_size,
            vision_blocks: config.vision.depth,
            vision_width: config.vision.hidden_size,
            head_layers: config.head.layers,
            head_routing_layers: config.head.routing_layers,
            decision_width: config.head.width,
        }
    }
}

impl GliClassFacts {
    fn of(config: &GliClassConfig) -> Self {
        let encoder = &config.encoder;
        Self {
            family: "GLiClass uni-encoder",
            encoder: "mT5",
            layers: encoder.num_layers,
            width: encoder.d_model,
            heads: encoder.num_heads,
            head_width: encoder.d_kv,
            feed_forward: encoder.d_ff,
            embedding_rows: encoder.vocab_size,
            scorer: config.scorer.name().to_owned(),
            pooling: config.pooling.name().to_owned(),
            class_pooling: config.class_token_pooling.name().to_owned(),
            lstm: config.use_lstm,
            segment_embeddings: config.use_segment_embeddings,
            max_labels: config.max_labels,
        }
    }
}

impl TokenizerFacts {
    fn of(tokenizer: &Tokenizer) -> Self {
        let facts = tokenizer.facts();
        let added = facts.added_tokens.iter();
        Self {
            model: facts.model.clone(),
            vocabulary: facts.vocabulary,
            largest_id: facts.largest_id,
            byte_fallback: facts.byte_fallback,
            normalizers: facts.normalizers.clone(),
            pre_tokenizers: facts.pre_tokenizers.clone(),
            added_tokens: added
                .map(|t| AddedToken { id: t.id, content: t.content.clone(), special: t.special })
                .collect(),
            prefix: facts.prefix.clone(),
            suffix: facts.suffix.clone(),
            ignored_sections: facts.ignored.clone(),
        }
    }
}

fn elements(shape: &[usize]) -> u64 {
    shape.iter().map(|n| *n as u64).product()
}

fn parameters(weights: &Weights, scale: impl Fn(&str) -> bool) -> u64 {
    weights.iter().filter(|(name, _)| !scale(name)).map(|(_, t)| elements(t.shape)).sum()
}

/// Bytes of the files.
fn sizes(files: &ModelFiles) -> BTreeMap<String, u64> {
    let size = |name: &str| files.get(name).map_or(0, |blob| blob.bytes().len() as u64);
    files.names().map(|name| (name.to_owned(), size(name))).collect()
}

/// What the weight files say of themselves; descriptions of hundreds of layers are left out.
fn metadata(weights: &Weights) -> BTreeMap<String, String> {
    const LONGEST: usize = 1000;
    let short = weights.metadata().iter().filter(|(_, text)| text.len() <= LONGEST);
    short.map(|(key, text)| (key.clone(), text.clone())).collect()
}

fn dtypes(weights: &Weights) -> Vec<Stored> {
    let mut by_type = BTreeMap::new();
    for (_, tensor) in weights.iter() {
        let stored = by_type.entry(tensor.dtype).or_insert_with(|| Stored {
            dtype: tensor.dtype.name().to_owned(),
            tensors: 0,
            elements: 0,
            bytes: 0,
        });
        stored.tensors += 1;
        stored.elements += elements(tensor.shape);
        stored.bytes += tensor.bytes.len() as u64;
    }
    by_type.into_values().collect()
}

/// What each backend needs for one sequence of `tokens` tokens.
fn memory(graph: &Graph, weights: &Weights, tokens: usize) -> Result<Vec<Memory>> {
    let sizes =
        Sizes { tokens, sequences: 1, labels: tokens.div_ceil(16), text_tokens: tokens, ..Sizes::default() };
    // The sizes themselves, not their bucket: a backend without buckets has one of size zero.
    let cpu = need(&CpuBackend::new(), graph, weights, &sizes)?;
    let device = pollster::block_on(WgpuBackend::open(&DeviceOptions::from_env())).ok();
    let wgpu = device.map(|device| need(&device, graph, weights, &device.bucket(&sizes))).transpose()?;
    let cuda = CudaBackend::open(CudaOptions::default()).ok();
    let cuda = cuda.map(|device| need(&device, graph, weights, &device.bucket(&sizes))).transpose()?;
    Ok(vec![
        Memory { backend: "cpu", tokens, need: Some(cpu) },
        Memory { backend: "wgpu", tokens, need: wgpu },
        Memory { backend: "cuda", tokens, need: cuda },
    ])
}

fn need<B: Backend>(backend: &B, graph: &Graph, weights: &Weights, sizes: &Sizes) -> Result<Need> {
    let budget = backend.budget(graph, weights, sizes).map_err(Failure::Engine)?;
    Ok(Need {
        weights: budget.device_weights,
        host_tables: budget.host_tables,
        activations: budget.activations,
    })
}
