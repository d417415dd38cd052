//! INT8 layers with stored values, on every backend that needs no other machine: bit for bit.
#![allow(clippy::print_stdout, reason = "tests print what they compared")]

use dikast_core::backend::Backend;
use dikast_core::cpu::CpuBackend;
use dikast_parity::{KnownLayer, check_layer, known_layers, known_products, known_weight_only, run_layer};
use dikast_tests::data::data_dir;
use dikast_tests::gpu;
use dikast_wgpu::{DeviceOptions, Int8Products, Precision};

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
        let options = DeviceOptions { precision, int8: Int8Products::Packed, ..DeviceOptions::from_env() };
        let Some(backend) = gpu::open_with(&options) else { return };
        check(&backend, &layers());
    }
}

/// Rows that are not rounded to codes: the stored values of f64, of which f16 gives some 1e-4 of the largest away.
#[test]
fn weights_alone_on_a_gpu() {
    let file = std::fs::read(data_dir().join("quant/convrot_linear.safetensors")).expect("a golden");
    for (precision, allowed) in [(Precision::F32, 1e-6), (Precision::Auto, 5e-4)] {
        let options =
            DeviceOptions { precision, int8: Int8Products::WeightOnly, ..DeviceOptions::from_env() };
        let Some(backend) = gpu::open_with(&options) else { return };
        for layer in known_weight_only(&file).expect("layers") {
            let (rows, out) = pollster::block_on(run_layer(&backend, &layer)).expect("a run");
            assert!(rows.iter().any(|v| v.fract() != 0.0), "{}: rounded to codes", layer.name);
            assert_eq!(out.len(), layer.out.len());
            let largest = layer.out.iter().fold(0.0_f32, |most, v| most.max(v.abs()));
            let apart = out.iter().zip(&layer.out).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            println!("{}, {precision:?}: {:.1e} of the largest", layer.name, apart / largest);
            assert!(apart <= allowed * largest, "{}, {precision:?}: {apart:e} of {largest}", layer.name);
        }
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
