//! Driver errors → the errors of core.

use cudarc::driver::DriverError;
use cudarc::driver::sys::CUresult;
use dikast_core::Error;

/// What a failed driver call means to the caller. `doing` says what was attempted.
pub(crate) fn driver(device: &str, doing: &str, error: DriverError) -> Error {
    let message = || format!("{doing}: {error}");
    match error.0 {
        CUresult::CUDA_ERROR_OUT_OF_MEMORY => {
            Error::OutOfMemory { device: device.to_owned(), needed: 0, available: 0 }
        }
        // After these the context is unusable; a new process or a new context may work.
        CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
        | CUresult::CUDA_ERROR_LAUNCH_FAILED
        | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
        | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
        | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
        | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
        | CUresult::CUDA_ERROR_INVALID_PC
        | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
        | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
        | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
        | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED => {
            Error::DeviceLost { device: device.to_owned(), message: message() }
        }
        _ => Error::Internal(format!("{device}: {}", message())),
    }
}
