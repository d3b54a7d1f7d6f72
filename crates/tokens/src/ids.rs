//! Prompts as the ids of their tokens, of an exact length by construction.
//!
//! The format is stable: the draws are those of [prompts of words](crate::prompt), and a draw `h` takes id `h x count / 2^32` of the tokenizer's
//! words, in their order, or of a range. A place has no rule of its own, and nothing is put between ids, so that a prompt of pieces has exactly
//! the sum of their tokens, and equal pieces are equal ids wherever they stand.

use std::sync::Arc;

use assay_manifest::TokenIds;

use crate::draw::{Draws, scale_draw};
use crate::prompt::Vocabulary;
use crate::{MAX_PROMPT_TOKENS, TokenizerError};

/// The ids that prompts are drawn from.
#[derive(Clone)]
pub(crate) enum IdSource {
    /// Those of the words of a tokenizer.
    Words(Arc<Vocabulary>),
    /// As many as `count`, from `least` on.
    Range { least: u32, count: u64 },
}

impl IdSource {
    /// Returns the source of these ids. Fails if a tokenizer has too few words that are one token each.
    pub(crate) fn new(ids: TokenIds, vocabulary: &Arc<Vocabulary>) -> Result<Self, TokenizerError> {
        if let Some(reason) = ids.refusal() {
            return Err(TokenizerError::TokenIds(reason));
        }
        match ids {
            TokenIds::Range { least, most } => {
                Ok(Self::Range { least, count: u64::from(most).saturating_sub(u64::from(least)).saturating_add(1) })
            }
            TokenIds::Tokenizer if vocabulary.ids().is_empty() => {
                Err(TokenizerError::TokenIds("the tokenizer has too few words that are one token each".to_owned()))
            }
            TokenIds::Tokenizer => Ok(Self::Words(Arc::clone(vocabulary))),
        }
    }

    /// Returns the ids of a prompt. With a salt, the first ones are drawn by it, as words are.
    pub(crate) fn prompt(&self, seed: u64, salt: Option<u64>, tokens: u32) -> Result<Vec<u32>, TokenizerError> {
        self.append_all(&[(Draws::new(seed, salt, tokens), tokens)])
    }

    /// Returns the ids of pieces, one after the other.
    pub(crate) fn pieces(&self, pieces: &[(u64, u32)]) -> Result<Vec<u32>, TokenizerError> {
        let draws: Vec<(Draws, u32)> = pieces.iter().map(|(seed, tokens)| (Draws::new(*seed, None, *tokens), *tokens)).collect();
        self.append_all(&draws)
    }

    fn append_all(&self, pieces: &[(Draws, u32)]) -> Result<Vec<u32>, TokenizerError> {
        let tokens = pieces.iter().fold(0_u32, |sum, (_, tokens)| sum.saturating_add(*tokens));
        if tokens > MAX_PROMPT_TOKENS {
            return Err(TokenizerError::TooManyTokens(tokens));
        }
        let mut ids = Vec::with_capacity(tokens as usize);
        for (draws, tokens) in pieces {
            draws.each(*tokens, |_, draw| ids.push(self.id(draw)));
        }
        Ok(ids)
    }

    fn id(&self, draw: u32) -> u32 {
        match self {
            Self::Words(vocabulary) => {
                vocabulary.ids().get(scale_draw(draw, vocabulary.ids().len())).copied().unwrap_or_default()
            }
            Self::Range { least, count } => least.saturating_add(((u64::from(draw) * count) >> 32) as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(least: u32, most: u32) -> IdSource {
        IdSource::new(TokenIds::Range { least, most }, &Arc::new(Vocabulary::from_common_words())).expect("enough ids")
    }

    #[test]
    fn the_format_is_stable() {
        // Derived from the format's description: the halves of outputs 1 and 2 of SplitMix64 under 7, times 1,000, shifted by 32 bits, plus 500.
        assert_eq!(range(500, 1_499).prompt(7, None, 4), Ok(GOLDEN.to_vec()));
        // The largest range has every id of 32 bits, so that an id is its draw: the halves of 0xe220a8397b1dcdaf, the first output under 0.
        assert_eq!(range(0, u32::MAX).prompt(0, None, 2), Ok(vec![0x7b1d_cdaf, 0xe220_a839]));
    }

    const GOLDEN: [u32; 4] = [848, 889, 1_454, 516];

    #[test]
    fn equal_pieces_are_equal_ids_wherever_they_stand() {
        let source = range(100, 31_999);
        let ids = |pieces: &[(u64, u32)]| source.pieces(pieces).expect("drawn");
        let (one, other) = (ids(&[(1, 16), (2, 16), (3, 5)]), ids(&[(2, 16), (1, 16), (4, 5)]));
        assert_eq!((&one[..16], &one[16..32]), (&other[16..32], &other[..16]));
        assert_ne!(&one[32..], &other[32..]);
        assert_eq!((one.len(), ids(&[]).len()), (37, 0));
        assert!(source.pieces(&[(1, MAX_PROMPT_TOKENS), (2, 1)]).is_err());
    }

    #[test]
    fn a_salt_takes_the_first_ids_and_at_most_half() {
        let source = range(0, 999_999);
        let prompt = |seed, salt, tokens| source.prompt(seed, salt, tokens).expect("drawn");
        let (one, other, plain) = (prompt(1, Some(9), 10), prompt(2, Some(9), 10), prompt(1, None, 10));
        assert_eq!((&one[..4], &one[4..]), (&other[..4], &plain[4..]));
        assert_ne!(&one[..4], &plain[..4]);
        assert_eq!(prompt(1, Some(9), 3)[1..], prompt(1, None, 3)[1..]);
    }

    #[test]
    fn the_built_in_words_have_no_ids() {
        let words = Arc::new(Vocabulary::from_common_words());
        let refused = IdSource::new(TokenIds::Tokenizer, &words).err().map(|error| error.to_string());
        assert_eq!(
            refused.as_deref(),
            Some("prompts cannot be token ids: the tokenizer has too few words that are one token each")
        );
        let refused = IdSource::new(TokenIds::Range { least: 3, most: 4 }, &words).err().map(|error| error.to_string());
        assert_eq!(refused.as_deref(), Some("prompts cannot be token ids: 2 ids are fewer than 64"));
    }

    proptest! {
        #[test]
        fn ids_are_within_the_range(seed: u64, salt: Option<u64>, least: u32, span in 63_u32.., tokens in 0..40_u32) {
            let most = least.saturating_add(span);
            prop_assume!(most - least >= 63);
            let ids = range(least, most).prompt(seed, salt, tokens).expect("drawn");
            prop_assert_eq!(ids.len(), tokens as usize);
            prop_assert!(ids.iter().all(|id| (least..=most).contains(id)));
        }
    }
}
