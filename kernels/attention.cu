// Attention: out = softmax(scale * q k^T + bias) v per head and sequence, over keys of the same sequence.
//
//   tile   up to 64 queries of one sequence and head; keys in tiles of 64 from the sequence's first key (attention.cuh)
//   sums   float32 operands split into two binary16 parts, three products each: relative error about 2^-21. Operands from
//          65520 up give NaN
//   bias   by distance key - query, from a table [heads][2 * reach + 1] that is constant beyond the reach
//   list   the host writes the tiles of the batch; blocks beyond their number do nothing
//   grid   (heads, tiles of the bucket), 256 threads; head width up to D, zeros beyond; it, columns and pitches are
//          multiples of 4;
//          dynamic shared memory: planes of 64 * (D + 8) * 2 bytes, 4 * (2 * reach + 1) bytes; where keys and values are
//          kept apart (up to D = 64, and attention_80_apart and attention_128_apart) 6 planes and 2 * 64 * D * 4 bytes, else 4 planes
#include "attention.cuh"
#include "split_rows.cuh"

// A tile of rows on its way: in registers, or, as they are, at places of shared memory that only this thread uses; then
// split in shared memory, [64][D + 8] heads, then tails.
template <int D>
struct Rows {
    static constexpr int COUNT = TILE * (D / 4) / THREADS;
    static constexpr int PITCH = (D + 8) * 2; // bytes; the pad keeps ldmatrix free of bank conflicts
    static constexpr int PLANE = TILE * PITCH;
    float4 x[COUNT];

    __device__ __forceinline__ void load(const float *from, int pitch, int rows, int width) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int at = i * THREADS + threadIdx.x, r = at / (D / 4), c = at % (D / 4) * 4;
            const float *p = from + (u64)r * pitch + c;
            const float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
            x[i] = r < rows && c < width ? load4(p) : v;
        }
    }
    static __device__ __forceinline__ void fetch(u8 *raw, const float *from, int pitch, int rows, int width) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int at = i * THREADS + threadIdx.x, r = at / (D / 4), c = at % (D / 4) * 4;
            const bool valid = r < rows && c < width;
            copy16(shared_address(raw) + at * 16, valid ? from + (u64)r * pitch + c : from, valid);
        }
    }
    __device__ __forceinline__ void take(const u8 *raw) {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            x[i] = *reinterpret_cast<const float4 *>(raw + (i * THREADS + threadIdx.x) * 16);
        }
    }
    __device__ __forceinline__ void split_to(u8 *to) const {
#pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            const int at = i * THREADS + threadIdx.x, r = at / (D / 4), c = at % (D / 4) * 4;
            const SplitPair a = split_pair_f16(x[i].x, x[i].y), b = split_pair_f16(x[i].z, x[i].w);
            *reinterpret_cast<uint2 *>(to + r * PITCH + c * 2) = make_uint2(a.head, b.head);
            *reinterpret_cast<uint2 *>(to + PLANE + r * PITCH + c * 2) = make_uint2(a.tail, b.tail);
        }
    }
};

// Scores of 32 keys at `keys` for the 16 queries at `queries`.
template <int D>
DEVICE void scores(float (&s)[4][4], u32 queries, u32 keys) {
    constexpr int PITCH = Rows<D>::PITCH, PLANE = Rows<D>::PLANE;
    const int lane = lane_id();
    const u32 from = keys + ((lane & 7) + (lane >> 4) * 8) * PITCH + ((lane >> 3) & 1) * 16;
#pragma unroll 2
    for (int step = 0; step < D / 16; ++step) {
        u32 qh[4], qt[4], kh[2][4], kt[2][4];
        load_matrices(qh, queries + (lane & 15) * PITCH + (lane >> 4) * 16 + step * 32);
        load_matrices(qt, queries + (lane & 15) * PITCH + (lane >> 4) * 16 + step * 32 + PLANE);
#pragma unroll
        for (int n = 0; n < 2; ++n) {
            load_matrices(kh[n], from + n * 16 * PITCH + step * 32);
            load_matrices(kt[n], from + n * 16 * PITCH + step * 32 + PLANE);
        }
#pragma unroll
        for (int n = 0; n < 4; ++n) mma_f16(s[n], qh, kt[n / 2][n % 2 * 2], kt[n / 2][n % 2 * 2 + 1]);
#pragma unroll
        for (int n = 0; n < 4; ++n) mma_f16(s[n], qt, kh[n / 2][n % 2 * 2], kh[n / 2][n % 2 * 2 + 1]);
#pragma unroll
        for (int n = 0; n < 4; ++n) mma_f16(s[n], qh, kh[n / 2][n % 2 * 2], kh[n / 2][n % 2 * 2 + 1]);
    }
}

// Adds 32 keys' weighted values at `values`.
template <int D>
DEVICE void weigh(float (&out)[D / 8][4], const float (&s)[4][4], u32 values) {
    constexpr int PITCH = Rows<D>::PITCH, PLANE = Rows<D>::PLANE;
    constexpr int WIDE = D < 32 || D % 32 ? 2 : 4; // column tiles at a time
    const int lane = lane_id();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        u32 ph[4], pt[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float *w = s[2 * step + (i >> 1)] + (i & 1) * 2;
            const SplitPair split = split_pair_f16(w[0], w[1]);
            ph[i] = split.head;
            pt[i] = split.tail;
        }
        const u32 from = values + (step * 16 + (lane & 15)) * PITCH + (lane >> 4) * 16;
#pragma unroll
        for (int first = 0; first < D / 8; first += WIDE) {
            u32 vh[WIDE / 2][4], vt[WIDE / 2][4];
#pragma unroll
            for (int n = 0; n < WIDE / 2; ++n) {
                load_matrices_transposed(vh[n], from + (first + 2 * n) * 16);
                load_matrices_transposed(vt[n], from + (first + 2 * n) * 16 + PLANE);
            }
#pragma unroll
            for (int n = 0; n < WIDE; ++n) mma_f16(out[first + n], ph, vt[n / 2][n % 2 * 2], vt[n / 2][n % 2 * 2 + 1]);
#pragma unroll
            for (int n = 0; n < WIDE; ++n) mma_f16(out[first + n], pt, vh[n / 2][n % 2 * 2], vh[n / 2][n % 2 * 2 + 1]);
#pragma unroll
            for (int n = 0; n < WIDE; ++n) mma_f16(out[first + n], ph, vh[n / 2][n % 2 * 2], vh[n / 2][n % 2 * 2 + 1]);
        }
    }
}

// `APART`: room for keys and values at once.
template <int D, bool APART>
DEVICE void attention(const Attention &p) {
    constexpr int PITCH = Rows<D>::PITCH, PLANE = Rows<D>::PLANE;
    extern __shared__ __align__(128) u8 memory[];
    u8 *keys = memory, *values = memory + (APART ? 2 * PLANE : 0), *queries = values + 2 * PLANE;
    u8 *raw_keys = queries + 2 * PLANE, *raw_values = raw_keys + TILE * D * 4;
    float *bias = reinterpret_cast<float *>(APART ? raw_values + TILE * D * 4 : raw_keys);

    if ((int)blockIdx.y >= *p.tile_count) {
        wait_for_predecessor();
        return;
    }
    const Tile tile = p.tiles[blockIdx.y];
    const int head = blockIdx.x, lane = lane_id(), column = head * p.head_dim;
    load_bias(p, bias);
    wait_for_predecessor();

    const float *k_rows = static_cast<const float *>(p.k), *v_rows = static_cast<const float *>(p.v);
    // The next keys and values are on their way while these are worked on.
    auto fetch = [&](int first) {
        const u64 row = tile.key + first;
        Rows<D>::fetch(raw_keys, k_rows + row * p.k_pitch + column, p.k_pitch, tile.keys - first, p.head_dim);
        Rows<D>::fetch(raw_values, v_rows + row * p.v_pitch + column, p.v_pitch, tile.keys - first, p.head_dim);
        commit_copies();
    };
    auto load = [&](Rows<D> &to, const float *from, int pitch, int first) {
        to.load(from + (u64)(tile.key + first) * pitch + column, pitch, tile.keys - first, p.head_dim);
    };
    if (APART) fetch(0);
    {
        Rows<D> q;
        q.load(static_cast<const float *>(p.q) + (u64)tile.query * p.q_pitch + column, p.q_pitch, tile.queries, p.head_dim);
        q.split_to(queries);
    }

    const int group = warp_id() & 3, half = warp_id() >> 2;
    // Else this warp only brings keys and values; narrow heads have no registers to ask for it.
    const bool busy = D < 128 || group * 16 < tile.queries;
    const int r0 = group * 16 + (lane >> 2), c0 = (lane & 3) * 2;
    Half<D> own = empty_half<D>();
    const u32 key_base = shared_address(keys) + half * 32 * PITCH, value_base = shared_address(values) + half * 32 * PITCH;
    const u32 query_base = shared_address(queries) + group * 16 * PITCH;

    for (int first = 0; first < tile.keys; first += TILE) {
        Rows<D> k, v;
        if (APART) {
            wait_copies<0>();
            k.take(raw_keys);
            v.take(raw_values);
        } else {
            load(k, k_rows, p.k_pitch, first);
        }
        __syncthreads();
        k.split_to(keys);
        if (APART) {
            v.split_to(values);
            if (first + TILE < tile.keys) fetch(first + TILE);
        }
        __syncthreads();
        if (!APART) load(v, v_rows, p.v_pitch, first);

        float s[4][4] = {};
        if (busy) {
            scores<D>(s, query_base, key_base);
            weights<D>(own, s, p, bias, tile.place + r0, first + half * 32, tile.keys);
        }
        if (!APART) {
            __syncthreads();
            v.split_to(values);
            __syncthreads();
        }
        if (busy) weigh<D>(own.out, s, value_base);
    }

    // The second half hands its state over; the first finishes.
    __syncthreads();
    float *meet = reinterpret_cast<float *>(memory) + group * Meeting<D>::FLOATS + lane;
    if (half == 1) hand_over<D>(own, meet);
    __syncthreads();
    if (half == 1) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (r0 + r * 8 >= tile.queries) continue;
        float y[D / 4];
        join<D>(y, own, meet, r, tile.keys);
        const int row = tile.query + r0 + r * 8;
        float *to = static_cast<float *>(p.out) + (u64)row * p.out_pitch + column;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            const int c = n * 8 + c0;
            if (c >= p.head_dim) continue;
            if (p.split_capacity) store_split_pair(static_cast<u8 *>(p.out), p.out_pitch, p.split_capacity, row, column + c, y[2 * n], y[2 * n + 1]);
            else *reinterpret_cast<float2 *>(to + c) = make_float2(y[2 * n], y[2 * n + 1]);
        }
    }
}

#define INSTANCE(NAME, D, APART)                                                                               \
    extern "C" __global__ void __launch_bounds__(THREADS, D <= 80 ? 2 : 1) attention_##NAME(const Attention p) { \
        release_successor();                                                                                   \
        attention<D, APART>(p);                                                                                \
    }
INSTANCE(16, 16, true)
INSTANCE(32, 32, true)
INSTANCE(64, 64, true)
INSTANCE(80, 80, false)
INSTANCE(80_apart, 80, true)
INSTANCE(128, 128, false)
INSTANCE(128_apart, 128, true)
