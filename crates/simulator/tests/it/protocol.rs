//! Tests the behaviour that clients of an OpenAI-compatible endpoint rely on.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::prelude::*;

use crate::client::{Client, metrics_until, serve};

const INSTANT: &str = r#"{"model": "m", "seed": "1"}"#;

fn chat(fields: &str) -> String {
    format!(r#"{{"model": "m", "messages": [{{"role": "user", "content": "one two"}}]{fields}}}"#)
}

#[test]
fn resources_are_served() {
    let server = serve(INSTANT);
    let mut client = Client::new(server.address());
    assert_eq!(client.get("/health").status, 200);
    assert_eq!(client.get("/version").json()["version"], env!("CARGO_PKG_VERSION"));
    let models = client.get("/v1/models").json();
    assert_eq!((&models["object"], &models["data"][0]["id"]), (&"list".into(), &"m".into()));
    assert_eq!(client.get("/truth?since=0").header("content-type"), Some("application/x-ndjson"));
    server.stop().expect("a clean end");
}

#[test]
fn adapters_are_listed_and_served_each_with_prompts_of_its_own_in_the_cache() {
    let server = serve(r#"{"model": "m", "adapters": "sql,chat", "prefix_cache": true, "block_tokens": 2}"#);
    let mut client = Client::new(server.address());
    let models = client.get("/v1/models").json();
    let listed: Vec<_> =
        models["data"].as_array().expect("a list").iter().map(|model| (&model["id"], &model["parent"])).collect();
    let (none, base) = (serde_json::Value::Null, "m".into());
    assert_eq!(listed, [(&"m".into(), &none), (&"sql".into(), &base), (&"chat".into(), &base)]);
    let mut cached = |model: &str| {
        let body = format!(r#"{{"model": "{model}", "prompt": "a b c d e", "max_tokens": 1}}"#);
        let reply = client.post("/v1/completions", &body).json();
        assert_eq!(reply["model"], model);
        reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a number")
    };
    assert_eq!(["sql", "sql", "chat", "m", "sql", "m"].map(&mut cached), [0, 4, 0, 0, 4, 4]);
    assert_eq!(client.post("/v1/completions", r#"{"model": "other", "prompt": "a"}"#).status, 404);
    server.stop().expect("a clean end");
}

#[test]
fn a_chat_stream_is_a_role_then_tokens_then_usage_then_done() {
    let server = serve(INSTANT);
    let fields = r#", "stream": true, "max_tokens": 5, "stream_options": {"include_usage": true}"#;
    let headers = [("x-request-id", "abc")];
    let reply = Client::new(server.address()).call("POST", "/v1/chat/completions", &headers, &chat(fields));
    assert_eq!((reply.status, reply.whole), (200, true));
    assert_eq!(reply.header("content-type"), Some("text/event-stream; charset=utf-8"));
    assert_eq!(reply.header("x-request-id"), Some("abc"));
    let documents = reply.documents();
    assert_eq!(documents.len(), 7);
    for document in &documents {
        assert_eq!((&document["id"], &document["model"]), (&"chatcmpl-abc".into(), &"m".into()));
        assert_eq!(document["object"], "chat.completion.chunk");
    }
    assert_eq!(documents[0]["choices"][0]["delta"], serde_json::json!({"role": "assistant", "content": ""}));
    let text: String = reply.tokens().into_iter().map(|(_, text)| text).collect();
    assert_eq!(text.split_whitespace().count(), 5);
    let reasons: Vec<_> = documents[..6].iter().map(|document| document["choices"][0]["finish_reason"].as_str()).collect();
    assert_eq!(reasons, [None, None, None, None, None, Some("length")]);
    let usage = serde_json::json!({
        "prompt_tokens": 2, "completion_tokens": 5, "total_tokens": 7, "prompt_tokens_details": {"cached_tokens": 0}
    });
    assert_eq!((&documents[6]["choices"], &documents[6]["usage"]), (&serde_json::json!([]), &usage));
}

#[test]
fn usage_is_told_only_where_it_was_asked_for() {
    let server = serve(INSTANT);
    let mut client = Client::new(server.address());
    let body = r#"{"model": "m", "prompt": [5, 6, 7], "stream": true, "max_tokens": 3"#;
    let documents = client.post("/v1/completions", &format!("{body}}}")).documents();
    assert_eq!(documents.len(), 3);
    assert!(documents.iter().all(|document| document.get("usage").is_none() && document["object"] == "text_completion"));
    let continuous = r#", "stream_options": {"include_usage": true, "continuous_usage_stats": true}}"#;
    let documents = client.post("/v1/completions", &format!("{body}{continuous}")).documents();
    let counts: Vec<_> = documents.iter().map(|document| document["usage"]["completion_tokens"].as_u64()).collect();
    assert_eq!(counts, [Some(1), Some(2), Some(3), Some(3)]);
    assert!(documents.iter().all(|document| document["usage"]["prompt_tokens"] == 3));
}

#[test]
fn a_response_without_a_stream_holds_the_content_of_a_streamed_one() {
    let server = serve(r#"{"model": "m", "seed": "1", "reasoning_share": 0.5}"#);
    let mut client = Client::new(server.address());
    let headers = [("x-request-id", "same")];
    let whole = client.call("POST", "/v1/chat/completions", &headers, &chat(r#", "max_tokens": 8"#)).json();
    let fields = r#", "max_tokens": 8, "stream": true"#;
    let stream = client.call("POST", "/v1/chat/completions", &headers, &chat(fields)).documents();
    let joined = |field: &str| -> String {
        stream.iter().filter_map(|document| document["choices"][0]["delta"][field].as_str()).collect()
    };
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], joined("content"));
    assert_eq!(message["reasoning_content"], joined("reasoning_content"));
    assert_eq!(joined("reasoning_content").split(' ').count(), 4);
    assert_eq!(joined("content").split(' ').count(), 4);
    assert_eq!(whole["usage"]["completion_tokens_details"]["reasoning_tokens"], 4);
    assert_eq!((&whole["object"], &whole["choices"][0]["finish_reason"]), (&"chat.completion".into(), &"length".into()));
}

#[test]
fn every_input_gets_its_embedding() {
    let server = serve(r#"{"model": "m", "embedding_dimensions": 7}"#);
    let reply = Client::new(server.address()).post("/v1/embeddings", r#"{"model": "m", "input": ["a b", "c"]}"#).json();
    assert_eq!(reply["usage"]["prompt_tokens"], 3);
    let data = reply["data"].as_array().expect("a list");
    let lengths: Vec<_> = data.iter().map(|item| item["embedding"].as_array().map(Vec::len)).collect();
    assert_eq!(lengths, [Some(7), Some(7)]);
    assert_ne!(data[0]["embedding"], data[1]["embedding"]);
}

#[test]
fn every_document_gets_its_score() {
    let server = serve(INSTANT);
    let mut client = Client::new(server.address());
    let body = r#"{"model": "m", "query": "a", "documents": ["b", "c d", "e"], "top_n": 2}"#;
    let reply = client.post("/v1/rerank", body).json();
    assert_eq!((&reply["usage"]["prompt_tokens"], &reply["usage"]["completion_tokens"]), (&7.into(), &serde_json::Value::Null));
    assert_eq!(reply["meta"]["billed_units"]["search_units"], 1);
    let results = reply["results"].as_array().expect("a list");
    let scores: Vec<_> = results.iter().filter_map(|result| result["relevance_score"].as_f64()).collect();
    assert_eq!(scores.len(), 2);
    assert!(scores[0] > scores[1], "{scores:?}");

    let list = client.post("/rerank", r#"{"query": "a", "texts": ["b", "c d", "e"]}"#).json();
    let mut indices: Vec<_> = list.as_array().expect("a list").iter().filter_map(|result| result["index"].as_u64()).collect();
    indices.sort_unstable();
    assert_eq!(indices, [0, 1, 2]);
    assert!(list[0]["score"].is_number());
}

#[test]
fn a_refusal_is_an_error_object_and_leaves_the_connection_as_it_was() {
    let server = serve(INSTANT);
    let mut client = Client::new(server.address());
    let cases = [
        ("POST", "/v1/chat/completions", "{", 400),
        ("POST", "/v1/chat/completions", "", 400),
        ("POST", "/v1/chat/completions", r#"{"model": "m"}"#, 400),
        ("POST", "/v1/completions", r#"{"model": "other", "prompt": "a"}"#, 404),
        ("POST", "/v1/embeddings", r#"{"model": "m", "input": 1}"#, 400),
        ("POST", "/v1/rerank", r#"{"model": "m", "query": "a"}"#, 400),
        ("POST", "/rerank", r#"{"texts": ["a"]}"#, 400),
        ("POST", "/v1/unknown", "", 404),
        ("GET", "/", "", 404),
        ("GET", "/v1/chat/completions", "", 405),
        ("POST", "/v1/models", "", 405),
        ("DELETE", "/metrics", "", 405),
        ("GET", "/reset_prefix_cache", "", 405),
        ("POST", "/stall", r#"{"for_ms": -1}"#, 400),
        ("POST", "/stall", "{}", 400),
        ("GET", "/truth?since=x", "", 400),
    ];
    for (method, path, body, status) in cases {
        let reply = client.call(method, path, &[], body);
        assert_eq!(reply.status, status, "{method} {path} {body}");
        assert_eq!(reply.json()["error"]["code"], status);
        assert!(reply.json()["error"]["message"].as_str().is_some_and(|message| !message.is_empty()));
        assert_eq!(reply.header("allow").is_some(), status == 405);
    }
    let reply = client.call("POST", "/v1/completions", &[("x-assay-fault", "boom")], r#"{"model": "m", "prompt": "a"}"#);
    assert_eq!(reply.status, 400);
    assert_eq!(client.get("/health").status, 200);
}

#[test]
fn what_is_beyond_a_limit_is_refused_and_the_connection_ends() {
    let server = serve(r#"{"model": "m", "max_body": 1000, "max_head": 300}"#);
    let cases = [
        ("POST /v1/completions HTTP/1.1\r\ncontent-length: 1001\r\n\r\n".to_owned(), 413),
        ("POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3e9\r\n".to_owned(), 413),
        (format!("GET /health HTTP/1.1\r\nx: {}", "a".repeat(300)), 431),
        ("not http at all\r\n\r\n".to_owned(), 400),
        ("POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n".to_owned(), 501),
    ];
    for (request, status) in cases {
        let mut client = Client::new(server.address());
        client.send_raw(request.as_bytes());
        let reply = client.receive();
        assert_eq!((reply.status, reply.header("connection")), (status, Some("close")), "{request}");
        assert_eq!(reply.json()["error"]["code"], status);
        assert!(client.read_to_end().is_empty());
    }
}

#[test]
fn a_refused_client_that_goes_on_sending_still_reads_why() {
    let server = serve(r#"{"model": "m", "max_body": 1000}"#);
    let mut client = Client::new(server.address());
    client.send_raw(b"POST /v1/completions HTTP/1.1\r\ncontent-length: 4000000\r\n\r\n");
    client.send_raw(&vec![b'a'; 4_000_000]);
    assert_eq!(client.receive().status, 413);
    assert!(client.read_to_end().is_empty());
}

#[test]
fn pipelined_requests_get_their_responses_in_order() {
    let server = serve(r#"{"model": "m", "profile": "fast"}"#);
    let mut client = Client::new(server.address());
    let body = r#"{"model": "m", "prompt": "a", "max_tokens": 2, "stream": true}"#;
    client.send("POST", "/v1/completions", &[("x-request-id", "first")], body);
    client.send("GET", "/health", &[("x-request-id", "second")], "");
    client.send("POST", "/v1/completions", &[("x-request-id", "third")], body);
    let ids: Vec<_> = (0..3).map(|_| client.receive().header("x-request-id").map(str::to_owned)).collect();
    assert_eq!(ids, ["first", "second", "third"].map(|id| Some(id.to_owned())));
}

#[test]
fn a_body_may_come_in_chunks_and_after_a_word_from_the_server() {
    let server = serve(INSTANT);
    let mut client = Client::new(server.address());
    let body = r#"{"model": "m", "prompt": "a", "max_tokens": 2}"#;
    client.send_raw(b"POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n");
    let (first, second) = body.split_at(9);
    for part in [first, second] {
        client.send_raw(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes());
    }
    client.send_raw(b"0\r\n\r\n");
    assert_eq!(client.receive().status, 200);
    let head = format!("POST /v1/completions HTTP/1.1\r\nexpect: 100-continue\r\ncontent-length: {}\r\n\r\n", body.len());
    client.send_raw(head.as_bytes());
    let mut go_on = [0; 25];
    client.read_exact(&mut go_on);
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    client.send_raw(body.as_bytes());
    assert_eq!(client.receive().status, 200);
}

#[test]
fn a_connection_closes_where_the_client_says_so() {
    let server = serve(INSTANT);
    let body = r#"{"model": "m", "prompt": "a", "max_tokens": 2, "stream": true}"#;
    for (method, path, body) in [("GET", "/health", ""), ("POST", "/v1/completions", body), ("POST", "/v1/completions", "")] {
        let mut client = Client::new(server.address());
        let reply = client.call(method, path, &[("connection", "close")], body);
        assert!(reply.whole && reply.header("connection") == Some("close"));
        assert!(client.read_to_end().is_empty());
    }
    let mut client = Client::new(server.address());
    client.send_raw(b"GET /health HTTP/1.0\r\n\r\n");
    assert_eq!(client.receive().status, 200);
    assert!(client.read_to_end().is_empty());
}

#[test]
fn connections_beyond_the_limit_are_closed_at_once() {
    let server = serve(r#"{"model": "m", "max_connections": 2}"#);
    let mut held: Vec<Client> = (0..2).map(|_| Client::new(server.address())).collect();
    assert!(held.iter_mut().all(|client| client.get("/health").status == 200));
    assert!(Client::new(server.address()).read_to_end().is_empty());
    let text = String::from_utf8(held[0].get("/metrics").body).expect("text");
    assert!(text.contains("\nassay_simulator_refused_connections_total{engine=\"0\",model_name=\"m\"} 1\n"), "{text}");
}

#[test]
fn a_silent_connection_is_closed() {
    let server = serve(r#"{"model": "m", "idle_s": 1}"#);
    let mut client = Client::new(server.address());
    client.send_raw(b"POST /v1/completions HTTP/1.1\r\ncontent-length: 10\r\n\r\nabc");
    assert!(client.read_to_end().is_empty());
}

#[test]
fn who_finds_the_queue_full_is_told() {
    check_full_queue(r#"{"model": "m", "ttft_ms": 3600000, "max_num_seqs": 1, "max_waiting": 1}"#);
    check_full_queue(
        r#"{"model": "m", "profile": "fast-batching", "step_base_ms": 3600000, "max_num_seqs": 1, "max_waiting": 1}"#,
    );
}

fn check_full_queue(settings: &str) {
    let server = serve(settings);
    let body = r#"{"model": "m", "prompt": "a"}"#;
    let mut clients: Vec<Client> = (0..2).map(|_| Client::new(server.address())).collect();
    for client in &mut clients {
        client.send("POST", "/v1/completions", &[], body);
    }
    metrics_until(server.address(), |text| {
        text.contains("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 1.0\n")
            && text.contains("vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 1.0\n")
    });
    assert_eq!(Client::new(server.address()).post("/v1/completions", body).status, 429);
    drop(clients);
    let text = metrics_until(server.address(), |text| {
        text.contains("vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 0.0\n")
            && text.contains("vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 0.0\n")
    });
    assert!(text.contains("model_name=\"m\",finished_reason=\"abort\"} 2\n"), "{text}");
}

#[test]
fn a_request_that_the_cache_could_never_hold_is_refused() {
    let server = serve(r#"{"model": "m", "profile": "fast-batching", "kv_blocks": 3}"#);
    let ask = |max_tokens: u32| {
        let body =
            format!(r#"{{"model": "m", "prompt": "a b c", "max_tokens": {max_tokens}, "ignore_eos": true, "stream": true}}"#);
        Client::new(server.address()).post("/v1/completions", &body)
    };
    let refused = ask(46);
    assert_eq!(refused.status, 400);
    let message = refused.json()["error"]["message"].as_str().expect("a message").to_owned();
    assert_eq!(message, "the maximum context length is 48 tokens; the request has 3 tokens of the prompt and 46 of the response");
    assert_eq!(ask(45).tokens().len(), 45);
}

#[test]
fn an_endpoint_that_is_not_ready_says_so() {
    let server = serve(r#"{"model": "m", "ready_after_ms": 3600000}"#);
    let mut client = Client::new(server.address());
    assert_eq!(client.get("/health").status, 503);
    assert_eq!(client.post("/v1/completions", r#"{"model": "m", "prompt": "a"}"#).status, 503);
    assert_eq!(client.get("/metrics").status, 200);
}

#[test]
fn a_prompt_is_cached_until_the_cache_is_reset() {
    let server = serve(INSTANT);
    let mut client = Client::new(server.address());
    let body = format!(r#"{{"model": "m", "prompt": "{}", "max_tokens": 1}}"#, "word ".repeat(40));
    let mut cached = || client.post("/v1/completions", &body).json()["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    assert_eq!([cached(), cached()], [Some(0), Some(32)]);
    assert_eq!(Client::new(server.address()).post("/reset_prefix_cache", "").status, 200);
    assert_eq!([cached(), cached()], [Some(0), Some(32)]);
}

/// Parses metrics as strictly as the description of the format. Returns the values as written, by name and labels.
fn parse_metrics(text: &str) -> BTreeMap<String, String> {
    let mut types = BTreeMap::new();
    let mut values = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect(line);
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert!(types.insert(name, kind).is_none(), "{line}");
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').expect(line);
            let labelled = series.strip_suffix('}').map(|series| series.split_once('{').expect(line));
            let (name, labels) = labelled.unwrap_or((series, ""));
            let family = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
            assert!(types.contains_key(name) || types.get(family) == Some(&"histogram"), "{line}");
            assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b':'), "{line}");
            for label in labels.split_terminator(',') {
                let (_, value) = label.split_once('=').expect(line);
                assert!(value.len() >= 2 && value.starts_with('"') && value.ends_with('"'), "{line}");
            }
            assert!(value.parse::<f64>().is_ok() && values.insert(series.to_owned(), value.to_owned()).is_none(), "{line}");
        }
    }
    values
}

#[test]
fn the_metrics_count_what_was_asked_for() {
    let now_s = || SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let before_s = now_s();
    let server = serve(r#"{"model": "m", "tokens_per_chunk": 4}"#);
    let mut client = Client::new(server.address());
    for stream in [true, false] {
        let fields = format!(r#", "max_tokens": 9, "ignore_eos": true, "stream": {stream}"#);
        assert_eq!(client.post("/v1/chat/completions", &chat(&fields)).status, 200);
    }
    let fields = r#", "max_tokens": 2000, "min_tokens": 10"#;
    let open = client.post("/v1/chat/completions", &chat(fields)).json();
    assert_eq!(open["choices"][0]["finish_reason"], "stop");
    let open_tokens = open["usage"]["completion_tokens"].as_u64().expect("a number");
    assert_eq!(client.post("/v1/embeddings", r#"{"model": "m", "input": "a b c"}"#).status, 200);
    let metrics = parse_metrics(&String::from_utf8(client.get("/metrics").body).expect("text"));
    let value = |series: &str| {
        let (name, more) = series.split_once(' ').map_or((series, String::new()), |(name, more)| (name, format!(",{more}")));
        metrics[&format!("{name}{{engine=\"0\",model_name=\"m\"{more}}}")].clone()
    };
    let start_s: u64 = metrics["process_start_time_seconds"].parse().expect("whole seconds");
    assert!((before_s..=now_s()).contains(&start_s), "{start_s}");
    assert_eq!(value("vllm:prompt_tokens_total"), "9");
    assert_eq!(value("vllm:generation_tokens_total"), (18 + open_tokens).to_string());
    assert_eq!(value("vllm:request_success_total finished_reason=\"length\""), "2");
    assert_eq!(value("vllm:request_success_total finished_reason=\"stop\""), "2");
    assert_eq!(value("vllm:request_success_total finished_reason=\"abort\""), "0");
    assert_eq!(value("vllm:time_to_first_token_seconds_count"), "3");
    // Nine tokens come as 1, 4 and 4.
    assert_eq!(value("vllm:inter_token_latency_seconds_count"), (4 + (open_tokens - 1).div_ceil(4)).to_string());
    for histogram in ["e2e_request_latency_seconds", "request_queue_time_seconds", "request_prefill_time_seconds"] {
        assert_eq!(value(&format!("vllm:{histogram}_count")), "4", "{histogram}");
        assert_eq!(value(&format!("vllm:{histogram}_bucket le=\"+Inf\"")), "4", "{histogram}");
    }
    assert_eq!(value("vllm:num_requests_running"), "0.0");
    assert_eq!(value("vllm:kv_cache_usage_perc"), "0.0");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_bytes_whatever_end_the_server(
        start in prop::sample::select(vec![
            "", "GET /truth?since= HTTP/1.1\r\n", "POST /v1/completions HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
            "POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 30\r\n\r\n", "POST /stall HTTP/1.1\r\ncontent-length: 9\r\n\r\n",
        ]),
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        thread_local!(static SERVER: assay_simulator::RunningServer = serve(INSTANT));
        SERVER.with(|server| {
            let mut client = Client::new(server.address());
            client.send_raw(start.as_bytes());
            client.send_raw(&bytes);
            client.finish_sending();
            client.read_to_end();
            assert_eq!(Client::new(server.address()).get("/health").status, 200);
        });
    }
}
