//! Settings of `serve` from a file, and all of them printed as one.
//!
//! A setting has the name of its flag. Flags go before variables of the environment, these before the file, and that before
//! the built-in defaults: what stands in the file becomes the default of its flag, so that one parser checks all of them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::builder::OsStr;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Table, Value};

/// The subcommand that has a file.
const SERVE: &str = "serve";
/// Flags that are no settings; a key has no business in a file that people print.
const NO_SETTINGS: [&str; 4] = ["config", "print-config", "api-key", "help"];
/// Largest file.
const MAX_BYTES: u64 = 1 << 20;

/// Settings of a file, each with its values as flags would have them.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Settings(Vec<(String, Vec<String>)>);

/// The file that a command line asks for.
pub(super) fn file(matches: &ArgMatches) -> Option<PathBuf> {
    matches.subcommand_matches(SERVE)?.get_one::<PathBuf>("config").cloned()
}

impl Settings {
    /// Reads a file.
    ///
    /// # Errors
    /// What cannot be read, is no TOML, or is no setting, with the names that are.
    pub(super) fn read(path: &Path, command: &Command) -> Result<Self, String> {
        let size = std::fs::metadata(path).map_err(|e| e.to_string())?.len();
        if size > MAX_BYTES {
            return Err(format!("{size} bytes, {MAX_BYTES} are allowed"));
        }
        Self::parse(&std::fs::read_to_string(path).map_err(|e| e.to_string())?, command)
    }

    fn parse(text: &str, command: &Command) -> Result<Self, String> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| e.to_string().trim_end().to_owned())?;
        let allowed: BTreeSet<&str> = settings(command).filter_map(Arg::get_long).collect();
        let mut all = Vec::new();
        for (key, value) in table {
            let name = key.replace('_', "-");
            if !allowed.contains(name.as_str()) {
                let allowed: Vec<&str> = allowed.into_iter().collect();
                return Err(format!("{key}: no such setting; allowed are {}", allowed.join(", ")));
            }
            all.push((name, values(&key, value)?));
        }
        Ok(Self(all))
    }

    /// The command with these settings as defaults.
    pub(super) fn applied(&self, command: Command) -> Command {
        command.mut_subcommand(SERVE, |serve| {
            serve.mut_args(|arg| match self.of(arg.get_long().unwrap_or_default()) {
                Some(values) => arg.default_values(values.iter().map(OsStr::from)),
                None => arg,
            })
        })
    }

    fn of(&self, name: &str) -> Option<&[String]> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, values)| values.as_slice())
    }

    /// All settings in force as a file, each with where it comes from.
    pub(super) fn printed(&self, matches: &ArgMatches, command: &Command) -> String {
        let mut text = String::new();
        let Some(matches) = matches.subcommand_matches(SERVE) else { return text };
        for arg in settings(command) {
            let name = arg.get_long().unwrap_or_default();
            let raw: Vec<String> = matches
                .get_raw(arg.get_id().as_str())
                .map(|all| all.map(|value| value.to_string_lossy().into_owned()).collect())
                .unwrap_or_default();
            let source = match matches.value_source(arg.get_id().as_str()) {
                Some(ValueSource::CommandLine) => "flag",
                Some(ValueSource::EnvVariable) => "environment",
                _ if self.of(name).is_some() => "file",
                _ => "default",
            };
            // Writing to a string does not fail.
            let _ = match printable(arg, &raw) {
                Some(value) => writeln!(text, "{name} = {value}  # {source}"),
                None => writeln!(text, "# {name} is not set"),
            };
        }
        text
    }
}

/// The flags of `serve` that may stand in a file.
fn settings(command: &Command) -> impl Iterator<Item = &Arg> {
    let serve = command.find_subcommand(SERVE);
    let args = serve.into_iter().flat_map(Command::get_arguments);
    args.filter(|arg| arg.get_long().is_some_and(|name| !NO_SETTINGS.contains(&name)))
}

/// A value as flags would have it. A table names its entries, as `--model NAME=DIR` does.
fn values(key: &str, value: Value) -> Result<Vec<String>, String> {
    let one = |value: Value| match value {
        Value::String(text) => Ok(text),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Boolean(flag) => Ok(flag.to_string()),
        other => {
            Err(format!("{key}: {} found, a string, a number or a boolean is allowed", other.type_str()))
        }
    };
    match value {
        Value::Array(all) => all.into_iter().map(one).collect(),
        Value::Table(all) if key == "model" => {
            all.into_iter().map(|(name, value)| Ok(format!("{name}={}", one(value)?))).collect()
        }
        other => Ok(vec![one(other)?]),
    }
}

/// A setting's values as TOML; `None` without any.
fn printable(arg: &Arg, raw: &[String]) -> Option<Value> {
    let one = |text: &String| match (text.parse(), text.parse()) {
        (Ok(number), _) => Value::Integer(number),
        (_, Ok(flag)) => Value::Boolean(flag),
        _ => Value::String(text.clone()),
    };
    if matches!(arg.get_action(), ArgAction::Append) {
        return (!raw.is_empty()).then(|| Value::Array(raw.iter().cloned().map(Value::String).collect()));
    }
    raw.first().map(one)
}

/// Nothing asks for a variable of the environment any more: what it says was read.
#[cfg(test)]
fn without_environment(command: Command) -> Command {
    command.mut_subcommand(SERVE, |serve| serve.mut_args(|arg| arg.env(clap::builder::Resettable::Reset)))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn command() -> Command {
        without_environment(super::super::Cli::command())
    }

    fn printed(file: &str, args: &[&str]) -> Result<String, String> {
        let settings = Settings::parse(file, &command())?;
        let line = ["dikast", "serve"].iter().chain(args);
        let matches = settings.applied(command()).try_get_matches_from(line).map_err(|e| e.to_string())?;
        Ok(settings.printed(&matches, &command()))
    }

    #[test]
    fn flags_go_before_the_file_and_that_before_defaults() {
        let file = "max_wait = '2ms'\nqueue-requests = 7\nany-model = true\n[model]\na = '/x'\nb = '/y'\n";
        let text = printed(file, &["--queue-requests", "9"]).expect("settings");
        for line in [
            r#"max-wait = "2ms"  # file"#,
            "queue-requests = 9  # flag",
            "any-model = true  # file",
            "insecure = false  # default",
            r#"model = ["a=/x", "b=/y"]  # file"#,
            "# tls-cert is not set",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}: {text}");
        }
        // What is printed is a file with the same meaning.
        let again = printed(&text, &[]).expect("settings");
        let bare =
            |text: &str| text.lines().map(|l| l.split("  # ").next().map(str::to_owned)).collect::<Vec<_>>();
        assert_eq!(bare(&again), bare(&text));
    }

    #[test]
    fn keys_are_not_printed_and_not_read() {
        let text = printed("", &["--api-key", "secret"]).expect("settings");
        assert!(!text.contains("secret"), "{text}");
        assert!(printed("api-key = 'secret'", &[]).is_err());
    }

    #[test]
    fn what_is_wrong_in_a_file_is_named() {
        for (file, part) in [
            ("max-weight = 1", "max-weight: no such setting; allowed are any-model"),
            ("max-wait = 5", "--max-wait"),
            ("max-wait = [[1]]", "max-wait: array found"),
            ("max-wait = ", "line 1"),
            ("listen = {a = 1}", "listen: table found"),
            ("log = 'loud'", "--log"),
        ] {
            let error = printed(file, &[]).expect_err(file);
            assert!(error.contains(part), "{file}: {error}");
        }
    }
}
