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
    /// The smoothing of each product by the answers to the selection set, not by the product's own error.
    pub search: bool,
    /// Products that stay as they were: those whose codes cost the answers to the selection set most.
    pub rescue: Rescue,
}

/// How many products stay as they were.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Rescue {
    /// None.
    #[default]
    None,
    /// So many.
    Products(usize),
    /// As many as hold no more than so many percent of the numbers that would be codes.
    Percent(u8),
}

/// Names of the steps that are on or off, in their order.
const NAMES: [&str; 7] = ["smooth", "search", "clip", "target", "gptq", "refit", "bias"];
/// More would be no quantization any more.
const MOST_RESCUED: usize = 1024;
const MOST_PERCENT: u8 = 50;

/// The steps that lessen errors of weights and activations themselves, and the rescue: half of the error is that of the
/// activations' own codes, which no choice of weights takes away. Steps that fit the outputs follow the calibration set more
/// closely, and are worth it only when that is large and like what the model will see.
impl Default for Steps {
    fn default() -> Self {
        Self { smooth: true, gptq: true, rescue: Rescue::Percent(30), ..Self::NONE }
    }
}

impl Steps {
    /// No step: codes by the largest values of the rows.
    pub const NONE: Self = Self {
        smooth: false,
        clip: false,
        target: false,
        gptq: false,
        refit: false,
        bias: false,
        search: false,
        rescue: Rescue::None,
    };

    /// Every step that needs no selection set.
    pub const ALL: Self =
        Self { smooth: true, clip: true, target: true, gptq: true, refit: true, bias: true, ..Self::NONE };

    /// Whether a selection set decides anything.
    pub fn choose(self) -> bool {
        self.search || self.rescue != Rescue::None
    }

    /// Steps from their names with commas between, `none`, or `all`; `rescue=N` or `rescue=P%` for the last one.
    ///
    /// # Errors
    /// [`Error::InvalidRequest`] naming what is no step.
    pub fn parse(text: &str) -> Result<Self> {
        let mut steps = Self::NONE;
        for name in text.split(',').map(str::trim) {
            if let Some(count) = name.strip_prefix("rescue=") {
                steps.rescue = Rescue::parse(count)?;
                continue;
            }
            match name {
                "none" => {}
                "all" => steps = Self { search: steps.search, rescue: steps.rescue, ..Self::ALL },
                "smooth" => steps.smooth = true,
                "search" => steps.search = true,
                "clip" => steps.clip = true,
                "target" => steps.target = true,
                "gptq" => steps.gptq = true,
                "refit" => steps.refit = true,
                "bias" => steps.bias = true,
                other => {
                    let allowed = NAMES.join(", ");
                    let message =
                        format!("{other:?} found, allowed: {allowed}, rescue=N, rescue=P%, all, none");
                    return Err(Error::invalid("recipe", message));
                }
            }
        }
        if steps.search && !steps.smooth {
            return Err(Error::invalid("recipe", "search found without smooth, which is what it searches"));
        }
        Ok(steps)
    }
}

impl Rescue {
    fn parse(text: &str) -> Result<Self> {
        let parsed = match text.strip_suffix('%') {
            Some(percent) => percent.parse().ok().filter(|p| *p <= MOST_PERCENT).map(Self::Percent),
            None => text.parse().ok().filter(|n| *n <= MOST_RESCUED).map(Self::Products),
        };
        match parsed {
            Some(Self::Products(0) | Self::Percent(0)) => Ok(Self::None),
            Some(rescue) => Ok(rescue),
            None => {
                let message = format!(
                    "rescue={text} found, allowed: 0 to {MOST_RESCUED} products, or 0% to {MOST_PERCENT}% of the numbers"
                );
                Err(Error::invalid("recipe", message))
            }
        }
    }
}

impl fmt::Display for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = [self.smooth, self.search, self.clip, self.target, self.gptq, self.refit, self.bias];
        let mut names: Vec<String> =
            NAMES.into_iter().zip(on).filter(|(_, on)| *on).map(|(name, _)| name.to_owned()).collect();
        match self.rescue {
            Rescue::None => {}
            Rescue::Products(n) => names.push(format!("rescue={n}")),
            Rescue::Percent(p) => names.push(format!("rescue={p}%")),
        }
        f.write_str(&if names.is_empty() { "none".to_owned() } else { names.join(",") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written() -> Result<()> {
        for text in [
            "none",
            "smooth,clip,target,gptq,refit,bias",
            "gptq,bias",
            "clip,rescue=3",
            "smooth,search,rescue=10%",
        ] {
            assert_eq!(Steps::parse(text)?.to_string(), text);
        }
        assert_eq!(Steps::parse("all, rescue=2")?, Steps { rescue: Rescue::Products(2), ..Steps::ALL });
        assert_eq!(Steps::parse(&Steps::default().to_string())?, Steps::default());
        assert_eq!(Steps::parse("rescue=0%")?, Steps::NONE);
        let bad =
            ["rescue=", "rescue=-1", "rescue=5000", "rescue=%", "rescue=51%", "rescue=300%", "rescue=1.5%"];
        for bad in bad.into_iter().chain(["", "gtpq", "bias,,clip", "search", "search,gptq"]) {
            assert!(Steps::parse(bad).is_err(), "{bad}");
        }
        Ok(())
    }
}
