//! The parity report: two backends that agree, and planted faults that it must find and place.

use dikast_core::backend::Backend;
use dikast_core::checkpoint::{Blob, ModelFiles};
use dikast_core::cpu::CpuBackend;
use dikast_core::engine::{ClefSequence, Engine, EngineOptions};
use dikast_core::models::clef::{Clef, ClefOptions};
use dikast_parity::{Recording, Report, Tolerance, judge, record};
use dikast_tests::clef::{cases, folder, sequence};
use dikast_tests::data::gliclass_tiny;
use dikast_tests::{golden, gpu};
use dikast_wgpu::Precision;
use safetensors::SafeTensors;

const NAMES: [&str; 6] = [
    "config.json",
    "joint_head_config.json",
    "processor_config.json",
    "tokenizer.json",
    "model.safetensors",
    "joint_head.safetensors",
];

/// `clef-tiny` with the sign of one stored BF16 value of a tensor turned; as it is without a tensor.
fn clef(fault: Option<(&str, usize)>) -> Engine<CpuBackend, Clef> {
    let read = |name: &str| std::fs::read(folder().join("model").join(name)).expect("a file of the model");
    let mut files: Vec<(String, Vec<u8>)> = NAMES.iter().map(|n| ((*n).to_owned(), read(n))).collect();
    if let Some((tensor, element)) = fault {
        let weights = &mut files[4].1;
        let header = 8 + u64::from_le_bytes(weights[..8].try_into().expect("eight bytes")) as usize;
        let start = weights.as_ptr() as usize;
        let all = SafeTensors::deserialize(weights).expect("weights");
        let at = all.tensor(tensor).expect("the tensor").data().as_ptr() as usize - start;
        assert!(at >= header);
        weights[at + 2 * element + 1] ^= 0x80;
    }
    let files = files.into_iter().map(|(name, bytes)| (name, Blob::Owned(bytes.into())));
    let files = ModelFiles::from_memory("clef-tiny", files);
    let model = Clef::load_with(&files, ClefOptions::default()).expect("a model");
    let options = EngineOptions { max_tokens: 16_384, batch_tokens: 16_384, ..EngineOptions::default() };
    Engine::with_model(CpuBackend::new(), model, options, &mut |_, _| {}).expect("an engine")
}

fn recorded<B: Backend>(engine: &mut Engine<B, Clef>) -> Recording {
    let cases = cases();
    let wanted = ["text_noul", "image_one"];
    let sequences: Vec<ClefSequence> = cases
        .iter()
        .filter(|c| wanted.contains(&c.expected.id.as_str()))
        .map(|c| sequence(engine, c))
        .collect();
    let sequences: Vec<&ClefSequence> = sequences.iter().collect();
    pollster::block_on(record(engine, &sequences)).expect("a recording")
}

fn report(fault: Option<(&str, usize)>) -> Report {
    let mut sound = clef(None);
    let first = recorded(&mut sound);
    let second = recorded(&mut clef(fault));
    let definition = (sound.graph(), sound.model().weights());
    judge("clef-tiny", definition, &second, &first, Tolerance::F32).expect("a report")
}

#[test]
fn a_backend_agrees_with_itself() {
    let report = report(None);
    assert!(report.pass, "{}", report.to_text(false));
    assert!(report.steps.len() > 150 && report.steps.iter().all(|s| s.worst == 0.0));
    assert_eq!(report.logits.largest, 0.0);
}

#[test]
fn a_planted_fault_is_placed_at_its_step_and_nowhere_else() {
    for (tensor, element, step) in [
        // The weight of a norm, a tap of a convolution, an element of a vision matrix: one sign each.
        ("model.language_model.layers.5.post_attention_layernorm.weight", 3, "layer.5.gated.in"),
        ("model.language_model.layers.2.linear_attn.conv1d.weight", 7, "layer.2.conv"),
        ("model.visual.blocks.1.attn.qkv.weight", 11, "vision.block.1.qkv"),
        ("model.language_model.layers.3.self_attn.k_norm.weight", 1, "layer.3.qk"),
        ("model.language_model.layers.0.linear_attn.A_log", 0, "layer.0.delta"),
    ] {
        let report = report(Some((tensor, element)));
        let off: Vec<&str> = report.off().map(|s| s.tensor.as_str()).collect();
        assert_eq!(off, [step], "{tensor}");
        let first = report.first_off().expect("a step out of contract");
        println!("{tensor}: {:.1e} at {}", first.worst, first.tensor);
        assert!(!report.pass);
        assert!(
            report.to_text(false).contains("FAIL: the first step out of contract"),
            "{}",
            report.to_text(false)
        );
        assert!(report.to_text(true).lines().count() > report.steps.len());
        let html = report.to_html();
        assert!(html.contains("class=\"off\"") && html.contains(step) && !html.contains("<script"));
        let json: serde_json::Value = serde_json::from_str(&report.to_json().expect("JSON")).expect("JSON");
        assert_eq!(json["pass"], false);
        let index = json["first_out_of_contract"].as_u64().expect("an index") as usize;
        assert_eq!(json["steps"][index]["tensor"], step);
    }
}

#[test]
fn gliclass_on_a_gpu_is_within_the_contracts_of_its_steps() {
    let root = gliclass_tiny();
    let cases = golden::read(&root.join("goldens/mt5-f32.json"), None);
    for (precision, tolerance) in [(Precision::F32, Tolerance::F32), (Precision::Auto, Tolerance::F16)] {
        for (model, tolerance) in [("mt5", tolerance), ("mt5-fp8", tolerance.quantized())] {
            let Some(backend) = gpu::open(precision) else { return };
            let mut cpu = golden::engine(CpuBackend::new(), &root.join(model));
            let mut gpu = golden::engine(backend, &root.join(model));
            let all: Vec<_> = cases.iter().take(4).flat_map(|c| golden::sequences(&cpu, c)).collect();
            let all: Vec<_> = all.iter().collect();
            let reference = pollster::block_on(record(&mut cpu, &all)).expect("a recording");
            let recording = pollster::block_on(record(&mut gpu, &all)).expect("a recording");
            let definition = (cpu.graph(), cpu.model().weights());
            let report = judge(model, definition, &recording, &reference, tolerance).expect("a report");
            println!("{precision:?} {}", report.to_text(false));
            assert!(report.pass && report.steps.len() > 40);
        }
    }
}
