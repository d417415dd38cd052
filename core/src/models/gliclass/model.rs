//! A GLiClass model on the host: configuration, tokenizer, weights, graph.

use super::{GliClassConfig, Part, expected_tensors, part_of};
use crate::checkpoint::{Checks, ModelFiles, StoredType, Weights};
use crate::graph::{Graph, GraphBuilder};
use crate::models::mt5;
use crate::tokens::Tokenizer;
use crate::tokens::gliclass::check_tokenizer;
use crate::{Result, heads};

/// A GLiClass model on the host, checked and ready for a backend.
#[derive(Debug, Clone)]
pub struct GliClass {
    name: String,
    config: GliClassConfig,
    tokenizer: Tokenizer,
    weights: Weights,
    graph: Graph,
}

/// The small files of a model, checked: all that can be known before its weights are there.
#[derive(Debug, Clone)]
pub struct Preface {
    config: GliClassConfig,
    tokenizer: Tokenizer,
}

impl Preface {
    /// Reads and checks `config.json` and `tokenizer.json`.
    ///
    /// # Errors
    /// As [`GliClass::load`].
    pub fn read(files: &ModelFiles) -> Result<Self> {
        let config = GliClassConfig::from_json(files.read("config.json")?.bytes())?;
        let tokenizer = Tokenizer::from_bytes(files.read("tokenizer.json")?.bytes())?;
        check_tokenizer(&config, &tokenizer)?;
        Ok(Self { config, tokenizer })
    }

    /// The configuration.
    pub fn config(&self) -> &GliClassConfig {
        &self.config
    }
}

impl GliClass {
    /// Loads and checks a model: `config.json`, `tokenizer.json`, the weights, `SHA256SUMS` where present.
    ///
    /// # Errors
    /// [`crate::Error::Checkpoint`] naming the file, key or tensor; [`crate::Error::Unsupported`] for another
    /// architecture.
    pub fn load(files: &ModelFiles) -> Result<Self> {
        Self::with_preface(Preface::read(files)?, files)
    }

    /// The same after its small files, for callers that fetch the weights only once those are known to be right.
    ///
    /// # Errors
    /// As [`GliClass::load`].
    pub fn with_preface(preface: Preface, files: &ModelFiles) -> Result<Self> {
        let Preface { config, tokenizer } = preface;
        let weights = Weights::open(files, &expected_tensors(&config), Checks::ALL)?;
        let graph = Self::build_graph(&config, &weights)?;
        Ok(Self { name: files.name().to_owned(), config, tokenizer, weights, graph })
    }

    /// The forward pass of a model over checked weights.
    ///
    /// # Errors
    /// [`crate::Error::Unsupported`] when projections that run as one product are stored in different formats.
    pub fn build_graph(config: &GliClassConfig, weights: &Weights) -> Result<Graph> {
        let mut b = GraphBuilder::new(format!("gliclass/mt5/{}", config.scorer.name()));
        let segments = config
            .use_segment_embeddings
            .then(|| b.weight("model.segment_embeddings.weight", &[3, config.encoder.d_model]));
        let hidden = mt5::encoder(&mut b, &config.encoder, weights, segments)?;
        let logits = heads::gliclass(&mut b, config, hidden);
        b.finish(logits)
    }

    /// Name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its configuration.
    pub fn config(&self) -> &GliClassConfig {
        &self.config
    }

    /// Its tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Its weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Its forward pass.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How the encoder's projections are stored: `FP8 W8A8`, `BF16`, `F16` or `F32`; joined by `+` where they differ.
    pub fn format(&self) -> String {
        let mut types: Vec<StoredType> = self
            .weights
            .iter()
            .filter(|(name, _)| part_of(name) == Part::Projections)
            .map(|(_, t)| t.dtype)
            .collect();
        types.sort_unstable();
        types.dedup();
        let names: Vec<&str> = types
            .into_iter()
            .map(|t| match t {
                StoredType::F32 => "F32",
                StoredType::F16 => "F16",
                StoredType::BF16 => "BF16",
                StoredType::F8E4M3 => "FP8 W8A8",
                StoredType::I8 => "INT8",
            })
            .collect();
        names.join("+")
    }
}
