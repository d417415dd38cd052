//! Files of the goldens, and small pictures in every format.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::Duration;

use dikast_core::media::{Clip, MediaLimits, Picture, ProcessorConfig};
use image::codecs::gif::{GifEncoder, Repeat};
use image::{Delay, DynamicImage, Frame, ImageFormat, Rgba, RgbaImage};
use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use serde_json::Value;

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/clef-tiny").join(name)
}

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(path(name)).unwrap()
}

pub(crate) fn movie_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data/video").join(name)
}

/// Ten frames of H.264, see `tests/data/video`.
pub(crate) fn movie() -> Vec<u8> {
    std::fs::read(movie_path("clip.mp4")).unwrap()
}

pub(crate) fn json(name: &str) -> Value {
    serde_json::from_slice(&bytes(name)).unwrap()
}

/// The settings of the tiny checkpoint.
pub(crate) fn tiny() -> ProcessorConfig {
    ProcessorConfig::from_json(&bytes("model/processor_config.json")).unwrap()
}

/// The settings of the releases.
pub(crate) fn released() -> ProcessorConfig {
    let mut file = json("model/processor_config.json");
    for (section, shortest, longest) in
        [("image_processor", 65_536, 16_777_216), ("video_processor", 4_096, 25_165_824)]
    {
        file[section]["size"]["shortest_edge"] = shortest.into();
        file[section]["size"]["longest_edge"] = longest.into();
    }
    file["video_processor"]["max_frames"] = 768.into();
    ProcessorConfig::from_json(file.to_string().as_bytes()).unwrap()
}

pub(crate) fn limits() -> MediaLimits {
    MediaLimits::default()
}

/// A golden clip, all of its frames.
pub(crate) fn clip(file: &str, fps: f64) -> Clip {
    let file = bytes(&format!("media/{file}"));
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let frames = tensors.tensor("frames").unwrap();
    let &[count, height, width, 3] = frames.shape() else { panic!("{:?}", frames.shape()) };
    let picture = |rgb: &[u8]| Picture::new(width as u32, height as u32, rgb.to_vec()).unwrap();
    let frames: Vec<_> = frames.data().chunks_exact(height * width * 3).map(picture).collect();
    assert_eq!(frames.len(), count);
    Clip::new(frames, fps).unwrap()
}

pub(crate) fn floats(tensor: &TensorView<'_>) -> Vec<f32> {
    tensor.data().chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
}

pub(crate) fn integers(tensor: &TensorView<'_>) -> Vec<usize> {
    tensor.data().chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap()) as usize).collect()
}

/// A picture with every pixel different enough to tell a turned one from a straight one.
pub(crate) fn gradient(width: u32, height: u32) -> RgbaImage {
    RgbaImage::from_fn(width, height, |x, y| Rgba([(x * 7) as u8, (y * 11) as u8, (x * y) as u8, 255]))
}

pub(crate) fn encoded(picture: impl Into<DynamicImage>, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    picture.into().write_to(&mut out, format).unwrap();
    out.into_inner()
}

/// One small picture in each format.
pub(crate) fn every_format() -> Vec<(&'static str, Vec<u8>)> {
    let rgba = DynamicImage::ImageRgba8(gradient(24, 16));
    let rgb = DynamicImage::ImageRgb8(rgba.to_rgb8());
    vec![
        ("PNG", encoded(rgba.clone(), ImageFormat::Png)),
        ("JPEG", encoded(rgb.clone(), ImageFormat::Jpeg)),
        ("WebP", encoded(rgba, ImageFormat::WebP)),
        ("GIF", gif(24, 16, &[100, 100])),
    ]
}

/// An animated GIF: frame `i` is of one gray, `20 * i`, and is shown for `delays[i]` milliseconds.
pub(crate) fn gif(width: u32, height: u32, delays: &[u64]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = GifEncoder::new_with_speed(&mut out, 30);
    encoder.set_repeat(Repeat::Infinite).unwrap();
    for (i, ms) in delays.iter().enumerate() {
        let gray = (20 * i % 256) as u8;
        let buffer = RgbaImage::from_pixel(width, height, Rgba([gray, gray, gray, 255]));
        let delay = Delay::from_saturating_duration(Duration::from_millis(*ms));
        encoder.encode_frame(Frame::from_parts(buffer, 0, 0, delay)).unwrap();
    }
    drop(encoder);
    out
}

/// A chunk of a PNG with its checksum.
pub(crate) fn chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let mut out = (data.len() as u32).to_be_bytes().to_vec();
    out.extend(kind);
    out.extend(data);
    let mut crc = u32::MAX;
    for byte in &out[4..] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    out.extend((!crc).to_be_bytes());
    out
}

/// The chunks of a PNG: kind and data.
pub(crate) fn chunks(png: &[u8]) -> Vec<([u8; 4], Vec<u8>)> {
    let (mut at, mut out) = (8, Vec::new());
    while at < png.len() {
        let length = u32::from_be_bytes(png[at..at + 4].try_into().unwrap()) as usize;
        out.push((png[at + 4..at + 8].try_into().unwrap(), png[at + 8..at + 8 + length].to_vec()));
        at += length + 12;
    }
    out
}

/// A PNG from its chunks.
pub(crate) fn png(chunks: &[([u8; 4], Vec<u8>)]) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    for (kind, data) in chunks {
        out.extend(chunk(kind, data));
    }
    out
}

/// An animated PNG: frame `i` is of one gray, `20 * i`, and is shown for `delays[i]` milliseconds.
pub(crate) fn apng(width: u32, height: u32, delays: &[u16]) -> Vec<u8> {
    let control = |sequence: u32, delay: u16| {
        let words = [sequence, width, height, 0, 0].map(u32::to_be_bytes).concat();
        [words, delay.to_be_bytes().to_vec(), 1000u16.to_be_bytes().to_vec(), vec![0, 0]].concat()
    };
    let (mut out, mut sequence) = (Vec::new(), 0);
    for (i, delay) in delays.iter().enumerate() {
        let gray = (20 * i % 256) as u8;
        let still = encoded(
            DynamicImage::ImageRgb8(image::RgbImage::from_pixel(width, height, image::Rgb([gray; 3]))),
            ImageFormat::Png,
        );
        for (kind, data) in chunks(&still) {
            match &kind {
                b"IHDR" if i == 0 => {
                    out.push((kind, data));
                    let count = (delays.len() as u32).to_be_bytes();
                    out.push((*b"acTL", [count, [0; 4]].concat()));
                    out.push((*b"fcTL", control(sequence, *delay)));
                    sequence += 1;
                }
                b"IHDR" => {
                    out.push((*b"fcTL", control(sequence, *delay)));
                    sequence += 1;
                }
                b"IDAT" if i == 0 => out.push((kind, data)),
                b"IDAT" => {
                    out.push((*b"fdAT", [sequence.to_be_bytes().to_vec(), data].concat()));
                    sequence += 1;
                }
                _ => {}
            }
        }
    }
    out.push((*b"IEND", Vec::new()));
    png(&out)
}

/// An animated WebP of lossless frames: frame `i` is of one gray, `20 * i`.
pub(crate) fn animated_webp(width: u32, height: u32, delays: &[u32]) -> Vec<u8> {
    let riff = |kind: &[u8; 4], data: &[u8]| {
        let mut out = [&kind[..], &(data.len() as u32).to_le_bytes(), data].concat();
        out.resize(out.len().next_multiple_of(2), 0);
        out
    };
    let three = |n: u32| n.to_le_bytes()[..3].to_vec();
    let mut body = b"WEBP".to_vec();
    let size = [three(width - 1), three(height - 1)].concat();
    body.extend(riff(b"VP8X", &[vec![0b10, 0, 0, 0], size.clone()].concat()));
    body.extend(riff(b"ANIM", &[0; 6]));
    for (i, delay) in delays.iter().enumerate() {
        let gray = (20 * i % 256) as u8;
        let still = encoded(
            DynamicImage::ImageRgb8(image::RgbImage::from_pixel(width, height, image::Rgb([gray; 3]))),
            ImageFormat::WebP,
        );
        // Frames replace each other; nothing is blended.
        let frame = [vec![0; 6], size.clone(), three(*delay), vec![0b10], still[12..].to_vec()].concat();
        body.extend(riff(b"ANMF", &frame));
    }
    riff(b"RIFF", &body)
}
