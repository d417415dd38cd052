//! The facts, as programs see them. Documented and stable: fields are added, never renamed.

use std::collections::BTreeMap;

use dikast_core::backend::Backend;
use dikast_core::checkpoint::{ModelFiles, Weights};
use dikast_core::cpu::CpuBackend;
use dikast_core::graph::Sizes;
use dikast_core::models::gliclass::{GliClass, GliClassConfig, Part, part_of, part_sizes};
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

/// What `config.json` says.
#[derive(Debug, Serialize)]
pub(super) struct Architecture {
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
    /// The facts of a loaded model.
    pub(super) fn gather(files: &ModelFiles, model: &GliClass, args: &InspectArgs) -> Result<Self> {
        let weights = model.weights();
        let parts = part_sizes(weights);
        let parts = parts.map(|p| PartFacts { part: p.part.name(), tensors: p.tensors, bytes: p.bytes });
        let size = |name: &str| files.get(name).map_or(0, |blob| blob.bytes().len() as u64);
        Ok(Self {
            name: model.name().to_owned(),
            synthetic: Provenance::read(files).map(Synthetic::from),
            architecture: Architecture::of(model.config()),
            parameters: parameters(weights),
            dtypes: dtypes(weights),
            bytes: Bytes { total: weights.total_bytes(), parts: parts.into() },
            memory: memory(model, args.tokens.get())?,
            tokenizer: TokenizerFacts::of(model.tokenizer()),
            files: files.names().map(|name| (name.to_owned(), size(name))).collect(),
            metadata: weights.metadata().clone(),
            digest: args.digest.then(|| weights.digest().to_string()),
            graph: args.graph.then(|| model.graph().to_string()),
        })
    }
}

impl Architecture {
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

fn parameters(weights: &Weights) -> u64 {
    weights.iter().filter(|(name, _)| part_of(name) != Part::Scales).map(|(_, t)| elements(t.shape)).sum()
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
fn memory(model: &GliClass, tokens: usize) -> Result<Vec<Memory>> {
    let sizes =
        Sizes { tokens, sequences: 1, labels: tokens.div_ceil(16), text_tokens: tokens, ..Sizes::default() };
    // The sizes themselves, not their bucket: a backend without buckets has one of size zero.
    let cpu = need(&CpuBackend::new(), model, &sizes)?;
    let device = pollster::block_on(WgpuBackend::open(&DeviceOptions::from_env())).ok();
    let wgpu = device.map(|device| need(&device, model, &device.bucket(&sizes))).transpose()?;
    let cuda = CudaBackend::open(CudaOptions::default()).ok();
    let cuda = cuda.map(|device| need(&device, model, &device.bucket(&sizes))).transpose()?;
    Ok(vec![
        Memory { backend: "cpu", tokens, need: Some(cpu) },
        Memory { backend: "wgpu", tokens, need: wgpu },
        Memory { backend: "cuda", tokens, need: cuda },
    ])
}

fn need<B: Backend>(backend: &B, model: &GliClass, sizes: &Sizes) -> Result<Need> {
    let budget = backend.budget(model.graph(), model.weights(), sizes).map_err(Failure::Engine)?;
    Ok(Need {
        weights: budget.device_weights,
        host_tables: budget.host_tables,
        activations: budget.activations,
    })
}
