// A weight stored as binary16: two elements a word, exact in f32. Needs no device feature.
alias Word = vec2<u32>;

fn decode(word: Word) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(word.x), unpack2x16float(word.y));
}
