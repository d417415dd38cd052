//! Sizes that pictures and frames are resized to.
//!
//! The functions `smart_resize` of the reference's image and video processors, step by step in 64-bit floats, with
//! Python's rounding (half to even).

use crate::{Error, Result};

/// Longest side over shortest.
const MAX_ASPECT: f64 = 200.0;

/// Bounds of a resized picture, or of all frames of a resized video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// What both sides are multiples of.
    pub(super) factor: u64,
    /// Fewest pixels.
    pub(super) min_pixels: u64,
    /// Most pixels; a very long picture may exceed it, because no side is made shorter than `factor`.
    pub(super) max_pixels: u64,
}

/// Height and width of a resized picture.
///
/// # Errors
/// [`Error::InvalidRequest`] for an empty picture or an aspect ratio above 200.
pub(super) fn image(name: &str, height: u32, width: u32, bounds: Bounds) -> Result<(u64, u64)> {
    let (height, width) = (u64::from(height), u64::from(width));
    check_aspect(name, height, width)?;
    Ok(fit(1, 1, height, width, bounds))
}

/// Height and width of the resized frames of a video.
///
/// # Errors
/// As [`image`]; and for fewer frames than a temporal patch has.
pub(super) fn video(
    name: &str,
    frames: usize,
    temporal: usize,
    height: u32,
    width: u32,
    bounds: Bounds,
) -> Result<(u64, u64)> {
    if frames < temporal {
        return Err(Error::invalid(
            name,
            format!(
                "{frames} frames found, at least {temporal} are needed (one picture is an image, not a video)"
            ),
        ));
    }
    let (mut height, mut width) = (u64::from(height), u64::from(width));
    if height == 0 || width == 0 {
        return check_aspect(name, height, width).map(|()| (0, 0));
    }
    if height < bounds.factor || width < bounds.factor {
        let factor = bounds.factor as f64;
        let scale = (factor / height as f64).max(factor / width as f64);
        height = (height as f64 * scale) as u64;
        width = (width as f64 * scale) as u64;
    }
    check_aspect(name, height, width)?;
    let rounded = (frames as f64 / temporal as f64).round_ties_even() as u64 * temporal as u64;
    Ok(fit(frames as u64, rounded, height, width, bounds))
}

fn check_aspect(name: &str, height: u64, width: u64) -> Result<()> {
    if height == 0 || width == 0 {
        return Err(Error::invalid(
            name,
            format!("{width} x {height} pixels found, at least 1 x 1 is needed"),
        ));
    }
    let aspect = height.max(width) as f64 / height.min(width) as f64;
    if aspect > MAX_ASPECT {
        return Err(Error::invalid(
            name,
            format!("aspect ratio {aspect:.1} found ({width} x {height}), at most {MAX_ASPECT} is allowed"),
        ));
    }
    Ok(())
}

/// The common part: `frames` are counted as they are when scaling, rounded when the bounds are checked.
fn fit(frames: u64, rounded: u64, height: u64, width: u64, bounds: Bounds) -> (u64, u64) {
    let Bounds { factor, min_pixels, max_pixels } = bounds;
    let (h, w, f) = (height as f64, width as f64, factor as f64);
    let nearest = |side: f64| (side / f).round_ties_even() as u64 * factor;
    let (near_h, near_w) = (nearest(h), nearest(w));
    let volume = u128::from(rounded) * u128::from(near_h) * u128::from(near_w);
    let exact = (u128::from(frames) * u128::from(height) * u128::from(width)) as f64;
    if volume > u128::from(max_pixels) {
        let beta = (exact / max_pixels as f64).sqrt();
        let down = |side: f64| factor.max((side / beta / f).floor() as u64 * factor);
        (down(h), down(w))
    } else if volume < u128::from(min_pixels) {
        let beta = (min_pixels as f64 / exact).sqrt();
        let up = |side: f64| (side * beta / f).ceil() as u64 * factor;
        (up(h), up(w))
    } else {
        (near_h, near_w)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FACTOR: u64 = 32;

    proptest! {
        #[test]
        fn pictures_keep_the_contract(height in 1u32..20_000, width in 1u32..20_000, released: bool) {
            let (min_pixels, max_pixels) = if released { (65_536, 16_777_216) } else { (4_096, 16_384) };
            let bounds = Bounds { factor: FACTOR, min_pixels, max_pixels };
            let too_long = f64::from(height.max(width)) / f64::from(height.min(width)) > MAX_ASPECT;
            let Ok((h, w)) = image("image", height, width, bounds) else {
                prop_assert!(too_long);
                return Ok(());
            };
            prop_assert!(!too_long);
            prop_assert!(h >= FACTOR && w >= FACTOR && h.is_multiple_of(FACTOR) && w.is_multiple_of(FACTOR));
            prop_assert!(h * w >= min_pixels);
            // A side at the smallest allowed may push the other over the bound.
            prop_assert!(h * w <= max_pixels || h == FACTOR || w == FACTOR);
            // Transposing the picture transposes the result.
            prop_assert_eq!(image("image", width, height, bounds).unwrap(), (w, h));
        }

        #[test]
        fn videos_keep_the_contract(frames in 1usize..800, height in 1u32..4_000, width in 1u32..4_000) {
            let bounds = Bounds { factor: FACTOR, min_pixels: 4_096, max_pixels: 25_165_824 };
            let Ok((h, w)) = video("video", frames, 2, height, width, bounds) else {
                let aspect = f64::from(height.max(width)) / f64::from(height.min(width));
                prop_assert!(frames < 2 || aspect > MAX_ASPECT * 0.96, "{}", aspect);
                return Ok(());
            };
            prop_assert!(h >= FACTOR && w >= FACTOR && h.is_multiple_of(FACTOR) && w.is_multiple_of(FACTOR));
            let rounded = (frames as f64 / 2.0).round_ties_even() as u64 * 2;
            prop_assert!(rounded * h * w <= 25_165_824 || h == FACTOR || w == FACTOR || rounded > frames as u64);
        }
    }
}
