// What the attention kernels share: the list of tiles, the softmax over half of the keys, the meeting of the halves.
//
// Eight warps: four groups of 16 queries, twice, for the two halves of each tile of 64 keys; the halves keep a softmax
// each and meet at the end. Online softmax in float32: a row's bits depend on its own sequence alone.
#pragma once
#include "convert.cuh"
#include "mma.cuh"

#define TILE 64
#define THREADS 256

struct Tile {
    int query, queries, place, key, keys; // first query row, count, its place in the sequence, first key row, count
};
struct Attention {
    const void *q, *k, *v;
    void *out;
    const float *bias;
    const Tile *tiles;
    const int *tile_count;
    int q_pitch, k_pitch, v_pitch, out_pitch, head_dim, reach;
    float scale;
    int heads;
    int split_capacity, pad; // rows that split ones (split_rows.cuh) have room for; 0: float32 rows
};

// The softmax of 16 queries over one half of the keys; a thread holds rows r and r + 8 of its warp's sixteen.
template <int D>
struct Half {
    float most[2], sum[2], out[D / 8][4];
};

DEVICE float never() { return __uint_as_float(0xFF800000u); }

template <int D>
DEVICE Half<D> empty_half() {
    Half<D> own = {};
    own.most[0] = own.most[1] = never();
    return own;
}

// The bias of one head by distance, in shared memory: no kernel writes it, so it may come before the wait.
DEVICE void load_bias(const Attention &p, float *bias) {
    if (!p.bias) return;
    const int n = 2 * p.reach + 1;
    for (int i = threadIdx.x; i < n; i += THREADS) bias[i] = p.bias[(u64)blockIdx.x * n + i];
}

// Products of 16 queries with 32 keys, of which `first` is the first in the sequence, become weights; what was summed before
// fades. `row`: this thread's first query in the sequence.
template <int D>
DEVICE void weights(Half<D> &own, float (&s)[4][4], const Attention &p, const float *bias, int row, int first, int keys) {
    const int c0 = (lane_id() & 3) * 2;
    float next[2] = {own.most[0], own.most[1]};
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int key = first + n * 8 + c0 + (e & 1), r = e >> 1;
            float score = mul(s[n][e], p.scale);
            if (p.bias) {
                const int distance = key - (row + r * 8);
                score = add(score, bias[min_of(max_of(distance, -p.reach), p.reach) + p.reach]);
            }
            score = key < keys ? score : never();
            s[n][e] = score;
            next[r] = fmaxf(next[r], score);
        }
    }
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        next[r] = fmaxf(next[r], __shfl_xor_sync(~0u, next[r], 1));
        next[r] = fmaxf(next[r], __shfl_xor_sync(~0u, next[r], 2));
        // A half may have no key yet.
        const float base = next[r] == never() ? 0.f : next[r];
        const float fade = __expf(own.most[r] - base);
        own.most[r] = next[r];
        float part = 0.f;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            s[n][2 * r] = __expf(s[n][2 * r] - base);
            s[n][2 * r + 1] = __expf(s[n][2 * r + 1] - base);
            part += s[n][2 * r] + s[n][2 * r + 1];
        }
        part += __shfl_xor_sync(~0u, part, 1);
        part += __shfl_xor_sync(~0u, part, 2);
        own.sum[r] = own.sum[r] * fade + part;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            own.out[n][2 * r] *= fade;
            own.out[n][2 * r + 1] *= fade;
        }
    }
}

// Floats that a group of 16 queries needs to meet.
template <int D>
struct Meeting {
    static constexpr int FLOATS = (4 + D / 2) * 32;
};

// The second half leaves its state at `meet`: its lane's place, steps of 32 floats.
template <int D>
DEVICE void hand_over(const Half<D> &own, float *meet) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        meet[r * 32] = own.most[r];
        meet[(2 + r) * 32] = own.sum[r];
    }
#pragma unroll
    for (int i = 0; i < D / 2; ++i) meet[(4 + i) * 32] = own.out[i / 4][i & 3];
}

// 2^x; what is far below the smallest float is 0.
DEVICE float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Row r of the first half with what the second left: the results. `BINARY`: scores were kept as powers of two, else of e.
template <int D, bool BINARY = false>
DEVICE void join(float (&y)[D / 4], const Half<D> &own, const float *meet, int r, int keys) {
    const float theirs = meet[r * 32], most = fmaxf(own.most[r], theirs), base = most == never() ? 0.f : most;
    const float f0 = BINARY ? power_of_two(own.most[r] - base) : __expf(own.most[r] - base);
    const float f1 = BINARY ? power_of_two(theirs - base) : __expf(theirs - base);
    const float sum = add(mul(own.sum[r], f0), mul(meet[(2 + r) * 32], f1));
    const float share = keys > 0 ? __fdiv_rn(1.f, sum) : 0.f;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            const int i = 4 * n + 2 * r + e;
            const float x = add(mul(own.out[n][2 * r + e], f0), mul(meet[(4 + i) * 32], f1));
            y[2 * n + e] = keys > 0 ? mul(x, share) : 0.f;
        }
    }
}
