//! A graph made ready for a bucket: every dispatch with its pipeline and its bindings.

use dikast_core::graph::{Graph, Sizes, TensorId};
use dikast_core::{Error, Result};

use crate::device::Device;
use crate::format::Element;
use crate::inputs::Inputs;
use crate::layout::{Layout, Place, Unrounded};
use crate::lower::{Constants, Lowering};
use crate::pipelines::Pipelines;
use crate::placement::StorageLimits;
use crate::range;
use crate::recipe::{Binding, Grid, Recipe, SIZES};
use crate::resident::WgpuResident;
use crate::tiles::TileLimits;

/// Words between the parameters of two dispatches: WebGPU's alignment of uniform offsets.
const PARAMS_WORDS: usize = 64;

/// A graph made ready for every batch that fits its bucket.
#[derive(Debug)]
pub struct WgpuPlan {
    pub(crate) graph: Graph,
    /// The bucket.
    pub(crate) capacity: Sizes,
    pub(crate) inputs: Inputs,
    pub(crate) input_buffer: wgpu::Buffer,
    /// What is written to `input_buffer`.
    pub(crate) staging: Vec<u8>,
    pub(crate) banks: Vec<wgpu::Buffer>,
    pub(crate) layout: Layout,
    pub(crate) unrounded: Unrounded,
    /// By step.
    pub(crate) dispatches: Vec<Vec<Dispatch>>,
    pub(crate) readback: wgpu::Buffer,
    /// Whether an earlier run was dropped or failed while `readback` was in use.
    pub(crate) readback_in_use: bool,
}

/// One dispatch.
#[derive(Debug)]
pub(crate) struct Dispatch {
    pub(crate) pipeline: wgpu::ComputePipeline,
    pub(crate) bindings: wgpu::BindGroup,
    pub(crate) grid: Grid,
}

/// Bytes of a plan beside the weights: activations, inputs, parameters and the result's readback.
pub(crate) fn activation_bytes(graph: &Graph, layout: &Layout, inputs: &Inputs) -> u64 {
    let params = graph.steps().len() as u64 * PARAMS_WORDS as u64 * 4;
    layout.bytes() + inputs.bytes + params + tensor_bytes_at(layout, graph.output())
}

fn tensor_bytes_at(layout: &Layout, id: TensorId) -> u64 {
    layout.tensors[id.index()].map_or(0, |p| p.bytes)
}

impl WgpuPlan {
    pub(crate) fn new(
        device: &Device,
        pipelines: &Pipelines,
        graph: &Graph,
        resident: &WgpuResident,
        capacity: &Sizes,
    ) -> Result<Self> {
        let storage = StorageLimits::of(&device.limits);
        let unrounded = Unrounded::new(graph, device.weight_only());
        let layout = Layout::new(graph, capacity, storage.align, &unrounded);
        let inputs = Inputs::new(graph, &resident.placement, capacity, storage.align)?;
        check_sizes(device, graph, &layout, &inputs, resident, capacity)?;

        let mut lowering = Lowering {
            graph,
            resident,
            capacity,
            layout: &layout,
            unrounded: &unrounded,
            inputs: &inputs,
            constants: Constants::new((storage.align / 4) as usize),
            tiles: TileLimits {
                invocations: device.limits.max_compute_invocations_per_workgroup,
                workgroup_memory: device.limits.max_compute_workgroup_storage_size,
                choice: device.product,
                software: device.software,
                cooperative: device.cooperative,
            },
            f16: device.f16,
            bounds: range::bounds(graph, resident),
            device: &device.adapter.name,
        };
        let recipes = graph
            .steps()
            .iter()
            .enumerate()
            .map(|(i, step)| lowering.step(i, step))
            .collect::<Result<Vec<_>>>()?;
        let constants = lowering.constants.words;

        let needed = activation_bytes(graph, &layout, &inputs);
        device.guarded(needed, || {
            let banks = resident.banks(device, &layout.banks)?;
            let usage =
                wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
            let input_buffer = device.buffer("inputs", inputs.bytes, usage)?;
            let output = tensor_bytes_at(&layout, graph.output());
            let readback = device.buffer(
                "readback",
                output,
                wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            )?;
            let maker = Maker {
                device,
                pipelines,
                banks: &banks,
                slabs: &resident.slabs,
                inputs: &input_buffer,
                params: device.buffer(
                    "parameters",
                    (recipes.iter().map(Vec::len).sum::<usize>() * PARAMS_WORDS * 4) as u64,
                    wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST,
                )?,
                constants: device.buffer(
                    "constants",
                    constants.len() as u64 * 4,
                    wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_DST,
                )?,
                empty: device.buffer("empty", 256, wgpu::BufferUsages::STORAGE)?,
            };
            device.queue.write_buffer(&maker.constants, 0, bytemuck::cast_slice(&constants));
            let dispatches = maker.make(&recipes);
            // The writes above reach the device with this.
            device.queue.submit([]);
            Ok(Self {
                graph: graph.clone(),
                capacity: *capacity,
                staging: vec![0; inputs.bytes as usize],
                inputs,
                input_buffer,
                banks,
                layout,
                unrounded,
                dispatches,
                readback,
                readback_in_use: false,
            })
        })
    }

    /// The bucket that the plan serves.
    pub fn capacity(&self) -> &Sizes {
        &self.capacity
    }

    /// Dispatches of one run.
    pub fn dispatches(&self) -> usize {
        self.dispatches.iter().map(Vec::len).sum()
    }

    pub(crate) fn place(&self, id: TensorId) -> Result<Place> {
        self.layout.tensors[id.index()]
            .ok_or_else(|| Error::Internal(format!("tensor {} has no place", self.graph.tensor(id).name)))
    }
}

/// Bindings and buffers that the device grants, and the memory that the options allow.
fn check_sizes(
    device: &Device,
    graph: &Graph,
    layout: &Layout,
    inputs: &Inputs,
    resident: &WgpuResident,
    capacity: &Sizes,
) -> Result<()> {
    let limit = device.limits.max_storage_buffer_binding_size;
    for (index, place) in layout.tensors.iter().enumerate() {
        if let Some(place) = place
            && place.bytes > limit
        {
            return Err(Error::TooLarge {
                what: format!("bytes of {} in a bucket of {capacity:?}", graph.tensors()[index].name),
                limit,
                actual: place.bytes,
            });
        }
    }
    for (step, place) in layout.scratch.iter().enumerate().flat_map(|(i, s)| s.iter().map(move |p| (i, p))) {
        if place.bytes > limit {
            return Err(Error::TooLarge {
                what: format!(
                    "bytes of scratch for {} in a bucket of {capacity:?}",
                    graph.steps()[step].name()
                ),
                limit,
                actual: place.bytes,
            });
        }
    }
    let needed = resident.placement.device_bytes() + activation_bytes(graph, layout, inputs);
    match device.memory {
        Some(available) if needed > available => {
            Err(Error::OutOfMemory { device: device.adapter.name.clone(), needed, available })
        }
        _ => Ok(()),
    }
}

/// Turns recipes into dispatches.
struct Maker<'a> {
    device: &'a Device,
    pipelines: &'a Pipelines,
    banks: &'a [wgpu::Buffer],
    slabs: &'a [wgpu::Buffer],
    inputs: &'a wgpu::Buffer,
    params: wgpu::Buffer,
    constants: wgpu::Buffer,
    /// Shown where an operand is not there.
    empty: wgpu::Buffer,
}

impl Maker<'_> {
    fn make(&self, recipes: &[Vec<Recipe>]) -> Vec<Vec<Dispatch>> {
        let mut words: Vec<u32> = Vec::new();
        let dispatches = recipes
            .iter()
            .map(|step| {
                step.iter()
                    .map(|recipe| {
                        let at = words.len();
                        words.extend(&recipe.params);
                        words.resize(at + PARAMS_WORDS, 0);
                        self.dispatch(recipe, at as u64 * 4)
                    })
                    .collect()
            })
            .collect();
        self.device.queue.write_buffer(&self.params, 0, bytemuck::cast_slice(&words));
        dispatches
    }

    fn dispatch(&self, recipe: &Recipe, params: u64) -> Dispatch {
        let pipeline = self.pipelines.get(self.device, recipe);
        let params_bytes = (recipe.params.len() as u64 * 4).next_multiple_of(16);
        let mut entries = vec![entry(0, &self.params, params, params_bytes)];
        if recipe.shader.reads_sizes() {
            entries.push(entry(1, self.inputs, 0, SIZES as u64 * 4));
        }
        for (binding, &what) in (2..).zip(&recipe.bindings) {
            entries.push(match what {
                Binding::Place(p) => entry(binding, &self.banks[p.bank], p.offset, p.bytes.max(16)),
                Binding::Piece(p) => entry(binding, &self.slabs[p.slab], p.offset, p.bytes),
                Binding::Input { offset, bytes } => entry(binding, self.inputs, offset, bytes),
                Binding::Constant { offset, bytes } => entry(binding, &self.constants, offset, bytes),
                Binding::Empty => entry(binding, &self.empty, 0, 256),
            });
        }
        let bindings = self.device.raw.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some(recipe.shader.entry()),
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        Dispatch { pipeline, bindings, grid: recipe.grid }
    }
}

fn entry(binding: u32, buffer: &wgpu::Buffer, offset: u64, bytes: u64) -> wgpu::BindGroupEntry<'_> {
    wgpu::BindGroupEntry {
        binding,
        resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer,
            offset,
            size: std::num::NonZeroU64::new(bytes),
        }),
    }
}

/// Values of a tensor from the bytes of its real rows, padding left out. Codes that are kept unrounded are not whole.
pub(crate) fn unpack(
    graph: &Graph,
    id: TensorId,
    sizes: &Sizes,
    unrounded: &Unrounded,
    bytes: &[u8],
) -> Vec<f32> {
    use dikast_core::graph::DType;
    use dikast_core::numerics::e4m3;

    let tensor = graph.tensor(id);
    let columns: usize = tensor.shape.iter().skip(1).map(|d| d.bind(sizes)).product();
    let rows = tensor.shape.first().map_or(1, |d| d.bind(sizes));
    let stride = if tensor.shape.len() > 1 { crate::layout::stride(columns) } else { columns };
    let real = |b: &[u8]| f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
    match tensor.dtype {
        DType::I8 if unrounded.of(id) == Some(Element::F16) => bytes
            .chunks(stride.max(1) * 2)
            .take(rows)
            .flat_map(|row| row[..columns * 2].chunks_exact(2))
            .map(|b| half::f16::from_le_bytes([b[0], b[1]]).to_f32())
            .collect(),
        DType::I8 if unrounded.of(id).is_none() => bytes
            .chunks(stride.max(1))
            .take(rows)
            .flat_map(|row| row[..columns].iter().map(|&c| f32::from(c.cast_signed())))
            .collect(),
        DType::F8E4M3 => bytes
            .chunks(stride.max(1))
            .take(rows)
            .flat_map(|row| row[..columns].iter().map(|&c| e4m3::decode(c)))
            .collect(),
        DType::I8 | DType::F32 | DType::I32 => bytes
            .chunks(stride.max(1) * 4)
            .take(rows)
            .flat_map(|row| row[..columns * 4].chunks_exact(4))
            .map(real)
            .collect(),
    }
}
