// The words of CUDA C++ that kernels use, for the host's compiler. Included before every kernel; includes no other header.
#pragma once
#include "runtime.h"

#define __device__
#define __host__
#define __global__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#ifndef __restrict__
#define __restrict__ __restrict
#endif

// ---- vectors ----

#define EMULATED_VECTOR2(NAME, T, ALIGN)                   \
    struct __align__(ALIGN) NAME { T x, y; };              \
    inline NAME make_##NAME(T x, T y) { return {x, y}; }
#define EMULATED_VECTOR3(NAME, T)                          \
    struct NAME { T x, y, z; };                            \
    inline NAME make_##NAME(T x, T y, T z) { return {x, y, z}; }
#define EMULATED_VECTOR4(NAME, T, ALIGN)                   \
    struct __align__(ALIGN) NAME { T x, y, z, w; };        \
    inline NAME make_##NAME(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATED_VECTOR2(float2, float, 8)
EMULATED_VECTOR3(float3, float)
EMULATED_VECTOR4(float4, float, 16)
EMULATED_VECTOR2(double2, double, 16)
EMULATED_VECTOR2(int2, int, 8)
EMULATED_VECTOR3(int3, int)
EMULATED_VECTOR4(int4, int, 16)
EMULATED_VECTOR2(uint2, unsigned, 8)
EMULATED_VECTOR3(uint3, unsigned)
EMULATED_VECTOR4(uint4, unsigned, 16)
EMULATED_VECTOR2(short2, short, 4)
EMULATED_VECTOR4(short4, short, 8)
EMULATED_VECTOR2(ushort2, unsigned short, 4)
EMULATED_VECTOR4(ushort4, unsigned short, 8)
EMULATED_VECTOR2(char2, signed char, 2)
EMULATED_VECTOR4(char4, signed char, 4)
EMULATED_VECTOR2(uchar2, unsigned char, 2)
EMULATED_VECTOR4(uchar4, unsigned char, 4)
EMULATED_VECTOR2(longlong2, long long, 16)
EMULATED_VECTOR2(ulonglong2, unsigned long long, 16)

// ---- where a thread is ----

#define threadIdx (emulated::current->thread)
#define blockIdx (emulated::current->block->index)
#define blockDim (emulated::current->block->size)
#define gridDim (emulated::current->block->grid)
#define warpSize 32

// ---- shared memory ----

namespace emulated {
inline unsigned static_shared_bytes = 0;
inline unsigned reserve_shared(unsigned bytes, unsigned align) {
    const unsigned at = (static_shared_bytes + align - 1) / align * align;
    static_shared_bytes = at + bytes;
    return at;
}
// A variable of every block; `Name` is a type of its own for each.
template <class Name, class T, unsigned ALIGN>
struct Shared {
    static const unsigned at;
};
template <class Name, class T, unsigned ALIGN>
const unsigned Shared<Name, T, ALIGN>::at = reserve_shared(sizeof(T), ALIGN > alignof(T) ? ALIGN : alignof(T));
template <class Name, class T, unsigned ALIGN>
inline T &shared_variable() {
    return *reinterpret_cast<T *>(current->block->shared + Shared<Name, T, ALIGN>::at);
}
inline void *dynamic_shared() { return current->block->shared + current->block->dynamic_at; }
} // namespace emulated

inline emulated_size __cvta_generic_to_shared(const void *p) {
    const emulated::Block *block = emulated::current->block;
    const emulated_size at = reinterpret_cast<emulated_size>(p) - reinterpret_cast<emulated_size>(block->shared);
    // One past the end is a legal address.
    if (at > block->shared_bytes) emulated::emulated_fault("an address that is not shared memory is taken as one");
    return at;
}
inline void *__cvta_shared_to_generic(emulated_size at) { return emulated::current->block->shared + at; }

inline void __trap() { emulated::emulated_fault("__trap"); }

// ---- meeting ----

inline void __syncthreads() { emulated::emulated_barrier(0, 0, false, "__syncthreads"); }
inline int __syncthreads_count(int x) { return (int)emulated::emulated_barrier(0, 0, x != 0, "__syncthreads_count"); }
inline int __syncthreads_or(int x) { return emulated::emulated_barrier(0, 0, x != 0, "__syncthreads_or") != 0; }
inline int __syncthreads_and(int x) { return emulated::emulated_barrier(0, 0, x == 0, "__syncthreads_and") == 0; }
inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __nanosleep(unsigned) { emulated::emulated_pause(); }
inline unsigned __activemask() { return 1u << emulated::current->lane; }

namespace emulated {
// Reads and writes of a value as words.
template <class T>
struct Words {
    static constexpr unsigned COUNT = (sizeof(T) + 3) / 4;
    unsigned word[COUNT];
    Words() = default;
    explicit Words(T x) {
        word[COUNT - 1] = 0;
        __builtin_memcpy(word, &x, sizeof x);
    }
    T value() const {
        T x;
        __builtin_memcpy(&x, word, sizeof x);
        return x;
    }
};
template <class T>
struct Exchange {
    Words<T> mine, got;
    int from; // lane to read
};
template <class T>
void exchange(void *const *lanes, unsigned participants) {
    for (int l = 0; l < 32; ++l) {
        if (!(participants >> l & 1)) continue;
        auto *own = static_cast<Exchange<T> *>(lanes[l]);
        // A lane that is not there gives an undefined value; its own would hide that.
        if (participants >> own->from & 1) own->got = static_cast<Exchange<T> *>(lanes[own->from])->mine;
        else for (unsigned &word : own->got.word) word = 0xFFFFFFFFu;
    }
}
template <class T>
inline T read_lane(unsigned mask, T x, int from, const Collective *operation) {
    Exchange<T> own = {Words<T>(x), Words<T>(x), from};
    emulated_collective(mask, operation, &own);
    return own.got.value();
}
template <class T>
inline constexpr Collective SHUFFLE = {"__shfl_sync", exchange<T>};
template <class T>
inline constexpr Collective SHUFFLE_XOR = {"__shfl_xor_sync", exchange<T>};
template <class T>
inline constexpr Collective SHUFFLE_UP = {"__shfl_up_sync", exchange<T>};
template <class T>
inline constexpr Collective SHUFFLE_DOWN = {"__shfl_down_sync", exchange<T>};

struct Vote {
    unsigned value, got;
};
template <class F>
inline void vote(void *const *lanes, unsigned participants, unsigned start, F join) {
    unsigned all = start;
    for (unsigned l = 0; l < 32; ++l) {
        if (participants >> l & 1) all = join(all, static_cast<Vote *>(lanes[l])->value, l);
    }
    for (unsigned l = 0; l < 32; ++l) {
        if (participants >> l & 1) static_cast<Vote *>(lanes[l])->got = all;
    }
}
#define EMULATED_VOTE(NAME, WORD, START, JOIN)                                                              \
    inline void WORD##_work(void *const *lanes, unsigned participants) {                                    \
        vote(lanes, participants, START, [](unsigned all, unsigned x, unsigned lane) -> unsigned { (void)lane; return JOIN; }); \
    }                                                                                                       \
    inline constexpr Collective WORD = {#NAME, WORD##_work};
EMULATED_VOTE(__ballot_sync, BALLOT, 0u, all | (x != 0 ? 1u << lane : 0u))
EMULATED_VOTE(__any_sync, ANY, 0u, all | (x != 0))
EMULATED_VOTE(__all_sync, ALL, 1u, all & (x != 0))
EMULATED_VOTE(__reduce_add_sync, ADD, 0u, all + x)
EMULATED_VOTE(__reduce_or_sync, OR, 0u, all | x)
EMULATED_VOTE(__reduce_and_sync, AND, ~0u, all & x)
EMULATED_VOTE(__reduce_xor_sync, XOR, 0u, all ^ x)
EMULATED_VOTE(__reduce_max_sync, MAX_UNSIGNED, 0u, x > all ? x : all)
EMULATED_VOTE(__reduce_min_sync, MIN_UNSIGNED, ~0u, x < all ? x : all)
EMULATED_VOTE(__reduce_max_sync, MAX_SIGNED, 0x80000000u, (unsigned)((int)x > (int)all ? (int)x : (int)all))
EMULATED_VOTE(__reduce_min_sync, MIN_SIGNED, 0x7FFFFFFFu, (unsigned)((int)x < (int)all ? (int)x : (int)all))
EMULATED_VOTE(__syncwarp, MEET, 0u, all)
inline unsigned poll(unsigned mask, const Collective &operation, unsigned value) {
    Vote own = {value, 0};
    emulated_collective(mask, &operation, &own);
    return own.got;
}
} // namespace emulated

inline void __syncwarp(unsigned mask = ~0u) { emulated::poll(mask, emulated::MEET, 0); }
inline unsigned __ballot_sync(unsigned mask, int x) { return emulated::poll(mask, emulated::BALLOT, (unsigned)(x != 0)); }
inline int __any_sync(unsigned mask, int x) { return (int)emulated::poll(mask, emulated::ANY, (unsigned)(x != 0)); }
inline int __all_sync(unsigned mask, int x) { return (int)emulated::poll(mask, emulated::ALL, (unsigned)(x != 0)); }
inline unsigned __reduce_add_sync(unsigned mask, unsigned x) { return emulated::poll(mask, emulated::ADD, x); }
inline int __reduce_add_sync(unsigned mask, int x) { return (int)emulated::poll(mask, emulated::ADD, (unsigned)x); }
inline unsigned __reduce_or_sync(unsigned mask, unsigned x) { return emulated::poll(mask, emulated::OR, x); }
inline unsigned __reduce_and_sync(unsigned mask, unsigned x) { return emulated::poll(mask, emulated::AND, x); }
inline unsigned __reduce_xor_sync(unsigned mask, unsigned x) { return emulated::poll(mask, emulated::XOR, x); }
inline unsigned __reduce_max_sync(unsigned mask, unsigned x) { return emulated::poll(mask, emulated::MAX_UNSIGNED, x); }
inline unsigned __reduce_min_sync(unsigned mask, unsigned x) { return emulated::poll(mask, emulated::MIN_UNSIGNED, x); }
inline int __reduce_max_sync(unsigned mask, int x) { return (int)emulated::poll(mask, emulated::MAX_SIGNED, (unsigned)x); }
inline int __reduce_min_sync(unsigned mask, int x) { return (int)emulated::poll(mask, emulated::MIN_SIGNED, (unsigned)x); }

template <class T>
inline T __shfl_sync(unsigned mask, T x, int from, int width = 32) {
    const int lane = (int)emulated::current->lane;
    return emulated::read_lane(mask, x, (lane & -width) | (from & (width - 1)), &emulated::SHUFFLE<T>);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T x, int bits, int width = 32) {
    const int lane = (int)emulated::current->lane, from = lane ^ bits;
    return emulated::read_lane(mask, x, from < (lane & -width) + width ? from : lane, &emulated::SHUFFLE_XOR<T>);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T x, unsigned by, int width = 32) {
    const int lane = (int)emulated::current->lane, from = lane - (int)by;
    return emulated::read_lane(mask, x, from >= (lane & -width) ? from : lane, &emulated::SHUFFLE_UP<T>);
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T x, unsigned by, int width = 32) {
    const int lane = (int)emulated::current->lane, from = lane + (int)by;
    return emulated::read_lane(mask, x, from < (lane & -width) + width ? from : lane, &emulated::SHUFFLE_DOWN<T>);
}

// ---- arithmetic ----

extern "C" {
float expf(float) noexcept;
float exp2f(float) noexcept;
float logf(float) noexcept;
float log2f(float) noexcept;
float log1pf(float) noexcept;
float expm1f(float) noexcept;
float tanhf(float) noexcept;
float erff(float) noexcept;
float erfcf(float) noexcept;
float sinf(float) noexcept;
float cosf(float) noexcept;
float powf(float, float) noexcept;
float fmodf(float, float) noexcept;
}
inline float sqrtf(float x) { return __builtin_sqrtf(x); }
inline float fabsf(float x) { return __builtin_fabsf(x); }
inline float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float floorf(float x) { return __builtin_floorf(x); }
inline float ceilf(float x) { return __builtin_ceilf(x); }
inline float truncf(float x) { return __builtin_truncf(x); }
inline float rintf(float x) { return __builtin_rintf(x); }
inline float roundf(float x) { return __builtin_roundf(x); }
inline float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
inline float ldexpf(float x, int n) { return __builtin_ldexpf(x, n); }
inline float rsqrtf(float x) { return (float)(1.0 / __builtin_sqrt((double)x)); }
// The number of two where the other is none.
inline float fmaxf(float x, float y) { return x != x ? y : y != y ? x : x > y ? x : y > x ? y : __builtin_signbit(x) ? y : x; }
inline float fminf(float x, float y) { return x != x ? y : y != y ? x : x < y ? x : y < x ? y : __builtin_signbit(x) ? x : y; }
inline bool isnan(float x) { return x != x; }
inline bool isinf(float x) { return __builtin_isinf(x); }
inline bool isfinite(float x) { return __builtin_isfinite(x); }
inline void sincosf(float x, float *s, float *c) {
    *s = sinf(x);
    *c = cosf(x);
}

#define EMULATED_EXTREMES(T)                             \
    inline T min(T x, T y) { return y < x ? y : x; }     \
    inline T max(T x, T y) { return x < y ? y : x; }
EMULATED_EXTREMES(int)
EMULATED_EXTREMES(unsigned)
EMULATED_EXTREMES(long)
EMULATED_EXTREMES(unsigned long)
EMULATED_EXTREMES(long long)
EMULATED_EXTREMES(unsigned long long)
inline unsigned min(int x, unsigned y) { return min((unsigned)x, y); }
inline unsigned min(unsigned x, int y) { return min(x, (unsigned)y); }
inline unsigned max(int x, unsigned y) { return max((unsigned)x, y); }
inline unsigned max(unsigned x, int y) { return max(x, (unsigned)y); }
inline float min(float x, float y) { return fminf(x, y); }
inline float max(float x, float y) { return fmaxf(x, y); }
inline int abs(int x) { return x < 0 ? -x : x; }

inline float __fmul_rn(float x, float y) { return x * y; }
inline float __fadd_rn(float x, float y) { return x + y; }
inline float __fsub_rn(float x, float y) { return x - y; }
inline float __fdiv_rn(float x, float y) { return x / y; }
inline float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
inline float __frcp_rn(float x) { return 1.f / x; }
inline float __frsqrt_rn(float x) { return rsqrtf(x); }
// Approximations, by the exact function: with the chip's flush of denormals and its limits.
inline float emulated_flush(float x) { return __builtin_fabsf(x) < 1.17549435e-38f ? __builtin_copysignf(0.f, x) : x; }
inline float __expf(float x) { return expf(x); }
inline float __exp2f(float x) { return exp2f(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __sinf(float x) { return sinf(x); }
inline float __cosf(float x) { return cosf(x); }
inline float __powf(float x, float y) { return powf(x, y); }
inline float __saturatef(float x) { return x != x ? 0.f : x < 0.f ? 0.f : x > 1.f ? 1.f : x; }
// Divisors beyond 2^126 give zero.
inline float __fdividef(float x, float y) {
    const float most = 8.507059173e37f;
    return __builtin_fabsf(y) > most && !__builtin_isinf(y) ? (__builtin_isinf(x) ? __builtin_nanf("") : 0.f) : x / y;
}

template <class To, class From>
inline To emulated_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To y;
    __builtin_memcpy(&y, &x, sizeof y);
    return y;
}
inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
inline int __float_as_int(float x) { return emulated_bits<int>(x); }
inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
inline float __int_as_float(int x) { return emulated_bits<float>(x); }
inline long long __double_as_longlong(double x) { return emulated_bits<long long>(x); }

// To integers: saturating, NaN as zero.
namespace emulated {
inline int to_int(float x) {
    return x != x ? 0 : x >= 2147483648.f ? 2147483647 : x < -2147483648.f ? (-2147483647 - 1) : (int)x;
}
inline unsigned to_unsigned(float x) { return x != x || x <= 0.f ? 0u : x >= 4294967296.f ? ~0u : (unsigned)x; }
} // namespace emulated
inline int __float2int_rn(float x) { return emulated::to_int(__builtin_rintf(x)); }
inline int __float2int_rz(float x) { return emulated::to_int(x); }
inline int __float2int_rd(float x) { return emulated::to_int(__builtin_floorf(x)); }
inline int __float2int_ru(float x) { return emulated::to_int(__builtin_ceilf(x)); }
inline unsigned __float2uint_rn(float x) { return emulated::to_unsigned(__builtin_rintf(x)); }
inline unsigned __float2uint_rz(float x) { return emulated::to_unsigned(x); }
inline float __int2float_rn(int x) { return (float)x; }
inline float __uint2float_rn(unsigned x) { return (float)x; }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline unsigned __brev(unsigned x) {
    unsigned y = 0;
    for (int i = 0; i < 32; ++i) y |= (x >> i & 1u) << (31 - i);
    return y;
}
inline int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
inline int __mulhi(int x, int y) { return (int)((long long)x * y >> 32); }
inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)((unsigned long long)x * y >> 32); }
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    by &= 31;
    return by == 0 ? high : high << by | low >> (32 - by);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    by &= 31;
    return by == 0 ? low : low >> by | high << (32 - by);
}
inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
    const unsigned long long all = (unsigned long long)y << 32 | x;
    unsigned out = 0;
    for (int i = 0; i < 4; ++i) {
        const unsigned s = selector >> (4 * i) & 15;
        unsigned byte = (unsigned)(all >> (8 * (s & 7))) & 255;
        if (s & 8) byte = byte & 128 ? 255 : 0;
        out |= byte << (8 * i);
    }
    return out;
}
inline int __dp4a(int a, int b, int c) {
    for (int i = 0; i < 4; ++i) c += (int)(signed char)(a >> (8 * i)) * (signed char)(b >> (8 * i));
    return c;
}
inline unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    for (int i = 0; i < 4; ++i) c += (a >> (8 * i) & 255) * (b >> (8 * i) & 255);
    return c;
}

// ---- memory ----

template <class T>
inline T __ldg(const T *p) { return *p; }
template <class T>
inline T __ldcs(const T *p) { return *p; }
template <class T>
inline T __ldcg(const T *p) { return *p; }
template <class T>
inline void __stcs(T *p, T x) { *p = x; }
template <class T>
inline void __stcg(T *p, T x) { *p = x; }

inline int atomicAdd(int *p, int x) { return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST); }
inline unsigned atomicAdd(unsigned *p, unsigned x) { return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST); }
inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long x) { return __atomic_fetch_add(p, x, __ATOMIC_SEQ_CST); }
inline unsigned atomicOr(unsigned *p, unsigned x) { return __atomic_fetch_or(p, x, __ATOMIC_SEQ_CST); }
inline unsigned atomicAnd(unsigned *p, unsigned x) { return __atomic_fetch_and(p, x, __ATOMIC_SEQ_CST); }
template <class T>
inline T atomicExch(T *p, T x) {
    T old;
    __atomic_exchange(p, &x, &old, __ATOMIC_SEQ_CST);
    return old;
}
template <class T>
inline T atomicCAS(T *p, T expected, T x) {
    __atomic_compare_exchange(p, &expected, &x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}
namespace emulated {
template <class T, class F>
inline T update(T *p, F next) {
    T old;
    __atomic_load(p, &old, __ATOMIC_SEQ_CST);
    for (;;) {
        T x = next(old);
        if (__atomic_compare_exchange(p, &old, &x, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) return old;
    }
}
} // namespace emulated
inline float atomicAdd(float *p, float x) {
    return emulated::update(p, [x](float old) { return old + x; });
}
template <class T>
inline T atomicMax(T *p, T x) {
    return emulated::update(p, [x](T old) { return old < x ? x : old; });
}
template <class T>
inline T atomicMin(T *p, T x) {
    return emulated::update(p, [x](T old) { return x < old ? x : old; });
}

inline long long clock64() { return (long long)__builtin_ia32_rdtsc(); }

// ---- entries ----

namespace emulated {
inline const Kernel *first_kernel = nullptr;

template <class T>
struct Plain {
    typedef T type;
};
template <class T>
struct Plain<const T> {
    typedef T type;
};

template <auto *ENTRY, class F>
struct Entry;
template <auto *ENTRY, class... P>
struct Entry<ENTRY, void (*)(P...)> {
    static constexpr emulated_size bytes[sizeof...(P) + 1] = {sizeof(P)..., 0};
    template <emulated_size... I>
    struct Places {};
    template <emulated_size N, emulated_size... I>
    struct Count : Count<N - 1, N - 1, I...> {};
    template <emulated_size... I>
    struct Count<0, I...> {
        typedef Places<I...> places;
    };
    template <emulated_size... I>
    static void apply(void *const *parameters, Places<I...>) {
        ENTRY(*static_cast<typename Plain<P>::type *>(parameters[I])...);
    }
    static void call(void *const *parameters) { apply(parameters, typename Count<sizeof...(P)>::places()); }
    static constexpr unsigned COUNT = sizeof...(P);
};
template <class... T>
constexpr unsigned first_of(unsigned first, T...) { return first; }
struct Registration {
    Kernel kernel;
    Registration(const Kernel &k) : kernel(k) {
        kernel.next = first_kernel;
        first_kernel = &kernel;
    }
};
} // namespace emulated

#define EMULATED_KERNEL(NAME, MOST)                                                                       \
    static emulated::Registration emulated_registration_##NAME(emulated::Kernel{                          \
        #NAME, emulated::Entry<&NAME, decltype(&NAME)>::call, emulated::Entry<&NAME, decltype(&NAME)>::bytes, \
        emulated::Entry<&NAME, decltype(&NAME)>::COUNT, MOST, nullptr});

extern "C" char __ehdr_start __attribute__((visibility("hidden"))), _end __attribute__((visibility("hidden")));
#define EMULATED_MODULE                                                                                   \
    extern "C" __attribute__((visibility("default"))) void emulated_module(emulated::Module *module) {    \
        module->kernels = emulated::first_kernel;                                                         \
        module->static_shared = emulated::static_shared_bytes;                                            \
        module->image_begin = &__ehdr_start;                                                              \
        module->image_end = &_end;                                                                        \
    }

#include "ptx.h"
#include "hopper.h"
