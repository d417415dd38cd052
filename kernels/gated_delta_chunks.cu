// The gated delta rule, first kernel: what a chunk of 64 rows needs before its state is known (formulas in gated_delta.cuh).
//
//   in     x in float32 (PLANES 2) or bfloat16 (PLANES 1): rows of queries, keys and values; gates in float32
//   norm   q * rsqrt(sum q^2 + 1e-6), k the same; the factor of the queries' width comes last, with the result
//   gates  beta = 1 / (1 + e^-b), g = -e^decay * softplus(a + decay_bias), softplus the identity above 20; sums of g in
//          float32, exponentials of differences that are never positive
//   T      (I + A)^-1 in blocks of 16 rows: on the diagonal by forward substitution, below it by products of split operands
//   out    the slot's keys (by the first value head of a key head), pairs, factors. Rows beyond the sequence's end are
//          zeros with the decay of the last row; blocks of 16 x 16 above the diagonal of T and P are not written
//   grid   value heads x slots that the bucket has room for; 128 threads; a slot without rows has no work
//          dynamic shared memory: keys and queries, later A and T
#include "gated_delta.cuh"

#define THREADS 128
#define FLOAT_PITCH 68 // floats of a row of A or T: rows of 16 bytes that begin in different banks

// The rows of a slot's chunk; false when it has none.
DEVICE bool find_chunk(const GatedDelta &p, int slot, int &row, int &rows) {
    const int sequences = *p.sequences;
    int before = 0; // sequences whose first slot is at most this one
    for (int first = 0; first < sequences; first += 32) {
        const int s = first + lane_id();
        const u32 some = __ballot_sync(~0u, s < sequences && p.offsets[s < sequences ? s : 0] / CHUNK + s <= slot);
        before += __popc(some);
        if (some != ~0u) break;
    }
    if (before == 0) return false;
    const int s = before - 1, start = p.offsets[s];
    row = start + (slot - (start / CHUNK + s)) * CHUNK;
    rows = min_of(p.offsets[s + 1] - row, CHUNK);
    return rows > 0;
}

// Eight numbers as they are stored.
template <int STORED>
struct Eight {
    uint4 part[STORED == F32 ? 2 : 1];
};
template <int STORED>
DEVICE Eight<STORED> read_eight(const void *data, u64 i, bool some) {
    Eight<STORED> v = {};
    const uint4 *from = reinterpret_cast<const uint4 *>(static_cast<const u8 *>(data) + i * (STORED == F32 ? 4 : 2));
    if (some) {
#pragma unroll
        for (int e = 0; e < (STORED == F32 ? 2 : 1); ++e) v.part[e] = from[e];
    }
    return v;
}
template <int STORED>
DEVICE void unpack(float (&v)[8], const Eight<STORED> &x) {
    const uint4 a = x.part[0];
    if constexpr (STORED == F32) {
        const uint4 b = x.part[1];
        v[0] = __uint_as_float(a.x), v[1] = __uint_as_float(a.y), v[2] = __uint_as_float(a.z), v[3] = __uint_as_float(a.w);
        v[4] = __uint_as_float(b.x), v[5] = __uint_as_float(b.y), v[6] = __uint_as_float(b.z), v[7] = __uint_as_float(b.w);
    } else {
        v[0] = bf16_low(a.x), v[1] = bf16_high(a.x), v[2] = bf16_low(a.y), v[3] = bf16_high(a.y);
        v[4] = bf16_low(a.z), v[5] = bf16_high(a.z), v[6] = bf16_low(a.w), v[7] = bf16_high(a.w);
    }
}

// Eight numbers as operands at element `i` of each plane.
template <int PLANES>
DEVICE void store_eight(u8 *to, int plane_bytes, const u32 (&pairs)[4][PLANES]) {
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane) {
        *reinterpret_cast<uint4 *>(to + plane * plane_bytes) =
            make_uint4(pairs[0][plane], pairs[1][plane], pairs[2][plane], pairs[3][plane]);
    }
}

// A thread's share of the chunk's keys or queries: some rows, D / LANES elements of each in parts of eight.
template <int D, int STORED>
struct Rows {
    static constexpr int LANES = D / 8 < 8 ? D / 8 : 8, PARTS = D / 8 / LANES, STEP = THREADS / LANES;
    Eight<STORED> v[CHUNK / STEP][PARTS];
};
template <int D, int STORED>
DEVICE Rows<D, STORED> read_rows(const GatedDelta &p, int column, int row, int rows) {
    typedef Rows<D, STORED> R;
    R read;
#pragma unroll
    for (int pass = 0; pass < CHUNK / R::STEP; ++pass) {
        const int r = pass * R::STEP + threadIdx.x / R::LANES;
        const u64 from = (u64)(row + r) * p.pitch + column + threadIdx.x % R::LANES * 8;
#pragma unroll
        for (int part = 0; part < R::PARTS; ++part) {
            read.v[pass][part] = read_eight<STORED>(p.x, from + part * R::LANES * 8, r < rows);
        }
    }
    return read;
}
// The same rows as unit rows to shared memory and, where `global` is not null, to the slot's keys.
template <int D, int STORED, int PLANES>
DEVICE void store_unit_rows(u8 *memory, u16 *global, const Rows<D, STORED> &read) {
    typedef Rows<D, STORED> R;
    constexpr int PITCH = Pitch<D>::BYTES;
#pragma unroll
    for (int pass = 0; pass < CHUNK / R::STEP; ++pass) {
        const int r = pass * R::STEP + threadIdx.x / R::LANES;
        float v[R::PARTS][8], sum = 0.f;
#pragma unroll
        for (int part = 0; part < R::PARTS; ++part) {
            unpack<STORED>(v[part], read.v[pass][part]);
#pragma unroll
            for (int e = 0; e < 8; ++e) sum += v[part][e] * v[part][e];
        }
#pragma unroll
        for (int d = R::LANES / 2; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
        const float factor = rsqrtf(sum + 1e-6f);
#pragma unroll
        for (int part = 0; part < R::PARTS; ++part) {
            const int at = (part * R::LANES + threadIdx.x % R::LANES) * 8;
            u32 pairs[4][PLANES];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                operand_pair<PLANES>(pairs[e], v[part][2 * e] * factor, v[part][2 * e + 1] * factor);
            }
            store_eight<PLANES>(memory + r * PITCH + at * 2, CHUNK * PITCH, pairs);
            if (global) store_eight<PLANES>(reinterpret_cast<u8 *>(global + r * D + at), CHUNK * D * 2, pairs);
        }
    }
}

// What a lane of one warp needs of the gates: two rows.
struct Gates {
    float decay, bias, a[2], b[2];
};
DEVICE Gates read_gates(const GatedDelta &p, int head, int row, int rows) {
    Gates g = {p.decay[head], p.decay_bias[head], {}, {}};
    const int r = 2 * lane_id();
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        const float *gates = p.gates + (u64)(row + r + e) * 2 * p.value_heads + head;
        if (r + e < rows) g.a[e] = gates[0], g.b[e] = gates[p.value_heads];
    }
    return g;
}
// One warp: beta and the sums of g of each row of the chunk, and the slot's factors of them.
DEVICE void store_gates(float *beta, float *sums, float *factors, const Gates &read, int rows) {
    const float rate = expf(read.decay);
    const int r = 2 * lane_id();
    float g[2] = {};
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        float b = 0.f;
        if (r + e < rows) {
            const float a = read.a[e] + read.bias;
            g[e] = -rate * (a > 20.f ? a : log1pf(expf(a)));
            b = __fdiv_rn(1.f, 1.f + expf(-read.b[e]));
        }
        beta[r + e] = b;
    }
    float sum = g[0] + g[1];
#pragma unroll
    for (int d = 1; d < 32; d <<= 1) {
        const float before = __shfl_up_sync(~0u, sum, d);
        if (lane_id() >= d) sum += before;
    }
    float before = __shfl_up_sync(~0u, sum, 1);
    if (lane_id() == 0) before = 0.f;
    const float first = before + g[0], second = first + g[1], last = __shfl_sync(~0u, second, 31);
    sums[r] = first;
    sums[r + 1] = second;
    *reinterpret_cast<float2 *>(factors + r) = make_float2(expf(first), expf(second));
    *reinterpret_cast<float2 *>(factors + CHUNK + r) = make_float2(expf(last - first), expf(last - second));
    if (lane_id() == 0) factors[2 * CHUNK] = expf(last);
}

// The blocks of 16 x 16 on the diagonal of (I + A)^-1 by two warps: a thread has one column of one block.
DEVICE void invert_diagonal(float *inverse, const float *a) {
    const int column = threadIdx.x & 15, first = threadIdx.x & ~15;
    float y[16];
#pragma unroll
    for (int r = 0; r < 16; ++r) {
        y[r] = r == column ? 1.f : 0.f;
        const float *row = a + (first + r) * FLOAT_PITCH + first;
#pragma unroll
        for (int l = 0; l < r; l += 4) {
            const float4 v = load4(row + l);
            y[r] = fmaf(-v.x, y[l], y[r]);
            if (l + 1 < r) y[r] = fmaf(-v.y, y[l + 1], y[r]);
            if (l + 2 < r) y[r] = fmaf(-v.z, y[l + 2], y[r]);
            if (l + 3 < r) y[r] = fmaf(-v.w, y[l + 3], y[r]);
        }
        inverse[(first + r) * FLOAT_PITCH + threadIdx.x] = y[r];
    }
}

// A block of 16 x 16 as the transposed first operand (rows are the block's columns), split.
DEVICE void transposed_first(u32 (&a)[2][4], const float *block) {
    const int lane = lane_id();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float *at = block + ((lane & 3) * 2 + (i >> 1) * 8) * FLOAT_PITCH + (lane >> 2) + (i & 1) * 8;
        const SplitPair s = split_pair_f16(at[0], at[FLOAT_PITCH]);
        a[0][i] = s.head, a[1][i] = s.tail;
    }
}
// The same as the transposed second operand (columns are the block's rows): registers 0, 1 for the first eight rows.
DEVICE void transposed_second(u32 (&b)[2][4], const float *block) {
    const int lane = lane_id();
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        const float2 v = *reinterpret_cast<const float2 *>(block + ((lane >> 2) + (i >> 1) * 8) * FLOAT_PITCH +
                                                           (lane & 3) * 2 + (i & 1) * 8);
        const SplitPair s = split_pair_f16(v.x, v.y);
        b[0][i] = s.head, b[1][i] = s.tail;
    }
}

// Block (row, column) of the inverse of [B, 0; A, C], from the inverses of B and C, that is -C^-1 A B^-1: blocks `middle` -
// HALF to middle - 1 are B's, the next HALF are C's. One warp; transposed, so that sums become operands where they are.
// Split operands: as good as float32.
template <int HALF>
DEVICE void invert_below(float *inverse, const float *a, int middle, int row, int column) {
    auto block = [](int r, int c) { return 16 * (r * FLOAT_PITCH + c); };
    float sum[2][4] = {};
    u32 first[2][4], second[2][4];
#pragma unroll
    for (int i = 0; i < HALF; ++i) {
        if (middle + i > row) continue;
        float x[2][4] = {};
#pragma unroll
        for (int l = -HALF; l < 0; ++l) {
            if (middle + l < column) continue;
            transposed_first(first, inverse + block(middle + l, column));
            transposed_second(second, a + block(middle + i, middle + l));
            multiply<0, 1>(x[0], first, second);
            multiply<2, 3>(x[1], first, second);
        }
        as_operand<2>(first, x[0], x[1]);
        transposed_second(second, inverse + block(row, middle + i));
        multiply<0, 1>(sum[0], first, second);
        multiply<2, 3>(sum[1], first, second);
    }
    float *to = inverse + block(row, column) + (lane_id() & 3) * 2 * FLOAT_PITCH + (lane_id() >> 2);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) to[(8 * n + (e & 1)) * FLOAT_PITCH + (e >> 1) * 8] = -sum[n][e];
    }
}

// A thread's share of the chunk's values, and the largest |v| of it.
template <int D, int STORED>
struct Values {
    static constexpr int PASSES = CHUNK * D / 8 / THREADS;
    Eight<STORED> v[PASSES];
};
template <int D, int STORED>
DEVICE Values<D, STORED> read_values(const GatedDelta &p, int head, int row, int rows) {
    const int r = threadIdx.x / (D / 8);
    const u64 from = (u64)(row + r) * p.pitch + (2 * p.key_heads + head) * D + threadIdx.x % (D / 8) * 8;
    constexpr int STEP = THREADS / (D / 8);
    Values<D, STORED> read;
#pragma unroll
    for (int pass = 0; pass < Values<D, STORED>::PASSES; ++pass) {
        read.v[pass] = read_eight<STORED>(p.x, from + (u64)(pass * STEP) * p.pitch, pass * STEP + r < rows);
    }
    return read;
}
template <int D, int STORED>
DEVICE float largest(const Values<D, STORED> &read) {
    float most = 0.f;
#pragma unroll
    for (int pass = 0; pass < Values<D, STORED>::PASSES; ++pass) {
        float v[8];
        unpack<STORED>(v, read.v[pass]);
#pragma unroll
        for (int e = 0; e < 8; ++e) most = fmaxf(most, fabsf(v[e]));
    }
#pragma unroll
    for (int d = 16; d; d >>= 1) most = fmaxf(most, __shfl_xor_sync(~0u, most, d));
    return most;
}

template <int D, int STORED>
DEVICE void chunks(const GatedDelta &p) {
    constexpr int PLANES = STORED == F32 ? 2 : 1, PITCH = Pitch<D>::BYTES;
    extern __shared__ __align__(128) u8 memory[];
    __shared__ float beta[CHUNK], sums[CHUNK], most[4];
    const int head = blockIdx.x, slot = blockIdx.y, group = p.value_heads / p.key_heads, warp = warp_id(), lane = lane_id();
    release_successor();
    int row, rows;
    const bool some = find_chunk(p, slot, row, rows);
    wait_for_predecessor();
    if (!some) return;

    float *factors = factors_of(p, slot, head);
    u16 *keys = head % group == 0 ? keys_of<D, PLANES>(p, slot, head / group) : nullptr;
    const int query = head / group * D, key = p.key_heads * D + query;
    // Keys and values are asked for before either is waited for, then queries: as far as registers go.
    Gates gates = {};
    if (warp == 0) gates = read_gates(p, head, row, rows);
    const Rows<D, STORED> key_rows = read_rows<D, STORED>(p, key, row, rows);
    {
        const float v = largest<D, STORED>(read_values<D, STORED>(p, head, row, rows));
        if (lane == 0) most[warp] = v;
    }
    const Rows<D, STORED> query_rows = read_rows<D, STORED>(p, query, row, rows);
    store_unit_rows<D, STORED, PLANES>(memory, keys, key_rows);
    store_unit_rows<D, STORED, PLANES>(memory + PLANES * CHUNK * PITCH, keys ? keys + PLANES * CHUNK * D : nullptr, query_rows);
    __syncthreads();
    // The first warp has the fewest products.
    if (warp == 0) store_gates(beta, sums, factors, gates, rows);

    // Sixteen rows of K K^T and Q K^T, up to the diagonal.
    const u32 k = shared_address(memory), q = k + PLANES * CHUNK * PITCH;
    float kk[8][4] = {}, qk[8][4] = {};
#pragma unroll
    for (int c = 0; c < D; c += 16) {
        u32 a[PLANES][4], b[PLANES][4], by[PLANES][4];
        load_first<PITCH, PLANES>(a, k, 16 * warp, c);
        load_first<PITCH, PLANES>(b, q, 16 * warp, c);
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            if (n > warp) continue;
            load_second<PITCH, PLANES>(by, k, 16 * n, c);
            multiply<0, 1>(kk[2 * n], a, by);
            multiply<2, 3>(kk[2 * n + 1], a, by);
            multiply<0, 1>(qk[2 * n], b, by);
            multiply<2, 3>(qk[2 * n + 1], b, by);
        }
    }
    __syncthreads(); // A and its inverse lie where keys and queries were

    float *a = reinterpret_cast<float *>(memory), *inverse = a + CHUNK * FLOAT_PITCH;
    u16 *t = pairs_of<PLANES>(p, slot, head), *weights = t + PLANES * CHUNK * CHUNK;
#pragma unroll
    for (int n = 0; n < 8; ++n) {
        if (n / 2 > warp) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int i = 16 * warp + 8 * half + (lane >> 2), j = 8 * n + (lane & 3) * 2;
            float w[2], x[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float ratio = expf(sums[i] - sums[j + e]), fade = j + e <= i ? ratio : 0.f;
                w[e] = qk[n][2 * half + e] * fade;
                x[e] = beta[i] * kk[n][2 * half + e] * fade;
            }
            *reinterpret_cast<float2 *>(a + i * FLOAT_PITCH + j) = make_float2(x[0], x[1]);
            u32 pair[PLANES];
            operand_pair<PLANES>(pair, w[0], w[1]);
#pragma unroll
            for (int plane = 0; plane < PLANES; ++plane) {
                *reinterpret_cast<u32 *>(weights + (plane * CHUNK + i) * CHUNK + j) = pair[plane];
            }
        }
    }
    __syncthreads();

    // (I + A)^-1: its diagonal, then what is below it in halves of 32, then the rest.
    if (warp < 2) {
        invert_diagonal(inverse, a);
        __syncwarp();
        invert_below<1>(inverse, a, 2 * warp + 1, 2 * warp + 1, 2 * warp);
    }
    __syncthreads();
    invert_below<2>(inverse, a, 2, 2 + (warp >> 1), warp & 1);
    __syncthreads();

    if (threadIdx.x == 0) factors[2 * CHUNK + 1] = fmaxf(fmaxf(most[0], most[1]), fmaxf(most[2], most[3]));
#pragma unroll
    for (int pass = 0; pass < CHUNK * CHUNK / 8 / THREADS; ++pass) {
        const int i = pass * THREADS + threadIdx.x, r = i / 8, c = i % 8;
        if (c / 2 > r / 16) continue;
        const float4 low = load4(inverse + r * FLOAT_PITCH + c * 8), high = load4(inverse + r * FLOAT_PITCH + c * 8 + 4);
        const float v[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        u32 pairs[4][PLANES];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            operand_pair<PLANES>(pairs[e], v[2 * e] * beta[c * 8 + 2 * e], v[2 * e + 1] * beta[c * 8 + 2 * e + 1]);
        }
        store_eight<PLANES>(reinterpret_cast<u8 *>(t + r * CHUNK + c * 8), CHUNK * CHUNK * 2, pairs);
    }
}

#define ENTRY(D, STORED, BLOCKS, NAME) \
    extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) NAME(const GatedDelta p) { chunks<D, STORED>(p); }
ENTRY(32, F32, 4, gated_delta_chunks_32_f32)
ENTRY(64, F32, 4, gated_delta_chunks_64_f32)
ENTRY(128, F32, 3, gated_delta_chunks_128_f32)
ENTRY(32, BF16, 5, gated_delta_chunks_32_bf16)
ENTRY(64, BF16, 5, gated_delta_chunks_64_bf16)
#if __CUDA_ARCH__ >= 900
ENTRY(128, BF16, 5, gated_delta_chunks_128_bf16)
#else
ENTRY(128, BF16, 3, gated_delta_chunks_128_bf16) // no room in shared memory for as many anyway
#endif
