//! H.264 frames → pictures.

use rust_h264::decoder::{Frame, OrderedDecoder};
use rust_h264::error::DecodeError;
use rust_h264::nal::{NalUnit, NalUnitType, SpsInfo, parse_avcc, parse_sps_info};

use super::decode::{swaps, upright};
use super::guard::damaged;
use super::limits::within;
use super::mp4::Movie;
use super::yuv::{self, Colours};
use super::{Format, MediaLimits, Picture};
use crate::{Error, Result};

/// Pixels of a coded frame that level 5.2 of the standard allows (36,864 macroblocks); the decoder keeps up to 33 such
/// frames.
const MAX_CODED_PIXELS: u64 = 36_864 * 256;

/// Width and height of the frames, turned as they are shown.
///
/// # Errors
/// [`Error::InvalidRequest`] for damaged parameters, [`Error::TooLarge`] over a limit.
pub(super) fn size(name: &str, movie: &Movie<'_>, limits: &MediaLimits) -> Result<(u32, u32)> {
    let stored = parameter_sets(movie);
    let info = check_parameters(name, &parse_avcc(&stored, 2), limits)?;
    limits.check_stored(name, movie.samples.len(), info.width, info.height)?;
    Ok(if swaps(movie.orientation) { (info.height, info.width) } else { (info.width, info.height) })
}

/// Decodes all frames and keeps the chosen ones, `chosen` in order.
///
/// # Errors
/// As [`size`]; and [`Error::Unsupported`] for what the decoder does not do (4:4:4, slice groups, …).
pub(super) fn decode(
    name: &str,
    movie: &Movie<'_>,
    chosen: &[usize],
    limits: &MediaLimits,
) -> Result<Vec<Picture>> {
    let stored = parameter_sets(movie);
    let parameters = parse_avcc(&stored, 2);
    let info = check_parameters(name, &parameters, limits)?;
    let mut decoder = OrderedDecoder::new();
    let mut shown = Shown { name, movie, info, chosen, count: 0, kept: Vec::with_capacity(chosen.len()) };
    let own = |e| refused(name, e);
    for nal in &parameters {
        decoder.decode_nal(nal).map_err(own)?;
    }
    for sample in &movie.samples {
        for nal in parse_avcc(sample, usize::from(movie.avcc.length_size)) {
            match nal.nal_unit_type {
                NalUnitType::Sps => check_size(name, &sps(name, &nal)?, &info)?,
                NalUnitType::Pps | NalUnitType::Slice | NalUnitType::SliceIdr => {}
                _ => continue,
            }
            for frame in decoder.decode_nal(&nal).map_err(own)? {
                shown.take(&frame)?;
            }
        }
    }
    for frame in decoder.flush() {
        shown.take(&frame)?;
    }
    if shown.count != movie.samples.len() {
        let text = format!("{} frames announced, {} found", movie.samples.len(), shown.count);
        return Err(damaged(name, Format::Mp4, text));
    }
    Ok(shown.kept)
}

/// Frames in the order of showing.
struct Shown<'a> {
    name: &'a str,
    movie: &'a Movie<'a>,
    info: SpsInfo,
    chosen: &'a [usize],
    count: usize,
    kept: Vec<Picture>,
}

impl Shown<'_> {
    fn take(&mut self, frame: &Frame) -> Result<()> {
        if self.count == self.movie.samples.len() {
            let text = format!("more than the {} frames announced", self.count);
            return Err(damaged(self.name, Format::Mp4, text));
        }
        if self.chosen.get(self.kept.len()) == Some(&self.count) {
            let colours = Colours { matrix: self.info.matrix, full_range: self.info.full_range };
            let rgb = yuv::to_rgb(frame, colours)
                .filter(|_| (frame.width, frame.height) == (self.info.width, self.info.height))
                .ok_or_else(|| damaged(self.name, Format::Mp4, "a frame of another size"))?;
            self.kept.push(upright(self.name, frame.width, frame.height, rgb, self.movie.orientation)?);
        }
        self.count += 1;
        Ok(())
    }
}

/// The parameter sets of the file's header, each behind its length in two bytes.
fn parameter_sets(movie: &Movie<'_>) -> Vec<u8> {
    let sets = movie.avcc.sequence_parameter_sets.iter().chain(&movie.avcc.picture_parameter_sets);
    sets.filter_map(|set| Some((u16::try_from(set.len()).ok()?, set)))
        .flat_map(|(length, set)| [&length.to_be_bytes()[..], set].concat())
        .collect()
}

/// The sizes that all parameter sets agree on, within the limits.
fn check_parameters(name: &str, parameters: &[NalUnit<'_>], limits: &MediaLimits) -> Result<SpsInfo> {
    let mut all = parameters.iter().filter(|nal| nal.nal_unit_type == NalUnitType::Sps);
    let Some(first) = all.next() else { return Err(damaged(name, Format::Mp4, "no H.264 parameters")) };
    let first = sps(name, first)?;
    for other in all {
        check_size(name, &sps(name, other)?, &first)?;
    }
    limits.check_size(name, first.width, first.height)?;
    let coded = u64::from(first.coded_width) * u64::from(first.coded_height);
    let what =
        || format!("pixels of a coded frame of {name} ({} x {})", first.coded_width, first.coded_height);
    within(what, coded, MAX_CODED_PIXELS)?;
    Ok(first)
}

fn sps(name: &str, nal: &NalUnit<'_>) -> Result<SpsInfo> {
    parse_sps_info(nal).map_err(|e| refused(name, e))
}

fn check_size(name: &str, found: &SpsInfo, first: &SpsInfo) -> Result<()> {
    let sizes = |info: &SpsInfo| (info.coded_width, info.coded_height, info.width, info.height);
    if sizes(found) == sizes(first) {
        return Ok(());
    }
    let text = format!(
        "frames of {} x {} pixels, allowed: {} x {}, as the first",
        found.width, found.height, first.width, first.height
    );
    Err(damaged(name, Format::Mp4, text))
}

fn refused(name: &str, error: DecodeError) -> Error {
    match error {
        DecodeError::Unsupported(what) => super::video::unsupported(&format!("H.264 with {what}")),
        other => damaged(name, Format::Mp4, format!("H.264: {other}")),
    }
}
