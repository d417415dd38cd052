//! The places where a checkpoint may say how a matrix is stored.

use std::collections::{BTreeMap, BTreeSet};

use safetensors::Dtype;
use serde_json::{Map, Value};

use super::description::{self, Described};
use super::{FORMAT, GROUP_SIZE, METADATA};
use crate::checkpoint::container::Entry;
use crate::checkpoint::weights::Found;
use crate::checkpoint::{ModelFiles, json, shown};
use crate::{Error, Result};

/// Longest text of a marker.
const MARKER_BYTES: usize = 4096;
const CONFIG: &str = "config.json";
const OWN_CONFIG: &str = "quantization_config.json";
const CONFIG_KEY: &str = "quantization_config";

/// What the headers and the bytes of the weight files say.
pub(in crate::checkpoint) struct Context<'a> {
    /// By file, in order.
    pub(in crate::checkpoint) headers: &'a [Header],
    /// Bytes by file, in order.
    pub(in crate::checkpoint) bytes: &'a [&'a [u8]],
    /// Module → name under which a fused matrix held it.
    pub(in crate::checkpoint) fused: &'a BTreeMap<String, String>,
}

/// `_quantization_metadata` of one file.
#[derive(Debug, Default)]
pub(in crate::checkpoint) struct Header {
    file: String,
    layers: Map<String, Value>,
}

impl Header {
    pub(super) fn read(file: &str, metadata: &BTreeMap<String, String>) -> Result<Self> {
        let mut header = Self { file: file.to_owned(), layers: Map::new() };
        let Some(text) = metadata.get(METADATA) else { return Ok(header) };
        let item = format!("{file}: {METADATA}");
        let mut root = json::object(&item, text.as_bytes())?;
        match root.remove("layers") {
            Some(Value::Object(layers)) => header.layers = layers,
            other => {
                let found = other.as_ref().map_or_else(|| "nothing".to_owned(), json::short);
                return Err(Error::checkpoint(item, format!("layers: {found} found, allowed: an object")));
            }
        }
        Ok(header)
    }

    fn item(&self, module: &str) -> String {
        format!("{}: {METADATA}: {}", self.file, shown(module))
    }
}

/// All places but the tensors.
pub(super) struct Sources<'a> {
    context: &'a Context<'a>,
    config: Option<Described>,
}

impl<'a> Sources<'a> {
    pub(super) fn read(files: &ModelFiles, context: &'a Context<'a>) -> Result<Self> {
        let mut all = Vec::new();
        if let Some(blob) = files.get(CONFIG) {
            let root = json::object(CONFIG, blob.bytes())?;
            if let Some(map) = json::Fields::new(CONFIG, "", &root).object(CONFIG_KEY)? {
                all.extend(from_config(&format!("{CONFIG}: {CONFIG_KEY}"), map)?);
            }
        }
        if let Some(blob) = files.get(OWN_CONFIG) {
            all.extend(from_config(OWN_CONFIG, &json::object(OWN_CONFIG, blob.bytes())?)?);
        }
        description::agreed(&all)?;
        Ok(Self { context, config: all.into_iter().next() })
    }

    /// What holds for all matrices.
    pub(super) fn config(&self) -> Option<&Described> {
        self.config.as_ref()
    }

    /// A header that describes what the model does not have describes another model.
    pub(super) fn check_names(&self, modules: &BTreeSet<&str>, found: &Found) -> Result<()> {
        let fused: BTreeSet<&str> = self.context.fused.values().map(String::as_str).collect();
        for header in self.context.headers {
            for name in header.layers.keys() {
                if modules.contains(name.as_str()) || fused.contains(name.as_str()) {
                    continue;
                }
                let there = found.get(&format!("{name}.weight")).map(|(_, e)| e.dtype.to_string());
                let message = match there {
                    Some(dtype) => format!("{}.weight is stored as {dtype} and stays so", shown(name)),
                    None => "the model has no such matrix".to_owned(),
                };
                return Err(Error::checkpoint(header.item(name), message));
            }
        }
        Ok(())
    }

    /// The descriptions of one module, besides the configuration's. `markers` are its marker and its group size where
    /// they were found.
    pub(super) fn of(
        &self,
        module: &str,
        markers: &[Option<(String, (usize, Entry))>; 2],
    ) -> Result<Vec<Described>> {
        let [marker, size] = markers;
        let mut all = Vec::new();
        if let Some((name, (at, entry))) = marker {
            let text = self.bytes(*at, entry);
            if entry.dtype != Dtype::U8 || entry.shape.len() != 1 || text.len() > MARKER_BYTES {
                let found =
                    format!("{} of {} dimensions and {} bytes", entry.dtype, entry.shape.len(), text.len());
                let allowed = format!("U8 of one dimension and at most {MARKER_BYTES} bytes");
                return Err(Error::checkpoint(name, format!("{found} found, allowed: {allowed}")));
            }
            all.push((name.clone(), description::read(name, &json::object(name, text)?)?));
        }
        // A writer may describe everything in the first of several files.
        for header in self.context.headers {
            let names = std::iter::once(module).chain(self.context.fused.get(module).map(String::as_str));
            for (name, value) in names.filter_map(|n| header.layers.get_key_value(n)) {
                let item = header.item(name);
                let Value::Object(map) = value else {
                    let message = format!("{} found, allowed: an object", json::short(value));
                    return Err(Error::checkpoint(item, message));
                };
                let rotation = description::read(&item, map)?;
                all.push((item, rotation));
            }
        }
        if let Some((name, (at, entry))) = size {
            let number = <[u8; 4]>::try_from(self.bytes(*at, entry)).ok().map(i32::from_le_bytes);
            let Some(number) = number.filter(|n| entry.dtype == Dtype::I32 && *n > 0) else {
                let message = format!("{} of {} bytes found", entry.dtype, entry.range.len());
                return Err(Error::checkpoint(
                    name,
                    format!("{message}, allowed: one I32 over 0 ({GROUP_SIZE})"),
                ));
            };
            all.push((name.clone(), Some(description::group(name, number.unsigned_abs().into())?)));
        }
        Ok(all)
    }

    fn bytes(&self, file: usize, entry: &Entry) -> &'a [u8] {
        self.context.bytes.get(file).and_then(|b| b.get(entry.range.clone())).unwrap_or_default()
    }
}

/// The description in a configuration; none in that of another method, which is somebody else's to read.
fn from_config(item: &str, map: &Map<String, Value>) -> Result<Option<Described>> {
    let names = |key: &str| map.get(key).and_then(Value::as_str) == Some(FORMAT);
    if !names("format") && !names("quant_method") {
        return Ok(None);
    }
    Ok(Some((item.to_owned(), description::read(item, map)?)))
}
