//! Video files → frames.

use super::animation::{self, Timeline};
use super::{Clip, Format, MediaLimits, MediaSize, VideoSettings};
use crate::{Error, Result};

/// Size of the frames that [`decode_video`] would choose, and their number, from headers: no pixel is decoded.
///
/// # Errors
/// As [`decode_video`].
pub fn video_size(
    name: &str,
    bytes: &[u8],
    settings: &VideoSettings,
    limits: &MediaLimits,
) -> Result<MediaSize> {
    limits.check_video_bytes(name, bytes.len())?;
    match Format::of(name, bytes)? {
        format @ (Format::Gif | Format::Png | Format::WebP | Format::Jpeg) => {
            let timeline = Timeline::read(name, format, bytes, limits)?;
            let frames = timeline.chosen(settings).len();
            Ok(MediaSize::Video { frames, width: timeline.width, height: timeline.height })
        }
        format @ (Format::Mp4 | Format::Matroska) => Err(unsupported(format)),
    }
}

/// Decodes a video and keeps the frames that the settings choose.
///
/// Animated GIF, PNG and WebP are supported; a frame is shown at the sum of the delays before it, where a delay of 10 ms
/// or less counts as 100 ms. (Blended frames of a WebP may be off by one level.) Frames that are at hand already make a [`Clip`] directly.
///
/// # Errors
/// [`Error::TooLarge`] over a limit, found from the headers; [`Error::InvalidRequest`] for an unknown format, damaged
/// bytes or a still picture; [`Error::Unsupported`] for a kind of video that cannot be decoded here.
pub fn decode_video(
    name: &str,
    bytes: &[u8],
    settings: &VideoSettings,
    limits: &MediaLimits,
) -> Result<Clip> {
    limits.check_video_bytes(name, bytes.len())?;
    match Format::of(name, bytes)? {
        format @ (Format::Gif | Format::Png | Format::WebP | Format::Jpeg) => {
            animation::decode(name, format, bytes, settings, limits)
        }
        format @ (Format::Mp4 | Format::Matroska) => Err(unsupported(format)),
    }
}

fn unsupported(format: Format) -> Error {
    Error::Unsupported {
        device: "the video decoder".to_owned(),
        need: format!(
            "{format} (supported: animated GIF, PNG and WebP, or the frames as pictures with their rate)"
        ),
    }
}
