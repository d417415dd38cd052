//! Keys of callers, from a file and from the environment.

use std::fs;
use std::path::Path;

use dikast_server::Key;

use crate::exit::{Failure, Result};

/// Largest file of keys.
const MAX_BYTES: u64 = 1 << 20;

/// All keys: the single one, and one a line of the file, where a rate of its own may stand behind it. Blank lines and lines
/// that start with `#` are none.
pub(super) fn read(key: Option<&str>, file: Option<&Path>) -> Result<Vec<Key>> {
    let mut keys: Vec<Key> = key.map(|key| Key::from(key.trim())).into_iter().collect();
    if keys.iter().any(|key| key.secret.is_empty()) {
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
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            // The message must not show the key.
            keys.push(
                self::line(line)
                    .map_err(|why| Failure::usage(format!("{}, line {number}: {why}", path.display())))?,
            );
        }
        // A file that lost its content must not open the server.
        if keys.len() == before {
            return Err(Failure::usage(format!("{}: no key in it", path.display())));
        }
    }
    Ok(keys)
}

fn line(line: &str) -> std::result::Result<Key, String> {
    let mut words = line.split_whitespace();
    let (secret, rate, more) = (words.next().unwrap_or_default(), words.next(), words.next());
    if more.is_some() {
        return Err("a key and a rate are allowed, such as KEY 20/s".to_owned());
    }
    Ok(Key { secret: secret.to_owned(), rate: rate.map(str::parse).transpose()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_file_are_keys() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "# team a\none \n\ntwo 20/s\n").expect("written");
        let keys = read(Some("zero"), Some(file.path())).expect("keys");
        let found: Vec<_> = keys.iter().map(|key| (key.secret.as_str(), key.rate.is_some())).collect();
        assert_eq!(found, [("zero", false), ("one", false), ("two", true)]);
        for bad in ["one two", "one 20/s three", "one 0/s"] {
            fs::write(file.path(), bad).expect("written");
            assert!(read(None, Some(file.path())).is_err(), "{bad}");
        }
        fs::write(file.path(), "# nothing\n").expect("written");
        assert!(read(None, Some(file.path())).is_err() && read(Some(" "), None).is_err());
        assert!(read(None, None).is_ok_and(|keys| keys.is_empty()));
    }
}
