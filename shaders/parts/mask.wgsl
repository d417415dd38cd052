// The first elements of a group of four; zeros for the others, which lie in a row's padding.
fn head(v: vec4<f32>, elements: u32) -> vec4<f32> {
    return select(vec4<f32>(), v, vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(elements));
}

// Elements of group `group` that lie inside a row of `width` elements.
fn inside(width: u32, group: u32) -> u32 {
    return width - min(4u * group, width);
}
