//! The vectors in `golden.json` are those of tiktoken 0.14.0, by `golden.py`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::*;
use crate::Tokenizer;

#[derive(Deserialize)]
struct Golden {
    vocabularies: BTreeMap<String, String>,
    cases: Vec<GoldenCase>,
}

#[derive(Deserialize)]
struct GoldenCase {
    vocabulary: String,
    pattern: String,
    text: String,
    ids: Vec<u32>,
}

fn golden() -> Golden {
    serde_json::from_str(include_str!("golden.json")).expect("vectors")
}

fn read(vocabulary: &str, pattern: &str) -> Result<RankedBytes, TokenizerError> {
    RankedBytes::read(vocabulary.as_bytes(), pattern)
}

/// All bytes, and these tokens with ranks from 256.
fn vocabulary(tokens: &[&str]) -> String {
    let bytes = (0..=u8::MAX).map(|byte| vec![byte]);
    let tokens = bytes.chain(tokens.iter().map(|token| token.as_bytes().to_vec()));
    let lines: Vec<String> = tokens.enumerate().map(|(rank, token)| format!("{} {rank}\n", STANDARD.encode(token))).collect();
    lines.concat()
}

#[test]
fn texts_have_the_tokens_of_tiktoken() {
    let golden = golden();
    assert_eq!(golden.cases.len(), 93);
    let mut encoders = BTreeMap::new();
    for case in &golden.cases {
        let encoder = encoders
            .entry((&case.vocabulary, &case.pattern))
            .or_insert_with(|| read(&golden.vocabularies[&case.vocabulary], &case.pattern).expect("a vocabulary"));
        let ids = encoder.ids(&case.text).expect("encoded");
        assert_eq!(ids, case.ids, "{} {} {:?}", case.vocabulary, case.pattern, case.text);
    }
}

#[test]
fn the_lowest_rank_is_joined_first_and_the_left_of_equals() {
    let encoder = read(&vocabulary(&["ab", "ba", "aba"]), "r50k_base").expect("a vocabulary");
    let tokens = |text: &str| -> Vec<String> {
        encoder.ids(text).expect("encoded").into_iter().map(|id| encoder.token(id).expect("a text")).collect()
    };
    // `ab` is joined twice, from the left, before any `ba`; then `ab` and `a` are `aba`.
    assert_eq!(tokens("ababa"), ["ab", "aba"]);
    assert_eq!(tokens("baba"), ["b", "aba"]);
    // A whole piece that is a token is not divided.
    assert_eq!(tokens("aba"), ["aba"]);
}

#[test]
fn a_text_ends_where_its_token_ends() {
    let encoder = read(&vocabulary(&["ab", " ab"]), "cl100k_base").expect("a vocabulary");
    // `ab`, ` ab`, `c`, and the two bytes of `é`.
    let text = "ab abc é";
    let ends: Vec<usize> = (0..8).map(|tokens| encoder.end_of(text, tokens).expect("an end")).collect();
    assert_eq!(ends, [0, 2, 5, 6, 7, 8, 9, 9]);
}

#[test]
fn words_of_a_vocabulary_add_up() {
    let words: Vec<&str> = crate::COMMON_WORDS.lines().take(300).collect();
    let spaced: Vec<String> = words.iter().map(|word| format!(" {word}")).collect();
    let tokens: Vec<&str> = words.iter().copied().chain(spaced.iter().map(String::as_str)).collect();
    // `the` is the word before each word that is tried.
    let tokens: Vec<&str> = tokens.into_iter().chain(["th", "he"]).collect();
    let file = closed(&tokens);
    let tokenizer = Tokenizer::from_tiktoken(file.as_bytes(), "o200k_base").expect("a tokenizer");
    assert!(tokenizer.is_additive());
    let prompt = tokenizer.prompt(5, Some(6), 1_000).expect("a prompt");
    assert_eq!((prompt.tokens, tokenizer.count(&prompt.text)), (1_000, Ok(1_000)));
    assert_eq!(tokenizer.truncate("able about above", 2), Ok("able about"));
}

/// A vocabulary with these tokens, and all their beginnings, so that each is reached by joining letter after letter.
fn closed(tokens: &[&str]) -> String {
    let mut all: Vec<&str> = Vec::new();
    for size in 2..=9 {
        for token in tokens {
            let start = token.get(..size).filter(|start| !all.contains(start));
            all.extend(start);
        }
    }
    vocabulary(&all)
}

#[test]
fn the_digest_is_of_vocabulary_and_pattern() {
    let file = vocabulary(&[]);
    let digest = |pattern| Tokenizer::from_tiktoken(file.as_bytes(), pattern).expect("a tokenizer").digest();
    assert_ne!(digest("r50k_base"), digest("cl100k_base"));
    let whole = assay_manifest::Digest::compute(file.as_bytes());
    assert_eq!(digest("o200k_base"), assay_manifest::tiktoken_digest(&whole, "o200k_base"));
}

#[test]
fn each_encoding_has_a_pattern() {
    for encoding in TiktokenEncoding::ALL {
        assert!(read(&vocabulary(&[]), encoding.as_str()).is_ok(), "{encoding}");
    }
    let own = read(&vocabulary(&["ab"]), r"\w|\s+").expect("a pattern of its own");
    assert_eq!(own.ids("ab").map(|ids| ids.len()), Ok(2));
}

#[test]
fn a_vocabulary_that_cannot_be_used_is_refused() {
    let refused = |vocabulary: &str, pattern: &str| read(vocabulary, pattern).map(|_| ()).expect_err("refused").to_string();
    let long = format!("{} 0", STANDARD.encode(vec![b'a'; MAX_TOKEN_BYTES + 1]));
    let endless = format!("{} 0", "A".repeat(1 << 20));
    insta::assert_snapshot!(
        [
            refused("", "o200k_base"),
            refused("QQ==\n", "o200k_base"),
            refused("QQ== 0\n\nQg== x\n", "o200k_base"),
            refused("Q 0\n", "o200k_base"),
            refused(" 0\n", "o200k_base"),
            refused("QQ== 0\nQg== 0\n", "o200k_base"),
            refused("QQ== 0\r\nQQ== 1\r\n", "o200k_base"),
            refused(&long, "o200k_base"),
            refused(&endless, "o200k_base"),
            refused(&vocabulary(&[]), "(a"),
            refused("{\"version\": \"1.0\"}", "o200k_base"),
        ]
        .join("\n"),
        @r"
        the tiktoken vocabulary has no token for the byte 0x00: each byte must be one
        line 1 of the tiktoken vocabulary cannot be used: it has no space: expected a token in Base64 and its rank
        line 3 of the tiktoken vocabulary cannot be used: its rank is not a whole number: expected a token in Base64 and its rank
        line 1 of the tiktoken vocabulary cannot be used: Invalid input length: 1: expected a token in Base64 and its rank
        line 1 of the tiktoken vocabulary cannot be used: its token has 0 bytes, not 1 to 1024: expected a token in Base64 and its rank
        line 2 of the tiktoken vocabulary cannot be used: the rank 0 is there twice: expected a token in Base64 and its rank
        line 2 of the tiktoken vocabulary cannot be used: its token is there twice: expected a token in Base64 and its rank
        line 1 of the tiktoken vocabulary cannot be used: its token has 1025 bytes, not 1 to 1024: expected a token in Base64 and its rank
        line 1 of the tiktoken vocabulary cannot be used: its token has more than 1024 bytes: expected a token in Base64 and its rank
        the pattern of the tiktoken vocabulary cannot be read: Parsing error at position 2: Opening parenthesis without closing parenthesis
        line 1 of the tiktoken vocabulary cannot be used: Invalid symbol 123, offset 0.: expected a token in Base64 and its rank
        "
    );
    let large = vec![b'\n'; MAX_FILE_BYTES + 1];
    let error = RankedBytes::read(&large, "o200k_base").map(|_| ()).expect_err("refused");
    assert_eq!(error, TokenizerError::FileTooLarge(MAX_FILE_BYTES + 1));
}

#[test]
fn a_long_piece_is_encoded_or_refused() {
    let encoder = read(&vocabulary(&["aa", "aaaa"]), "r50k_base").expect("a vocabulary");
    let count = |size: usize| encoder.ids(&"a".repeat(size)).map(|ids| ids.len());
    assert_eq!(count(100_003), Ok(25_002));
    assert_eq!(count(MAX_PIECE_BYTES), Ok(MAX_PIECE_BYTES / 4));
    assert_eq!(count(MAX_PIECE_BYTES + 1), Err(TokenizerError::PieceTooLong(MAX_PIECE_BYTES + 1)));
}
