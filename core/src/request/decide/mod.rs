//! Decision requests: typed questions over text, JSON, pictures and videos.

mod gather;
mod json;
mod media;
mod parse;
mod question;
mod validate;

pub use gather::{gather_pictures, picture_marker};
pub(crate) use json::write_string;
pub use json::{Integer, Json};
pub use media::{MediaLimits, Video};
pub use parse::Rules;
pub(crate) use question::ReadOption;
pub use question::{Criteria, Question, QuestionKind, Side};

/// Typed questions about a state; all of them are decided together, in one forward pass.
#[derive(Debug, Clone, PartialEq)]
pub struct DecideRequest {
    /// The model that the caller named.
    pub model: Option<String>,
    /// What the questions are about. A string is read as it is, anything else as JSON with sorted keys.
    pub state: Json,
    /// The questions, in the order in which the model reads them and in which they are answered.
    pub questions: Vec<Question>,
    /// Encoded pictures (PNG, JPEG, …), in the order in which the model reads them, before the state.
    pub images: Vec<Vec<u8>>,
    /// Videos, after the pictures.
    pub videos: Vec<Video>,
    /// What happens to a state that is too long.
    pub truncation: StateTruncation,
    /// What texts such as `<|im_end|>` mean in what the caller sent.
    pub special_tokens: SpecialTokens,
    /// What `confidence` means in the answers.
    pub confidence: Confidence,
    /// Largest number of tokens of the whole sequence; may only lower the engine's limit.
    pub max_tokens: Option<usize>,
    /// Largest number of tokens of the state.
    pub max_state_tokens: Option<usize>,
}

impl DecideRequest {
    /// A request without media, with the defaults of every option.
    pub fn new(state: impl Into<Json>, questions: Vec<Question>) -> Self {
        Self {
            model: None,
            state: state.into(),
            questions,
            images: Vec::new(),
            videos: Vec::new(),
            truncation: StateTruncation::default(),
            special_tokens: SpecialTokens::default(),
            confidence: Confidence::default(),
            max_tokens: None,
            max_state_tokens: None,
        }
    }
}

/// What happens to a state that is too long. Questions and media are never cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StateTruncation {
    /// The request is refused with the limit and the count.
    #[default]
    Refuse,
    /// Tokens at the end of the state are dropped, as in the reference, and counted in the answer.
    End,
}

/// What texts such as `<|im_end|>` mean inside the state, the questions and the options.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SpecialTokens {
    /// They are text like any other: a caller's data cannot end the user's turn or stand for a picture.
    #[default]
    Data,
    /// They become the control tokens of that name, as in the reference.
    Live,
}

/// What `confidence` means. `p` are the probabilities of the `n` options, `m` the largest of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Confidence {
    /// 0 for a uniform answer, 1 for a certain one. Choice: `(m − 1/n) / (1 − 1/n)`. Score: `max(0, 1 − Σ pᵢ·|i − k| / D)`
    /// with the most likely level `k` and `D = (1/n)·Σ |i − (n − 1)/2|`. 1 if `n` is 1.
    #[default]
    TypeSafe,
    /// `m`, as in the reference.
    Max,
    /// `1 − H(p)/ln n`; 1 if `n` is 1.
    Entropy,
}

impl Confidence {
    /// The names that [`Confidence::from_name`] knows.
    pub const NAMES: [&'static str; 3] = ["typesafe", "max", "entropy"];

    /// A definition by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::TypeSafe, Self::Max, Self::Entropy].into_iter().find(|confidence| confidence.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::TypeSafe => Self::NAMES[0],
            Self::Max => Self::NAMES[1],
            Self::Entropy => Self::NAMES[2],
        }
    }
}
