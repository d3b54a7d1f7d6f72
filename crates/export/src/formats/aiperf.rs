//! AIPerf: `profile_export_aiperf.json` and `profile_export.jsonl` of each trial.

use serde_json::{Map, Value, json};

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, differs, left_out, same};
use crate::measured::{MS, Measured, S, Sent};
use crate::names::{dashed, load_name, origin_members, trial_name, uuid, writer};
use crate::output::Output;
use crate::run::{ExportedRun, ServingTrial};
use crate::statistics::Samples;

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "aiperf",
    tool: "AIPerf",
    version: "0.13 (schema 1.4), by its models",
    files: "`LOAD-trial-N/profile_export_aiperf.json` and `LOAD-trial-N/profile_export.jsonl` for each trial",
    loads: "serving",
    needs: Needs::Records,
    fields: FIELDS,
    write,
};

/// The code that the tool gives to a request that its client cancelled.
const CANCELLED: u16 = 499;

const TOKENS: &str =
    "the endpoint's counts, if it reports them, as with the tool's `--use-server-token-count`; else the tokenizer's";

// AIPerf 0.13.0 derives its rates from the bounds of the phase (`RecordsManager`, `ExportContext`), which Assay does not have.
const PHASE: &str = "the tool divides by the time of its phase, which begins before the first request and ends after the last one: its rates are lower";
const PHASE_AND_TOKENS: &str = "the tool divides by the time of its phase, which is longer; tokens are the endpoint's counts, if it reports them, else the tokenizer's";

const FIELDS: &[ExportField] = &[
    same("schema_version", "the version of the layout"),
    differs("aiperf_version", "`assay-` and the version of Assay", "AIPerf did not make the file"),
    same("benchmark_id", "follows from the run and the trial"),
    differs("start_time", "the start of the trial, in UTC", "the tool states the start of its phase, which is after the warm-up"),
    differs("end_time", "the end of the attempt that counts, in UTC", "the tool states the end of its phase"),
    same("run_info.benchmark_id", "as `benchmark_id`"),
    same("run_info.trial", "the number of the trial, from 0"),
    same("run_info.run_label", "the run"),
    same("run_info.variation_label", "the load"),
    same("run_info.variation_values.{}", "the values of the point"),
    same(
        "assay.{}",
        "the run, the digest of its result, the version of Assay, the case, the point, the trial and the workload's digest",
    ),
    same("time_to_first_token", "first token event - send time"),
    same("time_to_first_output_token", "first content event - send time"),
    same("time_to_second_token", "second token event - first token event"),
    same("request_latency", "last token event - send time"),
    same("inter_token_latency", "(request latency - TTFT) / (output tokens - 1) of a request"),
    same("inter_chunk_latency", "the times between token events"),
    same("decode_duration", "request latency - TTFT"),
    same("output_token_throughput_per_user", "1 / inter-token latency"),
    same("prefill_throughput_per_user", "input tokens / TTFT"),
    same("e2e_output_token_throughput", "output tokens / request latency"),
    same("input_sequence_length", "input tokens by the tokenizer of the workload"),
    differs("output_sequence_length", "output tokens", TOKENS),
    differs("output_token_count", "output tokens without reasoning, if the endpoint reports these", TOKENS),
    differs("reasoning_token_count", "reasoning tokens, if the endpoint reports them", TOKENS),
    same("usage_prompt_tokens", "input tokens by the endpoint"),
    same("usage_completion_tokens", "output tokens by the endpoint"),
    same("usage_total_tokens", "input and output tokens by the endpoint"),
    same("usage_prompt_cache_read_tokens", "cached tokens by the endpoint"),
    same("request_count", "requests that succeeded"),
    same("error_request_count", "requests that were sent and did not succeed, with those that the client cancelled"),
    same("completed_request_count", "both"),
    same("request_error_rate", "100 x `error_request_count` / both"),
    same("benchmark_duration", "the last token event of all - the first send time, of successful requests"),
    differs("request_throughput", "requests that succeeded / benchmark_duration", PHASE),
    differs("output_token_throughput", "output tokens / benchmark_duration", PHASE_AND_TOKENS),
    differs("total_token_throughput", "(input + output tokens) / benchmark_duration", PHASE_AND_TOKENS),
    differs("input_token_throughput", "input tokens / benchmark_duration", PHASE),
    same("total_isl", "the sum of the input tokens"),
    differs("total_osl", "the sum of the output tokens", TOKENS),
    same("metadata.session_num", "the session, or else the request's place in the schedule"),
    same("metadata.x_request_id", "the request's `x-request-id`"),
    same("metadata.conversation_id", "the session"),
    same("metadata.turn_index", "the turn of the session"),
    same("metadata.request_start_ns", "the send time, in nanoseconds since 1970"),
    same("metadata.request_ack_ns", "the first byte of the response, in nanoseconds since 1970"),
    same("metadata.request_end_ns", "the end of the response, in nanoseconds since 1970"),
    differs("metadata.worker_id", "`assay`", "the tool names its process"),
    differs("metadata.record_processor_id", "`assay`", "the tool names its process"),
    same("metadata.benchmark_phase", "`profiling`: requests of the warm-up are left out"),
    same("metadata.was_cancelled", "true if the client ended the request"),
    same("metrics.{}", "as in the summary, of one request"),
    differs(
        "error.code",
        "the status code of the response; 499 if the client ended the request; null without one, and behind a status of success",
        "the tool makes up codes for some of its exceptions",
    ),
    differs("error.type", "the outcome", "the tool names an exception"),
    differs("error.message", "the outcome", "the tool quotes the endpoint"),
    left_out("input_config", "the configuration of the tool, which did not send these requests"),
    left_out("run_info.cli_command", "the command line of the tool"),
    left_out("run_info.random_seed", "seeds of Assay have 256 bits"),
    left_out("telemetry_data", "`assay query` has the telemetry"),
    left_out("server_metrics", "`assay query` has the telemetry"),
    left_out("error_summary", "it quotes responses of the endpoint"),
    left_out("goodput", "the tool counts over the whole duration, and Assay over its window"),
    left_out("good_request_count", "the tool compares latencies from the send time, and Assay from the intended time"),
    left_out("total_output_tokens", "the tool leaves out reasoning, which few endpoints report"),
    left_out("http_req_{}", "the tool takes the times of its own connections apart"),
    left_out("effective_{}", "the tool weights by the time of its own credits"),
    left_out("metadata.credit_issued_ns", "Assay has no credits"),
];

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    out.remarks.extend(run.remarks());
    for of in run.serving_trials(FORMAT.name)? {
        let records = out.requests(of.trial)?;
        let measured = Measured::new(of, &records);
        let name = trial_name(run, of.load, of.trial);
        out.remarks.extend(measured.missing_times(of, &name));
        if of.serving.is_streamed && !measured.has_all_chunks {
            out.remarks.push(format!(
                "`{name}` has no `inter_chunk_latency` and no `time_to_second_token`: the records do not hold all token events"
            ));
        }
        out.json(&format!("{name}/profile_export_aiperf.json"), &summary(run, of, &measured))?;
        out.json_lines(&format!("{name}/profile_export.jsonl"), requests(of, &measured))?;
    }
    Ok(())
}

/// A metric of requests: its tag, its unit, the samples in one unit, and its formula.
struct RequestMetric {
    tag: &'static str,
    unit: &'static str,
    per_unit: f64,
    sample: fn(Sent<'_>) -> Option<f64>,
}

const fn of_request(tag: &'static str, unit: &'static str, per_unit: f64, sample: fn(Sent<'_>) -> Option<f64>) -> RequestMetric {
    RequestMetric { tag, unit, per_unit, sample }
}

#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "a method of a type with a lifetime is no function of all lifetimes"
)]
static REQUEST_METRICS: [RequestMetric; 16] = [
    of_request("time_to_first_token", "ms", MS, |sent| sent.ttft()),
    of_request("time_to_first_output_token", "ms", MS, |sent| sent.ttfo()),
    of_request("request_latency", "ms", MS, |sent| sent.to_last_token()),
    of_request("inter_token_latency", "ms", MS, |sent| sent.per_later_token(sent.decode())),
    of_request("decode_duration", "ms", MS, |sent| sent.decode()),
    of_request("output_token_throughput_per_user", "tokens/sec/user", 1.0, |sent| inverse(sent.per_later_token(sent.decode()))),
    of_request("prefill_throughput_per_user", "tokens/sec/user", 1.0, |sent| {
        per_second(Some(sent.record.input_tokens), sent.ttft())
    }),
    of_request("e2e_output_token_throughput", "tokens/sec/user", 1.0, |sent| {
        per_second(sent.record.output_tokens, sent.to_last_token())
    }),
    of_request("input_sequence_length", "tokens", 1.0, |sent| Some(f64::from(sent.record.input_tokens))),
    of_request("output_sequence_length", "tokens", 1.0, |sent| sent.record.output_tokens.map(f64::from)),
    of_request("output_token_count", "tokens", 1.0, |sent| {
        Some(f64::from(sent.record.output_tokens?.checked_sub(sent.record.reasoning_tokens?)?))
    }),
    of_request("reasoning_token_count", "tokens", 1.0, |sent| sent.record.reasoning_tokens.map(f64::from)),
    of_request("usage_prompt_tokens", "tokens", 1.0, |sent| sent.record.input_tokens_endpoint.map(f64::from)),
    of_request("usage_completion_tokens", "tokens", 1.0, by_endpoint),
    of_request("usage_total_tokens", "tokens", 1.0, |sent| {
        Some(f64::from(sent.record.input_tokens_endpoint?) + by_endpoint(sent)?)
    }),
    of_request("usage_prompt_cache_read_tokens", "tokens", 1.0, |sent| sent.record.cached_tokens.map(f64::from)),
];

fn by_endpoint(sent: Sent<'_>) -> Option<f64> {
    sent.record.output_tokens.filter(|_| sent.is_counted_by_endpoint()).map(f64::from)
}

/// Returns 1 / nanoseconds, per second.
fn inverse(ns: Option<f64>) -> Option<f64> {
    ns.filter(|ns| *ns > 0.0).map(|ns| S / ns)
}

fn per_second(tokens: Option<u32>, ns: Option<f64>) -> Option<f64> {
    let ns = ns.filter(|ns| *ns > 0.0)?;
    tokens.map(|tokens| f64::from(tokens) / (ns / S))
}

fn summary(run: &ExportedRun, of: ServingTrial<'_>, measured: &Measured<'_>) -> Value {
    let mut document = Map::new();
    for metric in &REQUEST_METRICS {
        let samples = Samples::new(measured.samples(|sent| (metric.sample)(*sent)), metric.per_unit);
        document.extend(samples.map(|samples| (metric.tag.to_owned(), statistics(metric.unit, &samples))));
    }
    let with_gaps = || measured.ok.iter().filter(|_| measured.has_all_chunks);
    for (tag, samples) in [
        ("time_to_second_token", Samples::new(with_gaps().filter_map(|sent| sent.gaps().next()), MS)),
        ("inter_chunk_latency", Samples::new(with_gaps().flat_map(|sent| sent.gaps()), MS)),
    ] {
        document.extend(samples.map(|samples| (tag.to_owned(), statistics("ms", &samples))));
    }
    document.extend(totals(measured));
    document.extend(identity(run, of));
    Value::Object(document)
}

fn statistics(unit: &str, samples: &Samples) -> Value {
    let mut object = json!({
        "unit": unit, "avg": samples.mean(), "std": samples.std(), "min": samples.min(), "max": samples.max(),
        "count": samples.count(), "sum": samples.sum(),
    });
    for percent in [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0] {
        object[format!("p{percent}")] = json!(samples.percentile(percent));
    }
    object
}

/// Returns the numbers of the whole trial.
fn totals(measured: &Measured<'_>) -> Vec<(String, Value)> {
    let seconds = measured.span_s(|sent| sent.start_ns, |sent| sent.record.last_token_ns);
    let input = measured.total(|sent| Some(sent.record.input_tokens)).map(|tokens| tokens as f64);
    let output = measured.total(|sent| sent.record.output_tokens).map(|tokens| tokens as f64);
    let rate = |count: Option<f64>| Some(count? / seconds?);
    let valid = measured.ok.len() as f64;
    // The tool cancels requests as well, and counts them as errors.
    let failed = measured.not_ok.len() as f64;
    let ended = valid + failed;
    let both = input.zip(output).map(|(input, output)| input + output);
    let totals = [
        ("request_count", "requests", Some(valid)),
        ("error_request_count", "requests", Some(failed)),
        ("completed_request_count", "requests", Some(ended)),
        ("request_error_rate", "%", (ended > 0.0).then(|| 100.0 * failed / ended)),
        ("benchmark_duration", "sec", seconds),
        ("request_throughput", "requests/sec", rate(Some(valid))),
        ("output_token_throughput", "tokens/sec", rate(output)),
        ("total_token_throughput", "tokens/sec", rate(both)),
        ("input_token_throughput", "tokens/sec", rate(input)),
        ("total_isl", "tokens", input),
        ("total_osl", "tokens", output),
    ];
    totals.into_iter().filter_map(|(tag, unit, value)| Some((tag.to_owned(), json!({"unit": unit, "avg": value?})))).collect()
}

fn identity(run: &ExportedRun, of: ServingTrial<'_>) -> Vec<(String, Value)> {
    let id = uuid(&[&run.run_id, &of.trial.trial_id]);
    let time = |ns: i64| json!(assay_manifest::Instant::from_unix_ns(ns).to_string());
    let info = json!({
        "benchmark_id": id, "trial": of.trial.index, "run_label": run.run_id,
        "variation_label": load_name(run, of.load), "variation_values": of.load.value,
    });
    let members = [
        ("schema_version", json!("1.4")),
        ("aiperf_version", json!(writer(run))),
        ("benchmark_id", json!(id)),
        ("start_time", time(of.trial.start_ns)),
        ("end_time", time(of.trial.end_ns)),
        ("run_info", info),
        ("assay", Value::Object(origin_members(run, of.load, of.trial))),
    ];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Returns one document for each request that was sent, in the order in which they were due.
fn requests<'a>(of: ServingTrial<'a>, measured: &'a Measured<'a>) -> impl Iterator<Item = Value> + 'a {
    measured.in_order().into_iter().map(move |sent| request(of, measured, sent))
}

fn request(of: ServingTrial<'_>, measured: &Measured<'_>, sent: Sent<'_>) -> Value {
    let record = sent.record;
    let at = |ns: i64| of.trial.start_ns.saturating_add(ns);
    let mut metadata = json!({
        "session_num": record.session.unwrap_or(record.global_index),
        "x_request_id": dashed(record.request_id),
        "request_start_ns": at(sent.start_ns),
        "request_end_ns": at(record.end_ns.unwrap_or(sent.start_ns)),
        "worker_id": "assay",
        "record_processor_id": "assay",
        "benchmark_phase": "profiling",
        "was_cancelled": record.outcome.is_of_client(),
    });
    for (name, value) in [
        ("request_ack_ns", record.first_byte_ns.map(|ns| json!(at(ns)))),
        ("conversation_id", record.session.map(|session| json!(format!("session-{session}")))),
        ("turn_index", record.turn.map(|turn| json!(turn))),
    ] {
        if let Some(value) = value {
            metadata[name] = value;
        }
    }
    if record.outcome.is_ok() {
        return json!({"metadata": metadata, "metrics": request_metrics(measured, sent)});
    }
    let code = if record.outcome.is_of_client() { Some(CANCELLED) } else { sent.status_of_failure() };
    let error = json!({"code": code, "type": record.outcome.as_str(), "message": record.outcome.as_str()});
    json!({"metadata": metadata, "metrics": {}, "error": error})
}

fn request_metrics(measured: &Measured<'_>, sent: Sent<'_>) -> Map<String, Value> {
    let mut metrics = Map::new();
    let mut set =
        |tag: &str, unit: &str, value: Value| drop(metrics.insert(tag.to_owned(), json!({"value": value, "unit": unit})));
    for metric in &REQUEST_METRICS {
        if let Some(sample) = (metric.sample)(sent).filter(|sample| sample.is_finite()) {
            set(metric.tag, metric.unit, json!(sample / metric.per_unit));
        }
    }
    let gaps: Vec<f64> = sent.gaps().map(|ns| ns / MS).collect();
    if let Some(first) = gaps.first().filter(|_| measured.has_all_chunks) {
        set("time_to_second_token", "ms", json!(first));
        set("inter_chunk_latency", "ms", json!(gaps));
    }
    metrics
}
