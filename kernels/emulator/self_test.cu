// Kernels for the emulator's own test (self_test.cpp): one that must give the right numbers, and some that must be caught.
#include "base.cuh"
#include "mma.cuh"
#include "mbarrier.cuh"

enum { RIGHT, BARRIERS, NEVER_MET, DIVERGED, BAD_ADDRESS, UNKNOWN_INSTRUCTION, BEYOND_MEMORY, RACE, UNFINISHED_COPY, CLUSTER, LATE_ARRIVAL };

struct SelfTest {
    const u8 *a, *b; // signed bytes [16][32] and [8][32]
    int *out;        // [16][8]
    int what, pad;
};

DEVICE void product_s8(int (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// out = 1 + a b^T, and a mark at out[0] when matrices or lanes are exchanged wrongly.
DEVICE void right(const SelfTest &p) {
    __shared__ __align__(128) u8 rows[16 * 32], turned[16 * 32];
    const int lane = lane_id();
    for (int i = lane; i < 16 * 32; i += 32) rows[i] = p.a[i];
    __syncwarp();
    u32 a[4], b[2], there[4], back[4];
    load_matrices(a, shared_address(rows) + (lane & 15) * 32 + (lane >> 4) * 16);
    for (int i = 0; i < 2; ++i) b[i] = *reinterpret_cast<const u32 *>(p.b + (lane >> 2) * 32 + i * 16 + (lane & 3) * 4);
    int d[4] = {1, 1, 1, 1};
    product_s8(d, a, b[0], b[1]);
    for (int e = 0; e < 4; ++e) p.out[((lane >> 2) + (e >> 1) * 8) * 8 + (lane & 3) * 2 + (e & 1)] = d[e];

    load_matrices(there, shared_address(rows) + lane * 16);
    store_matrices_transposed(shared_address(turned) + lane * 16, there[0], there[1], there[2], there[3]);
    __syncwarp();
    load_matrices_transposed(back, shared_address(turned) + lane * 16);
    bool good = back[0] == there[0] && back[1] == there[1] && back[2] == there[2] && back[3] == there[3];
    good = good && __ballot_sync(~0u, lane & 1) == 0xAAAAAAAAu && __reduce_max_sync(~0u, lane * 3) == 93;
    good = good && __shfl_sync(~0u, lane, 7) == 7 && __shfl_up_sync(~0u, lane, 1) == max_of(lane - 1, 0);
    if (lane < 16) good = good && __shfl_xor_sync(0xFFFFu, lane, 15) == 15 - lane;
    if (!__all_sync(~0u, good)) p.out[0] = -1;
}

extern "C" __global__ void __launch_bounds__(256) self_test(const SelfTest p) {
    extern __shared__ __align__(128) u8 memory[]; // 256 bytes
    const int lane = lane_id(), warp = warp_id();
    switch (p.what) {
        case RIGHT:
            if (warp == 0) right(p);
            break;
        case BARRIERS: // each half meets, one warp leaves, the others meet
            meet_group(warp / 4);
            if (warp == 7) return;
            __syncthreads();
            if (threadIdx.x == 0) p.out[0] = 42;
            break;
        case NEVER_MET:
            if (threadIdx.x < 100) __syncthreads();
            else meet_group(0);
            break;
        case DIVERGED:
            if (lane < 5) __syncwarp();
            else __ballot_sync(~0u, 1);
            break;
        case BAD_ADDRESS: *reinterpret_cast<int *>((u64)p.pad + 16) = 1; break;
        case UNKNOWN_INSTRUCTION: asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); break;
        case BEYOND_MEMORY:
            if (threadIdx.x < 129) p.out[threadIdx.x] = 0;
            break;
        case RACE: // every thread reads what its neighbour writes
            memory[threadIdx.x] = 1;
            p.out[threadIdx.x & 127] = memory[(threadIdx.x + 1) & 255];
            break;
        case UNFINISHED_COPY: // NaN until the wait
            if (threadIdx.x == 0) {
                copy16(shared_address(memory), p.a);
                commit_copies();
                p.out[0] = *reinterpret_cast<const int *>(memory);
                wait_copies<0>();
                p.out[1] = *reinterpret_cast<const int *>(memory);
            }
            break;
        case CLUSTER:      // two blocks: each arrives at the other's barrier
        case LATE_ARRIVAL: // and ends without knowing that the other's arrival has come
#if __CUDA_ARCH__ >= 900
            {
                const u32 barrier = shared_address(memory);
                if (threadIdx.x == 0) {
                    barrier_init(barrier, 1);
                    barrier_init_fence();
                }
                cluster_meet();
                if (threadIdx.x == 0) barrier_arrive_remote(address_at(barrier, cluster_rank() ^ 1));
                if (p.what == CLUSTER) {
                    barrier_wait(barrier, 0);
                    if (threadIdx.x == 0) p.out[cluster_rank()] = 42;
                    cluster_exchange();
                } else {
                    cluster_meet();
                }
            }
#endif
            break;
    }
}
