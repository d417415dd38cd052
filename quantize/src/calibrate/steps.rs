//! Which steps of the recipe are taken.

use std::fmt;

use dikast_core::{Error, Result};

/// The steps of a calibration, each of which may be left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Scales of input channels moved from activations into weights, folded into what computes the activations.
    pub smooth: bool,
    /// Scales that make large weights saturate where that lessens the error of the outputs.
    pub clip: bool,
    /// Weights that aim at the outputs of the unquantized model, not at those of the quantized layers before.
    pub target: bool,
    /// Codes rounded one input after the other, the rest making up for the error so far.
    pub gptq: bool,
    /// Scales fitted to the outputs of the unquantized model.
    pub refit: bool,
    /// A bias that takes away the mean error of the outputs.
    pub bias: bool,
    /// Products that stay as they were: those whose codes cost the logits most.
    pub rescue: usize,
}

/// Names of the steps that are on or off, in their order.
const NAMES: [&str; 6] = ["smooth", "clip", "target", "gptq", "refit", "bias"];
/// More would be no quantization any more.
const MOST_RESCUED: usize = 1024;

/// The steps that lessen errors of the weights and activations themselves. Those that fit the outputs follow the
/// calibration set more closely, and are worth it only when that is large and like what the model will see.
impl Default for Steps {
    fn default() -> Self {
        Self { smooth: true, clip: true, gptq: true, ..Self::NONE }
    }
}

impl Steps {
    /// No step: codes by the largest values of the rows.
    pub const NONE: Self =
        Self { smooth: false, clip: false, target: false, gptq: false, refit: false, bias: false, rescue: 0 };

    /// Every step but the rescue.
    pub const ALL: Self =
        Self { smooth: true, clip: true, target: true, gptq: true, refit: true, bias: true, rescue: 0 };

    /// Steps from their names with commas between, `none`, or `all`; `rescue=N` for the last one.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] naming what is no step.
    pub fn parse(text: &str) -> Result<Self> {
        let mut steps = Self::NONE;
        for name in text.split(',').map(str::trim) {
            if let Some(count) = name.strip_prefix("rescue=") {
                steps.rescue = count.parse().ok().filter(|n| *n <= MOST_RESCUED).ok_or_else(|| {
                    Error::invalid("recipe", format!("rescue={count} found, 0 to {MOST_RESCUED} allowed"))
                })?;
                continue;
            }
            match name {
                "none" => {}
                "all" => steps = Self { rescue: steps.rescue, ..Self::ALL },
                "smooth" => steps.smooth = true,
                "clip" => steps.clip = true,
                "target" => steps.target = true,
                "gptq" => steps.gptq = true,
                "refit" => steps.refit = true,
                "bias" => steps.bias = true,
                other => {
                    let allowed = NAMES.join(", ");
                    let message = format!("{other:?} found, allowed: {allowed}, rescue=N, all, none");
                    return Err(Error::invalid("recipe", message));
                }
            }
        }
        Ok(steps)
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = [self.smooth, self.clip, self.target, self.gptq, self.refit, self.bias];
        let mut names: Vec<String> =
            NAMES.into_iter().zip(on).filter(|(_, on)| *on).map(|(name, _)| name.to_owned()).collect();
        if self.rescue > 0 {
            names.push(format!("rescue={}", self.rescue));
        }
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(",") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() -> Result<()> {
        for text in ["none", "smooth,clip,target,gptq,refit,bias", "gptq,bias", "clip,rescue=3"] {
            assert_eq!(Steps::parse(text)?.to_string(), text);
        }
        assert_eq!(Steps::parse("all, rescue=2")?, Steps { rescue: 2, ..Steps::ALL });
        for bad in ["", "gtpq", "rescue=", "rescue=-1", "rescue=5000", "bias,,clip"] {
            assert!(Steps::parse(bad).is_err(), "{bad}");
        }
        Ok(())
    }
}
