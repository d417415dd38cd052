// Attention over binary16 rows on Hopper: attention_half.cu with warpgroup products.
//
//   in     q, k, v and out in binary16, heads 64 wide; pitches and columns are multiples of 8
//   tile   up to 64 queries of one sequence and head. Two warpgroups: the first has the even ones of the key tiles (64 keys from
//          the sequence's first), the second the odd ones; they keep a softmax each and meet at the end, where each finishes
//          half of the columns
//   sums   one binary16 product each for scores and values, float32 sums; the weights of the softmax, at most 1, are rounded
//          to binary16 for the second. A row's bits depend on its own sequence alone
//   list   the host writes the tiles of the batch; blocks take tiles of heads in turn, and a warpgroup fetches its next keys
//          and values, of the next tile too, while it works on these
//   grid   any number of blocks, best as many as fit the chip; 256 threads; dynamic shared memory: 1024 bytes to align, 10
//          matrices of 8192 bytes, 2 tables of 4 * (2 * reach + 1) bytes rounded up to 16, and 8 * MEETING bytes
#include "attention.cuh"
#include "wgmma_delta.cuh"

#define WIDTH 64
#define STEPS 2                    // keys and values of a warpgroup: these and the next
#define MEETING (20 * 32 * 4)      // bytes in which a warp leaves its state for the one of the other warpgroup
#define PITCH 80                   // bytes of half a row of results on its way out; free of bank conflicts
#define LOG2_E 1.44269504f

// Rows `first_row` + {0, 16, ...} below `COUNT` of a panel, zeros from row `rows` on: 128 threads, eight a row.
template <int COUNT>
DEVICE void fetch(u32 to, const u16 *from, int pitch, int first_row, int rows) {
    const int thread = threadIdx.x & 127, r = first_row + thread / 8, c = thread & 7;
    const u16 *row = from + (u64)r * pitch + c * 8;
    to += r * 128 + (((c ^ r) & 7) << 4);
#pragma unroll
    for (int i = 0; i < COUNT; i += 16) copy16(to + i * 128, row + (u64)i * pitch, r + i < rows);
}

// Products of 64 queries with 64 keys become weights; what was summed before fades. `row`: this thread's first query in the
// sequence, `first`: the first key; d = 8 j + c is column c of key group j. As weights_half() of attention_half.cu.
DEVICE void weights_of_tile(Half<WIDTH> &own, float (&s)[8][4], const Attention &p, const float *bias, int first_row, int first,
                            int keys) {
    const int lane = lane_id(), c0 = (lane & 3) * 2, distance = first + c0 - (first_row + (lane >> 2));
    const float scale = p.scale * LOG2_E;
    if (p.bias) {
        // Elements along a diagonal share a bias: group g has those that are g - 1 groups of eight to the right.
        const bool inside = first - (first_row + 15) >= -p.reach && first + 63 - first_row <= p.reach;
        const float *at = bias + p.reach + distance - 8;
#pragma unroll
        for (int g = 0; g < 9; ++g) {
            float b[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                if (inside) b[e] = at[g * 8 + e] * LOG2_E;
                else b[e] = bias[min_of(max_of(distance + (g - 1) * 8 + e, -p.reach), p.reach) + p.reach] * LOG2_E;
                if (g > 0) s[g - 1][e] = fmaf(s[g - 1][e], scale, b[e]);
                if (g < 8) s[g][2 + e] = fmaf(s[g][2 + e], scale, b[e]);
            }
        }
    } else {
#pragma unroll
        for (int i = 0; i < 32; ++i) s[i >> 2][i & 3] = fmaf(s[i >> 2][i & 3], scale, 0.f);
    }
    if (first + 64 > keys) {
#pragma unroll
        for (int i = 0; i < 32; ++i) {
            s[i >> 2][i & 3] = first + (i >> 2) * 8 + c0 + (i & 1) < keys ? s[i >> 2][i & 3] : never();
        }
    }
    float fade[2];
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        float next = own.most[r];
#pragma unroll
        for (int j = 0; j < 8; ++j) next = fmaxf(next, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
        next = fmaxf(next, __shfl_xor_sync(~0u, next, 1));
        next = fmaxf(next, __shfl_xor_sync(~0u, next, 2));
        fade[r] = own.most[r] == next ? 1.f : power_of_two(own.most[r] - next);
        own.most[r] = next;
        float part[2] = {};
#pragma unroll
        for (int j = 0; j < 8; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                s[j][2 * r + e] = power_of_two(s[j][2 * r + e] - next);
                part[e] += s[j][2 * r + e];
            }
        }
        // Lanes meet at the end: here each keeps the sum of its own keys.
        own.sum[r] = own.sum[r] * fade[r] + (part[0] + part[1]);
    }
    if (__any_sync(~0u, fade[0] != 1.f || fade[1] != 1.f)) {
#pragma unroll
        for (int i = 0; i < 32; ++i) own.out[i >> 2][i & 3] *= fade[i >> 1 & 1];
    }
}

// The columns that the other warpgroup finishes, and this one's softmax, at `meet`: its lane's place, steps of 32 floats.
template <int HALF>
DEVICE void hand_half(const Half<WIDTH> &own, float *meet) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        meet[r * 32] = own.most[r];
        meet[(2 + r) * 32] = own.sum[r];
    }
#pragma unroll
    for (int i = 0; i < 16; ++i) meet[(4 + i) * 32] = own.out[4 * (1 - HALF) + (i >> 2)][i & 3];
}
// This warpgroup's columns with what the other left at `meet`: pairs of results in binary16, y[r][n] of row r.
template <int HALF>
DEVICE void join_half(u32 (&y)[2][4], const Half<WIDTH> &own, const float *meet, int keys) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const float theirs = meet[r * 32], most = fmaxf(own.most[r], theirs), base = most == never() ? 0.f : most;
        const float f = power_of_two(own.most[r] - base), g = power_of_two(theirs - base);
        const float sum = add(mul(own.sum[r], f), mul(meet[(2 + r) * 32], g));
        const float share = keys > 0 ? __fdiv_rn(1.f, sum) : 0.f;
#pragma unroll
        for (int n = 0; n < 4; ++n) {
            float x[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const float their = meet[(4 + 4 * n + 2 * r + e) * 32];
                x[e] = keys > 0 ? mul(add(mul(own.out[4 * HALF + n][2 * r + e], f), mul(their, g)), share) : 0.f;
            }
            y[r][n] = f16_pair(x[0], x[1]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) sm90_attention_half_64(const Attention p) {
    extern __shared__ __align__(1024) u8 memory[];
    const u32 aligned = (shared_address(memory) + 1023) & ~1023u;
    const int half = uniform(warp_id() >> 2), warp = warp_id() & 3, lane = lane_id();
    const int distances = 2 * p.reach + 1, table = (distances + 3) & ~3;
    const u32 steps = aligned + half * STEPS * 2 * PANEL, queries = aligned + 2 * STEPS * 2 * PANEL;
    float *tables = reinterpret_cast<float *>(memory + (queries - shared_address(memory)) + 2 * PANEL);
    float *meetings = tables + 2 * table;
    release_successor();
    // Both at once: the list has room for every block's first tile.
    const Tile first_tile = p.tiles[blockIdx.x / p.heads];
    const int items = *p.tile_count * p.heads;
    if ((int)blockIdx.x >= items) {
        wait_for_predecessor();
        return;
    }
    // What this warpgroup fetches next: keys of a tile of a head from `first` on, and where to. Both have as many steps in
    // every tile, the last of no keys perhaps, so that one kind of barrier will do.
    struct {
        int item, first, step, turn;
        Tile tile;
    } next = {(int)blockIdx.x, half * TILE, 0, 0, first_tile};
    auto fetch_step = [&] {
        if (next.item < items) {
            const int head = next.item % p.heads, column = head * WIDTH;
            const u32 to = steps + next.step * 2 * PANEL;
            const u64 key = next.tile.key + next.first;
            const int keys = next.tile.keys - next.first;
            if (keys > 0) {
                fetch<64>(to, static_cast<const u16 *>(p.k) + key * p.k_pitch + column, p.k_pitch, 0, keys);
                fetch<64>(to + PANEL, static_cast<const u16 *>(p.v) + key * p.v_pitch + column, p.v_pitch, 0, keys);
            }
            if (next.first < 2 * TILE) {
                // Half of the queries and biases.
                const u16 *q = static_cast<const u16 *>(p.q) + (u64)next.tile.query * p.q_pitch + column;
                fetch<32>(queries + next.turn * PANEL, q, p.q_pitch, half * 32, next.tile.queries);
                if (p.bias) {
                    const u32 bias = shared_address(tables + next.turn * table);
                    for (int i = threadIdx.x; i < distances; i += THREADS) {
                        copy4(bias + i * 4, p.bias + (u64)head * distances + i);
                    }
                }
            }
            next.first += 2 * TILE;
            if (next.first - half * TILE >= next.tile.keys) {
                next.item += gridDim.x;
                next.first = half * TILE;
                next.turn ^= 1;
                if (next.item < items) next.tile = p.tiles[next.item / p.heads];
            }
            next.step ^= 1;
        }
        commit_copies();
    };
    wait_for_predecessor();
#pragma unroll
    for (int i = 0; i < STEPS; ++i) fetch_step();

    u32 at = steps;
    bool begun = false;
    int turn = 0;
    for (int item = blockIdx.x; item < items; item += gridDim.x, turn ^= 1) {
        const Tile tile = item == (int)blockIdx.x ? first_tile : p.tiles[item / p.heads];
        Half<WIDTH> own = empty_half<WIDTH>();
#pragma unroll 1
        for (int first = half * TILE; first < 2 * TILE || first - half * TILE < tile.keys; first += 2 * TILE) {
            // The first time the next step is under way already, else it goes where the one before was.
            if (!begun) wait_copies<STEPS - 1>();
            else wait_copies<0>();
            publish_to_tensor_core();
            __syncthreads();
            if (begun) fetch_step();
            begun = true;
            if (first < tile.keys) {
                // Anew in each step: of first operands kept from one step to the next, the compiler gives the registers away.
                u32 q[4][4];
                const int r = warp * 16 + (lane & 15);
#pragma unroll
                for (int i = 0; i < 4; ++i) {
                    load_matrices(q[i], queries + turn * PANEL + r * 128 + (((2 * i + (lane >> 4)) ^ (r & 7)) << 4));
                }
                const u32 operand_k = operand_low(at), operand_v = columns_low(at + PANEL);
                float s[8][4];
                settle(s);
                settle(q);
                wgmma_fence();
#pragma unroll
                for (int i = 0; i < 4; ++i) wgmma_rows(s, q[i], operand(operand_k + i * 2), i > 0);
                wgmma_commit();
                wgmma_wait<0>();
                settle(s);
                settle(q);
                weights_of_tile(own, s, p, tables + turn * table, tile.place + warp * 16, first, tile.keys);
                u32 w[4][4];
#pragma unroll
                for (int i = 0; i < 16; ++i) {
                    const float *pair = s[2 * (i >> 2) + (i >> 1 & 1)] + (i & 1) * 2;
                    w[i >> 2][i & 3] = f16_pair(pair[0], pair[1]);
                }
                settle(w);
                settle(own.out);
                wgmma_fence();
#pragma unroll
                for (int i = 0; i < 4; ++i) wgmma_columns(own.out, w[i], operand(operand_v + i * 128), 1);
                wgmma_commit();
                wgmma_wait<0>();
                settle(own.out);
                settle(w);
            }
            at = at == steps ? steps + 2 * PANEL : steps;
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            own.sum[r] += __shfl_xor_sync(~0u, own.sum[r], 1);
            own.sum[r] += __shfl_xor_sync(~0u, own.sum[r], 2);
        }

        // Each leaves what the other finishes; the next tile's first step comes before they leave something here again.
        float *ours = meetings + (half * 4 + warp) * (MEETING / 4) + lane;
        float *theirs = meetings + ((1 - half) * 4 + warp) * (MEETING / 4) + lane;
        u32 y[2][4];
        if (half == 0) hand_half<0>(own, ours);
        else hand_half<1>(own, ours);
        __syncthreads();
        if (half == 0) join_half<0>(y, own, theirs, tile.keys);
        else join_half<1>(y, own, theirs, tile.keys);
        __syncwarp();
        u8 *rows = reinterpret_cast<u8 *>(theirs - lane);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
            for (int n = 0; n < 4; ++n) {
                *reinterpret_cast<u32 *>(rows + ((lane >> 2) + r * 8) * PITCH + n * 16 + (lane & 3) * 4) = y[r][n];
            }
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const int r = i * 8 + (lane >> 2), c = lane & 3;
            if (warp * 16 + r >= tile.queries) continue;
            u16 *to = static_cast<u16 *>(p.out) + (u64)(tile.query + warp * 16 + r) * p.out_pitch + item % p.heads * WIDTH;
            *reinterpret_cast<uint4 *>(to + half * 32 + c * 8) = *reinterpret_cast<const uint4 *>(rows + r * PITCH + c * 16);
        }
    }
    wait_copies<0>();
}
