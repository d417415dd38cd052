//! CLEF prompts: pieces, spans, media placeholders, positions, truncation.
//!
//! One request is one sequence. Each line below is one piece, tokenized on its own, so that borders of pieces are
//! borders of tokens (`⏎` is a line feed, `␠` a blank):
//!
//! ```text
//! <|im_start|>system⏎{instructions to the model}<|im_end|>⏎<|im_start|>user⏎STATE:⏎
//! {media placeholders}⏎                                   only with media
//! {state}                                                 cut at its end, if asked for
//! ⏎⏎SCHEMA FIELDS:⏎
//! ⏎FIELD {i}⏎ID: {id}⏎TYPE: {type}⏎INSTRUCTION:␠          for each question
//! {instructions}                                          ← the question's span
//! ⏎ALLOWED OPTIONS:⏎
//! OPTION {j}:␠                                            for each option
//! {"description":…,"option_id":"…"}                       ← the option's span
//! ⏎
//! END FIELD⏎
//! ⏎<|im_end|>⏎<|im_start|>assistant⏎<think>⏎⏎</think>⏎⏎JOINT SCHEMA DECISIONS:
//! ```
//!
//! Values that are no strings are read as JSON with sorted keys ([`render`]); a choice's options are read sorted by
//! their ids.

mod media;
mod positions;
mod prompt;
mod record;
mod render;
mod special;

pub use media::{MediaLayout, VideoForm, VideoGrid, pair_seconds};
pub use prompt::ClefPrompt;
pub use record::{MediaSpan, QuestionSlots, Record};
pub use render::render;
pub use special::MediaIds;

/// Tokens of one sequence unless the operator says otherwise, as in the reference.
pub const DEFAULT_MAX_TOKENS: usize = 16_384;
/// Patches on a side of the square that becomes one token.
pub const MERGE: u32 = 2;
