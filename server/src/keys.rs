//! Keys of callers.

use std::time::Duration;

use sha2::{Digest, Sha256};
use subtle::{ConditionallySelectable as _, ConstantTimeEq as _};

use crate::rate::{Limiter, Rate};

/// A key that callers send.
#[derive(Clone)]
pub struct Key {
    /// The key itself.
    pub secret: String,
    /// How many requests it may send; [`crate::Config::rate`] if absent.
    pub rate: Option<Rate>,
}

impl<T: Into<String>> From<T> for Key {
    fn from(secret: T) -> Self {
        Self { secret: secret.into(), rate: None }
    }
}

/// Without the secret.
impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Key").field("rate", &self.rate).finish_non_exhaustive()
    }
}

/// Keys of callers; only their digests are kept.
pub(crate) struct Keys(Vec<Known>);

/// A key that this server knows.
pub(crate) struct Known {
    digest: [u8; 32],
    limiter: Option<Limiter>,
}

impl Keys {
    /// Keys with their own rates, or with `rate`.
    pub(crate) fn new(keys: &[Key], rate: Option<Rate>) -> Self {
        let known = |key: &Key| Known {
            digest: digest(key.secret.as_bytes()),
            limiter: key.rate.or(rate).map(Limiter::new),
        };
        Self(keys.iter().map(known).collect())
    }

    /// Everybody may call.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The key if it is one of them. The time does not depend on which, nor on how much of it is right.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Known> {
        let found = digest(key);
        let place = self.0.iter().zip(0_u64..).fold(u64::MAX, |place, (known, i)| {
            u64::conditional_select(&place, &i, known.digest.ct_eq(&found))
        });
        self.0.get(usize::try_from(place).ok()?)
    }
}

impl Known {
    /// Counts a request; how long to wait if the key has sent too many.
    pub(crate) fn admit(&self) -> Result<(), Duration> {
        self.limiter.as_ref().map_or(Ok(()), Limiter::admit)
    }
}

fn digest(key: &[u8]) -> [u8; 32] {
    Sha256::digest(key).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_keys_only() {
        let keys = Keys::new(&["alpha".into(), "beta".into()], None);
        assert!(keys.find(b"alpha").is_some() && keys.find(b"beta").is_some());
        for wrong in [&b"alph"[..], b"alphaa", b"", b"Alpha", b"alpha,beta"] {
            assert!(keys.find(wrong).is_none());
        }
        assert!(Keys::new(&[], None).is_empty() && Keys::new(&[], None).find(b"").is_none());
    }

    #[test]
    fn every_key_has_a_rate_of_its_own() {
        let rate = |text: &str| text.parse().ok();
        let own = Key { secret: "own".into(), rate: rate("2/h") };
        let keys = Keys::new(&["alpha".into(), "beta".into(), own], rate("1/h"));
        let admit = |key: &[u8]| keys.find(key).map(|known| known.admit().is_ok());
        assert_eq!([admit(b"alpha"), admit(b"alpha")], [Some(true), Some(false)]);
        assert_eq!([admit(b"beta"), admit(b"beta")], [Some(true), Some(false)]);
        assert_eq!([admit(b"own"), admit(b"own"), admit(b"own")], [Some(true), Some(true), Some(false)]);
    }
}
