//! One device: context, stream, limits.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use cudarc::driver::{CudaContext, CudaStream, sys};
use dikast_core::{Error, Result};

use crate::{fault, probe};

/// Instruction sets that kernels are built for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// Compute capability 9.0 with its own instructions: `sm_90a`.
    Hopper,
    /// Any other, as `10 × major + minor`.
    Portable(u32),
}

impl Target {
    /// The compiler's name for it.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Hopper => "sm_90a".to_owned(),
            Self::Portable(capability) => format!("sm_{capability}"),
        }
    }
}

/// A device opened: everything on it runs in one stream of one thread.
#[derive(Debug)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) target: Target,
    pub(crate) processors: usize,
    /// Shared memory one block can have, static and dynamic.
    pub(crate) shared: usize,
    /// Bytes that this crate may allocate at most.
    pub(crate) memory: u64,
    /// Bytes that it has allocated.
    used: AtomicU64,
    pub(crate) driver: i32,
    pub(crate) context: Arc<CudaContext>,
    pub(crate) stream: Arc<CudaStream>,
}

impl Device {
    /// `budget` is the most bytes that may be allocated, if not all of the device.
    pub(crate) fn open(ordinal: usize, budget: Option<u64>) -> Result<Self> {
        let driver = probe::driver()?;
        if ordinal >= driver.devices {
            return Err(Error::Unsupported {
                device: "cuda".to_owned(),
                need: format!("device {ordinal} ({} found)", driver.devices),
            });
        }
        let failed = |e| fault::driver("cuda", "opening the device", e);
        let context = CudaContext::new(ordinal).map_err(failed)?;
        // SAFETY: one stream owns every buffer of this context, so no cross-stream events are needed; and the waits that
        // tracking inserts would break graph capture.
        unsafe { context.disable_event_tracking() };
        let stream = context.new_stream().map_err(failed)?;
        // No kernel of this crate has a stack; the default reserves a kilobyte for every thread that the chip can hold.
        // SAFETY: the context is current, as `CudaContext::new` leaves it.
        unsafe { sys::cuCtxSetLimit(sys::CUlimit::CU_LIMIT_STACK_SIZE, 0) }.result().map_err(failed)?;
        let attribute = |a| context.attribute(a).map_err(failed);
        let (major, minor) = context.compute_capability().map_err(failed)?;
        let capability = (major * 10 + minor).unsigned_abs();
        if capability < 80 {
            return Err(Error::Unsupported {
                device: context.name().map_err(failed)?,
                need: format!("compute capability 8.0 or newer ({major}.{minor} found)"),
            });
        }
        Ok(Self {
            name: context.name().map_err(failed)?,
            target: if capability == 90 { Target::Hopper } else { Target::Portable(capability) },
            processors: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?.unsigned_abs()
                as usize,
            shared: attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?
                .unsigned_abs() as usize,
            memory: (context.total_mem().map_err(failed)? as u64).min(budget.unwrap_or(u64::MAX)),
            used: AtomicU64::new(0),
            driver: driver.version,
            context,
            stream,
        })
    }

    /// Waits for everything submitted.
    pub(crate) fn synchronize(&self, doing: &str) -> Result<()> {
        self.stream.synchronize().map_err(|e| self.fault(doing, e))
    }

    /// Bytes that may still be allocated: free on the device, and left of the budget.
    pub(crate) fn available(&self) -> Result<u64> {
        let (free, _) = self.context.mem_get_info().map_err(|e| self.fault("asking for free memory", e))?;
        Ok((free as u64).min(self.memory.saturating_sub(self.used.load(Ordering::Relaxed))))
    }

    /// Takes bytes from the budget.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when they are not left.
    pub(crate) fn take(&self, bytes: u64) -> Result<()> {
        let used = self.used.fetch_add(bytes, Ordering::Relaxed);
        if used.saturating_add(bytes) <= self.memory {
            return Ok(());
        }
        self.give_back(bytes);
        let available = self.memory.saturating_sub(used);
        Err(Error::OutOfMemory { device: self.name.clone(), needed: bytes, available })
    }

    /// Gives bytes of the budget back.
    pub(crate) fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    pub(crate) fn fault(&self, doing: &str, error: cudarc::driver::DriverError) -> Error {
        fault::driver(&self.name, doing, error)
    }

    /// [`Error::Unsupported`] for something this device or this crate cannot do.
    pub(crate) fn lacks(&self, need: impl Into<String>) -> Error {
        Error::Unsupported { device: self.name.clone(), need: need.into() }
    }
}
