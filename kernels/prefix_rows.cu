// Rows of a sequence that stand before the batch's own: joined with them for an attention, or kept for later batches.
//
//   join_rows  out[row] = [k; v] of the joined sequences' row: first the rows kept before a sequence, then its own
//              grid     joined rows of the bucket
//   keep_rows  kept[sequence][i] = [k; v] of the sequence's row i, or of row i of its last `last`; sequences without a place,
//              and blocks without such a row, do nothing
//              grid     rows of the bucket
//   units      8 bytes: widths and pitches are counted in them
//   threads    128
//   exact      copies
#include "base.cuh"

#define THREADS 128

struct PrefixRows {
    const uint2 *k, *v; // first column of row 0; v_width may be 0
    void *const *kept;  // of each sequence null or its kept rows, [k; v] each
    uint2 *out;
    const int *offsets, *joined, *sequences; // [sequences + 1] rows of the batch, and with the kept ones; their number
    int k_pitch, v_pitch, k_width, v_width, last, pad;
};

// The last sequence that starts at or before the row.
DEVICE int sequence_of(const int *offsets, int sequences, int row) {
    int sequence = 0, beyond = sequences;
    while (beyond - sequence > 1) {
        const int middle = (sequence + beyond) / 2;
        if (offsets[middle] <= row) sequence = middle;
        else beyond = middle;
    }
    return sequence;
}

// A row of the batch.
DEVICE void copy_row(uint2 *to, const PrefixRows &p, int row) {
    const uint2 *k = p.k + (u64)row * p.k_pitch, *v = p.v + (u64)row * p.v_pitch;
    for (int c = threadIdx.x; c < p.k_width; c += THREADS) to[c] = k[c];
    for (int c = threadIdx.x; c < p.v_width; c += THREADS) to[p.k_width + c] = v[c];
}

extern "C" __global__ void __launch_bounds__(THREADS) join_rows(const PrefixRows p) {
    release_successor();
    wait_for_predecessor();
    const int row = blockIdx.x, sequences = *p.sequences, width = p.k_width + p.v_width;
    if (row >= p.joined[sequences]) return;
    const int s = sequence_of(p.joined, sequences, row), own = p.offsets[s + 1] - p.offsets[s];
    const int i = row - p.joined[s], before = p.joined[s + 1] - p.joined[s] - own;
    uint2 *to = p.out + (u64)row * width;
    if (i >= before) {
        copy_row(to, p, p.offsets[s] + i - before);
        return;
    }
    const uint2 *from = static_cast<const uint2 *>(p.kept[s]) + (u64)i * width;
    for (int c = threadIdx.x; c < width; c += THREADS) to[c] = from[c];
}

extern "C" __global__ void __launch_bounds__(THREADS) keep_rows(const PrefixRows p) {
    release_successor();
    wait_for_predecessor();
    const int row = blockIdx.x, sequences = *p.sequences;
    if (row >= p.offsets[sequences]) return;
    const int s = sequence_of(p.offsets, sequences, row), end = p.offsets[s + 1];
    const int first = p.last ? max_of(end - p.last, p.offsets[s]) : p.offsets[s];
    if (row < first || !p.kept[s]) return;
    copy_row(static_cast<uint2 *>(p.kept[s]) + (u64)(row - first) * (p.k_width + p.v_width), p, row);
}
