// RotateQuantize of gated rows: heads normed and multiplied by silu(gate), or rows multiplied by sigmoid(gate).
//
//   grid    rows of the bucket; a warp for each 1024 columns, at most 8; width a multiple of 16
//   shared  ROOM_BYTES a warp
//   exact   scale and codes in the rounded row, in both modes
#include "rotate.cuh"

#define INSTANCE(NAME, OP, WARPS, BLOCKS)                                                                    \
    extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) rotate_quantize_##NAME##_##WARPS(       \
        const RotateQuantize p) {                                                                            \
        rotate_quantize<OP>(p);                                                                              \
    }
INSTANCE(gated_rms_norm, GATED_RMS_NORM, 8, 3)
INSTANCE(sigmoid_gate, SIGMOID_GATE, 8, 3)
