//! The bytes of responses: pure functions from the request and the plan to bytes.

use std::io::Write as _;

use serde_json::{Value, json};

use crate::draw::{Concern, RequestKey};
use crate::model::Channel;
use crate::server::inference_request::{Endpoint, InferenceRequest, ResponseLength};
use crate::words::push_words;

/// The content type of a stream.
pub(crate) const EVENT_STREAM: &str = "text/event-stream; charset=utf-8";

/// The content type of all other responses.
pub(crate) const JSON: &str = "application/json";

/// The end of a body in chunked encoding.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Returns the reason phrase, which is for people who read the raw bytes.
const fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed",
        413 => "Content Too Large",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        503 => "Service Unavailable",
        _ => "Fault",
    }
}

/// The head of a response.
#[derive(Clone, Copy)]
pub(crate) struct ResponseHead<'a> {
    pub(crate) status: u16,
    pub(crate) content_type: &'a str,
    pub(crate) request_id: Option<&'a str>,
    pub(crate) allow: Option<&'a str>,
    pub(crate) keep_alive: bool,
}

impl ResponseHead<'_> {
    /// Appends the head; `length` is that of the body, or none for chunked encoding.
    pub(crate) fn push(&self, length: Option<usize>, wire: &mut Vec<u8>) {
        push(wire, format_args!("HTTP/1.1 {} {}\r\nserver: assay-simulator\r\n", self.status, reason(self.status)));
        push(wire, format_args!("content-type: {}\r\n", self.content_type));
        if let Some(request_id) = self.request_id {
            push(wire, format_args!("x-request-id: {request_id}\r\n"));
        }
        if let Some(allow) = self.allow {
            push(wire, format_args!("allow: {allow}\r\n"));
        }
        if !self.keep_alive {
            wire.extend_from_slice(b"connection: close\r\n");
        }
        match length {
            Some(length) => push(wire, format_args!("content-length: {length}\r\n\r\n")),
            None => wire.extend_from_slice(b"cache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"),
        }
    }
}

/// Builds the error object that OpenAI's clients expect.
pub(crate) fn error_body(status: u16, message: &str) -> Vec<u8> {
    let kind = match status {
        404 => "NotFoundError",
        429 => "RateLimitError",
        400..=499 => "BadRequestError",
        503 => "ServiceUnavailableError",
        _ => "InternalServerError",
    };
    json!({ "error": { "message": message, "type": kind, "param": null, "code": status } }).to_string().into_bytes()
}

/// Frames one event, given as the text of its data, as one chunk of a chunked body.
pub(crate) fn push_event(data: &[u8], wire: &mut Vec<u8>) {
    push(wire, format_args!("{:x}\r\ndata: ", data.len() + 8));
    wire.extend_from_slice(data);
    wire.extend_from_slice(b"\n\n\r\n");
}

fn push(wire: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a vector cannot fail.
    let _ = wire.write_fmt(text);
}

/// The data that all events of one response share.
pub(crate) struct ResponseBuilder {
    endpoint: Endpoint,
    key: RequestKey,
    answer: ResponseLength,
    prompt_tokens: u32,
    /// Tokens of the prompt that were cached, known once the request is admitted.
    pub(crate) cached_tokens: u32,
    continuous_usage: bool,
    /// `"id":..,"object":..,"created":..,"model":..`
    identity: String,
    reasoning_field: String,
}

impl ResponseBuilder {
    pub(crate) fn new(
        ask: &InferenceRequest,
        key: RequestKey,
        answer: ResponseLength,
        request_id: &str,
        created_s: u64,
        names: (&str, &str),
    ) -> Self {
        let (model, reasoning_field) = names;
        let (prefix, object) = match (ask.endpoint, ask.stream) {
            (Endpoint::Chat, true) => ("chatcmpl", "chat.completion.chunk"),
            (Endpoint::Chat, false) => ("chatcmpl", "chat.completion"),
            (Endpoint::Completions, _) => ("cmpl", "text_completion"),
            (Endpoint::Embeddings, _) => ("embd", "list"),
        };
        let id = Value::String(format!("{prefix}-{request_id}"));
        let model = Value::String(model.to_owned());
        Self {
            endpoint: ask.endpoint,
            key,
            answer,
            prompt_tokens: ask.prompt.tokens,
            cached_tokens: 0,
            continuous_usage: ask.continuous_usage,
            identity: format!(r#""id":{id},"object":"{object}","created":{created_s},"model":{model}"#),
            reasoning_field: reasoning_field.to_owned(),
        }
    }

    /// Builds the first event of a chat stream, which has a role and no token.
    pub(crate) fn role(&self, data: &mut Vec<u8>) -> bool {
        if self.endpoint != Endpoint::Chat {
            return false;
        }
        let delta = r#"{"role":"assistant","content":""}"#;
        push(
            data,
            format_args!(r#"{{{},"choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]"#, self.identity),
        );
        self.continuous(0, data);
        data.push(b'}');
        true
    }

    /// Builds the event of the tokens `from..from + tokens`; `garble` is put before its text.
    pub(crate) fn tokens(&self, from: u32, tokens: u32, channel: Channel, garble: &[u8], data: &mut Vec<u8>) {
        push(data, format_args!(r#"{{{},"choices":[{{"index":0,"#, self.identity));
        match (self.endpoint, channel) {
            (Endpoint::Chat, Channel::Reasoning) => push(data, format_args!(r#""delta":{{"{}":""#, self.reasoning_field)),
            (Endpoint::Chat, Channel::Content) => data.extend_from_slice(br#""delta":{"content":""#),
            _ => data.extend_from_slice(br#""text":""#),
        }
        data.extend_from_slice(garble);
        let start = if channel == Channel::Reasoning { 0 } else { self.answer.reasoning_tokens };
        push_words(self.key, start, from, tokens, data);
        data.extend_from_slice(if self.endpoint == Endpoint::Chat { br#""}"# } else { br#"""# });
        let sent = from.saturating_add(tokens);
        if sent >= self.answer.tokens {
            push(data, format_args!(r#","logprobs":null,"finish_reason":"{}"}}]"#, self.answer.finish_reason));
        } else {
            data.extend_from_slice(br#","logprobs":null,"finish_reason":null}]"#);
        }
        self.continuous(sent, data);
        data.push(b'}');
    }

    fn continuous(&self, sent: u32, data: &mut Vec<u8>) {
        if self.continuous_usage {
            let (prompt, total) = (self.prompt_tokens, self.prompt_tokens.saturating_add(sent));
            push(
                data,
                format_args!(r#","usage":{{"prompt_tokens":{prompt},"total_tokens":{total},"completion_tokens":{sent}}}"#),
            );
        }
    }

    /// Builds the event that has the usage only.
    pub(crate) fn usage_event(&self, data: &mut Vec<u8>) {
        push(data, format_args!(r#"{{{},"choices":[],"usage":{}}}"#, self.identity, self.usage()));
    }

    fn usage(&self) -> Value {
        let (prompt, completion) = (self.prompt_tokens, self.answer.tokens);
        let mut usage = json!({
            "prompt_tokens": prompt,
            "total_tokens": prompt.saturating_add(completion),
            "completion_tokens": completion,
            "prompt_tokens_details": { "cached_tokens": self.cached_tokens },
        });
        if self.answer.reasoning_tokens > 0 {
            usage["completion_tokens_details"] = json!({ "reasoning_tokens": self.answer.reasoning_tokens });
        }
        usage
    }

    /// Builds the complete response of a request that is not streamed; `garble` is put before its text, `padding` bytes of `a`
    /// beside it.
    pub(crate) fn whole(&self, inputs: usize, dimensions: u32, garble: &[u8], padding: u32) -> Vec<u8> {
        let mut body = Vec::new();
        push(&mut body, format_args!("{{{},", self.identity));
        match self.endpoint {
            Endpoint::Embeddings => self.embeddings(inputs, dimensions, &mut body),
            Endpoint::Chat => self.message(garble, &mut body),
            Endpoint::Completions => {
                body.extend_from_slice(br#""choices":[{"index":0,"text":""#);
                body.extend_from_slice(garble);
                push_words(self.key, 0, 0, self.answer.tokens, &mut body);
                body.push(b'"');
            }
        }
        if self.endpoint != Endpoint::Embeddings {
            push(&mut body, format_args!(r#","logprobs":null,"finish_reason":"{}"}}]"#, self.answer.finish_reason));
        }
        if padding > 0 {
            body.extend_from_slice(br#","padding":""#);
            body.resize(body.len() + padding as usize, b'a');
            body.push(b'"');
        }
        push(&mut body, format_args!(r#","usage":{}}}"#, self.usage()));
        body
    }

    fn message(&self, garble: &[u8], body: &mut Vec<u8>) {
        let thought = self.answer.reasoning_tokens;
        body.extend_from_slice(br#""choices":[{"index":0,"message":{"role":"assistant""#);
        if thought > 0 {
            push(body, format_args!(r#","{}":""#, self.reasoning_field));
            push_words(self.key, 0, 0, thought, body);
            body.push(b'"');
        }
        body.extend_from_slice(br#","content":""#);
        body.extend_from_slice(garble);
        push_words(self.key, thought, thought, self.answer.tokens.saturating_sub(thought), body);
        body.extend_from_slice(br#""}"#);
    }

    fn embeddings(&self, inputs: usize, dimensions: u32, body: &mut Vec<u8>) {
        body.extend_from_slice(br#""data":["#);
        for input in 0..inputs as u64 {
            let comma = if input == 0 { "" } else { "," };
            push(body, format_args!(r#"{comma}{{"object":"embedding","index":{input},"embedding":["#));
            for place in 0..u64::from(dimensions) {
                let comma = if place == 0 { "" } else { "," };
                let number = 2.0 * self.key.unit(Concern::Embedding, input * u64::from(dimensions) + place) - 1.0;
                push(body, format_args!("{comma}{number:.6}"));
            }
            body.extend_from_slice(b"]}");
        }
        body.push(b']');
    }
}
