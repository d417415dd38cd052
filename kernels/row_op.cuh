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

// What of the weights a thread needs: no kernel writes them, so that they may be fetched before the predecessor ends.
template <int OP>
struct OpWeights {};
template <>
struct OpWeights<RMS_NORM> {
    Spans one_plus;
};
template <>
struct OpWeights<GATED_RMS_NORM> {
    float w[SPAN];
};

DEVICE void load_weights(const RowOp &, OpWeights<COPY> &) {}
DEVICE void load_weights(const RowOp &, OpWeights<SIGMOID_GATE> &) {}
DEVICE void load_weights(const RowOp &p, OpWeights<RMS_NORM> &w) {
    load_spans_as<F32>(p.weight, 0, p.width, w.one_plus);
#pragma unroll
    for (int s = 0; s < SPANS; ++s)
#pragma unroll
        for (int i = 0; i < SPAN; ++i) w.one_plus.v[s][i] = add(1.f, w.one_plus.v[s][i]);
}
DEVICE void load_weights(const RowOp &p, OpWeights<GATED_RMS_NORM> &w) {
    // Heads divide 512 elements, so that both spans lie at the same place of a head.
    load_span<F32>(p.weight, lane_id() * SPAN % p.head, w.w);
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

DEVICE float sigmoid(float x) { return __frcp_rn(add(1.f, expf(-x))); }

// The gates that belong to span `s`.
DEVICE void load_gates(const RowOp &p, u64 row, int s, float (&z)[SPAN]) {
    const int at = span_start(s);
    const u64 i = row * p.gate_pitch + at / p.gate_head * p.gate_stride + at % p.gate_head;
    if (p.gate_stored == F32) load_span<F32>(p.gate, i, z);
    else load_span<BF16>(p.gate, i, z);
}

DEVICE void apply(const RowOp &p, u64 row, const OpWeights<COPY> &, Spans &y) {
    load_spans(p.x, row, p.width, p.stored, y);
}

DEVICE void apply(const RowOp &p, u64 row, const OpWeights<RMS_NORM> &w, Spans &y) {
    load_spans(p.x, row, p.width, p.stored, y);
    double sum = 0.0;
#pragma unroll
    for (int s = 0; s < SPANS; ++s) sum += squares(y.v[s]);
    const float scale = norm_scale(p, block_sum(sum));
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
        if (span_start(s) < p.width) {
#pragma unroll
            for (int i = 0; i < SPAN; ++i) y.v[s][i] = mul(mul(y.v[s][i], scale), w.one_plus.v[s][i]);
        }
    }
}

DEVICE void apply(const RowOp &p, u64 row, const OpWeights<GATED_RMS_NORM> &w, Spans &y) {
    load_spans(p.x, row, p.width, p.stored, y);
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
        const bool inside = span_start(s) < p.width;
        float z[SPAN];
        if (inside) load_gates(p, row, s, z);
        double sum = squares(y.v[s]);
        for (int d = 1; d < p.head / SPAN; d <<= 1) sum += __shfl_xor_sync(~0u, sum, d);
        if (inside) {
            const float scale = norm_scale(p, sum);
#pragma unroll
            for (int i = 0; i < SPAN; ++i)
                y.v[s][i] = mul(mul(mul(y.v[s][i], scale), w.w[i]), mul(z[i], sigmoid(z[i])));
        }
    }
}

DEVICE void apply(const RowOp &p, u64 row, const OpWeights<SIGMOID_GATE> &, Spans &y) {
    load_spans(p.x, row, p.width, p.stored, y);
#pragma unroll
    for (int s = 0; s < SPANS; ++s) {
        if (span_start(s) < p.width) {
            float z[SPAN];
            load_gates(p, row, s, z);
#pragma unroll
            for (int i = 0; i < SPAN; ++i) y.v[s][i] = mul(y.v[s][i], sigmoid(z[i]));
        }
    }
}
