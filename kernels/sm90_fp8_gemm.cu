// QuantLinear and QuantLinearGated on Hopper: warp-specialised, one producer warp, operands multicast in a cluster.
//
//   out[t][n] = (sum_k codes[t][k] * weight[n][k]) * scales[t] * weight_scales[n] (+ residual)      or, gated,
//   out[t][n] = gelu_tanh(gate) * up
//   tile     GROUPS * 64 weight rows x TOKENS tokens, one consumer warpgroup for each 64 rows; weights are the 64-row side
//            of wgmma, so that few tokens waste nothing
//   sums     the 128 products of a k-block in the tensor core; k-blocks added in order in float32 registers, one block
//            walks all of k: a row's bits depend on neither tile nor batch. DEPTH products are under way at a time, so the
//            additions of one hide behind the next
//   out      float32, or rounded to a 16-bit format; the largest tile has instances in which other warps store the results
//            while the next tile is multiplied
//   cluster  one block, or two that share a weight tile (`cluster_tokens` = 2) or a token tile: blocks that need the same operand fetch a part of it each
//            and send it to all, so every byte crosses from the second-level cache once a cluster
//   speed    weights do not depend on the kernel before: their copies start before the wait
//   grid     clusters take items (row tiles x token tiles of a cluster) in turn; 160 or 384 threads; dynamic shared memory:
//            1024 bytes to align + stages * (GROUPS * 8192 + TOKENS * 128), and 128 * Outgoing::PITCH where results are
//            staged. Row tiles are a multiple of the cluster's
#include "convert.cuh"
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "mma.cuh"
#include "pipeline.cuh"
#include "tile.cuh"
#include "wgmma.cuh"

#define RUN 8 // k-blocks between which nothing is under way: the compiler keeps track within one body only

struct Fp8Gemm {
    const u8 *codes;
    const float *scales;
    const u8 *weight;
    const float *weight_scales, *residual;
    void *out;
    const int *rows;
    int capacity, k_blocks, columns, gated, activation, row_tiles, cluster_tokens, stages, stored, pad;
};

// How results leave: from the registers, or (the largest tile) as rows of shared memory that other warps store.
enum { DIRECT, ROWS_F32, ROWS_F16, GATED_BF16 };

// Scales, activation, gate, residual, straight from the accumulators: eight lanes hold eight neighbouring columns.
template <int TOKENS, int STORED>
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
                if (token < rows) {
                    store_rounded<STORED>(p.out, (u64)token * p.columns + column, mul(activate(GELU_TANH, gate), up));
                }
            }
        }
        return;
    }
#pragma unroll
    for (int first = 0; first < TOKENS / 8; first += BATCH) {
        float residual[4 * BATCH];
        if (STORED == F32 && p.residual) {
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
            if (STORED == F32 && p.residual) v = add(v, residual[i]);
            if (token < rows && column < p.columns) store_rounded<STORED>(p.out, (u64)token * p.columns + column, v);
        }
    }
}

// The results of the largest tile on their way out: rows of 128 (gated: 64) columns in shared memory, one a token. Three
// warps beside the producer store them while the next tile is multiplied, and before that fetch the residual to where the
// results will be added to it. A chunk of 16 bytes always belongs to the same thread of theirs.
template <int STORED, bool GATED>
struct Outgoing {
    static constexpr int COLUMNS = GATED ? 64 : 128, SIZE = STORED == F32 ? 4 : 2, CHUNKS = COLUMNS * SIZE / 16;
    static constexpr int PITCH = COLUMNS * SIZE + 16; // the pad keeps the writes below free of bank conflicts
    const Fp8Gemm &p;
    u32 staged;
    u32 ready, filled; // barriers: rows are free and hold the residual (96 arrivals); they hold results (8 warps)
    u32 parity;

    __device__ __forceinline__ Outgoing(const Fp8Gemm &p, u32 staged, u64 *barriers)
        : p(p), staged(staged), ready(shared_address(barriers)), filled(shared_address(barriers + 1)), parity(0) {}

    // The 96 storing threads: a warp takes rows in turn, a lane always the same chunk, so that addresses only advance. As a
    // chunk leaves, the residual of the next tile is asked for in its place.
    __device__ __forceinline__ void serve(const Schedule &schedule, int rows) const {
        constexpr int AT_ONCE = 32 / CHUNKS; // rows of a warp
        const int lane = lane_id(), first = (warp_id() - 2 * 4 - 1) * AT_ONCE + lane / CHUNKS, chunk = lane % CHUNKS;
        const u32 from = staged + first * PITCH + chunk * 16;
        const u64 step = (u64)3 * AT_ONCE * p.columns * SIZE;
        const u8 *residual = reinterpret_cast<const u8 *>(STORED == F32 ? p.residual : nullptr);
        // This lane's place in a tile, in bytes, and the end of its rows.
        auto place = [&](int item) {
            return ((u64)(schedule.token_tile(item) * 128 + first) * p.columns + schedule.row_tile(item) * COLUMNS) * SIZE +
                   chunk * 16;
        };
        auto end = [&](int item) {
            const bool inside = schedule.row_tile(item) * COLUMNS * SIZE + chunk * 16 < p.columns * SIZE;
            return inside && item < schedule.total ? min_of(128, rows - schedule.token_tile(item) * 128) : 0;
        };
        auto ask = [&](u32 to, const u8 *at, bool valid) {
            if (STORED == F32 && residual) copy16(to, valid ? at : residual, valid);
        };
        auto say_ready = [&] {
            if (STORED == F32 && residual) arrive_after_copies(ready);
            else barrier_arrive(ready);
        };
        {
            const int tokens = end(schedule.first);
            const u8 *at = residual + place(schedule.first);
            u32 to = from;
            for (int t = first; t < 128; t += 3 * AT_ONCE, at += step, to += 3 * AT_ONCE * PITCH) ask(to, at, t < tokens);
            say_ready();
        }
        u32 round = 0;
        for (int item = schedule.first; item < schedule.total; item += schedule.step, round ^= 1) {
            const int next = item + schedule.step, tokens = end(item), next_tokens = end(next);
            u8 *to = static_cast<u8 *>(p.out) + place(item);
            const u8 *at = residual + place(next);
            u32 row = from;
            barrier_wait(filled, round);
#pragma unroll 4
            for (int t = first; t < 128; t += 3 * AT_ONCE, to += step, at += step, row += 3 * AT_ONCE * PITCH) {
                const uint4 v = load16_shared(row);
                if (t < tokens) *reinterpret_cast<uint4 *>(to) = v;
                ask(row, at, t < next_tokens);
            }
            __syncwarp();
            say_ready();
        }
    }

    // The multiplying warps.
    __device__ __forceinline__ void finish(const float (&sum)[64], const float *scales, float scale0, float scale1, int group) {
        const int lane = lane_id(), warp = warp_id() & 3, t0 = (lane & 3) * 2;
        barrier_wait(ready, parity);
        parity ^= 1;
        if constexpr (STORED == F32) {
            static_assert(!GATED, "gated results of this tile are stored in 16 bits");
            const u32 to = staged + (group * 64 + warp * 16 + (lane >> 2)) * 4;
            constexpr int BATCH = 16; // of which the residual is read together
            auto place = [&](int i) { return to + (8 * (i / 4) + t0 + (i & 1)) * PITCH + (i & 2) * 16; };
#pragma unroll
            for (int first = 0; first < 64; first += BATCH) {
                float v[BATCH];
#pragma unroll
                for (int i = 0; i < BATCH; ++i) {
                    const int e = first + i;
                    v[i] = mul(mul(sum[e], scales[8 * (e / 4) + t0 + (e & 1)]), e & 2 ? scale1 : scale0);
                }
                if (p.residual) {
                    float residual[BATCH];
#pragma unroll
                    for (int i = 0; i < BATCH; ++i) residual[i] = load_shared(place(first + i));
#pragma unroll
                    for (int i = 0; i < BATCH; ++i) v[i] = add(v[i], residual[i]);
                }
#pragma unroll
                for (int i = 0; i < BATCH; ++i) store_shared(place(first + i), v[i]);
            }
        } else {
            // Pairs of tokens; transposed on their way, so that a row holds neighbouring columns.
            auto value = [&](int j, int e) {
                const float s = scales[8 * j + t0 + (e & 1)];
                return mul(mul(sum[4 * j + e], s), e & 2 ? scale1 : scale0);
            };
            constexpr int STEP = GATED ? 4 : 2; // groups of eight tokens at a time
#pragma unroll
            for (int j = 0; j < 16; j += STEP) {
                u32 r[4];
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    if (GATED) {
                        const float y0 = mul(activate(GELU_TANH, value(j + i, 0)), value(j + i, 2));
                        const float y1 = mul(activate(GELU_TANH, value(j + i, 1)), value(j + i, 3));
                        r[i] = rounded_pair<STORED>(y0, y1);
                    } else {
                        const int e = (i & 1) * 2;
                        r[i] = rounded_pair<STORED>(value(j + i / 2, e), value(j + i / 2, e + 1));
                    }
                }
                // Lane l: row l % 8 of matrix l / 8.
                const int matrix = lane >> 3;
                const int t = 8 * (j + (GATED ? matrix : matrix >> 1)) + (lane & 7);
                const int column = GATED ? group * 32 + warp * 8 : group * 64 + warp * 16 + (matrix & 1) * 8;
                store_matrices_transposed(staged + t * PITCH + column * 2, r[0], r[1], r[2], r[3]);
            }
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(filled);
    }
};

template <int GROUPS, int TOKENS, int DEPTH, int WAY>
DEVICE void fp8_gemm(const Fp8Gemm &p) {
    using Out = Outgoing<WAY == ROWS_F16 ? F16 : WAY == GATED_BF16 ? BF16 : F32, WAY == GATED_BF16>;
    static_assert(WAY == DIRECT || (GROUPS == 2 && TOKENS == 128), "only the largest tile is staged");
    constexpr u32 STAGE_BYTES = GROUPS * WEIGHT_TILE + TOKENS * KBLOCK;
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 full_barriers[MOST_STAGES], empty_barriers[MOST_STAGES];
    __shared__ __align__(8) u64 row_barriers[2];
    __shared__ __align__(8) float scales[2][GROUPS][TOKENS];
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    const u32 full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const int rows = *p.rows;
    const Schedule schedule(p.cluster_tokens, p.row_tiles, rows, TOKENS);
    const int peers = peers_of(schedule);

    release_successor();
    if (threadIdx.x == 0) {
        for (int s = 0; s < p.stages; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, GROUPS * 4 * peers);
        }
        barrier_init(shared_address(row_barriers), 96);
        barrier_init(shared_address(row_barriers + 1), 8);
        barrier_init_fence();
    }
    if (cluster_size() > 1) {
        cluster_meet();
    }
    __syncthreads();

    Out out(p, ring + p.stages * STAGE_BYTES, row_barriers);
    if (warp_id() >= GROUPS * 4) {
        if (GROUPS == 2) give_registers<56>();
        if (WAY != DIRECT && warp_id() > GROUPS * 4) {
            wait_for_predecessor();
            out.serve(schedule, rows);
        } else if (warp_id() == GROUPS * 4 && elected()) {
            produce<GROUPS, TOKENS>(p, schedule, Items(schedule, p.k_blocks), ring, full, empty);
        }
        __syncwarp();
        wait_for_predecessor();
    } else {
        if (GROUPS == 2) take_registers<224>();
        const int group = uniform(warp_id() / 4), lane = lane_id();
        const u32 operand_a = operand_low(ring + group * WEIGHT_TILE), operand_b = operand_low(ring + GROUPS * WEIGHT_TILE);
        // Lane l tells the l-th peer that a stage is free.
        const int peer = peer_rank(schedule, lane);
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
            meet_group(group);
            if constexpr (WAY != DIRECT) {
                out.finish(sum, own, scale0, scale1, group);
            } else {
                switch (p.stored) {
                    case F32: finish<TOKENS, F32>(p, sum, own, scale0, scale1, row, first_token, rows); break;
                    case F16: finish<TOKENS, F16>(p, sum, own, scale0, scale1, row, first_token, rows); break;
                    default: finish<TOKENS, BF16>(p, sum, own, scale0, scale1, row, first_token, rows);
                }
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

#define INSTANCE(NAME, GROUPS, TOKENS, DEPTH, WAY)                                                             \
    extern "C" __global__ void __launch_bounds__(GROUPS == 1 ? 160 : 384, 1)                                   \
        sm90_fp8_gemm_##NAME(const Fp8Gemm p) {                                                                \
        fp8_gemm<GROUPS, TOKENS, DEPTH, WAY>(p);                                                               \
    }
INSTANCE(1_16, 1, 16, 4, DIRECT)
INSTANCE(1_32, 1, 32, 4, DIRECT)
INSTANCE(1_64, 1, 64, 3, DIRECT)
INSTANCE(1_96, 1, 96, 2, DIRECT)
INSTANCE(1_128, 1, 128, 2, DIRECT)
INSTANCE(2_64, 2, 64, 2, DIRECT)
INSTANCE(2_96, 2, 96, 2, DIRECT)
INSTANCE(2_128, 2, 128, 2, DIRECT)
INSTANCE(2_128_f32, 2, 128, 2, ROWS_F32)
INSTANCE(2_128_f16, 2, 128, 2, ROWS_F16)
INSTANCE(2_128_gated, 2, 128, 2, GATED_BF16)
