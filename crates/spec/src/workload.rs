//! Workloads: the work that is done, in every respect that decides if two results can be compared.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use assay_api::{CustomApi, InputKind, ServingApi};
use assay_manifest::{
    Adapter, BetterDirection, CacheMode, Cancellation, CaptureMode, ConnectionPolicy, Count, DatasetFormat, Digest, ErrorLimit,
    HarnessFormat, History, Images, InstructionCounter, JudgedScenario, MeasuredCommand, Name, OverLongPrompt, OverSaturation,
    RateProfile, RateSegment, ReasoningHistory, RecentErrors, SessionPlay, SharedPrefix, SloMetric, SyntheticText, TokenIds,
    WorkloadType,
};
use assay_metric::Requirement;
use serde_json::{Map, Value as Json};

use crate::agentx::check_agentx;
use crate::check::NO_CREDENTIALS;
use crate::checked_value::{CheckedValue, Read, Value, read_from_text};
use crate::custom_api::check_custom_api;
use crate::dataset_format::{format_by_name, format_of};
use crate::define::{Define, DefinitionKind, SourcePlaces, parse_as};
use crate::field::Type;
use crate::format::{parse_latency, write_duration};
use crate::images::{WorkloadImageFiles, check_images, scenario_images};
use crate::length_tables::check_length_tables;
use crate::lengths::{MAX_TOKENS, Scenario, scenario_example, scenario_form};
use crate::normal_form::normal_json;
use crate::problem::{Problem, Problems, did_you_mean, quote};
use crate::secret::{looks_secret_member, refuse_secrets};
use crate::session_play::{check_session_play, is_recycled};
use crate::tables::WORKLOAD_SPEC;
use crate::token_ids::check_token_ids;
use crate::tokenizer::{WorkloadTemplate, WorkloadTokenizer, check_tokenizer};

/// The number of requests that ended last, of which a share ends a trial, if the workload states none.
const RECENT_REQUESTS: u64 = 100;

/// A workload as its file defines it. Only [`Workload::parse`] makes one, so that it always agrees with its digest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Workload {
    /// Its name, which is also the name of its folder.
    pub name: Name,
    /// A description for people.
    pub description: Option<String>,
    /// The person or team that is responsible for it.
    pub owner: Option<String>,
    /// Free-form labels, by name.
    pub labels: BTreeMap<String, String>,
    /// The work: the digested part.
    pub spec: WorkloadSpec,
    /// The `spec` in its normal form, from which the digest is made.
    pub(crate) normal_spec: Json,
    pub(crate) places: SourcePlaces,
}

/// The work.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    /// The kind of work, with the fields that only this kind has.
    pub work: Work,
    /// The dimensions of every comparison.
    pub dimensions: Dimensions,
    /// Files that are placed beside the script, relative to the workload's folder.
    pub files: Vec<String>,
    /// The container image that it runs in, as written in the file.
    pub image: Option<String>,
    /// The metrics that are reported.
    pub metrics: Vec<Metric>,
    /// The time after which a trial is stopped, and invalid.
    pub time_limit: Duration,
    /// The declared seed, 64 hexadecimal digits; if absent, [`crate::FrozenSpec::seed`] is derived.
    pub seed: Option<String>,
}

/// The kind of work.
#[derive(Clone, Debug, PartialEq)]
pub enum Work {
    /// An inference endpoint under load.
    Serving(Box<Serving>),
    /// An executable that prints one JSON document, or whose time is measured.
    Indicator(Executable),
    /// A job whose steps are observed.
    Training(Executable),
}

/// The fields by which results are told apart; the type of work decides which of them are present.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dimensions {
    /// The model.
    pub model: Option<String>,
    /// The number format.
    pub precision: Option<String>,
    /// The software that computes.
    pub framework: Option<String>,
    /// The way in which the work is split.
    pub parallelism: Option<String>,
    /// The protocol of the endpoint.
    pub protocol: Option<String>,
    /// The way in which the model is deployed.
    pub deployment_model: Option<String>,
    /// The way in which requests are batched.
    pub batching_policy: Option<String>,
    /// The serving software.
    pub stack: Option<String>,
}

impl Dimensions {
    /// Returns the dimensions that are present, by the field's name.
    pub fn declared(&self) -> BTreeMap<String, String> {
        let fields = [
            ("model", &self.model),
            ("precision", &self.precision),
            ("framework", &self.framework),
            ("parallelism", &self.parallelism),
            ("protocol", &self.protocol),
            ("deployment_model", &self.deployment_model),
            ("batching_policy", &self.batching_policy),
            ("stack", &self.stack),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value.clone()?))).collect()
    }
}

/// The executable of an indicator or a training job.
#[derive(Clone, Debug, PartialEq)]
pub struct Executable {
    /// The program that one trial runs.
    pub program: Program,
    /// The harness whose output a script prints; `None` if it prints a result.
    pub output: Option<HarnessFormat>,
    /// The command that runs once before the first trial.
    pub prepare: Option<PrepareCommand>,
    /// The script's environment, by name.
    pub parameters: BTreeMap<String, Parameter>,
}

/// The program that one trial runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Program {
    /// An executable of the workload, which prints a result.
    Script(Script),
    /// A program of the side that is measured, whose time is measured.
    Command(MeasuredCommand),
}

impl Program {
    /// Returns the script, if it is one.
    pub fn script(&self) -> Option<&Script> {
        match self {
            Self::Script(script) => Some(script),
            Self::Command(_) => None,
        }
    }
}

/// A script.
pub type Script = PinnableFile;

/// The source of a file that is pinned by its digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PinnableFile {
    /// A file, relative to the workload's folder.
    Path {
        /// The path.
        path: String,
        /// The required SHA-256 of its bytes, 64 hexadecimal digits.
        sha256: Option<String>,
    },
    /// An address that the plan stage fetches.
    Url {
        /// The address.
        url: String,
        /// The required SHA-256 of its bytes, 64 hexadecimal digits.
        sha256: Option<String>,
    },
}

/// A command that runs once before the first trial, outside of timing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrepareCommand {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The files that it makes.
    pub outputs: Vec<String>,
    /// The time after which it is stopped.
    pub time_limit: Duration,
}

/// An environment variable of the script: its value as it is written, or an axis of the sweep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// One value for every point.
    Constant(String),
    /// One point for each value, in this order.
    Axis(Vec<String>),
}

/// The requests of a serving workload, and the way in which they are sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Serving {
    /// The API of the endpoint.
    pub api: ServingApi,
    /// The description of an API of the endpoint's own.
    pub custom: Option<CustomApi>,
    /// The LoRA adapters that requests name in place of the model; empty if all of them name the model.
    pub adapters: Vec<Adapter>,
    /// True if the endpoint has to generate exactly the drawn number of tokens.
    pub exact_output: bool,
    /// Documents in each request, if the API takes documents.
    pub batch: u32,
    /// Members added to each request's body: texts, as written in the file.
    pub body: BTreeMap<String, String>,
    /// Further members added to each request's body: any JSON; `null` removes the member.
    pub extra_body: Map<String, Json>,
    /// The tokenizer; `None` for the built-in words.
    pub tokenizer: Option<WorkloadTokenizer>,
    /// The arrival of requests.
    pub load: Load,
    /// The prompts.
    pub prompts: Prompts,
    /// The kind of the text of synthetic prompts.
    pub text: SyntheticText,
    /// The ids of tokens that prompts are sent as; `None` if they are texts.
    pub token_ids: Option<TokenIds>,
    /// The images of each request.
    pub images: Option<Images>,
    /// The image files that each request has some of.
    pub image_files: Option<WorkloadImageFiles>,
    /// The beginnings that synthetic prompts have in common.
    pub prefix: Option<SharedPrefix>,
    /// The conversations that requests belong to; `None` if each stands for itself.
    pub sessions: Option<Sessions>,
    /// The scenario by whose rules the result is judged.
    pub scenario: Option<JudgedScenario>,
    /// The state of the prefix cache.
    pub cache: CacheMode,
    /// True if responses are streamed.
    pub streaming: bool,
    /// The part of prompts and responses that is kept.
    pub capture: CaptureMode,
    /// The limits that a request must meet to count towards goodput.
    pub slos: Vec<Slo>,
}

/// The shortest planned duration of a trial that may be the only one of a point.
pub(crate) const WITHIN_RUN_SECONDS: u64 = assay_manifest::WITHIN_RUN_NS / 1_000_000_000;

impl Workload {
    /// Returns an error if a trial of the workload, if it is the only one of its point, cannot have intervals within its run: the reason, a clause.
    ///
    /// Any workload of sessions that is measured long enough may count one trial, not only one that is judged by the rules of AgentX: the
    /// interval rests on the sessions, whatever corpus they are from. Those rules ask for that length, so that such a workload need not state
    /// a duration; if its trial is shorter, it has no interval.
    pub(crate) fn may_count_one_trial(&self) -> Result<(), String> {
        let Work::Serving(serving) = &self.spec.work else { return Err("trials have no sessions".to_owned()) };
        if serving.sessions.is_none() {
            return Err("requests are not turns of sessions".to_owned());
        }
        let is_long = serving.load.duration.is_some_and(|duration| duration.as_secs() >= WITHIN_RUN_SECONDS);
        if !is_long && serving.scenario.is_none() {
            return Err(format!("a trial is not planned to be measured for {WITHIN_RUN_SECONDS} s"));
        }
        let fewest = assay_stats::MIN_CLUSTERS as u64;
        match serving.planned_sessions().filter(|sessions| *sessions < fewest) {
            Some(sessions) => Err(format!("a trial has {sessions} sessions, and {fewest} are needed")),
            None => Ok(()),
        }
    }
}

impl Serving {
    /// Returns the sessions of a measured phase by the plan, at the point that has the fewest; `None` if they depend on the endpoint or on draws.
    fn planned_sessions(&self) -> Option<u64> {
        let in_phase = |rates: &[f64], turns: f64| {
            let slowest = rates.iter().copied().reduce(f64::min)?;
            Some((slowest * self.load.duration?.as_secs_f64() / turns) as u64)
        };
        let by_rate = match &self.load.arrivals {
            ArrivalMode::Open { rate: OfferedRate::Each(rates), .. } => in_phase(rates, 1.0),
            ArrivalMode::Users { rate, .. } => match self.sessions.as_ref().and_then(|sessions| sessions.turns.as_ref()) {
                Some(Distribution::Fixed(turns)) => in_phase(rate, *turns as f64),
                _ => None,
            },
            _ => None,
        };
        self.load.sessions.into_iter().chain(by_rate).min()
    }

    /// Returns the chat template whose tokens are a part of each prompt.
    pub fn template(&self) -> Option<&WorkloadTemplate> {
        self.tokenizer.as_ref()?.template.as_ref()
    }

    /// Returns true if the sessions of a trace are played turn by turn.
    pub fn plays_trace(&self) -> bool {
        let is_trace = matches!(&self.prompts, Prompts::Dataset(dataset) if dataset.times.is_some());
        self.sessions.is_some() && is_trace
    }

    /// Returns the field that holds for all requests together, which only one shard can count; `None` if there is none.
    pub(crate) fn one_shard_field(&self) -> Option<&'static str> {
        let has_idle_cap = self.sessions.as_ref().is_some_and(|sessions| sessions.play.idle_cap_ns.is_some());
        let cap = self.load.max_concurrency.map(|_| "spec.load.max_concurrency");
        cap.or_else(|| has_idle_cap.then_some("spec.sessions.idle_cap"))
    }

    /// Returns true if the plan tells which beginnings of prompts are repeated.
    fn repeats_beginnings(&self) -> bool {
        match &self.prompts {
            Prompts::Synthetic(_) => self.prefix.is_some() || self.sessions.is_some(),
            Prompts::Dataset(dataset) => dataset.times.is_some(),
        }
    }

    /// Returns true if trials of all its loads together may say the most load within the SLOs: it has SLOs, and two or more loads of one kind.
    pub fn has_max_load(&self) -> bool {
        let loads = match &self.load.arrivals {
            ArrivalMode::Closed { concurrency } => concurrency.len(),
            ArrivalMode::Open { rate: OfferedRate::Each(rates), .. } => rates.len(),
            ArrivalMode::Open { rate: OfferedRate::Profile(_), .. } | ArrivalMode::Users { .. } | ArrivalMode::Replay { .. } => 0,
        };
        loads > 1 && !self.slos.is_empty()
    }

    /// Returns true if the workload meets a condition under which a metric can be measured. A price is the pipeline's.
    pub fn meets(&self, requirement: Requirement) -> bool {
        let capabilities = self.api.capabilities();
        let is_open = !matches!(self.load.arrivals, ArrivalMode::Closed { .. });
        match requirement {
            Requirement::Streaming => self.streaming && capabilities.streams,
            Requirement::OutputTokens => capabilities.has_output_tokens,
            Requirement::Documents => capabilities.input.has_documents(),
            Requirement::OpenLoop => is_open,
            Requirement::ConcurrencyCap => self.load.max_concurrency.is_some(),
            Requirement::IntendedTimes => is_open || self.sessions.is_some() || self.load.connections == ConnectionPolicy::Never,
            Requirement::Cancellation => self.load.cancel.is_some(),
            Requirement::NewConnections => self.load.connections == ConnectionPolicy::Never,
            // Users of sessions pause between turns, so that they are not all busy at any time.
            Requirement::ClosedLoop => !is_open && self.sessions.is_none(),
            Requirement::Sessions => self.sessions.is_some(),
            Requirement::PlannedTurns => self.plays_trace() || matches!(self.load.arrivals, ArrivalMode::Users { .. }),
            // If a trace records the ends of responses is known when it was imported.
            Requirement::TraceSessions | Requirement::RecordedEnds => self.plays_trace(),
            Requirement::RepeatedPrompts => self.repeats_beginnings(),
            Requirement::Slos => !self.slos.is_empty(),
            // If they are known is found when the target is provisioned.
            Requirement::Gpus | Requirement::GpuRoles => true,
            Requirement::Price => false,
        }
    }
}

/// The arrival of requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    /// The arrival mode, with the sweep.
    pub arrivals: ArrivalMode,
    /// The most requests in flight of an open loop or a replay; `None` if no due request waits.
    pub max_concurrency: Option<u64>,
    /// The time for which requests are sent and measured, after the warm-up. At least one of `duration` and `requests` is
    /// present, except for a replay, which ends with its trace.
    pub duration: Option<Duration>,
    /// The number of requests that are sent and measured, after the warm-up. With `duration`, the first reached ends the trial.
    pub requests: Option<u64>,
    /// The number of sessions of a trial.
    pub sessions: Option<u64>,
    /// The time for which load is offered before measuring.
    pub warmup: Duration,
    /// The time after which a request fails.
    pub timeout: Duration,
    /// The reuse of connections.
    pub connections: ConnectionPolicy,
    /// The requests that the client cancels; `None` if it cancels none.
    pub cancel: Option<Cancellation>,
    /// The queue at which a trial of an open loop ends early; `None` if it ends as planned.
    pub over_saturation: Option<OverSaturation>,
    /// The failed requests at which a trial ends early; `None` if it ends as planned.
    pub stop_on_errors: Option<ErrorLimit>,
    /// The digest of the search result that the loads come from; `None` if the file names none.
    pub search: Option<Digest>,
}

/// The arrival mode: the event that triggers a request.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrivalMode {
    /// Closed loop: at a fixed concurrency, each response is followed by the next request. One point for each
    /// number.
    Closed {
        /// Concurrent users.
        concurrency: Vec<u64>,
    },
    /// Open loop: requests arrive by a schedule. One point for each rate.
    Open {
        /// Arrivals per second.
        rate: OfferedRate,
        /// The arrival process.
        process: ArrivalProcess,
    },
    /// Users, each of whom has equal gaps of its own between the turns of its sessions. One point for each number of users and each rate.
    Users {
        /// Numbers of users.
        users: Vec<u64>,
        /// Turns of all users together, per second.
        rate: Vec<f64>,
    },
    /// The requests of a trace arrive at their times. One point for each speed.
    Replay {
        /// Speeds; 1 is the trace's own.
        speed: Vec<f64>,
    },
}

/// The arrivals per second of an open loop.
#[derive(Clone, Debug, PartialEq)]
pub enum OfferedRate {
    /// Constant rates, one point each.
    Each(Vec<f64>),
    /// A rate that changes during each trial: one point.
    Profile(RateProfile),
}

/// An arrival process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ArrivalProcess {
    /// Equal gaps.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps.
    Gamma {
        /// Shape of the distribution; its scale is 1 / (rate x smoothness). 1 is Poisson.
        smoothness: f64,
    },
}

/// The source of prompts.
#[derive(Clone, Debug, PartialEq)]
pub enum Prompts {
    /// Words that are drawn by a seed, with these lengths.
    Synthetic(Lengths),
    /// The rows of a file.
    Dataset(Box<Dataset>),
}

/// Conversations of several requests.
#[derive(Clone, Debug, PartialEq)]
pub struct Sessions {
    /// The number of turns of each; `None` for the conversations of a dataset.
    pub turns: Option<Distribution>,
    /// The time from the end of a response to the next turn.
    pub think_time: Pause,
    /// The source of the responses that the next turns repeat.
    pub history: History,
    /// The treatment of the reasoning of live responses.
    pub reasoning: ReasoningHistory,
    /// The name of a header that names the session in each of its requests.
    pub header: Option<String>,
    /// The way in which users play the sessions of a trace.
    pub play: SessionPlay,
}

/// A pause, drawn for each turn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pause {
    /// A fixed time.
    Fixed(Duration),
    /// Any time between two bounds, both included.
    Uniform {
        /// The lower bound.
        min: Duration,
        /// The upper bound.
        max: Duration,
    },
    /// Exponentially distributed.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// Log-normally distributed.
    LogNormal {
        /// The mean.
        mean: Duration,
        /// The standard deviation.
        stddev: Duration,
    },
}

/// A file of prompts, and the way in which it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct Dataset {
    /// The file.
    pub file: PinnableFile,
    /// Its format.
    pub format: DatasetFormat,
    /// The names of the members or columns that are read, by their purpose: `prompt`, `messages`, `system`, `output` and `output_tokens`.
    pub fields: BTreeMap<String, String>,
    /// The most tokens of a prompt.
    pub max_input: Option<u64>,
    /// The treatment of a longer one.
    pub over: OverLongPrompt,
    /// The tokens of responses.
    pub output: ResponseLength,
    /// The most tokens of a response.
    pub max_output: Option<u64>,
    /// The use of times; `None` unless it is a trace, which is replayed.
    pub times: Option<TraceTimes>,
}

impl Dataset {
    /// Returns the member of `spec` that names it.
    pub fn member(&self) -> &'static str {
        if self.times.is_some() { "trace" } else { "dataset" }
    }
}

/// The use of the times of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceTimes {
    /// The start of the window, since the first row.
    pub from: Duration,
    /// Its end.
    pub to: Option<Duration>,
    /// The longest time between two requests; with sessions, the longest pause.
    pub max_gap: Option<Duration>,
    /// The longest pause after a response that called a tool.
    pub max_tool_time: Option<Duration>,
    /// The share of sessions that is kept.
    pub sample: Option<f64>,
}

/// The tokens of the response to a row of a dataset.
#[derive(Clone, Debug, PartialEq)]
pub enum ResponseLength {
    /// As many as the recorded response has.
    Recorded,
    /// The endpoint decides.
    Server,
    /// Drawn.
    Drawn(Distribution),
}

/// The numbers of input and output tokens.
#[derive(Clone, Debug, PartialEq)]
pub enum Lengths {
    /// A scenario of genai-bench, sampled by its rules.
    Scenario(Scenario),
    /// Two distributions, drawn independently.
    Explicit {
        /// Tokens of the prompt.
        input: Distribution,
        /// Tokens of the response.
        output: Distribution,
    },
    /// Pairs of input and output, drawn by their weights.
    Pairs(Vec<LengthPair>),
}

/// A pair of input and output tokens, with its weight among others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthPair {
    /// Tokens of the prompt.
    pub input: u64,
    /// Tokens of the response.
    pub output: u64,
    /// The weight: the pair is drawn with a probability in proportion to it.
    pub weight: f64,
}

/// Numbers of tokens; draws are rounded to the nearest whole number and clipped to at least 1.
#[derive(Clone, Debug, PartialEq)]
pub enum Distribution {
    /// A fixed number.
    Fixed(u64),
    /// Any number between two bounds, both included.
    Uniform {
        /// The lower bound.
        min: u64,
        /// The upper bound.
        max: u64,
    },
    /// Normally distributed.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stddev: f64,
    },
    /// Log-normally distributed; mean and standard deviation are those of the token counts, not of their logarithms.
    LogNormal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stddev: f64,
    },
    /// A bin by its weight, and any number of the bin. A bin ends before its upper edge, except for the last one.
    Histogram {
        /// The edges of the bins, rising: one more than there are bins.
        edges: Vec<u64>,
        /// The weight of each bin.
        weights: Vec<f64>,
    },
}

/// A limit that each request must keep; the limit itself is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slo {
    /// The limited metric.
    pub metric: SloMetric,
    /// The largest good value, in nanoseconds.
    pub at_most_ns: u64,
}

/// A metric that is declared to be reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its path in the result, members joined by dots.
    pub path: String,
    /// The unit of its values.
    pub unit: String,
    /// The direction that is better.
    pub better: BetterDirection,
    /// True if gates judge it by default.
    pub primary: bool,
}

read_from_text!(
    CacheMode,
    CaptureMode,
    DatasetFormat,
    HarnessFormat,
    History,
    InstructionCounter,
    JudgedScenario,
    OverLongPrompt,
    ReasoningHistory,
    ServingApi,
    SyntheticText
);

impl Workload {
    /// Parses a workload file; `file` is its name in problems. In `workloads/<folder>/workload.yaml`, the name must be the
    /// folder's.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        let workload = parse_as::<Self>(file, bytes)?;
        workload.check_folder_name().map_or(Ok(workload), |problem| Err(vec![problem]))
    }

    /// Returns the kind of work.
    pub fn workload_type(&self) -> WorkloadType {
        self.spec.work.workload_type()
    }

    /// Returns the path of a workload's file in a repository, as Assay writes it.
    pub fn path_of(name: &Name) -> String {
        format!("{}/workload.yaml", Self::folder_of(name))
    }

    /// Returns the paths at which a workload is found in a repository: the first one that is there counts.
    pub fn paths_of(name: &Name) -> [String; 2] {
        [Self::path_of(name), format!("{}/workload.yml", Self::folder_of(name))]
    }

    /// Returns the folder of a workload in a repository; its scripts and files are relative to it.
    pub fn folder_of(name: &Name) -> String {
        format!("workloads/{name}")
    }

    /// Returns the problem of a workload that is in the folder of another one.
    pub(crate) fn check_folder_name(&self) -> Option<Problem> {
        let file = self.places.file();
        let folder = file.strip_suffix("/workload.yaml").or_else(|| file.strip_suffix("/workload.yml"))?;
        let (parent, folder) = folder.rsplit_once('/')?;
        let lies_there = parent == "workloads" || parent.ends_with("/workloads");
        if !lies_there || folder == self.name.as_str() {
            return None;
        }
        let message = format!("the workload is named `{}` and lies in the folder {}", self.name, quote(folder));
        Some(self.places.problem("metadata.name", message).with_hint("name it as its folder, so that pipelines find it"))
    }
}

impl Work {
    /// Returns the kind of work.
    pub fn workload_type(&self) -> WorkloadType {
        match self {
            Self::Serving(_) => WorkloadType::Serving,
            Self::Indicator(_) => WorkloadType::Indicator,
            Self::Training(_) => WorkloadType::Training,
        }
    }

    /// Returns the executable; `None` for serving.
    pub fn executable(&self) -> Option<&Executable> {
        match self {
            Self::Serving(_) => None,
            Self::Indicator(executable) | Self::Training(executable) => Some(executable),
        }
    }
}

impl Script {
    /// Returns the path or the address.
    pub fn location(&self) -> &str {
        match self {
            Self::Path { path, .. } => path,
            Self::Url { url, .. } => url,
        }
    }

    /// Returns the required SHA-256 of its bytes, if the file declares one.
    pub fn declared_sha256(&self) -> Option<&str> {
        let (Self::Path { sha256, .. } | Self::Url { sha256, .. }) = self;
        sha256.as_deref()
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.location())
    }
}

impl Define for Workload {
    const KIND: DefinitionKind = DefinitionKind::Workload;

    fn cross_check(checked: &CheckedValue, problems: &mut Problems<'_>) {
        let Some(spec) = checked.member("spec") else { return };
        check_type(spec, problems);
        check_reported(spec, problems);
        check_harness(spec, problems);
        check_arrival(spec, problems);
        check_times(spec, problems);
        check_load_end(spec, problems);
        check_rate_profile(spec, problems);
        check_users(spec, problems);
        check_over_saturation(spec, problems);
        check_error_limit(spec, problems);
        check_distributions(spec, problems);
        check_length_tables(spec, problems);
        check_text(spec, problems);
        check_token_ids(spec, problems);
        check_images(spec, problems);
        check_dataset(spec, problems);
        check_replay(spec, problems);
        check_trace_sessions(spec, problems);
        check_prefix(spec, problems);
        check_sessions(spec, problems);
        check_agentx(spec, problems);
        check_api(spec, problems);
        check_custom_api(spec, problems);
        check_adapters(spec, problems);
        check_cache(spec, problems);
        check_files(spec, problems);
        check_tokenizer(spec, problems);
        check_slos(spec, problems);
        check_body(spec, problems);
        if let Some(parameters) = spec.member("parameters") {
            refuse_secrets(parameters, "a workload's parameters are published with its results", problems);
        }
    }

    fn read(checked: &CheckedValue, places: SourcePlaces) -> Option<Self> {
        let metadata = checked.member("metadata")?;
        let spec = checked.member("spec")?;
        Some(Self {
            name: metadata.get("name")?,
            description: metadata.get("description")?,
            owner: metadata.get("owner")?,
            labels: metadata.get("labels")?,
            spec: WorkloadSpec::read(spec)?,
            normal_spec: normal_json(spec, &Type::Object(&WORKLOAD_SPEC)),
            places,
        })
    }
}

/// Checks that each name in a command's words is a parameter: nothing else has a value that is published.
fn check_names(spec: &CheckedValue, command: &CheckedValue, read: &MeasuredCommand, problems: &mut Problems<'_>) {
    let known: Vec<&str> =
        spec.member("parameters").map_or(&[][..], CheckedValue::members).iter().map(|(name, _)| name.as_str()).collect();
    for name in read.names().filter(|name| !known.contains(name)) {
        let message = format!("the command names {}, which is no parameter", quote(&format!("${{{name}}}")));
        let other = "add it to `spec.parameters`, or write `$${` for what is no parameter";
        let hint = did_you_mean(name, known.iter().copied()).unwrap_or_else(|| other.to_owned());
        problems.add_hinted(command.member("run").map_or(command.anchor, |run| run.anchor), message, hint);
    }
}

/// Checks that it is a script whose output is that of a harness: the output of a command is not read.
fn check_harness(spec: &CheckedValue, problems: &mut Problems<'_>) {
    if let (Some(output), Some(_)) = (spec.member("output"), spec.member("command")) {
        let message =
            "`spec.output` is the harness whose output a `script` prints, and this is a `command`, whose output is not read";
        problems.add_hinted(output.span, message, "remove it, or write a `script` that runs the harness");
    }
}

/// Checks that the declared metrics are ones that a command reports.
fn check_reported(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(command) = spec.member("command") else { return };
    let Some(read) = MeasuredCommand::read(command) else { return };
    check_names(spec, command, &read, problems);
    let known = known_metrics(&read);
    for metric in spec.member("metrics").map_or(&[][..], CheckedValue::items) {
        let Some(path) = metric.member("path").filter(|path| path.text().is_some()) else { continue };
        let named = path.text().unwrap_or_default();
        let Some((_, unit)) = known.iter().find(|(known, _)| *known == named) else {
            let message = format!("the command reports no metric {}", quote(named));
            let names: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
            problems.add_hinted(path.span, message, format!("it reports {}", names.join(", ")));
            continue;
        };
        for (member, right) in [("unit", *unit), ("better", "lower")] {
            if let Some(other) = metric.member(member).filter(|said| said.text().is_some_and(|said| said != right)) {
                let message =
                    format!("the `{member}` of `{named}` is `{right}`, not {}", quote(other.text().unwrap_or_default()));
                problems.add_hinted(other.span, message, "it is Assay that measures it");
            }
        }
    }
}

fn check_arrival(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(load) = spec.member("load") else { return };
    let Some(arrival) = load.text_of("arrival") else { return };
    let gamma = arrival == "gamma";
    match load.member("smoothness") {
        Some(smoothness) if !gamma => {
            let message = "`spec.load.smoothness` belongs to `arrival: gamma`";
            problems.add_hinted(smoothness.anchor, message, "write `arrival: gamma` or remove it");
        }
        None if gamma => {
            problems.add_hinted(
                load.anchor,
                "`spec.load` lacks `smoothness` for `arrival: gamma`",
                "1 is Poisson, below it is burstier",
            );
        }
        _ => {}
    }
}

fn check_times(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let (Some(limit), Some(load)) = (spec.member("time_limit"), spec.member("load")) else { return };
    let time = |name: &str| load.member(name).and_then(Duration::read).unwrap_or_default();
    if Duration::read(limit).is_some_and(|limit| time("warmup") + time("duration") >= limit) {
        let text = limit.text().unwrap_or_default();
        let message = format!("warm-up and duration do not fit into the time limit of {text}");
        problems.add_hinted(load.member("duration").map_or(load.anchor, |value| value.span), message, "raise `spec.time_limit`");
    }
}

/// Checks that a queue that ends a trial can come about.
fn check_over_saturation(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let (Some(limit), Some(cap)) = (spec.at(&["load", "over_saturation", "in_flight"]), spec.at(&["load", "max_concurrency"]))
    else {
        return;
    };
    if u64::read(limit).zip(u64::read(cap)).is_some_and(|(limit, cap)| limit >= cap) {
        let message =
            "`spec.load.over_saturation.in_flight` is never exceeded: `max_concurrency` allows no more requests in flight";
        problems.add_hinted(limit.span, message, "lower it, or remove one of them");
    }
}

/// Checks that the number of recent requests stands beside a share of them, and is not more than a trial has.
fn check_error_limit(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(limit) = spec.at(&["load", "stop_on_errors"]) else { return };
    if let (Some(of_last), None) = (limit.member("of_last"), limit.member("share")) {
        let message = "`spec.load.stop_on_errors.of_last` says among how many requests a `share` fails, and there is no `share`";
        problems.add_hinted(of_last.span, message, "add `share`, or remove `of_last`");
    }
}

/// Checks that a rate that changes has a duration over which it does, and that nothing else ends the trial.
fn check_rate_profile(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(load) = spec.member("load") else { return };
    let Some(profile) = load.member("rate").filter(|rate| !rate.members().is_empty()) else { return };
    for limit in ["requests", "sessions"] {
        if let Some(limit_value) = load.member(limit) {
            let message = format!("`spec.load.{limit}` would cut a `rate` that changes over the `duration` of a trial");
            problems.add_hinted(limit_value.span, message, format!("remove `{limit}`"));
        }
    }
    let Some(duration) = load.member("duration") else {
        let message = "`spec.load` lacks `duration`, over which its `rate` changes";
        return problems.add_hinted(
            profile.anchor,
            message,
            "write `duration: 60s`, or the time that its segments take together",
        );
    };
    let Some(series) = profile.member("series") else { return };
    let lengths: Option<Vec<Duration>> =
        series.items().iter().map(|segment| segment.member("duration").and_then(Duration::read)).collect();
    let total = lengths.map(|lengths| lengths.into_iter().fold(Duration::ZERO, Duration::saturating_add));
    if let (Some(total), Some(written)) = (total, Duration::read(duration))
        && total != written
    {
        let message = format!(
            "the segments of `spec.load.rate.series` take {} together, and `duration` is {}",
            write_duration(total),
            write_duration(written)
        );
        problems.add_hinted(duration.span, message, format!("write `duration: {}`", write_duration(total)));
    }
}

/// Returns true if the load is that of users with gaps of their own.
fn has_users(spec: &CheckedValue) -> bool {
    spec.at(&["load", "mode"]).is_some_and(|mode| mode.text() == Some("users"))
}

/// Checks that users play drawn sessions or those of a dataset, for a time, and that nothing but their grid decides when their turns come.
fn check_users(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(load) = spec.member("load").filter(|_| has_users(spec)) else { return };
    let mode = load.member("mode").map_or(load.anchor, |mode| mode.span);
    let Some(sessions) = spec.member("sessions") else {
        let hint = "add `sessions`, such as `sessions: {turns: 20}`";
        return problems.add_hinted(mode, "`spec.load.mode: users` needs `spec.sessions`, whose turns its users send", hint);
    };
    if spec.member("trace").is_some() {
        let message = "`spec.load.mode: users` cannot play a `trace`: its turns have times of their own";
        problems.add_hinted(mode, message, "write `mode: replay` or `closed`, or name the file as `dataset`");
    }
    if let Some(rate) = load.member("rate").filter(|rate| !rate.members().is_empty()) {
        let message = "`spec.load.rate` of `mode: users` cannot change during a trial: the gap of a user would";
        problems.add_hinted(rate.anchor, message, "write `rate: [1]`, or `mode: open`, in which sessions arrive at a rate");
    }
    if let Some(pause) = sessions.member("think_time").filter(|pause| pause.anchor != sessions.anchor) {
        let message =
            "`spec.sessions.think_time` has no place in `mode: users`: the gap of a user is its number of users over the rate";
        problems.add_hinted(pause.anchor, message, "remove it, or write `mode: closed` or `open`");
    }
    if let Some(count) = load.member("sessions") {
        let message = "`spec.load.sessions` cannot end a trial of `mode: users`: all of its users play up to the end";
        problems.add_hinted(count.span, message, "write `duration` instead");
    }
}

fn check_distributions(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let sides = [["lengths", "input"], ["lengths", "output"], ["dataset", "output"], ["trace", "output"]];
    for path in sides.map(|[of, side]| [of, side, "uniform"]) {
        let Some(uniform) = spec.at(&path) else { continue };
        let [of, side, _] = path;
        let bound = |name: &str| uniform.member(name).and_then(u64::read);
        if let (Some(min), Some(max)) = (bound("min"), bound("max"))
            && max < min
        {
            problems.add(uniform.anchor, format!("`spec.{of}.{side}.uniform.max` is {max}, below `min`, which is {min}"));
        }
    }
}

/// Checks that only synthetic prompts have a kind of text.
fn check_text(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(text) = spec.member("text").filter(|text| text.text() == Some(SyntheticText::Natural.as_str())) else { return };
    for name in ["dataset", "trace"] {
        let Some(file) = spec.member(name) else { continue };
        if let Some(format) = format_of(file).filter(|format| format.has_texts()) {
            let message =
                format!("`spec.text` is of prompts that are drawn, and the rows of a {name} of the format `{format}` have texts");
            problems.add_hinted(text.anchor, message, "remove it");
        } else if spec.member("tokenizer").is_some() {
            let message = format!(
                "`spec.text: natural` of a {name} has no exact length by a tokenizer: its words have no fixed number of tokens"
            );
            problems.add_hinted(text.anchor, message, "remove `text` or `tokenizer`");
        }
    }
    if spec.member("prefix").is_some() && spec.member("tokenizer").is_some() {
        let message =
            "`spec.text: natural` with a `prefix` has no exact length by a tokenizer: its words have no fixed number of tokens";
        problems.add_hinted(text.anchor, message, "remove `text`, `prefix` or `tokenizer`");
    }
}

/// Checks that only synthetic prompts of an API with one prompt have a beginning in common.
fn check_prefix(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(prefix) = spec.member("prefix") else { return };
    if let Some(file) = ["dataset", "trace"].into_iter().find(|name| spec.member(name).is_some()) {
        let message = format!("`spec.prefix` belongs to `lengths`: the prompts of a {file} have the beginnings that they have");
        problems.add_hinted(prefix.anchor, message, "remove it");
    }
    let Some(api) = spec.member("api").and_then(ServingApi::read) else { return };
    if api.capabilities().input != InputKind::Prompt {
        problems.add_hinted(
            prefix.anchor,
            format!("requests of `api: {api}` have no prompt that could begin like others"),
            "remove it",
        );
    }
}

/// Checks that requests can be dealt to the adapters, and that they name a model at all.
fn check_adapters(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(written) = spec.member("adapters").filter(|written| !written.items().is_empty()) else { return };
    let Some(adapters) = Vec::<Adapter>::read(written) else { return };
    if let Some(reason) = Adapter::refusal(&adapters) {
        let message = format!("`spec.adapters` cannot be drawn: {reason}");
        let hint = format!(
            "name each of at most {} adapters once; a weight is 0 or more, and that of one at least above 0",
            Adapter::MAX
        );
        problems.add_hinted(written.anchor, message, hint);
    }
    let Some(api) = spec.member("api").and_then(ServingApi::read) else { return };
    let names_model = match spec.member("custom").and_then(CustomApi::read) {
        Some(custom) => custom.names_model(),
        None => api.capabilities().names_model,
    };
    if !names_model {
        let message = format!("`spec.adapters` needs requests that name a model, which those of `api: {api}` do not");
        let hint = if api == ServingApi::Custom { "write `${model}` into `custom.body`" } else { "remove it" };
        problems.add_hinted(written.anchor, message, hint);
    }
}

/// Returns true if each of the sessions is of a trace and played once, so that no duration can end a trial.
fn is_played_once(spec: &CheckedValue, sessions: &CheckedValue) -> bool {
    spec.member("trace").is_some() && !is_recycled(sessions)
}

/// Checks that something ends the trials of a load, and names only what can: requests do not end sessions, and a duration does not end a trace
/// that is played once.
fn check_load_end(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(load) = spec.member("load") else { return };
    let mode = load.member("mode").and_then(CheckedValue::text);
    let has_end = ["duration", "requests", "sessions"].iter().any(|end| load.member(end).is_some());
    if has_end || !mode.is_some_and(|mode| ["closed", "open"].contains(&mode)) {
        return;
    }
    match spec.member("sessions") {
        None => problems.add(load.anchor, "`spec.load` needs at least one of `duration`, `requests`"),
        Some(sessions) if is_played_once(spec, sessions) => problems.add_hinted(
            load.anchor,
            "`spec.load` needs `sessions`, the number of sessions that are played",
            "or add `recycle: true`, and write `duration`",
        ),
        Some(_) => problems.add(load.anchor, "`spec.load` needs one of `duration`, `sessions`"),
    }
}

/// Checks that only what can be a conversation has sessions, and that its load counts them.
fn check_sessions(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let count = spec.at(&["load", "sessions"]);
    let Some(sessions) = spec.member("sessions") else {
        let sticky = spec.at(&["load", "connections"]).filter(|connections| connections.text() == Some("sticky"));
        if let Some(sticky) = sticky {
            let message =
                "`spec.load.connections: sticky` needs `spec.sessions`: requests that stand for themselves have nothing to share";
            problems.add_hinted(sticky.span, message, "write `pooled`, or add `sessions`");
        }
        if let Some(count) = count {
            problems.add_hinted(count.span, "`spec.load.sessions` needs `spec.sessions`", "write `requests`, or add `sessions`");
        }
        return;
    };
    check_conversations(spec, sessions, problems);
    // `check_users` refuses it for users.
    let count = count.filter(|_| !has_users(spec));
    check_session_play(spec, sessions, problems);
    if let Some(cap) = spec.at(&["load", "max_concurrency"]) {
        let message = "`spec.load.max_concurrency` holds back single requests, and a later turn of a session cannot wait for other sessions";
        problems.add_hinted(cap.span, message, "remove it; `mode: closed` limits the sessions that are played at a time");
    }
    if let Some(cancel) = spec.at(&["load", "cancel"]) {
        let message = "`spec.load.cancel` cancels single requests: a turn that is cancelled would end its session";
        problems.add_hinted(cancel.anchor, message, "remove it, or `sessions`");
    }
    // The prompts of a trace's turns are whole ones, which any API that generates takes; so are those that a chat template is applied to.
    let has_whole_prompts = spec.member("trace").is_some() || spec.at(&["tokenizer", "template"]).is_some();
    let takes_turns = |api: ServingApi| api.takes_messages() || has_whole_prompts && api.capabilities().has_output_tokens;
    let api = spec.member("api").and_then(ServingApi::read);
    if let Some(api) = api.filter(|api| !takes_turns(*api)) {
        let message = format!("requests of `api: {api}` have no messages, of which sessions consist");
        let chat = ServingApi::Chat;
        let hint = match api {
            ServingApi::Completions => format!(
                "write `api: {chat}`, or let the client make one text of messages by a chat template: `tokenizer: {{folder: FOLDER, template: apply}}` \
                 (`--tokenizer FOLDER --template apply`)"
            ),
            _ => format!("write `api: {chat}`, or remove it"),
        };
        problems.add_hinted(sessions.anchor, message, hint);
    }
    if let Some(requests) = spec.at(&["load", "requests"]) {
        let message = "`spec.load.requests` cannot end a trial of sessions: a session is never cut to a number of requests";
        let hint = match count {
            _ if has_users(spec) => "write `duration`",
            Some(_) => "remove it",
            None if is_played_once(spec, sessions) => "write `sessions`",
            None if is_recycled(sessions) => "write `duration`",
            None => "write `sessions`, or `duration`",
        };
        problems.add_hinted(requests.span, message, hint);
    }
    let warmup = spec.at(&["load", "warmup"]).filter(|warmup| Duration::read(warmup).is_some_and(|warmup| !warmup.is_zero()));
    if let (Some(count), Some(_)) = (count, warmup) {
        let message = "`spec.load.sessions` leaves no time for a `warmup`: a fast endpoint would play them all in it";
        let hint = if is_played_once(spec, sessions) {
            "remove `warmup`"
        } else {
            "remove `warmup`, or write `duration` instead of `sessions`"
        };
        problems.add_hinted(count.span, message, hint);
    }
    // `check_trace_sessions` refuses the duration of a trace that is played once.
    if let (Some(count), Some(_)) = (count.filter(|_| !is_played_once(spec, sessions)), spec.at(&["load", "duration"])) {
        let message = "`spec.load.sessions` and `duration` cannot both end a trial: the last sessions would be cut";
        problems.add_hinted(count.span, message, "remove one of them");
    }
    if let Some(cache) = spec.member("cache").filter(|cache| cache.text() == Some("warm")) {
        let message = "`cache: warm` cannot warm sessions: what a later turn sends is not known beforehand";
        problems.add_hinted(cache.span, message, "write `cache: cold_salt` or `cache: shared`");
    }
    if let Some(reasoning) = sessions.member("reasoning").filter(|reasoning| reasoning.text() == Some("keep"))
        && sessions.text_of("history") != Some("live")
    {
        let message = "`spec.sessions.reasoning: keep` keeps the reasoning of live responses, and `history` is `recorded`";
        problems.add_hinted(reasoning.span, message, "remove it, or write `history: live`");
    } else if let Some((reasoning, api)) = sessions
        .member("reasoning")
        .filter(|reasoning| reasoning.text() == Some("keep"))
        .zip(api.filter(|api| api.takes_messages() && !api.rules().takes_reasoning))
    {
        let message =
            format!("requests of `api: {api}` cannot send reasoning back, which `spec.sessions.reasoning: keep` asks for");
        problems.add_hinted(reasoning.span, message, format!("remove it, or write `api: {}`", ServingApi::Chat));
    }
    let bounds = |path: &[&str]| {
        let uniform = spec.at(path)?;
        Some((uniform.anchor, uniform.member("min")?, uniform.member("max")?))
    };
    if let Some((anchor, min, max)) = bounds(&["sessions", "turns", "uniform"])
        && u64::read(min).zip(u64::read(max)).is_some_and(|(min, max)| max < min)
    {
        problems.add(anchor, "`spec.sessions.turns.uniform`: its `max` is below its `min`");
    }
    if let Some((anchor, min, max)) = bounds(&["sessions", "think_time", "uniform"])
        && Duration::read(min).zip(Duration::read(max)).is_some_and(|(min, max)| max < min)
    {
        problems.add(anchor, "`spec.sessions.think_time.uniform`: its `max` is below its `min`");
    }
}

/// Checks that sessions are drawn, or are the conversations of a file that has some.
fn check_conversations(spec: &CheckedValue, sessions: &CheckedValue, problems: &mut Problems<'_>) {
    if spec.member("trace").is_some() {
        return;
    }
    match (spec.member("dataset"), sessions.member("turns")) {
        (Some(dataset), turns) => {
            if let Some(format) = format_of(dataset).filter(|format| !format.has_conversations()) {
                let message =
                    format!("a dataset of the format `{format}` has no conversations, which `spec.sessions` would send");
                let hint = format!(
                    "write `format: {}`, `format: {}`, or remove `sessions`",
                    DatasetFormat::Sharegpt,
                    DatasetFormat::Jsonl
                );
                problems.add_hinted(sessions.anchor, message, hint);
            }
            if let Some(turns) = turns {
                let message = "`spec.sessions.turns` belongs to `lengths`: the conversations of a dataset have their own turns";
                problems.add_hinted(turns.anchor, message, "remove it");
            }
        }
        (None, None) => {
            problems.add_hinted(
                sessions.anchor,
                "`spec.sessions` lacks `turns`",
                "a number, such as `turns: 5`, or `turns: {uniform: {min: 2, max: 8}}`",
            );
        }
        (None, Some(_)) => {}
    }
}

/// Checks that a trace is replayed and nothing else is, and that its window has a length.
fn check_replay(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let replays = spec.at(&["load", "mode"]).filter(|mode| mode.text() == Some("replay"));
    match (spec.member("trace"), spec.member("load"), replays) {
        (Some(_), Some(load), None) if load.text_of("mode") == Some("closed") && spec.member("sessions").is_some() => {}
        // `check_users` refuses it by name.
        (Some(_), Some(load), None) if load.text_of("mode") == Some("users") => {}
        (Some(trace), Some(load), None) => {
            let format = format_of(trace).filter(|format| !format.has_trace_sessions());
            let (message, hint) = match format {
                Some(format) => (
                    format!(
                        "`spec.trace` needs `spec.load.mode: replay`: requests of the format `{format}` belong to no sessions"
                    ),
                    "name the file as `dataset` to send its requests at a concurrency or rate of your own",
                ),
                None => (
                    "`spec.trace` needs `spec.load.mode: replay`, or `closed` with `sessions`".to_owned(),
                    "to send its requests at a concurrency or rate of your own, name the file as `dataset`",
                ),
            };
            problems.add_hinted(load.member("mode").map_or(load.anchor, |mode| mode.span), message, hint);
        }
        (None, _, Some(mode)) => {
            let message = "`spec.load.mode: replay` needs `spec.trace`";
            problems.add_hinted(mode.span, message, "it names a file of requests with times, instead of `lengths` or `dataset`");
        }
        _ => {}
    }
    let Some(window) = spec.at(&["trace", "window"]) else { return };
    let time = |name: &str| window.member(name).and_then(Duration::read);
    if let (Some(from), Some(to)) = (time("from"), time("to"))
        && to <= from
    {
        problems.add(window.anchor, "`spec.trace.window.to` is not after `from`");
    }
}

/// Checks that the sessions of a trace are played if the format has them, and are if it has nothing else.
fn check_trace_sessions(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(trace) = spec.member("trace") else { return };
    let Some(format) = trace.text_of("format").and_then(|format| format.parse::<DatasetFormat>().ok()) else { return };
    let Some(sessions) = spec.member("sessions") else {
        if format.needs_sessions() {
            let message = format!("a trace of the format `{format}` consists of sessions, which are played turn by turn");
            let hint = if format.has_session_starts() {
                "add `sessions: {}`"
            } else {
                "add `sessions: {}`, and play them at a concurrency, such as `load: {mode: closed, concurrency: [8], sessions: 100}`"
            };
            problems.add_hinted(trace.anchor, message, hint);
        }
        if let Some(tool) = trace.member("max_tool_time") {
            let message = "`spec.trace.max_tool_time` needs `spec.sessions`: only turns of sessions wait for tools";
            let hint = if format.has_trace_sessions() { "remove it, or add `sessions: {}`" } else { "remove it" };
            problems.add_hinted(tool.anchor, message, hint);
        }
        return;
    };
    if !format.has_trace_sessions() {
        let message =
            format!("the requests of a trace of the format `{format}` belong to no sessions, which `spec.sessions` would play");
        problems.add_hinted(sessions.anchor, message, "remove it");
    }
    for (name, kinds, why) in [
        ("turns", "`lengths`", "its own turns"),
        ("think_time", "`lengths` or `dataset`", "its own pauses, which `spec.trace.max_gap` can cut"),
    ] {
        let written = sessions.member(name).filter(|member| member.anchor != sessions.anchor);
        if let Some(member) = written {
            let message = format!("`spec.sessions.{name}` belongs to {kinds}: a trace has {why}");
            problems.add_hinted(member.anchor, message, "remove it");
        }
    }
    if let Some(history) = sessions.member("history").filter(|history| history.text() == Some("live")) {
        let message =
            "`spec.sessions.history: live` belongs to `lengths` or `dataset`: the prompts of a trace are whole ones, as recorded";
        problems.add_hinted(history.span, message, "remove it");
    }
    let mode = spec.at(&["load", "mode"]);
    let is_closed = mode.is_some_and(|mode| mode.text() == Some("closed"));
    if format.has_trace_sessions() && !format.has_session_starts() {
        let unknown = format!("a trace of the format `{format}` does not record when its sessions began");
        if let Some(mode) = mode.filter(|mode| mode.text() == Some("replay")) {
            let hint = "play them at a concurrency, such as `load: {mode: closed, concurrency: [8], sessions: 100}`";
            problems.add_hinted(mode.span, format!("{unknown}, which `mode: replay` needs"), hint);
        }
        if let Some(window) = trace.member("window") {
            problems.add_hinted(
                window.anchor,
                format!("{unknown}, so that no `window` can be taken of it"),
                "take a part by `sample`",
            );
        }
    }
    if let Some(duration) = spec.at(&["load", "duration"]).filter(|_| is_closed && !is_recycled(sessions)) {
        let message =
            "`spec.load.duration` cannot end a trial that plays each session of a trace once: it may be longer than all of them";
        let hint = match spec.at(&["load", "sessions"]) {
            Some(_) => "remove it: `spec.load.sessions` ends the trial",
            None => "write `sessions`, the number that is played, or add `recycle: true`",
        };
        problems.add_hinted(duration.span, message, hint);
    }
}

/// Checks that the format of a dataset or trace is known, and that the API can take its rows.
fn check_dataset(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some((member, dataset)) = ["dataset", "trace"].into_iter().find_map(|name| Some((name, spec.member(name)?))) else {
        return;
    };
    if let (None, Some(file)) = (dataset.member("format"), PinnableFile::read(dataset))
        && format_by_name(file.location()).is_none()
    {
        let message = format!("`spec.{member}` lacks `format`, and the name {} does not tell it", quote(file.location()));
        let known: Vec<&str> = DatasetFormat::ALL.iter().map(|format| format.as_str()).collect();
        problems.add_hinted(dataset.anchor, message, format!("`format` (`--dataset-format`) is one of {}", known.join(", ")));
    }
    let format = dataset.text_of("format").and_then(|format| format.parse::<DatasetFormat>().ok());
    if let Some(fields) = dataset.member("fields")
        && format.is_some_and(|format| !format.has_fields())
    {
        let message = format!("`spec.{member}.fields` belongs to formats whose members have names of your own choosing");
        let other = if member == "trace" { DatasetFormat::TimedJsonl } else { DatasetFormat::Jsonl };
        problems.add_hinted(fields.anchor, message, format!("remove it, or write `format: {other}`"));
    }
    if let Some(format) = format.filter(|format| member == "dataset" && format.needs_sessions()) {
        let message = format!("a dataset of the format `{format}` has no requests outside of its sessions");
        let hint = format!("name the file as `trace: {{path: FILE, format: {format}}}`, and add `sessions: {{}}`");
        problems.add_hinted(dataset.anchor, message, hint);
    }
    let Some(api) = spec.member("api").and_then(ServingApi::read) else { return };
    if api.capabilities().input == InputKind::QueryAndDocuments {
        let message = format!("`api: {api}` cannot take a {member}: its requests have a query and documents");
        problems.add_hinted(dataset.anchor, message, format!("write `lengths: {}`", scenario_example(api.capabilities().input)));
    }
    let batch = spec.member("batch").filter(|batch| u64::read(batch).is_some_and(|batch| batch > 1));
    if let Some(batch) = batch {
        problems.add_hinted(
            batch.span,
            format!("`spec.batch` above 1 belongs to `lengths`: each request has one row of a {member}"),
            "remove it",
        );
    }
    check_limit(member, dataset, format, api, problems);
    if let Some(over) = dataset.member("over").filter(|over| over.text() != Some("refuse"))
        && dataset.member("max_input").is_none()
    {
        let message = format!("`spec.{member}.over` is the treatment of prompts longer than `max_input`, which is not given");
        problems.add_hinted(over.span, message, "add `max_input`, such as `max_input: 4096`, or remove it");
    }
    if let Some(most) = dataset.member("max_output")
        && dataset.member("output").is_some_and(|output| output.text().is_none())
    {
        let message = format!(
            "`spec.{member}.max_output` limits recorded lengths and those that the endpoint decides, and `output` draws all of them"
        );
        problems.add_hinted(most.span, message, "remove it, and draw no longer ones");
    }
    if let (Some(output), false) = (dataset.member("output"), api.capabilities().has_output_tokens)
        && output.anchor != dataset.anchor
    {
        problems.add_hinted(output.anchor, format!("responses of `api: {api}` have no output tokens"), "remove it");
    }
}

/// Checks that each request has a limit of output tokens, if the API needs one: rows may record no response, and the endpoint decides no length.
fn check_limit(
    member: &str,
    dataset: &CheckedValue,
    format: Option<DatasetFormat>,
    api: ServingApi,
    problems: &mut Problems<'_>,
) {
    let output = dataset.text_of("output");
    let records_lengths = format.is_some_and(|format| format.has_times() && !format.has_fields());
    let may_lack = output == Some("server") || output == Some("recorded") && !records_lengths;
    if api.rules().needs_limit && may_lack && dataset.member("max_output").is_none() {
        let message =
            format!("`spec.{member}` lacks `max_output`: an endpoint refuses a request of `api: {api}` without a limit");
        problems.add_hinted(
            dataset.anchor,
            message,
            "it limits the responses of rows that record none, such as `max_output: 1024`",
        );
    }
}

/// Checks the lengths and the batch against the inputs that the API takes.
fn check_api(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(api) = spec.member("api").and_then(ServingApi::read) else { return };
    let Some(lengths) = spec.member("lengths") else { return };
    let needed = api.capabilities().input;
    match Scenario::read(lengths).map_or(InputKind::Prompt, Scenario::input) {
        given if given == needed => {}
        InputKind::Prompt => {
            let message = format!("`api: {api}` needs a scenario `{}`", scenario_form(needed));
            problems.add_hinted(lengths.span, message, format!("write `lengths: {}`", scenario_example(needed)));
        }
        given => {
            let scenario = quote(lengths.text().unwrap_or_default());
            let responses = apis_with(given).map(|api| api.capabilities().responses).next().unwrap_or_default();
            let message = format!("the scenario {scenario} is of {responses}, and `spec.api` is `{api}`");
            let other = apis_with(given).map(|api| format!("`api: {api}`")).next().unwrap_or_default();
            let hint = format!("write {other}, or a scenario such as `{}`", scenario_example(needed));
            problems.add_hinted(lengths.span, message, hint);
        }
    }
    let batch = spec.member("batch").filter(|batch| u64::read(batch).is_some_and(|batch| batch > 1));
    if let Some(batch) = batch.filter(|_| !needed.has_documents()) {
        let apis = ServingApi::ALL.iter().filter(|api| api.capabilities().input.has_documents());
        let apis: Vec<_> = apis.map(|api| format!("`api: {api}`")).collect();
        problems.add_hinted(batch.span, format!("`spec.batch` belongs to {}", apis.join(" or ")), "remove it");
    } else if let Some((batch, documents)) = batch.and_then(|batch| Some((batch, u64::read(batch)?))) {
        let tokens = Scenario::read(lengths).and_then(|scenario| scenario.request_tokens(documents)).unwrap_or_default();
        if tokens > MAX_TOKENS {
            let message = format!("`spec.batch` of {documents} makes requests of {tokens} tokens, more than {MAX_TOKENS}");
            problems.add_hinted(batch.span, message, "write fewer or shorter documents");
        }
    }
}

/// Returns the APIs that take these inputs.
fn apis_with(input: InputKind) -> impl Iterator<Item = ServingApi> {
    ServingApi::ALL.iter().copied().filter(move |api| api.capabilities().input == input)
}

/// Checks that a warm cache has an end: the prompts that warm it are sent once, and in a closed loop only a number of requests
/// limits them.
fn check_cache(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(cache) = spec.member("cache").filter(|cache| cache.text() == Some("warm")) else { return };
    let Some(load) = spec.member("load") else { return };
    if load.text_of("mode") == Some("closed") && load.member("requests").is_none() {
        let message = "`cache: warm` under a closed loop needs `spec.load.requests`";
        problems.add_hinted(
            cache.span,
            message,
            "the prompts of the trial are sent once before it, and a duration does not say how many",
        );
    }
}

/// Checks for clashes of names: in the trial's folder, the script, the files and the outputs of `prepare` are side by side.
fn check_files(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let script = spec.at(&["script", "path"]);
    let files = spec.member("files").map_or(&[][..], CheckedValue::items);
    let outputs = spec.at(&["prepare", "outputs"]).map_or(&[][..], CheckedValue::items);
    for file in files.iter().filter(|file| script.is_some_and(|script| script.text() == file.text())) {
        let message = format!("{} is the script already", quote(file.text().unwrap_or_default()));
        problems.add_hinted(file.span, message, "remove it from `files`");
    }
    for output in outputs {
        let taken = files.iter().chain(script).any(|known| known.text() == output.text());
        if taken {
            let name = quote(output.text().unwrap_or_default());
            problems.add(output.span, format!("{name} is an output of `prepare` and a file of the repository"));
        }
    }
}

/// Refuses members of the body that state what is measured: other settings decide them, and results name those.
fn check_body(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let api = spec.member("api").and_then(ServingApi::read).unwrap_or(ServingApi::Chat);
    let members = spec.member("body").map_or(&[][..], CheckedValue::members);
    for (name, value) in members.iter().filter(|(name, _)| api.is_stated(name)) {
        let message = format!(
            "the member `{}` of `spec.body` would replace one that Assay writes, and results would state another",
            quote_name(name)
        );
        problems.add_hinted(value.anchor, message, STATED_MEMBER);
    }
    let secret = |field: &str, name: &str| {
        format!(
            "the member `{}` of `{field}` looks like a secret; a definition holds references to secrets only",
            quote_name(name)
        )
    };
    for (name, value) in members.iter().filter(|(name, value)| looks_secret_member(name, &value.plain_json())) {
        problems.add_redacted(value.span, secret("spec.body", name), NO_CREDENTIALS);
    }
    let Some(extra) = spec.member("extra_body") else { return };
    for (name, value) in &read_extra_body(spec) {
        if looks_secret_member(name, value) {
            problems.add_redacted(extra.span, secret("spec.extra_body", name), NO_CREDENTIALS);
        } else if api.is_stated(name) {
            let message = format!("`spec.extra_body` has the member `{}`, which Assay writes itself", quote_name(name));
            problems.add_hinted(extra.span, message, STATED_MEMBER);
        } else if members.iter().any(|(member, _)| member == name) {
            problems
                .add(extra.span, format!("`spec.extra_body` has the member `{}`, which `spec.body` has too", quote_name(name)));
        }
    }
}

/// Returns a member's name for a message: cut, and without control characters.
fn quote_name(name: &str) -> String {
    name.escape_debug().take(100).collect()
}

/// Returns true if a member of the body states what is measured, by the name of the API.
pub fn is_stated_member(api: &str, member: &str) -> bool {
    ServingApi::ALL.iter().any(|known| known.as_str() == api && known.is_stated(member))
}

/// The hint for a member of the body that states what is measured.
pub const STATED_MEMBER: &str = "set it with the workload's own field: `model`, `lengths`, `exact_output` or `streaming`";

fn check_slos(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let streaming = spec.member("streaming").and_then(bool::read).unwrap_or(true);
    let api = spec.member("api").and_then(ServingApi::read).filter(|api| !api.capabilities().streams);
    let slos = spec.member("slos").map_or(&[][..], CheckedValue::members);
    let (streamed, unstreamed): (Vec<SloMetric>, Vec<SloMetric>) =
        SloMetric::ALL.iter().partition(|slo| slo.metric().requires(Requirement::Streaming));
    let others = unstreamed.iter().map(|slo| format!("`{slo}`")).collect::<Vec<_>>().join(" or ");
    for (name, slo) in slos.iter().filter(|(name, _)| streamed.iter().any(|slo| slo.as_str() == name)) {
        if let Some(api) = api {
            let message = format!("`spec.slos.{name}` cannot be measured: the responses of `api: {api}` are not streamed");
            problems.add_hinted(slo.anchor, message, format!("limit {others}"));
        } else if !streaming {
            let message = format!("`spec.slos.{name}` cannot be measured without streaming");
            problems.add_hinted(slo.anchor, message, format!("limit {others}, or write `streaming: true`"));
        }
    }
}

impl Read for WorkloadSpec {
    fn read(spec: &CheckedValue) -> Option<Self> {
        Some(Self {
            work: Work::read(spec)?,
            dimensions: Dimensions::read(spec)?,
            files: spec.get("files")?,
            image: spec.get("image")?,
            metrics: metrics_of(spec)?,
            time_limit: spec.get("time_limit")?,
            seed: spec.get("seed")?,
        })
    }
}

/// Returns the metrics that a workload declares; for a command that declares none, all that it reports.
fn metrics_of(spec: &CheckedValue) -> Option<Vec<Metric>> {
    let declared: Vec<Metric> = spec.get("metrics")?;
    let command = spec.member("command").filter(|_| declared.is_empty());
    Some(command.and_then(MeasuredCommand::read).map_or(declared, |command| default_metrics(&command)))
}

/// Refuses the types that no stage can run yet, before anything is provisioned for them.
fn check_type(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(named) = spec.member("type").filter(|named| WorkloadType::read(named) == Some(WorkloadType::Training)) else {
        return;
    };
    let message = "`spec.type` is `training`, which this version cannot run";
    problems.add_hinted(
        named.span,
        message,
        "this version runs `serving` and `indicator`; an indicator may time a training script",
    );
}

/// Returns the metrics of a command that declares none: all but the largest resident set, which is known of large programs only.
/// Gates judge CPU time by default: on a shared machine it is far quieter than wall time.
fn default_metrics(command: &MeasuredCommand) -> Vec<Metric> {
    let metric = |(path, unit): (&str, &str)| Metric {
        path: path.to_owned(),
        unit: unit.to_owned(),
        better: BetterDirection::Lower,
        primary: path == assay_manifest::CPU_TIME,
    };
    known_metrics(command).into_iter().filter(|(path, _)| *path != assay_manifest::MAX_RSS).map(metric).collect()
}

/// Returns the metrics that a command may declare, with their units; less is better for each.
fn known_metrics(command: &MeasuredCommand) -> Vec<(&'static str, &'static str)> {
    let mut known = vec![(assay_manifest::CPU_TIME, "ms"), (assay_manifest::WALL_TIME, "ms"), (assay_manifest::MAX_RSS, "KiB")];
    known.extend(command.instructions.map(|_| (assay_manifest::INSTRUCTIONS, "count")));
    known
}

impl Read for Work {
    fn read(spec: &CheckedValue) -> Option<Self> {
        Some(match spec.get::<WorkloadType>("type")? {
            WorkloadType::Serving => Self::Serving(Box::new(Serving::read(spec)?)),
            WorkloadType::Indicator => Self::Indicator(Executable::read(spec)?),
            WorkloadType::Training => Self::Training(Executable::read(spec)?),
        })
    }
}

impl Read for Dimensions {
    fn read(spec: &CheckedValue) -> Option<Self> {
        Some(Self {
            model: spec.get("model")?,
            precision: spec.get("precision")?,
            framework: spec.get("framework")?,
            parallelism: spec.get("parallelism")?,
            protocol: spec.get("protocol")?,
            deployment_model: spec.get("deployment_model")?,
            batching_policy: spec.get("batching_policy")?,
            stack: spec.get("stack")?,
        })
    }
}

impl Read for Executable {
    fn read(spec: &CheckedValue) -> Option<Self> {
        Some(Self {
            program: Program::read(spec)?,
            output: spec.get("output")?,
            prepare: spec.get("prepare")?,
            parameters: spec.get("parameters")?,
        })
    }
}

impl Read for Program {
    fn read(spec: &CheckedValue) -> Option<Self> {
        match spec.member("command") {
            Some(command) => MeasuredCommand::read(command).map(Self::Command),
            None => spec.get("script").map(Self::Script),
        }
    }
}

impl Read for MeasuredCommand {
    fn read(command: &CheckedValue) -> Option<Self> {
        Some(Self {
            run: command.get("run")?,
            times: command.get("times")?,
            warmup: command.get("warmup")?,
            instructions: command.get("instructions")?,
        })
    }
}

impl Read for Script {
    fn read(script: &CheckedValue) -> Option<Self> {
        let sha256 = script.get("sha256")?;
        match script.get::<Option<String>>("path")? {
            Some(path) => Some(Self::Path { path, sha256 }),
            None => Some(Self::Url { url: script.get("url")?, sha256 }),
        }
    }
}

impl Read for PrepareCommand {
    fn read(prepare: &CheckedValue) -> Option<Self> {
        Some(Self { command: prepare.get("command")?, outputs: prepare.get("outputs")?, time_limit: prepare.get("time_limit")? })
    }
}

impl Read for Parameter {
    fn read(value: &CheckedValue) -> Option<Self> {
        match &value.value {
            Value::List(_) => Vec::read(value).map(Self::Axis),
            _ => String::read(value).map(Self::Constant),
        }
    }
}

impl Read for Serving {
    fn read(spec: &CheckedValue) -> Option<Self> {
        Some(Self {
            api: spec.get("api")?,
            custom: spec.get("custom")?,
            adapters: spec.get("adapters")?,
            exact_output: spec.get("exact_output")?,
            batch: spec.get("batch")?,
            body: spec.get("body")?,
            extra_body: read_extra_body(spec),
            tokenizer: spec.get("tokenizer")?,
            load: spec.get("load")?,
            prompts: Prompts::read(spec)?,
            text: spec.get("text")?,
            token_ids: spec.get("token_ids")?,
            images: scenario_images(spec).map_or_else(|| spec.get("images"), |images| Some(Some(images)))?,
            image_files: spec.get("image_files")?,
            prefix: spec.get("prefix")?,
            sessions: spec.get("sessions")?,
            scenario: spec.get("scenario")?,
            cache: spec.get("cache")?,
            streaming: spec.get("streaming")?,
            capture: spec.get("capture")?,
            slos: read_slos(spec.member("slos")?)?,
        })
    }
}

/// Returns the members of `extra_body`, whose text its format has checked.
fn read_extra_body(spec: &CheckedValue) -> Map<String, Json> {
    spec.text_of("extra_body").and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

fn read_slos(slos: &CheckedValue) -> Option<Vec<Slo>> {
    let limit = |metric: &SloMetric| slos.text_of(metric.as_str()).map(|text| (*metric, text));
    let slo = |(metric, text)| parse_latency(text).ok().map(|at_most_ns| Slo { metric, at_most_ns });
    SloMetric::ALL.iter().filter_map(limit).map(slo).collect()
}

impl Read for Load {
    fn read(load: &CheckedValue) -> Option<Self> {
        Some(Self {
            arrivals: ArrivalMode::read(load)?,
            max_concurrency: load.get("max_concurrency")?,
            duration: load.get("duration")?,
            requests: load.get("requests")?,
            sessions: load.get("sessions")?,
            warmup: load.get("warmup")?,
            timeout: load.get("timeout")?,
            connections: load.get("connections")?,
            cancel: load.get("cancel")?,
            over_saturation: load.get("over_saturation")?,
            stop_on_errors: load.get("stop_on_errors")?,
            search: load.get("search")?,
        })
    }
}

impl Read for ArrivalMode {
    fn read(load: &CheckedValue) -> Option<Self> {
        match load.text_of("mode")? {
            "closed" => Some(Self::Closed { concurrency: load.get("concurrency")? }),
            "users" => Some(Self::Users { users: load.get("users")?, rate: Vec::read(load.member("rate")?)? }),
            "replay" => Some(Self::Replay { speed: load.get("speed")? }),
            _ => Some(Self::Open { rate: load.get("rate")?, process: ArrivalProcess::read(load)? }),
        }
    }
}

impl Read for OfferedRate {
    fn read(rate: &CheckedValue) -> Option<Self> {
        if let Some(segments) = rate.member("series") {
            return Some(Self::Profile(RateProfile::Series { segments: Vec::read(segments)? }));
        }
        let Some(ramp) = rate.member("ramp") else { return Vec::read(rate).map(Self::Each) };
        let (from_per_s, to_per_s) = (ramp.get("from")?, ramp.get("to")?);
        Some(Self::Profile(match ramp.text_of("shape")? {
            "exponential" => RateProfile::Exponential { from_per_s, to_per_s },
            "steps" => RateProfile::Steps { from_per_s, to_per_s, steps: ramp.get("steps")? },
            _ => RateProfile::Linear { from_per_s, to_per_s },
        }))
    }
}

impl Read for RateSegment {
    fn read(segment: &CheckedValue) -> Option<Self> {
        let duration: Duration = segment.get("duration")?;
        Some(Self { duration_ns: Count(u64::try_from(duration.as_nanos()).ok()?), per_s: segment.get("rate")? })
    }
}

impl Read for ArrivalProcess {
    fn read(load: &CheckedValue) -> Option<Self> {
        Some(match load.text_of("arrival")? {
            "constant" => Self::Constant,
            "gamma" => Self::Gamma { smoothness: load.get("smoothness")? },
            _ => Self::Poisson,
        })
    }
}

impl Read for Cancellation {
    fn read(cancel: &CheckedValue) -> Option<Self> {
        let after: Duration = cancel.get("after")?;
        Some(Self { share: cancel.get("share")?, after_ns: Count(u64::try_from(after.as_nanos()).ok()?) })
    }
}

impl Read for OverSaturation {
    fn read(limit: &CheckedValue) -> Option<Self> {
        let held: Duration = limit.get("for")?;
        let in_flight: u64 = limit.get("in_flight")?;
        Some(Self { in_flight: Count(in_flight), for_ns: Count(u64::try_from(held.as_nanos()).ok()?) })
    }
}

impl Read for ErrorLimit {
    fn read(limit: &CheckedValue) -> Option<Self> {
        let count: Option<u64> = limit.get("count")?;
        let share: Option<f64> = limit.get("share")?;
        let of_last: Option<u64> = limit.get("of_last")?;
        let of_last = Count(of_last.unwrap_or(RECENT_REQUESTS));
        Some(Self { count: count.map(Count), recent: share.map(|share| RecentErrors { share, of_last }) })
    }
}

impl Read for SharedPrefix {
    fn read(prefix: &CheckedValue) -> Option<Self> {
        Some(Self {
            system: prefix.get("system")?,
            group: prefix.get("group")?,
            groups: prefix.get("groups")?,
            zipf: prefix.get("zipf")?,
        })
    }
}

impl Read for Sessions {
    fn read(sessions: &CheckedValue) -> Option<Self> {
        let turns = sessions.member("turns");
        let law = |turns| u64::read(turns).map(Distribution::Fixed).or_else(|| Distribution::read(turns));
        Some(Self {
            turns: turns.map_or(Some(None), |turns| law(turns).map(Some))?,
            think_time: sessions.get("think_time")?,
            history: sessions.get("history")?,
            reasoning: sessions.get("reasoning")?,
            header: sessions.get("header")?,
            play: SessionPlay::read(sessions)?,
        })
    }
}

impl Read for Pause {
    fn read(value: &CheckedValue) -> Option<Self> {
        if value.text().is_some() {
            return Duration::read(value).map(Self::Fixed);
        }
        let (name, inner) = value.members().first()?;
        Some(match name.as_str() {
            "fixed" => Self::Fixed(Duration::read(inner)?),
            "uniform" => Self::Uniform { min: inner.get("min")?, max: inner.get("max")? },
            "exponential" => Self::Exponential { mean: inner.get("mean")? },
            _ => Self::LogNormal { mean: inner.get("mean")?, stddev: inner.get("stddev")? },
        })
    }
}

impl Read for Prompts {
    fn read(spec: &CheckedValue) -> Option<Self> {
        let dataset = match (spec.member("dataset"), spec.member("trace")) {
            (Some(dataset), _) => Dataset::read(dataset)?,
            (None, Some(trace)) => Dataset { times: Some(TraceTimes::read(trace)?), ..Dataset::read(trace)? },
            (None, None) => return spec.get("lengths").map(Self::Synthetic),
        };
        Some(Self::Dataset(Box::new(dataset)))
    }
}

impl Read for Dataset {
    fn read(dataset: &CheckedValue) -> Option<Self> {
        let file = PinnableFile::read(dataset)?;
        let fields = dataset.member("fields").map_or(&[][..], CheckedValue::members);
        Some(Self {
            format: dataset.get::<Option<DatasetFormat>>("format")?.or_else(|| format_by_name(file.location()))?,
            file,
            fields: fields.iter().filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned()))).collect(),
            max_input: dataset.get("max_input")?,
            over: dataset.get("over")?,
            output: dataset.get("output")?,
            max_output: dataset.get("max_output")?,
            times: None,
        })
    }
}

impl Read for TraceTimes {
    fn read(trace: &CheckedValue) -> Option<Self> {
        let window = trace.member("window");
        Some(Self {
            from: window.map_or(Some(Duration::ZERO), |window| window.get("from"))?,
            to: window.map_or(Some(None), |window| window.get("to"))?,
            max_gap: trace.get("max_gap")?,
            max_tool_time: trace.get("max_tool_time")?,
            sample: trace.get("sample")?,
        })
    }
}

impl Read for ResponseLength {
    fn read(value: &CheckedValue) -> Option<Self> {
        match value.text() {
            Some("server") => Some(Self::Server),
            Some(_) => Some(Self::Recorded),
            None => Distribution::read(value).map(Self::Drawn),
        }
    }
}

impl Read for Lengths {
    fn read(lengths: &CheckedValue) -> Option<Self> {
        match &lengths.value {
            Value::Text(_) => Scenario::read(lengths).map(Self::Scenario),
            _ if lengths.member("pairs").is_some() => lengths.get("pairs").map(Self::Pairs),
            _ => Some(Self::Explicit { input: lengths.get("input")?, output: lengths.get("output")? }),
        }
    }
}

impl Read for Adapter {
    fn read(adapter: &CheckedValue) -> Option<Self> {
        Some(Self { name: adapter.get("name")?, weight: adapter.get("weight")? })
    }
}

impl Read for LengthPair {
    fn read(pair: &CheckedValue) -> Option<Self> {
        Some(Self { input: pair.get("input")?, output: pair.get("output")?, weight: pair.get("weight")? })
    }
}

impl Read for Distribution {
    fn read(value: &CheckedValue) -> Option<Self> {
        let (name, inner) = value.members().first()?;
        Some(match name.as_str() {
            "fixed" => Self::Fixed(u64::read(inner)?),
            "uniform" => Self::Uniform { min: inner.get("min")?, max: inner.get("max")? },
            "normal" => Self::Normal { mean: inner.get("mean")?, stddev: inner.get("stddev")? },
            "histogram" => Self::Histogram { edges: inner.get("edges")?, weights: inner.get("weights")? },
            "vllm_range" => {
                let (tokens, ratio): (u64, f64) = (inner.get("tokens")?, inner.get("ratio")?);
                let bound = |share: f64| tokens as f64 * share;
                Self::Uniform { min: (bound(1.0 - ratio).floor() as u64).max(1), max: bound(1.0 + ratio).ceil() as u64 }
            }
            "sglang_range" => {
                let (tokens, ratio): (u64, f64) = (inner.get("tokens")?, inner.get("ratio")?);
                Self::Uniform { min: ((tokens as f64 * ratio) as u64).max(1), max: tokens }
            }
            _ => Self::LogNormal { mean: inner.get("mean")?, stddev: inner.get("stddev")? },
        })
    }
}

impl Read for Metric {
    fn read(metric: &CheckedValue) -> Option<Self> {
        Some(Self {
            path: metric.get("path")?,
            unit: metric.get("unit")?,
            better: metric.get("better")?,
            primary: metric.get("primary")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::ImageFormat;

    use crate::field::Choice;
    use crate::tables::{
        ARRIVALS, CACHES, CAPTURES, COUNTERS, DATASET_FORMATS, HARNESSES, HISTORIES, IMAGE_FORMATS, LOAD_MODES, OVER_LONG,
        REASONING, RESPONSE_LENGTHS, SCENARIOS, TEXTS_OF_PROMPTS, TRACE_FORMATS,
    };

    #[test]
    fn every_word_has_its_choice() {
        let words = |choices: &[Choice]| choices.iter().map(|choice| choice.word).collect::<Vec<_>>();
        assert_eq!(words(&CACHES), CacheMode::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&CAPTURES), CaptureMode::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&COUNTERS), InstructionCounter::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&HARNESSES), HarnessFormat::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&DATASET_FORMATS), DatasetFormat::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&OVER_LONG), OverLongPrompt::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&TEXTS_OF_PROMPTS), SyntheticText::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&IMAGE_FORMATS), ImageFormat::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&SCENARIOS), JudgedScenario::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&HISTORIES), History::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&REASONING), ReasoningHistory::ALL.iter().map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&RESPONSE_LENGTHS), ["recorded", "server"]);
        let timed = DatasetFormat::ALL.iter().filter(|format| format.has_times());
        assert_eq!(words(&TRACE_FORMATS), timed.map(|word| word.as_str()).collect::<Vec<_>>());
        assert_eq!(words(&LOAD_MODES), ["closed", "open", "users", "replay"]);
        assert_eq!(words(&ARRIVALS), ["constant", "poisson", "gamma"]);
    }
}
