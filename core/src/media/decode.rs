//! Picture files → pixels.

use std::io::Cursor;

use image::metadata::Orientation;
use image::{DynamicImage, ImageDecoder, ImageFormat, ImageReader, Limits, RgbImage};

use super::guard::{damaged, guarded};
use super::limits::within;
use super::{Format, MediaLimits, Picture, rgb};
use crate::{Error, Result};

/// Width and height of an encoded picture as it is shown, from its header: no pixel is decoded.
///
/// # Errors
/// As [`decode_picture`].
pub fn picture_size(name: &str, bytes: &[u8], limits: &MediaLimits) -> Result<(u32, u32)> {
    limits.check_picture_bytes(name, bytes.len())?;
    guarded(name, || {
        let (_, mut decoder) = open(name, bytes, limits)?;
        let (width, height) = decoder.dimensions();
        Ok(if swaps(orientation(&mut decoder)) { (height, width) } else { (width, height) })
    })
}

/// Decodes a PNG, JPEG, WebP or GIF, told by its first bytes; of an animated one the first picture.
///
/// `name` is what errors call the picture, for example `images[0]`. An EXIF orientation is applied, as the reference
/// does with encoded pictures (its `load_image`; pictures that were already opened with Pillow it takes as stored).
/// Colours become RGB as Pillow's `convert("RGB")` makes them: palettes are looked up, gray is repeated, alpha is
/// dropped and not blended, of 16-bit samples the high byte is kept; colour profiles are not applied.
///
/// # Errors
/// [`Error::TooLarge`] over a limit, found from the header; [`Error::InvalidRequest`] for an unknown format or damaged
/// bytes; [`Error::Unsupported`] for a video file.
pub fn decode_picture(name: &str, bytes: &[u8], limits: &MediaLimits) -> Result<Picture> {
    limits.check_picture_bytes(name, bytes.len())?;
    guarded(name, || {
        let (format, mut decoder) = open(name, bytes, limits)?;
        let orientation = orientation(&mut decoder);
        let (width, height) = decoder.dimensions();
        let color = decoder.color_type();
        let mut samples = vec![0; decoder.total_bytes() as usize];
        decoder.read_image(&mut samples).map_err(|e| damaged(name, format, e))?;
        let rgb = rgb::to_rgb(color, &samples)
            .ok_or_else(|| damaged(name, format, format!("colours of kind {color:?}")))?;
        upright(name, width, height, rgb, orientation)
    })
}

/// Width and height of the canvas of an animation, as stored.
pub(super) fn canvas_size(name: &str, bytes: &[u8], limits: &MediaLimits) -> Result<(u32, u32)> {
    guarded(name, || Ok(open(name, bytes, limits)?.1.dimensions()))
}

/// A decoder over bytes whose size is within the limits.
fn open<'a>(
    name: &str,
    bytes: &'a [u8],
    limits: &MediaLimits,
) -> Result<(Format, impl ImageDecoder + use<'a>)> {
    let format = Format::of(name, bytes)?;
    let known = match format {
        Format::Png => ImageFormat::Png,
        Format::Jpeg => ImageFormat::Jpeg,
        Format::WebP => ImageFormat::WebP,
        Format::Gif => ImageFormat::Gif,
        Format::Mp4 | Format::Matroska => {
            return Err(Error::invalid(
                name,
                format!("{format} found, a video; allowed as picture: PNG, JPEG, WebP, GIF"),
            ));
        }
    };
    let mut reader = ImageReader::with_format(Cursor::new(bytes), known);
    reader.limits(decoder_limits(limits));
    let decoder = reader.into_decoder().map_err(|e| refused(name, format, bytes, limits, e))?;
    let (width, height) = decoder.dimensions();
    limits.check_size(name, width, height)?;
    within(|| format!("bytes of decoded {name}"), decoder.total_bytes(), limits.memory())?;
    Ok((format, decoder))
}

/// The limits in the decoders' own terms, for memory that they take before they say how large the picture is.
pub(super) fn decoder_limits(limits: &MediaLimits) -> Limits {
    let mut own = Limits::default();
    own.max_image_width = Some(limits.side);
    own.max_image_height = Some(limits.side);
    own.max_alloc = Some(limits.memory());
    own
}

/// An error of a decoder that was opened under limits: says the size when that was the reason.
fn refused(
    name: &str,
    format: Format,
    bytes: &[u8],
    limits: &MediaLimits,
    error: image::ImageError,
) -> Error {
    if matches!(error, image::ImageError::Limits(_))
        && let Some((width, height)) = header_size(format, bytes)
        && let Err(too_large) = limits.check_size(name, width, height)
    {
        return too_large;
    }
    damaged(name, format, error)
}

/// Sizes from the fixed place where PNG and GIF have them; the other formats have no sizes over the limit of `side`.
fn header_size(format: Format, bytes: &[u8]) -> Option<(u32, u32)> {
    match format {
        Format::Png => {
            let at = |i: usize| Some(u32::from_be_bytes(bytes.get(i..i + 4)?.try_into().ok()?));
            Some((at(16)?, at(20)?))
        }
        Format::Gif => {
            let at = |i: usize| Some(u16::from_le_bytes(bytes.get(i..i + 2)?.try_into().ok()?));
            Some((at(6)?.into(), at(8)?.into()))
        }
        _ => None,
    }
}

/// Damaged EXIF data is none.
fn orientation(decoder: &mut impl ImageDecoder) -> Orientation {
    decoder.orientation().unwrap_or(Orientation::NoTransforms)
}

pub(super) fn swaps(orientation: Orientation) -> bool {
    matches!(
        orientation,
        Orientation::Rotate90
            | Orientation::Rotate270
            | Orientation::Rotate90FlipH
            | Orientation::Rotate270FlipH
    )
}

/// The picture as it is shown.
pub(super) fn upright(
    name: &str,
    width: u32,
    height: u32,
    rgb: Vec<u8>,
    orientation: Orientation,
) -> Result<Picture> {
    if orientation == Orientation::NoTransforms {
        return Picture::new(width, height, rgb);
    }
    let Some(buffer) = RgbImage::from_raw(width, height, rgb) else {
        return Err(Error::Internal(format!("{name}: pixels do not fill {width} x {height}")));
    };
    let mut turned = DynamicImage::ImageRgb8(buffer);
    turned.apply_orientation(orientation);
    let (width, height) = (turned.width(), turned.height());
    Picture::new(width, height, turned.into_rgb8().into_raw())
}
