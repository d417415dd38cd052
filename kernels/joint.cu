// The joint schema head's small steps, float32. Widths are multiples of 4; every sum has an order of its own row's alone.
//
//   pool_table_rows  out[l] = mean of table[ids[offsets[l]..offsets[l + 1]]], in order; without ids the rows lie one after
//                    the other as the lists name them; zeros for an empty list   grid (labels, width / 1024), exact
//   softmax_pool     out[g] = sum_r softmax_r(scale * x[r] . query[g]) * x[r], rows in chunks of CHUNK with the maximum so
//                    far; zeros for an empty group             grid groups; QUADS * 1024 columns at most
//   sum_terms        out = ((t0 + t1) + t2) + ...              grid rows * width / 1024, exact
//   pair_features    out[r] = [f ; o ; f * o ; |f - o|], f = left[owner[r]], o = right[r]
//                                                              grid rows * width / 1024, exact
//   joint_score      out[r] = e^min(prior, ln 100) * cos(lexical[r], question[q] + summary[s])
//                             + sigmoid(gate) * (e^min(joint, ln 100) * cos(field[q], option[r]) + residual[r])
//                    with q = owner[r], s = sequence[q]; norms at least 1e-12 and 1e-8     grid labels
//   threads          256
#include "epilogue.cuh"
#include "row.cuh"

DEVICE float4 zeros4() { return make_float4(0.f, 0.f, 0.f, 0.f); }

// No tensor has 2^34 elements: quadruples are counted in 32 bits.
DEVICE u32 quad() { return blockIdx.x * ROW_THREADS + threadIdx.x; }

struct PoolTableRows {
    const void *table;
    const int *ids, *offsets;
    float *out;
    const int *rows;
    int width, stored;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) pool_table_rows(const PoolTableRows p) {
    release_successor();
    wait_for_predecessor();
    const int l = blockIdx.x, column = 4 * (blockIdx.y * ROW_THREADS + threadIdx.x);
    if (l >= *p.rows || column >= p.width) return;
    const int first = p.offsets[l], last = p.offsets[l + 1];
    float4 sum = zeros4();
#pragma unroll 4
    for (int i = first; i < last; ++i) {
        const u64 at = (u64)(p.ids ? p.ids[i] : i) * p.width + column;
        sum = add4(sum, p.stored == F32   ? load_four<F32>(p.table, at)
                        : p.stored == F16 ? load_four<F16>(p.table, at)
                                          : load_four<BF16>(p.table, at));
    }
    const float count = (float)max_of(last - first, 1);
    store4(p.out + (u64)l * p.width + column, make_float4(__fdiv_rn(sum.x, count), __fdiv_rn(sum.y, count),
                                                          __fdiv_rn(sum.z, count), __fdiv_rn(sum.w, count)));
}

struct SoftmaxPool {
    const float *x, *query;
    const int *offsets;
    float *out;
    const int *rows;
    int width;
    float scale;
};

// Rows whose scores are in shared memory at a time: four a warp.
#define CHUNK (4 * ROW_WARPS)

DEVICE float dot4(float sum, float4 a, float4 b) {
    sum = add(sum, mul(a.x, b.x));
    sum = add(sum, mul(a.y, b.y));
    sum = add(sum, mul(a.z, b.z));
    return add(sum, mul(a.w, b.w));
}

// The same in every lane.
DEVICE float warp_dot(const float *a, const float *b, int width) {
    float sum = 0.f;
    for (int i = 4 * lane_id(); i < width; i += 128) sum = dot4(sum, load4(a + i), load4(b + i));
#pragma unroll
    for (int d = 16; d; d >>= 1) sum = add(sum, __shfl_xor_sync(~0u, sum, d));
    return sum;
}

template <int QUADS>
DEVICE void softmax_pool(const SoftmaxPool &p) {
    __shared__ float scores[CHUNK];
    release_successor();
    wait_for_predecessor();
    const int g = blockIdx.x;
    if (g >= *p.rows) return;
    const float *query = p.query + (u64)g * p.width;
    const int first = p.offsets[g], last = p.offsets[g + 1];
    float most = __uint_as_float(0xFF800000u), total = 0.f;
    Row<QUADS> sum;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) sum.v[q] = zeros4();
    for (int start = first; start < last; start += CHUNK) {
        const float *x = p.x + (u64)start * p.width;
        const int count = min_of(CHUNK, last - start);
        for (int r = warp_id(); r < count; r += ROW_WARPS) {
            const float score = mul(p.scale, warp_dot(x + (u64)r * p.width, query, p.width));
            if (lane_id() == 0) scores[r] = score;
        }
        __syncthreads();
        float next = most;
        for (int r = 0; r < count; ++r) next = fmaxf(next, scores[r]);
        const float keep = expf(most - next);
        most = next;
        total = mul(total, keep);
#pragma unroll
        for (int q = 0; q < QUADS; ++q) sum.v[q] = mul4(sum.v[q], make_float4(keep, keep, keep, keep));
        for (int r = 0; r < count; ++r) {
            const float a = expf(scores[r] - most);
            const Row<QUADS> row = load_row<QUADS>(x + (u64)r * p.width, p.width);
            total = add(total, a);
#pragma unroll
            for (int q = 0; q < QUADS; ++q) sum.v[q] = add4(sum.v[q], mul4(row.v[q], make_float4(a, a, a, a)));
        }
        __syncthreads(); // before the next chunk's scores
    }
    if (first < last) {
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            const float4 v = sum.v[q];
            sum.v[q] = make_float4(__fdiv_rn(v.x, total), __fdiv_rn(v.y, total), __fdiv_rn(v.z, total),
                                   __fdiv_rn(v.w, total));
        }
    }
    store_row(p.out + (u64)g * p.width, sum, p.width);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS) softmax_pool_2(const SoftmaxPool p) { softmax_pool<2>(p); }
extern "C" __global__ void __launch_bounds__(ROW_THREADS) softmax_pool_8(const SoftmaxPool p) { softmax_pool<8>(p); }

#define MOST_TERMS 8

struct SumTerms {
    const float *terms[MOST_TERMS];
    float *out;
    const int *rows;
    int count, width;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) sum_terms(const SumTerms p) {
    release_successor();
    wait_for_predecessor();
    const u64 i = 4 * (u64)quad();
    if (i >= (u64)*p.rows * p.width) return;
    float4 sum = load4(p.terms[0] + i);
#pragma unroll
    for (int t = 1; t < MOST_TERMS; ++t) {
        if (t < p.count) sum = add4(sum, load4(p.terms[t] + i));
    }
    store4(p.out + i, sum);
}

struct PairFeatures {
    const float *left, *right;
    const int *owner;
    float *out;
    const int *rows;
    int width, pad;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) pair_features(const PairFeatures p) {
    release_successor();
    wait_for_predecessor();
    const u32 quads = p.width / 4, r = quad() / quads, column = 4 * (quad() % quads);
    if (r >= (u32)*p.rows) return;
    const float4 f = load4(p.left + (u64)p.owner[r] * p.width + column);
    const float4 o = load4(p.right + (u64)r * p.width + column);
    float *out = p.out + (u64)r * 4 * p.width + column;
    store4(out, f);
    store4(out + p.width, o);
    store4(out + 2 * p.width, mul4(f, o));
    store4(out + 3 * p.width, make_float4(fabsf(f.x - o.x), fabsf(f.y - o.y), fabsf(f.z - o.z), fabsf(f.w - o.w)));
}

struct JointScore {
    const float *question, *summary, *lexical, *field, *option, *residual;
    const float *prior_scale, *joint_scale, *gate;
    const int *owner, *sequence;
    float *out;
    const int *rows;
    int hidden, width;
};

// Sums over the block, the same in every thread.
template <int N>
DEVICE void block_sums(float (&x)[N]) {
    __shared__ float part[ROW_WARPS][N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int d = 16; d; d >>= 1) x[n] = add(x[n], __shfl_xor_sync(~0u, x[n], d));
        if (lane_id() == 0) part[warp_id()][n] = x[n];
    }
    __syncthreads();
#pragma unroll
    for (int n = 0; n < N; ++n) {
        x[n] = part[0][n];
#pragma unroll
        for (int w = 1; w < ROW_WARPS; ++w) x[n] = add(x[n], part[w][n]);
    }
}

// From a . b, a . a and b . b, each norm at least `least`.
DEVICE float cosine(float ab, float aa, float bb, float least) {
    return __fdiv_rn(ab, mul(fmaxf(__fsqrt_rn(aa), least), fmaxf(__fsqrt_rn(bb), least)));
}

// e^x, at most 100.
DEVICE float log_scale(float x) { return expf(fminf(x, 4.6051702f)); }

extern "C" __global__ void __launch_bounds__(ROW_THREADS) joint_score(const JointScore p) {
    release_successor();
    wait_for_predecessor();
    const int r = blockIdx.x;
    if (r >= *p.rows) return;
    const int q = p.owner[r];
    const float *question = p.question + (u64)q * p.hidden, *summary = p.summary + (u64)p.sequence[q] * p.hidden;
    const float *lexical = p.lexical + (u64)r * p.hidden;
    const float *field = p.field + (u64)q * p.width, *option = p.option + (u64)r * p.width;
    float sums[6] = {0.f, 0.f, 0.f, 0.f, 0.f, 0.f};
    for (int i = 4 * threadIdx.x; i < p.hidden; i += 4 * ROW_THREADS) {
        const float4 a = load4(lexical + i), b = add4(load4(question + i), load4(summary + i));
        sums[0] = dot4(sums[0], a, b);
        sums[1] = dot4(sums[1], a, a);
        sums[2] = dot4(sums[2], b, b);
    }
    for (int i = 4 * threadIdx.x; i < p.width; i += 4 * ROW_THREADS) {
        const float4 a = load4(field + i), b = load4(option + i);
        sums[3] = dot4(sums[3], a, b);
        sums[4] = dot4(sums[4], a, a);
        sums[5] = dot4(sums[5], b, b);
    }
    block_sums(sums);
    if (threadIdx.x > 0) return;
    const float prior = cosine(sums[0], sums[1], sums[2], 1e-12f), joint = cosine(sums[3], sums[4], sums[5], 1e-8f);
    const float gate = __fdiv_rn(1.f, add(1.f, expf(-*p.gate)));
    const float gated = mul(gate, add(mul(log_scale(*p.joint_scale), joint), p.residual[r]));
    p.out[r] = add(mul(log_scale(*p.prior_scale), prior), gated);
}
