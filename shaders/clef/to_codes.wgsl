// Rows become codes, four a word.
@group(0) @binding(3) var<storage, read_write> codes: array<u32>;

fn put(at: u32, y: array<Number, 4>, scale: u32, largest: u32, empty: bool) {
    var word = code(y[0], scale, largest) & 0xffu;
    word |= (code(y[1], scale, largest) & 0xffu) << 8u;
    word |= (code(y[2], scale, largest) & 0xffu) << 16u;
    word |= code(y[3], scale, largest) << 24u;
    codes[at] = select(word, 0u, empty);
}
