// The INT8 row quantizer on spans: rounding to bfloat16, rotation by the regular Hadamard matrix, scale and codes with the
// definition's bits.
//
// With an index inside a group written in base 4, a stage combines the four elements that differ in one digit: strides 1
// and 4 lie in a span, 16 and 64 in the sixteen elements that a lane holds once the spans of 256 elements have been
// transposed through the warp's room, 256 between half warps and spans.
#pragma once
#include "row_op.cuh"
#include "tile.cuh"

// Adding and subtracting 1.5 * 2^23 rounds to an integer, ties to even, for magnitudes up to 2^22.
#define TO_INTEGER 12582912.f
#define TO_INTEGER_BITS 0x4B400000

struct RotateQuantize {
    RowOp op;
    void *kept; // the rows unrounded and unrotated, or none; rows as they are need no other place
    u8 *codes;
    float *scales;
    const int *rows;
    int capacity;
    int digits; // of an index inside a group: 0 to 5
    int kept_stored;
    int pad;
};

// The four elements of a stage: s = (a + b) + (c + d); they become s - 2 * (d, c, b, a). A multiply-add rounds like that
// product, which is exact unless it overflows (SUSPECT below).
DEVICE void butterfly(float &a, float &b, float &c, float &d) {
    const float s = add(add(a, b), add(c, d));
    const float e = __fmaf_rn(-2.f, d, s), f = __fmaf_rn(-2.f, c, s);
    c = __fmaf_rn(-2.f, b, s);
    d = __fmaf_rn(-2.f, a, s);
    a = e;
    b = f;
}
DEVICE u32 magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

// The largest magnitude that a stage gets, where WATCHED.
template <bool WATCHED>
DEVICE void watch(const float (&v)[SPAN], u32 &seen) {
    if constexpr (WATCHED) {
#pragma unroll
        for (int i = 0; i < SPAN; ++i) seen = max(seen, magnitude(v[i]));
    }
}
// Stages over the lower and the higher digit of an index into sixteen.
template <bool WATCHED>
DEVICE void low_stage(float (&v)[SPAN], u32 &seen) {
    watch<WATCHED>(v, seen);
#pragma unroll
    for (int i = 0; i < SPAN; i += 4) butterfly(v[i], v[i + 1], v[i + 2], v[i + 3]);
}
template <bool WATCHED>
DEVICE void high_stage(float (&v)[SPAN], u32 &seen) {
    watch<WATCHED>(v, seen);
#pragma unroll
    for (int i = 0; i < 4; ++i) butterfly(v[i], v[i + 4], v[i + 8], v[i + 12]);
}

// Lane c of a half warp gets every sixteenth element of the half warp's 256, from c on.
DEVICE void transposed_from_room(float (&v)[SPAN], const float *room) {
    const int lane = anew(lane_id());
    const float *from = room + (lane >> 4) * ROOM_UNIT + (lane & 15);
#pragma unroll
    for (int j = 0; j < SPAN; ++j) v[j] = from[j * ROOM_SPAN];
}

// The stages inside 256 elements. From three digits on, they come out transposed.
template <bool WATCHED, bool WIDE>
DEVICE void rotate_span(float (&v)[SPAN], int digits, float *room, u32 &seen) {
    if (WIDE && digits == 0) return;
    low_stage<WATCHED>(v, seen);
    if (digits == 1) return;
    high_stage<WATCHED>(v, seen);
    if (digits == 2) return;
    __syncwarp();
    span_to_room(v, room);
    __syncwarp();
    transposed_from_room(v, room);
    low_stage<WATCHED>(v, seen);
    if (digits >= 4) high_stage<WATCHED>(v, seen);
}

// All stages, not normalized. Gives the largest magnitude that a stage gets, where WATCHED.
template <bool WATCHED, bool WIDE>
DEVICE u32 rotate(Spans &x, int digits, float *room) {
    u32 seen = 0;
#pragma unroll
    for (int s = 0; s < SPANS; ++s) rotate_span<WATCHED, WIDE>(x.v[s], digits, room, seen);
    if (WIDE && digits == 5) {
        // The digit's lower bit is the half warp, its higher bit the span.
#pragma unroll
        for (int s = 0; s < SPANS; ++s) watch<WATCHED>(x.v[s], seen);
#pragma unroll
        for (int j = 0; j < SPAN; ++j) {
            const float a = x.v[0][j], c = x.v[1][j];
            const float b = __shfl_xor_sync(~0u, a, 16), d = __shfl_xor_sync(~0u, c, 16);
            const float s = add(add(a, b), add(c, d));
            x.v[0][j] = __fmaf_rn(-2.f, d, s);
            x.v[1][j] = __fmaf_rn(-2.f, b, s);
        }
    }
    return seen;
}

DEVICE void round_spans(Spans &x) {
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
#pragma unroll
        for (int i = 0; i < SPAN; i += 2) {
            const u32 pair = bf16_pair(x.v[s][i], x.v[s][i + 1]);
            x.v[s][i] = bf16_low(pair);
            x.v[s][i + 1] = bf16_high(pair);
        }
    }
}

// Bits of numbers order by magnitude: as signed numbers the positive ones, above all negative ones; as unsigned numbers the
// negative ones, above all positive ones.
DEVICE u32 largest_magnitude(const Spans &x) {
    int positive = 0;
    u32 negative = 0;
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
#pragma unroll
        for (int i = 0; i < SPAN; ++i) {
            positive = max(positive, __float_as_int(x.v[s][i]));
            negative = max(negative, __float_as_uint(x.v[s][i]));
        }
    }
    return max((u32)positive, negative & 0x7FFFFFFFu);
}

DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7FFFFFFFu) < 0x7F800000u; }

template <class F>
DEVICE void each(Spans &x, F f) {
#pragma unroll
    for (int s = 0; s < SPANS; ++s)
#pragma unroll
        for (int i = 0; i < SPAN; ++i) x.v[s][i] = f(x.v[s][i]);
}

DEVICE float power_of_two(int exponent) { return __uint_as_float((u32)(exponent + 127) << 23); }

// Four codes as bytes of a word, from numbers with TO_INTEGER added.
DEVICE u32 four_codes(float a, float b, float c, float d) {
    const u32 low = __byte_perm(__float_as_uint(a), __float_as_uint(b), 0x0040);
    return __byte_perm(low, __byte_perm(__float_as_uint(c), __float_as_uint(d), 0x0040), 0x5410);
}

// 127 * y / most to the nearest integer, ties to even, as an exact quotient of integers, with TO_INTEGER added. The quotient
// in float32 is at most one off, which the remainder tells.
DEVICE float exact_code(float y, int most, float factor) {
    const float near = add(mul(y, factor), TO_INTEGER);
    const int q = __float_as_int(near) - TO_INTEGER_BITS, odd = q & 1;
    // More than half of the divisor: the next one; half of it: the even one.
    const int twice = 2 * (127 * __float2int_rn(y) - q * most);
    if (twice + odd > most) return add(near, 1.f);
    return twice - odd < -most ? add(near, -1.f) : near;
}

// Writes codes, as numbers with TO_INTEGER added, into the tiled layout; pads the last k-block with zeros.
DEVICE void store_codes(const RotateQuantize &p, u64 row, const Spans &x, bool transposed, bool faulty) {
    const int padded = (p.op.width + KBLOCK - 1) / KBLOCK * KBLOCK;
    const u32 lane = anew(lane_id());
    const u32 in_group = (u32)row & 7;
    const u64 next_block = activation_tile(0, 1, p.capacity);
    // The warp's first k-block of the row.
    u8 *to = p.codes + activation_tile((u32)row, warp_id() * (WARP_ELEMENTS / KBLOCK), p.capacity);
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
        u32 word[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            const float *v = &x.v[s][4 * w];
            word[w] = faulty ? 0 : four_codes(v[0], v[1], v[2], v[3]);
        }
        u8 *pass = to + s * (32 * SPAN / KBLOCK) * next_block;
        if (!transposed) {
            if (span_start(s) < padded) {
                const u32 chunk = lane;
                u8 *at = pass + (chunk >> 3) * next_block + ((chunk ^ in_group) & 7) * 16;
                *reinterpret_cast<uint4 *>(at) = make_uint4(word[0], word[1], word[2], word[3]);
            }
            continue;
        }
        // Byte k of word w is element 16 * (4 * w + k) + c of 256, for lane c of the half warp. Four lanes swap bytes, so
        // that lane b of them has word w for their four elements of chunk 4 * w + b.
        const u32 b = lane & 3, half = lane >> 4;
        const u32 first = b & 1 ? 0x3715 : 0x6240, second = b & 2 ? 0x3276 : 0x5410;
        const u32 place = ((b ^ in_group) & 7) * 16 + (lane & 12);
        u8 *unit = pass + 2 * half * next_block;
        const int left = padded - (span_start(s) & ~255);
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            u32 bytes = __byte_perm(word[w], __shfl_xor_sync(~0u, word[w], 1), first);
            bytes = __byte_perm(bytes, __shfl_xor_sync(~0u, bytes, 2), second);
            // Whole k-blocks: two words each.
            if ((w >> 1) * KBLOCK < left) {
                u8 *at = unit + (w >> 1) * next_block + (place ^ (w & 1) * 64);
                *reinterpret_cast<u32 *>(at) = bytes;
            }
        }
    }
}

// A magnitude of 2^127 or more that a stage gets overflows when it is doubled, and the row is faulty, which a multiply-add
// does not tell. Each stage quadruples the sum of four squares, so that the largest magnitude of a group never falls: rows
// below this had none, and those from it on come again, watched.
#define SUSPECT 0x7C000000u
#define DOUBLE_OVERFLOWS 0x7F000000u
#define INFINITE 0x7F800000u

// Scale and codes of row `turn >> 1`. False where the row must come again with WATCHED.
//
//   standard  in float32: s = max(max|v| / 127, 1e-30), codes nearest(v * (1 / s))
//   exact     on an integer grid of the row's largest exponent; float32 holds all these integers
template <bool EXACT, bool WATCHED, bool WIDE>
DEVICE bool quantize(const RotateQuantize &p, Spans &x, bool rounded, float *room, int &turn) {
    if (!rounded) round_spans(x);
    int step = 0;
    if constexpr (EXACT) {
        // Largest biased exponent; rows without one above 41 count as zero.
        const int exponent = (int)(block_most(largest_magnitude(x), turn) >> 23);
        // Groups of 1024 have a grid four times as coarse, so that sums stay below 2^24.
        step = max_of(exponent, 42) - 141 + (p.digits == 5 ? 2 : 0);
        const float grid = exponent <= 41 ? 0.f : power_of_two(-step);
        each(x, [&](float v) { return add(add(mul(v, grid), TO_INTEGER), -TO_INTEGER); });
    }
    const u32 seen = rotate<WATCHED, WIDE>(x, p.digits, room);
    const u32 largest_bits = block_most(seen >= DOUBLE_OVERFLOWS ? INFINITE : largest_magnitude(x), turn);
    if (!EXACT && !WATCHED && largest_bits >= SUSPECT) return false;
    float most = __uint_as_float(largest_bits);
    // The definition normalizes every value by a power of two, and then multiplies by the inverse of the scale. Where that
    // inverse is far from the smallest numbers, its product with the power stands for both: only values too small for a
    // code other than zero would have rounded.
    float norm = power_of_two(-p.digits);
    if (!EXACT && !(most < 1e30f)) {
        each(x, [&](float v) { return mul(v, norm); });
        most = mul(most, norm);
        norm = 1.f;
    }
    // Exact in mode `exact`, unless it overflows.
    const float largest = mul(most, EXACT ? power_of_two(step - p.digits) : norm);
    const bool faulty = !is_finite(largest);
    const float scale = fmaxf(EXACT ? mul(largest, 1.f / 127.f) : __fdiv_rn(largest, 127.f), 1e-30f);
    if constexpr (EXACT) {
        const float divisor = most >= 1.f ? most : 1.f, factor = __fdiv_rn(127.f, divisor);
        const int whole = __float2int_rn(divisor);
        each(x, [&](float y) { return exact_code(y, whole, factor); });
    } else {
        const float factor = mul(norm, __fdiv_rn(1.f, scale));
        each(x, [&](float v) { return add(mul(v, factor), TO_INTEGER); });
    }
    if (threadIdx.x == 0) p.scales[turn >> 1] = faulty ? __uint_as_float(0x7FC00000u) : scale;
    store_codes(p, turn >> 1, x, p.digits >= 3, faulty);
    return true;
}

// Formats that the parameter tells.
#define ANY -1

// What a warp has on its way: its part of the next row and of that row's gates, after the rooms of all warps; and its weights.
template <int OP, int STORED>
struct Stages {
    static constexpr bool GATES = OP == GATED_RMS_NORM || OP == SIGMOID_GATE;
    static constexpr int WEIGHT_SPANS = OP == RMS_NORM ? 2 : OP == GATED_RMS_NORM ? 1 : 0;
    static constexpr int WEIGHT_BYTES = WEIGHT_SPANS * 32 * SPAN * 4;
    u32 weights, x, gates;
    __device__ __forceinline__ static int stored(const RowOp &p) { return STORED == ANY ? p.stored : STORED; }
    __device__ __forceinline__ explicit Stages(const RowOp &p) {
        const u32 warp = anew(threadIdx.x) >> 5;
        const int x_bytes = stage_bytes(stored(p)), bytes = x_bytes + (GATES ? stage_bytes(p.gate_stored) : 0);
        weights = shared_address(first_room()) + (blockDim.x >> 5) * ROOM_BYTES + warp * (bytes + WEIGHT_BYTES);
        x = weights + WEIGHT_BYTES;
        gates = x + x_bytes;
    }
    __device__ __forceinline__ void write_weights(const RowOp &p) const {
#pragma unroll
        for (int s = 0; s < WEIGHT_SPANS; ++s) {
            float w[SPAN];
            load_weights<OP>(p, s, w);
            write_stage(weights, s, w);
        }
    }
    __device__ __forceinline__ void fetch(const RowOp &p, int row) const {
        const u64 first = (u64)row * p.width;
        const auto linear = [](int e, int i) { return (long long)e + i; };
        if (stored(p) == F32) fetch_stage_as<F32>(x, p.x, first, p.width, linear);
        else fetch_stage_as<BF16>(x, p.x, first, p.width, linear);
        if constexpr (GATES) {
            const u64 gate = (u64)row * p.gate_pitch;
            const auto placed = [&](int e, int i) { return (long long)gate_place(p, e + i); };
            if (p.gate_stored == F32) fetch_stage_as<F32>(gates, p.gate, gate, p.width, placed);
            else fetch_stage_as<BF16>(gates, p.gate, gate, p.width, placed);
        }
        commit_copies();
    }
};

// Row `turn >> 1`, which has been fetched. False where it must come again with WATCHED.
template <int OP, int STORED, bool EXACT, bool WATCHED, bool WIDE>
DEVICE bool step(const RotateQuantize &p, int &turn) {
    const int row = turn >> 1;
    using S = Stages<OP, STORED>;
    const S stages(p.op);
    wait_copies<0>();
    __syncwarp();
    Spans x;
    const auto fetch_next = [&] {
        __syncwarp();
        if (row + (int)gridDim.x < *p.rows) stages.fetch(p.op, row + gridDim.x);
    };
#pragma unroll
    for (int s = 0; s < SPANS; ++s) read_stage(stages.x, S::stored(p.op), s, x.v[s]);
    if (!S::GATES) fetch_next();
    apply<OP>(
        p.op, x, [&](int s, float (&w)[SPAN]) { read_stage_as<F32>(stages.weights, s, w); },
        [&](int s, float (&z)[SPAN]) { read_stage(stages.gates, p.op.gate_stored, s, z); });
    if (S::GATES) fetch_next();
    if (OP != COPY && p.kept) store_spans(p.kept, row, p.op.width, p.kept_stored, x, warp_room());
    return quantize<EXACT, WATCHED, WIDE>(p, x, OP == COPY && S::stored(p.op) == BF16, warp_room(), turn);
}

// The rows of a block: each is fetched while the one before it is worked on. Whether WATCHED is needed for one of them.
template <int OP, int STORED, bool EXACT, bool WATCHED, bool WIDE>
DEVICE bool walk(const RotateQuantize &p) {
    // The row and, in bit 0, the block's place for a maximum. What can be had again costs less than a register.
    int turn = 2 * blockIdx.x;
    if (turn >> 1 < *p.rows) Stages<OP, STORED>(p.op).fetch(p.op, turn >> 1);
    bool suspect = false;
#pragma unroll 1
    for (; turn >> 1 < *p.rows; turn += 2 * gridDim.x) suspect |= !step<OP, STORED, EXACT, WATCHED, WIDE>(p, turn);
    return suspect;
}

// WIDE: groups may also be of 1 or 1024.
template <int OP, int STORED, bool EXACT, bool WIDE>
DEVICE void rotate_quantize(const RotateQuantize &p) {
    release_successor();
    Stages<OP, STORED>(p.op).write_weights(p.op);
    wait_for_predecessor();
    if (!walk<OP, STORED, EXACT, false, WIDE>(p)) return;
    if constexpr (!EXACT) {
        // The places for maxima may still be read.
        __syncthreads();
        walk<OP, STORED, EXACT, true, WIDE>(p);
    }
}
