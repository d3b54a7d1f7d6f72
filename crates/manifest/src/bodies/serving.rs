//! Serving: what is asked of an endpoint, what one shard did with it, and what is kept for pictures.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::words;
use crate::{Artifact, CaseId, Count, Digest, PinnedFile, PointId, TrialId};

/// The metrics of serving that gates judge where the workload declares none; goodput only where there are SLOs.
pub fn primary_by_default(has_slos: bool) -> impl Iterator<Item = &'static str> {
    let always = ["ttft_ms_p50", "ttft_ms_p99", "tpot_ms_p50", "e2e_ms_p99", "request_throughput_per_s", "output_tokens_per_s"];
    always.into_iter().chain(has_slos.then_some("goodput_requests_per_s"))
}

/// The metrics of serving that gates may judge: every one with a direction that is better. What of them a point reports depends on its
/// requests and SLOs.
pub const SERVING_METRICS_JUDGED: &[&str] = &[
    "ttft_ms_mean",
    "ttft_ms_p50",
    "ttft_ms_p90",
    "ttft_ms_p95",
    "ttft_ms_p99",
    "ttft_ms_p50_with_failures",
    "ttft_ms_p95_with_failures",
    "ttft_ms_p99_with_failures",
    "ttft_sent_ms_p50",
    "ttft_sent_ms_p99",
    "ttfo_ms_p50",
    "ttfo_ms_p99",
    "tpot_ms_mean",
    "tpot_ms_p50",
    "tpot_ms_p90",
    "tpot_ms_p95",
    "tpot_ms_p99",
    "itl_ms_mean",
    "itl_ms_p50",
    "itl_ms_p99",
    "icl_ms_mean",
    "icl_ms_p50",
    "icl_ms_p99",
    "e2e_ms_mean",
    "e2e_ms_p50",
    "e2e_ms_p90",
    "e2e_ms_p95",
    "e2e_ms_p99",
    "e2e_ms_p50_with_failures",
    "e2e_ms_p95_with_failures",
    "e2e_ms_p99_with_failures",
    "e2e_sent_ms_p50",
    "e2e_sent_ms_p99",
    "send_lateness_ms_p50",
    "send_lateness_ms_p99",
    "jitter_ms",
    "request_throughput_per_s",
    "request_throughput_steady_per_s",
    "output_tokens_per_s",
    "output_tokens_steady_per_s",
    "total_tokens_per_s",
    "goodput_requests_per_s",
    "goodput_tokens_per_s",
    "good_fraction",
    "error_rate",
    "osl_mismatch_rate",
    "cost_per_request",
    "cost_per_million_output_tokens",
];

words!(
    /// What of an OpenAI-compatible endpoint is asked.
    ServingApi, "serving API",
    /// `/v1/chat/completions`.
    Chat = "chat",
    /// `/v1/completions`.
    Completions = "completions",
    /// `/v1/embeddings`.
    Embeddings = "embeddings",
);

words!(
    /// The state of the prefix cache, a part of the workload.
    CacheMode, "cache mode",
    /// Each trial's prompts begin with a salt of their own.
    ColdSalt = "cold_salt",
    /// The endpoint's cache is flushed before each trial.
    ColdFlush = "cold_flush",
    /// The trial's own prompts are sent once before it is measured.
    Warm = "warm",
    /// Trials find what earlier ones left.
    Shared = "shared",
);

words!(
    /// What is kept of prompts and answers.
    CaptureMode, "capture mode",
    /// Nothing.
    None = "none",
    /// Their digests.
    Digest = "digest",
    /// The texts themselves.
    Full = "full",
);

words!(
    /// What a service level objective limits.
    SloMetric, "SLO metric",
    /// Time to the first token event.
    Ttft = "ttft",
    /// Time to the first content event.
    Ttfo = "ttfo",
    /// Time per output token.
    Tpot = "tpot",
    /// Time to the last token event.
    E2e = "e2e",
);

/// Who decides when a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum ArrivalLaw {
    /// Closed loop: each user sends its next request after the last answer. The point says how many users.
    Closed,
    /// Equal gaps. The point says the rate, here and below.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps.
    Gamma {
        /// Shape of the distribution; its scale is 1 / (rate x smoothness). 1 is Poisson.
        smoothness: f64,
    },
}

/// How many tokens, drawn for each request.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum LengthLaw {
    /// Always this many.
    Fixed {
        /// Tokens.
        tokens: u32,
    },
    /// Any whole number between two bounds, both included.
    Uniform {
        /// The lower bound.
        min: u32,
        /// The upper bound.
        max: u32,
    },
    /// Normal, rounded to the nearest whole number and clipped to at least 1.
    Normal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stddev: f64,
    },
    /// Log-normal with this mean and standard deviation of the token counts, rounded and clipped like `normal`.
    Lognormal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stddev: f64,
    },
    /// genai-bench's `N`: max(floor, trunc(Normal(mean, stddev))).
    TruncatedNormal {
        /// The mean.
        mean: f64,
        /// The standard deviation.
        stddev: f64,
        /// What smaller draws become.
        floor: u32,
    },
    /// genai-bench's `U`: max(floor, trunc(Uniform[low, high))).
    TruncatedUniform {
        /// The lower bound.
        low: u32,
        /// The upper bound, which is not reached.
        high: u32,
        /// What smaller draws become.
        floor: u32,
    },
}

/// A limit that each request must keep, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// What is limited.
    pub metric: SloMetric,
    /// The largest good value, in nanoseconds.
    pub at_most_ns: Count,
}

/// What counts tokens and makes prompts of an exact length.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tokenizer {
    /// `common-words` for the built-in list, else the name of the file.
    pub name: String,
    /// What its vocabulary and rules are, by digest.
    pub digest: Digest,
    /// A tokenizer file (`tokenizer.json`), pinned.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub file: Option<PinnedFile>,
}

/// What execute asks of an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingWork {
    /// What is asked.
    pub api: ServingApi,
    /// The model's name in each request.
    pub model: String,
    /// Who decides when a request is sent.
    pub arrival: ArrivalLaw,
    /// Tokens of the prompt.
    pub input: LengthLaw,
    /// Tokens of the answer; absent for embeddings.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<LengthLaw>,
    /// Whether the endpoint is told to give exactly the drawn number of tokens (`ignore_eos`, `min_tokens`).
    pub exact_output: bool,
    /// Whether the endpoint is asked to count tokens chunk by chunk, which few servers understand.
    pub continuous_usage: bool,
    /// Documents in each embeddings request.
    pub batch: u32,
    /// Members added to each request's body, canonical JSON texts by name.
    pub body: BTreeMap<String, String>,
    /// How many requests are measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests: Option<Count>,
    /// How long requests are sent and measured. With `requests`, the first reached ends the trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ns: Option<Count>,
    /// How long load is offered before measuring; handed over without draining.
    pub warmup_ns: Count,
    /// A request that takes longer failed.
    pub timeout_ns: Count,
    /// A trial that takes longer is stopped, and invalid.
    pub time_limit_ns: Count,
    /// The state of the prefix cache.
    pub cache: CacheMode,
    /// Whether answers are streamed.
    pub streaming: bool,
    /// What is kept of prompts and answers.
    pub capture: CaptureMode,
    /// What a request must meet to count towards goodput.
    pub slos: Vec<Slo>,
    /// What counts tokens and makes prompts.
    pub tokenizer: Tokenizer,
}

impl ServingWork {
    /// Whether responses are streamed: embeddings come whole, whatever is asked.
    pub fn is_streamed(&self) -> bool {
        self.streaming && self.api != ServingApi::Embeddings
    }

    /// Documents of one request: several for embeddings alone.
    pub fn documents(&self) -> u32 {
        if self.api == ServingApi::Embeddings { self.batch.max(1) } else { 1 }
    }
}

/// How far this shard's clock may be from shard 0's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockOffset {
    /// `same_host`, `exchange`, `kernel` or `unknown`.
    pub source: String,
    /// This shard's wall clock minus shard 0's, in nanoseconds, with its sign as text; absent where unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offset_ns: Option<String>,
    /// How far the offset may be wrong, in nanoseconds: for an exchange, half of the shortest way there and back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uncertainty_ns: Option<Count>,
    /// Why there was no exchange, where there should have been one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub no_exchange: Option<String>,
}

/// How the client itself did: what decides whether it measured the endpoint or itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientHealth {
    /// 50th percentile of how much later than intended requests were sent; absent under closed loop. Nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lateness_p50_ns: Option<Count>,
    /// 99th percentile of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lateness_p99_ns: Option<Count>,
    /// The worst of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lateness_max_ns: Option<Count>,
    /// 99th percentile of the time between a socket's readiness batch and the end of its handling, in nanoseconds.
    pub loop_busy_p99_ns: Count,
    /// The longest stretch in which the client did not look at its sockets, in nanoseconds; an upper bound.
    pub loop_stall_max_ns: Count,
    /// Time from the start of the measured phase to the last response during which sockets waited for the client for 5 ms or longer, in
    /// nanoseconds; an upper bound, as the others of its delays are. Absent, as they are, where an earlier Assay measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loop_late_ns: Option<Count>,
    /// Measured requests that ended well and whose first or last token event waited for the client for 5 ms or longer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late_requests: Option<Count>,
    /// The share of the time of measured requests, 0 to 1, for which their response waited for the client.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late_request_share: Option<f64>,
    /// The part of TTFT at the 99th percentile that may be the client's own delay, in nanoseconds; absent without such requests.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ttft_p99_delay_ns: Option<Count>,
    /// The same of E2E.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub e2e_p99_delay_ns: Option<Count>,
    /// Time that the client's thread could have run and did not, in nanoseconds; absent where the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_delay_ns: Option<Count>,
    /// Waits of the client that a signal ended: it was stopped and continued, or handled a signal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interruptions: Option<Count>,
    /// User CPU time of the shard during the trial, in microseconds.
    pub cpu_user_us: Count,
    /// System CPU time.
    pub cpu_system_us: Count,
    /// Time for which the control group was throttled, in microseconds; absent where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cgroup_throttled_us: Option<Count>,
    /// Time of the attempt's window during which some task of the machine waited for a CPU (PSI `some`), in microseconds; absent
    /// where the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_pressure_us: Option<Count>,
    /// The same as a share of the window, 0 to 1; absent where it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_pressure: Option<f64>,
    /// Times that a read filled its whole buffer: data waited in the socket.
    pub full_reads: Count,
    /// Times that the load waited for its prepared requests.
    pub starved: Count,
    /// Asked arrivals a second of this shard; absent under closed loop.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub asked_rate_per_s: Option<f64>,
    /// Requests a second that were really sent.
    pub sent_rate_per_s: f64,
    /// Connections that were opened.
    pub connections: Count,
    /// Requests that were given another connection, because the endpoint had closed their kept-alive one before it can have read any
    /// of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resends: Option<Count>,
    /// Token events that were read.
    pub events: Count,
}

/// What one shard did in one serving attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingOutcome {
    /// The digest over the trial's whole schedule: equal for every shard.
    pub schedule_digest: Digest,
    /// When the trial's start instant was, by the wall clock; every record's times count from it.
    pub start: crate::Instant,
    /// From the start to the beginning of the measured phase, in nanoseconds.
    pub measured_from_ns: Count,
    /// From the start to the end of the measured phase: the last instant at which a request could become due, or (by count) the
    /// end of the last measured request. Nanoseconds.
    pub measured_to_ns: Count,
    /// Requests by what became of them, those of the measured phase. Every outcome that occurred.
    pub outcomes: BTreeMap<String, Count>,
    /// The same for the warm-up.
    pub warmup_outcomes: BTreeMap<String, Count>,
    /// Tokens of the measured phase's prompts that were sent, by the workload's tokenizer.
    pub input_tokens: Count,
    /// Tokens of the answers of all phases, however counted.
    pub output_tokens: Count,
    /// How chunk lists were kept: `all`, or a statement of the sampling.
    pub chunk_lists: String,
    /// How the client itself did.
    pub client: ClientHealth,
    /// The path at which the endpoint was asked to empty its prefix cache before the attempt, and said that it did; absent where
    /// nobody asked, or it did not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache_flushed: Option<String>,
    /// The clock of this shard against shard 0's.
    pub clock: ClockOffset,
    /// The records, Parquet.
    pub records: Artifact,
}

/// What the client counted against what the endpoint counted, over one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossCheck {
    /// What was counted, such as `requests` or `output_tokens`.
    pub what: String,
    /// The endpoint's counter.
    pub counter: String,
    /// The client's count.
    pub client: Count,
    /// The endpoint's count: the counter's growth over the attempt's window.
    pub endpoint: Count,
    /// Whether they agree as far as they must.
    pub agrees: bool,
    /// The rule, and what was seen.
    pub detail: String,
}

/// What a point's requests came to, over its counted trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingPoint {
    /// Requests that were due in the measured phase.
    pub requests: Count,
    /// Those by what became of them.
    pub outcomes: BTreeMap<String, Count>,
    /// Requests that were due in the measured phases of attempts that do not count, by what became of them. They are in no number.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub uncounted: BTreeMap<String, Count>,
    /// The length of the window that rates are over, summed over trials, in nanoseconds.
    pub duration_ns: Count,
    /// Whether the point as a whole met its SLOs (99th percentile of each, failures counted as slowest); absent where it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slo_met: Option<bool>,
    /// Who counted the output tokens, requests by source.
    pub token_sources: BTreeMap<String, Count>,
    /// Requests whose TPOT rests on the assumption that the first event brought one token.
    pub tpot_assumed: Count,
    /// Why there are no costs; absent where there are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost_absent: Option<String>,
    /// Statistics that could not be computed, by metric, with the reason.
    pub absent: BTreeMap<String, String>,
    /// Whether latencies count from the intended time (open loop) or from sending (closed loop).
    pub latency_from: String,
}

/// One curve of a distribution: the value at each probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// `ttft`, `tpot`, `icl` or `e2e`.
    pub metric: String,
    /// How many samples it is over.
    pub n: Count,
    /// Failed requests, which lie beyond every value of a latency that counts per request.
    pub failed: Count,
    /// Quantiles over the samples that there are: `[probability, milliseconds]`, rising, linear interpolation.
    pub quantiles: Vec<[f64; 2]>,
}

/// A request in a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimelineRequest {
    /// Its global index.
    pub index: Count,
    /// Intended (or, under closed loop, sent), in milliseconds since the trial's start.
    pub start_ms: f64,
    /// Sent.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent_ms: Option<f64>,
    /// First token event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_ms: Option<f64>,
    /// Last token event, or the end of what failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_ms: Option<f64>,
    /// What became of it.
    pub outcome: String,
}

/// The requests of one trial, thinned where there are many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// The trial.
    pub trial_id: TrialId,
    /// The attempt.
    pub attempt: u32,
    /// Requests of the measured phase.
    pub requests: Count,
    /// How those shown were chosen: `all`, or the rule.
    pub thinning: String,
    /// Those shown, by start.
    pub shown: Vec<TimelineRequest>,
}

/// What the pictures of a point are drawn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointView {
    /// The case.
    pub case_id: CaseId,
    /// The point.
    pub point_id: PointId,
    /// Distributions over all requests of the counted trials.
    pub curves: Vec<Curve>,
    /// One counted trial's requests: the first counted trial's.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeline: Option<Timeline>,
}

/// What the pictures of a run are drawn from: a document of its own beside the Summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Views {
    /// The serving points, in the plan's order.
    pub points: Vec<PointView>,
}

impl Views {
    /// The largest document: a thousand points with their curves and timelines.
    pub const MAX_BYTES: u64 = 256 << 20;

    /// Reads the document that a Summary names.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}
