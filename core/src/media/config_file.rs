//! Reads `processor_config.json`.

use serde_json::{Map, Value};

use super::{ImageSettings, Normalisation, ProcessorConfig, VideoSettings};
use crate::checkpoint::json::{self, Fields};
use crate::checkpoint::shown;
use crate::{Error, Result};

const FILE: &str = "processor_config.json";

// Bounds that no published model comes near, and within which no product of sizes can overflow.
const MAX_PATCH: u64 = 64;
const MAX_TEMPORAL: u64 = 8;
const MAX_MERGE: u64 = 8;
const MAX_PIXELS: u64 = 1 << 32;
const MAX_FRAMES: u64 = 1 << 16;
const MAX_FRAME_TOKENS: u64 = 1 << 20;
const FPS: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// Keys of the file itself.
const TOP: [&str; 4] = ["processor_class", "image_processor", "video_processor", "chat_template"];
/// Keys read below, in either section.
const READ: [&str; 8] = [
    "patch_size",
    "temporal_patch_size",
    "merge_size",
    "size",
    "min_pixels",
    "max_pixels",
    "rescale_factor",
    "processor_class",
];
const READ_IMAGE: [&str; 3] = ["image_processor_type", "image_mean", "image_std"];
const READ_VIDEO: [&str; 9] = [
    "video_processor_type",
    "image_mean",
    "image_std",
    "do_sample_frames",
    "fps",
    "min_frames",
    "max_frames",
    "cap_pixels_per_frame",
    "max_video_tokens",
];
/// Keys that have no part in what the model sees.
const IGNORED: [&str; 11] = [
    "crop_size",
    "data_format",
    "default_to_square",
    "device",
    "disable_grouping",
    "input_data_format",
    "max_image_size",
    "pad_size",
    "return_metadata",
    "return_tensors",
    "video_metadata",
];
/// Keys with one supported value, which is also what their absence means.
const ONLY: [(&str, Only); 7] = [
    ("do_resize", Only::Flag(true)),
    ("do_rescale", Only::Flag(true)),
    ("do_normalize", Only::Flag(true)),
    ("do_convert_rgb", Only::Flag(true)),
    ("do_center_crop", Only::Flag(false)),
    ("do_pad", Only::Flag(false)),
    // Bicubic.
    ("resample", Only::Number(3)),
];

#[derive(Debug, Clone, Copy)]
enum Only {
    Flag(bool),
    Number(u64),
}

impl Only {
    fn value(self) -> Value {
        match self {
            Self::Flag(flag) => flag.into(),
            Self::Number(number) => number.into(),
        }
    }
}

impl ProcessorConfig {
    /// Reads and checks a `processor_config.json`. `null` counts as absent; keys that change what the model sees must
    /// be known.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the key, the value found and what is allowed; [`Error::Unsupported`] for a key or
    /// value that another processor understands and this one does not.
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let root = json::object(FILE, bytes)?;
        let top = Fields::new(FILE, "", &root);
        only_known(&root, "", |key| TOP.contains(&key))?;
        kind(top, "processor_class", &["Qwen3VLProcessor"])?;
        let section = |key| top.object(key)?.ok_or_else(|| top.bad(key, "an object"));
        let (image_map, video_map) = (section("image_processor")?, section("video_processor")?);
        let (image_prefix, video_prefix) = ("image_processor.", "video_processor.");
        only_known(image_map, image_prefix, |key| known_in_section(key, &READ_IMAGE))?;
        only_known(video_map, video_prefix, |key| known_in_section(key, &READ_VIDEO))?;
        let image = Fields::new(FILE, image_prefix, image_map);
        let video = Fields::new(FILE, video_prefix, video_map);
        kind(image, "image_processor_type", &["Qwen2VLImageProcessor", "Qwen2VLImageProcessorFast"])?;
        kind(video, "video_processor_type", &["Qwen3VLVideoProcessor"])?;
        for (fields, map, prefix) in [(image, image_map, image_prefix), (video, video_map, video_prefix)] {
            fixed_values(fields, map, prefix)?;
        }

        let shared = |key, max| {
            let value = image.required_size(key, 1..=max)?;
            if video.required_size(key, 1..=max)? == value {
                Ok(value)
            } else {
                Err(video.bad(key, &format!("{value}, as in image_processor: there is one vision tower")))
            }
        };
        let patch = shared("patch_size", MAX_PATCH)?;
        let temporal = shared("temporal_patch_size", MAX_TEMPORAL)?;
        let merge = shared("merge_size", MAX_MERGE)?;
        let (min_pixels, max_pixels) = pixels(image, image_prefix)?;
        let image = ImageSettings { min_pixels, max_pixels, normalisation: normalisation(image)? };
        Ok(Self { patch, temporal, merge, image, video: video_settings(video, video_prefix)? })
    }
}

fn video_settings(video: Fields<'_>, prefix: &str) -> Result<VideoSettings> {
    let (min_pixels, max_pixels) = pixels(video, prefix)?;
    let min_frames = video.size("min_frames", 1..=MAX_FRAMES)?.unwrap_or(4);
    let max_frames = video.size("max_frames", 1..=MAX_FRAMES)?.unwrap_or(768);
    if max_frames < min_frames {
        return Err(video.bad("max_frames", &format!("at least min_frames {min_frames}")));
    }
    Ok(VideoSettings {
        min_pixels,
        max_pixels,
        normalisation: normalisation(video)?,
        sample: video.boolean("do_sample_frames", true)?,
        fps: rate(video)?,
        min_frames,
        max_frames,
        cap_pixels_per_frame: video.boolean("cap_pixels_per_frame", false)?,
        max_frame_tokens: video.integer("max_video_tokens", 1..=MAX_FRAME_TOKENS)?.unwrap_or(768),
    })
}

/// Frames a second to choose.
fn rate(video: Fields<'_>) -> Result<f64> {
    let Some(value) = video.get("fps") else { return Ok(2.0) };
    let allowed = || format!("a number from {} to {}", FPS.start(), FPS.end());
    value.as_f64().filter(|v| FPS.contains(v)).ok_or_else(|| video.bad("fps", &allowed()))
}

/// A key that nobody reads changes the picture in a way that is not known here.
fn only_known(map: &Map<String, Value>, prefix: &str, known: impl Fn(&str) -> bool) -> Result<()> {
    match map.iter().find(|(key, value)| !value.is_null() && !known(key)) {
        None => Ok(()),
        Some((key, value)) => {
            Err(unsupported(&format!("{prefix}{} {} (unknown)", shown(key), json::short(value))))
        }
    }
}

/// A key of a section of which `read` are read besides the common ones.
fn known_in_section(key: &str, read: &[&str]) -> bool {
    READ.contains(&key)
        || read.contains(&key)
        || IGNORED.contains(&key)
        || ONLY.iter().any(|(name, _)| *name == key)
}

fn fixed_values(fields: Fields<'_>, map: &Map<String, Value>, prefix: &str) -> Result<()> {
    for (key, only) in ONLY {
        if fields.get(key).is_some_and(|found| *found != only.value()) {
            let found = json::short(&map[key]);
            return Err(unsupported(&format!("{prefix}{key} {found} (supported: {})", only.value())));
        }
    }
    Ok(())
}

fn kind(fields: Fields<'_>, key: &str, supported: &[&str]) -> Result<()> {
    match fields.string(key)? {
        Some(found) if !supported.contains(&found) => {
            Err(unsupported(&format!("{key} {:?} (supported: {})", shown(found), supported.join(", "))))
        }
        _ => Ok(()),
    }
}

fn unsupported(need: &str) -> Error {
    Error::Unsupported { device: "the media processor".to_owned(), need: format!("{FILE}: {need}") }
}

/// Fewest and most pixels: `size`, over which the older `min_pixels` and `max_pixels` win.
fn pixels(section: Fields<'_>, prefix: &str) -> Result<(u64, u64)> {
    const EDGES: [(&str, &str); 2] = [("shortest_edge", "min_pixels"), ("longest_edge", "max_pixels")];
    let range = || 1..=MAX_PIXELS;
    let empty = Map::new();
    let map = section.object("size")?.unwrap_or(&empty);
    let prefix = format!("{prefix}size.");
    only_known(map, &prefix, |key| EDGES.iter().any(|(edge, _)| *edge == key))?;
    let size = Fields::new(FILE, &prefix, map);
    let [min, max] = EDGES.map(|(edge, older)| match section.integer(older, range())? {
        Some(pixels) => Ok(pixels),
        None => size.integer(edge, range())?.ok_or_else(|| size.bad(edge, "a number of pixels")),
    });
    let (min, max) = (min?, max?);
    if max < min {
        return Err(size.bad("longest_edge", &format!("at least the fewest pixels, {min}")));
    }
    Ok((min, max))
}

fn normalisation(section: Fields<'_>) -> Result<Normalisation> {
    let rescale = match section.get("rescale_factor") {
        None => 1.0 / 255.0,
        Some(value) => value
            .as_f64()
            .filter(|v| (1e-6..=1.0).contains(v))
            .ok_or_else(|| section.bad("rescale_factor", "a number from 0.000001 to 1"))?,
    };
    let mean = channels(section, "image_mean", -100.0..=100.0)?;
    let std = channels(section, "image_std", 1e-6..=100.0)?;
    Ok(Normalisation { mean, std, rescale })
}

fn channels(section: Fields<'_>, key: &str, range: std::ops::RangeInclusive<f32>) -> Result<[f32; 3]> {
    let bad = || section.bad(key, &format!("three numbers from {} to {}", range.start(), range.end()));
    let Some(Value::Array(found)) = section.get(key) else { return Err(bad()) };
    let numbers: Option<Vec<f32>> =
        found.iter().map(|v| v.as_f64().map(|v| v as f32).filter(|v| range.contains(v))).collect();
    numbers.and_then(|n| n.try_into().ok()).ok_or_else(bad)
}
