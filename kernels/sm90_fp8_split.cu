// QuantLinear and QuantLinearGated for few tokens on Hopper: a cluster of blocks shares one tile of the output, each
// block takes its part of k, the parts meet through distributed shared memory.
//
//   out[t][n] = (sum_k codes[t][k] * weight[n][k]) * scales[t] * weight_scales[n] (+ residual)      or, gated,
//   out[t][n] = activation(gate) * up
//   tile   GROUPS * 64 weight rows x TOKENS tokens; one consumer warpgroup for each 64 rows, one producer warp
//   sums   the 128 products of a k-block in the tensor core; k-blocks added in order in float32 registers; the parts of
//          k added in order. The parts depend on k alone (`splits`), so a row's bits are those of sm90_fp8_gemm
//   speed  weights do not depend on the kernel before: their copies start before the wait, so that with a whole part of k
//          in the ring (stages = its k-blocks) they cross memory while the previous kernels still run
//   grid   (weight rows / (GROUPS * 64) * splits, token capacity / TOKENS), clusters of `splits`,
//          GROUPS * 128 + 32 threads; dynamic shared memory: 1024 bytes to align, then the larger of the ring,
//          stages * (GROUPS * 8192 + TOKENS * 128), and the meeting place, TOKENS * (GROUPS * 64 + 4) * 4
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "tile.cuh"
#include "wgmma.cuh"

#define MAX_STAGES 12

struct Fp8Gemm {
    const u8 *codes;
    const float *scales;
    const u8 *weight;
    const float *weight_scales, *residual;
    float *out;
    const int *rows;
    int capacity, k_blocks, columns, gated, activation, splits, stages;
};

template <int GROUPS, int TOKENS>
DEVICE void split_gemm(const Fp8Gemm &p) {
    constexpr u32 WEIGHT_BYTES = GROUPS * WEIGHT_TILE, TOKEN_BYTES = TOKENS * KBLOCK;
    constexpr u32 STAGE_BYTES = WEIGHT_BYTES + TOKEN_BYTES;
    constexpr int ROWS = GROUPS * WEIGHT_ROWS, PITCH = ROWS + 4;
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 full_barriers[MAX_STAGES], empty_barriers[MAX_STAGES];

    const int rows = *p.rows, first_token = blockIdx.y * TOKENS;
    release_successor();
    // The whole cluster leaves together. Leaving without waiting is safe only because others wait.
    if (first_token >= rows) {
        wait_for_predecessor();
        return;
    }
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    const u32 full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const int part = blockIdx.x % p.splits, tile = blockIdx.x / p.splits;
    const int first = part * p.k_blocks / p.splits, count = (part + 1) * p.k_blocks / p.splits - first;

    if (threadIdx.x == 0) {
        for (int s = 0; s < p.stages; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, GROUPS * 4); // consumer warps
        }
        barrier_init_fence();
    }
    __syncthreads();

    if (warp_id() == GROUPS * 4) {
        if (lane_id() == 0) {
            auto copy_weights = [&](int i, u32 s) {
                barrier_expect(full + s * 8, STAGE_BYTES);
#pragma unroll
                for (int g = 0; g < GROUPS; ++g) {
                    bulk_copy(ring + s * STAGE_BYTES + g * WEIGHT_TILE,
                              p.weight + weight_tile(tile * GROUPS + g, first + i, p.k_blocks), WEIGHT_TILE,
                              full + s * 8);
                }
            };
            auto copy_codes = [&](int i, u32 s) {
                bulk_copy(ring + s * STAGE_BYTES + WEIGHT_BYTES,
                          p.codes + activation_tile(first_token, first + i, p.capacity), TOKEN_BYTES, full + s * 8);
            };
            const int ahead = min_of(p.stages, count);
            for (int i = 0; i < ahead; ++i) copy_weights(i, i);
            wait_for_predecessor();
            for (int i = 0; i < ahead; ++i) copy_codes(i, i);
            for (int i = ahead; i < count; ++i) {
                const u32 s = i % p.stages;
                barrier_wait(empty + s * 8, (i / p.stages - 1) & 1);
                copy_weights(i, s);
                copy_codes(i, s);
            }
        }
        __syncwarp();
        wait_for_predecessor();
    } else {
        const int group = warp_id() / 4;
        float sum[TOKENS / 2] = {}, product[TOKENS / 2];
        wait_for_predecessor();
        for (int i = 0; i < count; ++i) {
            const u32 s = i % p.stages, stage = ring + s * STAGE_BYTES;
            barrier_wait(full + s * 8, (i / p.stages) & 1);
            wgmma_k_block<TOKENS>(product, stage + group * WEIGHT_TILE, stage + WEIGHT_BYTES);
            if (lane_id() == 0) barrier_arrive(empty + s * 8);
#pragma unroll
            for (int e = 0; e < TOKENS / 2; ++e) sum[e] = add(sum[e], product[e]);
        }
        // The ring becomes the place where the parts meet, once every consumer of this block is done with it.
        asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128) : "memory");
        float *partial = reinterpret_cast<float *>(memory + (ring - shared_address(memory)));
        const int row = group * WEIGHT_ROWS + (warp_id() & 3) * 16 + (lane_id() >> 2), t0 = (lane_id() & 3) * 2;
#pragma unroll
        for (int j = 0; j < TOKENS / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                partial[(j * 8 + t0 + (e & 1)) * PITCH + row + (e >> 1) * 8] = sum[4 * j + e];
            }
        }
    }
    cluster_sync();

    // Each block finishes an equal share of the tile's tokens.
    const int share = TOKENS / p.splits, share_first = part * share;
    const int quads = p.gated ? ROWS / 8 : ROWS / 4;
    auto total = [&](int t, int r) {
        const u32 at = ring + (t * PITCH + r) * 4;
        float4 v = load4_at(address_at(at, 0));
        for (int s = 1; s < p.splits; ++s) v = add4(v, load4_at(address_at(at, s)));
        return v;
    };
    for (int i = threadIdx.x; i < share * quads; i += blockDim.x) {
        const int t = share_first + i / quads, q = i % quads, token = first_token + t;
        if (token >= rows) continue;
        const float scale = p.scales[token];
        const float *scales = p.weight_scales + tile * ROWS;
        const u64 out_row = (u64)token * p.columns;
        if (p.gated) {
            const int w = (q >> 1) * 16 + (q & 1) * 4;
            const float4 gate = dequantize4(total(t, w), scale, load4(scales + w));
            const float4 up = dequantize4(total(t, w + 8), scale, load4(scales + w + 8));
            finish4(p.out + out_row, nullptr, tile * (ROWS / 2) + q * 4, p.columns,
                    mul4(activate4(p.activation, gate), up));
        } else {
            const float4 v = dequantize4(total(t, q * 4), scale, load4(scales + q * 4));
            finish4(p.out + out_row, p.residual ? p.residual + out_row : nullptr, tile * ROWS + q * 4, p.columns, v);
        }
    }
    // Nobody leaves while others read its shared memory.
    cluster_meet();
}

#define INSTANCE(GROUPS, TOKENS)                                                                       \
    extern "C" __global__ void __launch_bounds__(GROUPS * 128 + 32, 1)                                 \
        sm90_fp8_split_##GROUPS##_##TOKENS(const Fp8Gemm p) {                                          \
        split_gemm<GROUPS, TOKENS>(p);                                                                 \
    }
INSTANCE(1, 64)
INSTANCE(2, 64)
INSTANCE(3, 64)
INSTANCE(5, 64)
INSTANCE(1, 96)
INSTANCE(2, 96)
INSTANCE(1, 128)
INSTANCE(2, 128)
