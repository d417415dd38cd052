// Quantize: per-row absolute maximum and E4M3 codes.
//
//   grid   rows of the bucket, 256 threads; width a multiple of 4, at most 1024 * QUADS
//   exact
#include "row.cuh"

struct Quantize {
    const float *x;
    u8 *codes;
    float *scales;
    const int *rows;
    int width, capacity;
};

template <int QUADS>
DEVICE void quantize(const Quantize &p) {
    release_successor();
    wait_for_predecessor();
    int index = blockIdx.x;
    if (index >= *p.rows) return;
    quantize_row(load_row<QUADS>(p.x + (u64)index * p.width, p.width), p.codes, p.scales, index, p.width, p.capacity);
}

#define INSTANCE(QUADS) \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS) quantize_##QUADS(const Quantize p) { quantize<QUADS>(p); }
INSTANCE(2)
INSTANCE(5)
INSTANCE(8)
