//! A small collector of OpenTelemetry.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message as _;

/// Takes exports until it is asked for them.
pub(crate) struct Collector {
    address: SocketAddr,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("it listens");
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let kept = bodies.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, kept) = (stream.expect("a connection"), kept.clone());
                thread::spawn(move || connection(&stream, &kept));
            }
        });
        Self { address, bodies }
    }

    pub(crate) fn base(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All that came.
    pub(crate) fn end(self) -> Got {
        let bodies = self.bodies.lock().expect("no panic inside").clone();
        let mut got = Got { spans: Vec::new(), resource: Vec::new(), bodies };
        for body in &got.bodies {
            let export = ExportTraceServiceRequest::decode(&body[..]).expect("an export");
            for part in export.resource_spans {
                got.resource = part.resource.expect("a resource").attributes;
                got.spans.extend(part.scope_spans.into_iter().flat_map(|scope| scope.spans));
            }
        }
        got
    }
}

/// Answers the exports of a connection.
fn connection(stream: &TcpStream, kept: &Mutex<Vec<Vec<u8>>>) {
    let mut lines = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if lines.read_line(&mut head).expect("text") == 0 {
                return;
            }
        }
        let head = head.to_ascii_lowercase();
        assert!(head.starts_with("post /v1/traces http/1.1"), "{head}");
        assert!(head.contains("content-type: application/x-protobuf"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.trim().parse().ok());
        let mut body = vec![0; length.expect("a length")];
        lines.read_exact(&mut body).expect("all of it");
        kept.lock().expect("no panic inside").push(body);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
        let mut stream = stream;
        stream.write_all(answer).expect("somebody listens");
    }
}

/// What a collector got.
pub(crate) struct Got {
    pub(crate) spans: Vec<Span>,
    resource: Vec<KeyValue>,
    bodies: Vec<Vec<u8>>,
}

impl Got {
    /// Whether these letters stand anywhere in it, in either case.
    pub(crate) fn says(&self, text: &str) -> bool {
        self.bodies
            .iter()
            .any(|body| String::from_utf8_lossy(body).to_lowercase().contains(&text.to_lowercase()))
    }

    pub(crate) fn resource(&self, name: &str) -> Option<String> {
        find(&self.resource, name)
    }

    /// The span of the request with that id.
    pub(crate) fn find(&self, id: &str) -> Option<&Span> {
        self.spans.iter().find(|span| value(span, "dikast.request_id").as_deref() == Some(id))
    }

    pub(crate) fn request(&self, id: &str) -> &Span {
        self.find(id).unwrap_or_else(|| panic!("no span of {id}"))
    }

    /// Spans right below one, the first to begin first.
    pub(crate) fn children(&self, of: &Span) -> Vec<&Span> {
        let below = |span: &&Span| span.trace_id == of.trace_id && span.parent_span_id == of.span_id;
        let mut all: Vec<&Span> = self.spans.iter().filter(below).collect();
        all.sort_by_key(|span| (span.start_time_unix_nano, span.end_time_unix_nano));
        all
    }
}

/// An attribute's value as text.
pub(crate) fn value(span: &Span, name: &str) -> Option<String> {
    find(&span.attributes, name)
}

/// Whether a span is marked as an error.
pub(crate) fn failed(span: &Span) -> bool {
    span.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn find(attributes: &[KeyValue], name: &str) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.key == name)?;
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text.clone()),
        Value::IntValue(number) => Some(number.to_string()),
        other => panic!("{name}: {other:?}"),
    }
}
