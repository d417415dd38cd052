//! Which modules are meant: names with `*` and `?`.

use dikast_core::{Error, Result};

/// A pattern of module names: `*` is any text, `?` any one character, everything else stands for itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// A pattern.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for one that is empty or longer than 512 bytes.
    pub fn new(text: impl Into<String>) -> Result<Self> {
        const LONGEST: usize = 512;
        let text = text.into();
        if text.is_empty() || text.len() > LONGEST {
            let message = format!("a pattern of {} bytes found, allowed: 1 to {LONGEST}", text.len());
            return Err(Error::invalid("keep", message));
        }
        Ok(Self(text))
    }

    /// The pattern as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a whole name is meant.
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name): (Vec<char>, Vec<char>) = (self.0.chars().collect(), name.chars().collect());
        // Where to go back to: after the last star, with one more character under it.
        let (mut p, mut n, mut back) = (0, 0, None);
        while n < name.len() {
            match pattern.get(p) {
                Some('*') => {
                    back = Some((p, n));
                    p += 1;
                }
                Some(c) if *c == '?' || *c == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match back {
                    Some((star, under)) => {
                        back = Some((star, under + 1));
                        p = star + 1;
                        n = under + 1;
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|c| *c == '*')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks() -> Result<()> {
        for (pattern, name, want) in [
            ("*.mlp.down_proj", "model.layers.3.mlp.down_proj", true),
            ("*.mlp.down_proj", "model.layers.3.mlp.down_proj.x", false),
            ("*layers.?.*", "model.layers.3.mlp", true),
            ("*layers.?.*", "model.layers.13.mlp", false),
            ("*a*b*", "xaxxbxxab", true),
            ("*ab", "aab", true),
            ("a", "a", true),
            ("a", "b", false),
            ("**", "", true),
            ("?", "", false),
        ] {
            assert_eq!(Pattern::new(pattern)?.matches(name), want, "{pattern} {name}");
        }
        assert!(Pattern::new("").is_err());
        Ok(())
    }
}
