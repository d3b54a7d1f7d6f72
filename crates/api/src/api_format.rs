//! The trait that each API implements, and the capabilities that it states.

use serde_json::{Map, Value};

use crate::json::{Scan, Scanner};
use crate::received::{InputCounts, InputReader, ReceivedRequest};
use crate::response::{self, ParsedResponse, TextSink, Usage};
use crate::simulated::{Content, ContentFault, SimulatedResponse};

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

/// The format of an API's requests and responses. Every API implements the functions without a default. The others are for APIs that stream, or that differ from
/// OpenAI's.
pub(crate) trait ApiFormat: Sized {
    /// The properties on which other crates base decisions.
    const CAPABILITIES: Capabilities;

    /// Inserts the inputs into the body of a request.
    fn insert_inputs(query: Option<&str>, inputs: &[String], body: &mut Map<String, Value>);

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

    /// Returns the prefix of the ids of simulated responses, and their `object`.
    fn object_names(is_streamed: bool) -> (&'static str, &'static str);

    /// Writes the complete body of a simulated response that is not streamed.
    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>);

    /// Writes the first event of a simulated stream, which has no token. Returns false if the API has no such event.
    fn write_first_event(_: &SimulatedResponse, _: &mut Vec<u8>) -> bool {
        false
    }

    /// Writes the text of an event of a simulated stream, with the member of the event's choice that holds it. `field` is the
    /// name of the reasoning member; `None` if the text is not reasoning.
    fn write_delta(_field: Option<&str>, event: &mut Vec<u8>, text: impl FnOnce(&mut Vec<u8>)) {
        text(event);
    }
}
