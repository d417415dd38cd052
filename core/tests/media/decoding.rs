//! Files → pixels: formats, colours, orientation, animations.

use dikast_core::media::{Format, Media, MediaSize, decode_picture, decode_video, picture_size, video_size};
use image::{DynamicImage, ImageBuffer, ImageFormat, Luma, LumaA, Rgb, Rgba};

use crate::fixture::{
    animated_webp, apng, bytes, chunks, encoded, every_format, gif, gradient, limits, png, tiny,
};

fn rgb(bytes: &[u8]) -> Vec<u8> {
    decode_picture("image", bytes, &limits()).unwrap().rgb().to_vec()
}

#[test]
fn every_format_decodes_to_its_size() {
    for (name, bytes) in every_format() {
        let picture = decode_picture("image", &bytes, &limits()).unwrap();
        assert_eq!((picture.width(), picture.height()), (24, 16), "{name}");
        assert_eq!(picture_size("image", &bytes, &limits()).unwrap(), (24, 16), "{name}");
        assert_eq!(Format::of("image", &bytes).unwrap().name(), name);
    }
}

#[test]
fn lossless_formats_keep_every_pixel_and_jpeg_comes_close() {
    let picture = gradient(40, 30);
    let expected = DynamicImage::ImageRgba8(picture.clone()).into_rgb8().into_raw();
    for format in [ImageFormat::Png, ImageFormat::WebP] {
        assert_eq!(rgb(&encoded(picture.clone(), format)), expected);
    }
    let smooth = image::RgbImage::from_fn(40, 30, |x, y| Rgb([x as u8 * 3, y as u8 * 4, 90]));
    let jpeg = rgb(&encoded(smooth.clone(), ImageFormat::Jpeg));
    let worst = jpeg.iter().zip(smooth.as_raw()).map(|(a, b)| a.abs_diff(*b)).max().unwrap();
    assert!(worst < 24, "{worst}");
}

#[test]
fn colours_become_rgb_as_pillow_converts_them() {
    let one = |picture: DynamicImage| rgb(&encoded(picture, ImageFormat::Png));
    let gray = ImageBuffer::from_pixel(1, 1, Luma([7u8]));
    assert_eq!(one(gray.into()), [7, 7, 7]);
    let gray_alpha = ImageBuffer::from_pixel(1, 1, LumaA([7u8, 0]));
    assert_eq!(one(gray_alpha.into()), [7, 7, 7]);
    // Alpha is dropped, not blended.
    let clear = ImageBuffer::from_pixel(1, 1, Rgba([10u8, 20, 30, 0]));
    assert_eq!(one(clear.into()), [10, 20, 30]);
    // Of 16 bits the high byte is kept, not the nearest.
    let deep = ImageBuffer::from_pixel(1, 1, Rgb([0x12ffu16, 0x80ff, 0xff00]));
    assert_eq!(one(deep.into()), [0x12, 0x80, 0xff]);
    let deep_alpha = ImageBuffer::from_pixel(1, 1, Rgba([0x12ffu16, 0x80ff, 0xff00, 0x8000]));
    assert_eq!(one(deep_alpha.into()), [0x12, 0x80, 0xff]);
    let deep_gray = ImageBuffer::from_pixel(1, 1, Luma([0x1280u16]));
    assert_eq!(one(deep_gray.into()), [0x12; 3]);
    let deep_gray_alpha = ImageBuffer::from_pixel(1, 1, LumaA([0x12ffu16, 0x80ff]));
    assert_eq!(one(deep_gray_alpha.into()), [0x12; 3]);
}

/// A PNG of one row with the given header, palette chunks and uncompressed pixels.
fn raw_png(width: u32, depth: u8, color: u8, before: &[([u8; 4], Vec<u8>)], row: &[u8]) -> Vec<u8> {
    let mut header = [width.to_be_bytes(), 1u32.to_be_bytes()].concat();
    header.extend([depth, color, 0, 0, 0]);
    // zlib: one stored block and its checksum.
    let data = [&[0][..], row].concat();
    let (mut a, mut b) = (1u32, 0u32);
    for byte in &data {
        a = (a + u32::from(*byte)) % 65521;
        b = (b + a) % 65521;
    }
    let length = data.len() as u16;
    let mut stream = vec![0x78, 0x01, 1];
    stream.extend(length.to_le_bytes());
    stream.extend((!length).to_le_bytes());
    stream.extend(data);
    stream.extend((b << 16 | a).to_be_bytes());
    let mut all = vec![(*b"IHDR", header)];
    all.extend_from_slice(before);
    all.extend([(*b"IDAT", stream), (*b"IEND", Vec::new())]);
    png(&all)
}

#[test]
fn palettes_and_small_depths_are_looked_up_and_scaled() {
    let palette = [(*b"PLTE", vec![10, 20, 30, 40, 50, 60]), (*b"tRNS", vec![0, 255])];
    assert_eq!(rgb(&raw_png(2, 8, 3, &palette, &[0, 1])), [10, 20, 30, 40, 50, 60]);
    assert_eq!(rgb(&raw_png(2, 4, 0, &[], &[0x1f])), [17, 17, 17, 255, 255, 255]);
    assert_eq!(rgb(&raw_png(2, 1, 0, &[], &[0x40])), [0, 0, 0, 255, 255, 255]);
}

/// EXIF data that holds nothing but an orientation.
fn exif(orientation: u16) -> Vec<u8> {
    let mut out = b"MM\0\x2a\0\0\0\x08\0\x01".to_vec();
    out.extend(b"\x01\x12\0\x03\0\0\0\x01");
    out.extend(orientation.to_be_bytes());
    out.extend([0; 6]);
    out
}

#[test]
fn an_exif_orientation_is_applied() {
    let picture = image::RgbImage::from_fn(3, 2, |x, y| Rgb([(10 * x + y) as u8, 0, 0]));
    let parts = chunks(&encoded(picture, ImageFormat::Png));
    let turned = |orientation: u16| {
        let mut parts = parts.clone();
        parts.insert(1, (*b"eXIf", exif(orientation)));
        let file = png(&parts);
        let picture = decode_picture("image", &file, &limits()).unwrap();
        let size = picture_size("image", &file, &limits()).unwrap();
        assert_eq!(size, (picture.width(), picture.height()));
        (size, picture.rgb().iter().step_by(3).copied().collect::<Vec<u8>>())
    };
    let straight = ((3, 2), vec![0, 10, 20, 1, 11, 21]);
    assert_eq!(turned(1), straight);
    assert_eq!(turned(99), straight);
    assert_eq!(turned(3), ((3, 2), vec![21, 11, 1, 20, 10, 0]));
    // 6: the camera was turned; shown rotated clockwise.
    assert_eq!(turned(6), ((2, 3), vec![1, 0, 11, 10, 21, 20]));
}

#[test]
fn an_animation_is_its_first_picture_when_a_picture_is_asked_for() {
    for file in [gif(6, 4, &[100; 3]), apng(6, 4, &[100; 3]), animated_webp(6, 4, &[100; 3])] {
        assert_eq!(rgb(&file), vec![0; 72]);
    }
}

#[test]
fn animations_are_videos_with_their_delays() {
    let (settings, config) = (tiny().video, tiny());
    let files = [
        (Format::Gif, gif(6, 4, &[500, 250, 250, 1000, 0, 500])),
        (Format::Png, apng(6, 4, &[500, 250, 250, 1000, 0, 500])),
        (Format::WebP, animated_webp(6, 4, &[500, 250, 250, 1000, 0, 500])),
    ];
    for (format, file) in files {
        let clip = decode_video("video", &file, &settings, &limits()).unwrap();
        // 2.6 s at two frames a second are five, of six.
        let grays: Vec<u8> = clip.frames().iter().map(|f| f.rgb()[0]).collect();
        assert_eq!(grays, [0, 20, 40, 80, 100], "{format}");
        let times = [0.0, 0.5, 0.75, 2.0, 2.1];
        assert!(clip.times().iter().zip(times).all(|(a, b)| (a - b).abs() < 1e-9), "{:?}", clip.times());
        assert!((clip.fps() - 6.0 / 2.6).abs() < 1e-9, "{}", clip.fps());
        let size = video_size("video", &file, &settings, &limits()).unwrap();
        assert_eq!(size, MediaSize::Video { frames: 5, width: 6, height: 4 });
        let media = Media::Video(clip);
        assert_eq!(media.size(), size);
        assert_eq!(config.patches(&media).unwrap().grid.t, 3);
    }
}

#[test]
fn golden_pictures_have_the_sizes_in_their_names() {
    for (width, height) in [(20, 24), (75, 130), (96, 64)] {
        let file = bytes(&format!("media/img_{width}x{height}.png"));
        assert_eq!(picture_size("image", &file, &limits()).unwrap(), (width, height));
    }
}
