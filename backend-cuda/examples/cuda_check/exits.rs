//! FP8 products by every tile, cluster and exit of the Hopper kernels: the same bits from all.

use dikast_cuda::{CudaBackend, ProductKind};

use crate::report::Report;

/// Rows and depth of a weight; tokens, and the bucket that they are in.
type Size = ((usize, usize), (usize, usize));

/// `small` leaves out what takes a CPU long.
pub fn all(report: &mut Report, label: &str, cuda: &CudaBackend, small: bool) {
    // Deep enough for these kernels; rows and tokens that fill no tile; more tiles than blocks.
    let few: &[Size] = &[((968, 640), (257, 320)), ((328, 640), (130, 192)), ((192, 1152), (300, 320))];
    let many: &[Size] = &[
        ((2048, 2048), (520, 768)),
        ((6144, 2048), (1000, 1024)),
        ((2048, 5120), (4096, 4096)),
        ((2000, 5120), (4000, 4096)),
    ];
    for &((n, k), (tokens, room)) in few.iter().chain(if small { &[][..] } else { many }) {
        for kind in [ProductKind::Residual, ProductKind::Plain, ProductKind::Gated] {
            let name = format!("{label} exits {kind:?} {n}x{k} m={tokens} of {room}");
            let Some(trials) = report.outcome(&name, cuda.try_products((n, k), (tokens, room), kind)) else {
                continue;
            };
            let wrong: Vec<String> = trials
                .iter()
                .filter(|t| t.different > 0 || t.not_finite > 0 || t.spilled)
                .map(|t| {
                    format!(
                        "{} {:?}: {} differ, first {:?}, {} not finite, spilled {}",
                        t.kernel, t.cluster, t.different, t.first, t.not_finite, t.spilled
                    )
                })
                .collect();
            let text = if wrong.is_empty() {
                format!("{} kernels, the same bits", trials.len())
            } else {
                wrong.join("; ")
            };
            report.check(&name, wrong.is_empty() && !trials.is_empty(), &text);
        }
    }
}
