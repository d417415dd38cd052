// Sizes of the batch: tokens, sequences, labels, text tokens; questions, option tokens, patches, media tokens; frames.
@group(0) @binding(1) var<uniform> sizes: array<vec4<u32>, 3>;

// A dimension as the host encodes it: 0 to 11 name a size of the batch, anything above is a number plus twelve.
fn bound(dim: u32) -> u32 {
    if (dim < 12u) {
        return sizes[dim / 4u][dim % 4u];
    }
    return dim - 12u;
}

// Rows lie along y, and along z where there are more of them than one dimension of a dispatch takes.
fn grid_row(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y + group.z * groups.y;
}
