//! Shell completions and manual pages, made from the definitions in [`crate::args`].

mod man;

use std::io::{self, Write as _};
use std::path::Path;

use clap::CommandFactory as _;

use crate::args::Cli;
use crate::exit::{Failure, Result};

/// Prints the completion script of a shell.
pub(crate) fn completions(shell: clap_complete::Shell) -> Result<()> {
    // The generator panics when it cannot write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "dikast", &mut script);
    print(&script)
}

/// Prints the manual page, or writes one page a command into a folder.
pub(crate) fn man(dir: Option<&Path>) -> Result<()> {
    let mut command = Cli::command().disable_help_subcommand(true);
    if let Some(dir) = dir {
        let doing = format!("writing manual pages to {}", dir.display());
        return man::write_all(command, dir).map_err(Failure::io(doing));
    }
    command.build();
    print(&man::render(&command).map_err(Failure::io("making the manual page"))?)
}

fn print(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::io("writing to standard output"))
}
