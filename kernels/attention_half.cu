// Attention over binary16 rows: out = softmax(scale * q k^T + bias) v per head and sequence, over keys of the same sequence.
//
//   in     q, k, v and out in binary16: what an FP8 product wrote and what a quantizer reads next; heads are 64 wide
//   tile   up to 64 queries of one sequence and head; keys in tiles of 64 from the sequence's first key (attention.cuh)
//   sums   one binary16 product each for scores and values, float32 sums; the weights of the softmax, at most 1, are
//          rounded to binary16 for the second
//   list   the host writes the tiles of the batch; blocks take tiles of heads in turn, and fetch STEPS - 1 steps (tiles
//          of keys) ahead, of the next tile too
//   grid   any number of blocks, best as many as fit the chip; 256 threads; pitches and columns are multiples of 8;
//          dynamic shared memory: STEPS times 3 planes of 64 * 144 bytes, 3 tables of 4 * (2 * reach + 1) bytes rounded up
//          to 16, and 4 * Meeting<64>::FLOATS floats
#include "attention.cuh"

#define WIDTH 64
#define PITCH (WIDTH * 2 + 16) // bytes of a row; the pad keeps ldmatrix free of bank conflicts
#define PLANE (TILE * PITCH)

// Rows of 128 bytes to a plane, zeros from row `rows` on: a thread copies chunks of rows r and r + 32.
DEVICE void fetch(u32 to, const u16 *from, int pitch, int rows) {
    static_assert(TILE * WIDTH / 8 == 2 * THREADS, "two chunks a thread");
    const int r = threadIdx.x / (WIDTH / 8), c = threadIdx.x % (WIDTH / 8);
    const u16 *row = from + (u64)r * pitch + c * 8;
    to += r * PITCH + c * 16;
    copy16(to, row, r < rows);
    copy16(to + THREADS / 8 * PITCH, row + (u64)(THREADS / 8) * pitch, r + THREADS / 8 < rows);
}

// Scores of 32 keys at `keys` for 16 queries.
DEVICE void scores(float (&s)[4][4], const u32 (&q)[4][4], u32 keys) {
    const int lane = lane_id();
    const u32 from = keys + ((lane & 7) + (lane >> 4) * 8) * PITCH + ((lane >> 3) & 1) * 16;
#pragma unroll
    for (int step = 0; step < 4; ++step) {
        u32 k[2][4];
        load_matrices(k[0], from + step * 32);
        load_matrices(k[1], from + 16 * PITCH + step * 32);
#pragma unroll
        for (int n = 0; n < 4; ++n) mma_f16(s[n], q[step], k[n / 2][n % 2 * 2], k[n / 2][n % 2 * 2 + 1]);
    }
}

// The same as weights() of attention.cuh with fewer instructions: scores as powers of two, ten biases for sixteen elements
// (neighbours along a diagonal share one), limits looked at only where they can matter.
DEVICE void weights_half(Half<WIDTH> &own, float (&s)[4][4], const Attention &p, const float *bias, int first_row, int first,
                         int keys) {
    constexpr float LOG2_E = 1.44269504f;
    const int lane = lane_id(), c0 = (lane & 3) * 2, distance = first + c0 - (first_row + (lane >> 2));
    float b[5][2] = {}; // of the elements that are m - 1 groups of eight to the right of the diagonal
    if (p.bias) {
        if (first - (first_row + 15) >= -p.reach && first + 31 - first_row <= p.reach) {
            const float *at = bias + p.reach + distance - 8;
#pragma unroll
            for (int i = 0; i < 10; ++i) b[i / 2][i & 1] = at[i / 2 * 8 + (i & 1)] * LOG2_E;
        } else {
#pragma unroll
            for (int i = 0; i < 10; ++i) {
                const int d = distance + (i / 2 - 1) * 8 + (i & 1);
                b[i / 2][i & 1] = bias[min_of(max_of(d, -p.reach), p.reach) + p.reach] * LOG2_E;
            }
        }
    }
    const float scale = p.scale * LOG2_E;
#pragma unroll
    for (int n = 0; n < 4; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) s[n][e] = fmaf(s[n][e], scale, b[n - (e >> 1) + 1][e & 1]);
    }
    if (first + 32 > keys) {
#pragma unroll
        for (int n = 0; n < 4; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) s[n][e] = first + n * 8 + c0 + (e & 1) < keys ? s[n][e] : never();
        }
    }
    float fade[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float next = own.most[r];
#pragma unroll
        for (int n = 0; n < 4; ++n) next = fmaxf(next, fmaxf(s[n][2 * r], s[n][2 * r + 1]));
        next = fmaxf(next, __shfl_xor_sync(~0u, next, 1));
        next = fmaxf(next, __shfl_xor_sync(~0u, next, 2));
        // A half may have no key yet.
        const float base = next == never() ? 0.f : next;
        fade[r] = own.most[r] == next ? 1.f : power_of_two(own.most[r] - base);
        own.most[r] = next;
        float part = 0.f;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            s[n][2 * r] = power_of_two(s[n][2 * r] - base);
            s[n][2 * r + 1] = power_of_two(s[n][2 * r + 1] - base);
            part += s[n][2 * r] + s[n][2 * r + 1];
        }
        // Lanes meet at the end: here each keeps the sum of its own keys.
        own.sum[r] = own.sum[r] * fade[r] + part;
    }
    if (__any_sync(~0u, fade[0] != 1.f || fade[1] != 1.f)) {
#pragma unroll
        for (int n = 0; n < WIDTH / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) own.out[n][e] *= fade[e >> 1];
        }
    }
}

// Adds 32 keys' weighted values at `values`.
DEVICE void weigh(float (&out)[8][4], const float (&s)[4][4], u32 values) {
    const int lane = lane_id();
#pragma unroll
    for (int step = 0; step < 2; ++step) {
        u32 w[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float *pair = s[2 * step + (i >> 1)] + (i & 1) * 2;
            w[i] = f16_pair(pair[0], pair[1]);
        }
        const u32 from = values + (step * 16 + (lane & 15)) * PITCH + (lane >> 4) * 16;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            u32 v[4];
            load_matrices_transposed(v, from + n * 32);
            mma_f16(out[2 * n], w, v[0], v[1]);
            mma_f16(out[2 * n + 1], w, v[2], v[3]);
        }
    }
}

// The host divides shared memory in the same way: Hopper alone has so much, whatever comes after it.
#if __CUDA_ARCH__ == 900
#define STEPS 3
#else
#define STEPS 2 // 96 KiB of shared memory
#endif
#define STEP_BYTES (3 * PLANE) // keys, values and, with a tile's first, its queries

extern "C" __global__ void __launch_bounds__(THREADS, 2) attention_half_64(const Attention p) {
    extern __shared__ __align__(128) u8 memory[];
    const u32 steps = shared_address(memory);
    const int distances = 2 * p.reach + 1, table = (distances + 3) & ~3;
    float *tables = reinterpret_cast<float *>(memory + STEPS * STEP_BYTES);
    float *meetings = tables + 3 * table;
    release_successor();
    const int items = *p.tile_count * p.heads;
    if ((int)blockIdx.x >= items) {
        wait_for_predecessor();
        return;
    }
    // What is to be fetched next: a tile of a head, its keys from `first` on; where to.
    struct {
        int item, first, step, table;
        Tile tile;
    } next = {(int)blockIdx.x, 0, 0, 0, p.tiles[blockIdx.x / p.heads]};
    auto fetch_step = [&] {
        if (next.item < items) {
            const int head = next.item % p.heads, column = head * WIDTH;
            const u32 to = steps + next.step * STEP_BYTES;
            const u64 key = next.tile.key + next.first;
            const int keys = next.tile.keys - next.first;
            fetch(to, static_cast<const u16 *>(p.k) + key * p.k_pitch + column, p.k_pitch, keys);
            fetch(to + PLANE, static_cast<const u16 *>(p.v) + key * p.v_pitch + column, p.v_pitch, keys);
            if (next.first == 0) {
                fetch(to + 2 * PLANE, static_cast<const u16 *>(p.q) + (u64)next.tile.query * p.q_pitch + column,
                      p.q_pitch, next.tile.queries);
                if (p.bias) {
                    const u32 bias = shared_address(tables + next.table * table);
                    for (int i = threadIdx.x; i < distances; i += THREADS) {
                        copy4(bias + i * 4, p.bias + (u64)head * distances + i);
                    }
                }
            }
            next.first += TILE;
            if (next.first >= next.tile.keys) {
                next.item += gridDim.x;
                next.first = 0;
                next.table = next.table == 2 ? 0 : next.table + 1;
                if (next.item < items) next.tile = p.tiles[next.item / p.heads];
            }
            next.step = next.step == STEPS - 1 ? 0 : next.step + 1;
        }
        commit_copies();
    };
    wait_for_predecessor();
#pragma unroll
    for (int i = 0; i < STEPS - 1; ++i) fetch_step();

    const int lane = lane_id(), group = warp_id() & 3, half = warp_id() >> 2;
    int step = 0, bias = 0;
    for (int item = blockIdx.x; item < items; item += gridDim.x) {
        const Tile tile = p.tiles[item / p.heads];
        Half<WIDTH> own = empty_half<WIDTH>();
        u32 q[4][4];
        for (int first = 0; first == 0 || first < tile.keys; first += TILE) {
            wait_copies<STEPS - 2>();
            __syncthreads();
            fetch_step(); // where the step before this one was
            const u32 at = steps + step * STEP_BYTES;
            step = step == STEPS - 1 ? 0 : step + 1;
            if (first == 0) {
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    load_matrices(q[i], at + 2 * PLANE + (group * 16 + (lane & 15)) * PITCH + (lane >> 4) * 16 + i * 32);
                }
            }
            float s[4][4] = {};
            scores(s, q, at + half * 32 * PITCH);
            weights_half(own, s, p, tables + bias * table, tile.place + group * 16, first + half * 32, tile.keys);
            weigh(own.out, s, at + PLANE + half * 32 * PITCH);
        }
        bias = bias == 2 ? 0 : bias + 1;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            own.sum[r] += __shfl_xor_sync(~0u, own.sum[r], 1);
            own.sum[r] += __shfl_xor_sync(~0u, own.sum[r], 2);
        }

        // The second half hands its state over; the first finishes, and its warps store whole rows from where they met. The
        // next tile's first step comes before the second half is here again.
        float *meet = meetings + group * Meeting<WIDTH>::FLOATS + lane;
        if (half == 1) hand_over<WIDTH>(own, meet);
        __syncthreads();
        if (half == 1) continue;
        float y[2][WIDTH / 4];
        join<WIDTH, true>(y[0], own, meet, 0, tile.keys);
        join<WIDTH, true>(y[1], own, meet, 1, tile.keys);
        __syncwarp();
        u8 *rows = reinterpret_cast<u8 *>(meetings + group * Meeting<WIDTH>::FLOATS);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
            for (int n = 0; n < WIDTH / 8; ++n) {
                *reinterpret_cast<u32 *>(rows + ((lane >> 2) + r * 8) * PITCH + n * 16 + (lane & 3) * 4) =
                    f16_pair(y[r][2 * n], y[r][2 * n + 1]);
            }
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const int r = i * 4 + (lane >> 3), c = lane & 7;
            if (group * 16 + r >= tile.queries) continue;
            u16 *to = static_cast<u16 *>(p.out) + (u64)(tile.query + group * 16 + r) * p.out_pitch + item % p.heads * WIDTH;
            *reinterpret_cast<uint4 *>(to + c * 8) = *reinterpret_cast<const uint4 *>(rows + r * PITCH + c * 16);
        }
    }
    wait_copies<0>();
}
