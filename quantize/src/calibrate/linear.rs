//! The matrices that read one input: from its values to codes, scales and biases.
//!
//! With `X` the input under the layers quantized so far, `X̂` its codes times their scales in the rotated basis, `X_r` the
//! input in the unquantized model:
//!
//! ```text
//! smooth   s_j = rms(x_j)^α / max|W_j|^(1−α), mean of ln s 0; W ← W·s, X ← X/s     the α with the least error of X·Wᵀ
//! search   the α, or none, with which the answers to the selection set are nearest
//! target   W ← argmin ‖X_r·Wᵀ − X̂·W'ᵀ‖² + λ‖W' − W‖²
//! clip     the scale c·max|w|/127 of each row with the least (w−ŵ)ᵀ·H·(w−ŵ)        H = mean of x̂ᵀ·x̂
//! gptq     codes input by input, the error spread over those that follow
//! refit    scale ← scale · cov(y_r, y)/var(y)                                      y_r = X_r·Wᵀ, y = X̂·Ŵᵀ
//! bias     b = mean of y_r − y
//! ```
//!
//! The last two over the rows that the head reads by themselves: questions, options, the last token.

use dikast_core::numerics::hadamard::{self, Group};
use dikast_core::numerics::int8::{Int8Mode, SCALE_FLOOR, quantize_row, quantize_weight_row};
use dikast_core::{Error, Result};
use rayon::prelude::*;

use super::algebra::{cholesky, inverse, moments, product, product_transposed, transposed};
use super::steps::Steps;
use crate::source::Coded;

/// Shares of the activation in the scales of input channels that are tried.
pub(super) const ALPHAS: [f64; 3] = [0.25, 0.5, 0.75];
/// Tokens on which they are tried.
const TRIED: usize = 2048;
/// Shares of a row's largest value that are tried as what the largest code stands for.
const CLIPS: std::ops::RangeInclusive<u32> = 80..=100;
const CLIP_STEP: usize = 2;
/// Of the mean of the diagonal of `H`, added to it before codes are chosen. Activations are codes, whose rounding is in `H`
/// already, so that little more is needed.
const DAMPING: f64 = 0.001;
/// The same where weights are fitted to outputs.
const RIDGE: f64 = 0.01;
/// A fitted scale is not further from the first one.
const REFIT: std::ops::RangeInclusive<f64> = 0.8..=1.25;

/// A matrix, `[rows, width]`.
#[derive(Debug, Clone)]
pub(super) struct Matrix {
    pub(super) module: String,
    pub(super) rows: usize,
    /// As the source has it.
    pub(super) original: Vec<f32>,
    /// For the smoothed input.
    pub(super) weight: Vec<f32>,
}

/// The rows that the matrices read.
#[derive(Debug, Clone)]
pub(super) struct Inputs {
    pub(super) width: usize,
    /// Under the layers quantized so far.
    pub(super) found: Vec<f32>,
    /// In the unquantized model.
    pub(super) reference: Vec<f32>,
    /// For each input, the scale that it shares with others: what computes the input has one number for them.
    pub(super) channels: Vec<usize>,
    /// Which of the rows the head reads by themselves.
    pub(super) read: Vec<bool>,
}

impl Inputs {
    fn tokens(&self) -> usize {
        self.found.len() / self.width.max(1)
    }

    /// The scale of each input.
    fn spread(&self, scales: &[f32]) -> Vec<f32> {
        self.channels.iter().map(|c| scales[*c]).collect()
    }

    /// The rows that the head reads of rows of some width.
    fn read<'a>(&'a self, rows: &'a [f32], width: usize) -> impl Iterator<Item = &'a [f32]> {
        rows.chunks_exact(width.max(1)).zip(&self.read).filter(|(_, read)| **read).map(|(row, _)| row)
    }
}

/// Scales of input channels that may be tried, one list for each share of the activation.
pub(super) fn smoothings(inputs: &Inputs, matrices: &[Matrix]) -> Vec<Vec<f32>> {
    let channels = inputs.channels.iter().max().map_or(0, |c| c + 1);
    let width = inputs.width;
    let (mut squares, mut members, mut largest) =
        (vec![0.0_f64; channels], vec![0_usize; channels], vec![0.0_f64; channels]);
    for row in inputs.found.chunks_exact(width) {
        for (v, c) in row.iter().zip(&inputs.channels) {
            squares[*c] += f64::from(*v) * f64::from(*v);
        }
    }
    inputs.channels.iter().for_each(|c| members[*c] += 1);
    for row in matrices.iter().flat_map(|m| m.weight.chunks_exact(width)) {
        for (v, c) in row.iter().zip(&inputs.channels) {
            largest[*c] = largest[*c].max(f64::from(v.abs()));
        }
    }
    let tokens = inputs.tokens().max(1) as f64;
    let rms: Vec<f64> =
        squares.iter().zip(&members).map(|(s, n)| (s / (tokens * (*n).max(1) as f64)).sqrt()).collect();
    let scales = |alpha: f64| {
        // A channel that is always zero, or that nobody reads, keeps its scale.
        let log = |c: usize| match rms[c] > 0.0 && largest[c] > 0.0 {
            true => alpha * rms[c].ln() - (1.0 - alpha) * largest[c].ln(),
            false => 0.0,
        };
        let mean = (0..channels).map(log).sum::<f64>() / channels.max(1) as f64;
        (0..channels).map(|c| (log(c) - mean).clamp(-6.0, 6.0).exp() as f32).collect()
    };
    ALPHAS.into_iter().map(scales).collect()
}

/// The scales with which the products themselves are nearest; `None` where none is better than no scales.
pub(super) fn nearest_products(
    inputs: &Inputs,
    matrices: &[Matrix],
    group: Option<Group>,
) -> Result<Option<Vec<f32>>> {
    let step = inputs.tokens().div_ceil(TRIED).max(1);
    let tried: Vec<f32> = inputs.found.chunks_exact(inputs.width).step_by(step).flatten().copied().collect();
    let mut best = (loss(&tried, matrices, &vec![1.0; inputs.width], group)?, None);
    for scales in smoothings(inputs, matrices) {
        let found = loss(&tried, matrices, &inputs.spread(&scales), group)?;
        if found < best.0 {
            best = (found, Some(scales));
        }
    }
    Ok(best.1)
}

/// Multiplies the matrices by scales of the input's channels; the input is divided.
pub(super) fn smooth(inputs: &mut Inputs, matrices: &mut [Matrix], scales: &[f32]) {
    let spread = inputs.spread(scales);
    divide(&mut inputs.found, &spread);
    for m in matrices {
        m.weight
            .par_chunks_exact_mut(inputs.width)
            .for_each(|row| row.iter_mut().zip(&spread).for_each(|(w, s)| *w *= s));
    }
}

/// Divides every row.
fn divide(rows: &mut [f32], scales: &[f32]) {
    rows.chunks_exact_mut(scales.len()).for_each(|row| row.iter_mut().zip(scales).for_each(|(v, s)| *v /= s));
}

/// The square error of all products when the input is divided by `scales` and everything is rounded to the nearest code.
fn loss(rows: &[f32], matrices: &[Matrix], scales: &[f32], group: Option<Group>) -> Result<f64> {
    let width = scales.len();
    let tokens = rows.len() / width.max(1);
    let mut divided = rows.to_vec();
    divide(&mut divided, scales);
    let coded = activations(&divided, width, group)?;
    let mut sum = 0.0;
    for m in matrices {
        let wanted = product_transposed(rows, &m.weight, (tokens, width, m.rows));
        let codes: Vec<f32> = m
            .weight
            .par_chunks_exact(width)
            .flat_map_iter(|row| {
                let row: Vec<f32> = row.iter().zip(scales).map(|(w, s)| w * s).collect();
                let (mut wide, mut codes) = (vec![0.0; width], vec![0; width]);
                let scale = quantize_weight_row(&row, group, &mut wide, &mut codes);
                codes.into_iter().map(move |c| f32::from(c) * scale)
            })
            .collect();
        let found = product_transposed(&coded, &codes, (tokens, width, m.rows));
        sum += found.iter().zip(&wanted).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
    }
    Ok(sum)
}

/// Rows as the engine's codes stand for them, in the rotated basis.
fn activations(rows: &[f32], width: usize, group: Option<Group>) -> Result<Vec<f32>> {
    let mut out = vec![0.0; rows.len()];
    let fine = out
        .par_chunks_exact_mut(width)
        .zip(rows.par_chunks_exact(width))
        .map(|(out, row)| {
            let (mut scratch, mut codes) = (vec![0.0; width], vec![0; width]);
            let scale = quantize_row(row, group, Int8Mode::Standard, &mut scratch, &mut codes);
            out.iter_mut().zip(&codes).for_each(|(o, c)| *o = f32::from(*c) * scale);
            scale.is_finite()
        })
        .reduce(|| true, |a, b| a && b);
    if fine { Ok(out) } else { Err(Error::invalid("calibrate", "activations that are not finite found")) }
}

/// Codes, scales and biases of the matrices; their inputs are smoothed already. `scales` are those of [`smooth`].
pub(super) fn quantize(
    inputs: &Inputs,
    matrices: &[Matrix],
    scales: Option<&[f32]>,
    group: Option<Group>,
    steps: Steps,
) -> Result<Vec<Coded>> {
    let (width, tokens) = (inputs.width, inputs.tokens());
    if steps == Steps::NONE {
        return Ok(matrices.iter().map(|m| naive(m, width, group)).collect());
    }
    let coded = activations(&inputs.found, width, group)?;
    let needs = steps.clip || steps.gptq || steps.target;
    let h = if needs { moments(&coded, &coded, (tokens, width, width)) } else { Vec::new() };
    let mean =
        (0..width).map(|i| h.get(i * width + i).copied().unwrap_or(0.0)).sum::<f64>() / width.max(1) as f64;
    // An input that never was anything but zero still needs a positive diagonal.
    let ridge = |share: f64| (share * mean).max(f64::MIN_POSITIVE.sqrt());
    let inverted = |share: f64| -> Result<Vec<f64>> {
        let mut h = h.clone();
        (0..width).for_each(|i| h[i * width + i] += ridge(share));
        Ok(inverse(&cholesky(&h, width)?, width))
    };
    // The upper factor of the inverse: U with Uᵀ·U = H⁻¹.
    let upper =
        if steps.gptq { transposed(&cholesky(&inverted(DAMPING)?, width)?, width) } else { Vec::new() };
    let crossed = if steps.target {
        let mut rows = inputs.reference.clone();
        if let Some(scales) = scales {
            divide(&mut rows, &inputs.spread(scales));
        }
        rows.par_chunks_exact_mut(width).for_each(|row| {
            if let Some(group) = group {
                hadamard::rotate(row, group);
            }
        });
        let mut crossed = moments(&rows, &coded, (tokens, width, width));
        (0..width).for_each(|i| crossed[i * width + i] += ridge(RIDGE));
        // W·C·H⁻¹ for every W at once.
        product(&crossed, &inverted(RIDGE)?, (width, width, width))
    } else {
        Vec::new()
    };
    matrices
        .iter()
        .map(|m| {
            let mut w: Vec<f64> = m.weight.iter().map(|v| f64::from(*v)).collect();
            if let Some(group) = group {
                w.par_chunks_exact_mut(width).for_each(|row| hadamard::rotate_f64(row, group));
            }
            if steps.target {
                w = product(&w, &crossed, (m.rows, width, width));
            }
            // Where errors are spread, that is what a scale is judged by.
            let mut scales = row_scales(&w, &h, (m.rows, width), steps.clip && !steps.gptq);
            let mut codes = vec![0_i8; w.len()];
            codes.par_chunks_exact_mut(width).zip(w.par_chunks_exact(width)).zip(&mut scales).for_each(
                |((codes, row), scale)| match (steps.gptq, steps.clip) {
                    (true, true) => *scale = spread_errors_clipped(row, *scale, &upper, codes),
                    (true, false) => {
                        spread_errors(&mut row.to_vec(), *scale, &upper, codes);
                    }
                    (false, _) => row.iter().zip(codes).for_each(|(v, c)| *c = nearest(*v, *scale)),
                },
            );
            let mut found = Coded { codes, scales, bias: None };
            if steps.refit || steps.bias {
                fit(&mut found, &coded, inputs, m, steps);
            }
            Ok(found)
        })
        .collect()
}

/// The codes of the quantizer without calibration.
pub(super) fn naive(m: &Matrix, width: usize, group: Option<Group>) -> Coded {
    let mut codes = vec![0_i8; m.weight.len()];
    let scales = codes
        .par_chunks_exact_mut(width)
        .zip(m.weight.par_chunks_exact(width))
        .map(|(codes, row)| quantize_weight_row(row, group, &mut vec![0.0; width], codes))
        .collect();
    Coded { codes, scales, bias: None }
}

fn nearest(value: f64, scale: f32) -> i8 {
    // As the quantizer without calibration: in f32.
    (value as f32 / scale).round_ties_even().clamp(-127.0, 127.0) as i8
}

/// The scale of each row: its largest value, or the share of it with the least error.
fn row_scales(w: &[f64], h: &[f64], (rows, width): (usize, usize), clip: bool) -> Vec<f32> {
    let largest: Vec<f32> = w
        .chunks_exact(width)
        .map(|row| (row.iter().fold(0.0_f32, |m, v| m.max((*v as f32).abs())) / 127.0).max(SCALE_FLOOR))
        .collect();
    if !clip {
        return largest;
    }
    let mut best: Vec<(f64, f32)> = largest.iter().map(|s| (f64::INFINITY, *s)).collect();
    // From no clipping down, so that equals stay unclipped.
    for percent in CLIPS.rev().step_by(CLIP_STEP) {
        let scales: Vec<f32> =
            largest.iter().map(|s| (s * percent as f32 / 100.0).max(SCALE_FLOOR)).collect();
        let apart: Vec<f64> = w
            .par_chunks_exact(width)
            .zip(&scales)
            .flat_map_iter(|(row, s)| row.iter().map(move |v| v - f64::from(nearest(*v, *s)) * f64::from(*s)))
            .collect();
        let weighted = product(&apart, h, (rows, width, width));
        for ((best, scale), (a, b)) in
            best.iter_mut().zip(scales).zip(apart.chunks_exact(width).zip(weighted.chunks_exact(width)))
        {
            let loss: f64 = a.iter().zip(b).map(|(a, b)| a * b).sum();
            if loss < best.0 {
                *best = (loss, scale);
            }
        }
    }
    best.into_iter().map(|(_, scale)| scale).collect()
}

/// Rounds a row input by input; the error of each is spread over those that follow, by the upper factor of `H⁻¹`. The
/// error of the outputs that is left.
fn spread_errors(row: &mut [f64], scale: f32, upper: &[f64], codes: &mut [i8]) -> f64 {
    let width = row.len();
    let mut left = 0.0;
    for j in 0..width {
        codes[j] = nearest(row[j], scale);
        let line = &upper[j * width..(j + 1) * width];
        let error = (row[j] - f64::from(codes[j]) * f64::from(scale)) / line[j];
        row[j + 1..].iter_mut().zip(&line[j + 1..]).for_each(|(v, u)| *v -= error * u);
        left += error * error;
    }
    left
}

/// The same with the share of the scale that leaves the least; the scale.
fn spread_errors_clipped(row: &[f64], scale: f32, upper: &[f64], codes: &mut [i8]) -> f32 {
    let (mut best, mut tried) = ((f64::INFINITY, scale), vec![0_i8; row.len()]);
    for percent in CLIPS.rev().step_by(2 * CLIP_STEP) {
        let scale = (scale * percent as f32 / 100.0).max(SCALE_FLOOR);
        let left = spread_errors(&mut row.to_vec(), scale, upper, &mut tried);
        if left < best.0 {
            best = (left, scale);
            codes.copy_from_slice(&tried);
        }
    }
    best.1
}

/// Fits scales and biases of the rows to the outputs of the unquantized model, where the head reads them.
fn fit(found: &mut Coded, coded: &[f32], inputs: &Inputs, m: &Matrix, steps: Steps) {
    let (width, rows) = (inputs.width, m.rows);
    let own: Vec<f32> = inputs.read(coded, width).flatten().copied().collect();
    let reference: Vec<f32> = inputs.read(&inputs.reference, width).flatten().copied().collect();
    let tokens = own.len() / width.max(1);
    if tokens == 0 {
        return;
    }
    let values: Vec<f32> = found.codes.iter().map(|c| f32::from(*c)).collect();
    // Without the scales, which come last.
    let raw = product_transposed(&own, &values, (tokens, width, rows));
    let wanted = product_transposed(&reference, &m.original, (tokens, width, rows));
    let means = |all: &[f32]| -> Vec<f64> {
        let mut sums = vec![0.0; rows];
        for row in all.chunks_exact(rows) {
            sums.iter_mut().zip(row).for_each(|(s, v)| *s += f64::from(*v));
        }
        sums.into_iter().map(|s| s / tokens as f64).collect()
    };
    let (own, want) = (means(&raw), means(&wanted));
    if steps.refit {
        let mut moments = vec![(0.0, 0.0); rows];
        for (raw, wanted) in raw.chunks_exact(rows).zip(wanted.chunks_exact(rows)) {
            for (n, (both, square)) in moments.iter_mut().enumerate() {
                let x = f64::from(raw[n]) - own[n];
                *both += x * (f64::from(wanted[n]) - want[n]);
                *square += x * x;
            }
        }
        for (scale, (both, square)) in found.scales.iter_mut().zip(moments).filter(|(_, m)| m.1 > 0.0) {
            let factor = (both / square / f64::from(*scale)).clamp(*REFIT.start(), *REFIT.end());
            *scale = (f64::from(*scale) * factor) as f32;
        }
    }
    let rest = own.iter().zip(&want).zip(&found.scales);
    let bias: Vec<f32> = rest.map(|((own, want), s)| (want - own * f64::from(*s)) as f32).collect();
    if steps.bias {
        found.bias = Some(bias);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers between −1 and 1 that repeat.
    fn noise(n: usize, seed: u64) -> Vec<f32> {
        let mut state = seed | 1;
        (0..n)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                ((state >> 40) as f32 / (1 << 24) as f32) * 2.0 - 1.0
            })
            .collect()
    }

    const WIDTH: usize = 64;
    const ROWS: usize = 24;
    const TOKENS: usize = 400;

    /// Correlated inputs, some channels much larger than others, with a mean of their own.
    fn inputs() -> Inputs {
        let mut rows = noise(TOKENS * WIDTH, 3);
        for row in rows.chunks_exact_mut(WIDTH) {
            for j in 1..WIDTH {
                row[j] += 0.6 * row[j - 1];
            }
            row.iter_mut()
                .enumerate()
                .for_each(|(j, v)| *v = (*v + 0.3) * if j % 16 == 5 { 20.0 } else { 1.0 });
        }
        Inputs {
            width: WIDTH,
            reference: rows.clone(),
            found: rows,
            channels: (0..WIDTH).collect(),
            read: vec![true; TOKENS],
        }
    }

    fn matrix() -> Matrix {
        let weight = noise(ROWS * WIDTH, 9);
        Matrix { module: "m".to_owned(), rows: ROWS, original: weight.clone(), weight }
    }

    /// Relative error of the outputs.
    fn error(steps: Steps) -> f64 {
        let group = Group::new(16);
        let (mut inputs, mut matrices) = (inputs(), vec![matrix()]);
        let scales = match steps.smooth {
            true => nearest_products(&inputs, &matrices, group).expect("finite"),
            false => None,
        };
        if let Some(scales) = &scales {
            smooth(&mut inputs, &mut matrices, scales);
        }
        let found = quantize(&inputs, &matrices, scales.as_deref(), group, steps).expect("finite");
        let coded = activations(&inputs.found, WIDTH, group).expect("finite");
        let mut values = Vec::new();
        for (row, scale) in found[0].codes.chunks_exact(WIDTH).zip(&found[0].scales) {
            values.extend(row.iter().map(|c| f32::from(*c) * scale));
        }
        let mut y = product_transposed(&coded, &values, (TOKENS, WIDTH, ROWS));
        if let Some(bias) = &found[0].bias {
            y.chunks_exact_mut(ROWS).for_each(|row| row.iter_mut().zip(bias).for_each(|(y, b)| *y += b));
        }
        let want = product_transposed(&inputs.reference, &matrices[0].original, (TOKENS, WIDTH, ROWS));
        dikast_eval::metrics::relative_l2(&y, &want)
    }

    #[test]
    fn every_step_lessens_the_error() {
        let naive = error(Steps::NONE);
        let gptq = error(Steps { gptq: true, ..Steps::NONE });
        let smooth = error(Steps { smooth: true, ..Steps::NONE });
        let clip = error(Steps { clip: true, ..Steps::NONE });
        let bias = error(Steps { bias: true, ..Steps::NONE });
        let all = error(Steps::ALL);
        assert!(naive > 0.0 && gptq < 0.95 * naive, "{gptq} of {naive}");
        assert!(smooth < 0.9 * naive, "{smooth} of {naive}");
        assert!(clip <= naive * 1.001 && bias <= naive * 1.0001, "{clip} and {bias} of {naive}");
        assert!(all < smooth && all < gptq && all < 0.8 * naive, "{all} of {naive}");
    }

    #[test]
    fn no_step_gives_the_codes_of_the_quantizer() {
        let group = Group::new(16);
        let found = quantize(&inputs(), &[matrix()], None, group, Steps::NONE).expect("finite");
        for (n, row) in matrix().weight.chunks_exact(WIDTH).enumerate() {
            let (mut wide, mut codes) = (vec![0.0; WIDTH], vec![0; WIDTH]);
            let scale = quantize_weight_row(row, group, &mut wide, &mut codes);
            assert_eq!(
                (scale, &codes[..]),
                (found[0].scales[n], &found[0].codes[n * WIDTH..(n + 1) * WIDTH])
            );
        }
        assert_eq!(found[0].bias, None);
    }
}
