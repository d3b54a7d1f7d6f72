//! guidellm: the JSON report.

use serde_json::Value;

use crate::results::format::{
    Form, Label, Part, Place, Relation, ResultExample, ResultField, ResultFormat, SHORTENED, Scope, ScopeKind, Version, all,
    label, one,
};
use Relation::{Differs, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "guidellm",
    tool: "guidellm",
    versions: "0.7, from its files",
    recognised_by: "`benchmarks` and `metadata.guidellm_version`",
    examples: &[ResultExample {
        name: "concurrent",
        origin: SHORTENED,
        files: &[("benchmarks.json", include_str!("../examples/guidellm.json"))],
    }],
    parts: &[Part {
        name: "report",
        form: Form::Json,
        recognises: |document| {
            let version = document.get("metadata").and_then(|metadata| metadata.get("guidellm_version"));
            version.is_some_and(Value::is_string) && document.get("benchmarks").is_some_and(Value::is_array)
        },
        version: Version::OfTool("metadata/guidellm_version", &["0.7"]),
        scopes: &[
            Scope { at: "benchmarks[]", kind: ScopeKind::Statistics, labels: LABELS, fields: BENCHMARK },
            Scope { at: "benchmarks[]/metrics", kind: ScopeKind::Statistics, labels: LABELS, fields: METRICS },
            Scope { at: "benchmarks[]/requests/successful[]", kind: ScopeKind::Samples, labels: LABELS, fields: REQUESTS },
        ],
        not_read: &[
            ("config", "the configuration that is no label"),
            ("metadata", "the version of the report, of Python and of the system"),
            ("benchmarks[]/config", "the configuration that is no label"),
            ("benchmarks[]/scheduler_state", "the course of the scheduler"),
            ("benchmarks[]/scheduler_metrics", "times of the client's own work"),
            ("benchmarks[]/start_time", "absolute times"),
            ("benchmarks[]/end_time", "absolute times"),
            ("benchmarks[]/requests/errored", "requests that failed; `request_totals` has their number"),
            ("benchmarks[]/requests/incomplete", "requests that were not finished; `request_totals` has their number"),
            ("benchmarks[]/requests/successful[]/request_id", "a name"),
            ("benchmarks[]/requests/successful[]/response_id", "a name"),
            ("benchmarks[]/requests/successful[]/type_", "the layout of the report"),
            ("benchmarks[]/requests/successful[]/request_start_time", "absolute times of a request"),
            ("benchmarks[]/requests/successful[]/request_end_time", "absolute times of a request"),
            ("benchmarks[]/type_", "the layout of the report"),
            ("benchmarks[]/warmup_duration", "the configuration that is no label"),
            ("benchmarks[]/cooldown_duration", "the configuration that is no label"),
            ("benchmarks[]/requests/successful[]/request_args", "texts of requests"),
            ("benchmarks[]/requests/successful[]/output", "texts of responses"),
            ("benchmarks[]/requests/successful[]/info", "absolute times of a request"),
            ("benchmarks[]/requests/successful[]/input_metrics", "counts of words and characters"),
            ("benchmarks[]/requests/successful[]/output_metrics", "counts of words and characters"),
            ("benchmarks[]/metrics/text", "metrics by the kind of content"),
            ("benchmarks[]/metrics/image", "metrics by the kind of content"),
            ("benchmarks[]/metrics/video", "metrics by the kind of content"),
            ("benchmarks[]/metrics/audio", "metrics by the kind of content"),
            ("benchmarks[]/metrics/tool_call", "metrics by the kind of content"),
        ],
    }],
};

const LABELS: &[Label] = &[
    label("strategy", "config/strategy/type_"),
    label("concurrency", "config/strategy/streams"),
    label("request_rate", "config/strategy/rate"),
    label("max_concurrency", "config/strategy/max_concurrency"),
    label("rampup_duration", "config/strategy/rampup_duration"),
    label("max_requests", "config/constraints/max_requests/args/count"),
    label("max_duration", "config/constraints/max_duration/args/seconds"),
    label("request_format", "config/backend/request_format"),
    label("stream", "config/backend/stream"),
    label("dataset", "config/spec/data[kind=huggingface]/source"),
    label("prompt_tokens", "config/spec/data[kind=synthetic_text]/prompt_tokens"),
    label("prompt_tokens_stdev", "config/spec/data[kind=synthetic_text]/prompt_tokens_stdev"),
    label("prompt_tokens_min", "config/spec/data[kind=synthetic_text]/prompt_tokens_min"),
    label("prompt_tokens_max", "config/spec/data[kind=synthetic_text]/prompt_tokens_max"),
    label("output_tokens", "config/spec/data[kind=synthetic_text]/output_tokens"),
    label("output_tokens_stdev", "config/spec/data[kind=synthetic_text]/output_tokens_stdev"),
    label("output_tokens_min", "config/spec/data[kind=synthetic_text]/output_tokens_min"),
    label("output_tokens_max", "config/spec/data[kind=synthetic_text]/output_tokens_max"),
    label("turns", "config/spec/data[kind=synthetic_text]/turns"),
    Label { name: "prefix_buckets", place: Place::Whole("config/spec/data[kind=synthetic_text]/prefix_buckets") },
];
const START: &str = "counted from the start of the request; Assay counts from the intended time if a request has one";
// The mean of such a rate is the number over the time between the first and the last of the events, or the bounds that the tool gives: `rate_distribution_from_timings`
// of guidellm 0.7.3 has bounds for requests alone.
const REQUEST_RATE: &str = "statistics of the rate over time, each value weighted by how long it holds, so that the mean is the number over the duration; Assay divides by its window";
const PROMPT_RATE: &str = "statistics of the rate over time, each value weighted by how long it holds, so that the mean is the number over the time from the first to the last of the first tokens; Assay divides by its window";
const TOKEN_RATE: &str = "statistics of the rate over time, each value weighted by how long it holds, so that the mean is the number over the time from the first token of all to the last; Assay divides by its window";

static BENCHMARK: &[ResultField] = &[
    one("duration", "guidellm.duration", "s", "end of the measurement - its start", Unlike),
    one("metrics/request_totals/successful", "guidellm.successful_requests", "requests", "requests that succeeded", Unlike),
    one("metrics/request_totals/errored", "guidellm.failed_requests", "requests", "requests that failed", Unlike),
    one(
        "metrics/request_totals/incomplete",
        "guidellm.incomplete_requests",
        "requests",
        "requests that were not finished",
        Unlike,
    ),
    one("metrics/request_totals/total", "guidellm.requests", "requests", "all requests", Unlike),
];

static METRICS: &[ResultField] = &[
    all(
        "requests_per_second/successful",
        "guidellm.request_throughput",
        "requests/s",
        "requests per second",
        Differs("request_throughput_per_s", REQUEST_RATE),
    ),
    all("request_concurrency/successful", "guidellm.concurrency", "requests", "requests in flight, weighted by time", Unlike),
    all("request_latency/successful", "guidellm.e2e", "s", "request end - request start", E2E),
    all("request_streaming_iterations_count/successful", "guidellm.chunks", "1", "chunks of a response", Unlike),
    all("prompt_token_count/successful", "guidellm.input_tokens", "tokens", "input tokens of a request", Unlike),
    all("output_token_count/successful", "guidellm.output_tokens", "tokens", "output tokens of a request", Unlike),
    all("total_token_count/successful", "guidellm.total_tokens", "tokens", "input and output tokens of a request", Unlike),
    all("time_to_first_token_ms/successful", "guidellm.ttft", "ms", "first token - request start", TTFT),
    all("time_to_first_output_token_ms/successful", "guidellm.ttfo", "ms", "first token without reasoning - request start", TTFO),
    all(
        "time_per_output_token_ms/successful",
        "guidellm.time_per_output_token",
        "ms",
        "(last token - request start) / output tokens, weighted by tokens",
        E2E_PER_TOKEN,
    ),
    all(
        "inter_token_latency_ms/successful",
        "guidellm.itl",
        "ms",
        "(last token - first token) / (output tokens - 1), weighted by tokens",
        ITL,
    ),
    all(
        "prompt_tokens_per_second/successful",
        "guidellm.input_tokens_per_s",
        "tokens/s",
        "input tokens per second",
        Differs("input_tokens_per_s", PROMPT_RATE),
    ),
    all(
        "output_tokens_per_second/successful",
        "guidellm.output_tokens_per_s",
        "tokens/s",
        "output tokens per second",
        Differs("output_tokens_per_s", TOKEN_RATE),
    ),
    all(
        "tokens_per_second/successful",
        "guidellm.total_tokens_per_s",
        "tokens/s",
        "tokens per second",
        Differs("total_tokens_per_s", TOKEN_RATE),
    ),
];

static REQUESTS: &[ResultField] = &[
    one("request_latency", "guidellm.e2e", "s", "request end - request start", E2E),
    one("time_to_first_token_ms", "guidellm.ttft", "ms", "first token - request start", TTFT),
    one("time_to_first_output_token_ms", "guidellm.ttfo", "ms", "first token without reasoning - request start", TTFO),
    one(
        "time_per_output_token_ms",
        "guidellm.time_per_output_token",
        "ms",
        "(last token - request start) / output tokens",
        E2E_PER_TOKEN,
    ),
    one("inter_token_latency_ms", "guidellm.itl", "ms", "(last token - first token) / (output tokens - 1)", ITL),
    one("prompt_tokens", "guidellm.input_tokens", "tokens", "input tokens of a request", Unlike),
    one("output_tokens", "guidellm.output_tokens", "tokens", "output tokens of a request", Unlike),
    one("total_tokens", "guidellm.total_tokens", "tokens", "input and output tokens of a request", Unlike),
];

const TTFT: Relation = Differs("ttft_ms", START);
const TTFO: Relation = Differs("ttfo_ms", START);
const E2E: Relation = Differs(
    "e2e_ms",
    "counted to the end of the request; Assay counts to the last token event, from the intended time if there is one",
);
const E2E_PER_TOKEN: Relation = Differs("e2e_per_output_token_ms", "long responses count more, because each token is a sample");
const ITL: Relation = Differs(
    "tpot_ms",
    "the tool calls it inter-token latency; Assay subtracts the tokens of the first event; in statistics, long responses count more, because each token is a sample",
);
