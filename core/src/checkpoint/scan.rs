//! Looks for values that a checkpoint must not hold. Reads every byte once, at the speed of memory.

use std::ops::Range;

use super::{StoredType, TensorView, Values, parallel};
use crate::numerics::e4m3;

/// Elements looked at together: long enough to vectorize, short enough to say quickly which one it was.
const BLOCK: usize = 2048;
/// Bytes of one unit of parallel work; a multiple of every block.
const JOB: usize = 4 << 20;

/// A value that is not allowed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bad {
    /// Which of the tensors.
    pub(super) tensor: usize,
    /// Index of the element, row-major.
    pub(super) index: usize,
    /// The value.
    pub(super) value: f32,
}

/// The first bad value, in the order of the tensors.
pub(super) fn first_bad(tensors: &[(TensorView<'_>, Values)]) -> Option<Bad> {
    let jobs: Vec<(usize, Range<usize>)> = tensors
        .iter()
        .enumerate()
        .flat_map(|(i, (view, _))| {
            let end = view.bytes.len();
            (0..end).step_by(JOB).map(move |start| (i, start..end.min(start + JOB)))
        })
        .collect();
    parallel::first(&jobs, |(i, range)| {
        let (view, values) = &tensors[*i];
        let at = find(view.dtype, *values, view.bytes.get(range.clone())?)?;
        let index = range.start / view.dtype.bytes() + at;
        let mut value = [0.0];
        let flat = TensorView { shape: &[usize::MAX], ..*view };
        flat.decode_rows(index..index + 1, &mut value);
        Some(Bad { tensor: *i, index, value: value[0] })
    })
}

/// Index of the first bad element of some bytes.
fn find(dtype: StoredType, values: Values, bytes: &[u8]) -> Option<usize> {
    // An exponent of all ones is an infinity or a NaN.
    match (dtype, values) {
        (StoredType::I8, Values::Finite) => None,
        (StoredType::F8E4M3, Values::Finite) => position(bytes, |b: [u8; 1]| e4m3::is_nan(b[0])),
        (StoredType::F16, Values::Finite) => position(bytes, |b| u16::from_le_bytes(b) & 0x7C00 == 0x7C00),
        (StoredType::BF16, Values::Finite) => position(bytes, |b| u16::from_le_bytes(b) & 0x7F80 == 0x7F80),
        (StoredType::F32, Values::Finite) => {
            position(bytes, |b| u32::from_le_bytes(b) & 0x7F80_0000 == 0x7F80_0000)
        }
        // Bits of a positive finite number: over those of +0, under those of +infinity.
        (StoredType::I8, Values::Positive) => position(bytes, |b: [u8; 1]| b[0].wrapping_sub(1) >= 0x7F),
        (StoredType::F8E4M3, Values::Positive) => position(bytes, |b: [u8; 1]| b[0].wrapping_sub(1) >= 0x7E),
        (StoredType::F16, Values::Positive) => {
            position(bytes, |b| u16::from_le_bytes(b).wrapping_sub(1) >= 0x7C00 - 1)
        }
        (StoredType::BF16, Values::Positive) => {
            position(bytes, |b| u16::from_le_bytes(b).wrapping_sub(1) >= 0x7F80 - 1)
        }
        (StoredType::F32, Values::Positive) => {
            position(bytes, |b| u32::from_le_bytes(b).wrapping_sub(1) >= 0x7F80_0000 - 1)
        }
    }
}

/// Index of the first element of `N` bytes that is bad.
fn position<const N: usize>(bytes: &[u8], bad: impl Fn([u8; N]) -> bool + Copy) -> Option<usize> {
    let (elements, _) = bytes.as_chunks::<N>();
    for (block, start) in elements.chunks(BLOCK).zip((0..).step_by(BLOCK)) {
        // No early exit inside a block, so that this loop becomes vector instructions.
        if block.iter().fold(false, |any, e| any | bad(*e)) {
            return block.iter().position(|e| bad(*e)).map(|i| start + i);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::{Bad, JOB, StoredType, TensorView, Values, find, first_bad};

    /// Every 16-bit and 8-bit pattern, and many 32-bit ones, against the decoded value.
    #[test]
    fn rules_agree_with_the_values() {
        for dtype in [StoredType::F32, StoredType::F16, StoredType::BF16, StoredType::F8E4M3, StoredType::I8]
        {
            for pattern in 0..=u16::MAX {
                let bytes = match dtype.bytes() {
                    1 => vec![pattern as u8],
                    2 => pattern.to_le_bytes().to_vec(),
                    _ => (u32::from(pattern) << 16 | u32::from(pattern & 1)).to_le_bytes().to_vec(),
                };
                let value = TensorView { dtype, shape: &[], bytes: &bytes }.to_f32()[0];
                assert_eq!(
                    find(dtype, Values::Finite, &bytes).is_some(),
                    !value.is_finite(),
                    "{dtype} {value}"
                );
                let positive = value.is_finite() && value > 0.0;
                assert_eq!(find(dtype, Values::Positive, &bytes).is_some(), !positive, "{dtype} {value}");
            }
        }
    }

    #[test]
    fn finds_the_first_of_several() {
        let n = JOB + 5;
        let mut long = vec![0u8; n * 2];
        for at in [n - 1, n - 3] {
            long[at * 2 + 1] = 0x7F;
            long[at * 2] = 0x80;
        }
        let shape = [n];
        let clean = [0u8; 6];
        let clean = TensorView { dtype: StoredType::BF16, shape: &[3], bytes: &clean };
        let view = TensorView { dtype: StoredType::BF16, shape: &shape, bytes: &long };
        let bad = first_bad(&[(clean, Values::Finite), (view, Values::Finite), (view, Values::Finite)]);
        assert_eq!(bad, Some(Bad { tensor: 1, index: n - 3, value: f32::INFINITY }));
        assert_eq!(first_bad(&[(clean, Values::Finite)]), None);
        assert_eq!(first_bad(&[(clean, Values::Positive)]), Some(Bad { tensor: 0, index: 0, value: 0.0 }));
    }
}
