// The scorers' small steps.
//
//   pair_product  out[l] = [t1 ; c1 ; t2 * c2] with t = text[owner[l]]     grid labels, 256 threads; exact
//   dot           out[l] = text[owner[l]] . classes[l]                     grid labels, 256 threads
//   hopfield_mix  a = softmax(beta q . k) over the labels of a sequence; out = classes + a * v    grid sequences
//   scale         out = x * by                                             grid elements / 256; exact
#include "row.cuh"

struct PairProduct {
    const float *text, *classes;
    const int *owner;
    float *out;
    const int *rows;
    int half;
};

extern "C" __global__ void __launch_bounds__(256) pair_product(const PairProduct p) {
    release_successor();
    wait_for_predecessor();
    int l = blockIdx.x, d = p.half;
    if (l >= *p.rows) return;
    const float *t = p.text + (u64)p.owner[l] * 2 * d, *c = p.classes + (u64)l * 2 * d;
    float *y = p.out + (u64)l * 3 * d;
    for (int i = threadIdx.x; i < d; i += 256) {
        y[i] = t[i];
        y[d + i] = c[i];
        y[2 * d + i] = mul(t[d + i], c[d + i]);
    }
}

DEVICE float block_dot(const float *a, const float *b, int width) {
    float sum = 0.f;
    for (int i = threadIdx.x; i < width; i += ROW_THREADS) sum = add(sum, mul(a[i], b[i]));
    return block_sum(sum);
}

struct Dot {
    const float *text, *classes;
    const int *owner;
    float *out;
    const int *rows;
    int width;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) dot_rows(const Dot p) {
    release_successor();
    wait_for_predecessor();
    int l = blockIdx.x;
    if (l >= *p.rows) return;
    float y = block_dot(p.text + (u64)p.owner[l] * p.width, p.classes + (u64)l * p.width, p.width);
    if (threadIdx.x == 0) p.out[l] = y;
}

struct HopfieldMix {
    const float *query, *key, *value, *classes;
    const int *offsets;
    float *out;
    const int *rows;
    int width;
    float beta;
};

// Scores are computed twice rather than stored: the number of labels has no limit.
extern "C" __global__ void __launch_bounds__(ROW_THREADS) hopfield_mix(const HopfieldMix p) {
    release_successor();
    wait_for_predecessor();
    int s = blockIdx.x;
    if (s >= *p.rows) return;
    const float *key = p.key + (u64)s * p.width, *value = p.value + (u64)s * p.width;
    int first = p.offsets[s], last = p.offsets[s + 1];
    float most = __uint_as_float(0xFF800000u), sum = 0.f;
    for (int l = first; l < last; ++l) {
        float score = mul(p.beta, block_dot(p.query + (u64)l * p.width, key, p.width));
        float next = fmaxf(most, score);
        sum = sum * expf(most - next) + expf(score - next);
        most = next;
    }
    for (int l = first; l < last; ++l) {
        float score = mul(p.beta, block_dot(p.query + (u64)l * p.width, key, p.width));
        float a = __fdiv_rn(expf(score - most), sum);
        for (int i = threadIdx.x; i < p.width; i += ROW_THREADS) {
            u64 at = (u64)l * p.width + i;
            p.out[at] = add(p.classes[at], mul(a, value[i]));
        }
    }
}

struct Scale {
    const float *x, *by;
    float *out;
    const int *rows;
    int width;
};

extern "C" __global__ void __launch_bounds__(256) scale(const Scale p) {
    release_successor();
    wait_for_predecessor();
    u64 i = (u64)blockIdx.x * 256 + threadIdx.x;
    if (i < (u64)*p.rows * p.width) p.out[i] = mul(p.x[i], *p.by);
}
