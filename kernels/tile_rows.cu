// Rows of a weight as stored → the tiled operand layout (tile.cuh). Runs at load only.
//
//   tile_codes   bytes (E4M3) to one plane
//   tile_real    f32, f16 or bf16 to a bfloat16 head plane and, where wanted, a tail plane
//   half         0, or the rows of one half of a gated weight: halves interleave by eight rows
//   grid         (k-blocks, rows); 128 threads a block of bytes, 64 a block of real elements
#include "convert.cuh"
#include "tile.cuh"

struct TileRows {
    const void *from;
    u8 *head, *tail;
    int first, rows, k, k_blocks, half, stored;
};

DEVICE int place_of(int row, int half) {
    if (half == 0) return row;
    int up = row >= half, r = up ? row - half : row;
    return (r >> 3) * 16 + up * 8 + (r & 7);
}

extern "C" __global__ void __launch_bounds__(128) tile_codes(const TileRows p) {
    int r = blockIdx.y, k = blockIdx.x * KBLOCK + threadIdx.x;
    if (r >= p.rows) return;
    int n = place_of(p.first + r, p.half);
    u64 at = weight_tile(n / WEIGHT_ROWS, blockIdx.x, p.k_blocks) + in_tile(n % WEIGHT_ROWS, threadIdx.x);
    p.head[at] = k < p.k ? static_cast<const u8 *>(p.from)[(u64)r * p.k + k] : 0;
}

extern "C" __global__ void __launch_bounds__(64) tile_real(const TileRows p) {
    int r = blockIdx.y, k = blockIdx.x * (KBLOCK / 2) + threadIdx.x;
    if (r >= p.rows) return;
    int n = place_of(p.first + r, p.half);
    u64 at = weight_tile(n / WEIGHT_ROWS, blockIdx.x, p.k_blocks) + in_tile(n % WEIGHT_ROWS, threadIdx.x * 2);
    float x = k < p.k ? stored_to_float(p.from, (u64)r * p.k + k, p.stored) : 0.f;
    SplitPair s = split_pair(x, 0.f);
    *reinterpret_cast<u16 *>(p.head + at) = (u16)s.head;
    if (p.tail) *reinterpret_cast<u16 *>(p.tail + at) = (u16)s.tail;
}
