// Tiles of E4M3 codes as binary16, two to a word: no device feature is needed to read them.
alias Xs = vec2<u32>;
alias Ws = vec2<u32>;

fn pack(low: u32, high: u32) -> vec2<u32> {
    return vec2<u32>(low, high);
}

fn wide_x(v: Xs) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
}

fn wide_w(v: Ws) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(v.x), unpack2x16float(v.y));
}
