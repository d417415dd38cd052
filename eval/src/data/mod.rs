//! Examples from files.
//!
//! | format | told by | becomes |
//! | --- | --- | --- |
//! | typed questions, JSONL | a line with `questions` | one question for each of the line's, with `expected: {id: option}` |
//! | classification, JSONL | a line with `text` | one question, with `expected` one label or a list of labels |
//! | classification, CSV or TSV | a header with `text` and `label` | one question; without `labels`, all labels of the file |
//! | AG News, as published | no header, three columns, the first 1 to 4 | one question with its four topics |
//! | SIB-200, as published | the header `index_id`, `category`, `text` | one question with its seven topics |

mod classification;
mod published;
mod table;
mod typed;

use std::collections::BTreeSet;
use std::path::Path;

use dikast_core::request::{ClassifyRequest, DecideRequest, Mode};
use dikast_core::{Error, Result};

/// Largest file: examples are kept in memory.
const MAX_BYTES: u64 = 1 << 30;

/// What a model is asked, and what would be right.
#[derive(Debug, Clone, PartialEq)]
pub struct Example {
    /// Its `id`, or the file's name and the line.
    pub id: String,
    /// The set that it is counted in: `set`, `domain` or `kind` of its line, or the file's name.
    pub set: String,
    /// What is asked.
    pub request: Request,
    /// The questions in request order.
    pub questions: Vec<Question>,
}

/// A request to either family.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// One text and labels.
    Classify(ClassifyRequest),
    /// Typed questions about a state.
    Decide(DecideRequest),
}

/// What is decided, and what would be right.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Its id; `labels` where there is only one.
    pub name: String,
    /// Ids of the options, in request order.
    pub options: Vec<String>,
    /// How logits become a decision.
    pub rule: Rule,
    /// What would be right, where that is known.
    pub gold: Option<Gold>,
}

/// How logits become a decision.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rule {
    /// The options compete: softmax, the largest wins, the first of equals.
    Best,
    /// Each option is judged on its own: sigmoid, from this probability on it is chosen.
    Threshold(f32),
}

/// The options that are right, as places in request order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gold {
    /// Exactly one.
    One(usize),
    /// Any number of them, in rising order.
    Many(BTreeSet<usize>),
}

impl Example {
    /// An example of which nobody says what would be right.
    pub fn new(id: impl Into<String>, set: impl Into<String>, request: Request) -> Self {
        let questions = match &request {
            Request::Classify(request) => vec![asked(request, None)],
            Request::Decide(request) => request.questions.iter().map(|q| typed::question(q, None)).collect(),
        };
        Self { id: id.into(), set: set.into(), request, questions }
    }
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Told by the first line.
    #[default]
    Auto,
    /// JSONL, of typed questions or of texts with labels.
    Jsonl,
    /// CSV with a header.
    Csv,
    /// CSV with tabs.
    Tsv,
    /// AG News as published.
    AgNews,
    /// SIB-200 as published.
    Sib200,
}

/// How files are read.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ReadOptions {
    /// How the file is written.
    pub format: Format,
    /// Labels for lines that bring none.
    pub labels: Option<Vec<String>>,
    /// Put before the text of every classification.
    pub prompt: Option<String>,
}

/// Reads the examples of a file.
///
/// # Errors
/// [`Error::Io`] for a file that cannot be read, [`Error::TooLarge`] over 1 GiB, [`Error::InvalidRequest`] naming file and
/// line for one that is not what its format says, and for a file without examples or with an id twice.
pub fn read(path: &Path, options: &ReadOptions) -> Result<Vec<Example>> {
    let name = path.file_name().map_or_else(|| "data".to_owned(), |n| n.to_string_lossy().into_owned());
    let io = |e: std::io::Error| Error::Io { path: path.display().to_string(), message: e.to_string() };
    let bytes = std::fs::metadata(path).map_err(io)?.len();
    if bytes > MAX_BYTES {
        let what = format!("bytes of {name}");
        return Err(Error::TooLarge { what, limit: MAX_BYTES, actual: bytes });
    }
    let bytes = std::fs::read(path).map_err(io)?;
    let text = std::str::from_utf8(&bytes)
        .map_err(|e| Error::invalid(&name, format!("byte {} is not UTF-8", e.valid_up_to())))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let file = File { name: &name, folder: path.parent().unwrap_or(Path::new(".")), text };
    let examples = match resolved(options.format, &file)? {
        Format::Auto | Format::Jsonl => jsonl(&file, options)?,
        Format::Csv => table::read(&file, b',', options)?,
        Format::Tsv => table::read(&file, b'\t', options)?,
        Format::AgNews => published::ag_news(&file, options)?,
        Format::Sib200 => published::sib_200(&file, options)?,
    };
    if examples.is_empty() {
        return Err(Error::invalid(&name, "no examples found, at least one is needed"));
    }
    let mut ids = BTreeSet::new();
    if let Some(twice) = examples.iter().find(|e| !ids.insert(e.id.as_str())) {
        return Err(Error::invalid(&name, format!("the id {:?} stands twice", twice.id)));
    }
    Ok(examples)
}

/// A file in memory.
struct File<'a> {
    name: &'a str,
    /// Where it lies, for the pictures that it names.
    folder: &'a Path,
    text: &'a str,
}

impl File<'_> {
    /// The set of examples that name none.
    fn set(&self) -> &str {
        self.name.split('.').next().filter(|s| !s.is_empty()).unwrap_or(self.name)
    }

    /// An error of a line.
    fn fault(&self, line: u64, message: impl std::fmt::Display) -> Error {
        Error::invalid(format!("{} line {line}", self.name), message.to_string())
    }

    /// An error of a line that something else found.
    fn at(&self, line: u64) -> impl Fn(Error) -> Error {
        let place = format!("{} line {line}", self.name);
        move |e| match e {
            Error::InvalidRequest { field, message } => {
                Error::InvalidRequest { field: format!("{place}: {field}"), message }
            }
            other => other,
        }
    }
}

fn resolved(format: Format, file: &File<'_>) -> Result<Format> {
    if format != Format::Auto {
        return Ok(format);
    }
    let first = file.text.lines().find(|l| !l.trim().is_empty()).unwrap_or_default();
    if first.trim_start().starts_with('{') {
        return Ok(Format::Jsonl);
    }
    let columns: Vec<&str> = first.split('\t').map(str::trim).collect();
    if columns == published::SIB_200_HEADER {
        return Ok(Format::Sib200);
    }
    if published::is_ag_news(first) {
        return Ok(Format::AgNews);
    }
    let has = |columns: &[&str], name: &str| {
        columns.iter().any(|c| c.trim().trim_matches('"').eq_ignore_ascii_case(name))
    };
    let commas: Vec<&str> = first.split(',').collect();
    if has(&columns, "text") && columns.len() > 1 {
        Ok(Format::Tsv)
    } else if has(&commas, "text") {
        Ok(Format::Csv)
    } else {
        let message = "is not understood; allowed: JSON objects, a CSV or TSV header with text and label, AG News, SIB-200";
        Err(file.fault(1, message))
    }
}

fn jsonl(file: &File<'_>, options: &ReadOptions) -> Result<Vec<Example>> {
    let mut examples = Vec::new();
    for (i, line) in file.text.lines().enumerate().filter(|(_, l)| !l.trim().is_empty()) {
        let number = i as u64 + 1;
        let value: serde_json::Value = serde_json::from_str(line).map_err(|e| file.fault(number, e))?;
        let Some(map) = value.as_object() else {
            return Err(file.fault(number, "is no JSON object"));
        };
        let name = |key: &str| {
            map.get(key).and_then(|v| match v {
                serde_json::Value::String(text) => Some(text.clone()),
                serde_json::Value::Number(n) => Some(n.to_string()),
                _ => None,
            })
        };
        let id = name("id").unwrap_or_else(|| format!("{}:{number}", file.name));
        let set = ["set", "domain", "kind"].into_iter().find_map(name);
        let set = set.unwrap_or_else(|| file.set().to_owned());
        let (request, questions) = if map.contains_key("questions") {
            typed::line(file, number, line, map)?
        } else if map.contains_key("text") {
            classification::line(file, number, map, options)?
        } else {
            return Err(file.fault(number, "has neither questions nor text"));
        };
        examples.push(Example { id, set, request, questions });
    }
    Ok(examples)
}

/// The one question of a classification.
fn asked(request: &ClassifyRequest, gold: Option<Gold>) -> Question {
    Question {
        name: "labels".to_owned(),
        options: request.labels.names().to_vec(),
        rule: match request.mode {
            Mode::SingleLabel => Rule::Best,
            Mode::MultiLabel => Rule::Threshold(request.threshold),
        },
        gold,
    }
}

/// The place of a label.
fn place(options: &[String], label: &str) -> Option<usize> {
    options.iter().position(|o| o == label)
}

/// A label that is none of the options.
fn unknown(file: &File<'_>, line: u64, label: &str, options: &[String]) -> Error {
    const SHOWN: usize = 12;
    let mut list = options.iter().take(SHOWN).map(|o| format!("{o:?}")).collect::<Vec<_>>().join(", ");
    if options.len() > SHOWN {
        list.push_str(&format!(" and {} more", options.len() - SHOWN));
    }
    file.fault(line, format!("{label:?} is expected, but the options are {list}"))
}
