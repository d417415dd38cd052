//! FP8 products of an mT5 block: every kernel and tile, with either operand as the 64-row side, bit for bit.

use dikast_cuda::{CudaBackend, Fp8Case, Fp8Trial, ProductKind};

use crate::report::Report;

fn name_of(trial: &Fp8Trial) -> String {
    let [down, across] = trial.cluster;
    let short = trial.kernel.trim_start_matches("sm90_fp8_");
    format!("{short}/{down}x{across}{}", if trial.chosen { "*" } else { "" })
}

/// `small` takes shapes that a CPU multiplies quickly; without `clusters`, blocks that share operands are left out.
pub fn tiles(report: &mut Report, label: &str, cuda: &CudaBackend, small: bool, clusters: bool) {
    use ProductKind::{Gated, Plain, Residual};
    // Weight rows, depth, kind. Depths beyond 512, where the tensor core's own sums are taken; one that ends inside a k-block,
    // numbers of k-blocks that are no multiples of eight, columns that end inside a tile.
    let (shapes, sizes): (&[_], &[(usize, usize)]) = if small {
        (&[(384, 700, Plain), (640, 1152, Gated), (376, 1664, Residual)], &[(1, 1), (65, 96), (130, 192)])
    } else {
        (
            &[
                (6144, 2048, Plain),
                (2048, 2048, Residual),
                (10_240, 2048, Gated),
                (2048, 5120, Residual),
                (1920, 700, Plain),
                (1904, 1300, Residual),
                (3824, 1152, Gated),
            ],
            &[
                (1, 1),
                (5, 16),
                (33, 64),
                (63, 64),
                (64, 64),
                (65, 96),
                (127, 128),
                (128, 128),
                (129, 192),
                (192, 192),
                (255, 256),
                (256, 256),
                (257, 320),
            ],
        )
    };
    for &(n, k, kind) in shapes {
        for &(tokens, bucket) in sizes {
            let name = format!("{label} fp8 tiles {n}x{k} m={tokens}/{bucket} {kind:?}");
            let case = Fp8Case { n, k, tokens, bucket, kind };
            let Some(trials) = report.outcome(&name, cuda.try_fp8(case, clusters)) else { return };
            let bad: Vec<String> = trials
                .iter()
                .filter(|t| t.wrong > 0 || t.differing > 0 || t.spilled)
                .map(|t| {
                    let spilled = if t.spilled { ", wrote elsewhere" } else { "" };
                    format!("{} ({} wrong, {} differ{spilled})", name_of(t), t.wrong, t.differing)
                })
                .collect();
            let few = trials.iter().filter(|t| t.kernel.contains("few")).count();
            report.check(
                &name,
                bad.is_empty(),
                &format!("{} kernels, {few} of few tokens; bad: {bad:?}", trials.len()),
            );
        }
    }
}
