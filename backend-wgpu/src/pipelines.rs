//! Compiled pipelines, shared by all plans of a device.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use dikast_core::backend::Planted;

use crate::device::Device;
use crate::recipe::Recipe;
use crate::shaders::Shader;

type Key = (Shader, Vec<(&'static str, u32)>);

/// Modules by shader, pipelines by shader and constants.
#[derive(Debug, Default)]
pub(crate) struct Pipelines {
    cache: Mutex<Cache>,
}

#[derive(Debug, Default)]
struct Cache {
    modules: HashMap<Shader, wgpu::ShaderModule>,
    pipelines: HashMap<Key, wgpu::ComputePipeline>,
}

/// Compiles a shader without the counter that wgpu puts into every loop against endless ones, with which no driver unrolls a
/// loop; and the shaders with long inner loops without wgpu's own bounds checks, which cost a tenth of their time. What a
/// device checks by itself stays on.
#[allow(unsafe_code, reason = "wgpu lets only trusted shaders do without checks")]
fn module(device: &Device, shader: Shader) -> wgpu::ShaderModule {
    let checks = wgpu::ShaderRuntimeChecks {
        force_loop_bounding: false,
        bounds_checks: !shader.keeps_bounds(),
        ..wgpu::ShaderRuntimeChecks::checked()
    };
    let source = Planted::in_source(device.planted.as_ref(), shader.entry(), shader.source());
    let descriptor = wgpu::ShaderModuleDescriptor {
        label: Some(shader.entry()),
        source: wgpu::ShaderSource::Wgsl(source.into()),
    };
    // SAFETY: the shaders are the project's own, and every loop in them ends: its bound is a constant, a parameter
    // of the plan or an offset of the batch that `inputs.rs` has checked, and its counter only grows. Those without
    // bounds checks keep to their buffers: see `Shader::keeps_bounds`.
    unsafe { device.raw.create_shader_module_trusted(descriptor, checks) }
}

impl Pipelines {
    /// The pipeline of a recipe, compiled on first use. Call it inside [`Device::guarded`].
    pub(crate) fn get(&self, device: &Device, recipe: &Recipe) -> wgpu::ComputePipeline {
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let Cache { modules, pipelines } = &mut *cache;
        let (shader, constants) = (recipe.shader, &recipe.constants);
        let key = (shader, constants.clone());
        if let Some(pipeline) = pipelines.get(&key) {
            return pipeline.clone();
        }
        let module = modules.entry(shader).or_insert_with(|| module(device, shader));
        let constants: Vec<(&str, f64)> = constants.iter().map(|&(n, v)| (n, f64::from(v))).collect();
        let pipeline = device.raw.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
            label: Some(shader.entry()),
            layout: None,
            module,
            entry_point: Some(shader.entry()),
            compilation_options: wgpu::PipelineCompilationOptions {
                constants: &constants,
                // Every shader writes workgroup memory before it reads it.
                zero_initialize_workgroup_memory: false,
            },
            cache: None,
        });
        pipelines.insert(key, pipeline.clone());
        pipeline
    }

    /// Pipelines compiled so far.
    pub(crate) fn len(&self) -> usize {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner).pipelines.len()
    }
}
