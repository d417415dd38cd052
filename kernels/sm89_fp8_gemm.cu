// QuantLinear and QuantLinearGated with warp matrix instructions: Ada, and anything newer through its PTX.
//
//   out[t][n] = (sum_k codes[t][k] * weight[n][k]) * scales[t] * weight_scales[n] (+ residual)      or, gated,
//   out[t][n] = activation(gate) * up
//   tile   64 weight rows x 64 tokens, 4 warps of 32 x 32; k in blocks of 128, a ring of 4 stages filled by cp.async
//   sums   the 128 products of a k-block in the tensor core's float32, the k-blocks added in order in float32 registers;
//          one block walks all of k, so a row's bits never depend on the batch
//   out    float32, or rounded to a 16-bit format
//   grid   (weight rows / 64, token capacity / 64), 128 threads, 64 KiB of dynamic shared memory
#include "convert.cuh"
#include "epilogue.cuh"
#include "mma.cuh"
#include "tile.cuh"

#define TOKENS 64
#define STAGES 4
#define STAGE_BYTES (WEIGHT_TILE + TOKENS * KBLOCK)

struct Fp8Gemm {
    const u8 *codes;
    const float *scales;
    const u8 *weight;
    const float *weight_scales, *residual;
    void *out;
    const int *rows;
    int capacity, k_blocks, columns, gated, activation, row_tiles, cluster_tokens, stages, stored, pad;
};

// A thread's finished sums: rows w and w + 8 of the weight, or what its gate makes of them, for two neighbouring tokens.
template <int STORED>
DEVICE void store_sums(const Fp8Gemm &p, const float (&y)[2][4][4], int first_w, int first_t, int rows) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int w = first_w + i * 16 + (e >> 1) * 8, t = first_t + j * 8 + (e & 1);
                if (t >= rows || (p.gated && e > 1)) continue;
                const int n = p.gated ? (w >> 4) * 8 + (w & 7) : w;
                const u64 at = (u64)t * p.columns + n;
                if (n < p.columns) store_rounded<STORED>(p.out, at, p.residual ? add_flushed(y[i][j][e], p.residual[at]) : y[i][j][e]);
            }
        }
    }
}

DEVICE void fetch(const Fp8Gemm &p, u32 stage, int k_block) {
    const u8 *w = p.weight + weight_tile(blockIdx.x, k_block, p.k_blocks);
    const u8 *x = p.codes + activation_tile(blockIdx.y * TOKENS, k_block, p.capacity);
#pragma unroll
    for (int i = 0; i < WEIGHT_TILE / 16 / 128; ++i) {
        u32 at = (i * 128 + threadIdx.x) * 16;
        copy16(stage + at, w + at);
        copy16(stage + WEIGHT_TILE + at, x + at);
    }
}

extern "C" __global__ void __launch_bounds__(128) sm89_fp8_gemm(const Fp8Gemm p) {
    extern __shared__ __align__(128) u8 ring[];
    release_successor();
    wait_for_predecessor();
    const int rows = *p.rows;
    if ((int)blockIdx.y * TOKENS >= rows) return;

    const u32 base = shared_address(ring);
    const int lane = lane_id(), warp = warp_id();
    const u32 w0 = (warp & 1) * 32, t0 = (warp >> 1) * 32;
    float sum[2][4][4] = {};

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < p.k_blocks) fetch(p, base + s * STAGE_BYTES, s);
        commit_copies();
    }
    for (int kb = 0; kb < p.k_blocks; ++kb) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        if (kb + STAGES - 1 < p.k_blocks) fetch(p, base + (kb + STAGES - 1) % STAGES * STAGE_BYTES, kb + STAGES - 1);
        commit_copies();
        const u32 w = base + kb % STAGES * STAGE_BYTES, x = w + WEIGHT_TILE;
        float part[2][4][4] = {};
#pragma unroll
        for (int step = 0; step < KBLOCK / 32; ++step) {
            u32 a[2][4], b[2][4];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                load_matrices(a[i], w + in_tile(w0 + i * 16 + (lane & 15), step * 32 + (lane >> 4) * 16));
                load_matrices(b[i], x + in_tile(t0 + i * 16 + (lane & 7) + (lane >> 4) * 8,
                                                step * 32 + ((lane >> 3) & 1) * 16));
            }
#pragma unroll
            for (int i = 0; i < 2; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) mma_e4m3(part[i][j], a[i], b[j >> 1][(j & 1) * 2], b[j >> 1][(j & 1) * 2 + 1]);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int e = 0; e < 4; ++e) sum[i][j][e] = add(sum[i][j][e], part[i][j][e]);
            }
        }
    }

    const int first_w = blockIdx.x * WEIGHT_ROWS + w0 + (lane >> 2), first_t = blockIdx.y * TOKENS + t0 + (lane & 3) * 2;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float s0 = p.weight_scales[first_w + i * 16], s1 = p.weight_scales[first_w + i * 16 + 8];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int t = first_t + j * 8 + e;
                const float s = t < rows ? p.scales[t] : 0.f;
                float &y0 = sum[i][j][e], &y1 = sum[i][j][e + 2];
                y0 = mul(mul(y0, s), s0);
                y1 = mul(mul(y1, s), s1);
                if (p.gated) y0 = mul(activate(p.activation, y0), y1);
            }
        }
    }
    switch (p.stored) {
        case F32: return store_sums<F32>(p, sum, first_w, first_t, rows);
        case F16: return store_sums<F16>(p, sum, first_w, first_t, rows);
        default: return store_sums<BF16>(p, sum, first_w, first_t, rows);
    }
}
