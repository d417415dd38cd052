// Int8Linear and Int8LinearGated on Hopper.
//
//   acc = sum_k codes[t][k] * weight[n][k], exact in int32
//   out[t][n] = f32(acc) * scales[t] * weight_scales[n] (+ bias[n]) (+ residual[t][n]), rounded after each; or, gated,
//   out[t][n] = silu(gate) * up of two such, exp approximate
//   exact    all but the gate: a row's bits depend on neither tile, nor batch, nor cut
//   the rest warpgroup_gemm.cuh
#include "warpgroup_gemm.cuh"
#include "wgmma_int8.cuh"

struct Int8 {
    typedef int Sum;
    static constexpr bool SCALED = true, EXACT = true;
    template <int N>
    static __device__ __forceinline__ void k_block(int (&d)[N / 2], u32 a, u32 b, int keep) {
        wgmma_k_block<N>(d, a, b, keep);
    }
    static __device__ __forceinline__ float value(int sum) { return __int2float_rn(sum); }
};

#define INSTANCE(NAME, GROUPS, TOKENS, WAY) GEMM_INSTANCE(sm90_int8_gemm_##NAME, Int8, GROUPS, TOKENS, WAY)
#define STAGED(TOKENS)                                      \
    INSTANCE(2_##TOKENS##_f32, 2, TOKENS, ROWS_F32)         \
    INSTANCE(2_##TOKENS##_bf16, 2, TOKENS, ROWS_BF16)       \
    INSTANCE(2_##TOKENS##_gated, 2, TOKENS, GATED_BF16)
INSTANCE(1_16, 1, 16, DIRECT)
INSTANCE(1_32, 1, 32, DIRECT)
INSTANCE(1_64, 1, 64, DIRECT)
INSTANCE(2_32, 2, 32, DIRECT)
INSTANCE(2_64, 2, 64, DIRECT)
INSTANCE(2_96, 2, 96, DIRECT)
INSTANCE(2_128, 2, 128, DIRECT)
STAGED(128)
STAGED(160)
STAGED(192)
STAGED(256)
