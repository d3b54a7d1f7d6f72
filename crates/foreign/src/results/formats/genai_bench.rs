//! genai-bench: the files of an experiment's folder.

use serde_json::Value;

use crate::failed;
use crate::results::format::{
    Form, Label, Part, Place, Relation, ResultExample, ResultField, ResultFormat, SHORTENED, Scope, ScopeKind, Shape, Unit,
    Version, label, one,
};
use Relation::{Differs, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "genai-bench",
    tool: "genai-bench",
    versions: "0.0.5, from its source and its files",
    recognised_by: "`aggregated_metrics` and `individual_request_metrics` (run); `benchmark_version` and `api_backend` (metadata)",
    examples: &[ResultExample {
        name: "experiment",
        origin: SHORTENED,
        files: &[
            ("D50_10_text-to-text_num_concurrency_1_time_1s.json", include_str!("../examples/genai-bench-1.json")),
            ("D50_10_text-to-text_num_concurrency_2_time_1s.json", include_str!("../examples/genai-bench-2.json")),
            ("experiment_metadata.json", include_str!("../examples/genai-bench-metadata.json")),
        ],
    }],
    parts: &[
        Part {
            name: "run",
            form: Form::Prepared(|document, left_out| {
                let list = "individual_request_metrics";
                left_out.take_out(document, list, "individual_request_metrics[]", failed::genai_bench_request);
                Ok(())
            }),
            recognises: |document| {
                let is_list = document.get("individual_request_metrics").is_some_and(Value::is_array);
                is_list
                    && document.get("aggregated_metrics").and_then(|metrics| metrics.get("stats")).is_some_and(Value::is_object)
            },
            version: Version::Unstated,
            scopes: &[
                Scope { at: "aggregated_metrics", kind: ScopeKind::Statistics, labels: RUN_LABELS, fields: RUN },
                Scope { at: "aggregated_metrics/stats", kind: ScopeKind::Statistics, labels: RUN_LABELS, fields: STATISTICS },
                Scope { at: "individual_request_metrics[]", kind: ScopeKind::Samples, labels: REQUEST_LABELS, fields: REQUESTS },
            ],
            not_read: &[
                ("aggregated_metrics/error_codes_frequency", "numbers of errors by code; `num_error_requests` has their sum"),
                (
                    "aggregated_metrics/error_rate",
                    "version 0.0.5 always writes 0: `num_error_requests` and `num_requests` have the numbers",
                ),
                ("aggregated_metrics/iteration_type", "the kind of the load"),
                ("individual_request_metrics[]/error_code", "the code of an error"),
                ("individual_request_metrics[]/error_message", "the text of an error"),
            ],
        },
        Part {
            name: "metadata",
            form: Form::Json,
            recognises: |document| {
                ["benchmark_version", "api_backend", "traffic_scenario"].iter().all(|name| document.get(name).is_some())
            },
            version: Version::OfTool("benchmark_version", &["0.0.5"]),
            scopes: &[Scope { at: "", kind: ScopeKind::Beside, labels: METADATA_LABELS, fields: &[] }],
            not_read: METADATA,
        },
    ],
};

const CONFIGURATION: &str = "the configuration, which is no result";

/// The members of the metadata that state how the requests of all runs were made.
const METADATA_LABELS: &[Label] = &[
    label("api_backend", "api_backend"),
    label("task", "task"),
    label("max_time_per_run_s", "max_time_per_run_s"),
    label("max_requests_per_run", "max_requests_per_run"),
    label("dataset_path", "dataset_path"),
    Label { name: "request", place: Place::Members { at: "additional_request_params", but: &[] } },
];

const METADATA: &[(&str, &str)] = &[
    ("cmd", "the command line, which is no result"),
    ("auth_config", CONFIGURATION),
    ("api_model_name", CONFIGURATION),
    ("server_model_tokenizer", CONFIGURATION),
    ("model", CONFIGURATION),
    ("num_concurrency", CONFIGURATION),
    ("batch_size", CONFIGURATION),
    ("iteration_type", CONFIGURATION),
    ("traffic_scenario", CONFIGURATION),
    ("server_engine", "a declaration of the server"),
    ("server_version", "a declaration of the server"),
    ("server_gpu_type", "a declaration of the server"),
    ("server_gpu_count", "a declaration of the server"),
    ("experiment_folder_name", "a path"),
    ("metrics_time_unit", "each file of a run states it"),
];

const RUN_LABELS: &[Label] =
    &[label("scenario", "scenario"), label("concurrency", "num_concurrency"), label("batch_size", "batch_size")];
const REQUEST_LABELS: &[Label] = &[
    label("scenario", "aggregated_metrics/scenario"),
    label("concurrency", "aggregated_metrics/num_concurrency"),
    label("batch_size", "aggregated_metrics/batch_size"),
];
const TIMES: Unit = Unit::StatedAt("_time_unit", &[("s", "s"), ("ms", "ms")]);
const SEND: &str = "counted from the send time, with the connection that each request opens; Assay counts from the intended time if a request has one";
const RUN_TIME: &str = "over the time of the whole run, ramp, drain and polling included, also if warm-up requests are left out; Assay takes its window";
const END: &str = "counted to the end of the stream; Assay counts to the last token event";
const END_OF_TOKENS: &str =
    "counted to the end of the stream; Assay counts to the last token event, and subtracts the tokens of the first one";

static RUN: &[ResultField] = &[
    one("run_duration", "genai-bench.run_duration", "s", "time of the whole run; always in seconds", Unlike),
    one(
        "mean_output_throughput_tokens_per_s",
        "genai-bench.output_tokens_per_s",
        "tokens/s",
        "output tokens / run duration",
        Differs("output_tokens_per_s", RUN_TIME),
    ),
    one(
        "mean_input_throughput_tokens_per_s",
        "genai-bench.input_tokens_per_s",
        "tokens/s",
        "input tokens / run duration",
        Differs("input_tokens_per_s", RUN_TIME),
    ),
    one(
        "mean_total_tokens_throughput_tokens_per_s",
        "genai-bench.total_tokens_per_s",
        "tokens/s",
        "(input + output tokens) / run duration",
        Differs("total_tokens_per_s", RUN_TIME),
    ),
    one(
        "requests_per_second",
        "genai-bench.request_throughput",
        "requests/s",
        "completed requests / run duration",
        Differs("request_throughput_per_s", RUN_TIME),
    ),
    one(
        "num_error_requests",
        "genai-bench.failed_requests",
        "requests",
        "requests with an error; killed and dropped ones are not counted",
        Unlike,
    ),
    one("num_completed_requests", "genai-bench.completed_requests", "requests", "requests without an error", Unlike),
    one("num_requests", "genai-bench.requests", "requests", "completed requests and errors", Unlike),
];

/// Makes the fields of the statistics of a run, and those of a request.
macro_rules! metrics {
    ($($field:literal => $metric:literal, $unit:expr, $definition:expr, $relation:expr;)+) => {
        static STATISTICS: &[ResultField] = &[$(ResultField {
            field: $field, metric: $metric, unit: $unit, shape: Shape::Statistics, definition: $definition, relation: $relation,
        }),+];
        static REQUESTS: &[ResultField] = &[$(ResultField {
            field: $field, metric: $metric, unit: $unit, shape: Shape::Number("value"), definition: $definition, relation: $relation,
        }),+];
    };
}

metrics! {
    "ttft" => "genai-bench.ttft", TIMES, "first chunk with content or reasoning - start", Differs("ttft_ms", SEND);
    "tpot" => "genai-bench.tpot", TIMES, "(end - first chunk) / (output tokens - 1)", Differs("tpot_ms", END_OF_TOKENS);
    "e2e_latency" => "genai-bench.e2e", TIMES, "end of the stream - start", Differs("e2e_ms", END);
    "output_latency" => "genai-bench.output_latency", TIMES, "e2e_latency - ttft", Unlike;
    "output_inference_speed" => "genai-bench.output_tokens_per_user_per_s", Unit::Is("tokens/s/user"), "1 / tpot, in tokens per second", Differs("output_tokens_per_user_per_s", END_OF_TOKENS);
    "num_input_tokens" => "genai-bench.input_tokens", Unit::Is("tokens"), "by the server, else counted without special tokens", Differs("input_tokens", "the client's count if the server reports none");
    "num_output_tokens" => "genai-bench.output_tokens", Unit::Is("tokens"), "by the server, reasoning included, else counted from the text", Differs("output_tokens", "the client's count if the server reports none");
    "num_reasoning_tokens" => "genai-bench.reasoning_tokens", Unit::Is("tokens"), "by the server, else counted from the text, else 0", Unlike;
    "total_tokens" => "genai-bench.total_tokens", Unit::Is("tokens"), "input and output tokens of a request", Unlike;
    "input_throughput" => "genai-bench.prefill_tokens_per_s", Unit::Is("tokens/s"), "input tokens / ttft of a request", Differs("prefill_tokens_per_s", "cached tokens included");
    "output_throughput" => "genai-bench.request_output_tokens_per_s", Unit::Is("tokens/s"), "(output tokens - 1) / output_latency of a request, also of responses in one piece", Unlike;
    "audio_throughput" => "genai-bench.audio_bytes_per_s", Unit::Is("bytes/s"), "bytes / (e2e_latency - ttft)", Unlike;
}
