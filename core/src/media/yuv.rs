//! Y'CbCr frames → 8-bit RGB.

use rust_h264::decoder::Frame;

/// How a stream's samples are meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Colours {
    /// Matrix coefficients by the number that ITU-T H.273 gives them: 1 is BT.709, 9 and 10 are BT.2020; the others,
    /// above all 2 (unspecified), are taken as BT.601, as FFmpeg does.
    pub(super) matrix: u8,
    /// 0 to 255 instead of 16 to 235 (luma) and 16 to 240 (chroma).
    pub(super) full_range: bool,
}

/// Contributions of a sample's 256 values, in units of 2^-16.
struct Tables {
    luma: [i32; 256],
    red_of_cr: [i32; 256],
    green_of_cb: [i32; 256],
    green_of_cr: [i32; 256],
    blue_of_cb: [i32; 256],
}

impl Tables {
    fn new(colours: Colours) -> Self {
        let (kr, kb) = match colours.matrix {
            1 => (0.2126, 0.0722),
            9 | 10 => (0.2627, 0.0593),
            _ => (0.299, 0.114),
        };
        let kg: f64 = 1.0 - kr - kb;
        let (black, luma, chroma) =
            if colours.full_range { (0.0, 1.0, 1.0) } else { (16.0, 255.0 / 219.0, 255.0 / 224.0) };
        let table = |zero: f64, factor: f64| -> [i32; 256] {
            std::array::from_fn(|i| ((i as f64 - zero) * factor * 65_536.0).round() as i32)
        };
        Self {
            luma: table(black, luma),
            red_of_cr: table(128.0, 2.0 * (1.0 - kr) * chroma),
            green_of_cb: table(128.0, -2.0 * kb * (1.0 - kb) / kg * chroma),
            green_of_cr: table(128.0, -2.0 * kr * (1.0 - kr) / kg * chroma),
            blue_of_cb: table(128.0, 2.0 * (1.0 - kb) * chroma),
        }
    }
}

/// Rounds each channel and clamps it to a byte; a chroma sample stands for its block. (FFmpeg's fast conversion
/// rounds more coarsely: up to 3 levels from this.) Of 10-bit samples the upper 8 are used. `None` when the planes do not fill the frame.
pub(super) fn to_rgb(frame: &Frame, colours: Colours) -> Option<Vec<u8>> {
    let (width, height) = (frame.width as usize, frame.height as usize);
    let (chroma_width, chroma_height) = (frame.chroma_width() as usize, frame.chroma_height() as usize);
    let bytes = frame.bytes_per_sample();
    let filled = |plane: &[u8], w: usize, h: usize| w > 0 && h > 0 && plane.len() >= w * h * bytes;
    let whole = filled(&frame.y, width, height)
        && filled(&frame.u, chroma_width, chroma_height)
        && filled(&frame.v, chroma_width, chroma_height);
    if !whole {
        return None;
    }
    let shift = frame.bit_depth.saturating_sub(8);
    let sample = |plane: &[u8], i: usize| usize::from(frame.sample(plane, i) >> shift).min(255);
    let tables = Tables::new(colours);
    let byte = |sum: i32| ((sum + (1 << 15)) >> 16).clamp(0, 255) as u8;
    let mut rgb = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        let chroma_row = (y * chroma_height / height).min(chroma_height - 1) * chroma_width;
        for x in 0..width {
            let chroma = chroma_row + (x / 2).min(chroma_width - 1);
            let luma = tables.luma[sample(&frame.y, y * width + x)];
            let (cb, cr) = (sample(&frame.u, chroma), sample(&frame.v, chroma));
            rgb.extend([
                byte(luma + tables.red_of_cr[cr]),
                byte(luma + tables.green_of_cb[cb] + tables.green_of_cr[cr]),
                byte(luma + tables.blue_of_cb[cb]),
            ]);
        }
    }
    Some(rgb)
}
