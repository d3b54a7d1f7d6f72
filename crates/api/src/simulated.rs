//! The bodies of a simulated endpoint's responses: pure functions from the request and its plan to bytes.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::{InputCounts, ServingApi};

/// The drawn content of a response.
pub trait Content {
    /// Appends the words of the tokens `from..from + tokens`, of a channel that begins with the token `start`. They need no escapes
    /// in JSON.
    fn push_words(&self, start: u32, from: u32, tokens: u32, text: &mut Vec<u8>);

    /// Returns the number at this place, in `[0, 1)`.
    fn number(&self, place: u64) -> f64;
}

/// A fault of a response's text, on purpose.
#[derive(Clone, Copy, Debug, Default)]
pub struct ContentFault<'a> {
    /// Bytes that are put before the text.
    pub garble: &'a [u8],
    /// The bytes of a member that is put beside it.
    pub padding: u32,
}

/// The length of a response and its finish reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutputTokens {
    /// Its tokens; 0 if the API has none.
    pub tokens: u32,
    /// Those at its beginning that are reasoning.
    pub reasoning_tokens: u32,
    /// The finish reason.
    pub finish_reason: &'static str,
}

/// The names in a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponseNames<'a> {
    /// The id of the request.
    pub request_id: &'a str,
    /// The name of the model.
    pub model: &'a str,
    /// The name of the member that holds reasoning.
    pub reasoning_field: &'a str,
}

/// The plan of a response.
#[derive(Clone, Copy, Debug)]
pub struct ResponsePlan {
    /// The API.
    pub api: ServingApi,
    /// True if it is a stream.
    pub is_streamed: bool,
    /// True if each event of the stream has the usage so far.
    pub continuous_usage: bool,
    /// The inputs of the request, and the results of the response.
    pub counts: InputCounts,
    /// The tokens of all inputs together.
    pub prompt_tokens: u32,
    /// The tokens of the response.
    pub output: OutputTokens,
    /// The dimensions of a vector, if the response has vectors.
    pub dimensions: u32,
    /// The Unix time of the response, in seconds.
    pub created_s: u64,
}

/// Tokens of a response that are sent together.
#[derive(Clone, Copy, Debug)]
pub struct TokenRun {
    /// The tokens of the response before them.
    pub from: u32,
    /// Their number.
    pub tokens: u32,
    /// True if they are reasoning.
    pub is_reasoning: bool,
}

/// A response: the data that all of its events share.
#[derive(Debug)]
pub struct SimulatedResponse {
    pub(crate) plan: ResponsePlan,
    /// Tokens of the prompt that were cached, known once the request is admitted.
    pub cached_tokens: u32,
    /// `"id":..,"object":..,"created":..,"model":..`
    identity: String,
    pub(crate) reasoning_field: String,
}

impl SimulatedResponse {
    /// Creates the response of a plan.
    pub fn new(plan: ResponsePlan, names: ResponseNames<'_>) -> Self {
        let (prefix, object) = plan.api.object_names(plan.is_streamed);
        let id = Value::String(format!("{prefix}-{}", names.request_id));
        let model = Value::String(names.model.to_owned());
        let created_s = plan.created_s;
        Self {
            plan,
            cached_tokens: 0,
            identity: format!(r#""id":{id},"object":"{object}","created":{created_s},"model":{model}"#),
            reasoning_field: names.reasoning_field.to_owned(),
        }
    }

    /// Writes the first event of a stream, which has no token. Returns false if the API has no such event.
    pub fn write_first_event(&self, event: &mut Vec<u8>) -> bool {
        self.plan.api.write_first_event(self, event)
    }

    /// Writes the event of these tokens; `garble` is put before their text.
    pub fn write_tokens(&self, content: &impl Content, run: TokenRun, garble: &[u8], event: &mut Vec<u8>) {
        let output = &self.plan.output;
        self.open(event);
        event.extend_from_slice(br#""choices":[{"index":0,"#);
        let start = if run.is_reasoning { 0 } else { output.reasoning_tokens };
        self.plan.api.write_delta(run.is_reasoning.then_some(self.reasoning_field.as_str()), event, |event| {
            event.extend_from_slice(garble);
            content.push_words(start, run.from, run.tokens, event);
        });
        let sent = run.from.saturating_add(run.tokens);
        if sent >= output.tokens {
            self.close_choice(event);
        } else {
            event.extend_from_slice(br#","logprobs":null,"finish_reason":null}]"#);
        }
        self.close_event(sent, event);
    }

    /// Writes the event that has the usage only.
    pub fn write_usage_event(&self, event: &mut Vec<u8>) {
        push(event, format_args!(r#"{{{},"choices":[],"usage":{}}}"#, self.identity, self.usage()));
    }

    /// Returns the complete response of a request that is not streamed.
    pub fn whole(&self, content: &impl Content, fault: ContentFault<'_>) -> Vec<u8> {
        let mut body = Vec::new();
        self.plan.api.write_unstreamed(self, content, fault, &mut body);
        body
    }

    /// Writes the beginning of a document, up to the comma before its first own member.
    pub(crate) fn open(&self, document: &mut Vec<u8>) {
        push(document, format_args!("{{{},", self.identity));
    }

    /// Writes the end of the only choice, with the finish reason.
    pub(crate) fn close_choice(&self, document: &mut Vec<u8>) {
        push(document, format_args!(r#","logprobs":null,"finish_reason":"{}"}}]"#, self.plan.output.finish_reason));
    }

    /// Writes the end of an event after this many tokens of the response, with the usage so far if the request has `continuous_usage_stats`.
    pub(crate) fn close_event(&self, sent: u32, event: &mut Vec<u8>) {
        if self.plan.continuous_usage {
            let (prompt, total) = (self.plan.prompt_tokens, self.plan.prompt_tokens.saturating_add(sent));
            push(
                event,
                format_args!(r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{sent}}}"#),
            );
        }
        event.push(b'}');
    }

    /// Writes the end of a complete response: padding and usage.
    pub(crate) fn close(&self, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        push_padding(fault.padding, body);
        push(body, format_args!(r#","usage":{}}}"#, self.usage()));
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = (self.plan.prompt_tokens, self.plan.output.tokens);
        let mut usage = json!({
            "prompt_tokens": prompt,
            "total_tokens": prompt.saturating_add(completion),
            "completion_tokens": completion,
            "prompt_tokens_details": { "cached_tokens": self.cached_tokens },
        });
        if self.plan.output.reasoning_tokens > 0 {
            usage["completion_tokens_details"] = json!({ "reasoning_tokens": self.plan.output.reasoning_tokens });
        }
        usage
    }
}

/// Writes a member of this many bytes of `a`; none for 0.
pub(crate) fn push_padding(padding: u32, body: &mut Vec<u8>) {
    if padding > 0 {
        body.extend_from_slice(br#","padding":""#);
        body.resize(body.len() + padding as usize, b'a');
        body.push(b'"');
    }
}

pub(crate) fn push(text: &mut Vec<u8>, arguments: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = text.write_fmt(arguments);
}
