//! The facts for people.

use std::io::{self, Write};

use anstyle::Style;
use indicatif::HumanCount;

use super::facts::{Architecture, ClefFacts, Facts, GliClassFacts};
use crate::terminal::{counted, noun_for, visible};

/// Prints the facts section by section.
pub(super) fn render(facts: &Facts, out: &mut impl Write) -> io::Result<()> {
    let bold = Style::new().bold();
    writeln!(out, "{bold}{}{bold:#}", visible(&facts.name))?;
    if let Some(synthetic) = &facts.synthetic {
        let seed = synthetic.seed.map_or_else(|| "unknown".to_owned(), |seed| seed.to_string());
        let origin = format!("{}, like {}, seed {seed}", synthetic.tool, synthetic.like);
        writeln!(out, "synthetic weights: random numbers, answers mean nothing ({})", visible(&origin))?;
    }
    architecture(facts, out)?;
    weights(facts, out)?;
    memory(facts, out)?;
    tokenizer(facts, out)?;
    files(facts, out)?;
    if let Some(graph) = &facts.graph {
        heading(out, "Graph")?;
        for line in graph.lines() {
            writeln!(out, "{}", visible(line))?;
        }
    }
    Ok(())
}

fn heading(out: &mut impl Write, name: &str) -> io::Result<()> {
    let style = Style::new().bold().underline();
    writeln!(out, "\n{style}{name}{style:#}")
}

fn fact(out: &mut impl Write, name: &str, value: &str) -> io::Result<()> {
    writeln!(out, "  {name:<16} {}", visible(value))
}

fn architecture(facts: &Facts, out: &mut impl Write) -> io::Result<()> {
    heading(out, "Architecture")?;
    match &facts.architecture {
        Architecture::GliClass(a) => gliclass(a, out)?,
        Architecture::Clef(a) => clef(a, out)?,
    }
    fact(out, "projections", &facts.quantization)?;
    fact(out, "parameters", &HumanCount(facts.parameters).to_string())
}

fn clef(a: &ClefFacts, out: &mut impl Write) -> io::Result<()> {
    fact(out, "family", a.family)?;
    let backbone = format!(
        "{}, {}, width {}, feed-forward {}",
        a.backbone,
        counted(a.layers as u64, "layer"),
        a.width,
        a.feed_forward
    );
    fact(out, "backbone", &backbone)?;
    let linear = format!(
        "{}, {} key and {} value heads of {}",
        counted(a.linear_layers as u64, "layer"),
        a.linear_key_heads,
        a.linear_value_heads,
        a.linear_head_width
    );
    fact(out, "Gated DeltaNet", &linear)?;
    let full = format!(
        "{}, {} query and {} key heads of {}",
        counted((a.layers - a.linear_layers) as u64, "layer"),
        a.heads,
        a.key_value_heads,
        a.head_width
    );
    fact(out, "attention", &full)?;
    fact(out, "embedding rows", &HumanCount(a.embedding_rows as u64).to_string())?;
    let vision = format!("{}, width {}", counted(a.vision_blocks as u64, "block"), a.vision_width);
    fact(out, "vision tower", &vision)?;
    let head = format!(
        "{} of routing, {} of decoding, width {}",
        counted(a.head_routing_layers as u64, "layer"),
        a.head_layers,
        a.decision_width
    );
    fact(out, "decision head", &head)
}

fn gliclass(a: &GliClassFacts, out: &mut impl Write) -> io::Result<()> {
    fact(out, "family", a.family)?;
    let encoder = format!(
        "{}, {}, width {}, {} of {}, feed-forward {}",
        a.encoder,
        counted(a.layers as u64, "layer"),
        a.width,
        counted(a.heads as u64, "head"),
        a.head_width,
        a.feed_forward
    );
    fact(out, "encoder", &encoder)?;
    fact(out, "embedding rows", &HumanCount(a.embedding_rows as u64).to_string())?;
    fact(out, "scorer", &a.scorer)?;
    fact(out, "pooling", &format!("text {}, classes {}", a.pooling, a.class_pooling))?;
    let extras = [("LSTM", a.lstm), ("segment embeddings", a.segment_embeddings)];
    let extras: Vec<&str> = extras.iter().filter(|(_, there)| *there).map(|(name, _)| *name).collect();
    if !extras.is_empty() {
        fact(out, "extras", &extras.join(", "))?;
    }
    if let Some(labels) = a.max_labels {
        fact(out, "most labels", &labels.to_string())?;
    }
    Ok(())
}

fn weights(facts: &Facts, out: &mut impl Write) -> io::Result<()> {
    heading(out, "Weights")?;
    for part in facts.bytes.parts.iter().filter(|p| p.tensors > 0) {
        writeln!(out, "  {:<22} {}  {:>12}", part.part, tensors(part.tensors), mebibytes(part.bytes))?;
    }
    let all = facts.bytes.parts.iter().map(|p| p.tensors).sum();
    writeln!(out, "  {:<22} {}  {:>12}", "all", tensors(all), mebibytes(facts.bytes.total))?;
    for stored in &facts.dtypes {
        writeln!(
            out,
            "  stored as {:<12} {}  {:>12}",
            stored.dtype,
            tensors(stored.tensors),
            mebibytes(stored.bytes)
        )?;
    }
    if let Some(digest) = &facts.digest {
        fact(out, "SHA-256", digest)?;
    }
    Ok(())
}

fn memory(facts: &Facts, out: &mut impl Write) -> io::Result<()> {
    heading(out, "Memory of one forward pass")?;
    for memory in &facts.memory {
        match &memory.need {
            None => fact(out, memory.backend, "no device found")?,
            Some(need) => {
                let total = need.weights + need.host_tables + need.activations;
                let line = format!(
                    "{} for {}: {} weights, {} tables on the host, {} activations",
                    mebibytes(total),
                    counted(memory.tokens as u64, "token"),
                    mebibytes(need.weights),
                    mebibytes(need.host_tables),
                    mebibytes(need.activations)
                );
                fact(out, memory.backend, &line)?;
            }
        }
    }
    Ok(())
}

fn tokenizer(facts: &Facts, out: &mut impl Write) -> io::Result<()> {
    let t = &facts.tokenizer;
    heading(out, "Tokenizer")?;
    let fallback = if t.byte_fallback { ", unknown characters become bytes" } else { "" };
    fact(out, "model", &format!("{}{fallback}", t.model))?;
    let vocabulary = format!("{}, largest id {}", counted(t.vocabulary as u64, "token"), t.largest_id);
    fact(out, "vocabulary", &vocabulary)?;
    fact(out, "normalizers", &t.normalizers.join(", "))?;
    fact(out, "pre-tokenizers", &t.pre_tokenizers.join(", "))?;
    // Sentinel tokens come by the hundred; the markers, which matter here, come last.
    const SHOWN: usize = 8;
    let skipped = t.added_tokens.len().saturating_sub(SHOWN);
    let mut added: Vec<String> =
        t.added_tokens.iter().skip(skipped).map(|a| format!("{} = {}", a.content, a.id)).collect();
    if skipped > 0 {
        added.insert(0, format!("{skipped} more"));
    }
    fact(out, "added tokens", &added.join(", "))?;
    fact(out, "around the text", &format!("{:?} before, {:?} after", t.prefix, t.suffix))?;
    if !t.ignored_sections.is_empty() {
        fact(out, "ignored", &t.ignored_sections.join(", "))?;
    }
    Ok(())
}

fn files(facts: &Facts, out: &mut impl Write) -> io::Result<()> {
    heading(out, "Files")?;
    for (name, bytes) in &facts.files {
        let (count, noun) = (HumanCount(*bytes).to_string(), noun_for(*bytes, "byte"));
        writeln!(out, "  {:<28} {count:>14} {noun}", visible(name))?;
    }
    Ok(())
}

/// A number of tensors, in a column.
fn tensors(n: usize) -> String {
    format!("{n:>5} {:<7}", noun_for(n as u64, "tensor"))
}

/// Bytes in binary megabytes, as one unit makes columns comparable.
fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}
