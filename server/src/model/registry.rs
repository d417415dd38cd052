//! Names of models.

use std::sync::Arc;

use super::{Slot, Status};
use crate::wire::failure::Failure;

/// All served models.
pub(crate) struct Registry {
    slots: Vec<Arc<Slot>>,
    any: bool,
}

/// Names that clients of CLEF send by default; they mean the first model that decides.
const ALIASES: [&str; 6] =
    ["clef", "Cloudflare/clef", "cloudflare/clef", "@cf/cloudflare/clef", "clef-int8", "jev-latest"];

impl Registry {
    pub(crate) fn new(slots: Vec<Arc<Slot>>, any: bool) -> Self {
        Self { slots, any }
    }

    pub(crate) fn slots(&self) -> &[Arc<Slot>] {
        &self.slots
    }

    /// The model of a name for typed questions (`decides`) or labels; without a name, the default one of that kind.
    ///
    /// Ids of served models go before aliases. A name of a model of the other kind is refused by what that model is.
    pub(crate) fn find(&self, name: Option<&str>, decides: bool) -> Result<&Arc<Slot>, Failure> {
        let default = || self.slots.iter().find(|slot| slot.decides == decides);
        let Some(name) = name.map(str::trim) else {
            return default().ok_or_else(|| none(decides));
        };
        if let Some(slot) = self.by_name(name) {
            if slot.decides == decides {
                return Ok(slot);
            }
            if !self.any {
                let (is, route) = match slot.decides {
                    true => ("answers typed questions", "/v1/systemone"),
                    false => ("judges labels", "/gliclass or /v1/classify"),
                };
                return Err(Failure::invalid("model", format!("{} {is}; send it to {route}", slot.id)));
            }
        }
        match default() {
            Some(slot) if self.any => Ok(slot),
            _ => Err(Failure::unknown_model(name, &self.names())),
        }
    }

    /// The model of a name for System One: one that decides, or one for labels that was named itself.
    pub(crate) fn find_for_choices(&self, name: &str) -> Result<&Arc<Slot>, Failure> {
        match self.by_name(name.trim()) {
            Some(slot) => Ok(slot),
            None => self.find(Some(name), true),
        }
    }

    /// The model of a name or alias, of any kind.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Arc<Slot>> {
        self.slots.iter().find(|slot| slot.id == name).or_else(|| {
            ALIASES.contains(&name).then(|| self.slots.iter().find(|slot| slot.decides)).flatten()
        })
    }

    /// Ids of all models.
    pub(crate) fn names(&self) -> String {
        self.slots.iter().map(|slot| slot.id.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Every model answers.
    pub(crate) fn all_ready(&self) -> bool {
        self.slots.iter().all(|slot| slot.status() == Status::Ready)
    }
}

fn none(decides: bool) -> Failure {
    let what = if decides { "typed questions" } else { "labels" };
    Failure::unknown_model("", &format!("no model for {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::failure::Kind;

    fn registry(any: bool) -> Registry {
        let slot = |id: &str, decides| Arc::new(Slot::new(id.to_owned(), decides, 10, 1));
        Registry::new(vec![slot("labels", false), slot("mine", true), slot("jev-latest", true)], any)
    }

    #[test]
    fn ids_then_aliases_then_defaults() {
        let r = registry(false);
        let find = |name, decides| r.find(name, decides).map(|slot| slot.id.clone());
        assert_eq!(find(Some(" mine "), true), Ok("mine".into()));
        assert_eq!(find(Some("@cf/cloudflare/clef"), true), Ok("mine".into()));
        assert_eq!(find(Some("jev-latest"), true), Ok("jev-latest".into()));
        assert_eq!(find(None, false), Ok("labels".into()));
        assert_eq!(find(None, true), Ok("mine".into()));
        let unknown = find(Some("other"), true).expect_err("refused");
        assert!(unknown.kind == Kind::UnknownModel && unknown.message.contains("mine"), "{unknown:?}");
        assert_eq!(r.find_for_choices("labels").map(|slot| slot.id.clone()), Ok("labels".into()));
        assert!(r.find_for_choices("other").is_err_and(|f| f.kind == Kind::UnknownModel));
        assert!(find(Some("labels"), true).is_err_and(|f| f.message.contains("/gliclass")));
        assert!(find(Some("mine"), false).is_err_and(|f| f.message.contains("/v1/systemone")));
    }

    #[test]
    fn any_name_means_the_default() {
        let r = registry(true);
        assert_eq!(r.find(Some("gpt"), true).map(|s| s.id.clone()), Ok("mine".into()));
        assert_eq!(r.find(Some("mine"), false).map(|s| s.id.clone()), Ok("labels".into()));
    }
}
