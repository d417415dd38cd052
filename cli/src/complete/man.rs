//! Manual pages: clap's sections, with a synopsis that names values and the help's examples as they stand.

use std::io::{self, Write};
use std::path::Path;

use clap::{Arg, ArgAction, Command};
use clap_mangen::Man;

/// The page of a command.
pub(super) fn render(command: &Command) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let page = Man::new(command.clone());
    page.render_title(&mut out)?;
    let mut section = |render: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| -> io::Result<()> {
        let mut text = Vec::new();
        render(&mut text)?;
        out.extend_from_slice(without_preamble(&text));
        Ok(())
    };
    section(&|out| page.render_name_section(out))?;
    section(&|out| synopsis(command, out))?;
    section(&|out| page.render_description_section(out))?;
    if command.get_arguments().any(|arg| !arg.is_hide_set()) {
        section(&|out| page.render_options_section(out))?;
    }
    if command.has_subcommands() {
        section(&|out| page.render_subcommands_section(out))?;
    }
    if let Some(text) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        section(&|out| blocks(&text.to_string(), out))?;
    }
    if command.get_version().is_some() {
        section(&|out| page.render_version_section(out))?;
    }
    Ok(out)
}

/// A section without the definitions that clap's generator puts before each: the title has brought them.
fn without_preamble(text: &[u8]) -> &[u8] {
    let start = text.windows(4).position(|w| w == b".SH ").unwrap_or(0);
    &text[start..]
}

/// Writes one page a command into a folder.
pub(super) fn write_all(mut command: Command, dir: &Path) -> io::Result<()> {
    command.build();
    std::fs::create_dir_all(dir)?;
    for command in std::iter::once(&command).chain(command.get_subcommands().filter(|c| !c.is_hide_set())) {
        std::fs::write(dir.join(Man::new(command.clone()).get_filename()), render(command)?)?;
    }
    Ok(())
}

fn synopsis(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut line = format!("\\fB{}\\fR", escaped(name));
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(|arg| !arg.is_hide_set()).partition(|arg| arg.is_positional());
    for arg in options.into_iter().chain(positional) {
        let usage = usage(arg);
        line.push_str(&if arg.is_required_set() { format!(" {usage}") } else { format!(" [{usage}]") });
    }
    if command.has_subcommands() {
        line.push_str(" \\fICOMMAND\\fR");
    }
    writeln!(out, ".SH SYNOPSIS\n{line}")
}

/// `-t|--text TEXT` in bold and italics.
fn usage(arg: &Arg) -> String {
    let names = [arg.get_short().map(|c| format!("-{c}")), arg.get_long().map(|long| format!("--{long}"))];
    let names: Vec<String> =
        names.into_iter().flatten().map(|name| format!("\\fB{}\\fR", escaped(&name))).collect();
    let takes_values = arg.is_positional() || matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
    let values = match arg.get_value_names() {
        _ if !takes_values => String::new(),
        Some(values) => values.iter().map(|v| v.as_str()).collect::<Vec<_>>().join(" "),
        None => arg.get_id().as_str().to_uppercase(),
    };
    let gap = if names.is_empty() || values.is_empty() { "" } else { " " };
    let values = if values.is_empty() { values } else { format!("\\fI{}\\fR", escaped(&values)) };
    format!("{}{gap}{values}", names.join("|"))
}

/// The blocks of a help text as sections: a line that is not indented heads a block, `Name:` or `Name: first line`;
/// the lines under it stay as they are.
fn blocks(text: &str, out: &mut dyn Write) -> io::Result<()> {
    let mut open = false;
    for line in text.lines().filter(|line| !line.is_empty()) {
        if !line.starts_with(' ') {
            if open {
                writeln!(out, ".fi")?;
            }
            open = true;
            let (name, rest) = line.split_once(':').unwrap_or((line, ""));
            writeln!(out, ".SH {}\n.nf", escaped(&heading(name)))?;
            if !rest.trim().is_empty() {
                writeln!(out, "{}", escaped_line(rest.trim()))?;
            }
        } else {
            writeln!(out, "{}", escaped_line(line.strip_prefix("  ").unwrap_or(line)))?;
        }
    }
    if open { writeln!(out, ".fi") } else { Ok(()) }
}

/// Section names as manual pages have them.
fn heading(name: &str) -> String {
    match name {
        "Example" => "EXAMPLES".to_owned(),
        "Exit codes" => "EXIT STATUS".to_owned(),
        other => other.to_uppercase(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// A whole line: a control character at its start is text.
fn escaped_line(text: &str) -> String {
    let text = escaped(text);
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(command: &Command) -> String {
        String::from_utf8(render(command).unwrap()).unwrap()
    }

    #[test]
    fn the_synopsis_names_values() {
        let command = Command::new("tool").bin_name("tool do").args([
            Arg::new("text").short('t').long("text").value_name("TEXT").required(true),
            Arg::new("loud").long("loud").action(ArgAction::SetTrue),
            Arg::new("dir").value_name("DIR"),
        ]);
        let expected = ".SH SYNOPSIS\n\\fBtool do\\fR \\fB\\-t\\fR|\\fB\\-\\-text\\fR \\fITEXT\\fR [\\fB\\-\\-loud\\fR] [\\fIDIR\\fR]\n";
        assert!(page(&command).contains(expected), "{}", page(&command));
    }

    #[test]
    fn blocks_keep_their_lines() {
        let command = Command::new("tool")
            .after_help("Examples:\n  tool a \\\n    .b\n  'c'\n\nOutput, JSON: one\n  x");
        let page = page(&command);
        let expected =
            ".SH EXAMPLES\n.nf\ntool a \\e\n  .b\n\\&'c'\n.fi\n.SH OUTPUT, JSON\n.nf\none\nx\n.fi\n";
        assert!(page.contains(expected) && !page.contains("EXTRA"), "{page}");
        assert_eq!(page.matches(".ie ").count(), 1, "{page}");
    }
}
