// What products in 8-bit codes share on Hopper: tiles of a cluster, a ring of k-blocks, and the one thread that fills it.
//
// A block holds one tile of the result: GROUPS * 64 weight rows x TOKENS tokens. A cluster is one block, or two that share
// a weight tile (`cluster_tokens` = 2) or a token tile: blocks that need the same operand fetch a part of it each and send it
// to all, so every byte crosses from the second-level cache once a cluster.
#pragma once
#include "mbarrier.cuh"
#include "tile.cuh"

#define MOST_STAGES 16

// A place in a ring and the parity of its round.
struct Ring {
    u32 stage, parity;
    __device__ __forceinline__ void advance(int stages) {
        if (++stage == (u32)stages) stage = 0, parity ^= 1;
    }
};

// Which tiles a block takes: items (row tiles x token tiles of a cluster), every `step`-th.
struct Schedule {
    int across, down, my_row, my_token; // token tiles and row tiles of a cluster; this block's place
    int token_groups, total, first, step;
    __device__ __forceinline__ Schedule(int cluster_tokens, int row_tiles, int rows, int tokens) {
        const int size = cluster_size(), rank = cluster_rank();
        across = cluster_tokens;
        down = size / across;
        my_row = rank / across;
        my_token = rank % across;
        token_groups = ((rows + tokens - 1) / tokens + across - 1) / across;
        total = token_groups * (row_tiles / down);
        first = blockIdx.x / size;
        step = gridDim.x / size;
    }
    __device__ __forceinline__ int row_tile(int item) const { return item / token_groups * down + my_row; }
    __device__ __forceinline__ int token_tile(int item) const { return item % token_groups * across + my_token; }
};

// Blocks that write into this one's ring and that it tells when a stage is free, itself included.
DEVICE int peers_of(const Schedule &schedule) { return schedule.across + schedule.down - 1; }
// The rank of the `lane`-th of them.
DEVICE int peer_rank(const Schedule &schedule, int lane) {
    return lane < schedule.across ? schedule.my_row * schedule.across + lane
                                  : (lane - schedule.across + (lane - schedule.across >= schedule.my_row)) *
                                            schedule.across + schedule.my_token;
}

// The whole items of a block, one after the other: the k-blocks `from` to `to` of an item.
struct Items {
    int item, from, to, total, step;
    __device__ __forceinline__ Items(const Schedule &schedule, int k_blocks)
        : item(schedule.first), from(0), to(k_blocks), total(schedule.total), step(schedule.step) {}
    __device__ __forceinline__ bool more() const { return item < total; }
    __device__ __forceinline__ void next() { item += step; }
};

// Nothing but k-blocks goes through the ring.
struct NothingElse {
    __device__ __forceinline__ void operator()(int, Ring &) const {}
};

// The copies of one block: its own parts of both operands, sent to every block that needs them. ACROSS token tiles and
// DOWN row tiles in a cluster. One thread does all of it, and a k-block must cost it less than the product: addresses only
// ever advance. `Product` is the kernel's parameter: weight, codes, k_blocks, capacity, stages.
template <class Product, int GROUPS, int TOKENS, int ACROSS, int DOWN>
struct Producer {
    static constexpr u32 WEIGHT_BYTES = GROUPS * WEIGHT_TILE, STAGE_BYTES = WEIGHT_BYTES + TOKENS * KBLOCK;
    static constexpr u32 WEIGHT_PART = WEIGHT_TILE / ACROSS, CODES_PART = TOKENS * KBLOCK / DOWN;
    const Product &p;
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
    // `walk`: the block's pieces of work, as Items has them. `after(item, at)`: what goes into the ring after a piece.
    template <class Walk, class After>
    __device__ __forceinline__ void run(Walk walk, u32 empty, After after) const {
        const u32 codes_step = p.capacity * KBLOCK;
        Ring at = {0, 0};
        int begun = 0;
        if (walk.more()) {
            begun = min_of(p.stages, walk.to - walk.from);
            const u8 *w = first_weights(walk.item) + (u64)walk.from * WEIGHT_TILE;
#pragma unroll 1
            for (int kb = 0; kb < begun; ++kb, w += WEIGHT_TILE) weights(w, kb);
        }
        wait_for_predecessor();
#pragma unroll 1
        for (; walk.more(); walk.next()) {
            const u8 *w = first_weights(walk.item) + (u64)(walk.from + begun) * WEIGHT_TILE;
            const u8 *c = first_codes(walk.item) + (u64)walk.from * codes_step;
            int kb = walk.from;
#pragma unroll 1
            for (const int end = kb + begun; kb < end; ++kb, c += codes_step) {
                codes(c, at.stage);
                at.advance(p.stages);
            }
            begun = 0;
#pragma unroll 1
            for (; kb < walk.to; ++kb, w += WEIGHT_TILE, c += codes_step) {
                // A fresh barrier counts as having completed the phase before its first.
                barrier_wait(empty + at.stage * 8, at.parity ^ 1);
                weights(w, at.stage);
                codes(c, at.stage);
                at.advance(p.stages);
            }
            after(walk.item, at);
        }
    }
};

// The producer's run for the cluster at hand.
template <int GROUPS, int TOKENS, class Product, class Walk, class After = NothingElse>
DEVICE void produce(const Product &p, const Schedule &schedule, Walk walk, u32 ring, u32 full, u32 empty,
                    After after = After()) {
    if (schedule.across == 2) Producer<Product, GROUPS, TOKENS, 2, 1>{p, schedule, ring, full}.run(walk, empty, after);
    else if (schedule.down == 2) Producer<Product, GROUPS, TOKENS, 1, 2>{p, schedule, ring, full}.run(walk, empty, after);
    else Producer<Product, GROUPS, TOKENS, 1, 1>{p, schedule, ring, full}.run(walk, empty, after);
}
