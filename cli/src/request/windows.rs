//! Windows of text that fit the token limit.
//!
//! A window is measured in characters, as the reference measures it, but the limit is in tokens, and how many
//! characters a token has depends on the text. A window that nobody gave starts at a careful guess and is halved until
//! every window of the text fits; one that somebody gave is taken as it is, or refused with one that fits.

use dikast_core::engine::EngineOptions;
use dikast_core::request::{ClassifyRequest, Truncation};
use dikast_core::{Error, Result};
use serde_json::{Map, Value};

use super::{Question, Window};
use crate::classifier::Classifier;

/// Characters of a window for each token of the limit: fewer than common languages have, to leave room for labels.
const CHARS_PER_TOKEN: usize = 3;
/// Most characters that neighbouring windows share unless a flag says otherwise: the reference's number.
const OVERLAP: usize = 256;
/// Windows are not halved below this.
const SMALLEST: usize = 32;

/// The characters of a first window under a token limit.
pub(super) fn first_guess(max_tokens: Option<usize>) -> usize {
    let tokens = max_tokens.unwrap_or(EngineOptions::default().max_tokens);
    tokens.saturating_mul(CHARS_PER_TOKEN).max(SMALLEST)
}

/// The characters that windows of this length share unless a flag says otherwise.
pub(super) fn overlap(chars: usize) -> usize {
    OVERLAP.min(chars / 4)
}

/// Completes the `chunking` of a request's fields; says whether its windows may be made smaller.
pub(super) fn complete(fields: &mut Map<String, Value>) -> Window {
    let max_tokens = fields.get("max_tokens").and_then(Value::as_u64).and_then(|n| usize::try_from(n).ok());
    let Some(Value::Object(chunking)) = fields.get_mut("chunking") else { return Window::Given };
    if chunking.get("text_chars").is_some_and(|chars| !chars.is_null()) {
        return Window::Given;
    }
    let chars = first_guess(max_tokens);
    chunking.insert("text_chars".into(), chars.into());
    let given = chunking.get("overlap_chars").is_some_and(|chars| !chars.is_null());
    if !given {
        chunking.insert("overlap_chars".into(), overlap(chars).into());
    }
    Window::Fitted { overlap_given: given }
}

/// The request with windows that fit.
///
/// # Errors
/// [`Error::TooLarge`] for a given window that does not fit, with one that does; whatever else is wrong with the
/// request is found when it is answered.
pub(crate) fn fit(classifier: &dyn Classifier, question: Question) -> Result<ClassifyRequest> {
    let Question { request, window } = question;
    match window {
        _ if request.chunking.is_none() => Ok(request),
        // A window that is cut would lose text that a smaller one reads.
        Window::Fitted { overlap_given } => {
            Ok(halved(classifier, &request, overlap_given).unwrap_or(request))
        }
        Window::Given => match classifier.check(&request) {
            Err(Error::TooLarge { what, limit, actual }) if is_window(&what) => {
                Err(Error::TooLarge { what: advised(classifier, &request, &what), limit, actual })
            }
            _ => Ok(request),
        },
    }
}

/// Whether it is the tokens of a window that are too many, and not its labels alone.
fn is_window(what: &str) -> bool {
    what.starts_with("input tokens") && !what.contains("besides the text")
}

/// The request with its window halved as often as it takes; `None` if that does not help.
fn halved(
    classifier: &dyn Classifier,
    request: &ClassifyRequest,
    overlap_given: bool,
) -> Option<ClassifyRequest> {
    let mut strict = ClassifyRequest { truncation: Truncation::Refuse, ..request.clone() };
    loop {
        match classifier.check(&strict) {
            Ok(()) => return Some(ClassifyRequest { truncation: request.truncation, ..strict }),
            Err(Error::TooLarge { what, .. }) if is_window(&what) => {}
            Err(_) => return None,
        }
        let chunking = strict.chunking.as_mut()?;
        chunking.text_chars /= 2;
        if !overlap_given {
            chunking.overlap_chars = overlap(chunking.text_chars);
        }
        if chunking.text_chars < SMALLEST || chunking.overlap_chars >= chunking.text_chars {
            return None;
        }
    }
}

/// What is too large, with the flag behind it and a value that fits.
fn advised(classifier: &dyn Classifier, request: &ClassifyRequest, what: &str) -> String {
    let Some(chunking) = request.chunking else { return what.to_owned() };
    let mut shorter = request.clone();
    shorter.chunking = Some(dikast_core::request::Chunking {
        // The overlap of a shorter window is advised with it.
        overlap_chars: overlap(chunking.text_chars),
        ..chunking
    });
    let given = chunking.text_chars;
    let Some(fitting) = halved(classifier, &shorter, false).and_then(|r| r.chunking) else {
        return format!(
            "{what} (--chunk-chars {given}; no window fits beside these labels, prompt and examples)"
        );
    };
    let chars = fitting.text_chars;
    let overlap = if chunking.overlap_chars < chars {
        String::new()
    } else {
        format!(" --chunk-overlap {}", fitting.overlap_chars)
    };
    format!(
        "{what} (--chunk-chars {given} is too long for this text: --chunk-chars {chars}{overlap} fits, and without \
             --chunk-chars dikast finds a length that does)"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::classifier::fake::FakeClassifier;
    use crate::request::Template;

    fn question(chunking: &Value, text: &str) -> Question {
        let fields = json!({"labels": ["a", "b"], "max_tokens": 100, "chunking": chunking});
        Template::for_tests(&fields).question(text.to_owned()).unwrap()
    }

    /// The fake counts one token a character, without labels.
    #[test]
    fn windows_are_halved_until_they_fit() {
        let text = "x".repeat(1000);
        let fitted = fit(&FakeClassifier::default(), question(&json!({}), &text)).unwrap().chunking.unwrap();
        assert_eq!((fitted.text_chars, fitted.overlap_chars), (75, 18));
        let short = fit(&FakeClassifier::default(), question(&json!({}), "x")).unwrap().chunking.unwrap();
        assert_eq!(short.text_chars, 300);
        let overlap = question(&json!({"overlap_chars": 70}), &text);
        let fitted = fit(&FakeClassifier::default(), overlap).unwrap().chunking.unwrap();
        assert_eq!((fitted.text_chars, fitted.overlap_chars), (75, 70));
    }

    #[test]
    fn a_given_window_is_refused_with_one_that_fits() {
        let text = "x".repeat(1000);
        let given = question(&json!({"text_chars": 400, "overlap_chars": 200}), &text);
        let message = fit(&FakeClassifier::default(), given).unwrap_err().to_string();
        assert!(message.contains("--chunk-chars 400 is too long"), "{message}");
        assert!(message.contains("--chunk-chars 100 --chunk-overlap 25 fits"), "{message}");
        let fitting = question(&json!({"text_chars": 100, "overlap_chars": 25}), &text);
        assert_eq!(fit(&FakeClassifier::default(), fitting.clone()).unwrap(), fitting.request);
    }
}
