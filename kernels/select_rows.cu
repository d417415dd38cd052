// SelectRows and Concat: rows moved, nothing computed.
//
//   select_rows  out[r] = x[index[r]]
//   concat       out[r] = [left[index ? index[r] : r] ; right[r]]
//   grid         rows of the bucket, 256 threads
//   exact
#include "base.cuh"

struct SelectRows {
    const float *x;
    const int *index;
    float *out;
    const int *rows;
    int width;
};

extern "C" __global__ void __launch_bounds__(256) select_rows(const SelectRows p) {
    release_successor();
    wait_for_predecessor();
    int r = blockIdx.x;
    if (r >= *p.rows) return;
    const float *from = p.x + (u64)p.index[r] * p.width;
    for (int i = threadIdx.x; i < p.width; i += 256) p.out[(u64)r * p.width + i] = from[i];
}

struct Concat {
    const float *left;
    const int *index;
    const float *right;
    float *out;
    const int *rows;
    int left_width, right_width;
};

extern "C" __global__ void __launch_bounds__(256) concat(const Concat p) {
    release_successor();
    wait_for_predecessor();
    int r = blockIdx.x;
    if (r >= *p.rows) return;
    const float *left = p.left + (u64)(p.index ? p.index[r] : r) * p.left_width;
    const float *right = p.right + (u64)r * p.right_width;
    int width = p.left_width + p.right_width;
    for (int i = threadIdx.x; i < width; i += 256) {
        p.out[(u64)r * width + i] = i < p.left_width ? left[i] : right[i - p.left_width];
    }
}
