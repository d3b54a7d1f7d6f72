//! The run that is exported: a plain structure, which the caller fills from a verified run.

use std::collections::BTreeMap;

use assay_manifest::{Digest, HostFacts, ResourceUsage};
use assay_record::Record;

use crate::error::ExportError;

/// The most requests of a trial that are exported: all of them are in memory together, because most numbers of a format are percentiles over them.
pub const MAX_EXPORTED_REQUESTS: u64 = 500_000;

/// The most bytes of scripts, of their files and of their outputs that are exported: all of them are in memory together.
pub const MAX_EXPORTED_OUTPUT: u64 = 256 << 20;

/// The most trials of a load that a remark lists.
const MAX_LISTED: usize = 20;

/// A run that is exported.
#[derive(Clone, Debug)]
pub struct ExportedRun {
    /// Its name.
    pub run_id: String,
    /// The name of its pipeline.
    pub pipeline: String,
    /// The version of Assay that exports it.
    pub version: String,
    /// The digest of the signed manifest with its statistics.
    pub result: Digest,
    /// The commit of its definitions, if they are of one.
    pub commit: Option<String>,
    /// The grade; absent before it is published.
    pub grade: Option<String>,
    /// True if at least one trial counts.
    pub has_result: bool,
    /// The start of its first attempt, in nanoseconds since 1970.
    pub start_ns: i64,
    /// The end of its last attempt, in nanoseconds since 1970.
    pub end_ns: i64,
    /// The workloads, images and files of prompts that it was made with.
    pub inputs: Vec<ExportedInput>,
    /// Its curated tables.
    pub tables: Vec<ExportedTable>,
    /// The points of its cases.
    pub loads: Vec<ExportedLoad>,
}

/// The kind of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputKind {
    /// A frozen workload.
    Workload,
    /// A container image.
    Image,
    /// A file of prompts.
    Dataset,
}

impl InputKind {
    /// Returns the kind as files state it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Workload => "workload",
            Self::Image => "image",
            Self::Dataset => "dataset",
        }
    }
}

/// An input of a run, known by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedInput {
    /// Its kind.
    pub kind: InputKind,
    /// Its name.
    pub name: String,
    /// Its digest.
    pub digest: Digest,
}

/// A curated file of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedTable {
    /// The table.
    pub name: String,
    /// The digest of the file.
    pub digest: Digest,
    /// The number of its rows.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// One point of a case.
#[derive(Clone, Debug)]
pub struct ExportedLoad {
    /// The case: workload, target and variant.
    pub case_id: String,
    /// The name of the workload.
    pub workload: String,
    /// The name of the target.
    pub target: String,
    /// The name of the point.
    pub point_id: String,
    /// Its values, such as `concurrency`.
    pub value: BTreeMap<String, String>,
    /// The digest that decides comparability.
    pub workload_spec_digest: Digest,
    /// The requests; absent for other work than serving.
    pub serving: Option<ExportedServing>,
    /// The script; absent for other work, and for a format that needs none.
    pub script: Option<ExportedScript>,
    /// The number of trials that were planned.
    pub trials_planned: u32,
    /// The planned trials that do not count, in their order.
    pub missing: Vec<MissingTrial>,
    /// The trials that count, in their order.
    pub trials: Vec<ExportedTrial>,
}

/// The rule by which requests are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExportedArrival {
    /// Each response is followed by the next request; as many are in flight.
    Concurrency(u32),
    /// Equal gaps, at this number of requests per second.
    Constant(f64),
    /// Exponential gaps, at this number of requests per second.
    Poisson(f64),
    /// Gamma gaps.
    Gamma {
        /// Requests per second.
        rate: f64,
        /// The shape of the distribution.
        smoothness: f64,
    },
    /// Another rule: sessions, users, a trace, or a rate that changes.
    Other,
}

impl ExportedArrival {
    /// Returns the requests per second of an open loop.
    pub(crate) fn rate(self) -> Option<f64> {
        match self {
            Self::Constant(rate) | Self::Poisson(rate) | Self::Gamma { rate, .. } => Some(rate),
            Self::Concurrency(_) | Self::Other => None,
        }
    }
}

/// The requests of a workload.
#[derive(Clone, Debug)]
pub struct ExportedServing {
    /// The model's name in requests.
    pub model: String,
    /// The API, such as `chat`.
    pub api: String,
    /// True if responses are streamed.
    pub is_streamed: bool,
    /// The rule by which requests are sent.
    pub arrival: ExportedArrival,
    /// The most requests in flight of an open loop.
    pub max_concurrency: Option<u64>,
    /// True if each request opens a connection.
    pub opens_connections: bool,
    /// True if prompts are synthetic; else they are of a dataset.
    pub is_synthetic: bool,
    /// The tokens of each prompt, if all have equally many.
    pub input_tokens: Option<u32>,
    /// The requested tokens of each response, if all have equally many.
    pub output_tokens: Option<u32>,
}

/// A planned trial that does not count, so that no file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingTrial {
    /// Its number within the point, from 0.
    pub index: u32,
    /// The code of the reason why its last attempt does not count; absent if it has no attempt.
    pub reason: Option<String>,
}

/// A trial that counts.
#[derive(Clone, Debug)]
pub struct ExportedTrial {
    /// Its name within the run.
    pub trial_id: String,
    /// Its number within the point, from 0.
    pub index: u32,
    /// The start from which the times of records count, or else of the attempt, in nanoseconds since 1970.
    pub start_ns: i64,
    /// The end of the attempt that counts, in nanoseconds since 1970.
    pub end_ns: i64,
    /// The measured requests by outcome; empty for other work than serving.
    pub outcomes: BTreeMap<String, u64>,
    /// The values of its metrics.
    pub values: Vec<ExportedValue>,
    /// The records of its measured requests, in the order of their schedule, if they are in memory; else a format that needs them loads them.
    pub requests: Vec<Record>,
    /// The execution of its script; absent for other work, and for a format that needs none.
    pub execution: Option<ExportedExecution>,
}

/// The script of an indicator, and what it runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportedScript {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The files beside it: path and bytes.
    pub files: Vec<(String, Vec<u8>)>,
    /// The parameters of the workload, with those of the point.
    pub environment: BTreeMap<String, String>,
    /// The image of the workload, by its digest if that is known.
    pub image: Option<String>,
}

/// The execution of a script in the attempt that counts.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedExecution {
    /// All that it printed to stdout.
    pub stdout: Vec<u8>,
    /// All that it printed to stderr.
    pub stderr: Vec<u8>,
    /// Its exit code; absent if a signal ended it.
    pub exit_code: Option<i32>,
    /// The digest of the bytes that ran.
    pub script_sha256: Option<Digest>,
    /// The pod that it ran in, in a cluster.
    pub pod: Option<String>,
    /// The resources that its processes used.
    pub usage: ResourceUsage,
    /// The machine that it ran on.
    pub host: Option<HostFacts>,
}

/// The value of a metric in one trial.
#[derive(Clone, Debug, PartialEq)]
pub struct ExportedValue {
    /// The metric, such as `ttft_ms_p99`.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The value.
    pub value: f64,
}

/// A trial of serving, with what it is part of.
#[derive(Clone, Copy)]
pub(crate) struct ServingTrial<'a> {
    pub(crate) load: &'a ExportedLoad,
    pub(crate) serving: &'a ExportedServing,
    pub(crate) trial: &'a ExportedTrial,
}

impl ServingTrial<'_> {
    /// Returns the remark on a trial, called `name` in the files, whose responses were not streamed.
    pub(crate) fn not_streamed(self, name: &str) -> Option<String> {
        let remark =
            || format!("`{name}` has no time of a first token, of later tokens or between them: the responses were not streamed");
        (!self.serving.is_streamed).then(remark)
    }

    /// Returns the remark on a trial whose load is none of those that the format has a field for.
    pub(crate) fn without_field_of_load(self, name: &str) -> Option<String> {
        let remark = || {
            format!("`{name}` does not state its load: the tool has no field for sessions, users, a trace or a rate that changes")
        };
        (self.serving.arrival == ExportedArrival::Other).then(remark)
    }
}

impl ExportedServing {
    /// Returns true if the responses of the API have output tokens.
    pub(crate) fn has_output_tokens(&self) -> bool {
        !["embeddings", "rerank"].contains(&self.api.as_str())
    }
}

impl ExportedRun {
    /// Returns the trials of serving, in the order of the loads.
    pub(crate) fn serving_trials(&self, format: &'static str) -> Result<Vec<ServingTrial<'_>>, ExportError> {
        let of_load = |load: &'_ ExportedLoad| load.serving.is_some();
        if !self.loads.iter().any(of_load) {
            return Err(ExportError::NoServing(format));
        }
        let trials: Vec<_> = self.loads.iter().flat_map(serving_trials_of).collect();
        if trials.is_empty() { Err(ExportError::NoTrial) } else { Ok(trials) }
    }

    /// Returns a remark for each load of which not all trials count, with those that do not: no format has a place for them.
    pub(crate) fn uncounted(&self) -> Vec<String> {
        let of_load = |load: &ExportedLoad| {
            let (counted, planned) = (load.trials.len(), load.trials_planned);
            let remark = || {
                let missing = list_missing(&load.missing);
                format!("`{}` at `{}`: {counted} of {planned} trials count{missing}", load.case_id, load.point_id)
            };
            (counted < planned as usize).then(remark)
        };
        self.loads.iter().filter_map(of_load).collect()
    }

    /// Returns a remark for loads that are not serving, which a format of serving has no place for.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let other = self.loads.iter().filter(|load| load.serving.is_none());
        other.map(|load| format!("`{}` is not in the files: it is not serving", load.case_id)).collect()
    }
}

/// Lists trials that are in no file, with the reasons.
fn list_missing(missing: &[MissingTrial]) -> String {
    let of = |trial: &MissingTrial| {
        let why = trial.reason.as_deref().map_or_else(|| "no attempt".to_owned(), |reason| format!("`{reason}`"));
        format!("trial {} ({why})", trial.index.saturating_add(1))
    };
    let listed: Vec<String> = missing.iter().take(MAX_LISTED).map(of).collect();
    let more = missing.len().saturating_sub(MAX_LISTED);
    match (listed.is_empty(), more) {
        (true, _) => String::new(),
        (false, 0) => format!("; in no file: {}", listed.join(", ")),
        (false, more) => format!("; in no file: {} and {more} more", listed.join(", ")),
    }
}

fn serving_trials_of(load: &ExportedLoad) -> Vec<ServingTrial<'_>> {
    let of = |serving| load.trials.iter().map(move |trial| ServingTrial { load, serving, trial });
    load.serving.as_ref().map(of).into_iter().flatten().collect()
}
