//! A client that is stopped: its published numbers are near the truth, or do not count.

use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::pipeline::{list, text};
use crate::serving::{MODEL, pipeline, workload};
use crate::support::{Fixture, PIPELINE, files_under, wait_until};

/// The number of users of the closed loop.
const USERS: u64 = 4;

/// The most by which a 99th percentile of TTFT may exceed the true value, in milliseconds, if that is more than a tenth of it.
const BOUND_MS: f64 = 25.0;

/// The simulator's time to the first token, in milliseconds. It has no queue, so every request has this time.
const TTFT_MS: f64 = 20.0;

#[test]
fn a_stopped_client_is_near_the_truth_or_does_not_count() {
    let fixture = Fixture::bare();
    workload(&fixture, "chat", &format!("mode: closed, concurrency: [{USERS}], duration: 3s"), "D(20,10)", "");
    let target = format!(
        "{{name: simulator, kind: simulator, config: {{profile: instant, model: {MODEL}, ttft_ms: {TTFT_MS}, itl_ms: 2}}}}"
    );
    fixture.write(PIPELINE, &pipeline(&["chat"], &[&target], 1, 0, ""));
    fixture.commit("a chat");
    let run = fixture.spawn(&["run", PIPELINE, "--run-id", "one"]);
    let folder = fixture.store().join("runs/one/execute");
    let started = |path: &PathBuf| path.extension().is_some_and(|end| end == "started");
    wait_until("the attempt has begun", || files_under(&folder).iter().any(started));
    let client =
        fixture.leftovers().into_iter().find(|process| process.contains("/assay-execute ") && !process.contains("supervise"));
    let pid = client.as_deref().and_then(|process| process.split(':').next()?.parse().ok()).and_then(Pid::from_raw);
    let pid = pid.expect("the client's process");
    // Stopped three times, each time for the duration of forty polls.
    for _ in 0..3 {
        kill_process(pid, Signal::STOP).expect("stopped");
        let mut looks = 0;
        wait_until("it stood still", || {
            looks += 1;
            looks == 40
        });
        kill_process(pid, Signal::CONT).expect("continued");
        let mut looks = 0;
        wait_until("it went on", || {
            looks += 1;
            looks == 10
        });
    }
    run.finish();

    let part = fixture.manifest("one", "execute");
    let [attempt] = &list(&part["body"]["attempts"])[..] else { panic!("one attempt: {part:#}") };
    if attempt["validity"]["valid"] == json!(false) {
        let reasons: Vec<_> = list(&attempt["validity"]["reasons"]).iter().map(|reason| text(&reason["code"])).collect();
        assert!(reasons.iter().all(|reason| ["client_stalled", "client_late", "cpu_throttled"].contains(reason)), "{reasons:?}");
        return;
    }
    let summary = fixture.manifest("one", "reduce");
    let points = list(&summary["body"]["points"]);
    let metrics = list(&points[0]["metrics"]);
    let p99 = metrics.iter().find(|metric| metric["metric"] == "ttft_ms_p99").and_then(|metric| metric["median"].as_f64());
    let p99 = p99.unwrap_or_else(|| panic!("a percentile: {metrics:#?}"));
    // The client cannot see the delay of the way to the server and back on a busy machine.
    let bound = BOUND_MS.max(p99 / 10.0) + 25.0;
    assert!(p99 - TTFT_MS <= bound, "{p99} ms: {:#}", attempt["serving"]["client"]);
}

/// Checks fields of the client's health that this version of Assay always writes.
#[test]
fn the_signed_health_states_delays_and_resends() {
    let fixture = crate::serving::served_fixture();
    let part: Value = fixture.manifest("one", "execute");
    for attempt in list(&part["body"]["attempts"]) {
        let client = &attempt["serving"]["client"];
        for name in ["loop_late_ns", "late_requests", "late_request_share", "interruptions", "resends"] {
            assert!(!client[name].is_null(), "{name}: {client:#}");
        }
        assert_eq!(client["resends"], json!("0"));
    }
}
