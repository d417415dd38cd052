//! The WebGPU device of this machine.

use dikast_wgpu::{DeviceOptions, Precision, WgpuBackend};

/// Set to `required`, it makes the device tests fail on a machine without a device; otherwise they say that they did
/// not run.
pub const REQUIRED: &str = "DIKAST_TEST_GPU";

/// Opens a device; `None` where there is none and [`REQUIRED`] is not set, which is then printed.
///
/// # Panics
/// When there is no device and one is required.
pub fn open(precision: Precision) -> Option<WgpuBackend> {
    let options = DeviceOptions { precision, ..DeviceOptions::from_env() };
    match pollster::block_on(WgpuBackend::open(&options)) {
        Ok(backend) => Some(backend),
        Err(error) if std::env::var(REQUIRED).is_ok_and(|v| v == "required") => panic!(
            "no device to test on, and {REQUIRED}=required: {error}\nA software device will do (Debian: \
             mesa-vulkan-drivers libvulkan1)."
        ),
        Err(error) => {
            eprintln!("NOT RUN, no device to test on: {error}");
            None
        }
    }
}
