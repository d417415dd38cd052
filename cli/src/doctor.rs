//! `dikast doctor`: what this machine has, what will be used, and what to change.

use std::io::{self, Write};

use dikast_core::backend::{Backend, Capabilities};
use dikast_core::cpu::CpuBackend;

use crate::classifier::{BackendChoice, open_cuda, open_device, resolved};
use crate::exit::{Failure, Result};
use crate::terminal;

/// Prints devices, drivers, limits and features, and which backend a model takes.
pub(crate) fn run() -> Result<()> {
    let mut out = Vec::new();
    report(&mut out).map_err(Failure::io("formatting the report"))?;
    anstream::stdout().write_all(&out).map_err(Failure::Stdout)
}

fn report(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "dikast {}, {} {}",
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH
    )?;
    device(out, CpuBackend::new().capabilities())?;

    match open_cuda() {
        Ok(backend) => device(out, backend.capabilities())?,
        Err(reason) => {
            writeln!(out, "\ncuda: not available: {reason}")?;
            writeln!(
                out,
                "  It needs an NVIDIA driver, and NVRTC unless the kernels were embedded when the program was built."
            )?;
        }
    }
    let adapters = pollster::block_on(dikast_wgpu::adapters());
    match open_device() {
        Ok(backend) => {
            device(out, backend.capabilities())?;
            for (index, adapter) in adapters.iter().enumerate() {
                let software = if adapter.is_software() { ", software" } else { "" };
                let f16 = if adapter.f16 { "f16" } else { "f32 only" };
                writeln!(
                    out,
                    "  adapter {index}: {} ({}, {}{software}, {f16})",
                    terminal::visible(&adapter.name),
                    adapter.api,
                    terminal::visible(&adapter.driver)
                )?;
            }
            if adapters.iter().all(dikast_wgpu::AdapterSummary::is_software) {
                writeln!(
                    out,
                    "  Only software plays the device: it is there for tests, the cpu backend is faster."
                )?;
            }
        }
        Err(reason) => {
            writeln!(out, "\nwgpu: not available: {reason}")?;
            writeln!(
                out,
                "  It needs a driver for Vulkan (Debian: mesa-vulkan-drivers), Metal or DirectX 12."
            )?;
        }
    }

    let name = |bytes| match resolved(BackendChoice::Auto, bytes) {
        BackendChoice::Cuda => "cuda",
        BackendChoice::Wgpu => "wgpu",
        BackendChoice::Auto | BackendChoice::Cpu => "cpu",
    };
    writeln!(
        out,
        "\n--backend auto takes {} for the built-in models and {} for large ones.",
        name(0),
        name(u64::MAX)
    )?;
    writeln!(out, "dikast parity says whether a device agrees with the definition, step by step.")
}

fn device(out: &mut impl Write, about: &Capabilities) -> io::Result<()> {
    writeln!(out, "\n{}: {}", about.backend, terminal::visible(&about.device))?;
    if let Some(bytes) = about.memory {
        writeln!(out, "  memory: {:.1} GiB", bytes as f64 / f64::from(1 << 30))?;
    }
    for (key, value) in &about.details {
        writeln!(out, "  {key}: {}", terminal::visible(value))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_every_backend() {
        let mut out = Vec::new();
        report(&mut out).expect("memory can be written");
        let text = String::from_utf8(out).expect("UTF-8");
        for backend in ["cpu: ", "cuda: ", "wgpu: ", "--backend auto takes cpu for the built-in models"] {
            assert!(text.contains(backend), "{text}");
        }
    }
}
