//! What broken, oversized and misleading files meet: an error that says why, never a panic.

use dikast_core::Error;
use dikast_core::media::{
    Clip, Media, MediaLimits, MediaSize, Picture, decode_picture, decode_video, picture_size, video_size,
};
use image::ImageFormat;
use proptest::prelude::*;

use crate::fixture::{
    animated_webp, apng, chunks, encoded, every_format, gif, gradient, limits, movie, png, released, tiny,
};

fn picture(bytes: &[u8]) -> Error {
    let error = decode_picture("images[2]", bytes, &limits()).unwrap_err();
    assert!(error.to_string().contains("images[2]"), "{error}");
    error
}

fn invalid(error: &Error, said: &str) {
    assert!(matches!(error, Error::InvalidRequest { .. }), "{error}");
    assert!(error.to_string().contains(said), "{error}");
}

#[track_caller]
fn too_large(error: &Error, said: &str, found: u64, allowed: u64) {
    match error {
        Error::TooLarge { what, limit, actual } => {
            assert!(what.contains(said), "{what}");
            assert_eq!((*actual, *limit), (found, allowed));
        }
        other => panic!("{other}"),
    }
}

fn resized_header(width: u32, height: u32) -> Vec<u8> {
    let mut parts = chunks(&encoded(gradient(8, 8), ImageFormat::Png));
    parts[0].1[..4].copy_from_slice(&width.to_be_bytes());
    parts[0].1[4..8].copy_from_slice(&height.to_be_bytes());
    png(&parts)
}

#[test]
fn a_png_that_claims_to_be_huge_is_refused_from_its_header() {
    too_large(&picture(&resized_header(60_000, 60_000)), "(60000 x 60000)", 3_600_000_000, 1 << 26);
    too_large(&picture(&resized_header(70_000, 1)), "longer side", 70_000, 65_535);
    too_large(&picture(&resized_header(u32::MAX >> 1, 7)), "longer side", 2_147_483_647, 65_535);
    let error = picture_size("images[2]", &resized_header(60_000, 60_000), &limits()).unwrap_err();
    too_large(&error, "pixels of images[2]", 3_600_000_000, 1 << 26);
    // Within the limits, but the pixels are not there.
    invalid(&picture(&resized_header(4_000, 4_000)), "damaged PNG");
}

#[test]
fn other_formats_that_claim_to_be_huge_are_refused_too() {
    let mut wide = gif(8, 8, &[100]);
    wide[6..10].copy_from_slice(&[0xff; 4]);
    too_large(&picture(&wide), "(65535 x 65535)", 65_535 * 65_535, 1 << 26);

    let mut jpeg = encoded(image::DynamicImage::ImageRgba8(gradient(8, 8)).into_rgb8(), ImageFormat::Jpeg);
    let frame = jpeg.windows(2).position(|w| w == [0xff, 0xc0]).unwrap();
    jpeg[frame + 5..frame + 9].copy_from_slice(&[0xea, 0x60, 0xea, 0x60]);
    too_large(&picture(&jpeg), "(60000 x 60000)", 3_600_000_000, 1 << 26);

    // Nearly the largest that lossless WebP can say.
    let mut webp = encoded(gradient(8, 8), ImageFormat::WebP);
    let at = webp.windows(4).position(|w| w == b"VP8L").unwrap() + 9;
    webp[at..at + 4].copy_from_slice(&[0xfe, 0xbf, 0xff, 0x0f]);
    too_large(&picture(&webp), "(16383 x 16383)", 16_383 * 16_383, 1 << 26);
}

#[test]
fn limits_are_the_callers() {
    let small = |change: fn(&mut MediaLimits)| {
        let mut limits = limits();
        change(&mut limits);
        limits
    };
    let file = encoded(gradient(24, 16), ImageFormat::Png);
    let refuse = |limits: MediaLimits| decode_picture("image", &file, &limits).unwrap_err();
    too_large(&refuse(small(|l| l.picture_bytes = 10)), "bytes of image", file.len() as u64, 10);
    too_large(&refuse(small(|l| l.pixels = 300)), "pixels of image (24 x 16)", 384, 300);
    too_large(&refuse(small(|l| l.side = 23)), "longer side of image (24 x 16)", 24, 23);

    let film = gif(24, 16, &[100; 40]);
    let settings = tiny().video;
    let refuse = |limits: MediaLimits| decode_video("video", &film, &settings, &limits).unwrap_err();
    too_large(&refuse(small(|l| l.video_bytes = 10)), "bytes of video", film.len() as u64, 10);
    too_large(&refuse(small(|l| l.frames = 7)), "frames of video", 8, 7);
    too_large(&refuse(small(|l| l.video_pixels = 9_999)), "40 frames of 24 x 16", 40 * 384, 9_999);
    too_large(&refuse(small(|l| l.clip_pixels = 2_000)), "chosen from video (8 of 24 x 16)", 8 * 384, 2_000);
    // The bytes of a video are not held to the limit of a picture.
    decode_video("video", &film, &settings, &small(|l| l.picture_bytes = 10)).unwrap();

    let size = MediaSize::Image { width: 4_096, height: 4_096 };
    let error = released().plan("image", &size, &small(|l| l.patches = 65_535)).unwrap_err();
    too_large(&error, "patches of image (resized to 4096 x 4096)", 65_536, 65_535);
}

#[test]
fn animated_bombs_are_counted_before_a_frame_is_decoded() {
    let settings = released().video;
    // Few bytes a frame: the same one again and again.
    let one = gif(1, 1, &[100]);
    let (head, frame) =
        one[..one.len() - 1].split_at(one.windows(2).position(|w| w == [0x21, 0xf9]).unwrap());
    let mut many = head.to_vec();
    (0..20_000).for_each(|_| many.extend(frame));
    many.push(0x3b);
    let error = decode_video("video", &many, &settings, &limits()).unwrap_err();
    too_large(&error, "frames of video", 16_385, 16_384);

    // A large canvas that is never filled.
    let mut large = head.to_vec();
    large[6..10].copy_from_slice(&[0x00, 0x10, 0x00, 0x10]);
    (0..2_000).for_each(|_| large.extend(frame));
    large.push(0x3b);
    let error = video_size("video", &large, &settings, &limits()).unwrap_err();
    too_large(&error, "2000 frames of 4096 x 4096", 2_000 << 24, 1 << 31);
    // As a picture it is one frame.
    assert_eq!(picture_size("image", &large, &limits()).unwrap(), (4_096, 4_096));
}

#[test]
fn truncated_files_are_refused_wherever_they_end() {
    for (name, bytes) in every_format() {
        for length in 0..bytes.len() {
            let cut = decode_picture("image", &bytes[..length], &limits());
            // A JPEG, and a GIF of which the first picture is whole, may be shown as far as they go.
            if matches!(name, "PNG" | "WebP") && length + 20 < bytes.len() {
                assert!(cut.is_err(), "{name} cut to {length} bytes");
            }
            let _ = picture_size("image", &bytes[..length], &limits());
        }
    }
    let settings = tiny().video;
    for film in [gif(6, 4, &[100; 5]), apng(6, 4, &[100; 5]), animated_webp(6, 4, &[100; 5])] {
        for length in 0..film.len() / 2 {
            let cut = decode_video("video", &film[..length], &settings, &limits());
            assert!(cut.is_err() || cut.unwrap().frames().len() < 5, "{length} bytes");
        }
    }
}

#[test]
fn wrong_kinds_are_named() {
    invalid(&picture(b""), "0 bytes found");
    invalid(&picture(b"not a picture"), "unknown format found, beginning with 6e 6f 74 20");
    invalid(&picture(b"https://example.org/cat.png"), "an address found, which is not followed");
    invalid(&picture(b"\0\0\0\x20ftypisom\0\0\0\0"), "MP4 found, a video");
    invalid(&picture(b"\x89PNG\r\n\x1a\n"), "damaged PNG");
    invalid(&picture(b"\xff\xd8\xff\xe0rubbish"), "damaged JPEG");
    invalid(&picture(b"RIFF\x04\0\0\0WEBP"), "damaged WebP");
    invalid(&picture(b"GIF89a"), "damaged GIF");
}

#[test]
fn broken_chunks_and_empty_pictures_are_refused() {
    let whole = encoded(gradient(24, 16), ImageFormat::Png);
    let mut flipped = whole.clone();
    let at = flipped.windows(4).position(|w| w == b"IDAT").unwrap() + 12;
    flipped[at] ^= 0x55;
    invalid(&picture(&flipped), "damaged PNG");
    let without_pixels: Vec<_> = chunks(&whole).into_iter().filter(|(kind, _)| kind != b"IDAT").collect();
    invalid(&picture(&png(&without_pixels)), "damaged PNG");
    for (width, height) in [(0, 16), (24, 0), (0, 0)] {
        invalid(&picture(&resized_header(width, height)), "images[2]");
    }
    let mut flat = gif(8, 8, &[100]);
    flat[6..8].copy_from_slice(&[0, 0]);
    invalid(&picture(&flat), "0 x 8 pixels found");

    assert!(Picture::new(0, 5, Vec::new()).is_err());
    assert!(Picture::new(2, 2, vec![0; 11]).is_err());
    assert!(Picture::new(u32::MAX, u32::MAX, vec![0; 3]).is_err());
}

#[test]
fn very_long_pictures_are_refused_before_they_are_resized() {
    for (width, height) in [(300, 1), (1, 300), (201, 1)] {
        let size = MediaSize::Image { width, height };
        invalid(&released().plan("images[0]", &size, &limits()).unwrap_err(), "at most 200 is allowed");
    }
    let long = Picture::new(300, 1, vec![0; 900]).unwrap();
    invalid(&tiny().patches(&Media::Image(long)).unwrap_err(), "aspect ratio 300.0 found (300 x 1)");
    // 200 itself is allowed; no side is made shorter than one token, so the result is larger than the settings say.
    let longest = Picture::new(200, 1, vec![0; 600]).unwrap();
    let patches = tiny().patches(&Media::Image(longest)).unwrap();
    assert!(patches.grid.h == 2 && patches.grid.w > 2, "{:?}", patches.grid);
}

#[test]
fn videos_without_frames_or_without_a_rate_are_refused() {
    let pixel = || Picture::new(1, 1, vec![9; 3]).unwrap();
    invalid(&Clip::new(Vec::new(), 2.0).unwrap_err(), "0 frames found");
    for fps in [f64::NAN, f64::INFINITY, 0.0, -0.0, -2.0, 1e-9, 1e9] {
        invalid(&Clip::new(vec![pixel()], fps).unwrap_err(), "frames a second");
    }
    let other = Picture::new(2, 1, vec![9; 6]).unwrap();
    invalid(&Clip::new(vec![pixel(), other], 2.0).unwrap_err(), "frame 1 has 2 x 1 pixels");
    for times in [vec![], vec![0.0, f64::NAN], vec![1.0, 0.5], vec![-1.0, 0.0], vec![0.0, f64::INFINITY]] {
        invalid(&Clip::timed(vec![pixel(), pixel()], times, 2.0).unwrap_err(), "one a frame");
    }
    // One frame is no video for the reference either.
    let alone = Media::Video(Clip::new(vec![pixel()], 2.0).unwrap());
    invalid(&tiny().patches(&alone).unwrap_err(), "1 frames found, at least 2 are needed");
    invalid(&tiny().plan("videos[0]", &alone.size(), &limits()).unwrap_err(), "videos[0]");
    let none = MediaSize::Video { frames: 0, width: 8, height: 8 };
    invalid(&tiny().plan("videos[0]", &none, &limits()).unwrap_err(), "0 frames found");
    assert_eq!(tiny().video.choose(0, 2.0), [0usize; 0]);

    let settings = tiny().video;
    for (name, still) in [
        ("PNG", encoded(gradient(8, 8), ImageFormat::Png)),
        ("WebP", encoded(gradient(8, 8), ImageFormat::WebP)),
    ] {
        let error = decode_video("video", &still, &settings, &limits()).unwrap_err();
        invalid(&error, &format!("a still {name} found"));
    }
    let empty = &gif(8, 8, &[100])[..13];
    assert!(decode_video("video", empty, &settings, &limits()).is_err());
}

#[test]
fn an_animation_that_promises_more_frames_than_it_has_is_refused() {
    let mut parts = chunks(&apng(6, 4, &[100; 4]));
    // The pixels of the last frame are gone, its announcement is not.
    let last = parts.iter().rposition(|(kind, _)| kind == b"fdAT").unwrap();
    parts.remove(last);
    let error = decode_video("video", &png(&parts), &tiny().video, &limits()).unwrap_err();
    invalid(&error, "damaged PNG");
}

#[test]
fn an_animation_that_does_not_say_it_is_one_is_refused() {
    let still = encoded(image::DynamicImage::ImageRgba8(gradient(6, 4)).into_rgb8(), ImageFormat::WebP);
    let mut film = animated_webp(6, 4, &[100; 4]);
    // No animation by the flags of the header, a still picture behind it, then the frames.
    film[20] = 0;
    film.splice(30..30, still[12..].iter().copied());
    let size = film.len() as u32 - 8;
    film[4..8].copy_from_slice(&size.to_le_bytes());
    let error = decode_video("video", &film, &tiny().video, &limits()).unwrap_err();
    invalid(&error, "4 frames announced, 0 found");
}

/// Every way in, over any bytes: errors are fine, panics are not.
fn feed(bytes: &[u8]) {
    let mut small = limits();
    (small.pixels, small.video_pixels, small.frames) = (1 << 16, 1 << 18, 64);
    let settings = tiny().video;
    let size = picture_size("image", bytes, &small);
    if let Ok(picture) = decode_picture("image", bytes, &small) {
        assert_eq!(size, Ok((picture.width(), picture.height())));
        let _ = tiny().patches(&Media::Image(picture));
    }
    let size = video_size("video", bytes, &settings, &small);
    if let Ok(clip) = decode_video("video", bytes, &settings, &small) {
        let media = Media::Video(clip);
        assert_eq!(size, Ok(media.size()));
        let _ = tiny().patches(&media);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = every_format().into_iter().map(|(_, bytes)| bytes).collect();
    all.extend([gif(9, 7, &[40; 5]), apng(9, 7, &[40; 5]), animated_webp(9, 7, &[40; 5]), movie(), movie()]);
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn random_bytes_never_panic(
        magic in prop::sample::select(vec![
            &b""[..], b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"RIFF\xff\xff\0\0WEBPVP8X", b"GIF89a", b"\0\0\0\x18ftypmp42",
            b"\x1a\x45\xdf\xa3",
        ]),
        rest in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        feed(&[magic, &rest].concat());
    }

    #[test]
    fn mutated_pictures_never_panic(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let seeds = seeds();
        let mut bytes = seeds[which.index(seeds.len())].clone();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        feed(&bytes);
    }

    /// Checksums put right again, so that the damage reaches the decoder behind them.
    #[test]
    fn mutated_chunks_never_panic(
        animated: bool,
        edits in prop::collection::vec(
            (any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..8,
        ),
    ) {
        let file = if animated { apng(9, 7, &[40; 5]) } else { encoded(gradient(24, 16), ImageFormat::Png) };
        let mut parts = chunks(&file);
        for (part, at, byte) in edits {
            let part = part.index(parts.len());
            let data = &mut parts[part].1;
            if !data.is_empty() {
                let at = at.index(data.len());
                data[at] = byte;
            }
        }
        feed(&png(&parts));
    }
}
