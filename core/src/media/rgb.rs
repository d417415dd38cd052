//! Decoded samples → 8-bit RGB.

use image::ColorType;

/// Bytes a sample and samples a pixel of the colour types that integer formats decode to.
fn layout(color: ColorType) -> Option<(usize, usize)> {
    match color {
        ColorType::L8 => Some((1, 1)),
        ColorType::La8 => Some((1, 2)),
        ColorType::Rgb8 => Some((1, 3)),
        ColorType::Rgba8 => Some((1, 4)),
        ColorType::L16 => Some((2, 1)),
        ColorType::La16 => Some((2, 2)),
        ColorType::Rgb16 => Some((2, 3)),
        ColorType::Rgba16 => Some((2, 4)),
        _ => None,
    }
}

/// 8-bit RGB as Pillow's `convert("RGB")` makes it: gray is repeated, alpha is dropped (not blended), of 16-bit samples
/// the high byte is kept. One departure: Pillow opens 16-bit gray without alpha as its own kind and saturates it at
/// 255, which leaves a white picture; here the high byte is kept as everywhere else. `None` for other colour types.
pub(super) fn to_rgb(color: ColorType, samples: &[u8]) -> Option<Vec<u8>> {
    let (bytes, channels) = layout(color)?;
    // Samples of 16 bits stand in the machine's order.
    let high = |sample: &[u8]| match *sample {
        [a, b] => (u16::from_ne_bytes([a, b]) >> 8) as u8,
        [a] => a,
        _ => 0,
    };
    if (bytes, channels) == (1, 3) {
        return Some(samples.to_vec());
    }
    let mut rgb = Vec::with_capacity(samples.len() / (bytes * channels) * 3);
    for pixel in samples.chunks_exact(bytes * channels) {
        for c in 0..3 {
            let sample = if channels < 3 { 0 } else { c * bytes };
            rgb.push(high(&pixel[sample..sample + bytes]));
        }
    }
    Some(rgb)
}
