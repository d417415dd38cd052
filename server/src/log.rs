//! One line a request, without anything that a caller sent but the request's id.

use std::io::Write as _;

use dikast_core::request::Json;

use crate::app::now;
use crate::config::LogFormat;
use crate::wire::json::{count, object, push};

/// Where lines go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Log {
    format: LogFormat,
}

/// What a line says.
pub(crate) struct Line<'l> {
    pub(crate) request_id: &'l str,
    pub(crate) method: &'l str,
    /// The route's pattern, not its path: paths hold account names.
    pub(crate) route: &'l str,
    pub(crate) model: Option<&'l str>,
    pub(crate) status: u16,
    pub(crate) code: Option<&'l str>,
    pub(crate) tokens: u64,
    pub(crate) questions: u64,
    pub(crate) milliseconds: f64,
    /// What happened inside, for faults of the server.
    pub(crate) fault: Option<&'l str>,
}

impl Log {
    pub(crate) fn new(format: LogFormat) -> Self {
        Self { format }
    }

    /// Writes a request's line.
    pub(crate) fn request(&self, line: &Line<'_>) {
        let text = match self.format {
            LogFormat::Off => return,
            LogFormat::Json => json(line).to_string(),
            LogFormat::Text => plain(line),
        };
        write(&text);
    }

    /// Writes what happened to the server itself.
    pub(crate) fn event(&self, event: &str, detail: &str) {
        let text = match self.format {
            LogFormat::Off => return,
            LogFormat::Text => format!("{event}: {detail}"),
            LogFormat::Json => {
                object([("time", time()), ("event", event.into()), ("detail", detail.into())]).to_string()
            }
        };
        write(&text);
    }
}

fn write(text: &str) {
    // Nobody is left to tell when standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

fn time() -> Json {
    Json::Float((now().as_secs_f64() * 1e3).round() / 1e3)
}

fn json(line: &Line<'_>) -> Json {
    let mut json = object([
        ("time", time()),
        ("request_id", line.request_id.into()),
        ("method", line.method.into()),
        ("route", line.route.into()),
        ("status", count(line.status)),
        ("ms", Json::Float((line.milliseconds * 1e3).round() / 1e3)),
    ]);
    if let Some(model) = line.model {
        push(&mut json, "model", model.into());
        push(&mut json, "tokens", count(line.tokens));
        push(&mut json, "questions", count(line.questions));
    }
    for (key, value) in [("code", line.code), ("fault", line.fault)] {
        if let Some(value) = value {
            push(&mut json, key, value.into());
        }
    }
    json
}

fn plain(line: &Line<'_>) -> String {
    let mut text = format!(
        "{} {} {} {:.1} ms {}",
        line.status, line.method, line.route, line.milliseconds, line.request_id
    );
    if let Some(model) = line.model {
        text.push_str(&format!(" {model} {} tokens", line.tokens));
    }
    for value in [line.code, line.fault].into_iter().flatten() {
        text.push(' ');
        text.push_str(value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_one_line() {
        let line = Line {
            request_id: "a\nb",
            method: "POST",
            route: "/v1/systemone",
            model: Some("m"),
            status: 200,
            code: None,
            tokens: 7,
            questions: 2,
            milliseconds: 1.25,
            fault: None,
        };
        let text = json(&line).to_string();
        assert!(!text.contains('\n') && text.contains(r#""tokens":7,"questions":2"#), "{text}");
        assert!(plain(&line).starts_with("200 POST /v1/systemone 1.2 ms"));
    }
}
