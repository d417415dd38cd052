// Weights of later products on their way to the second-level cache while device memory has nothing else to do (sm_90).
#pragma once
#include "base.cuh"

// Blocks from `first` on do nothing else; there are none where nothing is asked for.
struct Ahead {
    const u8 *weights;
    u32 bytes; // a multiple of 16
    int first;
    int late; // only once the kernel before has ended
    int pad;
};

#define AHEAD_PIECE 16384u // bytes asked for by one instruction

DEVICE void prefetch_to_cache(const void *from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// True in the blocks that only ask for weights; pieces are asked for in the order in which they lie. No kernel writes
// weights, so this may come before the wait.
DEVICE bool asked_ahead(const Ahead &ahead) {
    const int block = (int)blockIdx.x - ahead.first;
    if (block < 0) return false;
    if (ahead.late) wait_for_predecessor();
    if (threadIdx.x == 0) {
        const u64 step = (u64)(gridDim.x - ahead.first) * AHEAD_PIECE;
        for (u64 at = (u64)block * AHEAD_PIECE; at < ahead.bytes; at += step) {
            const u64 left = ahead.bytes - at;
            prefetch_to_cache(ahead.weights + at, left < AHEAD_PIECE ? (u32)left : AHEAD_PIECE);
        }
    }
    if (!ahead.late) wait_for_predecessor();
    return true;
}
