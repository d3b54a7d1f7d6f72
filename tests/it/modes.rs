//! Load modes over the real binaries: due requests wait under a cap, and rates change as the workload says.

use std::collections::BTreeSet;

use assay_record::{Outcome, Phase, Record};

use crate::pipeline::list;
use crate::serving::{self, SIMULATOR};
use crate::support::{Fixture, PIPELINE};
use crate::trace_sessions;
use crate::traces::{metric, records};

const MS: i64 = 1_000_000;

/// Writes a workload with this load, whose responses take 5 ms and then 1 ms for each of 7 more tokens, and a pipeline of one trial.
fn loaded(fixture: &Fixture, load: &str, more: &str) {
    serving::workload(fixture, "load", load, "D(20,8)", "");
    fixture.write(PIPELINE, &serving::pipeline(&["load"], &[SIMULATOR], 1, serving::RETRY_BUDGET, more));
    fixture.commit("a load");
}

/// The records of the attempt that counts, by their indices.
fn counted(fixture: &Fixture, run_id: &str) -> Vec<Record> {
    let mut all = records(fixture, run_id).pop().expect("an attempt");
    all.sort_by_key(|record| record.global_index);
    all
}

#[test]
fn under_a_cap_requests_wait_and_their_latencies_count_from_the_time_at_which_they_were_due() {
    let fixture = Fixture::bare();
    // One request every 5 ms, of which each takes 12 ms or more: all but the first wait, each 7 ms longer than the one before.
    let load = "mode: open, rate: [200], arrival: constant, max_concurrency: 1, requests: 60";
    loaded(&fixture, load, "");
    fixture.run("capped").success();
    fixture.verify_recomputed("capped");
    let all = counted(&fixture, "capped");
    assert_eq!(all.len(), 60);
    assert!(all.iter().all(|record| record.outcome == Outcome::Ok));
    for (place, pair) in (1_i64..).zip(all.windows(2)) {
        assert_eq!(pair[1].intended_ns, Some(place * 5 * MS));
        // The place is that of the request before it, and it waited for it.
        assert_eq!(pair[1].ready_ns, pair[0].end_ns);
        assert!(pair[1].ready_ns >= Some(place * 12 * MS), "{:?}", pair[1]);
        assert!(pair[1].ttft_ns() >= Some(place * 7 * MS + 5 * MS), "{:?}", pair[1]);
    }
    let of = |name: &str| metric(&fixture, "capped", "rate-200", name);
    assert!((of("queued_share") - 59.0 / 60.0).abs() < 1e-12, "{}", of("queued_share"));
    assert!(of("queue_wait_ms_p50") >= 29.0 * 7.0 && of("ttft_ms_p50") >= of("queue_wait_ms_p50"));
    let shown = fixture.assay(&["show", "capped", "--all"]).success().stdout;
    for part in [
        "98 % of the requests waited because as many were in flight as `max_concurrency` allows (1)",
        "at most 1 in flight, others wait",
    ] {
        assert!(shown.split_whitespace().collect::<Vec<_>>().join(" ").contains(part), "`{part}` in {shown}");
    }
    let query = "SELECT max_concurrency FROM serving_outcome_fact";
    assert!(fixture.assay(&["query", query, "--format", "csv"]).success().stdout.contains("\n1\n"));

    // Several shards cannot count what all of them have in flight.
    loaded(&fixture, load, "  shards: 3\n");
    let refused = fixture.assay(&["validate"]);
    assert_eq!(refused.code, 10, "{}", refused.stdout);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("`spec.load.max_concurrency` of the workload `load` holds for all requests together"), "{said}");
}

#[test]
fn a_rate_that_changes_is_offered_as_the_workload_says_by_any_number_of_shards() {
    let fixture = Fixture::bare();
    // 20 per second and then 100 per second, 300 ms each: 6 and 30 requests; 2 in the warm-up.
    let load = "mode: open, rate: {ramp: {shape: steps, from: 20, to: 100, steps: 2}}, arrival: constant, duration: 600ms, warmup: 100ms";
    let mut schedules = BTreeSet::new();
    for (run_id, shards) in [("one", ""), ("three", "  shards: 3\n")] {
        loaded(&fixture, load, shards);
        fixture.run(run_id).success();
        fixture.verify_recomputed(run_id);
        schedules.extend(trace_sessions::schedules(&fixture, run_id));
        let due = |phase: Phase| -> Vec<i64> {
            let of_phase = counted(&fixture, run_id).into_iter().filter(|record| record.phase == phase);
            of_phase.map(|record| record.intended_ns.expect("an open loop")).collect()
        };
        assert_eq!(due(Phase::Warmup), [0, 50 * MS]);
        let slow = (0..6).map(|index| 100 * MS + index * 50 * MS);
        let fast = (0..30).map(|index| 400 * MS + index * 10 * MS);
        assert_eq!(due(Phase::Measured), slow.chain(fast).collect::<Vec<_>>());
    }
    assert_eq!(schedules.len(), 1, "{schedules:?}");
    let shown = fixture.assay(&["show", "three", "--all"]).success().stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    for part in ["20..100 req/s in 2 steps", "from 20 to 100 per second in 2 equal steps", "so the load was not stationary"] {
        assert!(words.contains(part), "`{part}` in {shown}");
    }
}

#[test]
fn one_line_offers_a_ramp_a_series_and_a_cap() {
    let fixture = Fixture::bare();
    let bench = |more: &[&str]| {
        let line = ["bench", "--simulator", "fast", "--output-tokens", "4", "--trials", "1", "--warmup", "0s"];
        fixture.assay(&[&line[..], more].concat())
    };
    bench(&["--series", "200ms:20,100ms:100", "--arrival", "constant", "--run-id", "series"]).success();
    // 4 and 10.
    assert_eq!(counted(&fixture, "series").len(), 14);
    let printed = bench(&["--ramp", "steps=3:1..5", "--max-concurrency", "7", "--duration", "4s", "--print"]).success().stdout;
    for part in
        ["\"max_concurrency\": 7", "\"shape\": \"steps\"", "\"steps\": 3", "\"from\": 1", "\"to\": 5", "\"duration\": \"4s\""]
    {
        assert!(printed.contains(part), "`{part}` in {printed}");
    }
    for (line, said) in [
        (&["--ramp", "5"][..], "`--ramp 5` is not of the form FROM..TO"),
        (&["--ramp", "wavy:1..5"][..], "`--ramp` must be one of `linear`, `exponential`, `steps`, not `wavy`"),
        (&["--series", "5:10s"][..], "`--series 5:10s` is not of the form TIME:PER_S"),
        (&["--ramp", "0..5"][..], "`--ramp` must be"),
        (
            &["--ramp", "1..5", "--requests", "9"][..],
            "`--requests 9` contradicts `--ramp`: its rate changes over the whole time of a trial",
        ),
        (&["--ramp", "1..5", "--requests", "9"][..], "hint: leave out `--requests`; write `--duration 60s`, the time over which"),
        (
            &["--series", "1s:5", "--requests", "9"][..],
            "hint: leave out `--requests`; a trial lasts as long as its segments together",
        ),
        (
            &["--concurrency", "1", "--sessions", "turns=2", "--requests", "9"][..],
            "hint: leave out `--requests`; write `--sessions count=N`, a number of sessions, or `--duration 60s`",
        ),
        (
            &["--concurrency", "1..8", "--requests", "7"][..],
            "`--requests 7` contradicts `--concurrency 8`: so few requests never put 8 in flight",
        ),
        (&["--concurrency", "1", "--max-concurrency", "7"][..], "`--max-concurrency` holds back the requests of an open loop"),
        (
            &["--rate", "5", "--max-concurrency", "7", "--shards", "2"][..],
            "`--shards` is 2, and `--max-concurrency` holds for all requests together",
        ),
        (&["--concurrency", "1", "--arrival", "gamma"][..], "required arguments were not provided"),
        (&["--concurrency", "1", "--smoothness", "0.5"][..], "required arguments were not provided"),
        (&["--users", "2", "--rate", "5", "--sessions", "turns=3", "--arrival", "gamma"][..], "cannot be used with"),
        (
            &["--trace", "x", "--concurrency", "2", "--speed", "2"][..],
            "hint: leave out `--speed`, or `--concurrency`, so that the trace is replayed at its times",
        ),
        (
            &["--trace", "x", "--trace-format", "weka", "--sessions", "count=2", "--concurrency", "2", "--speed", "2"][..],
            "`--speed` contradicts `--concurrency`: it divides the times of a replay, and sessions at a concurrency have none\n\nhint: leave out `--speed`\n",
        ),
        (
            &["--series", "1s:5", "--duration", "9s"][..],
            "`--duration` contradicts `--series`: a trial lasts as long as its segments together\n\nhint: leave out `--duration`",
        ),
        (
            &["--trace", "x", "--rate", "2"][..],
            "`--rate` contradicts `--trace`: the requests of a trace have times of their own\n\nhint: leave out `--rate`, or write `--dataset FILE`",
        ),
        (
            &["--trace", "x", "--trace-format", "weka", "--ramp", "1..2"][..],
            "hint: leave out `--ramp`; `--concurrency 8 --sessions count=100` plays its sessions\n",
        ),
        (&["--trace", "x", "--series", "1s:2"][..], "`--series` contradicts `--trace`"),
    ] {
        let refused = bench(line).exits(2);
        assert!(refused.stderr.contains(said), "`{said}` in {}", refused.stderr);
    }
}

#[test]
fn a_share_of_requests_is_cancelled_counted_apart_and_seen_by_the_endpoint() {
    let fixture = Fixture::bare();
    // A response takes 12 ms or more; a cancelled request gets 6 ms.
    let load = "mode: closed, concurrency: [4], requests: 80, cancel: {share: 0.25, after: 6ms}";
    let mut schedules = BTreeSet::new();
    for (run_id, shards) in [("one", ""), ("three", "  shards: 3\n")] {
        loaded(&fixture, load, shards);
        fixture.run(run_id).success();
        fixture.verify_recomputed(run_id);
        schedules.extend(trace_sessions::schedules(&fixture, run_id));
    }
    assert_eq!(schedules.len(), 1, "{schedules:?}");
    let all = counted(&fixture, "one");
    let cancelled: Vec<&Record> = all.iter().filter(|record| record.outcome == Outcome::Cancelled).collect();
    assert!(all.len() == 80 && (5..40).contains(&cancelled.len()), "{}", cancelled.len());
    let of_three: Vec<u64> = counted(&fixture, "three")
        .iter()
        .filter(|record| record.outcome == Outcome::Cancelled)
        .map(|record| record.global_index)
        .collect();
    assert_eq!(cancelled.iter().map(|record| record.global_index).collect::<Vec<_>>(), of_three);
    for record in &cancelled {
        assert!(record.end_ns >= record.write_done_ns.map(|done| done + 6 * MS), "{record:?}");
    }
    let of = |name: &str| metric(&fixture, "one", "concurrency-4", name);
    assert!((of("cancelled_share") - cancelled.len() as f64 / 80.0).abs() < 1e-12);
    assert!(of("error_rate").abs() < 1e-12);
    let query = "SELECT cancelled, failed, completed FROM serving_outcome_fact WHERE run_id = 'one'";
    let counts = fixture.assay(&["query", query, "--format", "csv"]).success().stdout;
    assert!(counts.contains(&format!("\n{},0,{}\n", cancelled.len(), 80 - cancelled.len())), "{counts}");
    let shown = fixture.assay(&["show", "one", "--all"]).success().stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("of the requests were cancelled by the client, 0.006 s after they were sent"), "{shown}");
    // The endpoint counts them as aborted, and its count of requests agrees with the client's.
    let collection = fixture.manifest("one", "collect");
    let checks = list(&collection["body"]["cross_checks"]);
    for what in ["requests", "output_tokens"] {
        let of_kind: Vec<_> = checks.iter().filter(|check| check["what"] == what).collect();
        assert!(!of_kind.is_empty() && of_kind.iter().all(|check| check["outcome"] == "agrees"), "{checks:#?}");
    }
}

#[test]
fn each_request_may_open_a_connection_and_each_session_may_have_its_own() {
    let fixture = Fixture::bare();
    loaded(&fixture, "mode: closed, concurrency: [2], requests: 20, connections: never", "");
    fixture.run("never").success();
    fixture.verify_recomputed("never");
    for record in counted(&fixture, "never") {
        assert_eq!(record.intended_ns, record.dequeued_ns);
        let times = [record.dequeued_ns, record.connect_start_ns, record.connect_end_ns, record.sent_ns];
        assert!(times.is_sorted() && times.iter().all(Option::is_some), "{record:?}");
    }
    assert!(metric(&fixture, "never", "concurrency-2", "connect_ms_p50") > 0.0);
    let shown = fixture.assay(&["show", "never", "--all"]).success().stdout;
    let words = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("closed loop; a new connection for each request"), "{shown}");

    let load = "load: {mode: closed, concurrency: [2], sessions: 6, connections: sticky}";
    serving::workload_of(
        &fixture,
        "load",
        &format!("  batching_policy: none\n  {load}\n  lengths: D(20,4)\n  sessions: {{turns: 3, think_time: 5ms}}\n"),
    );
    fixture.commit("sessions");
    fixture.run("sticky").success();
    fixture.verify("sticky").success();
    let all = counted(&fixture, "sticky");
    assert_eq!(all.len(), 18);
    for record in all {
        assert_eq!(record.connect_start_ns.is_some(), record.turn == Some(0), "{record:?}");
    }
}
