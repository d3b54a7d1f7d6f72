//! genai-bench: one folder of an experiment for each case and number of a trial.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, differs, left_out, same};
use crate::measured::{Measured, S, Sent};
use crate::names::{number, origin_members, run_members, trial_name, writer};
use crate::output::{Output, Part};
use crate::run::{ExportedArrival, ExportedRun, ServingTrial};
use crate::statistics::Samples;

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "genai-bench",
    tool: "genai-bench",
    version: "0.0.5, by its models",
    files: "`CASE-trial-N/experiment_metadata.json` and a file for each concurrency beside it, which `genai-bench excel` and `plot` read",
    loads: "closed loops of serving without sessions: loads with a concurrency",
    needs: Needs::Records,
    fields: FIELDS,
    write,
};

const CODES: &str = "the tool makes up a code for each of its exceptions";

const FIELDS: &[ExportField] = &[
    same("_time_unit", "`s`"),
    same(
        "assay.{}",
        "the run, the digest of its result and the version of Assay; of a load also the case, the point, the trial and the workload's digest",
    ),
    differs(
        "aggregated_metrics.scenario",
        "`D(input,output)` if all lengths are equal, else the name of the workload",
        "the tool has names for its own distributions",
    ),
    same("aggregated_metrics.num_concurrency", "the concurrency"),
    same("aggregated_metrics.batch_size", "1"),
    same("aggregated_metrics.iteration_type", "`num_concurrency`"),
    differs(
        "aggregated_metrics.run_duration",
        "the last end - the first send time, of successful requests",
        "the tool adds the time in which it polls",
    ),
    differs("aggregated_metrics.mean_{}_throughput_tokens_per_s", "tokens / duration", "the duration of the tool is longer"),
    differs("aggregated_metrics.requests_per_second", "requests that succeeded / duration", "the duration of the tool is longer"),
    differs(
        "aggregated_metrics.error_codes_frequency.{}",
        "requests that were sent and failed by their status code; -1 without one, and behind a status of success",
        CODES,
    ),
    differs("aggregated_metrics.error_rate", "failed requests / requests", "version 0.0.5 always writes 0"),
    same("aggregated_metrics.num_error_requests", "requests that were sent and failed"),
    same("aggregated_metrics.num_completed_requests", "requests that succeeded"),
    same("aggregated_metrics.num_requests", "both"),
    same("aggregated_metrics.stats.{}", "the statistics over successful requests, as NumPy computes them"),
    same("individual_request_metrics[].ttft", "first token event - send time"),
    same("individual_request_metrics[].tpot", "(end - first token event) / (output tokens - 1)"),
    same("individual_request_metrics[].e2e_latency", "end of the stream - send time"),
    same("individual_request_metrics[].output_latency", "e2e_latency - ttft"),
    same("individual_request_metrics[].output_inference_speed", "1 / tpot"),
    same("individual_request_metrics[].num_input_tokens", "by the endpoint, else by the tokenizer"),
    same("individual_request_metrics[].num_output_tokens", "by the endpoint, else by the tokenizer"),
    same("individual_request_metrics[].num_reasoning_tokens", "by the endpoint, if it reports them"),
    same("individual_request_metrics[].total_tokens", "input and output tokens"),
    same("individual_request_metrics[].input_throughput", "input tokens / ttft"),
    same("individual_request_metrics[].output_throughput", "(output tokens - 1) / output_latency"),
    differs("individual_request_metrics[].error_code", "the status code; -1 without one, and behind a status of success", CODES),
    differs("individual_request_metrics[].error_message", "the outcome", "the tool quotes the endpoint"),
    differs("cmd", "`assay export`", "genai-bench did not run"),
    differs("benchmark_version", "`assay-` and the version of Assay", "genai-bench did not run"),
    differs("api_backend", "`assay`", "genai-bench did not run"),
    same("api_model_name", "the model's name in requests"),
    same("model", "the model's name in requests"),
    differs(
        "task",
        "`text-to-embeddings` and `text-to-rerank` for these APIs, else `text-to-text`",
        "the tool tells images apart",
    ),
    same("num_concurrency[]", "the concurrencies"),
    same("iteration_type", "`num_concurrency`"),
    same("traffic_scenario[]", "the scenarios"),
    differs("max_time_per_run_s", "the longest duration, rounded up", "the tool states a limit, and demands one"),
    differs("max_requests_per_run", "the most requests that were due", "the tool states a limit, and demands one"),
    same("experiment_folder_name", "the name of the folder"),
    same("metrics_time_unit", "`s`"),
    left_out("auth_config", "credentials"),
    left_out("server_model_tokenizer", "the tool names a tokenizer by its repository, and Assay by the digests of its files"),
    left_out("additional_request_params", "the configuration of the tool"),
    left_out("server_engine", "a declaration; `assay query` has what was observed"),
    left_out("server_version", "a declaration; `assay query` has what was observed"),
    left_out("server_gpu_type", "a declaration; `assay query` has what was observed"),
    left_out("server_gpu_count", "a declaration; `assay query` has what was observed"),
    left_out("dataset_path", "a path"),
    left_out("individual_request_metrics[].audio_throughput", "Assay measures no audio"),
];

/// The metrics of requests: name, the samples in one unit, and the formula.
type RequestMetric = (&'static str, f64, fn(Sent<'_>) -> Option<f64>);

static REQUEST_METRICS: [RequestMetric; 11] = [
    ("ttft", S, |sent| sent.ttft()),
    ("tpot", S, tpot),
    ("e2e_latency", S, |sent| sent.to_end()),
    ("output_latency", S, output_latency),
    ("output_inference_speed", 1.0, |sent| tpot(sent).filter(|ns| *ns > 0.0).map(|ns| S / ns)),
    ("num_input_tokens", 1.0, |sent| Some(f64::from(sent.input_tokens()))),
    ("num_output_tokens", 1.0, |sent| sent.record.output_tokens.map(f64::from)),
    ("num_reasoning_tokens", 1.0, |sent| sent.record.reasoning_tokens.map(f64::from)),
    ("total_tokens", 1.0, |sent| Some(f64::from(sent.input_tokens()) + f64::from(sent.record.output_tokens?))),
    ("input_throughput", 1.0, |sent| sent.ttft().filter(|ns| *ns > 0.0).map(|ns| f64::from(sent.input_tokens()) / (ns / S))),
    ("output_throughput", 1.0, |sent| {
        let later = sent.record.output_tokens?.checked_sub(1)?;
        output_latency(sent).filter(|ns| *ns > 0.0).map(|ns| f64::from(later) / (ns / S))
    }),
];

/// The metrics that are whole numbers, which the tool demands.
const COUNTS: [&str; 4] = ["num_input_tokens", "num_output_tokens", "num_reasoning_tokens", "total_tokens"];

fn output_latency(sent: Sent<'_>) -> Option<f64> {
    Some(sent.to_end()? - sent.ttft()?)
}

fn tpot(sent: Sent<'_>) -> Option<f64> {
    sent.per_later_token(output_latency(sent))
}

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    out.remarks.extend(run.remarks());
    let mut experiments: BTreeMap<(String, u32), Vec<(u32, ServingTrial<'_>)>> = BTreeMap::new();
    for of in run.serving_trials(FORMAT.name)? {
        if let ExportedArrival::Concurrency(concurrency) = of.serving.arrival {
            experiments.entry((of.load.case_id.clone(), number(of.trial))).or_default().push((concurrency, of));
        } else {
            let trial = trial_name(run, of.load, of.trial);
            out.remarks.push(format!("`{trial}` is not in the files: the tool has no load but a concurrency without sessions"));
        }
    }
    if experiments.is_empty() {
        return Err(ExportError::NoLoad { format: FORMAT.name, holds: FORMAT.loads });
    }
    for ((case, trial), loads) in experiments {
        experiment(run, &format!("{case}-trial-{trial}"), &loads, out)?;
    }
    Ok(())
}

fn experiment(
    run: &ExportedRun,
    folder: &str,
    loads: &[(u32, ServingTrial<'_>)],
    out: &mut Output<'_>,
) -> Result<(), ExportError> {
    let (mut longest_s, mut most) = (0_u64, 0);
    let (mut concurrencies, mut scenarios) = (BTreeSet::new(), BTreeSet::new());
    for (concurrency, of) in loads {
        let records = out.requests(of.trial)?;
        let measured = Measured::new(*of, &records);
        let seconds = duration_s(&measured).map_or(0, |seconds| seconds.ceil() as u64);
        let scenario = scenario(*of);
        let name = format!("{}_{}_num_concurrency_{concurrency}_time_{seconds}s.json", plain(&scenario), task(*of));
        let trial = trial_name(run, of.load, of.trial);
        out.remarks.extend(measured.missing_times(*of, &trial));
        if measured.cancelled() > 0 {
            let (why, cancelled) = ("the tool cancels none", measured.cancelled());
            out.remarks.push(format!("requests of `{trial}` that the client cancelled as planned, which are not in the files because {why}: {cancelled}"));
        }
        let mut sent = measured.in_order();
        sent.retain(|sent| !sent.is_cancelled());
        let mut document = Part::members(run_document(run, *of, &measured, *concurrency));
        document.insert("individual_request_metrics".to_owned(), Part::list(&sent, |sent| request(*sent)));
        out.json(&format!("{folder}/{name}"), &Part::Object(document))?;
        (longest_s, most) = (longest_s.max(seconds), most.max(measured.due));
        concurrencies.insert(*concurrency);
        scenarios.insert(scenario);
    }
    let Some((_, first)) = loads.first() else { return Ok(()) };
    let metadata = json!({
        "cmd": "assay export",
        "benchmark_version": writer(run),
        "api_backend": "assay",
        "api_model_name": first.serving.model,
        "model": first.serving.model,
        "task": task(*first),
        "num_concurrency": concurrencies,
        "iteration_type": "num_concurrency",
        "traffic_scenario": scenarios,
        "max_time_per_run_s": longest_s,
        "max_requests_per_run": most,
        "experiment_folder_name": folder,
        "metrics_time_unit": "s",
        "assay": run_members(run),
    });
    out.json(&format!("{folder}/experiment_metadata.json"), &metadata)
}

fn scenario(of: ServingTrial<'_>) -> String {
    match (of.serving.input_tokens, of.serving.output_tokens) {
        (Some(input), Some(output)) => format!("D({input},{output})"),
        _ => of.load.workload.clone(),
    }
}

/// Returns a scenario as the tool writes it into names of files.
fn plain(scenario: &str) -> String {
    scenario.replace(['/', ','], "_").replace(['(', ')'], "")
}

fn task(of: ServingTrial<'_>) -> &'static str {
    match of.serving.api.as_str() {
        "embeddings" => "text-to-embeddings",
        "rerank" => "text-to-rerank",
        _ => "text-to-text",
    }
}

fn duration_s(measured: &Measured<'_>) -> Option<f64> {
    measured.span_s(|sent| sent.start_ns, |sent| sent.record.end_ns)
}

fn run_document(run: &ExportedRun, of: ServingTrial<'_>, measured: &Measured<'_>, concurrency: u32) -> Value {
    json!({
        "aggregated_metrics": aggregate(of, measured, concurrency),
        "_time_unit": "s",
        "assay": origin_members(run, of.load, of.trial),
    })
}

fn aggregate(of: ServingTrial<'_>, measured: &Measured<'_>, concurrency: u32) -> Value {
    let failed = measured.sent_and_failed().count();
    let (valid, ended) = (measured.ok.len(), measured.ok.len() + failed);
    let mut codes: BTreeMap<String, u64> = BTreeMap::new();
    for sent in measured.sent_and_failed() {
        *codes.entry(error_code(*sent).to_string()).or_default() += 1;
    }
    let mut aggregate = json!({
        "scenario": scenario(of),
        "num_concurrency": concurrency,
        "batch_size": 1,
        "iteration_type": "num_concurrency",
        "error_codes_frequency": codes,
        "error_rate": if ended > 0 { failed as f64 / ended as f64 } else { 0.0 },
        "num_error_requests": failed,
        "num_completed_requests": valid,
        "num_requests": ended,
        "stats": statistics(measured),
    });
    let input = measured.total(|sent| Some(sent.input_tokens()));
    let output = measured.total(|sent| sent.record.output_tokens);
    if let Some(seconds) = duration_s(measured) {
        let rates = [
            ("run_duration", Some(seconds)),
            ("mean_output_throughput_tokens_per_s", output.map(|tokens| tokens as f64 / seconds)),
            ("mean_input_throughput_tokens_per_s", input.map(|tokens| tokens as f64 / seconds)),
            (
                "mean_total_tokens_throughput_tokens_per_s",
                input.zip(output).map(|(input, output)| (input + output) as f64 / seconds),
            ),
            ("requests_per_second", Some(valid as f64 / seconds)),
        ];
        for (name, rate) in rates.into_iter().filter_map(|(name, rate)| Some((name, rate?))) {
            aggregate[name] = json!(rate);
        }
    }
    aggregate
}

fn statistics(measured: &Measured<'_>) -> Map<String, Value> {
    let of = |(name, per_unit, sample): &RequestMetric| {
        let samples = Samples::new(measured.samples(|sent| sample(*sent)), *per_unit)?;
        let mut object = json!({
            "min": samples.min(), "max": samples.max(), "mean": samples.mean(), "stddev": samples.std(), "sum": samples.sum(),
        });
        for percent in [25.0, 50.0, 75.0, 90.0, 95.0, 99.0] {
            object[format!("p{percent}")] = json!(samples.percentile(percent));
        }
        Some(((*name).to_owned(), object))
    };
    REQUEST_METRICS.iter().filter_map(of).collect()
}

/// Returns the status code of the response, or -1 if there is none that says why the request failed.
fn error_code(sent: Sent<'_>) -> i32 {
    sent.status_of_failure().map_or(-1, i32::from)
}

fn request(sent: Sent<'_>) -> Value {
    let outcome = sent.record.outcome;
    if !outcome.is_ok() {
        return json!({"error_code": error_code(sent), "error_message": outcome.as_str()});
    }
    let of = |(name, per_unit, sample): &RequestMetric| {
        let value = sample(sent).filter(|value| value.is_finite())? / per_unit;
        Some(((*name).to_owned(), if COUNTS.contains(name) { json!(value as u64) } else { json!(value) }))
    };
    Value::Object(REQUEST_METRICS.iter().filter_map(of).collect())
}
