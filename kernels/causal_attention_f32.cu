// CausalAttention over float32 rows: out = softmax(scale * q k^T) v per head over the rows of the same sequence up to the
// query's own; query head h uses key head h / group.
//
//   in     q, k, v and out in float32; head width a multiple of 4, up to D, zeros beyond; pitches and columns are multiples
//          of 4
//   tile   64 queries of a head, four warps; keys in tiles of 64 (causal_attention.cuh). Heads wider than 128 have a second
//          four, which work out the same weights for the other half of the columns
//   sums   operands split into two binary16 parts, three products each: relative error about 2^-21. Operands from 65520 up
//          give NaN
//   list   the host writes the tiles of the batch; blocks beyond their number do nothing
//   grid   (heads, tiles of the bucket), 128 threads, 256 for D = 256; dynamic shared memory: 6 planes of 64 * D * 2 bytes
#include "causal_attention.cuh"

// Columns of the result that a warp has.
template <int D>
struct Part {
    static constexpr int HALVES = D > 128 ? 2 : 1, WIDE = D / HALVES, COUNT = 128 * HALVES;
};

// Rows split into two planes, zeros from row `rows` and column `width` on.
template <int D>
DEVICE void split_rows(u8 *to, const float *from, int pitch, int rows, int width) {
    constexpr int CHUNKS = Plane<D>::CHUNKS;
    const int first = (int)threadIdx.x / CHUNKS, c = (int)threadIdx.x % CHUNKS;
#pragma unroll 4
    for (int r = first; r < TILE; r += Part<D>::COUNT / CHUNKS) {
        const float *x = from + (u64)r * pitch + c * 8;
        const float4 zero = make_float4(0.f, 0.f, 0.f, 0.f);
        const float4 a = r < rows && c * 8 < width ? load4(x) : zero;
        const float4 b = r < rows && c * 8 + 4 < width ? load4(x + 4) : zero;
        const SplitPair s0 = split_pair_f16(a.x, a.y), s1 = split_pair_f16(a.z, a.w);
        const SplitPair s2 = split_pair_f16(b.x, b.y), s3 = split_pair_f16(b.z, b.w);
        u8 *chunk = to + Plane<D>::chunk(r, c);
        *reinterpret_cast<uint4 *>(chunk) = make_uint4(s0.head, s1.head, s2.head, s3.head);
        *reinterpret_cast<uint4 *>(chunk + Plane<D>::BYTES) = make_uint4(s0.tail, s1.tail, s2.tail, s3.tail);
    }
}

// d += (head + tail) of a times (head + tail) of b but for the product of the tails; the smallest first.
DEVICE void mma_split(float (&d0)[4], float (&d1)[4], const u32 (&ah)[4], const u32 (&at)[4], const u32 (&bh)[4],
                      const u32 (&bt)[4]) {
    mma_f16(d0, ah, bt[0], bt[1]);
    mma_f16(d1, ah, bt[2], bt[3]);
    mma_f16(d0, at, bh[0], bh[1]);
    mma_f16(d1, at, bh[2], bh[3]);
    mma_f16(d0, ah, bh[0], bh[1]);
    mma_f16(d1, ah, bh[2], bh[3]);
}

// Scores of 64 keys for the 16 queries at `queries`.
template <int D>
DEVICE void scores(float (&s)[8][4], u32 queries, u32 keys) {
    constexpr int BYTES = Plane<D>::BYTES;
    const int lane = lane_id();
#pragma unroll 2
    for (int step = 0; step < D / 16; ++step) {
        u32 qh[4], qt[4];
        const u32 q = queries + Plane<D>::chunk(lane & 15, step * 2 + (lane >> 4));
        load_matrices(qh, q);
        load_matrices(qt, q + BYTES);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            u32 kh[4], kt[4];
            const u32 k = keys + Plane<D>::chunk(n * 16 + (lane & 7) + (lane >> 4) * 8, step * 2 + ((lane >> 3) & 1));
            load_matrices(kh, k);
            load_matrices(kt, k + BYTES);
            mma_split(s[2 * n], s[2 * n + 1], qh, qt, kh, kt);
        }
    }
}

// Adds 64 keys' weighted values, columns from chunk `column` on.
template <int D>
DEVICE void weigh(float (&out)[Part<D>::WIDE / 8][4], const float (&s)[8][4], u32 values, int column) {
    const int lane = lane_id();
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        u32 wh[4], wt[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float *pair = s[2 * step + (i >> 1)] + (i & 1) * 2;
            const SplitPair split = split_pair_f16(pair[0], pair[1]);
            wh[i] = split.head;
            wt[i] = split.tail;
        }
#pragma unroll
        for (int n = 0; n < Part<D>::WIDE / 16; ++n) {
            u32 vh[4], vt[4];
            const u32 v = values + Plane<D>::chunk(step * 16 + (lane & 15), column + n * 2 + (lane >> 4));
            load_matrices_transposed(vh, v);
            load_matrices_transposed(vt, v + Plane<D>::BYTES);
            mma_split(out[2 * n], out[2 * n + 1], wh, wt, vh, vt);
        }
    }
}

template <int D>
DEVICE void causal_attention(const CausalAttention &p) {
    constexpr int BYTES = Plane<D>::BYTES;
    extern __shared__ __align__(128) u8 memory[];
    u8 *queries = memory, *keys = memory + 2 * BYTES, *values = memory + 4 * BYTES;
    if ((int)blockIdx.y >= *p.tile_count) {
        wait_for_predecessor();
        return;
    }
    const Tile tile = heavy_first(p);
    const int head = blockIdx.x, end = tile.place + tile.queries, lane = lane_id(), group = warp_id() & 3;
    constexpr int WIDE = Part<D>::WIDE;
    const int wide = (warp_id() >> 2) * WIDE; // its first column
    wait_for_predecessor();
    const u64 column = (u64)head * p.head_dim;
    const float *q = static_cast<const float *>(p.q) + (u64)tile.query * p.q_pitch + column;
    split_rows<D>(queries, q, p.q_pitch, tile.queries, p.head_dim);

    Softmax<WIDE> own = empty_softmax<WIDE>();
    const int r0 = group * 16 + (lane >> 2), c0 = (lane & 3) * 2;
    for (int first = 0; first < end; first += TILE) {
        const Keys<float> from = keys_from<float>(p, tile, head, first, end);
        if (first > 0) __syncthreads();
        split_rows<D>(keys, from.k, p.k_pitch, from.rows, p.head_dim);
        split_rows<D>(values, from.v, p.v_pitch, from.rows, p.head_dim);
        __syncthreads();
        float s[8][4] = {};
        scores<D>(s, shared_address(queries) + group * 16 * Plane<D>::ROW, shared_address(keys));
        causal_weights(own, s, p.scale, tile.place + r0, first);
        weigh<D>(own.out, s, shared_address(values), wide / 8);
    }

    float share[2];
    shares(share, own);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (r0 + r * 8 >= tile.queries) continue;
        float *out = static_cast<float *>(p.out) + (u64)(tile.query + r0 + r * 8) * p.out_pitch + column;
#pragma unroll
        for (int n = 0; n < WIDE / 8; ++n) {
            const int c = wide + n * 8 + c0;
            const float2 y = make_float2(mul(own.out[n][2 * r], share[r]), mul(own.out[n][2 * r + 1], share[r]));
            if (c < p.head_dim) *reinterpret_cast<float2 *>(out + c) = y;
        }
    }
}

#define INSTANCE(D)                                                                                             \
    extern "C" __global__ void __launch_bounds__(Part<D>::COUNT, 1) causal_attention_f32_##D(const CausalAttention p) { \
        release_successor();                                                                                    \
        causal_attention<D>(p);                                                                                 \
    }
INSTANCE(64)
INSTANCE(128)
INSTANCE(256)
