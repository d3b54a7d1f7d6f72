//! Builds the bodies of requests.

use assay_api::RequestBody;
use assay_manifest::ServingWork;

/// Builds the body that requests a response of this many tokens to these prompts; one prompt, unless the API takes documents.
pub(crate) fn request_body(work: &ServingWork, query: Option<&str>, prompts: &[String], output_tokens: Option<u32>) -> Vec<u8> {
    work.api.request_body(&RequestBody {
        model: &work.model,
        query,
        inputs: prompts,
        output_tokens,
        exact_output: work.exact_output,
        streamed: work.is_streamed(),
        continuous_usage: work.continuous_usage,
        extra_body: &work.body,
    })
}

#[cfg(test)]
mod tests {
    use assay_manifest::ServingApi;
    use serde_json::{Value, json};

    use super::*;
    use crate::serving::requests::tests::work;

    fn build_body(work: &ServingWork, tokens: Option<u32>) -> Value {
        serde_json::from_slice(&request_body(work, None, &["a \"b\"".to_owned()], tokens)).expect("JSON")
    }

    #[test]
    fn a_chat_asks_for_exactly_so_many_tokens() {
        assert_eq!(
            build_body(&work(), Some(7)),
            json!({
                "model": "m", "messages": [{"role": "user", "content": "a \"b\""}], "max_tokens": 7, "min_tokens": 7,
                "ignore_eos": true, "temperature": 0, "stream": true, "stream_options": {"include_usage": true},
            })
        );
        let plain = ServingWork { exact_output: false, streaming: false, ..work() };
        let expected =
            json!({"model": "m", "messages": [{"role": "user", "content": "a \"b\""}], "max_tokens": 7, "temperature": 0});
        assert_eq!(build_body(&plain, Some(7)), expected);
    }

    #[test]
    fn the_other_interfaces_have_members_of_their_own() {
        let completions = ServingWork { api: ServingApi::Completions, continuous_usage: true, ..work() };
        let body = build_body(&completions, Some(2));
        assert_eq!((&body["prompt"], &body["stream_options"]["continuous_usage_stats"]), (&json!("a \"b\""), &json!(true)));
        let embeddings = ServingWork { api: ServingApi::Embeddings, ..work() };
        assert_eq!(build_body(&embeddings, None), json!({"model": "m", "input": ["a \"b\""]}));
    }

    #[test]
    fn what_the_workload_adds_stands() {
        let added = [("temperature", "0.5"), ("user", "x"), ("logprobs", "true"), ("odd", "[1]")];
        let added = added.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
        let body = build_body(&ServingWork { body: added, ..work() }, Some(1));
        let found = [&body["temperature"], &body["user"], &body["logprobs"], &body["odd"]];
        assert_eq!(found, [&json!(0.5), &json!("x"), &json!(true), &json!("[1]")]);
    }
}
