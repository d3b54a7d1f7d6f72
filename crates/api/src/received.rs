//! Requests as an endpoint receives them. Members that no API uses are accepted, as by real servers.

use serde::Deserialize;
use serde_json::Value;

/// The members of a request's body, over all APIs.
#[derive(Debug, Deserialize)]
pub struct ReceivedRequest {
    /// The name of the model.
    pub model: Option<String>,
    pub(crate) messages: Option<Vec<Message>>,
    pub(crate) prompt: Option<Value>,
    pub(crate) input: Option<Value>,
    pub(crate) query: Option<String>,
    pub(crate) documents: Option<Vec<Value>>,
    pub(crate) texts: Option<Vec<Value>>,
    pub(crate) top_n: Option<usize>,
    pub(crate) instructions: Option<Value>,
    pub(crate) system: Option<Value>,
    pub(crate) max_tokens: Option<u32>,
    pub(crate) max_completion_tokens: Option<u32>,
    pub(crate) max_output_tokens: Option<u32>,
    /// The least number of tokens of the response.
    pub min_tokens: Option<u32>,
    ignore_eos: Option<bool>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    /// The number of responses.
    pub n: Option<u32>,
    /// A text that keeps the prompt's blocks apart from those of other salts in the prefix cache.
    pub cache_salt: Option<String>,
}

/// A message of a chat.
#[derive(Debug, Deserialize)]
pub(crate) struct Message {
    pub(crate) role: String,
    #[serde(default)]
    pub(crate) content: Value,
}

#[derive(Debug, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

impl ReceivedRequest {
    /// Parses a body. Fails with the reason for which an endpoint refuses it.
    pub fn parse(body: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(body).map_err(|error| format!("not a request: {error}"))
    }

    /// Returns true if the response goes on to its largest number of tokens.
    pub fn ignores_eos(&self) -> bool {
        self.ignore_eos == Some(true)
    }

    /// Returns true if the response is to be streamed.
    pub fn is_streamed(&self) -> bool {
        self.stream == Some(true)
    }

    /// Returns true if each event of the stream has the usage so far.
    pub fn has_continuous_usage(&self) -> bool {
        self.stream_options.as_ref().is_some_and(|options| options.continuous_usage_stats == Some(true))
    }

    /// Returns true if the stream ends with its usage.
    pub fn includes_usage(&self) -> bool {
        self.has_continuous_usage() || self.stream_options.as_ref().is_some_and(|options| options.include_usage == Some(true))
    }
}

/// The numbers of a request that shape a response without output tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputCounts {
    /// The prompts or documents.
    pub inputs: usize,
    /// The results that the response has.
    pub results: usize,
}

impl InputCounts {
    /// Returns the counts of a request with one result for each input.
    pub(crate) fn one_each(inputs: usize) -> Self {
        Self { inputs, results: inputs }
    }
}

/// Receives the inputs of a request in their order.
pub trait InputReader {
    /// Takes the role of the message that follows.
    fn role(&mut self, role: &str);
    /// Takes a text.
    fn text(&mut self, text: &str);
    /// Takes the id of a token.
    fn token(&mut self, id: u64);
    /// Takes an image by its URL, which may hold its bytes.
    fn image(&mut self, _url: &str) {}
}

/// Returns the refusal of a request without a member that it needs.
pub(crate) fn missing(field: &str) -> String {
    format!("`{field}` is missing")
}

/// Reads a text, a list of token ids, or a list of at most `most` of either, and counts them.
pub(crate) fn read_prompts(
    value: Option<&Value>,
    field: &str,
    most: usize,
    reader: &mut impl InputReader,
) -> Result<InputCounts, String> {
    let value = value.ok_or_else(|| missing(field))?;
    let count = match value {
        Value::Array(items) if items.iter().all(|item| item.is_string() || item.is_array()) => {
            items.iter().try_for_each(|item| read_prompt(item, field, reader))?;
            items.len()
        }
        _ => {
            read_prompt(value, field, reader)?;
            1
        }
    };
    match count {
        0 => Err(format!("`{field}` is empty")),
        count if count > most => Err(format!("`{field}` has {count} prompts, and at most {most} are served")),
        count => Ok(InputCounts::one_each(count)),
    }
}

/// Reads the texts of a text or of a list of parts, those within a part's own `content` included. Parts of another kind are not read.
pub(crate) fn read_parts(value: &Value, field: &str, reader: &mut impl InputReader) -> Result<(), String> {
    match value {
        Value::Null => {}
        Value::String(text) => reader.text(text),
        Value::Array(parts) => {
            for part in parts {
                part.get("text").and_then(Value::as_str).into_iter().for_each(|text| reader.text(text));
                part.get("content").map_or(Ok(()), |content| read_parts(content, field, reader))?;
            }
        }
        _ => return Err(format!("`{field}` is a text or a list of parts")),
    }
    Ok(())
}

fn read_prompt(value: &Value, field: &str, reader: &mut impl InputReader) -> Result<(), String> {
    let wrong = || format!("`{field}` is a text, a list of token ids, or a list of these");
    match value {
        Value::String(text) => reader.text(text),
        Value::Array(ids) => {
            ids.iter().try_for_each(|id| id.as_u64().map(|id| reader.token(id)).ok_or_else(wrong))?;
        }
        _ => return Err(wrong()),
    }
    Ok(())
}
