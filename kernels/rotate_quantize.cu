// RotateQuantize of rows as they are, and of rows normed around zero: the row rounded to bfloat16, rotated, and INT8 codes
// with one scale.
//
//   grid    any number of blocks, which walk over the rows; a warp for each 1024 columns, at most as many as the instance
//           says; width a multiple of 16
//   shared  for each warp ROOM_BYTES, 4096 for normed rows, and 4096 (float32) or 2048 (bfloat16) for the next row
//   groups  from 4 to 256 in blocks of 17 warps at most, else any
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
// Blocks of a multiprocessor; Ada's compiler needs a few registers more than Hopper's.
#if __CUDA_ARCH__ >= 900
#define FOUR 4
#define TWO 2
#else
#define FOUR 3
#define TWO 1
#endif
INSTANCE(copy_f32, COPY, F32, 8, FOUR)
INSTANCE(copy_f32, COPY, F32, 32, 1)
INSTANCE(copy_bf16, COPY, BF16, 8, FOUR)
INSTANCE(copy_bf16, COPY, BF16, 17, TWO)
INSTANCE(copy_bf16, COPY, BF16, 32, 1)
INSTANCE(rms_norm, RMS_NORM, F32, 8, 3)
