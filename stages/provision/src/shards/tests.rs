use assay_manifest::{Case, Digest, Instant, LengthLaw, ServingWork};
use assay_schedule::point_load;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn work(change: &Value) -> ServingWork {
    let mut work = json!({
        "api": "chat", "model": "m", "arrival": {"law": "constant"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 9}},
        "output": {"law": "uniform", "min": 100, "max": 200}, "exact_output": true, "batch": 1, "body": {}, "requests": "5",
        "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "shared", "streaming": true,
        "continuous_usage": false, "capture": "digest", "slos": [], "tokenizer": {"name": "w", "digest": Digest::compute(b"")},
    });
    work.as_object_mut().expect("an object").extend(change.as_object().cloned().unwrap_or_default());
    serde_json::from_value(work).expect("a workload")
}

fn requested_at(kind: &str, value: &str, change: &Value) -> String {
    let point = json!({"point_id": "p", "kind": kind, "value": {kind: value}});
    let case = json!({"case_id": "w.t.default", "workload": "w", "target": "t", "variant": "default", "points": []});
    let case: Case = serde_json::from_value(case).expect("a case");
    describe_load(&point_load(&case, &serde_json::from_value(point).expect("a point"), &work(change)))
}

#[test]
fn a_point_asks_for_a_concurrency_or_for_requests_and_their_events() {
    assert_eq!(requested_at("concurrency", "64", &json!({})), "concurrency 64");
    assert_eq!(requested_at("rate", "12.5", &json!({})), "12.5 requests/s, 1875 events/s");
    assert_eq!(requested_at("rate", "12.5", &json!({"streaming": false})), "12.5 requests/s");
    assert_eq!(requested_at("rate", "12.5", &json!({"api": "embeddings", "output": null})), "12.5 requests/s");
    assert_eq!(requested_at("scale", "2", &json!({})), "", "it offers no load");
}

#[test]
fn the_mean_of_a_law_is_that_of_its_tokens() {
    let laws = [
        LengthLaw::Fixed { tokens: 7 },
        LengthLaw::Lognormal { mean: 300.0, stddev: 50.0 },
        LengthLaw::TruncatedNormal { mean: 3.0, stddev: 1.0, floor: 8 },
        LengthLaw::TruncatedUniform { low: 10, high: 20, floor: 1 },
    ];
    assert_eq!(laws.map(|law| law.mean().to_string()), ["7", "300", "8", "15"]);
}

fn load(unit: LoadUnit, amount: f64) -> RequestedLoad {
    let (case_id, point_id) = ("w.t.default".parse().expect("a case"), "p".parse().expect("a point"));
    RequestedLoad { case_id, point_id, unit, amount }
}

fn ceiling(concurrency: u32, requests_per_s: u32, events_per_s: u32) -> Ceiling {
    Ceiling {
        concurrency,
        requests_per_s,
        events_per_s,
        cached: false,
        measured_at: Instant::from_unix_ns(0),
        fingerprint: Digest::compute(b"f"),
        program: Digest::compute(b"p"),
        cpu_millis: None,
        node: "local".to_owned(),
    }
}

fn counted(requested: &[RequestedLoad], ceiling: Option<Fact<Ceiling>>) -> (u32, String) {
    let count = count(requested.to_vec(), ceiling).expect("a count");
    (count.shards, count.formula)
}

fn measured() -> Fact<Ceiling> {
    Fact::observed(ceiling(900, 4_000, 45_000), "a test")
}

#[test]
fn each_shard_stays_below_half_of_its_ceiling() {
    let concurrency = |amount| counted(&[load(LoadUnit::Concurrency, amount)], Some(measured()));
    assert_eq!(concurrency(1_200.0), (3, "shards: 3 = ceil(concurrency 1200 / (0.5 * 900))".to_owned()));
    assert_eq!(concurrency(450.0), (1, "shards: 1 = ceil(concurrency 450 / (0.5 * 900))".to_owned()), "half of it is allowed");
    assert_eq!(concurrency(451.0).0, 2);
    assert_eq!(concurrency(1.0).0, 1);
}

#[test]
fn the_load_that_takes_the_most_shards_decides() {
    let requested =
        [load(LoadUnit::Concurrency, 500.0), load(LoadUnit::RequestsPerS, 300.0), load(LoadUnit::EventsPerS, 90_000.0)];
    assert_eq!(counted(&requested, Some(measured())), (4, "shards: 4 = ceil(90000 events/s / (0.5 * 45000))".to_owned()));
}

#[test]
fn where_no_ceiling_is_known_there_is_one_shard_which_is_said() {
    let requested = [load(LoadUnit::Concurrency, 1_200.0)];
    let (shards, formula) = counted(&requested, Some(Fact::unknown("no node takes the pod")));
    insta::assert_snapshot!(format!("{shards}\n{formula}"), @r"
    1
    shards: 1 for concurrency 1200, because the ceiling of a shard is not known (no node takes the pod): name a number of `shards` in the pipeline where one is too few
    ");
    let small = [load(LoadUnit::RequestsPerS, 12.5), load(LoadUnit::EventsPerS, 1_875.0)];
    let (shards, formula) = counted(&small, None);
    insta::assert_snapshot!(format!("{shards}\n{formula}"), @r"
    1
    shards: 1, any shard carries 12.5 requests/s, 1875 events/s: no ceiling was measured
    ");
}

#[test]
fn what_is_small_is_small_in_every_unit() {
    assert!(is_small(&[
        load(LoadUnit::Concurrency, 256.0),
        load(LoadUnit::RequestsPerS, 500.0),
        load(LoadUnit::EventsPerS, 10_000.0)
    ]));
    assert!(!is_small(&[load(LoadUnit::Concurrency, 257.0)]));
    assert!(!is_small(&[load(LoadUnit::RequestsPerS, 50.0), load(LoadUnit::EventsPerS, 10_001.0)]));
}

#[test]
fn more_shards_than_there_may_be_are_refused_by_name() {
    let failure = count(vec![load(LoadUnit::Concurrency, 1_000_000.0)], Some(measured())).expect_err("too many");
    insta::assert_snapshot!(format!("{}: {}\n{}", failure.code, failure.message, failure.hint.unwrap_or_default()), @r"
    too_many_shards: point `p` of `w.t.default` takes more than 1024 shards: 2223 = ceil(concurrency 1000000 / (0.5 * 900))
    ask for less load, give `execute` more CPU or faster nodes, or name a number of `shards` in the pipeline
    ");
}

proptest! {
    #[test]
    fn every_shard_gets_at_most_half_and_one_less_would_not_do(amount in 1.0..400_000.0_f64, concurrency in 1_000..100_000_u32) {
        let (shards, _) = counted(&[load(LoadUnit::Concurrency, amount)], Some(Fact::observed(ceiling(concurrency, 1, 1), "a test")));
        let half = f64::from(concurrency) / 2.0;
        prop_assert!(amount / f64::from(shards) <= half * (1.0 + 1e-12));
        prop_assert!(shards == 1 || amount / f64::from(shards - 1) > half * (1.0 - 1e-12));
    }
}
