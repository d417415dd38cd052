//! Numbers with their nouns.

use indicatif::HumanCount;

/// `1 token`, `2,000 tokens`.
pub(crate) fn counted(n: u64, noun: &str) -> String {
    format!("{} {}", HumanCount(n), noun_for(n, noun))
}

/// The noun alone, for numbers in columns.
pub(crate) fn noun_for(n: u64, noun: &str) -> String {
    if n == 1 { noun.to_owned() } else { format!("{noun}s") }
}

/// The first few of some names, and how many there are besides.
pub(crate) fn listed(names: &[&str], shown: usize) -> String {
    let mut out = names.iter().take(shown).copied().collect::<Vec<_>>().join(", ");
    if names.len() > shown {
        out.push_str(&format!(" and {} more", names.len() - shown));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_no_plural() {
        assert_eq!(counted(0, "row"), "0 rows");
        assert_eq!(counted(1, "row"), "1 row");
        assert_eq!(counted(1234, "row"), "1,234 rows");
    }

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(listed(&["a", "b"], 2), "a, b");
        assert_eq!(listed(&["a", "b", "c"], 2), "a, b and 1 more");
    }
}
