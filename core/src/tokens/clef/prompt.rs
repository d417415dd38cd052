//! A request → its sequence.

use super::media::MediaLayout;
use super::positions::positions;
use super::render::{render, render_option};
use super::{MediaIds, QuestionSlots, Record};
use crate::request::limits::{MAX_SCHEMA_BYTES, MAX_STATE_BYTES};
use crate::request::quote::step;
use crate::request::validate::at_most;
use crate::request::{DecideRequest, Json, Question, SpecialTokens, StateTruncation};
use crate::tokens::{Span, Tokenizer};
use crate::{Error, Result};

const BEFORE: &str = "<|im_start|>system\nRead the complete state and schema. Decide every field jointly. Each answer \
                      must be exactly one of that field's allowed options.<|im_end|>\n<|im_start|>user\nSTATE:\n";
const AFTER: &str = "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:";

/// Makes the sequences of one model: its tokenizer, and the pieces that are the same in every request.
#[derive(Debug, Clone)]
pub struct ClefPrompt {
    tokenizer: Tokenizer,
    media: MediaIds,
    before: Vec<u32>,
    after: Vec<u32>,
    fields: Vec<u32>,
    options: Vec<u32>,
    option_end: Vec<u32>,
    field_end: Vec<u32>,
}

impl ClefPrompt {
    /// Checks that a tokenizer has the control tokens of the prompt.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the token.
    pub fn new(tokenizer: Tokenizer) -> Result<Self> {
        Ok(Self {
            media: MediaIds::of(&tokenizer)?,
            before: tokenizer.ids(BEFORE)?,
            after: tokenizer.ids(AFTER)?,
            fields: tokenizer.plain_ids("\n\nSCHEMA FIELDS:\n")?,
            options: tokenizer.plain_ids("\nALLOWED OPTIONS:\n")?,
            option_end: tokenizer.plain_ids("\n")?,
            field_end: tokenizer.plain_ids("END FIELD\n")?,
            tokenizer,
        })
    }

    /// The tokenizer.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.tokenizer
    }

    /// Ids of the tokens that stand for media.
    pub fn media_ids(&self) -> MediaIds {
        self.media
    }

    /// The first rows of every sequence: the instructions to the model.
    pub fn before(&self) -> &[u32] {
        &self.before
    }

    /// Renders, tokenizes, checks and, if asked for, truncates a request. `media` are the grids of the request's
    /// pictures and videos in their order; `max_tokens` is the engine's limit, which the request may only lower.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] and [`Error::TooLarge`] naming the field or the limit; [`Error::Internal`] if `media`
    /// does not belong to the request.
    pub fn prepare(
        &self,
        request: &DecideRequest,
        media: &MediaLayout<'_>,
        max_tokens: usize,
    ) -> Result<Record> {
        request.validate()?;
        if (media.images.len(), media.videos.len()) != (request.images.len(), request.videos.len()) {
            return Err(Error::Internal("media grids of another request".to_owned()));
        }
        let max_tokens = match request.max_tokens {
            Some(tokens) => {
                at_most("max_tokens", tokens, max_tokens)?;
                tokens
            }
            None => max_tokens,
        };
        let user = UserText {
            tokenizer: &self.tokenizer,
            special: request.special_tokens,
            refused: if media.is_empty() { &[] } else { &[self.media.image_pad, self.media.video_pad] },
        };
        let media = media.part(&self.tokenizer, self.media, max_tokens)?;
        let (schema, mut questions) = self.schema(request, &user)?;
        let fixed = self.before.len() + media.ids.len() + schema.len() + self.after.len();
        at_most("tokens of questions and media, which are never cut", fixed, max_tokens)?;

        let text = render(&request.state);
        at_most("bytes of state", text.len(), MAX_STATE_BYTES)?;
        let mut state = user.ids("state", &text)?;
        drop(text);
        let dropped_state_tokens = cut(request, &mut state, max_tokens, fixed)?;

        let mut ids = self.before.clone();
        let mut extend = |piece: &[u32]| {
            let start = ids.len() as u32;
            ids.extend_from_slice(piece);
            Span { start, end: ids.len() as u32 }
        };
        let media_span = extend(&media.ids);
        let state_span = extend(&state);
        let schema_span = extend(&schema);
        extend(&self.after);
        for slots in &mut questions {
            slots.span = moved(slots.span, schema_span.start);
            slots.options.iter_mut().for_each(|span| *span = moved(*span, schema_span.start));
        }
        let mut media_spans = media.spans;
        media_spans.iter_mut().for_each(|span| span.rows = moved(span.rows, media_span.start));
        Ok(Record {
            positions: positions(ids.len(), &media_spans),
            media_rows: media_spans.iter().flat_map(|span| span.rows.start..span.rows.end).collect(),
            media: media_span,
            media_spans,
            state: state_span,
            questions,
            dropped_state_tokens,
            ids,
        })
    }

    /// The part after the state, spans counted from its start.
    fn schema(&self, request: &DecideRequest, user: &UserText<'_>) -> Result<(Vec<u32>, Vec<QuestionSlots>)> {
        let mut schema = Schema { ids: self.fields.clone(), bytes: 0, user };
        let mut all = Vec::with_capacity(request.questions.len());
        for (i, question) in request.questions.iter().enumerate() {
            let field = format!("questions.{}", step(&question.id));
            let (id, kind) = (&question.id, question.kind());
            let head = format!("\nFIELD {}\nID: {id}\nTYPE: {}\nINSTRUCTION: ", i + 1, kind.name());
            schema.add(&field, &head)?;
            let span = schema.slot(&format!("{field}.instructions"), &instructions(question))?;
            schema.ids.extend_from_slice(&self.options);
            let mut slots = QuestionSlots { kind, span, options: Vec::new(), option_ids: Vec::new() };
            for (j, option) in question.read_options().into_iter().enumerate() {
                schema.ids.extend(self.tokenizer.plain_ids(&format!("OPTION {}: ", j + 1))?);
                let field = format!("{field}.criteria.{}", step(&option.id));
                slots.options.push(schema.slot(&field, &render_option(&option))?);
                slots.option_ids.push(option.id.into_owned());
                schema.ids.extend_from_slice(&self.option_end);
            }
            schema.ids.extend_from_slice(&self.field_end);
            all.push(slots);
        }
        Ok((schema.ids, all))
    }
}

/// The text of a question's span; never empty, as no id is.
fn instructions(question: &Question) -> String {
    match &question.instructions {
        None | Some(Json::Null) => question.id.clone(),
        Some(Json::String(text)) if text.is_empty() => question.id.clone(),
        Some(other) => render(other),
    }
}

/// Cuts the state's tokens if the request allows it; how many were dropped.
fn cut(request: &DecideRequest, state: &mut Vec<u32>, max_tokens: usize, fixed: usize) -> Result<usize> {
    let found = state.len();
    let room = (max_tokens - fixed).min(request.max_state_tokens.unwrap_or(usize::MAX));
    match request.truncation {
        StateTruncation::End => state.truncate(room),
        StateTruncation::Refuse => {
            if let Some(most) = request.max_state_tokens {
                at_most("tokens of state (max_state_tokens)", found, most)?;
            }
            at_most("input tokens", fixed + found, max_tokens)?;
        }
    }
    Ok(found - state.len())
}

fn moved(span: Span, by: u32) -> Span {
    Span { start: span.start + by, end: span.end + by }
}

/// Tokenizes what the caller wrote.
struct UserText<'t> {
    tokenizer: &'t Tokenizer,
    special: SpecialTokens,
    /// Tokens that would claim rows of the vision tower.
    refused: &'t [u32],
}

impl UserText<'_> {
    fn ids(&self, field: &str, text: &str) -> Result<Vec<u32>> {
        if self.special == SpecialTokens::Data {
            return self.tokenizer.plain_ids(text);
        }
        let ids = self.tokenizer.ids(text)?;
        match ids.iter().find(|id| self.refused.contains(id)) {
            None => Ok(ids),
            Some(&id) => {
                let token = self.tokenizer.token(id).unwrap_or_default();
                let message = format!("{token} found; in a request with media it stands for media alone");
                Err(Error::invalid(field, message))
            }
        }
    }
}

/// The tokens of the questions so far.
struct Schema<'t> {
    ids: Vec<u32>,
    bytes: usize,
    user: &'t UserText<'t>,
}

impl Schema<'_> {
    fn add(&mut self, field: &str, text: &str) -> Result<()> {
        self.bytes += text.len();
        at_most("bytes of questions and options", self.bytes, MAX_SCHEMA_BYTES)?;
        self.ids.extend(self.user.ids(field, text)?);
        Ok(())
    }

    /// A piece whose rows the head averages.
    fn slot(&mut self, field: &str, text: &str) -> Result<Span> {
        let start = self.ids.len() as u32;
        self.add(field, text)?;
        let end = self.ids.len() as u32;
        if start == end {
            return Err(Error::invalid(field, "no tokens found, at least one is needed"));
        }
        Ok(Span { start, end })
    }
}
