//! `assay sources`: asks the telemetry sources of a pipeline now, and shows what a run would record of each.

mod ask;
mod print;

use std::path::PathBuf;
use std::time::Duration;

use assay_manifest::TargetKind;
use assay_runner::{LoadedSource, SourceSpec};
use assay_spec::{Closure, Work};
use assay_stage::{ErrorCode, Exit, Failure};
use serde::Serialize;

use crate::commands::plan::read;
use crate::output;

/// Ask every telemetry source of a pipeline now, and show what a run would record of it: rows, scrape intervals, and what is absent.
#[derive(clap::Args)]
pub(crate) struct Sources {
    /// The pipeline's file [default: each file of `pipelines`]
    #[arg(value_name = "PIPELINE")]
    pipeline: Option<String>,
    /// The repository: a folder, or an address that `git` can fetch
    #[arg(long, value_name = "PATH|URL")]
    repo: Option<String>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// The telemetry sources of a pipeline, as they respond now.
#[derive(Debug, Serialize)]
struct PipelineSources {
    pipeline: String,
    /// The attempts whose length is known before they run.
    attempts: Vec<AttemptLength>,
    sources: Vec<SourceState>,
}

/// The length of the attempts of a workload.
#[derive(Debug, Serialize)]
struct AttemptLength {
    workload: String,
    duration_ns: u64,
}

/// The present state of a source.
#[derive(Debug, Serialize)]
struct SourceState {
    /// Its name in rows.
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
    /// The reason why it cannot be asked, or gives nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// True if it should respond now and does not.
    unreachable: bool,
    /// A note for people about a source that is not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// The metrics of a response that have rows, and those beyond the limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<u64>,
    #[serde(skip_serializing_if = "is_zero")]
    metrics_left_out: u64,
    /// The quantities that the source has no value of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without_value: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_offset_ns: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clock_uncertainty_ns: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    queries: Vec<QueryState>,
}

/// The present state of a query.
#[derive(Debug, Default, Serialize)]
struct QueryState {
    pack: String,
    exporter: String,
    metric: String,
    promql: String,
    /// The series and objects that have samples in the last minutes.
    series: u64,
    scope_kind: String,
    scopes: u64,
    /// The rows of an attempt.
    rows: u64,
    /// The median interval between samples; absent if no series has two.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval_ns: Option<u64>,
    /// The interval at which the exporter reads its values, by its pack.
    resolution_ns: u64,
    /// The workloads whose attempts are too short for two samples.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    too_short: Vec<String>,
    ambiguous: u64,
    without_scope: u64,
    /// The meaning of the absence, if there is no series.
    #[serde(skip_serializing_if = "Option::is_none")]
    absent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl SourceState {
    fn new(source: impl Into<String>, address: Option<String>) -> Self {
        Self {
            source: source.into(),
            address,
            error: None,
            unreachable: false,
            note: None,
            metrics: None,
            metrics_left_out: 0,
            without_value: Vec::new(),
            clock_offset_ns: None,
            clock_uncertainty_ns: None,
            queries: Vec::new(),
        }
    }

    fn with_note(self, note: &str) -> Self {
        Self { note: Some(note.to_owned()), ..self }
    }

    fn failed(self, why: String) -> Self {
        Self { error: Some(why), unreachable: true, ..self }
    }
}

impl Sources {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let pipelines = match &self.pipeline {
            Some(pipeline) => vec![pipeline.clone()],
            None => default_pipelines()?,
        };
        let mut found = Vec::new();
        for pipeline in pipelines {
            let spec = SourceSpec { pipeline: pipeline.clone(), repo: self.repo.clone(), ..SourceSpec::default() };
            found.push(pipeline_sources(pipeline, &read(&spec)?)?);
        }
        if self.json {
            output::json(&found)?;
        } else {
            found.iter().for_each(print::print);
        }
        let unreachable: Vec<&str> = found
            .iter()
            .flat_map(|found| &found.sources)
            .filter(|state| state.unreachable)
            .map(|state| state.source.as_str())
            .collect();
        if unreachable.is_empty() {
            return Ok(Exit::Done);
        }
        let names = unreachable.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        Err(Failure::new(ErrorCode::TelemetryUnreachable, format!("cannot be asked now: {names}")))
    }
}

/// Returns the pipelines of the working folder, sorted.
fn default_pipelines() -> Result<Vec<String>, Failure> {
    let unreadable = |error: std::io::Error| {
        Failure::new(ErrorCode::NothingToValidate, "there is no folder `pipelines` here")
            .because(&error)
            .hint("name a pipeline: `assay sources PIPELINE`")
    };
    let entries = std::fs::read_dir("pipelines").map_err(unreadable)?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<PathBuf>, _>>().map_err(unreadable)?;
    let is_definition = |path: &PathBuf| path.extension().is_some_and(|end| end == "yaml" || end == "yml") && path.is_file();
    let mut found: Vec<String> = paths.into_iter().filter(is_definition).map(|path| path.display().to_string()).collect();
    found.sort_unstable();
    if found.is_empty() {
        return Err(Failure::new(ErrorCode::NothingToValidate, "the folder `pipelines` has no pipeline")
            .hint("name a pipeline: `assay sources PIPELINE`"));
    }
    Ok(found)
}

/// Asks the sources of a pipeline, one after the other.
fn pipeline_sources(pipeline: String, source: &LoadedSource) -> Result<PipelineSources, Failure> {
    let closure = &source.closure;
    let attempts = attempt_lengths(closure);
    let read = |wanted: &str| source.files().find(|(path, _)| *path == wanted).map(|(_, bytes)| bytes.to_vec());
    let mut sources =
        vec![SourceState::new("host", None).with_note("the counters of the machine of the recorder, once a second")];
    for target in closure.pipeline.spec.targets.iter().filter(|target| target.kind != TargetKind::Host) {
        sources.extend(ask::endpoints(target));
    }
    for telemetry in &closure.pipeline.spec.telemetry {
        if let Some(scrape) = &telemetry.scrape {
            sources.push(ask::exporter(&telemetry.name, scrape));
        }
        if let Some(from) = &telemetry.sacct {
            sources.push(ask::accounting(&telemetry.name, from));
        }
        if let Some(address) = &telemetry.otlp {
            sources.push(ask::traces(&telemetry.name, address));
        }
        if telemetry.nvidia_smi {
            sources.push(ask::nvidia_smi(&telemetry.name));
        }
        if let Some(server) = &telemetry.prometheus {
            let planned = assay_planning::prometheus_source(&telemetry.name, server, &read)?;
            sources.push(ask::prometheus(&telemetry.name, &planned, &attempts));
        }
    }
    let cluster = "off on this machine: a run in a cluster keeps the events of its Jobs, pods and Kueue Workloads, and the conditions of its \
                   Workloads and nodes";
    sources.push(SourceState::new("cluster", None).with_note(cluster));
    Ok(PipelineSources { pipeline, attempts, sources })
}

/// Returns the workloads of which each attempt has a known length: loads that last for a time.
fn attempt_lengths(closure: &Closure) -> Vec<AttemptLength> {
    let length = |workload: &assay_spec::Workload| {
        let Work::Serving(serving) = &workload.spec.work else { return None };
        let duration: Duration = serving.load.duration?.checked_add(serving.load.warmup)?;
        let duration_ns = u64::try_from(duration.as_nanos()).ok()?;
        Some(AttemptLength { workload: workload.name.to_string(), duration_ns })
    };
    closure.workloads.iter().filter_map(length).collect()
}
