//! Decoder layers of the full size against the CPU: a Gated DeltaNet layer and one with full attention.

use std::path::Path;

use dikast_core::backend::{Backend, Taps};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::ClefSequence;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::{Error, Result};
use dikast_parity::{Tolerance, judge, record};
use dikast_tests::int8;

use crate::clef::{engine, int8_format, sequence, wide_layers};
use crate::clef_models::report_judgement;
use crate::report::Report;

/// Rows of each INT8 product that are worked out again bit for bit; the judgement looks at all of them.
const EXACT_ROWS: usize = 12;

/// Both kinds of layer at the 27B's shapes, in INT8: every step on its own operands, codes and sums bit for bit, alone and
/// together. `tokens` of two sequences together.
pub fn all<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    lender: &Path,
    tokens: usize,
) {
    for kind in ["linear_attention", "full_attention"] {
        let name = format!("{label} layer of the full size, {kind}, {tokens} tokens");
        let result = (|| {
            let dir = tempfile::tempdir()
                .map_err(|e| Error::Io { path: "a temporary folder".to_owned(), message: e.to_string() })?;
            let folder = wide_layers(dir.path(), lender, &[kind], false, int8_format())?;
            let mut ours = engine(open()?, &folder, Int8Mode::Exact)?;
            let mut cpu = engine(CpuBackend::new(), &folder, Int8Mode::Exact)?;
            let first = tokens * 5 / 8;
            let made = [(first, 3, 4), (tokens - first, 1, 2)]
                .map(|(tokens, questions, options)| sequence(cpu.model(), tokens, questions, options, 7));
            let sequences: Vec<&ClefSequence> = made.iter().collect();
            let mut taps = Taps::all(ours.graph());
            pollster::block_on(ours.run(&sequences, &mut taps))?;
            let exact = int8::exact(ours.graph(), ours.model().weights(), &taps, EXACT_ROWS)?;
            drop(taps);
            let found = pollster::block_on(record(&mut ours, &sequences))?;
            let want = pollster::block_on(record(&mut cpu, &sequences))?;
            // Between deep products rows are kept in 16 bits.
            let tolerance = Tolerance::F16.quantized();
            let verdict = judge(kind, (cpu.graph(), cpu.model().weights()), &found, &want, tolerance)?;
            Ok((exact, verdict))
        })();
        if let Some((exact, verdict)) = report.outcome(&name, result) {
            report_judgement(report, &name, &verdict);
            let detail = format!(
                "{} quantizers, {} products, {} values",
                exact.quantizers, exact.products, exact.values
            );
            // Rows are kept where another product reads them too.
            let good = exact.quantizers >= 1 && exact.products >= 3;
            report.check(&format!("{name}: codes and sums bit for bit"), good, &detail);
        }
    }
}
