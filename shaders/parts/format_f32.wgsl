// A weight stored as binary32.
alias Word = vec4<u32>;

fn decode(word: Word) -> vec4<f32> {
    return bitcast<vec4<f32>>(word);
}
