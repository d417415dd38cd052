// One row by one block, 16 neighbouring elements ("a span") a thread and two spans: a warp holds 1024 elements of the row.
//
// The first two stages of a rotation stay inside a span, the others inside a warp (rotate.cuh). What lies beyond the
// width is zero. Where neighbours must change hands, a warp uses a "room" of its own in shared memory.
#pragma once
#include "convert.cuh"
#include "mma.cuh"

// The same number, of which the compiler knows nothing: what follows from it stays inside a loop and costs no registers outside.
DEVICE u32 anew(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}

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

// The rooms: the launch has ROOM_BYTES of dynamic shared memory a warp.
DEVICE u8 *first_room() {
    extern __shared__ __align__(16) u8 memory[];
    return memory;
}
DEVICE float *warp_room() { return reinterpret_cast<float *>(first_room() + warp_id() * ROOM_BYTES); }

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

// A warp's 1024 elements on their way from memory ("a stage"), in chunks of 16 bytes, each lane's so turned that spans are
// read without bank conflicts.
DEVICE int stage_bytes(int stored) { return WARP_ELEMENTS * (stored == F32 ? 4 : 2); }
template <int STORED>
DEVICE u32 stage_place(u32 lane, u32 chunk) {
    return STORED == F32 ? lane * 64 + (chunk ^ ((lane >> 1) & 3)) * 16 : lane * 32 + (chunk ^ ((lane >> 2) & 1)) * 16;
}
// Starts the copies; `at(e, i)` is the place of the row's element e + i, counted from element `first` of `x`. What lies beyond the
// width becomes zero.
template <int STORED, class At>
DEVICE void fetch_stage_as(u32 stage, const void *x, u64 first, int width, At at) {
    constexpr int BYTES = STORED == F32 ? 4 : 2, PER_LANE = SPAN * BYTES / 16;
    const u32 chunk = anew(lane_id());
    const int e = warp_id() * WARP_ELEMENTS + chunk * (16 / BYTES);
    const u8 *row = static_cast<const u8 *>(x) + first * BYTES;
    // Chunks 32 further on belong to lanes that turn theirs alike.
    const u32 to = stage + stage_place<STORED>(chunk / PER_LANE, chunk % PER_LANE);
#pragma unroll
    for (int i = 0; i < WARP_ELEMENTS * BYTES / 512; ++i) {
        copy16(to + i * 512, row + at(e, i * (512 / BYTES)) * BYTES, e + i * (512 / BYTES) < width);
    }
}
DEVICE void write_stage(u32 stage, int s, const float (&v)[SPAN]) {
#pragma unroll
    for (int c = 0; c < 4; ++c) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            store_shared(stage + s * (32 * SPAN * 4) + stage_place<F32>(lane_id(), c) + 4 * k, v[4 * c + k]);
        }
    }
}
template <int STORED>
DEVICE void read_stage_as(u32 stage, int s, float (&v)[SPAN]) {
    constexpr int BYTES = STORED == F32 ? 4 : 2;
    const u32 lane = anew(lane_id());
#pragma unroll
    for (int c = 0; c < SPAN * BYTES / 16; ++c) {
        const uint4 w = load16_shared(stage + s * (32 * SPAN * BYTES) + stage_place<STORED>(lane, c));
        const u32 words[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if constexpr (STORED == F32) {
                v[4 * c + k] = __uint_as_float(words[k]);
            } else {
                v[8 * c + 2 * k] = bf16_low(words[k]);
                v[8 * c + 2 * k + 1] = bf16_high(words[k]);
            }
        }
    }
}
DEVICE void read_stage(u32 stage, int stored, int s, float (&v)[SPAN]) {
    if (stored == F32) read_stage_as<F32>(stage, s, v);
    else read_stage_as<BF16>(stage, s, v);
}

// Puts the span of each lane where neighbours find it.
DEVICE void span_to_room(const float (&v)[SPAN], float *room) {
    float *to = room + room_place(anew(lane_id()) * SPAN);
#pragma unroll
    for (int q = 0; q < SPAN / 4; ++q) store4(to + 4 * q, make_float4(v[4 * q], v[4 * q + 1], v[4 * q + 2], v[4 * q + 3]));
}

// Writes a row, whole sectors at a time, in float32 or rounded to bfloat16.
DEVICE void store_spans(void *out, u64 row, int width, int stored, const Spans &x, float *room) {
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
        span_to_room(x.v[s], room);
        __syncwarp();
        const int lane = anew(lane_id()), first = warp_id() * WARP_ELEMENTS + s * (32 * SPAN);
#pragma unroll
        for (int q = 0; q < SPAN / 4; ++q) {
            const int e = q * 128 + lane * 4, at = first + e;
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

// Largest over the block, the same in every thread. Calls in a row take the two places in turn: the barrier of one call lies
// between the reads of the call before and the writes of the next. Bit 0 of `turn` tells which.
DEVICE u32 block_most(u32 x, int &turn) {
    __shared__ u32 part[2][32];
    x = __reduce_max_sync(~0u, x);
    if (lane_id() == 0) part[turn & 1][warp_id()] = x;
    __syncthreads();
    const int warps = (int)blockDim.x >> 5;
    const u32 most = __reduce_max_sync(~0u, lane_id() < warps ? part[turn & 1][lane_id()] : 0);
    turn ^= 1;
    return most;
}
