// Rows rounded to bfloat16, ties to even.
fn source(bits: vec4<u32>) -> vec4<u32> {
    let magnitude = bits & vec4<u32>(0x7fffffffu);
    let rounded = (bits + vec4<u32>(0x7fffu) + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u))) & vec4<u32>(0xffff0000u);
    // A NaN stays one.
    return select(rounded, vec4<u32>(0x7fc00000u), magnitude > vec4<u32>(0x7f800000u));
}
