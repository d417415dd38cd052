// Boxes of a matrix in device memory, moved by the copy engine (sm_90): what lies outside of the matrix comes as zeros and is
// not written. A box is 32 words wide; it lies in shared memory as its rows one after the other, 128 bytes each, the sixteen-
// byte chunks of a row permuted as in tile.cuh (chunk c of row r stands at c ^ (r & 7)), from a multiple of 1024 on.
#pragma once
#include "base.cuh"

// The driver's description of the matrix and the box: a kernel's parameter, read where it lies.
struct __align__(128) TensorMap {
    u64 opaque[16];
};

DEVICE void tensor_map_prefetch(const TensorMap *map) { asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory"); }

// The box whose first element is `column` of `row`; `barrier` counts all its bytes down, those of zeros too.
DEVICE void box_load(u32 to, const TensorMap *map, int column, int row, u32 barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to),
                 "l"(map), "r"(column), "r"(row), "r"(barrier)
                 : "memory");
}
// To device memory, in this thread's open group. What threads wrote to the box before: each of them fences, and meets this
// thread after.
DEVICE void box_store(const TensorMap *map, int column, int row, u32 from) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(column),
                 "r"(row), "r"(from)
                 : "memory");
}
// The same, added to what is there: float32, rounded once, subnormal operands and results flushed (add_flushed).
DEVICE void box_add(const TensorMap *map, int column, int row, u32 from) {
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map),
                 "r"(column), "r"(row), "r"(from)
                 : "memory");
}
DEVICE void commit_boxes() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
// Until all groups of this thread have read their boxes; until they have written too.
DEVICE void wait_boxes_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
DEVICE void wait_boxes() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

// What this thread wrote to shared memory before is there for the copy engine after a barrier.
DEVICE void fence_for_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
