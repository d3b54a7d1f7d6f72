//! Tokenizers of files as Hugging Face publishes them.
//!
//! Only this module uses the crate `tokenizers`. A file is untrusted input, so panics in that crate are caught, and rules that
//! could make a text grow without bounds are refused first.

use std::panic::{AssertUnwindSafe, catch_unwind};

use serde::Deserialize;
use serde_json::Value;

use crate::TokenizerError;
use crate::encoder::Encoder;

/// The largest file. The largest that is published with a model at present has 33 MB.
pub const MAX_FILE_BYTES: usize = 64 << 20;

/// The largest factor by which a normalizer may make a text longer. Real ones replace a space by a marker of three bytes.
pub const MAX_GROWTH: u64 = 256;

/// The number of characters that are quoted from another crate's message.
const MAX_QUOTED: usize = 200;

/// The tokenizer of a file.
pub(crate) struct FileRules(tokenizers::Tokenizer);

/// The fields of a file that are checked before the file is used.
#[derive(Deserialize)]
struct CheckedFields {
    #[serde(default)]
    normalizer: Value,
    model: CheckedModelFields,
}

#[derive(Deserialize)]
struct CheckedModelFields {
    #[serde(default)]
    dropout: Value,
}

impl FileRules {
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, TokenizerError> {
        if bytes.len() > MAX_FILE_BYTES {
            return Err(TokenizerError::FileTooLarge(bytes.len()));
        }
        let precautions: CheckedFields = serde_json::from_slice(bytes).map_err(|error| malformed(&error))?;
        precautions.check()?;
        let mut tokenizer = catch_panic(|| tokenizers::Tokenizer::from_bytes(bytes).map_err(|error| malformed(&error)))?;
        // The endpoint adds its own special tokens, and a count must be neither truncated nor padded.
        tokenizer.with_post_processor(None::<tokenizers::PostProcessorWrapper>).with_padding(None);
        tokenizer.with_truncation(None).map_err(|error| malformed(&error))?;
        Ok(Self(tokenizer))
    }
}

impl Encoder for FileRules {
    fn end_of(&self, text: &str, tokens: u32) -> Result<usize, TokenizerError> {
        let Some(last) = (tokens as usize).checked_sub(1) else { return Ok(0) };
        catch_panic(|| {
            let encoding = self.0.encode(text, false).map_err(|error| TokenizerError::Text(quote(&error)))?;
            Ok(encoding.get_offsets().get(last).map_or(text.len(), |(_, end)| *end))
        })
    }

    fn ids(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        catch_panic(|| {
            let encoding = self.0.encode_fast(text, false).map_err(|error| TokenizerError::Text(quote(&error)))?;
            Ok(encoding.get_ids().to_vec())
        })
    }

    fn token(&self, id: u32) -> Option<String> {
        self.0.id_to_token(id)
    }

    fn tokens(&self, added: bool) -> Vec<(u32, String)> {
        self.0.get_vocab(added).into_iter().map(|(token, id)| (id, token)).collect()
    }
}

impl CheckedFields {
    fn check(&self) -> Result<(), TokenizerError> {
        let dropout = &self.model.dropout;
        if !dropout.is_null() && dropout.as_f64() != Some(0.0) {
            return Err(TokenizerError::Dropout(quote(dropout)));
        }
        if max_growth(&self.normalizer) > MAX_GROWTH { Err(TokenizerError::Growth) } else { Ok(()) }
    }
}

/// Returns an upper bound of the factor by which a normalizer makes a text longer: its steps multiply. Every text in it counts as
/// one that is inserted before each byte, except the names of steps and the patterns that are replaced.
fn max_growth(normalizer: &Value) -> u64 {
    match normalizer {
        Value::Array(steps) => steps.iter().map(max_growth).fold(1, u64::saturating_mul),
        Value::Object(step) if step.get("type").and_then(Value::as_str) == Some("Precompiled") => 1,
        Value::Object(step) => {
            let texts = step.iter().filter(|(name, _)| !["type", "pattern"].contains(&name.as_str()));
            texts.map(|(_, value)| max_growth(value)).fold(1, u64::saturating_mul)
        }
        Value::String(text) => text.len() as u64 + 1,
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// Runs `action`, and turns a panic into an error.
pub(crate) fn catch_panic<T>(action: impl FnOnce() -> Result<T, TokenizerError>) -> Result<T, TokenizerError> {
    // No half-changed state is used again: a file that failed is dropped, and an encoding changes only a cache.
    catch_unwind(AssertUnwindSafe(action)).unwrap_or(Err(TokenizerError::Panicked))
}

fn malformed(error: &impl ToString) -> TokenizerError {
    TokenizerError::Malformed(quote(error))
}

pub(crate) fn quote(what: &impl ToString) -> String {
    what.to_string().chars().take(MAX_QUOTED).collect()
}
