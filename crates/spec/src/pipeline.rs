//! Pipelines: the workloads that run on the targets, the number of repetitions, the setting, and the claim about the numbers.

use std::collections::BTreeMap;
use std::time::Duration;

use assay_manifest::{
    Claim, Comparison, Control, Count, CpuList, EnvVar, InferenceService, Intent, Isolation, Name, Placement, Pricing,
    PythonInstaller, Role, Side, TargetKind, ValidityLimits,
};

use crate::checked_value::{CheckedValue, Read, Value, read_from_text};
use crate::define::{Define, DefinitionKind, SourcePlaces, parse_as};
use crate::header_source::{HeaderSource, SecretRef, plain_variable};
use crate::hot_metrics::{HotMetrics, check_hot_metrics};
use crate::pack::Pack;
use crate::pod::{PodOverride, check_pods};
use crate::problem::{Problem, Problems, did_you_mean, quote};
use crate::secret::{looks_secret_header, refuse_secrets};

/// The fewest trials for a number with an interval.
pub const MIN_TRIALS: u32 = 3;

/// The most pairs that are planned automatically: a comparison that needs more should be made quieter.
pub const MAX_SIZED: u32 = 60;

/// The profiles of the simulator. They are repeated here so that a mistyped one is reported before anything runs. A test of the
/// stage that starts simulators keeps both lists equal.
pub const SIMULATOR_PROFILES: [&str; 8] = [
    "instant",
    "fast",
    "h100-8b",
    "h100-8b-prefill",
    "h100-70b-tp8",
    "fast-batching",
    "h100-8b-batching",
    "h100-70b-tp8-batching",
];

/// The settings of the simulator, repeated for the same reason and kept equal in the same way.
pub const SIMULATOR_SETTINGS: &[&str] = &[
    "profile",
    "model",
    "adapters",
    "seed",
    "seed_from",
    "ttft_ms",
    "prefill_per_token_us",
    "ttft_jitter_ms",
    "ttft_jitter_sigma",
    "itl_ms",
    "itl_jitter_ms",
    "load_factor",
    "max_num_seqs",
    "first_chunk_tokens",
    "tokens_per_chunk",
    "vary_chunks",
    "prefix_cache",
    "block_tokens",
    "kv_blocks",
    "step_base_ms",
    "step_prefill_us",
    "step_decode_us",
    "step_context_us",
    "step_jitter_sigma",
    "max_num_batched_tokens",
    "chunked_prefill",
    "speculative_tokens",
    "speculative_acceptance",
    "slow_factor",
    "slow_share",
    "cotenant_factor",
    "cotenant_share",
    "cotenant_episode_ms",
    "output_median",
    "output_sigma",
    "output_max",
    "max_model_len",
    "reasoning_share",
    "reasoning_field",
    "embedding_dimensions",
    "fault",
    "fault_rate",
    "stall",
    "ready_after_ms",
    "truth",
    "truth_requests",
    "truth_chunks",
    "spin_us",
    "max_body",
    "max_head",
    "max_connections",
    "max_waiting",
    "idle_s",
];

/// A pipeline as its file defines it. Only [`Pipeline::parse`] makes one.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pipeline {
    /// Its name.
    pub name: Name,
    /// A description for people.
    pub description: Option<String>,
    /// The person or team that is responsible for it.
    pub owner: Option<String>,
    /// Free-form labels, by name.
    pub labels: BTreeMap<String, String>,
    /// The specification of the run.
    pub spec: PipelineSpec,
    pub(crate) places: SourcePlaces,
}

/// The work, the targets, the repetitions, and the claim.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineSpec {
    /// The purpose of the run.
    pub intent: Intent,
    /// Names of workloads, in the order of the file.
    pub workloads: Vec<Name>,
    /// The systems under test.
    pub targets: Vec<Target>,
    /// Named changes of a target's environment; at least one.
    pub variants: Vec<Variant>,
    /// The telemetry sources beside the host and the endpoints.
    pub telemetry: Vec<TelemetrySource>,
    /// The repetitions of each point.
    pub trials: Trials,
    /// The isolation between trials.
    pub isolation: Isolation,
    /// The way in which the sides of a comparison share the machine.
    pub placement: Placement,
    /// The comparison, if there is one.
    pub comparison: Option<Comparison>,
    /// The number of processes that together make the load of one trial.
    pub shards: Shards,
    /// The CPUs that the load generator is pinned to.
    pub load_cpus: Option<String>,
    /// The price of an hour of the target.
    pub pricing: Option<Pricing>,
    /// The statement that published numbers carry; present for `intent: publication`.
    pub claim: Option<Claim>,
    /// Each environment control, and the way in which it is to be established.
    pub controls: Vec<(Control, ControlRequirement)>,
    /// Rules from verdicts to an exit code.
    pub gates: Vec<Gate>,
    /// The six stages in their order, each with the pipeline's overrides.
    pub stages: Vec<Stage>,
    /// The schedule on which it runs automatically.
    pub schedule: Option<Schedule>,
    /// The published results, and their destination.
    pub publish: PublishSettings,
    /// Hosts that the plan stage may fetch from; empty for any host in a trusted run and none in an untrusted one.
    pub fetch_allow: Vec<String>,
    /// The time after which a run is cancelled.
    pub time_limit: Duration,
}

/// The number of processes that together make the load of one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shards {
    /// As many as keep each process below half of its measured ceiling.
    Auto,
    /// A fixed number.
    Count(u32),
}

/// Writes the value as a pipeline file does.
impl std::fmt::Display for Shards {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Count(count) => count.fmt(f),
        }
    }
}

/// A system under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Its name.
    pub name: Name,
    /// Its kind.
    pub kind: TargetKind,
    /// Its address.
    pub url: Option<String>,
    /// Program and arguments of a process, or those that replace a workload's on a host; empty for none.
    pub command: Vec<String>,
    /// Files with its Kubernetes objects, relative to the repository's root.
    pub objects: Vec<String>,
    /// The InferenceService that serves it.
    pub inference_service: Option<InferenceService>,
    /// Its environment, ordered by name.
    pub env: Vec<EnvVar>,
    /// Headers of each request, by lower-case name.
    pub headers: BTreeMap<String, HeaderSource>,
    /// True if any certificate is accepted over TLS.
    pub insecure_skip_tls_verify: bool,
    /// The certificates of connections to it.
    pub tls: Option<TargetTls>,
    /// The addresses of the servers behind its own.
    pub replicas: Vec<String>,
    /// The readiness probe.
    pub ready: ReadinessProbe,
    /// Settings of a simulator, by option.
    pub config: BTreeMap<String, String>,
    /// The container image that it runs in, as written in the file.
    pub image: Option<String>,
    /// Facts about its hardware that a person declares.
    pub hardware: BTreeMap<String, String>,
    /// Versions of its software that a person declares.
    pub software: BTreeMap<String, String>,
    /// The place in which a person declares that it runs.
    pub place: BTreeMap<String, String>,
    /// The CPUs that its processes are pinned to.
    pub cpus: Option<String>,
    /// The folder of the programs that the `command` of a workload runs, relative to the repository's root.
    pub folder: Option<String>,
    /// The folder in which a `command` runs, an absolute path.
    pub working_directory: Option<String>,
    /// Files and folders that it executes, relative to the repository's root.
    pub artifacts: Vec<String>,
}

/// A telemetry source: an exporter, a Prometheus, the GPUs of the recorder's machine, the spans of servers, or the
/// accounting of a Slurm job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TelemetrySource {
    /// Its name.
    pub name: Name,
    /// The address of an exporter's counters.
    pub scrape: Option<String>,
    /// The Prometheus with its queries.
    pub prometheus: Option<PrometheusSource>,
    /// True for the GPUs of the recorder's machine.
    pub nvidia_smi: bool,
    /// The address at which spans are received.
    pub otlp: Option<String>,
    /// The accounting of a Slurm job: `command`, or the path of a file.
    pub sacct: Option<String>,
}

/// A Prometheus with the samples of exporters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrometheusSource {
    /// Its address, before `/api/v1`.
    pub url: String,
    /// The query packs of Assay.
    pub packs: Vec<Name>,
    /// The files of further query packs, relative to the repository's root.
    pub queries: Vec<String>,
    /// The values of labels that each series must have, one of those listed.
    pub matchers: BTreeMap<String, Vec<String>>,
    /// Headers of each request, by lower-case name.
    pub headers: BTreeMap<String, HeaderSource>,
    /// True if any certificate is accepted over TLS.
    pub insecure_skip_tls_verify: bool,
    /// The certificates of connections to it.
    pub tls: Option<TargetTls>,
}

/// The certificates of connections to a target, as the locations of texts in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetTls {
    /// Certificate authorities that are trusted besides the system's.
    pub ca: Option<SecretRef>,
    /// The certificate of the client, and its private key.
    pub client: Option<ClientCertificate>,
}

/// A certificate of the client, and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The location of the certificate, and of those that lead to its authority.
    pub cert: SecretRef,
    /// The location of the key.
    pub key: SecretRef,
}

/// The readiness probe, which runs before anything is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadinessProbe {
    /// A path that returns status 200 once the target is ready.
    pub http: Option<String>,
    /// The longest time until the target is ready.
    pub timeout: Duration,
}

/// A named change of a target's environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name.
    pub name: Name,
    /// A description of the change, for people.
    pub description: Option<String>,
    /// Environment variables that it adds to those of a target of `kind: host`, or replaces, ordered by name.
    pub env: Vec<EnvVar>,
    /// The Python packages that the programs of a target of `kind: host` run with.
    pub python: Option<PythonStack>,
}

/// The Python packages of a variant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonStack {
    /// The lock file, relative to the repository's root.
    pub lock: String,
    /// The program that installs its packages.
    pub installer: PythonInstaller,
    /// The interpreter of the virtual environment: a path, or a name that is found in PATH.
    pub interpreter: String,
}

/// The repetitions of each point.
#[derive(Clone, Debug, PartialEq)]
pub struct Trials {
    /// Trials of each point.
    pub count: u32,
    /// True if `count` is the number that the gates need according to the learned noise. A pipeline by itself has the largest
    /// possible count; its [`closure`](crate::read_closure()) computes the actual one.
    pub sized: bool,
    /// The number of invalid attempts of one trial that may be repeated.
    pub retry_budget: u32,
    /// The limits within which an attempt counts: declared, or the defaults.
    pub validity: ValidityLimits,
    /// The number of builds of each side of a command.
    pub rebuilds: u32,
    /// The declared seed of the order, 64 hexadecimal digits; if absent, one is derived from the workloads' digests.
    pub order_seed: Option<String>,
}

/// The way in which an environment control is to be established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ControlRequirement {
    /// The control is not claimed.
    Absent,
    /// A person declares it, in these words.
    Declared(String),
    /// Assay must prove it on the target; if it cannot, the control is absent and the grade falls.
    Required,
}

/// A rule from verdicts to an exit code.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    /// Its name.
    pub name: Name,
    /// The metrics that it judges; empty for every primary metric.
    pub metrics: Vec<String>,
    /// The largest change for the worse that passes, in percent.
    pub budget_pct: f64,
    /// True if an inconclusive verdict blocks too.
    pub block_on_inconclusive: bool,
    /// The accepted false discovery rate, over all looks.
    pub q: f64,
    /// The share of `q` that each look spends.
    pub looks: Vec<f64>,
    /// True if a point of the candidate that misses its SLOs blocks.
    pub slo: bool,
    /// True if a run blocks that has no commit, or whose signers are not established.
    pub provenance: bool,
    /// The largest share of failed requests of the candidate at any point, in percent.
    pub max_error_rate_pct: Option<f64>,
    /// The largest difference between the candidate's and the baseline's mean output length, in percent.
    pub max_output_drift_pct: Option<f64>,
}

/// A stage of the chain, with the pipeline's overrides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The stage: one of [`Role::STAGES`].
    pub role: Role,
    /// The container image that it runs in, in a cluster.
    pub image: Option<String>,
    /// CPU cores that it needs in a cluster, as a quantity.
    pub cpu: Option<String>,
    /// Memory that it needs in a cluster, as a quantity.
    pub memory: Option<String>,
    /// Labels that its node must carry in a cluster.
    pub node_selector: BTreeMap<String, String>,
    /// Further settings of its pods in a cluster.
    pub pod: PodOverride,
    /// The time after which an attempt of the stage is stopped.
    pub timeout: Duration,
    /// The number of retries after an environment failure.
    pub retries: u32,
}

/// The schedule on which a pipeline runs automatically.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Minute, hour, day of month, month, day of week.
    pub cron: String,
    /// The time zone of `cron`.
    pub timezone: String,
    /// The delay after its slot from which a run is skipped.
    pub deadline: Duration,
}

/// The published results, and their destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublishSettings {
    /// SQL files that select published numbers, relative to the repository's root.
    pub queries: Vec<String>,
    /// The branch that published folders are committed to.
    pub branch: Option<String>,
    /// The folder in it that gets a folder for each run; the branch's root if absent.
    pub folder: Option<String>,
    /// The remote that has the branch: a remote's name in the checkout, or an address. `origin` if absent.
    pub remote: Option<String>,
    /// The time-series stores that get the headline numbers.
    pub hot_metrics: Option<HotMetrics>,
}

impl Pipeline {
    /// Parses a pipeline file; `file` is its name in problems.
    pub fn parse(file: &str, bytes: &[u8]) -> Result<Self, Vec<Problem>> {
        parse_as(file, bytes)
    }
}

impl Define for Pipeline {
    const KIND: DefinitionKind = DefinitionKind::Pipeline;

    fn cross_check(checked: &CheckedValue, problems: &mut Problems<'_>) {
        let Some(spec) = checked.member("spec") else { return };
        check_claim(spec, problems);
        check_trials(spec, problems);
        check_rebuilds(spec, problems);
        check_sides(spec, problems);
        check_isolation(spec, problems);
        check_gates(spec, problems);
        check_stages(spec, problems);
        check_pods(spec, problems);
        check_publish(spec, problems);
        check_hot_metrics(spec, problems);
        check_secrets(spec, problems);
        check_simulators(spec, problems);
        check_tls(spec, problems);
        check_sockets(spec, problems);
        check_cpus(spec, problems);
        check_variant_env(spec, problems);
        check_telemetry(spec, problems);
    }

    fn read(checked: &CheckedValue, places: SourcePlaces) -> Option<Self> {
        let metadata = checked.member("metadata")?;
        Some(Self {
            name: metadata.get("name")?,
            description: metadata.get("description")?,
            owner: metadata.get("owner")?,
            labels: metadata.get("labels")?,
            spec: PipelineSpec::read(checked.member("spec")?)?,
            places,
        })
    }
}

fn check_claim(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let intent = spec.member("intent").filter(|intent| intent.text() == Some("publication"));
    if let (Some(intent), None) = (intent, spec.member("claim")) {
        let hint = "write `claim` with `methodology`, `representative` and `statement`, or another intent";
        problems.add_hinted(intent.span, "`intent: publication` needs `spec.claim`", hint);
    }
}

fn check_trials(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let (Some(count), Some(intent)) = (spec.at(&["trials", "count"]), spec.text_of("intent")) else { return };
    // For a realism claim, one trial may be enough; the workloads decide (see `expand`).
    let may_be_enough = |count: u32| intent == "realism" && count == 1;
    if intent != "exploratory" && u32::read(count).is_some_and(|count| count < MIN_TRIALS && !may_be_enough(count)) {
        let message = format!("`intent: {intent}` needs at least {MIN_TRIALS} trials of each point");
        let hint = format!("write {MIN_TRIALS} or more; fewer are for `intent: exploratory`");
        let one = if intent == "realism" { ", and one trial may be enough if it has intervals within its run" } else { "" };
        problems.add_hinted(count.span, message, hint + one);
    }
}

/// Checks rebuilds: builds are told apart by their folders, and each needs a turn.
fn check_rebuilds(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(rebuilds) = spec.at(&["trials", "rebuilds"]) else { return };
    let Some(builds) = u32::read(rebuilds).filter(|builds| *builds > 1) else { return };
    let targets = spec.member("targets").map_or(&[][..], CheckedValue::items);
    if !targets.iter().any(|target| target.member("folder").is_some()) {
        let message = "`spec.trials.rebuilds` needs a target with a `folder`";
        problems.add_hinted(rebuilds.span, message, "its builds lie in `1`, `2` and so on of that folder");
    }
    let count = spec.at(&["trials", "count"]).and_then(u32::read);
    if let Some(count) = count.filter(|count| *count < builds) {
        let message = format!("of {builds} builds only {count} would have a turn");
        problems.add_hinted(rebuilds.span, message, "write at most as many as `spec.trials.count`");
    }
}

fn check_sides(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let placement = spec.member("placement");
    let Some(comparison) = spec.member("comparison") else {
        if let Some(placement) = placement.filter(|placement| placement.text() == Some("alternate")) {
            let message = "`placement: alternate` needs a comparison whose sides alternate";
            problems.add_hinted(placement.span, message, "write `comparison`, or remove `placement`");
        }
        return;
    };
    for side in ["baseline", "candidate"] {
        check_side_name(spec, comparison, side, "target", problems);
        check_side_name(spec, comparison, side, "variant", problems);
    }
    let sides = [comparison.member("baseline"), comparison.member("candidate")];
    if let [Some(baseline), Some(candidate)] = sides
        && baseline == candidate
        && baseline.text_of("target").is_some()
    {
        problems.add_hinted(candidate.anchor, "baseline and candidate are the same", "a comparison needs two sides that differ");
    }
    let same_target = sides.map(|side| side.and_then(|side| side.text_of("target")));
    if placement.is_some_and(|placement| placement.text() == Some("coexist"))
        && same_target[0].is_some()
        && same_target[0] == same_target[1]
        && sides[0] != sides[1]
    {
        let message = "two variants of one target cannot be up together";
        problems.add_hinted(comparison.anchor, message, "write `placement: alternate`, or make them two targets");
    }
}

fn check_side_name(spec: &CheckedValue, comparison: &CheckedValue, side: &str, what: &str, problems: &mut Problems<'_>) {
    let Some(named) = comparison.at(&[side, what]) else { return };
    let Some(list) = spec.member(&format!("{what}s")) else { return };
    let names: Vec<&str> = list.items().iter().filter_map(|item| item.text_of("name")).collect();
    // The name may be in an invalid item of the list.
    let is_whole = list.value != Value::Invalid && names.len() == list.items().len();
    let Some(name) = named.text().filter(|name| is_whole && !names.contains(name)) else { return };
    let message = format!("the {side} names the {what} {}, which this pipeline does not have", quote(name));
    let known = || format!("it has {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "));
    problems.add_hinted(named.span, message, did_you_mean(name, names.iter().copied()).unwrap_or_else(known));
}

/// Checks the isolation: a restart needs a target that provision starts, and a flush one that serves.
fn check_isolation(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(isolation) = spec.member("isolation") else { return };
    let (kinds, cannot, hint): (&[&str], _, _) = match isolation.text() {
        Some("restart_target") => {
            let hint = "only a `process`, `simulator` or `objects` are started by Assay";
            (&["host", "endpoint", "inference_service"], "restart the target", hint)
        }
        Some("flush") => {
            (&["host"], "flush a cache of the target", "only a target that serves has one: `none` leaves it as it is")
        }
        _ => return,
    };
    let targets = spec.member("targets").map_or(&[][..], CheckedValue::items);
    for target in targets {
        let (name, kind) = (target.text_of("name").unwrap_or_default(), target.text_of("kind").unwrap_or_default());
        if kinds.contains(&kind) {
            let message =
                format!("`isolation: {}` cannot {cannot} `{name}` of `kind: {kind}`", isolation.text().unwrap_or_default());
            problems.add_hinted(isolation.span, message, hint);
        }
    }
}

fn check_gates(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let has_comparison = spec.member("comparison").is_some();
    if let Some(gate) = spec.member("gates").and_then(|gates| gates.items().first()).filter(|_| !has_comparison) {
        let message = "a gate needs something to compare with";
        let hint = "write `comparison`; `assay gate --baseline history` compares with earlier runs and needs no gate";
        problems.add_hinted(gate.span, message, hint);
    }
    for looks in spec.member("gates").map_or(&[][..], CheckedValue::items).iter().filter_map(|gate| gate.member("looks")) {
        let shares: f64 = looks.items().iter().filter_map(f64::read).sum();
        // Three thirds in decimal notation may add up to slightly more than 1.
        if shares > 1.0 + 1e-9 {
            problems.add(looks.span, format!("the shares of `looks` add up to {shares:.3}, more than all of `q`"));
        }
    }
}

fn check_stages(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(stages) = spec.member("stages") else { return };
    let given: Vec<&str> = stages.items().iter().filter_map(|stage| stage.text_of("name")).collect();
    let order = Role::STAGES.map(Role::as_str);
    let wrong = given.iter().zip(order).position(|(given, expected)| *given != expected);
    // A stage whose name was refused is missing here and has been reported.
    let all_named = stages.value != Value::Invalid && given.len() == stages.items().len();
    if !all_named || (wrong.is_none() && given.len() >= order.len()) {
        return;
    }
    let chain = order.join(", ");
    let hint = format!("the chain has one order, each stage taking what the one before gives: {chain}");
    let place = wrong.and_then(|at| stages.items().get(at));
    let message = if let (Some(stage), Some(expected)) = (place, wrong.and_then(|at| order.get(at))) {
        format!("the stage `{}` stands where `{expected}` belongs", stage.text_of("name").unwrap_or_default())
    } else {
        let missing: Vec<_> = order.iter().filter(|name| !given.contains(name)).map(|name| format!("`{name}`")).collect();
        format!("`spec.stages` lacks {}", missing.join(", "))
    };
    problems.add_hinted(place.map_or(stages.anchor, |stage| stage.span), message, hint);
}

/// Checks that a location on a branch comes with the branch.
fn check_publish(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let Some(publish) = spec.member("publish").filter(|publish| publish.member("branch").is_none()) else { return };
    for name in ["folder", "remote"] {
        if let Some(field) = publish.member(name) {
            let message = format!("`spec.publish.{name}` says where on a branch, and no branch is named");
            problems.add_hinted(field.span, message, format!("write `branch`, or remove `{name}`"));
        }
    }
}

fn check_secrets(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let lists = [
        spec.member("targets"),
        spec.member("variants"),
        spec.member("telemetry"),
        spec.at(&["publish", "hot_metrics", "receivers"]),
    ];
    for item in lists.into_iter().flatten().flat_map(CheckedValue::items) {
        if let Some(env) = item.member("env") {
            refuse_secrets(env, "a definition holds references to secrets only", problems);
        }
        for (name, header) in item.member("headers").map_or(&[][..], CheckedValue::members) {
            if let Some(value) =
                header.member("value").filter(|value| looks_secret_header(name, value.text().unwrap_or_default()))
            {
                let message = format!("the header `{name}` looks like a secret; a definition holds references to secrets only");
                problems.add_redacted(value.span, message, "give its place, `{from_env: NAME}` or `{from_file: PATH}`");
            }
        }
    }
}

/// Checks that each target takes the environments and the packages of the variants: a server is started once for all variants, and an endpoint
/// not at all, so a variant would be measured without its own.
fn check_variant_env(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let items = |name: &str| spec.member(name).map_or(&[][..], CheckedValue::items);
    let of_other_kind = |target: &&CheckedValue| target.text_of("kind").is_some_and(|kind| kind != "host");
    let Some(target) = items("targets").iter().find(of_other_kind) else { return };
    let set_env = items("variants").iter().filter_map(|variant| Some((variant, variant.member("env")?)));
    for (variant, env) in set_env.filter(|(_, env)| !env.members().is_empty()) {
        let [variant, target, kind] = [(variant, "name"), (target, "name"), (target, "kind")]
            .map(|(item, name)| quote(item.text_of(name).unwrap_or_default()));
        let message = format!(
            "the variant {variant} has an `env`, which the target {target} of kind {kind} does not get: only `kind: host` does"
        );
        let hint = "make a target of each variant, with its `env` and its address, and compare the targets";
        problems.add_hinted(env.span, message, hint);
    }
    let with_packages = items("variants").iter().filter_map(|variant| Some((variant, variant.member("python")?)));
    for (variant, python) in with_packages {
        let [variant, target, kind] = [(variant, "name"), (target, "name"), (target, "kind")]
            .map(|(item, name)| quote(item.text_of(name).unwrap_or_default()));
        let message =
            format!("the variant {variant} has `python` packages, which the target {target} of kind {kind} does not run with");
        problems.add_hinted(
            python.span,
            message,
            "only programs that a target of `kind: host` runs have the packages of a variant",
        );
    }
}

/// Checks that no target uses the load generator's CPUs, because it would not be isolated from it.
fn check_cpus(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let list = |of: &CheckedValue| of.text_of("cpus").and_then(|text| text.parse::<CpuList>().ok());
    let Some(load) = spec.member("load").and_then(list) else { return };
    for target in spec.member("targets").map_or(&[][..], CheckedValue::items) {
        let (Some(field), Some(cpus)) = (target.member("cpus"), list(target)) else { continue };
        if let Some(shared) = cpus.shared_with(&load) {
            let name = target.text_of("name").unwrap_or_default();
            let message = format!("the target {} and `spec.load.cpus` ({load}) both have the CPUs {shared}", quote(name));
            problems.add_hinted(field.span, message, "give each CPU to one of them");
        }
    }
}

/// The keys of a telemetry source that belong to a Prometheus.
const PROMETHEUS_KEYS: [&str; 6] = ["pack", "queries", "match", "headers", "insecure_skip_tls_verify", "tls"];

/// Checks that only a Prometheus has its keys, that it has queries, and that the GPUs are read once.
fn check_telemetry(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let sources = spec.member("telemetry").map_or(&[][..], CheckedValue::items);
    for (index, source) in sources.iter().enumerate() {
        let path = format!("spec.telemetry[{index}]");
        let Some(server) = source.member("prometheus") else {
            for (key, found) in PROMETHEUS_KEYS.into_iter().filter_map(|key| Some((key, source.member(key)?))) {
                let hints = [
                    ("nvidia_smi", "remove it: the program is asked for the same fields in every run"),
                    ("otlp", "remove it: all spans that are sent to the address are recorded"),
                    ("sacct", "remove it: the accounting of the run's own job is read"),
                ];
                let (kind, hint) = hints
                    .into_iter()
                    .find(|(kind, _)| source.member(kind).is_some())
                    .unwrap_or(("scrape", "remove it: an exporter is recorded as a whole, without credentials"));
                problems.add_hinted(found.anchor, format!("`{path}.{key}` belongs to `prometheus`, and not to `{kind}`"), hint);
            }
            check_nvidia_smi(sources, index, problems);
            continue;
        };
        if source.member("pack").is_none() && source.member("queries").is_none() {
            let known = Pack::built_in_names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let hint = format!("name a `pack` ({known}), or `queries` with files of your own");
            problems.add_hinted(server.anchor, format!("`{path}` asks its Prometheus for nothing"), hint);
        }
        if server.text().is_some_and(|url| url.contains('?')) {
            let message = format!("`{path}.prometheus` has a query, and paths are added to it");
            problems.add_hinted(server.span, message, "remove the `?` and what follows it");
        }
        for pack in source.member("pack").map_or_else(Vec::new, one_or_many) {
            let Some(name) = pack.text().filter(|name| Pack::built_in_text(name).is_none()) else { continue };
            let known = Pack::built_in_names().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            let near = did_you_mean(name, Pack::built_in_names()).map(|near| format!("{near} ")).unwrap_or_default();
            let hint = format!("{near}the packs are {known}; a file of your own belongs in `queries`");
            problems.add_hinted(pack.span, format!("Assay has no query pack {}", quote(name)), hint);
        }
        check_tls_of(source, "prometheus", &path, problems);
    }
}

/// Checks that the GPUs of a machine are read, and by one source.
fn check_nvidia_smi(sources: &[CheckedValue], index: usize, problems: &mut Problems<'_>) {
    let wanted = |source: &CheckedValue| source.member("nvidia_smi").map(|field| (field.span, bool::read(field) == Some(true)));
    let Some((span, is_on)) = sources.get(index).and_then(wanted) else { return };
    let path = format!("spec.telemetry[{index}]");
    if !is_on {
        problems.add_hinted(span, format!("`{path}.nvidia_smi` is `true` or left out"), "remove the source to read no GPUs");
    } else if let Some(first) = sources.iter().take(index).position(|source| wanted(source).is_some()) {
        let message = format!("`{path}` reads the GPUs that `spec.telemetry[{first}]` reads");
        problems.add_hinted(span, message, "remove one of them: each GPU would be recorded twice");
    }
}

/// Returns the items of a list, or the value itself.
fn one_or_many(value: &CheckedValue) -> Vec<&CheckedValue> {
    if let Value::List(items) = &value.value { items.iter().collect() } else { vec![value] }
}

fn texts_of(value: &CheckedValue) -> Option<Vec<String>> {
    one_or_many(value).into_iter().map(String::read).collect()
}

/// Checks that certificates are for an address with TLS, and that authorities are trusted only if certificates are verified.
fn check_tls(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let targets = spec.member("targets").map_or(&[][..], CheckedValue::items);
    for (index, target) in targets.iter().enumerate() {
        check_tls_of(target, "url", &format!("spec.targets[{index}]"), problems);
    }
}

/// Checks the certificates of a target or telemetry source at `path`, whose address is the field `url`.
fn check_tls_of(target: &CheckedValue, url: &str, path: &str, problems: &mut Problems<'_>) {
    let Some(tls) = target.member("tls") else { return };
    if target.text_of(url).is_some_and(|url| url.starts_with("http://")) {
        let what = if url == "url" { "a target" } else { "a server" };
        let message = format!("`{path}.tls` is for {what} at `https`, and `{path}.{url}` begins with `http://`");
        problems.add_hinted(tls.anchor, message, "write `https://` if the server speaks TLS, or remove `tls`");
    }
    let skips = matches!(target.member("insecure_skip_tls_verify").map(|skip| &skip.value), Some(Value::Bool(true)));
    if let Some(ca) = tls.member("ca").filter(|_| skips) {
        let message = format!("`{path}.tls.ca` has no effect if `{path}.insecure_skip_tls_verify` accepts any certificate");
        problems.add_hinted(ca.anchor, message, "keep one of them: with `ca`, the server's certificate is verified");
    }
}

/// Checks the settings of simulators, because a simulator would find an error only after its start, and report it in its log.
fn check_simulators(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let targets = spec.member("targets").map_or(&[][..], CheckedValue::items);
    for (index, target) in targets.iter().enumerate().filter(|(_, target)| target.text_of("kind") == Some("simulator")) {
        for (key, setting) in target.member("config").map_or(&[][..], CheckedValue::members) {
            let name = key.replace('-', "_");
            if !SIMULATOR_SETTINGS.contains(&name.as_str()) {
                let message = format!("`spec.targets[{index}].config` has {}, which is no setting of the simulator", quote(key));
                let hint = did_you_mean(&name, SIMULATOR_SETTINGS.iter().copied());
                problems.add_maybe_hinted(setting.anchor, message, hint);
            }
        }
        let Some(profile) = target.at(&["config", "profile"]) else { continue };
        let Some(name) = profile.text().filter(|name| !SIMULATOR_PROFILES.contains(name)) else { continue };
        let message = format!("`spec.targets[{index}].config.profile` is no profile of the simulator: {}", quote(name));
        let known = SIMULATOR_PROFILES.map(|profile| format!("`{profile}`")).join(", ");
        let near = did_you_mean(name, SIMULATOR_PROFILES).map(|near| format!("{near} ")).unwrap_or_default();
        problems.add_hinted(profile.span, message, format!("{near}the profiles are {known}"));
    }
}

/// Checks that only an endpoint is at a Unix socket: a target that a run starts has a port of its own.
fn check_sockets(spec: &CheckedValue, problems: &mut Problems<'_>) {
    let targets = spec.member("targets").map_or(&[][..], CheckedValue::items);
    for (index, target) in targets.iter().enumerate().filter(|(_, target)| target.text_of("kind") != Some("endpoint")) {
        if let Some(url) = target.member("url").filter(|url| url.text().is_some_and(|text| text.starts_with("unix:"))) {
            let kind = target.text_of("kind").unwrap_or_default();
            let message =
                format!("`spec.targets[{index}].url` is a Unix socket, at which only an `endpoint` may be, not `kind: {kind}`");
            problems.add_hinted(url.span, message, "write an address with a host and a port, or `kind: endpoint`");
        }
    }
}

/// Returns the placement of the sides if none is given. A gate decides nothing about sides that stay up unless the difference
/// between launches was learned, so if the run starts both of them, each pair has launches of its own.
fn default_placement(targets: &[Target], comparison: Option<&Comparison>, gates: &[Gate]) -> Placement {
    let is_started = |side: &Side| {
        let target = targets.iter().find(|target| target.name == side.target);
        target.is_some_and(|target| matches!(target.kind, TargetKind::Process | TargetKind::Simulator | TargetKind::Objects))
    };
    match comparison {
        Some(Comparison { baseline, candidate, .. }) if !gates.is_empty() && is_started(baseline) && is_started(candidate) => {
            Placement::Alternate
        }
        _ => Placement::Coexist,
    }
}

impl Read for PipelineSpec {
    fn read(spec: &CheckedValue) -> Option<Self> {
        let (targets, gates): (Vec<Target>, Vec<Gate>) = (spec.get("targets")?, spec.get("gates")?);
        let comparison: Option<Comparison> = spec.get("comparison")?;
        let placement: Option<Placement> = spec.get("placement")?;
        Some(Self {
            intent: spec.get("intent")?,
            workloads: spec.get("workloads")?,
            variants: spec.get("variants")?,
            telemetry: spec.get("telemetry")?,
            trials: spec.get("trials")?,
            isolation: spec.get("isolation")?,
            placement: placement.unwrap_or_else(|| default_placement(&targets, comparison.as_ref(), &gates)),
            targets,
            comparison,
            shards: spec.get("shards")?,
            load_cpus: match spec.member("load") {
                Some(load) => load.get("cpus")?,
                None => None,
            },
            pricing: spec.get("pricing")?,
            claim: spec.get("claim")?,
            controls: read_controls(spec.member("controls")?)?,
            gates,
            stages: spec.get("stages")?,
            schedule: spec.get("schedule")?,
            publish: spec.get("publish")?,
            fetch_allow: spec.member("fetch")?.get("allow")?,
            time_limit: spec.get("time_limit")?,
        })
    }
}

impl Read for Target {
    fn read(target: &CheckedValue) -> Option<Self> {
        let unprobed = ReadinessProbe { http: None, timeout: Duration::ZERO };
        Some(Self {
            name: target.get("name")?,
            kind: target.get("kind")?,
            url: target.get("url")?,
            command: target.get::<Option<Vec<String>>>("command")?.unwrap_or_default(),
            objects: target.get("objects")?,
            inference_service: target.get("inference_service")?,
            env: read_env(target)?,
            headers: target.get("headers")?,
            insecure_skip_tls_verify: target.get::<Option<bool>>("insecure_skip_tls_verify")?.unwrap_or(false),
            tls: target.get("tls")?,
            replicas: target.get("replicas")?,
            ready: target.get::<Option<ReadinessProbe>>("ready")?.unwrap_or(unprobed),
            config: target.get::<Option<BTreeMap<String, String>>>("config")?.unwrap_or_default(),
            image: target.get("image")?,
            hardware: target.get("hardware")?,
            software: target.get("software")?,
            place: target.get("place")?,
            cpus: target.get("cpus")?,
            folder: target.get("folder")?,
            working_directory: target.get("working_directory")?,
            artifacts: target.get::<Option<Vec<String>>>("artifacts")?.unwrap_or_default(),
        })
    }
}

/// Reads the environment of a target or variant; empty for a kind of target that has none.
fn read_env(of: &CheckedValue) -> Option<Vec<EnvVar>> {
    let mut env: Vec<EnvVar> = of
        .member("env")
        .map_or(&[][..], CheckedValue::members)
        .iter()
        .map(|(name, value)| read_variable(name, value))
        .collect::<Option<_>>()?;
    env.sort_by(|a, b| a.name.cmp(&b.name));
    Some(env)
}

fn read_variable(name: &str, value: &CheckedValue) -> Option<EnvVar> {
    Some(match &value.value {
        Value::Text(text) => plain_variable(name, text),
        _ => SecretRef::read(value)?.to_env_var(name),
    })
}

impl Read for TargetTls {
    fn read(tls: &CheckedValue) -> Option<Self> {
        Some(Self { ca: tls.get("ca")?, client: tls.get("client")? })
    }
}

impl Read for ClientCertificate {
    fn read(client: &CheckedValue) -> Option<Self> {
        Some(Self { cert: client.get("cert")?, key: client.get("key")? })
    }
}

impl Read for Shards {
    fn read(value: &CheckedValue) -> Option<Self> {
        if value.text().is_some() { Some(Self::Auto) } else { u32::read(value).map(Self::Count) }
    }
}

impl Read for InferenceService {
    fn read(service: &CheckedValue) -> Option<Self> {
        Some(Self {
            api: service.get("api")?,
            name: service.get("name")?,
            namespace: service.get("namespace")?,
            path: service.get("path")?,
        })
    }
}

impl Read for ReadinessProbe {
    fn read(ready: &CheckedValue) -> Option<Self> {
        Some(Self { http: ready.get("http")?, timeout: ready.get("timeout")? })
    }
}

impl Read for TelemetrySource {
    fn read(source: &CheckedValue) -> Option<Self> {
        let prometheus = match source.get::<Option<String>>("prometheus")? {
            Some(url) => Some(PrometheusSource::read(&url, source)?),
            None => None,
        };
        let nvidia_smi = source.get::<Option<bool>>("nvidia_smi")?.unwrap_or(false);
        let (otlp, sacct) = (source.get("otlp")?, source.get("sacct")?);
        Some(Self { name: source.get("name")?, scrape: source.get("scrape")?, prometheus, nvidia_smi, otlp, sacct })
    }
}

impl PrometheusSource {
    /// Reads the keys beside the address of a Prometheus.
    fn read(url: &str, source: &CheckedValue) -> Option<Self> {
        let packs =
            source.member("pack").map_or(Some(Vec::new()), |pack| one_or_many(pack).into_iter().map(Name::read).collect());
        let matched = source.member("match").map_or(&[][..], CheckedValue::members);
        Some(Self {
            url: url.trim_end_matches('/').to_owned(),
            packs: packs?,
            queries: source.get("queries")?,
            matchers: matched.iter().map(|(label, values)| Some((label.clone(), texts_of(values)?))).collect::<Option<_>>()?,
            headers: source.get("headers")?,
            insecure_skip_tls_verify: source.get::<Option<bool>>("insecure_skip_tls_verify")?.unwrap_or(false),
            tls: source.get("tls")?,
        })
    }
}

impl Read for Variant {
    fn read(variant: &CheckedValue) -> Option<Self> {
        Some(Self {
            name: variant.get("name")?,
            description: variant.get("description")?,
            env: read_env(variant)?,
            python: variant.get("python")?,
        })
    }
}

read_from_text!(PythonInstaller);

impl Read for PythonStack {
    fn read(python: &CheckedValue) -> Option<Self> {
        Some(Self { lock: python.get("lock")?, installer: python.get("installer")?, interpreter: python.get("interpreter")? })
    }
}

impl Read for Trials {
    fn read(trials: &CheckedValue) -> Option<Self> {
        let count: Option<u32> = trials.member("count").and_then(u32::read);
        Some(Self {
            count: count.unwrap_or(MAX_SIZED),
            sized: count.is_none(),
            retry_budget: trials.get("retry_budget")?,
            validity: trials.get::<Option<ValidityLimits>>("validity")?.unwrap_or_default(),
            rebuilds: trials.get("rebuilds")?,
            order_seed: trials.get("order_seed")?,
        })
    }
}

impl Read for ValidityLimits {
    fn read(limits: &CheckedValue) -> Option<Self> {
        let nanoseconds = |name| Some(Count(u64::try_from(limits.get::<Duration>(name)?.as_nanos()).ok()?));
        Some(Self {
            lateness_p99_ns: nanoseconds("lateness_p99")?,
            stall_ns: nanoseconds("stall")?,
            delay_share: limits.get("delay_share")?,
            sent_share: limits.get("sent_share")?,
            throttled_share: limits.get("throttled_share")?,
            steal_share: limits.get("steal_share")?,
            softirq_share: limits.get("softirq_share")?,
            pressure_share: limits.get("pressure_share")?,
            retransmit_share: limits.get("retransmit_share")?,
            reason: limits.get("reason")?,
        })
    }
}

impl Read for Side {
    fn read(side: &CheckedValue) -> Option<Self> {
        Some(Self { target: side.get("target")?, variant: side.get("variant")? })
    }
}

impl Read for Comparison {
    fn read(comparison: &CheckedValue) -> Option<Self> {
        Some(Self {
            baseline: comparison.get("baseline")?,
            candidate: comparison.get("candidate")?,
            variable_under_test: comparison.get("variable_under_test")?,
            other: comparison.get("other")?,
        })
    }
}

impl Read for Pricing {
    fn read(pricing: &CheckedValue) -> Option<Self> {
        Some(Self {
            gpu_hour: pricing.get("gpu_hour")?,
            currency: pricing.get("currency")?,
            source: pricing.get("source")?,
            as_of: pricing.get("as_of")?,
        })
    }
}

impl Read for Claim {
    fn read(claim: &CheckedValue) -> Option<Self> {
        Some(Self {
            methodology: claim.get("methodology")?,
            representative: claim.get("representative")?,
            statement: claim.get("statement")?,
        })
    }
}

fn read_controls(controls: &CheckedValue) -> Option<Vec<(Control, ControlRequirement)>> {
    let ask = |control: &Control| {
        let ask = controls.member(control.as_str()).map_or(Some(ControlRequirement::Absent), ControlRequirement::read)?;
        Some((*control, ask))
    };
    Control::ALL.iter().map(ask).collect()
}

impl Read for ControlRequirement {
    fn read(control: &CheckedValue) -> Option<Self> {
        match control.get::<Option<String>>("declare")? {
            Some(words) => Some(Self::Declared(words)),
            None => control.get::<bool>("require").map(|required| if required { Self::Required } else { Self::Absent }),
        }
    }
}

impl Read for Gate {
    fn read(gate: &CheckedValue) -> Option<Self> {
        Some(Self {
            name: gate.get("name")?,
            metrics: gate.get("metrics")?,
            budget_pct: gate.get("budget_pct")?,
            block_on_inconclusive: gate.get("block_on_inconclusive")?,
            q: gate.get("q")?,
            looks: gate.get("looks")?,
            slo: gate.get("slo")?,
            provenance: gate.get("provenance")?,
            max_error_rate_pct: gate.get("max_error_rate_pct")?,
            max_output_drift_pct: gate.get("max_output_drift_pct")?,
        })
    }
}

impl Read for Stage {
    fn read(stage: &CheckedValue) -> Option<Self> {
        let role: Role = stage.get("name")?;
        let resources = stage.member("resources")?;
        Some(Self {
            role,
            image: stage.get("image")?,
            cpu: resources.get("cpu")?,
            memory: resources.get("memory")?,
            node_selector: stage.member("placement")?.get("node_selector")?,
            pod: stage.get("pod")?,
            timeout: stage.get::<Option<Duration>>("timeout")?.unwrap_or_else(|| default_timeout(role)),
            retries: stage.get("retries")?,
        })
    }
}

/// Returns the default timeout of a stage: for execute, as long as a run may take; for the others, as long as their I/O takes.
fn default_timeout(role: Role) -> Duration {
    const MINUTE: u64 = 60;
    match role {
        Role::Execute => Duration::from_secs(24 * 60 * MINUTE),
        Role::Provision | Role::Collect | Role::Reduce => Duration::from_secs(30 * MINUTE),
        _ => Duration::from_secs(10 * MINUTE),
    }
}

impl Read for Schedule {
    fn read(schedule: &CheckedValue) -> Option<Self> {
        Some(Self { cron: schedule.get("cron")?, timezone: schedule.get("timezone")?, deadline: schedule.get("deadline")? })
    }
}

impl Read for PublishSettings {
    fn read(publish: &CheckedValue) -> Option<Self> {
        Some(Self {
            queries: publish.get("queries")?,
            branch: publish.get("branch")?,
            folder: publish.get("folder")?,
            remote: publish.get("remote")?,
            hot_metrics: publish.get("hot_metrics")?,
        })
    }
}
