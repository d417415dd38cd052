// Instructions of sm_90a as functions, as in ptx.h: transaction barriers, bulk copies, warpgroup products. Blocks run one by
// one, so a cluster has one block only. Everything asynchronous happens at once, so what a kernel may not touch while it is
// under way goes unnoticed.
#pragma once

namespace ptx {

// ---- transaction barriers ----

// Arrivals of a phase, those still missing, bytes still missing, finished phases modulo 2.
struct TransactionBarrier {
    unsigned all : 12, missing : 12, phase : 1;
    int bytes;
};
inline TransactionBarrier &transaction_barrier(u32 address) {
    return *reinterpret_cast<TransactionBarrier *>(shared_place(address, 8, "mbarrier"));
}
inline void settle_barrier(TransactionBarrier &b) {
    if (b.missing != 0 || b.bytes != 0) return;
    b.missing = b.all;
    b.phase ^= 1;
}
inline void arrive(u32 address, const char *name) {
    TransactionBarrier &b = transaction_barrier(address);
    if (b.missing == 0) emulated::emulated_fault("%s: more arrivals than the barrier at %u waits for", name, address);
    --b.missing;
    settle_barrier(b);
}
inline void mbarrier_init_shared_cta_b64(u32 address, u32 arrivals) { transaction_barrier(address) = {arrivals, arrivals, 0, 0}; }
inline void fence_mbarrier_init_release_cluster() {}
inline void mbarrier_arrive_expect_tx_shared_cta_b64(u32 address, u32 bytes) {
    transaction_barrier(address).bytes += (int)bytes;
    arrive(address, "mbarrier.arrive.expect_tx");
}
inline void mbarrier_arrive_shared_cta_b64(u32 address) { arrive(address, "mbarrier.arrive"); }
inline void mbarrier_arrive_shared_cluster_b64(u32 address) { arrive(address, "mbarrier.arrive"); }
inline void mbarrier_wait_parity(u32 address, u32 parity) {
    for (unsigned turns = 0; transaction_barrier(address).phase == (parity & 1); ++turns) {
        const TransactionBarrier b = transaction_barrier(address);
        if (turns == 1u << 18) {
            emulated::emulated_fault("mbarrier at %u: %u of %u arrivals and %d bytes never come", address, (unsigned)b.missing,
                                     (unsigned)b.all, b.bytes);
        }
        emulated::emulated_pause();
    }
}
inline void cp_async_mbarrier_arrive_noinc_shared_cta_b64(u32 address) {
    cp_async_wait_all();
    arrive(address, "cp.async.mbarrier.arrive");
}
inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(u32 to, u64 from, u32 bytes, u32 barrier) {
    if (bytes == 0 || bytes % 16 || to % 16 || from % 16) emulated::emulated_fault("cp.async.bulk: no multiples of 16");
    shared_place(to, 16, "cp.async.bulk");
    __builtin_memcpy(shared_place(to + bytes - 16, 16, "cp.async.bulk") + 16 - bytes, reinterpret_cast<const void *>(from), bytes);
    TransactionBarrier &b = transaction_barrier(barrier);
    b.bytes -= (int)bytes;
    settle_barrier(b);
}

// ---- clusters of one block ----

inline u32 cluster_ctarank() { return 0; }
inline u32 cluster_nctarank() { return 1; }
inline void mapa_shared_cluster_u32(u32 &d, u32 address, u32 rank) {
    if (rank != 0) emulated::emulated_fault("mapa: block %u of a cluster of one", rank);
    d = address;
}
inline void barrier_cluster_arrive_relaxed_aligned() {}
inline void barrier_cluster_arrive_release_aligned() {}
inline void barrier_cluster_wait_acquire_aligned() {}

// ---- the rest ----

inline u32 elect_sync() { return laneid() == 0; }
inline void setmaxnreg_inc_sync_aligned_u32(long long) {}
inline void setmaxnreg_dec_sync_aligned_u32(long long) {}
inline void ld_acquire_gpu_global_u32(u32 &d, u64 from) { d = __atomic_load_n(reinterpret_cast<const u32 *>(from), __ATOMIC_SEQ_CST); }
inline void st_release_gpu_global_u32(u64 to, long long x) { __atomic_store_n(reinterpret_cast<u32 *>(to), (u32)x, __ATOMIC_SEQ_CST); }

// ---- warpgroup products: each warp its sixteen rows ----

inline void wgmma_fence_sync_aligned() {}
inline void wgmma_commit_group_sync_aligned() {}
inline void wgmma_wait_group_sync_aligned(long long) {}

struct WarpgroupProduct {
    u32 *const *d; // N / 2 registers
    int n;
    u64 a, b;
    u32 keep;
};
// Byte `k` of row `r` of an operand with the 128-byte swizzle.
inline int operand_byte(u64 descriptor, int r, int k) {
    if ((descriptor >> 62) != 1 || (descriptor >> 32 & 0x3FFF) != 64) emulated::emulated_fault("wgmma: another layout");
    const u32 linear = ((u32)(descriptor & 0x3FFF) << 4) + (u32)(r >> 3) * 1024 + (u32)(r & 7) * 128 + (u32)k;
    return (signed char)*shared_place(linear ^ (linear >> 3 & 0x70), 1, "wgmma");
}
inline void wgmma_s8_work(void *const *lanes, unsigned participants) {
    if (participants != ~0u) emulated::emulated_fault("wgmma: not all lanes of the warp are here");
    const WarpgroupProduct &first = *static_cast<const WarpgroupProduct *>(lanes[0]);
    const int warp = (int)(emulated::current->number / 32) & 3;
    int a[16][32];
    for (int r = 0; r < 16; ++r) {
        for (int k = 0; k < 32; ++k) a[r][k] = operand_byte(first.a, warp * 16 + r, k);
    }
    for (int n = 0; n < first.n; ++n) {
        int b[32];
        for (int k = 0; k < 32; ++k) b[k] = operand_byte(first.b, n, k);
        for (int r = 0; r < 16; ++r) {
            int sum = 0;
            for (int k = 0; k < 32; ++k) sum += a[r][k] * b[k];
            const WarpgroupProduct &own = *static_cast<const WarpgroupProduct *>(lanes[(r & 7) * 4 + (n & 7) / 2]);
            u32 &d = *own.d[n / 8 * 4 + (r >> 3) * 2 + (n & 1)];
            d = (own.keep ? d : 0) + (u32)sum;
        }
    }
}
inline constexpr Collective wgmma_s8_collective = {"wgmma s8", wgmma_s8_work};
inline void wgmma_s8(u32 *const *d, int registers, u64 a, u64 b, u32 keep) {
    WarpgroupProduct own = {d, registers * 2, a, b, keep};
    emulated::emulated_collective(~0u, &wgmma_s8_collective, &own);
}

struct WarpgroupRealProduct {
    float *const *d;
    int n;
    u64 a, b;
    u32 keep;
};
inline float operand_half(u64 descriptor, int r, int k) {
    const u32 low = (u32)(u8)operand_byte(descriptor, r, 2 * k), high = (u32)(u8)operand_byte(descriptor, r, 2 * k + 1);
    return number((high << 8 | low) << 16);
}
inline void wgmma_bf16_work(void *const *lanes, unsigned participants) {
    if (participants != ~0u) emulated::emulated_fault("wgmma: not all lanes of the warp are here");
    const WarpgroupRealProduct &first = *static_cast<const WarpgroupRealProduct *>(lanes[0]);
    const int warp = (int)(emulated::current->number / 32) & 3;
    float a[16][16];
    for (int r = 0; r < 16; ++r) {
        for (int k = 0; k < 16; ++k) a[r][k] = operand_half(first.a, warp * 16 + r, k);
    }
    for (int n = 0; n < first.n; ++n) {
        float b[16];
        for (int k = 0; k < 16; ++k) b[k] = operand_half(first.b, n, k);
        for (int r = 0; r < 16; ++r) {
            float sum = 0.f;
            for (int k = 0; k < 16; ++k) sum += a[r][k] * b[k];
            const WarpgroupRealProduct &own = *static_cast<const WarpgroupRealProduct *>(lanes[(r & 7) * 4 + (n & 7) / 2]);
            float &d = *own.d[n / 8 * 4 + (r >> 3) * 2 + (n & 1)];
            d = (own.keep ? d : 0.f) + sum;
        }
    }
}
inline constexpr Collective wgmma_bf16_collective = {"wgmma bf16", wgmma_bf16_work};
inline void wgmma_bf16(float *const *d, int registers, u64 a, u64 b, u32 keep) {
    WarpgroupRealProduct own = {d, registers * 2, a, b, keep};
    emulated::emulated_collective(~0u, &wgmma_bf16_collective, &own);
}

// The first operand in registers, of binary16.
struct WarpgroupRegisterProduct {
    float *const *d;
    int n;
    u32 a[4];
    u64 b;
    u32 keep;
    bool transposed;
};
// Element `k`, `n` of a second operand whose rows run along the sum: 64 columns are a leading offset apart.
inline u32 operand_place(u64 descriptor, int n, int k, bool transposed) {
    if ((descriptor >> 62) != 1 || (descriptor >> 32 & 0x3FFF) != 64) emulated::emulated_fault("wgmma: another layout");
    const int row = transposed ? k : n, column = transposed ? n & 63 : k;
    const u32 panel = transposed ? (u32)(n >> 6) * ((u32)(descriptor >> 16 & 0x3FFF) << 4) : 0;
    const u32 start = (u32)(descriptor & 0x3FFF) << 4;
    const u32 linear = start + panel + (u32)(row >> 3) * 1024 + (u32)(row & 7) * 128 + (u32)column * 2;
    return linear ^ (linear >> 3 & 0x70);
}
inline void wgmma_f16_work(void *const *lanes, unsigned participants) {
    if (participants != ~0u) emulated::emulated_fault("wgmma: not all lanes of the warp are here");
    const WarpgroupRegisterProduct &first = *static_cast<const WarpgroupRegisterProduct *>(lanes[0]);
    float a[16][16];
    for (int l = 0; l < 32; ++l) {
        const WarpgroupRegisterProduct &own = *static_cast<const WarpgroupRegisterProduct *>(lanes[l]);
        for (int i = 0; i < 8; ++i) {
            float &to = a[(l >> 2) + (i >> 1 & 1) * 8][(l & 3) * 2 + (i >> 2) * 8 + (i & 1)];
            cvt_f32_f16(to, (u16)(own.a[i >> 1] >> (i & 1) * 16));
        }
    }
    for (int n = 0; n < first.n; ++n) {
        float b[16];
        for (int k = 0; k < 16; ++k) {
            u16 bits;
            __builtin_memcpy(&bits, shared_place(operand_place(first.b, n, k, first.transposed), 2, "wgmma"), 2);
            cvt_f32_f16(b[k], bits);
        }
        for (int r = 0; r < 16; ++r) {
            float sum = 0.f;
            for (int k = 0; k < 16; ++k) sum += a[r][k] * b[k];
            const WarpgroupRegisterProduct &own = *static_cast<const WarpgroupRegisterProduct *>(lanes[(r & 7) * 4 + (n & 7) / 2]);
            float &d = *own.d[n / 8 * 4 + (r >> 3) * 2 + (n & 1)];
            d = (own.keep ? d : 0.f) + sum;
        }
    }
}
inline constexpr Collective wgmma_f16_collective = {"wgmma f16", wgmma_f16_work};
inline void wgmma_f16(float *const *d, int registers, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, u32 keep, bool transposed) {
    WarpgroupRegisterProduct own = {d, registers * 2, {a0, a1, a2, a3}, b, keep, transposed};
    emulated::emulated_collective(~0u, &wgmma_f16_collective, &own);
}

} // namespace ptx
