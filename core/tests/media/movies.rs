//! H.264 in MP4: frames against FFmpeg's, and what damaged files meet.
#![cfg(feature = "video")]

use dikast_core::Error;
use dikast_core::media::{MediaSize, VideoSettings, decode_video, picture_size, video_size};
use safetensors::SafeTensors;

use crate::fixture::{limits, movie, movie_path, released};

const WIDTH: usize = 48;
const HEIGHT: usize = 32;

fn every_frame() -> VideoSettings {
    let mut settings = released().video;
    settings.sample = false;
    settings
}

/// `[frames, height * 3 / 2, width]`: luma, then both chroma planes, as FFmpeg decoded them.
fn decoded_by_ffmpeg() -> Vec<Vec<u8>> {
    let file = std::fs::read(movie_path("clip.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&file).unwrap();
    let yuv = tensors.tensor("yuv").unwrap();
    assert_eq!(yuv.shape(), [10, HEIGHT * 3 / 2, WIDTH]);
    yuv.data().chunks_exact(HEIGHT * WIDTH * 3 / 2).map(<[u8]>::to_vec).collect()
}

/// BT.601, limited range, chroma of the pixel's block.
fn rgb_of(yuv: &[u8]) -> Vec<u8> {
    let chroma = WIDTH * HEIGHT / 4;
    let (luma, rest) = yuv.split_at(WIDTH * HEIGHT);
    let mut out = Vec::new();
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let at = y / 2 * (WIDTH / 2) + x / 2;
            let l = (f64::from(luma[y * WIDTH + x]) - 16.0) * 255.0 / 219.0;
            let cb = (f64::from(rest[at]) - 128.0) * 255.0 / 224.0;
            let cr = (f64::from(rest[chroma + at]) - 128.0) * 255.0 / 224.0;
            let channels = [l + 1.402 * cr, l - 0.344_136 * cb - 0.714_136 * cr, l + 1.772 * cb];
            out.extend(channels.map(|c| c.round().clamp(0.0, 255.0) as u8));
        }
    }
    out
}

#[test]
fn frames_are_those_that_ffmpeg_decodes_in_the_order_of_showing() {
    // The clip is of the High profile, with bidirectional frames, so that it is stored in another order.
    let clip = decode_video("video", &movie(), &every_frame(), &limits()).unwrap();
    let golden = decoded_by_ffmpeg();
    assert_eq!(clip.frames().len(), golden.len());
    for (i, (frame, yuv)) in clip.frames().iter().zip(&golden).enumerate() {
        assert_eq!((frame.width() as usize, frame.height() as usize), (WIDTH, HEIGHT));
        let worst = frame.rgb().iter().zip(rgb_of(yuv)).map(|(a, b)| a.abs_diff(b)).max();
        assert!(worst <= Some(1), "frame {i}: {worst:?}");
    }
    assert_eq!(clip.fps(), 5.0);
}

#[test]
fn frames_are_chosen_by_the_files_rate() {
    let settings = released().video;
    let all = decode_video("video", &movie(), &every_frame(), &limits()).unwrap();
    let some = decode_video("video", &movie(), &settings, &limits()).unwrap();
    // Two seconds at two frames a second.
    assert_eq!(some.times(), [0.0, 3.0 / 5.0, 6.0 / 5.0, 9.0 / 5.0]);
    for (kept, index) in some.frames().iter().zip([0, 3, 6, 9]) {
        assert_eq!(kept, &all.frames()[index]);
    }
    let size = video_size("video", &movie(), &settings, &limits()).unwrap();
    assert_eq!(size, MediaSize::Video { frames: 4, width: 48, height: 32 });
}

/// The movie with something overwritten after a box's name.
fn patched(kind: &[u8; 4], offset: usize, bytes: &[u8]) -> Vec<u8> {
    let mut movie = movie();
    let at = movie.windows(4).position(|w| w == kind).unwrap() + 4 + offset;
    movie[at..at + bytes.len()].copy_from_slice(bytes);
    movie
}

#[test]
fn frames_are_turned_as_the_header_says() {
    let straight = decode_video("video", &movie(), &every_frame(), &limits()).unwrap();
    let one = 1i32 << 16;
    // The first five numbers of the matrix, after 36 bytes.
    let matrix = |m: [i32; 5]| patched(b"tkhd", 40, &m.map(i32::to_be_bytes).concat());
    let quarter = matrix([0, one, 0, -one, 0]);
    let turned = decode_video("video", &quarter, &every_frame(), &limits()).unwrap();
    let size = video_size("video", &quarter, &every_frame(), &limits()).unwrap();
    assert_eq!(size, MediaSize::Video { frames: 10, width: 32, height: 48 });
    let (a, b) = (&straight.frames()[7], &turned.frames()[7]);
    for (x, y) in [(0, 0), (47, 0), (5, 31), (20, 11)] {
        let from = (y * WIDTH + x) * 3;
        let to = (x * HEIGHT + (HEIGHT - 1 - y)) * 3;
        assert_eq!(a.rgb()[from..from + 3], b.rgb()[to..to + 3], "{x} {y}");
    }
    let half = decode_video("video", &matrix([-one, 0, 0, 0, -one]), &every_frame(), &limits()).unwrap();
    assert_eq!(half.frames()[7].rgb()[..3], a.rgb()[(WIDTH * HEIGHT - 1) * 3..]);
}

fn refused(movie: &[u8]) -> Error {
    let error = decode_video("videos[0]", movie, &every_frame(), &limits()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("videos[0]") || matches!(error, Error::Unsupported { .. }), "{text}");
    // Headers are enough to find most of it; never the other way round.
    if video_size("videos[0]", movie, &every_frame(), &limits()).is_err() {
        assert!(!text.contains("H.264: "), "{text}");
    }
    error
}

/// The movie with its last box within `moov` renamed to what announces fragments.
fn fragmented() -> Vec<u8> {
    let mut movie = movie();
    let at = movie.windows(4).position(|w| w == b"udta").unwrap();
    movie[at..at + 4].copy_from_slice(b"mvex");
    movie
}

#[test]
fn other_kinds_of_video_are_named_with_what_is_supported() {
    for (movie, said) in [
        (patched(b"stsd", 12, b"hvc1"), "MP4 with codec hvc1"),
        (patched(b"stsd", 12, b"av01"), "MP4 with codec av01"),
        (fragmented(), "fragmented MP4"),
        (b"\x1a\x45\xdf\xa3webm".to_vec(), "Matroska or WebM"),
    ] {
        match refused(&movie) {
            Error::Unsupported { need, .. } => {
                assert!(need.contains(said) && need.contains("H.264 in an unfragmented MP4"), "{need}");
            }
            other => panic!("{said}: {other}"),
        }
    }
    let error = picture_size("images[0]", &movie(), &limits()).unwrap_err().to_string();
    assert!(error.contains("MP4 found, a video"), "{error}");
}

#[test]
fn hostile_tables_are_refused_before_lists_are_built() {
    let huge = u32::MAX.to_be_bytes();
    // Samples of one size, four thousand million of them.
    let count = patched(b"stsz", 4, &[[0, 0, 0, 1], huge].concat());
    match refused(&count) {
        Error::TooLarge { what, actual, limit } => {
            assert_eq!((what.as_str(), actual, limit), ("frames of videos[0]", 0xffff_ffff, 16_384));
        }
        other => panic!("{other}"),
    }
    for (movie, said) in [
        (patched(b"hdlr", 8, b"soun"), "0 frames"),
        (patched(b"stsz", 8, &huge), "damaged MP4"),
        (patched(b"stts", 8, &huge), "damaged MP4"),
        (patched(b"stts", 12, &[0; 4]), "frame rate inf"),
        (patched(b"mdhd", 12, &[0; 4]), "frame rate 0"),
        (patched(b"stco", 8, &huge), "frame 0 is outside"),
        (patched(b"stsc", 12, &[0; 4]), "10 frames announced, 0 found"),
        (patched(b"stsz", 12, &huge), "frame 0 is outside"),
        (patched(b"trak", 0, &huge), "box tkhd"),
        (patched(b"avcC", 0, &[9]), "box avcC"),
    ] {
        let error = refused(&movie);
        assert!(matches!(error, Error::InvalidRequest { .. }), "{said}: {error}");
        assert!(error.to_string().contains(said), "{said}: {error}");
    }
    let mut small = limits();
    small.frames = 9;
    let error = decode_video("video", &movie(), &every_frame(), &small).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 9, actual: 10, .. }), "{error}");
    small.frames = 10;
    small.video_pixels = 15_359;
    let error = decode_video("video", &movie(), &every_frame(), &small).unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 15_359, actual: 15_360, .. }), "{error}");
}

#[test]
fn boxes_in_boxes_without_end_do_not_exhaust_the_stack() {
    let mut nested = b"\0\0\0\x08ftyp".to_vec();
    let kinds = [b"moov", b"trak", b"mdia", b"minf", b"stbl", b"stsd", b"avc1"];
    let levels = 200_000u32;
    for level in 0..levels {
        nested.extend(((levels - level) * 8).to_be_bytes());
        nested.extend(kinds[level as usize % kinds.len()]);
    }
    assert!(matches!(refused(&nested), Error::InvalidRequest { .. }));
}

#[test]
fn a_cut_movie_is_refused_wherever_it_ends() {
    let whole = movie();
    for length in 0..whole.len() - 8 {
        let cut = decode_video("video", &whole[..length], &every_frame(), &limits());
        assert!(cut.is_err(), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn lost_frames_are_noticed() {
    // The last sample is emptied: its frame is announced and not there.
    let mut sizes = movie();
    let at = sizes.windows(4).position(|w| w == b"stsz").unwrap() + 4 + 12 + 9 * 4;
    sizes[at..at + 4].copy_from_slice(&[0; 4]);
    let error = refused(&sizes);
    assert!(error.to_string().contains("10 frames announced, 9 found"), "{error}");
}
