//! Windows of text and groups of labels.

use super::Chunking;
use std::ops::Range;

impl Chunking {
    /// How many windows a text of `chars` code points has; `None` if the sizes are not usable.
    pub(crate) fn window_count(&self, chars: usize) -> Option<usize> {
        let step = self.text_chars.checked_sub(self.overlap_chars).filter(|&step| step > 0)?;
        Some(chars.saturating_sub(self.text_chars).div_ceil(step) + 1)
    }

    /// The windows of a text, as the reference cuts them: each starts `overlap_chars` before the end of the one
    /// before, the last one ends with the text. A text that fits is one window, also when it is empty.
    pub fn windows<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let step = match self.text_chars.checked_sub(self.overlap_chars) {
            Some(step) if step > 0 => step,
            _ => return vec![text],
        };
        let mut windows = Vec::new();
        let mut rest = text;
        loop {
            match byte_of(rest, self.text_chars) {
                Some(end) if end < rest.len() => windows.push(&rest[..end]),
                _ => {
                    windows.push(rest);
                    return windows;
                }
            }
            let Some(next) = byte_of(rest, step) else { return windows };
            rest = &rest[next..];
        }
    }

    /// Ranges of label indices, one a forward pass.
    pub fn groups(&self, labels: usize) -> Vec<Range<usize>> {
        let size = self.labels.max(1);
        (0..labels).step_by(size).map(|start| start..labels.min(start.saturating_add(size))).collect()
    }
}

/// Byte offset of the `chars`-th code point; the length when there are exactly as many, `None` when fewer.
fn byte_of(text: &str, chars: usize) -> Option<usize> {
    let mut starts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    starts.nth(chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_overlap_and_end_with_the_text() {
        let chunking = Chunking { text_chars: 4, overlap_chars: 1, labels: 3 };
        for (text, expected) in [
            ("", vec![""]),
            ("abc", vec!["abc"]),
            ("abcd", vec!["abcd"]),
            ("abcde", vec!["abcd", "de"]),
            ("äbcdéfg", vec!["äbcd", "défg"]),
            ("abcdefgh", vec!["abcd", "defg", "gh"]),
        ] {
            let windows = chunking.windows(text);
            assert_eq!(windows, expected);
            assert_eq!(chunking.window_count(text.chars().count()), Some(windows.len()));
        }
        assert_eq!(Chunking { text_chars: 2, overlap_chars: 2, labels: 1 }.window_count(9), None);
    }

    #[test]
    fn groups_cover_the_labels() {
        let chunking = Chunking { text_chars: 4, overlap_chars: 1, labels: 3 };
        assert_eq!(chunking.groups(7), [0..3, 3..6, 6..7]);
        assert!(chunking.groups(0).is_empty());
    }
}
