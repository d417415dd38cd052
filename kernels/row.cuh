// One row by one block of 256 threads: values in registers, reductions in a fixed order.
#pragma once
#include "convert.cuh"
#include "tile.cuh"

#define ROW_THREADS 256
#define ROW_WARPS (ROW_THREADS / 32)
// Quadruples per thread: rows of up to 1024 * QUADS elements, at most 8. Sums are the same for every number that holds the
// row, because what lies beyond it adds zeros.
#define MOST_QUADS 8

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

DEVICE u32 block_max(u32 x) {
    __shared__ u32 part[ROW_WARPS];
#pragma unroll
    for (int d = 16; d; d >>= 1) x = max(x, __shfl_xor_sync(~0u, x, d));
    __syncthreads();
    if (lane_id() == 0) part[warp_id()] = x;
    __syncthreads();
    u32 most = part[0];
#pragma unroll
    for (int w = 1; w < ROW_WARPS; ++w) most = max(most, part[w]);
    return most;
}

template <int QUADS>
DEVICE float sum_of_squares(const Row<QUADS> &row) {
    float sum = 0.f;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        float4 v = row.v[q];
        sum = add(sum, mul(v.x, v.x));
        sum = add(sum, mul(v.y, v.y));
        sum = add(sum, mul(v.z, v.z));
        sum = add(sum, mul(v.w, v.w));
    }
    return block_sum(sum);
}

// w * (x * rsqrt(mean(x^2) + eps)), square root and quotients correctly rounded; `weight` as load_row gives it.
template <int QUADS>
DEVICE void rms_norm(Row<QUADS> &row, const Row<QUADS> &weight, int width, float eps) {
    float mean = __fdiv_rn(sum_of_squares(row), (float)width);
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

DEVICE u32 magnitude(float x) { return __float_as_uint(x) & 0x7FFFFFFFu; }

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
    int padded = (width + KBLOCK - 1) / KBLOCK * KBLOCK;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        int at = row_element(q);
        if (at < padded) {
            float4 v = row.v[q];
            u32 code = 0;
            if (!zero) {
                code = e4m3_pair(__fdiv_rn(v.x, scale), __fdiv_rn(v.y, scale)) |
                       e4m3_pair(__fdiv_rn(v.z, scale), __fdiv_rn(v.w, scale)) << 16;
            }
            u8 *tile = codes + activation_tile(index & ~7, at / KBLOCK, capacity);
            *reinterpret_cast<u32 *>(tile + in_tile(index & 7, at % KBLOCK)) = code;
        }
    }
}
