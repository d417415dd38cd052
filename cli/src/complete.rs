//! Shell completions and manual pages, made from the definitions in [`crate::args`].

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
    let command = Cli::command();
    if let Some(dir) = dir {
        let doing = format!("writing manual pages to {}", dir.display());
        let write = || std::fs::create_dir_all(dir).and_then(|()| clap_mangen::generate_to(command, dir));
        return write().map_err(Failure::io(doing));
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).map_err(Failure::io("making the manual page"))?;
    print(&page)
}

fn print(bytes: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).map_err(Failure::io("writing to standard output"))
}
