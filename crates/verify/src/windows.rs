//! The attempts of a run that count, from its curated rows: outcomes, and the readings of the telemetry sources meanwhile. They are what an explanation
//! is made from.

use std::collections::{BTreeMap, BTreeSet};

use assay_diagnosis::{Better, ClusterEvent, Explanation, Outcome, Pair, Reading, Series, Subject, Window, explain, rules};
use assay_manifest::{CaseId, Name, Plan, Side, Summary, WorkloadType};
use assay_report::{Explained, WhyWorse};
use assay_warehouse::{Row, TELEMETRY_SLICE_FACT, Value};

use crate::Result;
use crate::blobs::Blobs;
use crate::levels::read_tables;
use crate::outcomes::Tables;

/// The tables that an explanation is made from.
const TABLES: [&str; 3] = ["attempt_fact", "outcome_fact", "telemetry_slice_fact"];

/// The tables that hold the facts of a cluster.
const CLUSTER_TABLES: [&str; 2] = ["cluster_event_fact", "cluster_pod_fact"];

/// The attempts of a case at a point.
#[derive(Clone, Debug)]
pub struct CaseWindows {
    /// The case.
    pub case: String,
    /// The point.
    pub point: String,
    /// The digest of the frozen workload.
    pub workload_spec_digest: String,
    /// True if the work is requests to an endpoint.
    pub has_endpoint: bool,
    /// The attempts that count.
    pub windows: Vec<Window>,
}

/// The key of an attempt: case, trial and number.
type AttemptKey<'a> = (&'a str, &'a str, i64);

/// Reads the curated rows of a run, and returns the attempts that count, by case and point: those of every planned point, if there is a plan. Empty
/// if the run has no attempt.
///
/// # Errors
/// Fails if a curated file is absent or is not that of the Summary.
pub fn read_windows(blobs: &dyn Blobs, plan: Option<&Plan>, summary: &Summary) -> Result<Vec<CaseWindows>> {
    let tables = read_tables(blobs, summary.files.iter().filter(|file| TABLES.contains(&file.table.as_str())))?;
    if tables.get("attempt_fact").is_none_or(Vec::is_empty) {
        return Ok(Vec::new());
    }
    let serving = summary.points.iter().filter(|point| point.workload_type == WorkloadType::Serving);
    let serving: BTreeSet<&str> = serving.map(|point| point.case_id.as_str()).collect();
    let mut found = with_planned(plan, windows(&tables));
    for windows in &mut found {
        windows.has_endpoint = serving.contains(windows.case.as_str());
    }
    Ok(found)
}

/// Adds the planned points of which no attempt counts.
fn with_planned(plan: Option<&Plan>, mut found: Vec<CaseWindows>) -> Vec<CaseWindows> {
    let Some(plan) = plan else { return found };
    for case in &plan.cases {
        let digest = plan.workload(&case.workload).map(|workload| workload.workload_spec_digest.to_string()).unwrap_or_default();
        for point in &case.points {
            let is_there =
                |windows: &CaseWindows| windows.case == case.case_id.as_str() && windows.point == point.point_id.as_str();
            if !found.iter().any(is_there) {
                let (case, point) = (case.case_id.to_string(), point.point_id.to_string());
                let workload_spec_digest = digest.clone();
                found.push(CaseWindows { case, point, workload_spec_digest, has_endpoint: false, windows: Vec::new() });
            }
        }
    }
    found
}

fn windows(tables: &Tables) -> Vec<CaseWindows> {
    let rows = |table: &str| tables.get(table).map_or(&[][..], Vec::as_slice);
    let mut of_attempts: BTreeMap<AttemptKey<'_>, Window> = BTreeMap::new();
    let mut places: BTreeMap<AttemptKey<'_>, (&str, &str)> = BTreeMap::new();
    for row in rows("attempt_fact").iter().filter(|row| matches!(row.get("counted"), Some(Value::Bool(true)))) {
        let Some((key, point, digest)) = key(row).zip(row.text("point_id")).zip(row.text("workload_spec_digest")).map(flat)
        else {
            continue;
        };
        // Every shard of an attempt has a row.
        of_attempts.entry(key).or_default();
        places.insert(key, (point, digest));
    }
    for row in rows("outcome_fact") {
        let window = key(row).and_then(|key| of_attempts.get_mut(&key));
        if let (Some(window), Some((name, outcome))) = (window, outcome(row)) {
            window.outcomes.insert(name, outcome);
        }
    }
    for row in rows("telemetry_slice_fact") {
        let window = key(row).and_then(|key| of_attempts.get_mut(&key));
        if let (Some(window), Some(reading)) = (window, reading(row)) {
            window.readings.push(reading);
        }
    }
    let mut found: BTreeMap<(&str, &str, &str), Vec<Window>> = BTreeMap::new();
    for (key, window) in of_attempts {
        if let Some((point, digest)) = places.get(&key) {
            found.entry((key.0, point, digest)).or_default().push(window);
        }
    }
    let case_windows = |((case, point, digest), windows): ((&str, &str, &str), Vec<Window>)| CaseWindows {
        case: case.to_owned(),
        point: point.to_owned(),
        workload_spec_digest: digest.to_owned(),
        has_endpoint: false,
        windows,
    };
    found.into_iter().map(case_windows).collect()
}

fn flat<A, B, C>(((one, two), three): ((A, B), C)) -> (A, B, C) {
    (one, two, three)
}

fn key(row: &Row) -> Option<AttemptKey<'_>> {
    Some((row.text("benchmark_case_id")?, row.text("trial_id")?, whole(row, "attempt")?))
}

fn whole(row: &Row, column: &str) -> Option<i64> {
    match row.get(column) {
        Some(Value::Int(value)) => Some(*value),
        Some(Value::Instant(value)) => Some(value.unix_ns()),
        _ => None,
    }
}

fn float(row: &Row, column: &str) -> Option<f64> {
    match row.get(column) {
        Some(Value::Float(value)) => Some(*value),
        _ => None,
    }
}

/// Returns the value of a metric of one attempt: of serving the metric that names its statistic, of an indicator the median of its samples.
fn outcome(row: &Row) -> Option<(String, Outcome)> {
    let is_value = matches!(row.text("statistic"), Some("value" | "median"));
    let is_valid = matches!(row.get("valid"), Some(Value::Bool(true)));
    let value = float(row, "value").filter(|_| is_value && is_valid)?;
    let better = match row.text("better") {
        Some("higher") => Some(Better::Higher),
        Some("lower") => Some(Better::Lower),
        _ => None,
    };
    let primary = matches!(row.get("primary"), Some(Value::Bool(true)));
    let unit = row.text("unit").unwrap_or_default().to_owned();
    Some((row.text("metric")?.to_owned(), Outcome { value, unit, better, primary }))
}

fn reading(row: &Row) -> Option<Reading> {
    // A value that was derived from readings is none.
    if row.text("metric_kind") == Some("derived") {
        return None;
    }
    let (start, end) = (whole(row, "window_start_unix_ns")?, whole(row, "window_end_unix_ns")?);
    let gap_ns = whole(row, "gap_ns")?;
    let mean = float(row, "mean");
    Some(Reading {
        source: row.text("source")?.to_owned(),
        scope_kind: row.text("scope_kind")?.to_owned(),
        scope: row.text("scope_id")?.to_owned(),
        series: Series::parse(row.text("metric")?),
        // Readings without a value, such as of counters whose number changed, count as one: it is known that they were read.
        samples: u64::try_from(whole(row, "n")?).ok()?.min(if mean.is_some() { u64::MAX } else { 1 }),
        gap: gap_ns as f64 / (end.saturating_sub(start)).max(1) as f64,
        mean: mean.unwrap_or_default(),
        max: float(row, "max").unwrap_or_default(),
    })
}

/// Reads the facts that a cluster reported about a run's objects, one window an object, in the order of kinds and UIDs. The pods of a Job are one
/// object: they were created together, and what one of them waited for the others waited for. A node is no object of a run. Empty if the run was
/// in no cluster.
///
/// # Errors
/// Fails if a curated file is absent or is not that of the Summary.
pub fn read_cluster_objects(blobs: &dyn Blobs, summary: &Summary) -> Result<Vec<Window>> {
    let files = summary.files.iter().filter(|file| CLUSTER_TABLES.contains(&file.table.as_str()));
    Ok(cluster_objects(&read_tables(blobs, files)?))
}

fn cluster_objects(tables: &Tables) -> Vec<Window> {
    let rows = |table: &str| tables.get(table).map_or(&[][..], Vec::as_slice);
    let pods: BTreeMap<&str, &Row> =
        rows("cluster_pod_fact").iter().filter_map(|row| Some((row.text("pod_uid")?, row))).collect();
    let mut objects: BTreeMap<(&str, &str), Window> = BTreeMap::new();
    for row in rows("cluster_event_fact") {
        let Some(object) = row.text("object_kind").zip(row.text("object_uid")).filter(|(kind, _)| *kind != "Node") else {
            continue;
        };
        let pod = pods.get(object.1).copied().filter(|_| object.0 == "Pod");
        let unit = pod.and_then(|pod| pod.text("job_uid")).unwrap_or(object.1);
        objects.entry((object.0, unit)).or_default().events.push(cluster_event(row, object, pod));
    }
    objects.into_values().collect()
}

/// Reads a fact about an object. The API server's events do not state when a pod was created, which its own row does.
fn cluster_event(row: &Row, (kind, uid): (&str, &str), pod: Option<&Row>) -> ClusterEvent {
    let text = |column: &str| row.text(column).map(str::to_owned);
    let count = |column: &str| whole(row, column).and_then(|value| u64::try_from(value).ok());
    let since_pod = || {
        let (created, last) = (whole(pod?, "created_unix_ns")?, whole(row, "last_unix_ns")?);
        u64::try_from(last.checked_sub(created)?).ok()
    };
    ClusterEvent {
        object_kind: kind.to_owned(),
        object: text("object_name").unwrap_or_else(|| uid.to_owned()),
        stage: pod.and_then(|pod| pod.text("stage")).map(str::to_owned),
        queue: text("queue"),
        event_type: text("event_type"),
        status: text("status"),
        reason: text("reason"),
        count: count("count"),
        after_creation_ns: count("after_creation_ns").or_else(since_pod),
        message: text("message"),
    }
}

/// The most rows of telemetry that a report is made from, some two hundred megabytes.
const MAX_ROWS: u64 = 200_000;

/// Returns why the candidate of a run's own comparison is worse, for its report; `None` if the run compares nothing, and if no outcome is or may be worse.
///
/// # Errors
/// Fails if a curated file is absent or is not that of the Summary.
pub fn why_worse(blobs: &dyn Blobs, plan: &Plan, summary: &Summary) -> Result<Option<WhyWorse>> {
    if plan.comparison.is_none() {
        return Ok(None);
    }
    let telemetry = summary.files.iter().filter(|file| file.table.as_str() == TELEMETRY_SLICE_FACT.name);
    let rows: u64 = telemetry.map(|file| file.rows.0).sum();
    if rows > MAX_ROWS {
        return Ok(Some(WhyWorse::TooManyRows { rows, most: MAX_ROWS }));
    }
    let Some(paired) = pair_sides(plan, &read_windows(blobs, Some(plan), summary)?) else { return Ok(None) };
    let explained = paired.explain();
    let Explanation { worse, perhaps_worse, findings, .. } = &explained.explanation;
    let is_worse = !(worse.is_empty() && perhaps_worse.is_empty() && findings.is_empty());
    Ok(is_worse.then_some(WhyWorse::Explained(Box::new(explained))))
}

/// One side of a comparison.
#[derive(Clone, Debug)]
pub struct NamedSide {
    /// The name for people: a run, or a target and a variant of one.
    pub name: String,
    /// Its attempts, by case and point.
    pub windows: Vec<CaseWindows>,
}

/// The points that two sides have in common.
#[derive(Clone, Debug)]
pub struct Paired {
    /// The names of the sides, baseline first.
    pub sides: [String; 2],
    /// The points of both.
    pub pairs: Vec<Pair>,
    /// The points that only one side has, or that are of other work, each in words.
    pub left_out: Vec<String>,
}

impl Paired {
    /// Adds the objects that the clusters of two runs reported, baseline first. The sides of one run have theirs in common, and nothing to compare.
    #[must_use]
    pub fn with_cluster_objects(mut self, [baseline, candidate]: [Vec<Window>; 2]) -> Self {
        self.pairs.push(Pair::of_cluster_objects(baseline, candidate));
        self
    }

    /// Explains why the candidate is worse, by the rules of this version.
    pub fn explain(self) -> Explained {
        let Self { sides, pairs, left_out } = self;
        Explained { sides, left_out, explanation: explain(rules(), &pairs) }
    }
}

/// Pairs the points of both sides of a run's own comparison; `None` if it compares nothing.
pub fn pair_sides(plan: &Plan, all: &[CaseWindows]) -> Option<Paired> {
    let comparison = plan.comparison.as_ref()?;
    let of = |side: &Side| -> NamedSide {
        let cases = plan.cases.iter().filter(|case| case.target == side.target && case.variant == side.variant);
        let cases: Vec<&CaseId> = cases.map(|case| &case.case_id).collect();
        let windows = all.iter().filter(|found| cases.iter().any(|case| case.as_str() == found.case)).cloned().collect();
        NamedSide { name: format!("{} {}", side.target, side.variant), windows }
    };
    let is_of = |one: &CaseWindows, other: &CaseWindows| workload_of(plan, &one.case) == workload_of(plan, &other.case);
    Some(pair([of(&comparison.baseline), of(&comparison.candidate)], is_of))
}

/// Returns the workload of a case, by the case's name in rows.
pub fn workload_of<'a>(plan: &'a Plan, case: &str) -> Option<&'a Name> {
    plan.cases.iter().find(|found| found.case_id.as_str() == case).map(|found| &found.workload)
}

/// Pairs the points that two sides have in common: those of cases that are the same by `is_of`, and of the same work.
pub fn pair(sides: [NamedSide; 2], is_of: impl Fn(&CaseWindows, &CaseWindows) -> bool) -> Paired {
    let [baseline, candidate] = sides;
    let is_same = |before: &CaseWindows, now: &CaseWindows| is_of(before, now) && before.point == now.point;
    let (mut pairs, mut left_out) = (Vec::new(), Vec::new());
    for now in &candidate.windows {
        let place = format!("{} at {}", now.case, now.point);
        match baseline.windows.iter().find(|before| is_same(before, now)) {
            None => left_out.push(format!("{place}: `{}` has no such point", baseline.name)),
            Some(before) if before.workload_spec_digest != now.workload_spec_digest => {
                left_out.push(format!("{place}: the workload is another, so no number is comparable"));
            }
            Some(before) => pairs.push(Pair {
                case: now.case.clone(),
                point: now.point.clone(),
                baseline: before.windows.clone(),
                candidate: now.windows.clone(),
                subject: if now.has_endpoint { Subject::Requests } else { Subject::Command },
                known_worse: BTreeSet::new(),
            }),
        }
    }
    let gone = baseline.windows.iter().filter(|before| !candidate.windows.iter().any(|now| is_same(before, now)));
    left_out.extend(gone.map(|before| format!("{} at {}: `{}` has no such point", before.case, before.point, candidate.name)));
    Paired { sides: [baseline.name, candidate.name], pairs, left_out }
}

#[cfg(test)]
mod tests {
    use assay_warehouse::{CLUSTER_EVENT_FACT, CLUSTER_POD_FACT, Table};

    use super::*;

    fn row(table: &'static Table, columns: &[(&str, Value)]) -> Row {
        columns.iter().fold(Row::new(table), |row, (column, value)| row.with(column, value.clone()).expect("a column"))
    }

    fn text(text: &str) -> Value {
        Value::Text(text.to_owned())
    }

    fn instant(seconds: i64) -> Value {
        Value::Instant(assay_manifest::Instant::from_unix_ns(seconds * 1_000_000_000))
    }

    fn event(kind: &str, uid: &str, reason: &str, last: i64) -> Row {
        let columns =
            [("object_kind", text(kind)), ("object_uid", text(uid)), ("reason", text(reason)), ("last_unix_ns", instant(last))];
        row(&CLUSTER_EVENT_FACT, &columns)
    }

    #[test]
    fn the_pods_of_a_job_are_one_object_and_have_their_stage_and_the_time_since_their_creation() {
        let pod = |uid: &str| {
            let columns =
                [("pod_uid", text(uid)), ("job_uid", text("job")), ("stage", text("execute")), ("created_unix_ns", instant(100))];
            row(&CLUSTER_POD_FACT, &columns)
        };
        let events = vec![
            event("Pod", "a", "Scheduled", 107),
            event("Pod", "b", "Scheduled", 109),
            event("Pod", "of-another-job", "Scheduled", 109),
            event("Node", "n", "Ready", 1),
            event("Workload", "job", "Admitted", 90),
        ];
        let tables = Tables::from([("cluster_event_fact", events), ("cluster_pod_fact", vec![pod("a"), pod("b")])]);
        let found: Vec<Vec<_>> = cluster_objects(&tables)
            .into_iter()
            .map(|window| window.events.into_iter().map(|event| (event.object, event.stage, event.after_creation_ns)).collect())
            .collect();
        let of_load = |name: &str, ns| (name.to_owned(), Some("execute".to_owned()), Some(ns));
        assert_eq!(
            found,
            [
                vec![of_load("a", 7_000_000_000), of_load("b", 9_000_000_000)],
                vec![("of-another-job".to_owned(), None, None)],
                vec![("job".to_owned(), None, None)],
            ]
        );
        assert!(cluster_objects(&Tables::new()).is_empty());
    }
}
