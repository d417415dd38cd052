// A weight stored as INT8: four elements a word, exact in f16 and in f32.
alias Word = u32;

fn decode(word: Word) -> vec4<f32> {
    return vec4<f32>(unpack4xI8(word));
}
