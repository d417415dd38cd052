// Attention: out = softmax(scale * q k^T + bias) v per head and sequence, over keys of the same sequence.
//
//   tile   up to 64 queries of one sequence and head; keys in tiles of 64 from the sequence's first key. Eight warps: four
//          groups of 16 queries, twice, for the two halves of each key tile; the halves keep a softmax each and meet at
//          the end. Online softmax in float32: a row's bits depend on its own sequence alone
//   sums   float32 operands split into two binary16 parts, three products each: relative error about 2^-21. Operands from
//          65520 up give NaN
//   bias   by distance key - query, from a table [heads][2 * reach + 1] that is constant beyond the reach
//   list   the host writes the tiles of the batch; blocks beyond their number do nothing
//   grid   (heads, tiles of the bucket), 256 threads; head width up to D, zeros beyond; it, columns and pitches are
//          multiples of 4;
//          dynamic shared memory: planes of 64 * (D + 8) * 2 bytes, 4 * (2 * reach + 1) bytes; up to D = 64, 6 planes and
//          2 * 64 * D * 4 bytes, else 4 planes
#include "convert.cuh"
#include "mma.cuh"

#define TILE 64
#define THREADS 256

struct Tile {
    int query, queries, place, key, keys; // first query row, count, its place in the sequence, first key row, count
};
struct Attention {
    const float *q, *k, *v;
    float *out;
    const float *bias;
    const Tile *tiles;
    const int *tile_count;
    int q_pitch, k_pitch, v_pitch, out_pitch, head_dim, reach;
    float scale;
};

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

// The softmax of 16 queries over one half of the keys; a thread holds rows r and r + 8 of its warp's sixteen.
template <int D>
struct Half {
    float most[2], sum[2], out[D / 8][4];
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
    constexpr int WIDE = D < 32 ? D / 8 : 4; // column tiles at a time
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

template <int D>
DEVICE void attention(const Attention &p) {
    constexpr int PITCH = Rows<D>::PITCH, PLANE = Rows<D>::PLANE;
    extern __shared__ __align__(128) u8 memory[];
    constexpr bool APART = D <= 64; // room for keys and values at once
    u8 *keys = memory, *values = memory + (APART ? 2 * PLANE : 0), *queries = values + 2 * PLANE;
    u8 *raw_keys = queries + 2 * PLANE, *raw_values = raw_keys + TILE * D * 4;
    float *bias = reinterpret_cast<float *>(APART ? raw_values + TILE * D * 4 : raw_keys);

    if ((int)blockIdx.y >= *p.tile_count) {
        wait_for_predecessor();
        return;
    }
    const Tile tile = p.tiles[blockIdx.y];
    const int head = blockIdx.x, lane = lane_id(), column = head * p.head_dim;
    if (p.bias) {
        const int n = 2 * p.reach + 1;
        for (int i = threadIdx.x; i < n; i += THREADS) bias[i] = p.bias[(u64)head * n + i];
    }
    wait_for_predecessor();

    // The next keys and values are on their way while these are worked on.
    auto fetch = [&](int first) {
        const u64 row = tile.key + first;
        Rows<D>::fetch(raw_keys, p.k + row * p.k_pitch + column, p.k_pitch, tile.keys - first, p.head_dim);
        Rows<D>::fetch(raw_values, p.v + row * p.v_pitch + column, p.v_pitch, tile.keys - first, p.head_dim);
        commit_copies();
    };
    auto load = [&](Rows<D> &to, const float *from, int pitch, int first) {
        to.load(from + (u64)(tile.key + first) * pitch + column, pitch, tile.keys - first, p.head_dim);
    };
    if (APART) fetch(0);
    {
        Rows<D> q;
        q.load(p.q + (u64)tile.query * p.q_pitch + column, p.q_pitch, tile.queries, p.head_dim);
        q.split_to(queries);
    }

    const int group = warp_id() & 3, half = warp_id() >> 2;
    const int r0 = group * 16 + (lane >> 2), c0 = (lane & 3) * 2;
    const float never = __uint_as_float(0xFF800000u);
    Half<D> own = {};
    own.most[0] = own.most[1] = never;
    const u32 key_base = shared_address(keys) + half * 32 * PITCH, value_base = shared_address(values) + half * 32 * PITCH;
    const u32 query_base = shared_address(queries) + group * 16 * PITCH;

    for (int first = 0; first < tile.keys; first += TILE) {
        Rows<D> k, v;
        if (APART) {
            wait_copies<0>();
            k.take(raw_keys);
            v.take(raw_values);
        } else {
            load(k, p.k, p.k_pitch, first);
        }
        __syncthreads();
        k.split_to(keys);
        if (APART) {
            v.split_to(values);
            if (first + TILE < tile.keys) fetch(first + TILE);
        }
        __syncthreads();
        if (!APART) load(v, p.v, p.v_pitch, first);

        float s[4][4] = {};
        scores<D>(s, query_base, key_base);

        float next[2] = {own.most[0], own.most[1]};
#pragma unroll
        for (int n = 0; n < 4; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int key = first + half * 32 + n * 8 + c0 + (e & 1), r = e >> 1;
                float score = mul(s[n][e], p.scale);
                if (p.bias) {
                    const int distance = key - (tile.place + r0 + r * 8);
                    score = add(score, bias[min_of(max_of(distance, -p.reach), p.reach) + p.reach]);
                }
                score = key < tile.keys ? score : never;
                s[n][e] = score;
                next[r] = fmaxf(next[r], score);
            }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            next[r] = fmaxf(next[r], __shfl_xor_sync(~0u, next[r], 1));
            next[r] = fmaxf(next[r], __shfl_xor_sync(~0u, next[r], 2));
            // A half may have no key yet.
            const float base = next[r] == never ? 0.f : next[r];
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
        if (!APART) {
            __syncthreads();
            v.split_to(values);
            __syncthreads();
        }
        weigh<D>(own.out, s, value_base);
    }

    // The second half hands its state over; the first finishes.
    __syncthreads();
    float *meet = reinterpret_cast<float *>(memory) + group * 32 + lane;
    if (half == 1) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            meet[r * 128] = own.most[r];
            meet[(2 + r) * 128] = own.sum[r];
        }
#pragma unroll
        for (int i = 0; i < D / 2; ++i) meet[(4 + i) * 128] = own.out[i / 4][i & 3];
    }
    __syncthreads();
    if (half == 1) return;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (r0 + r * 8 >= tile.queries) continue;
        const float theirs = meet[r * 128], most = fmaxf(own.most[r], theirs), base = most == never ? 0.f : most;
        const float f0 = __expf(own.most[r] - base), f1 = __expf(theirs - base);
        const float sum = add(mul(own.sum[r], f0), mul(meet[(2 + r) * 128], f1));
        float *to = p.out + (u64)(tile.query + r0 + r * 8) * p.out_pitch + column;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            float y[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int i = 4 * n + 2 * r + e;
                const float x = add(mul(own.out[n][2 * r + e], f0), mul(meet[(4 + i) * 128], f1));
                y[e] = tile.keys > 0 ? __fdiv_rn(x, sum) : 0.f;
            }
            const int c = n * 8 + c0;
            if (c < p.head_dim) *reinterpret_cast<float2 *>(to + c) = make_float2(y[0], y[1]);
        }
    }
}

#define INSTANCE(D)                                                                                \
    extern "C" __global__ void __launch_bounds__(THREADS, D <= 64 ? 2 : 1) attention_##D(const Attention p) {       \
        release_successor();                                                                       \
        attention<D>(p);                                                                           \
    }
INSTANCE(16)
INSTANCE(32)
INSTANCE(64)
INSTANCE(128)
