// RmsNormQuantize: RMS norm, per-row absolute maximum and E4M3 codes in one pass over the row.
//
//   grid   rows of the bucket, and after them blocks that ask for weights of later products (ahead.cuh); 256 threads;
//          width a multiple of 4, at most 1024 * QUADS
//   exact  codes and scale in the normed row; the mean square's sum has its own fixed order
#include "ahead.cuh"
#include "row.cuh"

struct RmsNormQuantize {
    const float *x, *weight;
    u8 *codes;
    float *scales;
    const int *rows;
    int width, capacity;
    float eps;
    int pad;
    Ahead ahead;
};

template <int QUADS>
DEVICE void rms_norm_quantize(const RmsNormQuantize &p) {
    release_successor();
    if (asked_ahead(p.ahead)) return;
    const Row<QUADS> weight = load_row<QUADS>(p.weight, p.width); // no kernel writes it: before the wait
    wait_for_predecessor();
    // The row comes with the number of rows: there is room for one a block.
    const int index = blockIdx.x;
    Row<QUADS> row = load_row<QUADS>(p.x + (u64)index * p.width, p.width);
    if (index >= *p.rows) return;
    rms_norm(row, weight, p.width, p.eps);
    quantize_row(row, p.codes, p.scales, index, p.width, p.capacity);
}

#define INSTANCE(QUADS)                                                                                           \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS, ROW_BLOCKS(QUADS))                                \
        rms_norm_quantize_##QUADS(const RmsNormQuantize p) {                                                      \
        rms_norm_quantize<QUADS>(p);                                                                              \
    }
INSTANCE(2)
INSTANCE(5)
INSTANCE(8)
