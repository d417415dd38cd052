// Words that every kernel uses: integer names, ordered launches, rounding-exact arithmetic.
//
// No CUDA header is included anywhere in this folder, so the run-time compiler needs no include path.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define DEVICE static __device__ __forceinline__

// Programmatic dependent launch. A kernel lets its successor start at once (it takes the free slots and fetches its
// weights) and waits itself before it touches anything an earlier kernel wrote *or still reads*. Every thread of every
// kernel waits, so "my predecessor has finished" implies that all before it have.
DEVICE void release_successor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
DEVICE void wait_for_predecessor() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

DEVICE int min_of(int a, int b) { return a < b ? a : b; }
DEVICE int max_of(int a, int b) { return a > b ? a : b; }
DEVICE int lane_id() { return threadIdx.x & 31; }
DEVICE int warp_id() { return threadIdx.x >> 5; }

DEVICE u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

DEVICE float4 load4(const float *p) { return *reinterpret_cast<const float4 *>(p); }
DEVICE void store4(float *p, float4 v) { *reinterpret_cast<float4 *>(p) = v; }

// The 128 threads of warpgroup `group`, 0 or 1, meet.
DEVICE void meet_group(int group) {
    if (group == 0) asm volatile("bar.sync 1, 128;" ::: "memory");
    else asm volatile("bar.sync 2, 128;" ::: "memory");
}

// Shared memory by address.
DEVICE float load_shared(u32 from) {
    float x;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(from) : "memory");
    return x;
}
DEVICE void store_shared(u32 to, float x) { asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(x) : "memory"); }
DEVICE float2 load8_shared(u32 from) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(from) : "memory");
    return v;
}
DEVICE uint4 load16_shared(u32 from) {
    uint4 v;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "r"(from)
                 : "memory");
    return v;
}

// x·y and x+y rounded once each: never contracted into a fused multiply-add.
DEVICE float mul(float x, float y) { return __fmul_rn(x, y); }
DEVICE float add(float x, float y) { return __fadd_rn(x, y); }
// As memory adds (box_add of tensor_copy.cuh): subnormal operands and sums are zeros.
DEVICE float add_flushed(float x, float y) {
    float sum;
    asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(sum) : "f"(x), "f"(y));
    return sum;
}
