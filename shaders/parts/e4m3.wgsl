// Four E4M3 codes, the first in the lowest byte, to their values: exact, and no step passes through a denormal.
fn e4m3(word: u32) -> vec4<f32> {
    let codes = vec4<u32>(word) >> vec4<u32>(0u, 8u, 16u, 24u);
    let magnitude = codes & vec4<u32>(0x7fu);
    let normal = bitcast<vec4<f32>>((magnitude << vec4<u32>(20u)) + vec4<u32>(0x3c000000u));
    // Where the exponent field is zero, 2^-7 (1 + m/8) came out instead of 2^-6 (m/8).
    let value = select(normal, (normal - 0.0078125) * 2.0, magnitude < vec4<u32>(8u));
    return bitcast<vec4<f32>>(bitcast<vec4<u32>>(value) | ((codes & vec4<u32>(0x80u)) << vec4<u32>(24u)));
}
