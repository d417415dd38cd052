//! FP8 W8A8: per-token dynamic activation quantization.

/// Quantizes one row: returns the scale `s = max|x| / 448` (1 for a row of zeros) and writes
/// `codes[k] = e4m3(clamp(x[k] / s, ±448))`, IEEE division, round to nearest even.
pub fn quantize_row(x: &[f32], codes: &mut [u8]) -> f32 {
    let _ = (x, codes);
    1.0
}
