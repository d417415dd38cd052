// What the causal attention kernels share: rows in swizzled shared memory, where keys lie, the softmax of sixteen queries.
//
// A warp has 16 queries of one head and goes through the keys of their sequence in tiles of 64 from the first, online
// softmax in float32: a row's bits depend on its own sequence alone, not on which rows or heads share its block.
#pragma once
#include "attention.cuh"

struct CausalAttention {
    const void *q, *k, *v;
    void *out;
    const Tile *tiles; // place: the first query's place in its sequence; keys: rows of the sequence
    const int *tile_count;
    int q_pitch, k_pitch, v_pitch, out_pitch, head_dim, group; // query heads of a key head
    float scale;
    int pad;
};

// A matrix of 64 rows of D elements of 16 bits: chunk c (sixteen bytes) of row r stands at c ^ (r & 7), so that ldmatrix
// meets no bank twice.
template <int D>
struct Plane {
    static_assert(D % 64 == 0, "whole groups of eight chunks");
    static constexpr int ROW = D * 2, BYTES = TILE * ROW, CHUNKS = D / 8;
    static __device__ __forceinline__ u32 chunk(int r, int c) { return r * ROW + ((c ^ (r & 7)) << 4); }
};

// The blocks' tiles: the list's last come first, because the last of a sequence have the most keys.
DEVICE Tile heavy_first(const CausalAttention &p) { return p.tiles[*p.tile_count - 1 - (int)blockIdx.y]; }

// Keys from `first` on of a tile's sequence. The one place that knows where keys and values lie.
template <class T>
struct Keys {
    const T *k, *v;
    int rows;
};
template <class T>
DEVICE Keys<T> keys_from(const CausalAttention &p, const Tile &tile, int head, int first, int end) {
    const u64 row = (u64)tile.key + first, column = (u64)(head / p.group) * p.head_dim;
    return {static_cast<const T *>(p.k) + row * p.k_pitch + column, static_cast<const T *>(p.v) + row * p.v_pitch + column,
            min_of(end - first, TILE)};
}

// The softmax of 16 queries: a thread holds rows r and r + 8 of its warp's, r = lane / 4, columns 2 * (lane % 4) and the
// next of every eight. `sum` is of this lane's keys.
template <int D>
struct Softmax {
    float most[2], sum[2], out[D / 8][4];
};

template <int D>
DEVICE Softmax<D> empty_softmax() {
    Softmax<D> own = {};
    own.most[0] = own.most[1] = never();
    return own;
}

// Products of 16 queries with the 64 keys from `first` on become weights, powers of two of `scale * log2 e` times the
// product; what was summed before fades. `row`: this thread's first query in its sequence.
template <int D>
DEVICE void causal_weights(Softmax<D> &own, float (&s)[8][4], float scale, int row, int first) {
    constexpr float LOG2_E = 1.44269504f;
    const int c0 = (lane_id() & 3) * 2, warp_row = row - (lane_id() >> 2);
    scale = mul(scale, LOG2_E);
#pragma unroll
    for (int n = 0; n < 8; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] = mul(s[n][e], scale);
    }
    if (first + TILE - 1 > warp_row) {
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                s[n][e] = first + n * 8 + c0 + (e & 1) <= row + (e >> 1) * 8 ? s[n][e] : never();
            }
        }
    }
    float fade[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float next = own.most[r];
#pragma unroll
        for (int n = 0; n < 8; ++n) next = fmaxf(next, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
        next = fmaxf(next, __shfl_xor_sync(~0u, next, 1));
        next = fmaxf(next, __shfl_xor_sync(~0u, next, 2));
        // The first tile has a key for every query, but all products may be NaN or minus infinity.
        const float base = next == never() ? 0.f : next;
        fade[r] = own.most[r] == next ? 1.f : power_of_two(own.most[r] - base);
        own.most[r] = next;
        float part = 0.f;
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            s[n][2 * r] = power_of_two(s[n][2 * r] - base);
            s[n][2 * r + 1] = power_of_two(s[n][2 * r + 1] - base);
            part = add(part, add(s[n][2 * r], s[n][2 * r + 1]));
        }
        own.sum[r] = add(mul(own.sum[r], fade[r]), part);
    }
    if (__any_sync(~0u, fade[0] != 1.f || fade[1] != 1.f)) {
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) own.out[n][e] *= fade[e >> 1];
        }
    }
}

// After the last tile: what the sums of rows r and r + 8 are divided by, as factors.
template <int D>
DEVICE void shares(float (&share)[2], const Softmax<D> &own) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float sum = own.sum[r];
        sum = add(sum, __shfl_xor_sync(~0u, sum, 1));
        sum = add(sum, __shfl_xor_sync(~0u, sum, 2));
        share[r] = __fdiv_rn(1.f, sum);
    }
}
