//! Where records go: a stream, a new file, or an interrupted one that is continued.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, Write};
use std::path::Path;

use super::files::{Files, is_stream};
use super::identity::Identity;
use super::reader::hashed::Mark;
use super::reader::{Reader, Source};
use super::resume::{self, Done};
use super::settings::Settings;
use super::sidecar::Sidecar;
use super::writer::{Encoder, Form};
use crate::exit::{Failure, Result};
use crate::terminal;

/// An opened output.
pub(super) struct Output {
    sink: Box<dyn Write>,
    /// The name of a file; `None` for standard output.
    name: Option<String>,
    /// What stands beside an output file until it is complete.
    sidecar: Option<Sidecar>,
}

/// Refuses what can be refused without opening anything. `source` is the file of the input.
pub(super) fn check(files: &Files, source: Option<Identity>) -> Result<()> {
    let (from, to) = (files.input.as_path(), files.output.as_path());
    if files.resume && (is_stream(from) || is_stream(to)) {
        return Err(Failure::usage("--resume needs files: a stream cannot be continued"));
    }
    if is_stream(to) {
        return refuse_input(source, Identity::of_stdout(), "standard output");
    }
    if let Ok(facts) = to.metadata() {
        refuse_input(source, Identity::of(&facts), &to.display().to_string())?;
    }
    let same = |a: io::Result<_>, b: io::Result<_>| matches!((a, b), (Ok(a), Ok(b)) if a == b);
    if same(from.canonicalize(), to.canonicalize()) {
        return Err(Failure::usage(format!("{}: is the input as well", to.display())));
    }
    match to.metadata() {
        Ok(facts) if facts.is_dir() => Err(Failure::usage(format!("{}: is a folder", to.display()))),
        Ok(facts) if facts.is_file() && !files.resume && !files.overwrite => Err(exists(to)),
        Err(_) if to.is_symlink() && !files.resume && !files.overwrite => {
            let name = to.display();
            Err(Failure::usage(format!("{name}: is a link to nothing; --overwrite creates what it names")))
        }
        _ => Ok(()),
    }
}

/// Refuses to write the file that is read: it would be lost, or never end.
fn refuse_input(source: Option<Identity>, target: Option<Identity>, name: &str) -> Result<()> {
    if source.is_some() && source == target {
        return Err(Failure::usage(format!("{name}: is the input as well")));
    }
    Ok(())
}

fn exists(path: &Path) -> Failure {
    Failure::usage(format!(
        "{}: exists; give --resume to continue it or --overwrite to replace it",
        path.display()
    ))
}

impl Output {
    /// Opens the output. With `--resume` this checks what is there and moves `reader` behind it.
    pub(super) fn open<R: BufRead, S: Source, F: Form>(
        files: &Files,
        source: Option<Identity>,
        settings: Settings,
        encoder: &Encoder<F>,
        reader: &mut Reader<R, S>,
    ) -> Result<(Self, Done)> {
        let path = files.output.as_path();
        if is_stream(path) {
            let mut output = Self { sink: Box::new(io::stdout()), name: None, sidecar: None };
            output.write(&encoder.header())?;
            return Ok((output, Done::default()));
        }
        let name = path.display().to_string();
        let file = open_file(files, source, path)?;
        let is_file = file.metadata().is_ok_and(|facts| facts.is_file());
        let sidecar = is_file.then(|| Sidecar::beside(path, settings));
        let done = match &sidecar {
            Some(sidecar) if files.resume => continue_file(files, &file, &name, sidecar, encoder, reader)?,
            _ => Done::default(),
        };
        if let Some(sidecar) = &sidecar {
            sidecar.write(reader.rows_read(), &reader.mark())?;
        }
        let mut output = Self { sink: Box::new(file), name: Some(name), sidecar };
        if done.bytes == 0 {
            output.write(&encoder.header())?;
        }
        Ok((output, done))
    }

    /// An output for tests.
    #[cfg(test)]
    pub(super) fn for_tests(file: File) -> Self {
        Self { sink: Box::new(file), name: Some("out".to_owned()), sidecar: None }
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
        let written = self.sink.write_all(bytes).and_then(|()| self.sink.flush());
        written.map_err(|source| match &self.name {
            Some(name) => Failure::Io { doing: format!("writing {name}"), source },
            None => Failure::Stdout(source),
        })
    }
}

/// Continues an output file after checking that it is the one that this run would have begun.
fn continue_file<R: BufRead, S: Source, F: Form>(
    files: &Files,
    file: &File,
    name: &str,
    sidecar: &Sidecar,
    encoder: &Encoder<F>,
    reader: &mut Reader<R, S>,
) -> Result<Done> {
    let force = files.force;
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
            Some(left) => left.check_input(done.rows, &files.input)?.map_err(|message| refused(&message)),
            // A finished output has lost its sidecar and needs none: nothing is added to it.
            None if reader.next_row()?.is_none() => {
                if !files.quiet {
                    terminal::warn(&format!("{name} is complete; it may have been made with other flags"));
                }
                Ok(())
            }
            None => Err(refused("what was asked of its rows is not known, as its .dikast.json is missing")),
        }
    })
}

fn open_file(files: &Files, source: Option<Identity>, path: &Path) -> Result<File> {
    // A device or a pipe is no file that could be lost.
    let special = path.metadata().is_ok_and(|facts| !facts.is_file());
    let mut options = OpenOptions::new();
    if files.resume {
        options.read(true).append(true).create(true);
    } else if files.overwrite || special {
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
    // What stands at the path may have changed since the check.
    let facts = file.metadata().map_err(Failure::io(format!("reading {}", path.display())))?;
    refuse_input(source, Identity::of(&facts), &path.display().to_string())?;
    // Two runs would interleave their rows. File systems without locks are taken as they are.
    if let Err(TryLockError::WouldBlock) = file.try_lock() {
        return Err(Failure::usage(format!("{}: another run is writing it", path.display())));
    }
    if files.overwrite {
        file.set_len(0).map_err(Failure::io(format!("emptying {}", path.display())))?;
    }
    Ok(file)
}
