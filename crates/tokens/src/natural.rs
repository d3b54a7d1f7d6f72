//! Texts that read like prose: a chain over the words of a book.
//!
//! The word after two words is one that follows the same two in the book, each occurrence equally likely, so that a text has the
//! grammar and the frequencies of English, and no meaning. The book is a circle: its first word follows its last. The format is stable: draw 0
//! takes word `h x count / 2^32` of the book; draw `k` takes, of the places where the last two words stand, in their order, place
//! `h x count / 2^32`, and the word after it comes next. Draws are those of prompts of words: two of each output of SplitMix64.
//!
//! Two texts begin with the same sixteen words, the size of a block of many prefix caches, about once in two million pairs: 4,583 of the
//! 1.1 x 10^10 pairs of 150,000 texts.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::draw::{scale_draw, split_mix};

/// The book: paragraphs of words with their punctuation. Source and licence are in `natural-text.md`.
pub(crate) const TEXT: &str = include_str!("natural-text.txt");

/// The book as a chain.
pub(crate) struct Chain {
    words: Vec<&'static str>,
    /// The places of words, those of equal pairs side by side and in their order.
    places: Vec<u32>,
    /// For each word of the book, the first of the places of the pair that it ends, and their number.
    pairs: Vec<(u32, u32)>,
}

impl Chain {
    /// Returns the chain, which is made once for each process.
    pub(crate) fn shared() -> &'static Self {
        static CHAIN: OnceLock<Chain> = OnceLock::new();
        CHAIN.get_or_init(|| Self::new(TEXT))
    }

    fn new(text: &'static str) -> Self {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut by_pair: BTreeMap<(&str, &str), Vec<u32>> = BTreeMap::new();
        for (place, word) in words.iter().enumerate() {
            let before = words[place.checked_sub(1).unwrap_or(words.len() - 1)];
            by_pair.entry((before, word)).or_default().push(place as u32);
        }
        let mut places = Vec::with_capacity(words.len());
        let mut pairs = vec![(0, 0); words.len()];
        for of_pair in by_pair.into_values() {
            let first = places.len() as u32;
            for place in &of_pair {
                pairs[*place as usize] = (first, of_pair.len() as u32);
            }
            places.extend(of_pair);
        }
        Self { words, places, pairs }
    }

    /// Returns the first `words` words of a seed's text.
    pub(crate) fn text(&self, seed: u64, words: u32) -> String {
        let mut text = String::with_capacity(words as usize * BYTES_PER_WORD);
        let mut place = 0;
        for number in 0..words {
            let draw = draw(seed, number);
            place = if number == 0 { scale_draw(draw, self.words.len()) } else { self.next(place, draw) };
            if number > 0 {
                text.push(' ');
            }
            text.push_str(self.words[place]);
        }
        text
    }

    /// Returns the place of the word after the one at a place.
    fn next(&self, place: usize, draw: u32) -> usize {
        let (first, count) = self.pairs[place];
        let drawn = self.places[first as usize + scale_draw(draw, count as usize)] as usize;
        (drawn + 1) % self.words.len()
    }
}

/// The size of a word with its space, for reserving memory.
const BYTES_PER_WORD: usize = 6;

/// Returns draw `number` of a seed, from 0: a half of an output.
fn draw(seed: u64, number: u32) -> u32 {
    let output = split_mix(seed, u64::from(number / 2) + 1);
    if number.is_multiple_of(2) { output as u32 } else { (output >> 32) as u32 }
}

#[cfg(test)]
mod tests {
    use assay_manifest::Digest;

    use super::*;

    #[test]
    fn the_book_and_the_chain_are_stable() {
        assert_eq!(Digest::compute(TEXT.as_bytes()).hex(), TEXT_DIGEST);
        // Derived from the format's description by `tests/natural.py`, not by this code.
        assert_eq!(Chain::shared().text(7, 24), GOLDEN_TEXT);
        assert_eq!(Chain::shared().text(7, 5), GOLDEN_TEXT.split(' ').take(5).collect::<Vec<_>>().join(" "));
        assert_eq!(Chain::shared().text(7, 0), "");
    }

    #[test]
    fn a_word_follows_its_two_predecessors_in_the_book() {
        // After `a b` comes `c` twice, and `d` once; after the last word comes the first one.
        let chain = Chain::new("a b c a b d a b c");
        let words = |seed| chain.text(seed, 60).split(' ').map(str::to_owned).collect::<Vec<_>>();
        for seed in 0..50 {
            for three in words(seed).windows(3) {
                let known = ["a b c", "b c a", "c a b", "a b d", "b d a", "d a b"];
                assert!(known.contains(&three.join(" ").as_str()), "{three:?}");
            }
        }
        let after = |word: &str| {
            (0..200).filter(|seed| words(*seed).windows(3).any(|three| three.join(" ") == format!("a b {word}"))).count()
        };
        assert!(after("c") > 190 && after("d") > 190);
    }

    #[test]
    fn two_seeds_begin_alike_by_chance_only() {
        let beginnings: std::collections::BTreeSet<String> = (0..20_000).map(|seed| Chain::shared().text(seed, 16)).collect();
        // Of 2 x 10^8 pairs, one in 2.4 million: 82.
        assert!((19_850..20_000).contains(&beginnings.len()), "{}", beginnings.len());
    }

    const TEXT_DIGEST: &str = "07812f7d2523c4be22befa8eab7c8e208abe284ad01a3704fa97a1ad87976e6e";
    const GOLDEN_TEXT: &str =
        "Yet you balanced an eel on the ground - and what is the driest thing I ask! It's always six o'clock now. A bright";
}
