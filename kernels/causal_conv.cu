// CausalConv: depthwise convolution of four taps over the rows of each sequence, and SiLU.
//
//   out[t, c] = silu(((w[c, 0] * x[t-3, c] + w[c, 1] * x[t-2, c]) + w[c, 2] * x[t-1, c]) + w[c, 3] * x[t, c])
//
//   grid    (channels / 1024, rows of the bucket / rows of a block), 256 threads: each walks down the block's rows of four
//           channels with three rows behind it in registers, and reads the next four rows while it works on these
//   sizes   channels, first column and pitch multiples of 4
//   exact   to float32 but for the exponential; results in bfloat16 take multiply-adds and a faster quotient
#include "convert.cuh"

#define TAPS 4
#define CHANNELS 4
#define AHEAD 4

struct CausalConv {
    const void *x;       // first column of row 0
    const float *weight; // [channels][TAPS], the last tap is the row's own
    const int *offsets;  // [sequences + 1]
    void *out;           // [rows, channels]
    const int *rows, *sequences;
    int pitch, channels, block_rows, pad;
    const void *const *before; // of each sequence null or its last TAPS - 1 rows before those of the batch, [channels] each
};

template <int STORED>
struct Raw {
    uint2 bits;
};
template <>
struct Raw<F32> {
    float4 bits;
};

// Four channels of a row, as they lie in memory.
template <int STORED>
DEVICE Raw<STORED> fetch(const CausalConv &p, int row, int channel) {
    const u64 i = (u64)row * p.pitch + channel;
    if constexpr (STORED == F32) return {load4(static_cast<const float *>(p.x) + i)};
    else return {*reinterpret_cast<const uint2 *>(static_cast<const u16 *>(p.x) + i)};
}
DEVICE float4 widen(Raw<F32> raw) { return raw.bits; }
DEVICE float4 widen(Raw<BF16> raw) {
    return make_float4(bf16_low(raw.bits.x), bf16_high(raw.bits.x), bf16_low(raw.bits.y), bf16_high(raw.bits.y));
}

// The row `back` rows before the first of a sequence, 1 the nearest: zeros, or with AFTER what was kept of an earlier batch. All
// rows that a sequence does not have come from here.
template <int STORED, bool AFTER>
DEVICE float4 before_sequence(const CausalConv &p, int sequence, int back, int channel) {
    if constexpr (AFTER) {
        if (const void *kept = p.before[sequence]) {
            const u64 i = (u64)(TAPS - 1 - back) * p.channels + channel;
            if constexpr (STORED == F32) return load4(static_cast<const float *>(kept) + i);
            else return widen(Raw<STORED>{*reinterpret_cast<const uint2 *>(static_cast<const u16 *>(kept) + i)});
        }
    }
    return make_float4(0.f, 0.f, 0.f, 0.f);
}

// Row `row - back` as a row of the sequence starts at `first`.
template <int STORED, bool AFTER>
DEVICE float4 behind(const CausalConv &p, int sequence, int first, int row, int back, int channel) {
    const int at = row - back;
    return at >= first ? widen(fetch<STORED>(p, at, channel))
                       : before_sequence<STORED, AFTER>(p, sequence, first - at, channel);
}

template <int OUT>
DEVICE float tap(float sum, float w, float x) {
    return OUT == F32 ? add(sum, mul(w, x)) : __fmaf_rn(w, x, sum);
}
template <int OUT>
DEVICE float silu(float x) {
    return OUT == F32 ? mul(x, __frcp_rn(add(1.f, expf(-x)))) : __fdividef(x, 1.f + __expf(-x));
}
// One channel: its weights, the three rows behind and the row itself.
template <int OUT>
DEVICE float convolve(float4 w, float third, float second, float last, float x) {
    float y = tap<OUT>(0.f, w.x, third);
    y = tap<OUT>(y, w.y, second);
    y = tap<OUT>(y, w.z, last);
    return silu<OUT>(tap<OUT>(y, w.w, x));
}

template <int STORED, int OUT, bool AFTER>
DEVICE void causal_conv(const CausalConv &p) {
    release_successor();
    const int channel = CHANNELS * (blockIdx.x * blockDim.x + threadIdx.x);
    const bool inside = channel < p.channels;
    float4 w[CHANNELS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
        w[c] = inside ? load4(p.weight + TAPS * (channel + c)) : make_float4(0.f, 0.f, 0.f, 0.f);
    wait_for_predecessor();
    int row = blockIdx.y * p.block_rows;
    const int end = min_of(row + p.block_rows, *p.rows);
    if (row >= end || !inside) return;

    Raw<STORED> now[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; ++i) now[i] = fetch<STORED>(p, min_of(row + i, end - 1), channel);

    // The last sequence that starts at or before the row.
    int sequence = 0, beyond = *p.sequences;
    while (beyond - sequence > 1) {
        const int middle = (sequence + beyond) / 2;
        if (p.offsets[middle] <= row) sequence = middle;
        else beyond = middle;
    }
    const int first = p.offsets[sequence];
    int stop = p.offsets[sequence + 1];
    float4 third = behind<STORED, AFTER>(p, sequence, first, row, 3, channel);
    float4 second = behind<STORED, AFTER>(p, sequence, first, row, 2, channel);
    float4 last = behind<STORED, AFTER>(p, sequence, first, row, 1, channel);

    for (; row < end; row += AHEAD) {
        Raw<STORED> next[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) next[i] = fetch<STORED>(p, min_of(row + AHEAD + i, end - 1), channel);
#pragma unroll
        for (int i = 0; i < AHEAD; ++i) {
            if (row + i < end) {
                if (row + i >= stop) {
                    // Sequences may be empty.
                    while (row + i >= stop) stop = p.offsets[++sequence + 1];
                    third = before_sequence<STORED, AFTER>(p, sequence, 3, channel);
                    second = before_sequence<STORED, AFTER>(p, sequence, 2, channel);
                    last = before_sequence<STORED, AFTER>(p, sequence, 1, channel);
                }
                const float4 x = widen(now[i]);
                const float4 y = make_float4(convolve<OUT>(w[0], third.x, second.x, last.x, x.x),
                                             convolve<OUT>(w[1], third.y, second.y, last.y, x.y),
                                             convolve<OUT>(w[2], third.z, second.z, last.z, x.z),
                                             convolve<OUT>(w[3], third.w, second.w, last.w, x.w));
                const u64 at = (u64)(row + i) * p.channels + channel;
                if constexpr (OUT == F32) {
                    store4(static_cast<float *>(p.out) + at, y);
                } else {
                    *reinterpret_cast<uint2 *>(static_cast<u16 *>(p.out) + at) =
                        make_uint2(bf16_pair(y.x, y.y), bf16_pair(y.z, y.w));
                }
                third = second;
                second = last;
                last = x;
            }
            now[i] = next[i];
        }
    }
}

#define INSTANCE(NAME, STORED, OUT, AFTER)                                                   \
    extern "C" __global__ void __launch_bounds__(256) causal_conv_##NAME(const CausalConv p) { \
        causal_conv<STORED, OUT, AFTER>(p);                                                  \
    }
INSTANCE(f32, F32, F32, false)
INSTANCE(bf16, BF16, BF16, false)
INSTANCE(bf16_to_f32, BF16, F32, false)
// Sequences may go on after rows of earlier batches.
INSTANCE(f32_after, F32, F32, true)
INSTANCE(bf16_after, BF16, BF16, true)
INSTANCE(bf16_to_f32_after, BF16, F32, true)
