// Products on Hopper whose sums stay in the tensor core's registers over all of k: warp-specialised, one producer warp,
// operands multicast in a cluster, whole rows of results stored by other warps. What operands are is `Kind`'s:
//
//   Sum        the type of a sum
//   SCALED     whether results are scaled by token and by weight row
//   k_block    starts the product of a k-block
//   value      a sum as float32
//   EXACT      whether sums may be made in parts
//
//   tile     GROUPS * 64 weight rows x TOKENS tokens, one consumer warpgroup for each 64 rows; weights are the 64-row side
//            of wgmma, so that few tokens waste nothing
//   sums     nothing waits for them but the end of a piece; two k-blocks are under way at a time
//   stream   1: items that do not fill the chip are cut along k (stream.cuh), for exact sums; `partials` has GROUPS * 64 *
//            TOKENS sums a block, `flags` GROUPS words a block, all zero before and after
//   out      float32, or rounded once to bfloat16. ROWS_F32, ROWS_BF16, GATED_F32 and GATED_BF16: other warps store the
//            results, whole rows of shared memory, while the next tile is multiplied (no bias; rows of out a multiple of 16
//            bytes). DIRECT: from the registers, everything (a residual with float32 only)
//   speed    weights do not depend on the kernel before: their copies start before the wait
//   grid     clusters take items (row tiles x token tiles of a cluster) in turn; all blocks are on the chip at a time where
//            `stream` is 1. 160 or 384 threads; dynamic shared memory: 1024 bytes to align + stages * (GROUPS * 8192 +
//            TOKENS * 128), and slots * 32 * Outgoing::PITCH where results are staged. Row tiles are a multiple of the
//            cluster's
#pragma once
#include "convert.cuh"
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "mma.cuh"
#include "pipeline.cuh"
#include "stream.cuh"
#include "tile.cuh"
#include "wgmma.cuh"

#define SLICE 32 // tokens that are staged together
#define MOST_SLOTS 8

struct Gemm {
    const u8 *codes;
    const float *scales;
    const u8 *weight;
    const float *weight_scales, *bias, *residual;
    void *out;
    const int *rows;
    int4 *partials;
    u32 *flags;
    int capacity, k_blocks, columns, gated, activation, row_tiles, cluster_tokens, stages, slots, stream, stored, pad;
};

// How results leave.
enum { DIRECT, ROWS_F32, ROWS_BF16, GATED_BF16, GATED_F32 };

// A sum as float32 * token scale * row scale.
template <class Kind>
DEVICE float scaled(typename Kind::Sum sum, float token, float row) {
    return Kind::SCALED ? mul(mul(Kind::value(sum), token), row) : Kind::value(sum);
}

// Straight from the accumulators: eight lanes hold eight neighbouring columns.
template <class Kind, int TOKENS, int STORED>
DEVICE void finish(const Gemm &p, const typename Kind::Sum (&sum)[TOKENS / 2], const float *scales, float scale0,
                   float scale1, int row, int first_token, int rows) {
    const int t0 = (lane_id() & 3) * 2;
    float bias0 = 0.f, bias1 = 0.f;
    if (p.bias) bias0 = p.bias[row], bias1 = p.bias[row + 8];
    auto value = [&](int j, int e) {
        const float v = scaled<Kind>(sum[4 * j + e], scales[8 * j + t0 + (e & 1)], e & 2 ? scale1 : scale0);
        return p.bias ? add(v, e & 2 ? bias1 : bias0) : v;
    };
    if (p.gated) {
        const int column = (row >> 4) * 8 + (row & 7);
        if (column >= p.columns) return;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int token = first_token + 8 * j + t0 + e;
                if (token < rows) {
                    const float y = mul(activate(SILU, value(j, e)), value(j, e + 2));
                    store_rounded<STORED>(p.out, (u64)token * p.columns + column, y);
                }
            }
        }
        return;
    }
    constexpr int BATCH = TOKENS < 32 ? TOKENS / 8 : 4; // groups of eight tokens of which residuals are loaded together
    static_assert(TOKENS / 8 % BATCH == 0, "batches cover the tile");
#pragma unroll
    for (int first = 0; first < TOKENS / 8; first += BATCH) {
        float residual[4 * BATCH];
        auto inside = [&](int i) {
            return first_token + 8 * (first + i / 4) + t0 + (i & 1) < rows && row + (i & 2) * 4 < p.columns;
        };
        auto place = [&](int i) {
            return (u64)(first_token + 8 * (first + i / 4) + t0 + (i & 1)) * p.columns + row + (i & 2) * 4;
        };
        if (STORED == F32 && p.residual) {
#pragma unroll
            for (int i = 0; i < 4 * BATCH; ++i) residual[i] = inside(i) ? p.residual[place(i)] : 0.f;
        }
#pragma unroll
        for (int i = 0; i < 4 * BATCH; ++i) {
            float v = value(first + i / 4, i & 3);
            if (STORED == F32 && p.residual) v = add(v, residual[i]);
            if (inside(i)) store_rounded<STORED>(p.out, place(i), v);
        }
    }
}

// Results on their way out: rows of 128 (gated: 64) columns in shared memory, one a token, in slots of 32 tokens that are
// used in turn. Three warps beside the producer store them while the next tile is multiplied, and before that fetch the
// residual to where the results will be added to it. A chunk of 16 bytes of a slot always belongs to the same thread of
// theirs.
template <class Kind, int TOKENS, int STORED, bool GATED>
struct Outgoing {
    static constexpr int COLUMNS = GATED ? 64 : 128, SIZE = STORED == F32 ? 4 : 2, CHUNKS = COLUMNS * SIZE / 16;
    static constexpr int PITCH = COLUMNS * SIZE + 16; // the pad keeps the writes below free of bank conflicts
    static constexpr int SLICES = TOKENS / SLICE, SLOT_BYTES = SLICE * PITCH;
    static constexpr int AT_ONCE = 32 / CHUNKS, STEP = 3 * AT_ONCE; // rows that a warp, and all three, store together
    const Gemm &p;
    const Schedule &schedule;
    const int rows;
    u32 staged;
    u32 ready, filled; // barriers of each slot: it is free and holds the residual (96 arrivals); it holds results (8 warps)

    // A slice of a tile on its way, the slot it has, and this lane's first row and chunk of it in device memory.
    struct Slice {
        Pieces walk;
        int slice;
        __device__ __forceinline__ explicit Slice(const Pieces &from) : walk(from), slice(0) { walk.skip_parts(); }
        __device__ __forceinline__ void next() {
            if (++slice == SLICES) {
                slice = 0;
                walk.next();
                walk.skip_parts();
            }
        }
    };

    // The 96 storing threads: a warp takes rows in turn, a lane always the same chunk, so that addresses only advance. As a
    // chunk leaves, the residual of a later slice is asked for in its place.
    __device__ __forceinline__ void serve(const Pieces &pieces) const {
        const int lane = lane_id(), first = (warp_id() - 2 * 4 - 1) * AT_ONCE + lane / CHUNKS, chunk = lane % CHUNKS;
        const u64 step = (u64)STEP * p.columns * SIZE;
        const u8 *residual = reinterpret_cast<const u8 *>(STORED == F32 ? p.residual : nullptr);
        auto token = [&](const Slice &s) { return schedule.token_tile(s.walk.item) * TOKENS + s.slice * SLICE; };
        // This lane's place in a slice, in bytes, and the end of its rows.
        auto place = [&](const Slice &s) {
            return ((u64)(token(s) + first) * p.columns + schedule.row_tile(s.walk.item) * COLUMNS) * SIZE + chunk * 16;
        };
        auto end = [&](const Slice &s) {
            if (!s.walk.more()) return 0;
            const bool inside = schedule.row_tile(s.walk.item) * COLUMNS * SIZE + chunk * 16 < p.columns * SIZE;
            return inside ? min_of(SLICE, rows - token(s)) : 0;
        };
        auto ask = [&](u32 to, const u8 *at, bool valid) {
            if (STORED == F32 && residual) copy16(to, valid ? at : residual, valid);
        };
        auto say_ready = [&](int slot) {
            if (STORED == F32 && residual) arrive_after_copies(ready + slot * 8);
            else barrier_arrive(ready + slot * 8);
        };
        const u32 from = staged + first * PITCH + chunk * 16;
        Slice asking(pieces), leaving(pieces);
#pragma unroll 1
        for (int slot = 0; slot < p.slots; ++slot, asking.next()) {
            const int tokens = end(asking);
            const u8 *at = residual + place(asking);
            u32 to = from + slot * SLOT_BYTES;
#pragma unroll 1
            for (int t = first; t < SLICE; t += STEP, at += step, to += STEP * PITCH) ask(to, at, t < tokens);
            say_ready(slot);
        }
        Ring slot = {0, 0};
#pragma unroll 1
        for (; leaving.walk.more(); leaving.next(), asking.next()) {
            const int tokens = end(leaving), next_tokens = end(asking);
            u8 *to = static_cast<u8 *>(p.out) + place(leaving);
            const u8 *at = residual + place(asking);
            u32 row = from + slot.stage * SLOT_BYTES;
            barrier_wait(filled + slot.stage * 8, slot.parity);
#pragma unroll 4
            for (int t = first; t < SLICE; t += STEP, to += step, at += step, row += STEP * PITCH) {
                const uint4 v = load16_shared(row);
                if (t < tokens) *reinterpret_cast<uint4 *>(to) = v;
                ask(row, at, t < next_tokens);
            }
            __syncwarp();
            say_ready(slot.stage);
            slot.advance(p.slots);
        }
    }

    // The multiplying warps. `slot` is the next to fill.
    __device__ __forceinline__ void finish(const typename Kind::Sum (&sum)[TOKENS / 2], const float *scales, float scale0,
                                           float scale1, int group, Ring &slot) const {
        const int lane = lane_id(), warp = warp_id() & 3, t0 = (lane & 3) * 2;
#pragma unroll
        for (int slice = 0; slice < SLICES; ++slice) {
            const typename Kind::Sum *own = sum + slice * 16;
            const float *token = scales + slice * SLICE + t0;
            const u32 base = staged + slot.stage * SLOT_BYTES;
            auto value = [&](int j, int e) {
                return scaled<Kind>(own[4 * j + e], token[8 * j + (e & 1)], e & 2 ? scale1 : scale0);
            };
            barrier_wait(ready + slot.stage * 8, slot.parity);
            if constexpr (STORED == F32 && GATED) {
                const u32 to = base + (group * 32 + warp * 8 + (lane >> 2)) * 4;
#pragma unroll
                for (int i = 0; i < 8; ++i) {
                    const int j = i / 2, e = i & 1;
                    store_shared(to + (8 * j + t0 + e) * PITCH, mul(activate(SILU, value(j, e)), value(j, e + 2)));
                }
            } else if constexpr (STORED == F32) {
                const u32 to = base + (group * 64 + warp * 16 + (lane >> 2)) * 4;
                auto place = [&](int i) { return to + (8 * (i / 4) + t0 + (i & 1)) * PITCH + (i & 2) * 16; };
                float v[16];
#pragma unroll
                for (int i = 0; i < 16; ++i) v[i] = value(i / 4, i & 3);
                if (p.residual) {
                    float residual[16];
#pragma unroll
                    for (int i = 0; i < 16; ++i) residual[i] = load_shared(place(i));
#pragma unroll
                    for (int i = 0; i < 16; ++i) v[i] = add(v[i], residual[i]);
                }
#pragma unroll
                for (int i = 0; i < 16; ++i) store_shared(place(i), v[i]);
            } else {
                // Pairs of tokens; transposed on their way, so that a row holds neighbouring columns.
                constexpr int GROUP = GATED ? 4 : 2; // groups of eight tokens at a time
#pragma unroll
                for (int j = 0; j < 4; j += GROUP) {
                    u32 r[4];
#pragma unroll
                    for (int i = 0; i < 4; ++i) {
                        if (GATED) {
                            const float y0 = mul(activate(SILU, value(j + i, 0)), value(j + i, 2));
                            const float y1 = mul(activate(SILU, value(j + i, 1)), value(j + i, 3));
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
                    store_matrices_transposed(base + t * PITCH + column * 2, r[0], r[1], r[2], r[3]);
                }
            }
            __syncwarp();
            if (lane == 0) barrier_arrive(filled + slot.stage * 8);
            slot.advance(p.slots);
        }
    }
};

// Sums of a part of k, to and from memory: sixteen bytes of each thread side by side.
template <class Sum, int GROUPS, int TOKENS>
struct Parts {
    static_assert(sizeof(Sum) == 4, "sixteen bytes are four sums");
    const Gemm &p;
    int group;

    __device__ __forceinline__ int4 *place(int block) const {
        return p.partials + ((u64)block * GROUPS + group) * (TOKENS / 8) * 128 + (threadIdx.x & 127);
    }
    __device__ __forceinline__ u32 *flag(int block) const { return p.flags + block * GROUPS + group; }

    __device__ __forceinline__ void leave(const Sum (&sum)[TOKENS / 2]) const {
        int4 *to = place(blockIdx.x);
#pragma unroll
        for (int i = 0; i < TOKENS / 8; ++i) {
            to[i * 128] = make_int4(sum[4 * i], sum[4 * i + 1], sum[4 * i + 2], sum[4 * i + 3]);
        }
        meet_group(group);
        if ((threadIdx.x & 127) == 0) raise_flag(flag(blockIdx.x));
    }
    __device__ __forceinline__ void collect(Sum (&sum)[TOKENS / 2], const Pieces &walk) const {
        const int size = cluster_size(), rank = cluster_rank();
        walk.others([&](int cluster) {
            const int block = cluster * size + rank;
            if ((threadIdx.x & 127) == 0) await_flag(flag(block));
            meet_group(group);
            const int4 *from = place(block);
            constexpr int BATCH = TOKENS < 64 ? TOKENS / 8 : 4;
#pragma unroll
            for (int first = 0; first < TOKENS / 8; first += BATCH) {
                int4 part[BATCH];
#pragma unroll
                for (int i = 0; i < BATCH; ++i) part[i] = __ldcg(from + (first + i) * 128);
#pragma unroll
                for (int i = 0; i < BATCH; ++i) {
                    Sum *to = sum + 4 * (first + i);
                    to[0] += part[i].x, to[1] += part[i].y, to[2] += part[i].z, to[3] += part[i].w;
                }
            }
        });
    }
};

template <class Kind, int GROUPS, int TOKENS, int WAY>
DEVICE void gemm(const Gemm &p) {
    using Sum = typename Kind::Sum;
    constexpr bool GATED = WAY == GATED_BF16 || WAY == GATED_F32;
    using Out = Outgoing<Kind, TOKENS, WAY == ROWS_BF16 || WAY == GATED_BF16 ? BF16 : F32, GATED>;
    static_assert(WAY == DIRECT || (GROUPS == 2 && TOKENS % SLICE == 0), "other tiles are not staged");
    constexpr u32 STAGE_BYTES = GROUPS * WEIGHT_TILE + TOKENS * KBLOCK;
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 full_barriers[MOST_STAGES], empty_barriers[MOST_STAGES];
    __shared__ __align__(8) u64 ready_barriers[MOST_SLOTS], filled_barriers[MOST_SLOTS];
    __shared__ __align__(8) float scales[2][GROUPS][TOKENS];
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    const u32 full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const u32 ready = shared_address(ready_barriers), filled = shared_address(filled_barriers);
    const int rows = *p.rows;
    const Schedule schedule(p.cluster_tokens, p.row_tiles, rows, TOKENS);
    const int peers = peers_of(schedule);

    release_successor();
    if (threadIdx.x == 0) {
        for (int s = 0; s < p.stages; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, GROUPS * 4 * peers);
        }
        for (int s = 0; s < p.slots; ++s) {
            barrier_init(ready + s * 8, 96);
            barrier_init(filled + s * 8, 8);
        }
        barrier_init_fence();
    }
    if (cluster_size() > 1) cluster_meet();
    __syncthreads();

    const Out out = {p, schedule, rows, ring + p.stages * STAGE_BYTES, ready, filled};
    if (warp_id() >= GROUPS * 4) {
        if (GROUPS == 2) give_registers<88>();
        if (WAY != DIRECT && warp_id() > GROUPS * 4) {
            wait_for_predecessor();
            out.serve(Pieces(schedule, p.k_blocks, Kind::EXACT && p.stream));
        } else if (warp_id() == GROUPS * 4 && elected()) {
            produce<GROUPS, TOKENS>(p, schedule, Pieces(schedule, p.k_blocks, Kind::EXACT && p.stream), ring, full, empty);
        }
        __syncwarp();
        wait_for_predecessor();
    } else {
        if (GROUPS == 2) take_registers<208>();
        const int group = uniform(warp_id() / 4), lane = lane_id();
        const u32 operand_a = operand_low(ring + group * WEIGHT_TILE), operand_b = operand_low(ring + GROUPS * WEIGHT_TILE);
        // Lane l tells the l-th peer that a stage is free.
        const int peer = peer_rank(schedule, lane);
        const u32 empty_there = address_at(empty, lane < peers ? peer : (int)cluster_rank());
        const int row_in_tile = group * WEIGHT_ROWS + (warp_id() & 3) * 16 + (lane >> 2);
        const Parts<Sum, GROUPS, TOKENS> parts = {p, group};
        Sum sum[TOKENS / 2];
        Ring ahead = {0, 0}; // the next product to start
        Ring slot = {0, 0};  // the next slot to fill
        u32 release = 0;     // the next stage to free
        int buffer = 0;

        wait_for_predecessor();
        for (Pieces walk(schedule, p.k_blocks, Kind::EXACT && p.stream); walk.more(); walk.next()) {
            const int row = schedule.row_tile(walk.item) * GROUPS * WEIGHT_ROWS + row_in_tile;
            const int first_token = schedule.token_tile(walk.item) * TOKENS;
            float scale0 = 1.f, scale1 = 1.f;
            float *own = scales[buffer][group];
            if constexpr (Kind::SCALED) {
                scale0 = p.weight_scales[row], scale1 = p.weight_scales[row + 8];
                // Nobody waits for the tokens' scales before the end of the tile.
#pragma unroll
                for (int t = threadIdx.x & 127; t < TOKENS; t += 128) {
                    const int token = first_token + t;
                    copy4(shared_address(own + t), p.scales + (token < rows ? token : 0), token < rows);
                }
            }
            auto start = [&](int keep) {
                const u32 at = ahead.stage * (STAGE_BYTES / 16);
                barrier_wait(full + ahead.stage * 8, ahead.parity);
                Kind::template k_block<TOKENS>(sum, operand_a + at, operand_b + at, keep);
                ahead.advance(p.stages);
            };
            auto free_one = [&] {
                if (lane < peers) barrier_arrive_remote(empty_there + release * 8);
                if (++release == (u32)p.stages) release = 0;
            };
            settle(sum);
            start(0);
#pragma unroll 1
            for (int kb = walk.from + 1; kb < walk.to; ++kb) {
                start(1);
                wgmma_wait<1>();
                free_one();
            }
            wgmma_wait<0>();
            settle(sum);
            free_one();
            if constexpr (Kind::EXACT) {
                if (walk.from > 0) {
                    parts.leave(sum);
                    asm volatile("cp.async.wait_all;" ::: "memory");
                    continue;
                }
                parts.collect(sum, walk);
            }
            asm volatile("cp.async.wait_all;" ::: "memory");
            // The scales are there for the whole warpgroup; the other buffer is free since the last time here.
            meet_group(group);
            if constexpr (WAY != DIRECT) {
                out.finish(sum, own, scale0, scale1, group, slot);
            } else if (p.stored == F32) {
                finish<Kind, TOKENS, F32>(p, sum, own, scale0, scale1, row, first_token, rows);
            } else {
                finish<Kind, TOKENS, BF16>(p, sum, own, scale0, scale1, row, first_token, rows);
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

#define GEMM_INSTANCE(NAME, KIND, GROUPS, TOKENS, WAY)                             \
    extern "C" __global__ void __launch_bounds__(GROUPS == 1 ? 160 : 384, 1)       \
        NAME(const Gemm p) {                                                       \
        gemm<KIND, GROUPS, TOKENS, WAY>(p);                                        \
    }
