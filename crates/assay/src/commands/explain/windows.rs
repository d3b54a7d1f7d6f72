//! The attempts of a run that count, from its curated rows: outcomes, and the readings of the telemetry sources meanwhile.

use std::collections::BTreeMap;

use assay_diagnosis::{Better, Outcome, Reading, Series, Window};
use assay_manifest::Plan;
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Failure};
use assay_verify::{Tables, read_tables};
use assay_warehouse::{Row, Value};

/// The tables that an explanation is made from.
const TABLES: [&str; 3] = ["attempt_fact", "outcome_fact", "telemetry_slice_fact"];

/// The attempts of a case at a point.
#[derive(Clone, Debug)]
pub(super) struct CaseWindows {
    pub(super) case: String,
    pub(super) point: String,
    pub(super) workload_spec_digest: String,
    pub(super) windows: Vec<Window>,
}

/// The key of an attempt: case, trial and number.
type AttemptKey<'a> = (&'a str, &'a str, i64);

/// Reads the curated rows of a run, and returns the attempts that count, by case and point.
///
/// # Errors
/// Fails if the run has no Summary, and if a curated file is absent or is not that of the Summary.
pub(super) fn read_windows(run: &VerifiedRun) -> Result<Vec<CaseWindows>, Failure> {
    let files = &run.summary()?.files;
    let tables = read_tables(run.blobs.as_ref(), files.iter().filter(|file| TABLES.contains(&file.table.as_str())))?;
    if tables.get("attempt_fact").is_none_or(Vec::is_empty) {
        return Err(Failure::new(ErrorCode::NothingCompared, format!("run `{}` has no attempt", run.chain.run_id)));
    }
    Ok(with_planned(run, windows(&tables)))
}

/// Adds the planned points of which no attempt counts.
fn with_planned(run: &VerifiedRun, mut found: Vec<CaseWindows>) -> Vec<CaseWindows> {
    let Some(plan) = run.chain.one::<Plan>() else { return found };
    for case in &plan.body.cases {
        let digest =
            plan.body.workload(&case.workload).map(|workload| workload.workload_spec_digest.to_string()).unwrap_or_default();
        for point in &case.points {
            let is_there =
                |windows: &CaseWindows| windows.case == case.case_id.as_str() && windows.point == point.point_id.as_str();
            if !found.iter().any(is_there) {
                let (case, point) = (case.case_id.to_string(), point.point_id.to_string());
                found.push(CaseWindows { case, point, workload_spec_digest: digest.clone(), windows: Vec::new() });
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
    let (start, end) = (whole(row, "window_start_unix_ns")?, whole(row, "window_end_unix_ns")?);
    let gap_ns = whole(row, "gap_ns")?;
    Some(Reading {
        source: row.text("source")?.to_owned(),
        scope: row.text("scope_id")?.to_owned(),
        series: Series::parse(row.text("metric")?),
        samples: u64::try_from(whole(row, "n")?).ok()?,
        gap: gap_ns as f64 / (end.saturating_sub(start)).max(1) as f64,
        // A counter that was read once has no increase; that it was read is known.
        mean: float(row, "mean").unwrap_or_default(),
        max: float(row, "max").unwrap_or_default(),
    })
}
