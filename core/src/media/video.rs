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
        Format::Mp4 => mp4_size(name, bytes, settings, limits),
        Format::Matroska => Err(unsupported(Format::Matroska.name())),
    }
}

/// Decodes a video and keeps the frames that the settings choose.
///
/// Supported are H.264 in MP4 (feature `video`: unfragmented files, 8 and 10 bits, 4:2:0, 4:2:2 and gray, progressive
/// or interlaced, up to the frame size of level 5.2; the first video track, turned as its header says, edit lists not
/// applied) and animated GIF, PNG and WebP. In an animation a frame is shown at the sum of the delays before it, where a delay of 10 ms
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
        Format::Mp4 => decode_mp4(name, bytes, settings, limits),
        Format::Matroska => Err(unsupported(Format::Matroska.name())),
    }
}

/// A kind of video that is not decoded here, and what is.
pub(super) fn unsupported(what: &str) -> Error {
    const SUPPORTED: &str = if cfg!(feature = "video") {
        "H.264 in an unfragmented MP4, 8 or 10 bits, 4:2:0 or 4:2:2"
    } else {
        "no MP4 in this build"
    };
    Error::Unsupported {
        device: "the video decoder".to_owned(),
        need: format!(
            "{what} (supported: {SUPPORTED}; animated GIF, PNG and WebP; the frames as pictures with their rate)"
        ),
    }
}

#[cfg(feature = "video")]
fn mp4_size(name: &str, bytes: &[u8], settings: &VideoSettings, limits: &MediaLimits) -> Result<MediaSize> {
    super::guard::guarded(name, || {
        let movie = super::mp4::read(name, bytes, limits)?;
        let (width, height) = super::h264::size(name, &movie, limits)?;
        let frames = settings.choose(movie.samples.len(), movie.fps).len();
        Ok(MediaSize::Video { frames, width, height })
    })
}

#[cfg(not(feature = "video"))]
fn mp4_size(_: &str, _: &[u8], _: &VideoSettings, _: &MediaLimits) -> Result<MediaSize> {
    Err(unsupported(Format::Mp4.name()))
}

/// Frame `i` is shown at `i / fps`, `fps` being the file's mean rate: the reference's rule, which also goes for files
/// whose frames are timed unevenly.
#[cfg(feature = "video")]
fn decode_mp4(name: &str, bytes: &[u8], settings: &VideoSettings, limits: &MediaLimits) -> Result<Clip> {
    super::guard::guarded(name, || {
        let movie = super::mp4::read(name, bytes, limits)?;
        let (width, height) = super::h264::size(name, &movie, limits)?;
        let chosen = settings.choose(movie.samples.len(), movie.fps);
        limits.check_chosen(name, chosen.len(), width, height)?;
        let times = chosen.iter().map(|&i| i as f64 / movie.fps).collect();
        let frames = super::h264::decode(name, &movie, &chosen, limits)?;
        Clip::timed(frames, times, movie.fps).map_err(|e| renamed(name, e))
    })
}

#[cfg(not(feature = "video"))]
fn decode_mp4(_: &str, _: &[u8], _: &VideoSettings, _: &MediaLimits) -> Result<Clip> {
    Err(unsupported(Format::Mp4.name()))
}

/// The error of a clip, under the caller's name for it.
pub(super) fn renamed(name: &str, error: Error) -> Error {
    match error {
        Error::InvalidRequest { message, .. } => Error::invalid(name, message),
        other => other,
    }
}
