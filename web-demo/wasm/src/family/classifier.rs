//! GLiClass: any labels for a text.

use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions};
use dikast_core::models::gliclass::{GliClass, GliClassConfig, Preface};
use dikast_core::request::{ClassifyRequest, parse_json};
use dikast_core::{Error, Result};
use serde_json::{Value, json};

use super::{Family, Small};

impl Family for GliClass {
    type Preface = Preface;
    type Request = ClassifyRequest;

    fn open(preface: Preface, files: &ModelFiles) -> Result<Self> {
        Self::with_preface(preface, files)
    }

    fn engine_options(&self) -> EngineOptions {
        EngineOptions::default()
    }

    fn name(&self) -> &str {
        self.name()
    }

    fn format(&self) -> String {
        self.format()
    }

    fn request(text: &str, _options: &str) -> Result<ClassifyRequest> {
        ClassifyRequest::from_json(&parse_json(text)?)
    }

    async fn answer<B: Backend>(engine: &mut Engine<B, Self>, request: &ClassifyRequest) -> Result<String> {
        let mut answers = engine.classify(std::slice::from_ref(request)).await;
        let none = || Err(Error::Internal("no answer to a request".to_owned()));
        Ok(answers.pop().unwrap_or_else(none)?.to_json().to_string())
    }
}

impl Small for Preface {
    const FILES: &'static [&'static str] = &["config.json", "tokenizer.json"];

    fn check_config(config: &[u8]) -> Result<()> {
        GliClassConfig::from_json(config).map(|_| ())
    }

    fn read(files: &ModelFiles) -> Result<Self> {
        Self::read(files)
    }

    fn side_files(&self) -> Vec<String> {
        Vec::new()
    }

    fn facts(&self) -> Value {
        let config = self.config();
        json!({
            "layers": config.encoder.num_layers,
            "width": config.encoder.d_model,
            "heads": config.encoder.num_heads,
            "vocabulary": config.encoder.vocab_size,
            "scorer": config.scorer.name(),
            "max_labels": config.max_labels,
        })
    }
}
