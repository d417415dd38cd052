// The INT8 row quantizer of RotateQuantize: a row is rounded to bfloat16, rotated in groups by the regular Hadamard matrix,
// scaled by its largest value and rounded to codes. One workgroup of 256 a row, 1024 elements at a time.
//
// A rotation combines the four elements that differ in one base-4 digit of their place in the group: S = a+b+c+d,
// y = S − 2·(d, c, b, a). The arithmetic is in rotate_exact.wgsl or rotate_standard.wgsl: `Number`, `prepare`, `number`,
// `butterfly`, `magnitude`, `finish_row`, `code`. With ieee.wgsl.
struct Params {
    rows: u32,
    width: u32,
    stride: u32, // in groups of four elements, of x and of the codes
    group: u32, // 4^digits, or 1 for no rotation
    digits: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
// Only read; but it may lie in the buffer that the codes go to, which cannot be bound in two ways.
@group(0) @binding(2) var<storage, read_write> x: array<vec4<u32>>;
@group(0) @binding(3) var<storage, read_write> codes: array<u32>;
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
    // The largest bfloat16 without its sign: 0x7f80 and above is not finite.
    var top = 0u;
    for (var i = lane; i < params.stride; i += 256u) {
        let v = bfloat16(base, i) & vec4<u32>(0x7fffu);
        top = max(top, max(max(v.x, v.y), max(v.z, v.w)));
    }
    top = largest_of(lane, top);
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
            var word = code(y[0], scale, largest) & 0xffu;
            word |= (code(y[1], scale, largest) & 0xffu) << 8u;
            word |= (code(y[2], scale, largest) & 0xffu) << 16u;
            word |= code(y[3], scale, largest) << 24u;
            codes[base + start + lane] = select(word, 0u, empty);
        }
    }
}

// Four elements as bfloat16, ties to even; zeros beyond the row's end.
fn bfloat16(base: u32, i: u32) -> vec4<u32> {
    let bits = x[base + i];
    let magnitude = bits & vec4<u32>(0x7fffffffu);
    let rounded = (bits + vec4<u32>(0x7fffu) + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u))) >> vec4<u32>(16u);
    // A NaN stays one.
    let kept = select(rounded, vec4<u32>(0x7fc0u), magnitude > vec4<u32>(0x7f800000u));
    return select(vec4<u32>(), kept, vec4<u32>(0u, 1u, 2u, 3u) + 4u * i < vec4<u32>(params.width));
}

// Elements 4·lane to 4·lane + 3 of 1024 rotated ones. Uniform control flow only.
fn rotated(base: u32, start: u32, lane: u32, grid: u32) -> array<Number, 4> {
    var bits = vec4<u32>();
    if (start + lane < params.stride) {
        bits = bfloat16(base, start + lane);
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
