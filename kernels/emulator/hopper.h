// Instructions of sm_90a as functions, as in ptx.h: transaction barriers, bulk copies, clusters, warpgroup products.
// Everything asynchronous happens at once, so what a kernel may not touch while it is under way goes unnoticed.
#pragma once
#include "tensor_map.h"

namespace ptx {

// ---- transaction barriers ----

// Their own words are no data that a barrier would have to order.
#define UNCHECKED __attribute__((no_sanitize("thread"), noinline))

// Arrivals of a phase, those still missing, bytes still missing, finished phases modulo 2.
struct TransactionBarrier {
    unsigned all : 12, missing : 12, phase : 1;
    int bytes;
};
UNCHECKED inline TransactionBarrier &transaction_barrier(u32 address) {
    return *reinterpret_cast<TransactionBarrier *>(shared_place(address, 8, "mbarrier"));
}
UNCHECKED inline void settle_barrier(TransactionBarrier &b) {
    if (b.missing != 0 || b.bytes != 0) return;
    b.missing = b.all;
    b.phase ^= 1;
}
UNCHECKED inline void arrive(u32 address, const char *name, u32 count = 1) {
    emulated::emulated_announce(address);
    TransactionBarrier &b = transaction_barrier(address);
    if (b.missing < count) emulated::emulated_fault("%s: more arrivals than the barrier at %u waits for", name, address);
    b.missing -= count & 0xFFF;
    settle_barrier(b);
}
UNCHECKED inline void mbarrier_init_shared_cta_b64(u32 address, u32 arrivals) { transaction_barrier(address) = {arrivals, arrivals, 0, 0}; }
inline void fence_mbarrier_init_release_cluster() {}
UNCHECKED inline void mbarrier_arrive_expect_tx_shared_cta_b64(u32 address, u32 bytes) {
    transaction_barrier(address).bytes += (int)bytes;
    arrive(address, "mbarrier.arrive.expect_tx");
}
inline void mbarrier_arrive_shared_cta_b64(u32 address) { arrive(address, "mbarrier.arrive"); }
UNCHECKED inline void mbarrier_arrive_shared_cluster_b64(u32 address, u32 count) {
    const u32 rank = address >> emulated::RANK_BIT;
    if (rank != 0 && rank - 1 != emulated::current->block->rank) emulated::current->abroad = true;
    arrive(address, "mbarrier.arrive", count);
}
inline void mbarrier_arrive_shared_cluster_b64(u32 address) { mbarrier_arrive_shared_cluster_b64(address, 1); }
UNCHECKED inline void mbarrier_wait_parity(u32 address, u32 parity) {
    for (unsigned turns = 0; transaction_barrier(address).phase == (parity & 1); ++turns) {
        const TransactionBarrier b = transaction_barrier(address);
        if (turns == 1u << 18) {
            emulated::emulated_fault("mbarrier at %u: %u of %u arrivals and %d bytes never come", address, (unsigned)b.missing,
                                     (unsigned)b.all, b.bytes);
        }
        emulated::emulated_pause();
    }
    emulated::emulated_learn(address);
}
UNCHECKED inline void bytes_came(u32 barrier, u32 bytes) {
    TransactionBarrier &b = transaction_barrier(barrier);
    b.bytes -= (int)bytes;
    settle_barrier(b);
}
inline void cp_async_mbarrier_arrive_noinc_shared_cta_b64(u32 address) {
    cp_async_wait_all();
    arrive(address, "cp.async.mbarrier.arrive");
}
UNCHECKED inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(u32 to, u64 from, u32 bytes, u32 barrier) {
    if (bytes == 0 || bytes % 16 || to % 16 || from % 16) emulated::emulated_fault("cp.async.bulk: no multiples of 16");
    shared_place(to, 16, "cp.async.bulk");
    emulated::emulated_bulk(to, reinterpret_cast<const void *>(from), bytes);
    __builtin_memcpy(shared_place(to + bytes - 16, 16, "cp.async.bulk") + 16 - bytes, reinterpret_cast<const void *>(from), bytes);
    emulated::emulated_announce(barrier);
    bytes_came(barrier, bytes);
}

// ---- boxes of matrices ----

using emulated::MatrixMap;
inline const MatrixMap &matrix_map(u64 address, u32 at, const char *name) {
    const MatrixMap &map = *reinterpret_cast<const MatrixMap *>(address);
    if (address % 128 || map.mark != MatrixMap::MARK) emulated::emulated_fault("%s: no tensor map", name);
    if (at % 1024) emulated::emulated_fault("%s: the box at %u is no multiple of 1024", name, at);
    return map;
}
// Calls `with(element in device memory or null, place in shared memory)` for each element of a box.
template <class F>
inline void each_of_box(const MatrixMap &map, u32 at, u32 column, u32 row, const char *name, F with) {
    for (u32 r = 0; r < map.box_rows; ++r) {
        for (u32 c = 0; c < map.box_columns; ++c) {
            const u32 linear = (r * map.box_columns + c) * map.element;
            unsigned char *place = shared_place(at + (linear ^ (linear >> 3 & 0x70)), map.element, name);
            const long long y = (long long)(int)row + r, x = (long long)(int)column + c;
            const bool inside = x >= 0 && y >= 0 && (u64)x < map.columns && (u64)y < map.rows;
            with(inside ? reinterpret_cast<unsigned char *>(map.address + (u64)y * map.pitch + (u64)x * map.element) : nullptr, place);
        }
    }
}
inline void prefetch_tensormap(u64) {}
inline void cp_async_bulk_tensor_2d_shared_cluster_global_tile_mbarrier_complete_tx_bytes(u32 to, u64 from, u32 column, u32 row, u32 barrier) {
    const MatrixMap &map = matrix_map(from, to, "cp.async.bulk.tensor");
    each_of_box(map, to, column, row, "cp.async.bulk.tensor", [&](const unsigned char *element, unsigned char *place) {
        if (element) __builtin_memcpy(place, element, map.element);
        else __builtin_memset(place, 0, map.element);
    });
    emulated::emulated_announce(barrier);
    bytes_came(barrier, map.box_rows * map.box_columns * map.element);
}
inline void cp_async_bulk_tensor_2d_global_shared_cta_tile_bulk_group(u64 to, u32 column, u32 row, u32 from) {
    const MatrixMap &map = matrix_map(to, from, "cp.async.bulk.tensor");
    each_of_box(map, from, column, row, "cp.async.bulk.tensor", [&](unsigned char *element, const unsigned char *place) {
        if (element) __builtin_memcpy(element, place, map.element);
    });
}
inline void cp_reduce_async_bulk_tensor_2d_global_shared_cta_add_tile_bulk_group(u64 to, u32 column, u32 row, u32 from) {
    const MatrixMap &map = matrix_map(to, from, "cp.reduce.async.bulk.tensor");
    if (map.element != 4) emulated::emulated_fault("cp.reduce.async.bulk.tensor: float32 alone");
    each_of_box(map, from, column, row, "cp.reduce.async.bulk.tensor", [&](unsigned char *element, const unsigned char *place) {
        if (!element) return;
        float x, y;
        __builtin_memcpy(&x, element, 4);
        __builtin_memcpy(&y, place, 4);
        add_rn_ftz_f32(x, x, y);
        __builtin_memcpy(element, &x, 4);
    });
}
inline void cp_async_bulk_commit_group() {}
inline void cp_async_bulk_wait_group(long long) {}
inline void cp_async_bulk_wait_group_read(long long) {}

// ---- clusters ----

inline u32 cluster_ctarank() { return emulated::current->block->rank; }
inline u32 cluster_nctarank() { return emulated::current->block->ranks; }
inline void mapa_shared_cluster_u32(u32 &d, u32 address, u32 rank) {
    const u32 ranks = emulated::current->block->ranks;
    if (rank >= ranks) emulated::emulated_fault("mapa: block %u of a cluster of %u", rank, ranks);
    d = address | (rank + 1) << emulated::RANK_BIT;
}
// To the same place of every block that the mask names, counted by the barrier there.
inline void cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes_multicast_cluster(u32 to, u64 from, u32 bytes, u32 barrier,
                                                                                             u16 mask) {
    for (u32 rank = 0; rank < 16; ++rank) {
        if (!(mask >> rank & 1)) continue;
        u32 there, counted;
        mapa_shared_cluster_u32(there, to, rank);
        mapa_shared_cluster_u32(counted, barrier, rank);
        cp_async_bulk_shared_cluster_global_mbarrier_complete_tx_bytes(there, from, bytes, counted);
    }
}
inline void ld_shared_cluster_v4_f32(float &x, float &y, float &z, float &w, u32 from) { ld_shared_v4_f32(x, y, z, w, from); }
inline void barrier_cluster_arrive_relaxed_aligned() { emulated::emulated_cluster_arrive(false); }
inline void barrier_cluster_arrive_release_aligned() { emulated::emulated_cluster_arrive(true); }
inline void barrier_cluster_wait_acquire_aligned() { emulated::emulated_cluster_wait(); }

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
// Every E4M3 code as a number.
struct Numbers {
    float of[256];
    Numbers() {
        for (u32 code = 0; code < 256; ++code) {
            const u32 e = code >> 3 & 15, m = code & 7;
            float x = e ? __builtin_ldexpf((float)(m + 8), (int)e - 10) : __builtin_ldexpf((float)m, -9);
            if ((code & 0x7F) == 0x7F) x = __builtin_nanf("");
            of[code] = code & 0x80 ? -x : x;
        }
    }
};
inline const Numbers e4m3_numbers;
inline void operand_row(float (&row)[32], u64 descriptor, int r) {
    for (int k = 0; k < 32; ++k) row[k] = e4m3_numbers.of[(u8)operand_byte(descriptor, r, k)];
}
inline void wgmma_e4m3_work(void *const *lanes, unsigned participants) {
    if (participants != ~0u) emulated::emulated_fault("wgmma: not all lanes of the warp are here");
    const WarpgroupRealProduct &first = *static_cast<const WarpgroupRealProduct *>(lanes[0]);
    const int warp = (int)(emulated::current->number / 32) & 3;
    float a[16][32];
    for (int r = 0; r < 16; ++r) operand_row(a[r], first.a, warp * 16 + r);
    for (int n = 0; n < first.n; ++n) {
        float b[32];
        operand_row(b, first.b, n);
        for (int r = 0; r < 16; ++r) {
            float sum = 0.f;
            for (int k = 0; k < 32; ++k) sum += a[r][k] * b[k];
            const WarpgroupRealProduct &own = *static_cast<const WarpgroupRealProduct *>(lanes[(r & 7) * 4 + (n & 7) / 2]);
            float &d = *own.d[n / 8 * 4 + (r >> 3) * 2 + (n & 1)];
            d = (own.keep ? d : 0.f) + sum;
        }
    }
}
inline constexpr Collective wgmma_e4m3_collective = {"wgmma e4m3", wgmma_e4m3_work};
inline void wgmma_e4m3(float *const *d, int registers, u64 a, u64 b, u32 keep) {
    WarpgroupRealProduct own = {d, registers * 2, a, b, keep};
    emulated::emulated_collective(~0u, &wgmma_e4m3_collective, &own);
}
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

// The first operand in registers, of binary16 or bfloat16.
struct WarpgroupRegisterProduct {
    float *const *d;
    int n;
    u32 a[4];
    u64 b;
    u32 keep;
    bool transposed, brain;
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
inline void half_number(float &to, u16 bits, bool brain) {
    if (brain) to = number((u32)bits << 16);
    else cvt_f32_f16(to, bits);
}
inline void wgmma_f16_work(void *const *lanes, unsigned participants) {
    if (participants != ~0u) emulated::emulated_fault("wgmma: not all lanes of the warp are here");
    const WarpgroupRegisterProduct &first = *static_cast<const WarpgroupRegisterProduct *>(lanes[0]);
    float a[16][16];
    for (int l = 0; l < 32; ++l) {
        const WarpgroupRegisterProduct &own = *static_cast<const WarpgroupRegisterProduct *>(lanes[l]);
        for (int i = 0; i < 8; ++i) {
            float &to = a[(l >> 2) + (i >> 1 & 1) * 8][(l & 3) * 2 + (i >> 2) * 8 + (i & 1)];
            half_number(to, (u16)(own.a[i >> 1] >> (i & 1) * 16), first.brain);
        }
    }
    for (int n = 0; n < first.n; ++n) {
        float b[16];
        for (int k = 0; k < 16; ++k) {
            u16 bits;
            __builtin_memcpy(&bits, shared_place(operand_place(first.b, n, k, first.transposed), 2, "wgmma"), 2);
            half_number(b[k], bits, first.brain);
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
inline void wgmma_f16(float *const *d, int registers, u32 a0, u32 a1, u32 a2, u32 a3, u64 b, u32 keep, bool transposed, bool brain) {
    WarpgroupRegisterProduct own = {d, registers * 2, {a0, a1, a2, a3}, b, keep, transposed, brain};
    emulated::emulated_collective(~0u, &wgmma_f16_collective, &own);
}

} // namespace ptx
