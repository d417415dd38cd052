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
    void *kept; // the rows unrounded and unrotated, or none
    u8 *codes;
    float *scales;
    const int *rows;
    int capacity;
    int digits; // of an index inside a group: 0 to 5
    int exact;  // the mode
    int kept_stored;
};

// The four elements of a stage: s = (a + b) + (c + d); they become s - 2 * (d, c, b, a). A multiply-add rounds like that
// product, which is exact unless it overflows: with CAREFUL it overflows as the definition's does.
template <bool CAREFUL = false>
DEVICE float minus_twice(float s, float x) {
    return CAREFUL ? add(s, -add(x, x)) : __fmaf_rn(-2.f, x, s);
}
template <bool CAREFUL = false>
DEVICE void butterfly(float &a, float &b, float &c, float &d) {
    const float s = add(add(a, b), add(c, d));
    const float e = minus_twice<CAREFUL>(s, d), f = minus_twice<CAREFUL>(s, c);
    c = minus_twice<CAREFUL>(s, b);
    d = minus_twice<CAREFUL>(s, a);
    a = e;
    b = f;
}
// Stages over the lower and the higher digit of an index into sixteen.
DEVICE void low_stage(float (&v)[SPAN]) {
#pragma unroll
    for (int i = 0; i < SPAN; i += 4) butterfly(v[i], v[i + 1], v[i + 2], v[i + 3]);
}
DEVICE void high_stage(float (&v)[SPAN]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) butterfly(v[i], v[i + 4], v[i + 8], v[i + 12]);
}

// Lane c of a half warp gets every sixteenth element of the half warp's 256, from c on.
DEVICE void transposed_from_room(float (&v)[SPAN], const float *room) {
    const float *from = room + (lane_id() >> 4) * ROOM_UNIT + (lane_id() & 15);
#pragma unroll
    for (int j = 0; j < SPAN; ++j) v[j] = from[j * ROOM_SPAN];
}

// The stages inside 256 elements. From three digits on, they come out transposed.
DEVICE void rotate_span(float (&v)[SPAN], int digits, float *room) {
    if (digits == 0) return;
    low_stage(v);
    if (digits == 1) return;
    high_stage(v);
    if (digits == 2) return;
    __syncwarp();
    span_to_room(v, room);
    __syncwarp();
    transposed_from_room(v, room);
    low_stage(v);
    if (digits >= 4) high_stage(v);
}

// The same for values so large that they may overflow; seldom, and slow.
DEVICE void rotate_huge_span(float (&v)[SPAN], int digits, float *room) {
    __syncwarp();
    span_to_room(v, room);
#pragma unroll 1
    for (int stage = 0; stage < min_of(digits, 4); ++stage) {
        __syncwarp();
#pragma unroll 1
        for (int i = lane_id(); i < 32 * SPAN / 4; i += 32) {
            const int low = i & ((1 << 2 * stage) - 1), stride = 1 << 2 * stage;
            const int e = (i - low) * 4 + low;
            float *at[4];
#pragma unroll
            for (int d = 0; d < 4; ++d) at[d] = room + room_place(e + d * stride);
            butterfly<true>(*at[0], *at[1], *at[2], *at[3]);
        }
    }
    __syncwarp();
    if (digits >= 3) {
        transposed_from_room(v, room);
    } else {
#pragma unroll
        for (int i = 0; i < SPAN; ++i) v[i] = room[room_place(lane_id() * SPAN + i)];
    }
}

// All stages, not normalized.
DEVICE void rotate(Spans &x, int digits, bool huge, float *room) {
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
        if (huge) rotate_huge_span(x.v[s], digits, room);
        else rotate_span(x.v[s], digits, room);
    }
    if (digits == 5) {
        // The digit's lower bit is the half warp, its higher bit the span.
#pragma unroll
        for (int j = 0; j < SPAN; ++j) {
            const float a = x.v[0][j], c = x.v[1][j];
            const float b = __shfl_xor_sync(~0u, a, 16), d = __shfl_xor_sync(~0u, c, 16);
            const float s = add(add(a, b), add(c, d));
            x.v[0][j] = minus_twice<true>(s, d);
            x.v[1][j] = minus_twice<true>(s, b);
        }
    }
}

// Rounds to bfloat16 what is not `rounded` yet. Tells whether this thread has a magnitude of 2^65 or more, or what is not
// finite.
DEVICE bool round_spans(Spans &x, bool rounded) {
    u32 huge = 0;
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
#pragma unroll
        for (int i = 0; i < SPAN; i += 2) {
            const u32 pair = bf16_pair(x.v[s][i], x.v[s][i + 1]);
            // Both of the highest exponent bits.
            huge |= pair & (pair << 1);
            if (!rounded) {
                x.v[s][i] = bf16_low(pair);
                x.v[s][i + 1] = bf16_high(pair);
            }
        }
    }
    return huge & 0x40004000u;
}

DEVICE u32 largest_magnitude(const Spans &x) {
    u32 most = 0;
#pragma unroll
    for (int s = 0; s < SPANS; ++s)
#pragma unroll
        for (int i = 0; i < SPAN; ++i) most = max(most, __float_as_uint(x.v[s][i]) & 0x7FFFFFFFu);
    return most;
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
                const u32 chunk = lane_id();
                u8 *at = pass + (chunk >> 3) * next_block + ((chunk ^ in_group) & 7) * 16;
                *reinterpret_cast<uint4 *>(at) = make_uint4(word[0], word[1], word[2], word[3]);
            }
            continue;
        }
        // Byte k of word w is element 16 * (4 * w + k) + c of 256, for lane c of the half warp. Four lanes swap bytes, so
        // that lane b of them has word w for their four elements of chunk 4 * w + b.
        const u32 b = lane_id() & 3, half = lane_id() >> 4;
        const u32 first = b & 1 ? 0x3715 : 0x6240, second = b & 2 ? 0x3276 : 0x5410;
        const u32 place = ((b ^ in_group) & 7) * 16 + (lane_id() & 12);
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

// Scale and codes of a row.
//
//   standard  in float32: s = max(max|v| / 127, 1e-30), codes nearest(v * (1 / s))
//   exact     on an integer grid of the row's largest exponent; float32 holds all these integers
DEVICE void quantize(const RotateQuantize &p, u64 row, Spans &x, bool rounded, float *room) {
    const bool huge = round_spans(x, rounded);
    int step = 0;
    if (p.exact) {
        // Largest biased exponent; rows without one above 41 count as zero.
        const int exponent = (int)(block_most(largest_magnitude(x), 1) >> 23);
        // Groups of 1024 have a grid four times as coarse, so that sums stay below 2^24.
        step = max_of(exponent, 42) - 141 + (p.digits == 5 ? 2 : 0);
        const float grid = exponent <= 41 ? 0.f : power_of_two(-step);
        each(x, [&](float v) { return add(add(mul(v, grid), TO_INTEGER), -TO_INTEGER); });
    }
    rotate(x, p.digits, !p.exact && __any_sync(~0u, huge), room);
    float most = __uint_as_float(block_most(largest_magnitude(x), 0));
    // The definition normalizes every value by a power of two, and then multiplies by the inverse of the scale. Where that
    // inverse is far from the smallest numbers, its product with the power stands for both: only values too small for a
    // code other than zero would have rounded.
    float norm = power_of_two(-p.digits);
    if (!p.exact && !(most < 1e30f)) {
        each(x, [&](float v) { return mul(v, norm); });
        most = mul(most, norm);
        norm = 1.f;
    }
    // Exact in mode `exact`, unless it overflows.
    const float largest = mul(most, p.exact ? power_of_two(step - p.digits) : norm);
    const bool faulty = !is_finite(largest);
    const float scale = fmaxf(p.exact ? mul(largest, 1.f / 127.f) : __fdiv_rn(largest, 127.f), 1e-30f);
    if (p.exact) {
        const float divisor = most >= 1.f ? most : 1.f, factor = __fdiv_rn(127.f, divisor);
        const int whole = __float2int_rn(divisor);
        each(x, [&](float y) { return exact_code(y, whole, factor); });
    } else {
        const float factor = mul(norm, __fdiv_rn(1.f, scale));
        each(x, [&](float v) { return add(mul(v, factor), TO_INTEGER); });
    }
    if (threadIdx.x == 0) p.scales[row] = faulty ? __uint_as_float(0x7FC00000u) : scale;
    store_codes(p, row, x, p.digits >= 3, faulty);
}

template <int OP>
DEVICE void rotate_quantize(const RotateQuantize &p) {
    release_successor();
    OpWeights<OP> weights;
    load_weights(p.op, weights);
    wait_for_predecessor();
    const u64 row = blockIdx.x;
    if ((int)row >= *p.rows) return;
    Spans x;
    apply(p.op, row, weights, x);
    float *room = warp_room();
    if (p.kept) store_spans(p.kept, row, p.op.width, p.kept_stored, x, room);
    quantize(p, row, x, OP == COPY && p.op.stored == BF16, room);
}
