// QuantLinear and QuantLinearGated on Hopper: warp-specialised, one producer warp, operands multicast in a cluster.
//
//   out[t][n] = (sum_k codes[t][k] * weight[n][k]) * scales[t] * weight_scales[n] (+ residual)      or, gated,
//   out[t][n] = gelu_tanh(gate) * up
//   tile     GROUPS * 64 weight rows x TOKENS tokens, one consumer warpgroup for each 64 rows; weights are the 64-row side
//            of wgmma, so that few tokens waste nothing
//   sums     the 128 products of a k-block in the tensor core; k-blocks added in order in float32 registers, one block
//            walks all of k: a row's bits depend on neither tile nor batch. DEPTH products are under way at a time, so the
//            additions of one hide behind the next
//   out      float32, or rounded to a 16-bit format; the largest tile has instances whose results leave while the next tile is
//            multiplied: stored by other warps, or moved by the copy engine from places of the ring (RING_…), where the
//            residual came to before; or added in memory (out is the residual)
//   cluster  one block, or two that share a weight tile (`cluster_tokens` = 2) or a token tile: blocks that need the same operand fetch a part of it each
//            and send it to all, so every byte crosses from the second-level cache once a cluster
//   speed    weights do not depend on the kernel before: their copies start before the wait
//   grid     clusters take items (row tiles x token tiles of a cluster) in turn; 160 or 384 threads; dynamic shared memory:
//            1024 bytes to align + stages * (GROUPS * 8192 + TOKENS * 128), and 128 * Outgoing::PITCH where results are
//            staged; in the instances RING_… stages * 32768 + sizeof(Meeting) from a multiple of 1024 on, which is where the
//            driver lays it. Row tiles are a multiple of the cluster's
#include "convert.cuh"
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "mma.cuh"
#include "pipeline.cuh"
#include "tensor_copy.cuh"
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

// The same with boxes of 128 rows of the residual and of out, 128 bytes wide, for the instances RING_…
struct Fp8GemmBoxes {
    Fp8Gemm product;
    int pad[8];
    TensorMap residual, out;
};

// How results leave: from the registers; or (the largest tile) as rows of shared memory that other warps store; or from the
// ring, moved by the copy engine.
enum { DIRECT, ROWS_F32, ROWS_F16, GATED_BF16, RING_F32, RING_ADDED, RING_F16, RING_GATED };

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
            if (STORED == F32 && p.residual) v = add_flushed(v, residual[i]);
            if (token < rows && column < p.columns) store_rounded<STORED>(p.out, (u64)token * p.columns + column, v);
        }
    }
}

// A warp's results in 16 bits to shared memory: pairs of tokens, transposed on their way, so that a row holds neighbouring
// columns. `place(t, matrix)`: the address of eight columns of token t, the left (0) or the right (1) eight of sixteen; gated
// there are eight only.
template <int STORED, bool GATED, class Place>
DEVICE void store_sixteen_bits(const float (&sum)[64], const float *scales, float scale0, float scale1, Place place) {
    const int lane = lane_id(), t0 = (lane & 3) * 2;
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
        store_matrices_transposed(place(t, matrix & 1), r[0], r[1], r[2], r[3]);
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

    __device__ __forceinline__ Outgoing(const Fp8Gemm &p, u32 staged, u32 barriers)
        : p(p), staged(staged), ready(barriers), filled(barriers + 8), parity(0) {}

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
                    for (int i = 0; i < BATCH; ++i) v[i] = add_flushed(v[i], residual[i]);
                }
#pragma unroll
                for (int i = 0; i < BATCH; ++i) store_shared(place(first + i), v[i]);
            }
        } else {
            store_sixteen_bits<STORED, GATED>(sum, scales, scale0, scale1, [&](int t, int matrix) {
                const int column = GATED ? group * 32 + warp * 8 : group * 64 + warp * 16 + (matrix & 1) * 8;
                return staged + t * PITCH + column * 2;
            });
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(filled);
    }
};

// The results of the largest tile in the ring: after an item's k-blocks come EXTRA places for them, boxes of 128 tokens x
// 128 bytes. The producer lets them in like k-blocks, with the residual where the block adds it itself; the multiplying warps
// write to them, a sender has the copy engine move them, and frees the place once it is read. A ring has at most k_blocks + EXTRA
// places: then nobody gets a place for the next item's results before those of this one have been taken.
template <int WAY>
struct InRing {
    static constexpr int STORED = WAY == RING_F16 ? F16 : WAY == RING_GATED ? BF16 : F32;
    static constexpr bool GATED = WAY == RING_GATED;
    static constexpr u32 STAGE_BYTES = 2 * WEIGHT_TILE + 128 * KBLOCK, BOX_BYTES = 128 * KBLOCK;
    static constexpr int COLUMNS = GATED ? 64 : 128, BOX_COLUMNS = STORED == F32 ? 32 : 64;
    static constexpr int EXTRA = STORED == F32 ? 2 : 1;   // float32: a place for each warpgroup
    static constexpr int SENDERS = GATED ? 1 : 2;         // one for each warpgroup, or for both
    static constexpr int BOXES = COLUMNS / BOX_COLUMNS / SENDERS;
    const Fp8Gemm &p;
    const Schedule &schedule;
    const TensorMap *residual, *out;
    u32 ring, full, empty;
    u32 filled; // barriers of the senders: results are there
    int rows;

    // Boxes of a sender's columns that are not all outside; their first column and row.
    __device__ __forceinline__ int boxes(int item, int sender, int &column, int &row) const {
        column = schedule.row_tile(item) * COLUMNS + sender * BOXES * BOX_COLUMNS;
        row = schedule.token_tile(item) * 128;
        return row >= rows ? 0 : min_of(BOXES, (p.columns - column + BOX_COLUMNS - 1) / BOX_COLUMNS);
    }
    // The producer.
    __device__ __forceinline__ void operator()(int item, Ring &at) const {
#pragma unroll 1
        for (int place = 0; place < EXTRA; ++place, at.advance(p.stages)) {
            barrier_wait(empty + at.stage * 8, at.parity ^ 1);
            const u32 done = full + at.stage * 8, to = ring + at.stage * STAGE_BYTES;
            if (WAY == RING_F32 && p.residual) {
                int column, row;
                const int count = boxes(item, place, column, row);
                barrier_expect(done, count > 0 ? count * BOX_BYTES : 0);
                for (int i = 0; i < count; ++i) box_load(to + i * BOX_BYTES, residual, column + i * BOX_COLUMNS, row, done);
            } else {
                barrier_arrive(done);
            }
        }
    }
    // A tile whose last tokens are no rows of the batch: those stay as they are, so threads move the others.
    __device__ __forceinline__ void store_rows(u32 from, int count, int column, int row) const {
        constexpr int SIZE = STORED == F32 ? 4 : 2;
        const int chunk = lane_id() & 7, first = lane_id() >> 3;
        for (int i = 0; i < count; ++i, from += BOX_BYTES, column += BOX_COLUMNS) {
            if (column + chunk * 16 / SIZE >= p.columns) continue;
            u8 *to = static_cast<u8 *>(p.out) + ((u64)(row + first) * p.columns + column) * SIZE + chunk * 16;
#pragma unroll 1
            for (int r = first; row + r < rows && r < 128; r += 4, to += (u64)4 * p.columns * SIZE) {
                uint4 v = load16_shared(from + r * KBLOCK + (((chunk ^ r) & 7) << 4));
                if constexpr (WAY == RING_ADDED) {
                    const float4 x = *reinterpret_cast<const float4 *>(to);
                    v.x = __float_as_uint(add_flushed(x.x, __uint_as_float(v.x)));
                    v.y = __float_as_uint(add_flushed(x.y, __uint_as_float(v.y)));
                    v.z = __float_as_uint(add_flushed(x.z, __uint_as_float(v.z)));
                    v.w = __float_as_uint(add_flushed(x.w, __uint_as_float(v.w)));
                }
                *reinterpret_cast<uint4 *>(to) = v;
            }
        }
        __syncwarp();
    }
    // A sender, one warp.
    __device__ __forceinline__ void send(int sender) const {
        const int peers = peers_of(schedule);
        constexpr u32 ARRIVALS = 8 * EXTRA / SENDERS; // as many as warps release a place, shared by the senders in it
        int stage = (p.k_blocks + (EXTRA == 2 ? sender : 0)) % p.stages;
        const int step = (p.k_blocks + EXTRA) % p.stages;
        u32 parity = 0;
#pragma unroll 1
        for (int item = schedule.first; item < schedule.total; item += schedule.step, parity ^= 1) {
            int column, row;
            const int count = boxes(item, sender, column, row);
            const u32 from = ring + stage * STAGE_BYTES + (EXTRA == 1 ? sender * BOX_BYTES : 0);
            barrier_wait(filled + sender * 8, parity);
            __syncwarp();
            const bool whole = row + 128 <= rows;
            if (!whole) store_rows(from, count, column, row);
            if (elected()) {
                if (whole) {
                    for (int i = 0; i < count; ++i) {
                        if (WAY == RING_ADDED) box_add(out, column + i * BOX_COLUMNS, row, from + i * BOX_BYTES);
                        else box_store(out, column + i * BOX_COLUMNS, row, from + i * BOX_BYTES);
                    }
                    commit_boxes();
                    wait_boxes_read();
                }
                for (int peer = 0; peer < peers; ++peer) {
                    barrier_arrive_remote(address_at(empty + stage * 8, peer_rank(schedule, peer)), ARRIVALS);
                }
            }
            __syncwarp();
            stage += step;
            if (stage >= p.stages) stage -= p.stages;
        }
        wait_boxes();
    }
    // The multiplying warps; the first place is `at`, which moves on.
    __device__ __forceinline__ void finish(const float (&sum)[64], const float *scales, float scale0, float scale1, int group,
                                           Ring &at) const {
        const int lane = lane_id(), warp = warp_id() & 3;
        Ring place = at;
        if (EXTRA == 2 && group == 1) place.advance(p.stages);
        for (int i = 0; i < EXTRA; ++i) at.advance(p.stages);
        barrier_wait(full + place.stage * 8, place.parity);
        const u32 to = ring + place.stage * STAGE_BYTES;
        if constexpr (STORED == F32) {
            const int t0 = (lane & 3) * 2, chunk = (warp & 1) * 4 + (lane >> 4);
            const u32 box = to + (warp >> 1) * BOX_BYTES + (lane >> 2 & 3) * 4;
            u32 places[4]; // of the first eight tokens
#pragma unroll
            for (int e = 0; e < 4; ++e) places[e] = box + (t0 + (e & 1)) * KBLOCK + (((chunk + (e & 2)) ^ (t0 + (e & 1))) << 4);
            constexpr int BATCH = 16; // of which the residual is read together
#pragma unroll
            for (int first = 0; first < 64; first += BATCH) {
                float v[BATCH];
#pragma unroll
                for (int i = 0; i < BATCH; ++i) {
                    const int e = first + i;
                    v[i] = mul(mul(sum[e], scales[8 * (e / 4) + t0 + (e & 1)]), e & 2 ? scale1 : scale0);
                }
                auto address = [&](int i) { return places[i & 3] + (first + i) / 4 * 8 * KBLOCK; };
                if (WAY == RING_F32 && p.residual) {
                    float residual[BATCH];
#pragma unroll
                    for (int i = 0; i < BATCH; ++i) residual[i] = load_shared(address(i));
#pragma unroll
                    for (int i = 0; i < BATCH; ++i) v[i] = add_flushed(v[i], residual[i]);
                }
#pragma unroll
                for (int i = 0; i < BATCH; ++i) store_shared(address(i), v[i]);
            }
        } else {
            const u32 box = to + (GATED ? 0 : group * BOX_BYTES);
            store_sixteen_bits<STORED, GATED>(sum, scales, scale0, scale1, [&](int t, int matrix) {
                const int chunk = GATED ? group * 4 + warp : warp * 2 + matrix;
                return box + t * KBLOCK + ((chunk ^ (t & 7)) << 4);
            });
        }
        fence_for_copies();
        __syncwarp();
        if (lane == 0) barrier_arrive(filled + (SENDERS == 2 ? group * 8 : 0));
    }
};

// What the threads of a block meet at, and the tokens' scales.
template <int GROUPS, int TOKENS>
struct __align__(8) Meeting {
    u64 full[MOST_STAGES], empty[MOST_STAGES], rows[2];
    float scales[2][GROUPS][TOKENS];
};
static_assert(sizeof(Meeting<2, 128>) == 2320, "as the host has it");

template <int GROUPS, int TOKENS, int DEPTH, int WAY>
DEVICE void fp8_gemm(const Fp8Gemm &p, const TensorMap *residual_map = nullptr, const TensorMap *out_map = nullptr) {
    constexpr bool RINGED = WAY >= RING_F32;
    using Out = Outgoing<WAY == ROWS_F16 ? F16 : WAY == GATED_BF16 ? BF16 : F32, WAY == GATED_BF16>;
    using Results = InRing<RINGED ? WAY : RING_F32>;
    static_assert(WAY == DIRECT || (GROUPS == 2 && TOKENS == 128), "only the largest tile is staged");
    constexpr u32 STAGE_BYTES = GROUPS * WEIGHT_TILE + TOKENS * KBLOCK;
    extern __shared__ __align__(1024) u8 memory[];
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    using Shared = Meeting<GROUPS, TOKENS>;
    Shared *meeting;
    if constexpr (RINGED) {
        // Seven stages and this leave no room to align them.
        if (ring != shared_address(memory)) __trap();
        meeting = reinterpret_cast<Shared *>(memory + p.stages * STAGE_BYTES);
    } else {
        __shared__ Shared beside;
        meeting = &beside;
    }
    const u32 full = shared_address(meeting->full), empty = shared_address(meeting->empty);
    const u32 row_barriers = shared_address(meeting->rows);
    const int rows = *p.rows;
    const Schedule schedule(p.cluster_tokens, p.row_tiles, rows, TOKENS);
    const int peers = peers_of(schedule);

    release_successor();
    if (threadIdx.x == 0) {
        if (RINGED) {
            tensor_map_prefetch(out_map);
            if (WAY == RING_F32) tensor_map_prefetch(residual_map);
        }
        for (int s = 0; s < p.stages; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, GROUPS * 4 * peers);
        }
        barrier_init(row_barriers, RINGED ? 8 / Results::SENDERS : 96);
        barrier_init(row_barriers + 8, RINGED ? 8 / Results::SENDERS : 8);
        barrier_init_fence();
    }
    if (cluster_size() > 1) {
        cluster_meet();
    }
    __syncthreads();

    Out out(p, ring + p.stages * STAGE_BYTES, row_barriers);
    const Results results = {p, schedule, residual_map, out_map, ring, full, empty, row_barriers, rows};
    if (warp_id() >= GROUPS * 4) {
        if (GROUPS == 2) give_registers<56>();
        const Items items(schedule, p.k_blocks);
        if (warp_id() == GROUPS * 4) {
            if (elected()) {
                if constexpr (RINGED) produce<GROUPS, TOKENS>(p, schedule, items, ring, full, empty, results);
                else produce<GROUPS, TOKENS>(p, schedule, items, ring, full, empty);
            }
        } else if constexpr (RINGED) {
            const int sender = warp_id() - GROUPS * 4 - 1;
            wait_for_predecessor();
            if (sender < Results::SENDERS) results.send(sender);
        } else if constexpr (WAY != DIRECT) {
            wait_for_predecessor();
            out.serve(schedule, rows);
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
            float *own = meeting->scales[buffer][group];
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
            if constexpr (RINGED) {
                results.finish(sum, own, scale0, scale1, group, ahead);
                release = ahead.stage;
            } else if constexpr (WAY != DIRECT) {
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
        cluster_exchange();
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

#define RING_INSTANCE(NAME, WAY)                                                                                      \
    extern "C" __global__ void __launch_bounds__(384, 1)                                                              \
        sm90_fp8_gemm_2_128_##NAME(const __grid_constant__ Fp8GemmBoxes p) {                                          \
        fp8_gemm<2, 128, 2, WAY>(p.product, &p.residual, &p.out);                                                     \
    }
RING_INSTANCE(ring_f32, RING_F32)
RING_INSTANCE(ring_added, RING_ADDED)
RING_INSTANCE(ring_f16, RING_F16)
RING_INSTANCE(ring_gated, RING_GATED)
