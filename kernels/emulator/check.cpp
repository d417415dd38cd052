#include "check.h"
#include "block.h"

namespace emulated {
namespace {

constexpr uint16_t SEVERAL = 0xFFFF;

} // namespace

Checker::Checker() : cells(MOST_SHARED) {}

void Checker::begin(const Block &block, unsigned warps, const Launch &launch, const unsigned char *stacks, size_t stack_bytes) {
    memory = block.shared;
    memory_bytes = block.shared_bytes;
    stack = stacks;
    stack_length = stack_bytes;
    for (unsigned w = 0; w < warps; ++w) read_clocks[w].resize(MOST_SHARED);
    // All that was before is known to all.
    ++time;
    for (unsigned w = 0; w < warps; ++w) {
        for (unsigned o = 0; o < 32; ++o) known[w][o] = time - 1; // blocks before may have had more warps
        known[w][w] = time;
    }
    announced.clear();
    own_count = 0;
    auto add = [&](const void *from, size_t bytes) {
        if (own_count == 8) return;
        const uintptr_t at = reinterpret_cast<uintptr_t>(from);
        own[own_count++] = {at, at + bytes};
    };
    add(&emulated::current, sizeof emulated::current);
    add(emulated::current - emulated::current->number, MOST_THREADS * sizeof(Fiber));
    add(emulated::current->warp - emulated::current->number / 32, MOST_WARPS * sizeof(Warp));
    add(&block, sizeof block);
    add(block.cluster, block.ranks * sizeof *block.cluster);
    add(launch.image, launch.image_bytes);
    for (unsigned i = 0; i < launch.kernel->parameters; ++i) add(launch.parameters[i], launch.kernel->parameter_bytes[i]);
    add(launch.parameters, launch.kernel->parameters * sizeof(void *));
    for (Range &r : last) r = {0, 0};
}

void Checker::meet(unsigned came, const unsigned *waiting, unsigned warps) {
    uint32_t all[32] = {};
    for (unsigned w = 0; w < warps; ++w) {
        if (!(came >> w & 1)) continue;
        for (unsigned o = 0; o < warps; ++o) all[o] = known[w][o] > all[o] ? known[w][o] : all[o];
    }
    // All that those who came have done is known: clocks are of one time for all.
    for (unsigned w = 0; w < warps; ++w) {
        if (came >> w & 1) all[w] = time;
    }
    ++time;
    for (unsigned w = 0; w < warps; ++w) {
        // What a warp does after an arrival is not what it announced.
        if (came >> w & 1) known[w][w] = time;
        if (!waiting[w]) continue;
        for (unsigned o = 0; o < warps; ++o) {
            if (o != w) known[w][o] = all[o];
        }
    }
}

void Checker::meet_warp(unsigned warp) { known[warp][warp] = ++time; }

void Checker::announce(unsigned barrier, unsigned warp) {
    Announced &all = announced.emplace(barrier, Announced{}).first->second;
    for (unsigned o = 0; o < 32; ++o) all.clock[o] = known[warp][o] > all.clock[o] ? known[warp][o] : all.clock[o];
    // What the warp does from here on it did not announce.
    known[warp][warp] = ++time;
}

void Checker::learn(unsigned barrier, unsigned warp) {
    const auto found = announced.find(barrier);
    if (found == announced.end()) return;
    for (unsigned o = 0; o < 32; ++o) {
        if (o != warp && found->second.clock[o] > known[warp][o]) known[warp][o] = found->second.clock[o];
    }
}

// Whether what `warp` did at `clock` is known to `own_warp`.
bool Checker::before(uint32_t clock, unsigned warp, unsigned own_warp) const {
    return warp == own_warp ? known[own_warp][warp] > clock : known[own_warp][warp] >= clock;
}

void Checker::shared(unsigned at, unsigned bytes, bool write, unsigned thread) {
    const unsigned warp = thread / 32;
    const uint32_t now = known[warp][warp];
    for (unsigned i = at; i < at + bytes; ++i) {
        Cell &c = cells[i];
        if (c.write_clock && c.writer != thread && !before(c.write_clock, c.writer / 32u, warp)) {
            emulated_fault("race: byte %u of shared memory is %s by thread %u, and was written by thread %u without a barrier "
                           "between", i, write ? "written" : "read", thread, c.writer);
        }
        bool all_before = true;
        for (unsigned left = c.readers; left; left &= left - 1) {
            const unsigned reader = (unsigned)__builtin_ctz(left);
            all_before = all_before && before(read_clocks[reader][i], reader, warp);
        }
        const bool alone = c.reader == thread;
        if (write) {
            if (!alone && !all_before) {
                emulated_fault("race: byte %u of shared memory is written by thread %u, and was read by thread %d (warps %08x) "
                               "without a barrier between", i, thread, c.reader == SEVERAL ? -1 : (int)c.reader, c.readers);
            }
            c = {now, 0, (uint16_t)thread, SEVERAL};
            continue;
        }
        if (c.readers == 0 || all_before || alone) {
            c.readers = 1u << warp;
            c.reader = (uint16_t)thread;
        } else {
            c.readers |= 1u << warp;
            c.reader = SEVERAL;
        }
        read_clocks[warp][i] = now;
    }
}

void Checker::device(uintptr_t at, size_t bytes, bool write) {
    for (unsigned i = 0; i < own_count; ++i) {
        if (at >= own[i].from && at + bytes <= own[i].to) return;
    }
    for (const Range &r : last) {
        if (at >= r.from && at + bytes <= r.to) return;
    }
    Range r = {0, 0};
    if (allocation_of(at, r.from, r.to) && at + bytes <= r.to) {
        last[turn++ % 4] = r;
        return;
    }
    if (r.to) {
        emulated_fault("%zu bytes are %s at offset %zu of an allocation of %zu bytes", bytes, write ? "written" : "read",
                       (size_t)(at - r.from), (size_t)(r.to - r.from));
    }
    emulated_fault("%zu bytes are %s at %p, which is no device memory", bytes, write ? "written" : "read", (void *)at);
}

void Checker::access(const void *address, size_t bytes, bool write) {
    const unsigned char *p = static_cast<const unsigned char *>(address);
    if (p >= memory && p < memory + memory_bytes) {
        if (bytes > (size_t)(memory + memory_bytes - p)) emulated_fault("an access across the end of shared memory");
        shared((unsigned)(p - memory), (unsigned)bytes, write, emulated::current->number);
    } else if (p < stack || p >= stack + stack_length) {
        device(reinterpret_cast<uintptr_t>(p), bytes, write);
    }
}

} // namespace emulated

// ---- what the compiler calls ----

namespace {
inline void look(const void *address, size_t bytes, bool write) {
    if (emulated::worker) emulated::worker->check(address, bytes, write);
}
} // namespace

#define EMULATED_ACCESS(N)                                                       \
    void __tsan_read##N(void *p) { look(p, N, false); }                          \
    void __tsan_write##N(void *p) { look(p, N, true); }                          \
    void __tsan_volatile_read##N(void *p) { look(p, N, false); }                 \
    void __tsan_volatile_write##N(void *p) { look(p, N, true); }                 \
    void __tsan_unaligned_read##N(void *p) { look(p, N, false); }                \
    void __tsan_unaligned_write##N(void *p) { look(p, N, true); }
#define EMULATED_ATOMIC(BITS, T)                                                                               \
    T __tsan_atomic##BITS##_load(const T *p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }             \
    void __tsan_atomic##BITS##_store(T *p, T x, int) { __atomic_store_n(p, x, __ATOMIC_SEQ_CST); }             \
    T __tsan_atomic##BITS##_exchange(T *p, T x, int) { return __atomic_exchange_n(p, x, __ATOMIC_SEQ_CST); }   \
    T __tsan_atomic##BITS##_fetch_add(T *p, T x, int) { return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST); }   \
    T __tsan_atomic##BITS##_fetch_or(T *p, T x, int) { return __atomic_fetch_or(p, x, __ATOMIC_SEQ_CST); }     \
    T __tsan_atomic##BITS##_fetch_and(T *p, T x, int) { return __atomic_fetch_and(p, x, __ATOMIC_SEQ_CST); }   \
    int __tsan_atomic##BITS##_compare_exchange_strong(T *p, T *expected, T x, int, int) {                      \
        return __atomic_compare_exchange_n(p, expected, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
    }                                                                                                          \
    int __tsan_atomic##BITS##_compare_exchange_weak(T *p, T *expected, T x, int, int) {                        \
        return __atomic_compare_exchange_n(p, expected, x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);         \
    }
#pragma GCC visibility push(default)
extern "C" {
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)
void __tsan_read_range(void *p, unsigned long n) { look(p, n, false); }
void __tsan_write_range(void *p, unsigned long n) { look(p, n, true); }
void __tsan_init() {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void **, void *) {}
EMULATED_ATOMIC(32, unsigned)
EMULATED_ATOMIC(64, unsigned long long)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
}
#pragma GCC visibility pop
