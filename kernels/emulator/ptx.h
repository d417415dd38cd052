// PTX instructions as functions. The rewriter (rewrite.cpp) turns an asm statement into calls of these: the name is the
// mnemonic with every `.` and `::` as `_`, the arguments are the operands in the order of the instruction's text, outputs
// by reference. An instruction that is not here ends the launch when it is reached.
#pragma once

namespace emulated {
// Operands by the letter of their constraint.
template <class T> inline unsigned short &out_h(T &x) { static_assert(sizeof x == 2, "h is 16 bits"); return reinterpret_cast<unsigned short &>(x); }
template <class T> inline unsigned &out_r(T &x) { static_assert(sizeof x == 4, "r is 32 bits"); return reinterpret_cast<unsigned &>(x); }
template <class T> inline unsigned long long &out_l(T &x) { static_assert(sizeof x == 8, "l is 64 bits"); return reinterpret_cast<unsigned long long &>(x); }
inline float &out_f(float &x) { return x; }
inline double &out_d(double &x) { return x; }
template <class T> inline unsigned short in_h(T x) { static_assert(sizeof x <= 2, "h is 16 bits"); return (unsigned short)x; }
template <class T> inline unsigned in_r(T x) { static_assert(sizeof x <= 4, "r is 32 bits"); return (unsigned)x; }
inline unsigned in_r(float) = delete;
template <class T> inline unsigned long long in_l(T *x) { return reinterpret_cast<unsigned long long>(x); }
inline unsigned long long in_l(unsigned long long x) { return x; }
inline unsigned long long in_l(long long x) { return (unsigned long long)x; }
inline unsigned long long in_l(unsigned long x) { return x; }
inline unsigned long long in_l(long x) { return (unsigned long long)x; }
inline float in_f(float x) { return x; }
inline double in_d(double x) { return x; }
template <class T> inline long long in_n(T x) { return (long long)x; }
} // namespace emulated

namespace ptx {
using emulated::Collective;
using emulated::shared_place;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

inline u32 bits(float x) { return __float_as_uint(x); }
inline float number(u32 x) { return __uint_as_float(x); }

// ---- number formats ----

inline u32 to_bf16(float x) {
    const u32 b = bits(x);
    if (x != x) return 0x7FFF;
    return (b + 0x7FFF + (b >> 16 & 1)) >> 16;
}
// To nearest, ties to even, with `mantissa` bits of fraction and exponents biased by `bias`; magnitudes alone. What is
// beyond the format comes out as a code beyond it.
inline u32 round_to_format(float magnitude, int mantissa, int bias) {
    const int exponent = (int)(bits(magnitude) >> 23) - 127;
    const int least = 1 - bias;
    const int e = exponent < least ? least : exponent;
    // Steps of this binade are powers of two: the quotient is exact.
    const float steps = __builtin_rintf(__builtin_ldexpf(magnitude, mantissa - e));
    return (u32)steps + ((u32)(e - least) << mantissa);
}
inline u32 to_f16(float x) {
    const u32 sign = bits(x) >> 16 & 0x8000;
    if (x != x) return 0x7FFF;
    const float m = __builtin_fabsf(x);
    if (m >= 65520.f) return sign | 0x7C00;
    return sign | round_to_format(m, 10, 15);
}
inline float from_f16(u32 h) {
    const u32 e = h >> 10 & 31, m = h & 1023;
    const float sign = h & 0x8000 ? -1.f : 1.f;
    if (e == 31) return number((h & 0x8000) << 16 | 0x7F800000u | m << 13);
    return sign * (e == 0 ? __builtin_ldexpf((float)m, -24) : __builtin_ldexpf((float)(m + 1024), (int)e - 25));
}
inline u32 to_e4m3(float x) {
    const u32 sign = bits(x) >> 24 & 0x80;
    if (x != x) return 0x7F;
    const float m = __builtin_fabsf(x);
    if (m >= 448.f) return sign | 0x7E;
    const u32 code = round_to_format(m, 3, 7);
    return sign | (code > 0x7E ? 0x7E : code);
}
inline u32 to_e5m2(float x) {
    const u32 sign = bits(x) >> 24 & 0x80;
    if (x != x) return 0x7F;
    const float m = __builtin_fabsf(x);
    if (m >= 57344.f) return sign | 0x7B;
    const u32 code = round_to_format(m, 2, 15);
    return sign | (code > 0x7B ? 0x7B : code);
}
inline float flush(float x) { return emulated_flush(x); }

inline void cvt_rn_bf16x2_f32(u32 &d, float high, float low) { d = to_bf16(high) << 16 | to_bf16(low); }
inline void cvt_rn_f16x2_f32(u32 &d, float high, float low) { d = to_f16(high) << 16 | to_f16(low); }
inline void cvt_rn_bf16_f32(u16 &d, float x) { d = (u16)to_bf16(x); }
inline void cvt_rn_f16_f32(u16 &d, float x) { d = (u16)to_f16(x); }
inline void cvt_f32_f16(float &d, u16 x) { d = from_f16(x); }
inline void cvt_f32_bf16(float &d, u16 x) { d = number((u32)x << 16); }
inline void cvt_rn_satfinite_e4m3x2_f32(u16 &d, float high, float low) { d = (u16)(to_e4m3(high) << 8 | to_e4m3(low)); }
inline void cvt_rn_satfinite_e5m2x2_f32(u16 &d, float high, float low) { d = (u16)(to_e5m2(high) << 8 | to_e5m2(low)); }
inline void cvt_rni_s32_f32(u32 &d, float x) { d = (u32)__float2int_rn(x); }
inline void cvt_rzi_s32_f32(u32 &d, float x) { d = (u32)__float2int_rz(x); }
inline void cvt_rn_f32_s32(float &d, u32 x) { d = (float)(int)x; }
inline void cvt_rni_f32_f32(float &d, float x) { d = __builtin_rintf(x); }
inline int eighth(float x) { return x != x ? 0 : x >= 127.f ? 127 : x <= -128.f ? -128 : (int)__builtin_rintf(x); }
inline void cvt_rni_sat_s8_f32(u32 &d, float x) { d = (u32)eighth(x); }
inline void cvt_rni_s8_f32(u32 &d, float x) { d = (u32)eighth(x); }
inline u32 saturated(u32 x) { return (u32)((int)x > 127 ? 127 : (int)x < -128 ? -128 : (int)x) & 255; }
inline void cvt_sat_s8_s32(u32 &d, u32 x) { d = (u32)(int)(signed char)saturated(x); }
// d = the two numbers as bytes, the second lower, below the low half of c.
inline void cvt_pack_sat_s8_s32_b32(u32 &d, u32 high, u32 low, u32 c) { d = c << 16 | saturated(high) << 8 | saturated(low); }

// ---- arithmetic ----

inline void ex2_approx_ftz_f32(float &d, float x) { d = flush(exp2f(flush(x))); }
inline void ex2_approx_f32(float &d, float x) { d = exp2f(x); }
inline void lg2_approx_f32(float &d, float x) { d = log2f(x); }
inline void lg2_approx_ftz_f32(float &d, float x) { d = log2f(flush(x)); }
inline void rcp_approx_f32(float &d, float x) { d = 1.f / x; }
inline void rcp_approx_ftz_f32(float &d, float x) { d = flush(1.f / flush(x)); }
inline void rsqrt_approx_f32(float &d, float x) { d = rsqrtf(x); }
inline void rsqrt_approx_ftz_f32(float &d, float x) { d = flush(rsqrtf(flush(x))); }
inline void sqrt_approx_f32(float &d, float x) { d = __builtin_sqrtf(x); }
inline void tanh_approx_f32(float &d, float x) { d = tanhf(x); }
inline void add_rn_ftz_f32(float &d, float x, float y) { d = flush(flush(x) + flush(y)); }
inline void fma_rn_f32(float &d, float x, float y, float z) { d = __builtin_fmaf(x, y, z); }
inline void prmt_b32(u32 &d, u32 x, u32 y, u32 selector) { d = __byte_perm(x, y, selector); }
inline void lop3_b32(u32 &d, u32 a, u32 b, u32 c, long long table) {
    d = 0;
    for (int i = 0; i < 8; ++i) {
        if (table >> i & 1) d |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    }
}
inline void dp4a_s32_s32(u32 &d, u32 a, u32 b, u32 c) { d = (u32)__dp4a((int)a, (int)b, (int)c); }

// ---- special registers ----

inline u32 laneid() { return emulated::current->lane; }
inline void mov_u32(u32 &d, u32 x) { d = x; }
inline void mov_b32(u32 &d, u32 x) { d = x; }

// ---- shared and device memory ----

template <class T>
inline T at_shared(u32 address, const char *name) {
    T x;
    __builtin_memcpy(&x, shared_place(address, sizeof x, name), sizeof x);
    return x;
}
template <class T>
inline void to_shared(u32 address, T x, const char *name) { __builtin_memcpy(shared_place(address, sizeof x, name), &x, sizeof x); }
inline void ld_shared_f32(float &d, u32 from) { d = at_shared<float>(from, "ld.shared.f32"); }
inline void ld_shared_u32(u32 &d, u32 from) { d = at_shared<u32>(from, "ld.shared.u32"); }
inline void ld_shared_b32(u32 &d, u32 from) { d = at_shared<u32>(from, "ld.shared.b32"); }
inline void ld_shared_v2_f32(float &x, float &y, u32 from) {
    const float2 v = at_shared<float2>(from, "ld.shared.v2.f32");
    x = v.x, y = v.y;
}
inline void ld_shared_v4_f32(float &x, float &y, float &z, float &w, u32 from) {
    const float4 v = at_shared<float4>(from, "ld.shared.v4.f32");
    x = v.x, y = v.y, z = v.z, w = v.w;
}
inline void ld_shared_v2_u32(u32 &x, u32 &y, u32 from) {
    const uint2 v = at_shared<uint2>(from, "ld.shared.v2.u32");
    x = v.x, y = v.y;
}
inline void ld_shared_v4_u32(u32 &x, u32 &y, u32 &z, u32 &w, u32 from) {
    const uint4 v = at_shared<uint4>(from, "ld.shared.v4.u32");
    x = v.x, y = v.y, z = v.z, w = v.w;
}
inline void ld_shared_v4_b32(u32 &x, u32 &y, u32 &z, u32 &w, u32 from) { ld_shared_v4_u32(x, y, z, w, from); }
inline void st_shared_f32(u32 to, float x) { to_shared(to, x, "st.shared.f32"); }
inline void st_shared_u32(u32 to, u32 x) { to_shared(to, x, "st.shared.u32"); }
inline void st_shared_b32(u32 to, u32 x) { to_shared(to, x, "st.shared.b32"); }
inline void st_shared_v2_f32(u32 to, float x, float y) { to_shared(to, make_float2(x, y), "st.shared.v2.f32"); }
inline void st_shared_v4_f32(u32 to, float x, float y, float z, float w) { to_shared(to, make_float4(x, y, z, w), "st.shared.v4.f32"); }
inline void st_shared_v2_u32(u32 to, u32 x, u32 y) { to_shared(to, make_uint2(x, y), "st.shared.v2.u32"); }
inline void st_shared_v4_u32(u32 to, u32 x, u32 y, u32 z, u32 w) { to_shared(to, make_uint4(x, y, z, w), "st.shared.v4.u32"); }
inline void st_shared_v4_b32(u32 to, u32 x, u32 y, u32 z, u32 w) { st_shared_v4_u32(to, x, y, z, w); }

inline void ld_global_nc_v4_u32(u32 &x, u32 &y, u32 &z, u32 &w, u64 from) {
    const uint4 v = *reinterpret_cast<const uint4 *>(from);
    x = v.x, y = v.y, z = v.z, w = v.w;
}
inline void prefetch_global_L2(u64) {}
inline void cp_async_bulk_prefetch_L2_global(u64 from, u32 bytes) {
    if (bytes == 0 || bytes % 16 || from % 16) emulated::emulated_fault("cp.async.bulk.prefetch: no multiples of 16");
}
inline void fence_proxy_async() {}
inline void fence_proxy_async_shared_cta() {}

inline void copy(u32 to, u64 from, long long bytes, long long read, const char *name) {
    shared_place(to, (u32)bytes, name);
    if (read != 0 && from % (u64)bytes != 0) emulated::emulated_fault("%s: the source is no multiple of %lld", name, bytes);
    emulated::emulated_copy(to, reinterpret_cast<const void *>(from), (unsigned)bytes, (unsigned)read);
}
inline void cp_async_cg_shared_global(u32 to, u64 from, long long bytes, long long read) { copy(to, from, bytes, read, "cp.async.cg"); }
inline void cp_async_cg_shared_global(u32 to, u64 from, long long bytes) { copy(to, from, bytes, bytes, "cp.async.cg"); }
inline void cp_async_ca_shared_global(u32 to, u64 from, long long bytes, long long read) { copy(to, from, bytes, read, "cp.async.ca"); }
inline void cp_async_ca_shared_global(u32 to, u64 from, long long bytes) { copy(to, from, bytes, bytes, "cp.async.ca"); }
inline void cp_async_commit_group() { ++emulated::current->open_group; }
inline void cp_async_wait_group(long long left) { emulated::emulated_finish_copies((unsigned)left); }
inline void cp_async_wait_all() {
    cp_async_commit_group();
    emulated::emulated_finish_copies(0);
}

// ---- meeting ----

inline void bar_sync(long long id) { emulated::emulated_barrier((unsigned)id, 0, false, "bar.sync"); }
inline void bar_sync(long long id, long long count) { emulated::emulated_barrier((unsigned)id, (unsigned)count, false, "bar.sync"); }
inline void barrier_sync(long long id) { bar_sync(id); }
inline void barrier_sync(long long id, long long count) { bar_sync(id, count); }
inline void bar_arrive(long long id, long long count) { emulated::emulated_arrive((unsigned)id, (unsigned)count); }
inline void membar_cta() { __threadfence_block(); }
inline void membar_gl() { __threadfence(); }

// Nothing runs beside its predecessor here.
inline void griddepcontrol_launch_dependents() {}
inline void griddepcontrol_wait() {}

// ---- matrices ----

inline void matrices(const Collective &what, u32 address, u32 *r0, u32 *r1 = nullptr, u32 *r2 = nullptr, u32 *r3 = nullptr) {
    emulated::Matrices own = {address, {r0, r1, r2, r3}};
    emulated::emulated_collective(~0u, &what, &own);
}
inline void ldmatrix_sync_aligned_m8n8_x4_shared_b16(u32 &r0, u32 &r1, u32 &r2, u32 &r3, u32 address) {
    matrices(emulated::load_matrices_4, address, &r0, &r1, &r2, &r3);
}
inline void ldmatrix_sync_aligned_m8n8_x2_shared_b16(u32 &r0, u32 &r1, u32 address) { matrices(emulated::load_matrices_2, address, &r0, &r1); }
inline void ldmatrix_sync_aligned_m8n8_x1_shared_b16(u32 &r0, u32 address) { matrices(emulated::load_matrices_1, address, &r0); }
inline void ldmatrix_sync_aligned_m8n8_x4_trans_shared_b16(u32 &r0, u32 &r1, u32 &r2, u32 &r3, u32 address) {
    matrices(emulated::load_transposed_4, address, &r0, &r1, &r2, &r3);
}
inline void ldmatrix_sync_aligned_m8n8_x2_trans_shared_b16(u32 &r0, u32 &r1, u32 address) { matrices(emulated::load_transposed_2, address, &r0, &r1); }
inline void ldmatrix_sync_aligned_m8n8_x1_trans_shared_b16(u32 &r0, u32 address) { matrices(emulated::load_transposed_1, address, &r0); }
inline void stmatrix_sync_aligned_m8n8_x4_shared_b16(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
    matrices(emulated::store_matrices_4, address, &r0, &r1, &r2, &r3);
}
inline void stmatrix_sync_aligned_m8n8_x2_shared_b16(u32 address, u32 r0, u32 r1) { matrices(emulated::store_matrices_2, address, &r0, &r1); }
inline void stmatrix_sync_aligned_m8n8_x1_shared_b16(u32 address, u32 r0) { matrices(emulated::store_matrices_1, address, &r0); }
inline void stmatrix_sync_aligned_m8n8_x4_trans_shared_b16(u32 address, u32 r0, u32 r1, u32 r2, u32 r3) {
    matrices(emulated::store_transposed_4, address, &r0, &r1, &r2, &r3);
}
inline void stmatrix_sync_aligned_m8n8_x2_trans_shared_b16(u32 address, u32 r0, u32 r1) { matrices(emulated::store_transposed_2, address, &r0, &r1); }
inline void stmatrix_sync_aligned_m8n8_x1_trans_shared_b16(u32 address, u32 r0) { matrices(emulated::store_transposed_1, address, &r0); }

inline void product(const Collective &what, float &d0, float &d1, float &d2, float &d3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0,
                    u32 b1, float c0, float c1, float c2, float c3) {
    emulated::Product own = {{&d0, &d1, &d2, &d3}, {c0, c1, c2, c3}, {a0, a1, a2, a3}, {b0, b1}};
    emulated::emulated_collective(~0u, &what, &own);
}
inline void product(const Collective &what, u32 &d0, u32 &d1, u32 &d2, u32 &d3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1,
                    u32 c0, u32 c1, u32 c2, u32 c3) {
    emulated::IntegerProduct own = {{&d0, &d1, &d2, &d3}, {(int)c0, (int)c1, (int)c2, (int)c3}, {a0, a1, a2, a3}, {b0, b1}};
    emulated::emulated_collective(~0u, &what, &own);
}
#define EMULATED_PRODUCT(NAME, WHAT, T)                                                                                \
    inline void NAME(T &d0, T &d1, T &d2, T &d3, u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1, T c0, T c1, T c2, T c3) { \
        product(emulated::WHAT, d0, d1, d2, d3, a0, a1, a2, a3, b0, b1, c0, c1, c2, c3);                               \
    }
EMULATED_PRODUCT(mma_sync_aligned_m16n8k16_row_col_f32_bf16_bf16_f32, product_bf16, float)
EMULATED_PRODUCT(mma_sync_aligned_m16n8k16_row_col_f32_f16_f16_f32, product_f16, float)
EMULATED_PRODUCT(mma_sync_aligned_m16n8k32_row_col_f32_e4m3_e4m3_f32, product_e4m3, float)
EMULATED_PRODUCT(mma_sync_aligned_m16n8k32_row_col_f32_e5m2_e5m2_f32, product_e5m2, float)
EMULATED_PRODUCT(mma_sync_aligned_m16n8k32_row_col_s32_s8_s8_s32, product_s8, u32)
// Half the depth: two registers of a, one of b.
inline void mma_sync_aligned_m16n8k8_row_col_f32_f16_f16_f32(float &d0, float &d1, float &d2, float &d3, u32 a0, u32 a1, u32 b0,
                                                             float c0, float c1, float c2, float c3) {
    product(emulated::product_f16, d0, d1, d2, d3, a0, a1, 0, 0, b0, 0, c0, c1, c2, c3);
}
inline void mma_sync_aligned_m16n8k16_row_col_s32_s8_s8_s32(u32 &d0, u32 &d1, u32 &d2, u32 &d3, u32 a0, u32 a1, u32 b0, u32 c0,
                                                            u32 c1, u32 c2, u32 c3) {
    product(emulated::product_s8, d0, d1, d2, d3, a0, a1, 0, 0, b0, 0, c0, c1, c2, c3);
}

} // namespace ptx
