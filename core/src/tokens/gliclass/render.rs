//! The prompt string, with the origin of each of its bytes.

use super::{EXAMPLE, LABEL, SEPARATOR};
use crate::request::Example;
use std::ops::Range;

/// Where a stretch of the prompt comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The marker before a label.
    LabelMarker(usize),
    /// A label.
    Label(usize),
    /// The separator after the labels.
    Separator,
    /// The task description.
    Prompt,
    /// The text.
    Text,
    /// The marker before an example.
    ExampleMarker(usize),
    /// An example with its labels.
    Example(usize),
    /// The separator after the examples.
    LastSeparator,
}

/// A rendered prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The string that is tokenized.
    pub prompt: String,
    /// Its parts in order, as byte ranges; together they cover it. May be empty each.
    pub parts: Vec<(Part, Range<usize>)>,
}

impl Rendered {
    fn push(&mut self, part: Part, pieces: &[&str]) {
        let start = self.prompt.len();
        self.prompt.extend(pieces.iter().copied());
        self.parts.push((part, start..self.prompt.len()));
    }

    /// The byte range of the text.
    pub fn text(&self) -> Range<usize> {
        let text = self.parts.iter().find(|(part, _)| *part == Part::Text);
        text.map_or(0..0, |(_, range)| range.clone())
    }
}

impl Rendered {
    /// What stands before the text, and what after it.
    pub(super) fn around_text(&self) -> (&str, &str) {
        let text = self.text();
        (&self.prompt[..text.start], &self.prompt[text.end..])
    }
}

/// Renders a prompt exactly as the reference does; nothing is escaped, trimmed or separated.
pub fn render(
    prompt_first: bool,
    text: &str,
    labels: &[String],
    prompt: &str,
    examples: &[Example],
) -> Rendered {
    let mut rendered = Rendered { prompt: String::new(), parts: Vec::new() };
    if !prompt_first {
        rendered.push(Part::Text, &[text]);
    }
    for (i, label) in labels.iter().enumerate() {
        rendered.push(Part::LabelMarker(i), &[LABEL]);
        rendered.push(Part::Label(i), &[label]);
    }
    rendered.push(Part::Separator, &[SEPARATOR]);
    rendered.push(Part::Prompt, &[prompt]);
    if prompt_first {
        rendered.push(Part::Text, &[text]);
    }
    for (i, example) in examples.iter().enumerate() {
        rendered.push(Part::ExampleMarker(i), &[EXAMPLE]);
        rendered.push(Part::Example(i), &[&example.text, " \nLabels:\n ", &example.labels.join(", ")]);
    }
    if !examples.is_empty() {
        rendered.push(Part::LastSeparator, &[SEPARATOR]);
    }
    rendered
}
