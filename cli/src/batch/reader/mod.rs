//! Rows of a JSONL or CSV stream, each a request of its own or the reason why it is none.

mod csv;
pub(super) mod framing;
pub(super) mod hashed;
mod jsonl;

use std::io::BufRead;

use dikast_core::{Error, Result};
use serde_json::{Map, Value};

use crate::args::{ClassifyArgs, InputFormat};
use crate::exit::{self, Failure};
use crate::request::{Question, Template};
use framing::{Ending, Framing, Records};
use hashed::{Hashed, Mark};

/// Longest row in bytes; a longer one gets an error record and is never held in memory.
pub(super) const MAX_ROW_BYTES: usize = 8 << 20;

/// One row of the input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    /// Number from 0; blank lines and the CSV header do not count.
    pub(super) number: u64,
    /// The row's id; null when it has none.
    pub(super) id: Value,
    /// The values of the `--keep` fields, in that order; null where the row has none.
    pub(super) kept: Vec<Value>,
    /// The question, or why the row is none.
    pub(super) question: Result<Question>,
    /// Bytes of the row in the input.
    pub(super) bytes: usize,
}

/// What a format's parser makes of a record's text.
struct Fields {
    id: Value,
    kept: Vec<Value>,
    question: Result<Question>,
}

/// Where the labels of a row come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum RowLabels {
    /// From this field, else from the flag.
    Own {
        field: String,
        /// The field was asked for by name.
        asked: bool,
    },
    /// From the flag; a field `labels` must say the same, because it may mean labels to judge by or gold answers.
    Agreeing,
    /// From the flag, whatever the row says.
    Flag,
}

/// The field of a row's labels unless a flag says otherwise.
const LABELS: &str = "labels";

/// Which fields of a row mean what.
#[derive(Debug)]
pub(super) struct Source {
    format: InputFormat,
    delimiter: u8,
    text: String,
    labels: RowLabels,
    /// Fields of the row that are no part of its request.
    ignored: Vec<String>,
    /// Answer empty texts.
    allow_empty: bool,
    /// Field of the id, and whether it was asked for by name.
    id: (String, bool),
    keep: Vec<String>,
    template: Template,
}

impl Source {
    /// The fields that the flags name.
    pub(super) fn from_args(args: &ClassifyArgs, template: Template) -> Self {
        let batch = &args.batch;
        let ignored = |name: &str| batch.ignore_field.iter().any(|ignored| ignored == name);
        let labels = match &batch.labels_field {
            Some(field) => RowLabels::Own { field: field.clone(), asked: true },
            None if ignored(LABELS) || batch.text_field == LABELS => RowLabels::Flag,
            None if args.labels.is_empty() => RowLabels::Own { field: LABELS.to_owned(), asked: false },
            None => RowLabels::Agreeing,
        };
        Self {
            format: super::input::format(args),
            delimiter: super::input::delimiter(args),
            text: batch.text_field.clone(),
            labels,
            ignored: batch.ignore_field.clone(),
            allow_empty: args.allow_empty,
            id: batch.id_field.as_ref().map_or_else(|| ("id".to_owned(), false), |name| (name.clone(), true)),
            keep: batch.keep.clone(),
            template,
        }
    }
}

enum Parser {
    Jsonl,
    Csv(csv::Columns),
}

/// Reads rows.
pub(super) struct Reader<R> {
    records: Records<Hashed<R>>,
    record: Vec<u8>,
    source: Source,
    parser: Parser,
    next: u64,
}

impl<R: BufRead> Reader<R> {
    /// A reader at the first row; a CSV header is read and checked.
    ///
    /// # Errors
    /// The stream fails, is not UTF-8 text, or its header lacks a column.
    pub(super) fn new(stream: R, source: Source) -> exit::Result<Self> {
        let mut stream = Hashed::new(stream);
        skip_bom(&mut stream)?;
        let framing = match source.format {
            InputFormat::Jsonl => Framing::Lines,
            InputFormat::Csv => Framing::Csv { delimiter: source.delimiter },
        };
        let records = Records::new(stream, framing, MAX_ROW_BYTES);
        let mut reader = Self { records, record: Vec::new(), source, parser: Parser::Jsonl, next: 0 };
        if reader.source.format == InputFormat::Csv {
            let ending = reader.next_record()?;
            let header = match ending {
                Some(Ending::Complete | Ending::EndOfStream { quoted: false }) => &reader.record[..],
                None => return Err(Failure::usage("the CSV input is empty: it needs a header")),
                Some(_) => return Err(Failure::usage("the CSV header is too long or has an open quote")),
            };
            reader.parser = Parser::Csv(csv::Columns::find(header, &reader.source)?);
        }
        Ok(reader)
    }

    /// Bytes of the input consumed so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.records.position()
    }

    /// Rows read so far.
    pub(super) fn rows_read(&self) -> u64 {
        self.next
    }

    /// What of the input was read so far.
    pub(super) fn mark(&self) -> Mark {
        self.records.stream().mark()
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    /// Only when the stream fails; a bad row is a row with an error.
    pub(super) fn next_row(&mut self) -> exit::Result<Option<Row>> {
        let before = self.records.position();
        let Some(ending) = self.next_record()? else { return Ok(None) };
        let fields = match ending {
            Ending::TooLong { quoted } => self.failed(Error::TooLarge {
                what: if quoted { "row bytes (a quote is never closed)" } else { "row bytes" }.to_owned(),
                limit: MAX_ROW_BYTES as u64,
                actual: self.records.position() - before,
            }),
            Ending::EndOfStream { quoted: true } => {
                self.failed(Error::invalid("row", "a quote is never closed"))
            }
            Ending::Complete | Ending::EndOfStream { quoted: false } => {
                match std::str::from_utf8(&self.record) {
                    Err(e) => {
                        self.failed(Error::invalid("row", format!("not UTF-8 (at byte {})", e.valid_up_to())))
                    }
                    Ok(text) => match &self.parser {
                        Parser::Jsonl => jsonl::fields(text, &self.source),
                        Parser::Csv(columns) => columns.fields(text, &self.source),
                    },
                }
            }
        };
        let number = self.next;
        self.next += 1;
        let Fields { id, kept, question } = fields;
        Ok(Some(Row { number, id, kept, question, bytes: self.record.len() }))
    }

    /// The next record that is not blank.
    fn next_record(&mut self) -> exit::Result<Option<Ending>> {
        loop {
            let ending =
                self.records.next_into(&mut self.record).map_err(Failure::io("reading the input"))?;
            let blank = self.record.iter().all(u8::is_ascii_whitespace);
            match ending {
                Some(Ending::Complete | Ending::EndOfStream { .. }) if blank => {}
                _ => return Ok(ending),
            }
        }
    }

    fn failed(&self, error: Error) -> Fields {
        self.source.failed(error)
    }
}

impl Source {
    /// A row of which only the error is known.
    fn failed(&self, error: Error) -> Fields {
        Fields { id: Value::Null, kept: vec![Value::Null; self.keep.len()], question: Err(error) }
    }

    /// The question of a row with its own fields. `other` is what the field `labels` says where the flag's count.
    fn question(&self, text: String, own: Map<String, Value>, other: Option<&Value>) -> Result<Question> {
        if other.is_some_and(|labels| self.template.fields().get(LABELS) != Some(labels)) {
            return Err(Error::invalid(
                LABELS,
                "the row's field labels says something else than --labels; --labels-field labels judges by the row's \
                 labels, --ignore-field labels by those of the flag",
            ));
        }
        if !self.allow_empty && text.trim().is_empty() {
            return Err(Error::invalid(&self.text, "empty; --allow-empty has it answered all the same"));
        }
        self.template.question_with(text, own)
    }
}

/// Skips a UTF-8 byte order mark and refuses UTF-16, of which every row would be an error.
fn skip_bom(stream: &mut impl BufRead) -> exit::Result<()> {
    let start = stream.fill_buf().map_err(Failure::io("reading the input"))?;
    if start.starts_with(&[0xFF, 0xFE]) || start.starts_with(&[0xFE, 0xFF]) {
        return Err(Failure::usage("the input is UTF-16: convert it to UTF-8"));
    }
    if start.starts_with(b"\xEF\xBB\xBF") {
        stream.consume(3);
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    impl Source {
        /// Copies these fields to the output.
        pub(in crate::batch) fn set_keep(&mut self, keep: Vec<String>) {
            self.keep = keep;
        }
    }

    /// A source for tests: labels `a`, `bb` from the flags.
    pub(in crate::batch) fn source(format: InputFormat) -> Source {
        Source {
            format,
            delimiter: b',',
            text: "text".into(),
            labels: RowLabels::Own { field: LABELS.into(), asked: false },
            ignored: Vec::new(),
            allow_empty: true,
            id: ("id".into(), false),
            keep: Vec::new(),
            template: Template::for_tests(&json!({"labels": ["a", "bb"]})),
        }
    }

    fn rows_of(bytes: &[u8], source: Source) -> Vec<Row> {
        let mut reader = Reader::new(bytes, source).unwrap();
        std::iter::from_fn(|| reader.next_row().unwrap()).collect()
    }

    fn texts(rows: &[Row]) -> Vec<&str> {
        rows.iter().map(|r| r.question.as_ref().map_or("ERROR", |q| &q.request.text)).collect()
    }

    #[test]
    fn jsonl_with_every_kind_of_line() {
        let bytes = b"\xEF\xBB\xBF{\"text\": \"one\", \"id\": 7}\r\n\n  \n[1]\n{\"text\": 3}\n{\"text\": \"\xFF\"}\nnope\n{\"text\":\"last\"}";
        let rows = rows_of(bytes, source(InputFormat::Jsonl));
        assert_eq!(texts(&rows), ["one", "ERROR", "ERROR", "ERROR", "ERROR", "last"]);
        assert_eq!(rows.iter().map(|r| r.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(rows[0].id, json!(7));
        assert!(rows[3].question.as_ref().unwrap_err().to_string().contains("not UTF-8"));
    }

    #[test]
    fn a_huge_row_is_an_error_and_the_next_one_is_not() {
        let mut bytes = b"{\"text\": \"".to_vec();
        bytes.resize(MAX_ROW_BYTES + 10, b'x');
        bytes.extend_from_slice(b"\"}\n{\"text\": \"next\"}\n");
        let rows = rows_of(&bytes, source(InputFormat::Jsonl));
        assert_eq!(texts(&rows), ["ERROR", "next"]);
        assert!(matches!(rows[0].question, Err(Error::TooLarge { .. })));
    }

    #[test]
    fn rows_override_the_flags() {
        let bytes =
            br#"{"text": "t", "labels": ["x", "y"], "multi_label": true, "threshold": 0.25, "gold": "x"}"#;
        let mut asked = source(InputFormat::Jsonl);
        asked.keep = vec!["gold".into(), "none".into()];
        let rows = rows_of(bytes, asked);
        let request = &rows[0].question.as_ref().unwrap().request;
        assert_eq!(request.labels.names(), ["x", "y"]);
        assert_eq!(request.threshold, 0.25);
        assert_eq!(rows[0].kept, [json!("x"), Value::Null]);
        let mut deaf = source(InputFormat::Jsonl);
        deaf.labels = RowLabels::Flag;
        deaf.ignored = vec!["threshold".into()];
        let rows = rows_of(bytes, deaf);
        let request = &rows[0].question.as_ref().unwrap().request;
        assert_eq!(request.labels.names(), ["a", "bb"]);
        assert_eq!(request.threshold, 0.5);
    }

    #[test]
    fn labels_of_row_and_flag_must_agree() {
        let jsonl = b"{\"text\":\"t\"}\n{\"text\":\"t\",\"labels\":[\"a\",\"bb\"]}\n{\"text\":\"t\",\"labels\":null}\n\
            {\"text\":\"t\",\"labels\":[\"bb\",\"a\"]}\n{\"text\":\"t\",\"labels\":3}\n";
        let csv = b"text,labels\nt,\nt,\"a,bb\"\nt,\"[\"\"a\"\",\"\"bb\"\"]\"\nt,\"bb,a\"\nt,\",\"\n";
        for (format, bytes) in [(InputFormat::Jsonl, &jsonl[..]), (InputFormat::Csv, csv)] {
            let mut agreeing = source(format);
            agreeing.labels = RowLabels::Agreeing;
            let rows = rows_of(bytes, agreeing);
            assert_eq!(texts(&rows), ["t", "t", "t", "ERROR", "ERROR"]);
            let message = rows[3].question.as_ref().unwrap_err().to_string();
            assert!(message.contains("--labels-field labels") && message.contains("--ignore-field labels"));
            let mut deaf = source(format);
            deaf.labels = RowLabels::Flag;
            assert_eq!(texts(&rows_of(bytes, deaf)), ["t"; 5]);
        }
    }

    #[test]
    fn empty_texts_are_errors_unless_allowed() {
        let jsonl = b"{\"text\":\"\"}\n{\"text\":\" \\n\\u3000\"}\n{\"text\":\"t\"}\n";
        let csv = b"id,text\n1,\n2,\" \n\xE3\x80\x80\"\n3,t\n";
        for (format, bytes) in [(InputFormat::Jsonl, &jsonl[..]), (InputFormat::Csv, csv)] {
            let mut strict = source(format);
            strict.allow_empty = false;
            let rows = rows_of(bytes, strict);
            assert_eq!(texts(&rows), ["ERROR", "ERROR", "t"]);
            assert!(rows[0].question.as_ref().unwrap_err().to_string().contains("--allow-empty"));
            assert!(!texts(&rows_of(bytes, source(format))).contains(&"ERROR"));
        }
    }

    #[test]
    fn csv_with_quotes_newlines_and_bad_rows() {
        let bytes = b"\xEF\xBB\xBFid,text,labels\r\n1,\"two\nlines, \"\"quoted\"\"\",\r\n\r\n2,plain,\"x,y\"\r\n3,short\r\n4,\xFF,\r\n5,last,";
        let rows = rows_of(bytes, source(InputFormat::Csv));
        assert_eq!(texts(&rows), ["two\nlines, \"quoted\"", "plain", "ERROR", "ERROR", "last"]);
        assert_eq!(rows[1].question.as_ref().unwrap().request.labels.names(), ["x", "y"]);
        assert_eq!(rows[0].question.as_ref().unwrap().request.labels.names(), ["a", "bb"]);
        assert_eq!(rows[4].id, json!("5"));
    }

    #[test]
    fn an_open_quote_is_an_error_record() {
        let rows = rows_of(b"text\nfine\n\"open\n", source(InputFormat::Csv));
        assert_eq!(texts(&rows), ["fine", "ERROR"]);
    }

    #[test]
    fn headers_are_checked() {
        let refused = |bytes: &[u8], source: Source| match Reader::new(bytes, source) {
            Err(failure) => {
                assert_eq!(failure.code(), 2);
                failure.to_string()
            }
            Ok(_) => panic!("accepted"),
        };
        let message = refused(b"id,body\n1,x\n", source(InputFormat::Csv));
        assert!(message.contains("text") && message.contains("id, body"), "{message}");
        assert!(refused(b"text,text\n", source(InputFormat::Csv)).contains("twice"));
        assert!(refused(b"", source(InputFormat::Csv)).contains("empty"));
        let mut asked = source(InputFormat::Csv);
        asked.keep = vec!["gold".into()];
        assert!(refused(b"text\n", asked).contains("gold"));
        assert!(refused(b"\xFF\xFEt\0", source(InputFormat::Jsonl)).contains("UTF-16"));
    }
}
