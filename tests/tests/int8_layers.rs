//! INT8 layers with stored values, on every backend that needs no other machine: bit for bit.
#![allow(clippy::print_stdout, reason = "tests print what they compared")]

use dikast_core::backend::Backend;
use dikast_core::cpu::CpuBackend;
use dikast_parity::{KnownLayer, check_layer, known_layers, known_products};
use dikast_tests::data::data_dir;
use dikast_tests::gpu;
use dikast_wgpu::Precision;

fn layers() -> Vec<KnownLayer> {
    let read = |name: &str| std::fs::read(data_dir().join("quant").join(name)).expect("a golden");
    let mut layers = known_layers(&read("convrot_linear.safetensors")).expect("layers");
    layers.extend(known_products(&read("int8_gemm.safetensors")).expect("products"));
    layers
}

fn check<B: Backend>(backend: &B, layers: &[KnownLayer]) {
    let (mut codes, mut outputs) = (0, 0);
    for layer in layers {
        let (c, o) = pollster::block_on(check_layer(backend, layer)).unwrap_or_else(|e| panic!("{e}"));
        (codes, outputs) = (codes + c, outputs + o);
    }
    println!("{}: {codes} codes, {outputs} outputs", backend.capabilities().backend);
    assert!(codes > 60_000 && outputs > 2_900, "{codes} codes, {outputs} outputs");
}

#[test]
fn on_the_cpu() {
    check(&CpuBackend::new(), &layers());
}

#[test]
fn on_a_gpu_whatever_it_multiplies_reals_in() {
    for precision in [Precision::F32, Precision::Auto] {
        let Some(backend) = gpu::open(precision) else { return };
        check(&backend, &layers());
    }
}

#[test]
fn a_wrong_value_is_found_and_named() {
    let mut layer = layers().remove(0);
    let row = layer.scales.len();
    layer.out[3 * row + 5] = f32::from_bits(layer.out[3 * row + 5].to_bits() ^ 1);
    let error = pollster::block_on(check_layer(&CpuBackend::new(), &layer)).expect_err("one bit is wrong");
    assert!(error.to_string().contains("g16.standard: output of row 3, column 5"), "{error}");
}
