// Attention: out = softmax(scale * q k^T + bias) v per head and sequence, over keys of the same sequence.
//
//   tile   up to 64 queries of one sequence and head, 4 warps of 16; keys in tiles of 64 from the sequence's first key,
//          online softmax in float32: a row's bits depend on its own sequence alone
//   sums   float32 operands split into two bfloat16 parts, three products each: relative error about 2^-16
//   bias   by distance key - query, from a table [heads][2 * reach + 1] that is constant beyond the reach
//   list   the host writes the tiles of the batch; blocks beyond their number do nothing
//   grid   (heads, tiles of the bucket), 128 threads; head width up to D, zeros beyond
#include "convert.cuh"
#include "mma.cuh"

#define TILE 64

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

// A tile of keys or values, split: [64][D + 8] heads, then tails.
template <int D>
DEVICE void fetch_split(u8 *to, const float *from, int pitch, int rows, int width) {
    constexpr int PITCH = (D + 8) * 2;
    const bool whole = (width & 3) == 0 && (pitch & 3) == 0;
#pragma unroll 8
    for (int i = threadIdx.x; i < TILE * (D / 4); i += 128) {
        const int r = i / (D / 4), c = i % (D / 4) * 4;
        float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
        if (r < rows) {
            const float *p = from + (u64)r * pitch + c;
            if (whole) {
                if (c < width) v = load4(p);
            } else {
                if (c < width) v.x = p[0];
                if (c + 1 < width) v.y = p[1];
                if (c + 2 < width) v.z = p[2];
                if (c + 3 < width) v.w = p[3];
            }
        }
        const SplitPair a = split_pair(v.x, v.y), b = split_pair(v.z, v.w);
        *reinterpret_cast<uint2 *>(to + r * PITCH + c * 2) = make_uint2(a.head, b.head);
        *reinterpret_cast<uint2 *>(to + TILE * PITCH + r * PITCH + c * 2) = make_uint2(a.tail, b.tail);
    }
}

template <int D>
DEVICE void attention(const Attention &p) {
    constexpr int PITCH = (D + 8) * 2;        // bytes; the pad keeps ldmatrix free of bank conflicts
    constexpr int PLANE = TILE * PITCH;       // bytes of one split half
    extern __shared__ __align__(128) u8 memory[];
    u8 *keys = memory, *values = memory + 2 * PLANE;
    float *bias = reinterpret_cast<float *>(memory + 4 * PLANE);

    if ((int)blockIdx.y >= *p.tile_count) return;
    const Tile tile = p.tiles[blockIdx.y];
    const int head = blockIdx.x, lane = lane_id(), column = head * p.head_dim;
    if (p.bias) {
        const int n = 2 * p.reach + 1;
        for (int i = threadIdx.x; i < n; i += 128) bias[i] = p.bias[(u64)head * n + i];
    }
    wait_for_predecessor();

    // Queries as operand fragments; a thread holds rows r0 and r0 + 8 of its warp's sixteen.
    const int r0 = warp_id() * 16 + (lane >> 2), c0 = (lane & 3) * 2;
    u32 qh[D / 16][4], qt[D / 16][4];
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int r = r0 + (i & 1) * 8, c = step * 16 + c0 + (i >> 1) * 8;
            float x0 = 0.f, x1 = 0.f;
            if (r < tile.queries) {
                const float *q = p.q + (u64)(tile.query + r) * p.q_pitch + column;
                if (c < p.head_dim) x0 = q[c];
                if (c + 1 < p.head_dim) x1 = q[c + 1];
            }
            const SplitPair s = split_pair(x0, x1);
            qh[step][i] = s.head;
            qt[step][i] = s.tail;
        }
    }

    const float never = __uint_as_float(0xFF800000u);
    float most[2] = {never, never}, sum[2] = {0.f, 0.f};
    float out[D / 8][4] = {};
    const u32 key_base = shared_address(keys), value_base = shared_address(values);

    for (int first = 0; first < tile.keys; first += TILE) {
        const int count = min_of(TILE, tile.keys - first);
        __syncthreads();
        fetch_split<D>(keys, p.k + (u64)(tile.key + first) * p.k_pitch + column, p.k_pitch, count, p.head_dim);
        fetch_split<D>(values, p.v + (u64)(tile.key + first) * p.v_pitch + column, p.v_pitch, count, p.head_dim);
        __syncthreads();

        float s[8][4] = {};
#pragma unroll
        for (int step = 0; step < D / 16; ++step) {
#pragma unroll
            for (int n = 0; n < 8; n += 2) {
                u32 kh[4], kt[4];
                const u32 at = key_base + (n * 8 + (lane & 7) + (lane >> 4) * 8) * PITCH +
                               (step * 16 + ((lane >> 3) & 1) * 8) * 2;
                load_matrices(kh, at);
                load_matrices(kt, at + PLANE);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    mma_bf16(s[n + i], qh[step], kt[2 * i], kt[2 * i + 1]);
                    mma_bf16(s[n + i], qt[step], kh[2 * i], kh[2 * i + 1]);
                    mma_bf16(s[n + i], qh[step], kh[2 * i], kh[2 * i + 1]);
                }
            }
        }

        float next[2] = {most[0], most[1]};
#pragma unroll
        for (int n = 0; n < 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int key = first + n * 8 + c0 + (e & 1), r = e >> 1;
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
            const float fade = expf(most[r] - next[r]);
            most[r] = next[r];
            float part = 0.f;
#pragma unroll
            for (int n = 0; n < 8; ++n) {
                s[n][2 * r] = expf(s[n][2 * r] - next[r]);
                s[n][2 * r + 1] = expf(s[n][2 * r + 1] - next[r]);
                part += s[n][2 * r] + s[n][2 * r + 1];
            }
            part += __shfl_xor_sync(~0u, part, 1);
            part += __shfl_xor_sync(~0u, part, 2);
            sum[r] = sum[r] * fade + part;
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
                out[n][2 * r] *= fade;
                out[n][2 * r + 1] *= fade;
            }
        }

#pragma unroll
        for (int step = 0; step < TILE / 16; ++step) {
            u32 ph[4], pt[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const SplitPair w = split_pair(s[2 * step + (i >> 1)][(i & 1) * 2], s[2 * step + (i >> 1)][(i & 1) * 2 + 1]);
                ph[i] = w.head;
                pt[i] = w.tail;
            }
#pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                u32 vh[4], vt[4];
                const u32 at = value_base + (step * 16 + (lane & 15)) * PITCH + (n * 8 + (lane >> 4) * 8) * 2;
                load_matrices_transposed(vh, at);
                load_matrices_transposed(vt, at + PLANE);
#pragma unroll
                for (int i = 0; i < 2; ++i) {
                    mma_bf16(out[n + i], ph, vt[2 * i], vt[2 * i + 1]);
                    mma_bf16(out[n + i], pt, vh[2 * i], vh[2 * i + 1]);
                    mma_bf16(out[n + i], ph, vh[2 * i], vh[2 * i + 1]);
                }
            }
        }
    }

#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (r0 + r * 8 >= tile.queries) continue;
        float *to = p.out + (u64)(tile.query + r0 + r * 8) * p.out_pitch + column;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int c = n * 8 + c0 + e;
                if (c < p.head_dim) to[c] = tile.keys > 0 ? __fdiv_rn(out[n][2 * r + e], sum[r]) : 0.f;
            }
        }
    }
}

#define INSTANCE(D)                                                                            \
    extern "C" __global__ void __launch_bounds__(128) attention_##D(const Attention p) {       \
        release_successor();                                                                   \
        attention<D>(p);                                                                       \
    }
INSTANCE(16)
INSTANCE(32)
INSTANCE(64)
INSTANCE(128)
