// Rows of float32 kept as two bfloat16 planes, heads and tails: x = head + tail to 17 bits, split once by whoever writes it.
// Both planes lie in the layout of tile.cuh, the tails after the heads: operands of sm90_split_linear.cu as they are. Rows
// have whole k-blocks: 64 columns each.
#pragma once
#include "convert.cuh"
#include "tile.cuh"

#define SPLIT_COLUMNS 64 // of a k-block
enum { SPLIT = BF16 + 1 }; // a way in which rows are stored, beside those of convert.cuh

DEVICE u64 split_plane(int width, int capacity) { return (u64)(width / SPLIT_COLUMNS) * capacity * KBLOCK; }
// Place of columns `at` (even) and on, as far as their chunk of eight goes.
DEVICE u64 split_place(int row, int at, int capacity) {
    return activation_tile(row, at / SPLIT_COLUMNS, capacity) + ((((at >> 3) ^ row) & 7) << 4) + (at & 7) * 2;
}

// Columns `at` (even) and `at` + 1 of a row.
DEVICE void store_split_pair(u8 *rows, int width, int capacity, int row, int at, float low, float high) {
    const SplitPair s = split_pair(low, high);
    u8 *to = rows + split_place(row, at, capacity);
    *reinterpret_cast<u32 *>(to) = s.head;
    *reinterpret_cast<u32 *>(to + split_plane(width, capacity)) = s.tail;
}

// Rows that are float32 or split, `capacity` of them where they are split.
struct SplitRows {
    u8 *data;
    int width, capacity, stored, pad;

    // Columns `at` (a multiple of 4) to `at` + 3.
    __device__ __forceinline__ float4 load(int row, int at) const {
        if (stored == F32) return load4(reinterpret_cast<const float *>(data) + (u64)row * width + at);
        const u8 *from = data + split_place(row, at, capacity);
        const uint2 head = *reinterpret_cast<const uint2 *>(from);
        const uint2 tail = *reinterpret_cast<const uint2 *>(from + split_plane(width, capacity));
        return make_float4(add(bf16_low(head.x), bf16_low(tail.x)), add(bf16_high(head.x), bf16_high(tail.x)),
                           add(bf16_low(head.y), bf16_low(tail.y)), add(bf16_high(head.y), bf16_high(tail.y)));
    }
    __device__ __forceinline__ void store(int row, int at, float4 v) const {
        if (stored == F32) return store4(reinterpret_cast<float *>(data) + (u64)row * width + at, v);
        const SplitPair a = split_pair(v.x, v.y), b = split_pair(v.z, v.w);
        u8 *to = data + split_place(row, at, capacity);
        *reinterpret_cast<uint2 *>(to) = make_uint2(a.head, b.head);
        *reinterpret_cast<uint2 *>(to + split_plane(width, capacity)) = make_uint2(a.tail, b.tail);
    }
    // Four columns of another's, both planes as they are: a sum split again may have another head.
    __device__ __forceinline__ void copy(int row, int at, const SplitRows &from, int from_at) const {
        if (stored == F32 || from.stored == F32) return store(row, at, from.load(row, from_at));
        u8 *to = data + split_place(row, at, capacity);
        const u8 *own = from.data + split_place(row, from_at, from.capacity);
        *reinterpret_cast<uint2 *>(to) = *reinterpret_cast<const uint2 *>(own);
        *reinterpret_cast<uint2 *>(to + split_plane(width, capacity)) =
            *reinterpret_cast<const uint2 *>(own + split_plane(from.width, from.capacity));
    }
};
