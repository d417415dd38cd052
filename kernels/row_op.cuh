// Row functions on spans, in float32 with every operation rounded on its own. Mean squares are summed in double and
// rounded once, as their definition is, so that rows come out with the definition's bits but for an exponential.
#pragma once
#include "span.cuh"

enum { COPY, RMS_NORM, GATED_RMS_NORM, SIGMOID_GATE };

struct RowOp {
    const void *x;       // [rows, width]
    const void *gate;    // the first gate of row 0
    const float *weight; // [width] (RMS_NORM), [head] (GATED_RMS_NORM)
    double share;        // 1 / number of columns normed together
    int width, stored;
    // Gates: columns of their matrix, columns of a head, from one head to the next.
    int gate_pitch, gate_head, gate_stride, gate_stored;
    int head;  // columns normed together (GATED_RMS_NORM): 16, 32, 64, 128, 256 or 512
    float eps;
};

// The weights that belong to span `s`: no kernel writes them, so that they may be fetched before the predecessor ends. Heads
// divide 512 elements, so that both spans lie at the same place of a head.
template <int OP>
DEVICE void load_weights(const RowOp &p, int s, float (&w)[SPAN]) {
    if (OP == RMS_NORM) {
        const int at = span_start(s);
        if (at < p.width) load_span<F32>(p.weight, at, w);
        else zero_span(w);
#pragma unroll
        for (int i = 0; i < SPAN; ++i) w[i] = add(1.f, w[i]);
    } else {
        load_span<F32>(p.weight, lane_id() * SPAN % p.head, w);
    }
}

DEVICE double squares(const float (&v)[SPAN]) {
    double sum = 0.0;
#pragma unroll
    for (int i = 0; i < SPAN; ++i) sum += (double)mul(v[i], v[i]);
    return sum;
}

// 1 / sqrt(mean + eps). The mean is rounded to float32 once more, so that a product stands for the quotient.
DEVICE float norm_scale(const RowOp &p, double sum) {
    return __fdiv_rn(1.f, __fsqrt_rn(add((float)(sum * p.share), p.eps)));
}

// Correctly rounded but for the exponential; or, `fast`, to about 2^-19 for gates that come with eight bits.
DEVICE float sigmoid(float x, bool fast) {
    return fast ? __fdividef(1.f, 1.f + __expf(-x)) : __frcp_rn(add(1.f, expf(-x)));
}

// First element of the gates that belong to element `e` of row 0.
DEVICE int gate_place(const RowOp &p, int e) { return e / p.gate_head * p.gate_stride + e % p.gate_head; }

// The gates that belong to span `s`.
DEVICE void load_gates(const RowOp &p, u64 row, int s, float (&z)[SPAN]) {
    const u64 i = row * p.gate_pitch + gate_place(p, span_start(s));
    if (p.gate_stored == F32) load_span<F32>(p.gate, i, z);
    else load_span<BF16>(p.gate, i, z);
}

// The row function of a row in `y`; `weights(s, w)` and `gates(s, z)` give those that belong to span `s`.
template <int OP, class Weights, class Gates>
DEVICE void apply(const RowOp &p, Spans &y, Weights weights, Gates gates) {
    if constexpr (OP == RMS_NORM) {
        double sum = 0.0;
#pragma unroll
        for (int s = 0; s < SPANS; ++s) sum += squares(y.v[s]);
        const float scale = norm_scale(p, block_sum(sum));
#pragma unroll
        for (int s = 0; s < SPANS; ++s) {
            float w[SPAN];
            weights(s, w);
#pragma unroll
            for (int i = 0; i < SPAN; ++i) y.v[s][i] = mul(mul(y.v[s][i], scale), w[i]);
        }
    }
    if constexpr (OP == GATED_RMS_NORM) {
#pragma unroll
        for (int s = 0; s < SPANS; ++s) {
            double sum = squares(y.v[s]);
            for (int d = 1; d < p.head / SPAN; d <<= 1) sum += __shfl_xor_sync(~0u, sum, d);
            if (span_start(s) >= p.width) continue;
            const float scale = norm_scale(p, sum);
            float w[SPAN], z[SPAN];
            weights(0, w);
#pragma unroll
            for (int i = 0; i < SPAN; ++i) y.v[s][i] = mul(mul(y.v[s][i], scale), w[i]);
            gates(s, z);
            if (p.gate_stored == F32) {
#pragma unroll
                for (int i = 0; i < SPAN; ++i) y.v[s][i] = mul(y.v[s][i], mul(z[i], sigmoid(z[i], false)));
            } else {
#pragma unroll
                for (int i = 0; i < SPAN; ++i) y.v[s][i] = mul(y.v[s][i], mul(z[i], sigmoid(z[i], true)));
            }
        }
    }
    if constexpr (OP == SIGMOID_GATE) {
#pragma unroll
        for (int s = 0; s < SPANS; ++s) {
            if (span_start(s) >= p.width) continue;
            float z[SPAN];
            gates(s, z);
            if (p.gate_stored == F32) {
#pragma unroll
                for (int i = 0; i < SPAN; ++i) y.v[s][i] = mul(y.v[s][i], sigmoid(z[i], false));
            } else {
#pragma unroll
                for (int i = 0; i < SPAN; ++i) y.v[s][i] = mul(y.v[s][i], sigmoid(z[i], true));
            }
        }
    }
}
