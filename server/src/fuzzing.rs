//! Entry points for fuzzers: bytes → a request, as the routes read them. Whatever the bytes are, nothing may panic, and what
//! is accepted keeps the limits.

use axum::body::Bytes;
use dikast_core::request::{Confidence, Json};

use crate::wire::failure::Failure;
use crate::wire::{contract, decisions, gliclass, parts, systemone, tei, tokenize, vllm, zero_shot};

/// A body of System One; whether it is a request.
pub fn systemone(bytes: &[u8]) -> bool {
    let read = || {
        let body = Json::parse(bytes)?;
        contract::only_systemone(&body)?;
        systemone::request(body, Confidence::default())
    };
    accepted(read().map(|request| request.questions.len()))
}

/// A body of Decisions; whether it is a request.
pub fn decisions(bytes: &[u8]) -> bool {
    let read = || decisions::request(Json::parse(bytes)?, Confidence::default());
    accepted(read().map(|asked| asked.request.questions.len()))
}

/// A body of any of the other routes; whether one of them takes it.
pub fn others(bytes: &[u8]) -> bool {
    let Ok(body) = Json::parse(bytes) else { return false };
    let own = ["weather".to_owned(), "money".to_owned()];
    let calls =
        [gliclass::call(&body), zero_shot::call(&body), tei::call(&body, &own), vllm::call(&body, &own)];
    let mut any = tokenize::asked(body.clone()).is_ok();
    for call in calls {
        any |= accepted(call.map(|call| call.requests.len()));
    }
    let part = parts::Part { name: "asset-0".to_owned(), bytes: Bytes::from_static(b"A") };
    any | parts::attach(&mut body.clone(), vec![part]).is_ok()
}

fn accepted(read: Result<usize, Failure>) -> bool {
    match read {
        Ok(count) => {
            assert!((1..=1024).contains(&count), "{count} questions or texts");
            true
        }
        Err(failure) => {
            assert!(!failure.message.is_empty() && failure.retry_after.is_none());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SYSTEMONE: &str = r#"{"model":"clef","state":["a",{"b":1.0,"type":"image_url","image_url":{"url":"data:image/png;base64,QQ=="}}],"questions":{"q":{"type":"choice","instructions":["x"],"criteria":{"a":null,"b":{"c":[true]}}},"r":{"type":"score","criteria":["l",{"m":2}]},"s":{"type":"noul","criteria":{"true":"t"}}},"assets":{"a":{"type":"image","format":"png","data_base64":"QQ=="}},"x_truncate":"end"}"#;
    const DECISIONS: &str = r#"{"model":"clef","input":[{"role":"user","content":[{"type":"input_text","text":"a"},{"type":"input_json","data":{"b":[1e5]}},{"type":"input_image","image_url":"data:image/png;base64,QQ=="}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"o"}],"questions":[{"type":"predicate","name":"p","instructions":"i"},{"type":"choice","choices":[{"value":true},{"value":"true","description":"d"}]},{"type":"score","levels":[{"label":"a"},{"label":"b"}]}]}"#;

    /// A valid body with some bytes replaced, removed or repeated.
    fn broken(body: &'static str) -> impl Strategy<Value = Vec<u8>> {
        let edits = prop::collection::vec((0..body.len(), 0..12_usize, any::<u8>(), 0..3_u8), 0..6);
        edits.prop_map(move |edits| {
            let mut bytes = body.as_bytes().to_vec();
            for (at, length, byte, what) in edits {
                let at = at.min(bytes.len().saturating_sub(1));
                let end = (at + length).min(bytes.len());
                match what {
                    0 => drop(bytes.splice(at..end, [byte])),
                    1 => drop(bytes.drain(at..end)),
                    _ => {
                        let again = bytes[at..end].to_vec();
                        drop(bytes.splice(at..at, again));
                    }
                }
            }
            bytes
        })
    }

    #[test]
    fn whole_bodies_are_taken() {
        assert!(systemone(SYSTEMONE.as_bytes()) && !decisions(SYSTEMONE.as_bytes()));
        assert!(decisions(DECISIONS.as_bytes()) && !systemone(DECISIONS.as_bytes()));
    }

    proptest! {
        #[test]
        fn broken_bodies_harm_nobody(one in broken(SYSTEMONE), two in broken(DECISIONS)) {
            for bytes in [&one, &two] {
                systemone(bytes);
                decisions(bytes);
                others(bytes);
            }
        }

        #[test]
        fn bytes_that_mean_nothing_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assume!(!bytes.starts_with(b"{"));
            prop_assert!(!systemone(&bytes) && !decisions(&bytes));
        }
    }
}
