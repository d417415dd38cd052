//! Where the one text comes from.

use std::io::IsTerminal as _;
use std::path::Path;

use crate::args::ClassifyArgs;
use crate::exit::{Failure, Result};
use crate::source;

/// The text of `--text`, `--file` or standard input.
pub(super) fn read(args: &ClassifyArgs) -> Result<String> {
    if let Some(text) = &args.text {
        return Ok(text.clone());
    }
    let text = match args.file.as_deref() {
        Some(path) if path != Path::new("-") => source::read_file(path)?,
        None if std::io::stdin().is_terminal() => {
            return Err(Failure::usage("no text: give --text, --file or --input, or pipe one in"));
        }
        _ => source::read_stdin()?,
    };
    Ok(source::without_last_line_end(text))
}
