//! Records, grids and expectations of the goldens.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use dikast_core::request::{DecideRequest, Json, Rules, SpecialTokens, StateTruncation, Video};
use dikast_core::tokens::Tokenizer;
use dikast_core::tokens::clef::{
    ClefPrompt, DEFAULT_MAX_TOKENS, MediaLayout, Record, VideoGrid, pair_seconds,
};
use safetensors::SafeTensors;
use serde_json::Value;

pub(crate) static PROMPT: LazyLock<ClefPrompt> = LazyLock::new(|| {
    let tokenizer = Tokenizer::from_bytes(&std::fs::read(path("clef-tiny/model/tokenizer.json")).unwrap());
    ClefPrompt::new(tokenizer.unwrap()).unwrap()
});

/// The goldens that `serde_json` cannot spoil.
pub(crate) static EXPECTED: LazyLock<Vec<Value>> = LazyLock::new(|| {
    serde_json::from_slice(&std::fs::read(path("clef-tiny/golden/expected.json")).unwrap()).unwrap()
});

static MEDIA: LazyLock<Vec<u8>> =
    LazyLock::new(|| std::fs::read(path("clef-tiny/golden/media.safetensors")).unwrap());

pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/data").join(name)
}

/// A golden file, as this crate reads JSON.
pub(crate) fn golden(name: &str) -> Vec<Json> {
    match Json::parse(std::fs::read(path(&format!("clef-tiny/golden/{name}"))).unwrap()).unwrap() {
        Json::Array(items) => items,
        other => panic!("{other:?}"),
    }
}

/// Whole numbers of a tensor of `media.safetensors`.
pub(crate) fn media_tensor(name: &str) -> Option<Vec<i64>> {
    let file = SafeTensors::deserialize(&MEDIA).unwrap();
    let tensor = file.tensor(name).ok()?;
    Some(tensor.data().chunks_exact(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect())
}

/// A golden record as the reference reads it, with the grids of its media.
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) request: DecideRequest,
    pub(crate) images: Vec<[u32; 3]>,
    pub(crate) videos: Vec<VideoGrid>,
}

impl Case {
    pub(crate) fn new(id: &str, tree: &Json) -> Self {
        let mut request = DecideRequest::from_tree(tree.clone(), &Rules::default()).unwrap();
        request.special_tokens = SpecialTokens::Live;
        if let Some(limits) = tree.get("limits") {
            let limit = |name| limits.get(name).and_then(Json::as_f64).map(|limit| limit as usize);
            request.max_tokens = limit("max_length");
            request.max_state_tokens = limit("max_state_tokens");
            request.truncation = StateTruncation::End;
        }
        let files = |key| match tree.get(key) {
            Some(Json::Array(files)) => files.clone(),
            _ => Vec::new(),
        };
        let grids = |kind: &str| -> Vec<[u32; 3]> {
            let grids = media_tensor(&format!("{id}.{kind}_grid_thw")).unwrap_or_default();
            grids.chunks_exact(3).map(|g| [g[0] as u32, g[1] as u32, g[2] as u32]).collect()
        };
        request.images = files("image_files").iter().map(|_| vec![0]).collect();
        let mut videos = Vec::new();
        for (file, grid) in files("video_files").iter().zip(grids("video")) {
            let fps = file.get("fps").and_then(Json::as_f64).unwrap();
            // The name says how many frames there are: video_5x64x96.
            let name = file.get("file").and_then(Json::as_str).unwrap();
            let frames: u32 = name["video_".len()..].split('x').next().unwrap().parse().unwrap();
            request.videos.push(Video::Frames { frames: vec![vec![0]; frames as usize], fps });
            videos.push(VideoGrid { grid, seconds: pair_seconds(&Vec::from_iter(0..frames), fps) });
        }
        Self { id: id.to_owned(), request, images: grids("image"), videos }
    }

    pub(crate) fn layout(&self) -> MediaLayout<'_> {
        MediaLayout { images: &self.images, videos: &self.videos, ..MediaLayout::default() }
    }

    pub(crate) fn record(&self) -> Record {
        PROMPT.prepare(&self.request, &self.layout(), DEFAULT_MAX_TOKENS).unwrap()
    }
}

/// All 18 golden records.
pub(crate) fn cases() -> Vec<Case> {
    let records = golden("records.json");
    records.iter().map(|tree| Case::new(tree.get("id").and_then(Json::as_str).unwrap(), tree)).collect()
}

pub(crate) fn case(id: &str) -> Case {
    cases().into_iter().find(|case| case.id == id).unwrap()
}

pub(crate) fn expected(id: &str) -> &'static Value {
    EXPECTED.iter().find(|expected| expected["id"] == id).unwrap()
}

/// A request without media, prepared.
pub(crate) fn prepare(request: &DecideRequest) -> dikast_core::Result<Record> {
    PROMPT.prepare(request, &MediaLayout::default(), DEFAULT_MAX_TOKENS)
}
