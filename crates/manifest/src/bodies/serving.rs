//! Serving: the requests to an endpoint, the results of one shard, and the data of plots.

use std::borrow::Cow;
use std::collections::BTreeMap;

use assay_api::{CustomApi, RequestBody, RequestInput, ServingApi};
use assay_metric::SloMetric;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::document::words;
use crate::{
    Adapter, AgentxVerdict, Artifact, Block, Cancellation, CaseId, Count, Digest, ErrorLimit, ImageFiles, Images, JudgedScenario,
    OverSaturation, PauseLaw, PinnedFile, PointId, PromptSource, RateProfile, SessionCounts, SessionPlay, Sessions, TokenIds,
    Tokenizer, TrialId,
};

/// The words that distinguish the prompts of one execution from those of any other. Synthetic prompts have them within their length, and rows
/// with texts in front of it.
pub const SALT_WORDS: u32 = 4;

/// Servers that support token counts per chunk (`continuous_usage_stats`).
const CONTINUOUS_USAGE: [&str; 2] = ["vllm", "assay-simulator"];

words!(
    /// The state of the prefix cache, a part of the workload.
    CacheMode, "cache mode",
    /// The prompts of each trial begin with a salt of their own.
    ColdSalt = "cold_salt",
    /// The endpoint's cache is flushed before each trial.
    ColdFlush = "cold_flush",
    /// The prompts of the trial are sent once before it is measured.
    Warm = "warm",
    /// The cache keeps the entries of earlier trials.
    Shared = "shared",
);

words!(
    /// The parts of prompts and responses that are kept.
    CaptureMode, "capture mode",
    /// Nothing.
    None = "none",
    /// Their digests.
    Digest = "digest",
    /// The texts themselves.
    Full = "full",
);

words!(
    /// The kind of the text of synthetic prompts.
    SyntheticText, "kind of text",
    /// Words that are drawn by themselves.
    Words = "words",
    /// Prose: each word follows the two before it somewhere in a book.
    Natural = "natural",
);

words!(
    /// The reuse of connections.
    ConnectionPolicy, "connection policy",
    /// A request takes any open connection that is idle.
    Pooled = "pooled",
    /// Each request opens a connection of its own, which is closed after the response.
    Never = "never",
    /// The requests of a session share a connection, which no other session uses.
    Sticky = "sticky",
);

impl ConnectionPolicy {
    /// Returns true for the policy of a workload that states none.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
    fn is_pooled(&self) -> bool {
        *self == Self::Pooled
    }
}

fn pooled() -> ConnectionPolicy {
    ConnectionPolicy::Pooled
}

/// The rule that decides when a request is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum ArrivalLaw {
    /// Closed loop: each response is followed by the next request. The point gives the concurrency.
    Closed,
    /// Equal gaps. Here and below, the point gives the rate, unless there is a rate profile, by which these gaps are stretched.
    Constant,
    /// Exponential gaps.
    Poisson,
    /// Gamma gaps.
    Gamma {
        /// Shape of the distribution; its scale is 1 / (rate x smoothness). 1 is Poisson.
        smoothness: f64,
    },
    /// The turns of a number of users, each at equal gaps of its own. The point gives the users, and the rate of all turns together.
    Users,
    /// The recorded times of a trace. The point gives the speed.
    Recorded,
}

/// The distribution of token counts, drawn for each request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "law", rename_all = "snake_case", deny_unknown_fields)]
pub enum LengthLaw {
    /// A fixed number of tokens.
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
        /// The smallest value: smaller draws become this.
        floor: u32,
    },
    /// genai-bench's `U`: max(floor, trunc(Uniform[low, high))).
    TruncatedUniform {
        /// The lower bound.
        low: u32,
        /// The upper bound, excluded.
        high: u32,
        /// The smallest value: smaller draws become this.
        floor: u32,
    },
    /// A bin of a histogram by its weight, and any whole number of the bin. Bin `k` has the numbers from edge `k` up to edge `k + 1`, which
    /// belongs to the next bin; the last bin includes its upper edge.
    Histogram {
        /// The edges of the bins, rising: one more than there are bins.
        edges: Vec<u32>,
        /// The weight of each bin.
        weights: Vec<f64>,
    },
    /// This side of one of several pairs of input and output, by the weight of the pair. The law of the other side has as many values, with
    /// the same weights in the same order, and both draw the same pair.
    Paired {
        /// The values of this side.
        values: Vec<WeightedTokens>,
    },
}

/// A number of tokens, with its weight among others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightedTokens {
    /// Tokens.
    pub tokens: u32,
    /// The weight: the number is drawn with a probability in proportion to it.
    pub weight: f64,
}

impl LengthLaw {
    /// Returns the mean, without rounding and clipping to the largest number.
    pub fn mean(&self) -> f64 {
        match self {
            Self::Fixed { tokens } => f64::from(*tokens),
            Self::Uniform { min, max } => f64::midpoint(f64::from(*min), f64::from(*max)),
            Self::Normal { mean, .. } | Self::Lognormal { mean, .. } => *mean,
            Self::TruncatedNormal { mean, floor, .. } => mean.max(f64::from(*floor)),
            Self::TruncatedUniform { low, high, floor } => {
                f64::midpoint(f64::from(*low), f64::from(*high)).max(f64::from(*floor))
            }
            Self::Histogram { edges, weights } => {
                let middle = |(low, high): (u32, u32)| f64::midpoint(f64::from(low), f64::from(high));
                weighted_mean(bins_of(edges).map(middle).zip(weights.iter().copied()))
            }
            Self::Paired { values } => weighted_mean(values.iter().map(|value| (f64::from(value.tokens), value.weight))),
        }
    }

    /// Returns the smallest and the largest number of each bin of a histogram; none of any other law.
    pub fn bins(&self) -> impl Iterator<Item = (u32, u32)> {
        let edges: &[u32] = if let Self::Histogram { edges, .. } = self { edges } else { &[] };
        bins_of(edges)
    }
}

fn bins_of(edges: &[u32]) -> impl Iterator<Item = (u32, u32)> {
    let last = edges.len().saturating_sub(2);
    let bins = edges.iter().zip(edges.iter().skip(1)).enumerate();
    bins.map(move |(bin, (low, high))| (*low, if bin == last { *high } else { high.saturating_sub(1) }))
}

/// Returns the mean of values with their weights; 0 if all weights are 0.
fn weighted_mean(values: impl Iterator<Item = (f64, f64)>) -> f64 {
    let (sum, weights) = values.fold((0.0, 0.0), |(sum, weights), (value, weight)| (sum + value * weight, weights + weight));
    if weights > 0.0 { sum / weights } else { 0.0 }
}

/// A latency limit of each request; the limit itself is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Slo {
    /// The latency that is limited.
    pub metric: SloMetric,
    /// The largest good value, in nanoseconds.
    pub at_most_ns: Count,
}

/// The requests that execute sends to an endpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingWork {
    /// The API that is called.
    pub api: ServingApi,
    /// The description of the API; absent if it is one that Assay knows.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub custom: Option<CustomApi>,
    /// The model's name in each request, unless it has an adapter.
    pub model: String,
    /// The LoRA adapters of the requests; empty if all of them ask for the model.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub adapters: Vec<Adapter>,
    /// The rule that decides when a request is sent.
    pub arrival: ArrivalLaw,
    /// The course of the rate in each trial; absent if it is constant, and then the point gives it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rate_profile: Option<RateProfile>,
    /// The most requests in flight of an open loop: a request that is due beyond it waits, and its latencies count from the time at which
    /// it was due. Absent if none waits.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub max_concurrency: Option<Count>,
    /// The reuse of connections; absent if they are pooled.
    #[serde(skip_serializing_if = "ConnectionPolicy::is_pooled", default = "pooled")]
    pub connections: ConnectionPolicy,
    /// The requests that the client cancels; absent if it cancels none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancel: Option<Cancellation>,
    /// The queue at which each trial of an open loop ends early; absent if it ends as planned, however long the queue is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub over_saturation: Option<OverSaturation>,
    /// The failed requests at which each trial ends early; absent if it ends as planned, however many fail.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub stop_on_errors: Option<ErrorLimit>,
    /// The source of prompts.
    pub prompts: PromptSource,
    /// The conversations that requests belong to; absent if each request stands for itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sessions: Option<Sessions>,
    /// The name of a header that names the session in each of its requests, so that a router can send them to one server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub session_header: Option<String>,
    /// The scenario by whose rules the result is judged; absent if it is judged by none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub scenario: Option<JudgedScenario>,
    /// Tokens of the response; absent if the API has none, and if a dataset or the endpoint decides.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output: Option<LengthLaw>,
    /// The kind of the text of synthetic prompts; absent if it is words, and if prompts are not synthetic.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub text: Option<SyntheticText>,
    /// The ids of tokens that prompts are sent as; absent if prompts are sent as texts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token_ids: Option<TokenIds>,
    /// The images of each request; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub images: Option<Images>,
    /// The image files that each request has some of; absent if it has none, or synthetic ones.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub image_files: Option<ImageFiles>,
    /// True if requests ask for exactly the drawn or recorded number of tokens (`ignore_eos`, `min_tokens`).
    pub exact_output: bool,
    /// True if the endpoint is asked to count tokens chunk by chunk, which few servers support.
    pub continuous_usage: bool,
    /// Documents in each request of an API that takes documents.
    pub batch: u32,
    /// Members added to the body of each request, canonical JSON texts by name.
    pub body: BTreeMap<String, String>,
    /// Further members added to the body of each request.
    #[serde(skip_serializing_if = "Map::is_empty", default)]
    pub extra_body: Map<String, Value>,
    /// The number of requests to measure.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requests: Option<Count>,
    /// The duration of the measured phase. With `requests`, the limit reached first ends the trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration_ns: Option<Count>,
    /// The duration of the load before the measured phase, which begins without draining.
    pub warmup_ns: Count,
    /// The request timeout: a slower request has failed.
    pub timeout_ns: Count,
    /// The time limit of a trial: a longer trial is stopped, and invalid.
    pub time_limit_ns: Count,
    /// The state of the prefix cache.
    pub cache: CacheMode,
    /// True if the workload asks for streamed responses.
    pub streaming: bool,
    /// The parts of prompts and responses that are kept.
    pub capture: CaptureMode,
    /// The limits that a request must meet to count towards goodput.
    pub slos: Vec<Slo>,
    /// The tokenizer that counts tokens and makes prompts.
    pub tokenizer: Tokenizer,
}

impl ServingWork {
    /// Returns true if responses are streamed. An API that cannot stream does not, even if streaming is requested.
    pub fn is_streamed(&self) -> bool {
        self.streaming && self.api.capabilities().streams
    }

    /// Returns true if requests have times at which they are to be sent: in an open loop, in sessions, whose turns follow a pause, and if
    /// each request opens a connection, whose time is a part of its latency.
    pub fn has_intended_times(&self) -> bool {
        self.arrival != ArrivalLaw::Closed || self.sessions.is_some() || self.connections == ConnectionPolicy::Never
    }

    /// Returns true if the sessions of a trace are played turn by turn.
    pub fn plays_trace(&self) -> bool {
        self.sessions.as_ref().is_some_and(|sessions| sessions.think_time == PauseLaw::Recorded)
    }

    /// Returns true if each turn of a session has a time at which it is planned, whatever becomes of the turns before: by a trace, or by the grid of
    /// a user.
    pub fn has_planned_turns(&self) -> bool {
        self.plays_trace() || self.arrival == ArrivalLaw::Users
    }

    /// Returns the way in which users play the sessions of a trace.
    pub fn session_play(&self) -> SessionPlay {
        self.sessions.as_ref().map_or_else(SessionPlay::default, |sessions| sessions.play)
    }

    /// Returns the field of the workload that holds for all requests together, which only one shard can count; `None` if there is none.
    pub fn one_shard_field(&self) -> Option<&'static str> {
        let cap = self.max_concurrency.map(|_| "max_concurrency");
        cap.or_else(|| self.session_play().idle_cap_ns.map(|_| "sessions.idle_cap"))
    }

    /// Returns the mean number of turns of a session; 1 if each request stands for itself.
    pub fn mean_turns(&self) -> f64 {
        let drawn = self.sessions.as_ref().and_then(|sessions| sessions.turns.as_ref()).map(LengthLaw::mean);
        let summary = self.prompts.dataset().map(|dataset| &dataset.summary);
        let recorded = || summary.and_then(|summary| Some(summary.rows.0 as f64 / summary.sessions?.0.max(1) as f64));
        drawn.or_else(recorded).unwrap_or(1.0)
    }

    /// Returns the files of the workload that requests are made from: those of the tokenizer, and image files.
    pub fn files(&self) -> impl Iterator<Item = &PinnedFile> {
        self.tokenizer.files().chain(self.image_files.iter().flat_map(|images| &images.files))
    }

    /// Returns the number of inputs of one request: 1, or the documents.
    pub fn documents(&self) -> u32 {
        if self.api.capabilities().input.has_documents() { self.batch.max(1) } else { 1 }
    }

    /// Returns the name that a request with this adapter, by its place in the list, has as its model.
    pub fn model_of(&self, adapter: Option<u32>) -> &str {
        let named = adapter.and_then(|place| self.adapters.get(place as usize));
        named.map_or(&self.model, |adapter| &adapter.name)
    }

    /// Returns the names that requests may have as their model, each once: the model's, or those of all adapters.
    pub fn requested_models(&self) -> impl Iterator<Item = &str> {
        let model = self.adapters.is_empty().then_some(self.model.as_str());
        model.into_iter().chain(self.adapters.iter().map(|adapter| adapter.name.as_str()))
    }

    /// Builds the body that requests a response of this many tokens to these inputs from a model or an adapter of this name; without a number, of
    /// as many as the endpoint decides.
    pub fn request_body(&self, model: &str, input: RequestInput<'_>, output_tokens: Option<u32>) -> Vec<u8> {
        let request = self.request(model, input, output_tokens);
        match &self.custom {
            Some(custom) => custom.request_body(&request),
            None => self.api.request_body(&request),
        }
    }

    /// Returns the most output tokens that such a request allows, over all choices that it asks for; `None` if it states no limit. `row` is the
    /// whole body that a row of a dataset has.
    pub fn output_limit(&self, row: Option<&Map<String, Value>>, output_tokens: Option<u32>) -> Option<u64> {
        let input = row.map_or(RequestInput::Messages(&[]), RequestInput::Body);
        let request = self.request("", input, output_tokens);
        match &self.custom {
            Some(custom) => custom.output_limit(&request),
            None => self.api.output_limit(&request),
        }
    }

    fn request<'a>(&'a self, model: &'a str, input: RequestInput<'a>, output_tokens: Option<u32>) -> RequestBody<'a> {
        RequestBody {
            model,
            input,
            output_tokens,
            max_output_tokens: self.prompts.dataset().and_then(|dataset| dataset.max_output_tokens),
            exact_output: self.exact_output,
            streamed: self.is_streamed(),
            continuous_usage: self.continuous_usage,
            extra_body: &self.body,
            extra_members: &self.extra_body,
        }
    }

    /// Returns true if requests name the model.
    pub fn names_model(&self) -> bool {
        match &self.custom {
            Some(custom) => custom.names_model(),
            None => self.api.capabilities().names_model,
        }
    }

    /// Returns the path of requests.
    pub fn path(&self) -> &str {
        self.custom.as_ref().map_or(self.api.path(), |custom| &custom.path)
    }

    /// Returns the work as it is sent to this server software: if it supports token counts per chunk, they are requested, whatever
    /// stack the workload declares.
    pub fn for_server(&self, server: Option<&str>) -> Cow<'_, Self> {
        if self.continuous_usage || !server.is_some_and(|server| CONTINUOUS_USAGE.contains(&server)) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(Self { continuous_usage: true, ..self.clone() })
    }
}

/// The offset of this shard's clock from shard 0's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClockOffset {
    /// `same_host`, `exchange`, `kernel` or `unknown`.
    pub source: String,
    /// This shard's wall clock minus shard 0's, in nanoseconds, with its sign as text; absent if unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offset_ns: Option<String>,
    /// The largest error of the offset, in nanoseconds: for an exchange, half of the shortest round trip.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub uncertainty_ns: Option<Count>,
    /// The reason why an exchange that should have taken place did not.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub no_exchange: Option<String>,
}

/// The health of the client: shows if it measured the endpoint or itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientHealth {
    /// 50th percentile of the delay of sending after the intended time, in nanoseconds; absent in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lateness_p50_ns: Option<Count>,
    /// 99th percentile of the same delay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lateness_p99_ns: Option<Count>,
    /// Maximum of the same delay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lateness_max_ns: Option<Count>,
    /// 99th percentile of the time between a socket's readiness batch and the end of its handling, in nanoseconds.
    pub loop_busy_p99_ns: Count,
    /// The longest time in which the client did not poll its sockets, in nanoseconds; an upper bound.
    pub loop_stall_max_ns: Count,
    /// Time from the start of the measured phase to the last response during which sockets waited for the client for 5 ms or
    /// longer, in nanoseconds. An upper bound, like the other delays of the client. Absent, like them, if an earlier Assay
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub loop_late_ns: Option<Count>,
    /// The time that is judged: from the start of the measured phase to the last response, in nanoseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub judged_ns: Option<Count>,
    /// Reads of that time that were late by more than `lateness_p99_ns` of the [limits](crate::ValidityLimits).
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late_reads: Option<Count>,
    /// Token events of measured requests that succeeded.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub judged_token_events: Option<Count>,
    /// Measured requests that succeeded and whose first or last token event waited for the client for 5 ms or longer.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late_requests: Option<Count>,
    /// The share, 0 to 1, of the time of measured requests during which their response waited for the client.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub late_request_share: Option<f64>,
    /// The 99th percentile of TTFT over measured requests that succeeded, as the client measured it, to within 1/32 above, in
    /// nanoseconds; absent without such requests.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ttft_p99_ns: Option<Count>,
    /// The part of the 99th percentile of TTFT that may be the client's own delay, in nanoseconds; absent without such requests.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ttft_p99_delay_ns: Option<Count>,
    /// The 99th percentile of E2E, like that of TTFT.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub e2e_p99_ns: Option<Count>,
    /// The part of it that may be the client's own delay.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub e2e_p99_delay_ns: Option<Count>,
    /// Time during which the client's thread was runnable but did not run, in nanoseconds; absent if the kernel does not count
    /// it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub run_delay_ns: Option<Count>,
    /// Waits of the client that ended because of a signal: it was stopped and continued, or handled a signal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub interruptions: Option<Count>,
    /// User CPU time of the shard during the trial, in microseconds.
    pub cpu_user_us: Count,
    /// System CPU time.
    pub cpu_system_us: Count,
    /// Time for which the control group was throttled, in microseconds; absent if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cgroup_throttled_us: Option<Count>,
    /// Time of the attempt's window during which some task of the machine waited for a CPU (PSI `some`), in microseconds; absent
    /// if the kernel does not count it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_pressure_us: Option<Count>,
    /// The same as a share of the window, 0 to 1; absent if it cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_pressure: Option<f64>,
    /// Reads that filled the whole buffer: more data waited in the socket.
    pub full_reads: Count,
    /// Times that sending waited because no request was prepared.
    pub starved: Count,
    /// Requested rate of this shard, in requests per second; absent in a closed loop.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub requested_rate_per_s: Option<f64>,
    /// Requests actually sent per second.
    pub sent_rate_per_s: f64,
    /// Connections that were opened.
    pub connections: Count,
    /// Requests that were sent on another connection, because the endpoint had closed the kept-alive one before it can have read
    /// any part of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resends: Option<Count>,
    /// Token events that were read.
    pub events: Count,
}

/// The results of one shard in one serving attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingOutcome {
    /// The digest over the whole schedule of the trial: equal for every shard.
    pub schedule_digest: Digest,
    /// The trial's start by the wall clock; all times of records count from it.
    pub start: crate::Instant,
    /// From the start to the beginning of the measured phase, in nanoseconds.
    pub measured_from_ns: Count,
    /// From the start to the end of the measured phase: the last instant at which a request could become due, or (by count) the
    /// end of the last measured request. Nanoseconds.
    pub measured_to_ns: Count,
    /// Requests of the measured phase by outcome. Every outcome that occurred.
    pub outcomes: BTreeMap<String, Count>,
    /// Requests of the warm-up by outcome.
    pub warmup_outcomes: BTreeMap<String, Count>,
    /// Tokens of the prompts that were sent in the measured phase, by the workload's tokenizer.
    pub input_tokens: Count,
    /// Tokens of the responses of all phases, whatever their source.
    pub output_tokens: Count,
    /// The sampling of chunk lists: `all`, or a description of the rule.
    pub chunk_lists: String,
    /// The health of the client.
    pub client: ClientHealth,
    /// The path at which the endpoint emptied its prefix cache before the attempt, on request; absent if it was not asked, or did
    /// not do so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cache_flushed: Option<String>,
    /// Turns that were sent before the trial so that a cache holds their history (`warm_history`), all with success; absent if none were to be.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub warmed_turns: Option<Count>,
    /// The time by which turns came earlier because nothing was in flight (`idle_cap`), in nanoseconds; absent without a cap.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idle_cut_ns: Option<Count>,
    /// The offset of this shard's clock from shard 0's.
    pub clock: ClockOffset,
    /// The records, as Parquet.
    pub records: Artifact,
}

words!(
    /// The result of a comparison of the client's count with the endpoint's.
    CrossCheckOutcome, "outcome of a cross-check",
    /// The endpoint's count is within both limits of the rule.
    Agrees = "agrees",
    /// The endpoint's count is outside of a limit that could be checked.
    Disagrees = "disagrees",
    /// The endpoint's count is not below the lower limit, and the upper limit could not be checked.
    AtLeast = "at_least",
    /// Neither limit could be checked.
    NotCompared = "not_compared",
);

/// An attempt that a cross-check is over, with all its shards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckedAttempt {
    /// The trial.
    pub trial_id: TrialId,
    /// The number of the attempt, from 0.
    pub attempt: u32,
}

/// A count of the client beside the endpoint's own count, over attempts in one block. Those without a reading of the counter between
/// them are compared as one sum.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CrossCheck {
    /// The block and incarnation that the attempts ran in.
    pub block: Block,
    /// The attempts, in the order of their starts.
    pub attempts: Vec<CheckedAttempt>,
    /// The quantity, such as `requests` or `output_tokens`.
    pub what: String,
    /// The endpoint's counter; absent if no growth of it belongs to these attempts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub counter: Option<String>,
    /// The client's count: the sum over the attempts, and over their shards that have counts.
    pub client: Count,
    /// The endpoint's count: the increase of the counter between two readings; absent if no growth belongs to these attempts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub endpoint: Option<Count>,
    /// The result.
    pub outcome: CrossCheckOutcome,
    /// The reason why a limit could not be checked: of `at_least` and `not_compared`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The rule, the observation and the reason.
    pub detail: String,
}

/// Failed requests of a point with the same outcome and the same status code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailedRequests {
    /// Their outcome.
    pub outcome: String,
    /// The status code of their responses; absent if there was no response.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub http_status: Option<u16>,
    /// The error of the first of them that has one: the endpoint's message, or the client's reason. At most 200 bytes.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// Their number.
    pub count: Count,
}

/// The requests of a point that asked for one LoRA adapter, over its counted trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterRequests {
    /// Their number.
    pub requests: Count,
    /// The latencies of those that succeeded, by the key of the metric; empty if none did, or if too many adapters have more requests.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub latencies: BTreeMap<String, PooledLatency>,
}

/// A latency over the requests of all counted trials together, which has no interval: one metric of each trial has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PooledLatency {
    /// The number of requests that have it.
    pub n: Count,
    /// The median, in milliseconds.
    pub p50_ms: f64,
    /// The 99 % quantile, in milliseconds.
    pub p99_ms: f64,
}

/// The requests of a point, over its counted trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServingPoint {
    /// Requests that were due in the measured phase.
    pub requests: Count,
    /// The same requests by outcome.
    pub outcomes: BTreeMap<String, Count>,
    /// The failed ones among them by outcome and status code: the five most frequent kinds at most, the most frequent first.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failures: Vec<FailedRequests>,
    /// The requests of attempts that do not count, of their warm-ups as well, by outcome. No statistic includes them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub excluded_outcomes: BTreeMap<String, Count>,
    /// The requests by the adapter that they asked for; empty if they have none.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub adapters: BTreeMap<String, AdapterRequests>,
    /// The sessions that requests are turns of; absent without sessions.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sessions: Option<SessionCounts>,
    /// Turns that were sent before the counted trials so that a cache holds their history, in no other number; absent if none were to be.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub warmed_turns: Option<Count>,
    /// The time by which turns of the counted trials came earlier because nothing was in flight, in nanoseconds; absent without an idle cap.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub idle_cut_ns: Option<Count>,
    /// The judgement by the rules of AgentX; absent unless the workload has that scenario.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub agentx: Option<AgentxVerdict>,
    /// The length of the window that rates are over, summed over trials, in nanoseconds.
    pub duration_ns: Count,
    /// True if the point as a whole met its SLOs (99th percentile of each, failures counted as slowest); absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub slo_met: Option<bool>,
    /// Requests by the source of their output token count.
    pub token_sources: BTreeMap<String, Count>,
    /// Requests with a token count of the endpoint that is not used, by the reason.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub usage_faults: BTreeMap<String, Count>,
    /// Requests whose TPOT assumes that the first event brought one token.
    pub tpot_assumed: Count,
    /// The reason why there are no costs; absent if there are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cost_absent: Option<String>,
    /// Statistics that could not be computed, by metric, with the reason.
    pub absent: BTreeMap<String, String>,
    /// The start of latencies: the intended time (open loop) or the send time (closed loop).
    pub latency_from: String,
}

impl ServingPoint {
    /// The maximum number of kinds of failed requests that a point lists.
    pub const MAX_FAILURES: usize = 5;
}

/// One curve of a distribution: the value at each probability.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// `ttft`, `tpot`, `icl` or `e2e`.
    pub metric: String,
    /// The number of samples.
    pub n: Count,
    /// Failed requests: beyond every value of a latency that counts per request.
    pub failed: Count,
    /// Quantiles over the samples: `[probability, milliseconds]`, rising, linear interpolation.
    pub quantiles: Vec<[f64; 2]>,
}

/// A request in a timeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimelineRequest {
    /// Its global index.
    pub index: Count,
    /// Intended time (in a closed loop: send time), in milliseconds since the trial's start.
    pub start_ms: f64,
    /// Send time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub sent_ms: Option<f64>,
    /// First token event.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub first_ms: Option<f64>,
    /// Last token event, or the end of a failed request.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_ms: Option<f64>,
    /// The outcome of the request.
    pub outcome: String,
}

/// The requests of one trial, thinned if there are many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timeline {
    /// The trial.
    pub trial_id: TrialId,
    /// The attempt.
    pub attempt: u32,
    /// Requests of the measured phase.
    pub requests: Count,
    /// The selection of the shown requests: `all`, or the rule.
    pub thinning: String,
    /// The shown requests, by start.
    pub shown: Vec<TimelineRequest>,
}

/// A time slice of the window of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeSlice {
    /// Requests of both phases that succeeded and ended in the slice.
    pub ok: Count,
    /// Requests of both phases that did not succeed and ended in the slice.
    pub failed: Count,
    /// Output tokens of those that succeeded; absent if responses have none, or if one of them has no token count.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub output_tokens: Option<Count>,
    /// The samples of the latency: successful requests of the measured phase whose latency ended in the slice.
    pub samples: Count,
    /// The median of the latency, in milliseconds; absent without samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p50_ms: Option<f64>,
    /// The 99th percentile of the latency, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p99_ms: Option<f64>,
}

/// The window of a trial in time slices of equal length. Each slice holds its end and not its start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlicedTrial {
    /// The trial.
    pub trial_id: TrialId,
    /// The attempt.
    pub attempt: u32,
    /// From the trial's start to that of the window, in nanoseconds.
    pub from_ns: Count,
    /// From the trial's start to the end of the window, in nanoseconds.
    pub to_ns: Count,
    /// The slices, in their order.
    pub slices: Vec<TimeSlice>,
}

/// The course of the counted trials of a point over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeSlices {
    /// The latency: `ttft`, or `e2e` if responses are not streamed. A request counts in the slice in which its latency ended.
    pub latency: String,
    /// The trials, in the order of the plan.
    pub trials: Vec<SlicedTrial>,
}

/// The data that the plots of a point are drawn from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PointView {
    /// The case.
    pub case_id: CaseId,
    /// The point.
    pub point_id: PointId,
    /// Distributions over all requests of the counted trials.
    pub curves: Vec<Curve>,
    /// The requests of the first counted trial.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeline: Option<Timeline>,
    /// The counted trials over time; absent if none counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub time_slices: Option<TimeSlices>,
}

/// The data that the plots of a run are drawn from: a separate document beside the Summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Views {
    /// The serving points, in the plan's order.
    pub points: Vec<PointView>,
}

impl Views {
    /// The size limit of the document: a thousand points with their curves and timelines.
    pub const MAX_BYTES: u64 = 256 << 20;

    /// Parses the document that a Summary names.
    pub fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(bytes)
    }
}
