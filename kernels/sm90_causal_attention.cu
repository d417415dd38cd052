// CausalAttention on Hopper, heads up to 256 wide: causal_attention.cu with warpgroup products.
//
//   in     q, k, v and out in bfloat16; head width a multiple of 8, up to 256, zeros beyond; pitches and columns are multiples
//          of 8
//   tile   64 queries of PACK heads that share their key head, a warpgroup each; keys in tiles of 64 (causal_attention.cuh);
//          the next keys and values come while these are worked on
//   sums   one bfloat16 product each for scores and values, float32 sums; the weights of the softmax, at most 1, are rounded
//          to bfloat16 for the second. Queries, keys and values in shared memory, weights in registers
//   list   the host writes the tiles of the batch; blocks beyond their number do nothing
//   grid   (heads / PACK, tiles of the bucket), 128 * PACK threads; dynamic shared memory: 1024 bytes to align and PACK + 4
//          matrices of 32 KiB
#include "causal_attention.cuh"
#include "wgmma_attention.cuh"

#define WIDTH 256
#define CHUNKS (WIDTH / 8)
#define MATRIX (TILE * WIDTH * 2)

// Place of a chunk of sixteen bytes.
DEVICE u32 place(int r, int c) { return (c >> 3) * PANEL + r * 128 + (((c ^ r) & 7) << 4); }

// Rows of a matrix, zeros from row `rows` and column `width` on.
template <int COUNT>
DEVICE void fetch(u32 to, const u16 *from, int pitch, int rows, int width) {
    const int first = (int)threadIdx.x / CHUNKS, c = (int)threadIdx.x % CHUNKS;
#pragma unroll 4
    for (int r = first; r < TILE; r += COUNT / CHUNKS) {
        copy16(to + place(r, c), from + (u64)r * pitch + c * 8, r < rows && c * 8 < width);
    }
}

template <int PACK>
DEVICE void causal_attention(const CausalAttention &p) {
    constexpr int COUNT = 128 * PACK;
    extern __shared__ u8 memory[];
    const u32 queries = (shared_address(memory) + 1023) & ~1023u, steps = queries + PACK * MATRIX;
    if ((int)blockIdx.y >= *p.tile_count) {
        wait_for_predecessor();
        return;
    }
    const Tile tile = heavy_first(p);
    const int first_head = blockIdx.x * PACK, end = tile.place + tile.queries;
    const int lane = lane_id(), pack = uniform(warp_id() >> 2), group = warp_id() & 3;
    auto fetch_step = [&](u32 to, int first) {
        const Keys<u16> keys = keys_from<u16>(p, tile, first_head, first, end);
        fetch<COUNT>(to, keys.k, p.k_pitch, keys.rows, p.head_dim);
        fetch<COUNT>(to + MATRIX, keys.v, p.v_pitch, keys.rows, p.head_dim);
    };

    wait_for_predecessor();
#pragma unroll
    for (int i = 0; i < PACK; ++i) {
        const u16 *q = static_cast<const u16 *>(p.q) + (u64)tile.query * p.q_pitch + (u64)(first_head + i) * p.head_dim;
        fetch<COUNT>(queries + i * MATRIX, q, p.q_pitch, tile.queries, p.head_dim);
    }
    fetch_step(steps, 0);
    commit_copies();

    Softmax<WIDTH> own = empty_softmax<WIDTH>();
    const u32 mine = queries + pack * MATRIX, operand_q = operand_low(mine);
    const int row = tile.place + group * 16 + (lane >> 2);
    u32 keys = steps;
#pragma unroll 1
    for (int first = 0; first < end; first += TILE) {
        wait_copies<0>();
        publish_to_tensor_core();
        __syncthreads();
        const u32 next = keys == steps ? steps + 2 * MATRIX : steps;
        if (first + TILE < end) fetch_step(next, first + TILE);
        commit_copies();

        const u32 operand_k = operand_low(keys), operand_v = columns_low(keys + MATRIX);
        float s[8][4];
        settle(s);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < WIDTH / 16; ++step) {
            const u32 at = (step >> 2) * (PANEL / 16) + (step & 3) * 2;
            wgmma_scores(s, operand(operand_q + at), operand(operand_k + at), step > 0);
        }
        wgmma_commit();
        wgmma_wait<0>();
        settle(s);
        causal_weights(own, s, p.scale, row, first);
        u32 w[4][4];
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float *pair = s[2 * (i >> 2) + (i >> 1 & 1)] + (i & 1) * 2;
            w[i >> 2][i & 3] = bf16_pair(pair[0], pair[1]);
        }
        settle(w);
        settle(own.out);
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < 4; ++step) wgmma_values(own.out, w[step], operand(operand_v + step * 128));
        wgmma_commit();
        wgmma_wait<0>();
        settle(own.out);
        settle(w);
        keys = next;
    }

    // Rows go out whole, from where the queries were once every warp is done with them.
    float share[2];
    shares(share, own);
    u8 *rows = memory + (mine - shared_address(memory));
    __syncthreads();
#pragma unroll
    for (int n = 0; n < CHUNKS; ++n) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const u32 pair = bf16_pair(mul(own.out[n][2 * r], share[r]), mul(own.out[n][2 * r + 1], share[r]));
            *reinterpret_cast<u32 *>(rows + place(group * 16 + (lane >> 2) + r * 8, n) + (lane & 3) * 4) = pair;
        }
    }
    __syncwarp();
    u16 *out = static_cast<u16 *>(p.out) + (u64)tile.query * p.out_pitch + (u64)(first_head + pack) * p.head_dim + lane * 8;
#pragma unroll 4
    for (int i = 0; i < 16; ++i) {
        const int r = group * 16 + i;
        if (r >= tile.queries || lane * 8 >= p.head_dim) continue;
        *reinterpret_cast<uint4 *>(out + (u64)r * p.out_pitch) = *reinterpret_cast<const uint4 *>(rows + place(r, lane));
    }
}

#define INSTANCE(NAME, PACK)                                                                                             \
    extern "C" __global__ void __launch_bounds__(128 * PACK, 1) sm90_causal_attention_##NAME(const CausalAttention p) { \
        release_successor();                                                                                             \
        causal_attention<PACK>(p);                                                                                       \
    }
INSTANCE(256, 1)
INSTANCE(256_pair, 2)
