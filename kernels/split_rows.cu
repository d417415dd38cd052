// Steps that write split rows (split_rows.cuh), or read them: SelectRows and PoolSpans, also of rows that RmsNorm makes for them
// alone; LayerNorm; Concat. Two of a kind that do not need each other are one launch.
//
//   gather      selected[r] = x[index[r]];  pooled[c] = mean of x[start..end] in row order, zeros for an empty span; with a weight,
//               of x as rms_norm.cu norms it; width as there
//   split_norm  (x - mean) / sqrt(var + eps) * w + b as layer_norm.cu computes it; width a multiple of 4, at most 8192
//   split_concat  out[r] = [left[r] ; right[r]]; widths multiples of 4
//   grid        a block a row: those of the first part, then from `first` on those of the second; 256 threads
#include "row.cuh"
#include "split_rows.cuh"

struct Gather {
    const float *x, *weight; // of the norm; none: rows as they are
    const int *index, *selected_rows, *spans, *pooled_rows;
    SplitRows selected, pooled;
    int width, first;
    float eps;
    int pad;
};

// block_sum for several numbers at once: the same sums.
template <int COUNT>
DEVICE void block_sums(float (&x)[COUNT]) {
    __shared__ float part[COUNT][ROW_WARPS];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
#pragma unroll
        for (int d = 16; d; d >>= 1) x[i] = add(x[i], __shfl_xor_sync(~0u, x[i], d));
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        if (lane_id() == 0) part[i][warp_id()] = x[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
        x[i] = part[i][0];
#pragma unroll
        for (int w = 1; w < ROW_WARPS; ++w) x[i] = add(x[i], part[i][w]);
    }
}

// Rows `first` to `end`, as many as there are, zeros after them; normed where there is a weight.
template <int QUADS, int COUNT>
DEVICE void gather_rows(Row<QUADS> (&rows)[COUNT], const Gather &p, const Row<QUADS> &weight, int first, int end) {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) {
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            const int at = row_element(q);
            const bool inside = first + i < end && at < p.width;
            rows[i].v[q] = inside ? load4(p.x + (u64)(first + i) * p.width + at) : make_float4(0.f, 0.f, 0.f, 0.f);
        }
    }
    if (!p.weight) return;
    float squares[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; ++i) squares[i] = own_squares(rows[i]);
    block_sums(squares);
#pragma unroll
    for (int i = 0; i < COUNT; ++i) rms_norm_given(rows[i], weight, squares[i], p.width, p.eps);
}

template <int QUADS>
DEVICE void store_split_row(const SplitRows &to, int index, const Row<QUADS> &row) {
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
        const int at = row_element(q);
        if (at < to.width) to.store(index, at, row.v[q]);
    }
}

template <int QUADS, int BATCH>
DEVICE void gather(const Gather &p) {
    release_successor();
    Row<QUADS> weight = {};
    if (p.weight) weight = load_row<QUADS>(p.weight, p.width); // no kernel writes it: before the wait
    wait_for_predecessor();
    const int block = blockIdx.x;
    if (block < p.first) {
        if (block >= *p.selected_rows) return;
        Row<QUADS> row[1];
        const int from = p.index[block];
        gather_rows(row, p, weight, from, from + 1);
        store_split_row(p.selected, block, row[0]);
        return;
    }
    const int c = block - p.first;
    if (c >= *p.pooled_rows) return;
    const int start = p.spans[2 * c], end = p.spans[2 * c + 1];
    Row<QUADS> sum = {};
#pragma unroll 1
    for (int first = start; first < end; first += BATCH) {
        Row<QUADS> rows[BATCH];
        gather_rows(rows, p, weight, first, end);
#pragma unroll
        for (int i = 0; i < BATCH; ++i) {
            if (first + i >= end) break;
#pragma unroll
            for (int q = 0; q < QUADS; ++q) {
                const float4 v = rows[i].v[q];
                float4 &s = sum.v[q];
                s = make_float4(add(s.x, v.x), add(s.y, v.y), add(s.z, v.z), add(s.w, v.w));
            }
        }
    }
    if (start < end) {
        const float count = (float)(end - start);
#pragma unroll
        for (int q = 0; q < QUADS; ++q) {
            float4 &s = sum.v[q];
            s = make_float4(__fdiv_rn(s.x, count), __fdiv_rn(s.y, count), __fdiv_rn(s.z, count), __fdiv_rn(s.w, count));
        }
    }
    store_split_row(p.pooled, c, sum);
}

extern "C" __global__ void __launch_bounds__(ROW_THREADS, 4) gather_2(const Gather p) { gather<2, 2>(p); }
extern "C" __global__ void __launch_bounds__(ROW_THREADS) gather_8(const Gather p) { gather<8, 1>(p); }

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
        if (at < p.left.width) p.out.copy(r, at, p.left, at);
        else p.out.copy(r, at, p.right, at - p.left.width);
    }
}
