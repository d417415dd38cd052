//! What is stored how, and in which file.

use dikast_core::checkpoint::{Expected, SideFile, StoredTensor, StoredType, TensorSpec};
use dikast_core::numerics::hadamard::Group;
use dikast_core::{Error, Result};

use crate::family::stored_alike;
use crate::pattern::Pattern;
use crate::source::{Rows, Source};

/// Bytes after which a new shard begins.
pub const SHARD_BYTES: u64 = 5_000_000_000;

/// How the large matrices are stored; everything else keeps its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// As they are.
    Keep,
    /// INT8 codes with a scale a row.
    Int8,
    /// INT8 codes, rotated in groups.
    Int8ConvRot {
        /// Features that are rotated together.
        group: Group,
    },
    /// E4M3 codes with a BF16 scale a row, as compressed-tensors' `FP8_DYNAMIC` makes them: activations are quantized per
    /// token when the model runs.
    Fp8W8A8,
}

impl Scheme {
    /// The name in flags and in `provenance.json`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Int8 => "int8",
            Self::Int8ConvRot { .. } => "int8-convrot",
            Self::Fp8W8A8 => "fp8-w8a8",
        }
    }

    /// How it stores a matrix that it is for, and the group of the rotation.
    fn coding(self, bias: bool) -> Option<(Coding, StoredType)> {
        match self {
            Self::Keep => None,
            Self::Int8 => Some((Coding::Int8 { group: None, bias }, StoredType::I8)),
            Self::Int8ConvRot { group } => Some((Coding::Int8 { group: Some(group), bias }, StoredType::I8)),
            Self::Fp8W8A8 => Some((Coding::Fp8, StoredType::F8E4M3)),
        }
    }
}

/// How a tensor's numbers become bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// As they are.
    Plain,
    /// INT8 codes, `weight_scale` in F32, perhaps a correcting `bias`.
    Int8 {
        /// The rotation of the codes.
        group: Option<Group>,
        /// Whether there is a bias.
        bias: bool,
    },
    /// E4M3 codes, `weight_scale` in BF16.
    Fp8,
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
    /// How its numbers become that.
    pub(crate) coding: Coding,
}

impl Item {
    /// The module of a matrix of codes, as its file names it.
    pub(crate) fn module(&self) -> Option<&str> {
        (self.coding != Coding::Plain).then(|| self.name.strip_suffix(".weight")).flatten()
    }

    /// The module of a matrix of INT8 codes, and their rotation.
    pub(crate) fn int8(&self) -> Option<(&str, Option<Group>)> {
        match self.coding {
            Coding::Int8 { group, .. } => self.module().map(|m| (m, group)),
            _ => None,
        }
    }

    /// The tensors that it takes in the file.
    pub(crate) fn stored(&self) -> Vec<StoredTensor> {
        let mut all =
            vec![StoredTensor { name: self.name.clone(), dtype: self.dtype, shape: self.spec.shape.clone() }];
        let Some(module) = self.module() else { return all };
        let rows = self.spec.shape.first().copied().unwrap_or(0);
        let mut besides = |part: &str, dtype, shape| {
            all.push(StoredTensor { name: format!("{module}.{part}"), dtype, shape });
        };
        match self.coding {
            Coding::Plain => {}
            Coding::Fp8 => besides("weight_scale", StoredType::BF16, vec![rows, 1]),
            Coding::Int8 { bias, .. } => {
                besides("weight_scale", StoredType::F32, vec![rows, 1]);
                if bias {
                    besides("bias", StoredType::F32, vec![rows]);
                }
            }
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
    /// Decides what is stored how. Matrices that may be stored as the scheme stores them
    /// ([`TensorSpec::int8_projection`], [`TensorSpec::projection`]) follow it; files end near `shard_bytes`, a tensor and
    /// its scale in one; the tensors of a side file go there under their own names.
    ///
    /// # Errors
    /// As [`Plan::keeping`].
    pub fn new(expected: &Expected, scheme: Scheme, shard_bytes: u64, source: &dyn Source) -> Result<Self> {
        Self::keeping(expected, scheme, shard_bytes, source, &[])
    }

    /// The same with modules that stay as they are.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] for a scheme that the model has no matrices for, for a group that does not divide the
    /// rows of one, for a pattern that no such matrix matches, and where some but not all matrices of one product would
    /// stay; [`Error::Checkpoint`] for a matrix that is quantized already.
    pub fn keeping(
        expected: &Expected,
        scheme: Scheme,
        shard_bytes: u64,
        source: &dyn Source,
        keep: &[Pattern],
    ) -> Result<Self> {
        let may =
            |spec: &TensorSpec| scheme.coding(false).is_some_and(|(_, dtype)| spec.allowed.contains(&dtype));
        let modules: Vec<&str> = expected
            .tensors
            .iter()
            .filter(|t| may(t))
            .filter_map(|t| t.name.strip_suffix(".weight"))
            .collect();
        if scheme != Scheme::Keep && modules.is_empty() {
            let kind = if scheme == Scheme::Fp8W8A8 { "FP8" } else { "INT8" };
            let message =
                format!("{} found, but this model has no matrices that may be {kind}", scheme.name());
            return Err(Error::invalid("scheme", message));
        }
        if let Some(idle) = keep.iter().find(|p| !modules.iter().any(|m| p.matches(m))) {
            let example = modules.first().copied().unwrap_or("nothing");
            let message =
                format!("{:?} names no matrix that would be quantized, such as {example}", idle.as_str());
            return Err(Error::invalid("keep", message));
        }
        let stays = |module: &str| keep.iter().any(|p| p.matches(module));
        if !modules.is_empty() && modules.iter().all(|m| stays(m)) {
            return Err(Error::invalid("keep", "nothing would be quantized"));
        }
        for module in &modules {
            let Some(other) = stored_alike(module).into_iter().find(|other| stays(other) != stays(module))
            else {
                continue;
            };
            let (kept, coded) =
                if stays(module) { (*module, other.as_str()) } else { (other.as_str(), *module) };
            let message = format!("{kept} would stay and {coded} would not, but both run as one product");
            return Err(Error::invalid("keep", message));
        }
        let items = expected.tensors.iter().map(|spec| {
            let rows = source.open(spec)?;
            let module =
                spec.name.strip_suffix(".weight").filter(|m| may(spec) && !stays(m) && !source.stays(m));
            item(spec, scheme, rows.as_ref(), module, source)
        });
        let items: Vec<Item> = items.collect::<Result<_>>()?;
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
        self.items().filter(|i| i.coding != Coding::Plain).count()
    }

    /// The names of the files.
    pub fn file_names(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|f| f.name.as_str())
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &Item> {
        self.files.iter().flat_map(|f| &f.items)
    }
}

fn side_file<'a>(expected: &'a Expected, name: &str) -> Option<&'a SideFile> {
    expected.side_files.iter().find(|f| name.starts_with(&f.prefix))
}

/// A tensor; `module` where it is to be coded.
fn item(
    spec: &TensorSpec,
    scheme: Scheme,
    rows: &dyn Rows,
    module: Option<&str>,
    source: &dyn Source,
) -> Result<Item> {
    let kept = rows.dtype();
    if matches!(kept, StoredType::I8 | StoredType::F8E4M3) {
        let message = format!(
            "stored as {kept} already, allowed: BF16, F16, F32, and codes when they are to be requantized"
        );
        return Err(Error::checkpoint(&spec.name, message));
    }
    let plain = |dtype| Item { spec: spec.clone(), name: spec.name.clone(), dtype, coding: Coding::Plain };
    let Some(module) = module else { return Ok(plain(kept)) };
    let bias = source.coded(module).is_some_and(|c| c.bias.is_some());
    let Some((coding, dtype)) = scheme.coding(bias) else { return Ok(plain(kept)) };
    let width = spec.shape.last().copied().unwrap_or(0);
    if let Coding::Int8 { group: Some(group), .. } = coding
        && !group.divides(width)
    {
        let fit = Group::SIZES.into_iter().filter(|s| width.is_multiple_of(*s)).map(|s| s.to_string());
        let fit = fit.collect::<Vec<_>>().join(", ");
        let message = format!("{group} found, but {} has rows of {width}; allowed there: {fit}", spec.name);
        return Err(Error::invalid("group-size", message));
    }
    Ok(Item { coding, ..plain(dtype) })
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
