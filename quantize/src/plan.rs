//! What is stored how, and in which file.

use dikast_core::checkpoint::{Expected, SideFile, StoredTensor, StoredType, TensorSpec};
use dikast_core::numerics::hadamard::Group;
use dikast_core::{Error, Result};

use crate::source::{Rows, Source};

/// Bytes after which a new shard begins.
pub const SHARD_BYTES: u64 = 5_000_000_000;

/// How the large matrices are stored; everything else keeps its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// As they are.
    Keep,
    /// INT8 codes, rotated in groups.
    Int8ConvRot {
        /// Features that are rotated together.
        group: Group,
    },
}

impl Scheme {
    /// The name in flags and in `provenance.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Int8ConvRot { .. } => "int8-convrot",
        }
    }
}

/// One tensor of the new checkpoint.
#[derive(Debug, Clone)]
pub(crate) struct Item {
    /// The tensor as the model names and shapes it.
    pub(crate) spec: TensorSpec,
    /// Its name in its file.
    pub(crate) name: String,
    /// How it is stored.
    pub(crate) dtype: StoredType,
    /// The rotation of its codes.
    pub(crate) group: Option<Group>,
}

impl Item {
    /// The module of a matrix of codes.
    pub(crate) fn module(&self) -> Option<&str> {
        self.group.and_then(|_| self.name.strip_suffix(".weight"))
    }

    /// The tensors that it takes in the file.
    pub(crate) fn stored(&self) -> Vec<StoredTensor> {
        let mut all =
            vec![StoredTensor { name: self.name.clone(), dtype: self.dtype, shape: self.spec.shape.clone() }];
        if let Some(module) = self.module() {
            let shape = vec![self.spec.shape.first().copied().unwrap_or(0), 1];
            all.push(StoredTensor { name: format!("{module}.weight_scale"), dtype: StoredType::F32, shape });
        }
        all
    }

    fn bytes(&self) -> u64 {
        self.stored().iter().map(StoredTensor::bytes).sum()
    }
}

/// One file.
#[derive(Debug, Clone)]
pub(crate) struct PlannedFile {
    pub(crate) name: String,
    pub(crate) items: Vec<Item>,
    /// Whether the index lists it.
    pub(crate) indexed: bool,
}

/// All weight files of a new checkpoint.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) files: Vec<PlannedFile>,
}

impl Plan {
    /// Decides what is stored how. Matrices that may be INT8 ([`TensorSpec::int8_projection`]) follow `scheme`; files
    /// end near `shard_bytes`, a tensor and its scale in one; the tensors of a side file go there under their own names.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a scheme that the model has no matrices for, and for a group that does not divide
    /// the rows of one; [`Error::Checkpoint`] for a matrix that is quantized already.
    pub fn new(expected: &Expected, scheme: Scheme, shard_bytes: u64, source: &dyn Source) -> Result<Self> {
        let items = expected.tensors.iter().map(|spec| {
            let rows = source.open(spec)?;
            item(spec, scheme, rows.as_ref())
        });
        let items: Vec<Item> = items.collect::<Result<_>>()?;
        if scheme != Scheme::Keep && items.iter().all(|i| i.group.is_none()) {
            let message = format!("{} found, but this model has no matrices that may be INT8", scheme.name());
            return Err(Error::invalid("scheme", message));
        }
        let (side, own): (Vec<Item>, Vec<Item>) =
            items.into_iter().partition(|i| side_file(expected, &i.spec.name).is_some());
        let mut files = shards(own, shard_bytes);
        for file in &expected.side_files {
            let items = side.iter().filter(|i| i.spec.name.starts_with(&file.prefix));
            let items = items.map(|i| Item { name: i.name[file.prefix.len()..].to_owned(), ..i.clone() });
            files.push(PlannedFile { name: file.file.clone(), items: items.collect(), indexed: false });
        }
        Ok(Self { files })
    }

    /// Numbers of the model, scales left out.
    pub fn parameters(&self) -> u64 {
        let elements = |i: &Item| i.spec.shape.iter().map(|&n| n as u64).product::<u64>();
        self.files.iter().flat_map(|f| &f.items).map(elements).sum()
    }

    /// Bytes of all tensors, markers left out.
    pub fn tensor_bytes(&self) -> u64 {
        self.files.iter().flat_map(|f| &f.items).map(Item::bytes).sum()
    }

    /// Matrices that are stored as codes.
    pub fn quantized(&self) -> usize {
        self.files.iter().flat_map(|f| &f.items).filter(|i| i.group.is_some()).count()
    }

    /// The names of the files.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|f| f.name.as_str())
    }
}

fn side_file<'a>(expected: &'a Expected, name: &str) -> Option<&'a SideFile> {
    expected.side_files.iter().find(|f| name.starts_with(&f.prefix))
}

fn item(spec: &TensorSpec, scheme: Scheme, rows: &dyn Rows) -> Result<Item> {
    let kept = rows.dtype();
    if matches!(kept, StoredType::I8 | StoredType::F8E4M3) {
        let message = format!("stored as {kept} already, allowed: BF16, F16, F32");
        return Err(Error::checkpoint(&spec.name, message));
    }
    let plain = |dtype| Item { spec: spec.clone(), name: spec.name.clone(), dtype, group: None };
    let Scheme::Int8ConvRot { group } = scheme else { return Ok(plain(kept)) };
    if !spec.allowed.contains(&StoredType::I8) {
        return Ok(plain(kept));
    }
    let width = spec.shape.last().copied().unwrap_or(0);
    if !group.divides(width) {
        let fit = Group::SIZES.into_iter().filter(|s| width.is_multiple_of(*s)).map(|s| s.to_string());
        let fit = fit.collect::<Vec<_>>().join(", ");
        let message = format!("{group} found, but {} has rows of {width}; allowed there: {fit}", spec.name);
        return Err(Error::invalid("group-size", message));
    }
    Ok(Item { group: Some(group), ..plain(StoredType::I8) })
}

/// Splits the model's own tensors into files, in the order of the model.
fn shards(items: Vec<Item>, shard_bytes: u64) -> Vec<PlannedFile> {
    let mut parts: Vec<Vec<Item>> = vec![Vec::new()];
    let mut bytes = 0;
    for item in items {
        let more = item.bytes();
        if bytes > 0 && bytes + more > shard_bytes {
            parts.push(Vec::new());
            bytes = 0;
        }
        bytes += more;
        if let Some(part) = parts.last_mut() {
            part.push(item);
        }
    }
    let all = parts.len();
    let name = |i: usize| match all {
        1 => "model.safetensors".to_owned(),
        _ => format!("model-{:05}-of-{all:05}.safetensors", i + 1),
    };
    let file = |(i, items)| PlannedFile { name: name(i), items, indexed: all > 1 };
    parts.into_iter().enumerate().map(file).collect()
}
