// Embed: table rows, uploaded by the host in token order and in their stored form, widened to f32, plus a segment row.
//
//   grid   tokens of the bucket, 256 threads
//   exact
#include "convert.cuh"

#define THREADS 256

struct Embed {
    const void *rows_in_order;
    const int *segment_ids;
    const float *segments;
    float *out;
    const int *rows;
    int width, stored;
};

extern "C" __global__ void __launch_bounds__(THREADS) embed(const Embed p) {
    release_successor();
    wait_for_predecessor();
    const int t = blockIdx.x;
    if (t >= *p.rows) return;
    const float *segment = p.segments ? p.segments + (u64)p.segment_ids[t] * p.width : nullptr;
    float *out = p.out + (u64)t * p.width;
    if (p.width % 4 == 0) {
        for (int i = threadIdx.x * 4; i < p.width; i += THREADS * 4) {
            const u64 at = (u64)t * p.width + i;
            float4 v = p.stored == F32   ? load_four<F32>(p.rows_in_order, at)
                       : p.stored == F16 ? load_four<F16>(p.rows_in_order, at)
                                         : load_four<BF16>(p.rows_in_order, at);
            if (segment) {
                const float4 s = load4(segment + i);
                v = make_float4(add(v.x, s.x), add(v.y, s.y), add(v.z, s.z), add(v.w, s.w));
            }
            store4(out + i, v);
        }
        return;
    }
    for (int i = threadIdx.x; i < p.width; i += THREADS) {
        const float v = stored_to_float(p.rows_in_order, (u64)t * p.width + i, p.stored);
        out[i] = segment ? add(v, segment[i]) : v;
    }
}
