//! Pictures and videos → normalised patches for the vision tower.
//!
//! ```text
//! bytes ─► size (limits, before any pixel) ─► decoded pixels ─► resized ─► patches, grid, time stamps
//! ```
//!
//! [`ProcessorConfig`] is what `processor_config.json` says, [`decode_picture`] and [`decode_video`] read files,
//! [`ProcessorConfig::plan`] tells grid and token count from sizes alone, [`ProcessorConfig::patches`] does the work.
//! [`position_taps`], [`patch_coordinates`] and [`frame_lengths`] are the vision tower's geometry of a [`Grid`].
//!
//! Everything is fetched by the caller: nothing here follows an address. Every byte is hostile until checked, and
//! [`MediaLimits`] hold before memory is taken for pixels.
//!
//! # Agreement with the reference
//!
//! Sizes, sampling, resizing and patches follow the image and video processors of transformers 5.24 on the CPU to the
//! bit, given the same decoded pixels. PNG, GIF and lossless WebP decode to the same pixels everywhere; JPEG and lossy
//! WebP decoders differ by a few levels among each other, ours from the reference's too.

mod animation;
mod bicubic;
mod clip;
mod config;
mod config_file;
mod decode;
mod format;
mod geometry;
mod guard;
#[cfg(feature = "video")]
mod h264;
mod limits;
#[cfg(feature = "video")]
mod mp4;
mod patches;
mod picture;
mod plan;
mod rgb;
mod sampling;
mod smart_resize;
mod video;
#[cfg(feature = "video")]
mod yuv;

pub use clip::Clip;
pub use config::{ImageSettings, Normalisation, ProcessorConfig, VideoSettings};
pub use decode::{decode_picture, picture_size};
pub use format::Format;
pub use geometry::{Grid, frame_lengths, patch_coordinates, position_taps};
pub use limits::MediaLimits;
pub use patches::Patches;
pub use picture::Picture;
pub use plan::{MediaSize, Plan};
pub use video::{decode_video, video_size};

/// What is shown to the model.
#[derive(Debug, Clone, PartialEq)]
pub enum Media {
    /// One picture.
    Image(Picture),
    /// Frames with their times.
    Video(Clip),
}

impl Media {
    /// Picture or video.
    pub fn kind(&self) -> MediaKind {
        match self {
            Self::Image(_) => MediaKind::Image,
            Self::Video(_) => MediaKind::Video,
        }
    }

    /// Sizes as decoded.
    pub fn size(&self) -> MediaSize {
        match self {
            Self::Image(picture) => MediaSize::Image { width: picture.width(), height: picture.height() },
            Self::Video(clip) => MediaSize::Video {
                frames: clip.frames().len(),
                width: clip.frames()[0].width(),
                height: clip.frames()[0].height(),
            },
        }
    }
}

/// Picture or video; the two have different placeholders and size rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MediaKind {
    /// A picture.
    Image,
    /// A video.
    Video,
}
