// Shared-memory barriers with transaction counts, bulk copies, clusters (sm_90).
#pragma once
#include "base.cuh"

DEVICE void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes initialised barriers visible to the copy engine and to the other blocks of the cluster.
DEVICE void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// One arrival that also announces `bytes` still to come.
DEVICE void barrier_expect(u32 barrier, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
DEVICE void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// The same on a barrier anywhere in the cluster (address_at). Without cluster-wide release: it says that the tensor core is
// done reading a stage, and publishes no data, so the costly fence has nothing to order.
DEVICE void barrier_arrive_remote(u32 remote) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(remote) : "memory");
}
// The same, `arrivals` of them at once.
DEVICE void barrier_arrive_remote(u32 remote, u32 arrivals) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0], %1;" ::"r"(remote), "r"(arrivals) : "memory");
}
// Waits until the phase of this parity is complete.
DEVICE void barrier_wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@done bra finished;\nbra again;\nfinished:\n}\n" ::"r"(
                     barrier),
                 "r"(parity)
                 : "memory");
}
// Contiguous bytes (a multiple of 16) from device memory; `barrier` counts them down.
DEVICE void bulk_copy(u32 to, const void *from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
// The same to this address, counted by the barrier at this address, in every block of the cluster that `mask` names.
DEVICE void bulk_copy_to_all(u32 to, const void *from, u32 bytes, u32 barrier, u16 mask) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, "
                 "[%3], %4;" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier), "h"(mask)
                 : "memory");
}

// Arrives once this thread's copies of mma.cuh have.
DEVICE void arrive_after_copies(u32 barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// True in one lane of a converged warp, known to the compiler to be one.
DEVICE bool elected() {
    u32 yes;
    asm volatile("{\n.reg .pred yes;\nelect.sync _|yes, 0xFFFFFFFF;\nselp.u32 %0, 1, 0, yes;\n}\n" : "=r"(yes));
    return yes;
}

DEVICE u32 cluster_rank() {
    u32 rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
DEVICE u32 cluster_size() {
    u32 size;
    asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
    return size;
}
// All threads of all blocks of the cluster, in converged warps. Makes nothing visible: barriers were made so by their own
// fence. For the start alone.
DEVICE void cluster_meet() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The same, and what was written to shared memory before is visible to the others after. Blocks that arrive on each other's
// barriers end with it: an arrival still on its way would come to shared memory that is the next kernel's by then.
DEVICE void cluster_exchange() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Four floats at an address of address_at.
DEVICE float4 load4_remote(u32 remote) {
    float4 v;
    asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(remote)
                 : "memory");
    return v;
}
// Address of a shared-memory location in a block of the cluster.
DEVICE u32 address_at(u32 address, u32 rank) {
    u32 remote;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
    return remote;
}

// Registers a thread of this warpgroup may hold from here on.
template <int REGISTERS>
DEVICE void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
template <int REGISTERS>
DEVICE void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
}
