// Rows as they are.
fn source(bits: vec4<u32>) -> vec4<u32> {
    return bits;
}
