//! inference-perf: `summary_lifecycle_metrics.json` and those of its stages.

use serde_json::Value;

use crate::results::format::Label;
use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, all, label,
    one,
};
use crate::results::left_out::LeftOut;
use Relation::{Differs, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "inference-perf",
    tool: "inference-perf",
    versions: "0.6.0 to 0.7.0, by its source",
    recognised_by: "`load_summary`, `successes` and `failures`",
    examples: &[ResultExample {
        name: "summary",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("summary_lifecycle_metrics.json", include_str!("../examples/inference-perf.json"))],
    }],
    parts: &[Part {
        name: "lifecycle",
        form: Form::Prepared(|document, left_out| {
            take_out_rate_of_closed_loop(document, left_out);
            Ok(())
        }),
        recognises: |document| {
            ["load_summary", "successes", "failures"].iter().all(|name| document.get(name).is_some_and(Value::is_object))
        },
        version: Version::Unstated,
        scopes: &[Scope { at: "", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS }],
        not_read: &[],
    }],
};

const LABELS: &[Label] =
    &[label("request_rate", "load_summary/requested_rate"), label("concurrency", "load_summary/concurrency")];
/// Takes the rate out of a report of a closed loop: the tool sets it to the number of requests, for its own scheduling (`main.py`), and states it as the
/// requested rate.
fn take_out_rate_of_closed_loop(document: &mut Value, left_out: &mut LeftOut) {
    let Some(summary) = document.get_mut("load_summary").and_then(Value::as_object_mut) else { return };
    if summary.get("concurrency").is_some_and(Value::is_number)
        && let Some(rate) = summary.remove("requested_rate")
    {
        left_out.add(
            "load_summary/requested_rate",
            "a closed loop has no rate: the tool writes the number of requests here",
            &rate,
        );
    }
}

const SEND: &str =
    "counted from the actual send time, without lateness; Assay counts from the intended time if a request has one";
const SEND_TO_END: &str = "counted from the actual send time, without lateness, to the end of the response; Assay counts to the last token event, from the intended time if a request has one";
const RUN_TIME: &str = "over the time of the run; Assay takes its window";

static FIELDS: &[ResultField] = &[
    one("load_summary/count", "inference-perf.requests", "requests", "all requests", Unlike),
    one("load_summary/achieved_rate", "inference-perf.achieved_rate", "requests/s", "requests / time of sending them", Unlike),
    one("load_summary/send_duration", "inference-perf.send_duration", "s", "last send time - first send time", Unlike),
    all(
        "load_summary/schedule_delay",
        "inference-perf.schedule_delay",
        "s",
        "send time - scheduled time",
        Differs("send_lateness_ms", "the wait for a worker is a part of it"),
    ),
    one("successes/count", "inference-perf.successful_requests", "requests", "requests that succeeded", Unlike),
    all(
        "successes/latency/request_latency",
        "inference-perf.request_latency",
        "s",
        "end - send time",
        Differs("e2e_ms", SEND_TO_END),
    ),
    all("successes/latency/time_to_first_token", "inference-perf.ttft", "s", "first token - send time", Differs("ttft_ms", SEND)),
    all(
        "successes/latency/time_per_output_token",
        "inference-perf.tpot",
        "s",
        "(last token - first token) / (output tokens - 1)",
        Differs("tpot_ms", "Assay subtracts the tokens of the first event"),
    ),
    all(
        "successes/latency/normalized_time_per_output_token",
        "inference-perf.ntpot",
        "s",
        "request latency / output tokens",
        Differs("e2e_per_output_token_ms", SEND_TO_END),
    ),
    all(
        "successes/latency/inter_token_latency",
        "inference-perf.itl",
        "s",
        "time between tokens of a response, each of which has the time of its chunk",
        Differs(
            "icl_ms",
            "the tool calls it inter-token latency; the tokens of one chunk have gaps of 0, and Assay has a gap for each chunk alone",
        ),
    ),
    one(
        "successes/throughput/input_tokens_per_sec",
        "inference-perf.input_tokens_per_s",
        "tokens/s",
        "input tokens / time of the run",
        Differs("input_tokens_per_s", RUN_TIME),
    ),
    one(
        "successes/throughput/output_tokens_per_sec",
        "inference-perf.output_tokens_per_s",
        "tokens/s",
        "output tokens / time of the run",
        Differs("output_tokens_per_s", RUN_TIME),
    ),
    one(
        "successes/throughput/total_tokens_per_sec",
        "inference-perf.total_tokens_per_s",
        "tokens/s",
        "(input + output tokens) / time of the run",
        Differs("total_tokens_per_s", RUN_TIME),
    ),
    one(
        "successes/throughput/requests_per_sec",
        "inference-perf.request_throughput",
        "requests/s",
        "successful requests / time of the run",
        Differs("request_throughput_per_s", RUN_TIME),
    ),
    all("successes/prompt_len", "inference-perf.input_tokens", "tokens", "input tokens of a request", Unlike),
    all("successes/output_len", "inference-perf.output_tokens", "tokens", "output tokens of a request", Unlike),
    one("failures/count", "inference-perf.failed_requests", "requests", "requests that failed", Unlike),
    all(
        "failures/request_latency",
        "inference-perf.failed_request_latency",
        "s",
        "end - send time of requests that failed",
        Unlike,
    ),
    all("failures/prompt_len", "inference-perf.failed_input_tokens", "tokens", "input tokens of requests that failed", Unlike),
];
