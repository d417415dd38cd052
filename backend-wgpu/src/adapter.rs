//! Finding an adapter.

use dikast_core::{Error, Result};

use crate::options::AdapterChoice;

/// Browsers mostly keep the name to themselves.
const UNNAMED: &str = "unnamed WebGPU adapter";

/// An adapter of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdapterSummary {
    /// Name of the device.
    pub name: String,
    /// Vulkan, Metal, Dx12 or BrowserWebGpu.
    pub api: String,
    /// Driver and its version.
    pub driver: String,
    /// DiscreteGpu, IntegratedGpu, VirtualGpu, Cpu or Other.
    pub kind: String,
    /// Whether it has `shader-f16`.
    pub f16: bool,
}

impl AdapterSummary {
    /// Whether the processor plays the device: always there where it is installed, and slower than the CPU backend.
    pub fn is_software(&self) -> bool {
        self.kind == "Cpu"
    }
}

/// The adapters of this machine in the order that [`AdapterChoice::Index`] counts.
pub async fn adapters() -> Vec<AdapterSummary> {
    instance().enumerate_adapters(backends()).await.iter().map(summary).collect()
}

pub(crate) fn summary(adapter: &wgpu::Adapter) -> AdapterSummary {
    let info = adapter.get_info();
    AdapterSummary {
        name: if info.name.is_empty() { UNNAMED.to_owned() } else { info.name },
        api: format!("{:?}", info.backend),
        driver: [info.driver, info.driver_info].join(" ").trim().to_owned(),
        kind: format!("{:?}", info.device_type),
        f16: adapter.features().contains(wgpu::Features::SHADER_F16),
    }
}

/// Whether the hardware multiplies four packed signed codes and adds them up by itself. Vulkan says so; of the others
/// nothing is known.
#[cfg(all(feature = "native", any(target_os = "linux", target_os = "android", windows)))]
#[allow(unsafe_code, reason = "wgpu does not pass this property on; the driver must be asked")]
pub(crate) fn packed_products(adapter: &wgpu::Adapter) -> bool {
    use ash::vk;

    // SAFETY: the adapter that is shown is only read, and not kept.
    let Some(inner) = (unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }) else { return false };
    let instance = inner.shared_instance().raw_instance();
    let device = inner.raw_physical_device();
    let mut dot = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
    // SAFETY: the physical device is the instance's own, and both live as long as `inner`.
    let version = unsafe { instance.get_physical_device_properties(device) }.api_version;
    if version < vk::API_VERSION_1_3 {
        return false;
    }
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut dot);
    // SAFETY: as above; a device of version 1.3 fills in every structure of the chain.
    unsafe { instance.get_physical_device_properties2(device, &mut all) };
    dot.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE
}

#[cfg(not(all(feature = "native", any(target_os = "linux", target_os = "android", windows))))]
pub(crate) fn packed_products(_adapter: &wgpu::Adapter) -> bool {
    false
}

pub(crate) async fn choose(choice: &AdapterChoice) -> Result<wgpu::Adapter> {
    let instance = instance();
    let found = match choice {
        AdapterChoice::Fastest => {
            let options = wgpu::RequestAdapterOptions {
                power_preference: wgpu::PowerPreference::HighPerformance,
                ..Default::default()
            };
            return instance.request_adapter(&options).await.map_err(|e| none(format!("a GPU adapter: {e}")));
        }
        AdapterChoice::Index(index) => {
            let all = instance.enumerate_adapters(backends()).await;
            let count = all.len();
            all.into_iter().nth(*index).ok_or_else(|| format!("GPU adapter {index}: there are {count}"))
        }
        AdapterChoice::Name(name) => {
            let all = instance.enumerate_adapters(backends()).await;
            let wanted = name.to_lowercase();
            let names: Vec<String> = all.iter().map(|a| a.get_info().name).collect();
            all.into_iter()
                .zip(&names)
                .find(|(_, n)| n.to_lowercase().contains(&wanted))
                .map(|(a, _)| a)
                .ok_or_else(|| format!("a GPU adapter named {name:?}: there are {names:?}"))
        }
    };
    found.map_err(none)
}

/// The process's one instance: some drivers run out of them. A browser's costs nothing.
#[cfg(not(target_arch = "wasm32"))]
fn instance() -> wgpu::Instance {
    static INSTANCE: std::sync::LazyLock<wgpu::Instance> = std::sync::LazyLock::new(new_instance);
    INSTANCE.clone()
}

#[cfg(target_arch = "wasm32")]
fn instance() -> wgpu::Instance {
    new_instance()
}

fn new_instance() -> wgpu::Instance {
    let mut descriptor = wgpu::InstanceDescriptor::new_without_display_handle();
    descriptor.backends = backends();
    wgpu::Instance::new(descriptor)
}

fn backends() -> wgpu::Backends {
    wgpu::Backends::PRIMARY
}

fn none(need: String) -> Error {
    Error::Unsupported { device: "wgpu".to_owned(), need }
}
