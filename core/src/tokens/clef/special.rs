//! The control tokens that the prompt is made with.

use crate::Result;
use crate::tokens::Tokenizer;
use crate::tokens::tokenizer_file::wrong;

/// Ids of the tokens that stand for media. A model's configuration must say the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaIds {
    /// `<|vision_start|>`
    pub vision_start: u32,
    /// `<|vision_end|>`
    pub vision_end: u32,
    /// `<|image_pad|>`, one for each merged square of patches of a picture.
    pub image_pad: u32,
    /// `<|video_pad|>`, the same for a video.
    pub video_pad: u32,
}

impl MediaIds {
    /// Looks the ids up.
    ///
    /// # Errors
    /// [`crate::Error::Checkpoint`] if one of the prompt's control tokens is not an added token, or is matched other
    /// than exactly as it stands.
    pub(super) fn of(tokenizer: &Tokenizer) -> Result<Self> {
        let id = |name: &str| {
            let Some(token) = tokenizer.added_tokens().iter().find(|token| token.content == name) else {
                return Err(wrong(format!("{name} is not among the added tokens; a CLEF prompt needs it")));
            };
            if token.normalized || token.lstrip || token.rstrip || token.single_word {
                return Err(wrong(format!("{name} must not be normalized, lstrip, rstrip or single_word")));
            }
            Ok(token.id)
        };
        for name in ["<|im_start|>", "<|im_end|>", "<think>", "</think>"] {
            id(name)?;
        }
        Ok(Self {
            vision_start: id("<|vision_start|>")?,
            vision_end: id("<|vision_end|>")?,
            image_pad: id("<|image_pad|>")?,
            video_pad: id("<|video_pad|>")?,
        })
    }
}
