//! SHA-256 and `SHA256SUMS`, in the format of the `sha256sum` program.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{Error, Result};

/// Name of the list.
pub(super) const FILE: &str = "SHA256SUMS";
const MAX_BYTES: usize = 4 << 20;

/// A SHA-256; prints as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads 64 hexadecimal digits.
    pub fn from_hex(hex: &str) -> Option<Self> {
        let digits: Vec<u8> = hex.chars().map(|c| c.to_digit(16).map(|d| d as u8)).collect::<Option<_>>()?;
        let bytes: Vec<u8> = digits.chunks(2).filter_map(|d| Some(d.first()? << 4 | d.get(1)?)).collect();
        (digits.len() == 64).then_some(Self(bytes.try_into().ok()?))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// File name → digest. Lines are `DIGEST`, a blank, a blank or `*`, `NAME`; leading `./` of the name are dropped;
/// empty lines and lines that begin with `#` are skipped.
///
/// # Errors
/// [`Error::Checkpoint`] with the line number for anything else, and for two different sums of one file.
pub fn parse(bytes: &[u8]) -> Result<BTreeMap<&str, Digest>> {
    let bad = |line: usize, what: &str| {
        Error::checkpoint(
            FILE,
            format!("line {line}: {what}; allowed: 64 hexadecimal digits, two blanks, a file name"),
        )
    };
    if bytes.len() > MAX_BYTES {
        return Err(Error::checkpoint(FILE, format!("{} bytes found, {MAX_BYTES} allowed", bytes.len())));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| Error::checkpoint(FILE, "not UTF-8"))?;
    let mut sums = BTreeMap::new();
    for (line, number) in text.lines().zip(1..) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((hex, rest)) = line.split_once(' ') else { return Err(bad(number, "no blank found")) };
        let digest = Digest::from_hex(hex).ok_or_else(|| bad(number, "no SHA-256 found"))?;
        let Some(name) = rest.strip_prefix([' ', '*']) else { return Err(bad(number, "one blank found")) };
        let name = name.trim_start_matches("./");
        if name.is_empty() {
            return Err(bad(number, "no file name found"));
        }
        // Another spelling of a file here would leave it unchecked in silence.
        if name.split(['/', '\\']).any(|part| matches!(part, "" | "." | "..")) {
            return Err(bad(number, &format!("{} found, which is no plain path", super::shown(name))));
        }
        if sums.insert(name, digest).is_some_and(|before| before != digest) {
            return Err(bad(number, &format!("a second, different sum for {} found", super::shown(name))));
        }
    }
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::{Digest, parse};

    const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

    #[test]
    fn digests() {
        assert_eq!(Digest::of(b"").to_string(), EMPTY);
        assert_eq!(Digest::from_hex(EMPTY), Some(Digest::of(b"")));
        assert_eq!(Digest::from_hex(&EMPTY.to_uppercase()), Some(Digest::of(b"")));
        assert_eq!(Digest::from_hex(&EMPTY[1..]), None);
        assert_eq!(Digest::from_hex(&format!("{EMPTY}0")), None);
        assert_eq!(Digest::from_hex(&EMPTY.replace('e', "x")), None);
    }

    #[test]
    fn lists() {
        let text =
            format!("# comment\n{EMPTY}  a\n{EMPTY} *b c\r\n\n{EMPTY}  ./d\n{EMPTY}  a\n{EMPTY}  ././e/f\n");
        let names: Vec<_> = parse(text.as_bytes()).expect("valid").into_keys().collect();
        assert_eq!(names, ["a", "b c", "d", "e/f"]);
    }

    #[test]
    fn malformed_lists() {
        let other = EMPTY.replace('e', "f");
        for (text, line) in [
            (format!("{EMPTY} a\n"), 1),
            (format!("{EMPTY}  a\n{EMPTY}\n"), 2),
            (format!("\n\n{}  a\n", &EMPTY[2..]), 3),
            (format!("{EMPTY}  \n"), 1),
            (format!("\\{EMPTY}  a\\nb\n"), 1),
            (format!("{EMPTY}  a\n{other}  a\n"), 2),
            (format!("{EMPTY}  /a\n"), 1),
            (format!("{EMPTY}  .//a\n"), 1),
            (format!("{EMPTY}  b/../a\n"), 1),
            (format!("{EMPTY}  .\\a\n"), 1),
            (format!("{EMPTY}  a\n{other}  ././a\n"), 2),
        ] {
            let error = parse(text.as_bytes()).expect_err(&text).to_string();
            assert!(error.contains(&format!("line {line}: ")), "{error}");
        }
        assert!(parse(&[0xFF]).is_err());
    }
}
