//! What the device can do at most, measured in the same run as the rest.

use dikast_core::Result;
use dikast_core::backend::Backend as _;
use dikast_wgpu::WgpuBackend;
use serde_json::{Value, json};

/// The device's ceilings.
pub(crate) struct Ceilings {
    /// Bytes a second, read and written.
    pub(crate) bandwidth: f64,
    /// FLOP/s of the portable product.
    pub(crate) portable: f64,
    /// FLOP/s of the product on cooperative matrices; `None` without them.
    pub(crate) cooperative: Option<f64>,
    pub(crate) report: Value,
}

/// The largest rates of the backend's own code: a copy, and products of a large square.
pub(crate) async fn measure(base: &WgpuBackend) -> Result<Ceilings> {
    let capabilities = base.capabilities();
    let (mut bandwidth, mut portable, mut cooperative) = (0.0f64, 0.0f64, None);
    let mut list = Vec::new();
    for (name, options) in crate::paths() {
        let backend = base.again(&options);
        if name == "cooperative" && !backend.uses_matrices() {
            continue;
        }
        let found = backend.ceilings().await?;
        bandwidth = bandwidth.max(found.copy_bytes);
        if backend.uses_matrices() {
            cooperative = Some(found.quantized_product_flops);
        } else {
            portable = portable.max(found.quantized_product_flops);
        }
        portable = portable.max(found.product_flops);
        list.push(json!({
            "path": name, "quantized_tflops": found.quantized_product_flops / 1e12,
            "bf16_tflops": found.product_flops / 1e12, "copy_tb_s": found.copy_bytes / 1e12,
        }));
    }
    eprintln!("ceilings: {}", Value::from(list.clone()));
    let adapter = json!({ "device": capabilities.device.clone(), "details": capabilities.details.clone() });
    Ok(Ceilings {
        bandwidth,
        portable,
        cooperative,
        report: json!({ "adapter": adapter, "copy_tb_s": bandwidth / 1e12, "paths": list }),
    })
}
