//! Checks the compiled character map of a `Precompiled` normalizer.
//!
//! The tokenizer crate follows the map's double array without bounds checks of its own and stops the program on a
//! damaged one, so every state that any text can reach is checked here first.

use std::collections::HashSet;

/// Longest replacement; the longest of NFKC has 33 bytes.
const MAX_REPLACEMENT_BYTES: usize = 64;

/// What is wrong with the base64 text of a character map.
pub(super) fn check(base64: &str) -> Result<(), &'static str> {
    let bytes = decode_base64(base64).ok_or("not base64")?;
    let (size, rest) = bytes.split_first_chunk::<4>().ok_or("shorter than its header")?;
    let trie_bytes = (u32::from_le_bytes(*size) / 4) as usize * 4;
    let (trie, strings) = rest.split_at_checked(trie_bytes).ok_or("shorter than its header says")?;
    let strings = std::str::from_utf8(strings).map_err(|_| "replacements are not UTF-8")?;
    let (units, _) = trie.as_chunks::<4>();
    let units: Vec<u32> = units.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
    check_trie(&units, strings)
}

/// Walks every transition of the double array, as the lookup of any key would.
fn check_trie(units: &[u32], strings: &str) -> Result<(), &'static str> {
    const OUT_OF_RANGE: &str = "a transition leads out of its array";
    let root = offset(*units.first().ok_or("its array is empty")?);
    let mut seen = HashSet::from([root]);
    let mut open = vec![root];
    while let Some(base) = open.pop() {
        // A lookup reads the unit of whatever byte comes next before it compares the label.
        if base | 0xFF >= units.len() {
            return Err(OUT_OF_RANGE);
        }
        for byte in 1..=0xFF_u32 {
            let at = base ^ byte as usize;
            let unit = units[at];
            if unit & (1 << 31 | 0xFF) != byte {
                continue;
            }
            let next = at ^ offset(unit);
            if unit & (1 << 8) != 0 {
                let value = units.get(next).ok_or(OUT_OF_RANGE)? & !(1 << 31);
                let replacement =
                    strings.get(value as usize..).ok_or("a replacement starts outside of a character")?;
                // It ends at a zero byte, or with the strings.
                let bytes = replacement.bytes().take(MAX_REPLACEMENT_BYTES + 1).take_while(|&byte| byte != 0);
                if bytes.count() > MAX_REPLACEMENT_BYTES {
                    return Err("a replacement is longer than 64 bytes");
                }
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    Ok(())
}

fn offset(unit: u32) -> usize {
    ((unit >> 10) << ((unit & (1 << 9)) >> 6)) as usize
}

/// Standard alphabet with padding and nothing else; whatever this accepts the tokenizer crate accepts.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let (groups, []) = text.as_bytes().as_chunks::<4>() else { return None };
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (i, group) in groups.iter().enumerate() {
        let padding = match group {
            [_, _, b'=', b'='] => 2,
            [_, _, _, b'='] => 1,
            _ => 0,
        };
        if padding > 0 && i + 1 != groups.len() {
            return None;
        }
        let mut word = 0;
        for &character in &group[..4 - padding] {
            word = word << 6 | sextet(character)?;
        }
        word <<= 6 * padding;
        let [_, decoded @ ..] = word.to_be_bytes();
        let (kept, cut) = decoded.split_at(3 - padding);
        if cut.iter().any(|&byte| byte != 0) {
            return None;
        }
        bytes.extend_from_slice(kept);
    }
    Some(bytes)
}

fn sextet(character: u8) -> Option<u32> {
    let value = match character {
        b'A'..=b'Z' => character - b'A',
        b'a'..=b'z' => character - b'a' + 26,
        b'0'..=b'9' => character - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_strict() {
        assert_eq!(decode_base64("TWFu"), Some(b"Man".to_vec()));
        assert_eq!(decode_base64("TWE="), Some(b"Ma".to_vec()));
        assert_eq!(decode_base64("TQ=="), Some(b"M".to_vec()));
        assert_eq!(decode_base64(""), Some(vec![]));
        for bad in ["TQ=", "TQ", "TR==", "T===", "====", "TQ==TWFu", "TW u", "TW\u{e9}"] {
            assert_eq!(decode_base64(bad), None, "{bad}");
        }
    }

    #[test]
    fn damaged_maps_are_named() {
        for bad in ["", "AAAA", "AAAAAA==", "/////w==", "BAAAAAAAAAA=", "BAAAAP////8="] {
            assert!(check(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_trie_may_not_lead_out_of_range() {
        let mut units = vec![0; 256];
        assert_eq!(check_trie(&units, ""), Ok(()));
        units[0x61] = 0x61 | 1 << 8 | 0x70 << 10;
        units[0x61 ^ 0x70] = 1 << 31 | 1;
        assert_eq!(check_trie(&units, "ab"), Ok(()));
        assert!(check_trie(&units, "é").is_err());
        assert_eq!(check_trie(&units, &format!("{}\0x", "a".repeat(65))), Ok(()));
        assert!(check_trie(&units, &"a".repeat(66)).is_err());
        assert!(check_trie(&units, "").is_err());
        units[0x61] = 0x61 | 0x4000 << 10;
        assert!(check_trie(&units, "ab").is_err());
    }
}
