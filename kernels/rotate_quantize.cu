// RotateQuantize of rows as they are, and of rows normed around zero: the row rounded to bfloat16, rotated, and INT8 codes
// with one scale.
//
//   grid    rows of the bucket; a warp for each 1024 columns, at most as many as the instance says; width a multiple of 16
//   shared  ROOM_BYTES a warp
//   exact   scale and codes in the rounded row, in both modes
#include "rotate.cuh"

#define INSTANCE(NAME, OP, WARPS, BLOCKS)                                                                    \
    extern "C" __global__ void __launch_bounds__(32 * WARPS, BLOCKS) rotate_quantize_##NAME##_##WARPS(       \
        const RotateQuantize p) {                                                                            \
        rotate_quantize<OP>(p);                                                                              \
    }
INSTANCE(copy, COPY, 8, 4)
INSTANCE(copy, COPY, 17, 2)
INSTANCE(copy, COPY, 32, 1)
INSTANCE(rms_norm, RMS_NORM, 8, 3)
