use serde_json::json;

use super::*;
use crate::metric::parse_text;

fn at(seconds: u32) -> Instant {
    Instant::from_unix_ns(i64::from(seconds) * 1_000_000_000)
}

fn trial() -> PlannedTrial {
    let trial = json!({"trial_id": "w.t.default.one.t0", "case_id": "w.t.default", "point_id": "one", "index": 0, "block": 0});
    serde_json::from_value(trial).expect("a trial")
}

fn window(trial: &PlannedTrial) -> AttemptWindow<'_> {
    AttemptWindow { trial, attempt: 0, counts: true, start: at(0), end: at(10), gaps: Vec::new() }
}

#[test]
fn a_full_slice_says_from_when_on_it_has_no_samples() {
    let trial = trial();
    let mut slice = Slice::with_room(window(&trial), 5);
    let observed = parse_text("a 1\nb 2\n", |_| true);
    for seconds in 1..=4 {
        slice.add(at(seconds), &observed);
    }
    let counts: Vec<_> = slice.statistics(&Source::host()).map(|found| found.n).collect();
    assert_eq!((counts, slice.gap_ns()), (vec![2, 2], 7_000_000_000), "two readings of two fit; from the third on nothing");
    let mut left_out = OmittedReadings::default();
    left_out.add(&slice);
    insta::assert_snapshot!(left_out.reason().expect("an issue").detail, @"no rows have 2 readings beyond 16777216 values of one source in one attempt");
}

/// A scrape that came late counts what the CPUs did in more than the time between two readings.
#[test]
fn a_share_is_at_most_one() {
    let trial = trial();
    let mut slice = Slice::new(window(&trial));
    let key = MetricKey::new("busy", String::new());
    for (seconds, value) in [(1, 10.0), (2, 10.5), (3, 11.6)] {
        let sample = MetricSample { key: key.clone(), kind: MetricKind::Share, value, series: 2 };
        slice.add(at(seconds), &Observed { samples: vec![sample], ..Observed::default() });
    }
    let found: Vec<_> = slice.statistics(&Source::host()).collect();
    let values = found[0].values.expect("two shares");
    assert_eq!((values.min, values.max), (0.5, 1.0));
}

#[test]
fn a_sum_of_other_series_has_no_increase() {
    let trial = trial();
    let mut slice = Slice::new(window(&trial));
    let key = MetricKey::new("cpu_total", String::new());
    // One of three series goes away between seconds 2 and 3.
    for (seconds, value, series) in [(1, 30.0, 3), (2, 36.0, 3), (3, 26.0, 2), (4, 30.0, 2)] {
        let sample = MetricSample { key: key.clone(), kind: MetricKind::Counter, value, series };
        slice.add(at(seconds), &Observed { samples: vec![sample], ..Observed::default() });
    }
    let found: Vec<_> = slice.statistics(&Source::host()).collect();
    let values = found[0].values.expect("two increases");
    assert_eq!((found[0].n, values.min, values.max), (4, 4.0, 6.0));
}
