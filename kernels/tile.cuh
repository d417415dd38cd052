// The one layout of every 8- and 16-bit matrix operand: rows cut into blocks of 128 bytes ("k-blocks"), the sixteen-byte
// chunks of a block permuted by the row (chunk c of row r stands at c ^ (r & 7)). That is the 128-byte swizzle that
// wgmma reads, it makes ldmatrix free of bank conflicts, and a tile of any number of whole rows is one contiguous piece
// of memory, so that plain bulk copies move it and no tensor map is needed.
//
//   weights      [rows / 64][k-blocks][64][128]   a tile of 64 rows and one k-block: 8192 bytes
//   activations  [k-blocks][capacity][128]        a tile of n rows and one k-block: n * 128 bytes, n a multiple of 8
//
// Rows of weights are padded with zeros to a multiple of 128, k-blocks with zeros to whole ones. Gated weights
// interleave their halves by eight rows: 8 gate rows, then the 8 up rows that belong to them.
#pragma once
#include "base.cuh"

#define KBLOCK 128
#define WEIGHT_ROWS 64
#define WEIGHT_TILE (WEIGHT_ROWS * KBLOCK)

// Byte offset inside a tile of byte `b` (0..127) of row `r`.
DEVICE u32 in_tile(u32 r, u32 b) { return r * KBLOCK + ((((b >> 4) ^ r) & 7) << 4) + (b & 15); }

DEVICE u64 weight_tile(u32 row_block, u32 k_block, u32 k_blocks) {
    return ((u64)row_block * k_blocks + k_block) * WEIGHT_TILE;
}
DEVICE u64 activation_tile(u32 row, u32 k_block, u32 capacity) { return ((u64)k_block * capacity + row) * KBLOCK; }
