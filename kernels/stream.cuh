// Products cut along k where whole tiles do not fill the chip: exact sums may be made in parts by several blocks.
//
// Of all items of a launch the first `streamed` are laid end to end, and every cluster takes an equal stretch of their
// k-blocks; the others are taken whole. A cluster whose stretch starts inside an item adds up that part first and leaves its
// sums in memory; the cluster that has the item's first k-block (its last part of the stretch) collects them and finishes.
// Stretches are dealt out from the last cluster to the first, so that a block only ever waits for blocks before it.
#pragma once
#include "pipeline.cuh"

// The pieces of a block's work: the k-blocks `from` to `to` of an item. Pieces with `from` > 0 are parts to be collected.
struct Pieces {
    int item, from, to;
    int at, end;                                   // what is left of the stretch, in k-blocks of the streamed items
    int whole;                                     // the next item taken whole
    int k_blocks, streamed, total, clusters, rank; // rank: the stretch

    __device__ __forceinline__ Pieces(const Schedule &schedule, int k_blocks, bool stream)
        : k_blocks(k_blocks), total(schedule.total), clusters(schedule.step), rank(schedule.step - 1 - schedule.first) {
        // What is beyond whole rounds, and one round with it, so that few clusters meet in an item.
        const int rest = total % clusters;
        streamed = !stream || rest == 0 ? 0 : total < clusters ? total : rest + clusters;
        at = start_of(rank);
        end = start_of(rank + 1);
        whole = streamed + schedule.first;
        place();
    }
    __device__ __forceinline__ int start_of(int stretch) const {
        return (int)((long long)streamed * k_blocks * stretch / clusters);
    }
    __device__ __forceinline__ bool more() const { return item < total; }
    __device__ __forceinline__ void next() {
        if (at < end) at += to - from;
        else whole += clusters;
        place();
    }
    __device__ __forceinline__ void place() {
        if (at < end) {
            item = at / k_blocks;
            from = at - item * k_blocks;
            to = min_of(k_blocks, from + end - at);
        } else {
            item = whole;
            from = 0;
            to = k_blocks;
        }
    }
    // The same without the parts that others finish.
    __device__ __forceinline__ void skip_parts() {
        while (more() && from > 0) next();
    }
    // Calls `with(cluster)` for every cluster that has a later part of this item.
    template <class F>
    __device__ __forceinline__ void others(F with) const {
        if (to == k_blocks) return;
        const int item_end = (item + 1) * k_blocks;
#pragma unroll 1
        for (int r = rank + 1; r < clusters && start_of(r) < item_end; ++r) {
            if (start_of(r) < start_of(r + 1)) with(clusters - 1 - r);
        }
    }
};

// Says to other blocks that what this thread, and those that met it, wrote to device memory is there.
DEVICE void raise_flag(u32 *flag) { asm volatile("st.release.gpu.global.u32 [%0], 1;" ::"l"(flag) : "memory"); }
// Waits for it, and lowers the flag for its next use.
DEVICE void await_flag(u32 *flag) {
    u32 raised;
    for (;;) {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(raised) : "l"(flag) : "memory");
        if (raised) break;
        __nanosleep(40);
    }
    *flag = 0;
}
