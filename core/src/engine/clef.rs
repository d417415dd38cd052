//! CLEF requests through the engine: preparation, packing, answers.

use super::{Engine, Model};
use crate::answers::{self, DecideReceipt, Decision};
use crate::backend::{Backend, Batch};
use crate::checkpoint::Weights;
use crate::graph::{Graph, InputKind, Sizes};
use crate::media::{
    Clip, Grid, Media, MediaLimits, Patches, decode_picture, decode_video, frame_lengths, patch_coordinates,
    position_taps,
};
use crate::models::clef::Clef;
use crate::request::{DecideRequest, Video};
use crate::tokens::Span;
use crate::tokens::clef::{MediaLayout, Record, VideoForm, VideoGrid};
use crate::{Error, Result};

/// What a request becomes: one sequence and the patches of its media.
#[derive(Debug, Clone, PartialEq)]
pub struct ClefSequence {
    /// Tokens, positions, and the rows that the head reads.
    pub record: Record,
    /// Patches of the pictures, then of the videos.
    pub media: Vec<Patches>,
}

impl Model for Clef {
    type Sequence = ClefSequence;

    fn graph(&self) -> &Graph {
        self.graph()
    }

    fn weights(&self) -> &Weights {
        self.weights()
    }

    fn pack(&self, sequences: &[&ClefSequence]) -> Result<Batch> {
        let sizes = sizes(sequences);
        let largest = [sizes.tokens, sizes.labels, sizes.option_tokens, sizes.patches].into_iter().max();
        if largest.is_none_or(|n| i32::try_from(n).is_err()) {
            return Err(Error::TooLarge {
                what: "rows of a batch".into(),
                limit: i32::MAX as u64,
                actual: largest.unwrap_or(0) as u64,
            });
        }
        let mut batch = Batch::new(sizes);
        text(&mut batch, sequences);
        schema(&mut batch, sequences);
        media(&mut batch, sequences, self);
        Ok(batch)
    }

    fn outputs(sequence: &ClefSequence) -> usize {
        options(&sequence.record).count()
    }

    fn load(sequence: &ClefSequence) -> usize {
        // A patch goes through a narrower and shallower tower than a token; four of them are one token besides.
        sequence.record.ids.len() + sequence.media.iter().map(|m| m.grid.patches() / 4).sum::<usize>()
    }

    fn full(&self, tokens: usize) -> Sizes {
        let merge = self.config().vision.merge();
        Sizes {
            tokens,
            sequences: tokens.div_ceil(128),
            labels: tokens.div_ceil(16),
            questions: tokens.div_ceil(32),
            option_tokens: tokens,
            patches: tokens.saturating_mul(merge) / 4,
            media_tokens: tokens / 4,
            frames: tokens.div_ceil(64),
            ..Sizes::default()
        }
    }
}

/// Spans of all options of a record.
fn options(record: &Record) -> impl Iterator<Item = Span> {
    record.questions.iter().flat_map(|q| q.options.iter().copied())
}

fn sizes(sequences: &[&ClefSequence]) -> Sizes {
    let sum = |f: &dyn Fn(&ClefSequence) -> usize| sequences.iter().map(|s| f(s)).sum();
    Sizes {
        tokens: sum(&|s| s.record.ids.len()),
        sequences: sequences.len(),
        labels: sum(&|s| options(&s.record).count()),
        questions: sum(&|s| s.record.questions.len()),
        option_tokens: sum(&|s| options(&s.record).map(length).sum()),
        patches: sum(&|s| s.media.iter().map(|m| m.grid.patches()).sum()),
        media_tokens: sum(&|s| s.record.media_rows.len()),
        frames: sum(&|s| s.media.iter().map(|m| frame_lengths(m.grid).len()).sum()),
        ..Sizes::default()
    }
}

fn length(span: Span) -> usize {
    (span.end - span.start) as usize
}

/// Running totals from 0 on, the last one included.
fn offsets(lengths: impl Iterator<Item = usize>) -> Vec<i32> {
    let mut at = 0;
    std::iter::once(0)
        .chain(lengths.map(|length| {
            at += length as i32;
            at
        }))
        .collect()
}

/// Each record with its first row in the batch.
fn placed<'a>(sequences: &'a [&ClefSequence]) -> impl Iterator<Item = (i32, &'a Record)> {
    sequences.iter().scan(0, |at, s| {
        let first = *at;
        *at += s.record.ids.len() as i32;
        Some((first, &s.record))
    })
}

fn text(batch: &mut Batch, sequences: &[&ClefSequence]) {
    let records = || sequences.iter().map(|s| &s.record);
    batch.set(InputKind::TokenIds, records().flat_map(|r| r.ids.iter().map(|&id| id as i32)).collect());
    batch.set(InputKind::SequenceOffsets, offsets(records().map(|r| r.ids.len())));
    batch.set(
        InputKind::TokenPositions,
        records().flat_map(|r| r.positions.iter().flatten().copied()).collect(),
    );
    let last = placed(sequences).map(|(first, r)| first + r.ids.len() as i32 - 1);
    batch.set(InputKind::LastRows, last.collect());
    let media =
        placed(sequences).flat_map(|(first, r)| r.media_rows.iter().map(move |&row| first + row as i32));
    batch.set(InputKind::MediaRows, media.collect());
}

fn schema(batch: &mut Batch, sequences: &[&ClefSequence]) {
    let records = || sequences.iter().map(|s| &s.record);
    let questions = || records().flat_map(|r| &r.questions);
    let at = |first: i32, span: Span| [first + span.start as i32, first + span.end as i32];
    let asked =
        placed(sequences).flat_map(|(first, r)| r.questions.iter().flat_map(move |q| at(first, q.span)));
    batch.set(InputKind::QuestionSpans, asked.collect());
    let spans = placed(sequences).flat_map(|(first, r)| options(r).flat_map(move |span| at(first, span)));
    batch.set(InputKind::ClassSpans, spans.collect());
    batch.set(InputKind::QuestionTypes, questions().map(|q| q.kind as i32).collect());
    let owners = records().enumerate();
    let owners = owners.flat_map(|(s, r)| std::iter::repeat_n(s as i32, r.questions.len()));
    batch.set(InputKind::QuestionSequences, owners.collect());
    batch.set(InputKind::QuestionOffsets, offsets(records().map(|r| r.questions.len())));
    batch.set(InputKind::LabelOffsets, offsets(records().map(|r| options(r).count())));
    batch.set(InputKind::OptionOffsets, offsets(questions().map(|q| q.options.len())));
    let owners = questions().enumerate();
    let owners = owners.flat_map(|(i, q)| std::iter::repeat_n(i as i32, q.options.len()));
    batch.set(InputKind::LabelQuestions, owners.collect());
    let read = records().flat_map(|r| {
        options(r).flat_map(|span| &r.ids[span.start as usize..span.end as usize]).map(|&id| id as i32)
    });
    batch.set(InputKind::OptionTokens, read.collect());
    batch.set(InputKind::OptionTokenOffsets, offsets(records().flat_map(options).map(length)));
}

fn media(batch: &mut Batch, sequences: &[&ClefSequence], model: &Clef) {
    let vision = &model.config().vision;
    let merge = vision.spatial_merge_size;
    let items = || sequences.iter().flat_map(|s| &s.media);
    let (mut taps, mut weights, mut places) = (Vec::new(), Vec::new(), Vec::new());
    for item in items() {
        let (rows, shares) = position_taps(item.grid, merge, vision.position_side);
        taps.extend(rows.into_iter().flatten());
        weights.extend(shares.into_iter().flatten());
        places.extend(patch_coordinates(item.grid, merge).into_iter().flatten());
    }
    batch.set(InputKind::PositionTaps, taps);
    batch.set_reals(InputKind::PositionWeights, weights);
    batch.set(InputKind::PatchPositions, places);
    batch.set(InputKind::FrameOffsets, offsets(items().flat_map(|m| frame_lengths(m.grid))));
    batch.set_reals(InputKind::Patches, items().flat_map(|m| m.values.iter().copied()).collect());
}

impl<B: Backend> Engine<B, Clef> {
    /// Answers each request, in order; a bad request does not disturb the others.
    ///
    /// The answer to a request has the same bits whatever else is in the call.
    pub async fn decide(&mut self, requests: &[DecideRequest]) -> Vec<Result<Decision>> {
        let prepared: Vec<Result<ClefSequence>> = requests.iter().map(|r| self.prepare(r)).collect();
        let sequences: Vec<&ClefSequence> = prepared.iter().flatten().collect();
        let mut logits = match self.logits_of_states(&sequences).await {
            Ok(logits) => logits.into_iter(),
            Err(e) => return prepared.into_iter().map(|p| p.and(Err(e.clone()))).collect(),
        };
        requests
            .iter()
            .zip(&prepared)
            .map(|(request, prepared)| {
                let sequence = prepared.as_ref().map_err(Clone::clone)?;
                let flat = logits.next().ok_or_else(|| Error::Internal("logits are missing".to_owned()))?;
                let rows = sequence.by_question(&flat);
                answers::decide(request, &sequence.record, &rows, self.decide_receipt())
            })
            .collect()
    }

    /// [`Clef::sequence`] under the limits of this engine.
    ///
    /// # Errors
    /// As there.
    pub fn prepare(&self, request: &DecideRequest) -> Result<ClefSequence> {
        self.model().sequence(request, self.options().max_tokens, &MediaLimits::default())
    }

    fn decide_receipt(&self) -> DecideReceipt {
        let capabilities = self.backend().capabilities();
        DecideReceipt {
            model: self.model().name().to_owned(),
            backend: capabilities.backend.clone(),
            device: Some(capabilities.device.clone()),
            quantization: self.model().format(),
            ..DecideReceipt::default()
        }
    }
}

impl Clef {
    /// The host's half of a request: validation, pictures, tokens, positions. Needs no device.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] or [`Error::TooLarge`].
    pub fn sequence(
        &self,
        request: &DecideRequest,
        max_tokens: usize,
        limits: &MediaLimits,
    ) -> Result<ClefSequence> {
        let media = decode(request, self, limits)?;
        let grid = |g: Grid| [g.t as u32, g.h as u32, g.w as u32];
        let (pictures, videos) = media.split_at(request.images.len());
        let pictures: Vec<_> = pictures.iter().map(|p| grid(p.grid)).collect();
        let videos: Vec<_> =
            videos.iter().map(|v| VideoGrid { grid: grid(v.grid), seconds: v.timestamps.clone() }).collect();
        let layout = MediaLayout { images: &pictures, videos: &videos, video_form: VideoForm::default() };
        let record = self.prompt().prepare(request, &layout, max_tokens)?;
        Ok(ClefSequence { record, media })
    }
}

impl ClefSequence {
    /// The sequence's logits, as [`Engine::logits`] gives them, as one row a question.
    pub fn by_question(&self, flat: &[f32]) -> Vec<Vec<f32>> {
        let mut rest = flat;
        self.record
            .questions
            .iter()
            .map(|q| {
                let (own, others) = rest.split_at(q.options.len().min(rest.len()));
                rest = others;
                own.to_vec()
            })
            .collect()
    }
}

/// The patches of a request's pictures, then of its videos.
fn decode(request: &DecideRequest, model: &Clef, limits: &MediaLimits) -> Result<Vec<Patches>> {
    if !model.vision() {
        for (name, empty) in [("images", request.images.is_empty()), ("videos", request.videos.is_empty())] {
            if !empty {
                return Err(Error::invalid(name, "the model was loaded without its vision tower"));
            }
        }
    }
    let processor = model.processor();
    let picture = |name: &str, bytes: &[u8]| decode_picture(name, bytes, limits);
    let made = |name: &str, media: &Media| {
        // Patches take a hundred times the memory of the file.
        processor.plan(name, &media.size(), limits)?;
        processor.patches(media)
    };
    let mut patches = Vec::with_capacity(request.images.len() + request.videos.len());
    for (i, bytes) in request.images.iter().enumerate() {
        let name = format!("images[{i}]");
        patches.push(made(&name, &Media::Image(picture(&name, bytes)?))?);
    }
    for (i, video) in request.videos.iter().enumerate() {
        let name = format!("videos[{i}]");
        let clip = match video {
            Video::Frames { frames, fps } => {
                let frames = frames.iter().enumerate();
                let frames = frames.map(|(f, bytes)| picture(&format!("{name}.frames[{f}]"), bytes));
                Clip::new(frames.collect::<Result<_>>()?, *fps)?.sampled(&processor.video)
            }
            Video::File(bytes) => decode_video(&name, bytes, &processor.video, limits)?,
        };
        patches.push(made(&name, &Media::Video(clip))?);
    }
    Ok(patches)
}
