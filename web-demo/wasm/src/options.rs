//! What stands beside a decision request: choices that the command line and the server have as flags.

use dikast_core::answers::DecideOutput;
use dikast_core::request::{Confidence, DecideRequest, Json, Rules, SpecialTokens};
use dikast_core::{Error, Result};

/// Digits that the answer's numbers may have at most.
const MAX_DECIMALS: usize = 17;

/// The choices, with the defaults of the HTTP API.
#[derive(Debug, Default)]
pub(crate) struct DecideOptions {
    pub(crate) rules: Rules,
    pub(crate) output: DecideOutput,
    confidence: Confidence,
    special_tokens: SpecialTokens,
    max_tokens: Option<usize>,
    max_state_tokens: Option<usize>,
}

impl DecideOptions {
    /// From a map with any of `confidence`, `decimals` (null: all digits), `receipt`, `special_tokens`,
    /// `allow_scalars`, `max_tokens` and `max_state_tokens`; empty text is no choice at all.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] naming the option.
    pub(crate) fn from_json(text: &str) -> Result<Self> {
        let mut options = Self::default();
        options.rules.scalars = false;
        if text.is_empty() {
            return Ok(options);
        }
        let Json::Object(entries) = Json::parse(text)? else {
            return Err(Error::invalid("options", "a map is allowed"));
        };
        for (name, value) in &entries {
            match name.as_str() {
                "confidence" => {
                    let found = value.as_str().and_then(Confidence::from_name);
                    let allowed = || bad(name, &Confidence::NAMES.join(", "));
                    options.confidence = found.ok_or_else(allowed)?;
                }
                "decimals" if *value == Json::Null => options.output.decimals = None,
                "decimals" => {
                    let digits = count(name, value)?;
                    if digits > MAX_DECIMALS {
                        return Err(bad(name, "0 to 17, or null for all digits"));
                    }
                    options.output.decimals = Some(digits as u8);
                }
                "receipt" => options.output.receipt = flag(name, value)?,
                "special_tokens" => {
                    options.special_tokens = match value.as_str() {
                        Some("data") => SpecialTokens::Data,
                        Some("live") => SpecialTokens::Live,
                        _ => return Err(bad(name, "data, live")),
                    };
                }
                "allow_scalars" => options.rules.scalars = flag(name, value)?,
                "max_tokens" => options.max_tokens = Some(count(name, value)?),
                "max_state_tokens" => options.max_state_tokens = Some(count(name, value)?),
                other => return Err(Error::invalid(other, "unknown option")),
            }
        }
        Ok(options)
    }

    /// Puts them into a request and checks it again.
    ///
    /// # Errors
    /// As [`DecideRequest::validate`].
    pub(crate) fn apply(&self, request: &mut DecideRequest) -> Result<()> {
        request.confidence = self.confidence;
        request.special_tokens = self.special_tokens;
        request.max_tokens = self.max_tokens;
        request.max_state_tokens = self.max_state_tokens;
        request.validate()
    }
}

fn bad(name: &str, allowed: &str) -> Error {
    Error::invalid(name, format!("allowed: {allowed}"))
}

fn flag(name: &str, value: &Json) -> Result<bool> {
    match value {
        Json::Bool(flag) => Ok(*flag),
        _ => Err(bad(name, "true, false")),
    }
}

fn count(name: &str, value: &Json) -> Result<usize> {
    // The largest whole number that f64 and the 32 bits of an address both hold.
    match value.as_f64() {
        Some(number) if number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number) => {
            Ok(number as usize)
        }
        _ => Err(bad(name, "a whole number from 0 on")),
    }
}
