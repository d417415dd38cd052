// RmsNorm: out = w * (x * rsqrt(mean(x^2) + eps)).
//
//   grid   rows of the bucket, 256 threads; width a multiple of 4, at most 8192
#include "row.cuh"

struct RmsNorm {
    const float *x, *weight;
    float *out;
    const int *rows;
    int width;
    float eps;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) rms_norm_rows(const RmsNorm p) {
    release_successor();
    const Row<MOST_QUADS> weight = load_row(p.weight, p.width); // no kernel writes it: before the wait
    wait_for_predecessor();
    int index = blockIdx.x;
    if (index >= *p.rows) return;
    Row<MOST_QUADS> row = load_row(p.x + (u64)index * p.width, p.width);
    rms_norm(row, weight, p.width, p.eps);
    store_row(p.out + (u64)index * p.width, row, p.width);
}
