use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::LazyLock;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::models::{ModelWrapper, TrainerWrapper};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

/// The first `count` common words, ten per line, each line starting further on: so every word occurs at the start of a line and
/// after a space.
fn corpus(count: usize) -> Vec<String> {
    let words: Vec<&str> = COMMON_WORDS.lines().take(count).collect();
    let line = |first: usize| (0..10).map(|place| words[(first + place * 7) % count]).collect::<Vec<_>>().join(" ");
    (0..count).map(line).collect()
}

/// A BPE, trained until each word of the corpus was one token, or the vocabulary was full.
fn train(mut tokenizer: tokenizers::Tokenizer, tokens: usize, lines: Vec<String>) -> Vec<u8> {
    let trainer = BpeTrainer::builder()
        .show_progress(false)
        .vocab_size(tokens)
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build();
    tokenizer.train(&mut TrainerWrapper::from(trainer), lines.into_iter()).expect("training");
    tokenizer.to_string(false).expect("a file").into_bytes()
}

fn plain_bpe() -> tokenizers::Tokenizer {
    tokenizers::Tokenizer::new(ModelWrapper::from(BPE::default()))
}

/// Like GPT-2's: byte-level, split by its pattern, a space belongs to the following word.
static BYTE_LEVEL: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut tokenizer = plain_bpe();
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    train(tokenizer, 4_000, corpus(300))
});

/// Without a split of the text, so merges span spaces, as in superword vocabularies.
static SUPERWORD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut tokenizer = plain_bpe();
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, false)));
    train(tokenizer, 1_500, corpus(300))
});

/// Bytes only: no word is one token.
pub(crate) static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut tokenizer = plain_bpe();
    tokenizer.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
    train(tokenizer, 256, corpus(10))
});

/// A file with only a model.
fn file(model: &Value, normalizer: &Value, pre_tokenizer: &Value) -> Vec<u8> {
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer, "post_processor": null, "decoder": null, "model": model,
    });
    file.to_string().into_bytes()
}

pub(crate) fn word_level(words: usize) -> Vec<u8> {
    let known = ["[UNK]"].into_iter().chain(COMMON_WORDS.lines().take(words));
    let vocab: serde_json::Map<String, Value> = known.enumerate().map(|(id, word)| (word.to_owned(), json!(id))).collect();
    file(&json!({"type": "WordLevel", "vocab": vocab, "unk_token": "[UNK]"}), &Value::Null, &json!({"type": "Whitespace"}))
}

/// A word-level file with special tokens, which are recognised within texts.
pub(crate) fn special_words(words: usize, special: &[&str]) -> Vec<u8> {
    let mut file: Value = serde_json::from_slice(&word_level(words)).expect("JSON");
    let added = special.iter().enumerate().map(|(place, content)| {
        json!({
            "id": 10_000 + place, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true,
        })
    });
    file["added_tokens"] = added.collect();
    file.to_string().into_bytes()
}

/// Like BERT's.
fn word_piece(words: usize) -> Vec<u8> {
    let known = ["[UNK]"].into_iter().chain(COMMON_WORDS.lines().take(words));
    let vocab: serde_json::Map<String, Value> = known.enumerate().map(|(id, word)| (word.to_owned(), json!(id))).collect();
    let model = json!({
        "type": "WordPiece", "vocab": vocab, "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
    });
    let normalizer = json!({
        "type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null, "lowercase": true,
    });
    file(&model, &normalizer, &json!({"type": "BertPreTokenizer"}))
}

/// Like T5's: SentencePiece, with a marker for each space and one at the start.
fn unigram(words: usize) -> Vec<u8> {
    let pieces = COMMON_WORDS
        .lines()
        .take(words)
        .enumerate()
        .map(|(rank, word)| json!([format!("\u{2581}{word}"), -1.0 - rank as f64 / 100.0]));
    let letters = ('a'..='z').map(|letter| json!([letter.to_string(), -20.0]));
    let vocab: Vec<Value> =
        [json!(["<unk>", 0.0]), json!(["\u{2581}", -15.0])].into_iter().chain(pieces).chain(letters).collect();
    let metaspace = json!({"type": "Metaspace", "replacement": "\u{2581}", "prepend_scheme": "always", "split": true});
    file(&json!({"type": "Unigram", "unk_id": 0, "vocab": vocab, "byte_fallback": false}), &Value::Null, &metaspace)
}

fn read(file: &[u8]) -> Tokenizer {
    Tokenizer::from_file(file).expect("a tokenizer")
}

static ADDITIVE: LazyLock<[Tokenizer; 5]> = LazyLock::new(|| {
    [Tokenizer::built_in(), read(&BYTE_LEVEL), read(&word_level(200)), read(&word_piece(200)), read(&unigram(200))]
});

#[test]
fn the_list_is_plain() {
    let words: Vec<&str> = COMMON_WORDS.lines().collect();
    assert_eq!(words.len(), 1_214);
    assert!(words.is_sorted_by(|one, next| one < next));
    assert!(words.iter().all(|word| (3..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase())));
    assert!(COMMON_WORDS.ends_with('\n') && COMMON_WORDS.lines().all(|line| !line.is_empty()));
}

#[test]
fn the_built_in_tokenizer_is_stable() {
    let tokenizer = Tokenizer::built_in();
    // The SHA-256 of the file, and prompts that a short Python script made from the description of the format.
    assert_eq!(tokenizer.digest().hex(), GOLDEN_LIST_DIGEST);
    let text = |seed, salt, tokens| tokenizer.prompt(seed, salt, tokens).expect("a prompt").text;
    assert_eq!(text(1_234_567, None, 7), GOLDEN_PLAIN);
    assert_eq!(text(1_234_567, Some(42), 12), GOLDEN_SALTED);
    assert_eq!(text(1_234_567, Some(42), 5), GOLDEN_SHORT);
}

const GOLDEN_LIST_DIGEST: &str = "50e3afae10aae926b1bab306fecf5b260aba8e3c14c831c207487824256d5401";
const GOLDEN_PLAIN: &str = "won hall growth cost print nature type";
const GOLDEN_SALTED: &str = "custom sector require concert print nature type estate apple today peak language";
const GOLDEN_SHORT: &str = "custom sector growth cost print";

#[test]
fn words_are_the_built_in_tokens() {
    let count = |text| Tokenizer::built_in().count(text);
    assert_eq!([count(""), count("  one,\ttwo \n three "), count("\u{3000}")], [Ok(0), Ok(3), Ok(0)]);
}

#[test]
fn a_salt_replaces_the_first_words_and_no_others() {
    let tokenizer = Tokenizer::built_in();
    let words = |salt, tokens| -> Vec<String> {
        let prompt = tokenizer.prompt(7, salt, tokens).expect("a prompt");
        prompt.text.split(' ').map(str::to_owned).collect()
    };
    let (plain, one, other) = (words(None, 50), words(Some(1), 50), words(Some(2), 50));
    assert_eq!((&one[4..], &other[4..]), (&plain[4..], &plain[4..]));
    assert!(one[..4] != plain[..4] && one[..4] != other[..4]);
    // Another prompt of the same trial has the same beginning and another continuation.
    let neighbour = tokenizer.prompt(8, Some(1), 50).expect("a prompt").text;
    assert!(neighbour.starts_with(&one[..4].join(" ")) && neighbour != one.join(" "));
    // Half of a short prompt is salt, and none of a single word.
    assert_eq!(words(Some(1), 5)[2..], words(None, 5)[2..]);
    assert_eq!(words(Some(1), 1), words(None, 1));
}

#[test]
fn files_of_every_model_are_additive() {
    let expected = [300, 200, 200, 200];
    for (tokenizer, words) in ADDITIVE[1..].iter().zip(expected) {
        assert!(tokenizer.is_additive());
        let common = tokenizer.vocabulary().iter().filter(|word| COMMON_WORDS.lines().any(|common| common == *word)).count();
        assert_eq!(common, words);
    }
}

#[test]
fn unknown_words_are_no_vocabulary() {
    // Every word is one token of this tokenizer: the token of unknown words.
    let tokenizer = read(&word_level(100));
    assert_eq!(tokenizer.count("zebra crossing"), Ok(2));
    assert_eq!(tokenizer.vocabulary().len(), 100);
}

#[test]
fn a_file_s_own_words_are_taken_after_the_common_ones() {
    let mut file: Value = serde_json::from_slice(&word_level(100)).expect("JSON");
    for (id, word) in [(500, "zyx"), (400, "zebra"), (600, "Capital"), (601, "longerthaneight"), (602, "no")] {
        file["model"]["vocab"][word] = json!(id);
    }
    let tokenizer = read(file.to_string().as_bytes());
    assert_eq!(tokenizer.vocabulary()[100..], ["zebra", "zyx"]);
}

#[test]
fn tokens_across_words_are_corrected_for() {
    let tokenizer = read(&SUPERWORD);
    assert!(!tokenizer.is_additive());
    for (seed, tokens) in [(1, 1), (2, 2), (3, 10), (4, 100), (5, 1_000)] {
        let prompt = tokenizer.prompt(seed, Some(9), tokens).expect("a prompt");
        assert_eq!(tokenizer.count(&prompt.text), Ok(u64::from(prompt.tokens)));
        assert_eq!(prompt.tokens, tokens, "{}", prompt.text);
    }
}

#[test]
fn equal_pieces_are_equal_words_wherever_they_stand() {
    let tokenizers = std::iter::once(Tokenizer::built_in()).chain(ADDITIVE[1..].iter().cloned());
    for tokenizer in tokenizers {
        let text = |pieces: &[(u64, u32)]| {
            let prompt = tokenizer.pieces(pieces).expect("a prompt");
            assert_eq!(tokenizer.count(&prompt.text), Ok(u64::from(prompt.tokens)));
            assert_eq!(prompt.tokens, pieces.iter().map(|(_, tokens)| tokens).sum::<u32>());
            prompt.text
        };
        let (one, two) = (text(&[(1, 16)]), text(&[(2, 16)]));
        assert_eq!(one, tokenizer.prompt(1, None, 16).expect("a prompt").text);
        assert_eq!(text(&[(1, 16), (2, 16), (3, 0)]), format!("{one} {two}"));
        assert_eq!(text(&[(2, 16), (1, 16)]), format!("{two} {one}"));
        assert!(one.starts_with(&text(&[(1, 5)])), "a shorter piece is the beginning of a longer one");
    }
}

/// Words of several tokens each: what prompts have in common is as long as requested, and the last piece makes up for the joins.
#[test]
fn pieces_of_words_that_are_several_tokens_have_their_sum() {
    for tokenizer in [read(&BYTES), read(&SUPERWORD)] {
        let text = |pieces: &[(u64, u32)], at_most: u32| {
            let prompt = tokenizer.pieces(pieces).expect("a prompt");
            assert_eq!(tokenizer.count(&prompt.text), Ok(u64::from(prompt.tokens)));
            let sum: u32 = pieces.iter().map(|(_, tokens)| tokens).sum();
            assert!(prompt.tokens.abs_diff(sum) <= at_most, "{} for {sum}", prompt.tokens);
            prompt.text
        };
        let common = text(&[(1, 1_400), (2, 64), (9, 0)], 4);
        for own in [3, 4] {
            assert!(text(&[(1, 1_400), (2, 64), (own, 200)], 1).starts_with(&common));
        }
        let [first, second] = [1, 2].map(|seed| text(&[(seed, 64), (9, 0)], 4));
        assert_eq!(text(&[(2, 64), (1, 64), (9, 0)], 4), format!("{second} {first}"), "wherever they stand");
    }
}

#[test]
fn what_cannot_be_met_is_reported() {
    let tokenizer = read(&BYTES);
    assert!(!tokenizer.is_additive() && tokenizer.vocabulary().len() == 1_214);
    // A byte is a token: words have three to eight, plus one for the space. One token is below the shortest word.
    let shortest = tokenizer.prompt(1, None, 1).expect("a prompt");
    assert!((3..=8).contains(&shortest.tokens) && shortest.tokens as usize == shortest.text.len(), "{shortest:?}");
    for tokens in [100, 1_000] {
        let prompt = tokenizer.prompt(1, None, tokens).expect("a prompt");
        // At most the length of the shortest word may be missing, and the prompt reports its actual number of tokens.
        assert!(prompt.tokens.abs_diff(tokens) < 4 && prompt.text.len() == prompt.tokens as usize, "{prompt:?}");
    }
}

#[test]
fn no_tokens_are_no_text() {
    for tokenizer in [Tokenizer::built_in(), read(&BYTES)] {
        assert_eq!(tokenizer.prompt(1, Some(1), 0), Ok(Prompt { text: String::new(), tokens: 0 }));
    }
    assert_eq!(Tokenizer::built_in().prompt(1, None, u32::MAX), Err(TokenizerError::TooManyTokens(u32::MAX)));
}

#[test]
fn what_an_endpoint_adds_is_not_counted() {
    let mut file: Value = serde_json::from_slice(&word_level(100)).expect("JSON");
    file["post_processor"] = json!({
        "type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "[UNK]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"[UNK]": {"id": "[UNK]", "ids": [0], "tokens": ["[UNK]"]}},
    });
    file["padding"] = json!({
        "strategy": {"Fixed": 1_000_000_000_000_u64}, "direction": "Right", "pad_to_multiple_of": null, "pad_id": 0, "pad_type_id": 0,
        "pad_token": "[UNK]",
    });
    file["truncation"] = json!({"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0});
    assert_eq!(read(file.to_string().as_bytes()).count("able about above accept access"), Ok(5));
}

#[test]
fn files_that_mean_no_good_are_refused() {
    let with = |path: &str, value: Value| {
        let mut file: Value = serde_json::from_slice(&BYTE_LEVEL).expect("JSON");
        *file.pointer_mut(path).expect("a member") = value;
        Tokenizer::from_file(file.to_string().as_bytes()).err()
    };
    assert_eq!(with("/model/dropout", json!(0.1)), Some(TokenizerError::Dropout("0.1".to_owned())));
    assert_eq!(with("/model/dropout", json!(0.0)), None);
    let grow = json!({"type": "Replace", "pattern": {"String": "e"}, "content": "eeeeeeeeee"});
    assert_eq!(with("/normalizer", json!({"type": "Sequence", "normalizers": vec![grow; 12]})), Some(TokenizerError::Growth));
    let usual = json!({"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u{2581}"},
        {"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"},
    ]});
    assert_ne!(with("/normalizer", usual), Some(TokenizerError::Growth));
    assert!(matches!(with("/model/vocab", json!("none")), Some(TokenizerError::Malformed(_))));
    assert!(matches!(Tokenizer::from_file(b"{}").err(), Some(TokenizerError::Malformed(_))));
    let large = vec![b' '; MAX_FILE_BYTES + 1];
    assert_eq!(Tokenizer::from_file(&large).err(), Some(TokenizerError::FileTooLarge(MAX_FILE_BYTES + 1)));
}

/// Files with one member replaced by another value.
fn damaged_files() -> impl Strategy<Value = Vec<u8>> {
    let places = prop::sample::select(vec![
        "/model",
        "/model/type",
        "/model/vocab",
        "/model/merges",
        "/model/unk_token",
        "/model/unk_id",
        "/model/vocab/0",
        "/normalizer",
        "/pre_tokenizer",
        "/pre_tokenizer/type",
        "/added_tokens",
        "/decoder",
        "/model/continuing_subword_prefix",
    ]);
    let values = prop::sample::select(vec![
        json!(null),
        json!(0),
        json!(-1),
        json!(u64::MAX),
        json!(""),
        json!("x"),
        json!([]),
        json!({}),
        json!([[]]),
        json!([["a", "b"]]),
        json!([["", 0.0]]),
        json!({"": 0}),
        json!({"a": 4_000_000_000_u32}),
        json!({"type": "NFC"}),
        json!({"type": "Digits"}),
        json!({"type": "FixedLength", "length": 0}),
        json!({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": false}),
        json!({"type": "Split", "pattern": {"Regex": ""}, "behavior": "Isolated", "invert": true}),
        json!([{"id": 0, "content": "", "single_word": true, "lstrip": true, "rstrip": true, "normalized": true, "special": false}]),
    ]);
    let files = prop::sample::select(vec![word_level(5), word_piece(5), unigram(5), BYTES.clone()]);
    (files, places, values).prop_map(|(file, place, value)| {
        let mut file: Value = serde_json::from_slice(&file).expect("JSON");
        if let Some(member) = file.pointer_mut(place) {
            *member = value;
        }
        file.to_string().into_bytes()
    })
}

proptest! {
    #[test]
    fn prompts_have_exactly_the_asked_tokens(
        which in 0..5_usize, seed in any::<u64>(), salt in prop::option::of(any::<u64>()), tokens in 1..=4_096_u32,
    ) {
        let tokenizer = &ADDITIVE[which];
        let prompt = tokenizer.prompt(seed, salt, tokens).expect("a prompt");
        prop_assert_eq!(prompt.tokens, tokens);
        prop_assert_eq!(tokenizer.count(&prompt.text), Ok(u64::from(tokens)));
    }

    #[test]
    fn a_prompt_begins_like_a_shorter_one(seed in any::<u64>(), tokens in 8..200_u32) {
        let prompt = |tokens| Tokenizer::built_in().prompt(seed, Some(3), tokens).expect("a prompt").text;
        prop_assert!(prompt(tokens + 1).starts_with(&prompt(tokens)));
    }

    #[test]
    fn any_text_is_counted(text in any::<String>()) {
        for tokenizer in ADDITIVE.iter() {
            prop_assert!(tokenizer.count(&text).is_ok());
        }
    }

    #[test]
    fn damaged_files_never_panic(file in damaged_files()) {
        // A file that parses also counts, or returns an error.
        let _ = Tokenizer::from_file(&file).map(|tokenizer| (tokenizer.count("able about"), tokenizer.prompt(1, None, 20)));
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), cut in 0..4_000_usize) {
        prop_assert!(Tokenizer::from_file(&bytes).is_err());
        let file = word_level(50);
        prop_assert!(Tokenizer::from_file(&file[..cut.min(file.len() - 1)]).is_err());
    }
}

#[test]
fn natural_text_has_exact_tokens_and_a_salt_of_words() {
    let natural = Tokenizer::built_in().with_text(SyntheticText::Natural);
    let prompt = |seed, salt, tokens| natural.prompt(seed, salt, tokens).expect("a prompt");
    for tokens in [0, 1, 2, 7, 8, 9, 500] {
        let made = prompt(3, Some(9), tokens);
        assert_eq!((made.tokens, natural.count(&made.text)), (tokens, Ok(u64::from(tokens))));
    }
    let (first, second) = (prompt(1, Some(9), 40), prompt(2, Some(9), 40));
    let words = |prompt: &Prompt| prompt.text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&first)[..4], words(&second)[..4]);
    assert_ne!(words(&first)[4..], words(&second)[4..]);
    assert_ne!(words(&first)[..4], words(&prompt(1, Some(8), 40))[..4]);
    assert_eq!(words(&first)[4..], words(&prompt(1, None, 36))[..], "the salt stands in front of the text of the seed");
    let pieces = natural.pieces(&[(7, 5), (8, 0), (1, 36)]).expect("a prompt");
    assert_eq!(pieces.text, format!("{} {}", prompt(7, None, 5).text, prompt(1, None, 36).text));
    assert_eq!(
        Tokenizer::built_in().with_text(SyntheticText::Words).prompt(1, None, 9),
        Tokenizer::built_in().prompt(1, None, 9)
    );
}
