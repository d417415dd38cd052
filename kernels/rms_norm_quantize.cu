// RmsNormQuantize: RMS norm, per-row absolute maximum and E4M3 codes in one pass over the row.
//
//   grid   rows of the bucket, 256 threads; width a multiple of 4, at most 8192
//   exact  codes and scale in the normed row; the mean square's sum has its own fixed order
#include "row.cuh"

struct RmsNormQuantize {
    const float *x, *weight;
    u8 *codes;
    float *scales;
    const int *rows;
    int width, capacity;
    float eps;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) rms_norm_quantize(const RmsNormQuantize p) {
    release_successor();
    wait_for_predecessor();
    int index = blockIdx.x;
    if (index >= *p.rows) return;
    Row row = load_row(p.x + (u64)index * p.width, p.width);
    rms_norm(row, p.weight, p.width, p.eps);
    quantize_row(row, p.codes, p.scales, index, p.width, p.capacity);
}
