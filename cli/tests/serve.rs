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
        if name.to_string_lossy().starts_with("DIKAST_") {
            command.env_remove(name);
        }
    }
    command
}

/// A ready server and its address.
fn ready(arguments: &[&str]) -> (Serving, String) {
    let mut serving = Serving(serve(arguments).spawn().expect("it starts"));
    let mut out = BufReader::new(serving.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("ready on http://").unwrap_or_else(|| panic!("{line:?}"));
    (serving, address.to_owned())
}

#[test]
fn it_prints_its_address_answers_and_ends_with_0() {
    let (mut serving, address) = ready(&["--log", "json"]);
    let body = r#"{"texts":["The lift is stuck"],"labels":["repair","sales"],"threshold":0}"#;
    let mut stream = TcpStream::connect(&address).expect("it listens");
    let head =
        "POST /gliclass HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-type: application/json\r\n";
    write!(stream, "{head}content-length: {}\r\n\r\n{body}", body.len()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""label":"repair""#), "{answer}");

    let id = serving.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill is there").success());
    assert_eq!(serving.0.wait().expect("it ends").code(), Some(0));
    let mut log = String::new();
    serving.0.stderr.take().expect("a pipe").read_to_string(&mut log).expect("text");
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
    ] {
        let output = serve(arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
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
