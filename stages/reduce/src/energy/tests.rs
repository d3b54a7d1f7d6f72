use assay_manifest::{Attempt, Digest, Plan};
use assay_record::Record;
use assay_stage::ErrorCode;
use assay_warehouse::records::RecordWriter;
use serde_json::json;

use super::*;
use crate::aggregate::summarise;
use crate::fixture::{Run, attempt, collected, digest, plan};

const S: i64 = 1_000_000_000;

fn at(seconds: i64) -> Instant {
    Instant::from_unix_ns(seconds * S)
}

/// A request of ten output tokens that ended at this second of its trial.
fn ended(second: i64, outcome: Outcome) -> Record {
    Record { end_ns: Some(second * S), outcome, output_tokens: Some(10), ..Record::default() }
}

fn file(records: &[Record]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = RecordWriter::new(&mut bytes, 0, 0).expect("a writer");
    for record in records {
        writer.write(record).expect("a record");
    }
    writer.finish().expect("a file");
    bytes
}

/// A plan of this many trials of a serving workload.
fn serving(trials: usize) -> Plan {
    let mut plan = serde_json::to_value(plan(trials)).expect("json");
    plan["workloads"][0]["workload_type"] = json!("serving");
    plan["workloads"][0]["serving"] = json!({
        "api": "chat", "model": "m", "arrival": {"law": "closed"}, "prompts": {"from": "synthetic", "input": {"law": "fixed", "tokens": 10}},
        "output": {"law": "fixed", "tokens": 10}, "exact_output": true, "batch": 1, "body": {}, "duration_ns": "1", "warmup_ns": "0",
        "timeout_ns": "1", "time_limit_ns": "1", "cache": "cold_salt", "streaming": true, "continuous_usage": false, "capture": "none", "slos": [],
        "tokenizer": {"name": "common-words", "digest": digest("words")},
    });
    serde_json::from_value(plan).expect("a plan")
}

/// A run whose trials had the same records, each from second 0 on; the attempts that count.
fn run(plan: Plan, records: &[Record], counted: &[bool]) -> (Run, Vec<u8>) {
    let bytes = file(records);
    let outcome: assay_manifest::ServingOutcome = serde_json::from_value(json!({
        "schedule_digest": digest("schedule"), "start": at(0), "measured_from_ns": "0", "measured_to_ns": "1", "outcomes": {},
        "warmup_outcomes": {}, "input_tokens": "0", "output_tokens": "0", "chunk_lists": "all",
        "client": {"loop_busy_p99_ns": "0", "loop_stall_max_ns": "0", "cpu_user_us": "0", "cpu_system_us": "0", "full_reads": "0",
            "starved": "0", "sent_rate_per_s": 1.0, "connections": "0", "events": "0"},
        "clock": {"source": "same_host"},
        "records": {"name": "records", "digest": Digest::compute(&bytes), "size": "1", "media_type": "application/vnd.apache.parquet"},
    }))
    .expect("an outcome");
    let tried = |(planned, counted): (&PlannedTrial, &bool)| {
        let attempt = Attempt { serving: Some(outcome.clone()), ..attempt(planned, 0, *counted) };
        (planned.clone(), vec![ShardAttempt { collected: collected(0, *counted), attempt }])
    };
    let attempts = plan.trials.iter().zip(counted).map(tried).collect();
    (Run::with_attempts(plan, attempts), bytes)
}

fn key(plan: &Plan, trial: usize) -> AttemptKey {
    AttemptKey { block: Block { index: 0, incarnation: 0 }, trial_id: plan.trials[trial].trial_id.clone(), attempt: 0 }
}

/// 1,200 J of these GPUs from second 10 to second 20.
fn gpus(objects: &[&str], method: EnergyMethod) -> MeteredEnergy {
    MeteredEnergy {
        boundary: EnergyBoundary::Gpu,
        method,
        objects: objects.iter().map(|object| (*object).to_owned()).collect(),
        added_up: None,
        used: Ok(EnergyUse { joules: 1200.0, start: at(10), end: at(20), readings: 11 }),
    }
}

fn counter(objects: &[&str]) -> MeteredEnergy {
    gpus(objects, EnergyMethod::Counter)
}

fn reduced((run, bytes): &(Run, Vec<u8>), meters: &AttemptMeters) -> ReducedEnergy {
    let case = &run.plan.cases[0];
    let points = [summarise(&run.plan.workloads[0], case, &case.points[0], &[], digest("collection")).expect("a summary")];
    let open =
        |_: &Artifact| RecordFile::open(bytes.clone()).map_err(|error| Failure::new(ErrorCode::Records, "bad").because(&error));
    meters.reduce(&run.context(), &run.dimensions(), &points, &open).expect("reduced")
}

fn shown(found: &ReducedEnergy) -> String {
    let line = |row: &Row| {
        let text = |column: &&str| match row.get(column) {
            Some(Value::Text(text)) => text.clone(),
            Some(Value::Int(number)) => number.to_string(),
            Some(Value::Float(number)) => format!("{number:.3}"),
            Some(Value::Instant(at)) => (at.unix_ns() / S).to_string(),
            _ => "-".to_owned(),
        };
        let columns =
            ["source", "scope_kind", "scope_id", "metric", "metric_kind", "method", "objects", "mean", "max", "unit", "n"];
        let window = ["window_start_unix_ns", "window_end_unix_ns"];
        columns.iter().chain(&window).map(text).collect::<Vec<_>>().join(" ")
    };
    let issues = found.issues.iter().map(|issue| format!("{}: {}", issue.code, issue.detail));
    found.rows.iter().map(line).chain(issues).collect::<Vec<_>>().join("\n")
}

/// Two requests end with success in the covered time, one at its end; one fails, and others end before and after it.
fn records() -> Vec<Record> {
    use Outcome::{Ok, Timeout};
    vec![ended(10, Ok), ended(15, Ok), ended(16, Timeout), ended(20, Ok), ended(21, Ok)]
}

#[test]
fn energy_is_divided_by_what_ended_in_the_time_that_the_readings_cover() {
    let run = run(serving(1), &records(), &[true]);
    let mut meters = AttemptMeters::default();
    meters.add(
        key(&run.0.plan, 0),
        "prometheus/fleet",
        None,
        [gpus(&["a", "b"], EnergyMethod::Approximated), counter(&["a", "b"])],
    );
    let found = reduced(&run, &meters);
    insta::assert_snapshot!(shown(&found), @"
    prometheus/fleet gpu all energy derived counter 2 1200.000 - J 11 10 20
    prometheus/fleet gpu all energy_per_output_token derived counter 2 60.000 - J/token 11 10 20
    prometheus/fleet gpu all energy_per_request derived counter 2 600.000 - J/request 11 10 20
    ");
    let ids: BTreeSet<_> = found.rows.iter().filter_map(|row| row.text(assay_warehouse::ROW_ID)).collect();
    assert_eq!(ids.len(), found.rows.len());
    let [point] = found.points.as_slice() else { panic!("{:?}", found.points) };
    assert_eq!((point.objects, point.attempts, point.method), (Count(2), Count(1), EnergyMethod::Counter));
    assert!(
        (point.joules_per_request - 600.0).abs() < 1e-9 && (point.joules_per_output_token.unwrap_or(0.0) - 60.0).abs() < 1e-9
    );
}

#[test]
fn sampled_power_is_named_approximated() {
    let run = run(serving(1), &records(), &[true]);
    let mut meters = AttemptMeters::default();
    meters.add(key(&run.0.plan, 0), "exporter/gpus", None, [gpus(&["a"], EnergyMethod::Approximated)]);
    let found = reduced(&run, &meters);
    assert!(found.rows.iter().all(|row| row.text("method") == Some("approximated")), "{}", shown(&found));
    assert_eq!(found.rows.len(), 3);
}

#[test]
fn the_packages_of_a_host_are_those_that_its_reading_adds_up() {
    let run = run(serving(1), &records(), &[true]);
    let mut meters = AttemptMeters::default();
    let packages = MeteredEnergy { boundary: EnergyBoundary::CpuPackage, added_up: Some(2), ..counter(&[""]) };
    meters.add(key(&run.0.plan, 0), "host", Some("node-a"), [packages]);
    let found = reduced(&run, &meters);
    assert!(shown(&found).starts_with("host cpu package node-a energy derived counter 2 1200.000"), "{}", shown(&found));
}

#[test]
fn an_attempt_whose_energy_is_not_known_has_no_row_and_is_counted() {
    let run = run(serving(5), &records(), &[true; 5]);
    let mut meters = AttemptMeters::default();
    let plan = &run.0.plan;
    let faulty = |fault| MeteredEnergy { used: Err(fault), ..counter(&["a", "b"]) };
    meters.add(key(plan, 0), "prometheus/fleet", None, [faulty(EnergyFault::Gap), gpus(&["a", "b"], EnergyMethod::Approximated)]);
    meters.add(key(plan, 1), "prometheus/fleet", None, [faulty(EnergyFault::Reset)]);
    meters.add(key(plan, 2), "prometheus/fleet", None, [counter(&["a"])]);
    let late = EnergyUse { joules: 1.0, start: at(30), end: at(40), readings: 11 };
    meters.add(key(plan, 3), "prometheus/fleet", None, [MeteredEnergy { used: Ok(late), ..counter(&["a", "b"]) }]);
    let found = reduced(&run, &meters);
    // Nothing was read of the last attempt. Power takes no counter's place: it would be another method for one attempt of several.
    insta::assert_snapshot!(shown(&found), @"energy_unknown: `prometheus/fleet`: the gpu energy of 5 attempts is not known: 1 in which a counter fell, 1 with a gap in the readings of an object, 2 in which an object is missing for a part of the time, 1 in which no request succeeded while energy was read");
    assert!(found.points.is_empty());
}

#[test]
fn an_attempt_that_does_not_count_is_in_rows_alone() {
    let run = run(serving(2), &records(), &[true, false]);
    let mut meters = AttemptMeters::default();
    for trial in 0..2 {
        meters.add(key(&run.0.plan, trial), "prometheus/fleet", None, [counter(&["a"])]);
    }
    let found = reduced(&run, &meters);
    assert_eq!((found.rows.len(), found.points[0].attempts), (6, Count(1)));
}

#[test]
fn without_a_count_of_tokens_there_is_no_energy_for_each() {
    let records: Vec<Record> = records().into_iter().map(|record| Record { output_tokens: None, ..record }).collect();
    let run = run(serving(1), &records, &[true]);
    let mut meters = AttemptMeters::default();
    meters.add(key(&run.0.plan, 0), "prometheus/fleet", None, [counter(&["a"])]);
    let found = reduced(&run, &meters);
    let metrics: Vec<_> = found.rows.iter().filter_map(|row| row.text("metric")).collect();
    assert_eq!(metrics, ["energy", "energy_per_request"]);
    assert_eq!(found.points[0].joules_per_output_token, None);
}

#[test]
fn other_work_than_serving_has_no_energy() {
    let run = run(plan(1), &records(), &[true]);
    let mut meters = AttemptMeters::default();
    meters.add(key(&run.0.plan, 0), "prometheus/fleet", None, [counter(&["a"])]);
    let found = reduced(&run, &meters);
    assert_eq!((found.rows.len(), found.points.len(), found.issues.len()), (0, 0, 0));
}
