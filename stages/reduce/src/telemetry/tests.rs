use std::cell::RefCell;

use assay_manifest::{Attempt, Count, Digest, Environment, Gap, HostFacts, Instant, Plan, Shard, Window};
use assay_telemetry::{LabelOrigin, MAX_METRICS, MAX_NAME_BYTES, MAX_RECORDINGS};
use assay_warehouse::{ROW_ID, Value};
use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::aggregate::summarise;
use crate::fixture::{Run, attempt, collected, digest, place, plan};

const S: i64 = 1_000_000_000;

fn at(seconds: f64) -> Instant {
    // Whole milliseconds, so that nothing is lost.
    Instant::from_unix_ns((seconds * 1e3).round() as i64 * 1_000_000)
}

fn window(start: f64, end: f64) -> Window {
    let (start, end) = (at(start), at(end));
    Window { start, end, duration_ns: Count(end.ns_since(start)) }
}

fn gap(source: &str, start: f64, end: f64) -> Gap {
    Gap { source: source.to_owned(), window: window(start, end), reason: "a test".to_owned() }
}

/// A run whose trials had these attempts, with its recordings.
struct RecordedRun {
    run: Run,
    recordings: Vec<(Artifact, Vec<u8>)>,
    /// The number of times that each object was opened.
    opened: RefCell<BTreeMap<String, usize>>,
}

/// An attempt of one shard.
struct TriedShard {
    window: Window,
    gaps: Vec<Gap>,
    shard: Shard,
}

fn tried(start: f64, end: f64) -> Vec<TriedShard> {
    vec![TriedShard { window: window(start, end), gaps: Vec::new(), shard: Shard::ONLY }]
}

/// A run with one trial for each list of attempts; an attempt is its shards.
fn recorded_run(plan: Plan, trials: Vec<Vec<Vec<TriedShard>>>) -> RecordedRun {
    let mut found = Vec::new();
    for (planned, attempts) in plan.trials.iter().zip(trials) {
        let mut of_trial = Vec::new();
        for (number, shards) in (0..).zip(attempts) {
            for TriedShard { window, gaps, shard } in shards {
                let collected = assay_manifest::CollectedAttempt { gaps, shard, ..collected(number, true) };
                of_trial.push(ShardAttempt { collected, attempt: Attempt { window, ..attempt(planned, number, true) } });
            }
        }
        found.push((planned.clone(), of_trial));
    }
    RecordedRun { run: Run::with_attempts(plan, found), recordings: Vec::new(), opened: RefCell::default() }
}

fn indicator_run(trials: Vec<Vec<Vec<TriedShard>>>) -> RecordedRun {
    recorded_run(plan(trials.len()), trials)
}

/// A plan of this many trials on the endpoint `t`.
fn serving(trials: usize) -> Plan {
    let mut plan = serde_json::to_value(plan(trials)).expect("json");
    plan["workloads"][0]["workload_type"] = json!("serving");
    plan["workloads"][0]["serving"] = json!({
        "api": "chat", "model": "m", "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10}},
        "output": {"law": "fixed", "tokens": 5}, "exact_output": true, "continuous_usage": false, "batch": 1, "body": {},
        "requests": "4", "warmup_ns": "0", "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt", "streaming": true,
        "capture": "none", "slos": [], "tokenizer": {"name": "common-words", "digest": digest("words")},
    });
    serde_json::from_value(plan).expect("a plan")
}

fn host(readings: &[(f64, Json)]) -> Vec<u8> {
    let line = |(seconds, values): &(f64, Json)| {
        let mut line = values.clone();
        line["at"] = json!(at(*seconds));
        format!("{line}\n")
    };
    readings.iter().map(line).collect::<String>().into_bytes()
}

/// Responses of an endpoint: the time of the request, the seconds until the response, and the body.
fn endpoint(responses: &[(f64, f64, &str)]) -> Vec<u8> {
    let line = |(seconds, took, body): &(f64, f64, &str)| {
        format!("{}\n", json!({"at": at(*seconds), "took_ns": (took * 1e9) as u64, "status": 200, "body": body}))
    };
    packed(&responses.iter().map(line).collect::<String>())
}

fn packed(text: &str) -> Vec<u8> {
    zstd::encode_all(text.as_bytes(), 0).expect("packed")
}

impl RecordedRun {
    fn recorded(self, name: &str, bytes: Vec<u8>) -> Self {
        self.with_object(format!("recordings/{name}"), bytes)
    }

    fn with_object(mut self, name: String, bytes: Vec<u8>) -> Self {
        let (size, media_type) = (Count(bytes.len() as u64), "application/jsonl".to_owned());
        self.recordings.push((Artifact { name, digest: Digest::compute(&bytes), size, media_type }, bytes));
        self
    }

    fn rows(&self) -> Result<(Vec<Row>, Option<Reason>), Failure> {
        let evidence: Vec<_> = self.recordings.iter().map(|(artifact, _)| artifact.clone()).collect();
        self.rows_of(&evidence, &[])
    }

    fn rows_of(&self, evidence: &[Artifact], environments: &[&Environment]) -> Result<(Vec<Row>, Option<Reason>), Failure> {
        let case = &self.run.plan.cases[0];
        let summary = summarise(&self.run.plan.workloads[0], case, &case.points[0], &[], digest("collection"));
        let points = [summary.expect("a summary")];
        let context = RowContext { environments, ..self.run.context() };
        let dimensions = self.run.dimensions();
        let mut read = self.read(evidence, &context)?;
        let mut all = Vec::new();
        while let Some(rows) = read.next_rows(&context, &dimensions, &points)? {
            all.extend(rows);
        }
        Ok((all, read.issues.into_iter().next()))
    }

    fn read<'a>(&self, evidence: &[Artifact], context: &RowContext<'a>) -> Result<ReadTelemetry<'a>, Failure> {
        let open = |artifact: &Artifact| -> Result<Box<dyn Read>, Failure> {
            *self.opened.borrow_mut().entry(artifact.name.clone()).or_default() += 1;
            let (_, bytes) = self.recordings.iter().find(|(found, _)| found.digest == artifact.digest).expect("it is there");
            Ok(Box::new(std::io::Cursor::new(bytes.clone())))
        };
        let folder = tempfile::tempdir().expect("a folder");
        let files = EvidenceFiles { list: evidence, open: &open, check: &|| Ok(()) };
        read_evidence(context, &files, &folder.path().join(STATISTICS_FILE))
    }

    /// Returns every row in a line.
    fn shown(&self) -> String {
        let (rows, left_out) = self.rows().expect("rows");
        let left_out = left_out.map(|reason| format!("{}: {}", reason.code, reason.detail));
        rows.iter().map(line).chain(left_out).collect::<Vec<_>>().join("\n")
    }
}

fn line(row: &Row) -> String {
    let text = |column: &str| match row.get(column) {
        None | Some(Value::Null) => "-".to_owned(),
        Some(Value::Text(text)) => text.clone(),
        Some(Value::Int(number)) => number.to_string(),
        Some(Value::Float(number)) => format!("{number:.3}"),
        Some(other) => format!("{other:?}"),
    };
    let trial = text("trial_id").rsplit('.').next().unwrap_or_default().to_owned();
    let rest = ["attempt", "scope_kind", "scope_id", "source", "metric", "metric_kind", "unit", "n", "min", "mean", "max", "p95"];
    let gap = row.get("gap_ns").map_or(0, |value| if let Value::Int(ns) = value { *ns } else { -1 }) as f64 / 1e9;
    format!("{trial} {} gap {gap}", rest.map(text).join(" "))
}

#[test]
fn a_window_holds_the_readings_at_its_ends_and_between() {
    let readings = [0.9, 1.0, 2.0, 4.0, 4.1].into_iter().zip([(99, 0), (10, 100), (20, 160), (60, 200), (99, 900)]);
    let readings: Vec<_> =
        readings.map(|(at, (load, switches))| (at, json!({"load_1m": load, "context_switches": switches}))).collect();
    let given = indicator_run(vec![vec![tried(1.0, 4.0)]]).recorded("0-0-0/host.jsonl", host(&readings));
    // Increases of 60 in one second and of 40 in two.
    insta::assert_snapshot!(given.shown(), @"
    t0 0 host unknown host context_switches counter 1/s 3 20.000 40.000 60.000 58.000 gap 0
    t0 0 host unknown host load_1m gauge tasks 3 10.000 30.000 60.000 56.000 gap 0
    ");
}

#[test]
fn a_counter_that_fell_has_grown_from_zero() {
    let readings = [(1.0, 100), (2.0, 130), (3.0, 40), (4.0, 45)].map(|(at, forks)| (at, json!({"forks": forks})));
    let given = indicator_run(vec![vec![tried(0.0, 10.0)]]).recorded("0-0-0/host.jsonl", host(&readings));
    insta::assert_snapshot!(given.shown(), @"t0 0 host unknown host forks counter 1/s 4 5.000 25.000 40.000 39.000 gap 0");
}

#[test]
fn a_counter_that_was_read_once_has_no_increase() {
    let given = indicator_run(vec![vec![tried(0.0, 1.5)]])
        .recorded("0-0-0/host.jsonl", host(&[(1.0, json!({"forks": 5, "load_1m": 2}))]));
    insta::assert_snapshot!(given.shown(), @"
    t0 0 host unknown host forks counter 1/s 1 - - - - gap 0
    t0 0 host unknown host load_1m gauge tasks 1 2.000 2.000 2.000 2.000 gap 0
    ");
}

#[test]
fn every_attempt_has_its_slice_and_one_without_readings_has_none() {
    let readings: Vec<_> = (0..12).map(|at| (f64::from(at), json!({"load_1m": at}))).collect();
    // Both attempts of the first trial, nothing between two readings, and two that overlap.
    let trials =
        vec![vec![tried(0.5, 2.5), tried(3.0, 4.9)], vec![tried(5.1, 5.9)], vec![tried(6.0, 9.0)], vec![tried(8.0, 20.0)]];
    let given = indicator_run(trials).recorded("0-0-0/host.jsonl", host(&readings));
    insta::assert_snapshot!(given.shown(), @"
    t0 0 host unknown host load_1m gauge tasks 2 1.000 1.500 2.000 1.950 gap 0
    t0 1 host unknown host load_1m gauge tasks 2 3.000 3.500 4.000 3.950 gap 0
    t2 0 host unknown host load_1m gauge tasks 4 6.000 7.500 9.000 8.850 gap 0
    t3 0 host unknown host load_1m gauge tasks 4 8.000 9.500 11.000 10.850 gap 0
    ");
    let ids = |rows: &[Row]| rows.iter().filter_map(|row| row.text(ROW_ID).map(str::to_owned)).collect::<BTreeSet<_>>();
    let (rows, _) = given.rows().expect("rows");
    assert_eq!(ids(&rows).len(), rows.len(), "every row has an id of its own");
}

#[test]
fn gaps_of_all_shards_count_once() {
    let shard = |index, start, end, gaps: &[(&str, f64, f64)]| TriedShard {
        window: window(start, end),
        gaps: gaps.iter().map(|(source, start, end)| gap(source, *start, *end)).collect(),
        shard: Shard { index, count: 2 },
    };
    let shards = vec![
        shard(0, 1.0, 9.0, &[("host", 2.0, 4.0), ("host", 7.0, 7.5), ("endpoint/t", 2.0, 3.0)]),
        shard(1, 1.5, 10.0, &[("host", 3.0, 5.0), ("host", 2.5, 2.75), ("endpoint/t", 9.5, 10.0)]),
    ];
    let given = recorded_run(serving(1), vec![vec![shards]])
        .recorded("0-0-0/host.jsonl", host(&[(1.0, json!({"load_1m": 1})), (10.0, json!({"load_1m": 3}))]))
        .recorded("0-0-0/endpoint-t.jsonl.zst", endpoint(&[(1.0, 0.1, "up 1")]));
    insta::assert_snapshot!(given.shown(), @"
    t0 0 host unknown host load_1m gauge tasks 2 1.000 2.000 3.000 2.900 gap 3.5
    t0 0 endpoint t endpoint/t up gauge unknown 1 1.000 1.000 1.000 1.000 gap 1.5
    ");
}

const RESPONSE: &str = r#"
# TYPE queue_seconds gauge
queue_seconds 0.5
# TYPE done counter
done_total{reason="stop",engine="0"} 10
done_total{engine="0",reason="le\"ngth"} 2
# TYPE latency_seconds histogram
latency_seconds_bucket{le="1"} 3
latency_seconds_bucket{le="+Inf"} 4
latency_seconds_sum{model="m"} 8
latency_seconds_count{model="m"} 4
# TYPE threads_count gauge
threads_count 7
# TYPE plain counter
plain 5
rubbish{
generated_tokens_total 100
cache_usage NaN
"#;

#[test]
fn an_endpoint_says_more_than_a_host() {
    let later = RESPONSE.replace("} 10", "} 30").replace("} 8", "} 9").replace("} 4", "} 5").replace(" 100", " 350");
    let responses = [(1.0, 0.2, RESPONSE), (3.0, 0.2, later.as_str()), (4.9, 0.2, RESPONSE), (4.8, 0.1, RESPONSE)];
    let given = recorded_run(serving(1), vec![vec![tried(1.0, 5.0)]])
        .recorded("0-0-0/endpoint-t.jsonl.zst", endpoint(&responses))
        .recorded("0-0-0/endpoint-u.jsonl.zst", endpoint(&responses));
    // The third was not there at the window's end, and the fourth is older than it. Another target's responses belong to no
    // trial.
    insta::assert_snapshot!(given.shown(), @r#"
    t0 0 endpoint t endpoint/t done_total{engine="0",reason="le\"ngth"} counter 1/s 2 0.000 0.000 0.000 0.000 gap 0
    t0 0 endpoint t endpoint/t done_total{engine="0",reason="stop"} counter 1/s 2 10.000 10.000 10.000 10.000 gap 0
    t0 0 endpoint t endpoint/t generated_tokens_total counter tokens/s 2 125.000 125.000 125.000 125.000 gap 0
    t0 0 endpoint t endpoint/t latency_seconds_count counter 1/s 2 0.500 0.500 0.500 0.500 gap 0
    t0 0 endpoint t endpoint/t latency_seconds_sum counter s/s 2 0.500 0.500 0.500 0.500 gap 0
    t0 0 endpoint t endpoint/t plain counter unknown 2 0.000 0.000 0.000 0.000 gap 0
    t0 0 endpoint t endpoint/t queue_seconds gauge s 2 0.500 0.500 0.500 0.500 gap 0
    t0 0 endpoint t endpoint/t threads_count gauge unknown 2 7.000 7.000 7.000 7.000 gap 0
    telemetry_left_out: no rows have 1 readings that are older than the reading before them
    "#);
}

/// Adds an exporter to a plan.
fn with_exporter(mut plan: Plan, name: &str) -> Plan {
    let exporter = json!({"name": name, "scrape": "http://node:9100/metrics"});
    plan.telemetry.push(serde_json::from_value(exporter).expect("an exporter"));
    plan
}

#[test]
fn an_exporter_observes_every_attempt() {
    let body =
        |forks: u32| format!("# TYPE node_forks_total counter\nnode_forks_total {forks}\nnode_load1 2\nup 1\ngo_threads 7\n");
    let responses = [(1.0, 0.1, body(10)), (3.0, 0.1, body(50)), (6.0, 0.1, body(60))];
    let responses: Vec<_> = responses.iter().map(|(at, took, body)| (*at, *took, body.as_str())).collect();
    let plan = with_exporter(with_exporter(plan(2), "node"), "gone");
    let given = recorded_run(plan, vec![vec![tried(0.5, 4.0)], vec![tried(5.0, 9.0)]])
        .recorded("0-0-0/exporter-node.jsonl.zst", endpoint(&responses))
        .recorded("0-0-0/exporter-other.jsonl.zst", endpoint(&responses));
    // Another exporter is not of the plan, and one that was never there has no rows.
    insta::assert_snapshot!(given.shown(), @"
    t0 0 exporter node exporter/node node_forks_total counter 1/s 2 20.000 20.000 20.000 20.000 gap 0
    t0 0 exporter node exporter/node node_load1 gauge tasks 2 2.000 2.000 2.000 2.000 gap 0
    t0 0 exporter node exporter/node up gauge unknown 2 1.000 1.000 1.000 1.000 gap 0
    t1 0 exporter node exporter/node node_forks_total counter 1/s 1 - - - - gap 0
    t1 0 exporter node exporter/node node_load1 gauge tasks 1 2.000 2.000 2.000 2.000 gap 0
    t1 0 exporter node exporter/node up gauge unknown 1 1.000 1.000 1.000 1.000 gap 0
    ");
}

#[test]
fn readings_without_a_response_are_passed_over() {
    let failed = r#"{"at":"1970-01-01T00:00:01.000000000Z","took_ns":5,"error":"refused"}"#;
    let given = recorded_run(serving(1), vec![vec![tried(0.0, 5.0)]])
        .recorded("0-0-0/endpoint-t.jsonl.zst", packed(&format!("{failed}\n{failed}\n")));
    assert_eq!(given.shown(), "");
}

#[test]
fn a_recorder_that_was_started_again_goes_on() {
    let readings = |list: &[(f64, u32)]| host(&list.iter().map(|(at, forks)| (*at, json!({"forks": forks}))).collect::<Vec<_>>());
    let given = indicator_run(vec![vec![tried(0.0, 10.0)]])
        .recorded("0-0-10/host.jsonl", readings(&[(5.0, 90), (6.0, 95)]))
        .recorded("0-0-2/host.jsonl", readings(&[(1.0, 10), (3.0, 50)]))
        .recorded("1-0-0/host.jsonl", readings(&[(2.0, 7)]));
    // 40 in two seconds, 40 in two, 5 in one; another block's recording does not belong to this one's attempt.
    insta::assert_snapshot!(given.shown(), @"t0 0 host unknown host forks counter 1/s 4 5.000 15.000 20.000 20.000 gap 0");
}

#[test]
fn what_is_beyond_the_limits_is_left_out_and_told() {
    let metrics: Vec<_> = (0..MAX_METRICS + 5).map(|index| format!("m{index:04} 1")).collect();
    let body = format!("{}{{x=\"y\"}} 1\n{}", "n".repeat(MAX_NAME_BYTES), metrics.join("\n"));
    let given = recorded_run(serving(1), vec![vec![tried(0.0, 5.0)]])
        .recorded("0-0-0/endpoint-t.jsonl.zst", endpoint(&[(1.0, 0.1, &body), (2.0, 0.1, &body)]));
    let (rows, left_out) = given.rows().expect("rows");
    assert_eq!(rows.len(), MAX_METRICS);
    assert_eq!(rows.last().and_then(|row| row.text("metric")), Some("m0999"));
    insta::assert_snapshot!(left_out.expect("an issue").detail, @"no rows have 6 metrics beyond 1000 of one source in one attempt, or with names beyond 1024 bytes");
}

#[test]
fn every_column_has_a_writer() {
    let body = "# TYPE up gauge\nup 1\n";
    let given = recorded_run(serving(1), vec![vec![tried(0.0, 5.0)]])
        .recorded("0-0-0/endpoint-t.jsonl.zst", endpoint(&[(1.0, 0.1, body), (2.0, 0.1, body)]));
    let (rows, _) = given.rows().expect("rows");
    crate::fixture::assert_filled(
        &TELEMETRY_SLICE_FACT,
        &rows,
        &["job_uid", "pod_uid", "node_name", "gpu_uuid", "method", "objects"],
    );
}

#[test]
fn a_gpu_of_dcgm_exporter_has_its_own_keys_and_not_the_recorder_s() {
    let body = concat!(
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"gpu-node\",pod_uid=\"server\"} 97\n",
        "DCGM_FI_DEV_GPU_UTIL{gpu=\"1\",UUID=\"GPU-2\",Hostname=\"gpu-node\"} 5\n",
        "up 1\n",
    );
    let mut given = recorded_run(with_exporter(plan(1), "gpus"), vec![vec![tried(0.0, 5.0)]])
        .recorded("0-0-0/exporter-gpus.jsonl.zst", endpoint(&[(1.0, 0.1, body), (2.0, 0.1, body)]));
    given.run.recordings = vec![recorder(0, Some("load-node"), 0.0, 9.0)];
    let (rows, _) = given.rows().expect("rows");
    let line = |row: &Row| {
        let text = |column: &&str| row.text(column).unwrap_or("-").to_owned();
        ["metric", "gpu_uuid", "node_name", "pod_uid", "job_uid"].iter().map(text).collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(rows.iter().map(line).collect::<Vec<_>>().join("\n"), @r#"
    DCGM_FI_DEV_GPU_UTIL{Hostname="gpu-node",UUID="GPU-1",gpu="0",pod_uid="server"} GPU-1 gpu-node server -
    DCGM_FI_DEV_GPU_UTIL{Hostname="gpu-node",UUID="GPU-2",gpu="1"} GPU-2 gpu-node - -
    up - load-node recorder-uid job-uid
    "#);
}

/// The series of one GPU, by the version of the driver in its labels.
fn gpu_series(driver: &str) -> String {
    format!(
        "DCGM_FI_DEV_SM_CLOCK{{gpu=\"0\",UUID=\"GPU-1\",Hostname=\"gpu-node\",modelName=\"NVIDIA H200\",DCGM_FI_DRIVER_VERSION=\"{driver}\"}} 1980\n"
    )
}

/// Adds a Prometheus with the clock of GPUs to a plan.
fn with_prometheus(mut plan: Plan, name: &str) -> Plan {
    let query = json!({
        "name": "DCGM_FI_DEV_SM_CLOCK", "query": "DCGM_FI_DEV_SM_CLOCK", "kind": "gauge", "unit": "MHz", "scope_kind": "gpu",
        "scope_labels": ["UUID"], "joins": {"gpu_uuid": "UUID", "node_name": "Hostname"}, "missing": "off",
    });
    let pack = json!({"name": "own", "digest": digest("pack"), "exporter": "e", "resolution_ns": "1", "queries": [query]});
    let source = json!({"name": name, "prometheus": {"url": "http://prometheus:9090", "packs": [pack]}});
    plan.telemetry.push(serde_json::from_value(source).expect("a Prometheus"));
    plan
}

/// A response of a Prometheus with the clock of one GPU in the first attempt of a trial.
fn response(trial: &str, driver: &str) -> Vec<u8> {
    let labels = json!({"gpu": "0", "UUID": "GPU-1", "Hostname": "gpu-node", "modelName": "NVIDIA H200", "DCGM_FI_DRIVER_VERSION": driver});
    let series = json!({"metric": labels, "values": [[1, "1980"], [2, "1980"], [3, "1950"]]});
    let body = json!({"status": "success", "data": {"resultType": "matrix", "result": [series]}}).to_string();
    let of = json!({"block": {"index": 0, "incarnation": 0}, "trial_id": trial, "attempt": 0, "query": 0});
    packed(&format!("{}\n", json!({"request": "samples", "of": of, "at": at(9.0), "took_ns": 1, "status": 200, "body": body})))
}

#[test]
fn rows_and_gpus_are_of_one_reading_of_each_object() {
    let plan = with_prometheus(with_prometheus(with_exporter(plan(1), "gpus"), "fleet"), "other");
    let trial = plan.trials[0].trial_id.to_string();
    let (body, later) = (gpu_series("570"), gpu_series("570"));
    let given = recorded_run(plan, vec![vec![tried(0.0, 5.0)]])
        .recorded("0-0-0/host.jsonl", host(&[(1.0, json!({"load_1m": 1}))]))
        .recorded("0-0-0/exporter-gpus.jsonl.zst", endpoint(&[(1.0, 0.1, &body), (2.0, 0.1, &later)]))
        .with_object("prometheus/fleet.jsonl.zst".to_owned(), response(&trial, "570"))
        .with_object("prometheus/other.jsonl.zst".to_owned(), response(&trial, "580"));
    insta::assert_snapshot!(given.shown(), @r#"
    t0 0 host unknown host load_1m gauge tasks 1 1.000 1.000 1.000 1.000 gap 0
    t0 0 exporter gpus exporter/gpus DCGM_FI_DEV_SM_CLOCK gauge unknown 2 1980.000 1980.000 1980.000 1980.000 gap 0
    t0 0 gpu GPU-1 prometheus/fleet DCGM_FI_DEV_SM_CLOCK gauge MHz 3 1950.000 1970.000 1980.000 1980.000 gap 0
    t0 0 gpu GPU-1 prometheus/other DCGM_FI_DEV_SM_CLOCK gauge MHz 3 1950.000 1970.000 1980.000 1980.000 gap 0
    "#);
    assert_eq!(given.opened.borrow().values().collect::<Vec<_>>(), [&1; 4], "each object is opened once: {:?}", given.opened);

    let evidence: Vec<_> = given.recordings.iter().map(|(artifact, _)| artifact.clone()).collect();
    let read = given.read(&evidence, &given.run.context()).expect("readable");
    let described = |origin, driver: &str| LabelledGpu {
        uuid: "GPU-1".to_owned(),
        node_name: Some("gpu-node".to_owned()),
        pod_uid: None,
        model: Some("NVIDIA H200".to_owned()),
        driver_version: Some(driver.to_owned()),
        origin,
    };
    let of_prometheus = ["570", "580"].map(|driver| described(LabelOrigin::Prometheus, driver));
    let [first, second] = of_prometheus;
    assert_eq!(read.gpus, [described(LabelOrigin::Scrape, "570"), first, second]);
}

#[test]
fn recordings_beyond_the_limit_are_told() {
    let first = indicator_run(vec![vec![tried(0.0, 500.0)]]);
    let given = (0_u32..MAX_RECORDINGS as u32 + 2).fold(first, |given, sequence| {
        given.recorded(&format!("0-0-{sequence}/host.jsonl"), host(&[(f64::from(sequence), json!({"load_1m": sequence}))]))
    });
    insta::assert_snapshot!(given.shown(), @"
    t0 0 host unknown host load_1m gauge tasks 64 0.000 31.500 63.000 59.850 gap 0
    telemetry_left_out: no rows have 2 recordings beyond 64 of one source in one block
    ");
}

#[test]
fn a_host_is_the_one_that_the_load_came_from() {
    let host_of = |name: &str, role: &str| json!({"name": name, "roles": [role], "facts": HostFacts::unknown("a test")});
    let environment: Environment = serde_json::from_value(json!({
        "plan_digest": digest("plan"), "block": {"index": 0, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [host_of("gpu", "target"), host_of("local", "client")], "software": [], "targets": [],
        "controls": [], "placement": {}, "readings": [],
    }))
    .expect("an environment");
    let given = indicator_run(vec![vec![tried(0.0, 5.0)]]).recorded("0-0-0/host.jsonl", host(&[(1.0, json!({"load_1m": 1}))]));
    let evidence = [given.recordings[0].0.clone()];
    let (rows, _) = given.rows_of(&evidence, &[&environment]).expect("rows");
    assert_eq!(rows[0].text("scope_id"), Some("local"));
}

/// The issues about the energy of a host that has RAPL, of an attempt whose target runs on these hosts.
fn energy_issues(hosts: &[&str]) -> Vec<String> {
    let host_of = |name: &str, role: &str| json!({"name": name, "roles": [role], "facts": HostFacts::unknown("a test")});
    let environment: Environment = serde_json::from_value(json!({
        "plan_digest": digest("plan"), "block": {"index": 0, "incarnation": 0}, "observed_at": "2026-01-01T00:00:00.000000000Z",
        "hosts": [host_of("gpu", "target"), host_of("local", "client")], "software": [],
        "targets": [{"id": "t", "kind": "endpoint", "hosts": hosts, "version": {"source": "unknown", "how": "x"}, "models": [], "probes": []}],
        "controls": [], "placement": {}, "readings": [],
    }))
    .expect("an environment");
    let readings: Vec<_> = (0..=15)
        .map(|second| (f64::from(second), json!({"cpu_package_energy_uj": 70_000_000 * second, "cpu_packages": 2})))
        .collect();
    let given = recorded_run(serving(1), vec![vec![tried(0.0, 15.0)]]).recorded("0-0-0/host.jsonl", host(&readings));
    let environments = [&environment];
    let context = RowContext { environments: &environments, ..given.run.context() };
    let evidence = [given.recordings[0].0.clone()];
    let read = given.read(&evidence, &context).expect("readable");
    let no_records = |_: &Artifact| -> Result<_, Failure> { panic!("the attempt has none") };
    let reduced = read.meters.reduce(&context, &given.run.dimensions(), &[], &no_records).expect("reduced");
    reduced.issues.into_iter().map(|issue| issue.detail).collect()
}

#[test]
fn the_energy_of_a_machine_that_does_not_run_the_target_is_not_that_of_its_work() {
    assert_eq!(energy_issues(&["gpu"]), [""; 0]);
    assert_eq!(energy_issues(&[]), [""; 0], "it is not known where the endpoint runs");
    assert_eq!(
        energy_issues(&["gpu", "local"]),
        ["`host`: the cpu package energy of 1 attempt is not known: 1 in which no request succeeded while energy was read"]
    );
}

/// A recording of the run's one block by a recorder on a node; `None` if there is no cluster.
fn recorder(sequence: u32, node: Option<&str>, start: f64, end: f64) -> Recording {
    Recording {
        plan_digest: digest("plan"),
        block: Block { index: 0, incarnation: 0 },
        sequence,
        place: node.map(|node| place(node, "recorder")),
        window: window(start, end),
        interval_ns: Count(S as u64),
        series: Vec::new(),
        gaps: Vec::new(),
    }
}

#[test]
fn a_host_of_a_cluster_is_the_recorder_s_node() {
    let told = |recorders: Vec<Recording>| {
        let mut given = indicator_run(vec![vec![tried(0.0, 5.0)], vec![tried(6.0, 9.0)]])
            .recorded("0-0-0/host.jsonl", host(&[(1.0, json!({"load_1m": 1})), (7.0, json!({"load_1m": 1}))]));
        given.run.recordings = recorders;
        let (rows, _) = given.rows().expect("rows");
        let text = |row: &Row, column: &str| row.text(column).unwrap_or("-").to_owned();
        let line = |row: &Row| ["scope_id", "node_name", "pod_uid", "job_uid"].map(|column| text(row, column)).join(" ");
        rows.iter().map(line).collect::<Vec<_>>()
    };
    assert_eq!(told(vec![recorder(0, None, 0.0, 9.0)]), ["unknown - - -", "unknown - - -"], "one machine");
    let moved = vec![recorder(0, Some("a"), 0.0, 4.0), recorder(1, Some("b"), 5.5, 9.0)];
    assert_eq!(told(moved), ["a a recorder-uid job-uid", "b b recorder-uid job-uid"], "the one that was up");
    let both = vec![recorder(0, Some("a"), 0.0, 4.0), recorder(1, Some("b"), 4.5, 9.0)];
    assert_eq!(told(both), ["unknown - recorder-uid job-uid", "b b recorder-uid job-uid"], "two in one window");
}

#[test]
fn a_damaged_recording_is_refused() {
    let refusal = |bytes: &[u8]| {
        let given = indicator_run(vec![vec![tried(0.0, 5.0)]]).recorded("0-0-0/host.jsonl", bytes.to_vec());
        given.rows().expect_err("refused").message
    };
    insta::assert_snapshot!(refusal(b"{}\n"), @"line 1 of `recordings/0-0-0/host.jsonl` is no reading");
    insta::assert_snapshot!(refusal(&vec![b' '; 2 << 20]), @"line 1 of `recordings/0-0-0/host.jsonl` is longer than the limit of 1048576 bytes");
}

/// Recordings, each as counter values at tenths of a second.
fn recordings() -> impl Strategy<Value = Vec<Vec<(u32, u32)>>> {
    prop::collection::vec(prop::collection::vec((0_u32..300, 0_u32..1000), 0..12), 1..5)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_order_of_the_evidence_changes_nothing(
        (recorded, order) in recordings().prop_flat_map(|recorded| {
            let order: Vec<usize> = (0..recorded.len() * 2).collect();
            (Just(recorded), Just(order).prop_shuffle())
        }),
        windows in prop::collection::vec((0_u32..300, 0_u32..100), 1..6),
    ) {
        let tenths = |tenths: u32| f64::from(tenths) / 10.0;
        let trials = windows.iter().map(|(start, length)| vec![tried(tenths(*start), tenths(start + length))]).collect();
        let mut run = recorded_run(serving(windows.len()), trials);
        for (sequence, readings) in recorded.iter().enumerate() {
            let of_host: Vec<_> = readings.iter().map(|(at, count)| (tenths(*at), json!({"forks": count, "load_1m": count}))).collect();
            let bodies: Vec<_> = readings.iter().map(|(at, count)| (tenths(*at), format!("a_total {count}\nb {count}\n"))).collect();
            let responses: Vec<_> = bodies.iter().map(|(at, body)| (*at, 0.05, body.as_str())).collect();
            run = run
                .recorded(&format!("0-0-{sequence}/host.jsonl"), host(&of_host))
                .recorded(&format!("0-0-{sequence}/endpoint-t.jsonl.zst"), endpoint(&responses));
        }
        let listed: Vec<_> = run.recordings.iter().map(|(artifact, _)| artifact.clone()).collect();
        let shuffled: Vec<_> = order.iter().map(|index| listed[*index].clone()).collect();
        let (expected, found) = (run.rows_of(&listed, &[]).expect("rows"), run.rows_of(&shuffled, &[]).expect("rows"));
        prop_assert_eq!(expected, found);
    }

    #[test]
    fn whatever_an_endpoint_says_is_taken_or_left(body in "([a-z_]{1,8}|\\{|\\}|=|\"|,|1|-|e|NaN|[+]Inf| |\n|# TYPE ){0,60}") {
        let run = recorded_run(serving(1), vec![vec![tried(0.0, 5.0)]])
            .recorded("0-0-0/endpoint-t.jsonl.zst", endpoint(&[(1.0, 0.1, &body), (2.0, 0.1, &body)]));
        let (rows, left_out) = run.rows().expect("rows");
        prop_assert!(left_out.is_none());
        for row in rows {
            prop_assert!(row.text("metric").is_some_and(|metric| !metric.is_empty()));
        }
    }
}
