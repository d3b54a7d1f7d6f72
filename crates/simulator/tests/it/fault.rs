//! Every fault has its effect, and the truth records it.

use assay_reactor::now_ns;
use assay_simulator::{Ending, RequestTruth, RunningServer};

use crate::client::{Client, Reply, metrics_until, requests, serve};

const BODY: &str = r#"{"model": "m", "prompt": "a", "max_tokens": 5, "ignore_eos": true, "stream": STREAM}"#;

fn ask(server: &RunningServer, fault: &str, stream: bool) -> Reply {
    let body = BODY.replace("STREAM", &stream.to_string());
    Client::new(server.address()).call("POST", "/v1/completions", &[("x-assay-fault", fault)], &body)
}

fn streamed(fault: &str) -> (Reply, RequestTruth) {
    let server = serve(r#"{"model": "m"}"#);
    let reply = ask(&server, fault, true);
    let truth = requests(server.address());
    assert_eq!(truth.len(), 1);
    assert_eq!(truth[0].fault.as_deref(), Some(fault));
    (reply, truth[0].clone())
}

fn done(reply: &Reply) -> bool {
    reply.events.last().is_some_and(|event| event.data == b"[DONE]")
}

#[test]
fn an_error_status_is_an_error_object() {
    for stream in [true, false] {
        let server = serve(r#"{"model": "m"}"#);
        let reply = ask(&server, "status:503", stream);
        assert_eq!((reply.status, reply.json()["error"]["code"].as_u64()), (503, Some(503)));
        let truth = requests(server.address());
        assert_eq!((truth[0].status, truth[0].ending), (Some(503), Ending::Fault));
    }
}

#[test]
fn a_stream_is_closed_in_place_of_a_chunk() {
    for (fault, chunks) in [("close:0", 0), ("close:3", 3)] {
        let (reply, truth) = streamed(fault);
        assert_eq!((reply.status, reply.whole, reply.tokens().len()), (200, false, chunks));
        assert_eq!((truth.ending, truth.chunks.len()), (Ending::Fault, chunks));
    }
    let (reply, truth) = streamed("close:9");
    assert!(reply.whole && done(&reply) && truth.ending == Ending::Finished);
}

#[test]
fn a_stream_may_end_without_its_last_word() {
    let (reply, truth) = streamed("no-done");
    assert!(reply.whole && !done(&reply));
    assert_eq!((reply.tokens().len(), truth.ending), (5, Ending::Finished));
    let (reply, truth) = streamed("no-done:2");
    assert!(reply.whole && !done(&reply));
    assert_eq!((reply.tokens().len(), truth.ending), (2, Ending::Fault));
}

#[test]
fn an_event_that_is_no_json_comes_before_a_chunk() {
    let (reply, truth) = streamed("bad-json:1");
    assert_eq!((reply.tokens().len(), truth.chunks.len()), (5, 5));
    let is_json = |data: &[u8]| serde_json::from_slice::<serde_json::Value>(data).is_ok();
    let broken: Vec<usize> = (0..6).filter(|place| !is_json(&reply.events[*place].data)).collect();
    assert_eq!(broken, [1]);
}

#[test]
fn the_text_of_a_chunk_is_no_utf8() {
    let (reply, _) = streamed("bad-utf8:2");
    let broken: Vec<usize> = (0..6).filter(|place| std::str::from_utf8(&reply.events[*place].data).is_err()).collect();
    assert_eq!(broken, [2]);
}

#[test]
fn an_error_object_comes_in_the_stream() {
    let (reply, truth) = streamed("stream-error:2");
    assert!(reply.whole && done(&reply));
    assert_eq!((reply.tokens().len(), truth.ending), (2, Ending::Fault));
    assert_eq!(reply.documents()[2]["error"]["code"], 500);
}

#[test]
fn the_content_type_is_wrong() {
    let (reply, _) = streamed("content-type");
    assert_eq!(reply.header("content-type"), Some("text/html"));
    assert_eq!(reply.tokens().len(), 5);
}

#[test]
fn a_giant_line_has_its_size() {
    let (reply, _) = streamed("giant-line:3000000");
    assert_eq!(reply.events[0].data.len(), 3_000_000);
    assert_eq!((reply.documents()[0]["choices"].as_array().map(Vec::len), reply.tokens().len()), (Some(0), 5));
}

#[test]
fn a_slow_drip_says_the_same_in_its_time() {
    let (reply, truth) = streamed("drip:10");
    assert!(reply.whole && done(&reply));
    assert_eq!((reply.tokens().len(), truth.ending), (5, Ending::Finished));
    // No byte is sent before its turn: a chunk waits for at least 10 us for each byte of the chunks before it.
    let mut bytes = 0;
    for (chunk, event) in truth.chunks.iter().zip(&reply.events) {
        let waited_ns = chunk.actual_ns.expect("sent") - truth.arrived_ns;
        assert!(waited_ns >= bytes * 10_000, "{waited_ns} ns for {bytes} bytes");
        bytes += i64::try_from(event.data.len()).expect("few");
    }
}

#[test]
fn a_request_is_refused_without_a_word() {
    let server = serve(r#"{"model": "m", "fault": ["refuse"]}"#);
    let mut client = Client::new(server.address());
    client.send("POST", "/v1/completions", &[], &BODY.replace("STREAM", "true"));
    assert!(client.read_to_end().is_empty());
    assert_eq!(requests(server.address())[0].ending, Ending::Fault);
    assert_eq!(Client::new(server.address()).get("/health").status, 200);
}

#[test]
fn a_request_that_hangs_gets_no_response() {
    let server = serve(r#"{"model": "m"}"#);
    let mut client = Client::new(server.address());
    client.send("POST", "/v1/completions", &[("x-assay-fault", "hang")], &BODY.replace("STREAM", "true"));
    metrics_until(server.address(), |text| text.contains("assay_simulator_faults_total{engine=\"0\",model_name=\"m\"} 1\n"));
    assert!(requests(server.address()).is_empty());
    client.finish_sending();
    assert!(client.read_to_end().is_empty());
    let truth = requests(server.address());
    assert_eq!((truth[0].ending, truth[0].status, truth[0].chunks.len()), (Ending::Fault, None, 0));
}

#[test]
fn responses_without_a_stream_fail_in_their_way() {
    let server = serve(r#"{"model": "m"}"#);
    let reply = ask(&server, "close:1", false);
    assert!(reply.status == 200 && !reply.whole);
    assert!(serde_json::from_slice::<serde_json::Value>(&ask(&server, "bad-json:0", false).body).is_err());
    assert!(std::str::from_utf8(&ask(&server, "bad-utf8:0", false).body).is_err());
    assert_eq!(ask(&server, "stream-error:0", false).status, 500);
    assert_eq!(ask(&server, "content-type", false).header("content-type"), Some("text/html"));
    assert_eq!(ask(&server, "giant-line:5000", false).json()["padding"].as_str().map(str::len), Some(5_000));
    assert_eq!(ask(&server, "drip:1", false).json()["usage"]["completion_tokens"], 5);
}

#[test]
fn the_same_requests_meet_the_same_faults() {
    let outcomes = |seed: &str| -> Vec<u16> {
        let server = serve(&format!(r#"{{"model": "m", "seed": "{seed}", "fault": ["status:500"], "fault_rate": 0.5}}"#));
        let body = BODY.replace("STREAM", "false");
        let status = |id: u32| {
            let id = id.to_string();
            Client::new(server.address()).call("POST", "/v1/completions", &[("x-request-id", &id)], &body).status
        };
        (0..40).map(status).collect()
    };
    let first = outcomes("1");
    assert_eq!(first, outcomes("1"));
    assert_ne!(first, outcomes("2"));
    assert!(first.contains(&200) && first.contains(&500));
}

#[test]
fn a_stall_holds_everything_up() {
    let server = serve(r#"{"model": "m", "profile": "fast"}"#);
    let mut client = Client::new(server.address());
    let stall = client.post("/stall", r#"{"for_ms": 120}"#).json();
    let end_ns = ["at_ns", "for_ns"].map(|name| stall[name].as_i64().expect("a number")).iter().sum::<i64>();
    let reply = client.post("/v1/completions", &BODY.replace("STREAM", "true"));
    assert_eq!(reply.tokens().len(), 5);
    assert!(requests(server.address())[0].arrived_ns >= end_ns);
}

#[test]
fn a_stall_by_script_counts_from_the_start() {
    let before_ns = now_ns();
    let server = serve(r#"{"model": "m", "stall": ["0:150"]}"#);
    Client::new(server.address()).post("/v1/completions", &BODY.replace("STREAM", "true"));
    assert!(requests(server.address())[0].arrived_ns >= before_ns + 150_000_000);
}

#[test]
fn a_stall_moves_what_is_planned_after_its_beginning_and_nothing_before() {
    let server = serve(r#"{"model": "m", "ttft_ms": 1, "itl_ms": 1}"#);
    let mut client = Client::new(server.address());
    let body = r#"{"model": "m", "prompt": "a", "max_tokens": 300, "ignore_eos": true, "stream": true}"#;
    client.send("POST", "/v1/completions", &[], body);
    metrics_until(server.address(), |text| !text.contains("generation_tokens_total{engine=\"0\",model_name=\"m\"} 0\n"));
    let stall_ns = Client::new(server.address()).post("/stall", r#"{"for_ms": 200}"#).json()["at_ns"].as_i64();
    assert_eq!(client.receive().tokens().len(), 300);
    let truth = &requests(server.address())[0];
    for (place, chunk) in (1..).zip(&truth.chunks) {
        let unstalled_ns = truth.arrived_ns + 1_000_000 * place;
        let is_moved = Some(unstalled_ns) >= stall_ns;
        assert_eq!(chunk.planned_ns, unstalled_ns + if is_moved { 200_000_000 } else { 0 });
    }
}
