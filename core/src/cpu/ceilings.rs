//! What this machine reaches at most: a large copy and large products, on all threads, through the code that the
//! steps use.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::gemm::Scalar;
use super::linear::{multiply, widen_codes, widen_f32};
use super::parallel;
use crate::backend::Ceilings;
use crate::checkpoint::{StoredType, TensorView};

/// Bytes copied at once: several times the largest cache of a desktop or server core complex.
const COPY: usize = 256 << 20;
/// Bytes that one task copies.
const PIECE: usize = 4 << 20;
/// Rows, columns and inner width of the products.
const SIDE: usize = 1024;
/// The best of all tries in this time counts, as anything else that runs only takes time away.
const TRYING: Duration = Duration::from_millis(1500);

/// Measures all of them.
pub(super) fn measure() -> Ceilings {
    // Any values do that are neither denormal nor NaN, as long as the pages are really there.
    let values: Vec<f32> = (0..SIDE * SIDE).map(|i| (i % 15) as f32 - 7.0).collect();
    let codes: Vec<u8> = (0..SIDE * SIDE).map(|i| 0x30 + (i % 16) as u8).collect();
    let wide: Vec<f64> = values.iter().map(|&v| f64::from(v)).collect();
    Ceilings {
        copy_bytes: copy(),
        product_flops: product(&values, StoredType::F32, bytemuck::cast_slice(&values), widen_f32),
        quantized_product_flops: product(&wide, StoredType::F8E4M3, &codes, widen_codes),
    }
}

fn copy() -> f64 {
    let source = vec![1u8; COPY];
    let mut target = vec![2u8; COPY];
    let seconds = best(|| {
        parallel::chunks(&mut target, PIECE, |i, piece| {
            piece.copy_from_slice(&source[i * PIECE..][..piece.len()]);
        });
        black_box(&mut target);
    });
    2.0 * COPY as f64 / seconds
}

fn product<T: Scalar + Into<f64>>(
    x: &[T],
    dtype: StoredType,
    bytes: &[u8],
    widen: impl Fn(&TensorView<'_>, std::ops::Range<usize>, &mut [T]) + Sync + Send + Copy,
) -> f64 {
    let weight = [TensorView { dtype, shape: &[SIDE, SIDE], bytes }];
    let seconds = best(|| {
        black_box(multiply(x, SIDE, SIDE, &weight, widen));
    });
    2.0 * (SIDE * SIDE * SIDE) as f64 / seconds
}

/// Seconds of the shortest try, after one that does not count.
fn best(mut work: impl FnMut()) -> f64 {
    work();
    let (started, mut best) = (Instant::now(), f64::INFINITY);
    while best.is_infinite() || started.elapsed() < TRYING {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    best.max(1e-9)
}
