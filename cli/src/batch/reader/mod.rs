//! Rows of a JSONL or CSV stream, each a request of its own or the reason why it is none.

mod csv;
pub(super) mod framing;
mod jsonl;

use std::io::BufRead;

use dikast_core::request::ClassifyRequest;
use dikast_core::{Error, Result};
use serde_json::Value;

use crate::args::{ClassifyArgs, InputFormat};
use crate::exit::{self, Failure};
use crate::request::Template;
use framing::{Ending, Framing, Records};

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
    /// The request, or why the row is none.
    pub(super) request: Result<ClassifyRequest>,
    /// Bytes of the row in the input.
    pub(super) bytes: usize,
}

/// What a format's parser makes of a record's text.
struct Fields {
    id: Value,
    kept: Vec<Value>,
    request: Result<ClassifyRequest>,
}

/// Which fields of a row mean what.
#[derive(Debug)]
pub(super) struct Source {
    format: InputFormat,
    delimiter: u8,
    text: String,
    /// Field of the row's own labels, and whether it was asked for by name.
    labels: Option<(String, bool)>,
    /// Field of the id, and whether it was asked for by name.
    id: (String, bool),
    keep: Vec<String>,
    template: Template,
}

impl Source {
    /// The fields that the flags name.
    pub(super) fn from_args(args: &ClassifyArgs, template: Template) -> Self {
        let batch = &args.batch;
        // Data sets often call their gold answers `labels`: with --labels such a field must be asked for by name.
        let labels = match &batch.labels_field {
            Some(name) => Some((name.clone(), true)),
            None => args.labels.is_empty().then(|| ("labels".to_owned(), false)),
        };
        Self {
            format: super::input::format(args),
            delimiter: batch.delimiter,
            text: batch.text_field.clone(),
            labels,
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
    records: Records<R>,
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
    pub(super) fn new(mut stream: R, source: Source) -> exit::Result<Self> {
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
        let Fields { id, kept, request } = fields;
        Ok(Some(Row { number, id, kept, request, bytes: self.record.len() }))
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
        Fields { id: Value::Null, kept: vec![Value::Null; self.keep.len()], request: Err(error) }
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
            labels: Some(("labels".into(), false)),
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
        rows.iter().map(|r| r.request.as_ref().map_or("ERROR", |q| &q.text)).collect()
    }

    #[test]
    fn jsonl_with_every_kind_of_line() {
        let bytes = b"\xEF\xBB\xBF{\"text\": \"one\", \"id\": 7}\r\n\n  \n[1]\n{\"text\": 3}\n{\"text\": \"\xFF\"}\nnope\n{\"text\":\"last\"}";
        let rows = rows_of(bytes, source(InputFormat::Jsonl));
        assert_eq!(texts(&rows), ["one", "ERROR", "ERROR", "ERROR", "ERROR", "last"]);
        assert_eq!(rows.iter().map(|r| r.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(rows[0].id, json!(7));
        assert!(rows[3].request.as_ref().unwrap_err().to_string().contains("not UTF-8"));
    }

    #[test]
    fn a_huge_row_is_an_error_and_the_next_one_is_not() {
        let mut bytes = b"{\"text\": \"".to_vec();
        bytes.resize(MAX_ROW_BYTES + 10, b'x');
        bytes.extend_from_slice(b"\"}\n{\"text\": \"next\"}\n");
        let rows = rows_of(&bytes, source(InputFormat::Jsonl));
        assert_eq!(texts(&rows), ["ERROR", "next"]);
        assert!(matches!(rows[0].request, Err(Error::TooLarge { .. })));
    }

    #[test]
    fn rows_override_the_flags() {
        let bytes =
            br#"{"text": "t", "labels": ["x", "y"], "multi_label": true, "threshold": 0.25, "gold": "x"}"#;
        let mut asked = source(InputFormat::Jsonl);
        asked.keep = vec!["gold".into(), "none".into()];
        let rows = rows_of(bytes, asked);
        let request = rows[0].request.as_ref().unwrap();
        assert_eq!(request.labels.names(), ["x", "y"]);
        assert_eq!(request.threshold, 0.25);
        assert_eq!(rows[0].kept, [json!("x"), Value::Null]);
        let mut deaf = source(InputFormat::Jsonl);
        deaf.labels = None;
        assert_eq!(rows_of(bytes, deaf)[0].request.as_ref().unwrap().labels.names(), ["a", "bb"]);
    }

    #[test]
    fn csv_with_quotes_newlines_and_bad_rows() {
        let bytes = b"\xEF\xBB\xBFid,text,labels\r\n1,\"two\nlines, \"\"quoted\"\"\",\r\n\r\n2,plain,\"x,y\"\r\n3,short\r\n4,\xFF,\r\n5,last,";
        let rows = rows_of(bytes, source(InputFormat::Csv));
        assert_eq!(texts(&rows), ["two\nlines, \"quoted\"", "plain", "ERROR", "ERROR", "last"]);
        assert_eq!(rows[1].request.as_ref().unwrap().labels.names(), ["x", "y"]);
        assert_eq!(rows[0].request.as_ref().unwrap().labels.names(), ["a", "bb"]);
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
