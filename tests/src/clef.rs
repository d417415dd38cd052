//! Goldens of the published CLEF code: records, hidden states, head internals, logits.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use dikast_core::backend::Backend;
use dikast_core::checkpoint::ModelFiles;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::media::{Clip, Media, MediaLimits, Picture, decode_picture};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::request::{Confidence, DecideRequest, SpecialTokens, StateTruncation};
use dikast_core::tokens::clef::{MediaLayout, VideoGrid};
use safetensors::SafeTensors;
use serde::Deserialize;

/// What the reference computed for a record.
#[derive(Debug, Clone, Deserialize)]
pub struct Expected {
    /// Name of the record.
    pub id: String,
    /// Token ids.
    pub input_ids: Vec<u32>,
    /// One entry a question, in request order.
    pub questions: Vec<Question>,
}

/// What the reference computed for a question.
#[derive(Debug, Clone, Deserialize)]
pub struct Question {
    /// Token rows of the instructions.
    pub question_span: [u32; 2],
    /// Token rows of each option, in the order in which the model reads them.
    pub option_spans: Vec<[u32; 2]>,
    /// Logits in the same order.
    pub logits: Vec<f32>,
    /// Probabilities in the same order.
    pub probabilities: Vec<f32>,
}

/// A record with its expected values.
#[derive(Debug)]
pub struct Case {
    /// What the reference computed.
    pub expected: Expected,
    /// The request.
    pub request: DecideRequest,
    /// Its media, decoded: pictures, then videos.
    pub media: Vec<Media>,
}

/// The folder of the fixture.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/clef-tiny")
}

/// A golden file of tensors, by name: shape and values.
pub fn tensors(file: &str) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let path = folder().join("golden").join(file);
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let all = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    all.tensors()
        .into_iter()
        .map(|(name, view)| {
            let values = match view.dtype() {
                safetensors::Dtype::F32 => view
                    .data()
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
                    .collect(),
                safetensors::Dtype::I32 => {
                    let int = |b: &[u8]| i32::from_le_bytes([b[0], b[1], b[2], b[3]]);
                    view.data().chunks_exact(4).map(|b| int(b) as f32).collect()
                }
                safetensors::Dtype::I64 => {
                    let int = |b: &[u8]| i64::from_le_bytes(b.try_into().expect("eight bytes"));
                    view.data().chunks_exact(8).map(|b| int(b) as f32).collect()
                }
                safetensors::Dtype::I8 => view.data().iter().map(|&b| f32::from(b.cast_signed())).collect(),
                safetensors::Dtype::U8 => view.data().iter().map(|&b| f32::from(b)).collect(),
                other => panic!("{name} is stored as {other:?}"),
            };
            (name, (view.shape().to_vec(), values))
        })
        .collect()
}

/// The model on a backend.
pub fn engine<B: Backend>(backend: B, model: &Path, options: ClefOptions) -> Engine<B, Clef> {
    let files = ModelFiles::open(model).unwrap_or_else(|e| panic!("{}: {e}", model.display()));
    engine_of(backend, &files, options)
}

/// The model of some files on a backend.
pub fn engine_of<B: Backend>(backend: B, files: &ModelFiles, options: ClefOptions) -> Engine<B, Clef> {
    let model = Clef::load_with(files, options).unwrap_or_else(|e| panic!("{e}"));
    let options = EngineOptions { max_tokens: 16_384, batch_tokens: 16_384, ..EngineOptions::default() };
    Engine::with_model(backend, model, options, &mut |_, _| {}).unwrap_or_else(|e| panic!("{e}"))
}

/// All records, as the reference read them: special tokens live, states cut where their limits say so.
pub fn cases() -> Vec<Case> {
    cases_in(&folder())
}

/// The same from another copy of the fixture.
pub fn cases_in(folder: &Path) -> Vec<Case> {
    let read = |name: &str| {
        let path = folder.join("golden").join(name);
        std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    let expected: Vec<Expected> = serde_json::from_slice(&read("expected.json")).expect("expected.json");
    let records: Vec<serde_json::Value> =
        serde_json::from_slice(&read("records.json")).expect("records.json");
    assert_eq!(expected.len(), records.len());
    expected.into_iter().zip(&records).map(|(expected, record)| case(folder, expected, record)).collect()
}

fn case(folder: &Path, expected: Expected, record: &serde_json::Value) -> Case {
    assert_eq!(record["id"], expected.id.as_str());
    let body = serde_json::json!({"state": record["state"], "questions": record["questions"]});
    let mut request =
        DecideRequest::from_json(body.to_string()).unwrap_or_else(|e| panic!("{}: {e}", expected.id));
    request.truncation = StateTruncation::End;
    request.special_tokens = SpecialTokens::Live;
    request.confidence = Confidence::Max;
    let limit = |key: &str| record["limits"][key].as_u64().map(|n| n as usize);
    request.max_tokens = limit("max_length");
    request.max_state_tokens = limit("max_state_tokens");
    let list = |key: &str| record[key].as_array().cloned().unwrap_or_default();
    let mut media = Vec::new();
    for file in list("image_files") {
        let bytes =
            std::fs::read(folder.join("media").join(file.as_str().expect("a name"))).expect("a picture");
        media
            .push(Media::Image(decode_picture("image", &bytes, &MediaLimits::default()).expect("a picture")));
        request.images.push(bytes);
    }
    for video in list("video_files") {
        media.push(Media::Video(clip(folder, &video)));
        let frames = vec![Vec::new()];
        request.videos.push(dikast_core::request::Video::Frames { frames, fps: 1.0 });
    }
    Case { expected, request, media }
}

/// Raw frames `[T, H, W, 3]`.
fn clip(folder: &Path, video: &serde_json::Value) -> Clip {
    let path = folder.join("media").join(video["file"].as_str().expect("a name"));
    let bytes = std::fs::read(path).expect("frames");
    let all = SafeTensors::deserialize(&bytes).expect("a safetensors file");
    let frames = all.tensor("frames").expect("frames");
    let [_, height, width, 3] = frames.shape() else { panic!("frames are {:?}", frames.shape()) };
    let pictures = frames
        .data()
        .chunks(height * width * 3)
        .map(|rgb| Picture::new(*width as u32, *height as u32, rgb.to_vec()).expect("a frame"));
    Clip::new(pictures.collect(), video["fps"].as_f64().expect("a rate")).expect("a clip")
}

/// A record's sequence.
pub fn sequence<B: Backend>(engine: &Engine<B, Clef>, case: &Case) -> ClefSequence {
    let processor = engine.model().processor();
    let media: Vec<_> = case.media.iter().map(|m| processor.patches(m).expect("patches")).collect();
    let (pictures, videos) = media.split_at(case.request.images.len());
    let grid = |g: dikast_core::media::Grid| [g.t as u32, g.h as u32, g.w as u32];
    let pictures: Vec<_> = pictures.iter().map(|p| grid(p.grid)).collect();
    let videos: Vec<_> =
        videos.iter().map(|v| VideoGrid { grid: grid(v.grid), seconds: v.timestamps.clone() }).collect();
    let layout = MediaLayout { images: &pictures, videos: &videos, ..MediaLayout::default() };
    let record = engine
        .model()
        .prompt()
        .prepare(&case.request, &layout, 16_384)
        .unwrap_or_else(|e| panic!("{}: {e}", case.expected.id));
    ClefSequence { record, media }
}

/// The largest errors of logits and of probabilities over all records; not a number where a logit is none.
pub fn worst(cases: &[Case], found: &[Vec<f32>]) -> (f32, f64) {
    let (mut logits, mut probabilities) = (0.0_f32, 0.0_f64);
    for (case, found) in cases.iter().zip(found) {
        if found.iter().any(|l| !l.is_finite()) {
            return (f32::NAN, f64::NAN);
        }
        let mut rest = found.as_slice();
        for question in &case.expected.questions {
            let (own, tail) = rest.split_at(question.logits.len());
            rest = tail;
            logits = logits.max(differences(own, &question.logits).0);
            for (p, want) in softmax(own).iter().zip(&question.probabilities) {
                probabilities = probabilities.max((p - f64::from(*want)).abs());
            }
        }
        assert!(rest.is_empty(), "{}: {} logits too many", case.expected.id, rest.len());
    }
    (logits, probabilities)
}

/// Probabilities of one question.
pub fn softmax(logits: &[f32]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp: Vec<f64> = logits.iter().map(|l| f64::from(l - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.iter().map(|e| e / sum).collect()
}

/// The largest difference of two lists, and the Euclidean one relative to the second.
pub fn differences(found: &[f32], want: &[f32]) -> (f32, f64) {
    assert_eq!(found.len(), want.len());
    let largest = found.iter().zip(want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    let square = |x: f64| x * x;
    let error: f64 = found.iter().zip(want).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let norm: f64 = want.iter().map(|b| square(f64::from(*b))).sum();
    (largest, (error / norm.max(f64::MIN_POSITIVE)).sqrt())
}
