//! Tokens: the token count of a text, and texts with an exact token count.
//!
//! A [`Tokenizer`] is the built-in list of [common words](COMMON_WORDS), a `tokenizer.json` as Hugging Face publishes it with
//! a model, or a vocabulary of tiktoken. Prompts are words drawn by a seed, each of them one token, so that a prompt of any length costs nanoseconds per word
//! and no encoding.
//!
//! Only the text is counted. The endpoint puts it into its chat template, and may add a token that marks the beginning; those
//! tokens are only in the endpoint's own count.

mod draw;
mod encoder;
mod file;
mod framed;
mod ids;
mod natural;
mod prompt;
mod template;
mod tiktoken;
mod words;

use std::sync::Arc;

use assay_manifest::{Digest, MessageRole, SyntheticText, TemplateUse, TokenIds};

pub use encoder::MAX_OWN_WORDS;
pub use file::{MAX_FILE_BYTES, MAX_GROWTH};
pub use prompt::{MAX_PROMPT_TOKENS, Prompt};
pub use template::{MAX_TEMPLATE_BYTES, MAX_TEMPLATE_TEXT, TemplateFiles};
pub use tiktoken::{MAX_PIECE_BYTES, MAX_TOKEN_BYTES};
pub use words::{BUILT_IN, COMMON_WORDS};

use encoder::Encoder;
use file::FileRules;
use framed::FramedPrompts;
use ids::IdSource;
use prompt::Vocabulary;
use template::ConversationTemplate;
use tiktoken::RankedBytes;

/// The longest text that is tokenised: 128 MiB, a prompt of [`MAX_PROMPT_TOKENS`] with room to spare.
pub const MAX_TEXT_BYTES: usize = 128 << 20;

/// An error of loading a tokenizer, or of tokenising a text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenizerError {
    /// The file is larger than any published tokenizer.
    #[error("the tokenizer file has {0} bytes, more than {MAX_FILE_BYTES}")]
    FileTooLarge(usize),
    /// The file is not a `tokenizer.json`.
    #[error("the tokenizer file cannot be read: {0}: expected a `tokenizer.json` of Hugging Face's `tokenizers`")]
    Malformed(String),
    /// A line of a tiktoken vocabulary is not a token and its rank.
    #[error("line {line} of the tiktoken vocabulary cannot be used: {cause}: expected a token in Base64 and its rank")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// The defect.
        cause: String,
    },
    /// A tiktoken vocabulary lacks a byte, so texts with it have no tokens.
    #[error("the tiktoken vocabulary has no token for the byte 0x{0:02x}: each byte must be one")]
    ByteMissing(u8),
    /// The pattern that splits texts cannot be read.
    #[error("the pattern of the tiktoken vocabulary cannot be read: {0}")]
    Pattern(String),
    /// A piece of a text, which the pattern does not split, is longer than [`MAX_PIECE_BYTES`].
    #[error("the tokenizer's pattern leaves a piece of {0} bytes whole: the limit is {MAX_PIECE_BYTES}")]
    PieceTooLong(usize),
    /// The chat template cannot be rendered, or is of no use.
    #[error("the chat template cannot be used: {0}")]
    Template(String),
    /// The chat template takes no such messages.
    #[error("the chat template takes no such messages: {0}")]
    Messages(String),
    /// The tokenizer has a dropout, so counts would vary.
    #[error("the tokenizer has a dropout of {0}: set `model.dropout` to null, so that equal texts have equal tokens")]
    Dropout(String),
    /// Its normalizer could make a text many times longer.
    #[error("the tokenizer's normalizer may make a text more than {MAX_GROWTH} times longer")]
    Growth,
    /// The tokenizer panicked: a defect, or a file made to trigger one.
    #[error(
        "the tokenizer failed on its file or on a text: the file is damaged, or uses what Assay's version of `tokenizers` cannot"
    )]
    Panicked,
    /// The tokenizer refused a text.
    #[error("a text could not be tokenised: {0}")]
    Text(String),
    /// The text is longer than [`MAX_TEXT_BYTES`].
    #[error("a text of {0} bytes is not tokenised: the limit is {MAX_TEXT_BYTES}")]
    TextTooLong(usize),
    /// Prompts cannot be ids of tokens.
    #[error("prompts cannot be token ids: {0}")]
    TokenIds(String),
    /// The prompt is longer than [`MAX_PROMPT_TOKENS`].
    #[error("a prompt of {0} tokens is not made: the limit is {MAX_PROMPT_TOKENS}")]
    TooManyTokens(u32),
}

/// Counts tokens and makes prompts of an exact length. Cheap to clone and to share between threads.
#[derive(Clone)]
pub struct Tokenizer {
    rules: Rules,
    vocabulary: Arc<Vocabulary>,
    digest: Digest,
    additive: bool,
    text: SyntheticText,
    template: Option<Arc<Template>>,
    /// True if prompts are messages even where the client applies the template: it does so when the conversation is known.
    makes_messages: bool,
    ids: Option<IdSource>,
}

/// A chat template whose tokens are a part of each prompt.
struct Template {
    usage: TemplateUse,
    conversation: ConversationTemplate,
    first: FramedPrompts,
    /// The messages of later turns; why there are none otherwise.
    later: Result<FramedPrompts, String>,
}

impl Template {
    fn new(tokenizer: &Tokenizer, conversation: ConversationTemplate, usage: TemplateUse) -> Result<Self, TokenizerError> {
        let first = FramedPrompts::new(tokenizer, conversation.frame.clone())?;
        let later = match conversation.turn_frame() {
            Ok(frame) => Ok(FramedPrompts::new(tokenizer, frame)?),
            Err(why) => Err(why.to_owned()),
        };
        Ok(Self { usage, conversation, first, later })
    }
}

#[derive(Clone)]
enum Rules {
    /// A token is a word between white space.
    Words,
    File(Arc<dyn Encoder>),
}

impl Tokenizer {
    /// The built-in tokenizer: a token is a word between white space.
    ///
    /// Used for load whose exact token counts come from the endpoint, and for endpoints without a tokenizer, such as the
    /// simulator. Its words are single tokens of the tokenizers of most models, so the endpoint's own counts are close.
    pub fn built_in() -> Self {
        let vocabulary = Arc::new(Vocabulary::from_common_words());
        Self {
            rules: Rules::Words,
            vocabulary,
            digest: words::digest(),
            additive: true,
            text: SyntheticText::Words,
            template: None,
            makes_messages: false,
            ids: None,
        }
    }

    /// Loads the tokenizer of a `tokenizer.json`.
    ///
    /// Its normalizer, pre-tokenizer, model and added tokens apply; special tokens that a post-processor would put around a text
    /// do not, nor do truncation and padding. The vocabulary is checked here, once, with some ten thousand short texts (tens of
    /// milliseconds).
    pub fn from_file(bytes: &[u8]) -> Result<Self, TokenizerError> {
        Self::from_encoder(Arc::new(FileRules::read(bytes)?), Digest::compute(bytes))
    }

    /// Loads a vocabulary of tiktoken: lines of a token in Base64 and its rank. `pattern` splits texts into pieces: the name of an
    /// [encoding](assay_manifest::TiktokenEncoding), whose pattern it is, or a regular expression.
    ///
    /// Texts are encoded as `encode_ordinary` of tiktoken does: special tokens are text.
    pub fn from_tiktoken(bytes: &[u8], pattern: &str) -> Result<Self, TokenizerError> {
        let digest = assay_manifest::tiktoken_digest(&Digest::compute(bytes), pattern);
        Self::from_encoder(Arc::new(RankedBytes::read(bytes, pattern)?), digest)
    }

    /// Loads the tokenizer of a file: a vocabulary of tiktoken if there is a pattern, else a `tokenizer.json`.
    pub fn load(bytes: &[u8], pattern: Option<&str>) -> Result<Self, TokenizerError> {
        pattern.map_or_else(|| Self::from_file(bytes), |pattern| Self::from_tiktoken(bytes, pattern))
    }

    fn from_encoder(encoder: Arc<dyn Encoder>, digest: Digest) -> Result<Self, TokenizerError> {
        let (vocabulary, additive) = encoder.vocabulary()?;
        Ok(Self {
            rules: Rules::File(encoder),
            vocabulary: Arc::new(vocabulary),
            digest,
            additive,
            text: SyntheticText::Words,
            template: None,
            makes_messages: false,
            ids: None,
        })
    }

    /// Counts a chat template into every prompt: its length is that of the message with what the template puts around it. With
    /// [`TemplateUse::Apply`] that is also its text; otherwise its text is the message, and the endpoint applies the template.
    pub fn with_template(mut self, files: &TemplateFiles<'_>, usage: TemplateUse) -> Result<Self, TokenizerError> {
        self.template = Some(Arc::new(Template::new(&self, ConversationTemplate::render(files)?, usage)?));
        Ok(self)
    }

    /// Returns the tokenizer whose prompts are the messages of conversations: what the client applies is [put around
    /// them](Tokenizer::applied) when the whole conversation is known.
    #[must_use]
    pub fn of_messages(self) -> Self {
        Self { makes_messages: true, ..self }
    }

    /// Returns the tokens of the chat template around a message: those of a prompt that are not words of its own.
    pub fn template_tokens(&self) -> Option<u32> {
        self.template.as_ref().map(|template| template.first.tokens())
    }

    /// Returns the text that the chat template makes of messages which follow one of `before`, or begin a conversation; `None` without a
    /// template. A prompt has the [end of prompts](Tokenizer::end_of_prompts) behind the last message.
    pub fn in_template(
        &self,
        before: Option<MessageRole>,
        messages: &[(MessageRole, &str)],
    ) -> Option<Result<String, TokenizerError>> {
        let template = self.template.as_ref()?;
        Some(template.conversation.text(before, messages).map_err(TokenizerError::Messages))
    }

    /// Renders the chat template for whole prompts, and returns the place of the first one of which it makes another text than
    /// [`in_template`](Tokenizer::in_template) does, because it looks at what messages say or how many there are; `None` if it does for none.
    pub fn first_other_in_template(&self, prompts: Vec<Vec<(MessageRole, String)>>) -> Result<Option<usize>, TokenizerError> {
        self.template.as_ref().map_or(Ok(None), |template| template.conversation.first_other(prompts))
    }

    /// Returns what the chat template makes of an earlier response, such as without its thoughts; all of it without a template.
    pub fn response_in_template<'a>(&self, response: &'a str) -> &'a str {
        self.template.as_ref().map_or(response, |template| template.conversation.response(response))
    }

    /// Returns why no later turns of a conversation can be made; `None` if they can.
    pub fn why_no_later_turn(&self) -> Option<&str> {
        self.template.as_ref()?.later.as_ref().err().map(String::as_str)
    }

    /// Returns the text that the chat template puts behind the last message of a prompt; empty without a template.
    pub fn end_of_prompts(&self) -> &str {
        self.template.as_ref().map_or("", |template| template.conversation.end())
    }

    /// Returns the prompt of a conversation if the client applies the chat template; `None` if the endpoint does.
    pub fn applied(&self, messages: &[(MessageRole, &str)]) -> Option<Result<String, TokenizerError>> {
        self.template.as_ref().filter(|template| template.usage == TemplateUse::Apply)?;
        let text = self.in_template(None, messages)?;
        Some(text.map(|text| text + self.end_of_prompts()))
    }

    /// Returns the tokenizer that makes prompts of token ids, too. Fails if there are too few.
    pub fn with_token_ids(self, ids: TokenIds) -> Result<Self, TokenizerError> {
        let source = IdSource::new(ids, &self.vocabulary)?;
        Ok(Self { ids: Some(source), ..self })
    }

    /// Returns the ids of a prompt of exactly `tokens` tokens, drawn by `seed`; `None` if prompts are texts.
    ///
    /// With a salt, the first [`SALT_WORDS`](assay_manifest::SALT_WORDS) ids (at most half of a short prompt) are drawn by the salt instead. Equal arguments
    /// give equal ids, in this version and later ones.
    pub fn id_prompt(&self, seed: u64, salt: Option<u64>, tokens: u32) -> Result<Option<Vec<u32>>, TokenizerError> {
        self.ids.as_ref().map(|source| source.prompt(seed, salt, tokens)).transpose()
    }

    /// Returns the ids of pieces, each with a seed and a number of tokens, one after the other; `None` if prompts are texts.
    pub fn id_pieces(&self, pieces: &[(u64, u32)]) -> Result<Option<Vec<u32>>, TokenizerError> {
        self.ids.as_ref().map(|source| source.pieces(pieces)).transpose()
    }

    /// Returns the tokenizer that makes prompts of this kind of text: words drawn by themselves, or prose.
    #[must_use]
    pub fn with_text(self, text: SyntheticText) -> Self {
        // Words of prose are one token each for the built-in tokenizer only.
        let additive = self.additive && (text == SyntheticText::Words || matches!(self.rules, Rules::Words));
        Self { additive, text, ..self }
    }

    /// The digest of its vocabulary and rules: that of the built-in list, or of the file.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// Returns the number of tokens of a text.
    pub fn count(&self, text: &str) -> Result<u64, TokenizerError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(TokenizerError::TextTooLong(text.len()));
        }
        match &self.rules {
            Rules::Words => Ok(text.split_whitespace().count() as u64),
            Rules::File(rules) => rules.count(text),
        }
    }

    /// Returns the longest beginning of a text that has at most this many tokens within the whole text. Counted by itself, the beginning may
    /// have another number, because its end is tokenised without what followed.
    pub fn truncate<'a>(&self, text: &'a str, tokens: u32) -> Result<&'a str, TokenizerError> {
        if text.len() > MAX_TEXT_BYTES {
            return Err(TokenizerError::TextTooLong(text.len()));
        }
        let end = match &self.rules {
            Rules::Words => words::end_of(text, tokens),
            Rules::File(rules) => rules.end_of(text, tokens)?,
        };
        // A token may end within a character.
        let end = (0..=end.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        Ok(text.get(..end).unwrap_or_default())
    }

    /// The words that prompts are made of, in the order in which seeds draw from them.
    ///
    /// For a file, the common words that are one token after a space, followed by its own ([`MAX_OWN_WORDS`]). If these are too
    /// few, all common words.
    pub fn vocabulary(&self) -> &[String] {
        self.vocabulary.words()
    }

    /// Returns true if every word of a prompt is one token at every position, so that prompts need no encoding. Otherwise they
    /// are encoded and corrected until they fit.
    pub fn is_additive(&self) -> bool {
        self.additive
    }

    /// Makes a prompt of `tokens` tokens: words of the vocabulary, or of [natural text](Tokenizer::with_text), with single spaces between them, drawn
    /// by `seed`.
    ///
    /// With a salt, the first [`SALT_WORDS`](assay_manifest::SALT_WORDS) words (at most half of a short prompt) are drawn by the salt instead, so they are
    /// the same in every prompt with that salt. Equal arguments give equal prompts, in this version and later ones.
    ///
    /// The prompt states its number of tokens. It is exactly the requested number if the tokenizer [is
    /// additive](Tokenizer::is_additive); otherwise it may be slightly higher or lower, if no words add up.
    pub fn prompt(&self, seed: u64, salt: Option<u64>, tokens: u32) -> Result<Prompt, TokenizerError> {
        if tokens > MAX_PROMPT_TOKENS {
            return Err(TokenizerError::TooManyTokens(tokens));
        }
        if tokens == 0 {
            return Ok(Prompt { text: String::new(), tokens });
        }
        if let Some(template) = &self.template {
            return template.first.prompt(self, seed, salt, tokens).map(|message| self.finished(template, message));
        }
        self.words(seed, salt, tokens)
    }

    /// Makes the message of a later turn of a conversation: with a chat template, `tokens` are those by which the turn makes the prompt longer,
    /// beside the words of the response before it.
    pub fn later_message(&self, seed: u64, tokens: u32) -> Result<Prompt, TokenizerError> {
        let Some(template) = self.template.as_ref().filter(|_| tokens > 0) else { return self.prompt(seed, None, tokens) };
        if tokens > MAX_PROMPT_TOKENS {
            return Err(TokenizerError::TooManyTokens(tokens));
        }
        template.later.as_ref().map_err(|why| TokenizerError::Template(why.clone()))?.prompt(self, seed, None, tokens)
    }

    /// Makes a text of `tokens` tokens, of the words of prompts and without a chat template.
    pub fn unframed(&self, seed: u64, tokens: u32) -> Result<Prompt, TokenizerError> {
        match tokens {
            0 => Ok(Prompt { text: String::new(), tokens }),
            1..=MAX_PROMPT_TOKENS => self.words(seed, None, tokens),
            _ => Err(TokenizerError::TooManyTokens(tokens)),
        }
    }

    /// Returns the prompt of a message: with the template around it, if the client applies it to single messages.
    fn finished(&self, template: &Template, message: Prompt) -> Prompt {
        match template.usage {
            TemplateUse::Apply if !self.makes_messages => {
                Prompt { text: template.conversation.frame.around(&message.text), ..message }
            }
            TemplateUse::Apply | TemplateUse::Count => message,
        }
    }

    fn words(&self, seed: u64, salt: Option<u64>, tokens: u32) -> Result<Prompt, TokenizerError> {
        let draw = prompt::WordSequence::new(&self.vocabulary, seed, salt, tokens).of_kind(self.text);
        if self.additive { Ok(Prompt { text: draw.text(tokens), tokens }) } else { draw.correct_length(|text| self.count(text)) }
    }

    /// Makes a prompt of pieces, each with a seed and a number of tokens, with single spaces between them. All but the last are what prompts have in
    /// common, and the last is its own: it may have none.
    ///
    /// A piece has the same words wherever it stands before the last: those of a [prompt](Tokenizer::prompt) of that seed, if the tokenizer [is
    /// additive](Tokenizer::is_additive), otherwise as many words as have its tokens behind a space. The last piece makes up for what the others
    /// have too much or too little of, so that the whole has the sum of tokens, or slightly more or fewer if no words add up. The prompt states its number.
    pub fn pieces(&self, pieces: &[(u64, u32)]) -> Result<Prompt, TokenizerError> {
        let tokens = pieces.iter().fold(0_u32, |sum, (_, tokens)| sum.saturating_add(*tokens));
        if tokens > MAX_PROMPT_TOKENS {
            return Err(TokenizerError::TooManyTokens(tokens));
        }
        if let Some(template) = &self.template {
            return template.first.pieces(self, pieces).map(|message| self.finished(template, message));
        }
        let text = self.join(pieces)?;
        if self.additive {
            return Ok(Prompt { text, tokens });
        }
        let tokens = u32::try_from(self.count(&text)?).unwrap_or(u32::MAX);
        Ok(Prompt { text, tokens })
    }

    /// Returns the text of pieces.
    fn join(&self, pieces: &[(u64, u32)]) -> Result<String, TokenizerError> {
        let Some(((own, own_tokens), common)) = pieces.split_last() else { return Ok(String::new()) };
        let words: usize = pieces.iter().map(|(_, tokens)| *tokens as usize).sum();
        let mut text = String::with_capacity(words * prompt::BYTES_PER_WORD);
        for (seed, tokens) in common {
            self.add_piece(&mut text, *seed, *tokens)?;
        }
        let wanted = if self.additive || *own_tokens == 0 {
            *own_tokens
        } else {
            let in_common = common.iter().fold(0_u64, |sum, (_, tokens)| sum.saturating_add(u64::from(*tokens)));
            let rest = (in_common + u64::from(*own_tokens)).saturating_sub(self.count(&text)?);
            u32::try_from(rest).unwrap_or(u32::MAX).clamp(1, MAX_PROMPT_TOKENS)
        };
        self.add_piece(&mut text, *own, wanted)?;
        Ok(text)
    }

    /// Adds a piece of `tokens` tokens to a text. It begins with an opener, so that it has the same words at the beginning of a text.
    fn add_piece(&self, text: &mut String, seed: u64, tokens: u32) -> Result<(), TokenizerError> {
        if tokens == 0 {
            return Ok(());
        }
        if !text.is_empty() {
            text.push(' ');
        }
        let words = prompt::WordSequence::new(&self.vocabulary, seed, None, tokens).of_kind(self.text);
        if self.additive {
            text.push_str(&words.text(tokens));
        } else {
            text.push_str(&words.correct_length(|piece| self.count(&format!(" {piece}")))?.text);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
