// Linear and LinearGated: float32 activations, real weights, on bfloat16 tensor cores with split operands.
//
//   out[t][n] = activation(sum_k x[t][k] * w[n][k] + bias[n]) + residual       or, gated,
//   out[t][n] = activation(gate) * up
//   sums   x = head + tail in bfloat16 (17 bits kept); w is one bfloat16 plane (exact for BF16 checkpoints) or head and
//          tail planes: relative error about 2^-17 of sum |x w|, far inside the step's tolerance. k in blocks of 64; the
//          GROUPS parts of k are summed apart and then added in order: no dependence on the batch
//   tile   ROWS (64, or 32 where that fills more of the chip) weight rows x TOKENS (64, or 32 for few) tokens;
//          GROUPS x 4 warps, each warp all rows x a quarter of the tokens, its part of k; a warp without tokens only copies
//   grid   (weight rows / ROWS, token capacity / TOKENS), GROUPS * 128 threads
//   k      a multiple of 4; beyond it x reads as zero
#include "convert.cuh"
#include "epilogue.cuh"
#include "mma.cuh"
#include "tile.cuh"

#define KSTEP 64 // elements of a k-block: 128 bytes of bfloat16
// The host divides shared memory in the same way: Hopper alone has so much, whatever comes after it.
#if __CUDA_ARCH__ == 900
#define GROUPS 4 // 192 KiB of shared memory
#else
#define GROUPS 2 // 96 KiB
#endif

struct Linear {
    const float *x;
    const u8 *weight, *weight_tail;
    const float *bias, *residual;
    float *out;
    const int *rows;
    int k, k_blocks, columns, gated, activation;
};

// A k-block of x in shared memory: rows of 256 bytes, chunk c of token t at c ^ (2 * (t & 7)).
DEVICE u32 in_x(u32 t, u32 chunk) { return t * (KSTEP * 4) + ((chunk ^ ((t & 7) * 2)) << 4); }

template <int PLANES, int ROWS>
DEVICE void fetch_weight(const Linear &p, u32 stage, int k_block, int thread) {
    constexpr u32 BYTES = ROWS * KBLOCK, PARTS = WEIGHT_ROWS / ROWS;
    u64 tile = weight_tile(blockIdx.x / PARTS, k_block, p.k_blocks) + blockIdx.x % PARTS * BYTES;
#pragma unroll
    for (int i = 0; i < BYTES / 16 / 128; ++i) {
        u32 at = (i * 128 + thread) * 16;
        copy16(stage + at, p.weight + tile + at);
        if (PLANES == 2) copy16(stage + BYTES + at, p.weight_tail + tile + at);
    }
}

template <int TOKENS>
DEVICE void fetch_x(const Linear &p, u32 stage, int k_block, int thread, int rows) {
#pragma unroll
    for (int i = 0; i < TOKENS * KSTEP * 4 / 16 / 128; ++i) {
        int c = i * 128 + thread, t = c / 16, chunk = c % 16;
        int row = blockIdx.y * TOKENS + t, k = k_block * KSTEP + chunk * 4;
        bool valid = row < rows && k < p.k;
        copy16(stage + in_x(t, chunk), valid ? p.x + (u64)row * p.k + k : p.x, valid);
    }
}

template <int PLANES, int STAGES, int ROWS, int TOKENS>
DEVICE void linear(const Linear &p) {
    constexpr int WEIGHT_BYTES = ROWS * KBLOCK, STAGE_BYTES = PLANES * WEIGHT_BYTES + TOKENS * KSTEP * 4;
    constexpr int COLUMNS = TOKENS / 32; // groups of eight tokens of a warp
    constexpr int TILES = ROWS / 16, PITCH = ROWS + 4;
    extern __shared__ __align__(128) u8 ring[];
    const int rows = *p.rows;
    const int group = threadIdx.x / 128, thread = threadIdx.x % 128, lane = lane_id();
    const int first = group * p.k_blocks / GROUPS, count = (group + 1) * p.k_blocks / GROUPS - first;
    const u32 base = shared_address(ring) + group * STAGES * STAGE_BYTES;

    // Weights do not depend on earlier kernels: fetch them before waiting. They join the commit group of their stage.
    const bool idle = (int)blockIdx.y * TOKENS >= rows;
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < count && !idle) fetch_weight<PLANES, ROWS>(p, base + s * STAGE_BYTES, first + s, thread);
    }
    wait_for_predecessor();
    if (idle) return;
#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < count) fetch_x<TOKENS>(p, base + s * STAGE_BYTES + PLANES * WEIGHT_BYTES, first + s, thread, rows);
        commit_copies();
    }

    const u32 t0 = (thread / 32) * 8 * COLUMNS;
    const bool busy = (int)(blockIdx.y * TOKENS + t0) < rows;
    float sum[COLUMNS][TILES][4] = {};
    // All groups go round as often as the longest part wants, so that they can share the block's one barrier: tools that look
    // for races follow no other.
    const int rounds = (p.k_blocks + GROUPS - 1) / GROUPS;
    for (int i = 0; i < rounds; ++i) {
        wait_copies<STAGES - 2>();
        __syncthreads();
        int ahead = i + STAGES - 1;
        if (ahead < count) {
            u32 stage = base + ahead % STAGES * STAGE_BYTES;
            fetch_weight<PLANES, ROWS>(p, stage, first + ahead, thread);
            fetch_x<TOKENS>(p, stage + PLANES * WEIGHT_BYTES, first + ahead, thread, rows);
        }
        commit_copies();
        if (!busy || i >= count) continue;
        const u32 at = i % STAGES * STAGE_BYTES;
        const u32 w = base + at;
        const u8 *x = ring + group * STAGES * STAGE_BYTES + at + PLANES * WEIGHT_BYTES;
#pragma unroll
        for (int step = 0; step < KSTEP / 16; ++step) {
            SplitPair b0[COLUMNS], b1[COLUMNS];
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n) {
                const u32 t = t0 + n * 8 + (lane >> 2), chunk = step * 4 + ((lane & 3) >> 1), half = (lane & 1) * 8;
                const float2 x0 = *reinterpret_cast<const float2 *>(x + in_x(t, chunk) + half);
                const float2 x1 = *reinterpret_cast<const float2 *>(x + in_x(t, chunk + 2) + half);
                b0[n] = split_pair(x0.x, x0.y);
                b1[n] = split_pair(x1.x, x1.y);
            }
            u32 a[TILES][4], tail[PLANES == 2 ? TILES : 1][4];
#pragma unroll
            for (int m = 0; m < TILES; ++m) {
                const u32 from = in_tile(m * 16 + (lane & 15), step * 32 + (lane >> 4) * 16);
                load_matrices(a[m], w + from);
                if (PLANES == 2) load_matrices(tail[PLANES == 2 ? m : 0], w + WEIGHT_BYTES + from);
            }
            // All sums in turn, so that none waits for itself.
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n) {
#pragma unroll
                for (int m = 0; m < TILES; ++m) mma_bf16(sum[n][m], a[m], b0[n].tail, b1[n].tail);
            }
            if (PLANES == 2) {
#pragma unroll
                for (int n = 0; n < COLUMNS; ++n) {
#pragma unroll
                    for (int m = 0; m < TILES; ++m) {
                        mma_bf16(sum[n][m], tail[PLANES == 2 ? m : 0], b0[n].head, b1[n].head);
                    }
                }
            }
#pragma unroll
            for (int n = 0; n < COLUMNS; ++n) {
#pragma unroll
                for (int m = 0; m < TILES; ++m) mma_bf16(sum[n][m], a[m], b0[n].head, b1[n].head);
            }
        }
    }

    // Parts of k meet in shared memory; every copy has arrived and every group is done with its ring.
    wait_copies<0>();
    __syncthreads();
    float *part = reinterpret_cast<float *>(ring);
#pragma unroll
    for (int i = 0; i < COLUMNS * TILES * 4; ++i) {
        const int n = i / (TILES * 4), m = i / 4 % TILES, e = i & 3;
        const int row = m * 16 + (lane >> 2) + (e >> 1) * 8, t = t0 + n * 8 + (lane & 3) * 2 + (e & 1);
        part[(group * TOKENS + t) * PITCH + row] = sum[n][m][e];
    }
    __syncthreads();
    auto total = [&](int t, int row) {
        float4 v = load4(part + t * PITCH + row);
#pragma unroll
        for (int g = 1; g < GROUPS; ++g) v = add4(v, load4(part + (g * TOKENS + t) * PITCH + row));
        return v;
    };
    const int quads = p.gated ? ROWS / 8 : ROWS / 4;
    for (int i = threadIdx.x; i < TOKENS * quads; i += GROUPS * 128) {
        const int t = i / quads, q = i % quads, row = blockIdx.y * TOKENS + t;
        if (row >= rows) continue;
        float *out = p.out + (u64)row * p.columns;
        if (p.gated) {
            const int w = (q >> 1) * 16 + (q & 1) * 4;
            const float4 v = mul4(activate4(p.activation, total(t, w)), total(t, w + 8));
            finish4(out, nullptr, blockIdx.x * (ROWS / 2) + q * 4, p.columns, v);
        } else {
            const int column = blockIdx.x * ROWS + q * 4;
            float4 v = total(t, q * 4);
            if (p.bias) v = add4(v, load4(p.bias + column)); // padded like the weight's rows
            finish4(out, p.residual ? p.residual + (u64)row * p.columns : nullptr, column, p.columns,
                    activate4(p.activation, v));
        }
    }
}

#define INSTANCE(PLANES, STAGES, ROWS, TOKENS)                                                                \
    extern "C" __global__ void __launch_bounds__(GROUPS * 128) linear_##PLANES##_##ROWS##_##TOKENS(           \
        const Linear p) {                                                                                     \
        release_successor();                                                                                  \
        linear<PLANES, STAGES, ROWS, TOKENS>(p);                                                              \
    }
INSTANCE(1, 4, 32, 32)
INSTANCE(1, 3, 64, 32)
INSTANCE(1, 2, 64, 64)
INSTANCE(2, 3, 32, 32)
INSTANCE(2, 2, 64, 32)
