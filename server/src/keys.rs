//! Keys of callers.

use sha2::{Digest, Sha256};
use subtle::{Choice, ConstantTimeEq as _};

/// Keys of callers; only their digests are kept.
pub(crate) struct Keys(Vec<[u8; 32]>);

impl Keys {
    pub(crate) fn new(keys: &[String]) -> Self {
        Self(keys.iter().map(|key| digest(key.as_bytes())).collect())
    }

    /// Everybody may call.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a key is one of them. The time does not depend on which, nor on how much of it is right.
    pub(crate) fn knows(&self, key: &[u8]) -> bool {
        let found = digest(key);
        self.0.iter().fold(Choice::from(0), |any, known| any | known.ct_eq(&found)).into()
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
        let keys = Keys::new(&["alpha".into(), "beta".into()]);
        assert!(keys.knows(b"alpha") && keys.knows(b"beta"));
        for wrong in [&b"alph"[..], b"alphaa", b"", b"Alpha", b"alpha,beta"] {
            assert!(!keys.knows(wrong));
        }
        assert!(Keys::new(&[]).is_empty() && !Keys::new(&[]).knows(b""));
    }
}
