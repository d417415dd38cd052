// One row by one block, 16 neighbouring elements ("a span") a thread and two spans: a warp holds 1024 elements of the row.
//
// The first two stages of a rotation stay inside a span, the others inside a warp (rotate.cuh). What lies beyond the
// width is zero. Where neighbours must change hands, a warp uses a "room" of its own in shared memory.
#pragma once
#include "convert.cuh"

#define SPAN 16
#define SPANS 2
#define WARP_ELEMENTS 1024

// 256 elements of a pass in a room: 16 spans, each 20 words from the next, the second 256 a half row of banks aside, so
// that spans are written, and every sixteenth element read, without bank conflicts.
#define ROOM_SPAN 20
#define ROOM_UNIT (16 * ROOM_SPAN + 16)
#define ROOM_BYTES (2 * ROOM_UNIT * 4)

// Word of an element of a pass (0..511) in a room.
DEVICE int room_place(int e) { return (e >> 8) * ROOM_UNIT + ((e >> 4) & 15) * ROOM_SPAN + (e & 15); }

struct Spans {
    float v[SPANS][SPAN];
};

// First element of span `s` of this thread.
DEVICE int span_start(int s) { return warp_id() * WARP_ELEMENTS + s * (32 * SPAN) + lane_id() * SPAN; }

// The room of this warp: the launch has ROOM_BYTES of dynamic shared memory a warp.
DEVICE float *warp_room() {
    extern __shared__ __align__(16) u8 memory[];
    return reinterpret_cast<float *>(memory + warp_id() * ROOM_BYTES);
}

// Sixteen elements from `i` on, a multiple of 16 bytes.
template <int STORED>
DEVICE void load_span(const void *x, u64 i, float (&v)[SPAN]) {
    static_assert(STORED != F16, "no tensor here is in binary16");
    if constexpr (STORED == F32) {
#pragma unroll
        for (int q = 0; q < SPAN / 4; ++q) {
            const float4 e = load4(static_cast<const float *>(x) + i + 4 * q);
            v[4 * q] = e.x;
            v[4 * q + 1] = e.y;
            v[4 * q + 2] = e.z;
            v[4 * q + 3] = e.w;
        }
    } else {
        const uint4 *from = reinterpret_cast<const uint4 *>(static_cast<const u16 *>(x) + i);
        const uint4 low = from[0], high = from[1];
        const u32 pairs[SPAN / 2] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
        for (int k = 0; k < SPAN / 2; ++k) {
            v[2 * k] = bf16_low(pairs[k]);
            v[2 * k + 1] = bf16_high(pairs[k]);
        }
    }
}

DEVICE void zero_span(float (&v)[SPAN]) {
#pragma unroll
    for (int i = 0; i < SPAN; ++i) v[i] = 0.f;
}

template <int STORED>
DEVICE void load_spans_as(const void *x, u64 row, int width, Spans &y) {
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
        const int at = span_start(s);
        if (at < width) load_span<STORED>(x, row * width + at, y.v[s]);
        else zero_span(y.v[s]);
    }
}

// A row of a matrix `width` wide, a multiple of 16.
DEVICE void load_spans(const void *x, u64 row, int width, int stored, Spans &y) {
    if (stored == F32) load_spans_as<F32>(x, row, width, y);
    else load_spans_as<BF16>(x, row, width, y);
}

// Puts the span of each lane where neighbours find it.
DEVICE void span_to_room(const float (&v)[SPAN], float *room) {
    float *to = room + room_place(lane_id() * SPAN);
#pragma unroll
    for (int q = 0; q < SPAN / 4; ++q) store4(to + 4 * q, make_float4(v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]));
}

// Writes a row, whole sectors at a time, in float32 or rounded to bfloat16.
DEVICE void store_spans(void *out, u64 row, int width, int stored, const Spans &x, float *room) {
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
        span_to_room(x.v[s], room);
        __syncwarp();
        const int first = warp_id() * WARP_ELEMENTS + s * (32 * SPAN);
#pragma unroll
        for (int q = 0; q < SPAN / 4; ++q) {
            const int e = q * 128 + lane_id() * 4, at = first + e;
            if (at < width) {
                const float4 v = load4(room + room_place(e));
                if (stored == F32) {
                    store4(static_cast<float *>(out) + row * width + at, v);
                } else {
                    *reinterpret_cast<uint2 *>(static_cast<u16 *>(out) + row * width + at) =
                        make_uint2(bf16_pair(v.x, v.y), bf16_pair(v.z, v.w));
                }
            }
        }
        __syncwarp();
    }
}

// Sum over the block in double, the same in every thread.
DEVICE double block_sum(double x) {
    __shared__ double part[32];
#pragma unroll
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(~0u, x, d);
    if (lane_id() == 0) part[warp_id()] = x;
    __syncthreads();
    double sum = part[0];
    const int warps = (int)blockDim.x >> 5;
    for (int w = 1; w < warps; ++w) sum += part[w];
    return sum;
}

// Largest over the block, the same in every thread. Two in one kernel take different places.
DEVICE u32 block_most(u32 x, int place) {
    __shared__ u32 part[2][32];
    x = __reduce_max_sync(~0u, x);
    if (lane_id() == 0) part[place][warp_id()] = x;
    __syncthreads();
    const int warps = (int)blockDim.x >> 5;
    return __reduce_max_sync(~0u, lane_id() < warps ? part[place][lane_id()] : 0);
}
