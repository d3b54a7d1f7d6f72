//! Scores of documents for a query, in two shapes: Cohere's (`/v1/rerank`), which Jina, vLLM, SGLang and OpenVINO serve too, and that
//! of Text Embeddings Inference (`/rerank`).
//!
//! A model reads each document together with the query, so the tokens of a request are those of all pairs. Servers count them so in
//! `usage`; some count only `total_tokens`, and Cohere counts in `meta`.
//!
//! Sources: Cohere API v2 `POST /v2/rerank`; Jina `POST /v1/rerank`; vLLM `RerankRequest` and `RerankResponse`; Text Embeddings
//! Inference `POST /rerank`, whose request names no model and whose response is a list.

use serde_json::{Map, Value, json};

use crate::api_format::{ApiFormat, Capabilities, InputKind};
use crate::json::{Scan, Scanner};
use crate::received::{InputCounts, InputReader, ReceivedRequest, missing};
use crate::response::{self, InvalidCount, ParsedResponse, TextSink, Usage, array_or_null};
use crate::simulated::{Content, ContentFault, SimulatedResponse, push, push_padding};

/// The maximum documents of a request to a simulated endpoint: Jina's limit.
const MAX_DOCUMENTS: usize = 2_048;
/// The documents that Cohere bills as one search unit.
const DOCUMENTS_PER_SEARCH_UNIT: usize = 100;

/// The properties of both shapes.
const CAPABILITIES: Capabilities = Capabilities {
    path: "/v1/rerank",
    responses: "scores",
    input: InputKind::QueryAndDocuments,
    names_model: true,
    streams: false,
    has_output_tokens: false,
    has_reasoning: false,
    takes_messages: false,
    added_tokens: Some("the endpoint joins query and document by tokens of its own"),
};

pub(crate) struct Rerank;

impl ApiFormat for Rerank {
    const CAPABILITIES: Capabilities = CAPABILITIES;

    fn insert_inputs(query: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
        body.insert("query".to_owned(), json!(query));
        body.insert("documents".to_owned(), json!(inputs));
    }

    /// Reads an object, or a list of scores, with which SGLang responds.
    fn read_document<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
        if scanner.peek()? == b'[' {
            return scanner.array(|scanner| read_score(scanner, response));
        }
        response::read_object::<Self>(scanner, response, keep)
    }

    fn read_member<'a>(
        scanner: &mut Scanner<'a>,
        key: &[u8],
        response: &mut ParsedResponse<'a>,
        _: &mut TextSink<'_>,
    ) -> Scan<()> {
        match key {
            b"results" => array_or_null(scanner, |scanner| read_score(scanner, response)),
            b"meta" => read_meta(scanner, &mut response.usage),
            _ => scanner.skip(),
        }
    }

    /// Reads the tokens of servers that count no others: without output, all tokens are of the input.
    fn read_usage_member(scanner: &mut Scanner<'_>, key: &[u8], usage: &mut Usage) -> Scan<()> {
        if key != b"total_tokens" {
            return scanner.skip();
        }
        let total = usage.read(scanner, InvalidCount::Input)?;
        usage.prompt = usage.prompt.or(total);
        Ok(())
    }

    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
        let documents = request.documents.as_deref().ok_or_else(|| missing("documents"))?;
        let inputs = read_pairs(request, documents, "documents", reader)?;
        Ok(InputCounts { inputs, results: request.top_n.map_or(inputs, |most| inputs.min(most)) })
    }

    fn object_names(_: bool) -> (&'static str, &'static str) {
        ("rerank", "list")
    }

    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        let units = response.plan.counts.inputs.div_ceil(DOCUMENTS_PER_SEARCH_UNIT);
        response.open(body);
        body.extend_from_slice(br#""results":["#);
        for (place, (index, score)) in scores(response, content).into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            push(body, format_args!(r#"{comma}{{"index":{index},"relevance_score":{score:.6}}}"#));
        }
        push(body, format_args!(r#"],"meta":{{"billed_units":{{"search_units":{units}}}}}"#));
        push_padding(fault.padding, body);
        let tokens = response.plan.prompt_tokens;
        push(body, format_args!(r#","usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}}}"#));
    }
}

/// The shape of Text Embeddings Inference.
pub(crate) struct Tei;

impl ApiFormat for Tei {
    const CAPABILITIES: Capabilities = Capabilities { path: "/rerank", names_model: false, ..CAPABILITIES };

    fn insert_inputs(query: Option<&str>, inputs: &[String], body: &mut Map<String, Value>) {
        body.insert("query".to_owned(), json!(query));
        body.insert("texts".to_owned(), json!(inputs));
    }

    /// Reads a list of scores; a server that is not this one may respond with an object.
    fn read_document<'a>(scanner: &mut Scanner<'a>, response: &mut ParsedResponse<'a>, keep: &mut TextSink<'_>) -> Scan<()> {
        Rerank::read_document(scanner, response, keep)
    }

    fn read_member<'a>(
        scanner: &mut Scanner<'a>,
        key: &[u8],
        response: &mut ParsedResponse<'a>,
        keep: &mut TextSink<'_>,
    ) -> Scan<()> {
        Rerank::read_member(scanner, key, response, keep)
    }

    fn read_inputs(request: &ReceivedRequest, reader: &mut impl InputReader) -> Result<InputCounts, String> {
        let texts = request.texts.as_deref().ok_or_else(|| missing("texts"))?;
        let inputs = read_pairs(request, texts, "texts", reader)?;
        Ok(InputCounts { inputs, results: inputs })
    }

    fn object_names(_: bool) -> (&'static str, &'static str) {
        Rerank::object_names(false)
    }

    fn write_unstreamed(response: &SimulatedResponse, content: &impl Content, fault: ContentFault<'_>, body: &mut Vec<u8>) {
        body.push(b'[');
        for (place, (index, score)) in scores(response, content).into_iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            push(body, format_args!(r#"{comma}{{"index":{index},"score":{score:.6}"#));
            // A list has no member beside its elements.
            push_padding(if place == 0 { fault.padding } else { 0 }, body);
            body.push(b'}');
        }
        body.push(b']');
    }
}

/// Counts an element of the results, if it has a score.
fn read_score(scanner: &mut Scanner<'_>, response: &mut ParsedResponse<'_>) -> Scan<()> {
    let mut has_score = false;
    scanner.object(|scanner, key| {
        if matches!(key, b"relevance_score" | b"score") {
            has_score |= matches!(scanner.peek()?, b'-' | b'0'..=b'9');
        }
        scanner.skip()
    })?;
    response.results += usize::from(has_score);
    Ok(())
}

/// Reads the tokens of `meta`, as Cohere counts them: `tokens` are those that were read, `billed_units` those that are paid for.
fn read_meta(scanner: &mut Scanner<'_>, usage: &mut Usage) -> Scan<()> {
    if scanner.null()? {
        return Ok(());
    }
    scanner.object(|scanner, key| {
        if key == b"tokens" {
            usage.prompt = usage.read_detail(scanner, b"input_tokens", InvalidCount::Input)?.or(usage.prompt);
            return Ok(());
        }
        scanner.skip()
    })
}

/// Reads each document together with the query, and returns the number of documents.
fn read_pairs(
    request: &ReceivedRequest,
    documents: &[Value],
    field: &str,
    reader: &mut impl InputReader,
) -> Result<usize, String> {
    let query = request.query.as_deref().ok_or_else(|| missing("query"))?;
    match documents.len() {
        0 => return Err(format!("`{field}` is empty")),
        count if count > MAX_DOCUMENTS => {
            return Err(format!("`{field}` has {count} documents, and at most {MAX_DOCUMENTS} are served"));
        }
        _ => {}
    }
    for document in documents {
        let text = document.as_str().or_else(|| document.get("text")?.as_str());
        reader.text(query);
        reader.text(text.ok_or_else(|| format!("an element of `{field}` is a text or an object with a `text`"))?);
    }
    Ok(documents.len())
}

/// Returns the best documents with their scores, best first.
fn scores(response: &SimulatedResponse, content: &impl Content) -> Vec<(usize, f64)> {
    let counts = response.plan.counts;
    let mut scores: Vec<_> = (0..counts.inputs).map(|index| (index, content.number(index as u64))).collect();
    scores.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    scores.truncate(counts.results);
    scores
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::ServingApi;

    /// Returns the results, the tokens of the input, and the error.
    fn parsed(document: &str) -> (usize, Option<u32>, Option<String>) {
        let parse = |api: ServingApi| api.parse_response(document.as_bytes(), &mut TextSink::Discard).expect(document);
        let (one, other) = (parse(ServingApi::Rerank), parse(ServingApi::RerankTei));
        assert_eq!(one.results, other.results, "{document}");
        (one.results, one.usage.prompt, one.error)
    }

    #[test]
    fn the_responses_of_servers_are_counted() {
        let cohere = r#"{"id":"x","results":[{"index":1,"relevance_score":0.99},{"index":0,"relevance_score":8.4e-6}],"meta":{"api_version":{"version":"2"},"billed_units":{"search_units":1}}}"#;
        assert_eq!(parsed(cohere), (2, None, None));
        let with_tokens = r#"{"results":[{"index":0,"relevance_score":1}],"meta":{"tokens":{"input_tokens":9,"output_tokens":0},"warnings":null}}"#;
        assert_eq!(parsed(with_tokens), (1, Some(9), None));
        let jina = r#"{"model":"m","object":"list","usage":{"total_tokens":15},"results":[{"index":0,"relevance_score":-0.1,"document":{"text":"a"}}]}"#;
        assert_eq!(parsed(jina), (1, Some(15), None));
        let vllm = r#"{"id":"rerank-1","model":"m","usage":{"total_tokens":99,"prompt_tokens":56},"results":[{"index":0,"document":{"text":"a","multi_modal":null},"relevance_score":0.5}]}"#;
        assert_eq!(parsed(vllm), (1, Some(56), None));
        assert_eq!(parsed(r#"[{"index":1,"score":0.9},{"index":0,"score":0.1,"text":"a"}]"#), (2, None, None));
    }

    #[test]
    fn what_is_no_score_is_not_counted() {
        for document in [
            r#"{"results":[]}"#,
            r#"{"results":null,"meta":null,"usage":null}"#,
            r#"{"results":[{"index":0},{"relevance_score":"0.5"},{"score":null}]}"#,
            r#"{"documents":[{"relevance_score":1}]}"#,
            "[]",
        ] {
            assert_eq!(parsed(document), (0, None, None), "{document}");
        }
    }

    #[test]
    fn errors_are_those_of_every_api() {
        assert_eq!(parsed(r#"{"error":"Input is too long","error_type":"Validation"}"#).2.as_deref(), Some("Input is too long"));
        assert_eq!(parsed(r#"{"message":"invalid api token"}"#).2.as_deref(), Some("invalid api token"));
        assert_eq!(parsed(r#"{"detail":"no credit"}"#).2.as_deref(), Some("no credit"));
    }

    #[test]
    fn broken_documents_are_refused() {
        let deep = format!(r#"{{"results":[{}"#, r#"{"score":["#.repeat(100_000));
        for document in
            ["", "5", "{", "[", "[1]", "[[]]", r#"{"results":{}}"#, r#"{"results":[1]}"#, r#"{"meta":[]}"#, "[]x", &deep]
        {
            for api in [ServingApi::Rerank, ServingApi::RerankTei] {
                assert!(api.parse_response(document.as_bytes(), &mut TextSink::Discard).is_err(), "{document}");
            }
        }
    }

    #[test]
    fn bodies_have_the_members_of_their_shape() {
        let body = |api: ServingApi| {
            let extra_body = BTreeMap::from([("top_n".to_owned(), "1".to_owned())]);
            let inputs = ["a \"b\"".to_owned(), "c".to_owned()];
            let request = crate::RequestBody {
                model: "m",
                input: crate::RequestInput::Texts { query: Some("q"), inputs: &inputs },
                output_tokens: None,
                max_output_tokens: None,
                exact_output: true,
                streamed: false,
                continuous_usage: false,
                extra_body: &extra_body,
                extra_members: &Map::new(),
            };
            serde_json::from_slice::<Value>(&api.request_body(&request)).expect("JSON")
        };
        assert_eq!(body(ServingApi::Rerank), json!({"model": "m", "query": "q", "documents": ["a \"b\"", "c"], "top_n": 1}));
        assert_eq!(body(ServingApi::RerankTei), json!({"query": "q", "texts": ["a \"b\"", "c"], "top_n": 1}));
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(bytes in proptest::collection::vec(proptest::sample::select(b"{}[]\",:\\resultscoreindex_v0.9-e null".to_vec()), 0..80)) {
            for api in [ServingApi::Rerank, ServingApi::RerankTei] {
                if let Ok(parsed) = api.parse_response(&bytes, &mut TextSink::Discard) {
                    prop_assert!(parsed.results <= bytes.len());
                }
            }
        }
    }
}
