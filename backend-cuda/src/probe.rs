//! What NVIDIA software and hardware is here; never a panic where there is none.
//!
//! `cudarc` panics when it calls into a library that cannot be opened, so every way into this crate comes through here.
#![allow(unsafe_code)]

use cudarc::driver::{result, sys};
use dikast_core::{Error, Result};

/// Oldest driver (CUDA version it supports) that has everything used here.
const OLDEST_DRIVER: i32 = 12_080;

/// The driver found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driver {
    /// CUDA version that the driver supports, `1000 × major + 10 × minor`.
    pub version: i32,
    /// Number of devices, at least 1.
    pub devices: usize,
}

fn lacks(need: &str) -> Error {
    Error::Unsupported { device: "cuda".to_owned(), need: need.to_owned() }
}

fn new_enough(version: i32) -> Result<()> {
    if version >= OLDEST_DRIVER {
        return Ok(());
    }
    let name = |version: i32| format!("{}.{}", version / 1000, version % 1000 / 10);
    Err(lacks(&format!(
        "an NVIDIA driver for CUDA {} or newer (found {})",
        name(OLDEST_DRIVER),
        name(version)
    )))
}

/// Finds the driver and its devices.
///
/// # Errors
/// [`Error::Unsupported`] saying what is missing: the library, a device, a newer driver.
pub fn driver() -> Result<Driver> {
    // SAFETY: only tries to open the library; its initialisers are NVIDIA's own.
    if !unsafe { sys::is_culib_present() } {
        return Err(lacks("an NVIDIA driver (its library libcuda was not found)"));
    }
    result::init().map_err(|e| lacks(&format!("a working NVIDIA driver ({e})")))?;
    let mut version = 0;
    // SAFETY: the library is present and `version` is a live i32.
    let status = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    if status != sys::CUresult::CUDA_SUCCESS {
        return Err(lacks(&format!("a working NVIDIA driver ({status:?})")));
    }
    new_enough(version)?;
    let devices = result::device::get_count().map_err(|e| lacks(&format!("a CUDA device ({e})")))?;
    match usize::try_from(devices) {
        Ok(devices) if devices > 0 => Ok(Driver { version, devices }),
        _ => Err(lacks("a CUDA device")),
    }
}

/// Whether the run-time compiler can be opened, and its version like [`Driver::version`].
pub(crate) fn compiler() -> Option<i32> {
    use cudarc::nvrtc::sys;
    // SAFETY: only tries to open the library.
    if !unsafe { sys::is_culib_present() } {
        return None;
    }
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the library is present and both numbers are live.
    let status = unsafe { sys::nvrtcVersion(&raw mut major, &raw mut minor) };
    (status == sys::nvrtcResult::NVRTC_SUCCESS).then_some(major * 1000 + minor * 10)
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_old_driver_is_named_with_the_one_it_takes() {
        assert!(super::new_enough(super::OLDEST_DRIVER).is_ok());
        let message = super::new_enough(11_040).expect_err("too old").to_string();
        assert!(message.contains("12.8") && message.contains("11.4"), "{message}");
    }

    /// On a machine without a GPU this is the typed error; with one, a driver. Never a panic.
    #[test]
    fn probing_never_panics() {
        match super::driver() {
            Ok(driver) => assert!(driver.devices > 0),
            Err(error) => assert!(error.to_string().contains("NVIDIA") || error.to_string().contains("CUDA")),
        }
    }
}
