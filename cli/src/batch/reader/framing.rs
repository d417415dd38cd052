//! Cutting a byte stream into records without ever holding more than one.

use std::io::{self, BufRead};

/// What ends a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::batch) enum Framing {
    /// A line end.
    Lines,
    /// A line end outside quotes; quotes open only at the start of a field.
    Csv {
        /// The delimiter between fields.
        delimiter: u8,
    },
}

/// How a record ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::batch) enum Ending {
    /// With its line end.
    Complete,
    /// With the end of the stream; inside quotes when `quoted`.
    EndOfStream {
        /// A quote was still open.
        quoted: bool,
    },
    /// It was over the limit: its content is lost, the stream stands behind it.
    TooLong {
        /// A quote was still open when the stream ended.
        quoted: bool,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    FieldStart,
    Unquoted,
    Quoted,
    QuoteInQuoted,
}

/// The records of a stream.
#[derive(Debug)]
pub(in crate::batch) struct Records<R> {
    stream: R,
    framing: Framing,
    limit: usize,
    position: u64,
}

impl<R: BufRead> Records<R> {
    /// Records of at most `limit` bytes.
    pub(in crate::batch) fn new(stream: R, framing: Framing, limit: usize) -> Self {
        Self { stream, framing, limit, position: 0 }
    }

    /// The stream behind the records.
    pub(in crate::batch) fn stream(&self) -> &R {
        &self.stream
    }

    /// Bytes consumed so far: the offset behind the last record.
    pub(in crate::batch) fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next record into `record`, without its line end; `None` at the end of the stream.
    pub(in crate::batch) fn next_into(&mut self, record: &mut Vec<u8>) -> io::Result<Option<Ending>> {
        record.clear();
        let mut state = State::FieldStart;
        let mut too_long = false;
        let mut any = false;
        loop {
            let chunk = match self.stream.fill_buf() {
                Ok(chunk) => chunk,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            if chunk.is_empty() {
                let quoted = state == State::Quoted;
                return Ok(match (any, too_long) {
                    (false, _) => None,
                    (true, true) => Some(Ending::TooLong { quoted }),
                    (true, false) => Some(Ending::EndOfStream { quoted }),
                });
            }
            any = true;
            let end = find_end(chunk, self.framing, &mut state);
            let content = &chunk[..end.unwrap_or(chunk.len())];
            if record.len() + content.len() > self.limit {
                too_long = true;
                *record = Vec::new(); // gives the memory back
            }
            if !too_long {
                record.extend_from_slice(content);
            }
            let consumed = content.len() + usize::from(end.is_some());
            self.position += consumed as u64;
            self.stream.consume(consumed);
            if end.is_some() {
                if record.last() == Some(&b'\r') {
                    record.pop();
                }
                return Ok(Some(if too_long { Ending::TooLong { quoted: false } } else { Ending::Complete }));
            }
        }
    }
}

/// Offset of the line end that ends the record, if it is in this chunk.
fn find_end(chunk: &[u8], framing: Framing, state: &mut State) -> Option<usize> {
    let Framing::Csv { delimiter } = framing else {
        return chunk.iter().position(|b| *b == b'\n');
    };
    for (i, &byte) in chunk.iter().enumerate() {
        *state = match (*state, byte) {
            (State::Quoted, b'"') => State::QuoteInQuoted,
            (State::Quoted, _) => State::Quoted,
            (State::FieldStart | State::QuoteInQuoted, b'"') => State::Quoted,
            (_, b'\n') => return Some(i),
            (_, b) if b == delimiter => State::FieldStart,
            _ => State::Unquoted,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    const CSV: Framing = Framing::Csv { delimiter: b',' };

    /// The records, read through a buffer of `capacity` bytes so that every cut is met.
    fn records(bytes: &[u8], framing: Framing, limit: usize, capacity: usize) -> Vec<(String, Ending)> {
        let mut records = Records::new(BufReader::with_capacity(capacity, bytes), framing, limit);
        let (mut out, mut record) = (Vec::new(), Vec::new());
        while let Some(ending) = records.next_into(&mut record).unwrap() {
            out.push((String::from_utf8(record.clone()).unwrap(), ending));
        }
        assert_eq!(records.position(), bytes.len() as u64);
        out
    }

    fn complete(texts: &[&str]) -> Vec<(String, Ending)> {
        texts.iter().map(|t| ((*t).to_owned(), Ending::Complete)).collect()
    }

    #[test]
    fn lines() {
        for capacity in 1..9 {
            assert_eq!(records(b"a\r\nbc\n\n", Framing::Lines, 9, capacity), complete(&["a", "bc", ""]));
            let tail = ("b\"".to_owned(), Ending::EndOfStream { quoted: false });
            assert_eq!(records(b"a\nb\"", Framing::Lines, 9, capacity)[1], tail);
            assert!(records(b"", Framing::Lines, 9, capacity).is_empty());
        }
    }

    #[test]
    fn csv_quotes_hide_line_ends() {
        for capacity in 1..9 {
            let bytes = b"\"a\nb\",c\n\"d\"\"\n\",5\" disk\n,\"\"\n";
            assert_eq!(
                records(bytes, CSV, 99, capacity),
                complete(&["\"a\nb\",c", "\"d\"\"\n\",5\" disk", ",\"\""])
            );
            let open = records(b"x,\"open\n", CSV, 99, capacity);
            assert_eq!(open, [("x,\"open\n".to_owned(), Ending::EndOfStream { quoted: true })]);
        }
    }

    #[test]
    fn long_records_are_skipped_whole() {
        for capacity in 1..9 {
            let got = records(b"ok\nmuch too long\nfine\nlonger again", Framing::Lines, 4, capacity);
            let endings: Vec<Ending> = got.iter().map(|r| r.1).collect();
            let long = Ending::TooLong { quoted: false };
            assert_eq!(endings, [Ending::Complete, long, Ending::Complete, long]);
            assert_eq!(got[2].0, "fine");
        }
    }

    #[test]
    fn a_long_record_is_never_in_memory() {
        let stream = BufReader::new(io::Read::take(io::repeat(b'a'), 1 << 26));
        let mut records = Records::new(stream, Framing::Lines, 1 << 10);
        let mut record = Vec::new();
        assert_eq!(records.next_into(&mut record).unwrap(), Some(Ending::TooLong { quoted: false }));
        assert!(record.capacity() <= 1 << 14);
        assert_eq!(records.next_into(&mut record).unwrap(), None);
    }
}
