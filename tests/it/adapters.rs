//! Mixes of LoRA adapters over the real binaries: each request, or each session, names one as its model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::pipeline::list;
use crate::server::{AfterResponse, Request, Server, complete_stream, header};
use crate::serving::{self, MODEL, SIMULATOR};
use crate::support::{CommandResult, Fixture, PIPELINE};
use crate::trace_sessions;

/// Returns the requests of the only point of a run by adapter.
fn by_adapter(fixture: &Fixture, run_id: &str) -> BTreeMap<String, u64> {
    let point = fixture.manifest(run_id, "reduce")["body"]["points"][0].clone();
    let adapters = point["serving"]["adapters"].as_object().expect("adapters").clone();
    adapters
        .into_iter()
        .map(|(name, found)| (name, found["requests"].as_str().expect("a count").parse().expect("a number")))
        .collect()
}

#[test]
fn requests_are_dealt_to_adapters_alike_by_one_shard_and_by_three() {
    let fixture = Fixture::bare();
    let (mut schedules, mut numbers) = (BTreeSet::new(), BTreeSet::new());
    for (run_id, shards) in [("one", ""), ("three", "  shards: 3\n")] {
        let adapters = "  adapters: [{name: sql, weight: 3}, {name: chat}]\n";
        serving::workload(&fixture, "load", "mode: closed, concurrency: [3], requests: 60", "D(20,4)", adapters);
        fixture.write(PIPELINE, &serving::pipeline(&["load"], &[SIMULATOR], 1, serving::RETRY_BUDGET, shards));
        fixture.commit("a mix");
        fixture.run(run_id).success();
        fixture.verify_recomputed(run_id);
        schedules.extend(trace_sessions::schedules(&fixture, run_id));
        numbers.insert(by_adapter(&fixture, run_id));
    }
    assert_eq!((schedules.len(), numbers.len()), (1, 1), "{schedules:?} {numbers:?}");
    let numbers = numbers.pop_first().expect("one");
    let names: Vec<&str> = numbers.keys().map(String::as_str).collect();
    assert_eq!((names, numbers.values().sum::<u64>()), (vec!["chat", "sql"], 60));
    assert!(numbers["sql"] > numbers["chat"], "{numbers:?}");
    let point = fixture.assay(&["show", "three", "--json"]).success().json()["results"][0].clone();
    assert_eq!(point["load"], json!({"concurrency": 3}));
    let summary = fixture.manifest("three", "reduce")["body"]["points"][0]["serving"]["adapters"].clone();
    for (name, requests) in &numbers {
        let shown = &point["adapters"][name];
        assert_eq!(shown["requests"].as_u64(), Some(*requests), "a number, and no text");
        let [shown, signed] = [&shown["latencies"]["ttft"], &summary[name]["latencies"]["ttft"]];
        assert_eq!(shown["n"].as_u64().map(|n| n.to_string()).as_deref(), signed["n"].as_str());
        assert!(shown["p99_ms"].is_f64(), "{shown}");
        assert_eq!([&shown["p50_ms"], &shown["p99_ms"]], [&signed["p50_ms"], &signed["p99_ms"]]);
    }
    let shown = fixture.assay(&["show", "three", "--all"]).success().stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let stated = format!("requests by adapter: sql {}, chat {}", numbers["sql"], numbers["chat"]);
    assert!(words.contains(&stated) && words.contains("with 2 adapters"), "{shown}");
}

/// The model of each request that a server got, with the session that its header names.
type Named = Arc<Mutex<Vec<(Option<String>, String)>>>;

fn named(request: &Request) -> (Option<String>, String) {
    let body: Value = serde_json::from_slice(&request.body).expect("JSON");
    let session = header(&request.head, "x-session").map(str::to_owned);
    (session, body["model"].as_str().expect("a name").to_owned())
}

fn bench(fixture: &Fixture, server: &Server, run_id: &str, more: &[&str]) -> CommandResult {
    let url = server.url();
    let line = ["bench", "--url", &url, "--model", MODEL, "--concurrency", "2", "--trials", "1", "--warmup", "0s"];
    fixture.assay(&[&line[..], &["--no-exact-output", "--run-id", run_id], more].concat())
}

#[test]
fn a_session_has_one_adapter_and_what_is_reported_is_what_the_server_got() {
    let seen = Named::default();
    let noted = Arc::clone(&seen);
    let server = Server::start("sql\"},{\"id\":\"chat", move |request| {
        noted.lock().expect("a lock").push(named(request));
        (complete_stream(), AfterResponse::KeepAlive)
    });
    let fixture = Fixture::bare();
    let mix = ["--adapter", "sql=2", "--adapter", "chat", "--sessions", "turns=3,count=12,header=x-session"];
    bench(&fixture, &server, "sessions", &mix).success();
    fixture.verify_recomputed("sessions");
    let seen = seen.lock().expect("a lock").clone();
    let (mut of_session, mut numbers) = (BTreeMap::new(), BTreeMap::new());
    for (session, model) in &seen {
        let session = session.clone().expect("a header");
        assert_eq!(of_session.entry(session).or_insert_with(|| model.clone()), model);
        *numbers.entry(model.clone()).or_insert(0_u64) += 1;
    }
    assert_eq!((seen.len(), of_session.len()), (36, 12));
    assert_eq!(by_adapter(&fixture, "sessions"), numbers);
    assert_eq!(numbers.len(), 2, "{numbers:?}");
    // Each adapter got a test request, and the model, which no request names, got none.
    let probes = fixture.manifest("sessions", "provision")["body"]["targets"][0]["probes"].clone();
    let tested = list(&probes).iter().filter(|probe| probe["request"].as_str().is_some_and(|text| text.contains("test request")));
    assert_eq!(tested.count(), 2);
}

#[test]
fn an_adapter_that_is_not_served_ends_the_run_and_a_mix_that_cannot_be_is_refused() {
    let server = Server::start(MODEL, |_| (complete_stream(), AfterResponse::KeepAlive));
    let fixture = Fixture::bare();
    let ran = bench(&fixture, &server, "absent", &["--adapter", "sql", "--requests", "4"]).refuses(30, "model_not_served");
    assert!(ran.stderr.contains("does not serve the model `sql`"), "{}", ran.stderr);
    assert_eq!(server.request_count(), 0);
    for (more, said) in [
        (&["--adapter", "sql=many"][..], "`--adapter sql=many` is not of the form NAME or NAME=WEIGHT"),
        (&["--adapter", "sql=2,chat"][..], "hint: write one option for each: `--adapter sql=2 --adapter chat`"),
        (&["--adapter", "sql=0"][..], "`--adapter` cannot be drawn: no weight is above 0"),
        (&["--adapter", "sql=-1"][..], "`WEIGHT` in part 1 of `--adapter`"),
        (&["--adapter", "sql", "--adapter", "sql"][..], "`sql`"),
        (&["--adapter", "sql", "--api", "rerank_tei"][..], "needs requests that name a model"),
    ] {
        let refused = bench(&fixture, &server, "refused", &[more, &["--requests", "4"]].concat());
        assert_eq!(refused.code, 2, "{more:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "`{said}` in {}", refused.stderr);
    }
    let printed = bench(&fixture, &server, "printed", &["--adapter", "a=b=2", "--requests", "4", "--print"]).success().stdout;
    let workload: Value = serde_json::from_str(printed.rsplit("workload.yaml").next().expect("a workload")).expect("JSON");
    assert_eq!(workload["spec"]["adapters"], json!([{"name": "a=b", "weight": 2.0}]));
}
