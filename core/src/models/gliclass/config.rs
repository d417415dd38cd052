//! `config.json` of a GLiClass checkpoint.

/// `pooling_strategy`: how the text part becomes one vector (or stays a matrix).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pooling {
    /// No pooling: every text row goes to the scorer.
    Pass,
    /// First row.
    First,
    /// Last row.
    Last,
    /// Mean of rows.
    Avg,
    /// Sum of rows.
    Sum,
    /// Largest value per column.
    Max,
    /// Root of the mean square.
    Rms,
    /// Largest absolute value per column.
    AbsMax,
    /// Mean absolute value.
    AbsAvg,
}

/// `class_token_pooling`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClassPooling {
    /// The marker's row (or the row after it when `embed_class_token` is false).
    First,
    /// The mean of the label's rows.
    Average,
}

/// `scorer_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scorer {
    /// Dot product.
    Simple,
    /// Projected products through an MLP.
    WeightedDot,
    /// MLP on text and class vector.
    Mlp,
    /// Attention of the text over the classes, then an MLP.
    Hopfield,
    /// Each class attends to the text rows, then an MLP.
    CrossAttn,
}

/// The mT5 (T5 v1.1) encoder's part of the configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Mt5Config {
    /// Embedding rows.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub d_model: usize,
    /// Width of one head.
    pub d_kv: usize,
    /// Width of the feed-forward product.
    pub d_ff: usize,
    /// Blocks.
    pub num_layers: usize,
    /// Heads.
    pub num_heads: usize,
    /// Buckets of the relative position bias.
    pub relative_attention_num_buckets: usize,
    /// Distance at which the bias saturates.
    pub relative_attention_max_distance: usize,
    /// Epsilon of the root-mean-square norm.
    pub layer_norm_epsilon: f32,
}

/// The configuration of a GLiClass uni-encoder model with an mT5 backbone, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct GliClassConfig {
    /// The encoder.
    pub encoder: Mt5Config,
    /// Width of the head; equals the encoder's.
    pub hidden_size: usize,
    /// Id of `<<LABEL>>`.
    pub class_token_index: u32,
    /// Id of `<<SEP>>`.
    pub text_token_index: u32,
    /// Id of `<<EXAMPLE>>`.
    pub example_token_index: u32,
    /// Labels before the text.
    pub prompt_first: bool,
    /// The marker's row is part of the class vector.
    pub embed_class_token: bool,
    /// The text part starts at the first `<<SEP>>`.
    pub extract_text_features: bool,
    /// How class vectors are made.
    pub class_token_pooling: ClassPooling,
    /// How the text vector is made.
    pub pooling: Pooling,
    /// The scorer.
    pub scorer: Scorer,
    /// Heads of the cross-attention scorer.
    pub scorer_num_heads: usize,
    /// Width of the cross-attention scorer's MLP.
    pub scorer_mlp_hidden_size: usize,
    /// L2-normalize text and class vectors and multiply by `logit_scale`.
    pub normalize_features: bool,
    /// A bidirectional LSTM over the text part.
    pub use_lstm: bool,
    /// Segment embeddings are added to the token embeddings.
    pub use_segment_embeddings: bool,
    /// Most labels of one request where `max_labels_alloc` fixes it.
    pub max_labels: Option<usize>,
}

impl Pooling {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::First,
        Self::Last,
        Self::Avg,
        Self::Sum,
        Self::Max,
        Self::Rms,
        Self::AbsMax,
        Self::AbsAvg,
        Self::Pass,
    ];

    /// The configuration's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Last => "last",
            Self::Avg => "avg",
            Self::Sum => "sum",
            Self::Max => "max",
            Self::Rms => "rms",
            Self::AbsMax => "abs_max",
            Self::AbsAvg => "abs_avg",
            Self::Pass => "pass",
        }
    }
}

impl ClassPooling {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::First, Self::Average];

    /// The configuration's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Average => "average",
        }
    }
}

impl Scorer {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Simple, Self::WeightedDot, Self::Mlp, Self::Hopfield, Self::CrossAttn];

    /// The configuration's word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simple => "simple",
            Self::WeightedDot => "weighted-dot",
            Self::Mlp => "mlp",
            Self::Hopfield => "hopfield",
            Self::CrossAttn => "cross-attn",
        }
    }
}
