// Quantize: per-row absolute maximum and E4M3 codes, of rows in float32 or in a 16-bit format.
//
//   grid   rows of the bucket, and after them blocks that ask for weights of later products (ahead.cuh); 256 threads;
//          width a multiple of 4, at most 1024 * QUADS
//   exact
#include "ahead.cuh"
#include "row.cuh"

struct Quantize {
    const void *x;
    u8 *codes;
    float *scales;
    const int *rows;
    int width, capacity;
    Ahead ahead;
};

template <int QUADS, int STORED>
DEVICE void quantize(const Quantize &p) {
    release_successor();
    if (asked_ahead(p.ahead)) return;
    wait_for_predecessor();
    // The row comes with the number of rows: there is room for one a block.
    const int index = blockIdx.x;
    const Row<QUADS> row = load_stored_row<QUADS, STORED>(p.x, index, p.width);
    if (index >= *p.rows) return;
    quantize_row(row, p.codes, p.scales, index, p.width, p.capacity);
}

#define INSTANCE(NAME, QUADS, STORED)                                                                            \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS, ROW_BLOCKS(QUADS))                                \
        quantize_##NAME##_##QUADS(const Quantize p) {                                                            \
        quantize<QUADS, STORED>(p);                                                                              \
    }
INSTANCE(f32, 2, F32)
INSTANCE(f32, 5, F32)
INSTANCE(f32, 8, F32)
INSTANCE(f16, 2, F16)
INSTANCE(f16, 5, F16)
INSTANCE(f16, 8, F16)
INSTANCE(bf16, 2, BF16)
INSTANCE(bf16, 5, BF16)
INSTANCE(bf16, 8, BF16)
