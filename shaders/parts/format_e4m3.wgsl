// A weight stored as E4M3: four elements a word.
alias Word = u32;

fn decode(word: Word) -> vec4<f32> {
    return e4m3(word);
}
