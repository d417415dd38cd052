//! Flat and hierarchical label sets.

use serde_json::Value;

/// The labels of one request, in order; a hierarchy is flattened depth first to dotted names.
#[derive(Debug, Clone, PartialEq)]
pub struct LabelSet {
    names: Vec<String>,
    tree: Value,
}

impl LabelSet {
    /// Flat labels in the given order.
    pub fn flat<S: Into<String>>(labels: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<String> = labels.into_iter().map(Into::into).collect();
        let tree = Value::Array(names.iter().cloned().map(Value::String).collect());
        Self { names, tree }
    }

    /// The labels as the model sees them: leaf names, or dotted paths of a hierarchy.
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
