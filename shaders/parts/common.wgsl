// Sizes of the batch: tokens, sequences, labels, text tokens.
@group(0) @binding(1) var<uniform> sizes: vec4<u32>;

// A dimension as the host encodes it: 0 to 3 name a size of the batch, anything above is a number plus four.
fn bound(dim: u32) -> u32 {
    if (dim < 4u) {
        return sizes[dim];
    }
    return dim - 4u;
}

// Rows lie along y, and along z where there are more of them than one dimension of a dispatch takes.
fn grid_row(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y + group.z * groups.y;
}
