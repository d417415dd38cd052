//! Device and pinned host memory with an owner.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use bytemuck::Pod;
use cudarc::driver::{CudaStream, result, sys};
use dikast_core::{Error, Result};

use crate::device::Device;

/// A block of device memory.
#[derive(Debug)]
pub(crate) struct DeviceMemory {
    address: u64,
    bytes: usize,
    device: Arc<Device>,
}

impl DeviceMemory {
    /// Allocates at least one byte, uninitialised.
    pub(crate) fn new(device: &Arc<Device>, bytes: usize) -> Result<Self> {
        device.context.bind_to_thread().map_err(|e| device.fault("binding the context", e))?;
        device.take(bytes as u64)?;
        // SAFETY: the context is current; the address is freed once, in `drop`.
        let address = unsafe { result::malloc_sync(bytes.max(1)) }.map_err(|e| {
            device.give_back(bytes as u64);
            match device.fault("allocating", e) {
                Error::OutOfMemory { device: name, .. } => Error::OutOfMemory {
                    device: name,
                    needed: bytes as u64,
                    available: device.context.mem_get_info().map_or(0, |(free, _)| free as u64),
                },
                other => other,
            }
        })?;
        Ok(Self { address, bytes, device: Arc::clone(device) })
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Fills all of it with a byte, in stream order.
    pub(crate) fn fill(&self, byte: u8) -> Result<()> {
        // SAFETY: the range is this allocation.
        unsafe { result::memset_d8_async(self.address, byte, self.bytes, self.device.stream.cu_stream()) }
            .map_err(|e| self.device.fault("filling memory", e))
    }

    /// Copies another block of the same size, in stream order.
    pub(crate) fn copy_from(&self, from: &DeviceMemory) -> Result<()> {
        self.inside(0, from.bytes)?;
        // SAFETY: both ranges are whole allocations of the checked sizes.
        unsafe {
            result::memcpy_dtod_async(self.address, from.address, from.bytes, self.device.stream.cu_stream())
        }
        .map_err(|e| self.device.fault("copying", e))
    }

    /// Copies values in and waits: for load and tests, not for requests.
    pub(crate) fn write<T: Pod>(&self, offset: usize, values: &[T]) -> Result<()> {
        self.inside(offset, size_of_val(values))?;
        // SAFETY: the range was checked; the source outlives the synchronous wait below.
        unsafe {
            result::memcpy_htod_async(self.address + offset as u64, values, self.device.stream.cu_stream())
        }
        .map_err(|e| self.device.fault("uploading", e))?;
        self.device.synchronize("uploading")
    }

    /// Copies values out and waits.
    pub(crate) fn read<T: Pod>(&self, offset: usize, count: usize) -> Result<Vec<T>> {
        let mut values = vec![T::zeroed(); count];
        self.inside(offset, size_of_val(values.as_slice()))?;
        // SAFETY: the range was checked; the destination outlives the synchronous wait below.
        unsafe {
            result::memcpy_dtoh_async(
                &mut values,
                self.address + offset as u64,
                self.device.stream.cu_stream(),
            )
        }
        .map_err(|e| self.device.fault("downloading", e))?;
        self.device.synchronize("downloading")?;
        Ok(values)
    }

    fn inside(&self, offset: usize, bytes: usize) -> Result<()> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(Error::Internal(format!("{bytes} bytes at {offset} of a block of {}", self.bytes))),
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let context = &self.device.context;
        context.record_err(context.bind_to_thread());
        // SAFETY: allocated by `new`, freed nowhere else. The driver waits for work that still uses it.
        context.record_err(unsafe { result::free_sync(self.address) });
        self.device.give_back(self.bytes as u64);
    }
}

/// Page-locked host memory: the source or target of asynchronous copies.
#[derive(Debug)]
pub(crate) struct PinnedMemory {
    address: *mut u8,
    bytes: usize,
    device: Arc<Device>,
}

impl PinnedMemory {
    pub(crate) fn new(device: &Arc<Device>, bytes: usize) -> Result<Self> {
        device.context.bind_to_thread().map_err(|e| device.fault("binding the context", e))?;
        let bytes = bytes.max(16);
        // SAFETY: the context is current; the address is freed once, in `drop`.
        let address = unsafe { result::malloc_host(bytes, 0) }
            .map_err(|e| device.fault("allocating page-locked memory", e))?
            .cast::<u8>();
        // SAFETY: `bytes` bytes were just allocated there.
        unsafe { address.write_bytes(0, bytes) };
        Ok(Self { address, bytes, device: Arc::clone(device) })
    }

    /// Where kernels find it: the same address, as in every 64-bit process (unified addressing).
    pub(crate) fn device_address(&self) -> u64 {
        self.address as u64
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: allocated and initialised by `new`, `bytes` long; the device writes there only between a copy's
        // submission and the synchronization that precedes every read (callers hold `&mut` while they submit).
        unsafe { std::slice::from_raw_parts(self.address, self.bytes) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as in `as_slice`, and `self` is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) }
    }

    /// Submits a copy of `range` to `to + offset`.
    pub(crate) fn upload(&self, range: Range<usize>, to: &DeviceMemory, offset: usize) -> Result<()> {
        self.copy(&self.device.stream, range, to, offset)
    }

    /// Runs `work` on these bytes with a function that submits copies of ranges of them, to the same place in `to`. The stream
    /// is the caller's, who orders it before what reads them.
    pub(crate) fn fill(
        &mut self,
        stream: &CudaStream,
        to: &DeviceMemory,
        work: impl FnOnce(&mut [u8], &mut dyn FnMut(Range<usize>) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        // SAFETY: allocated and initialised by `new`; `self` is borrowed exclusively, and the copies below take the memory's
        // address, not a reference.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.address, self.bytes) };
        let this = &*self;
        work(bytes, &mut |range| this.copy(stream, range.clone(), to, range.start))
    }

    fn copy(&self, stream: &CudaStream, range: Range<usize>, to: &DeviceMemory, offset: usize) -> Result<()> {
        to.inside(offset, range.len())?;
        if range.start > range.end || range.end > self.bytes {
            return Err(Error::Internal(format!("bytes {range:?} of a block of {}", self.bytes)));
        }
        // SAFETY: both ranges were checked; the source is page-locked and is not freed before the stream is synchronized,
        // which `Device::synchronize` and `drop` both do.
        let status = unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                to.address() + offset as u64,
                self.address.add(range.start).cast_const().cast(),
                range.len(),
                stream.cu_stream(),
            )
        };
        status.result().map_err(|e| self.device.fault("uploading", e))
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        let context = &self.device.context;
        context.record_err(self.device.stream.synchronize());
        // SAFETY: allocated by `new`, freed nowhere else, no copy in flight after the synchronization.
        context.record_err(unsafe { result::free_host(self.address.cast()) });
    }
}
