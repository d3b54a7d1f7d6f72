//! Several servers behind one address: what each of them counts is added up, and each empties its own cache.

use std::io::{BufRead as _, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;

use assay_record::Record;
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::serving;
use crate::support::{Fixture, PIPELINE, binary};
use crate::traces::{metric, records};

/// A simulator that ends with the test.
pub(crate) struct Replica {
    process: Child,
    pub(crate) url: String,
}

impl Replica {
    fn start() -> Self {
        Self::with(&[])
    }

    /// Starts a simulator with these arguments, too.
    pub(crate) fn with(more: &[&str]) -> Self {
        let arguments = ["--profile", "fast", "--model", serving::MODEL, "--until-stdin-closes"];
        let mut process = Command::new(binary("assay-simulator"))
            .args(arguments)
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a simulator");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().expect("its output")).read_line(&mut line).expect("a line");
        let url = line.trim().strip_prefix("listening on ").expect("an address").to_owned();
        Self { process, url }
    }

    fn address(&self) -> String {
        self.url.strip_prefix("http://").expect("no TLS").to_owned()
    }

    /// The inference requests that it was sent, in lines of JSON.
    pub(crate) fn requests(&self) -> Vec<Value> {
        let body = ureq_text(&format!("{}/truth", self.url));
        let lines = body.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line of JSON"));
        lines.filter(|line| line["kind"] == "request").collect()
    }

    /// The value of a counter or gauge.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = ureq_text(&format!("{}/metrics", self.url));
        let value = page.lines().find(|line| line.starts_with(&format!("{name}{{"))).and_then(|line| line.rsplit_once(' '));
        value.expect("the metric").1.parse().expect("a number")
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        let _ = self.process.wait();
    }
}

/// Sends a GET request and returns the body.
fn ureq_text(url: &str) -> String {
    let client = assay_probe::Client::new(assay_probe::Headers::default());
    let limits = assay_probe::Limits { time: std::time::Duration::from_secs(10), bytes: 64 << 20 };
    String::from_utf8(client.get(url, limits).expect("a response").body).expect("text")
}

/// A router that gives each connection to the next server. It lasts as long as the process of the tests.
fn start_router(servers: Vec<String>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    thread::spawn(move || {
        for (client, server) in listener.incoming().map_while(Result::ok).zip(servers.iter().cycle()) {
            let Ok(server) = TcpStream::connect(server) else { continue };
            let ends = [(&client, &server), (&server, &client)];
            for (from, to) in ends.map(|(from, to)| (from.try_clone().expect("a handle"), to.try_clone().expect("a handle"))) {
                thread::spawn(move || {
                    let _ = std::io::copy(&mut &from, &mut &to);
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    url
}

/// Twelve groups of five requests that come at once, so that they need five connections; each group begins as another one does.
pub(crate) fn trace() -> String {
    let rows = (0..60_u32).map(|number| {
        let (group, place) = (number / 5, number % 5);
        let row = json!({
            "timestamp": group * 60, "input_length": 1_100 + place * 16, "output_length": 8 + place, "hash_ids": [group % 3, 10 + place],
        });
        row.to_string() + "\n"
    });
    rows.collect()
}

fn write(fixture: &Fixture, replicas: &[Replica], addresses: &[String]) {
    fixture.write("workloads/replayed/trace.jsonl", &trace());
    let fields = "  batching_policy: none
  cache: cold_flush
  load: {mode: replay, speed: [1]}
  trace: {path: trace.jsonl, format: mooncake}
";
    serving::workload_of(fixture, "replayed", fields);
    let router = start_router(replicas.iter().map(Replica::address).collect());
    let target = format!("{{name: four, kind: endpoint, url: '{router}', replicas: {}}}", json!(addresses));
    fixture.write(PIPELINE, &serving::pipeline(&["replayed"], &[&target], 2, serving::RETRY_BUDGET, ""));
    fixture.commit("a trace for several servers");
}

#[test]
fn what_four_servers_behind_a_router_count_is_what_the_client_counts() {
    let replicas: Vec<Replica> = (0..4).map(|_| Replica::start()).collect();
    let addresses: Vec<String> = replicas.iter().map(|replica| replica.url.clone()).collect();
    let fixture = Fixture::bare();
    write(&fixture, &replicas, &addresses);
    fixture.run("four").success();
    fixture.verify_recomputed("four");

    let collection = fixture.manifest("four", "collect");
    let checks = list(&collection["body"]["cross_checks"]);
    let attempts = records(&fixture, "four");
    for what in ["requests", "output_tokens"] {
        let of_kind: Vec<&Value> = checks.iter().filter(|check| check["what"] == what).collect();
        assert!(!of_kind.is_empty() && of_kind.iter().all(|check| check["outcome"] == "agrees"), "{checks:#?}");
        assert!(of_kind.iter().all(|check| check["client"] == check["endpoint"]), "{checks:#?}");
    }
    // What the servers themselves know of each request, without the one of provision, which is no part of an attempt.
    let sent: Vec<Record> = attempts.into_iter().flatten().collect();
    assert_eq!(sent.len() % 60, 0);
    let of_servers: Vec<Vec<Value>> = replicas.iter().map(Replica::requests).collect();
    assert!(of_servers.iter().all(|requests| !requests.is_empty()), "the router gave each of them some");
    let served: Vec<&Value> = of_servers.iter().flatten().collect();
    let number = |request: &Value, name: &str| request[name].as_u64().expect("a number");
    let sum = |name: &str| served.iter().map(|request| number(request, name)).sum::<u64>();
    let test_request = served.len() - sent.len();
    assert_eq!(test_request, 1, "{} of {}", sent.len(), served.len());
    let mut lengths: Vec<u64> = sent.iter().map(|record| u64::from(record.input_tokens)).collect();
    let mut received: Vec<u64> = served.iter().map(|request| number(request, "prompt_tokens")).collect();
    lengths.sort_unstable();
    received.sort_unstable();
    assert_eq!(lengths, received[1..], "the test request is the shortest");
    let cached: u64 = sent.iter().map(|record| u64::from(record.cached_tokens.expect("the simulator tells"))).sum();
    assert!(cached > 0);
    assert_eq!(cached, sum("cached_tokens"));
    // Each attempt began with four empty caches: the first of the prompts with a beginning found nothing at its server.
    assert!(metric(&fixture, "four", "speed-1", "cached_share") < 0.95);

    let recordings = fixture.pointers("four", "record").into_iter().map(|pointer| pointer.load(&fixture.store()));
    for recording in recordings {
        let series = list(&recording["body"]["series"]).iter().map(|series| text(&series["source"]).to_owned());
        let of_servers: Vec<String> = series.filter(|source| source.starts_with("endpoint/")).collect();
        assert_eq!(of_servers, ["endpoint/four.1", "endpoint/four.2", "endpoint/four.3", "endpoint/four.4"]);
    }
}

#[test]
fn a_server_that_is_listed_and_does_not_respond_is_named_before_anything_is_measured() {
    let replicas = [Replica::start()];
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let addresses = [replicas[0].url.clone(), format!("http://{free}")];
    let fixture = Fixture::bare();
    write(&fixture, &replicas, &addresses);
    let ran = fixture.run("one").refuses(30, "target_not_ready");
    let reason = format!("the replica http://{free} of target `four` does not respond");
    assert!(ran.stderr.contains(&reason), "{}", ran.stderr);
    assert_eq!(replicas[0].requests().len(), 1, "the test request alone");
}
