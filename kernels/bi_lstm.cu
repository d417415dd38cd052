// BiLstm: both directions over the first lengths[s] rows of each sequence, states from zero; zeros beyond.
//
//   grid   (2 directions, sequences of the bucket), 256 threads; dynamic shared memory 3 * hidden floats
//   speed  one block walks a sequence; every step reads the recurrent weights, which the second-level cache holds
#include "base.cuh"

struct Direction {
    const float *input, *hidden, *bias;
};
struct BiLstm {
    const float *x;
    const int *offsets, *lengths;
    Direction forward, backward;
    float *out;
    const int *rows;
    int width, hidden;
};

DEVICE float warp_sum(float x) {
#pragma unroll
    for (int d = 16; d; d >>= 1) x = add(x, __shfl_xor_sync(~0u, x, d));
    return x;
}
DEVICE float sigmoid(float x) { return __fdiv_rn(1.f, add(1.f, expf(-x))); }

extern "C" __global__ void __launch_bounds__(256) bi_lstm(const BiLstm p) {
    extern __shared__ float state[];
    release_successor();
    wait_for_predecessor();
    int s = blockIdx.y, n = p.hidden;
    if (s >= *p.rows) return;
    const bool ahead = blockIdx.x == 0;
    const float *input = ahead ? p.forward.input : p.backward.input;
    const float *hidden = ahead ? p.forward.hidden : p.backward.hidden;
    const float *bias = ahead ? p.forward.bias : p.backward.bias;
    int first = p.offsets[s], all = p.offsets[s + 1] - first, count = min_of(p.lengths[s], all);
    float *h = state, *next = state + n, *out = p.out + blockIdx.x * n;
    for (int j = threadIdx.x; j < n; j += 256) h[j] = 0.f;
    for (int i = count; i < all; ++i) {
        for (int j = threadIdx.x; j < n; j += 256) out[(u64)(first + i) * 2 * n + j] = 0.f;
    }
    float *c = state + 2 * n;
    for (int j = threadIdx.x; j < n; j += 256) c[j] = 0.f;
    __syncthreads();
    for (int step = 0; step < count; ++step) {
        int i = ahead ? step : count - 1 - step;
        const float *x = p.x + (u64)(first + i) * p.width;
        for (int j = warp_id(); j < n; j += 8) {
            float gate[4];
#pragma unroll
            for (int g = 0; g < 4; ++g) {
                int r = g * n + j;
                float a = 0.f, b = 0.f;
                for (int k = lane_id(); k < p.width; k += 32) a = add(a, mul(input[(u64)r * p.width + k], x[k]));
                for (int k = lane_id(); k < n; k += 32) b = add(b, mul(hidden[(u64)r * n + k], h[k]));
                gate[g] = add(add(warp_sum(a), warp_sum(b)), bias[r]);
            }
            float cell = add(mul(sigmoid(gate[1]), c[j]), mul(sigmoid(gate[0]), tanhf(gate[2])));
            float y = mul(sigmoid(gate[3]), tanhf(cell));
            __syncwarp();
            if (lane_id() == 0) {
                c[j] = cell;
                next[j] = y;
                out[(u64)(first + i) * 2 * n + j] = y;
            }
        }
        __syncthreads();
        float *swap = h;
        h = next;
        next = swap;
    }
}
