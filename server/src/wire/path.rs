//! Paths of fields as lists of their parts.

/// The parts of a field's path: `questions."a b".criteria[2]` is `questions`, `a b`, `criteria`, `2`.
pub(crate) fn parts(field: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = field;
    while !rest.is_empty() {
        if rest.starts_with('"')
            && let Some((part, after)) = quoted(rest)
        {
            parts.push(part);
            // A long name is shown in part only.
            rest = after.trim_start_matches('…').trim_start_matches('.');
        } else if let Some(inner) = rest.strip_prefix('[')
            && let Some((index, after)) = inner.split_once(']')
        {
            parts.push(index.to_owned());
            rest = after.trim_start_matches('.');
        } else {
            let end = rest
                .char_indices()
                .skip(1)
                .find(|(_, c)| matches!(c, '.' | '['))
                .map_or(rest.len(), |(i, _)| i);
            parts.push(rest[..end].to_owned());
            rest = rest[end..].trim_start_matches('.');
        }
    }
    parts
}

/// A string in quotes with its escapes undone, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let (mut part, mut escaped) = (String::new(), false);
    for (i, c) in text.char_indices().skip(1) {
        match c {
            c if escaped => {
                part.push(c);
                escaped = false;
            }
            '\\' => escaped = true,
            '"' => return Some((part, &text[i + 1..])),
            c => part.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart() {
        for (field, expected) in [
            ("model", &["model"][..]),
            ("questions.mood.criteria", &["questions", "mood", "criteria"]),
            ("questions.\"a b/ü\".criteria[10]", &["questions", "a b/ü", "criteria", "10"]),
            ("questions.\"a.\\\"b\\\"\".type", &["questions", "a.\"b\"", "type"]),
            ("questions.\"long\"….type", &["questions", "long", "type"]),
            ("images[0]", &["images", "0"]),
            ("questions.0.choices", &["questions", "0", "choices"]),
            ("questions.\"open", &["questions", "\"open"]),
            ("[", &["["]),
            ("", &[]),
        ] {
            assert_eq!(parts(field), expected, "{field}");
        }
    }
}
