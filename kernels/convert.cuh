// Number formats: bfloat16 pairs and their exact splitting, E4M3.
#pragma once
#include "base.cuh"

// Two floats rounded to bfloat16, `low` in the lower half.
DEVICE u32 bf16_pair(float low, float high) {
    u32 out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}
DEVICE float bf16_low(u32 pair) { return __uint_as_float(pair << 16); }
DEVICE float bf16_high(u32 pair) { return __uint_as_float(pair & 0xFFFF0000u); }

// x = head + tail + r with |r| <= 2^-17 |x|: products of head and tail parts stand for float32 operands on bfloat16
// tensor cores.
struct SplitPair {
    u32 head, tail;
};
DEVICE SplitPair split_pair(float low, float high) {
    SplitPair s;
    s.head = bf16_pair(low, high);
    s.tail = bf16_pair(low - bf16_low(s.head), high - bf16_high(s.head));
    return s;
}

// The same in binary16: |r| <= 2^-22 |x| or 2^-25. What rounds beyond binary16 (from 65520) comes out as NaN, never as a
// wrong number.
DEVICE float f16_to_float(u16 bits);
DEVICE u32 f16_pair(float low, float high) {
    u32 out;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}
DEVICE SplitPair split_pair_f16(float low, float high) {
    SplitPair s;
    s.head = f16_pair(low, high);
    s.tail = f16_pair(low - f16_to_float((u16)s.head), high - f16_to_float((u16)(s.head >> 16)));
    return s;
}

DEVICE float f16_to_float(u16 bits) {
    float out;
    asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(bits));
    return out;
}
DEVICE float bf16_to_float(u16 bits) { return __uint_as_float((u32)bits << 16); }

// How numbers lie in memory.
enum { F32, F16, BF16 };

// Element `i` of stored data.
DEVICE float stored_to_float(const void *data, long long i, int stored) {
    if (stored == F32) return static_cast<const float *>(data)[i];
    u16 bits = static_cast<const u16 *>(data)[i];
    return stored == F16 ? f16_to_float(bits) : bf16_to_float(bits);
}

// Two floats rounded to a 16-bit format, `low` in the lower half.
template <int STORED>
DEVICE u32 rounded_pair(float low, float high) {
    static_assert(STORED != F32, "a 16-bit format");
    return STORED == F16 ? f16_pair(low, high) : bf16_pair(low, high);
}

// Writes element `i`, rounded to nearest.
template <int STORED>
DEVICE void store_rounded(void *data, u64 i, float x) {
    if constexpr (STORED == F32) static_cast<float *>(data)[i] = x;
    else static_cast<u16 *>(data)[i] = (u16)rounded_pair<STORED>(x, 0.f);
}

// Elements `i` to `i + 3`, `i` a multiple of four.
template <int STORED>
DEVICE float4 load_four(const void *data, u64 i) {
    if constexpr (STORED == F32) {
        return load4(static_cast<const float *>(data) + i);
    } else {
        const uint2 v = *reinterpret_cast<const uint2 *>(static_cast<const u16 *>(data) + i);
        if constexpr (STORED == BF16) return make_float4(bf16_low(v.x), bf16_high(v.x), bf16_low(v.y), bf16_high(v.y));
        return make_float4(f16_to_float((u16)v.x), f16_to_float((u16)(v.x >> 16)), f16_to_float((u16)v.y),
                           f16_to_float((u16)(v.y >> 16)));
    }
}

// Two E4M3 codes: nearest, ties to even, saturating; `low` in the lower byte.
DEVICE u32 e4m3_pair(float low, float high) {
    u16 out;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(out) : "f"(high), "f"(low));
    return out;
}
