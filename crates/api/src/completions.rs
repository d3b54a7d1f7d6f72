//! Completions of a text: `/v1/completions`.

use serde_json::{Map, Value, json};

use crate::api_format::{ApiFormat, Capabilities, InputKind};
use crate::generation;
use crate::json::{Scan, Scanner};
use crate::received::{InputCounts, InputReader, ReceivedRequest, read_prompts};
use crate::response::{ParsedResponse, TextSink};
use crate::simulated::{Content, ContentFault, SimulatedResponse};

pub(crate) struct Completions;

impl ApiFormat for Completions {
    const CAPABILITIES: Capabilities = Capabilities {
        path: "/v1/completions",
        responses: "completions",
        input: InputKind::Prompt,
        names_model: true,
        streams: true,
        has_output_tokens: true,
        has_reasoning: false,
        takes_messages: false,
        added_tokens: None,
    };

    fn insert_inputs(_: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
        body.insert("prompt".to_owned(), json!(inputs.first()));
    }

    #[inline]
    fn read_member<'a>(
        scanner: &mut Scanner<'a>,
        key: &[u8],
        response: &mut ParsedResponse<'a>,
        keep: &mut TextSink<'_>,
    ) -> Scan<()> {
        generation::read_member(scanner, key, response, keep)
    }

    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
        read_prompts(request.prompt.as_ref(), "prompt", 1, reader)
    }

    fn object_names(_: bool) -> (&'static str, &'static str) {
        ("cmpl", "text_completion")
    }

    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        response.open(body);
        body.extend_from_slice(br#""choices":[{"index":0,"text":""#);
        body.extend_from_slice(fault.garble);
        content.push_words(0, 0, response.plan.output.tokens, body);
        body.push(b'"');
        response.close_choice(body);
        response.close(fault, body);
    }

    fn write_delta(_: Option<&str>, event: &mut Vec<u8>, text: impl FnOnce(&mut Vec<u8>)) {
        event.extend_from_slice(br#""text":""#);
        text(event);
        event.push(b'"');
    }
}
