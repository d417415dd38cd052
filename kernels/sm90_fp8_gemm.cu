// QuantLinear and QuantLinearGated for many tokens on Hopper: persistent, warp-specialised, clusters of two.
//
//   out[t][n] = (sum_k codes[t][k] * weight[n][k]) * scales[t] * weight_scales[n] (+ residual)      or, gated,
//   out[t][n] = activation(gate) * up
//   tile   128 weight rows x 128 tokens; two consumer warpgroups of 64 rows, one producer warpgroup. The two blocks of a
//          cluster take two token tiles of the same weight rows; each fetches half of the weight tile for both
//   sums   the 128 products of a k-block in the tensor core; k-blocks added in order in float32 registers; every `splits`-th
//          part of k apart, the parts added in order: exactly the order of sm90_fp8_split, so a row has the same bits in
//          any batch
//   grid   an even number of blocks up to that of multiprocessors, clusters of 2, 384 threads,
//          1024 + STAGES * 32768 + 2 * 64 * 68 * 4 bytes of dynamic shared memory
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "tile.cuh"
#include "wgmma.cuh"

#define STAGES 5
#define ROWS 128
#define TOKENS 128
#define TOKEN_BYTES (TOKENS * KBLOCK)
#define STAGE_BYTES (2 * WEIGHT_TILE + TOKEN_BYTES)
#define HALF_TOKENS 64
#define PITCH (WEIGHT_ROWS + 4)

struct Fp8Gemm {
    const u8 *codes;
    const float *scales;
    const u8 *weight;
    const float *weight_scales, *residual;
    float *out;
    const int *rows;
    int capacity, k_blocks, columns, gated, activation, splits, stages;
};

struct Schedule {
    int token_tiles, pairs, total;
    __device__ __forceinline__ Schedule(int rows, int row_tiles) {
        token_tiles = (rows + TOKENS - 1) / TOKENS;
        pairs = (token_tiles + 1) / 2;
        total = pairs * row_tiles;
    }
    // Weight tile of an item; token tile of a block. The odd block of a last, lone tile repeats it and stores nothing.
    __device__ __forceinline__ int row_tile(int item) const { return item / pairs; }
    __device__ __forceinline__ int token_tile(int item, int rank) const { return item % pairs * 2 + rank; }
};

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
    sm90_fp8_gemm(const Fp8Gemm p) {
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 full_barriers[STAGES], empty_barriers[STAGES];
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    const u32 full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const u32 rank = cluster_rank();
    const int rows = *p.rows;
    const int row_tiles = ((p.gated ? (p.columns + 7) / 8 * 16 : p.columns) + ROWS - 1) / ROWS;
    const Schedule schedule(rows, row_tiles);
    const int first_item = blockIdx.x / 2, items = gridDim.x / 2;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, 16); // eight consumer warps in each of the two blocks
        }
        barrier_init_fence();
    }
    release_successor();
    cluster_meet();
    wait_for_predecessor();

    if (threadIdx.x >= 256) {
        give_registers<40>();
        if (threadIdx.x == 256) {
            u32 stage = 0, phase = 0;
            for (int item = first_item; item < schedule.total; item += items) {
                const int w = schedule.row_tile(item) * 2 + rank;
                const int t = min_of(schedule.token_tile(item, rank), schedule.token_tiles - 1) * TOKENS;
                for (int kb = 0; kb < p.k_blocks; ++kb) {
                    const u32 at = ring + stage * STAGE_BYTES, done = full + stage * 8;
                    // A fresh barrier counts as having completed the phase before its first.
                    barrier_wait(empty + stage * 8, phase ^ 1);
                    barrier_expect(done, STAGE_BYTES);
                    bulk_copy_to_all(at + rank * WEIGHT_TILE, p.weight + weight_tile(w, kb, p.k_blocks), WEIGHT_TILE, done, 3);
                    bulk_copy(at + 2 * WEIGHT_TILE, p.codes + activation_tile(t, kb, p.capacity), TOKEN_BYTES, done);
                    if (++stage == STAGES) stage = 0, phase ^= 1;
                }
            }
        }
        __syncwarp();
    } else {
        take_registers<232>();
        const int group = threadIdx.x / 128, lane = lane_id();
        u32 stage = 0, phase = 0;
        float product[TOKENS / 2], part[TOKENS / 2], sum[TOKENS / 2];
        for (int item = first_item; item < schedule.total; item += items) {
#pragma unroll
            for (int e = 0; e < TOKENS / 2; ++e) part[e] = 0.f, sum[e] = 0.f;
            int split = 1, part_end = p.k_blocks / p.splits;
            for (int kb = 0; kb < p.k_blocks; ++kb) {
                const u32 at = ring + stage * STAGE_BYTES;
                barrier_wait(full + stage * 8, phase);
                wgmma_k_block<TOKENS>(product, at + group * WEIGHT_TILE, at + 2 * WEIGHT_TILE);
                if (lane < 2) barrier_arrive_at(empty + stage * 8, lane);
                if (++stage == STAGES) stage = 0, phase ^= 1;
#pragma unroll
                for (int e = 0; e < TOKENS / 2; ++e) part[e] = add(part[e], product[e]);
                if (kb + 1 == part_end) {
#pragma unroll
                    for (int e = 0; e < TOKENS / 2; ++e) sum[e] = add(sum[e], part[e]), part[e] = 0.f;
                    ++split;
                    part_end = split * p.k_blocks / p.splits;
                }
            }

            // Through shared memory, 64 tokens at a time, so that rows are stored whole.
            const int row_tile = schedule.row_tile(item), token_tile = schedule.token_tile(item, rank);
            float *staged = reinterpret_cast<float *>(memory + (ring - shared_address(memory)) + STAGES * STAGE_BYTES) +
                            group * HALF_TOKENS * PITCH;
            const int r0 = (warp_id() & 3) * 16 + (lane >> 2), t0 = (lane & 3) * 2, thread = threadIdx.x % 128;
            const float *scales = p.weight_scales + row_tile * ROWS + group * WEIGHT_ROWS;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
#pragma unroll
                for (int j = 0; j < HALF_TOKENS / 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 4; ++e) {
                        staged[(j * 8 + t0 + (e & 1)) * PITCH + r0 + (e >> 1) * 8] = sum[half * 32 + 4 * j + e];
                    }
                }
                asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
                const int first_token = token_tile * TOKENS + half * HALF_TOKENS;
                if (p.gated) {
                    // 8 quads of outputs a token, 16 tokens a pass.
                    const int q = thread % 8, w = (q >> 1) * 16 + (q & 1) * 4;
                    const int column = (row_tile * ROWS + group * WEIGHT_ROWS) / 2 + q * 4;
                    const float4 s0 = load4(scales + w), s1 = load4(scales + w + 8);
                    for (int t = thread / 8; t < HALF_TOKENS && first_token + t < rows; t += 16) {
                        const float scale = p.scales[first_token + t];
                        const float4 gate = dequantize4(load4(staged + t * PITCH + w), scale, s0);
                        const float4 up = dequantize4(load4(staged + t * PITCH + w + 8), scale, s1);
                        finish4(p.out + (u64)(first_token + t) * p.columns, nullptr, column, p.columns,
                                mul4(activate4(p.activation, gate), up));
                    }
                } else {
                    const int w = thread % 16 * 4, column = row_tile * ROWS + group * WEIGHT_ROWS + w;
                    const float4 s0 = load4(scales + w);
                    for (int t = thread / 16; t < HALF_TOKENS && first_token + t < rows; t += 8) {
                        const u64 out_row = (u64)(first_token + t) * p.columns;
                        const float4 v = dequantize4(load4(staged + t * PITCH + w), p.scales[first_token + t], s0);
                        finish4(p.out + out_row, p.residual ? p.residual + out_row : nullptr, column, p.columns, v);
                    }
                }
                asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
            }
        }
    }
    // The other block may still arrive on this one's barriers.
    cluster_meet();
}
