//! Encoders: tokenizers of files, and the words that are one token each.

use std::collections::BTreeSet;

use crate::TokenizerError;
use crate::prompt::Vocabulary;
use crate::words::COMMON_WORDS;

/// The number of words taken from a file's own vocabulary, by rising id: the most frequent words of its training come first.
pub const MAX_OWN_WORDS: usize = 2_048;

/// The minimum number of words: with fewer, prompts would be too similar.
const MIN_WORDS: usize = 64;

/// The word that precedes another one when that is tested within a text.
const ANCHOR: &str = "the";

/// The forms of the space before a word in vocabularies: byte-level BPE, SentencePiece, and plain.
const SPACES: [char; 3] = ['\u{120}', '\u{2581}', ' '];

/// The rules of a file by which a text becomes tokens.
pub(crate) trait Encoder: Send + Sync {
    /// Returns the tokens of a text, without those that an endpoint adds.
    fn ids(&self, text: &str) -> Result<Vec<u32>, TokenizerError>;

    /// Returns the end of the `tokens`-th token of a text, in bytes; that of the text if it has fewer.
    fn end_of(&self, text: &str, tokens: u32) -> Result<usize, TokenizerError>;

    /// Returns the text of a token; `None` if there is no such token, or if it is no text.
    fn token(&self, id: u32) -> Option<String>;

    /// Returns the tokens that are texts, with those that were `added` to the model's if asked.
    fn tokens(&self, added: bool) -> Vec<(u32, String)>;
}

impl dyn Encoder {
    pub(crate) fn count(&self, text: &str) -> Result<u64, TokenizerError> {
        self.ids(text).map(|ids| ids.len() as u64)
    }

    /// Returns the words for prompts, and true if each of them is one token at every position.
    ///
    /// Two facts show the latter. No token of the vocabulary spans two words, so none can contain a space; and a text of all
    /// words, in two orders, encodes to exactly the tokens of the words.
    pub(crate) fn vocabulary(&self) -> Result<(Vocabulary, bool), TokenizerError> {
        let candidates = self.single_words()?;
        if candidates.len() >= MIN_WORDS {
            let openers = (0..candidates.len()).filter(|place| candidates[*place].opens).collect();
            let words = candidates.iter().map(|word| word.text.clone()).collect();
            let ids = candidates.iter().map(|word| word.id).collect();
            if let Some(vocabulary) = Vocabulary::new(words, openers, ids) {
                let additive = !self.spans_words() && self.adds_up(&candidates, &vocabulary)?;
                return Ok((vocabulary, additive));
            }
        }
        Ok((Vocabulary::from_common_words(), false))
    }

    /// Returns the common words, and then the file's own, that are one token after a space.
    fn single_words(&self) -> Result<Vec<Word>, TokenizerError> {
        let common: BTreeSet<&str> = COMMON_WORDS.lines().collect();
        let own = self.own_words();
        let own = own.iter().map(String::as_str).filter(|word| !common.contains(word));
        let before = self.ids(ANCHOR)?;
        let mut words = Vec::new();
        for word in COMMON_WORDS.lines().chain(own) {
            words.extend(self.single_word(word, &before)?);
        }
        Ok(words)
    }

    fn single_word(&self, word: &str, before: &[u32]) -> Result<Option<Word>, TokenizerError> {
        let ids = self.ids(&format!("{ANCHOR} {word}"))?;
        let Some([id]) = ids.strip_prefix(before) else { return Ok(None) };
        // A word that is not in the vocabulary is one token too: the unknown token.
        if !self.decodes_to(*id, word) {
            return Ok(None);
        }
        let alone = self.ids(word)?;
        let opening = alone.first().copied().filter(|first| alone.len() == 1 && self.decodes_to(*first, word));
        Ok(Some(Word { text: word.to_owned(), id: *id, opens: opening.is_some(), opening_id: opening }))
    }

    fn decodes_to(&self, id: u32, word: &str) -> bool {
        self.token(id).is_some_and(|token| token.trim_start_matches(SPACES) == word)
    }

    /// Words of three to eight lower-case letters in the model's vocabulary, by rising id.
    fn own_words(&self) -> Vec<String> {
        let plain = |word: &str| (3..=8).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
        let vocabulary = self.tokens(false);
        let mut words: Vec<(u32, &str)> = vocabulary
            .iter()
            .map(|(id, token)| (*id, token.trim_start_matches(SPACES)))
            .filter(|(_, word)| plain(word))
            .collect();
        words.sort_unstable();
        let mut seen = BTreeSet::new();
        words.into_iter().filter(|(_, word)| seen.insert(*word)).take(MAX_OWN_WORDS).map(|(_, word)| word.to_owned()).collect()
    }

    /// Returns true if a token spans two words, as in superword vocabularies. Special tokens, whose names have brackets, do not
    /// count.
    fn spans_words(&self) -> bool {
        let is_space = |sign: char| SPACES.contains(&sign);
        let spans = |token: &str| {
            token.chars().all(|sign| sign.is_ascii_alphabetic() || is_space(sign))
                && token.trim_start_matches(is_space).contains(is_space)
        };
        self.tokens(true).iter().any(|(_, token)| spans(token))
    }

    fn adds_up(&self, words: &[Word], vocabulary: &Vocabulary) -> Result<bool, TokenizerError> {
        let Some(opener) = vocabulary.openers().first().map(|place| &words[*place]) else { return Ok(false) };
        // Up and down, and in steps that give every word other neighbours.
        let places = (0..words.len()).chain((0..words.len()).rev()).chain(strides(words.len()));
        let mut text = opener.text.clone();
        let mut expected: Vec<u32> = opener.opening_id.into_iter().collect();
        for word in places.map(|place| &words[place]) {
            text.push(' ');
            text.push_str(&word.text);
            expected.push(word.id);
        }
        Ok(self.ids(&text)? == expected)
    }
}

/// A word that is one token after a space.
struct Word {
    text: String,
    id: u32,
    /// True if it is also one token at the start of a text, `opening_id`.
    opens: bool,
    opening_id: Option<u32>,
}

/// Returns all indices below `count`, each far from the previous one.
fn strides(count: usize) -> impl Iterator<Item = usize> {
    let step = 31.min(count.max(1));
    (0..step).flat_map(move |first| (first..count).step_by(step))
}
