//! Pictures and videos from files.

use std::cmp::Ordering;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use dikast_core::Error;
use dikast_core::media::{MediaLimits, picture_size};
use dikast_core::request::limits::MAX_VIDEO_FRAMES;
use dikast_core::request::{DecideRequest, Video};

use crate::args::DecideArgs;
use crate::exit::{Failure, Result};
use crate::source::read_bytes;

/// Media of one request.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Media {
    images: Vec<Vec<u8>>,
    videos: Vec<Video>,
    /// Names in the engine's messages, and the files behind them; longer names first.
    names: Vec<(String, PathBuf)>,
}

impl Media {
    /// The files of `--image` and `--video`. Sizes of pictures are checked by their headers.
    pub(super) fn read(args: &DecideArgs) -> Result<Self> {
        let mut media = Self::default();
        for (i, path) in args.image.iter().enumerate() {
            media.images.push(picture(path)?);
            media.names.push((format!("images[{i}]"), path.clone()));
        }
        for (i, path) in args.video.iter().enumerate() {
            let name = format!("videos[{i}]");
            let video = if path.is_dir() { media.folder(&name, path, args.fps)? } else { file(path)? };
            media.videos.push(video);
            media.names.push((name, path.clone()));
        }
        Ok(media)
    }

    fn folder(&mut self, name: &str, dir: &Path, fps: Option<f64>) -> Result<Video> {
        let shown = dir.display();
        let fps = fps.ok_or_else(|| Failure::usage(format!("{shown}: a folder of frames needs --fps")))?;
        let files = frames(dir)?;
        if files.is_empty() {
            return Err(Failure::usage(format!("{shown}: no frames found, at least one is needed")));
        }
        if files.len() > MAX_VIDEO_FRAMES {
            let found = files.len();
            let message = format!("{shown}: {found} frames found, {MAX_VIDEO_FRAMES} are allowed");
            return Err(Failure::usage(message));
        }
        let mut frames = Vec::with_capacity(files.len());
        for (i, path) in files.into_iter().enumerate() {
            frames.push(picture(&path)?);
            self.names.push((format!("{name}.frames[{i}]"), path));
        }
        Ok(Video::Frames { frames, fps })
    }

    /// There are neither pictures nor videos.
    pub(super) fn is_empty(&self) -> bool {
        self.images.is_empty() && self.videos.is_empty()
    }

    /// Puts the media into a request.
    pub(super) fn put_into(&self, request: &mut DecideRequest) {
        request.images.clone_from(&self.images);
        request.videos.clone_from(&self.videos);
    }

    /// The engine's error with the name of the file in place of its number.
    pub(super) fn named(&self, error: Error) -> Error {
        let rename = |text: String| {
            self.names.iter().fold(text, |text, (name, path)| text.replace(name, &path.display().to_string()))
        };
        match error {
            Error::InvalidRequest { field, message } => {
                Error::InvalidRequest { field: rename(field), message }
            }
            Error::TooLarge { what, limit, actual } => Error::TooLarge { what: rename(what), limit, actual },
            other => other,
        }
    }
}

fn picture(path: &Path) -> Result<Vec<u8>> {
    let limits = MediaLimits::default();
    let bytes = read_bytes(path, limits.picture_bytes)?;
    picture_size(&path.display().to_string(), &bytes, &limits)?;
    Ok(bytes)
}

fn file(path: &Path) -> Result<Video> {
    Ok(Video::File(read_bytes(path, MediaLimits::default().video_bytes)?))
}

/// The files of a folder in the order of their names, where `2` comes before `10`. Hidden ones do not count.
fn frames(dir: &Path) -> Result<Vec<PathBuf>> {
    let unreadable = |e: std::io::Error| Failure::usage(format!("{}: {e}", dir.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        if !hidden {
            files.push(path);
        }
    }
    files.sort_by(|a, b| by_number(a.file_name(), b.file_name()).then_with(|| a.cmp(b)));
    Ok(files)
}

/// Compares names, runs of digits by their values.
fn by_number(a: Option<&OsStr>, b: Option<&OsStr>) -> Ordering {
    let text = |name: Option<&OsStr>| name.map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let (a, b) = (text(a), text(b));
    let (mut a, mut b) = (a.as_str(), b.as_str());
    loop {
        let (Some(x), Some(y)) = (a.chars().next(), b.chars().next()) else { return a.len().cmp(&b.len()) };
        let (head, other) = (digits(a), digits(b));
        let order = if head.is_empty() || other.is_empty() {
            (a, b) = (&a[x.len_utf8()..], &b[y.len_utf8()..]);
            x.cmp(&y)
        } else {
            (a, b) = (&a[head.len()..], &b[other.len()..]);
            let (x, y) = (head.trim_start_matches('0'), other.trim_start_matches('0'));
            x.len().cmp(&y.len()).then_with(|| x.cmp(y))
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// The digits at the start of a text.
fn digits(text: &str) -> &str {
    &text[..text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_in_the_order_of_their_numbers() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["f10.png", "f9.png", "f010b.png", "e.png", "f9a.png", ".hidden"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let names: Vec<String> = frames(dir.path())
            .unwrap()
            .iter()
            .map(|p| p.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(names, ["e.png", "f9.png", "f9a.png", "f10.png", "f010b.png"]);
    }

    #[test]
    fn messages_name_the_file() {
        let media = Media {
            names: vec![("images[1]".into(), "b.png".into()), ("images[10]".into(), "z.png".into())],
            ..Media::default()
        };
        let error = media.named(Error::invalid("images[1]", "broken"));
        assert_eq!(error.to_string(), "invalid request: b.png: broken");
        let large = Error::TooLarge { what: "pixels of images[10] (9 x 9)".into(), limit: 1, actual: 81 };
        assert!(media.named(large).to_string().contains("pixels of z.png (9 x 9)"));
    }
}
