// QuantLinear and QuantLinearGated with warp matrix instructions: Ada, and anything newer through its PTX.
//
//   out[t][n] = (sum_k codes[t][k] * weight[n][k]) * scales[t] * weight_scales[n] (+ residual)      or, gated,
//   out[t][n] = activation(gate) * up
//   tile   64 weight rows x 64 tokens, 4 warps of 32 x 32; k in blocks of 128, a ring of 4 stages filled by cp.async
//   sums   the 128 products of a k-block in the tensor core's float32, the k-blocks added in order in float32 registers;
//          one block walks all of k, so a row's bits never depend on the batch
//   grid   (weight rows / 64, token capacity / 64), 128 threads, 64 KiB of dynamic shared memory
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
    float *out;
    const int *rows;
    int capacity, k_blocks, columns, gated, activation, row_tiles, cluster_tokens, stages;
};

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

    // A thread holds rows w and w + 8 of the weight (gate and up when gated) for two neighbouring tokens.
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int w = blockIdx.x * WEIGHT_ROWS + w0 + i * 16 + (lane >> 2);
        const float s0 = p.weight_scales[w], s1 = p.weight_scales[w + 8];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int t = blockIdx.y * TOKENS + t0 + j * 8 + (lane & 3) * 2 + e;
                if (t >= rows) continue;
                const float s = p.scales[t];
                const float y0 = mul(mul(sum[i][j][e], s), s0), y1 = mul(mul(sum[i][j][e + 2], s), s1);
                const u64 row = (u64)t * p.columns;
                if (p.gated) {
                    const int n = (w >> 4) * 8 + (w & 7);
                    if (n < p.columns) p.out[row + n] = mul(activate(p.activation, y0), y1);
                } else {
                    if (w < p.columns) p.out[row + w] = p.residual ? add(y0, p.residual[row + w]) : y0;
                    if (w + 8 < p.columns) {
                        p.out[row + w + 8] = p.residual ? add(y1, p.residual[row + w + 8]) : y1;
                    }
                }
            }
        }
    }
}
