// What happens to a finished sum: scales, bias, activation, gate, residual. Separate roundings, in this order.
#pragma once
#include "base.cuh"

enum { NONE, GELU_ERF, GELU_TANH, RELU, SILU };

DEVICE float activate(int kind, float x) {
    switch (kind) {
        case GELU_ERF: return 0.5f * x * (1.f + erff(x * 0.70710678f));
        // x / 2 * (1 + tanh(y)) = x / (1 + exp(-2y)), to a few units in the last place.
        case GELU_TANH: return __fdividef(x, 1.f + __expf(-1.5957691f * (x + 0.044715f * x * x * x)));
        case RELU: return fmaxf(x, 0.f);
        case SILU: return __fdividef(x, 1.f + __expf(-x));
        default: return x;
    }
}

DEVICE float4 activate4(int kind, float4 v) {
    if (kind == NONE) return v;
    return make_float4(activate(kind, v.x), activate(kind, v.y), activate(kind, v.z), activate(kind, v.w));
}

DEVICE float4 add4(float4 a, float4 b) {
    return make_float4(add(a.x, b.x), add(a.y, b.y), add(a.z, b.z), add(a.w, b.w));
}
DEVICE float4 mul4(float4 a, float4 b) {
    return make_float4(mul(a.x, b.x), mul(a.y, b.y), mul(a.z, b.z), mul(a.w, b.w));
}

// (p * row scale) * column scale.
DEVICE float4 dequantize4(float4 p, float scale, float4 scales) {
    return mul4(mul4(p, make_float4(scale, scale, scale, scale)), scales);
}

// Four values to out[column..], as many as there are columns; adds the residual when there is one.
DEVICE void finish4(float *out, const float *residual, int column, int columns, float4 v) {
    if (column + 4 <= columns && (columns & 3) == 0) {
        if (residual) v = add4(v, load4(residual + column));
        store4(out + column, v);
        return;
    }
    float e[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (column + i < columns) out[column + i] = residual ? add(e[i], residual[column + i]) : e[i];
    }
}
