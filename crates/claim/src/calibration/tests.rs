use assay_manifest::{Digest, Fact, Instant};
use serde_json::json;

use super::*;

fn load(unit: LoadUnit, amount: f64) -> ClientLoad {
    ClientLoad { unit, amount }
}

fn environment(calibration: Option<Fact<CalibrationReference>>) -> Environment {
    let zero = Digest::compute(b"");
    let environment = json!({
        "plan_digest": zero, "block": {"index": 0, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [], "software": [], "targets": [], "controls": [], "placement": {"cluster": "local"}, "readings": [],
    });
    Environment { calibration, ..serde_json::from_value(environment).expect("an environment") }
}

fn calibrated(ceilings: &[(LoadUnit, f64, bool)]) -> Environment {
    let ceiling = |(unit, amount, at_least): &(LoadUnit, f64, bool)| CalibratedCeiling {
        unit: *unit,
        amount: *amount,
        at_least: *at_least,
    };
    let reference = CalibrationReference {
        manifest: Digest::compute(b"manifest"),
        bundle: Digest::compute(b"bundle"),
        calibrated_at: Instant::from_unix_ns(0),
        ceilings: ceilings.iter().map(ceiling).collect(),
    };
    environment(Some(Fact::observed(reference, "the store")))
}

fn found(load: &[ClientLoad], environments: &[Environment]) -> Vec<String> {
    let environments: Vec<_> = environments.iter().collect();
    calibration_shortfalls(load, &environments).into_iter().map(|shortfall| shortfall.found).collect()
}

#[test]
fn a_claim_needs_twice_the_load_as_ceiling() {
    let load = [load(LoadUnit::Concurrency, 64.0), load(LoadUnit::EventsPerS, 3_200.0)];
    let enough = calibrated(&[(LoadUnit::Concurrency, 128.0, false), (LoadUnit::EventsPerS, 6_400.0, true)]);
    assert_eq!(found(&load, &[enough]), [""; 0]);
    let short = || calibrated(&[(LoadUnit::Concurrency, 127.0, true)]);
    insta::assert_snapshot!(found(&load, &[short(), short()]).join("\n"), @r"
    the load generator had to make 3200 events/s, and its calibration has no ceiling of them; calibrate it again on an idle machine with `assay calibrate`
    the load generator had to make 64 requests in flight, and was calibrated for at least 127 requests in flight, less than 2 times as many; ask for less load, use more `shards`, or calibrate it on an idle machine with `assay calibrate`
    ");
}

#[test]
fn a_claim_with_load_needs_a_calibration_and_one_without_does_not() {
    let load = [load(LoadUnit::Concurrency, 1.0)];
    let none = || environment(Some(Fact::unknown("the store has no calibration")));
    insta::assert_snapshot!(found(&load, &[none()]).join("\n"), @"the load generator was not calibrated: the store has no calibration; `assay calibrate` on this machine does so");
    insta::assert_snapshot!(found(&load, &[environment(None)]).join("\n"), @"the load generator was not calibrated: provision did not look for a calibration; `assay calibrate` on this machine does so");
    assert_eq!(found(&[], &[none()]), [""; 0], "it has no load");
    let mut in_pods = none();
    in_pods.placement.insert(CLUSTER.0.to_owned(), CLUSTER.1.to_owned());
    assert_eq!(found(&load, &[in_pods]), [""; 0], "the machines of pods cannot be calibrated");
}

#[test]
fn the_report_names_the_load_beside_the_ceilings() {
    let load = [load(LoadUnit::Concurrency, 64.0), load(LoadUnit::RequestsPerS, 12.345)];
    let described = |environments: &[Environment]| {
        let environments: Vec<_> = environments.iter().collect();
        describe_calibration(&load, &environments).join("\n")
    };
    let one = || calibrated(&[(LoadUnit::Concurrency, 1_024.0, true), (LoadUnit::RequestsPerS, 8_000.0, false)]);
    insta::assert_snapshot!(described(&[one(), one()]), @"Each load generator process had to make at most 64 requests in flight, 12.3 requests/s; on this machine, one was calibrated for at least 1024 requests in flight, 8000 requests/s (1970-01-01T00:00:00Z, 05b3abf2579a).");
    insta::assert_snapshot!(described(&[calibrated(&[])]), @"Each load generator process had to make at most 64 requests in flight, 12.3 requests/s; on this machine, one was calibrated for no load within its limits (1970-01-01T00:00:00Z, 05b3abf2579a).");
    insta::assert_snapshot!(described(&[environment(Some(Fact::unknown("the store has no calibration")))]), @"The load generator was not calibrated: the store has no calibration.");
    assert_eq!(described(&[environment(None)]), "");
}

#[test]
fn what_arrived_counts_as_load_beside_what_was_asked() {
    let metric = |name: &str, max: f64| {
        json!({
            "metric": name, "unit": "u", "better": "lower", "primary": false, "n": "2", "median": 1.0, "mean": 1.0, "min": 1.0, "max": max,
            "stability": "stable", "stability_reason": "calm", "rows": {}, "trials": [],
        })
    };
    let point = |workload_type: &str, metrics: serde_json::Value| -> PointSummary {
        let point = json!({
            "case_id": "w.t.default", "point_id": "one", "workload_type": workload_type, "workload_spec_digest": Digest::compute(b""),
            "value": {}, "trials_planned": 2, "trials_counted": 2, "attempts": 2, "excluded": [], "metrics": metrics,
        });
        serde_json::from_value(point).expect("a point")
    };
    let metrics = json!([metric(REQUESTS, 100.0), metric(MEAN_E2E, 2_500.0), metric(TOKENS, 7_000.0)]);
    let points =
        [point("serving", json!([metric(REQUESTS, 10.0)])), point("serving", metrics.clone()), point("indicator", metrics)];
    let arrived = |points: &[PointSummary]| LoadUnit::ALL.iter().map(|unit| arrived_load(*unit, points)).collect::<Vec<_>>();
    assert_eq!(
        arrived(&points),
        [Some(250.0), Some(100.0), Some(7_000.0)],
        "100 requests a second of 2.5 s each are 250 in flight"
    );
    let mut closed = points[1].clone();
    closed.value.insert(CONCURRENCY.to_owned(), "64".to_owned());
    assert_eq!(arrived_load(LoadUnit::Concurrency, &[closed]), None, "the number of a closed loop is exact");
    assert_eq!(arrived(&points[2..]), [None, None, None], "an indicator has no load");
}
