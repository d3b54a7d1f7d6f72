//! `sglang.bench_serving --output-file`: one run a line.

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Label, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, all,
    has_numbers, label, one,
};
use Relation::{Differs, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "sglang",
    tool: "sglang.bench_serving",
    versions: "the fields of September 2026, by its source",
    recognised_by: "`total_output_tokens_retokenized` and `total_throughput` or `output_throughput`",
    examples: &[ResultExample {
        name: "two-runs",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("sglang_1129_8_random.jsonl", include_str!("../examples/sglang.jsonl"))],
    }],
    parts: &[Part {
        name: "result",
        form: Form::Prepared(|document, left_out| {
            left_out.take_out_failed_requests(document);
            Ok(())
        }),
        recognises: |document| has_numbers(document, &["total_output_tokens_retokenized", "output_throughput", "completed"]),
        version: Version::Unstated,
        scopes: &[
            Scope { at: "", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS },
            Scope {
                at: "ttfts[]",
                kind: ScopeKind::Samples,
                labels: LABELS,
                fields: &[one("", "sglang.ttft", "s", "time to the first token of a request that succeeded", TTFT)],
            },
            Scope {
                at: "itls[]",
                kind: ScopeKind::Samples,
                labels: LABELS,
                fields: &[one("", "sglang.itl", "s", "times between the chunks of a response, of a request that succeeded", ITL)],
            },
        ],
        not_read: &[
            ("generated_texts", "texts of responses"),
            ("errors", "texts of errors"),
            ("input_lens", "lengths of prompts; `total_input_tokens` has their sum"),
            ("output_lens", "lengths of responses; `total_output_tokens` has their sum"),
            ("server_info", "the configuration of the server, which is no result"),
        ],
    }],
};

const LABELS: &[Label] = &[
    label("tag", "tag"),
    label("backend", "backend"),
    label("dataset_name", "dataset_name"),
    label("request_rate", "request_rate"),
    label("max_concurrency", "max_concurrency"),
    label("random_input_len", "random_input_len"),
    label("random_output_len", "random_output_len"),
    label("random_range_ratio", "random_range_ratio"),
    label("sharegpt_output_len", "sharegpt_output_len"),
];
const WAIT: &str =
    "counted from the send time, after the wait for `max_concurrency`; Assay counts from the intended time, which includes it";
const TTFT: Relation = Differs("ttft_ms", WAIT);
const ITL: Relation = Differs("icl_ms", "the tool calls it ITL; the gaps of all responses are put together");
const DURATION: &str =
    "over the time from the first send time to the last response, ramp and drain included; Assay takes its window";

static FIELDS: &[ResultField] = &[
    all("{}_ttft_ms", "sglang.ttft", "ms", "first chunk with a token - send time", TTFT),
    all(
        "{}_tpot_ms",
        "sglang.tpot",
        "ms",
        "(latency - TTFT) / (output tokens - 1) of a request",
        Differs("tpot_ms", "Assay subtracts the tokens of the first event"),
    ),
    all("{}_itl_ms", "sglang.itl", "ms", "time between the chunks of a response", ITL),
    all("{}_e2e_latency_ms", "sglang.e2e", "ms", "last chunk - send time", Differs("e2e_ms", WAIT)),
    one("duration", "sglang.duration", "s", "last response - first send time", Unlike),
    one("completed", "sglang.completed_requests", "requests", "requests that succeeded", Unlike),
    one("total_input_tokens", "sglang.total_input_tokens", "tokens", "input tokens of requests that succeeded", Unlike),
    one("total_output_tokens", "sglang.total_output_tokens", "tokens", "output tokens that were requested or reported", Unlike),
    one(
        "total_output_tokens_retokenized",
        "sglang.total_output_tokens_retokenized",
        "tokens",
        "tokens of the texts of responses, counted again by the client",
        Unlike,
    ),
    one(
        "request_throughput",
        "sglang.request_throughput",
        "requests/s",
        "completed / duration",
        Differs("request_throughput_per_s", DURATION),
    ),
    one(
        "input_throughput",
        "sglang.input_tokens_per_s",
        "tokens/s",
        "input tokens / duration",
        Differs("input_tokens_per_s", DURATION),
    ),
    one(
        "output_throughput",
        "sglang.output_tokens_per_s",
        "tokens/s",
        "output tokens / duration",
        Differs("output_tokens_per_s", DURATION),
    ),
    one(
        "output_throughput_retokenized",
        "sglang.output_tokens_retokenized_per_s",
        "tokens/s",
        "tokens counted again by the client / duration",
        Unlike,
    ),
    one(
        "total_throughput",
        "sglang.total_tokens_per_s",
        "tokens/s",
        "(input + output tokens) / duration",
        Differs("total_tokens_per_s", DURATION),
    ),
    one("concurrency", "sglang.mean_concurrency", "requests", "sum of latencies / duration", Unlike),
    one("accept_length", "sglang.accept_length", "tokens", "tokens per step of speculative decoding, by the server", Unlike),
    one("max_output_tokens_per_s", "sglang.peak_output_tokens_per_s", "tokens/s", "the most tokens of one second", Unlike),
    one("max_concurrent_requests", "sglang.peak_concurrency", "requests", "the most requests in flight in one second", Unlike),
];
