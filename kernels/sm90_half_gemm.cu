// Deep Linear and LinearGated with bfloat16 weights on Hopper, activations rounded to bfloat16 and tiled by tile_halves.cu.
//
//   out[t][n] = sum_k x[t][k] * weight[n][k] (+ bias[n]) (+ residual[t][n])      or, gated,
//   out[t][n] = silu(gate) * up of two such, exp approximate
//   sums     float32 in the tensor core, over all of k in order: a row's bits depend on neither tile nor batch
//   the rest warpgroup_gemm.cuh; `codes` are the tiled activations, k-blocks have 64 elements, there are no scales
#include "warpgroup_gemm.cuh"
#include "wgmma_half.cuh"

struct Half {
    typedef float Sum;
    static constexpr bool SCALED = false, EXACT = false;
    template <int N>
    static __device__ __forceinline__ void k_block(float (&d)[N / 2], u32 a, u32 b, int keep) {
        wgmma_half_k_block<N>(d, a, b, keep);
    }
    static __device__ __forceinline__ float value(float sum) { return sum; }
};

#define INSTANCE(NAME, GROUPS, TOKENS, WAY) GEMM_INSTANCE(sm90_half_gemm_##NAME, Half, GROUPS, TOKENS, WAY)
#define STAGED(TOKENS)                                      \
    INSTANCE(2_##TOKENS##_f32, 2, TOKENS, ROWS_F32)         \
    INSTANCE(2_##TOKENS##_gated32, 2, TOKENS, GATED_F32)    \
    INSTANCE(2_##TOKENS##_gated, 2, TOKENS, GATED_BF16)
INSTANCE(1_16, 1, 16, DIRECT)
INSTANCE(1_64, 1, 64, DIRECT)
INSTANCE(2_64, 2, 64, DIRECT)
INSTANCE(2_128, 2, 128, DIRECT)
STAGED(128)
STAGED(160)
STAGED(192)
STAGED(256)
