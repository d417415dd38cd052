// Rows: a row function alone.
//
//   grid    rows of the bucket; a warp for each 1024 columns, at most 8; width a multiple of 16
//   shared  ROOM_BYTES a warp
#include "row_op.cuh"

struct Rows {
    RowOp op;
    void *out;
    const int *rows;
    int stored, pad;
};

template <int OP>
DEVICE void row_op(const Rows &p) {
    release_successor();
    wait_for_predecessor();
    const u64 row = blockIdx.x;
    if ((int)row >= *p.rows) return;
    Spans x;
    load_spans(p.op.x, row, p.op.width, p.op.stored, x);
    apply<OP>(
        p.op, x, [&](int s, float (&w)[SPAN]) { load_weights<OP>(p.op, s, w); },
        [&](int s, float (&z)[SPAN]) { load_gates(p.op, row, s, z); });
    store_spans(p.out, row, p.op.width, p.stored, x, warp_room());
}

#define INSTANCE(NAME, OP)                                                              \
    extern "C" __global__ void __launch_bounds__(256, 3) row_op_##NAME(const Rows p) { \
        row_op<OP>(p);                                                                  \
    }
INSTANCE(copy, COPY)
INSTANCE(rms_norm, RMS_NORM)
INSTANCE(gated_rms_norm, GATED_RMS_NORM)
INSTANCE(sigmoid_gate, SIGMOID_GATE)
