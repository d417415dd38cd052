//! The report for people.

use std::io::{self, Write};

use anstyle::Style;
use indicatif::HumanCount;

use super::report::{Cell, Report, StepGroup};
use crate::terminal::visible;

/// Prints a report.
pub(super) fn render(report: &Report, out: &mut impl Write) -> io::Result<()> {
    head(report, out)?;
    if !report.results.is_empty() {
        sizes(report, out)?;
    }
    if !report.requests.is_empty() {
        requests(report, out)?;
    }
    for cell in &report.results {
        if let Some(steps) = &cell.steps {
            profile(cell, steps, out)?;
        }
    }
    Ok(())
}

fn head(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let bold = Style::new().bold();
    let Report { model, backend, dikast, machine, .. } = report;
    let synthetic = if model.synthetic { ", synthetic weights" } else { "" };
    let title = format!("{} ({}{synthetic})", model.name, model.format);
    write!(out, "{bold}{}{bold:#}", visible(&title))?;
    let commit = dikast.commit.as_ref().map_or_else(String::new, |c| format!(" ({c})"));
    let place = format!(
        " on {}, {} · {} · {} · dikast {}{commit}",
        backend.name,
        backend.device,
        machine.cpu.as_deref().unwrap_or("unknown processor"),
        machine.system,
        dikast.version,
    );
    writeln!(out, "{}", visible(&place))?;
    write!(out, "loaded in {}", milliseconds(report.load_ms))?;
    if let Some(bytes) = report.peak_rss_bytes {
        write!(out, ", peak memory {:.0} MiB", bytes as f64 / f64::from(1 << 20))?;
    }
    if let Some(c) = &report.ceilings {
        write!(
            out,
            "; ceilings: copy {:.1} GB/s, products {:.1} GFLOP/s, FP8 products {:.1} GFLOP/s",
            c.copy_gb_per_second, c.product_gflop_per_second, c.quantized_product_gflop_per_second
        )?;
    }
    writeln!(out)
}

fn sizes(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let bold = Style::new().bold();
    writeln!(
        out,
        "\n{bold}tokens  batch     forward         p95         min    tokens/s  requests/s   GFLOP/s     request         \
         p95  tokenizing{bold:#}"
    )?;
    for cell in &report.results {
        let f = &cell.forward;
        write!(
            out,
            "{:>6}  {:>5}  {:>10}  {:>10}  {:>10}  {:>10}  {:>10.1}  {:>8.1}",
            cell.tokens,
            cell.batch,
            milliseconds(f.median_ms),
            milliseconds(f.p95_ms),
            milliseconds(f.min_ms),
            HumanCount(cell.tokens_per_second as u64).to_string(),
            cell.requests_per_second,
            cell.gflop_per_second,
        )?;
        if let Some(request) = &cell.request {
            write!(
                out,
                "  {:>10}  {:>10}  {:>10}",
                milliseconds(request.times.median_ms),
                milliseconds(request.times.p95_ms),
                milliseconds(request.prepare.median_ms)
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn requests(report: &Report, out: &mut impl Write) -> io::Result<()> {
    let bold = Style::new().bold();
    writeln!(out, "\n{bold}requests  batch   calls        call         p95         min  requests/s{bold:#}")?;
    for cell in &report.requests {
        writeln!(
            out,
            "{:>8}  {:>5}  {:>6}  {:>10}  {:>10}  {:>10}  {:>10.1}",
            cell.requests,
            cell.batch,
            cell.call.runs,
            milliseconds(cell.call.median_ms),
            milliseconds(cell.call.p95_ms),
            milliseconds(cell.call.min_ms),
            cell.requests_per_second
        )?;
    }
    Ok(())
}

fn profile(cell: &Cell, steps: &[StepGroup], out: &mut impl Write) -> io::Result<()> {
    let bold = Style::new().bold();
    writeln!(out, "\n{bold}{} tokens × {}{bold:#}", cell.tokens, cell.batch)?;
    writeln!(
        out,
        "{bold}step                calls    total µs   share   GFLOP/s      GB/s    bound µs  reached{bold:#}"
    )?;
    for group in steps {
        let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
        writeln!(
            out,
            "{:<18}  {:>5}  {:>10.1}  {:>5.1}%  {:>8.1}  {:>8.1}  {:>10}  {:>7}",
            visible(&group.kind),
            group.calls,
            group.microseconds,
            group.share * 100.0,
            group.gflop_per_second,
            group.gb_per_second,
            or_dash(group.bound_microseconds.map(|b| format!("{b:.1}"))),
            or_dash(group.reached.map(|r| format!("{:.0}%", r * 100.0))),
        )?;
    }
    Ok(())
}

/// Milliseconds with three significant digits or more.
pub(super) fn milliseconds(ms: f64) -> String {
    let decimals = match ms {
        _ if ms < 1.0 => 3,
        _ if ms < 100.0 => 2,
        _ => 1,
    };
    format!("{ms:.decimals$} ms")
}
