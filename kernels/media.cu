// Rows of pictures: learned positions, and their place among the tokens. Widths are multiples of 4.
//
//   add_positions  out[r] = x[r] + sum_i weights[r][i] * table[taps[r][i]], i = 0..3 in order, each operation rounded
//                  on its own                                             grid rows * width / 1024, 256 threads; exact
//   copy_rows      out = x                                                grid rows * width / 1024, 256 threads; exact
//   put_rows       out[index[r]] = from[r], no row named twice            grid rows, 256 threads; exact
#include "base.cuh"

#define THREADS 256

// No tensor has 2^34 elements: quadruples are counted in 32 bits.
DEVICE u32 quad() { return blockIdx.x * THREADS + threadIdx.x; }

struct AddPositions {
    const float *x, *table;
    const int *taps;
    const float *weights;
    float *out;
    const int *rows;
    int width, pad;
};

DEVICE float4 add_scaled(float4 sum, float by, float4 v) {
    return make_float4(add(sum.x, mul(by, v.x)), add(sum.y, mul(by, v.y)), add(sum.z, mul(by, v.z)),
                       add(sum.w, mul(by, v.w)));
}

extern "C" __global__ void __launch_bounds__(THREADS) add_positions(const AddPositions p) {
    release_successor();
    wait_for_predecessor();
    const u32 quads = p.width / 4, r = quad() / quads, column = 4 * (quad() % quads);
    if (r >= (u32)*p.rows) return;
    const int4 taps = reinterpret_cast<const int4 *>(p.taps)[r];
    const float4 weights = load4(p.weights + 4 * (u64)r), x = load4(p.x + (u64)r * p.width + column);
    const float *table = p.table + column;
    float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
    sum = add_scaled(sum, weights.x, load4(table + (u64)taps.x * p.width));
    sum = add_scaled(sum, weights.y, load4(table + (u64)taps.y * p.width));
    sum = add_scaled(sum, weights.z, load4(table + (u64)taps.z * p.width));
    sum = add_scaled(sum, weights.w, load4(table + (u64)taps.w * p.width));
    store4(p.out + (u64)r * p.width + column,
           make_float4(add(x.x, sum.x), add(x.y, sum.y), add(x.z, sum.z), add(x.w, sum.w)));
}

struct CopyRows {
    const float *x;
    float *out;
    const int *rows;
    int width, pad;
};

extern "C" __global__ void __launch_bounds__(THREADS) copy_rows(const CopyRows p) {
    release_successor();
    wait_for_predecessor();
    const u64 i = 4 * (u64)quad();
    if (i < (u64)*p.rows * p.width) store4(p.out + i, load4(p.x + i));
}

struct PutRows {
    const float *from;
    const int *index;
    float *out;
    const int *rows;
    int width, pad;
};

extern "C" __global__ void __launch_bounds__(THREADS) put_rows(const PutRows p) {
    release_successor();
    wait_for_predecessor();
    const int r = blockIdx.x;
    if (r >= *p.rows) return;
    const float *from = p.from + (u64)r * p.width;
    float *out = p.out + (u64)p.index[r] * p.width;
    for (int i = 4 * threadIdx.x; i < p.width; i += 4 * THREADS) store4(out + i, load4(from + i));
}
