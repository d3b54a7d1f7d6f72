use std::io::Write as _;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const START: i64 = 1_700_000_000;

fn source() -> PrometheusSource {
    let query = |name: &str, kind: &str| {
        json!({
            "name": name, "query": name, "kind": kind, "unit": "W", "scope_kind": "gpu", "scope_labels": ["UUID"], "labels": ["gpu"],
            "missing": format!("{name} is off by default"),
        })
    };
    serde_json::from_value(json!({
        "url": "http://prometheus:9090",
        "packs": [{
            "name": "own", "digest": assay_manifest::Digest::compute(b""), "exporter": "an exporter", "resolution_ns": "1000000000",
            "queries": [query("power", "gauge"), query("energy", "counter")],
        }],
    }))
    .expect("a source")
}

fn of(query: u32) -> QueryOf {
    QueryOf {
        block: Block { index: 0, incarnation: 0 },
        trial_id: "only.local.default.once.t0".parse().expect("an id"),
        attempt: 0,
        query,
    }
}

fn at(second: i64) -> Instant {
    Instant::from_unix_ns((START + second) * 1_000_000_000)
}

fn line(request: Request, query: Option<u32>, body: Result<String, &str>) -> QueryLine {
    QueryLine {
        request,
        of: query.map(of),
        promql: None,
        time: None,
        at: at(20),
        took_ns: 2_000_000,
        status: Some(200),
        error: body.as_ref().err().map(|why| (*why).to_owned()),
        body: body.ok(),
    }
}

/// A response with one series of these values, one a second from the start of the attempt.
fn samples(gpu: &str, from: i64, values: &[&str]) -> String {
    let values: Vec<_> = (from..).zip(values).map(|(second, value)| json!([START + second, value])).collect();
    let series = json!({"metric": {"__name__": "m", "UUID": format!("GPU-{gpu}"), "gpu": gpu}, "values": values});
    json!({"status": "success", "data": {"resultType": "matrix", "result": [series]}}).to_string()
}

fn empty() -> String {
    json!({"status": "success", "data": {"resultType": "matrix", "result": []}}).to_string()
}

fn vector(count: &str) -> String {
    let result = json!([{"metric": {}, "value": [START, count]}]);
    json!({"status": "success", "data": {"resultType": "vector", "result": result}}).to_string()
}

fn clock(seconds: f64) -> String {
    let time = START as f64 + seconds;
    json!({"status": "success", "data": {"resultType": "scalar", "result": [time, time.to_string()]}}).to_string()
}

/// The rows of all queries, as `scope metric n mean`, and the issues.
fn read(lines: &[QueryLine]) -> (Vec<String>, Vec<String>) {
    read_of(&source(), lines)
}

fn read_of(source: &PrometheusSource, lines: &[QueryLine]) -> (Vec<String>, Vec<String>) {
    let mut file = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
    for line in lines {
        serde_json::to_writer(&mut file, line).expect("written");
        file.write_all(b"\n").expect("written");
    }
    let file = file.finish().expect("packed");
    let key = super::key(&of(0));
    let windows = BTreeMap::from([(key, (at(0), at(10)))]);
    let mut rows = QueryRows::open(&"fleet".parse().expect("a name"), source, &windows, file.as_slice()).expect("a file");
    let mut found = Vec::new();
    while let Some(attempt) = rows.next_rows().expect("readable") {
        found.extend(attempt.rows.iter().map(|row| {
            let statistics = &row.statistics;
            let mean = statistics.values.map_or_else(|| "-".to_owned(), |values| values.mean.to_string());
            format!("{} {} {} {mean}", row.scope_id, statistics.metric, statistics.n)
        }));
    }
    (found, rows.findings().iter().map(|reason| format!("{}: {}", reason.code, reason.detail)).collect())
}

#[test]
fn the_parts_of_a_window_are_put_together() {
    let lines = [
        line(Request::Clock, None, Ok(clock(20.0))),
        line(Request::Samples, Some(0), Ok(samples("0", 0, &["1", "2", "3"]))),
        // The first sample of a part is the last one of the part before.
        line(Request::Samples, Some(0), Ok(samples("0", 2, &["3", "4"]))),
        line(Request::Samples, Some(1), Ok(samples("0", 0, &["10", "12", "14"]))),
    ];
    let (rows, issues) = read(&lines);
    assert_eq!(rows, ["GPU-0 power{gpu=\"0\"} 4 2.5", "GPU-0 energy{gpu=\"0\"} 3 2"]);
    assert_eq!(issues, [""; 0]);
}

#[test]
fn what_is_absent_or_too_coarse_is_named_and_never_a_value() {
    let lines = [
        line(Request::Samples, Some(0), Ok(empty())),
        line(Request::Presence, Some(0), Ok(empty().replace("matrix", "vector"))),
        line(Request::Samples, Some(1), Ok(empty())),
        line(Request::Presence, Some(1), Ok(vector("8"))),
    ];
    let (rows, issues) = read(&lines);
    assert_eq!(rows, [""; 0]);
    insta::assert_snapshot!(issues.join("\n"), @r"
    telemetry_absent: `prometheus/fleet`: no series of `power` (power is off by default)
    telemetry_too_coarse: `prometheus/fleet`: 8 series of an attempt have fewer than two samples in it, and no value: 8 of `energy`
    ");
    let (rows, issues) = read(&[line(Request::Samples, Some(0), Ok(samples("0", 3, &["7"])))]);
    assert_eq!(rows, ["GPU-0 power{gpu=\"0\"} 1 -"]);
    assert!(issues[0].starts_with("telemetry_too_coarse: `prometheus/fleet`: 1 series"), "{issues:?}");
}

#[test]
fn a_metric_that_is_absent_in_some_attempts_is_named_with_their_number() {
    let mut findings = Findings::new("prometheus/fleet".to_owned(), None, 3);
    let source = source();
    let query = source.queries().next().expect("a query").1;
    let nothing = evaluate(query, (at(0), at(10)), Vec::new());
    findings.add_query(query, &nothing, Some(0));
    assert_eq!(
        findings.reasons(),
        [Reason::new(
            "telemetry_absent",
            "`prometheus/fleet`: no series of `power` in 1 of 3 attempts (power is off by default)"
        )]
    );
}

#[test]
fn a_count_of_series_that_is_none_is_bounded() {
    for (count, expected) in [("1e300", "100000"), ("+Inf", "no series"), ("NaN", "no series"), ("-3", "no series")] {
        let lines: Vec<_> = (0..2)
            .flat_map(|query| {
                [line(Request::Samples, Some(query), Ok(empty())), line(Request::Presence, Some(query), Ok(vector(count)))]
            })
            .collect();
        let (_, issues) = read(&lines);
        assert!(issues[0].contains(expected), "{count}: {issues:?}");
    }
}

#[test]
fn a_part_without_a_response_leaves_the_query_out() {
    let lines = [
        line(Request::Samples, Some(0), Ok(samples("0", 0, &["1", "2"]))),
        line(Request::Samples, Some(0), Err("no response within 60s")),
        line(Request::Samples, Some(1), Ok("<html>".to_owned())),
        line(Request::Stopped, None, Err("5 requests failed one after the other")),
    ];
    let (rows, issues) = read(&lines);
    assert_eq!(rows, [""; 0]);
    insta::assert_snapshot!(issues.join("\n"), @"prometheus_failed: `prometheus/fleet`: 2 of its 3 responses cannot be used, and are in no row; the first one: no response within 60s; it was asked no further: 5 requests failed one after the other");
}

#[test]
fn clocks_that_differ_by_a_twentieth_of_an_attempt_are_named() {
    let issues = |seconds: f64| read(&[line(Request::Clock, None, Ok(clock(seconds)))]).1;
    assert_eq!(issues(20.4), [""; 0]);
    insta::assert_snapshot!(issues(23.0).join("\n"), @"prometheus_clock: `prometheus/fleet`: its clock is 2.999 s ahead of that of the stage collect, within 0.002 s, and the shortest attempt has 10.000 s: samples near the ends of an attempt may be of another time");
    assert!(issues(17.0)[0].contains(" behind "));
}

#[test]
fn resets_warnings_and_odd_samples_are_counted() {
    let warned = samples("0", 0, &["5", "9", "2"]).replace("\"status\"", "\"warnings\":[\"a store is down\"],\"status\"");
    let lines =
        [line(Request::Samples, Some(0), Ok(samples("0", 0, &["1", "NaN", "3"]))), line(Request::Samples, Some(1), Ok(warned))];
    let (rows, issues) = read(&lines);
    assert_eq!(rows.len(), 2);
    insta::assert_snapshot!(issues.join("\n"), @r"
    prometheus_warnings: `prometheus/fleet`: it warned 1 times, so rows may be incomplete: a store is down
    telemetry_resets: `prometheus/fleet`: 1 times a counter fell, and was counted from 0 again: 1 of `energy`
    telemetry_left_out: `prometheus/fleet`: no rows have 1 samples that are no number, or no count: 1 of `power`
    ");
}

#[test]
fn a_response_to_another_query_makes_no_row() {
    let mut other = line(Request::Samples, Some(0), Ok(samples("0", 0, &["1", "2"])));
    other.of = Some(QueryOf { attempt: 9, ..of(0) });
    let beyond = line(Request::Samples, Some(7), Ok(samples("0", 0, &["1", "2"])));
    let again = line(Request::Samples, Some(0), Ok(samples("0", 0, &["1", "2"])));
    let (rows, issues) = read(&[other, beyond, again.clone(), line(Request::Clock, None, Ok(clock(20.0))), again]);
    assert_eq!(rows.len(), 1, "a query is read once");
    assert_eq!(issues, ["telemetry_left_out: `prometheus/fleet`: no rows have 3 responses to no query of the run"]);
}

#[test]
fn a_query_with_too_many_samples_is_left_out() {
    let mut pending = PendingQuery::new(of(0));
    for index in 0..3 {
        let samples = vec![(0, 1.0); MAX_SAMPLES / 2];
        let labels = BTreeMap::from([("UUID".to_owned(), index.to_string())]);
        pending.add(SampledSeries { labels, samples, has_histograms: false });
    }
    assert!(pending.samples > MAX_SAMPLES && pending.is_too_large && pending.series.is_empty());
    let mut pending = PendingQuery::new(of(0));
    for index in 0..MAX_SERIES + 3 {
        let labels = BTreeMap::from([("UUID".to_owned(), index.to_string())]);
        pending.add(SampledSeries { labels, ..SampledSeries::default() });
        assert!(pending.series.is_empty(), "a series without samples is none");
    }
    for index in 0..MAX_SERIES + 3 {
        let labels = BTreeMap::from([("UUID".to_owned(), index.to_string())]);
        pending.add(SampledSeries { labels, samples: vec![(0, 1.0)], has_histograms: false });
    }
    assert!(pending.is_too_large && pending.series.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_server_sent_is_read_or_named(bodies in prop::collection::vec(".{0,80}", 1..6)) {
        let lines: Vec<_> = bodies.into_iter().map(|body| line(Request::Samples, Some(0), Ok(body))).collect();
        read(&lines);
    }
}

#[test]
fn keys_in_which_the_series_of_a_row_differ_are_counted() {
    let of_pod =
        |pod: &str, from: i64| samples("0", from, &["1", "2"]).replace("\"gpu\":", &format!("\"pod_uid\":\"{pod}\",\"gpu\":"));
    let mut joined = source();
    joined.packs[0].queries[0].joins.pod_uid = Some("pod_uid".to_owned());
    let lines = [line(Request::Samples, Some(0), Ok(of_pod("a", 0))), line(Request::Samples, Some(0), Ok(of_pod("b", 5)))];
    let (rows, issues) = read_of(&joined, &lines);
    assert_eq!(rows, ["GPU-0 power{gpu=\"0\"} 4 1.5"]);
    assert_eq!(
        issues,
        [
            "telemetry_keys_differ: `prometheus/fleet`: 1 keys of rows are null, because the series of one row differ in them: 1 of `pod_uid`"
        ]
    );
    let (_, issues) = read(&lines);
    assert_eq!(issues, [""; 0], "no label is named");
}
