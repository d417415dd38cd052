//! The WebGPU device of this machine.

use dikast_wgpu::{DeviceOptions, Precision, WgpuBackend};

/// Set to 1 on a machine without any adapter to let the device tests pass without running.
pub const OPT_OUT: &str = "DIKAST_TESTS_WITHOUT_GPU";

/// Opens a device; `None` only where [`OPT_OUT`] says so, which is then printed.
///
/// # Panics
/// When there is no device and no opt-out: a test that does not run must not pass silently.
pub fn open(precision: Precision) -> Option<WgpuBackend> {
    let options = DeviceOptions { precision, ..DeviceOptions::from_env() };
    match pollster::block_on(WgpuBackend::open(&options)) {
        Ok(backend) => Some(backend),
        Err(error) if std::env::var(OPT_OUT).is_ok_and(|v| v == "1") => {
            eprintln!("NOT RUN, no device and {OPT_OUT}=1: {error}");
            None
        }
        Err(error) => panic!(
            "no device to test on: {error}\nInstall a Vulkan driver (Debian: mesa-vulkan-drivers libvulkan1), or set \
             {OPT_OUT}=1 to go on without these tests."
        ),
    }
}
