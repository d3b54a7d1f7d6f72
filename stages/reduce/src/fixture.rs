//! A run of one point for tests, with the results that its scripts printed, attempt by attempt.

use std::collections::BTreeMap;

use assay_indicator::Output;
use assay_manifest::{
    Attempt, AttemptStatus, Block, CollectedAttempt, CollectedTrial, Collection, Count, Digest, Instant, Plan, PlannedTrial,
    PodPlace, Reason, Recording, RunId, Shard, Window,
};
use assay_warehouse::{Column, Row, Table, Value as RowValue};
use serde_json::{Value, json};

use crate::dimensions::Dimensions;
use crate::evidence::{Attempts, ShardAttempt, Trial};
use crate::rows::RowContext;

/// Asserts that each column of a table that is not reserved has a value in one of the rows, except the named columns.
#[track_caller]
pub(crate) fn assert_filled(table: &'static Table, rows: &[Row], but: &[&str]) {
    let is_null = |name: &str| rows.iter().all(|row| matches!(row.get(name), None | Some(RowValue::Null)));
    let empty: Vec<_> = table.columns().filter(|column| is_null(column.name)).collect();
    let (reserved, unwritten): (Vec<&Column>, Vec<&Column>) = empty.into_iter().partition(|column| column.reserved.is_some());
    let unwritten: Vec<_> = unwritten.iter().map(|column| column.name).collect();
    assert_eq!(unwritten, but, "{}: nothing fills these", table.name);
    let planned = table.columns().filter(|column| column.reserved.is_some()).count();
    assert_eq!(reserved.len(), planned, "{}: a reserved column is filled", table.name);
}

/// The result that an attempt printed, and whether the attempt counts.
#[derive(Clone, Debug)]
pub(crate) struct PrintedAttempt {
    pub(crate) result: Value,
    pub(crate) counts: bool,
}

/// Returns a counted attempt that printed this `@result`.
pub(crate) fn printed(result: Value) -> PrintedAttempt {
    PrintedAttempt { result, counts: true }
}

/// Returns an attempt that does not count.
pub(crate) fn invalid(result: Value) -> PrintedAttempt {
    PrintedAttempt { result, counts: false }
}

/// A run with everything that its rows are made from.
pub(crate) struct Run {
    name: RunId,
    pub(crate) plan: Plan,
    pub(crate) collection: Collection,
    attempts: Attempts,
    pub(crate) recordings: Vec<Recording>,
    outputs: BTreeMap<(String, u32), Output>,
}

pub(crate) fn digest(text: &str) -> Digest {
    Digest::compute(text.as_bytes())
}

/// Returns a run whose trials had these attempts. Its workload declares `rate` (primary) and `size`.
pub(crate) fn run(trials: &[&[PrintedAttempt]]) -> Run {
    let plan = plan(trials.len());
    let mut outputs = BTreeMap::new();
    let mut attempts = Vec::new();
    for (planned, printed_attempts) in plan.trials.iter().zip(trials) {
        let of_trial = (0..).zip(printed_attempts.iter()).map(|(number, printed)| {
            let document = json!({"name": "n", "@parameters": {}, "@result": printed.result}).to_string();
            let output = assay_indicator::parse(document.as_bytes()).expect("a result");
            outputs.insert((planned.trial_id.to_string(), number), output);
            ShardAttempt { collected: collected(number, printed.counts), attempt: attempt(planned, number, printed.counts) }
        });
        attempts.push((planned.clone(), of_trial.collect()));
    }
    let collection = collection(&attempts);
    Run {
        name: "nightly".parse().expect("a run id"),
        plan,
        collection,
        attempts: Attempts(attempts),
        recordings: Vec::new(),
        outputs,
    }
}

/// Returns a pod of the run's one Job, on a node.
pub(crate) fn place(node: &str, pod: &str) -> PodPlace {
    PodPlace { node: node.to_owned(), pod: pod.to_owned(), pod_uid: format!("{pod}-uid"), job_uid: "job-uid".to_owned() }
}

pub(crate) fn collected(number: u32, counted: bool) -> CollectedAttempt {
    let block = Block { index: 0, incarnation: 0 };
    CollectedAttempt {
        attempt: number,
        block,
        shard: Shard::ONLY,
        part: digest("part"),
        counted,
        samples: Count(2),
        gaps: Vec::new(),
    }
}

pub(crate) fn attempt(planned: &PlannedTrial, number: u32, valid: bool) -> Attempt {
    let start = Instant::from_unix_ns(i64::from(planned.index) * 100 + i64::from(number));
    let end = Instant::from_unix_ns(start.unix_ns() + 50);
    let reasons = if valid { vec![] } else { vec![Reason::new("cpu_throttled", "60 %")] };
    Attempt::new(planned, number, Window { start, end, duration_ns: Count(50) }, AttemptStatus::Completed, reasons)
}

fn collection(attempts: &[(PlannedTrial, Vec<ShardAttempt>)]) -> Collection {
    let trial = |(planned, attempts): &(PlannedTrial, Vec<ShardAttempt>)| CollectedTrial {
        trial_id: planned.trial_id.clone(),
        counted: attempts.iter().any(|shard| shard.collected.counted),
        attempts: attempts.iter().map(|shard| shard.collected.clone()).collect(),
    };
    let artifact = json!({"name": "evidence.json", "digest": digest("e"), "size": "2", "media_type": "application/json"});
    Collection {
        plan_digest: digest("plan"),
        trials: attempts.iter().map(trial).collect(),
        cross_checks: Vec::new(),
        drift: Vec::new(),
        evidence: serde_json::from_value(artifact).expect("an artifact"),
        evidence_count: Count(10),
        evidence_bytes: Count(1000),
    }
}

pub(crate) fn plan(trials: usize) -> Plan {
    let artifact = json!({"name": "a", "digest": digest("a"), "size": "1", "media_type": "text/plain"});
    let metric =
        |path: &str, unit: &str, primary: bool| json!({"path": path, "unit": unit, "better": "higher", "primary": primary});
    let trial = |index: usize| {
        json!({
            "trial_id": format!("w.t.default.one.t{index}"), "case_id": "w.t.default", "point_id": "one", "index": index, "block": 0,
        })
    };
    let plan = json!({
        "pipeline": {"name": "p", "path": "p.yaml", "digest": digest("pipeline")},
        "source": {"kind": "git", "commit": "0123456789012345678901234567890123456789", "dirty": false, "files_digest": digest("f")},
        "intent": "exploratory", "controls": [],
        "workloads": [{
            "name": "w", "workload_type": "indicator", "workload_spec_digest": digest("spec"), "spec": artifact, "seed": "00",
            "metrics": [metric("rate", "GB/s", true), metric("size", "B", false)],
        }],
        "targets": [], "variants": [],
        "cases": [{
            "case_id": "w.t.default", "workload": "w", "target": "t", "variant": "default",
            "points": [{"point_id": "one", "kind": "parameters", "value": {"SIZE": "64"}}],
        }],
        "trial_policy": {"count": trials, "retry_budget": 1}, "isolation": "none", "placement": "coexist",
        "order": {"seed": "00", "digest": digest("order")}, "trials": (0..trials).map(trial).collect::<Vec<_>>(),
        "unpinned": [], "queries": [],
    });
    serde_json::from_value(plan).expect("a plan")
}

impl Run {
    /// Returns a run of a plan whose trials had these attempts.
    pub(crate) fn with_attempts(plan: Plan, attempts: Vec<(PlannedTrial, Vec<ShardAttempt>)>) -> Self {
        let collection = collection(&attempts);
        let name = "nightly".parse().expect("a run id");
        Self { name, plan, collection, attempts: Attempts(attempts), recordings: Vec::new(), outputs: BTreeMap::new() }
    }

    /// Returns the trials of its one point with their outputs.
    pub(crate) fn trials(&self) -> Vec<Trial<'_>> {
        let case = &self.plan.cases[0];
        let read = |attempt: &Attempt| Ok(self.outputs.get(&(attempt.trial_id.to_string(), attempt.attempt)).cloned());
        self.attempts.for_point(&case.case_id, &case.points[0].point_id, read).expect("evidence")
    }

    pub(crate) fn context(&self) -> RowContext<'_> {
        RowContext {
            run_id: &self.name,
            plan: &self.plan,
            plan_digest: digest("plan"),
            plan_manifest: digest("plan manifest"),
            source_manifest: Some(digest("source manifest")),
            signers: Vec::new(),
            collection: &self.collection,
            collection_manifest: digest("collection"),
            environments: &[],
            environment_manifests: Vec::new(),
            attempts: &self.attempts,
            recordings: &self.recordings,
            reduce_binary: digest("binary"),
        }
    }

    pub(crate) fn dimensions(&self) -> Dimensions {
        Dimensions::from_context(&self.context(), &[]).expect("dimensions")
    }
}
