//! One row of numbers as bytes.

use dikast_core::checkpoint::StoredType;
use dikast_core::numerics::e4m3;
use dikast_core::numerics::fp8;
use dikast_core::numerics::int8::quantize_weight_row;
use half::{bf16, f16};

use crate::plan::{Coding, Item};

/// What was found of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Its scale; 1 where it has none.
    pub(crate) scale: f32,
    /// Square of the distance of what the codes stand for from the numbers.
    pub(crate) square: f64,
    /// Square of the length of the numbers.
    pub(crate) norm: f64,
}

/// Encodes one row; `None` where a number is not finite as stored. `wide` is as long as a row of codes.
pub(crate) fn encode(item: &Item, row: &[f32], wide: &mut [f64], bytes: &mut [u8]) -> Option<Found> {
    match (item.coding, item.dtype) {
        (Coding::Int8 { group, .. }, _) => {
            let codes: &mut [i8] = bytemuck::cast_slice_mut(bytes);
            let scale = quantize_weight_row(row, group, wide, codes);
            // `wide` holds the rotated row now, and the rotation keeps distances.
            let values = codes.iter().map(|c| f64::from(*c) * f64::from(scale));
            return scale.is_finite().then(|| measured(scale, wide, values));
        }
        (Coding::Fp8, _) => {
            let rounded: Vec<bf16> = row.iter().map(|v| bf16::from_f32(*v)).collect();
            let scale = fp8::quantize_row_bf16(&rounded, bytes).to_f32();
            for (to, v) in wide.iter_mut().zip(row) {
                *to = f64::from(*v);
            }
            let values = bytes.iter().map(|c| f64::from(e4m3::decode(*c)) * f64::from(scale));
            return scale.is_finite().then(|| measured(scale, wide, values));
        }
        (Coding::Plain, StoredType::F32) => {
            for (to, v) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
                *to = v.to_le_bytes();
            }
        }
        (Coding::Plain, StoredType::BF16) => {
            for (to, v) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
                *to = bf16::from_f32(*v).to_le_bytes();
            }
        }
        (Coding::Plain, StoredType::F16) => {
            for (to, v) in bytes.as_chunks_mut().0.iter_mut().zip(row) {
                *to = f16::from_f32(*v).to_le_bytes();
            }
        }
        // Refused by the plan.
        (Coding::Plain, StoredType::F8E4M3 | StoredType::I8) => return None,
    }
    // Sources give numbers of the type that they name, so rounding cannot overflow.
    row.iter().all(|v| v.is_finite()).then_some(Found { scale: 1.0, square: 0.0, norm: 0.0 })
}

/// The scale of a row of FP8 codes, as [`fp8::quantize_row_bf16`] finds it.
pub(crate) fn fp8_scale(row: &[f32]) -> bf16 {
    let rounded: Vec<bf16> = row.iter().map(|v| bf16::from_f32(*v)).collect();
    fp8::quantize_row_bf16(&rounded, &mut vec![0; row.len()])
}

fn measured(scale: f32, numbers: &[f64], values: impl Iterator<Item = f64>) -> Found {
    let mut found = Found { scale, square: 0.0, norm: 0.0 };
    for (number, value) in numbers.iter().zip(values) {
        found.square += (number - value) * (number - value);
        found.norm += number * number;
    }
    found
}
