//! Where the one text comes from.

use std::io::IsTerminal as _;
use std::path::Path;

use super::source;
use crate::args::ClassifyArgs;
use crate::exit::{Failure, Result};

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
    Ok(without_last_line_end(text))
}

/// Editors and `echo` end a file with a line end that nobody means.
fn without_last_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        if text.ends_with('\r') {
            text.pop();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_end_is_dropped() {
        for (text, left) in [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), ("a", "a"), ("\n", ""), ("", "")]
        {
            assert_eq!(without_last_line_end(text.into()), left);
        }
    }
}
