//! `processor_config.json`: what is read, and what is refused by name.

use dikast_core::Error;
use dikast_core::media::{Normalisation, ProcessorConfig};
use serde_json::{Value, json};

use crate::fixture;

fn with(change: impl FnOnce(&mut Value)) -> dikast_core::Result<ProcessorConfig> {
    let mut file = fixture::json("model/processor_config.json");
    change(&mut file);
    ProcessorConfig::from_json(file.to_string().as_bytes())
}

#[test]
fn the_tiny_checkpoint_reads_as_it_is_written() {
    let config = fixture::tiny();
    assert_eq!((config.patch, config.temporal, config.merge), (16, 2, 2));
    assert_eq!(config.patch_values(), 1536);
    assert_eq!((config.image.min_pixels, config.image.max_pixels), (4_096, 16_384));
    assert_eq!((config.video.min_pixels, config.video.max_pixels), (4_096, 65_536));
    let half = Normalisation { mean: [0.5; 3], std: [0.5; 3], rescale: 1.0 / 255.0 };
    assert_eq!((&config.image.normalisation, &config.video.normalisation), (&half, &half));
    let video = &config.video;
    assert_eq!((video.sample, video.fps, video.min_frames, video.max_frames), (true, 2.0, 4, 16));
    assert_eq!((video.cap_pixels_per_frame, video.max_frame_tokens), (false, 768));
}

#[test]
fn older_spellings_and_neutral_keys_are_understood() {
    let config = with(|file| {
        let image = file["image_processor"].as_object_mut().unwrap();
        image.remove("size");
        image.insert("min_pixels".into(), 1024.into());
        image.insert("max_pixels".into(), 2048.into());
        image.insert("image_processor_type".into(), "Qwen2VLImageProcessorFast".into());
        image.insert("return_tensors".into(), "pt".into());
        image.insert("crop_size".into(), json!({"height": 1}));
        image.insert("do_center_crop".into(), Value::Null);
        file["video_processor"]["num_frames"] = Value::Null;
    })
    .unwrap();
    assert_eq!((config.image.min_pixels, config.image.max_pixels), (1024, 2048));
}

#[test]
fn what_this_processor_does_not_do_is_refused_by_name() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 12] = [
        (|f| f["processor_class"] = "LlavaProcessor".into(), "processor_class \"LlavaProcessor\""),
        (|f| f["audio_processor"] = json!({}), "audio_processor"),
        (
            |f| f["image_processor"]["image_processor_type"] = "CLIPImageProcessor".into(),
            "CLIPImageProcessor",
        ),
        (|f| f["image_processor"]["resample"] = 2.into(), "image_processor.resample 2 (supported: 3)"),
        (|f| f["image_processor"]["do_resize"] = false.into(), "image_processor.do_resize false"),
        (|f| f["image_processor"]["sharpen"] = 1.into(), "image_processor.sharpen 1 (unknown)"),
        (|f| f["video_processor"]["num_frames"] = 8.into(), "video_processor.num_frames 8 (unknown)"),
        (|f| f["video_processor"]["do_center_crop"] = true.into(), "video_processor.do_center_crop true"),
        (|f| f["video_processor"]["do_normalize"] = "yes".into(), "video_processor.do_normalize"),
        (|f| f["video_processor"]["size"]["height"] = 64.into(), "video_processor.size.height 64"),
        (|f| f["video_processor"]["size"]["resample"] = 3.into(), "video_processor.size.resample 3"),
        (
            |f| f["video_processor"]["video_processor_type"] = "Qwen2VLVideoProcessor".into(),
            "Qwen2VLVideoProcessor",
        ),
    ];
    for (change, said) in cases {
        match with(change) {
            Err(Error::Unsupported { need, .. }) => assert!(need.contains(said), "{need}"),
            other => panic!("{said}: {other:?}"),
        }
    }
}

#[test]
fn wrong_values_are_refused_with_what_is_allowed() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 16] = [
        (|f| *f = json!([1]), "an array of 1"),
        (|f| f["image_processor"] = 3.into(), "image_processor"),
        (|f| f["video_processor"] = Value::Null, "video_processor"),
        (|f| f["image_processor"]["patch_size"] = 0.into(), "image_processor.patch_size"),
        (|f| f["image_processor"]["patch_size"] = 1_000_000.into(), "image_processor.patch_size"),
        (|f| f["image_processor"]["patch_size"] = 14.into(), "14, as in image_processor"),
        (|f| f["image_processor"]["merge_size"] = Value::Null, "image_processor.merge_size"),
        (|f| f["image_processor"]["image_mean"] = json!([0.5, 0.5]), "image_processor.image_mean"),
        (|f| f["image_processor"]["image_std"] = json!([0.5, 0.0, 0.5]), "image_processor.image_std"),
        (|f| f["image_processor"]["rescale_factor"] = 0.into(), "image_processor.rescale_factor"),
        (|f| f["image_processor"]["size"]["longest_edge"] = 1.into(), "image_processor.size.longest_edge"),
        (
            |f| f["video_processor"]["size"]["shortest_edge"] = (-1).into(),
            "video_processor.size.shortest_edge",
        ),
        (|f| f["video_processor"]["fps"] = 0.into(), "video_processor.fps"),
        (|f| f["video_processor"]["min_frames"] = 17.into(), "at least min_frames 17"),
        (|f| f["video_processor"]["max_frames"] = 2.5.into(), "video_processor.max_frames"),
        (|f| f["video_processor"]["cap_pixels_per_frame"] = 1.into(), "video_processor.cap_pixels_per_frame"),
    ];
    for (change, said) in cases {
        match with(change) {
            Err(error @ Error::Checkpoint { .. }) => {
                let text = error.to_string();
                assert!(text.contains(said) && text.contains("processor_config.json"), "{said}: {text}");
            }
            other => panic!("{said}: {other:?}"),
        }
    }
}
