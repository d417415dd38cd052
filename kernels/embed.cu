// Embed: table rows, uploaded by the host in token order and in their stored form, widened to f32, plus a segment row.
//
//   grid   tokens of the bucket, 256 threads
//   exact
#include "convert.cuh"

struct Embed {
    const void *rows_in_order;
    const int *segment_ids;
    const float *segments;
    float *out;
    const int *rows;
    int width, stored;
};

extern "C" __global__ void __launch_bounds__(256) embed(const Embed p) {
    release_successor();
    wait_for_predecessor();
    int t = blockIdx.x;
    if (t >= *p.rows) return;
    const float *segment = p.segments ? p.segments + (u64)p.segment_ids[t] * p.width : nullptr;
    for (int i = threadIdx.x; i < p.width; i += 256) {
        float v = stored_to_float(p.rows_in_order, (u64)t * p.width + i, p.stored);
        p.out[(u64)t * p.width + i] = segment ? add(v, segment[i]) : v;
    }
}
