// Steps that write split rows (split_rows.cuh), or read them: SelectRows and PoolSpans, LayerNorm, Concat. Two of a kind that do
// not need each other are one launch.
//
//   gather      selected[r] = x[index[r]];  pooled[c] = mean of x[start..end] in row order, zeros for an empty span
//   split_norm  (x - mean) / sqrt(var + eps) * w + b as layer_norm.cu computes it; width a multiple of 4, at most 8192
//   split_concat  out[r] = [left[r] ; right[r]]; widths multiples of 4
//   grid        a block a row: those of the first part, then from `first` on those of the second; 256 threads
#include "row.cuh"
#include "split_rows.cuh"

struct Gather {
    const float *x;
    const int *index, *selected_rows, *spans, *pooled_rows;
    SplitRows selected, pooled;
    int first, pad;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) gather(const Gather p) {
    release_successor();
    wait_for_predecessor();
    const int block = blockIdx.x;
    if (block < p.first) {
        if (block >= *p.selected_rows) return;
        const int width = p.selected.width;
        const float *from = p.x + (u64)p.index[block] * width;
#pragma unroll 2
        for (int at = 4 * threadIdx.x; at < width; at += 4 * ROW_THREADS) p.selected.store(block, at, load4(from + at));
        return;
    }
    const int c = block - p.first;
    if (c >= *p.pooled_rows) return;
    const int start = p.spans[2 * c], end = p.spans[2 * c + 1], width = p.pooled.width;
    const float count = (float)(end - start);
    for (int at = 4 * threadIdx.x; at < width; at += 4 * ROW_THREADS) {
        float4 sum = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll 4
        for (int r = start; r < end; ++r) {
            const float4 v = load4(p.x + (u64)r * width + at);
            sum = make_float4(add(sum.x, v.x), add(sum.y, v.y), add(sum.z, v.z), add(sum.w, v.w));
        }
        if (start < end) {
            sum = make_float4(__fdiv_rn(sum.x, count), __fdiv_rn(sum.y, count), __fdiv_rn(sum.z, count), __fdiv_rn(sum.w, count));
        }
        p.pooled.store(c, at, sum);
    }
}

struct Norm {
    SplitRows x, out;
    const float *weight, *bias;
    const int *rows;
    float eps;
    int first;
};
struct Norms {
    Norm of[2];
};

template <int QUADS>
DEVICE void split_norm(const Norms &both) {
    release_successor();
    wait_for_predecessor();
    Norm p = both.of[0];
    if ((int)blockIdx.x >= both.of[1].first) p = both.of[1];
    const int index = blockIdx.x - p.first, width = p.x.width;
    if (index >= *p.rows) return;
    Row<QUADS> row;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int at = row_element(q);
        row.v[q] = at < width ? p.x.load(index, at) : make_float4(0.f, 0.f, 0.f, 0.f);
    }
    float sum = 0.f;
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const float4 v = row.v[q];
        sum += (v.x + v.y) + (v.z + v.w);
    }
    const float mean = __fdiv_rn(block_sum(sum), (float)width);
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        if (row_element(q) < width) {
            row.v[q].x -= mean;
            row.v[q].y -= mean;
            row.v[q].z -= mean;
            row.v[q].w -= mean;
        }
    }
    const float variance = __fdiv_rn(sum_of_squares(row), (float)width);
    const float scale = __fdiv_rn(1.f, __fsqrt_rn(add(variance, p.eps)));
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int at = row_element(q);
        if (at < width) {
            const float4 w = load4(p.weight + at), b = load4(p.bias + at);
            float4 v = row.v[q];
            v.x = add(mul(mul(v.x, scale), w.x), b.x);
            v.y = add(mul(mul(v.y, scale), w.y), b.y);
            v.z = add(mul(mul(v.z, scale), w.z), b.z);
            v.w = add(mul(mul(v.w, scale), w.w), b.w);
            p.out.store(index, at, v);
        }
    }
}

#define INSTANCE(QUADS)                                                                                        \
    extern "C" __global__ void __launch_bounds__(ROW_THREADS) split_norm_##QUADS(const Norms p) {               \
        split_norm<QUADS>(p);                                                                                  \
    }
INSTANCE(2)
INSTANCE(8)

struct SplitConcat {
    SplitRows left, right, out;
    const int *rows;
};

extern "C" __global__ void __launch_bounds__(ROW_THREADS) split_concat(const SplitConcat p) {
    release_successor();
    wait_for_predecessor();
    const int r = blockIdx.x;
    if (r >= *p.rows) return;
    for (int at = 4 * threadIdx.x; at < p.out.width; at += 4 * ROW_THREADS) {
        p.out.store(r, at, at < p.left.width ? p.left.load(r, at) : p.right.load(r, at - p.left.width));
    }
}
