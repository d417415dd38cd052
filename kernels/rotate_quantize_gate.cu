// RotateQuantize of gated rows: heads normed and multiplied by silu(gate), or rows multiplied by sigmoid(gate).
//
//   grid    any number of blocks, which walk over the rows; a warp for each 1024 columns, at most 8; width a multiple of 16
//   shared  for each warp ROOM_BYTES, 2048 for normed heads, and 4096 (float32) or 2048 (bfloat16) each for the next row and its
//           gates
//   exact   scale and codes in the rounded row, in both modes
#include "rotate.cuh"

#define INSTANCE_OF(NAME, OP, STORED, EXACT, WARPS, BLOCKS)                                                 \
    extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) rotate_quantize_##NAME##_##WARPS(      \
        const RotateQuantize p) {                                                                           \
        rotate_quantize<OP, STORED, EXACT, (WARPS != 17)>(p);                                              \
    }
#define INSTANCE(NAME, OP, STORED, WARPS, BLOCKS)               \
    INSTANCE_OF(NAME, OP, STORED, false, WARPS, BLOCKS)         \
    INSTANCE_OF(NAME##_exact, OP, STORED, true, WARPS, BLOCKS)
INSTANCE(gated_rms_norm, GATED_RMS_NORM, ANY, 8, 3)
INSTANCE(sigmoid_gate, SIGMOID_GATE, ANY, 8, 3)
