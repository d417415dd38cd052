//! Sizes, grids, sampling and pixel values of the reference.

use dikast_core::media::{
    Clip, Grid, Media, MediaSize, Picture, ProcessorConfig, VideoSettings, decode_picture,
};
use safetensors::SafeTensors;
use serde_json::Value;

use crate::fixture::{bytes, clip, floats, integers, json, limits, released, tiny};

fn number(value: &Value) -> usize {
    value.as_u64().unwrap() as usize
}

fn grid(value: &Value) -> Grid {
    let [t, h, w] = [0, 1, 2].map(|i| number(&value[i]));
    Grid { t, h, w }
}

#[test]
fn pictures_get_the_sizes_grids_and_tokens_of_the_reference() {
    let (config, table) = (released(), json("golden/preprocess.json"));
    let rows = table["images"].as_array().unwrap();
    assert_eq!(rows.len(), 20);
    for row in rows {
        let size =
            MediaSize::Image { width: number(&row["width"]) as u32, height: number(&row["height"]) as u32 };
        let plan = config.plan("image", &size, &limits()).unwrap();
        assert_eq!([plan.height, plan.width], [0, 1].map(|i| number(&row["resized"][i])), "{row}");
        assert_eq!(plan.grid, grid(&row["grid_thw"]), "{row}");
        assert_eq!(plan.tokens, number(&row["tokens"]), "{row}");
    }
}

#[test]
fn videos_get_the_sizes_grids_and_tokens_of_the_reference() {
    let table = json("golden/preprocess.json");
    let rows = table["videos"].as_array().unwrap();
    assert_eq!(rows.len(), 10);
    // The longest row keeps more pixels than the default allows.
    let mut wide = limits();
    wide.clip_pixels = 1 << 31;
    for capped in [false, true] {
        let mut config = released();
        config.video.cap_pixels_per_frame = capped;
        for row in rows {
            let expected = &row[if capped { "capped" } else { "uncapped" }];
            let size = MediaSize::Video {
                frames: number(&row["frames"]),
                width: number(&row["width"]) as u32,
                height: number(&row["height"]) as u32,
            };
            let plan = config.plan("video", &size, &wide).unwrap();
            assert_eq!([plan.height, plan.width], [0, 1].map(|i| number(&expected["resized"][i])), "{row}");
            assert_eq!(plan.grid, grid(&expected["grid_thw"]), "{row}");
            assert_eq!(plan.tokens, number(&expected["tokens"]), "{row}");
            assert_eq!(
                plan.grid.tokens_per_frame(config.merge),
                number(&expected["tokens_per_frame_pair"]),
                "{row}"
            );
        }
    }
}

/// Times of the pairs of the chosen frames, by way of the clip that keeps them.
fn pair_times(settings: &VideoSettings, config: &ProcessorConfig, total: usize, fps: f64) -> Vec<f64> {
    let pixel = Picture::new(1, 1, vec![0; 3]).unwrap();
    let chosen = settings.choose(total, fps);
    let times: Vec<f64> = chosen.iter().map(|&i| i as f64 / fps).collect();
    let clip = Clip::timed(vec![pixel; chosen.len()], times, fps).unwrap();
    config.patches(&Media::Video(clip)).unwrap().timestamps
}

#[test]
fn frames_are_chosen_and_timed_as_the_reference_does() {
    let (config, table) = (released(), json("golden/preprocess.json"));
    let rows = table["frame_sampling"].as_array().unwrap();
    assert_eq!(rows.len(), 8);
    for row in rows {
        let (total, fps) = (number(&row["total_frames"]), row["fps"].as_f64().unwrap());
        let chosen = config.video.choose(total, fps);
        assert_eq!(chosen.len(), number(&row["count"]), "{row}");
        let first: Vec<usize> = row["indices"].as_array().unwrap().iter().map(number).collect();
        assert_eq!(chosen[..first.len()], first[..], "{row}");
        assert_eq!(chosen.last(), Some(&number(&row["last_index"])), "{row}");

        let times = pair_times(&config.video, &config, total, fps);
        // Rust formats the exact binary value, as the reference does.
        let texts: Vec<String> = times.iter().map(|t| format!("<{t:.1} seconds>")).collect();
        let first: Vec<&str> =
            row["first_timestamps"].as_array().unwrap().iter().map(|t| t.as_str().unwrap()).collect();
        assert_eq!(texts[..first.len()], first[..], "{row}");
        assert_eq!(texts.last().map(String::as_str), row["last_timestamp"].as_str(), "{row}");
    }
}

#[test]
fn a_clip_keeps_the_chosen_frames_and_their_times() {
    let settings = released().video;
    let frames: Vec<_> = (0..30u8).map(|i| Picture::new(1, 1, vec![i; 3]).unwrap()).collect();
    let sampled = Clip::new(frames, 30.0).unwrap().sampled(&settings);
    let kept: Vec<u8> = sampled.frames().iter().map(|f| f.rgb()[0]).collect();
    assert_eq!(kept, [0, 10, 19, 29]);
    assert_eq!(sampled.times(), [0, 10, 19, 29].map(|i| f64::from(i) / 30.0));
}

/// All values equal, to the bit.
#[track_caller]
fn same_bits(ours: &[f32], golden: &[f32]) {
    assert_eq!(ours.len(), golden.len());
    let different = ours.iter().zip(golden).filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    let worst = ours.iter().zip(golden).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert_eq!(different, 0, "of {}; the largest difference is {worst}", ours.len());
}

#[test]
fn pixel_values_of_every_golden_are_equal_to_the_bit() {
    let config = tiny();
    let file = bytes("golden/media.safetensors");
    let goldens = SafeTensors::deserialize(&file).unwrap();
    let mut compared = 0;
    for record in json("golden/records.json").as_array().unwrap() {
        let id = record["id"].as_str().unwrap();
        let list = |key: &str| record[key].as_array().cloned().unwrap_or_default();
        let pictures: Vec<Media> = list("image_files")
            .iter()
            .map(|file| bytes(&format!("media/{}", file.as_str().unwrap())))
            .map(|bytes| Media::Image(decode_picture("image", &bytes, &limits()).unwrap()))
            .collect();
        let clips: Vec<Media> = list("video_files")
            .iter()
            .map(|v| Media::Video(clip(v["file"].as_str().unwrap(), v["fps"].as_f64().unwrap())))
            .collect();
        for (media, kind, pixels) in
            [(pictures, "image", "pixel_values"), (clips, "video", "pixel_values_videos")]
        {
            if media.is_empty() {
                continue;
            }
            let (mut values, mut grids) = (Vec::new(), Vec::new());
            for one in &media {
                let patches = config.patches(one).unwrap();
                let plan = config.plan(kind, &one.size(), &limits()).unwrap();
                assert_eq!(plan.grid, patches.grid);
                assert_eq!(patches.kind, one.kind());
                let Grid { t, h, w } = patches.grid;
                assert_eq!(patches.timestamps.len(), if kind == "video" { t } else { 0 });
                assert_eq!(patches.values.len(), patches.grid.patches() * config.patch_values());
                grids.extend([t, h, w]);
                values.extend(patches.values);
            }
            let golden = goldens.tensor(&format!("{id}.{kind}_grid_thw")).unwrap();
            assert_eq!(grids, integers(&golden), "{id}");
            // The values of one picture are stored once.
            let stored = if (id, kind) == ("image_and_video", "image") { "image_one" } else { id };
            same_bits(&values, &floats(&goldens.tensor(&format!("{stored}.{pixels}")).unwrap()));
            compared += media.len();
        }
    }
    assert_eq!(compared, 6);
}
