// QuantLinear and QuantLinearGated on Hopper: warp-specialised, one producer warp, operands multicast in a cluster.
//
//   out[t][n] = (sum_k codes[t][k] * weight[n][k]) * scales[t] * weight_scales[n] (+ residual)      or, gated,
//   out[t][n] = gelu_tanh(gate) * up
//   tile     GROUPS * 64 weight rows x TOKENS tokens, one consumer warpgroup for each 64 rows; weights are the 64-row side
//            of wgmma, so that few tokens waste nothing
//   sums     the 128 products of a k-block in the tensor core; k-blocks added in order in float32 registers, one block
//            walks all of k: a row's bits depend on neither tile nor batch. DEPTH products are under way at a time, so the
//            additions of one hide behind the next
//   cluster  one block, or two that share a weight tile (`cluster_tokens` = 2) or a token tile: blocks that need the same operand fetch a part of it each
//            and send it to all, so every byte crosses from the second-level cache once a cluster
//   speed    weights do not depend on the kernel before: their copies start before the wait
//   grid     clusters take items (row tiles x token tiles of a cluster) in turn; 160 or 384 threads; dynamic shared memory:
//            1024 bytes to align + stages * (GROUPS * 8192 + TOKENS * 128), and 2 * 64 * 68 * 4 for tiles of 128 x 128. Row tiles are a multiple of the
//            cluster's
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "mma.cuh"
#include "tile.cuh"
#include "wgmma.cuh"

#define MOST_STAGES 16
#define PITCH (WEIGHT_ROWS + 4) // floats of a staged row: no bank conflicts
#define RUN 8 // k-blocks between which nothing is under way: the compiler keeps track within one body only

struct Fp8Gemm {
    const u8 *codes;
    const float *scales;
    const u8 *weight;
    const float *weight_scales, *residual;
    float *out;
    const int *rows;
    int capacity, k_blocks, columns, gated, activation, row_tiles, cluster_tokens, stages;
};

// A place in the ring and the parity of its round.
struct Ring {
    u32 stage, parity;
    __device__ __forceinline__ void advance(int stages) {
        if (++stage == (u32)stages) stage = 0, parity ^= 1;
    }
};

// Which tiles a block takes.
struct Schedule {
    int across, down, my_row, my_token; // token tiles and row tiles of a cluster; this block's place
    int token_groups, total, first, step;
    __device__ __forceinline__ Schedule(const Fp8Gemm &p, int rows, int tokens) {
        const int size = cluster_size(), rank = cluster_rank();
        across = p.cluster_tokens;
        down = size / across;
        my_row = rank / across;
        my_token = rank % across;
        token_groups = ((rows + tokens - 1) / tokens + across - 1) / across;
        total = token_groups * (p.row_tiles / down);
        first = blockIdx.x / size;
        step = gridDim.x / size;
    }
    __device__ __forceinline__ int row_tile(int item) const { return item / token_groups * down + my_row; }
    __device__ __forceinline__ int token_tile(int item) const { return item % token_groups * across + my_token; }
};

// The copies of one block: its own parts of both operands, sent to every block that needs them. ACROSS token tiles and
// DOWN row tiles in a cluster. One thread does all of it, and a k-block must cost it less than the product: addresses only
// ever advance.
template <int GROUPS, int TOKENS, int ACROSS, int DOWN>
struct Producer {
    static constexpr u32 WEIGHT_BYTES = GROUPS * WEIGHT_TILE, STAGE_BYTES = WEIGHT_BYTES + TOKENS * KBLOCK;
    static constexpr u32 WEIGHT_PART = WEIGHT_TILE / ACROSS, CODES_PART = TOKENS * KBLOCK / DOWN;
    const Fp8Gemm &p;
    const Schedule &schedule;
    u32 ring, full;

    __device__ __forceinline__ void weights(const u8 *from, u32 stage) const {
        const u32 done = full + stage * 8, to = ring + stage * STAGE_BYTES + schedule.my_token * WEIGHT_PART;
        barrier_expect(done, STAGE_BYTES);
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            const u8 *part = from + (u64)g * p.k_blocks * WEIGHT_TILE;
            if (ACROSS > 1) bulk_copy_to_all(to + g * WEIGHT_TILE, part, WEIGHT_PART, done, 3);
            else bulk_copy(to + g * WEIGHT_TILE, part, WEIGHT_PART, done);
        }
    }
    __device__ __forceinline__ void codes(const u8 *from, u32 stage) const {
        const u32 done = full + stage * 8, to = ring + stage * STAGE_BYTES + WEIGHT_BYTES + schedule.my_row * CODES_PART;
        if (DOWN > 1) bulk_copy_to_all(to, from, CODES_PART, done, 3);
        else bulk_copy(to, from, CODES_PART, done);
    }
    __device__ __forceinline__ const u8 *first_weights(int item) const {
        return p.weight + weight_tile(schedule.row_tile(item) * GROUPS, 0, p.k_blocks) + schedule.my_token * WEIGHT_PART;
    }
    __device__ __forceinline__ const u8 *first_codes(int item) const {
        // A cluster's last token tiles may lie beyond the capacity: they read any rows and store nothing.
        const int start = schedule.token_tile(item) * TOKENS, t = start < p.capacity ? start : 0;
        return p.codes + activation_tile(t, 0, p.capacity) + schedule.my_row * CODES_PART;
    }
    __device__ __forceinline__ void run(u32 empty) const {
        const u32 codes_step = p.capacity * KBLOCK;
        Ring at = {0, 0};
        int begun = 0;
        if (schedule.first < schedule.total) {
            begun = min_of(p.stages, p.k_blocks);
            const u8 *w = first_weights(schedule.first);
#pragma unroll 1
            for (int kb = 0; kb < begun; ++kb, w += WEIGHT_TILE) weights(w, kb);
        }
        wait_for_predecessor();
#pragma unroll 1
        for (int item = schedule.first; item < schedule.total; item += schedule.step) {
            const u8 *w = first_weights(item) + (u64)begun * WEIGHT_TILE, *c = first_codes(item);
            int kb = 0;
#pragma unroll 1
            for (; kb < begun; ++kb, c += codes_step) {
                codes(c, at.stage);
                at.advance(p.stages);
            }
            begun = 0;
#pragma unroll 1
            for (; kb < p.k_blocks; ++kb, w += WEIGHT_TILE, c += codes_step) {
                // A fresh barrier counts as having completed the phase before its first.
                barrier_wait(empty + at.stage * 8, at.parity ^ 1);
                weights(w, at.stage);
                codes(c, at.stage);
                at.advance(p.stages);
            }
        }
    }
};

// Scales, activation, gate, residual, straight from the accumulators: eight lanes hold eight neighbouring columns.
template <int TOKENS>
DEVICE void finish(const Fp8Gemm &p, const float (&sum)[TOKENS / 2], const float *scales, float scale0, float scale1,
                   int row, int first_token, int rows) {
    constexpr int BATCH = TOKENS < 32 ? TOKENS / 8 : 4; // column pairs of which residuals are loaded together
    static_assert(TOKENS / 8 % BATCH == 0, "batches cover the tile");
    const int t0 = (lane_id() & 3) * 2;
    if (p.gated) {
        const int column = (row >> 4) * 8 + (row & 7);
        if (column >= p.columns) return;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; ++j) {
            const float2 scale = *reinterpret_cast<const float2 *>(scales + 8 * j + t0);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int token = first_token + 8 * j + t0 + e;
                const float s = e ? scale.y : scale.x;
                const float gate = mul(mul(sum[4 * j + e], s), scale0), up = mul(mul(sum[4 * j + 2 + e], s), scale1);
                if (token < rows) p.out[(u64)token * p.columns + column] = mul(activate(GELU_TANH, gate), up);
            }
        }
        return;
    }
#pragma unroll
    for (int first = 0; first < TOKENS / 8; first += BATCH) {
        float residual[4 * BATCH];
        if (p.residual) {
#pragma unroll
            for (int i = 0; i < 4 * BATCH; ++i) {
                const int token = first_token + 8 * (first + i / 4) + t0 + (i & 1), column = row + (i & 2) * 4;
                residual[i] = token < rows && column < p.columns ? p.residual[(u64)token * p.columns + column] : 0.f;
            }
        }
#pragma unroll
        for (int i = 0; i < 4 * BATCH; ++i) {
            const int at = 8 * (first + i / 4) + t0 + (i & 1), token = first_token + at, column = row + (i & 2) * 4;
            float v = mul(mul(sum[4 * first + i], scales[at]), i & 2 ? scale1 : scale0);
            if (p.residual) v = add(v, residual[i]);
            if (token < rows && column < p.columns) p.out[(u64)token * p.columns + column] = v;
        }
    }
}

// The same for large tiles, where storing counts: through shared memory, 64 tokens at a time, rows stored whole.
DEVICE void finish_staged(const Fp8Gemm &p, const float (&sum)[64], float *staged, const float *scales, float scale0,
                          float scale1, int group_row, int first_token, int rows, int barrier) {
    const int lane = lane_id(), thread = threadIdx.x & 127;
    const int t0 = (lane & 3) * 2, r0 = (thread >> 5) * 16 + (lane >> 2), c0 = (thread >> 5) * 8 + (lane >> 2);
    const bool quads = (p.columns & 3) == 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int first = first_token + half * 64;
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int t = 8 * j + t0 + e, i = half * 32 + 4 * j + e;
                const float s = scales[half * 64 + t];
                const float v0 = mul(mul(sum[i], s), scale0), v1 = mul(mul(sum[i + 2], s), scale1);
                if (p.gated) {
                    staged[t * PITCH + c0] = mul(activate(GELU_TANH, v0), v1);
                } else {
                    staged[t * PITCH + r0] = v0;
                    staged[t * PITCH + r0 + 8] = v1;
                }
            }
        }
        asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
        const int across = p.gated ? 8 : 16, step = 128 / across; // quads of a row, rows a pass
        const int column = (p.gated ? group_row / 2 : group_row) + thread % across * 4;
        const float *from = staged + thread % across * 4;
#pragma unroll
        for (int pass = 0; pass < 2; ++pass) {
            if (pass == 1 && p.gated) break;
            float4 v[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int t = thread / across + (pass * 4 + i) * step, token = first + t;
                if (quads && p.residual && token < rows && column < p.columns) {
                    v[i] = load4(p.residual + (u64)token * p.columns + column);
                }
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int t = thread / across + (pass * 4 + i) * step, token = first + t;
                const float4 product = load4(from + t * PITCH);
                if (token >= rows || column >= p.columns) continue;
                const u64 at = (u64)token * p.columns;
                if (quads) store4(p.out + at + column, p.residual ? add4(product, v[i]) : product);
                else finish4(p.out + at, p.residual ? p.residual + at : nullptr, column, p.columns, product);
            }
        }
        asm volatile("bar.sync %0, 128;" ::"r"(barrier) : "memory");
    }
}

template <int GROUPS, int TOKENS, int DEPTH>
DEVICE void fp8_gemm(const Fp8Gemm &p) {
    constexpr u32 STAGE_BYTES = GROUPS * WEIGHT_TILE + TOKENS * KBLOCK;
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 full_barriers[MOST_STAGES], empty_barriers[MOST_STAGES];
    __shared__ __align__(8) float scales[2][GROUPS][TOKENS];
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    const u32 full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const int rows = *p.rows;
    const Schedule schedule(p, rows, TOKENS);
    const int peers = schedule.across + schedule.down - 1; // blocks that write into this one's ring, itself included

    release_successor();
    if (threadIdx.x == 0) {
        for (int s = 0; s < p.stages; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, GROUPS * 4 * peers);
        }
        barrier_init_fence();
    }
    if (cluster_size() > 1) {
        cluster_meet();
    }
    __syncthreads();

    if (warp_id() >= GROUPS * 4) {
        if (GROUPS == 2) give_registers<40>();
        if (warp_id() == GROUPS * 4 && elected()) {
            if (schedule.across == 2) Producer<GROUPS, TOKENS, 2, 1>{p, schedule, ring, full}.run(empty);
            else if (schedule.down == 2) Producer<GROUPS, TOKENS, 1, 2>{p, schedule, ring, full}.run(empty);
            else Producer<GROUPS, TOKENS, 1, 1>{p, schedule, ring, full}.run(empty);
        }
        __syncwarp();
        wait_for_predecessor();
    } else {
        if (GROUPS == 2) take_registers<232>();
        const int group = uniform(warp_id() / 4), lane = lane_id();
        const u32 operand_a = operand_low(ring + group * WEIGHT_TILE), operand_b = operand_low(ring + GROUPS * WEIGHT_TILE);
        // Lane l tells the l-th peer that a stage is free.
        const int peer = lane < schedule.across ? schedule.my_row * schedule.across + lane
                                                : (lane - schedule.across + (lane - schedule.across >= schedule.my_row)) *
                                                          schedule.across + schedule.my_token;
        const u32 empty_there = address_at(empty, lane < peers ? peer : (int)cluster_rank());
        const int row_in_tile = group * WEIGHT_ROWS + (warp_id() & 3) * 16 + (lane >> 2);
        float sum[TOKENS / 2];
        Ring ahead = {0, 0};  // the next product to start
        u32 release = 0;      // the next stage to free
        int buffer = 0;

        wait_for_predecessor();
        for (int item = schedule.first; item < schedule.total; item += schedule.step) {
            const int row = schedule.row_tile(item) * GROUPS * WEIGHT_ROWS + row_in_tile;
            const int first_token = schedule.token_tile(item) * TOKENS;
            const float scale0 = p.weight_scales[row], scale1 = p.weight_scales[row + 8];
            float *own = scales[buffer][group];
            // Nobody waits for the tokens' scales before the end of the tile.
            const int thread = threadIdx.x & 127, token = first_token + thread;
            if (thread < TOKENS) copy4(shared_address(own + thread), p.scales + (token < rows ? token : 0), token < rows);
            auto start = [&](float (&d)[TOKENS / 2]) {
                const u32 at = ahead.stage * (STAGE_BYTES / 16);
                barrier_wait(full + ahead.stage * 8, ahead.parity);
                wgmma_k_block<TOKENS>(d, operand_a + at, operand_b + at);
                ahead.advance(p.stages);
            };
            auto take = [&](float (&d)[TOKENS / 2]) {
                settle(d);
                if (lane < peers) barrier_arrive_remote(empty_there + release * 8);
                if (++release == (u32)p.stages) release = 0;
#pragma unroll
                for (int e = 0; e < TOKENS / 2; ++e) sum[e] = add(sum[e], d[e]);
            };
#pragma unroll
            for (int e = 0; e < TOKENS / 2; ++e) sum[e] = 0.f;
            int kb = 0;
            for (; kb + RUN <= p.k_blocks; kb += RUN) {
                float product[DEPTH][TOKENS / 2];
#pragma unroll
                for (int i = 0; i < RUN + DEPTH - 1; ++i) {
                    if (i < RUN) start(product[i % DEPTH]);
                    if (i >= DEPTH - 1) {
                        // Products that may still be under way: those started after this one.
                        if (i < RUN) wgmma_wait<DEPTH - 1>();
                        else wgmma_wait_at_most(RUN + DEPTH - 2 - i);
                        take(product[(i + 1) % DEPTH]);
                    }
                }
            }
            for (; kb < p.k_blocks; ++kb) {
                float product[TOKENS / 2];
                start(product);
                wgmma_wait<0>();
                take(product);
            }
            asm volatile("cp.async.wait_all;" ::: "memory");
            // The scales are there for the whole warpgroup; the other buffer is free since the last time here.
            asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
            if constexpr (GROUPS == 2 && TOKENS == 128) {
                float *staged = reinterpret_cast<float *>(memory + (ring - shared_address(memory)) + p.stages * STAGE_BYTES) +
                                group * 64 * PITCH;
                finish_staged(p, sum, staged, own, scale0, scale1,
                              (schedule.row_tile(item) * GROUPS + group) * WEIGHT_ROWS, first_token, rows, group + 1);
            } else {
                finish<TOKENS>(p, sum, own, scale0, scale1, row, first_token, rows);
            }
            buffer ^= 1;
        }
    }
    // Others may still arrive on this block's barriers or write into its ring.
    if (cluster_size() > 1) {
        __syncwarp();
        cluster_meet();
    }
}

#define INSTANCE(GROUPS, TOKENS, DEPTH)                                                                      \
    extern "C" __global__ void __launch_bounds__(GROUPS == 1 ? 160 : 384, 1)                                      \
        sm90_fp8_gemm_##GROUPS##_##TOKENS(const Fp8Gemm p) {                                                 \
        fp8_gemm<GROUPS, TOKENS, DEPTH>(p);                                                                  \
    }
INSTANCE(1, 16, 4)
INSTANCE(1, 32, 4)
INSTANCE(1, 64, 3)
INSTANCE(1, 96, 2)
INSTANCE(1, 128, 2)
INSTANCE(2, 64, 2)
INSTANCE(2, 96, 2)
INSTANCE(2, 128, 2)
