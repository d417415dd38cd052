//! The rows of `classify`: a text, and what it is judged by.

use dikast_core::{Error, Result};
use serde_json::{Map, Value};

use super::csv::Columns;
use super::{Fields, Source, jsonl};
use crate::args::{ClassifyArgs, InputFormat};
use crate::batch::files::Files;
use crate::exit;
use crate::request::{Question, Template};

/// Where the labels of a row come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RowLabels {
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
pub(super) const LABELS: &str = "labels";

/// Which fields of a row mean what.
#[derive(Debug)]
pub(in crate::batch) struct TextSource {
    format: InputFormat,
    pub(super) delimiter: u8,
    pub(super) text: String,
    pub(super) labels: RowLabels,
    /// Fields of the row that are no part of its request.
    pub(super) ignored: Vec<String>,
    /// Answer empty texts.
    allow_empty: bool,
    /// Field of the id, and whether it was asked for by name.
    pub(super) id: (String, bool),
    pub(super) keep: Vec<String>,
    template: Template,
    /// Of a CSV input, once its header was read.
    columns: Option<Columns>,
}

impl TextSource {
    /// The fields that the flags name.
    pub(in crate::batch) fn from_args(args: &ClassifyArgs, files: &Files, template: Template) -> Self {
        let batch = &args.batch;
        let ignored = |name: &str| batch.ignore_field.iter().any(|ignored| ignored == name);
        let labels = match &batch.labels_field {
            Some(field) => RowLabels::Own { field: field.clone(), asked: true },
            None if ignored(LABELS) || batch.text_field == LABELS => RowLabels::Flag,
            None if args.labels.is_empty() => RowLabels::Own { field: LABELS.to_owned(), asked: false },
            None => RowLabels::Agreeing,
        };
        Self {
            format: files.input_format(),
            delimiter: files.input_delimiter(),
            text: batch.text_field.clone(),
            labels,
            ignored: batch.ignore_field.clone(),
            allow_empty: args.allow_empty,
            id: batch.id_field.as_ref().map_or_else(|| ("id".to_owned(), false), |name| (name.clone(), true)),
            keep: batch.keep.clone(),
            template,
            columns: None,
        }
    }
}

impl Source for TextSource {
    type Question = Question;

    const MAX_ROW_BYTES: usize = 8 << 20;

    fn format(&self) -> InputFormat {
        self.format
    }

    fn delimiter(&self) -> u8 {
        self.delimiter
    }

    fn begin(&mut self, header: &[u8]) -> exit::Result<()> {
        self.columns = Some(Columns::find(header, self)?);
        Ok(())
    }

    fn fields(&self, record: &str) -> Fields<Question> {
        match &self.columns {
            Some(columns) => columns.fields(record, self),
            None => jsonl::fields(record, self),
        }
    }

    fn kept(&self) -> usize {
        self.keep.len()
    }
}

impl TextSource {
    /// The question of a row with its own fields. `other` is what the field `labels` says where the flag's count.
    pub(super) fn question(
        &self,
        text: String,
        own: Map<String, Value>,
        other: Option<&Value>,
    ) -> Result<Question> {
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

#[cfg(test)]
pub(in crate::batch) mod tests {
    use serde_json::json;

    use super::*;
    use crate::batch::reader::{Reader, Row};

    impl TextSource {
        /// Copies these fields to the output.
        pub(in crate::batch) fn set_keep(&mut self, keep: Vec<String>) {
            self.keep = keep;
        }
    }

    /// A source for tests: labels `a`, `bb` from the flags.
    pub(in crate::batch) fn source(format: InputFormat) -> TextSource {
        TextSource {
            format,
            delimiter: b',',
            text: "text".into(),
            labels: RowLabels::Own { field: LABELS.into(), asked: false },
            ignored: Vec::new(),
            allow_empty: true,
            id: ("id".into(), false),
            keep: Vec::new(),
            template: Template::for_tests(&json!({"labels": ["a", "bb"]})),
            columns: None,
        }
    }

    fn rows_of(bytes: &[u8], source: TextSource) -> Vec<Row<Question>> {
        let mut reader = Reader::new(bytes, source).unwrap();
        std::iter::from_fn(|| reader.next_row().unwrap()).collect()
    }

    fn texts(rows: &[Row<Question>]) -> Vec<&str> {
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
        bytes.resize(TextSource::MAX_ROW_BYTES + 10, b'x');
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
    fn csv_rows_of_empty_cells_are_rows() {
        for (delimiter, bytes) in
            [(b'\t', b"id\ttext\n\t\n\r\n\n2\tx\n\t"), (b' ', b"id text\n \n\r\n\n2 x\n ")]
        {
            let mut spaced = source(InputFormat::Csv);
            spaced.delimiter = delimiter;
            let rows = rows_of(bytes, spaced);
            assert_eq!(texts(&rows), ["", "x", ""]);
            assert_eq!(rows[1].number, 1);
        }
    }

    #[test]
    fn an_open_quote_is_an_error_record() {
        let rows = rows_of(b"text\nfine\n\"open\n", source(InputFormat::Csv));
        assert_eq!(texts(&rows), ["fine", "ERROR"]);
    }

    #[test]
    fn headers_are_checked() {
        let refused = |bytes: &[u8], source: TextSource| match Reader::new(bytes, source) {
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
        for bytes in [&b"text\rone\rtwo\r"[..], b"id,text\r1,\"a\nb\"\r", b"text\r"] {
            assert!(refused(bytes, source(InputFormat::Csv)).contains("carriage return"));
        }
        let mut asked = source(InputFormat::Csv);
        asked.keep = vec!["gold".into()];
        assert!(refused(b"text\n", asked).contains("gold"));
        assert!(refused(b"\xFF\xFEt\0", source(InputFormat::Jsonl)).contains("UTF-16"));
    }
}
