// The INT8 row quantizer of RotateQuantize: a row is rounded to bfloat16, rotated in groups by the regular Hadamard matrix,
// scaled by its largest value and rounded to codes. One workgroup of 256 a row, 1024 elements at a time. Where products
// multiply weights alone, neither the row nor what comes of it is rounded to fewer digits than a product takes.
//
// A rotation combines the four elements that differ in one base-4 digit of their place in the group: S = a+b+c+d,
// y = S − 2·(d, c, b, a). The arithmetic is in rotate_exact.wgsl or rotate_standard.wgsl: `Number`, `prepare`, `number`,
// `butterfly`, `magnitude`, `row_scale`. What is read is in from_bf16.wgsl or from_f32.wgsl (`source`), what is written in
// to_codes.wgsl, to_f16.wgsl or to_f32.wgsl (`put`). With ieee.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements, of x and of what is written
    group: u32, // 4^digits, or 1 for no rotation
    digits: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// Only read; but it may lie in the buffer that the results go to, which cannot be bound in two ways.
@group(0) @binding(2) var<storage, read_write> x: array<vec4<u32>>;
@group(0) @binding(4) var<storage, read_write> scales: array<u32>;

const NAN: u32 = 0x7fc00000u;
const FLOOR: u32 = 0x0da24260u; // 1e-30

var<workgroup> tile: array<Number, 1024>;
var<workgroup> most: array<u32, 256>;

@compute @workgroup_size(256)
fn rotate_quantize(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    if (row >= bound(params.rows)) {
        return;
    }
    let base = row * params.stride;
    // The largest without its sign, its upper half: 0x7f80 and above is not finite.
    var top = 0u;
    for (var i = lane; i < params.stride; i += 256u) {
        let v = elements(base, i) & vec4<u32>(0x7fffffffu);
        top = max(top, max(max(v.x, v.y), max(v.z, v.w)));
    }
    top = largest_of(lane, top) >> 16u;
    let grid = prepare(top);

    var largest = 0u;
    for (var start = 0u; start < params.stride; start += 256u) {
        let y = rotated(base, start, lane, grid);
        largest = max(largest, max(max(magnitude(y[0]), magnitude(y[1])), max(magnitude(y[2]), magnitude(y[3]))));
    }
    largest = largest_of(lane, largest);
    let scale = row_scale(top, largest, grid);
    if (lane == 0u) {
        scales[row] = scale;
    }
    let empty = scale == NAN || largest == 0u;
    for (var start = 0u; start < params.stride; start += 256u) {
        let y = rotated(base, start, lane, grid);
        if (start + lane < params.stride) {
            put(base + start + lane, y, scale, largest, empty);
        }
    }
}

// Four elements as bit patterns of f32; zeros beyond the row's end.
fn elements(base: u32, i: u32) -> vec4<u32> {
    return select(vec4<u32>(), source(x[base + i]), vec4<u32>(0u, 1u, 2u, 3u) + 4u * i < vec4<u32>(params.width));
}

// Elements 4·lane to 4·lane + 3 of 1024 rotated ones. Uniform control flow only.
fn rotated(base: u32, start: u32, lane: u32, grid: u32) -> array<Number, 4> {
    var bits = vec4<u32>();
    if (start + lane < params.stride) {
        bits = elements(base, start + lane);
    }
    let at = 4u * lane;
    workgroupBarrier();
    tile[at] = number(bits.x, grid);
    tile[at + 1u] = number(bits.y, grid);
    tile[at + 2u] = number(bits.z, grid);
    tile[at + 3u] = number(bits.w, grid);
    for (var reach = 1u; reach < params.group; reach *= 4u) {
        workgroupBarrier();
        let e = lane / reach * 4u * reach + lane % reach;
        let y = butterfly(tile[e], tile[e + reach], tile[e + 2u * reach], tile[e + 3u * reach]);
        tile[e] = y[0];
        tile[e + reach] = y[1];
        tile[e + 2u * reach] = y[2];
        tile[e + 3u * reach] = y[3];
    }
    workgroupBarrier();
    return array<Number, 4>(tile[at], tile[at + 1u], tile[at + 2u], tile[at + 3u]);
}

// The largest of every invocation's value.
fn largest_of(lane: u32, value: u32) -> u32 {
    workgroupBarrier();
    most[lane] = value;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half /= 2u) {
        if (lane < half) {
            most[lane] = max(most[lane], most[lane + half]);
        }
        workgroupBarrier();
    }
    return most[0];
}
