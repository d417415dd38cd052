//! Weights asked for before their product begins: the host's half of `kernels/ahead.cuh`.
//!
//! A forward of few tokens is bound by reading weights, and between products nothing reads them. The quantizers, of which one comes
//! before every FP8 product, ask for the weights of the products after them, in the order of their use and up to a number of
//! bytes ahead, so that device memory is read all the time and products find their weights in the second-level cache.

use std::ops::Range;

use dikast_core::graph::{Step, WeightId};

use super::Builder;
use crate::args::{self, Address};
use crate::device::Target;
use crate::forms::Form;
use crate::launch::Grid;

/// Buckets beyond this are bound by their products.
const MOST_TOKENS: usize = 256;
/// Weights lie in the order of their use; what is smaller between them (scales, norms) is asked for with them.
const GAP: Address = 256 << 10;
/// Ranges begin and end at multiples of this within a weight.
const STEP: u64 = 1024;
/// Bytes that one instruction of the kernel asks for.
const PIECE: u64 = 16 << 10;

/// How far ahead of the products their weights are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefetch {
    /// Bytes ahead of the product that comes next; 0 for none. A part of the second-level cache: what is asked for too
    /// early is replaced before its use.
    pub bytes: u32,
    /// Only once the kernel before has ended.
    pub late: bool,
}

impl Default for Prefetch {
    /// None: on an H200 every distance made forwards slower (benchmarks/cuda/NOTES.md).
    fn default() -> Self {
        Self { bytes: 0, late: false }
    }
}

/// What a step is to the stream of weights.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Role {
    Asks,
    /// Reads a large weight, at these addresses.
    Reads(Range<Address>),
    Other,
}

impl Builder<'_> {
    /// For each step, the addresses that it asks for.
    pub(super) fn ahead(&self) -> Vec<Range<Address>> {
        let steps = self.graph.steps();
        if self.prefetch.bytes == 0
            || self.bucket.tokens > MOST_TOKENS
            || self.device.target != Target::Hopper
        {
            return vec![0..0; steps.len()];
        }
        let roles: Vec<Role> = steps.iter().map(|step| self.role(step)).collect();
        ranges(&roles, self.prefetch.bytes.into())
    }

    fn role(&self, step: &Step) -> Role {
        let half = |weight: WeightId| self.graph.weight(weight).shape.first().map_or(0, |rows| rows / 2);
        let key = match *step {
            Step::RmsNormQuantize { .. } | Step::Quantize { .. } => return Role::Asks,
            Step::QuantLinear { weight, .. } => (weight, Form::Codes { half: 0 }),
            Step::QuantLinearGated { weight, .. } => (weight, Form::Codes { half: half(weight) }),
            Step::Linear { weight, .. } => (weight, Form::Real { half: 0 }),
            Step::LinearGated { weight, .. } => (weight, Form::Real { half: half(weight) }),
            _ => return Role::Other,
        };
        self.resident.range(key).map_or(Role::Other, Role::Reads)
    }

    /// The kernel's parameter for a range, and its grid with the blocks that ask.
    pub(super) fn asking(&self, range: &Range<Address>, grid: Grid) -> (args::Ahead, Grid) {
        let bytes = range.end - range.start;
        let blocks = bytes.div_ceil(PIECE).min(self.device.processors as u64) as usize;
        let [first, y] = grid.blocks;
        let ahead = args::Ahead {
            weights: range.start,
            bytes: bytes as u32,
            first: first as i32,
            late: self.prefetch.late.into(),
            pad: 0,
        };
        (ahead, Grid { blocks: [first + blocks, y], ..grid })
    }
}

/// What each step asks for: weights of the products after it that were not asked for yet, in their order, so that `limit` bytes
/// from the next product's first on are asked for; one contiguous range, so less where weights lie apart.
fn ranges(roles: &[Role], limit: u64) -> Vec<Range<Address>> {
    let weights: Vec<&Range<Address>> =
        roles.iter().filter_map(|r| if let Role::Reads(range) = r { Some(range) } else { None }).collect();
    let total: u64 = weights.iter().map(|w| w.end - w.start).sum();
    // Places in the stream of all weights: where the next product's begin, and up to where they were asked for.
    let (mut next, mut asked) = (0, 0);
    let asks = roles.iter().map(|role| match role {
        Role::Other => 0..0,
        Role::Reads(range) => {
            next += range.end - range.start;
            0..0
        }
        Role::Asks => {
            let from = next.max(asked);
            let until = (next + limit / STEP * STEP).min(total);
            let (range, taken) = contiguous(&weights, from..until);
            asked = from + taken;
            range
        }
    });
    asks.collect()
}

/// Addresses of the first of these places in the stream, as far as they lie together; how many places that are.
fn contiguous(weights: &[&Range<Address>], places: Range<u64>) -> (Range<Address>, u64) {
    let mut range = 0..0;
    let (mut first, mut taken) = (0, 0);
    for weight in weights {
        let bytes = weight.end - weight.start;
        let own = places.start.max(first)..places.end.min(first + bytes);
        if own.start < own.end {
            let addresses = weight.start + (own.start - first)..weight.start + (own.end - first);
            if range.is_empty() {
                range = addresses;
            } else if addresses.start >= range.end && addresses.start - range.end <= GAP {
                range.end = addresses.end;
            } else {
                break;
            }
            taken += own.end - own.start;
        }
        first += bytes;
    }
    (range, taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A block's steps: quantizer, qkv, attention, quantizer, o, quantizer, wi, quantizer, wo; a kilobyte after each weight.
    fn block(at: &mut Address) -> Vec<Role> {
        let mut reads = |mib: u64| {
            let start = *at;
            *at += mib * MIB + 1024;
            Role::Reads(start..start + mib * MIB)
        };
        let (qkv, o, wi, wo) = (reads(12), reads(4), reads(20), reads(10));
        vec![Role::Asks, qkv, Role::Other, Role::Asks, o, Role::Asks, wi, Role::Asks, wo]
    }

    #[test]
    fn every_weight_is_asked_for_once_in_order_and_not_too_early() {
        let mut at = 1 << 30;
        let roles: Vec<Role> = (0..4).flat_map(|_| block(&mut at)).collect();
        for limit in [4 * MIB, 16 * MIB, 24 * MIB + 5] {
            let ranges = ranges(&roles, limit);
            let mut asked = 0;
            let mut until = 0;
            for (i, range) in ranges.iter().enumerate() {
                assert!(range.start % 1024 == 0 && range.end % 1024 == 0);
                if range.is_empty() {
                    continue;
                }
                assert!(matches!(roles[i], Role::Asks));
                assert!(range.start >= until, "nothing twice, in order");
                until = range.end;
                asked += range.end - range.start;
                let next = roles[i..].iter().find_map(|r| match r {
                    Role::Reads(weight) => Some(weight),
                    _ => None,
                });
                let next = next.expect("a product follows");
                assert!(until > next.start && until <= next.start + limit + 4 * 1024);
            }
            if limit > 20 * MIB {
                // The largest weight fits: nothing is left to the products but what follows the last quantizer.
                assert!(asked >= 4 * 46 * MIB, "{asked}");
            }
        }
    }

    #[test]
    fn weights_that_lie_apart_are_asked_for_apart() {
        let roles =
            [Role::Asks, Role::Reads(8 * MIB..9 * MIB), Role::Asks, Role::Reads(MIB..2 * MIB), Role::Asks];
        assert_eq!(ranges(&roles, 4 * MIB), [8 * MIB..9 * MIB, 0..0, MIB..2 * MIB, 0..0, 0..0]);
        assert!(ranges(&[Role::Asks, Role::Other], MIB).iter().all(|r| r.is_empty()));
    }
}
