// Quantize: per-row absolute maximum and E4M3 codes.
//
//   grid   rows of the bucket, 256 threads; width a multiple of 4, at most 8192
//   exact
#include "row.cuh"

struct Quantize {
    const float *x;
    u8 *codes;
    float *scales;
    const int *rows;
    int width, capacity;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) quantize(const Quantize p) {
    release_successor();
    wait_for_predecessor();
    int index = blockIdx.x;
    if (index >= *p.rows) return;
    Row row = load_row(p.x + (u64)index * p.width, p.width);
    quantize_row(row, p.codes, p.scales, index, p.width, p.capacity);
}
