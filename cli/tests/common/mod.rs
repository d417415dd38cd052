//! Running the built program.
#![allow(dead_code, reason = "no test file uses all of it")]

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_dikast");

/// Variables that would change an answer.
const VARIABLES: [&str; 7] = [
    "DIKAST_MODEL",
    "DIKAST_DECIDE_MODEL",
    "DIKAST_BACKEND",
    "NO_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
];

/// The program, untouched by the environment of whoever runs the tests.
pub(crate) fn dikast() -> Command {
    let mut command = Command::new(PROGRAM);
    for name in VARIABLES {
        command.env_remove(name);
    }
    command
}

/// What a run gave.
pub(crate) struct Outcome {
    /// The exit code.
    pub(crate) code: i32,
    /// Standard output.
    pub(crate) out: String,
    /// Standard error.
    pub(crate) err: String,
}

/// Runs `dikast classify` with arguments and standard input.
pub(crate) fn classify(args: &[&str], stdin: &[u8]) -> Outcome {
    run(dikast().arg("classify").args(args).write_stdin(stdin))
}

/// Runs a command to its end; a panic is a failure whatever the test expects.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    let outcome = Outcome {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    };
    assert!(!outcome.err.contains("panicked"), "{}", outcome.err);
    outcome
}

/// The JSON objects of a text, one a line.
pub(crate) fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A path as an argument.
pub(crate) fn arg(path: &Path) -> &str {
    path.to_str().unwrap()
}
