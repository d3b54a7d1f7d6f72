//! `assay trace`: from a number's address to everything that it stands on.

use assay_manifest::{
    Attempt, CuratedFile, Digest, ExecutionPart, FrozenWorkload, MetricSummary, Plan, PointSummary, RunId, ServingOutcome,
    Source, Summary, TrialValue,
};
use assay_stage::{Exit, Failure};
use assay_warehouse::{ROW_ID, Row, Value};
use serde_json::json;

use crate::commands::opened::{Opened, Where};
use crate::commands::recompute::reduce_again;
use crate::output;

/// The largest curated file, and the largest raw output, that is read.
const MAX_BYTES: u64 = 1 << 30;

/// Raw samples shown before the rest is only counted.
const SHOWN: usize = 8;

/// Walks a number back, checking every signature and digest on the way.
#[derive(clap::Args)]
pub(crate) struct Trace {
    /// The number's address, `<run>/<table>/<row id>/<column>`, as tables and reports print it
    #[arg(value_name = "NUMBER")]
    number: String,
    /// The published folder to look in, instead of the store
    #[arg(long, value_name = "PATH")]
    from: Option<String>,
    #[command(flatten)]
    place: Where,
    /// Derive the number again from the raw evidence and compare
    #[arg(long)]
    recompute: bool,
    /// Print the walk as one JSON document
    #[arg(long)]
    json: bool,
}

/// A number's address, taken apart.
struct Address<'a> {
    run_id: RunId,
    table: &'a str,
    row: &'a str,
    column: &'a str,
}

impl<'a> Address<'a> {
    fn parse(text: &'a str) -> Result<Self, Failure> {
        let parts: Vec<_> = text.split('/').collect();
        let [run, table, row, column] = parts.as_slice() else {
            return Err(Failure::usage("address", format!("`{text}` is not the address of a number"))
                .hint("an address is `<run>/<table>/<row id>/<column>`; tables and reports print it"));
        };
        let run_id = run.parse().map_err(|error| Failure::usage("address", format!("`{run}` names no run")).because(&error))?;
        Ok(Self { run_id, table, row, column })
    }
}

/// Everything that a number stands on.
struct Walk<'a> {
    value: Value,
    row: Row,
    file: &'a CuratedFile,
    point: &'a PointSummary,
    metric: &'a MetricSummary,
    workload: &'a FrozenWorkload,
    statistic: String,
}

impl Trace {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let address = Address::parse(&self.number)?;
        let opened = self.place.open(self.from.as_deref().unwrap_or(address.run_id.as_str()))?;
        if opened.chain.run_id != address.run_id {
            return Err(Failure::usage(
                "address",
                format!("the folder holds run `{}`, not `{}`", opened.chain.run_id, address.run_id),
            ));
        }
        let walk = walk(&opened, &address)?;
        let again = if self.recompute { Some(again(&opened, &walk)?) } else { None };
        if self.json {
            print_json(&opened, &address, &walk, again)?;
        } else {
            print(&opened, &address, &walk, again);
        }
        Ok(if opened.chain.is_established() { Exit::Done } else { Exit::Unestablished })
    }
}

fn walk<'a>(opened: &'a Opened, address: &Address<'_>) -> Result<Walk<'a>, Failure> {
    let unpublished = || Failure::usage("not_published", format!("the run `{}` has no numbers", address.run_id));
    let summary = &opened.chain.one::<Summary>().ok_or_else(unpublished)?.body;
    let plan = &opened.chain.one::<Plan>().ok_or_else(unpublished)?.body;
    let numbers = assay_warehouse::OUTCOME_FACT.name;
    let file = summary.files.iter().find(|file| file.table == numbers && address.table == numbers).ok_or_else(|| {
        Failure::usage("unknown_table", format!("the run has no numbers in a table `{}`", address.table))
            .hint(format!("numbers lie in `{numbers}`"))
    })?;
    let row = find_row(opened, address, file)?;
    let value = row.get(address.column).cloned().ok_or_else(|| {
        Failure::usage("unknown_column", format!("the table `{}` has no column `{}`", address.table, address.column))
            .hint("numbers lie in the column `value`")
    })?;
    let text = |column: &str| row.text(column).unwrap_or_default().to_owned();
    let (case, point, metric) = (text("benchmark_case_id"), text("point_id"), text("metric"));
    let point = summary.points.iter().find(|found| found.case_id.as_str() == case && found.point_id.as_str() == point);
    let unnamed = || Failure::verification("row_without_summary", "the row's case, point or metric is not in the signed summary");
    let point = point.ok_or_else(unnamed)?;
    let metric = point.metrics.iter().find(|found| found.metric == metric).ok_or_else(unnamed)?;
    let workload = plan.workloads.iter().find(|workload| workload.workload_spec_digest == point.workload_spec_digest);
    Ok(Walk { value, file, point, metric, workload: workload.ok_or_else(unnamed)?, statistic: text("statistic"), row })
}

fn find_row(opened: &Opened, address: &Address<'_>, file: &CuratedFile) -> Result<Row, Failure> {
    let table = assay_warehouse::table(address.table)
        .ok_or_else(|| Failure::usage("unknown_table", format!("there is no table `{}`", address.table)))?;
    let bytes = opened.blobs.get(&file.artifact.digest, MAX_BYTES)?.ok_or_else(|| {
        Failure::verification(
            "artifact_absent",
            format!("the curated file `{}` ({}) is not there", file.artifact.name, file.artifact.digest),
        )
    })?;
    let mut rows = assay_warehouse::find(table, bytes, address.row).map_err(|error| match error {
        assay_warehouse::Error::BadPrefix(_) => Failure::of(Exit::Usage, "address", &error),
        error => Failure::of(Exit::Verification, "rows", &error),
    })?;
    match (rows.pop(), rows.len()) {
        (Some(row), 0) => Ok(row),
        (None, _) => Err(Failure::usage(
            "no_such_row",
            format!("no row of `{}` has an id that begins with `{}`", address.table, address.row),
        )),
        (Some(_), more) => Err(Failure::usage(
            "ambiguous_row",
            format!("{} rows of `{}` have ids that begin with `{}`", more + 1, address.table, address.row),
        )
        .hint("give more digits of the row id")),
    }
}

/// Derives the number again from the raw evidence.
fn again(opened: &Opened, walk: &Walk<'_>) -> Result<(f64, bool), Failure> {
    let store = opened.store.as_ref().ok_or_else(|| {
        Failure::usage("no_evidence", "raw evidence stays in the store: a published folder cannot be computed again")
            .hint("name the store with `--store` instead of a folder")
    })?;
    let inputs = opened.chain.all::<Summary>().next().map(|(_, summary)| summary.header.inputs.clone()).unwrap_or_default();
    let summary = reduce_again(opened, store, &inputs)?;
    let point = summary.points.iter().find(|point| point.case_id == walk.point.case_id && point.point_id == walk.point.point_id);
    let metric = point.and_then(|point| point.metrics.iter().find(|metric| metric.metric == walk.metric.metric));
    let trial = walk.row.text("trial_id").map(str::to_owned);
    let value = metric.and_then(|metric| match &trial {
        None => metric.statistic(&walk.statistic),
        Some(trial) => metric.trials.iter().find(|value| value.trial_id.as_str() == trial).map(|value| value.value),
    });
    let value =
        value.ok_or_else(|| Failure::verification("recompute_differs", "the number is not among those that reduce gives now"))?;
    let same = walk.value == Value::Float(value);
    if same {
        return Ok((value, same));
    }
    let (before, now) = (number(&walk.value), value);
    Err(Failure::verification("recompute_differs", format!("the number was {before} and is {now} when computed again")))
}

fn number(value: &Value) -> String {
    match value {
        Value::Float(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Text(value) => value.clone(),
        Value::Bool(value) => value.to_string(),
        Value::Instant(value) => value.to_string(),
        Value::Null => "absent".to_owned(),
    }
}

/// The trials that the number was computed from: all counted ones, or the one whose own statistic it is.
fn trials<'a>(walk: &'a Walk<'_>) -> Vec<&'a TrialValue> {
    let of = walk.row.text("trial_id");
    walk.metric.trials.iter().filter(|trial| of.is_none_or(|of| trial.trial_id.as_str() == of)).collect()
}

/// The attempt behind a trial's value, and the part that holds it.
fn attempt_of<'a>(opened: &'a Opened, trial: &TrialValue) -> Option<(&'a Attempt, Digest)> {
    opened.chain.all::<ExecutionPart>().find_map(|(reference, part)| {
        let attempt =
            part.body.attempts.iter().find(|found| found.trial_id == trial.trial_id && found.attempt == trial.attempt)?;
        Some((attempt, reference.manifest))
    })
}

/// The raw samples of a trial, read back from what its script printed.
fn raw_samples(opened: &Opened, attempt: &Attempt, metric: &str) -> Result<Option<Vec<f64>>, Failure> {
    let Some(stdout) = attempt.evidence.iter().find(|artifact| artifact.name.ends_with("/stdout")) else { return Ok(None) };
    let Some(bytes) = opened.blobs.get(&stdout.digest, MAX_BYTES)? else { return Ok(None) };
    let parsed = assay_indicator::parse(&bytes).map_err(|error| Failure::of(Exit::Verification, "malformed", &error))?;
    let value = parsed.result.into_iter().find(|(path, _)| path == metric).map(|(_, value)| value);
    Ok(match value {
        Some(assay_indicator::Value::Number(number)) => Some(vec![number]),
        Some(assay_indicator::Value::Samples(samples)) => Some(samples),
        _ => None,
    })
}

fn print(opened: &Opened, address: &Address<'_>, walk: &Walk<'_>, again: Option<(f64, bool)>) {
    let unit = walk.row.text("unit").unwrap_or_default();
    output::line(format!("number    {} {unit}", number(&walk.value)));
    output::line(format!(
        "is        the {} of `{}`, {} at `{}`",
        walk.statistic, walk.metric.metric, walk.point.case_id, walk.point.point_id
    ));
    output::line(format!("row       {} of {}", walk.row.text(ROW_ID).unwrap_or_default(), address.table));
    output::line(format!(
        "file      {} ({}, {} rows): a subject of the signed summary",
        walk.file.artifact.digest, walk.file.artifact.name, walk.file.rows
    ));
    output::line(format!("run       {}", opened.chain.run_id));
    print_source(opened, walk);
    print_trials(opened, walk);
    output::line("signed by");
    for verified in &opened.chain.documents {
        output::line(format!(
            "  ok  {:<18} {}  {}  key {}",
            assay_stage::chain_name(verified.value()),
            verified.manifest_digest(),
            verified.signer().name,
            verified.signer().fingerprint.short(),
        ));
    }
    output::line(format!("trust     {}", opened.trusted_by));
    if let Some((value, _)) = again {
        output::line(format!("again     {value} {unit}: computed again from the raw evidence, and equal"));
    }
    if !opened.chain.is_established() {
        output::line("internally consistent; signer not established");
    }
}

fn print_source(opened: &Opened, walk: &Walk<'_>) {
    output::line(format!("workload  {} ({})", walk.workload.name, walk.workload.workload_spec_digest));
    if let Some(work) = &walk.workload.indicator {
        output::line(format!("script    {} from {}", work.script.artifact.digest, work.script.origin));
    }
    let Some(source) = opened.chain.one::<Source>() else { return };
    let commit = source.body.commit.as_deref().unwrap_or("none");
    let what = match (&opened.chain.commit, source.body.dirty) {
        (Some(info), _) => {
            format!("{commit}, whose trees hold every file that was run: {}", info.message.lines().next().unwrap_or_default())
        }
        (None, true) => format!("none: a work tree above {commit}, whose files are {}", source.body.files_digest),
        (None, false) => commit.to_owned(),
    };
    output::line(format!("commit    {what}"));
    if let Some(repository) = &source.body.repository {
        output::line(format!("from      {repository}"));
    }
}

/// What stands in a serving attempt's records.
fn requests(serving: &ServingOutcome) -> String {
    let measured = serving.outcomes.values().fold(0_u64, |sum, count| sum.saturating_add(count.0));
    let outcomes: Vec<_> = serving.outcomes.iter().map(|(outcome, count)| format!("{count} {outcome}")).collect();
    format!("{measured} requests, one row each: {}", outcomes.join(", "))
}

fn print_trials(opened: &Opened, walk: &Walk<'_>) {
    output::line(format!("trials    {} counted", trials(walk).len()));
    for trial in trials(walk) {
        let Some((attempt, part)) = attempt_of(opened, trial) else { continue };
        let samples = match raw_samples(opened, attempt, &walk.metric.metric) {
            Ok(Some(samples)) => {
                let shown: Vec<_> = samples.iter().take(SHOWN).map(f64::to_string).collect();
                let more = if samples.len() > SHOWN { format!(" and {} more", samples.len() - SHOWN) } else { String::new() };
                format!("samples {}{more}", shown.join(" "))
            }
            Ok(None) => match &attempt.serving {
                Some(serving) => requests(serving),
                None => "raw samples are not here".to_owned(),
            },
            Err(failure) => failure.message,
        };
        let flagged = if trial.flagged { ", far from the others" } else { "" };
        output::line(format!("  {} attempt {}: {}{flagged}", trial.trial_id, trial.attempt + 1, trial.value));
        output::line(format!("    {samples}"));
        let is_raw = |name: &str| name.ends_with("/stdout") || name.ends_with("/records.parquet");
        let raw = attempt.evidence.iter().find(|artifact| is_raw(&artifact.name)).map(|artifact| artifact.digest);
        let raw = raw.map(|digest| digest.to_string()).unwrap_or_default();
        output::line(format!("    raw {raw} in execution part {}", part.short()));
    }
}

fn print_json(opened: &Opened, address: &Address<'_>, walk: &Walk<'_>, again: Option<(f64, bool)>) -> Result<(), Failure> {
    let mut found = Vec::new();
    for trial in trials(walk) {
        let Some((attempt, part)) = attempt_of(opened, trial) else { continue };
        found.push(json!({
            "trial_id": trial.trial_id,
            "attempt": trial.attempt,
            "value": trial.value,
            "flagged": trial.flagged,
            "samples": raw_samples(opened, attempt, &walk.metric.metric)?,
            "evidence": attempt.evidence,
            "execution_part": part,
        }));
    }
    let signatures: Vec<_> = opened
        .chain
        .documents
        .iter()
        .map(|verified| {
            json!({
                "name": assay_stage::chain_name(verified.value()),
                "input": verified.as_input(),
                "signer": verified.signer().name,
                "fingerprint": verified.signer().fingerprint,
                "established": verified.signer().established,
            })
        })
        .collect();
    output::json(&json!({
        "address": format!("{}/{}/{}/{}", address.run_id, address.table, walk.row.text(ROW_ID).unwrap_or_default(), address.column),
        "value": match &walk.value { Value::Float(value) => json!(value), other => json!(number(other)) },
        "unit": walk.row.text("unit"),
        "statistic": walk.statistic,
        "metric": walk.metric.metric,
        "benchmark_case_id": walk.point.case_id,
        "point_id": walk.point.point_id,
        "file": walk.file.artifact,
        "workload": {"name": walk.workload.name, "workload_spec_digest": walk.workload.workload_spec_digest, "spec": walk.workload.spec.digest},
        "source": opened.chain.one::<Source>().map(|source| json!({"kind": source.body.kind, "commit": source.body.commit, "repository": source.body.repository})),
        "trials": found,
        "signatures": signatures,
        "recomputed": again.map(|(value, same)| json!({"value": value, "same": same})),
    }))
}
