//! Weights on the device: placed in one block, uploaded through two page-locked buffers, tiled by the device.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use dikast_core::checkpoint::{StoredType, TensorView, Weights};
use dikast_core::graph::{Graph, Residency, Step, WeightId};
use dikast_core::{Error, Result};

use crate::args;
use crate::compile::Kernels;
use crate::device::Device;
use crate::forms::{self, Form, Key, Place, Placement, Which};
use crate::int8_gemm;
use crate::launch::{Grid, Launch};
use crate::layout;
use crate::memory::{DeviceMemory, PinnedMemory};

/// Bytes of one staging buffer.
const STAGING: usize = 16 << 20;

/// Bytes uploaded between two releases of the files' pages.
const RELEASE_EVERY: usize = 128 << 20;

/// Weights on the device, and the block that the activations of captured forwards share.
#[derive(Debug)]
pub struct CudaResident {
    pub(crate) weights: Arc<DeviceMemory>,
    pub(crate) arena: Arc<DeviceMemory>,
    /// The arena that larger forwards share: the last one made, which is the largest.
    large: Mutex<Option<Arc<DeviceMemory>>>,
    /// Words by which blocks of an INT8 product tell each other of partial sums: zero between kernels.
    pub(crate) flags: DeviceMemory,
    placement: Placement,
    /// Weights that only batches with pictures or videos need, where they wait for the first of these.
    media: Option<Media>,
    /// The checkpoint: tables whose rows stay on the host.
    pub(crate) checkpoint: Weights,
}

/// Weights that are uploaded when they are needed first.
#[derive(Debug)]
struct Media {
    placement: Placement,
    block: Mutex<Option<Arc<DeviceMemory>>>,
}

/// Uploads the placed weights into a block of their own.
fn upload(
    device: &Arc<Device>,
    kernels: &Kernels,
    (graph, weights): (&Graph, &Weights),
    placement: &Placement,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<DeviceMemory> {
    let block = DeviceMemory::new(device, placement.bytes)?;
    // Padding of tiles and vectors is zero.
    block.fill(0)?;
    let mut upload = Upload::new(device, kernels, &block)?;
    let total = placement.places.values().map(|p| p.bytes as u64).sum();
    let (mut done, mut since_release) = (0, RELEASE_EVERY);
    for (&key, place) in &placement.places {
        match key.1 {
            Form::Codes { half } | Form::Real { half } => {
                upload.tiled(graph, weights, key.0, half, *place)?;
            }
            _ => block.write(place.offset, &forms::small(graph, weights, key)?)?,
        }
        done += place.bytes as u64;
        since_release += place.bytes;
        if since_release > RELEASE_EVERY {
            // What is uploaded need not stay in this process's memory.
            weights.release_all();
            since_release = 0;
        }
        progress(done, total);
    }
    drop(upload);
    device.synchronize("uploading the weights")?;
    weights.release_all();
    Ok(block)
}

impl CudaResident {
    /// Uploads the weights of a graph and allocates `arena` bytes. With `lazy_media`, weights that only pictures and videos
    /// need stay where they are until [`CudaResident::need_media`].
    pub(crate) fn load(
        device: &Arc<Device>,
        kernels: &Kernels,
        (graph, weights): (&Graph, &Weights),
        arena: usize,
        lazy_media: bool,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Self> {
        let placement = forms::place(graph, weights, Self::at_first(lazy_media))?;
        let media = if lazy_media { Some(forms::place(graph, weights, Which::Media)?) } else { None };
        Self::check(device, placement.bytes, arena)?;
        let block = upload(device, kernels, (graph, weights), &placement, progress)?;
        let arena = DeviceMemory::new(device, arena)?;
        let flags = DeviceMemory::new(device, 4 * int8_gemm::FLAGS)?;
        flags.fill(0)?;
        Ok(Self {
            weights: Arc::new(block),
            arena: Arc::new(arena),
            large: Mutex::new(None),
            flags,
            placement,
            media: media.map(|placement| Media { placement, block: Mutex::new(None) }),
            checkpoint: weights.clone(),
        })
    }

    /// The weights that are uploaded when a model is loaded.
    fn at_first(lazy_media: bool) -> Which {
        if lazy_media { Which::Text } else { Which::All }
    }

    /// Uploads the weights that pictures and videos need, unless they are there.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`]; the model goes on without them then.
    pub(crate) fn need_media(
        &self,
        device: &Arc<Device>,
        kernels: &Kernels,
        graph: &Graph,
    ) -> Result<Option<Arc<DeviceMemory>>> {
        let Some(media) = self.media.as_ref().filter(|m| m.placement.bytes > 0) else { return Ok(None) };
        let mut block = media.block.lock().unwrap_or_else(PoisonError::into_inner);
        if block.is_none() {
            fits(&device.name, (media.placement.bytes + 2 * STAGING) as u64, device.available()?)?;
            let weights = (graph, &self.checkpoint);
            *block = Some(Arc::new(upload(device, kernels, weights, &media.placement, &mut |_, _| {})?));
        }
        Ok(block.clone())
    }

    /// Bytes of all weights on the device.
    pub(crate) fn weight_bytes(&self) -> usize {
        self.weights.bytes() + self.media_block().map_or(0, |block| block.bytes())
    }

    fn media_block(&self) -> Option<Arc<DeviceMemory>> {
        self.media.as_ref()?.block.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The start of a weight's block, and its place there.
    fn find(&self, key: Key) -> Option<(u64, Place)> {
        if let Some(place) = self.placement.places.get(&key) {
            return Some((self.weights.address(), *place));
        }
        let place = self.media.as_ref()?.placement.places.get(&key)?;
        Some((self.media_block()?.address(), *place))
    }

    /// An arena of at least so many bytes. Forwards run one after the other, so all that fit share one.
    pub(crate) fn arena(&self, device: &Arc<Device>, bytes: usize) -> Result<Arc<DeviceMemory>> {
        if bytes <= self.arena.bytes() {
            return Ok(Arc::clone(&self.arena));
        }
        let mut large = self.large.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arena) = large.as_ref().filter(|a| a.bytes() >= bytes) {
            return Ok(Arc::clone(arena));
        }
        let arena = Arc::new(DeviceMemory::new(device, bytes)?);
        *large = Some(Arc::clone(&arena));
        Ok(arena)
    }

    /// Refuses what does not fit the free memory, before anything is uploaded.
    pub(crate) fn check(device: &Device, weights: usize, arena: usize) -> Result<()> {
        fits(&device.name, (weights + arena + 2 * STAGING) as u64, device.available()?)
    }

    /// Address of a weight, and of its tail plane (0 without one).
    pub(crate) fn address(&self, key: Key) -> Result<(u64, u64)> {
        let (block, place) = self
            .find(key)
            .ok_or_else(|| Error::Internal(format!("weight {key:?} was not loaded for this graph")))?;
        let head = block + place.offset as u64;
        Ok((head, place.tail.map_or(0, |t| head + t as u64)))
    }

    /// Addresses of a weight, if it was loaded.
    pub(crate) fn range(&self, key: Key) -> Option<Range<u64>> {
        let (block, place) = self.find(key)?;
        let start = block + place.offset as u64;
        Some(start..start + place.bytes as u64)
    }

    /// Device memory that a graph's weights need when a model is loaded.
    pub(crate) fn bytes(graph: &Graph, weights: &Weights, lazy_media: bool) -> Result<usize> {
        Ok(forms::place(graph, weights, Self::at_first(lazy_media))?.bytes)
    }

    /// Host memory of the tables that stay there.
    pub(crate) fn host_bytes(graph: &Graph, weights: &Weights) -> Result<u64> {
        let mut bytes = 0;
        let mut seen = Vec::new();
        for step in graph.steps() {
            if let Step::Embed { table, .. } | Step::PoolTableRows { table, .. } = *step
                && graph.weight(table).residency == Residency::HostRows
                && !seen.contains(&table)
            {
                seen.push(table);
                for part in forms::parts(graph, weights, table)? {
                    bytes += part.bytes.len() as u64;
                }
            }
        }
        Ok(bytes)
    }
}

/// Large weights on their way: stored rows through page-locked memory into a device buffer, tiled from there.
struct Upload<'a> {
    device: &'a Arc<Device>,
    kernels: &'a Kernels,
    block: &'a DeviceMemory,
    pinned: [PinnedMemory; 2],
    staged: [DeviceMemory; 2],
    used: [Option<cudarc::driver::CudaEvent>; 2],
    next: usize,
}

impl<'a> Upload<'a> {
    fn new(device: &'a Arc<Device>, kernels: &'a Kernels, block: &'a DeviceMemory) -> Result<Self> {
        Ok(Self {
            device,
            kernels,
            block,
            pinned: [PinnedMemory::new(device, STAGING)?, PinnedMemory::new(device, STAGING)?],
            staged: [DeviceMemory::new(device, STAGING)?, DeviceMemory::new(device, STAGING)?],
            used: [None, None],
            next: 0,
        })
    }

    fn tiled(
        &mut self,
        graph: &Graph,
        weights: &Weights,
        id: WeightId,
        half: usize,
        place: Place,
    ) -> Result<()> {
        let mut first = 0;
        for part in forms::parts(graph, weights, id)? {
            let rows = part.shape.first().copied().unwrap_or(1);
            let width = part.row_len() * part.dtype.bytes();
            // A grid has at most 65535 blocks along y.
            let step = (STAGING / width.max(1)).min(32_768);
            if step == 0 {
                return Err(self.device.lacks(format!("rows of {width} bytes in {}", graph.weight(id).name)));
            }
            for from in (0..rows).step_by(step) {
                let count = step.min(rows - from);
                self.chunk(&part, from, count, first + from, half, place)?;
            }
            first += rows;
        }
        Ok(())
    }

    fn chunk(
        &mut self,
        part: &TensorView<'_>,
        from: usize,
        count: usize,
        first: usize,
        half: usize,
        place: Place,
    ) -> Result<()> {
        let slot = self.next;
        self.next ^= 1;
        if let Some(event) = self.used[slot].take() {
            event.synchronize().map_err(|e| self.device.fault("uploading weights", e))?;
        }
        let width = part.row_len() * part.dtype.bytes();
        let bytes = count * width;
        self.pinned[slot].as_mut_slice()[..bytes]
            .copy_from_slice(&part.bytes[from * width..from * width + bytes]);
        self.pinned[slot].upload(0..bytes, &self.staged[slot], 0)?;
        let k = part.row_len();
        let (name, k_blocks, threads, stored) = match part.dtype {
            StoredType::F8E4M3 | StoredType::I8 => ("tile_codes", layout::k_blocks(k, 1), 128, 0),
            StoredType::F32 => ("tile_real", layout::k_blocks(k, 2), 64, 0),
            StoredType::F16 => ("tile_real", layout::k_blocks(k, 2), 64, 1),
            StoredType::BF16 => ("tile_real", layout::k_blocks(k, 2), 64, 2),
        };
        let head = self.block.address() + place.offset as u64;
        let arguments = args::TileRows {
            from: self.staged[slot].address(),
            head,
            tail: place.tail.map_or(0, |t| head + t as u64),
            first: first as i32,
            rows: count as i32,
            k: k as i32,
            k_blocks: k_blocks as i32,
            half: half as i32,
            stored,
        };
        let function = self.kernels.function("tile_rows", name, 0)?;
        Launch::new(name, function, Grid::new(k_blocks, count, threads), &arguments)
            .submit(self.device, false)?;
        let event =
            self.device.stream.record_event(None).map_err(|e| self.device.fault("uploading weights", e))?;
        self.used[slot] = Some(event);
        Ok(())
    }
}

/// [`Error::OutOfMemory`] with both numbers unless `needed` bytes are `available`.
fn fits(device: &str, needed: u64, available: u64) -> Result<()> {
    if needed <= available {
        return Ok(());
    }
    Err(Error::OutOfMemory { device: device.to_owned(), needed, available })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_memory_is_refused_with_its_numbers() {
        assert!(fits("GPU", 5, 5).is_ok());
        let message = fits("GPU", 1_400_000_000, 900_000_000).expect_err("too large").to_string();
        assert!(message.contains("1400000000") && message.contains("900000000") && message.contains("GPU"));
    }
}
