//! Complete responses in the formats of real servers, cut at every byte.

use proptest::prelude::*;

use super::*;
use crate::{Arrivals, ChunkLists, Connections, Endpoint, MeasuredLimits};

mod apis;

/// The only stamp of these tests.
const AT: i64 = 5_000;

fn trial(api: ServingApi, streaming: bool) -> Trial {
    Trial {
        endpoint: Endpoint::parse("http://127.0.0.1:1").expect("an endpoint"),
        api,
        custom: None,
        streaming,
        arrivals: Arrivals::Closed { users: 1 },
        start_at_ns: 0,
        warmup_ns: 0,
        measured: MeasuredLimits::default(),
        late_read_ns: 25_000_000,
        over_saturation: None,
        stop_on_errors: None,
        sessions: None,
        connections: Connections::Pooled,
        timeout_ns: 1,
        drain_ns: 0,
        chunk_lists: ChunkLists::All,
        capture: Capture::Full,
        user_agent: "test".to_owned(),
    }
}

/// Follows a response that comes in these pieces; if it does not end by itself, the connection closes.
fn follow_pieces<'a>(trial: &Trial, pieces: impl IntoIterator<Item = &'a [u8]>) -> (ResponseEnd, Row) {
    let mut reader = Reader::new(trial, Budget::new(MAX_HELD_BYTES));
    reader.reset(true, false, None);
    let mut row = Row::default();
    for piece in pieces {
        if let Some(ending) = reader.take(piece, AT, &mut row) {
            return (ending, row);
        }
    }
    (reader.close(None, AT, &mut row), row)
}

#[test]
fn responses_without_end_hold_no_more_than_their_budget_together() {
    const READERS: usize = 40;
    let limit = 8 << 20;
    let (trial, budget) = (trial(ServingApi::Embeddings, false), Budget::new(limit));
    let mut open: Vec<_> = (0..READERS).map(|_| (Reader::new(&trial, budget.clone()), Row::default(), None)).collect();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"data\":[";
    let piece = "0.25,".repeat(20_000);
    for (reader, row, _) in &mut open {
        reader.reset(true, false, None);
        assert_eq!(reader.take(head.as_bytes(), AT, row), None);
    }
    let mut most = 0;
    // Each comes to 3 MB: two of them fit.
    for _ in 0..30 {
        for (reader, row, ended) in open.iter_mut().filter(|(_, _, ended)| ended.is_none()) {
            *ended = reader.take(piece.as_bytes(), AT, row);
        }
        most = most.max(open.iter().map(|(reader, row, _)| reader.held_bytes(row)).sum::<u64>());
    }
    // The step that is free, for each.
    assert!(most <= limit + READERS as u64 * (64 << 10), "{most}");
    let ended: Vec<_> = open.iter().filter_map(|(_, _, ended)| ended.as_ref()).collect();
    assert!((1..READERS).contains(&ended.len()), "those that fit go on: {}", ended.len());
    for ended in ended {
        assert_eq!((ended.outcome, ended.reusable), (Outcome::EventTooLarge, false));
        let reason = ended.reason.as_deref().unwrap_or_default();
        assert_eq!(reason, "the unfinished responses of this client hold more than its limit of 8388608 bytes together");
    }
}

#[test]
fn a_stream_without_end_ends_at_the_limit_of_a_response() {
    let trial = trial(ServingApi::Chat, true);
    let mut reader = Reader::new(&trial, Budget::new(MAX_HELD_BYTES));
    reader.reset(true, false, None);
    let mut row = Row::default();
    let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    assert_eq!(reader.take(head, AT, &mut row), None);
    // Comments are no events, so that no other limit holds for them.
    let comment = b": a\n".repeat(1 << 10);
    row.record.response_bytes = (MAX_RESPONSE_BYTES - comment.len()) as u64;
    assert_eq!(reader.take(&comment, AT, &mut row), None, "the limit itself is allowed");
    let ended = reader.take(b": a\n", AT, &mut row).expect("an end");
    assert_eq!((ended.outcome, ended.reusable), (Outcome::EventTooLarge, false));
    assert_eq!(ended.reason.as_deref(), Some("the response is larger than this client's limit of 1073741824 bytes"));
}

#[test]
fn a_response_that_is_over_keeps_no_large_buffer() {
    let trial = trial(ServingApi::Embeddings, false);
    let mut reader = Reader::new(&trial, Budget::new(MAX_HELD_BYTES));
    let mut row = Row::default();
    reader.reset(true, false, None);
    let wire = document(&format!("{{\"data\":[{}]}}", vec!["0.25"; 200_000].join(",")));
    let ended = wire.chunks(60_000).find_map(|piece| reader.take(piece, AT, &mut row));
    assert!(ended.is_some());
    assert!(reader.held_bytes(&Row::default()) <= 16 << 10, "the connection is idle");
}

/// Returns the response to a streamed request, in chunks of one event, as most servers frame it.
fn streamed(events: &[&str]) -> Vec<u8> {
    let mut wire =
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for event in events {
        wire.extend_from_slice(format!("{:x}\r\ndata: {event}\n\n\r\n", event.len() + 8).as_bytes());
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

fn document(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// Formats outcome, token events, tokens with their source, finish reason and text.
fn describe(ending: &ResponseEnd, row: &Row) -> String {
    let record = &row.record;
    format!(
        "{} events={} tokens={:?}/{} cached={:?} reasoning={:?} first={:?} finish={} text={}",
        ending.outcome,
        record.token_events,
        record.output_tokens,
        record.output_source,
        record.cached_tokens,
        record.reasoning_tokens,
        record.first_event_tokens,
        record.finish_reason.as_deref().unwrap_or("-"),
        String::from_utf8_lossy(&row.text),
    )
}

const VLLM: &[&str] = &[
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":", \"you\""},"logprobs":null,"finish_reason":null,"token_ids":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"length","stop_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":12,"total_tokens":17,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":8}}}"#,
    "[DONE]",
];
const VLLM_CONTINUOUS: &[&str] = &[
    r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}],"usage":{"prompt_tokens":12,"total_tokens":12,"completion_tokens":0}}"#,
    r#"{"choices":[{"index":0,"delta":{"reasoning":"a b"}}],"usage":{"prompt_tokens":12,"total_tokens":14,"completion_tokens":2}}"#,
    r#"{"choices":[{"index":0,"delta":{"content":""}}],"usage":{"prompt_tokens":12,"total_tokens":15,"completion_tokens":3}}"#,
    r#"{"choices":[{"index":0,"delta":{"content":"\u00e9"}}],"usage":{"prompt_tokens":12,"total_tokens":16,"completion_tokens":4}}"#,
    r#"{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"total_tokens":17,"completion_tokens":5}}"#,
    r#"{"choices":[],"usage":{"prompt_tokens":12,"total_tokens":17,"completion_tokens":5}}"#,
    "[DONE]",
];
const SGLANG: &[&str] = &[
    r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}"#,
    r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":null,"content":null,"reasoning_content":"think","tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}"#,
    r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":null,"content":"done","reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":null,"matched_stop":null}],"usage":null}"#,
    r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":null,"content":null,"reasoning_content":null,"tool_calls":null},"logprobs":null,"finish_reason":"stop","matched_stop":151645}],"usage":null}"#,
    r#"{"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":9,"total_tokens":20,"completion_tokens":11,"prompt_tokens_details":null,"reasoning_tokens":6}}"#,
    "[DONE]",
];
const TGI: &[&str] = &[
    r#"{"object":"chat.completion.chunk","id":"","created":1,"model":"m","system_fingerprint":"3.0","choices":[{"index":0,"delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    r#"{"object":"chat.completion.chunk","id":"","created":1,"model":"m","system_fingerprint":"3.0","choices":[{"index":0,"delta":{"role":"assistant","content":"b"},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":4,"completion_tokens":2,"total_tokens":6}}"#,
    "[DONE]",
];
const OPENAI_TOOLS: &[&str] = &[
    r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","service_tier":"default","system_fingerprint":"fp","choices":[{"index":0,"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"get","arguments":""}}],"refusal":null},"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"abc"}"#,
    r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]},"logprobs":null,"finish_reason":null}],"usage":null}"#,
    r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"tool_calls"}],"usage":null}"#,
    r#"{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":7,"total_tokens":10,"prompt_tokens_details":{"cached_tokens":0,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}}"#,
    "[DONE]",
];
const LLAMA_CPP: &[&str] = &[
    r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"c","model":"m","system_fingerprint":"b1","object":"chat.completion.chunk"}"#,
    r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hi"}}],"created":1,"id":"c","model":"m","object":"chat.completion.chunk"}"#,
    r#"{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"c","model":"m","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":5,"total_tokens":7},"timings":{"prompt_n":5,"prompt_ms":1.25e1,"predicted_n":2}}"#,
    "[DONE]",
];
const OLLAMA: &[&str] = &[
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"Okay"},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}"#,
    r#"{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}"#,
    "[DONE]",
];
const COMPLETIONS: &[&str] = &[
    r#"{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":" one","logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}"#,
    r#"{"id":"cmpl-1","object":"text_completion","created":1,"model":"m","choices":[{"index":0,"text":"\ntwo","logprobs":null,"finish_reason":"length","stop_reason":null}],"usage":null}"#,
    "[DONE]",
];

/// The format of each server, and the expected record.
const SHAPES: &[(&[&str], &str)] = &[
    (VLLM, "ok events=2 tokens=Some(5)/usage cached=Some(8) reasoning=None first=None finish=length text=Hello, \"you\""),
    (
        VLLM_CONTINUOUS,
        "ok events=2 tokens=Some(5)/continuous_usage cached=None reasoning=None first=Some(2) finish=stop text=a b\u{e9}",
    ),
    (SGLANG, "ok events=2 tokens=Some(11)/usage cached=None reasoning=Some(6) first=None finish=stop text=thinkdone"),
    (TGI, "ok events=2 tokens=Some(2)/usage cached=None reasoning=None first=None finish=length text=ab"),
    (
        OPENAI_TOOLS,
        "ok events=2 tokens=Some(7)/usage cached=Some(0) reasoning=Some(0) first=None finish=tool_calls text=get{\"x\":1}",
    ),
    (LLAMA_CPP, "ok events=1 tokens=Some(2)/usage cached=None reasoning=None first=None finish=stop text=Hi"),
    (OLLAMA, "ok events=2 tokens=Some(2)/chunks cached=None reasoning=None first=None finish=stop text=OkayHi"),
    (COMPLETIONS, "ok events=2 tokens=Some(2)/chunks cached=None reasoning=None first=None finish=length text= one\ntwo"),
];

#[test]
fn the_shapes_of_servers_are_understood() {
    let trial = trial(ServingApi::Chat, true);
    for (events, expected) in SHAPES {
        let (ending, row) = follow_pieces(&trial, [streamed(events).as_slice()]);
        assert_eq!(describe(&ending, &row), *expected);
        assert!(ending.reusable);
    }
}

#[test]
fn the_places_where_a_response_is_cut_make_no_difference() {
    let trial = trial(ServingApi::Chat, true);
    for (events, _) in SHAPES {
        let wire = streamed(events);
        let whole = follow_pieces(&trial, [wire.as_slice()]);
        let same = |pieces: &mut dyn Iterator<Item = &[u8]>| {
            let (ending, row) = follow_pieces(&trial, pieces);
            assert_eq!((&ending, &row.record, &row.text), (&whole.0, &whole.1.record, &whole.1.text));
        };
        for cut in 0..wire.len() {
            same(&mut [&wire[..cut], &wire[cut..]].into_iter());
        }
        same(&mut wire.chunks(1));
        // A server that drips a response after an informational head, with other line endings.
        let early = [b"HTTP/1.1 100 Continue\r\n\r\n".as_slice(), &wire].concat();
        let (ending, row) = follow_pieces(&trial, early.chunks(1));
        assert_eq!((ending.outcome, &row.text), (Outcome::Ok, &whole.1.text));
    }
}

#[test]
fn nothing_is_found_behind_the_end_of_a_response() {
    let trial = trial(ServingApi::Chat, true);
    let token = r#"{"choices":[{"index":0,"delta":{"content":"a"}}]}"#;
    let wire = streamed(&[token, "{", token]);
    let (record, text) = record_of(&trial, &wire, wire.len());
    assert_eq!((record.outcome, record.token_events, text.as_slice()), (Outcome::Malformed, 1, b"a".as_slice()));
    for piece in 1..=wire.len() {
        assert_eq!(record_of(&trial, &wire, piece), (record.clone(), text.clone()), "in pieces of {piece} bytes");
        assert_eq!(follow(&trial, &wire, piece, 2), 2, "in pieces of {piece} bytes");
    }
}

#[test]
fn a_long_head_without_an_end_is_malformed_however_it_is_cut() {
    let trial = trial(ServingApi::Chat, true);
    let wire = format!("HTTP/1.1 200 OK\r\nx: {}\0", "y".repeat(EAGER_HEAD_BYTES));
    for piece in [1, 100, wire.len()] {
        assert_eq!(record_of(&trial, wire.as_bytes(), piece).0.outcome, Outcome::Malformed, "in pieces of {piece} bytes");
    }
}

/// Returns the next number of a sequence that is the same in every run (SplitMix64).
fn next_number(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

/// Damages a response at some places: a byte is replaced, removed or repeated, or a part is moved.
fn damage(wire: &mut Vec<u8>, state: &mut u64) {
    const BYTES: &[u8] = b"\r\n:{}[]\"\\0fd \xff\0";
    for _ in 0..=next_number(state) % 4 {
        let at = next_number(state) as usize % wire.len();
        let byte = BYTES[next_number(state) as usize % BYTES.len()];
        match next_number(state) % 4 {
            0 => wire[at] = byte,
            1 => drop(wire.remove(at)),
            2 => wire.insert(at, byte),
            _ => wire.rotate_left(at),
        }
    }
}

#[test]
fn damaged_responses_read_the_same_in_pieces_of_any_size() {
    const CASES: u64 = 60;
    let trial = trial(ServingApi::Chat, true);
    for (shape, (events, _)) in SHAPES.iter().enumerate() {
        for case in 0..CASES {
            let mut state = shape as u64 * CASES + case;
            let mut wire = streamed(events);
            let head = wire.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
            // In three of four the head stays whole, so that the damage reaches the parsers behind it.
            let mut body = wire.split_off(if case % 4 == 0 { 0 } else { head });
            damage(&mut body, &mut state);
            wire.append(&mut body);
            let whole = record_of(&trial, &wire, wire.len());
            for piece in 1..=16 {
                assert_eq!(record_of(&trial, &wire, piece), whole, "shape {shape}, case {case}, in pieces of {piece} bytes");
            }
        }
    }
}

#[test]
fn events_of_one_read_have_one_stamp() {
    let trial = trial(ServingApi::Chat, true);
    let mut reader = Reader::new(&trial, Budget::new(MAX_HELD_BYTES));
    reader.reset(true, false, None);
    let mut row = Row::default();
    let wire = streamed(VLLM_CONTINUOUS);
    // The second token event (its text is an escaped letter) begins the second read; the earlier bytes came with the first.
    let cut = wire.windows(6).position(|window| window == b"\\u00e9").expect("the letter");
    assert_eq!(reader.take(&wire[..cut], 100, &mut row), None);
    let ending = reader.take(&wire[cut..], 250, &mut row).expect("an end");
    let record = &row.record;
    assert_eq!(
        (record.first_byte_ns, record.first_token_ns, record.first_content_ns, record.last_token_ns),
        (Some(100), Some(100), Some(250), Some(250))
    );
    assert_eq!(ending.at_ns, 250);
    assert_eq!(record.chunks, [Chunk { at_ns: 100, bytes: 3, tokens: Some(2) }, Chunk { at_ns: 250, bytes: 2, tokens: Some(2) }]);

    let (_, row) = follow_pieces(&trial, [wire.as_slice()]);
    assert!(row.record.chunks.iter().all(|chunk| chunk.at_ns == AT));
}

#[test]
fn tokens_of_an_event_are_known_only_where_the_events_before_said_theirs() {
    let trial = trial(ServingApi::Chat, true);
    let wire = streamed(&[
        r#"{"choices":[{"delta":{"content":"a"}}]}"#,
        r#"{"choices":[{"delta":{"content":"b"}}],"usage":{"completion_tokens":5}}"#,
        r#"{"choices":[{"delta":{"content":"c"}}],"usage":{"completion_tokens":8}}"#,
        r#"{"choices":[{"delta":{"content":"d"}}]}"#,
        r#"{"choices":[{"delta":{"content":"e"}}],"usage":{"completion_tokens":10}}"#,
        "[DONE]",
    ]);
    let (_, row) = follow_pieces(&trial, [wire.as_slice()]);
    let tokens: Vec<_> = row.record.chunks.iter().map(|chunk| chunk.tokens).collect();
    assert_eq!(tokens, [None, None, Some(3), None, None]);
    assert_eq!((row.record.output_tokens, row.record.output_source), (Some(10), TokenSource::Usage));
}

#[test]
fn a_token_count_that_falls_within_a_stream_is_malformed() {
    let reason = |first: &str, then: &str| {
        let [first, then] =
            [first, then].map(|usage| format!(r#"{{"choices":[{{"delta":{{"content":"a"}}}}],"usage":{{{usage}}}}}"#));
        let wire = streamed(&[&first, &then, "[DONE]"]);
        let (ending, row) = follow_pieces(&trial(ServingApi::Chat, true), [wire.as_slice()]);
        assert_eq!((ending.outcome, row.record.token_events), (Outcome::Malformed, 1));
        assert!(!ending.reusable);
        ending.reason.unwrap_or_default()
    };
    assert_eq!(
        reason(r#""completion_tokens":10"#, r#""completion_tokens":7"#),
        "the endpoint's count of completion tokens falls from 10 to 7 within the stream"
    );
    assert_eq!(
        reason(r#""prompt_tokens":12"#, r#""prompt_tokens":0"#),
        "the endpoint's count of prompt tokens falls from 12 to 0 within the stream"
    );
    assert_eq!(
        reason(r#""prompt_tokens_details":{"cached_tokens":8}"#, r#""prompt_tokens_details":{"cached_tokens":4}"#),
        "the endpoint's count of cached tokens falls from 8 to 4 within the stream"
    );
    assert_eq!(
        reason(r#""reasoning_tokens":3"#, r#""reasoning_tokens":2"#),
        "the endpoint's count of reasoning tokens falls from 3 to 2 within the stream"
    );
}

/// Returns the record of a response whose request allows at most this many tokens.
fn limited(streaming: bool, limit: Option<u64>, wire: &[u8]) -> Record {
    let trial = trial(ServingApi::Chat, streaming);
    let mut reader = Reader::new(&trial, Budget::new(MAX_HELD_BYTES));
    reader.reset(true, false, limit);
    let mut row = Row::default();
    let ending = reader.take(wire, AT, &mut row).unwrap_or_else(|| reader.close(None, AT, &mut row));
    Record { outcome: ending.outcome, error: ending.reason, ..row.record }
}

/// Formats the output tokens with their source, the count that is not used, and the reason.
fn describe_usage(record: &Record) -> String {
    assert_eq!((record.outcome, record.error.as_deref()), (Outcome::Ok, None), "an unusable count is no failure");
    let text = |count: Option<i64>| count.map_or_else(|| "-".to_owned(), |count| count.to_string());
    let (tokens, claimed) = (text(record.output_tokens.map(i64::from)), text(record.output_tokens_claimed));
    format!("{tokens} {} claimed={claimed} {}", record.output_source, record.usage_fault)
}

const ONE_TOKEN: &str = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"length"}]}"#;

#[test]
fn a_count_that_contradicts_its_request_is_not_used_and_stays_in_the_record() {
    let usage = |count: &str| format!(r#"{{"choices":[],"usage":{{"prompt_tokens":3,"completion_tokens":{count}}}}}"#);
    let streams = |limit, count: &str| {
        let wire = streamed(&[ONE_TOKEN, ONE_TOKEN, &usage(count), "[DONE]"]);
        describe_usage(&limited(true, limit, &wire))
    };
    assert_eq!(streams(Some(8), "8"), "8 usage claimed=- none");
    assert_eq!(streams(Some(8), "9"), "9 usage claimed=- none", "some servers generate one token more");
    assert_eq!(streams(Some(8), "10"), "2 chunks claimed=10 output_exceeds_limit");
    assert_eq!(streams(Some(8), "4000000000"), "2 chunks claimed=4000000000 output_exceeds_limit");
    assert_eq!(streams(Some(8), "5000000000"), "2 chunks claimed=5000000000 output_exceeds_limit", "beyond 32 bits as well");
    assert_eq!(streams(None, "4000000000"), "4000000000 usage claimed=- none", "nothing says otherwise");
    assert_eq!(streams(None, "5000000000"), "2 chunks claimed=5000000000 output_not_a_count");
    assert_eq!(streams(Some(8), "-7"), "2 chunks claimed=-7 output_not_a_count");
    assert_eq!(streams(Some(8), r#""8""#), "2 chunks claimed=- output_not_a_count");
    assert_eq!(streams(Some(8), "1e3"), "2 chunks claimed=- output_not_a_count");
    assert_eq!(streams(Some(1), "0"), "2 chunks claimed=0 output_is_zero");
    let twenty = usage("20");
    let many = [vec![ONE_TOKEN; 20], vec![twenty.as_str(), "[DONE]"]].concat();
    assert_eq!(
        describe_usage(&limited(true, Some(8), &streamed(&many))),
        "20 usage claimed=- none",
        "the client saw that as much came"
    );
    let whole = |limit, count: &str| {
        let body = format!(r#"{{"choices":[{{"message":{{"content":"ab"}}}}],"usage":{{"completion_tokens":{count}}}}}"#);
        describe_usage(&limited(false, limit, &document(&body)))
    };
    assert_eq!(whole(Some(8), "9"), "9 usage claimed=- none");
    assert_eq!(whole(Some(8), "10"), "- unknown claimed=10 output_exceeds_limit", "a whole response has no events");
}

#[test]
fn chunk_counts_that_lead_to_an_unusable_count_are_not_used_either() {
    let event = |count: u32| format!(r#"{{"choices":[{{"delta":{{"content":"a"}}}}],"usage":{{"completion_tokens":{count}}}}}"#);
    let (first, second) = (event(1_000), event(2_000));
    let record = limited(true, Some(8), &streamed(&[&first, &second, "[DONE]"]));
    assert_eq!(describe_usage(&record), "2 chunks claimed=2000 output_exceeds_limit");
    assert_eq!((record.first_event_tokens, record.chunks.iter().filter_map(|chunk| chunk.tokens).count()), (None, 0));
    let record = limited(true, None, &streamed(&[&first, &second, "[DONE]"]));
    assert_eq!((record.first_event_tokens, record.output_source), (Some(1_000), TokenSource::ContinuousUsage));
}

#[test]
fn counts_that_contradict_each_other_are_left_out() {
    let parts = |usage: &str| {
        let event = format!(r#"{{"choices":[],"usage":{usage}}}"#);
        let record = limited(true, Some(64), &streamed(&[ONE_TOKEN, &event, "[DONE]"]));
        let Record { input_tokens_endpoint: input, cached_tokens: cached, reasoning_tokens: reasoning, .. } = record;
        (describe_usage(&record), [input, cached, reasoning])
    };
    let is =
        |usage: &str, stated: &str, counts: [Option<u32>; 3]| assert_eq!(parts(usage), (stated.to_owned(), counts), "{usage}");
    let cached = r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":11}}"#;
    is(cached, "5 usage claimed=- cached_exceeds_input", [Some(10), None, None]);
    // SGLang with speculative decoding: the count of output tokens is right.
    let drafts = r#"{"prompt_tokens":10,"completion_tokens":64,"reasoning_tokens":67}"#;
    is(drafts, "64 usage claimed=- reasoning_exceeds_output", [Some(10), None, None]);
    let both = r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":11},"reasoning_tokens":6}"#;
    is(both, "5 usage claimed=- cached_exceeds_input", [Some(10), None, None]);
    is(r#"{"prompt_tokens":"10","completion_tokens":5}"#, "5 usage claimed=- input_not_a_count", [None; 3]);
    let negative = r#"{"prompt_tokens":10,"completion_tokens":5,"completion_tokens_details":{"reasoning_tokens":-2}}"#;
    is(negative, "5 usage claimed=- part_not_a_count", [Some(10), None, None]);
    is(r#""none""#, "1 chunks claimed=- not_an_object", [None; 3]);
    let whole = r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":10},"reasoning_tokens":5}"#;
    is(whole, "5 usage claimed=- none", [Some(10), Some(10), Some(5)]);
}

#[test]
fn an_embedding_has_no_output_tokens_and_that_is_no_fault() {
    let body = r#"{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":3,"completion_tokens":0}}"#;
    let (_, row) = follow_pieces(&trial(ServingApi::Embeddings, false), [document(body).as_slice()]);
    assert_eq!((row.record.usage_fault, row.record.input_tokens_endpoint), (UsageFault::None, Some(3)));
}

#[test]
fn responses_that_are_not_streamed_have_no_first_token() {
    let body = r#"{"choices":[{"message":{"role":"assistant","content":"ab"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":2}}"#;
    let trial = trial(ServingApi::Chat, false);
    let wire = document(body);
    for cut in 0..wire.len() {
        let (ending, row) = follow_pieces(&trial, [&wire[..cut], &wire[cut..]]);
        assert_eq!(
            describe(&ending, &row),
            "ok events=0 tokens=Some(2)/usage cached=None reasoning=None first=None finish=stop text=ab"
        );
        assert_eq!((row.record.first_token_ns, row.record.last_token_ns, ending.at_ns), (None, Some(AT), AT));
    }
}

#[test]
fn embeddings_are_counted_and_nothing_else() {
    let trial = trial(ServingApi::Embeddings, false);
    let (ending, row) =
        follow_pieces(&trial, [document(r#"{"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":3}}"#).as_slice()]);
    assert_eq!((ending.outcome, row.record.input_tokens_endpoint, row.record.last_token_ns), (Outcome::Ok, Some(3), Some(AT)));
    let (ending, _) = follow_pieces(&trial, [document(r#"{"data":[]}"#).as_slice()]);
    assert_eq!(ending.outcome, Outcome::Empty);
}

#[test]
fn scores_are_counted_in_both_shapes() {
    let follow = |api, body: &str| {
        let (ending, row) = follow_pieces(&trial(api, false), [document(body).as_slice()]);
        (ending.outcome, row.record.input_tokens_endpoint, row.record.output_tokens)
    };
    let cohere = r#"{"results":[{"index":0,"relevance_score":0.5}],"usage":{"total_tokens":3},"meta":{"billed_units":{"search_units":1}}}"#;
    assert_eq!(follow(ServingApi::Rerank, cohere), (Outcome::Ok, Some(3), None));
    assert_eq!(follow(ServingApi::Rerank, r#"{"results":[]}"#), (Outcome::Empty, None, None));
    assert_eq!(follow(ServingApi::RerankTei, r#"[{"index":0,"score":0.5}]"#), (Outcome::Ok, None, None));
    assert_eq!(follow(ServingApi::RerankTei, "[]"), (Outcome::Empty, None, None));
    let reason = |api, body: &str| follow_pieces(&trial(api, false), [document(body).as_slice()]).0.reason;
    let voyage = r#"{"object":"list","data":[{"index":0,"relevance_score":0.5}],"model":"m"}"#;
    assert_eq!(
        reason(ServingApi::Rerank, voyage).as_deref(),
        Some("the response has no scores; its members are `data`, `model`, `object`")
    );
    assert_eq!(reason(ServingApi::RerankTei, "[]").as_deref(), Some("the response has no scores"));
    assert_eq!(
        reason(ServingApi::Chat, r#"{"choices":[]}"#).as_deref(),
        Some("the response has no text; its members are `choices`")
    );
    assert_eq!(follow(ServingApi::RerankTei, r#"{"error":"too long","error_type":"x"}"#).0, Outcome::StreamError);
    assert_eq!(follow(ServingApi::RerankTei, r#"["a"]"#).0, Outcome::Malformed);
    assert_eq!(follow(ServingApi::Chat, "[]").0, Outcome::Malformed);
}

#[test]
fn a_response_with_done_is_complete_however_it_closes() {
    let trial = trial(ServingApi::Chat, true);
    let wire = streamed(VLLM);
    let without_last_chunk = &wire[..wire.len() - 5];
    let (ending, _) = follow_pieces(&trial, [without_last_chunk]);
    assert_eq!((ending.outcome, ending.reusable), (Outcome::Ok, false));

    let mut reader = Reader::new(&trial, Budget::new(MAX_HELD_BYTES));
    reader.reset(true, false, None);
    let mut row = Row::default();
    assert_eq!(reader.take(without_last_chunk, 10, &mut row), None);
    let ending = reader.give_up(Outcome::Timeout, "x", 99, &mut row);
    assert_eq!((ending.outcome, ending.at_ns), (Outcome::Ok, 10));
}

#[test]
fn what_comes_behind_a_response_ends_its_connection() {
    let wire = [streamed(VLLM).as_slice(), b"x"].concat();
    let (ending, _) = follow_pieces(&trial(ServingApi::Chat, true), [wire.as_slice()]);
    assert_eq!((ending.outcome, ending.reusable), (Outcome::Ok, false));
}

#[test]
fn a_digest_is_of_the_text() {
    let mut trial = trial(ServingApi::Chat, true);
    trial.capture = Capture::Digest;
    let (_, row) = follow_pieces(&trial, [streamed(VLLM_CONTINUOUS).as_slice()]);
    let expected: [u8; 32] = Sha256::digest("a b\u{e9}").into();
    assert_eq!(row.record.response_sha256, Some(expected));
    assert!(row.text.is_empty());
}

/// Follows a stream that is cut in pieces of this size, and returns the content and the reasoning that were kept of it.
fn follow_and_keep(trial: &Trial, wire: &[u8], piece: usize) -> (String, String, Row) {
    let mut reader = Reader::new(trial, Budget::new(MAX_HELD_BYTES));
    reader.reset(true, true, None);
    let mut row = Row::default();
    let ending = wire.chunks(piece).find_map(|piece| reader.take(piece, AT, &mut row)).expect("an end");
    assert_eq!(ending.outcome, Outcome::Ok);
    let kept = reader.take_text().expect("a text");
    assert!(reader.take_text().is_none(), "it is taken once");
    let [content, reasoning] = [kept.content, kept.reasoning].map(|text| String::from_utf8(text).expect("UTF-8"));
    (content, reasoning, row)
}

#[test]
fn the_text_for_the_next_turn_is_kept_beside_what_is_captured() {
    let texts = [("Hello, \"you\"", ""), ("\u{e9}", "a b"), ("done", "think"), ("ab", ""), ("", ""), ("Hi", ""), ("Hi", "Okay")];
    for ((events, _), (content, reasoning)) in SHAPES.iter().zip(texts) {
        let wire = streamed(events);
        for capture in [Capture::None, Capture::Digest, Capture::Full] {
            let trial = Trial { capture, ..trial(ServingApi::Chat, true) };
            let (_, without) = follow_pieces(&trial, [wire.as_slice()]);
            for piece in [1, 7, wire.len()] {
                let kept = follow_and_keep(&trial, &wire, piece);
                assert_eq!((kept.0.as_str(), kept.1.as_str()), (content, reasoning));
                assert_eq!((&kept.2.text, kept.2.record.response_sha256), (&without.text, without.record.response_sha256));
            }
        }
    }
}

#[test]
fn kept_text_is_charged_until_the_next_turn_is_prepared() {
    let trial = Trial { capture: Capture::None, ..trial(ServingApi::Chat, true) };
    let event = format!(r#"{{"choices":[{{"delta":{{"content":"{}"}}}}]}}"#, "x".repeat(100 << 10));
    let wire = streamed(&[event.as_str(); 10]);
    let budget = Budget::new(4 << 20);
    let follow = |keeps_text: bool| {
        let mut reader = Reader::new(&trial, budget.clone());
        reader.reset(true, keeps_text, None);
        let mut row = Row::default();
        // Without its last chunk, which would end it.
        let ending = wire[..wire.len() - 5].chunks(10_000).find_map(|piece| reader.take(piece, AT, &mut row));
        (ending.map(|ending| ending.outcome), reader.take_text())
    };
    let (unfinished, kept) = follow(true);
    assert_eq!((unfinished, kept.as_ref().map(KeptText::len)), (None, Some(10 * (100 << 10))));
    // Each holds between one and two megabytes, until it is dropped.
    let others: Vec<_> = (0..5).map(|_| follow(true)).collect();
    assert!(others.iter().any(|(outcome, _)| *outcome == Some(Outcome::EventTooLarge)));
    drop((kept, others));
    assert_eq!(follow(true).0, None);
    assert!((0..5).all(|_| follow(false).0.is_none()), "only a turn with another one behind it keeps its text");
}

#[test]
fn reasons_are_short_and_on_one_line() {
    assert_eq!(shorten(" a\r\nb\u{1b}[31m ", 200), "a  b [31m");
    assert_eq!(shorten(&"\u{e9}".repeat(150), 200), "\u{e9}".repeat(100));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_or_keep_more_than_its_limits(
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
        prefix in 0_usize..4,
        pieces in 1_usize..50,
    ) {
        let heads: [&[u8]; 4] = [
            b"",
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ",
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\ndata:\r\n",
            b"HTTP/1.1 500 No\r\n\r\n",
        ];
        let wire = [heads[prefix], &bytes].concat();
        for streaming in [true, false] {
            let (ending, row) = follow_pieces(&trial(ServingApi::Chat, streaming), wire.chunks(pieces));
            prop_assert!(ending.reason.as_ref().is_none_or(|reason| reason.len() <= MAX_REASON_BYTES));
            prop_assert!(row.text.len() <= wire.len() * 3);
        }
    }

    #[test]
    fn a_broken_byte_is_survived_and_reads_the_same_however_it_is_cut(shape in 0..SHAPES.len(), at in any::<proptest::sample::Index>(), byte in any::<u8>(), pieces in 1_usize..200) {
        let trial = trial(ServingApi::Chat, true);
        let mut wire = streamed(SHAPES[shape].0);
        let at = at.index(wire.len());
        wire[at] = byte;
        let (whole, whole_row) = follow_pieces(&trial, [wire.as_slice()]);
        let (cut, cut_row) = follow_pieces(&trial, wire.chunks(pieces));
        prop_assert_eq!(whole.outcome, cut.outcome);
        if whole.outcome == Outcome::Ok {
            prop_assert_eq!(whole_row.text, cut_row.text);
            prop_assert_eq!(whole_row.record.chunks, cut_row.record.chunks);
        }
    }
}
