// The gated delta rule's second kernel on Hopper, heads 128 wide in bfloat16: gated_delta_state.cu with warpgroup products.
//
//   state  a warpgroup has 64 value columns of one head: S^T, [64, 128], float32 sums in registers. Sums of one product become
//          the first operand of the next in registers; what warps share (K, Q, T, P) the tensor core reads once for all four
//   order  S^T K^T, then S^T Q^T, on which (V - e^G K S) need not wait; R^T T^T; U^T P^T, then the new state, on which the
//          results need not wait. Blocks of 16 x 16 above the diagonals of T and P are zeros in shared memory
//   scale, out, state in memory: as in gated_delta_state.cu
//   grid   value heads x (2 / GROUPS) parts of their columns, sequences that the bucket has room for; 128 * GROUPS threads;
//          dynamic shared memory: 1024 bytes to align and `stages`, 2 or 3, times STAGE<GROUPS>
#include "gated_delta.cuh"
#include "wgmma_delta.cuh"

#define WIDTH 128

// Of a chunk's operands, in panels: keys, queries, T, P, values of each warpgroup; then the factors.
#define QUERIES (2 * PANEL)
#define PAIRS (4 * PANEL)
#define VALUES (6 * PANEL)
template <int GROUPS>
constexpr int STAGE = VALUES + GROUPS * PANEL + 1024;

// Where a thread's share of a chunk's operands comes from.
struct Feed {
    const u16 *keys, *pairs, *values;
    const float *factors;
    int rows; // of the sequence from the chunk's first on
};

template <int GROUPS>
DEVICE void fetch(u32 stage, const Feed &f, int pitch) {
    constexpr int THREADS = 128 * GROUPS;
    const int t = threadIdx.x;
    {
        constexpr int STEP = THREADS / 16;
        const int r = t / 16, c = t % 16;
        const u32 at = stage + (c >> 3) * PANEL + r * 128 + (((c ^ r) & 7) << 4);
#pragma unroll
        for (int i = 0; i < 2 * CHUNK / STEP; ++i) {
            copy16(at + i * STEP / CHUNK * PANEL + i * STEP * 128, f.keys + i * STEP * WIDTH);
        }
    }
    {
        constexpr int STEP = THREADS / 8;
        const int r = t / 8, c = t % 8;
        const u32 at = stage + PAIRS + r * 128 + (((c ^ r) & 7) << 4);
#pragma unroll
        for (int i = 0; i < 2 * CHUNK / STEP; ++i) {
            if (c / 2 > (i * STEP + r) % CHUNK / 16) continue;
            copy16(at + i * STEP * 128, f.pairs + i * STEP * CHUNK);
        }
    }
    {
        constexpr int STEP = 16;
        const int r = t / (8 * GROUPS), c = t % (8 * GROUPS);
        const u32 at = stage + VALUES + (c >> 3) * PANEL + r * 128 + (((c ^ r) & 7) << 4);
#pragma unroll
        for (int i = 0; i < CHUNK / STEP; ++i) {
            copy16(at + i * STEP * 128, f.values + (u64)(i * STEP) * pitch, i * STEP + r < f.rows);
        }
    }
    if (t < FACTORS / 4) copy16(stage + VALUES + GROUPS * PANEL + t * 16, f.factors);
}

// Blocks above the diagonals of T and P, which no copy writes.
template <int GROUPS>
DEVICE void clear_above(u32 stage) {
    for (int i = threadIdx.x; i < 2 * CHUNK * 8; i += 128 * GROUPS) {
        const int r = i / 8, c = i % 8;
        if (c / 2 <= r % CHUNK / 16) continue;
        const u32 at = stage + PAIRS + r * 128 + (((c ^ r) & 7) << 4);
#pragma unroll
        for (int e = 0; e < 4; ++e) store_shared(at + e * 4, 0.f);
    }
}

template <int GROUPS>
DEVICE void walk(const GatedDelta &p) {
    extern __shared__ __align__(128) u8 memory[];
    const u32 start = shared_address(memory), stages = (start + 1023) & ~1023u;
    constexpr int PARTS = 2 / GROUPS;
    const int head = blockIdx.x / PARTS, part = blockIdx.x % PARTS, sequence = blockIdx.y, lane = lane_id();
    release_successor();
    int first = 0, end = 0;
    const bool some = sequence < *p.sequences;
    if (some) first = p.offsets[sequence], end = p.offsets[sequence + 1];
    for (int i = 0; i < p.stages; ++i) clear_above<GROUPS>(stages + i * STAGE<GROUPS>);
    wait_for_predecessor();
    if (!some) return;

    // This warp's columns of its warpgroup's panel and of its head.
    const int group = warp_id() >> 2, own = (warp_id() & 3) * 16, column = (part * GROUPS + group) * 64 + own;
    const u64 place = (u64)(head * WIDTH + column + (lane >> 2)) * WIDTH + (lane & 3) * 2;
    float s[WIDTH / 8][4] = {}, most = 0.f;
    u32 scale = scale_of(0.f);
    const float *from = p.from ? p.from[sequence] : nullptr;
    if (from) {
        most = from[(u64)p.value_heads * WIDTH * WIDTH + head];
        scale = scale_of(most);
        const float by = __uint_as_float(scale << 23);
#pragma unroll
        for (int n = 0; n < WIDTH / 8; ++n) {
            const float2 a = *reinterpret_cast<const float2 *>(from + place + n * 8);
            const float2 b = *reinterpret_cast<const float2 *>(from + place + 8 * WIDTH + n * 8);
            s[n][0] = a.x * by, s[n][1] = a.y * by, s[n][2] = b.x * by, s[n][3] = b.y * by;
        }
    }

    const int slot = first / CHUNK + sequence, count = (end - first + CHUNK - 1) / CHUNK, t = threadIdx.x;
    Feed feed;
    feed.keys = keys_of<WIDTH, 1>(p, slot, head / (p.value_heads / p.key_heads)) + t * 8;
    feed.pairs = pairs_of<1>(p, slot, head) + t * 8;
    feed.values = static_cast<const u16 *>(p.x) + (u64)(first + t / (8 * GROUPS)) * p.pitch + 2 * p.key_heads * WIDTH +
                  head * WIDTH + part * 64 + t % (8 * GROUPS) * 8;
    feed.factors = factors_of(p, slot, head) + t * 4;
    feed.rows = end - first;
    auto advance = [&]() {
        feed.keys += (u64)p.key_heads * (2 * CHUNK * WIDTH);
        feed.pairs += (u64)p.value_heads * (2 * CHUNK * CHUNK);
        feed.values += (u64)p.pitch * CHUNK;
        feed.factors += p.value_heads * FACTORS;
        feed.rows -= CHUNK;
    };
    const int ahead = p.stages - 1; // chunks that are on their way while one is worked on
    for (int i = 0; i < ahead; ++i) {
        if (i < count) {
            fetch<GROUPS>(stages + i * STAGE<GROUPS>, feed, p.pitch);
            advance();
        }
        commit_copies();
    }
    int turn = 0, next = ahead;
#pragma unroll 1
    for (int c = 0; c < count; ++c) {
        if (ahead == 2) wait_copies<1>();
        else wait_copies<0>();
        publish_to_tensor_core();
        __syncthreads();
        const u32 stage = stages + turn * STAGE<GROUPS>, to = stages + next * STAGE<GROUPS>;
        turn = turn == ahead ? 0 : turn + 1;
        next = next == ahead ? 0 : next + 1;
        const u32 k = operand_low(stage), q = operand_low(stage + QUERIES), pairs = operand_low(stage + PAIRS);
        const u32 values = stage + VALUES + group * PANEL;
        const float *factors = reinterpret_cast<const float *>(memory + (stage - start) + VALUES + GROUPS * PANEL);

        most = fmaxf(most, factors[2 * CHUNK + 1]);
        if (scale_of(most) != scale) {
            const float by = mul(__uint_as_float(scale_of(most) << 23), __uint_as_float((254 - scale) << 23));
            scale = scale_of(most);
#pragma unroll
            for (int n = 0; n < WIDTH / 8; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) s[n][i] *= by;
            }
        }

        // S^T K^T and S^T Q^T, [64, 64] each.
        u32 state[WIDTH / 16][1][4];
#pragma unroll
        for (int n = 0; n < WIDTH / 16; ++n) as_operand<1>(state[n], s[2 * n], s[2 * n + 1]);
        float r[8][4], o[8][4];
        settle_operands(state);
        settle(r);
        settle(o);
        wgmma_fence();
#pragma unroll
        for (int n = 0; n < WIDTH / 16; ++n) {
            wgmma_rows(r, state[n][0], operand(k + (n >> 2) * (PANEL / 16) + (n & 3) * 2), n > 0);
        }
        wgmma_commit();
#pragma unroll
        for (int n = 0; n < WIDTH / 16; ++n) {
            wgmma_rows(o, state[n][0], operand(q + (n >> 2) * (PANEL / 16) + (n & 3) * 2), n > 0);
        }
        wgmma_commit();
        if (c + ahead < count) {
            fetch<GROUPS>(to, feed, p.pitch);
            advance();
        }
        commit_copies();
        wgmma_wait<1>();
        settle(r);

        // R^T = V^T - e^G S^T K^T, then U^T = R^T T^T.
        u32 operands[4][1][4];
        const float by = __uint_as_float(scale << 23);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = 16 * i + (lane >> 4) * 8 + (lane & 7), chunk = own / 8 + ((lane >> 3) & 1);
            u32 v[4];
            load_matrices_transposed(v, values + row * 128 + (((chunk ^ row) & 7) << 4));
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float2 fade = *reinterpret_cast<const float2 *>(factors + 16 * i + 8 * n + (lane & 3) * 2);
                float(&x)[4] = r[2 * i + n];
                x[0] = fmaf(-fade.x, x[0], bf16_low(v[2 * n]) * by);
                x[1] = fmaf(-fade.y, x[1], bf16_high(v[2 * n]) * by);
                x[2] = fmaf(-fade.x, x[2], bf16_low(v[2 * n + 1]) * by);
                x[3] = fmaf(-fade.y, x[3], bf16_high(v[2 * n + 1]) * by);
            }
            as_operand<1>(operands[i], r[2 * i], r[2 * i + 1]);
        }
        float u[8][4];
        settle_operands(operands);
        settle(u);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 4; ++j) wgmma_rows(u, operands[j][0], operand(pairs + 2 * j), j > 0);
        wgmma_commit();
        const float keep = factors[2 * CHUNK];
#pragma unroll
        for (int n = 0; n < WIDTH / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) s[n][i] *= keep;
        }
        wgmma_wait<1>();
        settle(o);
        settle_operands(state);
#pragma unroll
        for (int n = 0; n < 8; ++n) {
            const float2 fade = *reinterpret_cast<const float2 *>(factors + 8 * n + (lane & 3) * 2);
            o[n][0] *= fade.x, o[n][1] *= fade.y, o[n][2] *= fade.x, o[n][3] *= fade.y;
        }
        wgmma_wait<0>();
        settle(u);
        settle_operands(operands);

        // e^G S^T Q^T + U^T P^T, and S^T <- e^G_last S^T + (e^(G_last - G) U)^T K.
        u32 fresh[4][1][4], faded[4][1][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            as_operand<1>(fresh[i], u[2 * i], u[2 * i + 1]);
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float2 fade = *reinterpret_cast<const float2 *>(factors + CHUNK + 16 * i + 8 * n + (lane & 3) * 2);
                float(&x)[4] = u[2 * i + n];
                x[0] *= fade.x, x[1] *= fade.y, x[2] *= fade.x, x[3] *= fade.y;
            }
            as_operand<1>(faded[i], u[2 * i], u[2 * i + 1]);
        }
        settle_operands(fresh);
        settle_operands(faded);
        settle(o);
        settle(s);
        wgmma_fence();
#pragma unroll
        for (int j = 0; j < 4; ++j) wgmma_rows(o, fresh[j][0], operand(pairs + PANEL / 16 + 2 * j), 1);
        wgmma_commit();
        const u32 columns = columns_low(stage);
#pragma unroll
        for (int j = 0; j < 4; ++j) wgmma_columns(s, faded[j][0], operand(columns + j * 128), 1);
        wgmma_commit();
        wgmma_wait<1>();
        settle(o);
        settle_operands(fresh);

        // Results to where this warp's values were, then out: 32 bytes of each row.
        constexpr float NORM = 0.08838834764831845f; // 1 / sqrt(128)
        const float back = mul(__uint_as_float((254 - scale) << 23), NORM);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = 16 * i + (lane >> 4) * 8 + (lane & 7), chunk = own / 8 + ((lane >> 3) & 1);
            u32 v[4];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float *x = o[2 * i + (e >> 1)] + (e & 1) * 2;
                v[e] = bf16_pair(x[0] * back, x[1] * back);
            }
            store_matrices_transposed(values + row * 128 + (((chunk ^ row) & 7) << 4), v[0], v[1], v[2], v[3]);
        }
        __syncwarp();
        const int token = first + c * CHUNK + (lane >> 1);
        u16 *out = static_cast<u16 *>(p.out) + ((u64)token * p.value_heads + head) * WIDTH + column + (lane & 1) * 8;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int row = 16 * i + (lane >> 1), chunk = own / 8 + (lane & 1);
            const uint4 v = load16_shared(values + row * 128 + (((chunk ^ row) & 7) << 4));
            if (token + 16 * i < end) *reinterpret_cast<uint4 *>(out + (u64)(16 * i) * p.value_heads * WIDTH) = v;
        }
        wgmma_wait<0>();
        settle(s);
        settle_operands(faded);
    }
    wait_copies<0>();

    float *last = p.to ? p.to[sequence] : nullptr;
    if (last) {
        const float by = __uint_as_float((254 - scale) << 23);
#pragma unroll
        for (int n = 0; n < WIDTH / 8; ++n) {
            *reinterpret_cast<float2 *>(last + place + n * 8) = make_float2(s[n][0] * by, s[n][1] * by);
            *reinterpret_cast<float2 *>(last + place + 8 * WIDTH + n * 8) = make_float2(s[n][2] * by, s[n][3] * by);
        }
        if (part == 0 && t == 0) last[(u64)p.value_heads * WIDTH * WIDTH + head] = most;
    }
}

#define ENTRY(GROUPS, NAME)                                                                        \
    extern "C" __global__ void __launch_bounds__(128 * GROUPS, 1) NAME(const GatedDelta p) { \
        walk<GROUPS>(p);                                                                       \
    }
ENTRY(1, sm90_gated_delta_state_128)
ENTRY(2, sm90_gated_delta_state_128_wide) // all columns of a head: fewer reads, for many sequences
