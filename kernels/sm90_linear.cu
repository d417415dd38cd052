// Linear and LinearGated on Hopper: float32 activations, bfloat16 weights, warpgroup products with split activations.
//
//   out[t][n] = activation(sum_k x[t][k] * w[n][k] + bias[n]) + residual       or, gated,
//   out[t][n] = activation(gate) * up
//   sums   x = head + tail in bfloat16 (17 bits kept), a product each; k in blocks of 64, the blocks in PARTS parts: each
//          part is summed in the tensor core, the parts are added in order. No dependence on the batch, whoever sums them
//   tile   GROUPS * 64 tokens x ROWS weight rows; a consumer warp splits x of its 16 tokens into registers; one producer
//          warp fetches weights. They do not depend on the kernel before, so it does not wait
//   split  for few tokens: a cluster of PARTS blocks, each with a part of k; the parts meet in shared memory, and each
//          block finishes some of the tokens. Else one block walks all parts
//   grid   (weight rows / ROWS, split: times PARTS; token capacity / (GROUPS * 64)), 160 or 384 threads;
//          dynamic shared memory: 1024 bytes to align + STAGES * ROWS * 128, and STAGES * GROUPS * 4 * X_BYTES for x; split:
//          at least GROUPS * 64 * (ROWS + 8) floats where parts meet
//   k      a multiple of 4; beyond it x reads as zero
#include "convert.cuh"
#include "epilogue.cuh"
#include "mbarrier.cuh"
#include "mma.cuh"
#include "tile.cuh"
#include "wgmma.cuh"

#define PARTS 8
#define KSTEP 64 // elements of a k-block: 128 bytes of bfloat16
#define STAGES 4
#define X_BYTES (16 * KSTEP * 4) // x of a warp's 16 tokens in a k-block

struct Linear {
    const float *x;
    const u8 *weight, *weight_tail;
    const float *bias, *residual;
    float *out;
    const int *rows;
    int k, k_blocks, columns, gated, activation;
};

DEVICE int part_start(int part, int k_blocks) { return part * k_blocks / PARTS; }

// One thread: the weights of k-blocks `first` to `last`.
template <int GROUPS, int ROWS>
DEVICE void produce(const Linear &p, int row_tile, int first, int last, u32 ring, u32 full, u32 empty) {
    u32 stage = 0, parity = 1; // a fresh barrier counts as having completed the phase before its first
#pragma unroll 1
    for (int kb = first; kb < last; ++kb) {
        barrier_wait(empty + stage * 8, parity);
        barrier_expect(full + stage * 8, ROWS * KBLOCK);
#pragma unroll
        for (int g = 0; g < ROWS / WEIGHT_ROWS; ++g) {
            bulk_copy(ring + stage * ROWS * KBLOCK + g * WEIGHT_TILE,
                      p.weight + weight_tile(row_tile * (ROWS / WEIGHT_ROWS) + g, kb, p.k_blocks), WEIGHT_TILE,
                      full + stage * 8);
        }
        if (++stage == STAGES) stage = 0, parity ^= 1;
    }
}

// A thread's x of a k-block as operands: 4 steps of rows r and r + 8, columns c and c + 8.
struct Fragment {
    u32 head[2][2][4], tail[2][2][4]; // by half, step and register
    // The compiler gives these registers to nothing else before this point.
    __device__ __forceinline__ void keep() {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            asm volatile("" : "+r"(head[i >> 3][i >> 2 & 1][i & 3]));
            asm volatile("" : "+r"(tail[i >> 3][i >> 2 & 1][i & 3]));
        }
    }
};

// A thread's x of a k-block on its way straight from memory.
struct Loaded {
    float2 v[16];
    __device__ __forceinline__ void load(const Linear &p, int row, int rows, int k_block) {
        const int k = k_block * KSTEP + 2 * (lane_id() & 3);
        const float *from = p.x + (u64)row * p.k + k;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const int down = (i & 1) * 8, right = (i >> 2) * 16 + ((i >> 1) & 1) * 8;
            const bool valid = row + down < rows && k + right < p.k;
            v[i] = valid ? *reinterpret_cast<const float2 *>(from + (u64)down * p.k + right) : make_float2(0.f, 0.f);
        }
    }
    __device__ __forceinline__ void split_to(Fragment &f) const {
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const SplitPair s = split_pair(v[i].x, v[i].y);
            f.head[i >> 3][i >> 2 & 1][i & 3] = s.head;
            f.tail[i >> 3][i >> 2 & 1][i & 3] = s.tail;
        }
    }
};

// A warp's own x for long sums: a ring of k-blocks, rows of 256 bytes, chunk c of row r at c ^ (2 * (r & 3)) against bank conflicts.
struct Rows {
    const Linear &p;
    u32 ring;
    int first_row, rows, last; // this lane's first row; how many there are; k-blocks end here
    u32 to = 0, from = 0;      // bytes into the ring

    __device__ __forceinline__ void fetch(int k_block) {
        if (k_block < last) {
            // Two rows at a time, sixteen lanes each.
            const int high = lane_id() >> 4, chunk = lane_id() & 15, k = k_block * KSTEP + chunk * 4;
            const float *x = p.x + (u64)first_row * p.k + k;
            const u32 at = ring + to + high * (KSTEP * 4);
#pragma unroll
            for (int i = 0; i < X_BYTES / 16 / 32; ++i) {
                const bool valid = first_row + i * 2 < rows && k < p.k;
                copy16(at + i * (2 * KSTEP * 4) + ((chunk ^ ((i & 1) * 4 + high * 2)) << 4), valid ? x : p.x, valid);
                x += 2 * p.k;
            }
            to = to == (STAGES - 1) * X_BYTES ? 0 : to + X_BYTES;
        }
        commit_copies();
    }
    // Two steps of the next k-block: the first two once it has arrived, then the others, and its place is free.
    template <int HALF>
    __device__ __forceinline__ void take(u32 (&head)[2][4], u32 (&tail)[2][4]) {
        if (HALF == 0) {
            wait_copies<STAGES - 2>();
            __syncwarp();
        }
        const int lane = lane_id(), g = lane >> 2, c = lane & 3;
        // Rows g and g + 8 permute alike.
        const u32 at = ring + from + g * (KSTEP * 4) + (c & 1) * 8, turn = (c >> 1) ^ ((g & 3) * 2);
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const u32 chunk = turn ^ (HALF * 8 + (i >> 2) * 4 + (i & 2));
            const float2 v = load8_shared(at + (i & 1) * (8 * KSTEP * 4) + (chunk << 4));
            const SplitPair s = split_pair(v.x, v.y);
            head[i >> 2][i & 3] = s.head;
            tail[i >> 2][i & 3] = s.tail;
        }
        if (HALF == 1) {
            from = from == (STAGES - 1) * X_BYTES ? 0 : from + X_BYTES;
            __syncwarp();
        }
    }
};

// Results straight from the accumulators: a thread has rows r and r + 8, column pairs.
template <int ROWS, int ACTIVATION>
DEVICE void finish(const Linear &p, const float (&sum)[ROWS / 2], int row_tile, int row, int rows) {
    const int c0 = 2 * (lane_id() & 3);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (row + r * 8 >= rows) continue;
        float *out = p.out + (u64)(row + r * 8) * p.columns;
        const float *residual = p.residual ? p.residual + (u64)(row + r * 8) * p.columns : nullptr;
#pragma unroll
        for (int j = 0; j < ROWS / 8; ++j) {
            if (p.gated && (j & 1)) continue;
            const int column = (p.gated ? row_tile * (ROWS / 2) + j / 2 * 8 : row_tile * ROWS + j * 8) + c0;
            float y[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float v = sum[4 * j + 2 * r + e];
                if (p.bias) v = add(v, p.bias[column + e]); // padded like the weight's rows; gated products have none
                y[e] = activate(ACTIVATION, v);
                // An even j has its up half next to it.
                if (p.gated) y[e] = mul(y[e], sum[4 * (j | 1) + 2 * r + e]);
            }
            if (column + 2 <= p.columns && (p.columns & 1) == 0) {
                if (residual) {
                    const float2 old = *reinterpret_cast<const float2 *>(residual + column);
                    y[0] = add(y[0], old.x);
                    y[1] = add(y[1], old.y);
                }
                *reinterpret_cast<float2 *>(out + column) = make_float2(y[0], y[1]);
            } else {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    if (column + e < p.columns) out[column + e] = residual ? add(y[e], residual[column + e]) : y[e];
                }
            }
        }
    }
}

// The parts of a cluster's blocks, added in order and finished: this block's share of the tile's tokens.
template <int GROUPS, int ROWS>
DEVICE void finish_together(const Linear &p, u32 staged, int row_tile, int first_token, int rows) {
    constexpr int PITCH = ROWS + 8, SHARE = GROUPS * 64 / PARTS;
    auto total = [&](int t, int row) {
        const u32 at = staged + (t * PITCH + row) * 4;
        float4 v = make_float4(0.f, 0.f, 0.f, 0.f);
#pragma unroll
        for (int part = 0; part < PARTS; ++part) v = add4(v, load4_remote(address_at(at, part)));
        return v;
    };
    const int quads = p.gated ? ROWS / 8 : ROWS / 4;
    for (int i = threadIdx.x; i < SHARE * quads; i += GROUPS * 128) {
        const int t = cluster_rank() * SHARE + i / quads, q = i % quads, token = first_token + t;
        if (token >= rows) continue;
        float *out = p.out + (u64)token * p.columns;
        if (p.gated) {
            const int w = (q >> 1) * 16 + (q & 1) * 4;
            const float4 v = mul4(activate4(p.activation, total(t, w)), total(t, w + 8));
            finish4(out, nullptr, row_tile * (ROWS / 2) + q * 4, p.columns, v);
        } else {
            const int column = row_tile * ROWS + q * 4;
            float4 v = total(t, q * 4);
            if (p.bias) v = add4(v, load4(p.bias + column));
            finish4(out, p.residual ? p.residual + (u64)token * p.columns : nullptr, column, p.columns,
                    activate4(p.activation, v));
        }
    }
}

template <int GROUPS, int ROWS, bool SPLIT>
DEVICE void linear(const Linear &p) {
    extern __shared__ u8 memory[];
    __shared__ __align__(8) u64 full_barriers[STAGES], empty_barriers[STAGES];
    const u32 ring = (shared_address(memory) + 1023) & ~1023u;
    const u32 full = shared_address(full_barriers), empty = shared_address(empty_barriers);
    const int rows = *p.rows, first_token = blockIdx.y * GROUPS * 64;
    const int row_tile = SPLIT ? blockIdx.x / PARTS : blockIdx.x;
    const int first_part = SPLIT ? (int)cluster_rank() : 0, last_part = SPLIT ? first_part + 1 : PARTS;

    release_successor();
    if (first_token >= rows) {
        wait_for_predecessor();
        return;
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(full + s * 8, 1);
            barrier_init(empty + s * 8, GROUPS * 4);
        }
        barrier_init_fence();
    }
    __syncthreads();

    if (warp_id() >= GROUPS * 4) {
        if (GROUPS == 2) give_registers<40>();
        if (warp_id() == GROUPS * 4 && elected()) {
            produce<GROUPS, ROWS>(p, row_tile, part_start(first_part, p.k_blocks), part_start(last_part, p.k_blocks), ring,
                                  full, empty);
        }
        __syncwarp();
        wait_for_predecessor();
        if (SPLIT) {
            cluster_exchange();
            cluster_exchange();
        }
    } else {
        if (GROUPS == 2) take_registers<232>();
        const int group = uniform(warp_id() / 4), lane = lane_id();
        const int row = first_token + group * 64 + (warp_id() & 3) * 16 + (lane >> 2);
        const u32 operand_b = operand_low(ring);
        float total[ROWS / 2];
        u32 stage = 0, parity = 0;

        wait_for_predecessor();
        auto product = [&](float (&sum)[ROWS / 2], const Fragment &f, bool keep) {
            barrier_wait(full + stage * 8, parity);
            const u32 b = operand_b + stage * (ROWS * KBLOCK / 16);
            settle(sum);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < 4; ++step) {
                WgmmaReal<ROWS>::run(sum, f.tail[step >> 1][step & 1], operand(b + 2 * step), keep || step > 0);
                WgmmaReal<ROWS>::run(sum, f.head[step >> 1][step & 1], operand(b + 2 * step), 1);
            }
            wgmma_commit();
        };
        auto finish_product = [&](float (&sum)[ROWS / 2], Fragment &f) {
            wgmma_wait<0>();
            settle(sum);
            f.keep(); // not before: the product reads them
            if (lane == 0) barrier_arrive(empty + stage * 8);
            if (++stage == STAGES) stage = 0, parity ^= 1;
        };
#pragma unroll
        for (int e = 0; e < ROWS / 2; ++e) total[e] = 0.f;
        if constexpr (SPLIT) {
            // One part, few k-blocks: x is loaded one ahead.
            const int first = part_start(first_part, p.k_blocks), last = part_start(last_part, p.k_blocks);
            Loaded ahead;
            ahead.load(p, row, rows, first);
#pragma unroll 1
            for (int kb = first; kb < last; ++kb) {
                Fragment now;
                ahead.split_to(now);
                if (kb + 1 < last) ahead.load(p, row, rows, kb + 1);
                product(total, now, kb > first);
                finish_product(total, now);
            }
        } else {
            Rows x{p, ring + STAGES * ROWS * KBLOCK + warp_id() * STAGES * X_BYTES, row - (lane >> 2) + (lane >> 4), rows,
                   p.k_blocks};
#pragma unroll
            for (int i = 0; i < STAGES - 1; ++i) x.fetch(i);
            Fragment now;
            x.take<0>(now.head[0], now.tail[0]);
            x.take<1>(now.head[1], now.tail[1]);
            x.fetch(STAGES - 1);
#pragma unroll 1
            for (int part = 0; part < PARTS; ++part) {
                const int first = part_start(part, p.k_blocks), last = part_start(part + 1, p.k_blocks);
                float sum[ROWS / 2];
                if (first == last) {
#pragma unroll
                    for (int e = 0; e < ROWS / 2; ++e) sum[e] = 0.f;
                }
#pragma unroll 1
                for (int kb = first; kb < last; ++kb) {
                    product(sum, now, kb > first);
                    // The other group multiplies while this one splits: there are no registers for both at once.
                    finish_product(sum, now);
                    if (kb + 1 < p.k_blocks) x.take<0>(now.head[0], now.tail[0]);
                    if (kb + 1 < p.k_blocks) x.take<1>(now.head[1], now.tail[1]);
                    x.fetch(kb + STAGES);
                }
#pragma unroll
                for (int e = 0; e < ROWS / 2; ++e) total[e] = add(total[e], sum[e]);
            }
            wait_copies<0>();
        }
        if constexpr (SPLIT) {
            // Every group is done with the ring: the parts take its place.
            constexpr int PITCH = ROWS + 8;
            asm volatile("bar.sync 1, %0;" ::"n"(GROUPS * 128) : "memory");
            float *staged = reinterpret_cast<float *>(memory + (ring - shared_address(memory)));
            float *to = staged + (group * 64 + (warp_id() & 3) * 16 + (lane >> 2)) * PITCH + 2 * (lane & 3);
#pragma unroll
            for (int i = 0; i < ROWS / 4; ++i) {
                *reinterpret_cast<float2 *>(to + (i & 1) * 8 * PITCH + i / 2 * 8) = make_float2(total[2 * i], total[2 * i + 1]);
            }
            __syncwarp();
            cluster_exchange();
            finish_together<GROUPS, ROWS>(p, ring, row_tile, first_token, rows);
            __syncwarp();
            cluster_exchange();
        } else {
            switch (p.activation) {
                case NONE: finish<ROWS, NONE>(p, total, row_tile, row, rows); break;
                case GELU_ERF: finish<ROWS, GELU_ERF>(p, total, row_tile, row, rows); break;
                case GELU_TANH: finish<ROWS, GELU_TANH>(p, total, row_tile, row, rows); break;
                case RELU: finish<ROWS, RELU>(p, total, row_tile, row, rows); break;
                default: finish<ROWS, SILU>(p, total, row_tile, row, rows);
            }
        }
    }
}

// Of the small tiles two blocks fit a multiprocessor: 192 threads stand for 160, whose five warps divide unevenly.
#define INSTANCE(NAME, GROUPS, ROWS, SPLIT)                                                                 \
    extern "C" __global__ void __launch_bounds__(GROUPS == 1 ? 192 : 384, GROUPS == 1 ? 2 : 1)               \
        sm90_linear_##NAME(const Linear p) {                                                                 \
        linear<GROUPS, ROWS, SPLIT>(p);                                                                      \
    }
INSTANCE(split_1_64, 1, 64, true)
INSTANCE(split_1_128, 1, 128, true)
INSTANCE(whole_1_64, 1, 64, false)
INSTANCE(whole_2_128, 2, 128, false)
