//! What the server needs of a model family besides its graph.

use std::sync::Arc;

use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{ClefSequence, Engine, Model};
use dikast_core::media::MediaLimits;
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::models::gliclass::GliClass;
use dikast_core::request::{ClassifyRequest, DecideRequest, LabelSet, Question};
use dikast_core::tokens::gliclass::{Prepared, prepare};
use dikast_core::tokens::{Sequence, clef};
use dikast_core::{Result, engine::EngineOptions};

use super::{Host, Loaded};
use crate::queue::Work;

/// A model family.
pub(super) trait Family: Model + Clone + Send + Sync + 'static {
    /// Token limit of a request unless the operator says otherwise.
    const MAX_TOKENS: usize;

    /// Loads and checks a model; `vision` is whether it reads pictures, if it can.
    fn open(files: &ModelFiles, vision: bool) -> Result<Self>;

    /// How its weights are stored.
    fn stored(&self) -> String;

    /// The sequences of a small request that everything answers.
    fn warm_up(&self, options: &EngineOptions) -> Result<Vec<Self::Sequence>>;

    /// Logits of each sequence.
    fn logits<B: Backend>(
        engine: &mut Engine<B, Self>,
        sequences: &[&Self::Sequence],
    ) -> Result<Vec<Vec<f32>>> {
        pollster::block_on(engine.logits(sequences))
    }

    /// It as one of all families.
    fn loaded(host: Arc<Host<Self>>) -> Loaded;
}

impl Family for Clef {
    const MAX_TOKENS: usize = clef::DEFAULT_MAX_TOKENS;

    fn open(files: &ModelFiles, vision: bool) -> Result<Self> {
        Clef::load_with(files, ClefOptions { vision, ..ClefOptions::default() })
    }

    fn stored(&self) -> String {
        self.format()
    }

    fn warm_up(&self, options: &EngineOptions) -> Result<Vec<ClefSequence>> {
        let request = DecideRequest::new("warm up", vec![Question::noul("ready", "Is it ready?")]);
        Ok(vec![self.sequence(&request, options.max_tokens, &MediaLimits::default())?])
    }

    /// With the state cache, where it has room.
    fn logits<B: Backend>(
        engine: &mut Engine<B, Self>,
        sequences: &[&ClefSequence],
    ) -> Result<Vec<Vec<f32>>> {
        pollster::block_on(engine.logits_of_states(sequences))
    }

    fn loaded(host: Arc<Host<Self>>) -> Loaded {
        Loaded::Clef(host)
    }
}

impl Family for GliClass {
    const MAX_TOKENS: usize = 1024;

    fn open(files: &ModelFiles, _vision: bool) -> Result<Self> {
        GliClass::load(files)
    }

    fn stored(&self) -> String {
        self.format()
    }

    fn warm_up(&self, options: &EngineOptions) -> Result<Vec<Sequence>> {
        let request = ClassifyRequest::new("warm up", LabelSet::flat(["ready", "cold"]));
        Ok(prepare(self.config(), self.tokenizer(), &request, options.max_tokens)?.sequences)
    }

    fn loaded(host: Arc<Host<Self>>) -> Loaded {
        Loaded::GliClass(host)
    }
}

impl Work<ClefSequence> for ClefSequence {
    fn sequences(&self) -> Vec<&ClefSequence> {
        vec![self]
    }
}

/// All texts of a request.
impl Work<Sequence> for Vec<Prepared> {
    fn sequences(&self) -> Vec<&Sequence> {
        self.iter().flat_map(|prepared| &prepared.sequences).collect()
    }
}
