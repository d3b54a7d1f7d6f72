//! Streams whose events have types: OpenAI's responses and Anthropic's messages, in the formats of real servers.

use super::*;

const RESPONSES_OPENAI: &[&str] = &[
    r#"{"type":"response.created","sequence_number":0,"response":{"id":"resp_1","object":"response","created_at":1,"status":"in_progress","background":false,"error":null,"incomplete_details":null,"instructions":"be brief","max_output_tokens":128,"model":"m","output":[],"reasoning":{"effort":"medium","summary":"auto"},"text":{"format":{"type":"text"}},"tools":[],"usage":null,"metadata":{}}}"#,
    r#"{"type":"response.in_progress","sequence_number":1,"response":{"id":"resp_1","object":"response","status":"in_progress","error":null,"output":[],"usage":null}}"#,
    r#"{"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}"#,
    r#"{"type":"response.reasoning_summary_part.added","sequence_number":3,"item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":""}}"#,
    r#"{"type":"response.reasoning_summary_text.delta","sequence_number":4,"item_id":"rs_1","output_index":0,"summary_index":0,"delta":"**Think**","obfuscation":"x"}"#,
    r#"{"type":"response.reasoning_summary_text.done","sequence_number":5,"item_id":"rs_1","output_index":0,"summary_index":0,"text":"**Think**"}"#,
    r#"{"type":"response.reasoning_summary_part.done","sequence_number":6,"item_id":"rs_1","output_index":0,"summary_index":0,"part":{"type":"summary_text","text":"**Think**"}}"#,
    r#"{"type":"response.output_item.done","sequence_number":7,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[{"type":"summary_text","text":"**Think**"}]}}"#,
    r#"{"type":"response.output_item.added","sequence_number":8,"output_index":1,"item":{"id":"msg_1","type":"message","status":"in_progress","content":[],"role":"assistant"}}"#,
    r#"{"type":"response.content_part.added","sequence_number":9,"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"logprobs":[],"text":""}}"#,
    r#"{"type":"response.output_text.delta","sequence_number":10,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Hi","logprobs":[],"obfuscation":"abc"}"#,
    r#"{"type":"response.output_text.delta","sequence_number":11,"item_id":"msg_1","output_index":1,"content_index":0,"delta":" \u00e9\n","logprobs":[]}"#,
    r#"{"type":"response.output_text.done","sequence_number":12,"item_id":"msg_1","output_index":1,"content_index":0,"text":"Hi \u00e9\n","logprobs":[]}"#,
    r#"{"type":"response.content_part.done","sequence_number":13,"item_id":"msg_1","output_index":1,"content_index":0,"part":{"type":"output_text","annotations":[],"text":"Hi \u00e9\n"}}"#,
    r#"{"type":"response.output_item.done","sequence_number":14,"output_index":1,"item":{"id":"msg_1","type":"message","status":"completed","content":[{"type":"output_text","annotations":[],"text":"Hi \u00e9\n"}],"role":"assistant"}}"#,
    r#"{"type":"response.completed","sequence_number":15,"response":{"id":"resp_1","object":"response","status":"completed","error":null,"incomplete_details":null,"output":[{"id":"msg_1","type":"message","content":[{"type":"output_text","text":"Hi \u00e9\n"}]}],"usage":{"input_tokens":36,"input_tokens_details":{"cached_tokens":12},"output_tokens":87,"output_tokens_details":{"reasoning_tokens":64},"total_tokens":123}}}"#,
];
/// The members of vLLM's events are in another order, and the type is the last one.
const RESPONSES_VLLM: &[&str] = &[
    r#"{"response":{"id":"resp_1","created_at":1,"incomplete_details":null,"model":"m","object":"response","output":[],"status":"in_progress","usage":null},"sequence_number":0,"type":"response.created"}"#,
    r#"{"content_index":0,"delta":"We","item_id":"rs","output_index":0,"sequence_number":3,"type":"response.reasoning_text.delta"}"#,
    r#"{"content_index":0,"delta":"a","item_id":"msg","logprobs":[],"output_index":1,"sequence_number":4,"type":"response.output_text.delta"}"#,
    r#"{"item":{"id":"msg","content":[{"annotations":[],"text":"a","type":"output_text"}],"role":"assistant","status":"completed","type":"message"},"output_index":1,"sequence_number":5,"type":"response.output_item.done"}"#,
    r#"{"response":{"id":"resp_1","incomplete_details":{"reason":"max_output_tokens"},"object":"response","output":[],"status":"incomplete","usage":{"input_tokens":7,"input_tokens_details":{"cached_tokens":0,"input_tokens_per_turn":[]},"output_tokens":2,"output_tokens_details":{"reasoning_tokens":1,"tool_output_tokens":0},"total_tokens":9}},"sequence_number":6,"type":"response.completed"}"#,
    "[DONE]",
];
const RESPONSES_TOOLS: &[&str] = &[
    r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"get","arguments":""}}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"{\"x\":"}"#,
    r#"{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":0,"delta":"1}"}"#,
    r#"{"type":"response.function_call_arguments.done","item_id":"fc_1","output_index":0,"arguments":"{\"x\":1}"}"#,
    r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","id":"fc_1","call_id":"call_1","name":"get","arguments":"{\"x\":1}","status":"completed"}}"#,
    r#"{"type":"response.refusal.delta","item_id":"msg_1","output_index":1,"content_index":0,"delta":"no"}"#,
    r#"{"type":"response.completed","response":{"status":"completed","usage":{"input_tokens":3,"output_tokens":9}}}"#,
];
const MESSAGES_ANTHROPIC: &[&str] = &[
    r#"{"type":"message_start","message":{"model":"m","id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":100,"cache_read_input_tokens":2000,"cache_creation":{"ephemeral_5m_input_tokens":100},"output_tokens":3,"service_tier":"standard"}}}"#,
    r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
    r#"{"type":"ping"}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me"}}"#,
    r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM"}}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#,
    r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi \u00e9"}}"#,
    r#"{"type":"content_block_stop","index":1}"#,
    r#"{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_1","name":"get","input":{}}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}"#,
    r#"{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"x\": 1}"}}"#,
    r#"{"type":"content_block_stop","index":2}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"input_tokens":25,"output_tokens":90}}"#,
    r#"{"type":"message_stop"}"#,
];
/// vLLM leaves out what is not set, and counts the input as a whole.
const MESSAGES_VLLM: &[&str] = &[
    r#"{"type":"message_start","message":{"id":"chatcmpl-1","content":[],"model":"m","usage":{"input_tokens":9,"output_tokens":0}}}"#,
    r#"{"type":"content_block_start","content_block":{"type":"text","text":""},"index":0}"#,
    r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"a"},"index":0}"#,
    r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"b"},"index":0}"#,
    r#"{"type":"content_block_stop","index":0}"#,
    r#"{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"input_tokens":9,"output_tokens":2}}"#,
    r#"{"type":"message_stop"}"#,
    "[DONE]",
];

/// The streams of each API, the tokens of their input, and the expected record.
const SHAPES: &[(ServingApi, &[&str], u32, &str)] = &[
    (
        ServingApi::Responses,
        RESPONSES_OPENAI,
        36,
        "ok events=3 tokens=Some(87)/usage cached=Some(12) reasoning=Some(64) first=None finish=completed text=**Think**Hi \u{e9}\n",
    ),
    (
        ServingApi::Responses,
        RESPONSES_VLLM,
        7,
        "ok events=2 tokens=Some(2)/usage cached=Some(0) reasoning=Some(1) first=None finish=max_output_tokens text=Wea",
    ),
    (
        ServingApi::Responses,
        RESPONSES_TOOLS,
        3,
        "ok events=4 tokens=Some(9)/usage cached=None reasoning=None first=None finish=completed text=get{\"x\":1}no",
    ),
    (
        ServingApi::Messages,
        MESSAGES_ANTHROPIC,
        2_125,
        "ok events=4 tokens=Some(90)/usage cached=Some(2000) reasoning=None first=None finish=tool_use text=Let meHi \u{e9}get{\"x\": 1}",
    ),
    (
        ServingApi::Messages,
        MESSAGES_VLLM,
        9,
        "ok events=2 tokens=Some(2)/usage cached=None reasoning=None first=None finish=max_tokens text=ab",
    ),
];

/// Returns the response to a streamed request in which each event has its type, in chunks of one event.
fn typed(events: &[&str]) -> Vec<u8> {
    let mut wire = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for event in events {
        let kind = event.split_once(r#""type":""#).and_then(|(_, rest)| rest.split('"').next()).unwrap_or("message");
        let text = format!("event: {kind}\ndata: {event}\n\n");
        wire.extend_from_slice(format!("{:x}\r\n{text}\r\n", text.len()).as_bytes());
    }
    wire.extend_from_slice(b"0\r\n\r\n");
    wire
}

#[test]
fn the_events_of_typed_streams_are_understood() {
    for (api, events, input, expected) in SHAPES {
        for wire in [streamed(events), typed(events)] {
            let (ending, row) = follow_pieces(&trial(*api, true), [wire.as_slice()]);
            assert_eq!(describe(&ending, &row), *expected);
            assert_eq!(row.record.input_tokens_endpoint, Some(*input));
            assert!(ending.reusable);
        }
    }
}

#[test]
fn the_places_where_a_typed_stream_is_cut_make_no_difference() {
    for (api, events, ..) in SHAPES {
        let (trial, wire) = (trial(*api, true), typed(events));
        let whole = follow_pieces(&trial, [wire.as_slice()]);
        for cut in 0..wire.len() {
            let (ending, row) = follow_pieces(&trial, [&wire[..cut], &wire[cut..]]);
            assert_eq!((&ending, &row.record, &row.text), (&whole.0, &whole.1.record, &whole.1.text), "cut at {cut}");
        }
        let (ending, row) = follow_pieces(&trial, wire.chunks(1));
        assert_eq!((&ending, &row.record, &row.text), (&whole.0, &whole.1.record, &whole.1.text));
    }
}

#[test]
fn damaged_typed_streams_read_the_same_in_pieces_of_any_size() {
    for (shape, (api, events, ..)) in SHAPES.iter().enumerate() {
        for case in 0..40 {
            let mut state = 1_000 * shape as u64 + case;
            let mut wire = typed(events);
            let head = wire.windows(4).position(|end| end == b"\r\n\r\n").map_or(0, |at| at + 4);
            let mut body = wire.split_off(head);
            damage(&mut body, &mut state);
            wire.append(&mut body);
            let trial = trial(*api, true);
            let whole = record_of(&trial, &wire, wire.len());
            for piece in [1, 2, 3, 7, 16] {
                assert_eq!(record_of(&trial, &wire, piece), whole, "shape {shape}, case {case}, in pieces of {piece} bytes");
            }
        }
    }
}

#[test]
fn a_stream_is_complete_with_its_last_event_however_it_closes() {
    for (api, events, ..) in SHAPES {
        let trial = trial(*api, true);
        let events: Vec<&str> = events.iter().copied().filter(|event| *event != "[DONE]").collect();
        let wire = typed(&events);
        let mut reader = Reader::new(&trial, Budget::new(MAX_HELD_BYTES));
        reader.reset(true, false, None);
        let mut row = Row::default();
        assert_eq!(reader.take(&wire[..wire.len() - 5], 10, &mut row), None);
        let ending = reader.give_up(Outcome::Timeout, "x", 99, &mut row);
        assert_eq!((ending.outcome, ending.at_ns), (Outcome::Ok, 10));
        // What follows the last event is no part of the response.
        let more = typed(&[events.as_slice(), &[events[events.len() - 4]], &["{"]].concat());
        let (ending, later) = follow_pieces(&trial, [more.as_slice()]);
        assert_eq!((ending.outcome, later.text), (Outcome::Ok, row.text));
    }
}

/// Returns the outcome and the reason of a stream.
fn outcome(api: ServingApi, events: &[&str]) -> (Outcome, String) {
    let of = |wire: Vec<u8>| {
        let (ending, _) = follow_pieces(&trial(api, true), [wire.as_slice()]);
        (ending.outcome, ending.reason.unwrap_or_default())
    };
    let (plain, typed) = (of(streamed(events)), of(typed(events)));
    assert_eq!(plain, typed, "an event's type is in its data, too");
    plain
}

#[test]
fn broken_streams_of_responses_are_named() {
    let is = |events: &[&str], expected: Outcome, reason: &str| {
        assert_eq!(outcome(ServingApi::Responses, events), (expected, reason.to_owned()));
    };
    let delta = r#"{"type":"response.output_text.delta","delta":"a"}"#;
    is(&[delta], Outcome::Truncated, "the stream ended without `response.completed` and without a finish reason");
    is(&[r#"{"type":"response.completed","response":{"status":"completed"}}"#], Outcome::Empty, "the stream ended without text");
    is(
        &[delta, r#"{"type":"error","code":"server_error","message":"overloaded","param":null,"sequence_number":3}"#],
        Outcome::StreamError,
        "overloaded",
    );
    is(&[r#"{"type":"error","error":{"message":"bad gateway"}}"#], Outcome::StreamError, "bad gateway");
    is(
        &[
            delta,
            r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"out of memory"}}}"#,
        ],
        Outcome::StreamError,
        "out of memory",
    );
    is(
        &[delta, r#"{"response":{"status":"failed"},"type":"response.failed"}"#],
        Outcome::StreamError,
        "the response has the status `failed`",
    );
    is(
        &[delta, r#"{"type":"response.cancelled","response":{"status":"cancelled","error":null}}"#],
        Outcome::StreamError,
        "the response has the status `cancelled`",
    );
    is(
        &[r#"{"type":"response.output_text.delta","delta":{"text":"a"}}"#],
        Outcome::Malformed,
        "the response is not in the API's format: the text of the response is not a string",
    );
    is(
        &[r#"{"type":"response.output_text.delta"}"#],
        Outcome::Malformed,
        "the response is not in the API's format: the text of the response is not a string",
    );
    is(
        &[r#"{"type":"response.output_text.delta","delta":"a""#],
        Outcome::Malformed,
        "the response is not in the API's format: it ends too early",
    );
    is(
        &[
            r#"{"type":"response.in_progress","response":{"usage":{"output_tokens":9}}}"#,
            delta,
            r#"{"type":"response.completed","response":{"usage":{"output_tokens":8}}}"#,
        ],
        Outcome::Malformed,
        "the endpoint's count of completion tokens falls from 9 to 8 within the stream",
    );
}

#[test]
fn broken_streams_of_messages_are_named() {
    let is = |events: &[&str], expected: Outcome, reason: &str| {
        assert_eq!(outcome(ServingApi::Messages, events), (expected, reason.to_owned()));
    };
    let delta = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
    is(&[delta], Outcome::Truncated, "the stream ended without `message_stop` and without a finish reason");
    is(&[r#"{"type":"message_stop"}"#], Outcome::Empty, "the stream ended without text");
    is(
        &[delta, r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#],
        Outcome::StreamError,
        "Overloaded",
    );
    is(&[r#"{"type":"error"}"#], Outcome::StreamError, "no message");
    is(
        &[r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":5}}"#],
        Outcome::Malformed,
        "the response is not in the API's format: the text of the response is not a string",
    );
    is(
        &[r#"{"type":"content_block_delta","delta":{"text":"a"}"#],
        Outcome::Malformed,
        "the response is not in the API's format: it ends too early",
    );
    let usage = |parts: &str| format!(r#"{{"type":"message_delta","delta":{{}},"usage":{{{parts}}}}}"#);
    is(
        &[delta, &usage(r#""input_tokens":9,"cache_read_input_tokens":4"#), &usage(r#""input_tokens":8"#)],
        Outcome::Malformed,
        "the endpoint's count of prompt tokens falls from 13 to 12 within the stream",
    );
}

#[test]
fn the_input_of_messages_is_the_sum_of_its_parts() {
    let input = |usages: &[&str]| {
        let mut events = vec![r#"{"type":"content_block_delta","delta":{"text":"a"}}"#.to_owned()];
        events.extend(usages.iter().map(|usage| format!(r#"{{"type":"message_delta","usage":{{{usage}}}}}"#)));
        events.push(r#"{"type":"message_stop"}"#.to_owned());
        let events: Vec<&str> = events.iter().map(String::as_str).collect();
        let (ending, row) = follow_pieces(&trial(ServingApi::Messages, true), [streamed(&events).as_slice()]);
        assert_eq!(ending.outcome, Outcome::Ok);
        (row.record.input_tokens_endpoint, row.record.cached_tokens)
    };
    assert_eq!(
        input(&[r#""input_tokens":5,"cache_creation_input_tokens":null,"cache_read_input_tokens":null"#]),
        (Some(5), None)
    );
    // A later usage that leaves parts out states nothing of them.
    assert_eq!(
        input(&[r#""input_tokens":5,"cache_creation_input_tokens":2,"cache_read_input_tokens":30"#, r#""input_tokens":5"#]),
        (Some(37), Some(30))
    );
    // A proxy that counts the input at the end only.
    assert_eq!(input(&[r#""input_tokens":0,"output_tokens":0"#, r#""input_tokens":5,"output_tokens":1"#]), (Some(5), None));
    assert_eq!(input(&[r#""cache_read_input_tokens":30"#]), (None, Some(30)));
    assert_eq!(input(&[r#""input_tokens":4294967295,"cache_read_input_tokens":1"#]), (None, Some(1)));
}

#[test]
fn accepted_prediction_tokens_are_recorded_in_each_api_that_counts_them() {
    let chat = r#"{"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":9,"completion_tokens_details":{"reasoning_tokens":0,"accepted_prediction_tokens":5,"rejected_prediction_tokens":2}}}"#;
    let delta = r#"{"type":"response.output_text.delta","delta":"a"}"#;
    let end = r#"{"type":"response.completed","response":{"status":"completed","usage":{"output_tokens":9,"output_tokens_details":{"accepted_prediction_tokens":5}}}}"#;
    for (api, events) in
        [(ServingApi::Chat, &[chat][..]), (ServingApi::Completions, &[chat]), (ServingApi::Responses, &[delta, end])]
    {
        let (ending, row) = follow_pieces(&trial(api, true), [streamed(events).as_slice()]);
        assert_eq!((ending.outcome, row.record.accepted_prediction_tokens), (Outcome::Ok, Some(5)), "{api}");
    }
}

#[test]
fn documents_of_both_apis_are_read_at_every_cut() {
    let follow = |api, body: &str| {
        let wire = document(body);
        let whole = follow_pieces(&trial(api, false), [wire.as_slice()]);
        for cut in 0..wire.len() {
            let (ending, row) = follow_pieces(&trial(api, false), [&wire[..cut], &wire[cut..]]);
            let same = (ending.outcome, &ending.reason, &row.record, &row.text);
            assert_eq!(same, (whole.0.outcome, &whole.0.reason, &whole.1.record, &whole.1.text), "cut at {cut}");
        }
        (format!("{} input={:?}", describe(&whole.0, &whole.1), whole.1.record.input_tokens_endpoint), whole.0.reason)
    };
    let responses = r#"{"id":"resp_1","object":"response","status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"},"output":[{"id":"rs","summary":[],"type":"reasoning","content":[{"text":"We","type":"reasoning_text"}]},{"id":"msg","content":[{"annotations":[],"text":"a","type":"output_text"},{"type":"refusal","refusal":"no"}],"role":"assistant","type":"message"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}],"text":{"format":{"type":"text"}},"usage":{"input_tokens":4,"input_tokens_details":{"cached_tokens":1},"output_tokens":3,"output_tokens_details":{"reasoning_tokens":2}}}"#;
    assert_eq!(
        follow(ServingApi::Responses, responses),
        ("ok events=0 tokens=Some(3)/usage cached=Some(1) reasoning=Some(2) first=None finish=max_output_tokens text=Weanof{} input=Some(4)".to_owned(), None)
    );
    let messages = r#"{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"thinking","thinking":"We","signature":"x"},{"type":"text","text":"a"},{"type":"tool_use","id":"t","name":"f","input":{"x":1}}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":4,"cache_read_input_tokens":6,"output_tokens":3}}"#;
    assert_eq!(
        follow(ServingApi::Messages, messages),
        ("ok events=0 tokens=Some(3)/usage cached=Some(6) reasoning=None first=None finish=end_turn text=Weaf{\"x\":1} input=Some(10)".to_owned(), None)
    );
    let failed = r#"{"id":"resp_1","status":"failed","error":{"code":"server_error","message":"out of memory"},"output":[]}"#;
    assert_eq!(follow(ServingApi::Responses, failed).1.as_deref(), Some("out of memory"));
    let empty = follow(ServingApi::Messages, r#"{"type":"message","content":[],"stop_reason":"end_turn"}"#);
    assert_eq!(empty.1.as_deref(), Some("the response has no text; its members are `content`, `stop_reason`, `type`"));
}

#[test]
fn content_and_reasoning_of_typed_streams_are_kept_apart_for_the_next_turn() {
    for (api, events, content, reasoning) in [
        (ServingApi::Responses, RESPONSES_OPENAI, "Hi \u{e9}\n", "**Think**"),
        (ServingApi::Responses, RESPONSES_VLLM, "a", "We"),
        (ServingApi::Messages, MESSAGES_ANTHROPIC, "Hi \u{e9}", "Let me"),
    ] {
        let wire = typed(events);
        for piece in [1, 7, wire.len()] {
            let kept = follow_and_keep(&trial(api, true), &wire, piece);
            assert_eq!((kept.0.as_str(), kept.1.as_str()), (content, reasoning));
        }
    }
}
