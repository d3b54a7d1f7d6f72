//! The trait that each API implements, and the capabilities that it states.

use serde_json::{Map, Value, json};

use crate::json::{Scan, Scanner};
use crate::received::{InputCounts, InputReader, ReceivedRequest};
use crate::response::{self, ParsedResponse, TextSink, Usage};
use crate::simulated::{Content, ContentFault, SimulatedResponse, TokenRun, push, push_event};

/// The properties of an API on which other crates base decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The path. A leading `/v1` stands for the version of an endpoint's URL; any other path follows the part before the version.
    pub path: &'static str,
    /// The plural noun for responses in messages, such as `embeddings`.
    pub responses: &'static str,
    /// The inputs of a request.
    pub input: InputKind,
    /// True if a request names its model.
    pub names_model: bool,
    /// True if responses can be streamed.
    pub streams: bool,
    /// True if responses have output tokens, which can be counted and timed.
    pub has_output_tokens: bool,
    /// True if responses may begin with reasoning.
    pub has_reasoning: bool,
    /// True if a request may have the messages of a chat.
    pub takes_messages: bool,
    /// The reason why an endpoint counts more tokens of the input than the client sends; none if both count the same.
    pub added_tokens: Option<&'static str>,
}

/// The inputs of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// One prompt.
    Prompt,
    /// Documents, as many as the workload's `batch`.
    Documents,
    /// A query, and documents, as many as the workload's `batch`. A model reads each document together with the query.
    QueryAndDocuments,
}

impl InputKind {
    /// Returns true if a request may have several documents.
    pub const fn has_documents(self) -> bool {
        !matches!(self, Self::Prompt)
    }
}

/// The rules of an API's requests and streams, beside the formats of its documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallRules {
    /// The member of a body that holds the prompt.
    pub prompt_member: &'static str,
    /// The members of a body that limit the output tokens. Requests of Assay have the first one.
    pub limits: &'static [&'static str],
    /// The smallest limit that every known server accepts.
    pub least_limit: u32,
    /// True if servers refuse a request without a limit.
    pub needs_limit: bool,
    /// True if a stream has its usage only if the request asks for it (`stream_options`).
    pub has_stream_options: bool,
    /// True if servers keep responses for later requests unless a request says otherwise (`store`).
    pub stores_responses: bool,
    /// True if the messages of a conversation may have the reasoning of earlier responses (`reasoning_content`).
    pub takes_reasoning: bool,
    /// Headers that each request has, unless the user sets them.
    pub headers: &'static [(&'static str, &'static str)],
    /// The header of an API key.
    pub key_header: &'static str,
    /// The word before the key, if it has one.
    pub key_scheme: Option<&'static str>,
    /// The event that ends a stream, for messages.
    pub last_event: &'static str,
}

impl CallRules {
    /// OpenAI's completions, which most APIs have in common.
    pub(crate) const OPENAI: Self = Self {
        prompt_member: "prompt",
        limits: &["max_tokens", "max_completion_tokens"],
        least_limit: 1,
        needs_limit: false,
        has_stream_options: true,
        stores_responses: false,
        takes_reasoning: false,
        headers: &[],
        key_header: "authorization",
        key_scheme: Some("Bearer"),
        last_event: "[DONE]",
    };
}

/// The format of an API's requests and responses. Every API implements the functions without a default. The others are for APIs that stream, or that differ from
/// OpenAI's.
pub(crate) trait ApiFormat: Sized {
    /// The properties on which other crates base decisions.
    const CAPABILITIES: Capabilities;

    /// The rules of its requests and streams.
    const RULES: CallRules = CallRules::OPENAI;

    /// Inserts the inputs into the body of a request.
    fn insert_inputs(query: Option<&str>, inputs: &[String], body: &mut Map<String, Value>);

    /// Inserts the messages of a chat into the body of a request, if the API takes them.
    fn insert_messages(messages: &[Value], body: &mut Map<String, Value>) {
        body.insert("messages".to_owned(), Value::Array(messages.to_vec()));
    }

    /// Reads or skips the value of one member of a response, if not all APIs have this member.
    fn read_member<'a>(
        scanner: &mut Scanner<'a>,
        key: &[u8],
        response: &mut ParsedResponse<'a>,
        keep: &mut TextSink<'_>,
    ) -> Scan<()>;

    /// Reads the JSON document of a response: an object, or the other kind of value that the API returns, such as a list.
    #[inline]
    fn read_document<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
        response::read_object::<Self>(scanner, response, keep)
    }

    /// Reads or skips the value of one member of `usage`, if not all APIs have this member.
    fn read_usage_member(scanner: &mut Scanner<'_>, _key: &[u8], _usage: &mut Usage) -> Scan<()> {
        scanner.skip()
    }

    /// Reads the inputs of a request that an endpoint received, and counts them.
    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String>;

    /// Returns the limit of output tokens of a request that an endpoint received.
    fn limit(request: &ReceivedRequest) -> Option<u32> {
        request.max_completion_tokens.or(request.max_tokens)
    }

    /// Returns the prefix of the ids of simulated responses, and their `object`.
    fn object_names(is_streamed: bool) -> (&'static str, &'static str);

    /// Writes the complete body of a simulated response that is not streamed.
    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>);

    /// Writes the events of a simulated stream before its first token.
    fn write_first_events(_: &SimulatedResponse, _: &mut Vec<u8>) {}

    /// Writes the events of these tokens of a simulated stream; `garble` is put before their text.
    fn write_tokens(response: &SimulatedResponse, content: &impl Content, run: TokenRun, garble: &[u8], events: &mut Vec<u8>) {
        response.write_choice::<Self>(content, run, garble, events);
    }

    /// Writes the events of a simulated stream after its last token, with its usage if the request asks for it.
    fn write_last_events(response: &SimulatedResponse, _: &impl Content, includes_usage: bool, events: &mut Vec<u8>) {
        if includes_usage {
            push_event(None, events, |data| response.write_usage_document(data));
        }
        push_event(None, events, |data| data.extend_from_slice(b"[DONE]"));
    }

    /// Writes the events of an error that ends a simulated stream.
    fn write_error_events(message: &str, events: &mut Vec<u8>) {
        let error = json!({"error": {"message": message, "type": "InternalServerError", "param": null, "code": 500}});
        push_event(None, events, |data| push(data, format_args!("{error}")));
        push_event(None, events, |data| data.extend_from_slice(b"[DONE]"));
    }

    /// Writes the text of a choice of a simulated stream, with the member that holds it. `field` is the name of the reasoning member; `None` if
    /// the text is not reasoning.
    fn write_delta(_field: Option<&str>, event: &mut Vec<u8>, text: impl FnOnce(&mut Vec<u8>)) {
        text(event);
    }
}
