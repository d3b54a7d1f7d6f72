//! MLPerf LoadGen: `mlperf_log_detail.txt` and, for the two loads that LoadGen has too, `mlperf_log_summary.txt` of each trial. A run of Assay
//! is no MLPerf result, so both state that the result is invalid.

use serde_json::{Value, json};

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, differs, left_out, same};
use crate::measured::{Measured, Sent};
use crate::names::{origin, trial_name, writer};
use crate::output::Output;
use crate::run::{ExportedArrival, ExportedRun, ServingTrial};
use crate::statistics::Samples;

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "loadgen",
    tool: "MLPerf LoadGen",
    version: "5, by its source",
    files: "`LOAD-trial-N/mlperf_log_detail.txt` for each trial, and `mlperf_log_summary.txt` beside it for Poisson arrivals (Server) and a concurrency of 1 (SingleStream): LoadGen has no other load of requests one by one",
    loads: "serving",
    needs: Needs::Records,
    fields: FIELDS,
    write,
};

const REQUESTS: &str = "LoadGen has no failed and no cancelled requests, so its own counts have no place for them";
const OK: &str = "LoadGen has no failed requests; here they are left out of latencies";

const FIELDS: &[ExportField] = &[
    same("SUT name", "the target"),
    same("Scenario", "`Server` for Poisson arrivals, `SingleStream` for a concurrency of 1"),
    same("Mode", "`PerformanceOnly`"),
    differs(
        "Result is",
        "`INVALID`, always",
        "a run of Assay is no MLPerf result: LoadGen did not send the requests, and its rules were not checked",
    ),
    same("Completed samples per second", "(requests that succeeded - 1) / (last end - first scheduled time)"),
    same("Completed tokens per second", "output tokens / (last end - first scheduled time)"),
    differs("{} latency (ns)", "end - scheduled time, or send time without one", OK),
    differs("{} first token latency (ns)", "first token event - scheduled time, or send time without one", OK),
    differs("{} Time per Output Token (ns)", "(end - first token event) / (output tokens - 1), rounded down", OK),
    differs("{} time to output token (ns)", "(end - first token event) / (output tokens - 1), rounded down", OK),
    same("samples_per_query", "1"),
    same("target_qps", "the request rate"),
    same(
        "assay_{}",
        "the run, the digest of its result, the version of Assay, the case, the point, the trial and the workload's digest",
    ),
    differs("assay_requests_ok", "the requests that succeeded, in both files: those of all numbers", REQUESTS),
    differs("assay_requests_failed", "the requests that were sent and failed, in both files", REQUESTS),
    differs("assay_requests_cancelled", "the requests that the client cancelled or ended, in both files", REQUESTS),
    differs("assay_requests_not_sent", "the requests that were due and not sent, in both files", REQUESTS),
    same("key", "the name of the value in `mlperf_log_detail.txt`"),
    same("value", "its value: as in the summary, and `INVALID` for `result_validity`"),
    same("namespace", "`mlperf::logging`"),
    same("event_type", "`POINT_IN_TIME`"),
    same("time_ms", "0: the values are of the whole trial"),
    differs(
        "metadata.is_error",
        "true for `assay_requests_failed` if it is above 0, so that LoadGen's reader of logs counts an error; else false",
        "LoadGen marks its own errors so",
    ),
    same("metadata.is_warning", "false"),
    same("metadata.file", "empty: the line is not from LoadGen's source"),
    same("metadata.line_no", "0"),
    same("metadata.pid", "0"),
    same("metadata.tid", "0"),
    left_out("Performance constraints satisfied", "a rule of MLPerf, which was not checked"),
    left_out("Min duration satisfied", "a rule of MLPerf, which was not checked"),
    left_out("Min queries satisfied", "a rule of MLPerf, which was not checked"),
    left_out("Early stopping satisfied", "a rule of MLPerf, which was not checked"),
    left_out("Scheduled samples per second", "LoadGen divides by its own schedule's end"),
    left_out("QPS w/ loadgen overhead", "LoadGen's own time is not in the run"),
    left_out("mlperf_log_accuracy.json", "Assay does not judge responses"),
];

/// The percentiles that LoadGen states.
const SHARES: [(&str, f64); 6] =
    [("50.00", 0.50), ("90.00", 0.90), ("95.00", 0.95), ("97.00", 0.97), ("99.00", 0.99), ("99.90", 0.999)];

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    out.remarks.extend(run.remarks());
    for of in run.serving_trials(FORMAT.name)? {
        let name = trial_name(run, of.load, of.trial);
        let numbers = Numbers::new(&Measured::new(of, &out.requests(of.trial)?));
        out.text(&format!("{name}/mlperf_log_detail.txt"), detail(run, of, &numbers))?;
        match scenario(of) {
            Some(scenario) => {
                let text = summary(run, of, scenario, &numbers);
                out.text(&format!("{name}/mlperf_log_summary.txt"), text)?;
            }
            None => out.remarks.push(format!("`{name}` has no `mlperf_log_summary.txt`: LoadGen has no such load")),
        }
    }
    Ok(())
}

/// Returns the scenario of LoadGen that sends requests as this load does.
fn scenario(of: ServingTrial<'_>) -> Option<&'static str> {
    match of.serving.arrival {
        ExportedArrival::Poisson(_) => Some("Server"),
        ExportedArrival::Concurrency(1) => Some("SingleStream"),
        _ => None,
    }
}

/// The name of the number of failed requests.
const FAILED: &str = "assay_requests_failed";

/// The numbers of a trial by LoadGen's definitions, in nanoseconds and per second.
struct Numbers {
    /// The requests by their outcome.
    requests: [(&'static str, usize); 4],
    latency: Option<Samples>,
    first_token: Option<Samples>,
    per_token: Option<Samples>,
    samples_per_s: Option<f64>,
    tokens_per_s: Option<f64>,
}

impl Numbers {
    fn new(measured: &Measured<'_>) -> Self {
        let span = measured.span_s(|sent| sent.record.intended_ns.unwrap_or(sent.start_ns), |sent| sent.record.end_ns);
        let tokens = measured.total(|sent| sent.record.output_tokens).map(|tokens| tokens as f64);
        let gaps = measured.ok.len().checked_sub(1).filter(|gaps| *gaps > 0).map(|gaps| gaps as f64);
        let (cancelled, sent) = (measured.ended_by_client(), measured.ok.len() + measured.not_ok.len());
        Self {
            requests: [
                ("assay_requests_ok", measured.ok.len()),
                (FAILED, measured.not_ok.len() - cancelled),
                ("assay_requests_cancelled", cancelled),
                ("assay_requests_not_sent", measured.due.saturating_sub(sent)),
            ],
            latency: Samples::new(measured.samples(|sent| since_scheduled(*sent, sent.record.end_ns)), 1.0),
            first_token: Samples::new(measured.samples(|sent| first_token(*sent)), 1.0),
            per_token: Samples::new(measured.samples(|sent| per_token(*sent)), 1.0),
            samples_per_s: gaps.zip(span).map(|(gaps, span)| gaps / span),
            tokens_per_s: tokens.zip(span).map(|(tokens, span)| tokens / span),
        }
    }

    /// Returns the lines of statistics: the name of the summary, the name of the details, and the value.
    fn latencies(&self) -> Vec<(String, String, u64)> {
        let groups = [
            (&self.latency, "latency (ns)", "latency (ns)", "latency_ns"),
            (&self.first_token, "First Token latency (ns)", "first token latency (ns)", "first_token_latency_ns"),
            (&self.per_token, "Time per Output Token (ns)", "time to output token (ns)", "time_to_output_token_ns"),
        ];
        groups
            .into_iter()
            .flat_map(|(samples, title, percentile_title, key)| lines(samples.as_ref(), title, percentile_title, key))
            .collect()
    }
}

fn lines(samples: Option<&Samples>, title: &str, percentile_title: &str, key: &str) -> Vec<(String, String, u64)> {
    let Some(samples) = samples else { return Vec::new() };
    let fixed = [("Min", "min", samples.min()), ("Max", "max", samples.max()), ("Mean", "mean", samples.mean())];
    let fixed = fixed.map(|(name, short, value)| (format!("{name} {title}"), format!("result_{short}_{key}"), value as u64));
    let percentile = |(percent, share): (&str, f64)| {
        let name = format!("{percent} percentile {percentile_title}");
        (name, format!("result_{percent}_percentile_{key}"), samples.at_share(share) as u64)
    };
    fixed.into_iter().chain(SHARES.into_iter().map(percentile)).collect()
}

/// Returns a time since the scheduled time of a request, or its send time if it has none.
fn since_scheduled(sent: Sent<'_>, at_ns: Option<i64>) -> Option<f64> {
    at_ns?.checked_sub(sent.record.intended_ns.unwrap_or(sent.start_ns)).map(|ns| ns as f64)
}

fn first_token(sent: Sent<'_>) -> Option<f64> {
    sent.ttft().and_then(|_| since_scheduled(sent, sent.record.first_token_ns))
}

fn per_token(sent: Sent<'_>) -> Option<f64> {
    let decode = since_scheduled(sent, sent.record.end_ns)? - first_token(sent)?;
    sent.per_later_token(Some(decode)).map(f64::floor)
}

fn summary(run: &ExportedRun, of: ServingTrial<'_>, scenario: &str, numbers: &Numbers) -> String {
    const RULE: &str = "================================================";
    let mut lines = vec![RULE.to_owned(), "MLPerf Results Summary".to_owned(), RULE.to_owned()];
    lines.push(format!("SUT name : {}", of.load.target));
    lines.push(format!("Scenario : {scenario}"));
    lines.push("Mode     : PerformanceOnly".to_owned());
    lines.extend(numbers.samples_per_s.map(|rate| format!("Completed samples per second : {rate}")));
    lines.extend(numbers.tokens_per_s.map(|rate| format!("Completed tokens per second : {rate}")));
    lines.push("Result is : INVALID".to_owned());
    lines.push(format!("  No MLPerf result: exported from a run of {}", writer(run)));
    lines.extend([String::new(), RULE.to_owned(), "Additional Stats".to_owned(), RULE.to_owned()]);
    lines.extend(numbers.latencies().into_iter().map(|(name, _, value)| format!("{name} : {value}")));
    lines.extend([String::new(), RULE.to_owned(), "Test Parameters Used".to_owned(), RULE.to_owned()]);
    lines.push("samples_per_query : 1".to_owned());
    lines.extend(of.serving.arrival.rate().map(|rate| format!("target_qps : {rate}")));
    lines.extend(numbers.requests.map(|(name, count)| format!("{name} : {count}")));
    lines.extend(origin(run, of.load, of.trial).map(|(name, value)| format!("{name} : {value}")));
    lines.push(String::new());
    lines.join("\n")
}

fn detail(run: &ExportedRun, of: ServingTrial<'_>, numbers: &Numbers) -> String {
    let mut values: Vec<(String, Value)> =
        origin(run, of.load, of.trial).into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect();
    values.extend(numbers.requests.map(|(name, count)| (name.to_owned(), json!(count))));
    values.extend(scenario(of).map(|scenario| ("effective_scenario".to_owned(), json!(scenario))));
    values.push(("effective_test_mode".to_owned(), json!("PerformanceOnly")));
    values.extend(of.serving.arrival.rate().map(|rate| ("effective_target_qps".to_owned(), json!(rate))));
    values.push(("result_validity".to_owned(), json!("INVALID")));
    values.push(("result_invalid_reason".to_owned(), json!("no MLPerf result: LoadGen did not send the requests")));
    values.extend(numbers.samples_per_s.map(|rate| ("result_completed_samples_per_sec".to_owned(), json!(rate))));
    values.extend(numbers.tokens_per_s.map(|rate| ("result_completed_tokens_per_second".to_owned(), json!(rate))));
    values.extend(numbers.latencies().into_iter().map(|(_, key, value)| (key, json!(value))));
    values.iter().map(|(key, value)| format!(":::MLLOG {}\n", line(key, value))).collect::<Vec<_>>().concat()
}

fn line(key: &str, value: &Value) -> Value {
    let is_error = key == FAILED && value.as_u64() != Some(0);
    json!({
        "key": key, "value": value, "time_ms": 0.0, "namespace": "mlperf::logging", "event_type": "POINT_IN_TIME",
        "metadata": {"is_error": is_error, "is_warning": false, "file": "", "line_no": 0, "pid": 0, "tid": 0},
    })
}
