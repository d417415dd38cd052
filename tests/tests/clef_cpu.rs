//! The CPU backend against the published code's goldens.

use dikast_core::backend::Taps;
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::Engine;
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_tests::clef::{Case, cases, differences, engine, folder, sequence, tensors};

fn tiny() -> Engine<CpuBackend, Clef> {
    engine(CpuBackend::new(), &folder().join("model"), ClefOptions::default())
}

/// Tapped tensors of a record alone, by name, and its logits.
fn tap(engine: &mut Engine<CpuBackend, Clef>, case: &Case, names: &[&str]) -> (Vec<Vec<f32>>, Vec<f32>) {
    let sequence = sequence(engine, case);
    let mut taps = Taps::named(engine.graph(), names).expect("names of the graph");
    let logits = pollster::block_on(engine.run(&[&sequence], &mut taps)).expect("a run").remove(0);
    let values = names.iter().map(|n| {
        let id = engine.graph().find(n).expect("a tensor");
        taps.get(id).expect("a tap").to_vec()
    });
    (values.collect(), logits)
}

fn find<'a>(cases: &'a [Case], id: &str) -> &'a Case {
    cases.iter().find(|c| c.expected.id == id).expect("a record")
}

#[test]
fn ids_and_spans() {
    let engine = tiny();
    for case in cases() {
        let record = sequence(&engine, &case).record;
        assert_eq!(record.ids, case.expected.input_ids, "{}", case.expected.id);
        for (slots, want) in record.questions.iter().zip(&case.expected.questions) {
            assert_eq!([slots.span.start, slots.span.end], want.question_span, "{}", case.expected.id);
            let options: Vec<_> = slots.options.iter().map(|s| [s.start, s.end]).collect();
            assert_eq!(options, want.option_spans, "{}", case.expected.id);
        }
    }
}

#[test]
fn logits_of_all_records() {
    let mut engine = tiny();
    let cases = cases();
    let sequences: Vec<_> = cases.iter().map(|c| sequence(&engine, c)).collect();
    let packed = sequences.iter().collect::<Vec<_>>();
    let logits = pollster::block_on(engine.logits(&packed)).expect("a run");
    let (mut worst, mut worst_p, mut count) = (0.0_f32, 0.0_f64, 0);
    for (case, found) in cases.iter().zip(&logits) {
        let mut rest = found.as_slice();
        for question in &case.expected.questions {
            let (own, tail) = rest.split_at(question.logits.len());
            rest = tail;
            let (largest, _) = differences(own, &question.logits);
            worst = worst.max(largest);
            assert!(largest < 1e-3, "{}: {own:?}, {:?} expected", case.expected.id, question.logits);
            let max = own.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let exp: Vec<f64> = own.iter().map(|l| f64::from(l - max).exp()).collect();
            let sum: f64 = exp.iter().sum();
            for (e, want) in exp.iter().zip(&question.probabilities) {
                worst_p = worst_p.max((e / sum - f64::from(*want)).abs());
            }
            count += own.len();
        }
        assert!(rest.is_empty());
    }
    println!("{count} logits: {worst:.1e}, probabilities {worst_p:.1e}");
    assert!(worst_p < 5e-4);
}

#[test]
fn hidden_states() {
    let mut engine = tiny();
    let cases = cases();
    let golden = tensors("layers_text_noul.safetensors");
    let layers: Vec<String> = (0..8).map(|i| format!("layer.{i}.out")).collect();
    let mut names = vec!["embed", "norm"];
    names.extend(layers.iter().map(String::as_str));
    let (found, _) = tap(&mut engine, find(&cases, "text_noul"), &names);
    let want = ["embed".to_owned(), "after_final_norm".to_owned()]
        .into_iter()
        .chain((0..8).map(|i| format!("after_layer{i:02}")));
    for ((name, found), want) in names.iter().zip(&found).zip(want) {
        let (largest, relative) = differences(found, &golden[&want].1);
        println!("{name:12} {largest:.1e}, relative {relative:.1e}");
        assert!(relative < 1e-4, "{name}: {relative:.1e}");
    }
    for (id, (_, want)) in tensors("final_hidden.safetensors") {
        let (found, _) = tap(&mut engine, find(&cases, &id), &["norm"]);
        let (largest, relative) = differences(&found[0], &want);
        println!("{id:20} {largest:.1e}, relative {relative:.1e}");
        assert!(relative < 1e-3, "{id}: {relative:.1e}");
    }
}

#[test]
fn inner_tensors_of_both_mixers() {
    let mut engine = tiny();
    let cases = cases();
    let golden = tensors("inner_text_noul.safetensors");
    // Each golden is some columns of a step's output, of the first 80 rows.
    let pairs: [(&str, &str, usize); 16] = [
        ("layer.0.qkvz.in", "L0.input_layernorm", 0),
        ("layer.0.qkvz", "L0.in_proj_qkv", 0),
        ("layer.0.qkvz", "L0.in_proj_z", 320),
        ("layer.0.ab", "L0.in_proj_a", 0),
        ("layer.0.ab", "L0.in_proj_b", 6),
        ("layer.0.delta", "L0.delta_rule_out", 0),
        ("layer.0.mixed.in", "L0.gated_norm", 0),
        ("layer.0.gated.in", "L0.post_attention_layernorm", 0),
        ("layer.3.qkv.in", "L3.input_layernorm", 0),
        ("layer.3.qkv", "L3.q_proj", 0),
        ("layer.3.qkv", "L3.k_proj", 768),
        ("layer.3.qkv", "L3.v_proj", 896),
        ("layer.3.mixed.in", "L3.gated_attn_out", 0),
        ("layer.3.gated.in", "L3.post_attention_layernorm", 0),
        ("layer.0.mixed", "L0.mixer", 0),
        ("layer.3.mixed", "L3.mixer", 0),
    ];
    let names: Vec<&str> = pairs.iter().map(|p| p.0).collect();
    let mut all = names.clone();
    all.extend(["input", "layer.2.out"]);
    let (found, _) = tap(&mut engine, find(&cases, "text_noul"), &all);
    for (i, (name, want, start)) in pairs.iter().enumerate() {
        let (shape, want_values) = &golden[*want];
        let width: usize = shape[1..].iter().product();
        let rows = found[i].len() / 170;
        let mut part: Vec<f32> =
            (0..80).flat_map(|r| found[i][r * rows + start..][..width].iter().copied()).collect();
        if want.ends_with("mixer") {
            // The step adds the residual stream, the golden is before that.
            let before = if want.starts_with("L0") { found.len() - 2 } else { found.len() - 1 };
            part.iter_mut().zip(&found[before]).for_each(|(p, b)| *p -= b);
        }
        let (largest, relative) = differences(&part, want_values);
        println!("{name:20} {want:30} {largest:.1e}, relative {relative:.1e}");
        assert!(relative < 1e-4, "{name}: {relative:.1e}");
    }
}

#[test]
fn head_internals() {
    let mut engine = tiny();
    let cases = cases();
    let golden = tensors("head_text_three.safetensors");
    let pairs = [
        ("head.hidden", "hidden_norm"),
        ("head.memory", "memory"),
        ("head.options", "option_queries"),
        ("head.evidence.0", "evidence0"),
        ("head.evidence.1", "evidence1"),
        ("head.base", "base_fields"),
        ("head.summed", "option_summaries"),
        ("head.fields", "fields_in"),
        ("head.decoder.0", "decoder0"),
        ("head.decoder.1", "decoder1"),
        ("head.decoder.2", "decoder2"),
        ("head.decoder.3", "decoder3"),
        ("head.field", "field_norm"),
        ("logits", "logits"),
    ];
    let (found, _) = tap(&mut engine, find(&cases, "text_three"), &pairs.map(|p| p.0));
    for ((name, want), found) in pairs.iter().zip(&found) {
        let (largest, relative) = differences(found, &golden[*want].1);
        println!("{name:16} {largest:.1e}, relative {relative:.1e}");
        assert!(relative < 1e-3, "{name}: {relative:.1e}");
    }
}

#[test]
fn vision_tower() {
    let mut engine = tiny();
    let cases = cases();
    let golden = tensors("media.safetensors");
    for id in ["image_one", "image_two_resized", "video_one", "image_and_video"] {
        let case = find(&cases, id);
        let sequence = sequence(&engine, case);
        let want = &golden[&format!("{id}.position_ids")].1;
        let tokens = sequence.record.ids.len();
        for (t, p) in sequence.record.positions.iter().enumerate() {
            let axes = [0, 1, 2].map(|a| want[a * tokens + t] as i32);
            assert_eq!(*p, axes, "{id}: token {t}");
        }
        let (found, _) = tap(
            &mut engine,
            case,
            &["patches", "vision.out"].map(|n| if n == "patches" { "vision.patches" } else { n }),
        );
        let embeds = |kind: &str| golden.get(&format!("{id}.{kind}_embeds")).map(|t| t.1.clone());
        let want: Vec<f32> = [embeds("image"), embeds("video")].into_iter().flatten().flatten().collect();
        let (largest, relative) = differences(&found[1], &want);
        println!("{id:20} {largest:.1e}, relative {relative:.1e}");
        assert!(relative < 1e-3, "{id}: {relative:.1e}");
    }
}
