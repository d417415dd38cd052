// The gated delta rule in chunks of 64 rows: what its two kernels share.
//
// In a chunk of a sequence and a value head, with unit rows q and k, G_i the sum of the log decays g up to row i of the
// chunk, S the state before it (one column for each value column) and all in exact arithmetic:
//
//   A_ij = beta_i (k_i k_j) e^(G_i - G_j) for j < i      T = (I + A)^-1 diag(beta)
//   P_ij = (q_i k_j) e^(G_i - G_j) for j <= i      R = V - e^G K S      U = T R
//   out = (e^G Q S + P U) / sqrt(D)      S <- e^G_last S + K^T (e^(G_last - G) U)
//
// gated_delta_chunks writes q, k, T, P and the factors, for all chunks at once; gated_delta_state, or on Hopper
// sm90_gated_delta_state, walks along the chunks.
// Every operand of a product is binary16: q, k, A, T and P are at most 1 (steps I - beta k k^T make nothing longer), and S, R
// and U are scaled by a power of two (see gated_delta_state), so that nothing leaves its range. With PLANES = 1 an operand is
// rounded once (by at most 2^-11 of it); with PLANES = 2 it is split into head and tail, products have three terms, and the
// result is as good as float32's.
//
// A sequence's chunks begin at its first row. Chunk c of sequence s has the slot offsets[s] / 64 + s + c: no two share one,
// and all are less than rows / 64 + sequences.
#pragma once
#include "convert.cuh"
#include "mma.cuh"

#define CHUNK 64
#define FACTORS (2 * CHUNK + 4) // e^G; e^(G_last - G); e^G_last; the largest |v|; two of padding

struct GatedDelta {
    const void *x;                                // [rows, 2 * key_heads * D + value_heads * D]
    const float *gates;                           // [rows, 2 * value_heads]
    const float *decay, *decay_bias;              // [value_heads]
    const int *offsets, *sequences;               // [sequences + 1]; their number
    u16 *keys;                                    // of a slot and key head: planes of k, planes of q, [64, D] each
    u16 *pairs;                                   // of a slot and value head: planes of T, planes of P, [64, 64] each
    float *factors;                               // of a slot and value head
    void *out;                                    // [rows, value_heads * D]
    const float *const *from;                     // null, or of each sequence null (zero) or the state it begins with
    float *const *to;                             // null, or of each sequence null or where its last state goes
    int pitch, key_heads, value_heads; // elements of a row of x
    int stages;                        // buffers of a chunk in gated_delta_state, 1 to 3
};

template <int D, int PLANES>
DEVICE u16 *keys_of(const GatedDelta &p, int slot, int key_head) {
    return p.keys + ((u64)slot * p.key_heads + key_head) * (2 * PLANES * CHUNK * D);
}
template <int PLANES>
DEVICE u16 *pairs_of(const GatedDelta &p, int slot, int head) {
    return p.pairs + ((u64)slot * p.value_heads + head) * (2 * PLANES * CHUNK * CHUNK);
}
DEVICE float *factors_of(const GatedDelta &p, int slot, int head) {
    return p.factors + ((u64)slot * p.value_heads + head) * FACTORS;
}

// The power of two that takes the largest value to 8 .. 16, as the exponent bits of a float; its inverse has 254 less it.
DEVICE u32 scale_of(float most) {
    const int bits = 257 - (int)(__float_as_uint(most) >> 23);
    return (u32)(bits < 1 ? 1 : bits > 253 ? 253 : bits);
}

// Bytes of a row of 16-bit elements in shared memory; the pad keeps ldmatrix free of bank conflicts.
template <int WIDTH>
struct Pitch {
    static constexpr int BYTES = WIDTH * 2 + 16;
};

// Two numbers as they are stored for a product: one plane, or head and tail.
template <int PLANES>
DEVICE void operand_pair(u32 (&planes)[PLANES], float low, float high) {
    if constexpr (PLANES == 1) {
        planes[0] = f16_pair(low, high);
    } else {
        const SplitPair s = split_pair_f16(low, high);
        planes[0] = s.head;
        planes[1] = s.tail;
    }
}

// Sums of 16 x 16 as an operand: sums of columns 0 to 7 and 8 to 15.
template <int PLANES>
DEVICE void as_operand(u32 (&a)[PLANES][4], const float (&left)[4], const float (&right)[4]) {
    u32 pair[4][PLANES];
    operand_pair<PLANES>(pair[0], left[0], left[1]);
    operand_pair<PLANES>(pair[1], left[2], left[3]);
    operand_pair<PLANES>(pair[2], right[0], right[1]);
    operand_pair<PLANES>(pair[3], right[2], right[3]);
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane) {
#pragma unroll
        for (int i = 0; i < 4; ++i) a[plane][i] = pair[i][plane];
    }
}

// d += a b, where registers I and J of `b` are the second operand.
template <int I, int J, int PLANES>
DEVICE void multiply(float (&d)[4], const u32 (&a)[PLANES][4], const u32 (&b)[PLANES][4]) {
    mma_f16(d, a[0], b[0][I], b[0][J]);
    if constexpr (PLANES == 2) {
        mma_f16(d, a[0], b[1][I], b[1][J]);
        mma_f16(d, a[1], b[0][I], b[0][J]);
    }
}

// Rows r to r + 15 and columns c to c + 15 of a matrix in shared memory as a first operand.
template <int PITCH, int PLANES>
DEVICE void load_first(u32 (&a)[PLANES][4], u32 matrix, int r, int c) {
    const int lane = lane_id();
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane) {
        load_matrices(a[plane], matrix + (plane * CHUNK + r + (lane & 15)) * PITCH + c * 2 + (lane >> 4) * 16);
    }
}
// The same rows as a second operand's columns: registers 0, 1 for rows r to r + 7 and 2, 3 for the next eight.
template <int PITCH, int PLANES>
DEVICE void load_second(u32 (&b)[PLANES][4], u32 matrix, int r, int c) {
    const int lane = lane_id();
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane) {
        load_matrices(b[plane], matrix + (plane * CHUNK + r + (lane & 7) + (lane >> 4) * 8) * PITCH + c * 2 +
                                    ((lane >> 3) & 1) * 16);
    }
}
// The same rows as a second operand's rows: registers 0, 1 for columns c to c + 7 and 2, 3 for the next eight.
template <int PITCH, int PLANES>
DEVICE void load_second_rows(u32 (&b)[PLANES][4], u32 matrix, int r, int c) {
    const int lane = lane_id();
#pragma unroll
    for (int plane = 0; plane < PLANES; ++plane) {
        load_matrices_transposed(b[plane], matrix + (plane * CHUNK + r + (lane & 15)) * PITCH + c * 2 + (lane >> 4) * 16);
    }
}
