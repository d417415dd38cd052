// The gated delta rule, second kernel: along the chunks of a sequence (formulas in gated_delta.cuh).
//
//   state  a warp has 16 value columns of one head: S^T, [16, D], as float32 sums of the tensor core in its registers. Sums
//          of one product are laid out as an operand of the next, so that S^T K^T, R^T T^T, P U and U^T K follow each other
//          without a way through memory, and warps share nothing but what they read
//   scale  S, R and U are kept times 2^n, where the largest |v| of the head up to this chunk times 2^n is in 8 .. 16: as
//          |S| <= sqrt(rows) * max |v|, binary16 holds them for 2^22 rows; what is 2^-18 of the largest value still has all
//          its bits
//   out    in the format of x
//   state  in memory (from, to): [value_heads, D value columns, D keys] in float32, then the [value_heads] largest |v|
//   grid   value heads x (D / 16 / WARPS) parts of their columns, sequences that the bucket has room for; 32 * WARPS threads
//          dynamic shared memory: `stages` times Stage::BYTES; 2 or 3 stages with AHEAD, else 1
#include "gated_delta.cuh"

// One chunk's operands in shared memory.
template <int D, int STORED, int WARPS>
struct Stage {
    static constexpr int PLANES = STORED == F32 ? 2 : 1, ELEMENT = STORED == F32 ? 4 : 2;
    static constexpr int KEY_PITCH = Pitch<D>::BYTES, PAIR_PITCH = Pitch<CHUNK>::BYTES;
    static constexpr int VALUE_PITCH = WARPS * 16 * ELEMENT + 16;
    static constexpr int QUERIES = PLANES * CHUNK * KEY_PITCH, T = 2 * QUERIES, P = T + PLANES * CHUNK * PAIR_PITCH;
    static constexpr int VALUES = P + PLANES * CHUNK * PAIR_PITCH, FACTOR = VALUES + CHUNK * VALUE_PITCH;
    static constexpr int BYTES = FACTOR + FACTORS * 4;
};

// Where a thread's share of a chunk's operands comes from.
struct Feed {
    const u16 *keys, *pairs;
    const u8 *values;
    const float *factors;
    int rows; // of the sequence from the chunk's first on
};

template <int D, int STORED, int WARPS>
DEVICE Feed feed_of(const GatedDelta &p, int slot, int head, int column, int row, int rows) {
    typedef Stage<D, STORED, WARPS> S;
    constexpr int EACH = 16 / S::ELEMENT, PARTS = WARPS * 16 / EACH;
    const int t = threadIdx.x;
    const u64 value = (u64)(row + t / PARTS) * p.pitch + 2 * p.key_heads * D + head * D + column + t % PARTS * EACH;
    return {keys_of<D, S::PLANES>(p, slot, head / (p.value_heads / p.key_heads)) + t * 8,
            pairs_of<S::PLANES>(p, slot, head) + t * 8, static_cast<const u8 *>(p.x) + value * S::ELEMENT,
            factors_of(p, slot, head) + t * 4, rows};
}

// The same of the next chunk.
template <int D, int STORED, int WARPS>
DEVICE void advance(Feed &f, const GatedDelta &p) {
    typedef Stage<D, STORED, WARPS> S;
    f.keys += (u64)p.key_heads * (2 * S::PLANES * CHUNK * D);
    f.pairs += (u64)p.value_heads * (2 * S::PLANES * CHUNK * CHUNK);
    f.values += (u64)p.pitch * (CHUNK * S::ELEMENT);
    f.factors += p.value_heads * FACTORS;
    f.rows -= CHUNK;
}

// Asks for share `part` of D / 16 of a chunk's operands. The caller spreads shares over its products, which hide them.
template <int D, int STORED, int WARPS>
DEVICE void fetch(u32 to, const Feed &f, const GatedDelta &p, int part) {
    typedef Stage<D, STORED, WARPS> S;
    constexpr int THREADS = 32 * WARPS, PLANES = S::PLANES, SHARES = D / 16;
    const int t = threadIdx.x;
    {
        constexpr int PARTS = D / 8, STEP = THREADS / PARTS, COUNT = 2 * PLANES * CHUNK / STEP;
        const u32 at = to + t / PARTS * S::KEY_PITCH + t % PARTS * 16;
#pragma unroll
        for (int i = COUNT * part / SHARES; i < COUNT * (part + 1) / SHARES; ++i) {
            copy16(at + i * STEP * S::KEY_PITCH, f.keys + i * STEP * D);
        }
    }
    {
        constexpr int PARTS = CHUNK / 8, STEP = THREADS / PARTS, COUNT = 2 * PLANES * CHUNK / STEP;
        const int r = t / PARTS, c = t % PARTS;
        const u32 at = to + S::T + r * S::PAIR_PITCH + c * 16;
#pragma unroll
        for (int i = COUNT * part / SHARES; i < COUNT * (part + 1) / SHARES; ++i) {
            // Blocks of 16 x 16 above the diagonal are nowhere.
            if (c / 2 > (i * STEP + r) % CHUNK / 16) continue;
            copy16(at + i * STEP * S::PAIR_PITCH, f.pairs + i * STEP * CHUNK);
        }
    }
    {
        constexpr int EACH = 16 / S::ELEMENT, PARTS = WARPS * 16 / EACH, STEP = THREADS / PARTS, COUNT = CHUNK / STEP;
        const u32 at = to + S::VALUES + t / PARTS * S::VALUE_PITCH + t % PARTS * 16;
#pragma unroll
        for (int i = COUNT * part / SHARES; i < COUNT * (part + 1) / SHARES; ++i) {
            copy16(at + i * STEP * S::VALUE_PITCH, f.values + (u64)(i * STEP) * p.pitch * S::ELEMENT,
                   i * STEP + t / PARTS < f.rows);
        }
    }
    if (part == 0 && t < FACTORS / 4) copy16(to + S::FACTOR + t * 16, f.factors);
}

// Values of 16 columns and of the tokens r to r + 15, transposed: as sums of two products side by side are laid out.
template <int STORED, int PITCH>
DEVICE void load_values(float (&left)[4], float (&right)[4], u32 values, int r, int column) {
    const int lane = lane_id();
    if constexpr (STORED == F32) {
        const u32 at = values + (r + (lane & 3) * 2) * PITCH + (column + (lane >> 2)) * 4;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            left[i] = load_shared(at + (i & 1) * PITCH + (i >> 1) * 32);
            right[i] = load_shared(at + (8 + (i & 1)) * PITCH + (i >> 1) * 32);
        }
    } else {
        u32 v[4];
        load_matrices_transposed(v, values + (r + (lane >> 4) * 8 + (lane & 7)) * PITCH + column * 2 + ((lane >> 3) & 1) * 16);
        left[0] = bf16_low(v[0]), left[1] = bf16_high(v[0]), left[2] = bf16_low(v[1]), left[3] = bf16_high(v[1]);
        right[0] = bf16_low(v[2]), right[1] = bf16_high(v[2]), right[2] = bf16_low(v[3]), right[3] = bf16_high(v[3]);
    }
}

// AHEAD: operands of the next chunks come while one is worked on.
template <int D, int STORED, int WARPS, bool AHEAD>
DEVICE void walk(const GatedDelta &p) {
    typedef Stage<D, STORED, WARPS> S;
    constexpr int PLANES = S::PLANES, PARTS = D / 16 / WARPS;
    extern __shared__ __align__(128) u8 memory[];
    const u32 stages = shared_address(memory);
    const int head = blockIdx.x / PARTS, part = blockIdx.x % PARTS, sequence = blockIdx.y, lane = lane_id();
    release_successor();
    int first = 0, end = 0;
    const bool some = sequence < *p.sequences;
    if (some) first = p.offsets[sequence], end = p.offsets[sequence + 1];
    wait_for_predecessor();
    if (!some) return;

    // This warp's columns of its head, and its lane's first.
    const int column = part * WARPS * 16 + warp_id() * 16, own = warp_id() * 16;
    const u64 place = (u64)(head * D + column + (lane >> 2)) * D + (lane & 3) * 2;
    float s[D / 8][4] = {}, most = 0.f;
    u32 scale = scale_of(0.f);
    const float *from = p.from ? p.from[sequence] : nullptr;
    if (from) {
        most = from[(u64)p.value_heads * D * D + head];
        scale = scale_of(most);
        const float by = __uint_as_float(scale << 23);
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            const float2 a = *reinterpret_cast<const float2 *>(from + place + n * 8);
            const float2 b = *reinterpret_cast<const float2 *>(from + place + 8 * D + n * 8);
            s[n][0] = a.x * by, s[n][1] = a.y * by, s[n][2] = b.x * by, s[n][3] = b.y * by;
        }
    }

    const int slot = first / CHUNK + sequence, count = (end - first + CHUNK - 1) / CHUNK;
    Feed feed = feed_of<D, STORED, WARPS>(p, slot, head, part * WARPS * 16, first, end - first);
    // The last chunk is fetched again where there is no next: never read, but without a branch between the products.
    constexpr int UNROLLED = AHEAD ? D / 16 : 1; // addresses kept between chunks would take registers
    auto fetch_all = [&](int stage, bool more) {
#pragma unroll UNROLLED
        for (int i = 0; i < D / 16; ++i) fetch<D, STORED, WARPS>(stages + stage * S::BYTES, feed, p, i);
        commit_copies();
        if (more) advance<D, STORED, WARPS>(feed, p);
    };
    const int ahead = AHEAD ? p.stages - 1 : 0; // chunks that are on their way while one is worked on
    if (count > 0) {
        for (int i = 0; i < (AHEAD ? ahead : 1); ++i) fetch_all(i, i + 1 < count);
    }
    int turn = 0, next = ahead;
    for (int c = 0; c < count; ++c) {
        if (AHEAD && ahead == 2) wait_copies<1>();
        else wait_copies<0>();
        __syncthreads();
        const int stage = turn * S::BYTES;
        const u32 to = stages + next * S::BYTES; // where the chunk before this one was
        turn = turn == ahead ? 0 : turn + 1;
        next = next == ahead ? 0 : next + 1;
        const u32 k = stages + stage, q = k + S::QUERIES, t = k + S::T, weights = k + S::P;
        const float *factors = reinterpret_cast<const float *>(memory + stage + S::FACTOR);

        most = fmaxf(most, factors[2 * CHUNK + 1]);
        if (scale_of(most) != scale) {
            const float by = mul(__uint_as_float(scale_of(most) << 23), __uint_as_float((254 - scale) << 23));
            scale = scale_of(most);
#pragma unroll
            for (int n = 0; n < D / 8; ++n) {
#pragma unroll
                for (int i = 0; i < 4; ++i) s[n][i] *= by;
            }
        }

        // S^T K^T, [16, 64], and Q S, [64, 16].
        float r[8][4] = {}, o[4][2][4] = {};
#pragma unroll
        for (int n = 0; n < D / 16; ++n) {
            u32 state[PLANES][4], b[PLANES][4];
            as_operand<PLANES>(state, s[2 * n], s[2 * n + 1]);
            if constexpr (AHEAD) fetch<D, STORED, WARPS>(to, feed, p, n);
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_second<S::KEY_PITCH, PLANES>(b, k, 16 * i, 16 * n);
                multiply<0, 1>(r[2 * i], state, b);
                multiply<2, 3>(r[2 * i + 1], state, b);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                load_first<S::KEY_PITCH, PLANES>(b, q, 16 * i, 16 * n);
                multiply<0, 2>(o[i][0], b, state);
                multiply<1, 3>(o[i][1], b, state);
            }
        }
        if constexpr (AHEAD) {
            commit_copies();
            if (c + ahead + 1 < count) advance<D, STORED, WARPS>(feed, p);
        }

        // R^T = V^T - e^G S^T K^T, then U^T = R^T T^T.
        u32 operand[4][PLANES][4];
        const float by = __uint_as_float(scale << 23);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float v[2][4];
            load_values<STORED, S::VALUE_PITCH>(v[0], v[1], k + S::VALUES, 16 * i, own);
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float2 fade = *reinterpret_cast<const float2 *>(factors + 16 * i + 8 * n + (lane & 3) * 2);
                v[n][0] = fmaf(-fade.x, r[2 * i + n][0], v[n][0] * by);
                v[n][1] = fmaf(-fade.y, r[2 * i + n][1], v[n][1] * by);
                v[n][2] = fmaf(-fade.x, r[2 * i + n][2], v[n][2] * by);
                v[n][3] = fmaf(-fade.y, r[2 * i + n][3], v[n][3] * by);
            }
            as_operand<PLANES>(operand[i], v[0], v[1]);
        }
        float u[8][4] = {};
        u32 fresh[4][PLANES][4], faded[4][PLANES][4]; // U^T, and e^(G_last - G) U^T
        auto fade = [&](int i) {
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float2 by = *reinterpret_cast<const float2 *>(factors + CHUNK + 16 * i + 8 * n + (lane & 3) * 2);
                float(&x)[4] = u[2 * i + n];
                x[0] *= by.x, x[1] *= by.y, x[2] *= by.x, x[3] *= by.y;
            }
            as_operand<PLANES>(faded[i], u[2 * i], u[2 * i + 1]);
        };
        // Both at once where registers allow it.
        auto finish = [&](int i) {
            as_operand<PLANES>(fresh[i], u[2 * i], u[2 * i + 1]);
            if constexpr (PLANES == 1) fade(i);
        };
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int i = j; i < 4; ++i) {
                u32 b[PLANES][4];
                load_second<S::PAIR_PITCH, PLANES>(b, t, 16 * i, 16 * j);
                multiply<0, 1>(u[2 * i], operand[j], b);
                multiply<2, 3>(u[2 * i + 1], operand[j], b);
            }
            if (j > 0) finish(j - 1);
        }
        finish(3);

        // e^G Q S + P U.
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float above = factors[16 * i + (lane >> 2)], below = factors[16 * i + 8 + (lane >> 2)];
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                o[i][n][0] *= above, o[i][n][1] *= above, o[i][n][2] *= below, o[i][n][3] *= below;
            }
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int i = j; i < 4; ++i) {
                u32 a[PLANES][4];
                load_first<S::PAIR_PITCH, PLANES>(a, weights, 16 * i, 16 * j);
                multiply<0, 2>(o[i][0], a, fresh[j]);
                multiply<1, 3>(o[i][1], a, fresh[j]);
            }
        }

        // S^T <- e^G_last S^T + (e^(G_last - G) U)^T K, and between its products the results of eight rows each.
        if constexpr (PLANES == 2) {
#pragma unroll
            for (int i = 0; i < 4; ++i) fade(i);
        }
        const float keep = factors[2 * CHUNK];
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
#pragma unroll
            for (int i = 0; i < 4; ++i) s[n][i] *= keep;
        }
        constexpr float NORM = D == 128 ? 0.08838834764831845f : D == 64 ? 0.125f : 0.17677669529663687f; // 1 / sqrt(D)
        const float back = mul(__uint_as_float((254 - scale) << 23), NORM);
        const int row = first + c * CHUNK + (lane >> 2);
        auto store_rows = [&](int i) {
            const u64 at = (u64)(row + 8 * i) * (p.value_heads * D) + head * D + column + (lane & 3) * 2;
#pragma unroll
            for (int n = 0; n < 2; ++n) {
                const float x = o[i / 2][n][i % 2 * 2] * back, y = o[i / 2][n][i % 2 * 2 + 1] * back;
                if (row + 8 * i >= end) continue;
                u8 *to = static_cast<u8 *>(p.out) + (at + 8 * n) * S::ELEMENT;
                if constexpr (STORED == F32) *reinterpret_cast<float2 *>(to) = make_float2(x, y);
                else *reinterpret_cast<u32 *>(to) = bf16_pair(x, y);
            }
        };
        constexpr int WIDE = D / 16 < 4 ? D / 16 : 4; // sums in turn, so that none waits for its last term
        constexpr int GROUPS = D / 16 / WIDE, STORES = 2 / GROUPS;
#pragma unroll
        for (int n = 0; n < GROUPS; ++n) {
#pragma unroll
            for (int j = 0; j < 4; ++j) {
#pragma unroll
                for (int m = n * WIDE; m < (n + 1) * WIDE; ++m) {
                    u32 b[PLANES][4];
                    load_second_rows<S::KEY_PITCH, PLANES>(b, k, 16 * j, 16 * m);
                    multiply<0, 1>(s[2 * m], faded[j], b);
                    multiply<2, 3>(s[2 * m + 1], faded[j], b);
                }
#pragma unroll
                for (int i = 0; i < STORES; ++i) store_rows((4 * n + j) * STORES + i);
            }
        }
        if (!AHEAD && c + 1 < count) {
            __syncthreads();
            fetch_all(0, c + 2 < count);
        }
    }
    wait_copies<0>();

    float *to = p.to ? p.to[sequence] : nullptr;
    if (to) {
        const float by = __uint_as_float((254 - scale) << 23);
#pragma unroll
        for (int n = 0; n < D / 8; ++n) {
            *reinterpret_cast<float2 *>(to + place + n * 8) = make_float2(s[n][0] * by, s[n][1] * by);
            *reinterpret_cast<float2 *>(to + place + 8 * D + n * 8) = make_float2(s[n][2] * by, s[n][3] * by);
        }
        if (part == 0 && threadIdx.x == 0) to[(u64)p.value_heads * D * D + head] = most;
    }
}

#define ENTRY(D, STORED, WARPS, AHEAD, NAME)                                                     \
    extern "C" __global__ void __launch_bounds__(32 * WARPS, 1) NAME(const GatedDelta p) { \
        walk<D, STORED, WARPS, AHEAD>(p);                                                    \
    }
ENTRY(32, F32, 2, false, gated_delta_state_32_f32)
ENTRY(64, F32, 4, false, gated_delta_state_64_f32)
ENTRY(128, F32, 4, false, gated_delta_state_128_f32)
ENTRY(32, BF16, 2, true, gated_delta_state_32_bf16)
ENTRY(64, BF16, 4, true, gated_delta_state_64_bf16)
ENTRY(128, BF16, 4, true, gated_delta_state_128_bf16)
ENTRY(128, BF16, 8, true, gated_delta_state_128_bf16_wide)    // all columns of a head: fewer reads, for many sequences
ENTRY(128, BF16, 4, false, gated_delta_state_128_bf16_single) // for chips with 99 KiB of shared memory
