//! Whole CLEF models: the published code's goldens, every step against its definition, INT8 bit for bit, batches.

use std::path::Path;

use dikast_core::backend::{Backend, Taps};
use dikast_core::checkpoint::ModelFiles;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::models::clef::Clef;
use dikast_core::numerics::hadamard::Group;
use dikast_core::numerics::int8::Int8Mode;
use dikast_core::request::{DecideRequest, Json};
use dikast_core::{Error, Result};
use dikast_parity::{Tolerance, judge, record};
use dikast_quantize::{Options, Scheme, convert};
use dikast_tests::clef::{Expected, cases_in, sequence, softmax, worst};
use dikast_tests::int8;

use crate::clef::{bits, engine};
use crate::report::Report;

/// Where the fixtures are.
pub struct Places<'a> {
    /// The tiny release with its goldens.
    pub tiny: &'a Path,
    /// The embedded model.
    pub mini: &'a Path,
}

/// All checks of small models. `some` takes every `some`-th record where a device is slow.
pub fn all<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    places: &Places<'_>,
    some: usize,
) {
    goldens(report, label, open, places.tiny, some);
    match quantized(places.tiny) {
        Ok(folder) => {
            for mode in [Int8Mode::Exact, Int8Mode::Standard] {
                int8_goldens(report, label, open, (places.tiny, folder.path()), mode, some);
                int8_bits(report, label, open, (places.tiny, folder.path()), mode);
            }
            for (what, model, tolerance) in [
                ("BF16", places.tiny.join("model"), Tolerance::F32),
                ("INT8", folder.path().to_owned(), Tolerance::F32.quantized()),
            ] {
                judged(
                    report,
                    &format!("{label} clef-tiny {what}"),
                    open,
                    places.tiny,
                    &model,
                    tolerance,
                    some,
                );
                invariance(report, &format!("{label} clef-tiny {what}"), open, places.tiny, &model, some);
            }
        }
        Err(error) => report.check(&format!("{label} clef-tiny in INT8"), false, &error.to_string()),
    }
    mini(report, label, open, places.mini, some);
}

/// The tiny release in INT8, in groups of 64.
fn quantized(tiny: &Path) -> Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()
        .map_err(|e| Error::Io { path: "a temporary folder".to_owned(), message: e.to_string() })?;
    let group = Group::new(64).ok_or_else(|| Error::Internal("no group of 64".to_owned()))?;
    convert(&tiny.join("model"), dir.path(), Options::new(Scheme::Int8ConvRot { group }), &mut |_, _| {})?;
    Ok(dir)
}

fn logits<B: Backend>(engine: &mut Engine<B, Clef>, sequences: &[&ClefSequence]) -> Result<Vec<Vec<f32>>> {
    pollster::block_on(engine.logits(sequences))
}

/// Logits and probabilities of all records in one batch.
fn goldens<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    tiny: &Path,
    some: usize,
) {
    let name = format!("{label} golden clef-tiny");
    let result = (|| {
        let mut engine = engine(open()?, &tiny.join("model"), Int8Mode::Exact)?;
        let cases: Vec<_> = cases_in(tiny).into_iter().step_by(some).collect();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&engine, c)).collect();
        let found = logits(&mut engine, &sequences.iter().collect::<Vec<_>>())?;
        Ok((worst(&cases, &found), found.len()))
    })();
    if let Some(((logits, probabilities), count)) = report.outcome(&name, result) {
        let good = logits < 1e-3 && probabilities < 5e-4;
        let detail =
            format!("{count} records, logits off by {logits:.1e}, probabilities by {probabilities:.1e}");
        report.check(&name, good, &detail);
    }
}

/// What INT8 costs against the unquantized reference: no more than on the CPU.
fn int8_goldens<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    (tiny, folder): (&Path, &Path),
    mode: Int8Mode,
    some: usize,
) {
    let name = format!("{label} golden clef-tiny INT8 {mode:?}");
    let result = (|| {
        let (mut ours, mut cpu) = (engine(open()?, folder, mode)?, engine(CpuBackend::new(), folder, mode)?);
        let cases: Vec<_> = cases_in(tiny).into_iter().step_by(some).collect();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&cpu, c)).collect();
        let packed: Vec<&ClefSequence> = sequences.iter().collect();
        let (found, want) = (logits(&mut ours, &packed)?, logits(&mut cpu, &packed)?);
        let same = found.iter().zip(&want).filter(|(a, b)| bits(a) == bits(b)).count();
        Ok((worst(&cases, &found).1, worst(&cases, &want).1, same, found.len()))
    })();
    if let Some((found, want, same, count)) = report.outcome(&name, result) {
        // A code that flips is another draw of the quantizer's noise for all that follows.
        let good = found < 1.5 * want + 5e-3;
        let detail = format!(
            "probabilities off by {found:.1e}, on the CPU by {want:.1e}; {same} of {count} records with the CPU's bits"
        );
        report.check(&name, good, &detail);
    }
}

/// Codes and sums of a whole run, bit for bit.
fn int8_bits<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    (tiny, folder): (&Path, &Path),
    mode: Int8Mode,
) {
    let name = format!("{label} codes and sums of clef-tiny {mode:?}");
    let result = (|| {
        let mut engine = engine(open()?, folder, mode)?;
        let cases = cases_in(tiny);
        let mut all = int8::Exact::default();
        for id in ["text_noul", "image_one"] {
            let case = cases.iter().find(|c| c.expected.id == id);
            let case = case.ok_or_else(|| Error::Internal(format!("no record {id}")))?;
            let own = sequence(&engine, case);
            let mut taps = Taps::all(engine.graph());
            pollster::block_on(engine.run(&[&own], &mut taps))?;
            let one = int8::exact(engine.graph(), engine.model().weights(), &taps, usize::MAX)?;
            all.quantizers += one.quantizers;
            all.products += one.products;
            all.values += one.values;
        }
        Ok(all)
    })();
    if let Some(exact) = report.outcome(&name, result) {
        let good = exact.quantizers >= 28 && exact.products >= 44;
        let detail = format!(
            "{} quantizers and {} products, {} values, all bits equal",
            exact.quantizers, exact.products, exact.values
        );
        report.check(&name, good, &detail);
    }
}

/// Every step of every record on its own operands, and the logits.
pub fn judged<B: Backend>(
    report: &mut Report,
    name: &str,
    open: &dyn Fn() -> Result<B>,
    tiny: &Path,
    folder: &Path,
    tolerance: Tolerance,
    some: usize,
) {
    let name = format!("{name}, every step by its definition");
    let result = (|| {
        let mut ours = engine(open()?, folder, Int8Mode::Exact)?;
        let mut cpu = engine(CpuBackend::new(), folder, Int8Mode::Exact)?;
        // Text, pictures and videos are among every third.
        let cases: Vec<_> = cases_in(tiny).into_iter().step_by(some.max(3)).collect();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&cpu, c)).collect();
        let sequences: Vec<&ClefSequence> = sequences.iter().collect();
        let found = pollster::block_on(record(&mut ours, &sequences))?;
        let want = pollster::block_on(record(&mut cpu, &sequences))?;
        judge("clef-tiny", (cpu.graph(), cpu.model().weights()), &found, &want, tolerance)
    })();
    if let Some(verdict) = report.outcome(&name, result) {
        report_judgement(report, &name, &verdict);
    }
}

/// What dikast-parity found.
pub fn report_judgement(report: &mut Report, name: &str, verdict: &dikast_parity::Report) {
    let worst = verdict.steps.iter().max_by(|a, b| (a.worst / a.allowed).total_cmp(&(b.worst / b.allowed)));
    let worst = worst.map_or(String::new(), |s| format!(", the worst {:.1e} at {}", s.worst, s.tensor));
    let off: Vec<String> =
        verdict.off().take(5).map(|s| format!("{} {} {:.1e}", s.step, s.tensor, s.worst)).collect();
    let detail = format!(
        "{} tensors of {} records{worst}, logits {:.1e}, alone and together the same bits {}{}",
        verdict.steps.len(),
        verdict.sequences,
        verdict.logits.relative,
        verdict.batch_invariant,
        if off.is_empty() { String::new() } else { format!("; OFF: {}", off.join("; ")) }
    );
    report.check(name, verdict.pass, &detail);
}

/// Alone, all together, backwards and shuffled: the same bits.
fn invariance<B: Backend>(
    report: &mut Report,
    name: &str,
    open: &dyn Fn() -> Result<B>,
    tiny: &Path,
    folder: &Path,
    some: usize,
) {
    let name = format!("{name} in any batch");
    let result = (|| {
        let mut engine = engine(open()?, folder, Int8Mode::Standard)?;
        let cases: Vec<_> = cases_in(tiny).into_iter().step_by(some).collect();
        let sequences: Vec<_> = cases.iter().map(|c| sequence(&engine, c)).collect();
        let alone = sequences
            .iter()
            .map(|s| Ok(bits(&logits(&mut engine, &[s])?.remove(0))))
            .collect::<Result<Vec<_>>>()?;
        let count = sequences.len();
        let mut wrong = Vec::new();
        for (what, order) in [
            ("together", (0..count).collect::<Vec<_>>()),
            ("backwards", (0..count).rev().collect()),
            ("shuffled", (0..count).map(|i| (i * 7 + 3) % count).collect()),
            ("halves", (0..count / 2).collect()),
        ] {
            // Seven and the number of records have no common divisor, or some come twice: that is a batch too.
            let some: Vec<&ClefSequence> = order.iter().map(|&i| &sequences[i]).collect();
            let found = pollster::block_on(engine.run(&some, &mut Taps::none()))?;
            let differ = order.iter().zip(&found).filter(|(i, found)| bits(found) != alone[**i]).count();
            if differ > 0 {
                wrong.push(format!("{differ} {what}"));
            }
        }
        Ok((count, wrong))
    })();
    if let Some((count, wrong)) = report.outcome(&name, result) {
        report.check(&name, wrong.is_empty(), &format!("{count} records, other bits: {wrong:?}"));
    }
}

/// The embedded model: the reference's values within what INT8 costs, and the CPU's.
fn mini<B: Backend>(
    report: &mut Report,
    label: &str,
    open: &dyn Fn() -> Result<B>,
    folder: &Path,
    some: usize,
) {
    let name = format!("{label} clef-mini");
    let result = (|| {
        let files = ModelFiles::open(folder)?;
        let options = EngineOptions::default();
        let load = |files: &ModelFiles| Clef::load(files);
        let mut ours = Engine::with_model(open()?, load(&files)?, options.clone(), &mut |_, _| {})?;
        let mut cpu = Engine::with_model(CpuBackend::new(), load(&files)?, options, &mut |_, _| {})?;
        let read = |name: &str| {
            std::fs::read(folder.join(name))
                .map_err(|e| Error::Io { path: name.to_owned(), message: e.to_string() })
        };
        let expected: Vec<Expected> = serde_json::from_slice(&read("expected.json")?)
            .map_err(|e| Error::Internal(format!("expected.json: {e}")))?;
        let examples = String::from_utf8_lossy(&read("eval.jsonl")?).into_owned();
        let (mut reference, mut apart, mut count, mut same) = (0.0_f64, 0.0_f64, 0, true);
        for want in expected.iter().step_by(some) {
            let is = |line: &&str| {
                Json::parse(line).is_ok_and(|t| t.get("id").and_then(Json::as_str) == Some(&want.id))
            };
            let line = examples.lines().find(is);
            let line = line.ok_or_else(|| Error::Internal(format!("no example {}", want.id)))?;
            let mut request = DecideRequest::from_json(line)?;
            if let Some(Json::Array(pictures)) = Json::parse(line)?.get("image_files") {
                for picture in pictures.iter().filter_map(Json::as_str) {
                    request.images.push(read(&format!("eval_images/{picture}"))?);
                }
            }
            let own = ours.prepare(&request)?;
            same &= own.record.ids == want.input_ids;
            let found = logits(&mut ours, &[&own])?.remove(0);
            let theirs = logits(&mut cpu, &[&own])?.remove(0);
            for ((found, theirs), question) in
                own.by_question(&found).iter().zip(&own.by_question(&theirs)).zip(&want.questions)
            {
                let theirs = softmax(theirs);
                for ((p, q), want) in softmax(found).iter().zip(theirs).zip(&question.probabilities) {
                    reference = larger(reference, (p - f64::from(*want)).abs());
                    apart = larger(apart, (p - q).abs());
                }
            }
            count += 1;
        }
        Ok((reference, apart, count, same))
    })();
    if let Some((reference, apart, count, same)) = report.outcome(&name, result) {
        let good = reference < 0.03 && apart < 0.03 && same;
        let detail = format!(
            "{count} records, probabilities off by {reference:.1e} from the BF16 reference, by {apart:.1e} from the CPU; \
             the same tokens {same}"
        );
        report.check(&name, good, &detail);
    }
}

/// The larger; what is no number is the largest of all.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}
