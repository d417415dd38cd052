//! Checkpoints: files → typed, checked weights.
//!
//! [`ModelFiles`] names the bytes (a mapped directory, compiled-in data, a browser's buffers), [`Weights`] is the
//! strict view of their tensors, [`Expected`] is what a model says those must be. Weights stay in their stored form;
//! nobody here converts or copies a whole table. Every byte is hostile until checked.
//!
//! ```text
//! ModelFiles ─► shards (which files) ─► sums (SHA-256) ─► container (header) ─► Weights::open (names, types, values)
//! ```

mod container;
mod files;
pub(crate) mod json;
#[cfg(feature = "native")]
mod mapped;
mod parallel;
mod quantization;
mod scan;
mod shards;
mod spec;
mod storage;
mod sums;
mod view;
mod weights;
mod writer;

pub use files::{Blob, ModelFiles};
#[cfg(feature = "native")]
pub use mapped::Mapped;
pub use quantization::{Int8Layer, Recipe};
pub use shards::weight_files;
pub use spec::{Alias, Companion, Expected, Fused, SideFile, Slice, StoredTensor, TensorSpec, Values};
pub use storage::Storage;
pub use sums::{Digest, parse as parse_sums};
pub use view::{StoredType, TensorView};
pub use weights::{Checks, Weights};
pub use writer::{FileLayout, FileNotes};

/// A name from a file, safe to print: escaped and cut.
pub(crate) fn shown(name: &str) -> String {
    const LONGEST: usize = 160;
    let mut out: String = name.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if name.chars().nth(LONGEST).is_some() {
        out.push('…');
    }
    out
}

/// The first few of some names, and how many there are besides.
fn listed(names: &[String]) -> String {
    const FIRST: usize = 5;
    let mut out = names.iter().take(FIRST).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > FIRST {
        out.push_str(&format!(" and {} more", names.len() - FIRST));
    }
    out
}
