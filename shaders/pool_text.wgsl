// PoolText: one vector a sequence from its text rows and the zero rows appended to them.
struct Params {
    rows: u32,
    stride: u32, // in groups of four elements, of x and of out
    pool: u32, // 0 first, 1 last, 2 mean, 3 sum, 4 max, 5 root mean square, 6 largest magnitude, 7 mean magnitude
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> spans: array<u32>; // first row, end, zero rows; three a sequence
@group(0) @binding(4) var<storage, read_write> out: array<vec4<f32>>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn pool_text(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c4 = group.x * LANES + lane;
    if (row >= bound(params.rows) || c4 >= params.stride) {
        return;
    }
    let first = spans[3u * row];
    let end = spans[3u * row + 1u];
    let zeros = spans[3u * row + 2u];
    var y: vec4<f32>;
    if (params.pool == 0u) {
        if (first < end) {
            y = x[first * params.stride + c4];
        }
    } else if (params.pool == 1u) {
        if (zeros == 0u && first < end) {
            y = x[(end - 1u) * params.stride + c4];
        }
    } else {
        if (params.pool == 4u && zeros == 0u) {
            y = x[first * params.stride + c4];
        }
        for (var r = first; r < end; r++) {
            y = gather(y, x[r * params.stride + c4]);
        }
        let count = f32(end - first + zeros);
        if (params.pool == 2u || params.pool == 7u) {
            y /= count;
        } else if (params.pool == 5u) {
            y = sqrt(y / count);
        }
    }
    out[row * params.stride + c4] = y;
}

fn gather(y: vec4<f32>, v: vec4<f32>) -> vec4<f32> {
    switch params.pool {
        case 4u: {
            return max(y, v);
        }
        case 5u: {
            return y + v * v;
        }
        case 6u: {
            return max(y, abs(v));
        }
        case 7u: {
            return y + abs(v);
        }
        default: {
            return y + v;
        }
    }
}
