// One row by one block of 256 threads: values in registers, reductions in a fixed order.
#pragma once
#include "convert.cuh"
#include "tile.cuh"

#define ROW_THREADS 256
#define ROW_WARPS (ROW_THREADS / 32)
// Quadruples per thread: rows of up to 1024 * QUADS elements, at most 8. Sums are the same for every number that holds the
// row, because what lies beyond it adds zeros.
#define MOST_QUADS 8

// Blocks of narrow rows that a multiprocessor holds: as many as have threads where registers allow, to have memory busy.
#if __CUDA_ARCH__ == 900
#define ROW_BLOCKS(QUADS) (QUADS <= 2 ? 8 : 1)
#else
#define ROW_BLOCKS(QUADS) 1
#endif

template <int QUADS>
struct Row {
    float4 v[QUADS];
};

// Quadruple q of a thread is element 4 * (q * 256 + thread); what lies beyond the width is zero.
DEVICE int row_element(int q) { return 4 * (q * ROW_THREADS + (int)threadIdx.x); }

// Row `index` of a matrix.
template <int QUADS, int STORED>
DEVICE Row<QUADS> load_stored_row(const void *x, u64 index, int width) {
    Row<QUADS> row;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        int at = row_element(q);
        row.v[q] = at < width ? load_four<STORED>(x, index * width + at) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
    return row;
}

template <int QUADS = MOST_QUADS>
DEVICE Row<QUADS> load_row(const float *x, int width) {
    return load_stored_row<QUADS, F32>(x, 0, width);
}

template <int QUADS>
DEVICE void store_row(float *y, const Row<QUADS> &row, int width) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        int at = row_element(q);
        if (at < width) store4(y + at, row.v[q]);
    }
}

// Sum over the block, the same in every thread. The order depends on nothing but the width.
DEVICE float block_sum(float x) {
    __shared__ float part[ROW_WARPS];
#pragma unroll
    for (int d = 16; d; d >>= 1) x = add(x, __shfl_xor_sync(~0u, x, d));
    __syncthreads();
    if (lane_id() == 0) part[warp_id()] = x;
    __syncthreads();
    float sum = part[0];
#pragma unroll
    for (int w = 1; w < ROW_WARPS; ++w) sum = add(sum, part[w]);
    return sum;
}

// The largest of the block, the same in every thread; once in a kernel.
DEVICE u32 block_max(u32 x) {
    __shared__ u32 part[ROW_WARPS];
#pragma unroll
    for (int d = 16; d; d >>= 1) x = max(x, __shfl_xor_sync(~0u, x, d));
    if (lane_id() == 0) part[warp_id()] = x;
    __syncthreads();
    u32 most = part[0];
#pragma unroll
    for (int w = 1; w < ROW_WARPS; ++w) most = max(most, part[w]);
    return most;
}

// This thread's part of a row's sum of squares.
template <int QUADS>
DEVICE float own_squares(const Row<QUADS> &row) {
    float sum = 0.f;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        float4 v = row.v[q];
        sum = add(sum, mul(v.x, v.x));
        sum = add(sum, mul(v.y, v.y));
        sum = add(sum, mul(v.z, v.z));
        sum = add(sum, mul(v.w, v.w));
    }
    return sum;
}

template <int QUADS>
DEVICE float sum_of_squares(const Row<QUADS> &row) {
    return block_sum(own_squares(row));
}

// w * (x * rsqrt(mean(x^2) + eps)), square root and quotients correctly rounded; `weight` as load_row gives it. The sum of squares is known.
template <int QUADS>
DEVICE void rms_norm_given(Row<QUADS> &row, const Row<QUADS> &weight, float squares, int width, float eps) {
    float mean = __fdiv_rn(squares, (float)width);
    float scale = __fdiv_rn(1.f, __fsqrt_rn(add(mean, eps)));
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        int at = row_element(q);
        if (at < width) {
            const float4 w = weight.v[q];
            row.v[q].x = mul(w.x, mul(row.v[q].x, scale));
            row.v[q].y = mul(w.y, mul(row.v[q].y, scale));
            row.v[q].z = mul(w.z, mul(row.v[q].z, scale));
            row.v[q].w = mul(w.w, mul(row.v[q].w, scale));
        }
    }
}

// The same with it.
template <int QUADS>
DEVICE void rms_norm(Row<QUADS> &row, const Row<QUADS> &weight, int width, float eps) {
    rms_norm_given(row, weight, sum_of_squares(row), width, eps);
}

DEVICE u32 magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

// x / s rounded to nearest, r being 1 / s rounded to nearest, as long as nothing under way is subnormal or too large. With the
// remainder's sign turned a zero keeps its own. (Two products and the reciprocal's rounding leave nothing to chance: checked
// for every s around every number at which a code changes.)
DEVICE float quotient(float x, float s, float r) {
    const float near = mul(x, r);
    return fmaf(fmaf(near, s, -x), -r, near);
}

// Scale and codes of a row, exact: s = max|x| / 448, code = e4m3(x / s), IEEE division. A zero scale becomes 1 with
// codes 0; a row with NaN or an infinity gets scale NaN and codes 0. Pads the last k-block with zeros.
template <int QUADS>
DEVICE void quantize_row(const Row<QUADS> &row, u8 *codes, float *scales, int index, int width, int capacity) {
    u32 most = 0;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        float4 v = row.v[q];
        most = max(max(most, max(magnitude(v.x), magnitude(v.y))), max(magnitude(v.z), magnitude(v.w)));
    }
    most = block_max(most);
    bool finite = most < 0x7F800000u;
    float scale = __fdiv_rn(__uint_as_float(most), 448.f);
    bool zero = !finite || scale == 0.f;
    if (threadIdx.x == 0) scales[index] = !finite ? __uint_as_float(0x7FC00000u) : zero ? 1.f : scale;
    const int padded = (width + KBLOCK - 1) / KBLOCK * KBLOCK;
    // A thread's quadruples lie at the same place of every eighth k-block.
    static_assert(4 * ROW_THREADS % KBLOCK == 0, "whole k-blocks between quadruples");
    const u64 step = (u64)(4 * ROW_THREADS / KBLOCK) * KBLOCK * (u32)capacity;
    u8 *to = codes + activation_tile(index & ~7, threadIdx.x / (KBLOCK / 4), capacity) +
             in_tile(index & 7, threadIdx.x % (KBLOCK / 4) * 4);
    auto write = [&](auto divided) {
#pragma unroll
        for (int q = 0; q < QUADS; ++q, to += step) {
            if (row_element(q) >= padded) break;
            const float4 v = row.v[q];
            *reinterpret_cast<u32 *>(to) = e4m3_pair(divided(v.x), divided(v.y)) | e4m3_pair(divided(v.z), divided(v.w)) << 16;
        }
    };
    // From 2^-60 to 2^60 quotients that are no zeros as codes come out of nothing subnormal; rows beyond are moved there, which
    // costs no bit of those.
    if (most - 0x21800000u <= 0x5D800000u - 0x21800000u) {
        const float r = __fdiv_rn(1.f, scale);
        write([&](float x) { return quotient(x, scale, r); });
    } else if (!zero) {
        const float move = __uint_as_float(most < 0x21800000u ? 0x71800000u : 0x0D800000u); // 2^100, 2^-100
        const float moved = mul(scale, move), r = __fdiv_rn(1.f, moved);
        write([&](float x) { return quotient(mul(x, move), moved, r); });
    } else {
        write([&](float) { return 0.f; });
    }
}
