// PoolSpans and PoolText: columns of a span of rows reduced in row order, one thread a column.
//
//   pool_spans  out[c] = mean of x[start..end]; zeros for an empty span
//   pool_text   first, last, mean, sum, max, root mean square, max |x|, mean |x| over a span and the zero rows after it
//   grid        (columns / 256, rows of the bucket), 256 threads
#include "base.cuh"

struct PoolSpans {
    const float *x;
    const int *spans;
    float *out;
    const int *rows;
    int width;
};

extern "C" __global__ void __launch_bounds__(256) pool_spans(const PoolSpans p) {
    release_successor();
    wait_for_predecessor();
    int c = blockIdx.y, column = blockIdx.x * 256 + threadIdx.x;
    if (c >= *p.rows || column >= p.width) return;
    int start = p.spans[2 * c], end = p.spans[2 * c + 1];
    float sum = 0.f;
#pragma unroll 4
    for (int r = start; r < end; ++r) sum = add(sum, p.x[(u64)r * p.width + column]);
    p.out[(u64)c * p.width + column] = start < end ? __fdiv_rn(sum, (float)(end - start)) : 0.f;
}

enum { FIRST, LAST, AVG, SUM, MAX, RMS, ABS_MAX, ABS_AVG };

struct PoolText {
    const float *x;
    const int *spans;
    float *out;
    const int *rows;
    int width, pool;
};

extern "C" __global__ void __launch_bounds__(256) pool_text(const PoolText p) {
    release_successor();
    wait_for_predecessor();
    int s = blockIdx.y, column = blockIdx.x * 256 + threadIdx.x;
    if (s >= *p.rows || column >= p.width) return;
    int start = p.spans[3 * s], end = p.spans[3 * s + 1], zeros = p.spans[3 * s + 2];
    const float *x = p.x + column;
    float y = 0.f;
    if (p.pool == FIRST) {
        y = start < end ? x[(u64)start * p.width] : 0.f;
    } else if (p.pool == LAST) {
        y = zeros > 0 || start >= end ? 0.f : x[(u64)(end - 1) * p.width];
    } else {
        if (p.pool == MAX && zeros == 0) y = __uint_as_float(0xFF800000u);
#pragma unroll 4
        for (int r = start; r < end; ++r) {
            float v = x[(u64)r * p.width];
            switch (p.pool) {
                case MAX: y = fmaxf(y, v); break;
                case RMS: y = add(y, mul(v, v)); break;
                case ABS_MAX: y = fmaxf(y, fabsf(v)); break;
                case ABS_AVG: y = add(y, fabsf(v)); break;
                default: y = add(y, v);
            }
        }
        float count = (float)(end - start + zeros);
        if (p.pool == AVG || p.pool == ABS_AVG) y = __fdiv_rn(y, count);
        if (p.pool == RMS) y = __fsqrt_rn(__fdiv_rn(y, count));
    }
    p.out[(u64)s * p.width + column] = y;
}
