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
    for name in ["DIKAST_BACKEND", "DIKAST_API_KEY", "DIKAST_API_KEY_FILE", "DIKAST_LISTEN", "DIKAST_LOG"] {
        command.env_remove(name);
    }
    command
}

#[test]
fn it_prints_its_address_answers_and_ends_with_0() {
    let mut serving = Serving(serve(&["--log", "json"]).spawn().expect("it starts"));
    let mut out = BufReader::new(serving.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    let address =
        line.trim().strip_prefix("ready on http://").unwrap_or_else(|| panic!("{line:?}")).to_owned();
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
    ] {
        let output = serve(arguments).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(part), "{arguments:?}: {text}");
    }
}
