// LayerNorm: out = (x - mean) / sqrt(var + eps) * w + b, population variance, two passes over registers.
//
//   grid   rows of the bucket, 256 threads; width a multiple of 4, at most 8192
#include "row.cuh"

struct LayerNorm {
    const float *x, *weight, *bias;
    float *out;
    const int *rows;
    int width;
    float eps;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) layer_norm(const LayerNorm p) {
    release_successor();
    wait_for_predecessor();
    int index = blockIdx.x;
    if (index >= *p.rows) return;
    Row<MOST_QUADS> row = load_row(p.x + (u64)index * p.width, p.width);
    float sum = 0.f;
#pragma unroll
    for (int q = 0; q < MOST_QUADS; ++q) {
        float4 v = row.v[q];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    float mean = __fdiv_rn(block_sum(sum), (float)p.width);
#pragma unroll
    for (int q = 0; q < MOST_QUADS; ++q) {
        if (row_element(q) < p.width) {
            row.v[q].x -= mean;
            row.v[q].y -= mean;
            row.v[q].z -= mean;
            row.v[q].w -= mean;
        }
    }
    float variance = __fdiv_rn(sum_of_squares(row), (float)p.width);
    float scale = __fdiv_rn(1.f, __fsqrt_rn(add(variance, p.eps)));
#pragma unroll
    for (int q = 0; q < MOST_QUADS; ++q) {
        int at = row_element(q);
        if (at < p.width) {
            float4 w = load4(p.weight + at), b = load4(p.bias + at), v = row.v[q];
            v.x = add(mul(mul(v.x, scale), w.x), b.x);
            v.y = add(mul(mul(v.y, scale), w.y), b.y);
            v.z = add(mul(mul(v.z, scale), w.z), b.z);
            v.w = add(mul(mul(v.w, scale), w.w), b.w);
            store4(p.out + (u64)index * p.width + at, v);
        }
    }
}
