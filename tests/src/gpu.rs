//! The WebGPU device of this machine.

use std::cell::OnceCell;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use dikast_wgpu::{DeviceOptions, Precision, WgpuBackend};

/// Set to `required`, it makes the device tests fail on a machine without a device; otherwise they say that they did
/// not run.
pub const REQUIRED: &str = "DIKAST_TEST_GPU";

/// A backend on the one device that all tests of a program share; `None` where there is none and [`REQUIRED`] is not set,
/// which is then printed. From here on until the test ends no other test gets one: some drivers do not survive two at a time.
///
/// # Panics
/// When there is no device and one is required.
pub fn open(precision: Precision) -> Option<WgpuBackend> {
    open_with(&DeviceOptions { precision, ..DeviceOptions::from_env() })
}

/// As [`open`], with options that say nothing of the adapter and the limits.
///
/// # Panics
/// As [`open`].
pub fn open_with(options: &DeviceOptions) -> Option<WgpuBackend> {
    static TURN: Mutex<()> = Mutex::new(());
    static SHARED: LazyLock<Option<WgpuBackend>> = LazyLock::new(open_anew);
    thread_local! { static MINE: OnceCell<MutexGuard<'static, ()>> = const { OnceCell::new() } }
    MINE.with(|mine| {
        mine.get_or_init(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    });
    SHARED.as_ref().map(|shared| shared.again(options))
}

fn open_anew() -> Option<WgpuBackend> {
    match pollster::block_on(WgpuBackend::open(&DeviceOptions::from_env())) {
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
