//! Keys of callers, from a file and from the environment.

use std::fs;
use std::path::Path;

use crate::exit::{Failure, Result};

/// Largest file of keys.
const MAX_BYTES: u64 = 1 << 20;

/// All keys: the single one, and one a line of the file. Blank lines and lines that start with `#` are none.
pub(super) fn read(key: Option<&str>, file: Option<&Path>) -> Result<Vec<String>> {
    let mut keys: Vec<String> = key.map(|key| key.trim().to_owned()).into_iter().collect();
    if keys.iter().any(String::is_empty) {
        return Err(Failure::usage("DIKAST_API_KEY, --api-key: the key is blank"));
    }
    if let Some(path) = file {
        let reading = || format!("reading keys from {}", path.display());
        let size = fs::metadata(path).map_err(Failure::io(reading()))?.len();
        if size > MAX_BYTES {
            return Err(Failure::usage(format!("{}: {size} bytes, {MAX_BYTES} are allowed", path.display())));
        }
        let text = fs::read_to_string(path).map_err(Failure::io(reading()))?;
        let before = keys.len();
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        keys.extend(lines.map(str::to_owned));
        // A file that lost its content must not open the server.
        if keys.len() == before {
            return Err(Failure::usage(format!("{}: no key in it", path.display())));
        }
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file_are_keys() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "# team a\none \n\ntwo\n").expect("written");
        assert_eq!(
            read(Some("zero"), Some(file.path())).ok(),
            Some(vec!["zero".into(), "one".into(), "two".into()])
        );
        fs::write(file.path(), "# nothing\n").expect("written");
        assert!(read(None, Some(file.path())).is_err() && read(Some(" "), None).is_err());
        assert!(read(None, None).is_ok_and(|keys| keys.is_empty()));
    }
}
