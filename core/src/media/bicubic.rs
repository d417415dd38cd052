//! Bicubic resizing with antialiasing, 8 bits in and out, as PyTorch does it on the CPU.
//!
//! Keys' cubic kernel with a = -0.5, widened by the scale when shrinking, sampled at pixel centres. Weights of an axis
//! are computed in 64-bit floats, normalised, and rounded to 16-bit integers with the largest common power of two that
//! keeps them below 2^15; rows are resized first, then columns, each pass summing in 32-bit integers from one half and
//! clamping to a byte. (`upsample_bicubic2d_aa` of ATen, its integer path; Pillow does the same with 22-bit weights.)
//! An axis whose size stays is left alone.

/// Half the kernel's width at scale 1.
const SUPPORT: f64 = 2.0;
const CHANNELS: usize = 3;

/// Resizes `[height, width, 3]` to `[new_height, new_width, 3]`. No size may be 0.
pub(super) fn resize(
    rgb: &[u8],
    (height, width): (usize, usize),
    (new_height, new_width): (usize, usize),
) -> Vec<u8> {
    let rows = if new_width == width { None } else { Some(resize_rows(rgb, width, new_width)) };
    let rows = rows.as_deref().unwrap_or(rgb);
    if new_height == height { rows.to_vec() } else { resize_columns(rows, new_width, height, new_height) }
}

/// The taps of one axis: for each output the first input, and its weights in units of `2^-precision`.
#[derive(Debug)]
struct Axis {
    first: Vec<usize>,
    weights: Vec<Vec<i32>>,
    precision: u32,
}

impl Axis {
    fn new(size: usize, new_size: usize) -> Self {
        let scale = size as f64 / new_size as f64;
        let support = SUPPORT * scale.max(1.0);
        let most = support.ceil() as usize * 2 + 1;
        let squeeze = if scale >= 1.0 { 1.0 / scale } else { 1.0 };
        let (mut first, mut exact) = (Vec::with_capacity(new_size), Vec::with_capacity(new_size));
        let mut largest = 0.0f64;
        for i in 0..new_size {
            let center = scale * (i as f64 + 0.5);
            // Casts to integers round towards zero, and negative numbers to 0.
            let start = (center - support + 0.5) as usize;
            let end = ((center + support + 0.5) as usize).min(size);
            let taps = end.saturating_sub(start).min(most);
            let mut weights: Vec<f64> =
                (0..taps).map(|j| kernel(((j + start) as f64 - center + 0.5) * squeeze)).collect();
            let total: f64 = weights.iter().sum();
            if total != 0.0 {
                weights.iter_mut().for_each(|w| *w /= total);
            }
            largest = weights.iter().copied().fold(largest, f64::max);
            first.push(start);
            exact.push(weights);
        }
        let precision = precision(largest);
        let unit = f64::from(1i32 << precision);
        let round = |w: f64| (w * unit + if w < 0.0 { -0.5 } else { 0.5 }) as i32;
        let weights = exact.into_iter().map(|ws| ws.into_iter().map(round).collect()).collect();
        Self { first, weights, precision }
    }

    /// The sum from one half, as a byte.
    fn byte(&self, sum: i32) -> u8 {
        (sum >> self.precision).clamp(0, 255) as u8
    }

    fn half(&self) -> i32 {
        1 << (self.precision - 1)
    }
}

/// The most fractional bits, 22 at most, with which the largest weight stays below 2^15.
fn precision(largest: f64) -> u32 {
    let fits = |bits: u32| ((0.5 + largest * f64::from(1i32 << (bits + 1))) as i32) < 1 << 15;
    (0..22).find(|&bits| !fits(bits)).unwrap_or(22).max(1)
}

/// Keys' cubic with a = -0.5.
fn kernel(x: f64) -> f64 {
    const A: f64 = -0.5;
    let x = x.abs();
    if x < 1.0 {
        ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((A * x - 5.0 * A) * x + 8.0 * A) * x - 4.0 * A
    } else {
        0.0
    }
}

fn resize_rows(rgb: &[u8], width: usize, new_width: usize) -> Vec<u8> {
    let axis = Axis::new(width, new_width);
    let mut out = Vec::with_capacity(rgb.len() / width * new_width);
    for row in rgb.chunks_exact(width * CHANNELS) {
        for (&first, weights) in axis.first.iter().zip(&axis.weights) {
            let taps = row[first * CHANNELS..].chunks_exact(CHANNELS);
            let mut sums = [axis.half(); CHANNELS];
            for (&w, pixel) in weights.iter().zip(taps) {
                for (sum, &byte) in sums.iter_mut().zip(pixel) {
                    *sum += w * i32::from(byte);
                }
            }
            out.extend(sums.map(|sum| axis.byte(sum)));
        }
    }
    out
}

fn resize_columns(rgb: &[u8], width: usize, height: usize, new_height: usize) -> Vec<u8> {
    let axis = Axis::new(height, new_height);
    let stride = width * CHANNELS;
    let mut out = Vec::with_capacity(stride * new_height);
    let mut sums = vec![0i32; stride];
    for (&first, weights) in axis.first.iter().zip(&axis.weights) {
        sums.fill(axis.half());
        for (&w, row) in weights.iter().zip(rgb[first * stride..].chunks_exact(stride)) {
            for (sum, &byte) in sums.iter_mut().zip(row) {
                *sum += w * i32::from(byte);
            }
        }
        out.extend(sums.iter().map(|&sum| axis.byte(sum)));
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_kernel_is_one_at_its_centre_and_none_at_other_pixels() {
        assert_eq!([0.0, 1.0, -1.0, 2.0, 3.0].map(kernel), [1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(kernel(0.5), 0.5625);
        assert_eq!(kernel(-1.5), -0.0625);
    }

    /// A large shrink, whose many taps the goldens do not have; Pillow's weights are finer, so that a level may differ.
    #[test]
    fn large_shrinks_come_within_a_level_of_pillow() {
        const PILLOW: [u8; 189] = [
            38, 0, 0, 91, 0, 4, 147, 234, 12, 213, 255, 23, 116, 35, 38, 48, 0, 57, 114, 203, 80, 171, 255,
            108, 220, 76, 137, 60, 133, 4, 113, 132, 8, 172, 124, 15, 210, 122, 27, 55, 131, 42, 75, 133, 61,
            136, 125, 84, 199, 122, 112, 172, 129, 141, 83, 241, 12, 136, 232, 16, 203, 40, 23, 153, 14, 35,
            39, 203, 50, 103, 241, 69, 160, 65, 92, 215, 14, 120, 84, 170, 149, 106, 6, 24, 160, 17, 28, 217,
            220, 35, 77, 249, 47, 63, 47, 62, 126, 6, 81, 188, 193, 104, 185, 249, 132, 38, 82, 161, 129,
            138, 40, 188, 137, 44, 183, 119, 52, 38, 117, 63, 92, 135, 78, 149, 138, 97, 214, 122, 120, 111,
            117, 148, 47, 132, 177, 152, 234, 61, 213, 225, 65, 107, 46, 72, 51, 21, 84, 116, 198, 99, 176,
            234, 118, 206, 69, 141, 50, 21, 169, 78, 167, 198, 177, 15, 84, 204, 25, 88, 49, 214, 96, 79,
            240, 107, 138, 53, 122, 203, 15, 141, 149, 189, 164, 41, 240, 192, 103, 86, 221,
        ];
        let (height, width) = (80, 100);
        let pixel = |y: usize, x: usize| {
            let checks = if (x / 23 + y / 17) % 2 == 1 { 255 } else { 0 };
            [((x * 5 + y * 2) % 256) as u8, checks, ((x * x + y * y) / 64 % 256) as u8]
        };
        let picture: Vec<u8> = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(y, x))).collect();
        let resized = resize(&picture, (height, width), (7, 9));
        let worst = resized.iter().zip(PILLOW).map(|(a, b)| a.abs_diff(b)).max();
        assert!(worst <= Some(1), "{worst:?}");
    }

    proptest! {
        #[test]
        fn one_colour_stays(
            height in 1usize..60, width in 1usize..60, new_height in 1usize..60, new_width in 1usize..60,
            colour: [u8; 3],
        ) {
            let picture = colour.repeat(height * width);
            let resized = resize(&picture, (height, width), (new_height, new_width));
            prop_assert_eq!(resized.len(), new_height * new_width * 3);
            // Rounded weights need not add up to one exactly.
            for pixel in resized.chunks_exact(3) {
                for (a, b) in pixel.iter().zip(colour) {
                    prop_assert!(a.abs_diff(b) <= 1, "{:?} from {:?}", pixel, colour);
                }
            }
        }

        #[test]
        fn mirrored_pictures_give_mirrored_results(
            width in 1usize..50, new_width in 1usize..50, seed in proptest::collection::vec(any::<u8>(), 150),
        ) {
            let row = &seed[..width * 3];
            let mirror = |row: &[u8]| row.chunks_exact(3).rev().flatten().copied().collect::<Vec<u8>>();
            let there = mirror(&resize(row, (1, width), (1, new_width)));
            let back = resize(&mirror(row), (1, width), (1, new_width));
            // Centres that fall on a border may take one tap more on one side.
            let worst = there.iter().zip(&back).map(|(a, b)| a.abs_diff(*b)).max().unwrap_or(0);
            prop_assert!(worst <= 1, "{}", worst);
        }
    }
}
