//! `dikast inspect`: what a model is made of and what it needs.

mod facts;
mod listing;

use std::io::Write as _;

use dikast_core::Error;
use dikast_core::checkpoint::{Checks, ModelFiles};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_core::models::gliclass::GliClass;

use crate::args::{InspectArgs, InspectFormat};
use crate::exit::{Failure, Result};
use crate::{model, terminal};
use facts::Facts;

/// Prints what a model is made of.
pub(crate) fn run(args: &InspectArgs) -> Result<()> {
    let files = model::open(args.model.as_deref())?;
    let facts = facts(&files, args)?;
    let mut out = Vec::new();
    match args.format {
        InspectFormat::Text => {
            listing::render(&facts, &mut out).map_err(Failure::io("formatting the listing"))?;
            let mut stdout = anstream::stdout();
            stdout.write_all(&out).and_then(|()| stdout.flush())
        }
        InspectFormat::Json => {
            serde_json::to_writer_pretty(&mut out, &facts)
                .map_err(|e| Failure::Engine(Error::Internal(e.to_string())))?;
            out.push(b'\n');
            let mut stdout = std::io::stdout().lock();
            stdout.write_all(&terminal::escape_json(out)).and_then(|()| stdout.flush())
        }
    }
    .map_err(Failure::Stdout)
}

/// The facts of a model of either family. Tens of gigabytes of a CLEF model are not read for that, only their headers.
fn facts(files: &ModelFiles, args: &InspectArgs) -> Result<Facts> {
    if model::is_clef(files) {
        let options = ClefOptions { checks: Checks::HEADERS, ..ClefOptions::default() };
        let model = Clef::load_with(files, options).map_err(Failure::Model)?;
        return Facts::of_clef(files, &model, args);
    }
    let model = GliClass::load(files).map_err(Failure::Model)?;
    Facts::of_gliclass(files, &model, args)
}
