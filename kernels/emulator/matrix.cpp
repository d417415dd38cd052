// Warp matrix operations: products of 16x8 with float32 or int32 sums, and matrices to and from shared memory.
#include "block.h"
#include "runtime.h"

#include <cstdint>
#include <cstring>

// The fast version where the chip has wide vectors. No fused multiply-add: products are exact in float32 anyway.
#define FAST __attribute__((target_clones("arch=x86-64-v3", "default")))

namespace emulated {
namespace {

float from_f16(uint32_t h) {
    // Normal numbers by the exponent's bias, denormals by the exact product with 2^112 too.
    uint32_t bits = (h & 0x7FFF) << 13;
    float x;
    if (bits >= 0x0F800000) bits |= 0x7F800000; // infinities and NaN
    memcpy(&x, &bits, 4);
    if (bits < 0x0F800000) x *= 5.192296858534828e33f;
    return h & 0x8000 ? -x : x;
}
float from_bf16(uint32_t h) {
    const uint32_t bits = h << 16;
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
float from_small(uint32_t code, int mantissa, int bias, bool infinities) {
    const uint32_t e = (code & 0x7F) >> mantissa, m = code & ((1u << mantissa) - 1);
    float x;
    if (infinities && e == 31) x = m == 0 ? __builtin_inff() : __builtin_nanf("");
    else if (!infinities && (code & 0x7F) == 0x7F) x = __builtin_nanf("");
    else if (e == 0) x = __builtin_ldexpf((float)m, 1 - bias - mantissa);
    else x = __builtin_ldexpf((float)(m + (1u << mantissa)), (int)e - bias - mantissa);
    return code & 0x80 ? -x : x;
}

// Every 16-bit code and every 8-bit code as a number.
struct Tables {
    float f16[65536], e4m3[256], e5m2[256];
    Tables() {
        for (uint32_t i = 0; i < 65536; ++i) f16[i] = from_f16(i);
        for (uint32_t i = 0; i < 256; ++i) {
            e4m3[i] = from_small(i, 3, 7, false);
            e5m2[i] = from_small(i, 2, 15, true);
        }
    }
};
const Tables tables;

void need_all(unsigned participants, const char *name) {
    if (participants != ~0u) emulated_fault("%s: lanes %08x of the warp alone", name, participants);
}

// Eight columns at once.
typedef float Eight __attribute__((vector_size(32)));
typedef int EightIntegers __attribute__((vector_size(32)));

// sum = a b, over k in order. Eight rows in turn, so that none waits for itself.
template <class V, class T, int K>
__attribute__((always_inline)) inline void multiply_any(T (&sum)[16][8], const T (&a)[16][K], const T (&b)[K][8]) {
    for (int first = 0; first < 16; first += 8) {
        V s[8] = {};
        for (int k = 0; k < K; ++k) {
            V row;
            memcpy(&row, b[k], sizeof row);
            for (int r = 0; r < 8; ++r) s[r] += a[first + r][k] * row;
        }
        for (int r = 0; r < 8; ++r) memcpy(sum[first + r], &s[r], sizeof s[r]);
    }
}
FAST void multiply(float (&sum)[16][8], const float (&a)[16][16], const float (&b)[16][8]) { multiply_any<Eight>(sum, a, b); }
FAST void multiply(float (&sum)[16][8], const float (&a)[16][32], const float (&b)[32][8]) { multiply_any<Eight>(sum, a, b); }
FAST void multiply(int (&sum)[16][8], const int (&a)[16][32], const int (&b)[32][8]) { multiply_any<EightIntegers>(sum, a, b); }

// Operands of `BYTES` bytes: a register holds the elements k = 4 / BYTES * (lane % 4) of its half of the depth.
template <int BYTES, class T, class F>
void gather(T (&a)[16][32 / BYTES], T (&b)[32 / BYTES][8], int lane, const unsigned (&ra)[4], const unsigned (&rb)[2], F number) {
    constexpr int EACH = 4 / BYTES, HALF = 16 / BYTES;
    constexpr unsigned MASK = BYTES == 1 ? 0xFF : 0xFFFF;
    const int group = lane >> 2, k = (lane & 3) * EACH;
    for (int i = 0; i < EACH; ++i) {
        const int shift = i * 8 * BYTES;
        a[group][k + i] = number(ra[0] >> shift & MASK);
        a[group + 8][k + i] = number(ra[1] >> shift & MASK);
        a[group][k + HALF + i] = number(ra[2] >> shift & MASK);
        a[group + 8][k + HALF + i] = number(ra[3] >> shift & MASK);
        b[k + i][group] = number(rb[0] >> shift & MASK);
        b[k + HALF + i][group] = number(rb[1] >> shift & MASK);
    }
}

template <int BYTES, class F>
void product(void *const *lanes, unsigned participants, const char *name, F number) {
    need_all(participants, name);
    alignas(32) float a[16][32 / BYTES], b[32 / BYTES][8], sum[16][8];
    for (int l = 0; l < 32; ++l) {
        const Product &own = *static_cast<const Product *>(lanes[l]);
        gather<BYTES>(a, b, l, own.a, own.b, number);
    }
    multiply(sum, a, b);
    for (int l = 0; l < 32; ++l) {
        const Product &own = *static_cast<const Product *>(lanes[l]);
        const int row = l >> 2, n = (l & 3) * 2;
        *own.d[0] = own.c[0] + sum[row][n];
        *own.d[1] = own.c[1] + sum[row][n + 1];
        *own.d[2] = own.c[2] + sum[row + 8][n];
        *own.d[3] = own.c[3] + sum[row + 8][n + 1];
    }
}

void s8_work(void *const *lanes, unsigned participants) {
    need_all(participants, "mma.sync s8");
    int a[16][32], b[32][8], sum[16][8];
    for (int l = 0; l < 32; ++l) {
        const IntegerProduct &own = *static_cast<const IntegerProduct *>(lanes[l]);
        gather<1>(a, b, l, own.a, own.b, [](unsigned x) { return (int)(int8_t)x; });
    }
    multiply(sum, a, b);
    for (int l = 0; l < 32; ++l) {
        const IntegerProduct &own = *static_cast<const IntegerProduct *>(lanes[l]);
        const int row = l >> 2, n = (l & 3) * 2;
        // Sums wrap.
        *own.d[0] = (unsigned)own.c[0] + (unsigned)sum[row][n];
        *own.d[1] = (unsigned)own.c[1] + (unsigned)sum[row][n + 1];
        *own.d[2] = (unsigned)own.c[2] + (unsigned)sum[row + 8][n];
        *own.d[3] = (unsigned)own.c[3] + (unsigned)sum[row + 8][n + 1];
    }
}
void bf16_work(void *const *lanes, unsigned participants) {
    product<2>(lanes, participants, "mma.sync bf16", from_bf16);
}
void f16_work(void *const *lanes, unsigned participants) {
    product<2>(lanes, participants, "mma.sync f16", [](unsigned x) { return tables.f16[x]; });
}
void e4m3_work(void *const *lanes, unsigned participants) {
    product<1>(lanes, participants, "mma.sync e4m3", [](unsigned x) { return tables.e4m3[x]; });
}
void e5m2_work(void *const *lanes, unsigned participants) {
    product<1>(lanes, participants, "mma.sync e5m2", [](unsigned x) { return tables.e5m2[x]; });
}

unsigned char *row_of(void *const *lanes, int matrix, int row, const char *name, bool store) {
    const unsigned lane = (unsigned)(matrix * 8 + row), address = static_cast<const Matrices *>(lanes[lane])->address;
    unsigned char *place = shared_place(address, 16, name);
    worker->check_shared(address, 16, store, lane);
    return place;
}
template <int COUNT, bool TRANSPOSED, bool STORE>
void matrices(void *const *lanes, unsigned participants) {
    const char *name = STORE ? "stmatrix" : "ldmatrix";
    need_all(participants, name);
    unsigned got[COUNT][32];
    for (int m = 0; m < COUNT; ++m) {
        unsigned char *rows[8];
        for (int r = 0; r < 8; ++r) rows[r] = row_of(lanes, m, r, name, STORE);
        for (int l = 0; l < 32; ++l) {
            unsigned *own = static_cast<const Matrices *>(lanes[l])->r[m];
            unsigned char *low, *high;
            if (TRANSPOSED) {
                low = rows[(l & 3) * 2] + (l >> 2) * 2;
                high = rows[(l & 3) * 2 + 1] + (l >> 2) * 2;
            } else {
                low = rows[l >> 2] + (l & 3) * 4;
                high = low + 2;
            }
            if (STORE) {
                memcpy(low, own, 2);
                memcpy(high, reinterpret_cast<unsigned char *>(own) + 2, 2);
            } else {
                memcpy(&got[m][l], low, 2);
                memcpy(reinterpret_cast<unsigned char *>(&got[m][l]) + 2, high, 2);
            }
        }
    }
    if (STORE) return;
    for (int m = 0; m < COUNT; ++m) {
        for (int l = 0; l < 32; ++l) *static_cast<const Matrices *>(lanes[l])->r[m] = got[m][l];
    }
}

} // namespace

const Collective product_bf16 = {"mma.sync bf16", bf16_work};
const Collective product_f16 = {"mma.sync f16", f16_work};
const Collective product_e4m3 = {"mma.sync e4m3", e4m3_work};
const Collective product_e5m2 = {"mma.sync e5m2", e5m2_work};
const Collective product_s8 = {"mma.sync s8", s8_work};
const Collective load_matrices_1 = {"ldmatrix", matrices<1, false, false>};
const Collective load_matrices_2 = {"ldmatrix", matrices<2, false, false>};
const Collective load_matrices_4 = {"ldmatrix", matrices<4, false, false>};
const Collective load_transposed_1 = {"ldmatrix.trans", matrices<1, true, false>};
const Collective load_transposed_2 = {"ldmatrix.trans", matrices<2, true, false>};
const Collective load_transposed_4 = {"ldmatrix.trans", matrices<4, true, false>};
const Collective store_matrices_1 = {"stmatrix", matrices<1, false, true>};
const Collective store_matrices_2 = {"stmatrix", matrices<2, false, true>};
const Collective store_matrices_4 = {"stmatrix", matrices<4, false, true>};
const Collective store_transposed_1 = {"stmatrix.trans", matrices<1, true, true>};
const Collective store_transposed_2 = {"stmatrix.trans", matrices<2, true, true>};
const Collective store_transposed_4 = {"stmatrix.trans", matrices<4, true, true>};

} // namespace emulated
