//! What is asked.

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::{Value, json};

use crate::Result;

/// A request to send.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) body: String,
}

/// Requests of several kinds; which comes next is random, with a seed.
#[derive(Debug)]
pub(crate) struct Mix {
    asks: Vec<Ask>,
}

/// Requests made of each kind, all different.
const EACH: usize = 64;

const WORDS: &[&str] = &[
    "order", "payment", "charged", "twice", "refund", "since", "morning", "the", "lift", "is", "stuck",
    "between", "floors", "please", "send", "somebody", "today", "our", "shop", "closes", "tonight", "and",
    "nobody", "answers", "phone", "invoice", "was", "paid", "last", "week", "but", "account", "still",
    "blocked", "what", "can", "we", "do", "about", "it",
];

impl Mix {
    pub(crate) fn open(name: &str, seed: u64) -> Result<Self> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut asks = Vec::new();
        for _ in 0..EACH {
            let (short, long) = (text(&mut rng, 12), text(&mut rng, 120));
            if matches!(name, "mixed" | "questions") {
                asks.push(ask("question, short state", "/v1/systemone", &question(&short)));
                asks.push(ask("three questions, long state", "/v1/systemone", &questions(&long)));
                asks.push(ask("OpenAI form", "/v1/decisions", &openai(&short)));
            }
            if matches!(name, "mixed" | "labels") {
                asks.push(ask("labels, short text", "/gliclass", &labels(std::slice::from_ref(&short))));
                asks.push(ask(
                    "labels, four texts",
                    "/gliclass",
                    &labels(&[short.clone(), long.clone(), short, long]),
                ));
            }
        }
        if asks.is_empty() {
            for line in std::fs::read_to_string(name)?.lines().filter(|line| !line.trim().is_empty()) {
                let line: Value = serde_json::from_str(line)?;
                let path = line["path"].as_str().ok_or("a line without a path")?;
                asks.push(ask(line["kind"].as_str().unwrap_or(path), path, &line["body"]));
            }
        }
        if asks.is_empty() { Err(format!("{name}: no request found").into()) } else { Ok(Self { asks }) }
    }

    /// One of all.
    pub(crate) fn any(&self, rng: &mut Xoshiro256PlusPlus) -> &Ask {
        &self.asks[rng.random_range(0..self.asks.len())]
    }

    /// All kinds.
    pub(crate) fn kinds(&self) -> Vec<String> {
        let mut kinds: Vec<String> = self.asks.iter().map(|ask| ask.kind.clone()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }

    /// A request of each kind.
    pub(crate) fn one_of_each(&self) -> Vec<Ask> {
        let first = |kind: String| self.asks.iter().find(|ask| ask.kind == kind).cloned();
        self.kinds().into_iter().filter_map(first).collect()
    }
}

fn ask(kind: &str, path: &str, body: &Value) -> Ask {
    Ask { kind: kind.to_owned(), path: path.to_owned(), body: body.to_string() }
}

fn text(rng: &mut Xoshiro256PlusPlus, words: usize) -> String {
    let words: Vec<&str> = (0..words).map(|_| WORDS[rng.random_range(0..WORDS.len())]).collect();
    words.join(" ")
}

fn question(state: &str) -> Value {
    json!({"model": "clef", "state": state,
        "questions": {"urgent": {"type": "noul", "instructions": "Does the writer need help today?"}}})
}

fn questions(state: &str) -> Value {
    json!({"model": "clef", "state": {"ticket": state, "plan": "pro"}, "questions": {
        "urgent": {"type": "noul", "instructions": "Does the writer need help today?"},
        "team": {"type": "choice", "instructions": "Who takes it?",
            "criteria": {"billing": "payments and invoices", "dev": null, "sales": "quotes"}},
        "impact": {"type": "score", "instructions": "How bad is it?",
            "criteria": ["none", "one user", "one team", "everyone"]}}})
}

fn openai(state: &str) -> Value {
    json!({"model": "clef", "input": state, "questions": [
        {"type": "predicate", "name": "refund", "instructions": "The writer asks for money back."},
        {"type": "choice", "name": "tone", "instructions": "How is the tone?",
            "choices": [{"value": "calm"}, {"value": "angry"}]}]})
}

fn labels(texts: &[String]) -> Value {
    json!({"texts": texts, "labels": ["repair", "billing", "sales", "praise", "complaint"], "threshold": 0.0})
}
