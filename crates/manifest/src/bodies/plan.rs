//! Plan: the frozen work of a run, and its order.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{body, words};
use crate::{
    Artifact, BetterDirection, CaseId, Claim, ControlFact, Count, Digest, Image, Intent, Isolation, Name, OriginKind,
    PinnedSearch, Placement, PointId, Pricing, PrometheusSource, PythonStack, ServingWork, TelemetrySource, TrialId,
    ValidityLimits, WorkloadType,
};

words!(
    /// The quantity that a point varies.
    PointKind, "kind of point",
    /// Requests in flight at a time.
    Concurrency = "concurrency",
    /// Arrivals per second.
    Rate = "rate",
    /// Users, each with a time of its own for every turn, and the rate of the turns of all of them together.
    Users = "users",
    /// The speed at which a recorded trace is replayed; 1 is its own.
    Speed = "speed",
    /// Workers or nodes.
    Scale = "scale",
    /// Values of parameters.
    Parameters = "parameters",
);

words!(
    /// The kind of a target.
    TargetKind, "kind of target",
    /// The machine itself, for indicators.
    Host = "host",
    /// An endpoint that is already up.
    Endpoint = "endpoint",
    /// A local process that provision starts.
    Process = "process",
    /// The built-in reference endpoint.
    Simulator = "simulator",
    /// Kubernetes objects that provision brings up.
    Objects = "objects",
    /// An InferenceService that is already up.
    InferenceService = "inference_service",
);

words!(
    /// The project whose API an InferenceService belongs to.
    InferenceApi, "API of inference services",
    /// KServe's: `serving.kserve.io/v1beta1`.
    Kserve = "kserve",
    /// KServe's LLMInferenceServices: `serving.kserve.io/v1alpha1`.
    KserveLlm = "kserve_llm",
    /// OME's: `ome.io/v1beta1`.
    Ome = "ome",
);

/// An InferenceService of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct InferenceService {
    /// The API that it belongs to.
    pub api: InferenceApi,
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// The path at which its API begins, after the address that it reports.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
}

/// One point of a case's sweep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Its name within the case.
    pub point_id: PointId,
    /// The quantity that it varies.
    pub kind: PointKind,
    /// The values: parameter names, or `concurrency` and the like, as text. Users have their `rate` beside their number.
    pub value: BTreeMap<String, String>,
    /// For serving: the digest of generator version, seed, parameters, dataset and tokenizer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load_recipe_digest: Option<Digest>,
}

/// Workload x target x variant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// The three names, readable (`benchmark_case_id`).
    pub case_id: CaseId,
    /// The workload's name.
    pub workload: Name,
    /// The target's name.
    pub target: Name,
    /// The variant's name.
    pub variant: Name,
    /// The sweep.
    pub points: Vec<Point>,
}

/// The pipeline that the plan was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PipelineRef {
    /// Its name.
    pub name: Name,
    /// Its path in the repository.
    pub path: String,
    /// The digest of its bytes.
    pub digest: Digest,
    /// The team or person responsible for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<String>,
    /// Its labels. `cadence`, `layer` and `use_case` are columns of the warehouse.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub labels: BTreeMap<String, String>,
}

/// The origin of the plan, in short; the Source has all of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SourceRef {
    /// The kind of origin.
    pub kind: OriginKind,
    /// The repository's address, without credentials.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub repository: Option<String>,
    /// The commit.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// True if the files that were read differ from the commit.
    pub dirty: bool,
    /// The digest over all files that were read.
    pub files_digest: Digest,
}

/// A file that a trial needs, pinned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PinnedFile {
    /// Its path in the trial's folder.
    pub path: String,
    /// The source of its bytes: a repository path, or a URL.
    pub origin: String,
    /// True if it is made executable.
    pub executable: bool,
    /// Its bytes.
    pub artifact: Artifact,
}

/// A command that runs once before the first trial of a workload, outside of timing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PrepareCommand {
    /// Program and arguments.
    pub command: Vec<String>,
    /// The files that it makes; their digests are recorded.
    pub outputs: Vec<String>,
    /// The time limit, after which it is stopped.
    pub time_limit_ns: Count,
}

/// The name, unit and better direction of a metric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Metric {
    /// The path of its value in the result, members joined by dots.
    pub path: String,
    /// The unit of its values.
    pub unit: String,
    /// The direction that is better.
    pub better: BetterDirection,
    /// True if gates judge it.
    pub primary: bool,
}

words!(
    /// The tool that counts instructions. Counts of different tools are never compared.
    InstructionCounter, "counter of instructions",
    /// The processor's own counter, in user mode, by `perf stat`.
    Perf = "perf",
    /// A simulated processor, `valgrind --tool=cachegrind`.
    Cachegrind = "cachegrind",
);

words!(
    /// The benchmark harness whose output a script prints.
    HarnessFormat, "format of a harness",
    /// The text of `go test -bench`.
    GoBench = "go-bench",
    /// The JSON of Google Benchmark, `--benchmark_format=json`.
    GoogleBenchmark = "google-benchmark",
    /// The JSON of pytest-benchmark, `--benchmark-json`.
    PytestBenchmark = "pytest-benchmark",
    /// The JSON of hyperfine, `--export-json`.
    Hyperfine = "hyperfine",
    /// The messages of cargo-criterion, `--message-format=json`.
    Criterion = "criterion",
    /// The JSON of JMH, `-rf json`.
    Jmh = "jmh",
);

/// The metric of a command: CPU time in user and system mode, in milliseconds.
pub const CPU_TIME: &str = "cpu_time_ms";
/// The metric of a command: time from its start until its end was seen, in milliseconds.
pub const WALL_TIME: &str = "wall_time_ms";
/// The metric of a command: the largest resident set of any one of its processes, in KiB.
pub const MAX_RSS: &str = "max_rss_kib";
/// The metric of a command: instructions executed.
pub const INSTRUCTIONS: &str = "instructions";

/// A command that Assay measures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MeasuredCommand {
    /// Program and arguments. A program with a `/` is relative to the target's folder, others are found in PATH. `${NAME}` in an
    /// argument stands for a parameter.
    pub run: Vec<String>,
    /// The number of invocations per trial; each gives one sample.
    pub times: u32,
    /// The number of invocations before the first trial of each point, which are not measured.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub warmup: u32,
    /// The tool that counts instructions, in one more invocation of each trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub instructions: Option<InstructionCounter>,
}

/// Returns true for the default of a number that is left out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl MeasuredCommand {
    /// Returns the command that runs on a target: with the words of the target's own command, if it has one.
    #[must_use]
    pub fn on(&self, target: &Target) -> Self {
        let run = if target.command.is_empty() { &self.run } else { &target.command };
        Self { run: run.clone(), ..self.clone() }
    }

    /// Returns the names in `${NAME}` of its words, in order. A name without `}` ends with its word.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.run.iter().flat_map(|word| split_word(word)).filter_map(|part| match part {
            WordPart::Name(name) => Some(name),
            WordPart::Text(_) => None,
        })
    }

    /// Returns its words with the values of parameters filled in. A name without a value stays as it is written.
    pub fn words(&self, parameters: &BTreeMap<String, String>) -> Vec<String> {
        let with_value = |part| match part {
            WordPart::Text(text) => text.to_owned(),
            WordPart::Name(name) => parameters.get(name).cloned().unwrap_or_else(|| format!("${{{name}}}")),
        };
        self.run.iter().map(|word| split_word(word).into_iter().map(with_value).collect()).collect()
    }
}

/// A part of a command-line word.
enum WordPart<'a> {
    /// Literal text.
    Text(&'a str),
    /// The name in `${NAME}`.
    Name(&'a str),
}

/// Splits a word into its parts. `$${` stands for a literal `${`.
fn split_word(word: &str) -> Vec<WordPart<'_>> {
    let mut parts = Vec::new();
    let mut rest = word;
    while let Some((before, behind)) = rest.split_once("${") {
        if let Some(before) = before.strip_suffix('$') {
            parts.extend([WordPart::Text(before), WordPart::Text("${")]);
            rest = behind;
            continue;
        }
        let (name, behind) = behind.split_once('}').unwrap_or((behind, ""));
        parts.extend([WordPart::Text(before), WordPart::Name(name)]);
        rest = behind;
    }
    parts.push(WordPart::Text(rest));
    parts
}

/// The program that execute runs for an indicator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IndicatorWork {
    /// The script; its digest is `script_sha256`. There is either a script or a command.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub script: Option<PinnedFile>,
    /// The harness whose output the script prints; absent if the script prints a result.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<HarnessFormat>,
    /// The command that is measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub command: Option<MeasuredCommand>,
    /// Files in the same folder.
    pub files: Vec<PinnedFile>,
    /// The environment variables that all points share; a point adds its own values.
    pub parameters: BTreeMap<String, String>,
    /// The command that runs before the first trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub prepare: Option<PrepareCommand>,
    /// The time limit after which a trial is stopped.
    pub time_limit_ns: Count,
}

/// A frozen workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FrozenWorkload {
    /// Its name.
    pub name: Name,
    /// The team or person responsible for it. Like the labels, not part of the frozen `spec`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub owner: Option<String>,
    /// Its labels. `layer` and `use_case` are columns of the warehouse.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub labels: BTreeMap<String, String>,
    /// The type of the workload.
    pub workload_type: WorkloadType,
    /// The digest of the frozen `spec`, which decides comparability.
    pub workload_spec_digest: Digest,
    /// The frozen `spec` itself, canonical JSON with defaults omitted. Its digest is `workload_spec_digest`.
    pub spec: Artifact,
    /// The seed of all randomness, 64 hexadecimal digits.
    pub seed: String,
    /// The metrics that it declares.
    pub metrics: Vec<Metric>,
    /// The declared fields that distinguish its results, such as `model`, `precision` and `stack`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub dimensions: BTreeMap<String, String>,
    /// The container image that it runs in, if it has one of its own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image: Option<Image>,
    /// For indicators: the program to run.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub indicator: Option<IndicatorWork>,
    /// For serving: the requests to the endpoint.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub serving: Option<ServingWork>,
    /// For serving: the search result that its loads come from, if it names one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub search: Option<PinnedSearch>,
}

/// An environment variable of a target or variant, a header of a target, or a file of its TLS. A secret is a reference; its value is
/// never stored here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvVar {
    /// The name of the variable, header or file.
    pub name: String,
    /// A plain value.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub value: Option<String>,
    /// The variable of the runner's environment that holds it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from_env: Option<String>,
    /// The file that holds it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from_file: Option<String>,
    /// The authentication scheme that a header puts before the secret, such as `Bearer`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scheme: Option<String>,
}

/// The system under test, as declared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Its name.
    pub name: Name,
    /// Its kind.
    pub kind: TargetKind,
    /// Its address. For objects: one of their Services, by its name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
    /// For a process: program and arguments. For a host: those that replace the words of a workload's command there; empty for none.
    pub command: Vec<String>,
    /// Its environment.
    pub env: Vec<EnvVar>,
    /// Headers of each request to it; a secret value is a reference.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub headers: Vec<EnvVar>,
    /// True if any certificate is accepted over TLS.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub insecure_skip_tls_verify: bool,
    /// The certificates of connections to it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tls: Option<TargetTls>,
    /// The addresses of the servers behind its own, which may be that of a router: the counters of each are read, and the cache of
    /// each is emptied.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub replicas: Vec<String>,
    /// Files with the Kubernetes objects that it consists of, pinned.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub objects: Vec<PinnedFile>,
    /// The InferenceService that it is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub inference_service: Option<InferenceService>,
    /// Settings of a simulator, by option.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub config: BTreeMap<String, String>,
    /// The path of the readiness probe, relative to the address.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ready_http: Option<String>,
    /// The timeout of readiness.
    pub ready_timeout_ns: Count,
    /// The container image, if it runs in one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image: Option<Image>,
    /// Hardware facts that a person declares, by name.
    pub hardware: BTreeMap<String, String>,
    /// Versions of its software that a person declares, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub software: BTreeMap<String, String>,
    /// Its location as a person declares it, such as `region` and `node_pool`, by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub place: BTreeMap<String, String>,
    /// The CPUs that its processes are pinned to, such as `0-1`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpus: Option<String>,
    /// For a host: the folder with the programs of commands, relative to the repository's root.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub folder: Option<String>,
    /// For a host: the folder in which a command runs, an absolute path. If absent, each invocation has a new one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub working_directory: Option<String>,
    /// Files and folders that it executes, relative to the repository's root; provision takes their digests.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub artifacts: Vec<String>,
}

/// The certificates of connections to a target, as references to texts in PEM. No certificate and no key is stored here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TargetTls {
    /// Certificate authorities that are trusted besides the system's: `ca`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ca: Option<EnvVar>,
    /// The certificate that the client shows to a server that demands one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub client: Option<ClientCertificateSource>,
}

/// The source of a client certificate and of its private key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientCertificateSource {
    /// The certificate, and those that lead to its authority: `cert`.
    pub cert: EnvVar,
    /// The private key: `key`.
    pub key: EnvVar,
}

/// A named change of the target's surroundings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    /// Its name; `default` if there is only one.
    pub name: Name,
    /// The variables that it changes.
    pub env: Vec<EnvVar>,
    /// The Python packages that its programs run with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub python: Option<PythonStack>,
}

/// One side of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Side {
    /// The target's name.
    pub target: Name,
    /// The variant's name.
    pub variant: Name,
}

/// The two sides that are compared, and the one thing that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Comparison {
    /// The side that is compared against.
    pub baseline: Side,
    /// The side that is judged.
    pub candidate: Side,
    /// The variable under test, one of the field's list.
    pub variable_under_test: String,
    /// The variable in words, if the list has no name for it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub other: Option<String>,
}

/// The number of trials per point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialPolicy {
    /// Trials per point.
    pub count: u32,
    /// The number of invalid attempts of one trial that may be repeated.
    pub retry_budget: u32,
    /// The number of builds that each side of a command has; trial number i of a point runs build i modulo this, plus one.
    #[serde(skip_serializing_if = "is_one", default = "one")]
    pub rebuilds: u32,
    /// The limits within which an attempt counts: those of the pipeline, or the defaults. Absent if an earlier Assay planned: then
    /// the limits by which the attempts were judged are not known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub validity: Option<ValidityLimits>,
}

impl TrialPolicy {
    /// Returns the limits within which an attempt counts: the defaults if the plan has none.
    pub fn limits(&self) -> ValidityLimits {
        self.validity.clone().unwrap_or_default()
    }

    /// Returns the limits that the pipeline states, with its reason for them; `None` if it states none.
    pub fn stated_limits(&self) -> Option<(&ValidityLimits, &str)> {
        let limits = self.validity.as_ref()?;
        Some((limits, limits.reason.as_deref()?))
    }
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

/// The order of the trials, and the seed that it comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TrialOrder {
    /// The seed of the order, 64 hexadecimal digits.
    pub seed: String,
    /// The digest of the ordered trial ids with their blocks.
    pub digest: Digest,
}

/// One measured repetition of a point.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlannedTrial {
    /// Its name within the run.
    pub trial_id: TrialId,
    /// The case.
    pub case_id: CaseId,
    /// The point.
    pub point_id: PointId,
    /// Its number within the point, from 0.
    pub index: u32,
    /// The block that it runs in.
    pub block: u32,
}

/// A mutable input that could not be pinned; it rules out publication grade.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UnpinnedInput {
    /// The input, such as an image reference.
    pub what: String,
    /// The reason.
    pub reason: String,
}

/// The frozen work of a run. Holds no wall clock, runner or shard count: equal commits give equal plans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// The pipeline.
    pub pipeline: PipelineRef,
    /// The origin of the plan.
    pub source: SourceRef,
    /// The purpose of the run.
    pub intent: Intent,
    /// The claim that a number of this run may make.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claim: Option<Claim>,
    /// The environment controls as the pipeline declares them.
    pub controls: Vec<ControlFact>,
    /// The price of the target.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pricing: Option<Pricing>,
    /// The frozen workloads, by name.
    pub workloads: Vec<FrozenWorkload>,
    /// The targets.
    pub targets: Vec<Target>,
    /// The variants.
    pub variants: Vec<Variant>,
    /// The telemetry sources that the pipeline names.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub telemetry: Vec<TelemetrySource>,
    /// The cases, in the order of the pipeline.
    pub cases: Vec<Case>,
    /// The number of trials per point.
    pub trial_policy: TrialPolicy,
    /// The isolation of trials.
    pub isolation: Isolation,
    /// The way the sides of a comparison share the machine.
    pub placement: Placement,
    /// The comparison.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub comparison: Option<Comparison>,
    /// The CPUs that the load generator is pinned to, such as `2-3`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub load_cpus: Option<String>,
    /// The order's seed and digest.
    pub order: TrialOrder,
    /// The trials, in the order in which they run.
    pub trials: Vec<PlannedTrial>,
    /// The inputs that could not be pinned.
    pub unpinned: Vec<UnpinnedInput>,
    /// Query files of publish, pinned.
    pub queries: Vec<PinnedFile>,
}

// Scripts, files and objects are artifacts of the Source (or of the plan, if fetched from a URL): the Plan pins them in both
// cases.
body!(Plan, |plan| {
    let mut artifacts: Vec<&Artifact> = Vec::new();
    for workload in &plan.workloads {
        artifacts.push(&workload.spec);
        artifacts.extend(workload.search.iter().flat_map(|search| [&search.manifest, &search.bundle]));
        if let Some(work) = &workload.indicator {
            artifacts.extend(work.script.as_ref().map(|script| &script.artifact));
            artifacts.extend(work.files.iter().map(|file| &file.artifact));
        }
        artifacts.extend(workload.serving.iter().flat_map(ServingWork::files).map(|file| &file.artifact));
        let dataset = workload.serving.as_ref().and_then(|work| work.prompts.dataset());
        artifacts.extend(dataset.into_iter().flat_map(|dataset| [&dataset.file.artifact, &dataset.rows, &dataset.index]));
    }
    artifacts.extend(plan.targets.iter().flat_map(|target| &target.objects).map(|file| &file.artifact));
    artifacts.extend(plan.variants.iter().filter_map(|variant| variant.python.as_ref()).map(|python| &python.lock.artifact));
    artifacts.extend(plan.pack_files().map(|file| &file.artifact));
    artifacts.extend(plan.queries.iter().map(|file| &file.artifact));
    artifacts
});

impl Plan {
    /// Returns the number of blocks: one more than the highest block of a trial.
    pub fn block_count(&self) -> u32 {
        self.trials.iter().map(|trial| trial.block + 1).max().unwrap_or(0)
    }

    /// Returns the case with that id.
    pub fn case(&self, case_id: &CaseId) -> Option<&Case> {
        self.cases.iter().find(|case| case.case_id == *case_id)
    }

    /// Returns the frozen workload of that name.
    pub fn workload(&self, name: &Name) -> Option<&FrozenWorkload> {
        self.workloads.iter().find(|workload| workload.name == *name)
    }

    /// Returns the variant of that name.
    pub fn variant(&self, name: &Name) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == *name)
    }

    /// Returns the variant of a case and the packages that it states; `None` if it states none.
    pub fn python_stack(&self, case_id: &CaseId) -> Option<(&Name, &PythonStack)> {
        let variant = self.variant(&self.case(case_id)?.variant)?;
        Some((&variant.name, variant.python.as_ref()?))
    }

    /// Returns the Prometheus servers among the telemetry sources, by name.
    pub fn prometheus_sources(&self) -> impl Iterator<Item = (&Name, &PrometheusSource)> {
        self.telemetry.iter().filter_map(|source| Some((&source.name, source.prometheus.as_ref()?)))
    }

    /// Returns the query packs that are files of the repository.
    pub fn pack_files(&self) -> impl Iterator<Item = &PinnedFile> {
        self.prometheus_sources().flat_map(|(_, source)| &source.packs).filter_map(|pack| pack.file.as_ref())
    }

    /// Returns the target of that name.
    pub fn target(&self, name: &Name) -> Option<&Target> {
        self.targets.iter().find(|target| target.name == *name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_has_the_values_of_its_parameters() {
        let run =
            ["./bench", "--filter=${CASE}", "${CASE}-${SIZE}", "$CASE", "${OTHER}", "$${CASE}", "${"].map(str::to_owned).to_vec();
        let command = MeasuredCommand { run, times: 1, warmup: 0, instructions: None };
        assert_eq!(command.names().collect::<Vec<_>>(), ["CASE", "CASE", "SIZE", "OTHER", ""]);
        let parameters = [("CASE", "${SIZE}"), ("SIZE", "9")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        let words = command.words(&BTreeMap::from(parameters));
        assert_eq!(words, ["./bench", "--filter=${SIZE}", "${SIZE}-9", "$CASE", "${OTHER}", "${CASE}", "${}"]);
    }

    #[test]
    fn a_target_may_have_its_own_words() {
        let command = MeasuredCommand { run: vec!["old".to_owned()], times: 3, warmup: 1, instructions: None };
        let target = |own: &[&str]| -> Target {
            serde_json::from_value(serde_json::json!({
                "name": "t", "kind": "host", "command": own, "env": [], "ready_timeout_ns": "0", "hardware": {},
            }))
            .expect("a target")
        };
        assert_eq!(command.on(&target(&[])), command);
        let own = command.on(&target(&["new", "x"]));
        assert_eq!(own, MeasuredCommand { run: vec!["new".to_owned(), "x".to_owned()], ..command });
    }
}
