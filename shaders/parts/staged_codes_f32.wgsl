// Tiles of E4M3 codes as f32.
alias Xs = vec4<f32>;
alias Ws = vec4<f32>;

fn pack(low: u32, high: u32) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(low), unpack2x16float(high));
}

fn wide_x(v: Xs) -> vec4<f32> {
    return v;
}

fn wide_w(v: Ws) -> vec4<f32> {
    return v;
}
