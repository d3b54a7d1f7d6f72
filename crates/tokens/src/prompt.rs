//! Prompts of an exact length.
//!
//! Each word depends only on the seed and its position. The format is stable: output `n` (from 1) of SplitMix64 under the seed
//! gives the draws `2 n - 2` (its low half) and `2 n - 1` (its high half); a draw `h` takes word `h x count / 2^32` of those that
//! are allowed at its position. The probabilities of words differ by less than one in a hundred thousand. The first word is
//! always an opener, a word that is one token without a space before it.

use assay_manifest::SyntheticText;

use crate::TokenizerError;
use crate::draw::{Draws, scale_draw, split_mix};
use crate::natural::Chain;
use crate::words::COMMON_WORDS;

/// The largest number of tokens of a prompt: ten times the longest context that is served at present.
pub const MAX_PROMPT_TOKENS: u32 = 16_000_000;

/// The size of a word with its space, for reserving memory; more is reserved if words are longer.
pub(crate) const BYTES_PER_WORD: usize = 7;

/// The number of times that the number of words is corrected.
const SCALINGS: u32 = 8;

/// The number of other endings that are tried after that.
const VARIATIONS: u32 = 48;

/// A text with a known number of tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The text.
    pub text: String,
    /// Its number of tokens.
    pub tokens: u32,
}

/// The words that prompts are made of.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    words: Vec<String>,
    /// The indices of the words that may be at the start.
    openers: Vec<usize>,
    /// The token of each word after a space, in their order; none of the built-in words.
    ids: Vec<u32>,
}

impl Vocabulary {
    pub(crate) fn from_common_words() -> Self {
        let words: Vec<String> = COMMON_WORDS.lines().map(str::to_owned).collect();
        let openers = (0..words.len()).collect();
        Self { words, openers, ids: Vec::new() }
    }

    /// Returns `None` if no word can start a prompt.
    pub(crate) fn new(words: Vec<String>, openers: Vec<usize>, ids: Vec<u32>) -> Option<Self> {
        let fits = !openers.is_empty() && openers.iter().all(|opener| *opener < words.len());
        fits.then_some(Self { words, openers, ids })
    }

    /// Returns the token of each word after a space, in the order of the words.
    pub(crate) fn ids(&self) -> &[u32] {
        &self.ids
    }

    pub(crate) fn words(&self) -> &[String] {
        &self.words
    }

    pub(crate) fn openers(&self) -> &[usize] {
        &self.openers
    }

    /// The word for `draw` at the start.
    fn opener(&self, draw: u32) -> &str {
        &self.words[self.openers[scale_draw(draw, self.openers.len())]]
    }

    /// The word for `draw` after the start.
    fn word(&self, draw: u32) -> &str {
        &self.words[scale_draw(draw, self.words.len())]
    }
}

/// The endless text of a seed and a salt; a prompt is a prefix of it.
pub(crate) struct WordSequence<'a> {
    vocabulary: &'a Vocabulary,
    draws: Draws,
    tokens: u32,
    kind: SyntheticText,
}

impl<'a> WordSequence<'a> {
    pub(crate) fn new(vocabulary: &'a Vocabulary, seed: u64, salt: Option<u64>, tokens: u32) -> Self {
        Self { vocabulary, draws: Draws::new(seed, salt, tokens), tokens, kind: SyntheticText::Words }
    }

    /// Returns the sequence of this kind of text.
    pub(crate) fn of_kind(self, kind: SyntheticText) -> Self {
        Self { kind, ..self }
    }

    /// Its first `words` words. Natural text begins after the words of the salt.
    pub(crate) fn text(&self, words: u32) -> String {
        if self.kind == SyntheticText::Words {
            return self.drawn_words(words);
        }
        let of_salt = self.draws.of_salt().min(words);
        let mut text = self.drawn_words(of_salt);
        if of_salt > 0 && of_salt < words {
            text.push(' ');
        }
        text.push_str(&Chain::shared().text(self.draws.seed(), words - of_salt));
        text
    }

    /// Returns `words` words of the vocabulary.
    fn drawn_words(&self, words: u32) -> String {
        let mut text = String::with_capacity(words as usize * BYTES_PER_WORD);
        self.draws.each(words, |place, draw| self.push(&mut text, place, draw));
        text
    }

    fn push(&self, text: &mut String, place: u32, draw: u32) {
        if place == 0 {
            text.push_str(self.vocabulary.opener(draw));
        } else {
            text.push(' ');
            text.push_str(self.vocabulary.word(draw));
        }
    }

    /// Makes the prompt for a tokenizer whose words are not one token each: encodes it, and makes it longer or shorter until it
    /// fits.
    ///
    /// If no number of words fits, tries other words at the end. Returns the closest prompt.
    pub(crate) fn correct_length(&self, count: impl Fn(&str) -> Result<u64, TokenizerError>) -> Result<Prompt, TokenizerError> {
        let mut words = self.tokens;
        let mut closest: Option<Prompt> = None;
        for round in 0..SCALINGS + VARIATIONS {
            let variation = round.checked_sub(SCALINGS);
            let text = variation.map_or_else(|| self.text(words), |variation| self.vary_ending(words, variation));
            let tokens = u32::try_from(count(&text)?).unwrap_or(u32::MAX);
            if closest.as_ref().is_none_or(|closest| tokens.abs_diff(self.tokens) < closest.tokens.abs_diff(self.tokens)) {
                closest = Some(Prompt { text, tokens });
            }
            if tokens == self.tokens {
                break;
            }
            if round + 1 < SCALINGS {
                words = rescale(words, tokens, self.tokens);
            }
        }
        Ok(closest.unwrap_or_else(|| Prompt { text: String::new(), tokens: 0 }))
    }

    /// Its first `words` words, or one more or fewer, with another word at the end.
    fn vary_ending(&self, words: u32, variation: u32) -> String {
        let before = (words + variation % 3).saturating_sub(2);
        let mut text = self.text(before);
        let draw = split_mix(self.draws.seed() ^ (u64::from(variation) + 1), u64::from(words)) as u32;
        self.push(&mut text, before, draw);
        text
    }
}

/// Scales the number of words for `wanted` tokens, if `words` of them have `tokens`. Changes it by at least one, unless it is
/// already right.
fn rescale(words: u32, tokens: u32, wanted: u32) -> u32 {
    let scaled = u64::from(words) * u64::from(wanted) / u64::from(tokens.max(1));
    let scaled = u32::try_from(scaled).unwrap_or(u32::MAX).min(wanted.saturating_mul(2)).max(1);
    match tokens.cmp(&wanted) {
        std::cmp::Ordering::Less => scaled.max(words.saturating_add(1)),
        std::cmp::Ordering::Equal => words,
        std::cmp::Ordering::Greater => scaled.min(words.saturating_sub(1)).max(1),
    }
}
