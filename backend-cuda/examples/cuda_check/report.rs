//! Outcomes: printed as they come, counted, and written as JSON.

use serde_json::{Value, json};

/// All outcomes of a run.
#[derive(Default)]
pub struct Report {
    failures: Vec<String>,
    checks: usize,
    json: Vec<Value>,
    table: Vec<String>,
}

impl Report {
    /// A check that passed or failed, with what was measured.
    pub fn check(&mut self, name: &str, good: bool, detail: &str) {
        self.checks += 1;
        self.json.push(json!({ "check": name, "good": good, "detail": detail }));
        println!("{} {name}: {detail}", if good { "ok  " } else { "FAIL" });
        if !good {
            self.failures.push(format!("{name}: {detail}"));
        }
    }

    /// A check that could not even run.
    pub fn outcome<T>(&mut self, name: &str, result: Result<T, dikast_core::Error>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(error) => {
                self.check(name, false, &error.to_string());
                None
            }
        }
    }

    /// A figure.
    pub fn figure(&mut self, line: String, value: Value) {
        println!("{line}");
        self.table.push(line);
        self.json.push(value);
    }

    /// Writes everything and prints the short table last; whether all checks passed.
    pub fn finish(&self, folder: Option<&std::path::Path>) -> bool {
        if let Some(folder) = folder {
            let text = serde_json::to_string_pretty(&self.json).unwrap_or_default();
            if let Err(error) = std::fs::write(folder.join("cuda_check.json"), text) {
                println!("cuda_check.json: {error}");
            }
        }
        println!("\n---- {} checks, {} failed", self.checks, self.failures.len());
        self.failures.iter().take(40).for_each(|f| println!("FAIL {f}"));
        println!("---- figures");
        self.table.iter().for_each(|line| println!("{line}"));
        self.failures.is_empty()
    }
}
