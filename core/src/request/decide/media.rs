//! Encoded pictures and videos in a request.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::Json;
use crate::request::limits::{MAX_VIDEO_FRAMES, MAX_VIDEOS};
use crate::request::quote::quote;
use crate::request::validate::at_most;
use crate::{Error, Result};

/// A video.
#[derive(Debug, Clone, PartialEq)]
pub enum Video {
    /// Encoded pictures.
    Frames {
        /// One encoded picture a frame, in order.
        frames: Vec<Vec<u8>>,
        /// Frames a second.
        fps: f64,
    },
    /// An animated picture or a video file, still encoded. [`super::DecideRequest::from_json`] makes none of these.
    File(Vec<u8>),
}

/// Largest media of a request in JSON, in encoded form; the decoder has its own limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MediaLimits {
    /// Pictures.
    pub images: usize,
    /// Bytes of one picture or frame.
    pub image_bytes: usize,
    /// Bytes of all pictures and frames.
    pub bytes: usize,
    /// Videos.
    pub videos: usize,
    /// Frames of one video.
    pub frames: usize,
}

/// 4 pictures of 4 MiB each, 8 MiB together, as Workers AI documents for Clef.
impl Default for MediaLimits {
    fn default() -> Self {
        Self { images: 4, image_bytes: 4 << 20, bytes: 8 << 20, videos: MAX_VIDEOS, frames: MAX_VIDEO_FRAMES }
    }
}

/// Types that a picture may be declared as. What it is, its bytes say.
const IMAGE_TYPES: &[&str] = &["image/png", "image/jpeg", "image/jpg", "image/webp", "image/gif"];

/// The standard alphabet, with or without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Reads encoded media under limits, counting bytes over the whole request.
pub(super) struct Reader {
    limits: MediaLimits,
    bytes: usize,
}

impl Reader {
    pub(super) fn new(limits: MediaLimits) -> Self {
        Self { limits, bytes: 0 }
    }

    pub(super) fn images(&mut self, value: &Json) -> Result<Vec<Vec<u8>>> {
        let items = list("images", value)?;
        at_most("images", items.len(), self.limits.images)?;
        self.pictures("images", items)
    }

    pub(super) fn videos(&mut self, value: &Json) -> Result<Vec<Video>> {
        let items = list("videos", value)?;
        at_most("videos", items.len(), self.limits.videos)?;
        items.iter().enumerate().map(|(i, item)| self.video(&format!("videos[{i}]"), item)).collect()
    }

    fn video(&mut self, field: &str, value: &Json) -> Result<Video> {
        if !matches!(value, Json::Object(_)) {
            let message = format!(
                "{} found, a map {{\"frames\": [picture, …], \"fps\": number}} is allowed",
                value.kind()
            );
            return Err(Error::invalid(field, message));
        }
        let frames_field = format!("{field}.frames");
        let frames = value.get("frames").ok_or_else(|| Error::invalid(&frames_field, "missing"))?;
        let frames = list(&frames_field, frames)?;
        at_most(&frames_field, frames.len(), self.limits.frames)?;
        let fps_field = format!("{field}.fps");
        let fps = value.get("fps").ok_or_else(|| Error::invalid(&fps_field, "missing"))?;
        let fps = fps.as_f64().ok_or_else(|| {
            Error::invalid(&fps_field, format!("{} found, a number is allowed", fps.kind()))
        })?;
        Ok(Video::Frames { frames: self.pictures(&frames_field, frames)?, fps })
    }

    fn pictures(&mut self, field: &str, items: &[Json]) -> Result<Vec<Vec<u8>>> {
        items.iter().enumerate().map(|(i, item)| self.picture(&format!("{field}[{i}]"), item)).collect()
    }

    fn picture(&mut self, field: &str, value: &Json) -> Result<Vec<u8>> {
        let base64 = match value {
            Json::String(text) => inline(field, text)?,
            Json::Object(_) => {
                let text = |key: &str| {
                    let under = format!("{field}.{key}");
                    let found = value.get(key).ok_or_else(|| Error::invalid(&under, "missing"))?;
                    let message = format!("{} found, a string is allowed", found.kind());
                    found.as_str().ok_or_else(|| Error::invalid(&under, message))
                };
                image_type(&format!("{field}.content_type"), text("content_type")?)?;
                text("base64")?
            }
            other => {
                let message = format!(
                    "{} found, a data: URL, base64 or a map {{\"content_type\", \"base64\"}} is allowed",
                    other.kind()
                );
                return Err(Error::invalid(field, message));
            }
        };
        self.decode(field, base64)
    }

    fn decode(&mut self, field: &str, base64: &str) -> Result<Vec<u8>> {
        // Four characters are three bytes; checked before anything is decoded.
        let about = base64.trim_end_matches('=').len() / 4 * 3;
        at_most(&format!("bytes of {field}"), about, self.limits.image_bytes)?;
        let bytes = BASE64
            .decode(base64)
            .map_err(|error| Error::invalid(field, format!("broken base64: {error}")))?;
        if bytes.is_empty() {
            return Err(Error::invalid(field, "no bytes found, an encoded picture is needed"));
        }
        at_most(&format!("bytes of {field}"), bytes.len(), self.limits.image_bytes)?;
        self.bytes += bytes.len();
        at_most("bytes of all pictures", self.bytes, self.limits.bytes)?;
        Ok(bytes)
    }
}

/// The base64 part of a picture's string.
fn inline<'t>(field: &str, text: &'t str) -> Result<&'t str> {
    // No colon is in base64's alphabet, so a colon means a URL.
    let Some((scheme, rest)) = text.split_once(':') else { return Ok(text) };
    if !scheme.eq_ignore_ascii_case("data") {
        let message = format!(
            "a URL of scheme {} found; URLs are never fetched, send the picture itself as a data: URL",
            quote(scheme)
        );
        return Err(Error::invalid(field, message));
    }
    let (head, data) = rest.split_once(',').ok_or_else(|| {
        Error::invalid(field, "a data: URL without a comma; data:image/png;base64,… is allowed")
    })?;
    let mut parts = head.split(';');
    image_type(field, parts.next().unwrap_or_default())?;
    if !parts.next_back().is_some_and(|last| last.trim().eq_ignore_ascii_case("base64")) {
        return Err(Error::invalid(
            field,
            "a data: URL that is not base64; data:image/png;base64,… is allowed",
        ));
    }
    Ok(data)
}

fn image_type(field: &str, declared: &str) -> Result<()> {
    if IMAGE_TYPES.iter().any(|known| declared.trim().eq_ignore_ascii_case(known)) {
        return Ok(());
    }
    let message = format!("type {} found, {} are allowed", quote(declared), IMAGE_TYPES.join(", "));
    Err(Error::invalid(field, message))
}

fn list<'v>(field: &str, value: &'v Json) -> Result<&'v [Json]> {
    match value {
        Json::Array(items) => Ok(items),
        other => Err(Error::invalid(field, format!("{} found, a list is allowed", other.kind()))),
    }
}
