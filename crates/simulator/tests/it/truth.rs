//! Compares the truth with the plan, and both with the times that a client saw.

use std::collections::BTreeMap;

use assay_simulator::{Ending, Engine, Load, RequestTruth, RunningServer, SimulatedRequest, Truth, simulate};

use crate::client::{Client, Reply, config, requests, serve};

/// A queue, a load factor, jitter of every kind, and chunks of several tokens: all that a plan depends on.
const BUSY: &str = r#"{"model": "m", "seed": "5eed", "ttft_ms": 4, "ttft_jitter_ms": 1, "ttft_jitter_sigma": 0.8, "itl_ms": 1,
    "itl_jitter_ms": 0.3, "load_factor": 2, "max_num_seqs": 3, "tokens_per_chunk": 2, "vary_chunks": true,
    "reasoning_share": 0.25}"#;

/// Steps that requests share, a queue, preemptions, drafts and jitter: four requests of three tokens and their responses do not fit into
/// twelve blocks of four.
const BATCH: &str = r#"{"model": "m", "seed": "5eed", "profile": "fast-batching", "step_base_ms": 0.5, "step_jitter_sigma": 0.3,
    "step_context_us": 1, "max_num_seqs": 4, "max_num_batched_tokens": 16, "speculative_tokens": 2, "speculative_acceptance": 0.5,
    "block_tokens": 4, "kv_blocks": 12, "reasoning_share": 0.25}"#;

const OUTPUT_TOKENS: u32 = 21;

/// Runs eight clients with five requests each, all at once.
fn offer(address: std::net::SocketAddr) -> BTreeMap<String, Reply> {
    let client = |worker: u128| {
        let mut client = Client::new(address);
        let ask = |turn: u128| {
            let id = format!("{:032x}", 1_000 * worker + turn);
            let body = format!(
                r#"{{"model": "m", "messages": [{{"role": "user", "content": "a b c"}}], "stream": true, "ignore_eos": true,
                    "max_tokens": {OUTPUT_TOKENS}}}"#
            );
            let reply = client.call("POST", "/v1/chat/completions", &[("x-request-id", &id)], &body);
            (id, reply)
        };
        (0..5).map(ask).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|worker| scope.spawn(move || client(worker))).collect();
        clients.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    })
}

#[test]
fn every_chunk_is_told_once_in_order_and_never_early() {
    check_truth(BUSY);
    check_truth(BATCH);
}

fn check_truth(settings: &str) {
    let server = serve(settings);
    let replies = offer(server.address());
    let truth = requests(server.address());
    assert_eq!(truth.len(), 40);
    for (place, request) in truth.iter().enumerate() {
        let reply = &replies[&request.request_id];
        assert_eq!((request.number, request.ending), (place as u64 + 1, Ending::Finished));
        assert_eq!(request.chunks.iter().map(|chunk| chunk.tokens).sum::<u32>(), OUTPUT_TOKENS);
        assert_eq!(request.reasoning_tokens, 5);
        check_against_client(request, reply);
    }
}

fn check_against_client(request: &RequestTruth, reply: &Reply) {
    let seen = reply.tokens();
    assert_eq!(seen.len(), request.chunks.len());
    let mut before = (request.admitted_ns.expect("admitted"), i64::MIN);
    for (chunk, (seen_ns, text)) in request.chunks.iter().zip(&seen) {
        let actual_ns = chunk.actual_ns.expect("sent");
        assert!(chunk.planned_ns >= before.0 && actual_ns >= before.1);
        assert!(actual_ns >= chunk.planned_ns, "sent early");
        assert!(*seen_ns >= actual_ns, "seen before it was sent");
        assert_eq!(text.split_whitespace().count() as u32, chunk.tokens);
        before = (chunk.planned_ns, actual_ns);
    }
    assert!(request.end_ns >= before.1);
}

#[test]
fn no_more_run_at_a_time_than_may() {
    let server = serve(BUSY);
    offer(server.address());
    let mut turns: Vec<(i64, i32)> = Vec::new();
    for request in requests(server.address()) {
        turns.push((request.admitted_ns.expect("admitted"), 1));
        turns.push((request.chunks.last().expect("chunks").planned_ns, -1));
    }
    // At one instant, requests that finish make room for those that begin.
    turns.sort_unstable();
    let mut running = 0;
    let most = turns
        .iter()
        .map(|(_, step)| {
            running += step;
            running
        })
        .max();
    assert_eq!(most, Some(3));
}

#[test]
fn a_simulation_of_the_same_arrivals_has_the_same_plan() {
    check_plan(BUSY);
    let server = check_plan(BATCH);
    let preemptions: u32 = requests(server.address()).iter().map(|request| request.preemptions).sum();
    assert!(preemptions > 0);
    let counted = format!("vllm:num_preemptions_total{{engine=\"0\",model_name=\"m\"}} {preemptions}\n");
    crate::client::metrics_until(server.address(), |text| text.contains(&counted));
}

fn check_plan(settings: &str) -> RunningServer {
    let server = serve(settings);
    let replies = offer(server.address());
    let mut truth = requests(server.address());
    truth.sort_by_key(|request| (request.arrived_ns, request.admitted_ns));
    let due = |request: &RequestTruth| SimulatedRequest {
        offset_ns: request.arrived_ns,
        request_id: u128::from_str_radix(&request.request_id, 16).expect("an id"),
        prompt_tokens: 3,
        output_tokens: OUTPUT_TOKENS,
        reasoning_tokens: 5,
        ..SimulatedRequest::default()
    };
    let config = config(settings);
    let engine = Engine::new(config.engine.model(&config.seed));
    let load: Vec<SimulatedRequest> = truth.iter().map(due).collect();
    let mut simulation = simulate(engine, config.seed, Load::Open(load));
    let records: Vec<_> = simulation.by_ref().collect();
    assert_eq!(records.len(), 40);
    // Both count the same events, whatever the clock.
    let of_engine = |text: &str| {
        let lines = text.lines().filter(|line| line.starts_with("vllm:") && !line.starts_with("vllm:cache_config_info"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let simulated = of_engine(&simulation.metrics("m"));
    assert!(simulated.iter().any(|line| line.starts_with("vllm:time_to_first_token_seconds_count") && line.ends_with(" 40")));
    crate::client::metrics_until(server.address(), |text| of_engine(text) == simulated);
    for record in records {
        let request = &truth[record.global_index as usize];
        let planned: Vec<_> = request.chunks.iter().map(|chunk| (chunk.planned_ns, Some(chunk.tokens))).collect();
        let simulated: Vec<_> = record.chunks.iter().map(|chunk| (chunk.at_ns, chunk.tokens)).collect();
        assert_eq!(simulated, planned);
        // A client sees the times of the simulation, but later.
        let seen = replies[&request.request_id].tokens();
        assert_eq!(seen.len() as u32, record.token_events);
        for (chunk, (seen_ns, text)) in record.chunks.iter().zip(&seen) {
            assert!(*seen_ns >= chunk.at_ns);
            assert_eq!(text.len() as u32, chunk.bytes);
        }
    }
    server
}

#[test]
fn a_long_truth_comes_whole_on_a_connection_that_closes_after_it() {
    let server = serve(r#"{"model": "m"}"#);
    let body = r#"{"model": "m", "prompt": "a", "max_tokens": 100000, "ignore_eos": true, "stream": true}"#;
    assert_eq!(Client::new(server.address()).post("/v1/completions", body).events.len(), 100_001);
    let mut client = Client::new(server.address());
    client.send("GET", "/truth", &[("connection", "close")], "");
    // A later request on the connection gets no response, and does not cut the current one short.
    client.send("GET", "/health", &[], "");
    let reply = client.receive();
    assert!(reply.whole && reply.body.len() > 4_000_000, "{}", reply.body.len());
    assert!(client.read_to_end().is_empty());
}

#[test]
fn what_was_let_go_is_counted() {
    let server = serve(r#"{"model": "m", "truth_requests": 2}"#);
    let mut client = Client::new(server.address());
    for _ in 0..5 {
        client.post("/v1/completions", r#"{"model": "m", "prompt": "a", "max_tokens": 1}"#);
    }
    let lines = crate::client::truth(server.address());
    assert_eq!(lines.len(), 3);
    let Some(Truth::End(end)) = lines.last() else { panic!("no end") };
    assert_eq!((end.last, end.ended, end.dropped), (5, 5, 3));
}

#[test]
fn the_truth_in_a_file_is_the_truth_that_is_asked_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("truth.jsonl");
    let server = serve(&format!(r#"{{"model": "m", "truth": "{}"}}"#, path.display()));
    let mut client = Client::new(server.address());
    for _ in 0..3 {
        client.post("/v1/completions", r#"{"model": "m", "prompt": "a", "max_tokens": 3, "stream": true}"#);
    }
    // One request is still in flight when the server stops.
    let body = r#"{"model": "m", "prompt": "a"}"#;
    client.send("POST", "/v1/completions", &[("x-assay-fault", "hang"), ("x-request-id", "left")], body);
    crate::client::metrics_until(server.address(), |text| text.contains("faults_total{engine=\"0\",model_name=\"m\"} 1\n"));
    let asked = requests(server.address());
    server.stop().expect("a clean end");
    let text = std::fs::read_to_string(path).expect("the file");
    let lines: Vec<Truth> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert_eq!(lines.len(), 5);
    for (line, request) in lines.iter().zip(asked) {
        assert_eq!(line, &Truth::Request(request));
    }
    assert!(matches!(&lines[3], Truth::Request(request) if request.request_id == "left" && request.ending == Ending::Stopped));
    assert!(matches!(&lines[4], Truth::End(end) if end.ended == 4 && end.dropped == 0));
}

#[test]
fn who_leaves_is_told_of_and_makes_room() {
    let server = serve(r#"{"model": "m", "ttft_ms": 1, "itl_ms": 3600000, "max_num_seqs": 1}"#);
    let body = r#"{"model": "m", "prompt": "a", "max_tokens": 2, "ignore_eos": true, "stream": true}"#;
    let mut first = Client::new(server.address());
    first.send("POST", "/v1/completions", &[], body);
    crate::client::metrics_until(server.address(), |text| {
        text.contains("generation_tokens_total{engine=\"0\",model_name=\"m\"} 1\n")
    });
    let mut second = Client::new(server.address());
    second.send("POST", "/v1/completions", &[], &body.replace("\"max_tokens\": 2", "\"max_tokens\": 1"));
    crate::client::metrics_until(server.address(), |text| {
        text.contains("num_requests_waiting{engine=\"0\",model_name=\"m\"} 1.0\n")
    });
    drop(first);
    assert_eq!(second.receive().tokens().len(), 1);
    let endings: Vec<_> = requests(server.address()).iter().map(|request| (request.ending, request.chunks.len())).collect();
    assert_eq!(endings, [(Ending::Aborted, 1), (Ending::Finished, 1)]);
}
