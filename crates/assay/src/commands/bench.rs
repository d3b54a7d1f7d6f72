//! `assay bench`: puts load on an endpoint with one command line, through the same chain as any run.
//!
//! The options become a workload and a pipeline, which are the run's Source (`adhoc`). So the definitions are as well known as
//! those of a pipeline in Git; only their author is not, and the numbers are exploratory.

mod tokenizer;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assay_api::{InputKind, ServingApi};
use assay_manifest::{DatasetFormat, RunId, SloMetric};
use assay_runner::{SourceSpec, UnusedName, default_store};
use assay_runs::read_regular_file;
use assay_search::Load;
use assay_spec::{
    ClosureError, NO_CREDENTIALS, Problem, STATED_MEMBER, expand, looks_secret, looks_secret_header, parse_duration,
    read_closure, write_duration,
};
use assay_stage::parameters::PlanParameters;
use assay_stage::{AcceptedResult, ErrorCode, Exit, Failure, Layout};
use assay_store::Store;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde_json::{Map, Value, json};

mod combinations;
mod custom_api;
mod image_files;
mod lengths;
pub(crate) mod search;
mod tls;
mod wording;

use crate::commands::definitions;
use crate::commands::gpu_hours::{GpuHoursLimit, Remedy};
use crate::commands::plan::{PlanDuration, read_duration};
use crate::commands::run::{RunRequest, handle_signals};
use crate::output;
use crate::progress::Detail;
use tokenizer::{TOKENIZER_FILE, TokenizerOptions};

use custom_api::CustomApiOptions;
use image_files::ImageFileOptions;
use lengths::LengthTables;
use search::{End, Round, Search, SearchOptions};
use tls::TlsOptions;
use wording::Wording;

/// The time limit for the endpoint to become ready: the user is there to start it.
const READY_TIMEOUT: &str = "10s";

/// The time after which a trial is stopped, unless its load needs longer: the default of a workload file.
const DEFAULT_TIME_LIMIT: Duration = Duration::from_mins(30);

/// The duration of a trial that has neither a duration nor a number of requests.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

/// Returns a number of seconds as options and workload files write it.
fn in_seconds(seconds: u64) -> String {
    format!("{seconds}s")
}

/// The tokens of a query, as in genai-bench's default scenarios.
const QUERY_TOKENS: u32 = 100;

/// The default of `--output-tokens`.
const OUTPUT_TOKENS: u64 = 128;

/// The name of the pipeline that these options make, and of that of a round of a search: a list of runs tells them apart.
const PIPELINES: [&str; 2] = ["bench", "search"];

/// The remedy of GPU-hours that are not known.
const IN_OPTIONS: Remedy = Remedy { declare: "state the GPUs of the endpoint: `--gpus 8`" };

/// The workloads: of the closed loop, of the open loop, of users, and of a replay.
const WORKLOADS: [&str; 4] = ["bench", "bench-open", "bench-users", "bench-replay"];

/// The options by the field that each becomes; a longer path comes before any path that it begins with.
const OPTIONS: [(&str, &str); 76] = [
    ("spec.load.cancel", "--cancel"),
    ("spec.load.connections", "--connections"),
    ("spec.load.rate.ramp", "--ramp"),
    ("spec.load.rate.series", "--series"),
    ("spec.load.max_concurrency", "--max-concurrency"),
    ("spec.load.concurrency", "--concurrency"),
    ("spec.load.users", "--users"),
    ("spec.load.rate", "--rate"),
    ("spec.load.speed", "--speed"),
    ("spec.load.arrival", "--arrival"),
    ("spec.load.smoothness", "--smoothness"),
    ("spec.load.duration", "--duration"),
    ("spec.load.requests", "--requests"),
    ("spec.load.sessions", "--sessions count="),
    ("spec.load.warmup", "--warmup"),
    ("spec.load.timeout", "--timeout"),
    ("spec.lengths.pairs", "--pairs"),
    ("spec.lengths.input.histogram", "--input-histogram"),
    ("spec.lengths.output.histogram", "--output-histogram"),
    ("spec.lengths.input", "--input-tokens"),
    ("spec.lengths.output", "--output-tokens"),
    ("spec.lengths", "--scenario"),
    ("spec.images", "--images"),
    ("spec.image_files.count", "--image-count"),
    ("spec.image_files", "--image-files"),
    ("spec.token_ids", "--prompt-token-ids"),
    ("spec.prefix", "--prefix"),
    ("spec.sessions.turns", "--sessions turns="),
    ("spec.sessions.think_time", "--sessions think_time="),
    ("spec.sessions.history", "--sessions history="),
    ("spec.sessions.reasoning", "--sessions reasoning="),
    ("spec.sessions.header", "--sessions header="),
    ("spec.sessions.recycle", "--sessions recycle="),
    ("spec.sessions.start", "--sessions start="),
    ("spec.sessions.warm_history", "--sessions warm_history="),
    ("spec.sessions.idle_cap", "--sessions idle_cap="),
    ("spec.sessions.marker", "--sessions marker="),
    ("spec.sessions", "--sessions"),
    ("spec.scenario", "--agentx"),
    ("spec.dataset.format", "--dataset-format"),
    ("spec.dataset.fields", "--field"),
    ("spec.dataset.max_input", "--max-input"),
    ("spec.dataset.max_output", "--max-output"),
    ("spec.dataset.over", "--over"),
    ("spec.dataset", "--dataset"),
    ("spec.trace.format", "--trace-format"),
    ("spec.trace.window", "--window"),
    ("spec.trace.sample", "--sample"),
    ("spec.trace.max_gap", "--max-gap"),
    ("spec.trace.max_tool_time", "--max-tool-time"),
    ("spec.trace.max_input", "--max-input"),
    ("spec.trace.max_output", "--max-output"),
    ("spec.trace.over", "--over"),
    ("spec.trace", "--trace"),
    ("spec.tokenizer.pattern", "--tokenizer-pattern"),
    ("spec.tokenizer.template", "--template"),
    ("spec.tokenizer", "--tokenizer"),
    ("spec.custom.path", "--api-path"),
    ("spec.custom.body", "--api-body"),
    ("spec.custom.response", "--api-response"),
    ("spec.custom", "--api-body"),
    ("spec.batch", "--documents"),
    ("spec.slos", "--slo"),
    ("spec.body", "--body"),
    ("spec.extra_body", "--extra-body"),
    ("spec.seed", "--seed"),
    ("spec.cache", "--cache"),
    ("spec.trials.count", "--trials"),
    ("spec.shards", "--shards"),
    ("spec.targets[0].url", "--url"),
    ("spec.targets[0].config.profile", "--simulator"),
    ("spec.targets[0].headers", "--header"),
    ("spec.targets[0].hardware", "--gpus"),
    ("spec.targets[0].tls", "--cert"),
    ("spec.adapters", "--adapter"),
    ("spec.model", "--model"),
];

/// The ways to say what is measured, and with which load.
const USAGE: &str = "assay bench --url <URL> --model <NAME> <LOAD> [OPTIONS]
       assay bench --simulator <PROFILE> <LOAD> [OPTIONS]

LOAD is one of --concurrency <N,..>, --rate <PER_S,..>, --ramp, --series, --users <N,..> with --rate, and
--trace <FILE|URL>, or --concurrency beside any of them; or a search for it, --sweep or --find-max <LOAD>.";

/// Benchmark an endpoint: each concurrency and each request rate is a separate load.
#[derive(clap::Args)]
#[command(override_usage = USAGE, group = clap::ArgGroup::new("drawn").multiple(true))]
pub(crate) struct Bench {
    /// The endpoint's address, such as http://127.0.0.1:8000
    #[arg(long, value_name = "URL", required_unless_present = "simulator", conflicts_with = "simulator")]
    url: Option<String>,
    /// Start the built-in simulator with this profile instead: instant, fast, h100-8b and others
    #[arg(long, value_name = "PROFILE")]
    simulator: Option<String>,
    /// The model name in requests
    #[arg(long, value_name = "NAME", required_unless_present = "simulator")]
    model: Option<String>,
    /// A LoRA adapter of the model that requests name in its place; several are drawn by their weights, one for each session if there are any
    #[arg(long = "adapter", value_name = "NAME[=WEIGHT]")]
    adapters: Vec<String>,
    /// Closed loop: requests in flight, up to 10,000,000; each response is followed by the next request. `1..64` means 1, 2, 4, ..., 64
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = parse_doublings)]
    concurrency: Vec<Doublings>,
    /// Open loop: requests per second, independent of completions. With `--concurrency`, both are measured
    #[arg(long, value_name = "PER_S,..", value_delimiter = ',', allow_negative_numbers = true, group = "drawn",
        value_parser = parse_rate)]
    rate: Vec<f64>,
    /// Users who play one session after the other, with equal gaps between their turns: the number of users over `--rate`, the turns of all of them per
    /// second. Each number is measured at each rate
    #[arg(
        long,
        value_name = "N,..",
        value_delimiter = ',',
        requires = "rate",
        conflicts_with_all = ["ramp", "series", "trace", "arrival", "smoothness", "max_concurrency"]
    )]
    users: Vec<u64>,
    /// Open loop at a rate that changes over each trial: FROM..TO in a straight line, exponential:FROM..TO, or steps=N:FROM..TO
    #[arg(long, value_name = "[SHAPE:]FROM..TO", conflicts_with_all = ["rate", "series"], group = "drawn")]
    ramp: Option<String>,
    /// Open loop at constant rates one after the other in each trial, each with its time, such as 10s:5,20s:50
    #[arg(long, value_name = "TIME:PER_S,..", value_delimiter = ',', conflicts_with = "rate", group = "drawn")]
    series: Vec<String>,
    /// Requests in flight of an open loop or a replay at most: one that is due beyond it waits, and its latencies include the wait
    #[arg(long, value_name = "N")]
    max_concurrency: Option<u64>,
    /// The reuse of connections: pooled, never (each request opens one, and its latencies include that), or sticky (one for each session)
    #[arg(long, value_name = "POLICY", default_value = "pooled")]
    connections: String,
    /// The share of requests that the client cancels, and how long after it was sent each of them is, such as 0.1:500ms. Counted apart, not as failures
    #[arg(long, value_name = "SHARE:TIME")]
    cancel: Option<String>,
    /// The speed of a replayed trace: 2 halves all of its times [default: 1]
    #[arg(long, value_name = "FACTOR,..", value_delimiter = ',', requires = "trace")]
    speed: Vec<f64>,
    /// The arrival process of the open loop [default: poisson]
    #[arg(long, value_name = "PROCESS", requires = "drawn", value_parser = ["constant", "poisson", "gamma"])]
    arrival: Option<String>,
    /// The shape of gamma arrivals: 1 is Poisson, less is burstier
    #[arg(long, value_name = "SHAPE", requires = "drawn")]
    smoothness: Option<f64>,
    /// The measured duration of each trial, such as 30s [default: 10s, unless --requests or --trace is given]
    #[arg(long, value_name = "TIME")]
    duration: Option<String>,
    /// The measured requests of each trial; with --duration, the limit reached first ends it
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// The warm-up time before the measurement [default: 1s; 0s with --trace or a number of sessions, of which it would take the first]
    #[arg(long, value_name = "TIME")]
    warmup: Option<String>,
    /// The request timeout; slower requests fail
    #[arg(long, value_name = "TIME", default_value = "5m")]
    timeout: String,
    /// Trials per load; an interval needs at least five
    #[arg(long, value_name = "N", default_value_t = 5)]
    trials: u32,
    /// Tokens per prompt
    #[arg(long, value_name = "N", default_value_t = 128)]
    input_tokens: u64,
    /// Tokens per response, for an API whose responses have tokens [default: 128]
    #[arg(long, value_name = "N")]
    output_tokens: Option<u64>,
    /// Lengths in genai-bench notation, such as "D(100,100)", "N(480,240)/(300,150)", "E(128)", "R(128,100)" or "I(512,512,2)"
    #[arg(long, value_name = "SCENARIO", conflicts_with_all = ["input_tokens", "output_tokens"])]
    scenario: Option<String>,
    #[command(flatten)]
    search: SearchOptions,
    #[command(flatten)]
    length_tables: LengthTables,
    #[command(flatten)]
    image_files: ImageFileOptions,
    /// Tokens that synthetic prompts begin with in common: system=N for all, group=N for those of one of groups=K, with zipf=S
    #[arg(long, value_name = "NAME=N,..", value_delimiter = ',', conflicts_with = "file")]
    prefix: Vec<String>,
    /// Requests are turns of conversations, drawn or those of a dataset: turns=N or N..M, think_time=2s, 1s..5s or exponential:2s, history=recorded or live,
    /// reasoning=drop or keep, header=NAME, count=N. Concurrency and rate then count sessions. With --trace, history=recorded plays its sessions
    /// at their times, and count=N so many of them at a --concurrency, or recycle=true all of them again and again for --duration. Of those at a
    /// --concurrency, start=0.25..0.75 begins each user in the middle of a session, warm_history=true sends the turn before it first, idle_cap=10s cuts the
    /// time in which nothing is in flight, and marker=true puts words of its own in front of each session
    #[arg(long, value_name = "NAME=VALUE,..", value_delimiter = ',')]
    sessions: Vec<String>,
    /// A file or address of prompts: JSON Lines, CSV, Parquet, text, ShareGPT or an OpenAI batch file, instead of synthetic prompts
    #[arg(long, value_name = "FILE|URL", conflicts_with_all = ["input_tokens", "scenario"], group = "file")]
    dataset: Option<String>,
    /// The format of the dataset [default: by the ending of its name]
    #[arg(long, value_name = "FORMAT")]
    dataset_format: Option<String>,
    /// A file or address of requests with their times, which are replayed once in each trial; with --sessions, turn by turn
    #[arg(long, value_name = "FILE|URL", conflicts_with_all = ["input_tokens", "scenario", "dataset"], group = "file")]
    trace: Option<String>,
    /// The format of the trace: mooncake, bailian, azure, burstgpt, timed_jsonl, weka or tracelab
    #[arg(long, value_name = "FORMAT")]
    trace_format: Option<String>,
    /// The part of the trace that is replayed, since its first request, such as 10m..20m or 1h..
    #[arg(long, value_name = "FROM..TO", requires = "trace")]
    window: Option<String>,
    /// The share of the trace's sessions to replay, or of its requests if it names no sessions, such as 0.1
    #[arg(long, value_name = "SHARE", requires = "trace")]
    sample: Option<f64>,
    /// The longest time between two requests of the trace, or with --sessions the longest pause; longer ones are cut
    #[arg(long, value_name = "TIME", requires = "trace")]
    max_gap: Option<String>,
    /// With --sessions, the longest pause after a response that called a tool [default: that of --max-gap]
    #[arg(long, value_name = "TIME", requires = "trace")]
    max_tool_time: Option<String>,
    /// Judge the result by the rules of AgentX: sessions of coding agents of a trace of the format weka
    #[arg(long, requires = "trace")]
    agentx: bool,
    /// The name of a member or column of the dataset, such as prompt=question; also messages, system, output and output_tokens
    #[arg(long, value_name = "PURPOSE=NAME", requires = "file")]
    field: Vec<String>,
    /// The most tokens of a prompt of the dataset or trace
    #[arg(long, value_name = "N", requires = "file")]
    max_input: Option<u64>,
    /// The most tokens of a response of the dataset or trace, and of one whose row records none
    #[arg(long, value_name = "N", requires = "file")]
    max_output: Option<u64>,
    /// The treatment of a longer prompt: refuse, truncate or skip
    #[arg(long, value_name = "RULE", requires = "file")]
    over: Option<String>,
    /// End a trial early once so many of its requests have failed: it then does not count
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    max_errors: Option<u64>,
    /// Documents per request, for an API that takes documents
    #[arg(long, value_name = "N", default_value_t = 1)]
    documents: u32,
    /// The API to call
    #[arg(long, value_name = "API", default_value = "chat", value_parser = api_parser())]
    api: ServingApi,
    #[command(flatten)]
    custom_api: CustomApiOptions,
    /// Request whole responses instead of streams
    #[arg(long)]
    no_streaming: bool,
    /// Do not request the exact output length (`ignore_eos`, `min_tokens`), which some endpoints reject
    #[arg(long)]
    no_exact_output: bool,
    /// The prefix cache mode: cold_salt, cold_flush, warm or shared
    #[arg(long, value_name = "MODE", default_value = "cold_salt")]
    cache: String,
    #[arg(long, value_name = "METRIC=TIME,..", value_delimiter = ',', help = slo_help())]
    slo: Vec<String>,
    /// Send the API key in this environment variable or file [default place: OPENAI_API_KEY]
    #[arg(long, value_name = "PLACE", num_args = 0..=1, default_missing_value = KEY_VARIABLE)]
    api_key: Option<String>,
    /// A header of each request, and the environment variable with its value; `NAME: VALUE` if it is no secret
    #[arg(long, value_name = "NAME=VARIABLE")]
    header: Vec<String>,
    #[command(flatten)]
    tls: TlsOptions,
    /// A field to add to each request's body, such as temperature=0.7
    #[arg(long, value_name = "NAME=VALUE")]
    body: Vec<String>,
    /// A JSON object whose members are added to each request's body, such as '{"top_k":20}'
    #[arg(long, value_name = "JSON")]
    extra_body: Option<String>,
    /// The model's tokenizer.json, its folder, or a vocabulary of tiktoken; without it, prompts consist of common words, one token each
    #[arg(long, value_name = "FILE")]
    tokenizer: Option<PathBuf>,
    /// The pattern of a vocabulary of tiktoken: an encoding, such as o200k_base, or a regular expression [default: by the name of the file]
    #[arg(long, value_name = "PATTERN", requires = "tokenizer")]
    tokenizer_pattern: Option<String>,
    /// Make the chat template of the tokenizer's folder a part of each prompt's length: `apply` sends its text by completions, `count` counts what chat applies
    #[arg(long, value_name = "USE", requires = "tokenizer")]
    template: Option<String>,
    /// The serving stack; requests to `vllm` set `continuous_usage_stats`
    #[arg(long, value_name = "NAME", default_value = "unknown")]
    stack: String,
    /// The number format of the model, such as fp8
    #[arg(long, value_name = "NAME", default_value = "unknown")]
    precision: String,
    /// The number of load generator processes [default: chosen by calibration]
    #[arg(long, value_name = "N")]
    shards: Option<u32>,
    /// The number of GPUs of the endpoint, as a declared fact
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    gpus: Option<u32>,
    #[command(flatten)]
    limit: GpuHoursLimit,
    /// The seed of prompts, lengths and arrivals, such as 42, or 64 hexadecimal digits [default: derived from the workload]
    #[arg(long, value_name = "SEED")]
    seed: Option<String>,
    /// The artifact store [default: `.assay` of the repository, or the user's data folder]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// The run's name [default: a new one]
    #[arg(long = "run-id", value_name = "ID")]
    name: Option<RunId>,
    /// True while the loads are those of a round of a search.
    #[arg(skip)]
    is_search_round: bool,
    /// The queue at which the trials of an open loop end early, in a round of a search.
    #[arg(skip)]
    over_saturation: Option<Value>,
    /// Print the resulting workload and pipeline, and run nothing
    #[arg(long)]
    print: bool,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

impl Bench {
    pub(crate) fn run(self: Box<Self>) -> Result<Exit, Failure> {
        combinations::check(&self)?;
        self.search.check(&self)?;
        if self.output_tokens.is_some() && !self.api.capabilities().has_output_tokens {
            let message = format!("`--output-tokens` means nothing with `--api {}`: its responses have no tokens", self.api);
            return Err(Failure::new(ErrorCode::Option, message).hint("leave it out"));
        }
        if let Some(rule) = self.search.rule(self.requests) {
            let search = Search::new(rule, self.search.limit(&rule), self.json);
            return self.run_search(search);
        }
        if self.concurrency.is_empty() && !self.is_open() && self.users.is_empty() && self.trace.is_none() {
            let hint = "such as `--concurrency 1..64`, which measures 1, 2, 4, ..., 64 requests in flight, `--rate 5`, `--trace FILE`, or `--sweep`";
            return Err(Failure::new(ErrorCode::Option, "no load is given").hint(hint));
        }
        if self.max_concurrency.is_some() && !self.is_open() && !self.replays() {
            let message = "`--max-concurrency` holds back the requests of an open loop, and `--concurrency` is a closed one";
            return Err(Failure::new(ErrorCode::Option, message).hint("write `--concurrency` alone, or add `--rate`"));
        }
        let (adhoc, wording) = self.checked()?;
        if self.print {
            definitions::print(&adhoc);
            let request = self.request(adhoc, None, None);
            // What cannot be imported is for the run to refuse.
            let duration = read_duration(&request.source).ok();
            duration.iter().flat_map(PlanDuration::lines).for_each(output::diagnostic);
            self.limit.budget(IN_OPTIONS).take_source(&request.source)?;
            return Ok(Exit::Done);
        }
        let request = self.request(adhoc, self.name.clone(), None);
        self.limit.budget(IN_OPTIONS).take_source(&request.source)?;
        request.run().map_err(|failure| self.reword(failure, &wording))
    }

    /// Returns the files of the Source, which can be run, and the words for what goes wrong later.
    fn checked(&self) -> Result<(BTreeMap<String, Vec<u8>>, Wording), Failure> {
        let (adhoc, wording) = (self.definitions()?, self.wording());
        check(&self.pipeline_path(), &adhoc, &wording)?;
        Ok((adhoc, wording))
    }

    /// Searches, and measures what was found.
    fn run_search(mut self: Box<Self>, mut search: Search) -> Result<Exit, Failure> {
        self.check_unused_name()?;
        let cancel = handle_signals()?;
        let (trials, seed, duration) = (self.trials, self.seed.clone(), self.duration.clone());
        let rule = search.rule();
        let mut budget = self.limit.budget(IN_OPTIONS);
        let end = search.run(|loads, seen, number| {
            if duration.is_none() && self.requests.is_none() {
                self.duration = search::round_duration_s(&rule, seen, loads).map(in_seconds);
            }
            self.set_loads(loads, Some(Round { number, seen }));
            let (adhoc, wording) = self.checked()?;
            let request = self.request(adhoc, None, None);
            budget.take_source(&request.source)?;
            let finished = request.drive(false, Detail::Exclusions(search::curve_lines(seen)), &cancel);
            Ok(finished.map_err(|failure| interrupted(self.reword(failure, &wording), SEARCH_AGAIN))?.opened)
        })?;
        search.sign(&end, &self.store.clone().map_or_else(default_store, Ok)?)?;
        let loads = match search.end(end) {
            End::Measure(loads) => loads,
            End::Nothing(why) => return search::nothing_found(&why, &search),
        };
        (self.trials, self.seed, self.duration) = (trials, seed, duration);
        self.set_loads(&loads, None);
        if let Some(why) = self.last_long_enough(&loads, &search) {
            return search::nothing_found(&why, &search);
        }
        let (adhoc, wording) = self.checked()?;
        let request = self.request(adhoc, self.name.clone(), Some(search));
        budget.take_source(&request.source)?;
        let resume = format!(
            "the search is over, and what is measured is kept: to go on, repeat the command with {} instead of `--sweep`, `--find-max` and `--up-to`, and the `--run-id` of this run",
            self.as_options(&loads)
        );
        request.run_until(&cancel).map_err(|failure| interrupted(self.reword(failure, &wording), &resume))
    }

    /// Makes the trials of the loads that a search found last until the slowest of them has enough requests for a number, unless the options state how long
    /// they last. Returns the reason if what they state is too short.
    fn last_long_enough(&mut self, loads: &[Load], search: &Search) -> Option<String> {
        let (slowest, per_s) = search.slowest(loads)?;
        let is_short = |text: &str| parse_duration(text).is_ok_and(|time| search::is_too_short(per_s, time));
        if let Some(stated) = self.duration.as_ref().filter(|stated| is_short(stated)) {
            return Some(search::too_short(slowest, stated, per_s));
        }
        let is_stated = self.duration.is_some() || self.requests.is_some();
        if let Some(needed_s) = search::longer_than_default_s(search::needed_duration_s(per_s)).filter(|_| !is_stated) {
            search.say_longer(slowest, needed_s);
            self.duration = Some(in_seconds(needed_s));
        }
        None
    }

    /// Returns the options that measure these loads as this command does after its search.
    fn as_options(&self, loads: &[Load]) -> String {
        let duration = self.duration.as_ref().map(|duration| format!(" --duration {duration}")).unwrap_or_default();
        format!("`{}{duration}`", search::as_option(loads))
    }

    /// Refuses a name that a run has: a search is over before the run of this name begins.
    fn check_unused_name(&self) -> Result<(), Failure> {
        let Some(name) = &self.name else { return Ok(()) };
        let uri = self.store.clone().map_or_else(default_store, Ok)?;
        // A store that is not there yet has no run, and one that cannot be read is reported by the first round.
        let Ok(store) = Store::open_existing(&uri) else { return Ok(()) };
        if !matches!(store.read(&Layout::for_run(name).source(), AcceptedResult::MAX_BYTES), Ok(Some(_))) {
            return Ok(());
        }
        Err(Failure::new(ErrorCode::OtherSource, format!("`{name}` is a run, and a search measures its result in a new one"))
            .hint(UnusedName::after(name, &store).to_string()))
    }

    fn request(&self, adhoc: BTreeMap<String, Vec<u8>>, name: Option<RunId>, search: Option<Search>) -> RunRequest {
        let source = SourceSpec { pipeline: self.pipeline_path(), adhoc, ..SourceSpec::default() };
        let plan = PlanParameters { fetch: self.file().is_some_and(|(_, file)| is_address(file)), ..PlanParameters::default() };
        RunRequest {
            source,
            store: self.store.clone(),
            name,
            plan,
            json: self.json,
            command: "assay bench",
            search,
            comparison: None,
        }
    }

    /// Says a failure in the words of these options.
    fn reword(&self, failure: Failure, wording: &Wording) -> Failure {
        let has = (self.api_key.is_some(), self.tls.has_certificate());
        let file = FileOptions { is_trace: wording.is_trace, truncates: self.over.as_deref() == Some("truncate") };
        wording.failure(with_options(failure, self.url.as_deref(), has, file))
    }

    /// Returns the words of these options, with the paths of the files that are copied into the Source.
    fn wording(&self) -> Wording {
        let file =
            self.file().filter(|(_, file)| !is_address(file)).map(|(member, path)| (file_name(member, path), path.to_owned()));
        let tokenizer = self.tokenizer().map(|tokenizer| tokenizer.copy());
        let mut given = Vec::new();
        let images = self.image_files.copies().unwrap_or_default().into_iter();
        let images = images.map(|(name, path)| (name, path.display().to_string()));
        for (name, path) in file.into_iter().chain(tokenizer).chain(images) {
            given.extend(WORKLOADS.map(|workload| (format!("workloads/{workload}/{name}"), path.clone())));
            // A name that is a word, or the usual one, means more than this file.
            if name.contains('.') && name != TOKENIZER_FILE {
                given.push((name, path));
            }
        }
        Wording { given, is_trace: self.trace.is_some() }
    }

    /// Makes the files of the Source: JSON, which is YAML.
    fn definitions(&self) -> Result<BTreeMap<String, Vec<u8>>, Failure> {
        let mut files = BTreeMap::new();
        let mut workloads = Vec::new();
        let mut concurrency: Vec<u64> = Vec::new();
        for list in &self.concurrency {
            // A number that is in two ranges is one load; one that is written twice is a mistake, which the check reports.
            let is_range = list.0.len() > 1;
            let added: Vec<u64> = list.0.iter().copied().filter(|number| !is_range || !concurrency.contains(number)).collect();
            concurrency.extend(added);
        }
        let closed = json!({"mode": "closed", "concurrency": concurrency});
        let arrival = self.arrival.as_deref().unwrap_or("poisson");
        let open = json!({"mode": "open", "rate": self.offered_rate()?, "arrival": arrival});
        let users = json!({"mode": "users", "users": self.users, "rate": self.rate});
        let speed = if self.speed.is_empty() { vec![1.0] } else { self.speed.clone() };
        let replay = json!({"mode": "replay", "speed": speed});
        let loads = [
            (closed, !self.concurrency.is_empty()),
            (open, self.is_open()),
            (users, !self.users.is_empty()),
            (replay, self.replays()),
        ];
        for (name, (load, wanted)) in WORKLOADS.into_iter().zip(loads) {
            if !wanted {
                continue;
            }
            workloads.push(name);
            let folder = format!("workloads/{name}");
            if let Some(tokenizer) = self.tokenizer() {
                tokenizer.add_files(&folder, &mut files)?;
            }
            if let Some((member, path)) = self.file().filter(|(_, file)| !is_address(file)) {
                files.insert(format!("{folder}/{}", file_name(member, path)), read_file(member, Path::new(path))?);
            }
            self.image_files.add_files(&folder, &mut files)?;
            files.insert(format!("{folder}/workload.yaml"), definitions::written(&self.workload(name, load)?));
        }
        files.insert(self.pipeline_path(), definitions::written(&self.pipeline(&workloads)?));
        Ok(files)
    }

    /// Returns true if requests arrive by a schedule that is drawn.
    fn is_open(&self) -> bool {
        !self.rate.is_empty() && self.users.is_empty() || self.ramp.is_some() || !self.series.is_empty()
    }

    /// Returns true if the requests of a trace are sent at its times.
    fn replays(&self) -> bool {
        self.trace.is_some() && self.concurrency.is_empty()
    }

    /// Returns the constant rates, or the course of one that changes.
    fn offered_rate(&self) -> Result<Value, Failure> {
        let segments = self.series.iter().map(|text| parse_segment(text)).collect::<Result<Vec<_>, _>>()?;
        Ok(match &self.ramp {
            Some(text) => json!({"ramp": parse_ramp(text)?}),
            None if !segments.is_empty() => json!({"series": segments}),
            None => json!(self.rate),
        })
    }

    fn workload(&self, name: &str, mut load: Value) -> Result<Value, Failure> {
        let (sessions, count) = sessions(&self.sessions)?;
        let is_endless = self.requests.is_none() && self.trace.is_none() && count.is_none();
        let default = || is_endless.then(|| in_seconds(DEFAULT_DURATION.as_secs()));
        let duration = if name == "bench-open" && !self.series.is_empty() { series_duration(&self.series) } else { None };
        let duration = duration.or_else(|| self.duration.clone()).or_else(default);
        set(&mut load, "duration", duration.map(Value::from));
        set(&mut load, "requests", self.requests.map(Value::from));
        set(&mut load, "sessions", count);
        set(&mut load, "max_concurrency", self.max_concurrency.filter(|_| name != "bench").map(Value::from));
        set(&mut load, "smoothness", self.smoothness.filter(|_| name == "bench-open").map(Value::from));
        // A warm-up would use up a number of sessions, as it would use up the first requests of a trace.
        let warmup = if self.trace.is_some() || load.get("sessions").is_some() { "0s" } else { "1s" };
        load["warmup"] = json!(self.warmup.as_deref().unwrap_or(warmup));
        load["timeout"] = json!(self.timeout);
        set(&mut load, "connections", Some(self.connections.as_str()).filter(|policy| *policy != "pooled").map(Value::from));
        set(&mut load, "cancel", self.cancel.as_deref().map(parse_cancel).transpose()?);
        set(&mut load, "over_saturation", self.over_saturation.clone().filter(|_| name == "bench-open"));
        set(&mut load, "stop_on_errors", self.max_errors.map(|count| json!({ "count": count })));
        let time_limit = longer_than_usual(&load);
        let lengths = self.lengths()?;
        let file = self.file().map(|(member, file)| self.file_of(member, file).map(|of| (member, of))).transpose()?;
        let is_simulated = self.simulator.is_some();
        let mut spec = json!({
            "type": "serving",
            "model": self.model.as_deref().unwrap_or("simulated"),
            "precision": self.precision,
            "protocol": "openai_compatible_http",
            "deployment_model": "unknown",
            "batching_policy": "unknown",
            "stack": if is_simulated { "assay-simulator" } else { &self.stack },
            "api": self.api,
            "load": load,
            "exact_output": !self.no_exact_output,
            "streaming": !self.no_streaming && self.api.capabilities().streams,
            "cache": self.cache,
            "slos": pairs("--slo", &self.slo)?,
            "body": pairs("--body", &self.body)?,
        });
        set(&mut spec, "time_limit", time_limit.map(Value::from));
        match file {
            Some((member, file)) => spec[member] = file,
            None => spec["lengths"] = lengths,
        }
        let prefix = distinct("--prefix", self.prefix.iter().map(|pair| parse_prefix(pair)))?;
        set(&mut spec, "custom", self.custom_api.written()?);
        set(&mut spec, "prefix", (!prefix.is_empty()).then_some(Value::Object(prefix)));
        set(&mut spec, "text", self.length_tables.text());
        set(&mut spec, "token_ids", self.length_tables.token_ids()?);
        set(&mut spec, "images", self.length_tables.images()?);
        set(&mut spec, "image_files", self.image_files.written()?);
        set(&mut spec, "sessions", sessions);
        let adapters = self.adapters.iter().map(|text| parse_adapter(text)).collect::<Result<Vec<_>, _>>()?;
        set(&mut spec, "adapters", (!adapters.is_empty()).then_some(Value::Array(adapters)));
        set(&mut spec, "scenario", self.agentx.then(|| json!("agentx")));
        set(&mut spec, "batch", Some(self.documents).filter(|documents| *documents != 1).map(Value::from));
        set(&mut spec, "extra_body", self.extra_body.clone().map(Value::from));
        set(&mut spec, "seed", self.seed.as_deref().map(|seed| json!(seed_digits(seed))));
        set(&mut spec, "tokenizer", self.tokenizer().map(|tokenizer| tokenizer.written()));
        Ok(json!({"apiVersion": "assay.dev/v1alpha1", "kind": "Workload", "metadata": {"name": name}, "spec": spec}))
    }

    fn tokenizer(&self) -> Option<TokenizerOptions<'_>> {
        let path = self.tokenizer.as_deref()?;
        Some(TokenizerOptions { path, pattern: self.tokenizer_pattern.as_deref(), template: self.template.as_deref() })
    }

    /// Returns the dataset or trace with the member of `spec` that names it.
    fn file(&self) -> Option<(&'static str, &str)> {
        let dataset = self.dataset.as_deref().map(|file| ("dataset", file));
        dataset.or_else(|| self.trace.as_deref().map(|file| ("trace", file)))
    }

    /// Returns the dataset or trace of the workload.
    fn file_of(&self, member: &str, file: &str) -> Result<Value, Failure> {
        let mut value = if is_address(file) { json!({"url": file}) } else { json!({"path": file_name(member, file)}) };
        let format = self.dataset_format.clone().or_else(|| self.trace_format.clone());
        set(&mut value, "format", format.map(Value::from).or_else(|| format_by_first_bytes(file)));
        let fields = pairs("--field", &self.field)?;
        set(&mut value, "fields", (!fields.is_empty()).then_some(Value::Object(fields)));
        set(&mut value, "window", self.window.as_deref().map(window).transpose()?);
        set(&mut value, "sample", self.sample.map(Value::from));
        set(&mut value, "max_gap", self.max_gap.clone().map(Value::from));
        set(&mut value, "max_tool_time", self.max_tool_time.clone().map(Value::from));
        set(&mut value, "max_input", self.max_input.map(Value::from));
        set(&mut value, "max_output", self.max_output.map(Value::from));
        set(&mut value, "over", self.over.clone().map(Value::from));
        let drawn = self.length_tables.output()?;
        set(&mut value, "output", drawn.or_else(|| self.output_tokens.map(|tokens| json!({"fixed": tokens}))));
        Ok(value)
    }

    /// Returns the lengths of synthetic prompts.
    fn lengths(&self) -> Result<Value, Failure> {
        if let Some(scenario) = &self.scenario {
            return Ok(json!(scenario));
        }
        let tables = self.length_tables.lengths(self.input_tokens, self.output_tokens.unwrap_or(OUTPUT_TOKENS))?;
        Ok(tables.unwrap_or_else(|| self.default_lengths()))
    }

    /// Returns fixed lengths for the inputs that the API takes.
    fn default_lengths(&self) -> Value {
        match self.api.capabilities().input {
            InputKind::Prompt => {
                json!({"input": {"fixed": self.input_tokens}, "output": {"fixed": self.output_tokens.unwrap_or(OUTPUT_TOKENS)}})
            }
            InputKind::Documents => json!(format!("E({})", self.input_tokens)),
            InputKind::QueryAndDocuments => json!(format!("R({},{QUERY_TOKENS})", self.input_tokens)),
        }
    }

    /// Returns the headers of each request. No value of a secret gets into them: only its location.
    fn headers(&self) -> Result<Map<String, Value>, Failure> {
        let mut headers = Map::new();
        for text in &self.header {
            let (name, source) = parse_header(text)?;
            if let Some(variable) = source.get("from_env").and_then(Value::as_str) {
                self.check_variable(&format!("--header {name}=..."), variable)?;
            }
            if headers.insert(name.clone(), source).is_some() {
                return Err(Failure::new(ErrorCode::Option, format!("`--header` gives `{name}` twice")));
            }
        }
        if let Some(place) = &self.api_key {
            let name = self.api.rules().key_header;
            if headers.keys().any(|set| set.eq_ignore_ascii_case(name)) {
                return Err(Failure::new(ErrorCode::Option, format!("`--api-key` and `--header` both give the header `{name}`"))
                    .hint("leave one of them out"));
            }
            headers.insert(name.to_owned(), self.api_key_source(place)?);
        }
        Ok(headers)
    }

    /// Returns the source of the API key: a file if the text is a path, else a variable.
    fn api_key_source(&self, place: &str) -> Result<Value, Failure> {
        if looks_secret("", place) {
            return Err(literal_secret("--api-key"));
        }
        if !place.contains('/') {
            self.check_variable("--api-key", place)?;
            return Ok(self.key_source("from_env", json!(place)));
        }
        // Each stage has a folder of its own, so the path has to be absolute.
        let path = std::path::absolute(place)
            .map_err(|error| Failure::new(ErrorCode::Option, format!("`--api-key` names no file: `{place}`")).because(&error))?;
        if !self.print && !path.is_file() {
            return Err(Failure::new(ErrorCode::Option, format!("`--api-key` names no file: `{place}`"))
                .hint("it names a file, or the environment variable that holds the key"));
        }
        Ok(self.key_source("from_file", json!(path)))
    }

    /// Returns the source of a key, with the scheme that the API puts before it.
    fn key_source(&self, kind: &str, place: Value) -> Value {
        let scheme = self.api.rules().key_scheme.map(|scheme| ("scheme".to_owned(), json!(scheme)));
        Value::Object([(kind.to_owned(), place)].into_iter().chain(scheme).collect())
    }

    /// Fails if the variable is not set. Its name is not shown, because it may be a secret that was written in the wrong place.
    fn check_variable(&self, option: &str, variable: &str) -> Result<(), Failure> {
        let is_name = variable.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            && !variable.starts_with(|first: char| first.is_ascii_digit());
        if is_name && (self.print || std::env::var_os(variable).is_some()) {
            return Ok(());
        }
        let which =
            if variable == KEY_VARIABLE { format!("`{KEY_VARIABLE}`, which") } else { "an environment variable that".to_owned() };
        Err(Failure::new(ErrorCode::Option, format!("`{option}` names {which} is not set"))
            .hint("set a variable to the secret and give its name; a secret itself never belongs on a command line, which others can read"))
    }

    /// Returns the name of the pipeline.
    fn pipeline_name(&self) -> &'static str {
        let [bench, search] = PIPELINES;
        if self.is_search_round { search } else { bench }
    }

    /// Returns the path of the pipeline in the Source.
    fn pipeline_path(&self) -> String {
        format!("pipelines/{}.yaml", self.pipeline_name())
    }

    fn pipeline(&self, workloads: &[&str]) -> Result<Value, Failure> {
        let headers = self.headers()?;
        let mut target = match (&self.simulator, &self.url) {
            (Some(profile), _) => json!({"name": "simulator", "kind": "simulator", "config": {"profile": profile}}),
            (None, url) => json!({"name": "endpoint", "kind": "endpoint", "url": url, "ready": {"timeout": READY_TIMEOUT}}),
        };
        if let Some(url) = &self.url {
            self.tls.add_to(&mut target, url, self.print)?;
        }
        if let Some(gpus) = self.gpus {
            target["hardware"] = json!({"gpu_count": gpus.to_string()});
        }
        if !headers.is_empty() {
            target["headers"] = Value::Object(headers);
        }
        Ok(json!({
            "apiVersion": "assay.dev/v1alpha1",
            "kind": "Pipeline",
            "metadata": {"name": self.pipeline_name()},
            "spec": {
                "intent": "exploratory",
                "workloads": workloads,
                "targets": [target],
                "trials": {"count": self.trials},
                "shards": self.shards.map_or(json!("auto"), |count| json!(count)),
            },
        }))
    }
}

/// The remedy after a search was interrupted.
const SEARCH_AGAIN: &str = "a repeated command searches anew; the finished rounds stay in the store, as runs of their own";

/// Returns a failure with another hint if it is that of an interruption.
fn interrupted(failure: Failure, hint: &str) -> Failure {
    if failure.exit == Exit::Cancelled { failure.hint(hint) } else { failure }
}

/// The environment variable of an API key that clients of OpenAI's API read.
const KEY_VARIABLE: &str = "OPENAI_API_KEY";

/// One value of `--concurrency`: a number, or several from a range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Doublings(Vec<u64>);

/// Parses a number, or a range as its first number, the doublings of it, and its last number.
fn parse_doublings(text: &str) -> Result<Doublings, String> {
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    let Some((first, last)) = text.split_once("..") else { return Ok(Doublings(vec![number(text)?])) };
    let (first, last) = (number(first)?, number(last)?);
    if first == 0 || first > last {
        return Err("a range is `FIRST..LAST`, from 1 and upwards".to_owned());
    }
    let doublings = std::iter::successors(Some(first), |number| number.checked_mul(2)).take_while(|number| *number < last);
    Ok(Doublings(doublings.chain([last]).collect()))
}

/// Parses a rate. There are many between two, so a range of them has to be written in another way.
fn parse_rate(text: &str) -> Result<f64, String> {
    if text.contains("..") {
        return Err(format!(
            "a rate is one number: list several, such as `100,200,400`, or let it change over a trial with `--ramp {text}`"
        ));
    }
    let rate = text.parse::<f64>().map_err(|error| error.to_string())?;
    if rate.is_finite() { Ok(rate) } else { Err("a rate is a number of requests per second, such as `5` or `0.5`".to_owned()) }
}

/// Parses the share of requests that are cancelled, and the time after which they are.
fn parse_cancel(text: &str) -> Result<Value, Failure> {
    let parts = text.split_once(':').and_then(|(share, after)| Some((share.parse::<f64>().ok()?, after)));
    let (share, after) = parts.ok_or_else(|| {
        Failure::new(ErrorCode::Option, format!("`--cancel {text}` is not of the form SHARE:TIME"))
            .hint("such as `--cancel 0.1:500ms`: one request in ten, half a second after it was sent")
    })?;
    Ok(json!({"share": share, "after": after}))
}

/// Parses `NAME=WEIGHT`, or a name alone. Lists are split by commas elsewhere, so that no name with one is meant.
fn parse_adapter(text: &str) -> Result<Value, Failure> {
    if text.contains(',') {
        let each: Vec<String> = text.split(',').map(|one| format!("--adapter {}", one.trim())).collect();
        return Err(Failure::new(ErrorCode::Option, format!("`--adapter {text}` names one adapter, and no name has a comma"))
            .hint(format!("write one option for each: `{}`", each.join(" "))));
    }
    let Some((name, weight)) = text.rsplit_once('=') else { return Ok(json!({"name": text})) };
    match weight.parse::<f64>() {
        Ok(weight) if weight.is_finite() => Ok(json!({"name": name, "weight": weight})),
        _ => Err(Failure::new(ErrorCode::Option, format!("`--adapter {text}` is not of the form NAME or NAME=WEIGHT"))
            .hint("such as `--adapter sql=3 --adapter chat=1`: three of four requests name `sql` as their model")),
    }
}

/// Parses `NAME=NUMBER`.
fn parse_prefix(text: &str) -> Result<(String, Value), Failure> {
    let parsed = text
        .split_once('=')
        .and_then(|(name, number)| Some((name.to_owned(), number.parse::<serde_json::Number>().ok()?.into())));
    parsed.ok_or_else(|| {
        Failure::new(ErrorCode::Option, format!("`--prefix {text}` is not of the form NAME=NUMBER"))
            .hint("such as `--prefix system=1000,group=200,groups=64,zipf=1`")
    })
}

/// Parses `[SHAPE:]FROM..TO`.
fn parse_ramp(text: &str) -> Result<Value, Failure> {
    let malformed = || {
        Failure::new(
            ErrorCode::Option,
            format!("`--ramp {text}` is not of the form FROM..TO, exponential:FROM..TO or steps=N:FROM..TO"),
        )
        .hint("such as `--ramp 1..50`, in requests per second")
    };
    let (shape, range) = text.split_once(':').unwrap_or(("linear", text));
    let (from, to) = range.split_once("..").ok_or_else(malformed)?;
    let number = |text: &str| text.parse::<serde_json::Number>().map_err(|_| malformed());
    let mut ramp = json!({"shape": shape, "from": number(from)?, "to": number(to)?});
    if let Some(("steps", steps)) = shape.split_once('=') {
        ramp["shape"] = json!("steps");
        ramp["steps"] = json!(number(steps)?);
    }
    Ok(ramp)
}

/// Parses `TIME:PER_S`.
fn parse_segment(text: &str) -> Result<Value, Failure> {
    let parsed = text
        .split_once(':')
        .and_then(|(time, rate)| Some(json!({"duration": time, "rate": rate.parse::<serde_json::Number>().ok()?})));
    parsed.ok_or_else(|| {
        Failure::new(ErrorCode::Option, format!("`--series {text}` is not of the form TIME:PER_S"))
            .hint("such as `--series 10s:5,20s:50`, in requests per second")
    })
}

/// Returns the time that the segments of a series take together; `None` if one of them is no duration, which is reported of the
/// segment itself.
fn series_duration(segments: &[String]) -> Option<String> {
    let times = segments.iter().map(|segment| parse_duration(segment.split(':').next().unwrap_or_default()).ok());
    times.sum::<Option<Duration>>().map(write_duration)
}

/// Returns the time limit of a trial that may take longer than the default: its warm-up, its duration and the timeout of its last requests, and a minute.
fn longer_than_usual(load: &Value) -> Option<String> {
    let time = |name: &str| load[name].as_str().and_then(|text| parse_duration(text).ok()).unwrap_or_default();
    let needed =
        [time("warmup"), time("duration"), time("timeout")].into_iter().fold(Duration::from_mins(1), Duration::saturating_add);
    (needed > DEFAULT_TIME_LIMIT).then(|| write_duration(needed))
}

/// Returns the sessions of `--sessions`, and the number of them that ends a trial.
fn sessions(pairs: &[String]) -> Result<(Option<Value>, Option<Value>), Failure> {
    let mut sessions = Map::new();
    let mut count = None;
    for pair in pairs {
        let (name, text) = pair.split_once('=').ok_or_else(|| {
            Failure::new(ErrorCode::Option, format!("`--sessions {pair}` is not of the form NAME=VALUE"))
                .hint("such as `--sessions turns=2..8,think_time=2s,history=live`")
        })?;
        let value = match (name, text.split_once("..")) {
            ("turns" | "think_time", Some((min, max))) => json!({"uniform": {"min": plain(min), "max": plain(max)}}),
            ("start", Some((from, to))) => json!({"from": number(from), "to": number(to)}),
            ("recycle" | "warm_history" | "marker", None) => text.parse::<bool>().map_or_else(|_| json!(text), Value::from),
            ("think_time", None) => match text.split_once(':') {
                Some((law, mean)) => json!({law: {"mean": mean}}),
                None => json!(text),
            },
            _ => plain(text),
        };
        let twice = if name == "count" { count.replace(value) } else { sessions.insert(name.to_owned(), value) };
        if twice.is_some() {
            return Err(Failure::new(ErrorCode::Option, format!("`--sessions` gives `{name}` twice")));
        }
    }
    Ok(((!pairs.is_empty()).then_some(Value::Object(sessions)), count))
}

/// Returns a number with a fraction as a number, and anything else as a text.
fn number(text: &str) -> Value {
    text.parse::<serde_json::Number>().map_or_else(|_| json!(text), Value::from)
}

/// Returns a number as a number, and anything else as a text.
fn plain(text: &str) -> Value {
    text.parse::<u64>().map_or_else(|_| json!(text), Value::from)
}

/// Returns the window of a trace from `FROM..TO`; either may be left out.
fn window(text: &str) -> Result<Value, Failure> {
    let (from, to) = text.split_once("..").ok_or_else(|| {
        Failure::new(ErrorCode::Option, format!("`--window {text}` is not of the form FROM..TO"))
            .hint("times since the first request, such as `10m..20m`, `..30s` or `1h..`")
    })?;
    let mut window = Map::new();
    for (name, time) in [("from", from), ("to", to)] {
        if !time.is_empty() {
            window.insert(name.to_owned(), json!(time));
        }
    }
    Ok(Value::Object(window))
}

/// Returns true if a dataset or trace is named by its address.
fn is_address(file: &str) -> bool {
    file.contains("://")
}

/// Returns the name of the file of a dataset or trace in the Source: its ending tells the format.
fn file_name(member: &str, path: &str) -> String {
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_plain = !ending.is_empty() && ending.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_plain { format!("{member}.{}", ending.to_ascii_lowercase()) } else { member.to_owned() }
}

/// Returns the format of a file of this machine, if its first bytes tell it.
fn format_by_first_bytes(path: &str) -> Option<Value> {
    if is_address(path) {
        return None;
    }
    let mut first = [0; 4];
    File::open(path).and_then(|mut file| file.read_exact(&mut first)).ok()?;
    DatasetFormat::by_first_bytes(&first).map(|format| json!(format))
}

/// Reads the file of a dataset or trace, within the limit of files of a Source.
fn read_file(member: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let serve = "serve it by HTTP on this machine or by HTTPS, and name the address";
    let too_large = format!("{serve}: `--{member} http://127.0.0.1:8080/FILE`");
    read_source_file(path, &format!("`--{member}` takes a file, or its address"), &too_large)
}

/// Reads a file that becomes a part of the Source. Devices and pipes are refused: they may have no end.
fn read_source_file(path: &Path, unreadable: &str, too_large: &str) -> Result<Vec<u8>, Failure> {
    let most = assay_spec::MAX_FILE_BYTES;
    let bytes = read_regular_file(path, most as u64).map_err(|error| {
        Failure::new(ErrorCode::Unreadable, format!("cannot read `{}`", path.display())).because(&error).hint(unreadable)
    })?;
    if bytes.len() > most {
        let message = format!("`{}` has more than {most} bytes, the limit of a file", path.display());
        return Err(Failure::new(ErrorCode::Unreadable, message).hint(too_large));
    }
    Ok(bytes)
}

/// Returns a seed that is a number as the 64 hexadecimal digits of the number, and any other text as it is.
fn seed_digits(text: &str) -> String {
    match text.parse::<u64>() {
        Ok(number) if text.len() < 64 => format!("{number:064x}"),
        _ => text.to_owned(),
    }
}

/// Parses `NAME=VARIABLE`, or `NAME: VALUE` if the value is no secret. Secrets are not shown.
fn parse_header(text: &str) -> Result<(String, Value), Failure> {
    let malformed = || {
        let shown = if text.contains([':', ' ']) || looks_secret("", text) { "..." } else { text };
        Failure::new(ErrorCode::Option, format!("`--header {shown}` is not of the form NAME=VARIABLE or `NAME: VALUE`"))
            .hint("`assay bench --help` says what each option takes")
    };
    let at = text.find([':', '=']).filter(|at| *at > 0).ok_or_else(malformed)?;
    let (name, rest) = text.split_at(at);
    let (is_plain, value) = (rest.starts_with(':'), rest.get(1..).unwrap_or_default().trim());
    if is_plain && looks_secret_header(name, value) || looks_secret("", value) || looks_secret_header("", value) {
        return Err(literal_secret(&format!("--header {name}")));
    }
    Ok((name.to_owned(), if is_plain { json!({"value": value}) } else { json!({"from_env": value}) }))
}

/// Returns the failure of a secret on the command line, which is not shown.
fn literal_secret(option: &str) -> Failure {
    Failure::new(ErrorCode::Option, format!("`{option}` holds a secret, which every user of this machine can read in the list of processes")).hint(
        "put it into an environment variable, and name the variable: `--api-key VARIABLE`, or `--header NAME=VARIABLE`; make a new \
         key if others have access to this machine or its shell history",
    )
}

/// Checks that the options make definitions that can be run. A problem names the option, because the user did not write the
/// files.
fn check(pipeline: &str, files: &BTreeMap<String, Vec<u8>>, wording: &Wording) -> Result<(), Failure> {
    let problems = match read_closure::<Infallible>(pipeline, &mut |path| Ok(files.get(path).cloned())) {
        Ok(found) => expand(&found.pipeline, &found.workloads).err().unwrap_or_default(),
        Err(ClosureError::Problems(problems)) => problems,
        Err(ClosureError::Read { cause, .. }) => match cause {},
    };
    let mut told: Vec<(String, Option<String>)> = Vec::new();
    for problem in &problems {
        let problem = (wording.message(&problem.message), remedy(problem, wording));
        // The workloads of the closed and of the open loop have most problems in common.
        if !told.contains(&problem) {
            told.push(problem);
        }
    }
    Err(match told.as_slice() {
        [] => return Ok(()),
        [(message, remedy)] => {
            let failure = Failure::new(ErrorCode::Option, message.clone());
            remedy.iter().fold(failure, |failure, remedy| failure.hint(remedy.clone()))
        }
        several => {
            let mut failure = Failure::new(ErrorCode::Option, format!("{} problems with the options", several.len()));
            let cause = |(message, remedy): &(String, Option<String>)| match remedy {
                Some(remedy) => format!("{message}; {remedy}"),
                None => message.clone(),
            };
            failure.causes = several.iter().map(cause).collect();
            failure
        }
    })
}

/// Returns the remedy of a problem, in options; `None` if the message alone tells it.
fn remedy(problem: &Problem, wording: &Wording) -> Option<String> {
    Some(match problem.hint.as_deref() {
        Some(STATED_MEMBER) => {
            "set it with its own option: `--model`, `--input-tokens`, `--output-tokens`, `--scenario`, `--no-exact-output` or \
             `--no-streaming`"
                .to_owned()
        }
        Some(NO_CREDENTIALS) => {
            "remove it; `--header NAME=VARIABLE` sends the credentials that an environment variable holds".to_owned()
        }
        // The number of sessions is a part of the load, and a part of the same option.
        Some(hint) if problem.message.starts_with("`spec.sessions` has no field") && hint.starts_with("it takes ") => {
            format!("{}, `--sessions count=`", wording.hint(hint))
        }
        Some(hint) => wording.hint(hint),
        None => return limits(&problem.message).map(|limits| format!("write a value that is {limits}")),
    })
}

/// Returns the limits that a message states, such as `from 1 to 1000`.
fn limits(message: &str) -> Option<&str> {
    let (_, limits) = message.split_once(" must be ")?;
    limits.split(", not ").next()
}

/// The options of a dataset or trace that decide what mends it.
#[derive(Clone, Copy, Default)]
struct FileOptions {
    is_trace: bool,
    /// True if longer prompts are cut already.
    truncates: bool,
}

/// Names the options in a failure of the endpoint: the user wrote no pipeline in which to raise a timeout or name a key.
fn with_options(failure: Failure, url: Option<&str>, (has_key, has_certificate): (bool, bool), file: FileOptions) -> Failure {
    match url {
        _ if failure.code == ErrorCode::Dataset => {
            let hint = dataset_hint(&failure.to_string(), file);
            // A second line is about the name of the run.
            let renamed = failure.hint.as_deref().and_then(|found| found.split_once('\n')).map(|(_, renamed)| renamed.to_owned());
            failure.hint([Some(hint), renamed].into_iter().flatten().collect::<Vec<_>>().join("\n"))
        }
        Some(_) if failure.code == ErrorCode::EndpointUnauthorized && failure.message.contains("TLS connection") => failure.hint(if has_certificate {
            "has an authority that the endpoint trusts signed the certificate of `--cert` for clients, and does its text hold the certificates \
             between the two?"
        } else {
            "`--cert` names the client certificate, and `--key` its private key"
        }),
        Some(_) if failure.code == ErrorCode::EndpointUnauthorized => {
            let key = match (has_key, std::env::var_os(KEY_VARIABLE).is_some()) {
                (true, _) => "is the key that `--api-key` names valid for this endpoint and model?",
                (false, true) => "`--api-key` sends the key in `OPENAI_API_KEY`",
                (false, false) => "set `OPENAI_API_KEY` and add `--api-key`, or name another variable or a file with `--api-key`",
            };
            failure.hint(format!("{key}; `--header NAME=VARIABLE` sends any other credential"))
        }
        Some(_) if failure.code == ErrorCode::EndpointRejects && failure.hint.as_ref().is_some_and(|hint| hint.contains("--no-exact-output")) => {
            failure.hint("the endpoint does not know `ignore_eos` or `min_tokens`: `--no-exact-output` leaves them out")
        }
        Some(url) if failure.code == ErrorCode::EndpointProtocol && url.starts_with("https:") && failure.message.contains("over TLS") => {
            failure.hint(
                "`--cacert` names certificate authorities to trust; `--insecure` accepts any certificate; a server without TLS \
                 needs `http` in `--url`",
            )
        }
        Some(_) if failure.code == ErrorCode::EndpointPath => failure.hint(
            "does `--url` need a path prefix, such as `/openai/v1`, or `--model` another name? `--api` selects another API, and `--api-path` gives the path of `--api custom`",
        ),
        Some(_) if failure.code == ErrorCode::ModelNotServed => failure.hint(
            "name one of the listed models with `--model` (an adapter with `--adapter`), or start the endpoint with that name (vLLM: \
             `--served-model-name`, `--lora-modules`)",
        ),
        Some(_) if failure.code == ErrorCode::EndpointRedirects => {
            failure.hint("if that address is the endpoint's, name it with `--url`; redirects are not followed, because headers may hold secrets")
        }
        Some(url) if failure.code == ErrorCode::TargetNotReady => failure.hint(format!(
            "is a server up at `{url}`, as `--url` says? Assay tried to connect to it for {READY_TIMEOUT}: start it, or mend the address"
        )),
        _ => failure,
    }
}

/// Returns the options that mend a dataset or trace which cannot be used, by the text of its failure.
fn dataset_hint(text: &str, FileOptions { is_trace, truncates }: FileOptions) -> String {
    if let Some(remedies) = remedies_of_empty(text, truncates) {
        return remedies;
    }
    let hint = if text.contains("cannot be cut to") {
        "a larger `--max-input` lets the prompt pass, and `--over skip` leaves it out: only a last message is cut, and it is too short for that"
    } else if text.contains("`max_input`") {
        "`--max-input` sets this limit; `--over skip` leaves longer prompts out, and `--over truncate` cuts them"
    } else if text.contains("is played with `sessions`") || text.contains("add `sessions: {}`") {
        "`--sessions history=recorded` plays the turns of its sessions"
    } else if is_trace && (text.contains("take a part of") || text.contains("use a part of")) {
        "`--sample SHARE`, such as `--sample 0.1`, takes a part of it"
    } else if is_trace {
        "correct the file, or name its format with `--trace-format`"
    } else {
        "correct the row; `--field prompt=NAME` reads another member or column, and `--dataset-format` another format"
    };
    hint.to_owned()
}

/// Returns the options that let the rows in of which none is left, by the reasons that a failure counts; `None` if it counts none that an option
/// decides.
fn remedies_of_empty(text: &str, truncates: bool) -> Option<String> {
    let has = |reason: &str| {
        let number = text.split_once(reason)?.0.rsplit(' ').next()?.parse::<u64>().ok()?;
        (number > 0).then_some(())
    };
    let longer = match (truncates, text.contains("no request to replay")) {
        (true, _) => "a larger `--max-input` lets longer prompts pass",
        (false, true) => {
            "a larger `--max-input` lets longer prompts pass, and `--over truncate` cuts them, or ends a session before its first longer turn"
        }
        (false, false) => "a larger `--max-input` lets longer prompts pass, and `--over truncate` cuts them",
    };
    let reasons = [
        (" are too long", longer),
        (" lie outside of the window", "another `--window` takes other requests"),
        (" are not in the sample", "a larger `--sample` takes more"),
    ];
    let remedies: Vec<&str> = reasons.into_iter().filter_map(|(reason, remedy)| has(reason).map(|()| remedy)).collect();
    (!remedies.is_empty()).then(|| remedies.join("; "))
}

fn set(object: &mut Value, name: &str, value: Option<Value>) {
    if let Some(value) = value {
        object[name] = value;
    }
}

/// Returns the help of `--slo`, which names the metrics.
fn slo_help() -> String {
    let names: Vec<&str> = SloMetric::ALL.iter().map(|slo| slo.as_str()).collect();
    let (first, last) = (names.first().copied().unwrap_or_default(), names.last().copied().unwrap_or_default());
    let between = names.get(1..names.len().saturating_sub(1)).unwrap_or_default().join(", ");
    format!("An SLO of each request, such as {first}=200ms; also for {between} and {last}")
}

fn pairs(option: &str, texts: &[String]) -> Result<Map<String, Value>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), json!(value))),
        _ => {
            // What was put into the wrong option may be a secret.
            let shown = if looks_secret("", text) { "..." } else { text };
            Err(Failure::new(ErrorCode::Option, format!("`{option} {shown}` is not of the form NAME=VALUE"))
                .hint("`assay bench --help` says what each option takes"))
        }
    };
    distinct(option, texts.iter().map(pair))
}

/// Returns the members that an option gives, each of which it may give once: the last one would silently win.
pub(crate) fn distinct(
    option: &str,
    pairs: impl Iterator<Item = Result<(String, Value), Failure>>,
) -> Result<Map<String, Value>, Failure> {
    let mut members = Map::new();
    for pair in pairs {
        let (name, value) = pair?;
        if members.contains_key(&name) {
            let message = format!("`{option}` gives `{name}` twice");
            return Err(Failure::new(ErrorCode::Option, message).hint("leave one of them out"));
        }
        members.insert(name, value);
    }
    Ok(members)
}

/// Returns the parser of `--api`, which offers the names of all APIs.
fn api_parser() -> impl TypedValueParser<Value = ServingApi> {
    PossibleValuesParser::new(ServingApi::ALL.iter().map(|api| api.as_str())).try_map(|name| name.parse::<ServingApi>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_that_is_not_there_is_named_by_its_option() {
        let failed = |code| Failure::new(code, "refused").hint("`ready.timeout`");
        let hint = |failure: Failure| failure.hint.unwrap_or_default();
        let asked =
            hint(with_options(failed(ErrorCode::TargetNotReady), Some("http://h:1"), (false, false), FileOptions::default()));
        assert!(
            asked.starts_with("is a server up at `http://h:1`, as `--url` says?") && !asked.contains("ready.timeout"),
            "{asked}"
        );
        assert_eq!(
            hint(with_options(failed(ErrorCode::TargetNotReady), None, (false, false), FileOptions::default())),
            "`ready.timeout`",
            "the simulator has no address"
        );
        assert!(
            hint(with_options(failed(ErrorCode::ModelNotServed), Some("http://h:1"), (false, false), FileOptions::default()))
                .contains("`--model`")
        );
        let of_file = |text: &str, is_trace| {
            let file = FileOptions { is_trace, truncates: false };
            hint(with_options(Failure::new(ErrorCode::Dataset, text), None, (false, false), file))
        };
        let dataset = |text: &str| of_file(text, false);
        let trace = |text: &str| of_file(text, true);
        assert_eq!(
            trace("row 2 is earlier than the row before it"),
            "correct the file, or name its format with `--trace-format`",
            "a window that not every format can have is no remedy of it"
        );
        let empty = "the trace has no request to replay: of 2 rows, 0 have no prompt and 2 are too long, 0 lie outside of the window and 0 are not in the sample";
        let longer = "a larger `--max-input` lets longer prompts pass, and `--over truncate` cuts them";
        assert_eq!(trace(empty), format!("{longer}, or ends a session before its first longer turn"));
        assert_eq!(dataset("the dataset has no prompt: of 2 rows, 0 have no prompt and 2 are too long"), longer);
        let outside = empty.replace("2 are too long, 0 lie", "0 are too long, 2 lie").replace("0 are not in", "1 are not in");
        assert_eq!(trace(&outside), "another `--window` takes other requests; a larger `--sample` takes more");
        let turn = "row 1 has a `delay`: it is a turn of a session, which has a `session_id` and is played with `sessions`";
        assert_eq!(trace(turn), "`--sessions history=recorded` plays the turns of its sessions");
        assert!(trace("the prompts have more than 9 MiB: take a part of them, by `sample`").starts_with("`--sample SHARE`"));
        assert!(dataset("the prompt of row 3 has 9 tokens, more than `max_input`, which is 8").contains("`--over skip`"));
        let cut =
            dataset("row 3 has a prompt of 9 tokens, and its last message alone cannot be cut to the 5 tokens of `max_input`");
        assert!(cut.contains("`--over skip`") && !cut.contains("truncate"), "it is given already: {cut}");
        assert!(!dataset("row 3 has a prompt of 9 tokens that cannot be cut to 5").contains("truncate"));
        assert!(dataset("row 3 has no `prompt`").contains("`--field prompt=NAME`"));
        assert_eq!(
            hint(with_options(failed(ErrorCode::Drift), Some("http://h:1"), (false, false), FileOptions::default())),
            "`ready.timeout`",
            "it was there"
        );
    }

    #[test]
    fn a_range_of_concurrencies_doubles() {
        let list = |text| parse_doublings(text).map(|list| list.0);
        assert_eq!(list("8"), Ok(vec![8]));
        assert_eq!(list("1..64"), Ok(vec![1, 2, 4, 8, 16, 32, 64]));
        assert_eq!(list("3..20"), Ok(vec![3, 6, 12, 20]));
        assert_eq!(list("5..5"), Ok(vec![5]));
        for wrong in ["0..4", "4..1", "1..", "..4", "1..x"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
        assert_eq!(list(&format!("1..{}", u64::MAX)).map(|list| list.len()), Ok(65));
    }

    #[test]
    fn a_rate_is_a_finite_number() {
        assert_eq!((parse_rate("5"), parse_rate("0.5")), (Ok(5.0), Ok(0.5)));
        for text in ["nan", "inf", "-inf", "1e999", "fast"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
        assert!(parse_rate("nan").expect_err("no rate").contains("requests per second"));
    }

    #[test]
    fn a_trial_has_the_time_that_its_load_asks_for() {
        let limit = |duration: &str| longer_than_usual(&json!({"warmup": "1s", "duration": duration, "timeout": "5m"}));
        assert_eq!((limit("10s"), limit("23m")), (None, None));
        assert_eq!((limit("30m"), limit("2h")), (Some("36m1s".to_owned()), Some("2h6m1s".to_owned())));
        assert_eq!(longer_than_usual(&json!({"requests": 5})), None);
    }

    #[test]
    fn a_changing_rate_is_a_ramp_or_a_series() {
        let ramp = |text| parse_ramp(text).map_err(|failure| failure.to_string());
        assert_eq!(ramp("1..50"), Ok(json!({"shape": "linear", "from": 1, "to": 50})));
        assert_eq!(ramp("exponential:0.5..2"), Ok(json!({"shape": "exponential", "from": 0.5, "to": 2})));
        assert_eq!(ramp("steps=5:50..1"), Ok(json!({"shape": "steps", "steps": 5, "from": 50, "to": 1})));
        for wrong in ["50", "1..", "x..2", "steps=x:1..2", ""] {
            assert!(ramp(wrong).expect_err(wrong).contains("is not of the form FROM..TO"), "{wrong}");
        }
        let segment = |text| parse_segment(text).map_err(|failure| failure.to_string());
        assert_eq!(segment("10s:2.5"), Ok(json!({"duration": "10s", "rate": 2.5})));
        assert!(segment("10s").expect_err("no rate").contains("TIME:PER_S") && segment("10s:x").is_err());
        let total = |list: &[&str]| series_duration(&list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        assert_eq!(total(&["500ms:1", "1m:2"]), Some("1m500ms".to_owned()));
        assert_eq!(total(&["500ms:1", "soon:2"]), None);
    }

    #[test]
    fn a_small_seed_is_a_number() {
        assert_eq!(seed_digits("42"), format!("{:0>64}", "2a"));
        assert_eq!(seed_digits(&"1".repeat(64)), "1".repeat(64));
        assert_eq!(seed_digits("some"), "some");
    }

    #[test]
    fn a_header_on_the_command_line_is_a_reference_or_no_secret() {
        let parsed = |text| parse_header(text).map_err(|failure| failure.to_string());
        assert_eq!(parsed("authorization=TOKEN"), Ok(("authorization".to_owned(), json!({"from_env": "TOKEN"}))));
        assert_eq!(parsed("X-Org: a=b: c"), Ok(("X-Org".to_owned(), json!({"value": "a=b: c"}))));
        for secret in [
            "Authorization: hunter22",
            "X-Api-Key:hunter22",
            "x-org: Bearer hunter22",
            "x=sk-hunter22",
            "Cookie: a=hunter22",
            "a: hf_hunter22",
        ] {
            let said = parsed(secret).expect_err(secret);
            assert!(
                said.contains("holds a secret") && said.contains("--api-key VARIABLE") && !said.contains("hunter22"),
                "{said}"
            );
        }
        for wrong in [":x", "=x", "sk-hunter22", "Bearer hunter22"] {
            let said = parsed(wrong).expect_err(wrong);
            assert!(said.contains("is not of the form") && !said.contains("hunter22"), "{said}");
        }
    }
}
