//! Symbolic sizes.

use std::fmt;

/// A size known only at run time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Symbol {
    /// Packed token rows of all sequences.
    Tokens,
    /// Sequences of the batch.
    Sequences,
    /// Packed labels (class vectors) of all sequences.
    Labels,
    /// Packed text rows of all sequences, where the head reads fewer rows than there are tokens.
    TextTokens,
    /// Questions of all sequences.
    Questions,
    /// Tokens of all options, one list after the other.
    OptionTokens,
    /// Patches of all pictures and frames.
    Patches,
    /// Tokens that stand for pictures and frames.
    MediaTokens,
    /// Pictures and frames.
    Frames,
}

/// The sizes of one batch, or the capacities of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Sizes {
    /// [`Symbol::Tokens`].
    pub tokens: usize,
    /// [`Symbol::Sequences`].
    pub sequences: usize,
    /// [`Symbol::Labels`].
    pub labels: usize,
    /// [`Symbol::TextTokens`].
    pub text_tokens: usize,
    /// [`Symbol::Questions`].
    pub questions: usize,
    /// [`Symbol::OptionTokens`].
    pub option_tokens: usize,
    /// [`Symbol::Patches`].
    pub patches: usize,
    /// [`Symbol::MediaTokens`].
    pub media_tokens: usize,
    /// [`Symbol::Frames`].
    pub frames: usize,
}

impl Sizes {
    /// Nothing of anything.
    pub const NONE: Self = Self {
        tokens: 0,
        sequences: 0,
        labels: 0,
        text_tokens: 0,
        questions: 0,
        option_tokens: 0,
        patches: 0,
        media_tokens: 0,
        frames: 0,
    };

    /// The value of a symbol.
    pub fn get(&self, symbol: Symbol) -> usize {
        match symbol {
            Symbol::Tokens => self.tokens,
            Symbol::Sequences => self.sequences,
            Symbol::Labels => self.labels,
            Symbol::TextTokens => self.text_tokens,
            Symbol::Questions => self.questions,
            Symbol::OptionTokens => self.option_tokens,
            Symbol::Patches => self.patches,
            Symbol::MediaTokens => self.media_tokens,
            Symbol::Frames => self.frames,
        }
    }

    /// The larger of both, size by size.
    pub fn max(&self, other: &Sizes) -> Sizes {
        Sizes {
            tokens: self.tokens.max(other.tokens),
            sequences: self.sequences.max(other.sequences),
            labels: self.labels.max(other.labels),
            text_tokens: self.text_tokens.max(other.text_tokens),
            questions: self.questions.max(other.questions),
            option_tokens: self.option_tokens.max(other.option_tokens),
            patches: self.patches.max(other.patches),
            media_tokens: self.media_tokens.max(other.media_tokens),
            frames: self.frames.max(other.frames),
        }
    }

    /// Whether a batch of these sizes fits a bucket of `capacity`.
    pub fn fits(&self, capacity: &Sizes) -> bool {
        self.tokens <= capacity.tokens
            && self.sequences <= capacity.sequences
            && self.labels <= capacity.labels
            && self.text_tokens <= capacity.text_tokens
            && self.questions <= capacity.questions
            && self.option_tokens <= capacity.option_tokens
            && self.patches <= capacity.patches
            && self.media_tokens <= capacity.media_tokens
            && self.frames <= capacity.frames
    }
}

/// One dimension of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dim {
    /// Known when the graph is built.
    Fixed(usize),
    /// Bound per batch.
    Sym(Symbol),
    /// One more than a symbol: offsets of packed rows (`cu_seqlens`).
    Offsets(Symbol),
}

impl Dim {
    /// The size with the symbols bound.
    pub fn bind(self, sizes: &Sizes) -> usize {
        match self {
            Self::Fixed(n) => n,
            Self::Sym(s) => sizes.get(s),
            Self::Offsets(s) => sizes.get(s).saturating_add(1),
        }
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Self {
        Self::Fixed(n)
    }
}

impl From<Symbol> for Dim {
    fn from(s: Symbol) -> Self {
        Self::Sym(s)
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tokens => "tokens",
            Self::Sequences => "sequences",
            Self::Labels => "labels",
            Self::TextTokens => "text_tokens",
            Self::Questions => "questions",
            Self::OptionTokens => "option_tokens",
            Self::Patches => "patches",
            Self::MediaTokens => "media_tokens",
            Self::Frames => "frames",
        })
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(n) => write!(f, "{n}"),
            Self::Sym(s) => write!(f, "{s}"),
            Self::Offsets(s) => write!(f, "{s}+1"),
        }
    }
}
