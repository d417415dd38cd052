//! CLEF: typed questions about text, JSON and pictures, in the System One form of the HTTP API.

use dikast_core::answers::DecideOutput;
use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::clef::{Clef, ClefConfig, ClefOptions, ClefPreface, LayerType, expected_tensors};
use dikast_core::request::{DecideRequest, Json, gather_pictures};
use dikast_core::tokens::clef::DEFAULT_MAX_TOKENS;
use dikast_core::{Error, Result};
use serde_json::{Value, json};

use super::{Family, Small};
use crate::options::DecideOptions;

/// What a request has too many of when its state does not fit; the engine only speaks of its input.
const TOO_LONG: &str = "tokens of state, questions and media";

/// A request and how its answer is written.
#[derive(Debug)]
pub(crate) struct Asked {
    request: DecideRequest,
    output: DecideOutput,
}

impl Family for Clef {
    type Preface = ClefPreface;
    type Request = Asked;

    fn open(preface: ClefPreface, files: &ModelFiles) -> Result<Self> {
        Self::with_preface(preface, files, ClefOptions::default())
    }

    fn engine_options(&self) -> EngineOptions {
        // A model that was made for fewer positions has those as its limit.
        let max_tokens = DEFAULT_MAX_TOKENS.min(self.config().text.max_position_embeddings);
        EngineOptions { max_tokens, ..EngineOptions::default() }
    }

    fn name(&self) -> &str {
        self.name()
    }

    fn format(&self) -> String {
        self.format()
    }

    fn request(text: &str, options: &str) -> Result<Asked> {
        let options = DecideOptions::from_json(options)?;
        let mut body = Json::parse(text)?;
        gather_pictures(&mut body)?;
        let mut request = DecideRequest::from_tree(body, &options.rules)?;
        options.apply(&mut request)?;
        Ok(Asked { request, output: options.output })
    }

    async fn answer<B: Backend>(engine: &mut Engine<B, Self>, asked: &Asked) -> Result<String> {
        let mut answers = engine.decide(std::slice::from_ref(&asked.request)).await;
        let none = || Err(Error::Internal("no answer to a request".to_owned()));
        let decision = answers.pop().unwrap_or_else(none).map_err(|error| match error {
            Error::TooLarge { what, limit, actual } if what == "input tokens" => {
                Error::TooLarge { what: TOO_LONG.to_owned(), limit, actual }
            }
            other => other,
        })?;
        Ok(decision.to_json(&asked.output).to_string())
    }
}

impl Small for ClefPreface {
    const FILES: &'static [&'static str] = &Self::FILES;

    fn check_config(config: &[u8]) -> Result<()> {
        ClefConfig::check_architecture(config)
    }

    fn read(files: &ModelFiles) -> Result<Self> {
        Self::read(files)
    }

    fn side_files(&self) -> Vec<String> {
        expected_tensors(self.config()).side_files.into_iter().map(|side| side.file).collect()
    }

    fn facts(&self) -> Value {
        let config = self.config();
        let full = config.text.layer_types.iter().filter(|kind| **kind == LayerType::Full).count();
        json!({
            "layers": config.text.layer_types.len(),
            "full_attention_layers": full,
            "width": config.text.hidden_size,
            "heads": config.text.num_attention_heads,
            "vocabulary": config.text.vocab_size,
            "vision_layers": config.vision.depth,
            "head_width": config.head.width,
        })
    }
}
