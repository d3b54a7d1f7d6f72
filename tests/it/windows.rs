//! The window of a trial: throughput over the real binaries follows from the raw records, however the load ended.

use std::fs;

use assay_warehouse::records::RecordFile;
use serde_json::Value;

use crate::pipeline::{list, text};
use crate::serving::{RETRY_BUDGET, SIMULATOR, counted_attempts, metric, pipeline, points, workload};
use crate::support::{Fixture, PIPELINE, blob};

const SHARDED: &str = "pipelines/sharded.yaml";

/// The times of a trial's requests in seconds, over all shards.
struct RequestTimes {
    /// The times at which each measured request was sent and ended.
    measured: Vec<[f64; 2]>,
    /// The same for the requests of the warm-up.
    warmup: Vec<[f64; 2]>,
}

impl RequestTimes {
    fn read(fixture: &Fixture, shards: &[Value]) -> Self {
        let (mut measured, mut warmup) = (Vec::new(), Vec::new());
        for attempt in shards {
            let digest = text(&attempt["serving"]["records"]["digest"]);
            let bytes = fs::read(blob(&fixture.store(), digest)).expect("the records are in the store");
            let file = RecordFile::open(bytes).expect("a file of records");
            for record in file.records().expect("rows").map(|row| row.expect("a record")) {
                assert!(record.outcome.is_ok(), "{record:?}");
                let seconds = |ns: Option<i64>| ns.expect("an instant") as f64 / 1e9;
                let of_phase = if record.phase.as_str() == "measured" { &mut measured } else { &mut warmup };
                of_phase.push([seconds(record.sent_ns), seconds(record.end_ns)]);
            }
        }
        Self { measured, warmup }
    }

    fn last_end(&self) -> f64 {
        self.measured.iter().map(|[_, end]| *end).fold(0.0, f64::max)
    }

    /// Returns the requests per second between two instants: each counts by the part of its time within this range.
    fn rate_between(&self, from: f64, to: f64) -> f64 {
        let part = |[sent, end]: &[f64; 2]| (end.min(to) - sent.max(from)).max(0.0) / (end - sent);
        self.measured.iter().chain(&self.warmup).map(part).sum::<f64>() / (to - from)
    }
}

#[test]
fn throughput_is_over_the_time_to_the_end_of_the_load() {
    let loads = [
        // As many requests as users; more; a rate whose duration is never reached; users who are stopped by the clock.
        ("few", "mode: closed, concurrency: [10], requests: 10", Some(10), None),
        ("several", "mode: closed, concurrency: [4], requests: 30", Some(30), None),
        ("rate", "mode: open, rate: [50], arrival: constant, requests: 20, duration: 60s", Some(20), None),
        ("clock", "mode: closed, concurrency: [3], requests: 100000, duration: 300ms", None, Some(0.3)),
        ("lone", "mode: closed, concurrency: [2], requests: 12", Some(12), None),
        // Fewer requests than shards: one of three has none.
        ("sparse", "mode: open, rate: [30], arrival: constant, requests: 2", Some(2), None),
        // Requests that are in flight at the end of the warm-up are not added.
        ("warm", "mode: closed, concurrency: [4], requests: 8", Some(8), None),
    ];
    let warmup_ms = |name: &str| if name == "warm" { 100_u32 } else { 0 };
    let fixture = Fixture::bare();
    for (name, load, ..) in loads {
        workload(&fixture, name, &format!("{load}, warmup: {}ms", warmup_ms(name)), "D(20,60)", "");
    }
    let names = loads.map(|(name, ..)| name);
    fixture.write(PIPELINE, &pipeline(&names, &[SIMULATOR], 1, RETRY_BUDGET, ""));
    fixture.write(SHARDED, &pipeline(&names, &[SIMULATOR], 1, RETRY_BUDGET, "  shards: 3\n"));
    fixture.commit("loads that end by count and by the clock");
    fixture.run("whole").success();
    fixture.assay(&["run", SHARDED, "--run-id", "sharded"]).success();
    for run_id in ["whole", "sharded"] {
        let counted = counted_attempts(&fixture, run_id);
        let points = points(&fixture, run_id);
        for (name, _, requests, duration) in loads {
            let what = format!("{name} of {run_id}");
            let point = &points[&format!("{name}.simulator.default")];
            let (_, shards) = counted.iter().find(|(trial, _)| trial.starts_with(&format!("{name}."))).expect("the trial");
            let times = RequestTimes::read(&fixture, shards);
            if let Some(requests) = requests {
                assert_eq!(times.measured.len(), requests, "each request once: {what}");
            }
            let from = f64::from(warmup_ms(name)) / 1e3;
            let rate = times.rate_between(from, duration.unwrap_or_else(|| times.last_end()));
            let value = |name: &str| metric(point, name).and_then(|metric| metric["median"].as_f64());
            let near = |found: Option<f64>, expected: f64| found.is_some_and(|found| (found / expected - 1.0).abs() < 1e-9);
            let found = value("request_throughput_per_s");
            assert!(near(found, rate), "{what}: {found:?}, not {rate}");
            let tokens = value("output_tokens_per_s");
            assert!(near(tokens, rate * 60.0), "{what}: {tokens:?} tokens");
            if name == "rate" {
                // 20 requests at 50/s: the requested rate does not depend on a duration that was not reached.
                let asked: f64 =
                    shards.iter().filter_map(|shard| shard["serving"]["client"]["requested_rate_per_s"].as_f64()).sum();
                assert!((asked / 50.0 - 1.0).abs() < 1e-6, "{what}: {asked} asked");
                assert!(value("request_throughput_steady_per_s").is_none(), "{what}");
            }
            if name == "several" {
                let (steady, fraction) = (value("request_throughput_steady_per_s"), value("steady_fraction"));
                assert!(
                    steady.is_some_and(|rate| rate > 0.0) && fraction.is_some_and(|share| share > 0.0 && share <= 1.0),
                    "{what}"
                );
            }
        }
        fixture.assay(&["verify", run_id, "--recompute"]).success();
    }
    let summary = fixture.manifest("whole", "reduce");
    let point =
        list(&summary["body"]["points"]).iter().find(|point| text(&point["case_id"]).starts_with("few.")).expect("it is there");
    let of = |name: &str| metric(point, name).and_then(|metric| metric["median"].as_f64());
    // The requested count, by our tokenizer, and by the endpoint: the simulator counts as the built-in tokenizer does.
    assert_eq!(["isl_tokens_requested_mean", "isl_tokens_mean", "isl_tokens_endpoint_mean"].map(of), [Some(20.0); 3]);
    assert_eq!(of("isl_endpoint_difference"), Some(0.0));
}
