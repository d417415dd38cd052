//! Animated GIF, PNG and WebP as videos.

use std::io::Cursor;

use image::codecs::gif::GifDecoder;
use image::codecs::png::PngDecoder;
use image::codecs::webp::WebPDecoder;
use image::{AnimationDecoder, Frames, ImageDecoder, ImageResult};

use super::decode::{canvas_size, decoder_limits};
use super::guard::{damaged, guarded};
use super::limits::within;
use super::video::renamed;
use super::{Clip, Format, MediaLimits, Picture, VideoSettings, sampling};
use crate::{Error, Result};

/// What an animation is, known before any of its pixels is decoded.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Timeline {
    pub(super) width: u32,
    pub(super) height: u32,
    /// How long each frame is shown, in seconds.
    delays: Vec<f64>,
}

impl Timeline {
    /// Reads the frames' headers.
    pub(super) fn read(name: &str, format: Format, bytes: &[u8], limits: &MediaLimits) -> Result<Self> {
        let (width, height) = canvas_size(name, bytes, limits)?;
        let mut delays = Vec::new();
        let mut push = |delay: f64| {
            // Like browsers: a delay that no display could show means the usual one.
            delays.push(if delay <= 0.010 { 0.100 } else { delay });
            within(|| format!("frames of {name}"), delays.len() as u64, limits.frames as u64)
        };
        match format {
            Format::Gif => guarded(name, || gif_delays(name, bytes, &mut push))?,
            Format::Png => png_delays(bytes, &mut push)?,
            Format::WebP => webp_delays(bytes, &mut push)?,
            Format::Jpeg | Format::Mp4 | Format::Matroska => {}
        }
        if delays.is_empty() {
            return Err(Error::invalid(
                name,
                format!(
                    "a still {format} found; allowed as video: an animated GIF, PNG or WebP, an MP4, frames"
                ),
            ));
        }
        limits.check_stored(name, delays.len(), width, height)?;
        Ok(Self { width, height, delays })
    }

    /// Mean frames a second.
    fn fps(&self) -> f64 {
        self.delays.len() as f64 / self.delays.iter().sum::<f64>()
    }

    /// The frames to show the model.
    pub(super) fn chosen(&self, settings: &VideoSettings) -> Vec<usize> {
        sampling::choose(settings, self.delays.len(), self.fps())
    }
}

/// Decodes the chosen frames; a frame's time is the sum of the delays before it.
pub(super) fn decode(
    name: &str,
    format: Format,
    bytes: &[u8],
    settings: &VideoSettings,
    limits: &MediaLimits,
) -> Result<Clip> {
    let timeline = Timeline::read(name, format, bytes, limits)?;
    let chosen = timeline.chosen(settings);
    limits.check_chosen(name, chosen.len(), timeline.width, timeline.height)?;
    let (mut kept, mut times) = (Vec::with_capacity(chosen.len()), Vec::with_capacity(chosen.len()));
    guarded(name, || {
        let mut decoded = frames(format, bytes, limits).map_err(|e| damaged(name, format, e))?;
        let mut wanted = chosen.iter().copied().peekable();
        let mut time = 0.0;
        for (i, delay) in timeline.delays.iter().enumerate() {
            let frame = decoded
                .next()
                .ok_or_else(|| {
                    damaged(name, format, format!("{} frames announced, {i} found", timeline.delays.len()))
                })?
                .map_err(|e| damaged(name, format, e))?;
            if wanted.next_if_eq(&i).is_some() {
                let rgba = frame.buffer();
                let rgb = rgba.pixels().flat_map(|p| [p[0], p[1], p[2]]).collect();
                kept.push(Picture::new(rgba.width(), rgba.height(), rgb)?);
                times.push(time);
            }
            time += delay;
        }
        Ok(())
    })?;
    Clip::timed(kept, times, timeline.fps()).map_err(|e| renamed(name, e))
}

/// Composed frames in order, decoded as they are asked for.
fn frames<'a>(format: Format, bytes: &'a [u8], limits: &MediaLimits) -> ImageResult<Frames<'a>> {
    let (cursor, own) = (Cursor::new(bytes), decoder_limits(limits));
    match format {
        Format::Png => Ok(PngDecoder::with_limits(cursor, own)?.apng()?.into_frames()),
        Format::WebP => {
            let mut decoder = WebPDecoder::new(cursor)?;
            decoder.set_limits(own)?;
            if !decoder.has_animation() {
                return Ok(Frames::new(Box::new(std::iter::empty())));
            }
            Ok(decoder.into_frames())
        }
        _ => {
            let mut decoder = GifDecoder::new(cursor)?;
            decoder.set_limits(own)?;
            Ok(decoder.into_frames())
        }
    }
}

fn gif_delays(name: &str, bytes: &[u8], push: &mut impl FnMut(f64) -> Result<()>) -> Result<()> {
    let mut options = gif::DecodeOptions::new();
    options.skip_frame_decoding(true);
    let mut decoder = options.read_info(Cursor::new(bytes)).map_err(|e| damaged(name, Format::Gif, e))?;
    while let Some(frame) = decoder.next_frame_info().map_err(|e| damaged(name, Format::Gif, e))? {
        push(f64::from(frame.delay) / 100.0)?;
    }
    Ok(())
}

/// The frame controls (`fcTL`) of an animated PNG.
fn png_delays(bytes: &[u8], push: &mut impl FnMut(f64) -> Result<()>) -> Result<()> {
    const DELAY: usize = 20;
    let mut rest = bytes.get(8..).unwrap_or_default();
    while let Some((header, after)) = rest.split_at_checked(8) {
        let length = u32::from_be_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let Some(data) = after.get(..length) else { break };
        if &header[4..] == b"fcTL"
            && let Some(&[n0, n1, d0, d1]) = data.get(DELAY..DELAY + 4)
        {
            let (numerator, denominator) = (u16::from_be_bytes([n0, n1]), u16::from_be_bytes([d0, d1]));
            let denominator = if denominator == 0 { 100 } else { denominator };
            push(f64::from(numerator) / f64::from(denominator))?;
        }
        // A checksum of four bytes follows.
        rest = after.get(length.saturating_add(4)..).unwrap_or_default();
    }
    Ok(())
}

/// The frame headers (`ANMF`) of an animated WebP.
fn webp_delays(bytes: &[u8], push: &mut impl FnMut(f64) -> Result<()>) -> Result<()> {
    const DURATION: usize = 12;
    let mut rest = bytes.get(12..).unwrap_or_default();
    while let Some((header, after)) = rest.split_at_checked(8) {
        let length = u32::from_le_bytes([header[4], header[5], header[6], header[7]]) as usize;
        let Some(data) = after.get(..length) else { break };
        if &header[..4] == b"ANMF"
            && let Some(&[a, b, c]) = data.get(DURATION..DURATION + 3)
        {
            push(f64::from(u32::from_le_bytes([a, b, c, 0])) / 1000.0)?;
        }
        // Chunks have even lengths.
        rest = after.get(length.saturating_add(length % 2)..).unwrap_or_default();
    }
    Ok(())
}
