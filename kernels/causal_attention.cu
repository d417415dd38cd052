// CausalAttention over bfloat16 rows: out = softmax(scale * q k^T) v per head over the rows of the same sequence up to the
// query's own; query head h uses key head h / group.
//
//   in     q, k, v and out in bfloat16; head width a multiple of 8, up to D, zeros beyond; pitches and columns are multiples
//          of 8
//   tile   64 queries of PACK heads that share their key head, four warps each; keys in tiles of 64 (causal_attention.cuh)
//   sums   one bfloat16 product each for scores and values, float32 sums; the weights of the softmax, at most 1, are rounded
//          to bfloat16 for the second
//   steps  2: the next keys and values come while these are worked on; 1: keys while values are worked on and the other way
//   list   the host writes the tiles of the batch; blocks beyond their number do nothing
//   grid   (heads / PACK, tiles of the bucket), 128 * PACK threads; dynamic shared memory: (PACK + 2 * STEPS) planes of
//          64 * D * 2 bytes
#include "causal_attention.cuh"

// Rows of a plane, zeros from row `rows` and column `width` on.
template <int D, int COUNT>
DEVICE void fetch_plane(u32 to, const u16 *from, int pitch, int rows, int width) {
    constexpr int CHUNKS = Plane<D>::CHUNKS, STEP = COUNT / CHUNKS;
    const int first = (int)threadIdx.x / CHUNKS, c = (int)threadIdx.x % CHUNKS;
    // Not wholly unrolled: addresses worked out ahead would take the registers of the sums.
#pragma unroll 4
    for (int r = first; r < TILE; r += STEP) {
        copy16(to + Plane<D>::chunk(r, c), from + (u64)r * pitch + c * 8, r < rows && c * 8 < width);
    }
}

// Scores of 64 keys for the 16 queries at `queries`, both swizzled.
template <int D>
DEVICE void scores(float (&s)[8][4], u32 queries, u32 keys) {
    const int lane = lane_id();
#pragma unroll
    for (int step = 0; step < D / 16; ++step) {
        u32 q[4];
        load_matrices(q, queries + Plane<D>::chunk(lane & 15, step * 2 + (lane >> 4)));
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            u32 k[4];
            load_matrices(k, keys + Plane<D>::chunk(n * 16 + (lane & 7) + (lane >> 4) * 8, step * 2 + ((lane >> 3) & 1)));
            mma_bf16(s[2 * n], q, k[0], k[1]);
            mma_bf16(s[2 * n + 1], q, k[2], k[3]);
        }
    }
}

// Adds 64 keys' weighted values.
template <int D>
DEVICE void weigh(float (&out)[D / 8][4], const float (&s)[8][4], u32 values) {
    const int lane = lane_id();
    u32 w[4][4];
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float *pair = s[2 * step + (i >> 1)] + (i & 1) * 2;
            w[step][i] = bf16_pair(pair[0], pair[1]);
        }
    }
#pragma unroll
    for (int step = 0; step < 4; ++step) {
#pragma unroll
        for (int n = 0; n < D / 16; ++n) {
            u32 v[4];
            load_matrices_transposed(v, values + Plane<D>::chunk(step * 16 + (lane & 15), n * 2 + (lane >> 4)));
            mma_bf16(out[2 * n], w[step], v[0], v[1]);
            mma_bf16(out[2 * n + 1], w[step], v[2], v[3]);
        }
    }
}

template <int D, int PACK, int STEPS>
DEVICE void causal_attention(const CausalAttention &p) {
    constexpr int BYTES = Plane<D>::BYTES, COUNT = 128 * PACK;
    extern __shared__ __align__(128) u8 memory[];
    const u32 queries = shared_address(memory), steps = queries + PACK * BYTES;
    if ((int)blockIdx.y >= *p.tile_count) {
        wait_for_predecessor();
        return;
    }
    const Tile tile = heavy_first(p);
    const int first_head = blockIdx.x * PACK, end = tile.place + tile.queries;
    const int lane = lane_id(), pack = warp_id() >> 2, group = warp_id() & 3;

    auto fetch_keys = [&](u32 to, int first) {
        const Keys<u16> keys = keys_from<u16>(p, tile, first_head, first, end);
        fetch_plane<D, COUNT>(to, keys.k, p.k_pitch, keys.rows, p.head_dim);
    };
    auto fetch_values = [&](u32 to, int first) {
        const Keys<u16> keys = keys_from<u16>(p, tile, first_head, first, end);
        fetch_plane<D, COUNT>(to, keys.v, p.v_pitch, keys.rows, p.head_dim);
    };

    wait_for_predecessor();
#pragma unroll
    for (int i = 0; i < PACK; ++i) {
        const u16 *q = static_cast<const u16 *>(p.q) + (u64)tile.query * p.q_pitch + (u64)(first_head + i) * p.head_dim;
        fetch_plane<D, COUNT>(queries + i * BYTES, q, p.q_pitch, tile.queries, p.head_dim);
    }
    fetch_keys(steps, 0);
    if (STEPS == 2) fetch_values(steps + BYTES, 0);
    commit_copies();

    Softmax<D> own = empty_softmax<D>();
    const u32 mine = queries + pack * BYTES + group * 16 * Plane<D>::ROW;
    const int row = tile.place + group * 16 + (lane >> 2);
    u32 keys = steps;
    for (int first = 0; first < end; first += TILE) {
        const u32 values = keys + BYTES;
        wait_copies<0>();
        __syncthreads();
        const u32 next = STEPS == 1 ? keys : keys == steps ? steps + 2 * BYTES : steps;
        if (STEPS == 1) {
            fetch_values(values, first);
        } else if (first + TILE < end) {
            fetch_keys(next, first + TILE);
            fetch_values(next + BYTES, first + TILE);
        }
        commit_copies();
        float s[8][4] = {};
        scores<D>(s, mine, keys);
        if (STEPS == 1) {
            wait_copies<0>();
            __syncthreads();
            if (first + TILE < end) fetch_keys(keys, first + TILE);
            commit_copies();
        }
        causal_weights(own, s, p.scale, row, first);
        weigh<D>(own.out, s, values);
        keys = next;
    }

    // Rows go out whole, from where this warp's queries were.
    float share[2];
    shares(share, own);
    u8 *rows = memory + (mine - queries);
    __syncwarp();
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const u32 pair = bf16_pair(mul(own.out[n][2 * r], share[r]), mul(own.out[n][2 * r + 1], share[r]));
            *reinterpret_cast<u32 *>(rows + Plane<D>::chunk((lane >> 2) + r * 8, n) + (lane & 3) * 4) = pair;
        }
    }
    __syncwarp();
    u16 *out = static_cast<u16 *>(p.out) + (u64)(tile.query + group * 16) * p.out_pitch + (u64)(first_head + pack) * p.head_dim;
#pragma unroll 4
    for (int i = 0; i < 16 * Plane<D>::CHUNKS / 32; ++i) {
        const int at = i * 32 + lane, r = at / Plane<D>::CHUNKS, c = at % Plane<D>::CHUNKS;
        if (group * 16 + r >= tile.queries || c * 8 >= p.head_dim) continue;
        *reinterpret_cast<uint4 *>(out + (u64)r * p.out_pitch + c * 8) =
            *reinterpret_cast<const uint4 *>(rows + Plane<D>::chunk(r, c));
    }
}

#define INSTANCE(NAME, D, PACK, STEPS)                                                                              \
    extern "C" __global__ void __launch_bounds__(128 * PACK, 1) causal_attention_##NAME(const CausalAttention p) { \
        release_successor();                                                                                        \
        causal_attention<D, PACK, STEPS>(p);                                                                        \
    }
INSTANCE(64, 64, 1, 2)
INSTANCE(64_pair, 64, 2, 2)
INSTANCE(128, 128, 1, 2)
INSTANCE(128_pair, 128, 2, 2)
INSTANCE(256_small, 256, 1, 1) // for 96 KiB of shared memory
INSTANCE(256, 256, 1, 2)
INSTANCE(256_pair, 256, 2, 2)
