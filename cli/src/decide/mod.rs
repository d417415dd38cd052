//! `dikast decide` for one state.

mod media;
mod questions;
mod shorthand;
mod state;
mod table;

use std::io::Write as _;
use std::time::Instant;

use dikast_core::Error;
use dikast_core::answers::Decision;
use dikast_core::request::{DecideRequest, Json, MediaLimits, Question, Rules};

pub(crate) use questions::Questions;

use crate::args::{DecideArgs, DecideFormat};
use crate::exit::{Failure, Result};
use crate::{decider, model, terminal};

/// What the published clients send, and no more: a null state or a number as a level is a mistake.
pub(crate) const RULES: Rules = Rules {
    scalars: false,
    media: MediaLimits { images: 4, image_bytes: 4 << 20, bytes: 8 << 20, videos: 4, frames: 768 },
};

/// Answers the questions about one state and prints the answers.
pub(crate) fn run(args: &DecideArgs) -> Result<()> {
    // Everything that can be wrong with the request comes before the model is loaded.
    let questions = Questions::collect(&args.asked)?;
    if questions.is_empty() {
        return Err(Failure::usage("no question: give --ask, --choose, --rate or --questions"));
    }
    let titles = questions.titles();
    let asked = Question::all_from_tree(questions.into_tree(), &RULES)?;
    let media = media::Media::read(args)?;
    let mut request = DecideRequest::new(state::read(args)?, asked);
    media.put_into(&mut request);
    args.set_options(&mut request);
    request.validate()?;
    if media.is_empty() && matches!(&request.state, Json::String(text) if text.trim().is_empty()) {
        terminal::warn("the state is empty, and the answers mean little");
    }
    let files = model::open_for_decisions(args.model.as_deref())?;
    let mut decider = decider::load(&files, args)?;

    let started = Instant::now();
    let decisions = decider.decide(std::slice::from_ref(&request));
    let elapsed = started.elapsed();
    let missing = || Error::Internal("the engine gave no answer".into());
    let decision = decisions.into_iter().next().ok_or_else(missing)?.map_err(|e| media.named(e))?;

    let format = if args.json { DecideFormat::Json } else { args.format.unwrap_or(DecideFormat::Table) };
    let written = match format {
        DecideFormat::Table => {
            let mut out = Vec::new();
            let table =
                table::Table { titles: &titles, width: terminal::stdout_width(), receipt: args.receipt };
            table.render(&decision, elapsed, &mut out).map_err(Failure::io("formatting the table"))?;
            // Strips colours when standard output is no terminal or NO_COLOR is set.
            let mut stdout = anstream::stdout();
            stdout.write_all(&out).and_then(|()| stdout.flush())
        }
        DecideFormat::Json | DecideFormat::Jsonl => {
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&json(&decision, args, format)).and_then(|()| stdout.flush())
        }
    };
    written.map_err(Failure::Stdout)
}

/// The response as text that is safe to show.
fn json(decision: &Decision, args: &DecideArgs, format: DecideFormat) -> Vec<u8> {
    let tree = decision.to_json(&args.output());
    let mut text = if format == DecideFormat::Json { tree.to_pretty_text() } else { tree.to_string() };
    text.push('\n');
    terminal::escape_json(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_may_have_the_media_of_a_server() {
        assert_eq!(RULES.media, MediaLimits::default());
    }
}
