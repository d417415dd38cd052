// Values that are multiplied as binary16, rounded here and not by a conversion: what a driver makes of f32 → f16 → f32 in
// registers is its own affair, and two loops must get the same bits.

// The nearest binary16, ties to even, as f32; for magnitudes up to 65504.
fn to_half(v: vec4<f32>) -> vec4<f32> {
    let bits = bitcast<vec4<u32>>(v);
    let rounded = (bits + vec4<u32>(0xfffu) + ((bits >> vec4<u32>(13u)) & vec4<u32>(1u))) & vec4<u32>(0xffffe000u);
    return small_to_half(v, bitcast<vec4<f32>>(rounded));
}

// Below 2^-14 binary16 has a fixed step of 2^-24, which is that of f32 next to 0.75.
fn small_to_half(v: vec4<f32>, otherwise: vec4<f32>) -> vec4<f32> {
    return select(otherwise, (v + 0.75) - 0.75, abs(v) < vec4<f32>(0.00006103515625));
}
