//! The words of responses: one word is one token.

use assay_api::Content;

use crate::draw::{Concern, RequestKey};

/// Short words of several lengths; plain ASCII, so that they need no escapes in JSON.
const WORDS: [&str; 64] = [
    "a", "acorn", "after", "amber", "and", "answer", "anvil", "apple", "autumn", "balance", "bay", "beacon", "birch", "blue",
    "bridge", "by", "candle", "cedar", "clay", "cloud", "copper", "dawn", "deep", "drum", "east", "echo", "ember", "field",
    "flint", "for", "garden", "glass", "granite", "harbour", "hill", "iron", "island", "ivy", "juniper", "kettle", "lantern",
    "leaf", "marble", "meadow", "mill", "north", "oak", "ocean", "of", "paper", "pebble", "quartz", "rain", "river", "salt",
    "silver", "stone", "thistle", "timber", "under", "valley", "willow", "winter", "yarn",
];

impl Content for RequestKey {
    fn push_words(&self, start: u32, from: u32, tokens: u32, text: &mut Vec<u8>) {
        push_words(*self, start, from, tokens, text);
    }

    fn number(&self, place: u64) -> f64 {
        self.unit(Concern::Embedding, place)
    }
}

/// Appends the words of the tokens `from..from + tokens` of a response. A space precedes each of them but the first of its
/// channel, which is the token `start`.
pub(crate) fn push_words(key: RequestKey, start: u32, from: u32, tokens: u32, text: &mut Vec<u8>) {
    for place in from..from.saturating_add(tokens) {
        if place != start {
            text.push(b' ');
        }
        text.extend_from_slice(word(key, place).as_bytes());
    }
}

/// Returns the number of bytes that [`push_words`] would append.
pub(crate) fn words_bytes(key: RequestKey, start: u32, from: u32, tokens: u32) -> u32 {
    (from..from.saturating_add(tokens)).map(|place| u32::from(place != start) + word(key, place).len() as u32).sum()
}

fn word(key: RequestKey, place: u32) -> &'static str {
    WORDS[key.below(Concern::Word, u64::from(place), WORDS.len() as u32) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Seed;

    #[test]
    fn chunks_of_a_response_join_to_as_many_words_as_tokens() {
        let key = RequestKey::from_id(&Seed::default(), "words");
        let (mut whole, mut parts) = (Vec::new(), Vec::new());
        push_words(key, 0, 0, 7, &mut whole);
        for (from, tokens) in [(0, 1), (1, 4), (5, 2)] {
            push_words(key, 0, from, tokens, &mut parts);
        }
        assert_eq!(whole, parts);
        assert_eq!(words_bytes(key, 0, 0, 7) as usize, whole.len());
        assert_eq!(String::from_utf8(whole).expect("ASCII").split_whitespace().count(), 7);
    }

    #[test]
    fn words_are_distinct_and_need_no_escape() {
        assert!(WORDS.is_sorted_by(|a, b| a < b));
        assert!(WORDS.iter().all(|word| word.bytes().all(|byte| byte.is_ascii_lowercase())));
    }
}
