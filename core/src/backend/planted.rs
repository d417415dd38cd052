//! Faults planted into a device's own code.

/// A fault put into the source of one kernel or shader, to show that a parity report finds it. Backends that compile such a
/// source at run time take one in their options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planted {
    /// Name of the kernel or shader, as the backend calls it.
    pub kernel: String,
    /// Text of its source; every occurrence is replaced.
    pub from: String,
    /// What stands there instead.
    pub to: String,
}

impl Planted {
    /// The source of `kernel` with the fault, if it is the one that gets it; with a line that no compiler takes where the text
    /// to replace is not there.
    pub fn in_source(planted: Option<&Self>, kernel: &str, source: String) -> String {
        match planted {
            Some(fault) if fault.kernel == kernel && source.contains(&fault.from) => {
                source.replace(&fault.from, &fault.to)
            }
            Some(fault) if fault.kernel == kernel => {
                source + "\nthe text of the planted fault is not there\n"
            }
            _ => source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_kernel_gets_the_fault_and_a_missing_text_does_not_compile() {
        let fault = Planted { kernel: "a".to_owned(), from: "+ b".to_owned(), to: "- b".to_owned() };
        let planted =
            |kernel: &str, source: &str| Planted::in_source(Some(&fault), kernel, source.to_owned());
        assert_eq!(planted("a", "x + b, y + b"), "x - b, y - b");
        assert_eq!(planted("other", "x + b"), "x + b");
        assert!(planted("a", "x").contains("not there"));
        assert_eq!(Planted::in_source(None, "a", "x + b".to_owned()), "x + b");
    }
}
