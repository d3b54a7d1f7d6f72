//! The built-in list of words.

use assay_manifest::Digest;

/// The name of the built-in tokenizer in a workload.
pub const BUILT_IN: &str = "common-words";

/// 1,214 frequent English words of three to eight lower-case letters, one per line, in alphabetical order.
///
/// Each of them is a single token of `r50k_base` (GPT-2), `cl100k_base` and `o200k_base`, both after a space and at the beginning
/// of a text. This was checked by looking the words up in the published rank files (`tests/single_tokens.py`): 1,214 of 1,214 in
/// each. Llama 3 and Qwen extend or adopt `cl100k_base`'s merges. Words that an endpoint's content filter might stop are left
/// out.
pub const COMMON_WORDS: &str = include_str!("common-words.txt");

/// The digest of the list's bytes, which stands for the built-in tokenizer.
pub(crate) fn digest() -> Digest {
    Digest::compute(COMMON_WORDS.as_bytes())
}

/// Returns the end of the `words`-th word of a text, in bytes; that of the text if it has fewer.
pub(crate) fn end_of(text: &str, words: u32) -> usize {
    let Some(last) = (words as usize).checked_sub(1) else { return 0 };
    let found = text.split_whitespace().nth(last);
    // `split_whitespace` returns parts of the text itself.
    found.map_or(text.len(), |word| word.as_ptr().addr() - text.as_ptr().addr() + word.len())
}
