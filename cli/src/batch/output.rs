//! Where records go: a stream, a new file, or an interrupted one that is continued.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, Write};
use std::path::Path;

use super::input;
use super::reader::Reader;
use super::reader::hashed::Mark;
use super::resume::{self, Done};
use super::settings::Settings;
use super::sidecar::Sidecar;
use super::writer::Encoder;
use crate::args::ClassifyArgs;
use crate::exit::{Failure, Result};
use crate::terminal;

/// An opened output.
pub(super) struct Output {
    sink: Box<dyn Write>,
    name: String,
    /// What stands beside an output file until it is complete.
    sidecar: Option<Sidecar>,
}

/// Refuses what can be refused without opening anything.
pub(super) fn check(args: &ClassifyArgs) -> Result<()> {
    let (from, to) = (input::path(args), args.batch.output.as_path());
    if args.batch.resume && (input::is_stream(from) || input::is_stream(to)) {
        return Err(Failure::usage("--resume needs files: a stream cannot be continued"));
    }
    if input::is_stream(to) {
        return Ok(());
    }
    let same = |a: io::Result<_>, b: io::Result<_>| matches!((a, b), (Ok(a), Ok(b)) if a == b);
    if same(from.canonicalize(), to.canonicalize()) {
        return Err(Failure::usage(format!("{}: is the input as well", to.display())));
    }
    match to.metadata() {
        Ok(facts) if facts.is_dir() => Err(Failure::usage(format!("{}: is a folder", to.display()))),
        Ok(facts) if facts.is_file() && !args.batch.resume && !args.batch.overwrite => Err(exists(to)),
        _ => Ok(()),
    }
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "{}: exists; give --resume to continue it or --overwrite to replace it",
        path.display()
    ))
}

impl Output {
    /// Opens the output. With `--resume` this checks what is there and moves `reader` behind it.
    pub(super) fn open<R: BufRead>(
        args: &ClassifyArgs,
        settings: Settings,
        encoder: &Encoder,
        reader: &mut Reader<R>,
    ) -> Result<(Self, Done)> {
        let path = args.batch.output.as_path();
        if input::is_stream(path) {
            let mut output =
                Self { sink: Box::new(io::stdout()), name: "standard output".to_owned(), sidecar: None };
            output.write(&encoder.header())?;
            return Ok((output, Done::default()));
        }
        let name = path.display().to_string();
        let file = open_file(args, path)?;
        let is_file = file.metadata().is_ok_and(|facts| facts.is_file());
        let sidecar = is_file.then(|| Sidecar::beside(path, settings));
        let done = match &sidecar {
            Some(sidecar) if args.batch.resume => {
                continue_file(args, &file, &name, sidecar, encoder, reader)?
            }
            _ => Done::default(),
        };
        if let Some(sidecar) = &sidecar {
            sidecar.write(reader.rows_read(), &reader.mark())?;
        }
        let mut output = Self { sink: Box::new(file), name, sidecar };
        if done.bytes == 0 {
            output.write(&encoder.header())?;
        }
        Ok((output, done))
    }

    /// An output for tests.
    #[cfg(test)]
    pub(super) fn for_tests(file: File) -> Self {
        Self { sink: Box::new(file), name: "out".to_owned(), sidecar: None }
    }

    /// Writes the records of a group. With it `rows` rows of the input have been read, up to `mark`.
    pub(super) fn write_records(&mut self, bytes: &[u8], rows: u64, mark: &Mark) -> Result<()> {
        if let Some(sidecar) = &self.sidecar {
            sidecar.write(rows, mark)?;
        }
        self.write(bytes)
    }

    /// Every row has its record.
    pub(super) fn complete(&self) -> Result<()> {
        self.sidecar.as_ref().map_or(Ok(()), Sidecar::remove)
    }

    /// Writes the bytes of whole records and hands them to the operating system.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.sink
            .write_all(bytes)
            .and_then(|()| self.sink.flush())
            .map_err(Failure::io(format!("writing {}", self.name)))
    }
}

/// Continues an output file after checking that it is the one that this run would have begun.
fn continue_file<R: BufRead>(
    args: &ClassifyArgs,
    file: &File,
    name: &str,
    sidecar: &Sidecar,
    encoder: &Encoder,
    reader: &mut Reader<R>,
) -> Result<Done> {
    let force = args.batch.force;
    let refused = |message: &str| {
        resume::refused(
            name,
            &format!(
                "{message}; give --overwrite to start again, or --resume --force to continue all the same"
            ),
        )
    };
    let left = sidecar.left();
    let empty = file.metadata().map_err(Failure::io(format!("reading {name}")))?.len() == 0;
    // Before anything else: with other settings the records themselves may look foreign.
    if let Some(left) = left.as_ref().filter(|_| !force && !empty) {
        sidecar.check_settings(left).map_err(|message| refused(&message))?;
    }
    resume::continue_file(file, name, encoder, reader, |done, reader| {
        if force || done.rows == 0 {
            return Ok(());
        }
        match left {
            Some(left) => {
                left.check_input(done.rows, input::path(args))?.map_err(|message| refused(&message))
            }
            // A finished output has lost its sidecar and needs none: nothing is added to it.
            None if reader.next_row()?.is_none() => {
                if !args.batch.quiet {
                    terminal::warn(&format!("{name} is complete; it may have been made with other flags"));
                }
                Ok(())
            }
            None => Err(refused("what was asked of its rows is not known, as its .dikast.json is missing")),
        }
    })
}

fn open_file(args: &ClassifyArgs, path: &Path) -> Result<File> {
    let batch = &args.batch;
    // A device or a pipe is no file that could be lost.
    let special = path.metadata().is_ok_and(|facts| !facts.is_file());
    let mut options = OpenOptions::new();
    if batch.resume {
        options.read(true).append(true).create(true);
    } else if batch.overwrite || special {
        options.write(true).create(true);
    } else {
        options.write(true).create_new(true);
    }
    let file = match options.open(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => return Err(exists(path)),
        other => other.map_err(Failure::io(format!("opening {}", path.display())))?,
    };
    if special {
        return Ok(file);
    }
    // Two runs would interleave their rows. File systems without locks are taken as they are.
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(Failure::usage(format!("{}: another run is writing it", path.display())));
    }
    if batch.overwrite {
        file.set_len(0).map_err(Failure::io(format!("emptying {}", path.display())))?;
    }
    Ok(file)
}
