// QuantLinear and QuantLinearGated of few tokens on Hopper: one tile a block, tokens as the 64-row side of wgmma.
//
//   out[t][n] = (sum_k codes[t][k] * weight[n][k]) * scales[t] * weight_scales[n] (+ residual)      or, gated,
//   out[t][n] = gelu_tanh(gate) * up
//   tile     GROUPS * 64 tokens x ROWS weight rows, one consumer warpgroup for each 64 tokens. Weight rows may be any
//            multiple of 16, so that one round of tiles fills the chip, where sm90_fp8_gemm.cu has 64 or 128 rows a tile
//   sums     as there, product by product: the 128 products of a k-block in the tensor core, k-blocks added in order in
//            float32 registers. Which operand has the 64 rows does not change a sum's bits (checked by cuda_check)
//   out      float32 (with or without residual), binary16, or gated and bfloat16; rows of out are a multiple of 16 bytes
//   speed    weights do not depend on the kernel before: their copies start before the wait, in as many stages as fit;
//            what else the end of a tile needs is asked for before its sums
//   grid     row tiles x token tiles, row tiles first; ROWS divides the weight's rows. 160, 288 or 384 threads; dynamic
//            shared memory: 1024 bytes to align + stages * (GROUPS * 64 + ROWS) * 128
#include "convert.cuh"
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "mma.cuh"
#include "tile.cuh"
#include "wgmma.cuh"

#define MOST_STAGES 24
#define RUN 8 // k-blocks between which nothing is under way, as in sm90_fp8_gemm.cu

struct Fp8Gemm {
    const u8 *codes;
    const float *scales;
    const u8 *weight;
    const float *weight_scales, *residual;
    void *out;
    const int *rows;
    int capacity, k_blocks, columns, gated, activation, row_tiles, cluster_tokens, stages, stored, pad;
};

// A place in a ring and the parity of its round.
struct Ring {
    u32 stage, parity;
    __device__ __forceinline__ void advance(int stages) {
        if (++stage == (u32)stages) stage = 0, parity ^= 1;
    }
};

// The copies of one block, by one thread: its weight rows, which may lie in several tiles of 64, and its tokens.
template <int TOKENS, int ROWS>
struct Producer {
    static constexpr int APART = (ROWS & -ROWS) < WEIGHT_ROWS ? (ROWS & -ROWS) : WEIGHT_ROWS; // a tile begins at a multiple
    static constexpr int PIECES = (ROWS + WEIGHT_ROWS - APART + WEIGHT_ROWS - 1) / WEIGHT_ROWS;
    static constexpr u32 CODES_BYTES = TOKENS * KBLOCK, STAGE_BYTES = CODES_BYTES + ROWS * KBLOCK;
    const Fp8Gemm &p;
    u32 ring, full;
    int first_row, first_token;

    // `from`: the k-block of the tile of 64 rows in which the block's rows begin.
    __device__ __forceinline__ void weights(const u8 *from, u32 stage) const {
        const u32 done = full + stage * 8;
        u32 to = ring + stage * STAGE_BYTES + CODES_BYTES;
        int begin = first_row % WEIGHT_ROWS, left = ROWS;
        barrier_expect(done, STAGE_BYTES);
#pragma unroll
        for (int i = 0; i < PIECES; ++i) {
            const int count = min_of(left, WEIGHT_ROWS - begin);
            if (PIECES == 1 || count > 0) bulk_copy(to, from + begin * KBLOCK, count * KBLOCK, done);
            from += (u64)p.k_blocks * WEIGHT_TILE;
            to += count * KBLOCK;
            left -= count;
            begin = 0;
        }
    }
    __device__ __forceinline__ void run(u32 empty) const {
        const u8 *w = p.weight + weight_tile(first_row / WEIGHT_ROWS, 0, p.k_blocks);
        const u8 *c = p.codes + activation_tile(first_token, 0, p.capacity);
        const u32 codes_step = p.capacity * KBLOCK;
        const int begun = min_of(p.stages, p.k_blocks);
        int kb = 0;
#pragma unroll 1
        for (; kb < begun; ++kb, w += WEIGHT_TILE) weights(w, kb);
        wait_for_predecessor();
#pragma unroll 1
        for (int s = 0; s < begun; ++s, c += codes_step) bulk_copy(ring + s * STAGE_BYTES, c, CODES_BYTES, full + s * 8);
        Ring at = {0, 0};
#pragma unroll 1
        for (; kb < p.k_blocks; ++kb, w += WEIGHT_TILE, c += codes_step) {
            barrier_wait(empty + at.stage * 8, at.parity);
            weights(w, at.stage);
            bulk_copy(ring + at.stage * STAGE_BYTES, c, CODES_BYTES, full + at.stage * 8);
            at.advance(p.stages);
        }
    }
};

// Four lanes of a row hold two neighbouring columns each, of COUNT groups of eight columns. Of every four groups, lane q
// (of 4) gets all eight columns of the q-th, as 16 bytes of a 16-bit format.
DEVICE uint4 eight_columns(u32 w0, u32 w1, u32 w2, u32 w3) {
    const int q = lane_id() & 3;
    const bool odd = q & 1, high = q & 2;
    const u32 got0 = __shfl_xor_sync(~0u, odd ? w0 : w1, 1), got1 = __shfl_xor_sync(~0u, odd ? w2 : w3, 1);
    // Groups 0 or 1, and 2 or 3: the columns of this lane and its neighbour.
    const u32 a0 = odd ? got0 : w0, a1 = odd ? w1 : got0, b0 = odd ? got1 : w2, b1 = odd ? w3 : got1;
    const u32 far0 = __shfl_xor_sync(~0u, high ? a0 : b0, 2), far1 = __shfl_xor_sync(~0u, high ? a1 : b1, 2);
    return high ? make_uint4(far0, far1, b0, b1) : make_uint4(a0, a1, far0, far1);
}

// COUNT groups of eight columns from `column` on of one row, rounded to 16 bits. Lanes of a row agree on `inside`.
template <int COUNT>
DEVICE void store_groups(u16 *row, int column, int columns, bool inside, const u32 (&w)[COUNT]) {
    const int q = lane_id() & 3;
#pragma unroll
    for (int j = 0; j + 4 <= COUNT; j += 4) {
        const uint4 all = eight_columns(w[j], w[j + 1], w[j + 2], w[j + 3]);
        const int at = column + 8 * (j + q);
        if (inside && at < columns) *reinterpret_cast<uint4 *>(row + at) = all;
    }
#pragma unroll
    for (int j = COUNT & ~3; j < COUNT; ++j) {
        const int at = column + 8 * j + 2 * q;
        if (inside && at < columns) *reinterpret_cast<u32 *>(row + at) = w[j];
    }
}

template <int GROUPS, int ROWS, int DEPTH, int THREADS>
DEVICE void fp8_few(const Fp8Gemm &p) {
    static_assert(ROWS % 16 == 0, "gates and what they gate lie in a tile");
    constexpr int TOKENS = GROUPS * 64, SUMS = ROWS / 2;
    constexpr u32 STAGE_BYTES = (TOKENS + ROWS) * KBLOCK;
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 full_barriers[MOST_STAGES], empty_barriers[MOST_STAGES];
    __shared__ __align__(16) float row_scales[GROUPS][ROWS];
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    const u32 full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const int first_row = blockIdx.x % p.row_tiles * ROWS, first_token = blockIdx.x / p.row_tiles * TOKENS;

    release_successor();
    if (threadIdx.x == 0) {
        for (int s = 0; s < p.stages; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, GROUPS * 4);
        }
        barrier_init_fence();
    }
    __syncthreads();

    if (warp_id() >= GROUPS * 4) {
        if (THREADS == 384) give_registers<56>();
        if (warp_id() == GROUPS * 4 && elected()) {
            Producer<TOKENS, ROWS>{p, ring, full, first_row, first_token}.run(empty);
        }
        __syncwarp();
        wait_for_predecessor();
        return;
    }
    if (THREADS == 384) take_registers<224>();
    const int group = uniform(warp_id() / 4), lane = lane_id(), q = lane & 3;
    const u32 operand_a = operand_low(ring + group * WEIGHT_TILE), operand_b = operand_low(ring + TOKENS * KBLOCK);
    for (int r = threadIdx.x & 127; r < ROWS; r += 128) {
        copy4(shared_address(&row_scales[group][r]), p.weight_scales + first_row + r);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    meet_group(group);
    // This thread's sums are of two tokens, eight apart.
    const int rows = *p.rows;
    const int token = first_token + group * 64 + (warp_id() & 3) * 16 + (lane >> 2);
    const bool inside[2] = {token < rows, token + 8 < rows};

    wait_for_predecessor();
    const float scale[2] = {inside[0] ? p.scales[token] : 0.f, inside[1] ? p.scales[token + 8] : 0.f};
    // Of float32 results lanes of a pair write four columns each: an even one of the groups of eight with an even number.
    auto place = [&](int pair) { return first_row + 16 * pair + (q & 1) * 8 + (q & 2) * 2; };
    constexpr bool EARLY = ROWS <= 64; // there are registers for it
    float4 residual[EARLY ? ROWS / 8 : 1];
    if (EARLY && p.residual) {
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i) {
            const bool there = inside[i & 1] && place(i >> 1) < p.columns;
            residual[i] = there ? load4(p.residual + (u64)(token + 8 * (i & 1)) * p.columns + place(i >> 1))
                                : make_float4(0.f, 0.f, 0.f, 0.f);
        }
    }

    float sum[SUMS];
    Ring ahead = {0, 0}; // the next product to start
    u32 release = 0;     // the next stage to free
    auto start = [&](float (&d)[SUMS]) {
        const u32 at = ahead.stage * (STAGE_BYTES / 16);
        barrier_wait(full + ahead.stage * 8, ahead.parity);
        wgmma_k_block<ROWS>(d, operand_a + at, operand_b + at);
        ahead.advance(p.stages);
    };
    auto take = [&](float (&d)[SUMS]) {
        settle(d);
        if (lane == 0) barrier_arrive(empty + release * 8);
        if (++release == (u32)p.stages) release = 0;
#pragma unroll
        for (int e = 0; e < SUMS; ++e) sum[e] = add(sum[e], d[e]);
    };
#pragma unroll
    for (int e = 0; e < SUMS; ++e) sum[e] = 0.f;
    int kb = 0;
    for (; kb + RUN <= p.k_blocks; kb += RUN) {
        float product[DEPTH][SUMS];
#pragma unroll
        for (int i = 0; i < RUN + DEPTH - 1; ++i) {
            if (i < RUN) start(product[i % DEPTH]);
            if (i >= DEPTH - 1) {
                // Products that may still be under way: those started after this one.
                if (i < RUN) wgmma_wait<DEPTH - 1>();
                else wgmma_wait_at_most(RUN + DEPTH - 2 - i);
                take(product[(i + 1) % DEPTH]);
            }
        }
    }
    for (; kb < p.k_blocks; ++kb) {
        float product[SUMS];
        start(product);
        wgmma_wait<0>();
        take(product);
    }

    // Column pair j of token `half`: sums 4 j + 2 half and the next.
    auto pair = [&](int j, int half) {
        const float2 s = *reinterpret_cast<const float2 *>(&row_scales[group][8 * j + 2 * q]);
        return make_float2(mul(mul(sum[4 * j + 2 * half], scale[half]), s.x),
                           mul(mul(sum[4 * j + 2 * half + 1], scale[half]), s.y));
    };
    if (p.gated) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            u32 w[ROWS / 16];
#pragma unroll
            for (int i = 0; i < ROWS / 16; ++i) {
                const float2 gate = pair(2 * i, half), up = pair(2 * i + 1, half);
                w[i] = bf16_pair(mul(activate(GELU_TANH, gate.x), up.x), mul(activate(GELU_TANH, gate.y), up.y));
            }
            u16 *row = static_cast<u16 *>(p.out) + (u64)(token + 8 * half) * p.columns;
            store_groups(row, first_row / 2, p.columns, inside[half], w);
        }
    } else if (p.stored == F16) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            u32 w[ROWS / 8];
#pragma unroll
            for (int j = 0; j < ROWS / 8; ++j) {
                const float2 v = pair(j, half);
                w[j] = f16_pair(v.x, v.y);
            }
            u16 *row = static_cast<u16 *>(p.out) + (u64)(token + 8 * half) * p.columns;
            store_groups(row, first_row, p.columns, inside[half], w);
        }
    } else {
#pragma unroll
        for (int i = 0; i < ROWS / 8; ++i) {
            const int half = i & 1;
            const float2 even = pair(i & ~1, half), odd = pair(i | 1, half);
            const bool right = q & 1;
            const float got0 = __shfl_xor_sync(~0u, right ? even.x : odd.x, 1);
            const float got1 = __shfl_xor_sync(~0u, right ? even.y : odd.y, 1);
            float4 v = right ? make_float4(got0, got1, odd.x, odd.y) : make_float4(even.x, even.y, got0, got1);
            const int column = place(i >> 1);
            if (inside[half] && column < p.columns) {
                const u64 at = (u64)(token + 8 * half) * p.columns + column;
                if (p.residual) {
                    const float4 r = EARLY ? residual[EARLY ? i : 0] : load4(p.residual + at);
                    v = make_float4(add_flushed(v.x, r.x), add_flushed(v.y, r.y), add_flushed(v.z, r.z), add_flushed(v.w, r.w));
                }
                store4(static_cast<float *>(p.out) + at, v);
            }
        }
    }
}

#define INSTANCE(NAME, GROUPS, ROWS, DEPTH, THREADS)                                           \
    extern "C" __global__ void __launch_bounds__(THREADS, 1) sm90_fp8_few_##NAME(const Fp8Gemm p) { \
        fp8_few<GROUPS, ROWS, DEPTH, THREADS>(p);                                              \
    }
INSTANCE(1_16, 1, 16, 4, 160)
INSTANCE(1_32, 1, 32, 4, 160)
INSTANCE(1_48, 1, 48, 4, 160)
INSTANCE(1_64, 1, 64, 3, 160)
INSTANCE(1_80, 1, 80, 3, 160)
INSTANCE(1_96, 1, 96, 2, 160)
INSTANCE(1_160, 1, 160, 1, 160)
INSTANCE(2_48, 2, 48, 4, 384)
INSTANCE(2_80, 2, 80, 3, 384)
// Leaves registers for the blocks of the kernel after it, which then wait on the chip for it to end.
INSTANCE(2_80_slim, 2, 80, 1, 288)
INSTANCE(2_96, 2, 96, 2, 384)
INSTANCE(2_160, 2, 160, 1, 384)
