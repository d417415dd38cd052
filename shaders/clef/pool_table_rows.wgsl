// PoolTableRows: out[l] = mean(table[ids[first..end]]), summed in order; zeros for an empty list. With a format: the table's.
// The table is resident, or the rows that the host gathered for this batch, one an id.
struct Params {
    rows: u32,
    width4: u32, // groups of four elements a row, padding included
    gathered: u32, // whether row i of `table` is the row of id i
}

@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(2) var<storage, read> ids: array<u32>;
@group(0) @binding(3) var<storage, read> offsets: array<u32>;
@group(0) @binding(4) var<storage, read> table: array<Word>;
@group(0) @binding(5) var<storage, read_write> out: array<vec4<f32>>;

override LANES: u32 = 64u;

@compute @workgroup_size(LANES)
fn pool_table_rows(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let row = grid_row(group, groups);
    let c4 = group.x * LANES + lane;
    if (row >= bound(params.rows) || c4 >= params.width4) {
        return;
    }
    let first = offsets[row];
    let end = offsets[row + 1u];
    var sum = vec4<f32>();
    for (var i = first; i < end; i++) {
        var source = i;
        if (params.gathered == 0u) {
            source = ids[i];
        }
        sum += decode(table[source * params.width4 + c4]);
    }
    out[row * params.width4 + c4] = sum / f32(max(end - first, 1u));
}
