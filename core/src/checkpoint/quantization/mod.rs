//! INT8 storage: which matrices are stored as codes, whether those are rotated, and in which group.
//!
//! A rotated weight that is run unrotated, or the reverse, gives finite and plausible nonsense, so nothing is guessed:
//! a matrix of codes needs a description, and all descriptions that a checkpoint has of it must agree. They are looked
//! for in this order ([`sources`]):
//!
//! 1. `MODULE.comfy_quant`, U8 `[n]`: the text of a JSON object;
//! 2. `_quantization_metadata` in the `__metadata__` of a weight file: `{"layers": {MODULE: {…}}}`;
//! 3. `quantization_config` of `config.json`, or `quantization_config.json`: one object for all matrices;
//! 4. `MODULE.int8_convrot_groupsize`, I32, one number.
//!
//! The scale is `MODULE.weight_scale` or `MODULE.scale_weight`, F32 `[rows]` or `[rows, 1]`; later stages see the first
//! name and the second shape only. `MODULE.bias` may be there.

mod calibration;
mod description;
mod fused;
mod notes;
mod sources;

use std::collections::{BTreeMap, BTreeSet};

use safetensors::Dtype;

use super::weights::Found;
use super::{Expected, ModelFiles, StoredType, TensorSpec, listed, shown};
use crate::numerics::hadamard::Group;
use crate::{Error, Result};
use sources::{Header, Sources};

pub(super) use calibration::checked;
pub(super) use fused::split;
pub use notes::{Int8Layer, Recipe};
pub(super) use sources::Context;

/// Ending of a marker's name.
const MARKER: &str = "comfy_quant";
/// Ending of the name of a rotation group's size, as one converter writes it.
const GROUP_SIZE: &str = "int8_convrot_groupsize";
/// Another ending for a scale.
const SCALE_ALIAS: &str = "scale_weight";
/// Key of the description of all layers in a file's `__metadata__`.
const METADATA: &str = "_quantization_metadata";
/// The one format of codes that is understood.
const FORMAT: &str = "int8_tensorwise";

/// Rotation of every matrix that is stored as codes, by module.
pub(super) type Rotations = BTreeMap<String, Option<Group>>;

/// A matrix that may be stored as codes.
struct Module<'a> {
    name: &'a str,
    rows: usize,
    width: usize,
}

impl<'a> Module<'a> {
    fn of(spec: &'a TensorSpec) -> Option<Self> {
        let [rows, width] = spec.shape[..] else { return None };
        let name = spec.name.strip_suffix(".weight")?;
        spec.allowed.contains(&StoredType::I8).then_some(Self { name, rows, width })
    }

    fn tensor(&self, part: &str) -> String {
        format!("{}.{part}", self.name)
    }
}

/// Takes all markers out of `found`, brings scales under one name and shape, and says how each matrix of codes is
/// rotated.
///
/// # Errors
/// [`Error::Checkpoint`] naming the tensor or key: codes without a description, a description of something that is not
/// stored as codes, descriptions that differ, an unknown format, a group that is none or does not divide the rows, one
/// scale for a whole matrix.
pub(super) fn resolve(
    found: &mut Found,
    expected: &Expected,
    files: &ModelFiles,
    context: &Context<'_>,
) -> Result<Rotations> {
    let modules: Vec<Module<'_>> = expected.tensors.iter().filter_map(Module::of).collect();
    if modules.is_empty() {
        return Ok(Rotations::new());
    }
    let sources = Sources::read(files, context)?;
    sources.check_names(&modules.iter().map(|m| m.name).collect::<BTreeSet<_>>(), found)?;
    let mut rotations = Rotations::new();
    let mut silent = Vec::new();
    for module in &modules {
        let markers =
            [module.tensor(MARKER), module.tensor(GROUP_SIZE)].map(|n| found.remove(&n).map(|at| (n, at)));
        let Some((_, weight)) = found.get(&module.tensor("weight")).cloned() else { continue };
        let described = sources.of(module.name, &markers)?;
        if weight.dtype != Dtype::I8 {
            if let Some((item, _)) = described.first() {
                let stored = format!("{} is stored as {}", module.tensor("weight"), weight.dtype);
                return Err(Error::checkpoint(item, format!("{stored}, allowed with this: I8")));
            }
            continue;
        }
        let described = described.into_iter().chain(sources.config().cloned()).collect::<Vec<_>>();
        let Some((item, rotation)) = description::agreed(&described)?.cloned() else {
            silent.push(module.tensor("weight"));
            continue;
        };
        if let Some(group) = rotation.filter(|g| !g.divides(module.width)) {
            let message = format!("rows of {} found, which are no whole groups of {group}", module.width);
            return Err(Error::checkpoint(module.tensor("weight"), format!("{message} ({item})")));
        }
        scale(found, module, rotation)?;
        rotations.insert(module.name.to_owned(), rotation);
    }
    if silent.is_empty() {
        return Ok(rotations);
    }
    let message = format!(
        "I8, but nothing says whether the codes are rotated; allowed: MODULE.{MARKER}, {METADATA} in the file's header, \
         quantization_config with \"format\": \"{FORMAT}\", MODULE.{GROUP_SIZE}"
    );
    Err(Error::checkpoint(listed(&silent), message))
}

/// Brings a module's scale under its usual name and shape.
fn scale(found: &mut Found, module: &Module<'_>, rotation: Option<Group>) -> Result<()> {
    let (name, alias) = (module.tensor("weight_scale"), module.tensor(SCALE_ALIAS));
    if let Some(at) = found.remove(&alias) {
        if found.contains_key(&name) {
            return Err(Error::checkpoint(
                alias,
                format!("{name} is there too; which of the two is the scale?"),
            ));
        }
        found.insert(name.clone(), at);
    }
    // A missing scale is reported with everything else that is missing.
    let Some((_, entry)) = found.get_mut(&name) else { return Ok(()) };
    let rows = module.rows;
    if entry.shape == [rows] {
        entry.shape = vec![rows, 1];
    } else if entry.shape.iter().product::<usize>() == 1 && rows != 1 {
        let why = match rotation {
            Some(_) => "which a rotated matrix cannot have",
            None => "which this program does not run",
        };
        let message = format!("one scale for {rows} rows found, {why}; allowed: [{rows}] or [{rows}, 1]");
        return Err(Error::checkpoint(shown(&name), message));
    }
    Ok(())
}

/// What a file's header says of the modules in it.
pub(super) fn header(file: &str, metadata: &BTreeMap<String, String>) -> Result<Header> {
    Header::read(file, metadata)
}
