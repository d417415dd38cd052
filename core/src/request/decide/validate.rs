//! Checks of a decision request that need no model.

use std::collections::HashSet;

use super::{Criteria, DecideRequest, Json, Question, Video};
use crate::request::limits::{
    MAX_LEVELS, MAX_OPTION_ID_BYTES, MAX_OPTIONS, MAX_QUESTION_ID_BYTES, MAX_QUESTIONS, MAX_TOKENS,
    MAX_VIDEO_FRAMES, MAX_VIDEOS,
};
use crate::request::quote::step;
use crate::request::validate::at_most;
use crate::{Error, Result};

impl DecideRequest {
    /// Checks everything that does not depend on the model.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] and [`Error::TooLarge`] naming the field.
    pub fn validate(&self) -> Result<()> {
        if self.questions.is_empty() {
            return Err(Error::invalid("questions", "none found, at least one is needed"));
        }
        at_most("questions", self.questions.len(), MAX_QUESTIONS)?;
        let mut ids = HashSet::new();
        for question in &self.questions {
            question.validate()?;
            if !ids.insert(question.id.as_str()) {
                let message = "this id stands twice; answers are told apart by it";
                return Err(Error::invalid(field(question), message));
            }
        }
        at_most("videos", self.videos.len(), MAX_VIDEOS)?;
        for (i, video) in self.videos.iter().enumerate() {
            check_video(&format!("videos[{i}]"), video)?;
        }
        for (name, limit) in [("max_tokens", self.max_tokens), ("max_state_tokens", self.max_state_tokens)] {
            at_most(name, limit.unwrap_or(0), MAX_TOKENS)?;
        }
        if self.max_tokens == Some(0) {
            return Err(Error::invalid("max_tokens", "0 found, at least 1 is needed"));
        }
        Ok(())
    }
}

impl Question {
    fn validate(&self) -> Result<()> {
        if self.id.is_empty() {
            // The model would read nothing as the question.
            return Err(Error::invalid("questions", "an empty id found, at least one character is needed"));
        }
        let field = field(self);
        at_most(&format!("bytes of the id of {field}"), self.id.len(), MAX_QUESTION_ID_BYTES)?;
        let field = format!("{field}.criteria");
        match &self.criteria {
            Criteria::Noul { .. } => Ok(()),
            Criteria::Choice(options) => check_options(&field, options),
            Criteria::Score(levels) => check_levels(&field, levels),
        }
    }
}

fn check_options(field: &str, options: &[(String, Json)]) -> Result<()> {
    if options.is_empty() {
        return Err(Error::invalid(field, "no options found, at least one is needed"));
    }
    at_most(&format!("options of {field}"), options.len(), MAX_OPTIONS)?;
    let mut ids = HashSet::new();
    for (id, _) in options {
        let field = format!("{field}.{}", step(id));
        at_most(&format!("bytes of the id of {field}"), id.len(), MAX_OPTION_ID_BYTES)?;
        if !ids.insert(id.as_str()) {
            return Err(Error::invalid(
                field,
                "this option stands twice; probabilities are told apart by it",
            ));
        }
    }
    Ok(())
}

fn check_levels(field: &str, levels: &[Json]) -> Result<()> {
    if levels.is_empty() {
        return Err(Error::invalid(field, "no levels found, at least one is needed"));
    }
    at_most(&format!("levels of {field}"), levels.len(), MAX_LEVELS)?;
    for (i, level) in levels.iter().enumerate() {
        let field = format!("{field}[{i}]");
        if *level == Json::Null {
            return Err(Error::invalid(field, "null found, a description of the level is needed"));
        }
        if level.has_non_finite() {
            // The legend of the answer repeats the level, and JSON has no such number.
            return Err(Error::invalid(field, "a number beyond the range of 64-bit floats found"));
        }
    }
    Ok(())
}

fn check_video(field: &str, video: &Video) -> Result<()> {
    let (frames, fps) = match video {
        Video::Frames { frames, fps } => (frames, *fps),
        Video::File(bytes) if bytes.is_empty() => {
            return Err(Error::invalid(field, "no bytes found, an encoded video is needed"));
        }
        Video::File(_) => return Ok(()),
    };
    let frames_field = format!("{field}.frames");
    if frames.is_empty() {
        return Err(Error::invalid(frames_field, "no frames found, at least one is needed"));
    }
    at_most(&frames_field, frames.len(), MAX_VIDEO_FRAMES)?;
    // The slowest rate keeps the time stamps of the most frames short enough to print.
    if !(0.001..=1000.0).contains(&fps) {
        let message = format!("{fps} found, a number in 0.001..=1000 is allowed");
        return Err(Error::invalid(format!("{field}.fps"), message));
    }
    Ok(())
}

fn field(question: &Question) -> String {
    format!("questions.{}", step(&question.id))
}
