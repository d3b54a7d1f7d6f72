//! guidellm: a `benchmarks.json` for each case and number of a trial, with a benchmark for each load.

use std::borrow::Cow;
use std::collections::BTreeMap;

use assay_record::Record;
use serde_json::{Map, Value, json};

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, differs, empty, left_out, same};
use crate::measured::{MS, Measured, S, Sent};
use crate::names::{dashed, number, origin_members, trial_name, uuid, writer};
use crate::output::{Output, Part};
use crate::run::{ExportedArrival, ExportedRun, ServingTrial};
use crate::statistics::Weighted;

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "guidellm",
    tool: "guidellm",
    version: "0.7 (report 2), by its models",
    files: "`CASE-trial-N/benchmarks.json` with a benchmark for each load, which guidellm loads as a report",
    loads: "serving with a concurrency, and with a constant or Poisson request rate",
    needs: Needs::Records,
    fields: FIELDS,
    write,
};

const CONFIGURED: &str = "the model demands a configuration of the tool, which did not send these requests";
const UNKNOWN: &str = "-1, which the tool writes for a time that it does not know";

const FIELDS: &[ExportField] = &[
    same("metadata.version", "2, the version of the report"),
    differs("metadata.guidellm_version", "`assay-` and the version of Assay", "guidellm did not make the file"),
    differs("metadata.python_version", "`none`", "no Python made the file"),
    differs("metadata.platform", "`assay`", "the tool names the system of the client"),
    differs("config.spec.backend.{}", "the kind `openai_http`, the name of the target and the model", CONFIGURED),
    differs("config.spec.data[].{}", "the mean lengths of the first trial", CONFIGURED),
    same("benchmarks[].type_", "`generative_benchmark`"),
    same("benchmarks[].config.id_", "follows from the run and the trial"),
    same("benchmarks[].config.run_id", "the run"),
    same("benchmarks[].config.run_index", "the place of the benchmark in the file"),
    same("benchmarks[].config.strategy.{}", "`concurrent` with its streams, `constant` or `poisson` with its rate"),
    same("benchmarks[].config.backend.model", "the model's name in requests"),
    same(
        "benchmarks[].config.environment.{}",
        "the run, the digest of its result, the version of Assay, the case, the point, the trial and the workload's digest",
    ),
    empty("benchmarks[].config.constraints", "empty", CONFIGURED),
    empty("benchmarks[].config.profile", "empty", CONFIGURED),
    empty("benchmarks[].config.requests", "empty", CONFIGURED),
    differs("benchmarks[].scheduler_state.{}", "the start of the trial", "the model demands the course of the tool's scheduler"),
    same("benchmarks[].scheduler_metrics.start_time", "the start of the trial"),
    same("benchmarks[].scheduler_metrics.end_time", "the end of the attempt that counts"),
    same("benchmarks[].scheduler_metrics.request_start_time", "the first send time, of successful requests"),
    same("benchmarks[].scheduler_metrics.measure_start_time", "the first send time, of successful requests"),
    same("benchmarks[].scheduler_metrics.measure_end_time", "the last end, of successful requests"),
    same("benchmarks[].scheduler_metrics.request_end_time", "the last end, of successful requests"),
    same("benchmarks[].scheduler_metrics.requests_made.{}", "as `metrics.request_totals`"),
    differs("benchmarks[].scheduler_metrics.{}_avg", UNKNOWN, "times of the tool's own work"),
    same("benchmarks[].start_time", "as `scheduler_metrics.measure_start_time`"),
    same("benchmarks[].end_time", "as `scheduler_metrics.measure_end_time`"),
    same("benchmarks[].duration", "end_time - start_time"),
    same("benchmarks[].metrics.request_totals.successful", "requests that succeeded"),
    same("benchmarks[].metrics.request_totals.errored", "requests that were sent and failed"),
    same(
        "benchmarks[].metrics.request_totals.incomplete",
        "requests that the client ended: as planned, or at the end of the trial",
    ),
    same("benchmarks[].metrics.request_totals.total", "all of them"),
    same("benchmarks[].metrics.request_latency.successful.{}", "end of the response - send time"),
    same("benchmarks[].metrics.prompt_token_count.successful.{}", "input tokens, by the endpoint, else by the tokenizer"),
    same("benchmarks[].metrics.output_token_count.successful.{}", "output tokens, by the endpoint, else by the tokenizer"),
    same("benchmarks[].metrics.total_token_count.successful.{}", "both"),
    same("benchmarks[].metrics.time_to_first_token_ms.successful.{}", "first token event - send time"),
    same("benchmarks[].metrics.time_to_first_output_token_ms.successful.{}", "first content event - send time"),
    same(
        "benchmarks[].metrics.time_per_output_token_ms.successful.{}",
        "(last token event - send time) / output tokens, weighted by tokens",
    ),
    same(
        "benchmarks[].metrics.inter_token_latency_ms.successful.{}",
        "(last token event - first one) / (output tokens - 1), weighted by tokens",
    ),
    empty("benchmarks[].metrics.text.{}", "null", "the model demands a summary by kind of content"),
    empty("benchmarks[].metrics.image.{}", "null", "the model demands a summary by kind of content"),
    empty("benchmarks[].metrics.video.{}", "null", "the model demands a summary by kind of content"),
    empty("benchmarks[].metrics.audio.{}", "null", "the model demands a summary by kind of content"),
    empty("benchmarks[].metrics.tool_call.{}", "null", "the model demands a summary by kind of content"),
    empty(
        "benchmarks[].metrics.requests_per_second",
        "empty",
        "the tool weights by the time for which a rate holds; Assay divides by its window",
    ),
    empty("benchmarks[].metrics.request_concurrency", "empty", "the tool weights by the time for which a concurrency holds"),
    empty("benchmarks[].metrics.request_streaming_iterations_count", "empty", "the tool counts events without a token, too"),
    empty(
        "benchmarks[].metrics.prompt_tokens_per_second",
        "empty",
        "the tool weights by the time for which a rate holds; Assay divides by its window",
    ),
    empty(
        "benchmarks[].metrics.output_tokens_per_second",
        "empty",
        "the tool weights by the time for which a rate holds; Assay divides by its window",
    ),
    empty(
        "benchmarks[].metrics.tokens_per_second",
        "empty",
        "the tool weights by the time for which a rate holds; Assay divides by its window",
    ),
    empty("benchmarks[].metrics.output_tokens_per_iteration", "empty", "the tool counts events without a token, too"),
    empty("benchmarks[].metrics.iter_tokens_per_iteration", "empty", "the tool counts events without a token, too"),
    same("benchmarks[].requests.successful[].type_", "`generative_request_stats`"),
    same("benchmarks[].requests.successful[].request_id", "the request's `x-request-id`"),
    same("benchmarks[].requests.successful[].info.request_id", "the request's `x-request-id`"),
    same("benchmarks[].requests.successful[].info.status", "`completed`"),
    same(
        "benchmarks[].requests.successful[].info.timings.{}",
        "the send time, token events and end, in seconds since 1970: the tool's numbers have a resolution of 0.24 us, and it computes latencies from them again",
    ),
    same("benchmarks[].requests.successful[].input_metrics.text_tokens", "input tokens, by the endpoint, else by the tokenizer"),
    same(
        "benchmarks[].requests.successful[].output_metrics.text_tokens",
        "output tokens, by the endpoint, else by the tokenizer",
    ),
    same("benchmarks[].requests.successful[].request_latency", "end of the response - send time"),
    same("benchmarks[].requests.successful[].prompt_tokens", "input tokens, by the endpoint, else by the tokenizer"),
    same("benchmarks[].requests.successful[].output_tokens", "output tokens, by the endpoint, else by the tokenizer"),
    same("benchmarks[].requests.successful[].total_tokens", "both"),
    same("benchmarks[].requests.successful[].time_to_first_token_ms", "first token event - send time"),
    same("benchmarks[].requests.successful[].time_to_first_output_token_ms", "first content event - send time"),
    same("benchmarks[].requests.successful[].time_per_output_token_ms", "(last token event - send time) / output tokens"),
    same("benchmarks[].requests.successful[].inter_token_latency_ms", "(last token event - first one) / (output tokens - 1)"),
    empty("benchmarks[].requests.errored[]", "empty", "`metrics.request_totals` has their number"),
    empty("benchmarks[].requests.incomplete[]", "empty", "`metrics.request_totals` has their number"),
    left_out("benchmarks[].warmup_duration", "requests of the warm-up are left out"),
    left_out("benchmarks[].cooldown_duration", "Assay leaves out no end of a trial"),
    left_out("benchmarks[].requests.successful[].request_args", "texts of requests"),
    left_out("benchmarks[].requests.successful[].output", "responses are not kept, or by their digests"),
    left_out("benchmarks[].requests.successful[].response_id", "the endpoint's name of a response"),
];

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    out.remarks.extend(run.remarks());
    let mut reports: BTreeMap<String, Vec<(ServingTrial<'_>, Value)>> = BTreeMap::new();
    for of in run.serving_trials(FORMAT.name)? {
        match strategy(of) {
            Some(strategy) => {
                let folder = format!("{}-trial-{}", of.load.case_id, number(of.trial));
                reports.entry(folder).or_default().push((of, strategy));
            }
            None => out.remarks.push(left_out_trial(run, of, "the tool has no such load")),
        }
    }
    let mut has_file = false;
    for (folder, loads) in reports {
        // The records of all loads of one report are in memory together: its first members are computed from them.
        let mut loaded: Vec<(ServingTrial<'_>, Cow<'_, [Record]>, Value)> = Vec::new();
        for (of, strategy) in loads {
            let records = out.requests(of.trial)?;
            if records.iter().any(|record| record.outcome.is_ok()) {
                loaded.push((of, records, strategy));
            } else {
                out.remarks.push(left_out_trial(run, of, "no request succeeded, and the tool demands times"));
            }
        }
        let planned: Vec<Planned<'_>> =
            loaded.iter().map(|(of, records, strategy)| (*of, Measured::new(*of, records), strategy)).collect();
        for (of, measured, _) in &planned {
            let trial = trial_name(run, of.load, of.trial);
            out.remarks.extend(measured.missing_times(*of, &trial));
        }
        if !planned.is_empty() {
            out.json(&format!("{folder}/benchmarks.json"), &report(run, &planned))?;
            has_file = true;
        }
    }
    if has_file { Ok(()) } else { Err(ExportError::NoLoad { format: FORMAT.name, holds: FORMAT.loads }) }
}

fn left_out_trial(run: &ExportedRun, of: ServingTrial<'_>, why: &str) -> String {
    format!("`{}` is not in the files: {why}", trial_name(run, of.load, of.trial))
}

/// A benchmark of a report: the trial, its requests and the tool's name of its load.
type Planned<'a> = (ServingTrial<'a>, Measured<'a>, &'a Value);

fn report<'a>(run: &ExportedRun, planned: &'a [Planned<'a>]) -> Part<'a> {
    let benchmarks =
        planned.iter().zip(0..).map(|((of, measured, strategy), index)| benchmark(run, *of, measured, strategy, index)).collect();
    let mut report = Part::members(json!({
        "metadata": {"version": 2, "guidellm_version": writer(run), "python_version": "none", "platform": "assay"},
        "config": planned.first().map(|(of, measured, _)| configuration(*of, measured)),
    }));
    report.insert("benchmarks".to_owned(), Part::Parts(benchmarks));
    Part::Object(report)
}

fn strategy(of: ServingTrial<'_>) -> Option<Value> {
    match of.serving.arrival {
        ExportedArrival::Concurrency(streams) => Some(json!({"type_": "concurrent", "streams": streams})),
        ExportedArrival::Constant(rate) => Some(json!({"type_": "constant", "rate": rate})),
        ExportedArrival::Poisson(rate) => Some(json!({"type_": "poisson", "rate": rate})),
        ExportedArrival::Gamma { .. } | ExportedArrival::Other => None,
    }
}

/// Returns the configuration, which the tool demands.
fn configuration(of: ServingTrial<'_>, measured: &Measured<'_>) -> Value {
    let mean = |total: Option<u64>| (total.unwrap_or(0) / measured.ok.len().max(1) as u64).max(1);
    let input = mean(measured.total(|sent| Some(sent.input_tokens())));
    let output = mean(measured.total(|sent| sent.record.output_tokens));
    json!({"spec": {
        "backend": {"kind": "openai_http", "target": format!("assay:{}", of.load.target), "model": of.serving.model},
        "data": [{"kind": "synthetic_text", "prompt_tokens": input, "output_tokens": output}],
    }})
}

fn benchmark<'a>(
    run: &ExportedRun,
    of: ServingTrial<'a>,
    measured: &'a Measured<'a>,
    strategy: &Value,
    index: usize,
) -> Part<'a> {
    let start_ns = measured.ok.iter().map(|sent| sent.start_ns).min().unwrap_or(0);
    let end_ns = measured.ok.iter().filter_map(|sent| sent.record.end_ns).max().unwrap_or(start_ns);
    let (start, end) = (unix_s(of, start_ns), unix_s(of, end_ns));
    let mut benchmark = Part::members(json!({
        "type_": "generative_benchmark",
        "config": {
            "id_": uuid(&[&run.run_id, &of.trial.trial_id]),
            "run_id": run.run_id,
            "run_index": index,
            "strategy": strategy,
            "constraints": {}, "profile": {}, "requests": {},
            "backend": {"model": of.serving.model},
            "environment": origin_members(run, of.load, of.trial),
        },
        "scheduler_state": {"node_id": 0, "num_processes": 1, "start_time": unix_s(of, 0)},
        "scheduler_metrics": scheduler_metrics(of, measured, start, end),
        "metrics": metrics(measured),
        "start_time": start,
        "end_time": end,
        "duration": end_ns.saturating_sub(start_ns) as f64 / S,
    }));
    let mut requests = Part::members(json!({"errored": [], "incomplete": []}));
    requests.insert("successful".to_owned(), Part::list(&measured.ok, move |sent| request(of, *sent)));
    benchmark.insert("requests".to_owned(), Part::Object(requests));
    Part::Object(benchmark)
}

/// Returns a time of a record in seconds since 1970.
fn unix_s(of: ServingTrial<'_>, ns: i64) -> f64 {
    of.trial.start_ns.saturating_add(ns) as f64 / S
}

fn scheduler_metrics(of: ServingTrial<'_>, measured: &Measured<'_>, start: f64, end: f64) -> Value {
    const OWN_WORK: [&str; 10] = [
        "queued_time_avg",
        "resolve_start_delay_avg",
        "resolve_targeted_start_delay_avg",
        "request_start_delay_avg",
        "request_targeted_start_delay_avg",
        "request_time_avg",
        "resolve_end_delay_avg",
        "resolve_time_avg",
        "finalized_delay_avg",
        "processed_delay_avg",
    ];
    let mut metrics = json!({
        "start_time": unix_s(of, 0),
        "end_time": of.trial.end_ns as f64 / S,
        "request_start_time": start, "measure_start_time": start, "measure_end_time": end, "request_end_time": end,
        "requests_made": totals(measured),
    });
    for name in OWN_WORK {
        metrics[name] = json!(-1.0);
    }
    metrics
}

fn totals(measured: &Measured<'_>) -> Value {
    let incomplete = measured.ended_by_client();
    let (successful, errored) = (measured.ok.len(), measured.not_ok.len() - incomplete);
    json!({"successful": successful, "errored": errored, "incomplete": incomplete, "total": successful + errored + incomplete})
}

/// The latencies and lengths of requests: name in statistics, name of a request, and formula.
type RequestMetric = (&'static str, &'static str, fn(Sent<'_>) -> Option<f64>);

static REQUEST_METRICS: [RequestMetric; 8] = [
    ("request_latency", "request_latency", |sent| sent.to_end().map(|ns| ns / S)),
    ("prompt_token_count", "prompt_tokens", |sent| Some(f64::from(sent.input_tokens()))),
    ("output_token_count", "output_tokens", |sent| sent.record.output_tokens.map(f64::from)),
    ("total_token_count", "total_tokens", |sent| Some(f64::from(sent.input_tokens()) + f64::from(sent.record.output_tokens?))),
    ("time_to_first_token_ms", "time_to_first_token_ms", |sent| sent.ttft().map(|ns| ns / MS)),
    ("time_to_first_output_token_ms", "time_to_first_output_token_ms", |sent| sent.ttfo().map(|ns| ns / MS)),
    ("time_per_output_token_ms", "time_per_output_token_ms", |sent| {
        let tokens = sent.record.output_tokens.filter(|tokens| *tokens > 0)?;
        sent.to_last_token().map(|ns| ns / MS / f64::from(tokens))
    }),
    ("inter_token_latency_ms", "inter_token_latency_ms", |sent| sent.per_later_token(sent.decode()).map(|ns| ns / MS)),
];

/// The metrics that the model demands, and that are left empty.
const EMPTY: [&str; 8] = [
    "requests_per_second",
    "request_concurrency",
    "request_streaming_iterations_count",
    "prompt_tokens_per_second",
    "output_tokens_per_second",
    "tokens_per_second",
    "output_tokens_per_iteration",
    "iter_tokens_per_iteration",
];

/// The summaries by kind of content that the model demands, and that are null.
const CONTENTS: [(&str, &[&str]); 5] = [
    ("text", &["tokens", "words", "characters"]),
    ("image", &["tokens", "images", "pixels", "bytes"]),
    ("video", &["tokens", "frames", "seconds", "bytes"]),
    ("audio", &["tokens", "samples", "seconds", "bytes"]),
    ("tool_call", &["tokens", "mixed_tokens", "count"]),
];

fn metrics(measured: &Measured<'_>) -> Map<String, Value> {
    let mut metrics = Map::new();
    metrics.insert("request_totals".to_owned(), totals(measured));
    metrics.extend(EMPTY.map(|name| (name.to_owned(), json!({}))));
    for (name, members) in CONTENTS {
        let nulls: Map<String, Value> = members.iter().map(|member| ((*member).to_owned(), Value::Null)).collect();
        metrics.insert(name.to_owned(), Value::Object(nulls));
    }
    for (name, _, sample) in &REQUEST_METRICS {
        let weighted = Weighted::new(measured.ok.iter().filter_map(|sent| Some((sample(*sent)?, weight(name, *sent)))));
        metrics
            .insert((*name).to_owned(), weighted.map_or_else(|| json!({}), |weighted| json!({"successful": summary(&weighted)})));
    }
    metrics
}

/// Returns the weight of a request in the statistics of a metric.
fn weight(metric: &str, sent: Sent<'_>) -> f64 {
    let tokens = f64::from(sent.record.output_tokens.unwrap_or(0));
    match metric {
        "time_per_output_token_ms" => tokens,
        "inter_token_latency_ms" => tokens - 1.0,
        _ => 1.0,
    }
}

fn summary(weighted: &Weighted) -> Value {
    const SHARES: [(&str, f64); 11] = [
        ("p001", 0.001),
        ("p01", 0.01),
        ("p05", 0.05),
        ("p10", 0.1),
        ("p25", 0.25),
        ("p50", 0.5),
        ("p75", 0.75),
        ("p90", 0.9),
        ("p95", 0.95),
        ("p99", 0.99),
        ("p999", 0.999),
    ];
    let percentiles: Map<String, Value> =
        SHARES.into_iter().map(|(name, share)| (name.to_owned(), json!(weighted.at_share(share)))).collect();
    json!({
        "mean": weighted.mean(), "median": weighted.at_share(0.5), "mode": weighted.mode(),
        "variance": weighted.variance(), "std_dev": weighted.variance().sqrt(),
        "min": weighted.min(), "max": weighted.max(), "count": weighted.count() as u64,
        "total_sum": weighted.mean() * weighted.count(), "percentiles": percentiles,
    })
}

fn request(of: ServingTrial<'_>, sent: Sent<'_>) -> Value {
    let record = sent.record;
    let id = dashed(record.request_id);
    let streamed = |at: Option<i64>| at.filter(|_| of.serving.is_streamed).map(|ns| unix_s(of, ns));
    let (start, end) = (unix_s(of, sent.start_ns), record.end_ns.map(|ns| unix_s(of, ns)));
    let mut request = json!({
        "type_": "generative_request_stats",
        "request_id": id,
        "info": {"request_id": id, "status": "completed", "timings": {
            "resolve_start": start, "request_start": start, "request_end": end, "resolve_end": end,
            "first_token_iteration": streamed(record.first_token_ns),
            "first_output_token_iteration": streamed(record.first_content_ns),
            "last_token_iteration": streamed(record.last_token_ns),
            "token_iterations": record.token_events,
        }},
        "input_metrics": {"text_tokens": sent.input_tokens()},
        "output_metrics": {"text_tokens": record.output_tokens},
    });
    for (_, name, sample) in &REQUEST_METRICS {
        if let Some(value) = sample(sent) {
            request[*name] = if name.ends_with("_tokens") { json!(value as u64) } else { json!(value) };
        }
    }
    request
}
