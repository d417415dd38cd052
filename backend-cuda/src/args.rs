//! The kernels' parameter structs: each is the twin of the struct at the top of its kernel file.
//!
//! Addresses are 64-bit integers; 0 stands for "none". Every struct is a whole number of its alignment, so that there is
//! no hidden padding.

/// A device address.
pub(crate) type Address = u64;

macro_rules! arguments {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $($(#[$doc])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
        pub(crate) struct $name { $(pub(crate) $field: $type),* })*
    };
}
pub(crate) use arguments;

arguments! {
    /// `embed.cu`
    Embed {
        rows_in_order: Address, segment_ids: Address, segments: Address, out: Address, rows: Address,
        width: i32, stored: i32,
    }
    /// `rms_norm_quantize.cu`
    RmsNormQuantize {
        x: Address, weight: Address, codes: Address, scales: Address, rows: Address,
        width: i32, capacity: i32, eps: f32, pad: i32, ahead: Ahead,
    }
    /// `quantize.cu`
    Quantize {
        x: Address, codes: Address, scales: Address, rows: Address, width: i32, capacity: i32, ahead: Ahead,
    }
    /// `ahead.cuh`
    Ahead { weights: Address, bytes: u32, first: i32, late: i32, pad: i32 }
    /// `rms_norm.cu`
    RmsNorm { x: Address, weight: Address, out: Address, rows: Address, width: i32, eps: f32 }
    /// `layer_norm.cu`
    LayerNorm { x: Address, weight: Address, bias: Address, out: Address, rows: Address, width: i32, eps: f32 }
    /// `l2_normalize.cu`
    L2Normalize { x: Address, out: Address, rows: Address, width: i32, eps: f32 }
    /// `sm90_fp8_few.cu`, `sm90_fp8_gemm.cu`, `sm89_fp8_gemm.cu`
    Fp8Gemm {
        codes: Address, scales: Address, weight: Address, weight_scales: Address, residual: Address, out: Address,
        rows: Address,
        capacity: i32, k_blocks: i32, columns: i32, gated: i32, activation: i32,
        row_tiles: i32, cluster_tokens: i32, stages: i32, stored: i32, pad: i32,
    }
    /// `sm90_fp8_gemm.cu`, where results leave from the ring
    Fp8GemmBoxes { product: Fp8Gemm, pad: [i32; 8], residual: TensorMap, out: TensorMap }
    /// `tensor_copy.cuh`
    TensorMap { opaque: [u64; 16] }
    /// `linear.cu`, `sm90_linear.cu`
    Linear {
        x: Address, weight: Address, weight_tail: Address, bias: Address, residual: Address, out: Address, rows: Address,
        k: i32, k_blocks: i32, columns: i32, gated: i32, activation: i32, pad: i32,
    }
    /// `attention.cu`, `attention_half.cu`
    Attention {
        q: Address, k: Address, v: Address, out: Address, bias: Address, tiles: Address, tile_count: Address,
        q_pitch: i32, k_pitch: i32, v_pitch: i32, out_pitch: i32, head_dim: i32, reach: i32, scale: f32, heads: i32,
        split_capacity: i32, pad: i32,
    }
    /// An entry of the attention's list.
    AttentionTile { query: i32, queries: i32, place: i32, key: i32, keys: i32 }
    /// `select_rows.cu`
    SelectRows { x: Address, index: Address, out: Address, rows: Address, width: i32, pad: i32 }
    /// `select_rows.cu`
    Concat {
        left: Address, index: Address, right: Address, out: Address, rows: Address,
        left_width: i32, right_width: i32,
    }
    /// `pool.cu`
    PoolSpans { x: Address, spans: Address, out: Address, rows: Address, width: i32, pad: i32 }
    /// `pool.cu`
    PoolText { x: Address, spans: Address, out: Address, rows: Address, width: i32, pool: i32 }
    /// `score.cu`
    PairProduct { text: Address, classes: Address, owner: Address, out: Address, rows: Address, half: i32, pad: i32 }
    /// `score.cu`
    Dot { text: Address, classes: Address, owner: Address, out: Address, rows: Address, width: i32, pad: i32 }
    /// `score.cu`
    HopfieldMix {
        query: Address, key: Address, value: Address, classes: Address, offsets: Address, out: Address, rows: Address,
        width: i32, beta: f32,
    }
    /// `score.cu`
    Scale { x: Address, by: Address, out: Address, rows: Address, width: i32, pad: i32 }
    /// `bi_lstm.cu`
    LstmDirection { input: Address, hidden: Address, bias: Address }
    /// `bi_lstm.cu`
    BiLstm {
        x: Address, offsets: Address, lengths: Address, forward: LstmDirection, backward: LstmDirection, out: Address,
        rows: Address, width: i32, hidden: i32,
    }
    /// `tile_rows.cu`
    TileRows {
        from: Address, head: Address, tail: Address,
        first: i32, rows: i32, k: i32, k_blocks: i32, half: i32, stored: i32,
    }
}
