// Rows of activations rounded to bfloat16, as operands of sm90_half_gemm.cu: the layout of tile.cuh, k-blocks of 64 elements.
//
//   exact   one rounding of each element; elements beyond the width are zeros
//   grid    row capacity, 256 threads: a thread takes eight neighbouring elements at a time; the width is a multiple of 4
#include "convert.cuh"
#include "tile.cuh"

struct TileHalves {
    const void *x;
    u8 *out;
    const int *rows;
    int width, k_blocks, capacity, stored;
};

template <int STORED>
DEVICE void tile_row(const TileHalves &p) {
    const u32 row = blockIdx.x;
    for (int chunk = threadIdx.x; chunk < p.k_blocks * 8; chunk += 256) {
        u32 pair[4] = {};
#pragma unroll
        for (int quad = 0; quad < 2; ++quad) {
            const int at = chunk * 8 + quad * 4;
            if (at < p.width) {
                const float4 v = load_four<STORED>(p.x, (u64)row * p.width + at);
                pair[2 * quad] = bf16_pair(v.x, v.y);
                pair[2 * quad + 1] = bf16_pair(v.z, v.w);
            }
        }
        u8 *to = p.out + activation_tile(row, chunk >> 3, p.capacity) + (((chunk ^ row) & 7) << 4);
        *reinterpret_cast<uint4 *>(to) = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
}

extern "C" __global__ void __launch_bounds__(256) tile_halves(const TileHalves p) {
    release_successor();
    wait_for_predecessor();
    if ((int)blockIdx.x >= *p.rows) return;
    switch (p.stored) {
        case F32: return tile_row<F32>(p);
        case F16: return tile_row<F16>(p);
        default: return tile_row<BF16>(p);
    }
}
