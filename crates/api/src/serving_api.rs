//! The table of APIs.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::api_format::{ApiFormat, CallRules, Capabilities};
use crate::json::Scan;
use crate::received::{InputCounts, InputReader, ReceivedRequest};
use crate::response::{self, ParsedResponse, TextSink};
use crate::simulated::{Content, ContentFault, SimulatedResponse, TokenRun};

/// The number of characters that an error quotes of a text.
const QUOTED: usize = 80;

/// Declares the APIs: variant, name in workloads, the type that implements it, and what the reference of workloads says of it.
macro_rules! apis {
    ($($variant:ident, $name:literal, $format:ty, $summary:literal;)+) => {
        /// The API of an inference endpoint that is called.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum ServingApi {
            $(#[doc = $summary] #[serde(rename = $name)] $variant),+
        }

        impl ServingApi {
            /// All APIs, in order.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// Returns the name, as workloads write it.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// Returns the line of the reference of workloads.
            pub const fn summary(self) -> &'static str {
                match self { $(Self::$variant => $summary),+ }
            }

            /// Returns the capabilities.
            pub const fn capabilities(self) -> Capabilities {
                match self { $(Self::$variant => <$format>::CAPABILITIES),+ }
            }

            /// Returns the rules of its requests and streams.
            pub const fn rules(self) -> CallRules {
                match self { $(Self::$variant => <$format>::RULES),+ }
            }

            /// Parses a document of a response: an event of a stream, or a complete response. A document of another shape, and
            /// text that is not a string, are errors; unknown keys are validated and skipped.
            #[inline]
            pub fn parse_response<'a>(self, document: &'a [u8], keep: &mut TextSink<'_>) -> Scan<ParsedResponse<'a>> {
                match self { $(Self::$variant => response::parse::<$format>(document, keep)),+ }
            }

            /// Reads the inputs of a request that an endpoint received, and counts them. Fails with the reason for which
            /// an endpoint refuses the request.
            pub fn read_inputs(self, request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
                match self { $(Self::$variant => <$format>::read_inputs(request, reader)),+ }
            }

            pub(crate) fn insert_inputs(self, query: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
                match self { $(Self::$variant => <$format>::insert_inputs(query, inputs, body)),+ }
            }

            /// Returns the limit of output tokens of a request that an endpoint received.
            pub fn limit(self, request: &ReceivedRequest) -> Option<u32> {
                match self { $(Self::$variant => <$format>::limit(request)),+ }
            }

            pub(crate) fn insert_messages(self, messages: &[Value], body: &mut Map<String, Value>) {
                match self { $(Self::$variant => <$format>::insert_messages(messages, body)),+ }
            }

            pub(crate) fn object_names(self, is_streamed: bool) -> (&'static str, &'static str) {
                match self { $(Self::$variant => <$format>::object_names(is_streamed)),+ }
            }

            pub(crate) fn write_first_events(self, response: &SimulatedResponse, events: &mut Vec<u8>) {
                match self { $(Self::$variant => <$format>::write_first_events(response, events)),+ }
            }

            pub(crate) fn write_tokens(
                self,
                response: &SimulatedResponse,
                content: &impl Content,
                run: TokenRun,
                garble: &[u8],
                events: &mut Vec<u8>,
            ) {
                match self { $(Self::$variant => <$format>::write_tokens(response, content, run, garble, events)),+ }
            }

            pub(crate) fn write_last_events(
                self,
                response: &SimulatedResponse,
                content: &impl Content,
                includes_usage: bool,
                events: &mut Vec<u8>,
            ) {
                match self { $(Self::$variant => <$format>::write_last_events(response, content, includes_usage, events)),+ }
            }

            /// Writes the events of an error that ends a simulated stream.
            pub fn write_error_events(self, message: &str, events: &mut Vec<u8>) {
                match self { $(Self::$variant => <$format>::write_error_events(message, events)),+ }
            }

            pub(crate) fn write_unstreamed(
                self,
                response: &SimulatedResponse,
                content: &impl Content,
                fault: ContentFault<'_>,
                body: &mut Vec<u8>,
            ) {
                match self { $(Self::$variant => <$format>::write_unstreamed(response, content, fault, body)),+ }
            }
        }
    };
}

apis! {
    Chat, "chat", crate::chat::Chat, "`/v1/chat/completions`.";
    Completions, "completions", crate::completions::Completions, "`/v1/completions`.";
    Embeddings, "embeddings", crate::embeddings::Embeddings, "`/v1/embeddings`, with the scenario `E(tokens)`.";
    Rerank, "rerank", crate::rerank::Rerank, "`/v1/rerank` of Cohere, Jina, vLLM and SGLang, with the scenario `R(document,query)`.";
    RerankTei, "rerank_tei", crate::rerank::Tei, "`/rerank` of Text Embeddings Inference, with the scenario `R(document,query)`.";
    Responses, "responses", crate::responses::Responses, "`/v1/responses` of OpenAI.";
    Messages, "messages", crate::messages::Messages, "`/v1/messages` of Anthropic.";
    Custom, "custom", crate::custom::Custom, "Any other that responds to a prompt with JSON, as `custom` describes it.";
}

impl ServingApi {
    /// Returns the path. One that begins with `/v1` is below the version of an endpoint's URL, any other is beside it.
    pub const fn path(self) -> &'static str {
        self.capabilities().path
    }

    /// Returns true if requests may have the messages of a chat, which only the endpoint's template turns into a prompt.
    pub const fn takes_messages(self) -> bool {
        self.capabilities().takes_messages
    }

    /// Returns true if a request may have a whole body that a file holds.
    pub const fn takes_whole_bodies(self) -> bool {
        !matches!(self, Self::Custom)
    }

    /// Returns the API at a path of a server.
    pub fn at_path(path: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|api| api.path() == path)
    }

    /// Returns the message of an error's body, if it is JSON with a message.
    pub fn error_message(self, document: &[u8]) -> Option<String> {
        let parsed = self.parse_response(document, &mut TextSink::Discard).ok()?;
        parsed.into_error_message()
    }
}

impl fmt::Display for ServingApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for ServingApi {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().copied().find(|api| api.as_str() == text).ok_or_else(|| {
            let known: Vec<_> = Self::ALL.iter().map(|api| api.as_str()).collect();
            let text: String = text.chars().take(QUOTED).collect();
            format!("`{text}` is not a serving API: expected one of {}", known.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::InputKind;

    #[test]
    fn names_and_paths_are_distinct_and_find_their_api() {
        for api in ServingApi::ALL {
            assert_eq!(api.as_str().parse(), Ok(*api));
            assert_eq!(serde_json::to_value(api).expect("JSON"), api.as_str());
            assert_eq!(ServingApi::at_path(api.path()), Some(*api));
            let names_path = api.summary().starts_with(&format!("`{}`", api.path()));
            assert_eq!(names_path, *api != ServingApi::Custom, "{api}: a workload has the path of its own API");
        }
        assert_eq!(ServingApi::at_path("/v1/models"), None);
        assert_eq!(
            "speech".parse::<ServingApi>(),
            Err("`speech` is not a serving API: expected one of chat, completions, embeddings, rerank, rerank_tei, responses, messages, custom".to_owned())
        );
    }

    #[test]
    fn only_apis_with_output_tokens_stream_and_take_a_prompt() {
        for api in ServingApi::ALL {
            let capabilities = api.capabilities();
            assert_eq!(capabilities.streams, capabilities.has_output_tokens, "{api}");
            assert_eq!(capabilities.input == InputKind::Prompt, capabilities.has_output_tokens, "{api}");
        }
    }
}
