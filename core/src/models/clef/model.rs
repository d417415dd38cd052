//! A CLEF model on the host: configuration, tokenizer, weights, graph.

use super::{ClefConfig, expected_tensors, text, vision};
use crate::checkpoint::{Checks, ModelFiles, StoredType, Weights};
use crate::graph::{Graph, GraphBuilder, InputKind};
use crate::media::ProcessorConfig;
use crate::numerics::int8::Int8Mode;
use crate::tokens::Tokenizer;
use crate::tokens::clef::ClefPrompt;
use crate::{Error, Result, heads};

/// A CLEF model on the host, checked and ready for a backend.
#[derive(Debug, Clone)]
pub struct Clef {
    name: String,
    config: ClefConfig,
    processor: ProcessorConfig,
    prompt: ClefPrompt,
    weights: Weights,
    graph: Graph,
    vision: bool,
}

/// The small files of a model, checked: all that can be known before its weights are there.
#[derive(Debug, Clone)]
pub struct ClefPreface {
    config: ClefConfig,
    processor: ProcessorConfig,
    prompt: ClefPrompt,
}

impl ClefPreface {
    /// The files that [`ClefPreface::read`] reads.
    pub const FILES: [&'static str; 4] =
        ["config.json", "joint_head_config.json", "processor_config.json", "tokenizer.json"];

    /// Reads and checks `config.json`, `joint_head_config.json`, `processor_config.json` and `tokenizer.json`.
    ///
    /// # Errors
    /// As [`Clef::load`].
    pub fn read(files: &ModelFiles) -> Result<Self> {
        let (config, head) = (files.read("config.json")?, files.read("joint_head_config.json")?);
        let config = ClefConfig::from_json(config.bytes(), head.bytes())?;
        let processor = ProcessorConfig::from_json(files.read("processor_config.json")?.bytes())?;
        let tokenizer = Tokenizer::from_bytes(files.read("tokenizer.json")?.bytes())?;
        let prompt = ClefPrompt::new(tokenizer)?;
        check_tokens(&config, &prompt)?;
        Ok(Self { config, processor, prompt })
    }

    /// The configuration.
    pub fn config(&self) -> &ClefConfig {
        &self.config
    }
}

/// What can be chosen when a model is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClefOptions {
    /// The arithmetic of INT8 activations.
    pub int8: Int8Mode,
    /// Whether the model reads pictures and videos; if not, the vision tower takes no memory of the device.
    pub vision: bool,
    /// What is checked besides names, types and shapes.
    pub checks: Checks,
}

impl Default for ClefOptions {
    fn default() -> Self {
        Self { int8: Int8Mode::Standard, vision: true, checks: Checks::ALL }
    }
}

impl Clef {
    /// Loads and checks a model: `config.json`, `joint_head_config.json`, `processor_config.json`, `tokenizer.json`,
    /// the weights of backbone and head, `SHA256SUMS` where present.
    ///
    /// # Errors
    /// [`crate::Error::Checkpoint`] naming the file, key or tensor; [`crate::Error::Unsupported`] for another
    /// architecture.
    pub fn load(files: &ModelFiles) -> Result<Self> {
        Self::load_with(files, ClefOptions::default())
    }

    /// [`Clef::load`] with options.
    ///
    /// # Errors
    /// As there.
    pub fn load_with(files: &ModelFiles, options: ClefOptions) -> Result<Self> {
        Self::with_preface(ClefPreface::read(files)?, files, options)
    }

    /// The same after its small files, for callers that fetch the weights only once those are known to be right.
    ///
    /// # Errors
    /// As [`Clef::load`].
    pub fn with_preface(preface: ClefPreface, files: &ModelFiles, options: ClefOptions) -> Result<Self> {
        let ClefPreface { config, processor, prompt } = preface;
        let weights = Weights::open(files, &expected_tensors(&config), options.checks)?;
        let graph = build_graph(&config, &weights, options)?;
        let vision = options.vision;
        Ok(Self { name: files.name().to_owned(), config, processor, prompt, weights, graph, vision })
    }

    /// Name of the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its configuration.
    pub fn config(&self) -> &ClefConfig {
        &self.config
    }

    /// How pictures and videos become patches.
    pub fn processor(&self) -> &ProcessorConfig {
        &self.processor
    }

    /// How its requests become tokens.
    pub fn prompt(&self) -> &ClefPrompt {
        &self.prompt
    }

    /// Whether it reads pictures and videos.
    pub fn vision(&self) -> bool {
        self.vision
    }

    /// Its weights.
    pub fn weights(&self) -> &Weights {
        &self.weights
    }

    /// Its forward pass.
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// How the decoder's large projections are stored: `INT8 ConvRot`, `INT8`, `BF16`, `F16` or `F32`; joined by `+`
    /// where they differ.
    pub fn format(&self) -> String {
        let mut names: Vec<&str> = self
            .weights
            .iter()
            .filter(|(name, _)| super::tensors::is_projection(name))
            .map(|(name, t)| match t.dtype {
                StoredType::I8 => {
                    let module = name.trim_end_matches(".weight");
                    match self.weights.storage(module) {
                        Ok(storage) if storage.rotation.is_some() => "INT8 ConvRot",
                        _ => "INT8",
                    }
                }
                other => other.name(),
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names.join("+")
    }
}

/// The forward pass: vision tower where it is wanted, decoder, joint head.
fn build_graph(config: &ClefConfig, weights: &Weights, options: ClefOptions) -> Result<Graph> {
    let mut b = GraphBuilder::new("clef");
    let media = options.vision.then(|| vision::tower(&mut b, &config.vision, config.text.hidden_size));
    let mut h = text::embed(&mut b, &config.text);
    if let Some(media) = media {
        let rows = b.input(InputKind::MediaRows);
        h = b.replace_rows("input", h, rows, media);
    }
    let hidden = text::decoder(&mut b, &config.text, weights, options.int8, h)?;
    let logits = heads::joint(&mut b, &config.head, config.text.vocab_size, hidden);
    b.finish(logits)
}

/// The tokenizer and the configuration must mean the same tokens.
fn check_tokens(config: &ClefConfig, prompt: &ClefPrompt) -> Result<()> {
    let (ids, want) = (prompt.media_ids(), config.media);
    for (key, found, want) in [
        ("image_token_id", ids.image_pad, want.image),
        ("video_token_id", ids.video_pad, want.video),
        ("vision_start_token_id", ids.vision_start, want.vision_start),
        ("vision_end_token_id", ids.vision_end, want.vision_end),
    ] {
        if found != want {
            let message = format!("{want} found, but tokenizer.json gives that token the id {found}");
            return Err(Error::checkpoint(format!("config.json: {key}"), message));
        }
    }
    let (tokens, rows) = (prompt.tokenizer().facts().largest_id as usize + 1, config.text.vocab_size);
    if tokens > rows {
        let message = format!("{tokens} tokens found, but the model has {rows} rows");
        return Err(Error::checkpoint("tokenizer.json", message));
    }
    Ok(())
}
