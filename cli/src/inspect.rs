//! `dikast inspect`.

use crate::args::InspectArgs;
use crate::exit::Result;

/// Prints what a model is made of.
pub(crate) fn run(_args: &InspectArgs) -> Result<()> {
    Ok(())
}
