// A weight stored as bfloat16: two elements a word, exact in f32.
alias Word = vec2<u32>;

fn decode(word: Word) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(
        word.x << 16u,
        word.x & 0xffff0000u,
        word.y << 16u,
        word.y & 0xffff0000u,
    ));
}
