//! The output folder: made under another name beside its place, renamed when it is complete, removed when it is not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit::{Failure, Result};

/// A folder that does not have its name yet. Dropped before [`Folder::finish`], it is removed.
#[derive(Debug)]
pub(crate) struct Folder {
    incomplete: PathBuf,
    place: PathBuf,
    own: Own,
    done: bool,
}

/// Whether the command that writes a folder may have written a file of this name.
pub(crate) type Own = fn(&str) -> bool;

impl Folder {
    /// Refuses a place that holds anything, unless it is an earlier output and may be replaced; `None` for a command
    /// that never replaces.
    pub(crate) fn prepare(place: &Path, own: Own, overwrite: Option<bool>) -> Result<Self> {
        Self::at(place, own, overwrite, false)
    }

    /// The same without replacing anything, and with what an interrupted run left behind still in it.
    pub(crate) fn resume(place: &Path, own: Own) -> Result<Self> {
        Self::at(place, own, None, true)
    }

    fn at(place: &Path, own: Own, overwrite: Option<bool>, resume: bool) -> Result<Self> {
        let reading = || Failure::io(format!("reading {}", place.display()));
        match fs::read_dir(place) {
            Ok(entries) => {
                let names: Vec<_> = entries
                    .map(|entry| entry.map(|e| e.file_name()))
                    .collect::<io::Result<_>>()
                    .map_err(reading())?;
                if !names.is_empty() && overwrite != Some(true) {
                    let place = place.display();
                    return Err(Failure::usage(match overwrite {
                        Some(_) => format!("{place}: is not empty; give --overwrite to replace it"),
                        None => format!("{place}: is not empty; it is left alone"),
                    }));
                }
                // A mistyped path must not cost anybody a folder.
                if let Some(foreign) = names.iter().find(|name| !name.to_str().is_some_and(own)) {
                    return Err(Failure::usage(format!(
                        "{}: holds {}, which this command does not write; it is left alone",
                        place.display(),
                        foreign.display()
                    )));
                }
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) if e.kind() == io::ErrorKind::NotADirectory => {
                return Err(Failure::usage(format!("{}: is no folder", place.display())));
            }
            Err(e) => return Err(reading()(e)),
        }
        let incomplete = beside(place)?;
        let making = || Failure::io(format!("making {}", incomplete.display()));
        if let Some(parent) = incomplete.parent() {
            fs::create_dir_all(parent).map_err(making())?;
        }
        // Left behind by a run that was killed.
        if !(resume && incomplete.is_dir()) {
            remove(&incomplete, own).map_err(making())?;
            fs::create_dir(&incomplete).map_err(making())?;
        }
        Ok(Self { incomplete, place: place.to_owned(), own, done: false })
    }

    /// Where to write.
    pub(crate) fn path(&self) -> &Path {
        &self.incomplete
    }

    /// Leaves the folder as it is, under its other name, for a later run.
    pub(crate) fn leave(mut self) {
        self.done = true;
    }

    /// Gives the folder its name.
    pub(crate) fn finish(mut self) -> Result<()> {
        let renaming = || Failure::io(format!("replacing {}", self.place.display()));
        remove(&self.place, self.own).map_err(renaming())?;
        fs::rename(&self.incomplete, &self.place).map_err(renaming())?;
        self.done = true;
        Ok(())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.done {
            // The error that brought us here is the one to report.
            let _ = remove(&self.incomplete, self.own);
        }
    }
}

/// A hidden name in the same folder, and so on the same file system.
fn beside(place: &Path) -> Result<PathBuf> {
    let absolute = std::path::absolute(place).map_err(Failure::io(format!("finding {}", place.display())))?;
    match absolute.file_name() {
        Some(name) => {
            let mut hidden = std::ffi::OsString::from(".");
            hidden.push(name);
            hidden.push(".incomplete");
            Ok(absolute.with_file_name(hidden))
        }
        None => Err(Failure::usage(format!("{}: has no name of its own", place.display()))),
    }
}

/// Removes a folder that holds our own files only; nothing to do where there is none.
fn remove(dir: &Path, own: Own) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(own) {
            fs::remove_file(entry.path())?;
        }
    }
    fs::remove_dir(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "config.json";

    fn own(name: &str) -> bool {
        name == FILE
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_unfinished_folder_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("a/b");
        let folder = Folder::prepare(&place, own, Some(false)).unwrap();
        fs::write(folder.path().join(FILE), "x").unwrap();
        assert!(!place.exists());
        drop(folder);
        assert!(names(&dir.path().join("a")).is_empty());
    }

    #[test]
    fn a_finished_folder_has_its_name_and_replaces_the_old_one() {
        let dir = tempfile::tempdir().unwrap();
        let place = dir.path().join("out");
        fs::create_dir(&place).unwrap();
        for (text, overwrite) in [("first", false), ("second", true)] {
            let folder = Folder::prepare(&place, own, Some(overwrite)).unwrap();
            fs::write(folder.path().join(FILE), text).unwrap();
            folder.finish().unwrap();
            assert_eq!(fs::read_to_string(place.join(FILE)).unwrap(), text);
            assert_eq!(names(dir.path()), ["out"]);
        }
    }

    #[test]
    fn what_somebody_else_wrote_is_never_removed() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "x").unwrap();
        for overwrite in [None, Some(false), Some(true)] {
            let failure = Folder::prepare(dir.path(), own, overwrite).unwrap_err();
            assert_eq!(failure.code(), 2);
        }
        let file = dir.path().join("thesis.tex");
        assert_eq!(Folder::prepare(&file, own, Some(true)).unwrap_err().code(), 2);
        assert_eq!(Folder::prepare(Path::new("/"), own, Some(true)).unwrap_err().code(), 2);
        assert_eq!(names(dir.path()), ["thesis.tex"]);
    }
}
