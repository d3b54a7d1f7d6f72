//! The cost of prompts: `cargo run --release -p assay-tokens --example prompts_cost [tokenizer.json]`.
//!
//! Prints the vocabulary, the time to read a file and, for prompts of several lengths, nanoseconds per word and gigabytes per
//! minute, best of five.

#![expect(clippy::print_stdout, reason = "an example that reports figures")]

use std::hint::black_box;
use std::time::Instant;

use assay_tokens::{Tokenizer, TokenizerError};

const WORDS: u32 = 4_000_000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let tokenizer = match std::env::args_os().nth(1) {
        Some(path) => Tokenizer::from_file(&std::fs::read(path)?)?,
        None => Tokenizer::built_in(),
    };
    let (words, additive) = (tokenizer.vocabulary().len(), tokenizer.is_additive());
    println!("{words} words, additive: {additive}, read in {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    for tokens in [16, 512, 8_192, 128_000] {
        let prompts = if additive { WORDS / tokens } else { (WORDS / 100 / tokens).max(1) };
        let passes = (0..5).map(|_| pass(&tokenizer, tokens, prompts)).collect::<Result<Vec<_>, _>>()?;
        let (seconds, bytes) =
            passes.into_iter().fold((f64::INFINITY, 0), |best, pass| if pass.0 < best.0 { pass } else { best });
        let (per_word, rate) = (seconds * 1e9 / f64::from(prompts * tokens), bytes as f64 * 60e-9 / seconds);
        println!("{tokens:>7} tokens: {per_word:>7.1} ns per word, {rate:>7.1} GB per minute");
    }
    Ok(())
}

/// Returns seconds and bytes.
fn pass(tokenizer: &Tokenizer, tokens: u32, prompts: u32) -> Result<(f64, usize), TokenizerError> {
    let start = Instant::now();
    let mut bytes = 0;
    for seed in 0..u64::from(prompts) {
        bytes += black_box(tokenizer.prompt(seed, Some(1), tokens)?).text.len();
    }
    Ok((start.elapsed().as_secs_f64(), bytes))
}
