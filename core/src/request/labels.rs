//! Flat and hierarchical label sets.

use super::limits::{MAX_HIERARCHY_DEPTH, MAX_LABEL_BYTES, MAX_LABELS, MAX_SEPARATOR_BYTES};
use super::quote::{kind, quote};
use crate::{Error, Result};
use serde_json::{Map, Value};

/// What joins the levels of a hierarchy unless a caller says otherwise.
pub const DEFAULT_SEPARATOR: &str = ".";

/// The labels of one request, in order; a hierarchy is flattened depth first to dotted names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelSet {
    names: Vec<String>,
    tree: Branch,
}

/// Named children in order. A list of labels, and a single label, is a branch whose children are leaves.
type Branch = Vec<(String, Node)>;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Node {
    /// Index into the flat names.
    Leaf(usize),
    Branch(Branch),
}

impl LabelSet {
    /// Flat labels in the given order.
    pub fn flat<S: Into<String>>(labels: impl IntoIterator<Item = S>) -> Self {
        let names: Vec<String> = labels.into_iter().map(Into::into).collect();
        let tree = names.iter().cloned().enumerate().map(|(i, name)| (name, Node::Leaf(i))).collect();
        Self { names, tree }
    }

    /// Labels from JSON, levels joined by [`DEFAULT_SEPARATOR`]: a list of strings, or a map whose values are maps,
    /// lists of strings or strings. A level without labels is refused.
    pub fn from_json(value: &Value) -> Result<Self> {
        Self::from_json_with(value, DEFAULT_SEPARATOR)
    }

    /// [`LabelSet::from_json`] with another separator between levels.
    pub fn from_json_with(value: &Value, separator: &str) -> Result<Self> {
        check_separator(separator)?;
        if !value.is_array() && !value.is_object() {
            let message = format!("{} found, a list of strings or a map of lists is allowed", kind(value));
            return Err(Error::invalid("labels", message));
        }
        let mut flattener = Flattener { separator, names: Vec::new() };
        let tree = flattener.visit(value, "", "labels", 1)?;
        Ok(Self { names: flattener.names, tree })
    }

    /// The same labels with a hierarchy read from their names: `a.b` becomes `b` under `a`.
    ///
    /// What the model sees does not change, only the shape of [`crate::answers::Classification::tree`]. A name that
    /// is both a label and a level is refused.
    pub fn nested_by(self, separator: &str) -> Result<Self> {
        check_separator(separator)?;
        if separator.is_empty() {
            return Err(Error::invalid("label_separator", "empty; a hierarchy cannot be read without one"));
        }
        let mut tree = Branch::new();
        for (index, name) in self.names.iter().enumerate() {
            let field = || format!("labels[{index}]");
            if name.split(separator).count() > MAX_HIERARCHY_DEPTH {
                return Err(too_deep(name.split(separator).count()));
            }
            let mut branch = &mut tree;
            let mut rest = name.as_str();
            while let Some((level, below)) = rest.split_once(separator) {
                rest = below;
                // Neighbours usually share their path, so the search starts at the end.
                let at = match branch.iter().rposition(|(name, _)| name == level) {
                    Some(at) => at,
                    None => {
                        branch.push((level.to_owned(), Node::Branch(Branch::new())));
                        branch.len() - 1
                    }
                };
                branch = match &mut branch[at].1 {
                    Node::Branch(children) => children,
                    Node::Leaf(other) => return Err(both(&field(), name, *other)),
                };
            }
            if let Some((_, Node::Branch(_))) = branch.iter().find(|(name, _)| name == rest) {
                let message = format!("{} is a label and also a level above other labels", quote(name));
                return Err(Error::invalid(field(), message));
            }
            branch.push((rest.to_owned(), Node::Leaf(index)));
        }
        Ok(Self { names: self.names, tree })
    }

    /// The labels as the model sees them: leaf names, or dotted paths of a hierarchy.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// How many labels.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// No labels at all.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Whether no label stands below a level of a hierarchy.
    pub fn is_flat(&self) -> bool {
        self.tree.iter().all(|(_, node)| matches!(node, Node::Leaf(_)))
    }

    /// A JSON map shaped like the labels, with `leaf(index)` at each label; of equal names the last one stays.
    pub fn shaped(&self, leaf: &mut dyn FnMut(usize) -> Value) -> Value {
        fn fill(branch: &Branch, leaf: &mut dyn FnMut(usize) -> Value) -> Value {
            let mut map = Map::new();
            for (name, node) in branch {
                let value = match node {
                    Node::Leaf(index) => leaf(*index),
                    Node::Branch(children) => fill(children, leaf),
                };
                map.insert(name.clone(), value);
            }
            Value::Object(map)
        }
        fill(&self.tree, leaf)
    }
}

struct Flattener<'a> {
    separator: &'a str,
    names: Vec<String>,
}

impl Flattener<'_> {
    fn visit(&mut self, value: &Value, prefix: &str, field: &str, depth: usize) -> Result<Branch> {
        if depth > MAX_HIERARCHY_DEPTH {
            return Err(too_deep(depth));
        }
        let empty =
            value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(Map::is_empty);
        // A request without any label is refused as a whole.
        if empty && depth > 1 {
            return Err(Error::invalid(
                field,
                format!("{} without labels found, each level needs one", kind(value)),
            ));
        }
        match value {
            Value::String(name) => Ok(vec![(name.clone(), self.leaf(prefix, name)?)]),
            Value::Array(items) => {
                let mut branch = Branch::new();
                for (i, item) in items.iter().enumerate() {
                    let Value::String(name) = item else {
                        let message = format!("{} found, only strings are allowed in a list", kind(item));
                        return Err(Error::invalid(format!("{field}[{i}]"), message));
                    };
                    branch.push((name.clone(), self.leaf(prefix, name)?));
                }
                Ok(branch)
            }
            Value::Object(map) => {
                let mut branch = Branch::new();
                for (key, below) in map {
                    let path = self.join(prefix, key);
                    check_length(&path)?;
                    let field = format!("{field}.{key}");
                    branch.push((key.clone(), Node::Branch(self.visit(below, &path, &field, depth + 1)?)));
                }
                Ok(branch)
            }
            other => {
                let message = format!("{} found, a map, a list or a string is allowed", kind(other));
                Err(Error::invalid(field, message))
            }
        }
    }

    fn leaf(&mut self, prefix: &str, name: &str) -> Result<Node> {
        let name = self.join(prefix, name);
        check_length(&name)?;
        if self.names.len() == MAX_LABELS {
            return Err(Error::TooLarge {
                what: "labels".into(),
                limit: MAX_LABELS as u64,
                actual: MAX_LABELS as u64 + 1,
            });
        }
        self.names.push(name);
        Ok(Node::Leaf(self.names.len() - 1))
    }

    /// As the reference joins: no separator after an empty path.
    fn join(&self, prefix: &str, name: &str) -> String {
        if prefix.is_empty() { name.to_owned() } else { format!("{prefix}{}{name}", self.separator) }
    }
}

fn check_separator(separator: &str) -> Result<()> {
    if separator.len() > MAX_SEPARATOR_BYTES {
        return Err(Error::TooLarge {
            what: "bytes of label_separator".into(),
            limit: MAX_SEPARATOR_BYTES as u64,
            actual: separator.len() as u64,
        });
    }
    Ok(())
}

pub(super) fn check_length(label: &str) -> Result<()> {
    if label.len() > MAX_LABEL_BYTES {
        return Err(Error::TooLarge {
            what: format!("bytes of label {}", quote(label)),
            limit: MAX_LABEL_BYTES as u64,
            actual: label.len() as u64,
        });
    }
    Ok(())
}

fn too_deep(depth: usize) -> Error {
    Error::TooLarge {
        what: "levels of labels".into(),
        limit: MAX_HIERARCHY_DEPTH as u64,
        actual: depth as u64,
    }
}

fn both(field: &str, name: &str, other: usize) -> Error {
    Error::invalid(field, format!("{} stands below labels[{other}], which is a label itself", quote(name)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn index_tree(labels: &LabelSet) -> Value {
        labels.shaped(&mut |i| json!(i))
    }

    #[test]
    fn a_hierarchy_is_flattened_depth_first() -> Result<()> {
        let json = json!({"a": {"b": ["x", "y"], "c": "z"}, "t": "formal", "": ["bare"]});
        let labels = LabelSet::from_json(&json)?;
        assert_eq!(labels.names(), ["a.b.x", "a.b.y", "a.c.z", "t.formal", "bare"]);
        assert!(!labels.is_flat());
        let expected =
            json!({"a": {"b": {"x": 0, "y": 1}, "c": {"z": 2}}, "t": {"formal": 3}, "": {"bare": 4}});
        assert_eq!(index_tree(&labels), expected);
        assert_eq!(LabelSet::from_json_with(&json, " / ")?.names()[0], "a / b / x");
        assert_eq!(index_tree(&LabelSet::flat(["x", "y", "x"])), json!({"x": 2, "y": 1}));
        Ok(())
    }

    #[test]
    fn other_values_are_refused_by_path() {
        for (json, field) in [
            (json!(["a", 3]), "labels[1]"),
            (json!([["a"]]), "labels[0]"),
            (json!({"a": {"b": [null]}}), "labels.a.b[0]"),
            (json!({"a": {"b": 2.5}}), "labels.a.b"),
            (json!({"a": [{"b": "c"}]}), "labels.a[0]"),
            (json!({"a": ["b"], "other": [], "q": {}}), "labels.other"),
            (json!({"a": ["b"], "q": {"r": {}}}), "labels.q.r"),
            (json!("a"), "labels"),
            (json!(null), "labels"),
        ] {
            match LabelSet::from_json(&json) {
                Err(Error::InvalidRequest { field: found, .. }) => assert_eq!(found, field),
                other => panic!("{json}: {other:?}"),
            }
        }
    }

    #[test]
    fn dotted_names_become_a_tree() -> Result<()> {
        let labels = LabelSet::flat(["a.x", "b", "a.y.z", "a.x"]).nested_by(".")?;
        assert_eq!(labels.names(), ["a.x", "b", "a.y.z", "a.x"]);
        assert_eq!(index_tree(&labels), json!({"a": {"x": 3, "y": {"z": 2}}, "b": 1}));
        assert!(LabelSet::flat(["a", "a.x"]).nested_by(".").is_err());
        assert!(LabelSet::flat(["a.x", "a"]).nested_by(".").is_err());
        assert!(LabelSet::flat(["a"]).nested_by("").is_err());
        assert!(LabelSet::flat([".".repeat(100)]).nested_by(".").is_err());
        Ok(())
    }

    #[test]
    fn depth_count_and_length_are_limited() {
        let mut deep = json!("x");
        for _ in 0..100 {
            deep = json!({ "a": deep });
        }
        let many = Value::Array(vec![json!("x"); MAX_LABELS + 1]);
        for json in [deep, many, json!(["x".repeat(MAX_LABEL_BYTES + 1)]), json!({"x".repeat(5000): ["a"]})] {
            assert!(matches!(LabelSet::from_json(&json), Err(Error::TooLarge { .. })));
        }
    }
}
