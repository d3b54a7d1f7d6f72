//! `vllm bench serve --save-result`.

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, all,
    has_numbers, label, one,
};
use Relation::{Differs, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "vllm",
    tool: "vllm bench serve",
    versions: "the fields of September 2026, by its source",
    recognised_by: "`total_input_tokens`, `total_token_throughput`, `duration` and `completed`",
    examples: &[ResultExample {
        name: "rate",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("vllm-4.0qps-m.json", include_str!("../examples/vllm.json"))],
    }],
    parts: &[Part {
        name: "result",
        form: Form::Prepared(|document, left_out| {
            left_out.take_out_failed_requests(document);
            Ok(())
        }),
        recognises: |document| has_numbers(document, &["duration", "completed", "total_input_tokens", "total_token_throughput"]),
        version: Version::Unstated,
        scopes: &[
            Scope { at: "", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS },
            Scope {
                at: "ttfts[]",
                kind: ScopeKind::Samples,
                labels: LABELS,
                fields: &[one("", "vllm.ttft", "s", "time to the first token of a request that succeeded", TTFT)],
            },
            Scope {
                at: "itls[]",
                kind: ScopeKind::Samples,
                labels: LABELS,
                fields: &[one("", "vllm.itl", "s", "times between the chunks of a response, of a request that succeeded", ITL)],
            },
        ],
        not_read: &[
            ("generated_texts", "texts of responses"),
            ("errors", "texts of errors; `failed` has their number"),
            ("input_lens", "lengths of prompts; `total_input_tokens` has their sum"),
            ("output_lens", "lengths of responses; `total_output_tokens` has their sum"),
            ("start_times", "absolute times"),
            ("date", "a time without a zone"),
            ("endpoint_type", "the kind of the client, which `backend` has as well"),
            ("label", "a name"),
            ("tokenizer_id", "a name"),
        ],
    }],
};

/// The files do not state the dataset and the lengths.
const LABELS: &[crate::results::format::Label] = &[
    label("model", "model_id"),
    label("backend", "backend"),
    label("num_prompts", "num_prompts"),
    label("request_rate", "request_rate"),
    label("burstiness", "burstiness"),
    label("concurrency", "max_concurrency"),
    label("ramp_up_strategy", "ramp_up_strategy"),
    label("ramp_up_start_rps", "ramp_up_start_rps"),
    label("ramp_up_end_rps", "ramp_up_end_rps"),
];

const WAIT: &str =
    "counted from the send time, after the wait for `max_concurrency`; Assay counts from the intended time, which includes it";
const TTFT: Relation = Differs("ttft_ms", WAIT);
const ITL: Relation = Differs(
    "icl_ms",
    "the tool calls it ITL; the gaps of all responses are put together, those of chunks without a token included",
);
const DURATION: &str =
    "over the time from the first send time to the last response, ramp and drain included; Assay takes its window";

static FIELDS: &[ResultField] = &[
    all("{}_ttft_ms", "vllm.ttft", "ms", "first chunk with a token - send time", TTFT),
    all(
        "{}_tpot_ms",
        "vllm.tpot",
        "ms",
        "(latency - TTFT) / (output tokens - 1) of a request",
        Differs("tpot_ms", "Assay subtracts the tokens of the first event"),
    ),
    all("{}_itl_ms", "vllm.itl", "ms", "time between the chunks of a response", ITL),
    all("{}_e2el_ms", "vllm.e2e", "ms", "last chunk - send time", Differs("e2e_ms", WAIT)),
    all(
        "{}_client_queue_time_ms",
        "vllm.client_queue_time",
        "ms",
        "the wait for `max_concurrency`",
        Differs("queue_wait_ms", "of requests that were sent, without those that Assay counts as 0"),
    ),
    one("duration", "vllm.duration", "s", "last response - first send time", Unlike),
    one("completed", "vllm.completed_requests", "requests", "requests that succeeded", Unlike),
    one("failed", "vllm.failed_requests", "requests", "requests that failed", Unlike),
    one("total_input_tokens", "vllm.total_input_tokens", "tokens", "input tokens of requests that succeeded", Unlike),
    one("total_output_tokens", "vllm.total_output_tokens", "tokens", "output tokens of requests that succeeded", Unlike),
    one(
        "request_throughput",
        "vllm.request_throughput",
        "requests/s",
        "completed / duration",
        Differs("request_throughput_per_s", DURATION),
    ),
    one(
        "request_goodput",
        "vllm.goodput",
        "requests/s",
        "requests that met every SLO / duration",
        Differs("goodput_requests_per_s", DURATION),
    ),
    one(
        "output_throughput",
        "vllm.output_tokens_per_s",
        "tokens/s",
        "output tokens / duration",
        Differs("output_tokens_per_s", DURATION),
    ),
    one(
        "total_token_throughput",
        "vllm.total_tokens_per_s",
        "tokens/s",
        "(input + output tokens) / duration",
        Differs("total_tokens_per_s", DURATION),
    ),
    one(
        "max_output_tokens_per_s",
        "vllm.peak_output_chunks_per_s",
        "1/s",
        "the most chunks of one second, which the tool calls tokens",
        Unlike,
    ),
    one("max_concurrent_requests", "vllm.peak_concurrency", "requests", "the most requests in flight in one second", Unlike),
];
