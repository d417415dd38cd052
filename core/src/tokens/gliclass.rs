//! GLiClass prompts: rendering, tokenization, class positions, truncation.
