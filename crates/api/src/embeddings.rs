//! Embeddings of documents: `/v1/embeddings`.

use serde_json::{Map, Value, json};

use crate::api_format::{ApiFormat, Capabilities, InputKind};
use crate::json::{Scan, Scanner};
use crate::received::{InputCounts, InputReader, ReceivedRequest, read_prompts};
use crate::response::{ParsedResponse, TextSink, count_results};
use crate::simulated::{Content, ContentFault, SimulatedResponse, push};

/// The maximum documents of a request to a simulated endpoint: OpenAI's limit.
const MAX_DOCUMENTS: usize = 2_048;

pub(crate) struct Embeddings;

impl ApiFormat for Embeddings {
    const CAPABILITIES: Capabilities = Capabilities {
        path: "/v1/embeddings",
        responses: "embeddings",
        input: InputKind::Documents,
        names_model: true,
        streams: false,
        has_output_tokens: false,
        has_reasoning: false,
        takes_messages: false,
        added_tokens: None,
    };

    fn insert_inputs(_: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
        body.insert("input".to_owned(), json!(inputs));
    }

    fn read_member<'a>(
        scanner: &mut Scanner<'a>,
        key: &[u8],
        response: &mut ParsedResponse<'a>,
        _: &mut TextSink<'_>,
    ) -> Scan<()> {
        if key == b"data" { count_results(scanner, response) } else { scanner.skip() }
    }

    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
        read_prompts(request.input.as_ref(), "input", MAX_DOCUMENTS, reader)
    }

    fn object_names(_: bool) -> (&'static str, &'static str) {
        ("embd", "list")
    }

    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        let dimensions = u64::from(response.plan.dimensions);
        response.open(body);
        body.extend_from_slice(br#""data":["#);
        for input in 0..response.plan.counts.results as u64 {
            let comma = if input == 0 { "" } else { "," };
            push(body, format_args!(r#"{comma}{{"object":"embedding","index":{input},"embedding":["#));
            for place in 0..dimensions {
                let comma = if place == 0 { "" } else { "," };
                let number = 2.0 * content.number(input * dimensions + place) - 1.0;
                push(body, format_args!("{comma}{number:.6}"));
            }
            body.extend_from_slice(b"]}");
        }
        body.push(b']');
        response.close(fault, body);
    }
}

#[cfg(test)]
mod tests {
    use crate::{ServingApi, TextSink};

    #[test]
    fn embeddings_are_counted() {
        let parsed = ServingApi::Embeddings.parse_response(
            br#"{"object":"list","data":[{"embedding":[0.1,-2e-3],"index":0},{"embedding":"AAAA"}],"usage":{"prompt_tokens":4}}"#,
            &mut TextSink::Discard,
        );
        let parsed = parsed.expect("a document");
        assert_eq!((parsed.results, parsed.usage.prompt), (2, Some(4)));
    }
}
