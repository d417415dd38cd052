//! `dikast serve` as a process: the printed address, an answer, the end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// Ends the process when a test fails.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn serve(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dikast"));
    command.args(["serve", "--backend", "cpu"]).args(arguments);
    if !arguments.contains(&"--listen") {
        command.args(["--listen", "127.0.0.1:0"]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("DIKAST_") || name.starts_with("OTEL_") {
            command.env_remove(&*name);
        }
    }
    command
}

/// A ready server and its address.
fn ready(arguments: &[&str]) -> (Serving, String) {
    started(serve(arguments))
}

fn started(mut command: Command) -> (Serving, String) {
    let mut serving = Serving(command.spawn().expect("it starts"));
    let mut out = BufReader::new(serving.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("ready on http://").unwrap_or_else(|| panic!("{line:?}"));
    (serving, address.to_owned())
}

/// Asks for labels.
fn ask(address: &str) {
    let body = r#"{"texts":["The lift is stuck"],"labels":["repair","sales"],"threshold":0}"#;
    let mut stream = TcpStream::connect(address).expect("it listens");
    let head =
        "POST /gliclass HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""label":"repair""#), "{answer}");
}

/// Ends it as its keepers do; its exit code and its log.
fn term(mut serving: Serving) -> (Option<i32>, String) {
    let id = serving.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill is there").success());
    let code = serving.0.wait().expect("it ends").code();
    let mut log = String::new();
    serving.0.stderr.take().expect("a pipe").read_to_string(&mut log).expect("text");
    (code, log)
}

#[test]
fn it_prints_its_address_answers_and_ends_with_0() {
    let (serving, address) = ready(&["--log", "json"]);
    ask(&address);
    let (code, log) = term(serving);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains(r#""route":"/gliclass","status":200"#), "{log}");
    assert!(!log.contains("lift") && !log.contains("repair"), "nothing that callers sent: {log}");
}

#[test]
fn what_cannot_be_served_is_refused() {
    for (arguments, code, part) in [
        (&["--listen", "0.0.0.0:0"][..], 2, "--insecure"),
        (&["--listen", "nowhere"], 2, "ADDRESS:PORT"),
        (&["--model", "=x"], 2, "NAME=DIR"),
        (&["--model", "a=/no/such/folder"], 3, "/no/such/folder"),
        (&["--api-key", " "], 2, "blank"),
        (&["--max-wait", "5"], 2, "unit"),
        (&["--rate-limit", "5"], 2, "20/s"),
        (&["--rate-limit", "5/s"], 2, "no key"),
        (&["--tls-cert", "cert.pem"], 2, "--tls-key"),
        (&["--cors-origin", "example.com"], 2, "https://example.com"),
        (&["--devices", "0"], 2, "0"),
        (&["--queue-bytes", "1M"], 2, "--max-body"),
        (&["--otlp-endpoint", "localhost:4318"], 2, "http://localhost:4318"),
        (&["--otlp-endpoint", "grpc://localhost:4317"], 2, "http://localhost:4318"),
    ] {
        let output = serve(arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}

#[test]
fn what_the_standard_of_traces_says_is_checked_at_the_start() {
    let mut command = serve(&[]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://localhost:4317");
    let output = command.env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("OTEL_EXPORTER_OTLP_PROTOCOL: grpc found, http/protobuf is allowed"), "{text}");
    let certificate = [("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file")];
    let output =
        serve(&["--otlp-endpoint", "https://localhost"]).envs(certificate).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("/no/such/file"), "{text}");
}

/// A collector that takes connections and never answers, with an hour of patience for it.
#[test]
fn a_collector_that_hangs_holds_nobody_up() {
    let collector = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let base = format!("http://{}", collector.local_addr().expect("it listens"));
    let mut command = serve(&["--otlp-endpoint", &base]);
    command.envs([("OTEL_BSP_SCHEDULE_DELAY", "20"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000")]);
    let (serving, address) = started(command);
    ask(&address);
    let (mut export, _) = collector.accept().expect("spans come");
    let mut head = [0; 20];
    export.read_exact(&mut head).expect("a request");
    assert_eq!(&head, b"POST /v1/traces HTTP");
    (0..20).for_each(|_| ask(&address));
    let (code, log) = term(serving);
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn that_no_collector_is_there_is_said_once() {
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
        listener.local_addr().expect("it listens")
    };
    let (serving, address) = ready(&["--otlp-endpoint", &format!("http://{closed}")]);
    (0..3).for_each(|_| ask(&address));
    let (code, log) = term(serving);
    assert_eq!((code, log.matches("spans do not reach").count()), (Some(0), 1), "{log}");
}

/// Whatever was sent before SIGTERM is answered: with an answer, or with a refusal that says to ask elsewhere.
#[test]
fn sigterm_under_load_leaves_nobody_without_an_answer() {
    let (mut serving, address) = ready(&["--log", "off", "--devices", "2"]);
    let body =
        r#"{"texts":["The lift is stuck","It rained all day"],"labels":["repair","sales"],"threshold":0}"#;
    let streams: Vec<TcpStream> = (0..40)
        .map(|_| {
            let mut stream = TcpStream::connect(&address).expect("it listens");
            let head = "POST /gliclass HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
            write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).expect("sent");
            stream
        })
        .collect();
    let id = serving.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill is there").success());
    for mut stream in streams {
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer and a proper end");
        let refused = answer.starts_with("HTTP/1.1 503") && answer.contains("retry-after");
        assert!(answer.starts_with("HTTP/1.1 200") || refused, "{answer}");
    }
    assert_eq!(serving.0.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_killed_server_comes_back_on_its_address() {
    let (mut serving, address) = ready(&["--log", "off"]);
    ask(&address);
    // A connection that the end of the server leaves behind.
    let held = TcpStream::connect(&address).expect("it listens");
    serving.0.kill().expect("it runs");
    serving.0.wait().expect("it ends");
    let (serving, again) = ready(&["--log", "off", "--listen", &address]);
    assert_eq!(again, address);
    ask(&address);
    drop(held);
    assert_eq!(term(serving).0, Some(0));
}

#[test]
fn settings_come_from_flags_variables_and_a_file() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), "max-wait = '3ms'\nqueue-requests = 5\nlog = 'off'\n").expect("written");
    let path = file.path().to_str().expect("UTF-8");
    let printed = serve(&["--config", path, "--max-wait", "2ms", "--api-key", "secret", "--print-config"])
        .env("DIKAST_LOG", "json")
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&printed.stdout);
    assert_eq!(printed.status.code(), Some(0), "{printed:?}");
    for line in ["max-wait = \"2ms\"  # flag", "queue-requests = 5  # file", "log = \"json\"  # environment"]
    {
        assert!(text.lines().any(|l| l == line), "{line}: {text}");
    }
    assert!(!text.contains("secret"), "{text}");
    std::fs::write(file.path(), "max-weight = 3\n").expect("written");
    let refused = serve(&["--config", path]).output().expect("it runs");
    let text = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && text.contains("max-weight"), "{text}");
}
