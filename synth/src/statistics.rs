//! Values that look like a trained T5's: the standard deviations that keep every activation of order one, rows of
//! different size, a few loud columns and heavy tails, as quantizers meet them in practice.

use rand::SeedableRng;
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use rand_xoshiro::Xoshiro256PlusPlus;

/// How a tensor's values are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// A matrix with this standard deviation.
    Matrix(f64),
    /// A norm's weight: about one.
    Gain,
    /// Small and around zero.
    Bias,
    /// One number.
    Constant(f32),
    /// Normal around a mean.
    Normal {
        /// The mean.
        mean: f32,
        /// The standard deviation.
        deviation: f32,
    },
    /// The weight of a norm that adds one to it: about zero, but for one channel in four hundred that is loud.
    ZeroGain,
    /// The logarithm of a number that is drawn evenly.
    LogUniform {
        /// Smallest number.
        low: f32,
        /// Largest.
        high: f32,
    },
    /// What softplus turns into a number whose logarithm is drawn evenly.
    Softplus {
        /// Smallest number.
        low: f32,
        /// Largest.
        high: f32,
    },
}

/// One tensor's generator.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    kind: Kind,
    seed: u64,
    /// Factor of each column.
    columns: Vec<f32>,
}

impl Source {
    /// The generator of a GLiClass tensor by its name.
    pub(crate) fn new(name: &str, shape: &[usize], seed: u64) -> Self {
        let k = shape.last().copied().unwrap_or(1) as f64;
        let kind = if name == "model.logit_scale" {
            Kind::Constant(2.6592)
        } else if name.ends_with(".bias") || name.contains(".bias_") {
            Kind::Bias
        } else if shape.len() < 2 {
            Kind::Gain
        } else if name.contains("relative_attention_bias") || name.ends_with("shared.weight") {
            Kind::Matrix(1.0)
        } else if name.ends_with("SelfAttention.q.weight") {
            // T5 folds the 1/√64 of its heads into q.
            Kind::Matrix((k * 64.0).powf(-0.5))
        } else {
            Kind::Matrix(k.powf(-0.5))
        };
        Self::of(kind, name, k as usize, seed)
    }

    /// A generator of rows of `width` numbers; the name makes its numbers its own.
    pub(crate) fn of(kind: Kind, name: &str, width: usize, seed: u64) -> Self {
        let seed = name
            .bytes()
            .fold(seed ^ 0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        let mut rng = row_rng(seed, u64::MAX);
        let columns = match kind {
            Kind::Matrix(_) => (0..width)
                .map(|_| {
                    let z: f32 = StandardNormal.sample(&mut rng);
                    if z > 2.6 { 4.0 } else { (0.15 * z).exp() }
                })
                .collect(),
            _ => Vec::new(),
        };
        Self { kind, seed, columns }
    }

    /// Draws row `row` (a vector is one row).
    pub(crate) fn row(&self, row: usize, out: &mut [f32]) {
        let mut rng = row_rng(self.seed, row as u64);
        if let Kind::LogUniform { low, high } | Kind::Softplus { low, high } = self.kind {
            for x in out {
                let share: f32 = StandardUniform.sample(&mut rng);
                let between = |a: f32, b: f32| a + (b - a) * share;
                *x = match self.kind {
                    Kind::LogUniform { .. } => between(low, high).ln(),
                    _ => between(low.ln(), high.ln()).exp().exp_m1().ln(),
                };
            }
            return;
        }
        let mut normal = || -> f32 { StandardNormal.sample(&mut rng) };
        match self.kind {
            Kind::Constant(c) => out.fill(c),
            Kind::Gain => out.iter_mut().for_each(|x| *x = (0.2 * normal()).exp()),
            Kind::Normal { mean, deviation } => out.iter_mut().for_each(|x| *x = mean + deviation * normal()),
            Kind::ZeroGain => {
                for x in out {
                    let (z, loud) = (normal(), normal());
                    *x = if loud > 2.8 { 7.0 } else { 0.2 * z };
                }
            }
            // Drawn above.
            Kind::LogUniform { .. } | Kind::Softplus { .. } => {}
            Kind::Bias => out.iter_mut().for_each(|x| *x = 0.02 * normal()),
            Kind::Matrix(deviation) => {
                let size = deviation as f32 * (0.2 * normal()).exp();
                for (x, column) in out.iter_mut().zip(&self.columns) {
                    let z = normal();
                    // Cubing a little of it makes the tails heavy: kurtosis about 6 instead of 3.
                    *x = size * column * (0.75 * z + 0.08 * z * z * z);
                }
            }
        }
    }
}

fn row_rng(seed: u64, row: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(row.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}
