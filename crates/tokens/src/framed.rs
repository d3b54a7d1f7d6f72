//! Prompts with a chat template around them, of an exact length as a whole.

use crate::prompt::{Prompt, WordSequence};
use crate::template::Frame;
use crate::{Tokenizer, TokenizerError};

/// The longest text of a template with which all words are tried. Behind longer ones, each prompt is counted by itself.
const MAX_TRIED_BYTES: usize = 2 << 10;

/// The prompts of a tokenizer with a chat template around them.
pub(crate) struct FramedPrompts {
    frame: Frame,
    tokens: u32,
    /// True if the template and the words of any prompt add up.
    additive: bool,
}

impl FramedPrompts {
    pub(crate) fn new(tokenizer: &Tokenizer, frame: Frame) -> Result<Self, TokenizerError> {
        let vocabulary = &tokenizer.vocabulary;
        let words = vocabulary.words();
        let openers: Vec<&str> = vocabulary.openers().iter().map(|place| words[*place].as_str()).collect();
        let Some(opener) = openers.first() else { return Err(TokenizerError::Template("no word can begin a prompt".to_owned())) };
        let count = |message: &str| tokenizer.count(&frame.around(message));
        let two = format!("{opener} {opener}");
        let of_two = count(&two)?;
        let tokens = u32::try_from(of_two.saturating_sub(tokenizer.count(&two)?)).unwrap_or(u32::MAX);
        let mut additive =
            tokenizer.additive && of_two == u64::from(tokens).saturating_add(2) && frame.bytes() <= MAX_TRIED_BYTES;
        // What the template begins and ends with may merge with the first and the last word.
        if additive {
            for first in &openers {
                additive &= count(first)? + 1 == of_two && count(&format!("{first} {opener}"))? == of_two;
            }
            for last in words {
                additive &= count(&format!("{opener} {last}"))? == of_two;
            }
        }
        Ok(Self { frame, tokens, additive })
    }

    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Makes the message of a prompt of `tokens` tokens with those of the template: at least one word.
    pub(crate) fn prompt(
        &self,
        tokenizer: &Tokenizer,
        seed: u64,
        salt: Option<u64>,
        tokens: u32,
    ) -> Result<Prompt, TokenizerError> {
        let own = tokens.saturating_sub(self.tokens).max(1);
        let draw = WordSequence::new(&tokenizer.vocabulary, seed, salt, own).of_kind(tokenizer.text);
        // The words of prose may not add up although those of the vocabulary do.
        if self.additive && tokenizer.additive {
            return Ok(self.finished(draw.text(own), own));
        }
        let count =
            |text: &str| tokenizer.count(&self.frame.around(text)).map(|tokens| tokens.saturating_sub(u64::from(self.tokens)));
        let made = draw.correct_length(count)?;
        Ok(self.finished(made.text, made.tokens))
    }

    /// Makes the message of a prompt of pieces, of which the last is shorter by the template.
    pub(crate) fn pieces(&self, tokenizer: &Tokenizer, pieces: &[(u64, u32)]) -> Result<Prompt, TokenizerError> {
        let mut pieces = pieces.to_vec();
        if let Some((_, last)) = pieces.last_mut() {
            *last = last.saturating_sub(self.tokens).max(1);
        }
        let text = tokenizer.join(&pieces)?;
        if self.additive && tokenizer.additive {
            let own = pieces.iter().fold(0_u32, |sum, (_, tokens)| sum.saturating_add(*tokens));
            return Ok(self.finished(text, own));
        }
        let whole = tokenizer.count(&self.frame.around(&text))?;
        let own = whole.saturating_sub(u64::from(self.tokens));
        Ok(self.finished(text, u32::try_from(own).unwrap_or(u32::MAX)))
    }

    /// Returns a message of `own` tokens, with the tokens of its prompt.
    fn finished(&self, text: String, own: u32) -> Prompt {
        Prompt { text, tokens: own.saturating_add(self.tokens) }
    }
}
