//! Load modes over the real binaries: due requests wait under a cap, and rates change as the workload says.

use assay_record::{Outcome, Record};

use crate::serving::{self, SIMULATOR};
use crate::support::{Fixture, PIPELINE};
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
    let verified = fixture.assay(&["verify", "capped", "--recompute"]).success();
    assert!(verified.stdout.contains("level 4 (recomputed) of 4 reached"), "{}", verified.stdout);
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
    assert_eq!(refused.code, 2, "{}", refused.stdout);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("`max_concurrency` of the workload `load` holds for all requests together"), "{said}");
}
