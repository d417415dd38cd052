//! MP4 files: where the coded frames of the first video track are.
//!
//! The boxes that hold other boxes are walked here, along the one path that is needed, so that hostile nesting cannot
//! recurse; the tables in them are read by `mp4-atom`. Counts are held to limits before lists are built from them.

use image::metadata::Orientation;
use mp4_atom::{
    Atom, Avcc, Co64, Decode, FourCC, Hdlr, Header, Mdhd, Stco, Stsc, Stsz, StszSamples, Stts, Tkhd,
};

use super::clip::check_rate;
use super::guard::damaged;
use super::limits::within;
use super::{Format, MediaLimits};
use crate::{Error, Result};

/// Bytes of a visual sample entry before its boxes.
const VISUAL_ENTRY: usize = 78;
/// Bytes of the version, the flags and the count of sample descriptions.
const DESCRIPTIONS: usize = 8;

/// The first video track.
#[derive(Debug)]
pub(super) struct Movie<'a> {
    /// The decoder's parameters.
    pub(super) avcc: Avcc,
    /// Coded frames in decoding order.
    pub(super) samples: Vec<&'a [u8]>,
    /// Mean frames a second.
    pub(super) fps: f64,
    /// How frames are turned for showing.
    pub(super) orientation: Orientation,
}

/// Finds the track and its coded frames.
///
/// # Errors
/// [`Error::InvalidRequest`] for damaged boxes or no video track, [`Error::TooLarge`] for too many frames,
/// [`Error::Unsupported`] for another codec than H.264 and for fragmented files.
pub(super) fn read<'a>(name: &str, bytes: &'a [u8], limits: &MediaLimits) -> Result<Movie<'a>> {
    let movie = required(name, bytes, b"moov")?;
    if find(name, movie, b"mvex")?.is_some() {
        return Err(unsupported("fragmented MP4"));
    }
    let mut tracks = boxes(name, movie).filter(|b| b.as_ref().map_or(true, |(kind, _)| is(*kind, b"trak")));
    let (track, media) = loop {
        let Some(track) = tracks.next() else {
            return Err(Error::invalid(name, "an MP4 without video track found: 0 frames"));
        };
        let (_, track) = track?;
        let media = required(name, track, b"mdia")?;
        let handler: Hdlr = table(name, required(name, media, b"hdlr")?)?;
        if is(handler.handler, b"vide") {
            break (track, media);
        }
    };
    let header: Tkhd = table(name, required(name, track, b"tkhd")?)?;
    let clock: Mdhd = table(name, required(name, media, b"mdhd")?)?;
    let samples = required(name, required(name, media, b"minf")?, b"stbl")?;
    let avcc = parameters(name, required(name, samples, b"stsd")?)?;

    let sizes: Stsz = table(name, required(name, samples, b"stsz")?)?;
    let count = match &sizes.samples {
        StszSamples::Identical { count, .. } => *count as usize,
        StszSamples::Different { sizes } => sizes.len(),
    };
    within(|| format!("frames of {name}"), count as u64, limits.frames as u64)?;
    let times: Stts = table(name, required(name, samples, b"stts")?)?;
    let fps = rate(name, count, clock.timescale, &times)?;
    let chunks: Stsc = table(name, required(name, samples, b"stsc")?)?;
    let offsets = match find(name, samples, b"co64")? {
        Some(body) => table::<Co64>(name, body)?.entries,
        None => {
            let short: Stco = table(name, required(name, samples, b"stco")?)?;
            short.entries.into_iter().map(u64::from).collect()
        }
    };
    let samples = locate(name, bytes, count, &sizes.samples, &chunks, &offsets)?;
    Ok(Movie { avcc, samples, fps, orientation: orientation(&header) })
}

fn is(kind: FourCC, name: &[u8; 4]) -> bool {
    kind == FourCC::new(name)
}

/// The boxes of a list, each with its content; a rest too short for a box is padding.
fn boxes<'a>(name: &str, mut rest: &'a [u8]) -> impl Iterator<Item = Result<(FourCC, &'a [u8])>> {
    std::iter::from_fn(move || {
        if rest.len() < 8 {
            return None;
        }
        let mut after = rest;
        let header = match Header::decode(&mut after) {
            Ok(header) => header,
            Err(e) => {
                rest = &[];
                return Some(Err(damaged(name, Format::Mp4, e)));
            }
        };
        let size = header.size.unwrap_or(after.len());
        let Some((content, next)) = after.split_at_checked(size) else {
            let found = after.len();
            rest = &[];
            let text = format!("box {} of {size} bytes, {found} found", header.kind);
            return Some(Err(damaged(name, Format::Mp4, text)));
        };
        rest = next;
        Some(Ok((header.kind, content)))
    })
}

fn find<'a>(name: &str, list: &'a [u8], kind: &[u8; 4]) -> Result<Option<&'a [u8]>> {
    for found in boxes(name, list) {
        let (found, content) = found?;
        if is(found, kind) {
            return Ok(Some(content));
        }
        if is(found, b"moof") {
            return Err(unsupported("fragmented MP4"));
        }
    }
    Ok(None)
}

fn required<'a>(name: &str, list: &'a [u8], kind: &[u8; 4]) -> Result<&'a [u8]> {
    find(name, list, kind)?
        .ok_or_else(|| damaged(name, Format::Mp4, format!("no box {} where it is needed", FourCC::new(kind))))
}

/// The content of a box without boxes.
fn table<T: Atom>(name: &str, mut content: &[u8]) -> Result<T> {
    T::decode_body(&mut content).map_err(|e| damaged(name, Format::Mp4, format!("box {}: {e}", T::KIND)))
}

/// The parameters of the H.264 decoder from the sample descriptions.
fn parameters(name: &str, descriptions: &[u8]) -> Result<Avcc> {
    let list = descriptions.get(DESCRIPTIONS..).unwrap_or_default();
    let Some(first) = boxes(name, list).next() else {
        return Err(damaged(name, Format::Mp4, "no sample description"));
    };
    let (codec, entry) = first?;
    if !is(codec, b"avc1") {
        return Err(unsupported(&format!("MP4 with codec {codec}")));
    }
    let list = entry.get(VISUAL_ENTRY..).unwrap_or_default();
    table(name, required(name, list, b"avcC")?)
}

fn rate(name: &str, count: usize, timescale: u32, times: &Stts) -> Result<f64> {
    let timed: u64 = times.entries.iter().map(|e| u64::from(e.sample_count)).sum();
    let ticks: u128 =
        times.entries.iter().map(|e| u128::from(e.sample_count) * u128::from(e.sample_delta)).sum();
    if timed != count as u64 {
        return Err(damaged(name, Format::Mp4, format!("{count} frames, {timed} of them timed")));
    }
    let fps = count as f64 * f64::from(timescale) / ticks as f64;
    check_rate(name, fps)?;
    Ok(fps)
}

/// The bytes of every sample: chunks of samples that follow each other.
fn locate<'a>(
    name: &str,
    bytes: &'a [u8],
    count: usize,
    sizes: &StszSamples,
    chunks: &Stsc,
    offsets: &[u64],
) -> Result<Vec<&'a [u8]>> {
    let size = |i: usize| match sizes {
        StszSamples::Identical { size, .. } => *size as usize,
        StszSamples::Different { sizes } => sizes[i] as usize,
    };
    let mut samples = Vec::with_capacity(count);
    let mut runs = chunks.entries.iter().peekable();
    let mut per_chunk = 0;
    for (chunk, offset) in offsets.iter().enumerate() {
        while let Some(run) = runs.next_if(|run| run.first_chunk as usize <= chunk + 1) {
            per_chunk = run.samples_per_chunk as usize;
        }
        let mut at = usize::try_from(*offset).unwrap_or(usize::MAX);
        for i in samples.len()..count.min(samples.len().saturating_add(per_chunk)) {
            let sample = at.checked_add(size(i)).and_then(|end| bytes.get(at..end)).ok_or_else(|| {
                damaged(name, Format::Mp4, format!("frame {i} is outside of the {} bytes found", bytes.len()))
            })?;
            samples.push(sample);
            at += sample.len();
        }
    }
    if samples.len() < count {
        let text = format!("{count} frames announced, {} found", samples.len());
        return Err(damaged(name, Format::Mp4, text));
    }
    Ok(samples)
}

/// Telephones record as they are held and say so in the track's matrix.
fn orientation(header: &Tkhd) -> Orientation {
    const ONE: i32 = 1 << 16;
    let m = &header.matrix;
    match (m.a, m.b, m.c, m.d) {
        (0, ONE, c, 0) if c == -ONE => Orientation::Rotate90,
        (a, 0, 0, d) if a == -ONE && d == -ONE => Orientation::Rotate180,
        (0, b, ONE, 0) if b == -ONE => Orientation::Rotate270,
        _ => Orientation::NoTransforms,
    }
}

fn unsupported(what: &str) -> Error {
    super::video::unsupported(what)
}
