//! Builds the bodies of requests, in the format of OpenAI's API and of compatible servers.

use assay_manifest::{ServingApi, ServingWork};
use serde_json::{Map, Value, json};

/// Builds the body that requests a response of this many tokens to these prompts; one prompt, except for embeddings.
pub(crate) fn request_body(work: &ServingWork, prompts: &[String], output_tokens: Option<u32>) -> Vec<u8> {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(work.model));
    match (work.api, prompts) {
        (ServingApi::Embeddings, prompts) => body.insert("input".to_owned(), json!(prompts)),
        (ServingApi::Chat, prompts) => {
            let messages: Vec<Value> = prompts.iter().map(|prompt| json!({"role": "user", "content": prompt})).collect();
            body.insert("messages".to_owned(), Value::Array(messages))
        }
        (ServingApi::Completions, prompts) => body.insert("prompt".to_owned(), json!(prompts.first())),
    };
    if let Some(tokens) = output_tokens {
        body.insert("max_tokens".to_owned(), json!(tokens));
        // Greedy decoding: the measurement should not depend on a server's random numbers.
        body.insert("temperature".to_owned(), json!(0));
        if work.exact_output {
            body.insert("ignore_eos".to_owned(), json!(true));
            body.insert("min_tokens".to_owned(), json!(tokens));
        }
    }
    if work.is_streamed() {
        body.insert("stream".to_owned(), json!(true));
        let mut options = json!({"include_usage": true});
        if work.continuous_usage {
            options["continuous_usage_stats"] = json!(true);
        }
        body.insert("stream_options".to_owned(), options);
    }
    for (name, text) in &work.body {
        body.insert(name.clone(), parse_scalar(text));
    }
    Value::Object(body).to_string().into_bytes()
}

/// Parses a number or a boolean, or else returns the text.
fn parse_scalar(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serving::requests::tests::work;

    fn build_body(work: &ServingWork, tokens: Option<u32>) -> Value {
        serde_json::from_slice(&request_body(work, &["a \"b\"".to_owned()], tokens)).expect("JSON")
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
