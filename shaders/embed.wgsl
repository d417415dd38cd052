// Embed: out[t] = table[ids[t]] (+ segment_table[segments[t]]). With a format: the table's.
// The table is a piece of a resident one, or the rows that the host gathered for this batch, one a token.
struct Params {
    rows: u32,
    width4: u32, // groups of four elements a row, padding included
    gathered: u32, // whether row t of `table` is the row of token t
    first: u32, // the piece's first row
    count: u32, // rows of the piece
    segmented: u32,
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read> table: array<Word>;
@group(0) @binding(4) var<storage, read> segments: array<u32>;
@group(0) @binding(5) var<storage, read> segment_table: array<vec4<f32>>;
@group(0) @binding(6) var<storage, read_write> out: array<vec4<f32>>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn embed(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c4 = group.x * LANES + lane;
    if (row >= bound(params.rows) || c4 >= params.width4) {
        return;
    }
    var source = row;
    if (params.gathered == 0u) {
        source = ids[row] - params.first;
        if (source >= params.count) {
            return;
        }
    }
    var v = decode(table[source * params.width4 + c4]);
    if (params.segmented != 0u) {
        v += segment_table[segments[row] * params.width4 + c4];
    }
    out[row * params.width4 + c4] = v;
}
