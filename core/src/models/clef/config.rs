//! `config.json` and `joint_head_config.json` of a CLEF checkpoint.

/// Which mixer a decoder layer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LayerType {
    /// Gated DeltaNet behind a causal convolution.
    Linear,
    /// Gated causal attention.
    Full,
}

/// The decoder, `text_config`.
#[derive(Debug, Clone, PartialEq)]
pub struct TextConfig {
    /// Rows of the token table and of the LM head.
    pub vocab_size: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward product.
    pub intermediate_size: usize,
    /// The mixer of each layer.
    pub layer_types: Vec<LayerType>,
    /// Query heads of full attention.
    pub num_attention_heads: usize,
    /// Key and value heads of full attention; a divisor of the query heads.
    pub num_key_value_heads: usize,
    /// Width of one head of full attention.
    pub head_dim: usize,
    /// Key heads of the DeltaNet.
    pub linear_num_key_heads: usize,
    /// Value heads of the DeltaNet; a multiple of the key heads.
    pub linear_num_value_heads: usize,
    /// Width of one key head of the DeltaNet.
    pub linear_key_head_dim: usize,
    /// Width of one value head of the DeltaNet.
    pub linear_value_head_dim: usize,
    /// Taps of the causal convolution.
    pub linear_conv_kernel_dim: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Columns of each head that are rotated; even.
    pub rotary_dim: usize,
    /// Frequencies of the time, row and column axis; they add up to half of `rotary_dim`.
    pub mrope_section: [usize; 3],
    /// Added to the mean square in norms.
    pub rms_norm_eps: f32,
    /// Positions that the model was made for.
    pub max_position_embeddings: usize,
}

/// The vision tower, `vision_config`.
#[derive(Debug, Clone, PartialEq)]
pub struct VisionConfig {
    /// Blocks.
    pub depth: usize,
    /// Width of the residual stream.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Attention heads.
    pub num_heads: usize,
    /// Side of the square table of learned positions.
    pub position_side: usize,
    /// Channels of a picture.
    pub in_channels: usize,
    /// Side of a patch in pixels.
    pub patch_size: usize,
    /// Frames of a patch.
    pub temporal_patch_size: usize,
    /// Side, in patches, of the block that becomes one token.
    pub spatial_merge_size: usize,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
}

/// The joint schema head, `joint_head_config.json`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeadConfig {
    /// Width of the head.
    pub width: usize,
    /// Evidence routing layers over the options.
    pub routing_layers: usize,
    /// Decoder layers over the questions.
    pub layers: usize,
    /// Attention heads.
    pub heads: usize,
    /// Width of the feed-forward layers.
    pub feedforward: usize,
}

/// Token ids with a meaning to the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MediaTokens {
    /// Stands for one token of a picture.
    pub image: u32,
    /// Stands for one token of a video.
    pub video: u32,
    /// Before a picture or a frame.
    pub vision_start: u32,
    /// After it.
    pub vision_end: u32,
}

/// A whole model.
#[derive(Debug, Clone, PartialEq)]
pub struct ClefConfig {
    /// The decoder.
    pub text: TextConfig,
    /// The vision tower.
    pub vision: VisionConfig,
    /// The head.
    pub head: HeadConfig,
    /// Token ids of media.
    pub media: MediaTokens,
}

impl TextConfig {
    /// Columns of the DeltaNet's queries, and of its keys.
    pub fn linear_key_dim(&self) -> usize {
        self.linear_num_key_heads * self.linear_key_head_dim
    }

    /// Columns of the DeltaNet's values.
    pub fn linear_value_dim(&self) -> usize {
        self.linear_num_value_heads * self.linear_value_head_dim
    }

    /// Columns of the DeltaNet's convolution: queries, keys, values.
    pub fn linear_conv_dim(&self) -> usize {
        2 * self.linear_key_dim() + self.linear_value_dim()
    }

    /// Columns of attention's queries.
    pub fn query_dim(&self) -> usize {
        self.num_attention_heads * self.head_dim
    }

    /// Columns of attention's keys, and of its values.
    pub fn key_value_dim(&self) -> usize {
        self.num_key_value_heads * self.head_dim
    }
}

impl VisionConfig {
    /// Values of one patch.
    pub fn patch_values(&self) -> usize {
        self.in_channels * self.temporal_patch_size * self.patch_size * self.patch_size
    }

    /// Patches of one token.
    pub fn merge(&self) -> usize {
        self.spatial_merge_size * self.spatial_merge_size
    }
}
