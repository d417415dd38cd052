//! The fields of a decision: those of the System One response.

use dikast_core::answers::Decision;
use dikast_core::request::Json;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::{Decisions, Form};

/// The fields of a response, written as the library writes them.
pub(in crate::batch) struct Fields(Vec<(String, Box<RawValue>)>);

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl Form for Decisions {
    type Answer = Decision;
    type Fields<'a> = Fields;

    const MARK: &'static str = "answers";

    fn fields(&self, decision: &Decision) -> Fields {
        let Json::Object(entries) = decision.to_json(&self.output) else { return Fields(Vec::new()) };
        let raw =
            |(name, value): (String, Json)| Some((name, RawValue::from_string(value.to_string()).ok()?));
        Fields(entries.into_iter().filter_map(raw).collect())
    }
}
