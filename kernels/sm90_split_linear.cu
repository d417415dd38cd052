// Linear on Hopper over split rows (split_rows.cuh), weights in bfloat16: up to four products that do not need each other in one
// launch.
//
//   out[t][n] = activation(sum_k x[t][k] * w[n][k] + bias[n]) + residual[t][n]          float32 rows, or split ones
//   sums   tail, then head of x in every step of 16 elements; k in blocks of 64, the blocks in PARTS parts: each part is summed in
//          the tensor core, the parts are added in order. No dependence on the batch, nor on who sums them
//   tile   128 weight rows x TOKENS tokens; two warpgroups with 64 weight rows each (the 64-row side of wgmma, so that few tokens
//          waste nothing), one producer warp. Weights do not depend on the kernel before: their copies start before the wait
//   split  few tokens: a cluster of CLUSTER blocks shares k; the parts meet in shared memory, and each block finishes some of
//          the tokens. Many: one block walks all of k, and a cluster of two has two tiles of weight rows, with one copy of x. Such
//          clusters take pairs of tiles in turn: the copies of the next are on their way while results leave
//   grid   (weight rows / 128 times CLUSTER; token capacity / TOKENS), where clusters take tiles in turn any number of them;
//          products one after the other from `first`; 288 threads. Dynamic shared memory: 1024 bytes to align, stages * (16384 +
//          TOKENS * 256), and parts of a block * TOKENS * PITCH * 4 where results meet: in the ring's place, or, in turn, after it
#include "convert.cuh"
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "pipeline.cuh"
#include "split_rows.cuh"
#include "tile.cuh"
#include "wgmma_half.cuh"

#define PARTS 4
#define ROWS 128
#define WARPS 8             // that multiply
#define PITCH (ROWS + 4)    // floats; the pad keeps the sums' way to shared memory free of bank conflicts
#define MOST_PRODUCTS 4
#define WEIGHT_BYTES (ROWS * KBLOCK)

struct Product {
    const u8 *x, *more; // the planes of the first `x_blocks` k-blocks, and of the others
    const u8 *weight;
    const float *bias, *residual;
    void *out;
    const int *rows;
    int k_blocks, x_blocks, columns, capacity, activation, stored, first, pad;
};
struct Products {
    Product of[MOST_PRODUCTS];
    int stages, pad;
};

DEVICE int part_start(int part, int k_blocks) { return part * k_blocks / PARTS; }

// One k-block's products: two of each step on the same sums.
template <int TOKENS>
DEVICE void start_k_block(float (&sum)[TOKENS / 2], u32 weight, u32 head, u32 tail, int keep) {
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        WgmmaHalf<TOKENS>::run(sum, operand(weight + 2 * step), operand(tail + 2 * step), step ? 1 : keep);
        WgmmaHalf<TOKENS>::run(sum, operand(weight + 2 * step), operand(head + 2 * step), 1);
    }
    wgmma_commit();
}

// The tiles of a block: one, or, in turn, one of each pair that its cluster takes.
template <int TOKENS, int CLUSTER>
struct Tiles {
    int item, total, step, pairs, rows;

    // `block` of the product's `blocks`.
    __device__ __forceinline__ Tiles(const Product &p, int block, int blocks, int rows) : rows(rows) {
        if (CLUSTER == 0) {
            pairs = (p.columns + 2 * ROWS - 1) / (2 * ROWS);
            item = block / 2;
            step = blocks / 2;
            total = (rows + TOKENS - 1) / TOKENS * pairs;
        } else {
            pairs = 0;
            item = block / max_of(CLUSTER, 1);
            step = 1;
            total = (int)blockIdx.y * TOKENS < rows ? item + 1 : 0;
        }
    }
    __device__ __forceinline__ bool more() const { return item < total; }
    __device__ __forceinline__ void next() { item += step; }
    __device__ __forceinline__ int row_tile() const { return CLUSTER == 0 ? item % pairs * 2 + (int)cluster_rank() : item; }
    __device__ __forceinline__ int first_token() const { return (CLUSTER == 0 ? item / pairs : (int)blockIdx.y) * TOKENS; }
    // Tokens to copy: whole atoms of eight rows.
    __device__ __forceinline__ int tokens() const { return min_of(TOKENS, (rows - first_token() + 7) & ~7); }
};

// The copies of one block, by one thread; a k-block must cost it less than the product, so addresses only ever advance. Of
// clusters in turn, a block fetches half of the cluster's x, for both.
template <int TOKENS, int CLUSTER>
struct Fetcher {
    static constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * TOKENS * KBLOCK;
    const Product &p;
    u32 ring, full, empty;
    int stages;

    __device__ __forceinline__ void weights(const u8 *from, u64 second, u32 bytes, u32 stage) const {
        const u32 done = full + stage * 8, to = ring + stage * STAGE_BYTES;
        barrier_expect(done, bytes);
        bulk_copy(to, from, WEIGHT_TILE, done);
        bulk_copy(to + WEIGHT_TILE, from + second, WEIGHT_TILE, done);
    }
    __device__ __forceinline__ void rows(const u8 *head, u64 tail, u32 offset, u32 bytes, u32 stage) const {
        if (bytes == 0) return;
        const u32 done = full + stage * 8, to = ring + stage * STAGE_BYTES + offset;
        if (CLUSTER == 0) {
            bulk_copy_to_all(to, head, bytes, done, 3);
            bulk_copy_to_all(to + TOKENS * KBLOCK, head + tail, bytes, done, 3);
        } else {
            bulk_copy(to, head, bytes, done);
            bulk_copy(to + TOKENS * KBLOCK, head + tail, bytes, done);
        }
    }
    // The k-blocks `first` to `last` of all tiles.
    __device__ __forceinline__ void run(Tiles<TOKENS, CLUSTER> tiles, int first, int last) const {
        const u64 second = (u64)p.k_blocks * WEIGHT_TILE, step = (u64)p.capacity * KBLOCK;
        const int rank = CLUSTER == 0 ? cluster_rank() : 0;
        int begun = min_of(stages, last - first);
        const u8 *weight = p.weight + weight_tile(tiles.row_tile() * 2, first, p.k_blocks);
        {
            const u32 bytes = WEIGHT_BYTES + 2 * tiles.tokens() * KBLOCK;
#pragma unroll 1
            for (int i = 0; i < begun; ++i, weight += WEIGHT_TILE) weights(weight, second, bytes, i);
        }
        wait_for_predecessor();
        Ring at = {0, 0};
#pragma unroll 1
        for (;;) {
            const int tokens = tiles.tokens(), half = min_of(tokens, TOKENS / 2);
            const int from = rank ? half : 0, count = CLUSTER > 0 ? tokens : rank ? tokens - half : half;
            const u32 bytes = WEIGHT_BYTES + 2 * tokens * KBLOCK, own = count * KBLOCK, offset = WEIGHT_BYTES + from * KBLOCK;
            const u64 row = (u64)(tiles.first_token() + from) * KBLOCK;
            int kb = first;
            const int later = first + begun; // weights from here on are still to be asked for
#pragma unroll 1
            while (kb < last) {
                // The k-blocks of one of the two sources of x.
                const bool more = kb >= p.x_blocks;
                const int end = more ? last : min_of(last, p.x_blocks), blocks = more ? p.k_blocks - p.x_blocks : p.x_blocks;
                const u8 *head = (more ? p.more : p.x) + row + (u64)(more ? kb - p.x_blocks : kb) * step;
                const u64 tail = (u64)blocks * step;
#pragma unroll 1
                for (; kb < end; ++kb, head += step) {
                    if (kb >= later) {
                        // A fresh barrier counts as having completed the phase before its first.
                        barrier_wait(empty + at.stage * 8, at.parity ^ 1);
                        weights(weight, second, bytes, at.stage);
                        weight += WEIGHT_TILE;
                    }
                    rows(head, tail, offset, own, at.stage);
                    at.advance(stages);
                }
            }
            tiles.next();
            if (!tiles.more()) break;
            begun = 0;
            weight = p.weight + weight_tile(tiles.row_tile() * 2, first, p.k_blocks);
        }
    }
};

// CLUSTER blocks share k; or, where that is 0, two blocks share x and take tiles in turn.
template <int TOKENS, int CLUSTER>
DEVICE void split_linear(const Products &all) {
    constexpr bool TOGETHER = CLUSTER == 0;
    constexpr int OWN = TOGETHER ? 1 : PARTS / CLUSTER; // sums of a block that meet others
    constexpr u32 STAGE_BYTES = WEIGHT_BYTES + 2 * TOKENS * KBLOCK;
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 full_barriers[MOST_STAGES], empty_barriers[MOST_STAGES];
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    const u32 full = shared_address(full_barriers), empty = shared_address(empty_barriers);

    Product p = all.of[0];
    int end = gridDim.x; // of this product's blocks
#pragma unroll
    for (int i = MOST_PRODUCTS - 1; i > 0; --i) {
        if ((int)blockIdx.x < all.of[i].first) end = min_of(end, all.of[i].first);
    }
#pragma unroll
    for (int i = 1; i < MOST_PRODUCTS; ++i) {
        if ((int)blockIdx.x >= all.of[i].first) p = all.of[i];
    }
    const int rows = *p.rows;
    Tiles<TOKENS, CLUSTER> tiles(p, blockIdx.x - p.first, end - p.first, rows);
    const int first_part = TOGETHER ? 0 : cluster_rank() * OWN, last_part = TOGETHER ? PARTS : first_part + OWN;

    release_successor();
    if (!tiles.more()) {
        // The whole cluster has the same tokens.
        wait_for_predecessor();
        return;
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < all.stages; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, TOGETHER ? 2 * WARPS : WARPS);
        }
        barrier_init_fence();
    }
    if (TOGETHER) cluster_meet();
    __syncthreads();

    if (warp_id() >= WARPS) {
        if (elected()) {
            Fetcher<TOKENS, CLUSTER>{p, ring, full, empty, all.stages}.run(tiles, part_start(first_part, p.k_blocks),
                                                                           part_start(last_part, p.k_blocks));
        }
        __syncwarp();
        wait_for_predecessor();
        if (TOGETHER) {
            cluster_meet();
        } else {
            cluster_exchange();
            cluster_exchange();
        }
        return;
    }

    const int group = uniform(warp_id() / 4), lane = lane_id();
    const u32 low = operand_low(ring);
    Ring ahead = {0, 0}; // the next product to start
    u32 release = 0;     // the next stage to free
    const u32 empty_there = TOGETHER ? address_at(empty, lane & 1) : empty;

    wait_for_predecessor();
    auto start = [&](float (&sum)[TOKENS / 2], int keep) {
        // Descriptors belong in uniform registers, and the compiler must know that they are the same for all lanes.
        const u32 at = uniform(low + group * (WEIGHT_TILE / 16) + ahead.stage * (STAGE_BYTES / 16));
        barrier_wait(full + ahead.stage * 8, ahead.parity);
        const u32 head = at + WEIGHT_BYTES / 16 - group * (WEIGHT_TILE / 16);
        start_k_block<TOKENS>(sum, at, head, head + TOKENS * KBLOCK / 16, keep);
        ahead.advance(all.stages);
    };
    auto free_one = [&] {
        if (TOGETHER) {
            if (lane < 2) barrier_arrive_remote(empty_there + release * 8);
        } else if (lane == 0) {
            barrier_arrive(empty + release * 8);
        }
        if (++release == (u32)all.stages) release = 0;
    };
    auto sum_part = [&](float (&sum)[TOKENS / 2], int part) {
        const int first = part_start(part, p.k_blocks), last = part_start(part + 1, p.k_blocks);
        if (first == last) {
#pragma unroll
            for (int e = 0; e < TOKENS / 2; ++e) sum[e] = 0.f;
            return;
        }
        settle(sum);
        start(sum, 0);
#pragma unroll 1
        for (int kb = first + 1; kb < last; ++kb) {
            start(sum, 1);
            wgmma_wait<1>();
            free_one();
        }
        wgmma_wait<0>();
        settle(sum);
        free_one();
    };

    // Sums of parts on their way to each other, or to whole rows.
    const u32 staged = TOGETHER ? ring + all.stages * STAGE_BYTES : ring;
    auto stage = [&](const float (&sum)[TOKENS / 2], int own) {
        const u32 to = staged + ((own * TOKENS + 2 * (lane & 3)) * PITCH + warp_id() * 16 + (lane >> 2)) * 4;
#pragma unroll
        for (int e = 0; e < TOKENS / 2; ++e) {
            store_shared(to + ((e / 4 * 8 + (e & 1)) * PITCH + (e & 2) * 4) * 4, sum[e]);
        }
    };
    // Whole rows: a warp takes one token after the other, and reads those of a batch before it finishes any.
    constexpr int SHARE = TOGETHER ? TOKENS : TOKENS / CLUSTER;
    constexpr int BATCH = SHARE <= WARPS ? 1 : SHARE <= 2 * WARPS ? 2 : 4;
    static_assert(SHARE < WARPS || SHARE % (WARPS * BATCH) == 0, "batches cover the tile");
    const SplitRows out = {static_cast<u8 *>(p.out), p.columns, p.capacity, p.stored, 0};
    auto leave = [&](int row_tile, int first_token) {
        const int column = row_tile * ROWS + lane * 4, share = TOGETHER ? 0 : cluster_rank() * SHARE;
        const bool inside = column < p.columns;
        const float4 bias = inside && p.bias ? load4(p.bias + column) : make_float4(0.f, 0.f, 0.f, 0.f);
        const int end = min_of(share + SHARE, rows - first_token);
#pragma unroll 1
        for (int t0 = share + warp_id(); t0 < end; t0 += WARPS * BATCH) {
            float4 part[BATCH][TOGETHER ? 1 : PARTS];
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const int t = t0 + b * WARPS;
                if constexpr (TOGETHER) {
                    const uint4 bits = load16_shared(staged + (t * PITCH + lane * 4) * 4);
                    part[b][0] = make_float4(__uint_as_float(bits.x), __uint_as_float(bits.y), __uint_as_float(bits.z),
                                             __uint_as_float(bits.w));
                } else {
#pragma unroll
                    for (int i = 0; i < PARTS; ++i) {
                        const u32 at = staged + ((i % OWN * TOKENS + t) * PITCH + lane * 4) * 4;
                        part[b][i] = load4_remote(address_at(at, i / OWN));
                    }
                }
            }
#pragma unroll
            for (int b = 0; b < BATCH; ++b) {
                const int token = first_token + t0 + b * WARPS;
                if (token >= rows || !inside) continue;
                float4 v = part[b][0];
                if constexpr (!TOGETHER) {
                    v = add4(make_float4(0.f, 0.f, 0.f, 0.f), v);
#pragma unroll
                    for (int i = 1; i < PARTS; ++i) v = add4(v, part[b][i]);
                }
                if (p.bias) v = add4(v, bias);
                v = activate4(p.activation, v);
                if (p.stored == F32) {
                    const u64 row = (u64)token * p.columns;
                    finish4(static_cast<float *>(p.out) + row, p.residual ? p.residual + row : nullptr, column, p.columns, v);
                } else {
                    out.store(token, column, v);
                }
            }
        }
    };

#pragma unroll 1
    for (; tiles.more(); tiles.next()) {
        if constexpr (TOGETHER) {
            float total[TOKENS / 2], sum[TOKENS / 2];
#pragma unroll
            for (int e = 0; e < TOKENS / 2; ++e) total[e] = 0.f;
#pragma unroll 1
            for (int part = 0; part < PARTS; ++part) {
                sum_part(sum, part);
#pragma unroll
                for (int e = 0; e < TOKENS / 2; ++e) total[e] = add(total[e], sum[e]);
            }
            // The rows of the tile before have left.
            asm volatile("bar.sync 1, 256;" ::: "memory");
            stage(total, 0);
            asm volatile("bar.sync 1, 256;" ::: "memory");
        } else {
            float sum[OWN][TOKENS / 2];
#pragma unroll
            for (int own = 0; own < OWN; ++own) sum_part(sum[own], first_part + own);
            // Every warp is done with the ring.
            asm volatile("bar.sync 1, 256;" ::: "memory");
#pragma unroll
            for (int own = 0; own < OWN; ++own) stage(sum[own], own);
            __syncwarp();
            cluster_exchange();
        }
        leave(tiles.row_tile(), tiles.first_token());
    }
    // The others may still read this block's sums, or arrive on its barriers.
    __syncwarp();
    cluster_exchange();
}

#define INSTANCE(NAME, TOKENS, CLUSTER, BLOCKS)                                                        \
    extern "C" __global__ void __launch_bounds__(288, BLOCKS) sm90_split_linear_##NAME(const Products p) { \
        split_linear<TOKENS, CLUSTER>(p);                                                              \
    }
INSTANCE(16, 16, 4, 2)
INSTANCE(64, 64, 4, 2)
INSTANCE(128, 128, 2, 1)
INSTANCE(together, 128, 0, 1)
