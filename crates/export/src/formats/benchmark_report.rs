//! Benchmark Report v0.2.1 of llm-d-benchmark: one JSON document for each trial.

use assay_manifest::Instant;
use assay_record::Outcome;
use serde_json::{Map, Value, json};

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, left_out, same};
use crate::names::{hex_id, number, origin_members, trial_name};
use crate::output::Output;
use crate::run::{ExportedArrival, ExportedRun, ExportedTrial, ServingTrial};

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "benchmark-report",
    tool: "Benchmark Report",
    version: "0.2.1, by the models of `llmd-benchmark-report` 0.2.1",
    files: "`LOAD-trial-N.json` for each trial",
    loads: "serving",
    needs: Needs::Manifests,
    fields: FIELDS,
    write,
};

const FIELDS: &[ExportField] = &[
    same("version", "the version of the report"),
    same("run.uid", "follows from the run, the case, the point and the trial"),
    same("run.eid", "the run"),
    same("run.time.start", "the start of the trial"),
    same("run.time.end", "the end of the attempt that counts"),
    same("run.time.duration", "end - start"),
    same("run.description", "the run, the digest of its result and the version of Assay"),
    same("run.keywords[]", "`assay`, the pipeline and the case"),
    same("scenario.load.metadata.cfg_id", "the digest of the workload"),
    same("scenario.load.metadata.schema_version", "the version of this part of the report"),
    same("scenario.load.standardized.tool", "`assay`"),
    same("scenario.load.standardized.tool_version", "the version of Assay"),
    same("scenario.load.standardized.source", "`random` for synthetic prompts, else `sampled`"),
    same("scenario.load.standardized.stage", "the number of the trial, from 0"),
    same(
        "scenario.load.standardized.input_seq_len.{}",
        "the tokens of each prompt if all have equally many, else the measured mean with the distribution `other`",
    ),
    same("scenario.load.standardized.output_seq_len.{}", "the requested tokens of each response, if all have equally many"),
    same("scenario.load.standardized.rate_qps", "the request rate of an open loop"),
    same("scenario.load.standardized.concurrency", "the concurrency of a closed loop"),
    same("scenario.load.native.args.{}", "the model, the API, and what ties the report to its run"),
    same(
        "results.request_performance.aggregate.requests.{}",
        "requests that were due in the measured phase, those that failed, and as `incomplete` those that the client ended: as planned, or at the end of the trial, or that it never sent; `isl_tokens_mean` and `osl_tokens_mean`",
    ),
    same("results.request_performance.aggregate.latency.time_to_first_token.{}", "`ttft_ms`"),
    same("results.request_performance.aggregate.latency.time_per_output_token.{}", "`tpot_ms`"),
    same("results.request_performance.aggregate.latency.inter_token_latency.{}", "`itl_ms`"),
    same("results.request_performance.aggregate.latency.request_latency.{}", "`e2e_ms`"),
    same("results.request_performance.aggregate.throughput.input_token_rate.{}", "`input_tokens_per_s`"),
    same("results.request_performance.aggregate.throughput.output_token_rate.{}", "`output_tokens_per_s`"),
    same("results.request_performance.aggregate.throughput.total_token_rate.{}", "`total_tokens_per_s`"),
    same("results.request_performance.aggregate.throughput.request_rate.{}", "`request_throughput_per_s`"),
    left_out("run.cid", "the identity of a cluster, which Assay does not record"),
    left_out("run.pid", "the identity of one pod"),
    left_out("run.user", "a name of a person"),
    left_out("scenario.stack", "it demands the parallelism of the server, which Assay does not know"),
    left_out(
        "results.request_performance.aggregate.latency.normalized_time_per_output_token",
        "it demands a mean, and Assay has percentiles of it",
    ),
    left_out("results.request_performance.time_series", "`assay query` has the time slices of trials"),
    left_out("results.session_performance", "it demands means of sessions, and Assay has percentiles of them"),
    left_out("results.observability", "`assay query` has the telemetry"),
    left_out("results.component_health", "`assay query` has the pods"),
    left_out("results.profiling", "Assay does not profile the server"),
];

/// The latencies: name, metric, unit.
const LATENCIES: [(&str, &str, &str); 4] = [
    ("time_to_first_token", "ttft_ms", "ms"),
    ("time_per_output_token", "tpot_ms", "ms/token"),
    ("inter_token_latency", "itl_ms", "ms/token"),
    ("request_latency", "e2e_ms", "ms"),
];

/// The rates: name, metric, unit.
const RATES: [(&str, &str, &str); 4] = [
    ("input_token_rate", "input_tokens_per_s", "tokens/s"),
    ("output_token_rate", "output_tokens_per_s", "tokens/s"),
    ("total_token_rate", "total_tokens_per_s", "tokens/s"),
    ("request_rate", "request_throughput_per_s", "queries/s"),
];

/// The statistics of latencies, by the end of the metric's name.
const STATISTICS: [&str; 6] = ["mean", "p10", "p50", "p90", "p95", "p99"];

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    out.remarks.extend(run.remarks());
    for of in run.serving_trials(FORMAT.name)? {
        let name = trial_name(run, of.load, of.trial);
        out.remarks.extend(of.without_field_of_load(&name));
        out.json(&format!("{name}.json"), &report(run, of))?;
    }
    Ok(())
}

fn report(run: &ExportedRun, of: ServingTrial<'_>) -> Value {
    let mut scenario = Map::new();
    scenario.extend(load(run, of).map(|load| ("load".to_owned(), load)));
    json!({
        "version": "0.2.1",
        "run": identity(run, of),
        "scenario": scenario,
        "results": {"request_performance": {"aggregate": {
            "requests": requests(of.trial),
            "latency": latencies(of.trial),
            "throughput": rates(of.trial),
        }}},
    })
}

fn identity(run: &ExportedRun, of: ServingTrial<'_>) -> Value {
    let trial = of.trial;
    let seconds = trial.end_ns.saturating_sub(trial.start_ns).max(0) as f64 / 1e9;
    json!({
        "uid": hex_id(&[&run.run_id, &trial.trial_id]),
        "eid": run.run_id,
        "time": {
            "start": Instant::from_unix_ns(trial.start_ns).to_string(),
            "end": Instant::from_unix_ns(trial.end_ns).to_string(),
            "duration": format!("PT{seconds}S"),
        },
        "description": format!(
            "run {} of Assay {}, result {}: case {}, point {}, trial {}",
            run.run_id, run.version, run.result, of.load.case_id, of.load.point_id, number(trial)
        ),
        "keywords": ["assay", run.pipeline, of.load.case_id],
    })
}

/// Returns the load; `None` if no length of prompts is known, which the report demands.
fn load(run: &ExportedRun, of: ServingTrial<'_>) -> Option<Value> {
    let serving = of.serving;
    let input = match serving.input_tokens {
        Some(tokens) => json!({"distribution": "fixed", "value": tokens}),
        None => json!({"distribution": "other", "value": value(of.trial, "isl_tokens_mean")?}),
    };
    let mut standardized = json!({
        "tool": "assay",
        "tool_version": run.version,
        "source": if serving.is_synthetic { "random" } else { "sampled" },
        "stage": of.trial.index,
        "input_seq_len": input,
    });
    if let Some(tokens) = serving.output_tokens {
        standardized["output_seq_len"] = json!({"distribution": "fixed", "value": tokens});
    }
    if let ExportedArrival::Concurrency(concurrency) = serving.arrival {
        standardized["concurrency"] = json!(concurrency);
    }
    if let Some(rate) = serving.arrival.rate() {
        standardized["rate_qps"] = json!(rate);
    }
    let mut args = origin_members(run, of.load, of.trial);
    args.insert("model".to_owned(), json!(serving.model));
    args.insert("api".to_owned(), json!(serving.api));
    Some(json!({
        "metadata": {"schema_version": "0.0.1", "cfg_id": of.load.workload_spec_digest.to_string()},
        "standardized": standardized,
        "native": {"args": args},
    }))
}

fn value(trial: &ExportedTrial, metric: &str) -> Option<f64> {
    trial.values.iter().find(|value| value.metric == metric).map(|value| value.value)
}

fn requests(trial: &ExportedTrial) -> Value {
    let count =
        |keep: &dyn Fn(&str) -> bool| trial.outcomes.iter().filter(|(name, _)| keep(name)).map(|(_, count)| count).sum::<u64>();
    let is_of_client = |name: &str| Outcome::ALL.iter().any(|outcome| outcome.as_str() == name && outcome.is_of_client());
    let mut requests = json!({
        "total": count(&|_| true),
        "failures": count(&|name| name != "ok" && !is_of_client(name)),
        "incomplete": count(&is_of_client),
    });
    for (name, metric) in [("input_length", "isl_tokens_mean"), ("output_length", "osl_tokens_mean")] {
        if let Some(mean) = value(trial, metric) {
            requests[name] = json!({"units": "count", "mean": mean});
        }
    }
    requests
}

/// Returns the latencies of which the mean is known, which the report demands.
fn latencies(trial: &ExportedTrial) -> Map<String, Value> {
    let mut latencies = Map::new();
    for (name, metric, unit) in LATENCIES {
        let of =
            |statistic: &str| value(trial, &format!("{metric}_{statistic}")).map(|value| (statistic.to_owned(), json!(value)));
        let mut statistics: Map<String, Value> = STATISTICS.into_iter().filter_map(of).collect();
        if statistics.contains_key("mean") {
            statistics.insert("units".to_owned(), json!(unit));
            latencies.insert(name.to_owned(), Value::Object(statistics));
        }
    }
    latencies
}

fn rates(trial: &ExportedTrial) -> Map<String, Value> {
    let of =
        |(name, metric, unit): (&str, &str, &str)| Some((name.to_owned(), json!({"units": unit, "mean": value(trial, metric)?})));
    RATES.into_iter().filter_map(of).collect()
}
