//! Ratios to an earlier report.

use std::io::{self, Write};
use std::path::Path;

use anstyle::Style;

use super::report::{Cell, Report, SCHEMA};
use super::table::milliseconds;
use crate::exit::{Failure, Result};
use crate::terminal::visible;

/// Reads an earlier report.
pub(super) fn read(path: &Path) -> Result<Report> {
    let name = path.display();
    let text = std::fs::read(path).map_err(|e| Failure::usage(format!("{name}: {e}")))?;
    let report: Report = serde_json::from_slice(&text)
        .map_err(|e| Failure::usage(format!("{name}: is no result of dikast bench: {e}")))?;
    if report.schema != SCHEMA {
        let found = report.schema;
        return Err(Failure::usage(format!("{name}: has schema {found}, this program reads {SCHEMA}")));
    }
    Ok(report)
}

/// Prints how much faster each size is now.
pub(super) fn render(now: &Report, before: &Report, out: &mut impl Write) -> io::Result<()> {
    let bold = Style::new().bold();
    let commit = before.dikast.commit.as_deref().unwrap_or("unknown commit");
    let what = format!(
        "{} ({}) on {}, {}, {commit}, {}",
        before.model.name, before.model.format, before.backend.name, before.backend.device, before.date
    );
    writeln!(out, "\n{bold}compared with {}{bold:#}", visible(&what))?;
    if now.machine != before.machine {
        writeln!(out, "another machine: the ratios compare machines, not programs")?;
    }
    if now.settings.labels != before.settings.labels {
        writeln!(out, "{} labels there, {} here", before.settings.labels, now.settings.labels)?;
    }
    writeln!(
        out,
        "{bold}tokens  batch      before         now  faster     request         now  faster{bold:#}"
    )?;
    for cell in &now.results {
        let Some(old) = before.results.iter().find(|c| (c.tokens, c.batch) == (cell.tokens, cell.batch))
        else {
            continue;
        };
        write!(out, "{:>6}  {:>5}", cell.tokens, cell.batch)?;
        ratio(old.forward.median_ms, cell.forward.median_ms, out)?;
        if let (Some(old), Some(new)) = (request(old), request(cell)) {
            ratio(old, new, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn request(cell: &Cell) -> Option<f64> {
    cell.request.as_ref().map(|r| r.times.median_ms)
}

fn ratio(old: f64, new: f64, out: &mut impl Write) -> io::Result<()> {
    write!(out, "  {:>10}  {:>10}  {:>5.2}×", milliseconds(old), milliseconds(new), old / new.max(1e-9))
}
