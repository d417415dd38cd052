// HeadRotary: an optional RMS norm of each head, x * rsqrt(mean(x^2) + eps) * (1 + w), then rotary position: columns i and
// i + P of a head (i < P, P pairs) turn by the angle position[axis[i]] * inverse[i], a product of float32; the rest passes.
//
//   in, out  float32 or bfloat16; the heads of all parts stand side by side in out, the first of a part at its column
//   warp     one head at a time, up to 256 columns, a multiple of 4; P a multiple of 4, at most 64; first columns, strides and
//            pitches are multiples of 4
//   exact    sines and cosines are worked out in double precision: with a few exceptions the float32 nearest to the true one
//   grid     rows of the bucket, 256 threads
#include "convert.cuh"

#define THREADS 256
#define MOST_PARTS 4
#define MOST_PAIRS 64
#define QUADS 2 // quadruples of a head in a lane: quadruple q of a head is the lane's q / 32

struct RotaryPart {
    const void *x; // first column of the first head
    const float *weight;
    int pitch, stride, width, count, column, pad;
};
struct HeadRotary {
    RotaryPart parts[MOST_PARTS];
    const int *positions, *rows;
    void *out;
    float inverse[MOST_PAIRS];
    int axis[MOST_PAIRS];
    int heads, pairs, axes, out_pitch;
    float eps;
    int pad;
};

// Cosine and sine: the angle less its whole quarter turns, then Taylor's polynomials on half a quarter.
DEVICE float2 turn_by(float angle) {
    const double x = angle, quarters = x * 0.63661977236758134308;
    const long long whole = (long long)(quarters < 0.0 ? quarters - 0.5 : quarters + 0.5);
    const double k = (double)whole;
    double r = x - k * 1.57079632679489661923;
    r = r - k * 6.123233995736766036e-17;
    const double s = r * r;
    double sine = 1.0 / 6227020800.0;
    sine = sine * s - 1.0 / 39916800.0;
    sine = sine * s + 1.0 / 362880.0;
    sine = sine * s - 1.0 / 5040.0;
    sine = sine * s + 1.0 / 120.0;
    sine = sine * s - 1.0 / 6.0;
    sine = sine * s * r + r;
    double cosine = -1.0 / 87178291200.0;
    cosine = cosine * s + 1.0 / 479001600.0;
    cosine = cosine * s - 1.0 / 3628800.0;
    cosine = cosine * s + 1.0 / 40320.0;
    cosine = cosine * s - 1.0 / 720.0;
    cosine = cosine * s + 1.0 / 24.0;
    cosine = cosine * s - 0.5;
    cosine = cosine * s + 1.0;
    float c = (float)((whole & 1) ? sine : cosine), d = (float)((whole & 1) ? cosine : sine);
    if ((whole + 1) & 2) c = -c;
    if (whole & 2) d = -d;
    return make_float2(c, d);
}

template <int STORED>
DEVICE void store_four(void *data, u64 i, float4 v) {
    if constexpr (STORED == F32) {
        store4(static_cast<float *>(data) + i, v);
    } else {
        *reinterpret_cast<uint2 *>(static_cast<u16 *>(data) + i) =
            make_uint2(rounded_pair<STORED>(v.x, v.y), rounded_pair<STORED>(v.z, v.w));
    }
}

DEVICE float warp_sum(float x) {
#pragma unroll
    for (int d = 16; d; d >>= 1) x = add(x, __shfl_xor_sync(~0u, x, d));
    return x;
}

// A head on its way through a warp.
struct Head {
    float4 v[QUADS];
    int part, index; // the part, and the head's number in it
};

template <int IN>
DEVICE Head load_head(const HeadRotary &p, int row, int head) {
    Head h;
    h.part = 0;
    h.index = head;
    while (h.index >= p.parts[h.part].count) h.index -= p.parts[h.part++].count;
    const RotaryPart &part = p.parts[h.part];
    const u64 first = (u64)row * part.pitch + (u64)h.index * part.stride;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int at = (q * 32 + lane_id()) * 4;
        h.v[q] = at < part.width ? load_four<IN>(part.x, first + at) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
    return h;
}

DEVICE float normed(float x, float scale, float w) { return mul(mul(x, scale), add(1.f, w)); }

DEVICE void norm(Head &h, const RotaryPart &part, float eps) {
    float sum = 0.f;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const float4 v = h.v[q];
        sum = add(sum, add(add(mul(v.x, v.x), mul(v.y, v.y)), add(mul(v.z, v.z), mul(v.w, v.w))));
    }
    const float mean = __fdiv_rn(warp_sum(sum), (float)part.width);
    const float scale = __fdiv_rn(1.f, __fsqrt_rn(add(mean, eps)));
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int at = (q * 32 + lane_id()) * 4;
        if (at >= part.width) continue;
        const float4 w = load4(part.weight + at);
        h.v[q].x = normed(h.v[q].x, scale, w.x);
        h.v[q].y = normed(h.v[q].y, scale, w.y);
        h.v[q].z = normed(h.v[q].z, scale, w.z);
        h.v[q].w = normed(h.v[q].w, scale, w.w);
    }
}

// The pairs stand in the first quadruples of the lanes: a lane's partner is `apart` lanes away.
DEVICE void turn(float4 &v, const float2 *turns, int apart) {
    const int lane = lane_id();
    const bool second = lane >= apart;
    const int partner = (second ? lane - apart : lane + apart) & 31;
    const float4 w = make_float4(__shfl_sync(~0u, v.x, partner), __shfl_sync(~0u, v.y, partner),
                                 __shfl_sync(~0u, v.z, partner), __shfl_sync(~0u, v.w, partner));
    if (lane >= 2 * apart) return;
    const float2 *t = turns + (second ? lane - apart : lane) * 4;
    auto turned = [&](float x, float y, float2 by) { return add(mul(x, by.x), mul(y, second ? by.y : -by.y)); };
    v = make_float4(turned(v.x, w.x, t[0]), turned(v.y, w.y, t[1]), turned(v.z, w.z, t[2]), turned(v.w, w.w, t[3]));
}

template <int IN, int OUT>
DEVICE void head_rotary(const HeadRotary &p) {
    __shared__ float2 turns[MOST_PAIRS];
    release_successor();
    const int row = blockIdx.x, i = threadIdx.x;
    const bool real = row < *p.rows;
    // No kernel writes positions: before the wait.
    if (real && i < p.pairs) turns[i] = turn_by(mul((float)p.positions[(u64)row * p.axes + p.axis[i]], p.inverse[i]));
    wait_for_predecessor();
    __syncthreads();
    if (!real) return;
    int head = warp_id();
    if (head >= p.heads) return;
    Head next = load_head<IN>(p, row, head);
    while (head < p.heads) {
        Head h = next;
        head += THREADS / 32;
        if (head < p.heads) next = load_head<IN>(p, row, head);
        const RotaryPart &part = p.parts[h.part];
        if (part.weight) norm(h, part, p.eps);
        turn(h.v[0], turns, p.pairs / 4);
        const u64 first = (u64)row * p.out_pitch + part.column + h.index * part.width;
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            const int at = (q * 32 + lane_id()) * 4;
            if (at < part.width) store_four<OUT>(p.out, first + at, h.v[q]);
        }
    }
}

#define INSTANCE(NAME, IN, OUT)                                                                            \
    extern "C" __global__ void __launch_bounds__(THREADS) head_rotary_##NAME(const HeadRotary p) { \
        head_rotary<IN, OUT>(p);                                                                           \
    }
INSTANCE(f32, F32, F32)
INSTANCE(f32_bf16, F32, BF16)
INSTANCE(bf16_f32, BF16, F32)
INSTANCE(bf16, BF16, BF16)
