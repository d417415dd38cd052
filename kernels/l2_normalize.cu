// L2Normalize: out = x / (|x| + eps).
//
//   grid   rows of the bucket, 256 threads; width a multiple of 4, at most 8192
#include "row.cuh"

struct L2Normalize {
    const float *x;
    float *out;
    const int *rows;
    int width;
    float eps;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) l2_normalize(const L2Normalize p) {
    release_successor();
    wait_for_predecessor();
    int index = blockIdx.x;
    if (index >= *p.rows) return;
    Row<MOST_QUADS> row = load_row(p.x + (u64)index * p.width, p.width);
    float norm = add(__fsqrt_rn(sum_of_squares(row)), p.eps);
#pragma unroll
    for (int q = 0; q < MOST_QUADS; ++q) {
        row.v[q].x = __fdiv_rn(row.v[q].x, norm);
        row.v[q].y = __fdiv_rn(row.v[q].y, norm);
        row.v[q].z = __fdiv_rn(row.v[q].z, norm);
        row.v[q].w = __fdiv_rn(row.v[q].w, norm);
    }
    store_row(p.out + (u64)index * p.width, row, p.width);
}
