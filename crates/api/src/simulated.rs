//! The bodies of a simulated endpoint's responses: pure functions from the request and its plan to bytes.

use std::cell::Cell;
use std::io::Write as _;
use std::ops::Range;

use serde_json::{Value, json};

use crate::api_format::ApiFormat;
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
    /// The id, as JSON.
    pub(crate) id: String,
    /// The name of the model, as JSON.
    pub(crate) model: String,
    /// `"id":..,"object":..,"created":..,"model":..`
    identity: String,
    pub(crate) reasoning_field: String,
    /// The number of the next event of a stream whose events have numbers.
    next_number: Cell<u64>,
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
            id: id.to_string(),
            model: model.to_string(),
            reasoning_field: names.reasoning_field.to_owned(),
            next_number: Cell::new(0),
        }
    }

    /// Writes the events of a stream before its first token.
    pub fn write_first_events(&self, events: &mut Vec<u8>) {
        self.plan.api.write_first_events(self, events);
    }

    /// Writes the events of these tokens; `garble` is put before their text.
    pub fn write_tokens(&self, content: &impl Content, run: TokenRun, garble: &[u8], events: &mut Vec<u8>) {
        self.plan.api.write_tokens(self, content, run, garble, events);
    }

    /// Writes the events after the last token, with the usage if the request asks for it.
    pub fn write_last_events(&self, content: &impl Content, includes_usage: bool, events: &mut Vec<u8>) {
        self.plan.api.write_last_events(self, content, includes_usage, events);
    }

    /// Writes the event of these tokens as a choice of a completion.
    pub(crate) fn write_choice<I: ApiFormat>(&self, content: &impl Content, run: TokenRun, garble: &[u8], events: &mut Vec<u8>) {
        push_event(None, events, |event| {
            self.open(event);
            event.extend_from_slice(br#""choices":[{"index":0,"#);
            I::write_delta(run.is_reasoning.then_some(self.reasoning_field.as_str()), event, |event| {
                self.push_text(content, run, garble, event);
            });
            let sent = run.from.saturating_add(run.tokens);
            if sent >= self.plan.output.tokens {
                self.close_choice(event);
            } else {
                event.extend_from_slice(br#","logprobs":null,"finish_reason":null}]"#);
            }
            self.close_event(sent, event);
        });
    }

    /// Writes the text of these tokens, with `garble` before it.
    pub(crate) fn push_text(&self, content: &impl Content, run: TokenRun, garble: &[u8], text: &mut Vec<u8>) {
        text.extend_from_slice(garble);
        content.push_words(self.channel(run.is_reasoning).start, run.from, run.tokens, text);
    }

    /// Returns the tokens of the reasoning or of the content.
    pub(crate) fn channel(&self, is_reasoning: bool) -> Range<u32> {
        let OutputTokens { tokens, reasoning_tokens, .. } = self.plan.output;
        if is_reasoning { 0..reasoning_tokens } else { reasoning_tokens..tokens }
    }

    /// Writes the whole text of the reasoning or of the content.
    pub(crate) fn push_channel(&self, content: &impl Content, is_reasoning: bool, text: &mut Vec<u8>) {
        let channel = self.channel(is_reasoning);
        let run = TokenRun { from: channel.start, tokens: channel.end.saturating_sub(channel.start), is_reasoning };
        self.push_text(content, run, b"", text);
    }

    /// Returns the number of the event that is written next.
    pub(crate) fn next_number(&self) -> u64 {
        self.next_number.replace(self.next_number.get() + 1)
    }

    /// Writes the document that has the usage only.
    pub(crate) fn write_usage_document(&self, event: &mut Vec<u8>) {
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

/// Writes an event of a stream, as server-sent events have it, with its type if it has one. Its data is one line.
pub(crate) fn push_event(kind: Option<&str>, events: &mut Vec<u8>, data: impl FnOnce(&mut Vec<u8>)) {
    if let Some(kind) = kind {
        push(events, format_args!("event: {kind}\n"));
    }
    events.extend_from_slice(b"data: ");
    data(events);
    events.extend_from_slice(b"\n\n");
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
