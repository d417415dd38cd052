//! The two model families: what of a checkpoint each reads, and how each answers.

mod classifier;
mod decider;

use dikast_core::Result;
use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{Engine, EngineOptions, Model};
use serde_json::Value;

/// A model family.
pub(crate) trait Family: Model + Sized {
    /// Its small files, checked.
    type Preface;
    /// A request, read and checked.
    type Request;

    /// The model from all files.
    fn open(preface: Self::Preface, files: &ModelFiles) -> Result<Self>;

    /// The limits of an engine with it.
    fn engine_options(&self) -> EngineOptions;

    /// Its name.
    fn name(&self) -> &str;

    /// How its large matrices are stored.
    fn format(&self) -> String;

    /// Reads a request; `options` is what stands beside it, in JSON, empty for nothing.
    fn request(text: &str, options: &str) -> Result<Self::Request>;

    /// Answers one request, in JSON.
    async fn answer<B: Backend>(engine: &mut Engine<B, Self>, request: &Self::Request) -> Result<String>;
}

/// The files and the facts of a family before there is a model.
pub(crate) trait Small: Sized {
    /// The files that it is read from, `config.json` first.
    const FILES: &'static [&'static str];

    /// Checks `config.json` alone.
    fn check_config(config: &[u8]) -> Result<()>;

    /// Reads and checks all of its files.
    fn read(files: &ModelFiles) -> Result<Self>;

    /// Weight files besides those of the model's own name.
    fn side_files(&self) -> Vec<String>;

    /// Facts for people.
    fn facts(&self) -> Value;
}
