//! What a caller may ask, parsed and checked with limits.
//!
//! [`ClassifyRequest::from_json`] reads the strict JSON form, [`ClassifyRequest::validate`] checks a request made in
//! code; both name the field, what was found and what is allowed. [`DecideRequest`] does the same for typed questions.

mod chunking;
mod classify;
pub(crate) mod decide;
mod json;
mod labels;
pub mod limits;
mod parse;
pub(crate) mod quote;
pub(crate) mod validate;

pub use classify::{Chunking, ClassifyRequest, Example, Mode, Strictness, Truncation};
pub use decide::{
    Confidence, Criteria, DecideRequest, Integer, Json, MediaLimits, Question, QuestionKind, Rules, Side,
    SpecialTokens, StateTruncation, Video, gather_pictures, picture_marker,
};
pub use json::parse_json;
pub use labels::{DEFAULT_SEPARATOR, LabelSet};
