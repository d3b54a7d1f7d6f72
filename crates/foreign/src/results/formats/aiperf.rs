//! AIPerf: `profile_export_aiperf.json` and `profile_export.jsonl`.

use serde_json::{Value, json};

use crate::failed;
use crate::results::format::{
    Form, Label, Part, Place, Relation, ResultExample, ResultField, ResultFormat, SHORTENED, Scope, ScopeKind, Shape, Unit,
    Version, label,
};
use crate::results::left_out::LeftOut;
use Relation::{Differs, Equal, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "aiperf",
    tool: "AIPerf",
    versions: "0.13, from its source and its files",
    recognised_by: "`aiperf_version` and `request_throughput` or `request_latency` (summary); `metadata` and `metrics` with `unit` and `value` (requests)",
    examples: &[ResultExample {
        name: "concurrency",
        origin: SHORTENED,
        files: &[
            ("profile_export_aiperf.json", include_str!("../examples/aiperf-summary.json")),
            ("profile_export.jsonl", include_str!("../examples/aiperf-requests.jsonl")),
        ],
    }],
    parts: &[
        Part {
            name: "summary",
            form: Form::Prepared(|summary, left_out| {
                leave_out_incomplete(summary, left_out);
                Ok(())
            }),
            recognises: |document| {
                document.get("aiperf_version").is_some_and(Value::is_string)
                    && ["request_latency", "request_throughput", "error_summary"].iter().any(|name| document.get(name).is_some())
            },
            version: Version::OfTool("aiperf_version", &["0.13"]),
            scopes: &[Scope { at: "", kind: ScopeKind::Statistics, labels: LABELS, fields: SUMMARY }],
            not_read: &[
                ("input_config/datasets[]/random_seed", "the seed, by which repetitions of one load may differ"),
                ("input_config", "the configuration that is no label"),
                ("run_info", "the command line and the seed, which are no results"),
                ("telemetry_data", "telemetry of GPUs"),
                ("server_metrics", "metrics of the server"),
                ("error_summary", "texts of errors; `request_error_rate` and `error_request_count` have their number"),
                ("start_time", "an absolute time"),
                ("end_time", "an absolute time"),
                ("schema_version", "the version of the file's layout"),
                ("benchmark_id", "a name"),
                ("was_cancelled", "a state"),
                ("is_complete", "a state"),
            ],
        },
        Part {
            name: "requests",
            form: Form::Prepared(|request, left_out| {
                leave_out_failed(request, left_out);
                Ok(())
            }),
            recognises: |document| {
                let has_request = document.get("metadata").and_then(|metadata| metadata.get("request_start_ns")).is_some();
                has_request && document.get("metrics").is_some_and(Value::is_object)
            },
            version: Version::Unstated,
            scopes: &[Scope {
                at: "",
                kind: ScopeKind::Samples,
                labels: &[label("phase", "metadata/benchmark_phase")],
                fields: REQUESTS,
            }],
            not_read: &[("metadata", "names and absolute times of a request"), ("error", "the text of an error")],
        },
    ],
};

/// The dataset of a command line has the name `main`.
const LABELS: &[Label] = &[
    label("concurrency", "input_config/phases[kind=profiling]/concurrency"),
    label("request_rate", "input_config/phases[kind=profiling]/rate"),
    label("load", "input_config/phases[kind=profiling]/type"),
    label("requests", "input_config/phases[kind=profiling]/requests"),
    label("duration", "input_config/phases[kind=profiling]/duration"),
    label("endpoint_type", "input_config/endpoint/type"),
    label("streaming", "input_config/endpoint/streaming"),
    Label { name: "extra", place: Place::Members { at: "input_config/endpoint/extra", but: &[] } },
    Label { name: "slo", place: Place::Members { at: "input_config/slos", but: &[] } },
    label("dataset_type", "input_config/datasets[name=main]/type"),
    label("dataset", "input_config/datasets[name=main]/dataset"),
    label("entries", "input_config/datasets[name=main]/entries"),
    label("input_tokens", "input_config/datasets[name=main]/prompts/isl/mean"),
    label("input_stddev", "input_config/datasets[name=main]/prompts/isl/stddev"),
    label("output_tokens", "input_config/datasets[name=main]/prompts/osl/mean"),
    label("output_stddev", "input_config/datasets[name=main]/prompts/osl/stddev"),
    label("turns", "input_config/datasets[name=main]/turns/mean"),
    // A seed tells repetitions of one load apart, and not loads.
    Label {
        name: "phase",
        place: Place::Members { at: "input_config/phases[kind=profiling]", but: &["name", "kind", "random_seed"] },
    },
    Label { name: "datasets", place: Place::Members { at: "input_config/datasets", but: &["name", "random_seed"] } },
];

/// Leaves a summary out whose run was cancelled, except for the version of the tool.
fn leave_out_incomplete(summary: &mut Value, left_out: &mut LeftOut) {
    if let Some(why) = failed::aiperf_summary(summary) {
        let version = summary.as_object_mut().and_then(|members| members.remove("aiperf_version"));
        left_out.add("(summary)", why, summary);
        *summary = json!({"aiperf_version": version});
    }
}

/// Leaves a request out that failed, was skipped or was cancelled.
fn leave_out_failed(request: &mut Value, left_out: &mut LeftOut) {
    if let Some(why) = failed::aiperf_request(request) {
        left_out.add("(request)", why, request);
        *request = json!({});
    }
}

const UNITS: &[(&str, &str)] = &[
    ("ms", "ms"),
    ("sec", "s"),
    ("tokens", "tokens"),
    ("tokens/sec", "tokens/s"),
    ("tokens/sec/user", "tokens/s/user"),
    ("requests", "requests"),
    ("requests/sec", "requests/s"),
    ("KB", "KB"),
    ("count", "1"),
    ("ratio", "ratio"),
    ("%", "%"),
];

const SEND: &str =
    "counted from the send time, the time to connect included; Assay counts from the intended time if a request has one";
// AIPerf 0.13.0 derives its rates from the bounds of the phase (`RecordsManager`, `ExportContext`), and not from its `benchmark_duration`.
const DURATION: &str = "over the time of the phase (`end_time` - `start_time`), which begins before the first request and includes ramp and drain; Assay takes its window";
const CLIENT_TOKENS: &str = "tokens by the client's tokenizer unless the server's counts are requested";

/// Makes the fields of both files: those of the summary, and those of a request.
macro_rules! metrics {
    ($($tag:literal => $metric:literal, $definition:expr, $relation:expr;)+) => {
        static SUMMARY: &[ResultField] = &[$(ResultField {
            field: $tag,
            metric: $metric,
            unit: Unit::StatedAt("unit", UNITS),
            shape: Shape::Statistics,
            definition: $definition,
            relation: $relation,
        }),+];
        static REQUESTS: &[ResultField] = &[$(ResultField {
            field: concat!("metrics/", $tag, "/value"),
            metric: $metric,
            unit: Unit::StatedAt("unit", UNITS),
            shape: Shape::Number("value"),
            definition: $definition,
            relation: $relation,
        }),+];
    };
}

metrics! {
    "time_to_first_token" => "aiperf.ttft", "first content - send time", Differs("ttft_ms", SEND);
    "time_to_first_output_token" => "aiperf.ttfo", "first content without reasoning - send time", Differs("ttfo_ms", SEND);
    "time_to_second_token" => "ttst_ms", "second content - first content", Equal;
    "request_latency" => "aiperf.e2e", "last content - send time", Differs("e2e_ms", SEND);
    "inter_token_latency" => "aiperf.itl", "(request latency - TTFT) / (output tokens - 1) of a request",
        Differs("tpot_ms", "Assay calls this TPOT, and subtracts the tokens of the first event; its ITL is between token events");
    "inter_chunk_latency" => "icl_ms", "content - content before, in each response", Equal;
    "decode_duration" => "aiperf.decode_duration", "request latency - TTFT", Unlike;
    "effective_latency" => "aiperf.effective_latency", "end - time at which the request was permitted", Unlike;
    "credit_to_start_latency" => "aiperf.credit_to_start", "send time - time at which the request was permitted, at least 0",
        Differs("send_lateness_ms", "counted from the permission to send, which waits for earlier responses; Assay counts from the intended time");
    "output_token_throughput_per_user" => "aiperf.output_tokens_per_user_per_s", "1 / inter-token latency of a request",
        Differs("output_tokens_per_user_per_s", "1 / AIPerf's inter-token latency");
    "prefill_throughput_per_user" => "aiperf.prefill_tokens_per_user_per_s", "input tokens / TTFT of a request",
        Differs("prefill_tokens_per_s", "cached tokens included");
    "e2e_output_token_throughput" => "aiperf.e2e_output_tokens_per_s", "output tokens / request latency of a request", Unlike;
    "output_sequence_length" => "aiperf.output_tokens", "output and reasoning tokens of a response", Differs("output_tokens", CLIENT_TOKENS);
    "output_token_count" => "aiperf.output_tokens_without_reasoning", "output tokens of a response, without reasoning", Unlike;
    "reasoning_token_count" => "aiperf.reasoning_tokens", "reasoning tokens of a response", Unlike;
    "input_sequence_length" => "aiperf.input_tokens", "input tokens of a request", Differs("input_tokens", CLIENT_TOKENS);
    "request_throughput" => "aiperf.request_throughput", "valid requests / time of the phase", Differs("request_throughput_per_s", DURATION);
    "output_token_throughput" => "aiperf.output_tokens_per_s", "output tokens / time of the phase", Differs("output_tokens_per_s", DURATION);
    "total_token_throughput" => "aiperf.total_tokens_per_s", "(input + output tokens) / time of the phase", Differs("total_tokens_per_s", DURATION);
    "input_token_throughput" => "aiperf.input_tokens_per_s", "input tokens / time of the phase", Differs("input_tokens_per_s", DURATION);
    "goodput" => "aiperf.goodput", "requests that met every SLO / time of the phase", Differs("goodput_requests_per_s", DURATION);
    "good_request_count" => "aiperf.good_requests", "requests that met every SLO", Unlike;
    "good_request_fraction" => "aiperf.good_fraction", "good requests / (valid requests + errors)",
        Differs("good_fraction", "requests that were never sent are not counted");
    "request_count" => "aiperf.valid_requests", "requests without an error", Unlike;
    "completed_request_count" => "aiperf.completed_requests", "requests that ended, with or without an error", Unlike;
    "error_request_count" => "aiperf.failed_requests", "requests with an error", Unlike;
    "request_error_rate" => "aiperf.error_rate", "100 x errors / (valid requests + errors)",
        Differs("error_rate", "in percent, and requests that were never sent are not counted");
    "benchmark_duration" => "aiperf.duration", "last response - first send time", Unlike;
    "total_output_tokens" => "aiperf.total_output_tokens_without_reasoning", "output tokens of all requests, without reasoning", Unlike;
    "total_isl" => "aiperf.total_input_tokens", "input tokens of all requests", Unlike;
    "total_osl" => "aiperf.total_output_tokens", "output and reasoning tokens of all requests", Unlike;
    "usage_prompt_tokens" => "aiperf.usage_input_tokens", "input tokens by the server", Unlike;
    "usage_completion_tokens" => "aiperf.usage_output_tokens", "output tokens by the server", Unlike;
    "usage_total_tokens" => "aiperf.usage_total_tokens", "input and output tokens by the server", Unlike;
    "usage_prompt_cache_read_tokens" => "aiperf.usage_cached_tokens", "input tokens that the server found in its cache", Unlike;
    "osl_mismatch_diff_pct" => "aiperf.output_length_difference", "100 x (output tokens - requested) / requested", Unlike;
    "http_req_blocked" => "aiperf.http_blocked", "wait for a connection of the pool", Unlike;
    "http_req_dns_lookup" => "aiperf.http_dns_lookup", "name resolution; 0 if none", Unlike;
    "http_req_connecting" => "aiperf.http_connecting", "TCP and TLS together; 0 if the connection was open",
        Differs("connect_ms", "0 for a request on an open connection");
    "http_req_sending" => "aiperf.http_sending", "send end - send start", Unlike;
    "http_req_waiting" => "aiperf.http_waiting", "first byte of the body - send end", Unlike;
    "http_req_receiving" => "aiperf.http_receiving", "last byte - first byte", Unlike;
    "http_req_duration" => "aiperf.http_duration", "receive end - send start", Unlike;
    "http_req_connection_overhead" => "aiperf.http_connection_overhead", "blocked + name resolution + connecting", Unlike;
    "http_req_total" => "aiperf.http_total", "blocked + name resolution + connecting + sending + waiting + receiving", Unlike;
    "effective_concurrency" => "aiperf.effective_concurrency", "requests in flight, weighted by time", Unlike;
    "effective_prefill_concurrency" => "aiperf.effective_prefill_concurrency", "requests before their first content, weighted by time", Unlike;
    "effective_decode_concurrency" => "aiperf.effective_decode_concurrency", "requests after their first content, weighted by time", Unlike;
}
