// The left operand of a cooperative product, rows of E4M3 codes, sixteen at once.
@group(0) @binding(2) var<storage, read> codes: array<vec4<u32>>;
