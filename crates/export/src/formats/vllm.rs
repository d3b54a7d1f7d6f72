//! `vllm bench serve --save-result --save-detailed`: one JSON document for each trial.

use assay_manifest::Instant;
use serde_json::{Map, Value, json};

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, differs, left_out, same};
use crate::measured::{MS, Measured, S, Sent};
use crate::names::{origin_members, trial_name};
use crate::output::{Output, Part};
use crate::run::{ExportedArrival, ExportedRun, ServingTrial};
use crate::statistics::Samples;

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "vllm",
    tool: "vllm bench serve",
    version: "the fields of September 2026, by its source",
    files: "`LOAD-trial-N.json` for each trial",
    loads: "serving",
    needs: Needs::Records,
    fields: FIELDS,
    write,
};

const EVENTS: &str = "the tool also counts events without a token, such as one that only ends the response";

const FIELDS: &[ExportField] = &[
    same("date", "the start of the trial, in UTC"),
    same("model_id", "the model's name in requests"),
    same("num_prompts", "the requests that were due in the measured phase"),
    same("request_rate", "the rate of an open loop, or `inf` in a closed one, as the tool writes it"),
    same("burstiness", "1 for Poisson arrivals, and the shape of gamma ones"),
    same("max_concurrency", "the concurrency of a closed loop without sessions, or the most requests in flight of an open one"),
    same("duration", "the last end - the first send time, failed requests included"),
    same("completed", "the requests that succeeded"),
    differs(
        "failed",
        "the requests that did not succeed",
        "those that the client cancelled as planned, and those that were due and never sent, are among them: the tool has neither",
    ),
    same("total_input_tokens", "input tokens of successful requests, by the tokenizer of the workload"),
    same("total_output_tokens", "output tokens of successful requests, as the endpoint counts them, else by the tokenizer"),
    same("request_throughput", "completed / duration"),
    same("output_throughput", "output tokens / duration"),
    same("total_token_throughput", "(input + output tokens) / duration"),
    same("{}_ttft_ms", "first token event - send time"),
    differs("{}_tpot_ms", "(last token event - first one) / (output tokens - 1)", EVENTS),
    differs("{}_itl_ms", "the times between token events of all responses together", EVENTS),
    differs("{}_e2el_ms", "last token event - send time", EVENTS),
    same("input_lens[]", "input tokens of each request"),
    same("output_lens[]", "output tokens of each request; 0 if it failed"),
    same("ttfts[]", "the first token event - send time of each request, in seconds; 0 if it failed"),
    differs("itls[][]", "the times between the token events of each request, in seconds", EVENTS),
    differs("errors[]", "the outcome of each request that did not succeed", "the tool writes a traceback"),
    same(
        "assay_{}",
        "the run, the digest of its result, the version of Assay, the case, the point, the trial and the workload's digest, as the tool's `--metadata` writes them",
    ),
    left_out("backend", "the name of a client of vLLM, which did not send these requests"),
    left_out("endpoint_type", "the name of a client of vLLM, which did not send these requests"),
    left_out("label", "the tool's name for its client"),
    left_out("tokenizer_id", "the tool names a tokenizer by its repository, and Assay by the digests of its files"),
    left_out("request_goodput", "the tool compares other latencies with the limits; Assay's goodput is over its window"),
    left_out("generated_texts", "responses are not kept, or by their digests"),
    left_out("start_times", "the tool writes times of a clock that has no origin"),
    left_out("max_output_tokens_per_s", "the tool counts chunks as tokens"),
    left_out("max_concurrent_requests", "the tool counts over whole seconds"),
    left_out("rtfx", "a number of speech recognition"),
    left_out("{}_client_queue_time_ms", "the tool waits for the client's limit before it counts"),
];

const PERCENTILES: [f64; 5] = [25.0, 75.0, 90.0, 95.0, 99.0];

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    out.remarks.extend(run.remarks());
    for of in run.serving_trials(FORMAT.name)? {
        let records = out.requests(of.trial)?;
        let measured = Measured::new(of, &records);
        let name = trial_name(run, of.load, of.trial);
        out.remarks.extend(measured.missing_times(of, &name));
        out.remarks.extend(of.without_field_of_load(&name));
        if of.serving.is_streamed && !measured.has_all_chunks {
            out.remarks.push(format!("`{name}` has no times between token events: the records do not hold all of them"));
        }
        let sent = measured.in_order();
        let mut members = Part::members(Value::Object(document(run, of, &measured)));
        members.extend(details(of, &measured, &sent).into_iter().map(|(name, list)| (name.to_owned(), list)));
        out.json(&format!("{name}.json"), &Part::Object(members))?;
    }
    Ok(())
}

fn document(run: &ExportedRun, of: ServingTrial<'_>, measured: &Measured<'_>) -> Map<String, Value> {
    let mut document = origin_members(run, of.load, of.trial);
    let mut set = |name: &str, value: Value| drop(document.insert(name.to_owned(), value));
    set("date", json!(compact_date(of.trial.start_ns)));
    set("model_id", json!(of.serving.model));
    set("num_prompts", json!(measured.due));
    for (name, value) in load_fields(of) {
        set(name, value);
    }
    set("completed", json!(measured.ok.len()));
    set("failed", json!(measured.due - measured.ok.len()));
    for (name, value) in totals(of, measured) {
        set(name, value);
    }
    for (name, samples) in latencies(measured) {
        for (statistic, value) in statistics(&samples) {
            set(&format!("{statistic}_{name}_ms"), json!(value));
        }
    }
    document
}

/// Returns a time in UTC as the tool writes it, such as `20261129-091500`.
fn compact_date(unix_ns: i64) -> String {
    let digits: String = Instant::from_unix_ns(unix_ns).to_string().chars().take(19).filter(|c| *c != '-' && *c != ':').collect();
    digits.replace('T', "-")
}

fn load_fields(of: ServingTrial<'_>) -> Vec<(&'static str, Value)> {
    let cap = json!(of.serving.max_concurrency);
    match of.serving.arrival {
        ExportedArrival::Concurrency(concurrency) => {
            vec![("request_rate", json!("inf")), ("max_concurrency", json!(concurrency))]
        }
        ExportedArrival::Constant(rate) => vec![("request_rate", json!(rate)), ("max_concurrency", cap)],
        ExportedArrival::Poisson(rate) => {
            vec![("request_rate", json!(rate)), ("burstiness", json!(1.0)), ("max_concurrency", cap)]
        }
        ExportedArrival::Gamma { rate, smoothness } => {
            vec![("request_rate", json!(rate)), ("burstiness", json!(smoothness)), ("max_concurrency", cap)]
        }
        ExportedArrival::Other => vec![("max_concurrency", cap)],
    }
}

fn totals(of: ServingTrial<'_>, measured: &Measured<'_>) -> Vec<(&'static str, Value)> {
    let duration = measured.span_of_all_s(|sent| sent.start_ns, |sent| sent.record.end_ns);
    let input = measured.total(|sent| Some(sent.record.input_tokens));
    let no_token = (!of.serving.has_output_tokens()).then_some(0);
    let output = measured.total(|sent| sent.record.output_tokens.or(no_token));
    let both = input.zip(output).map(|(input, output)| input + output);
    let per_second = |count: Option<u64>| Some(count? as f64 / duration?);
    let fields = [
        ("duration", duration.map(|seconds| json!(seconds))),
        ("total_input_tokens", input.map(|tokens| json!(tokens))),
        ("total_output_tokens", output.map(|tokens| json!(tokens))),
        ("request_throughput", per_second(Some(measured.ok.len() as u64)).map(|rate| json!(rate))),
        ("output_throughput", per_second(output).map(|rate| json!(rate))),
        ("total_token_throughput", per_second(both).map(|rate| json!(rate))),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn latencies(measured: &Measured<'_>) -> Vec<(&'static str, Samples)> {
    let gaps = measured.ok.iter().filter(|_| measured.has_all_chunks).flat_map(|sent| sent.gaps());
    let samples = [
        ("ttft", Samples::new(measured.samples(|sent| sent.ttft()), MS)),
        ("tpot", Samples::new(measured.samples(|sent| sent.per_later_token(sent.decode())), MS)),
        ("itl", Samples::new(gaps, MS)),
        ("e2el", Samples::new(measured.samples(|sent| sent.to_last_token()), MS)),
    ];
    samples.into_iter().filter_map(|(name, samples)| Some((name, samples?))).collect()
}

fn statistics(samples: &Samples) -> Vec<(String, f64)> {
    let fixed = [("mean", samples.mean()), ("median", samples.percentile(50.0)), ("std", samples.std())];
    let percentiles = PERCENTILES.map(|percent| (format!("p{percent}"), samples.percentile(percent)));
    fixed.into_iter().map(|(name, value)| (name.to_owned(), value)).chain(percentiles).collect()
}

/// Returns the lists with one element for each request that was sent, in the order in which they were due.
fn details<'a>(of: ServingTrial<'_>, measured: &Measured<'_>, sent: &'a [Sent<'a>]) -> Vec<(&'static str, Part<'a>)> {
    fn is_ok(sent: &Sent<'_>) -> bool {
        sent.record.outcome.is_ok()
    }
    let mut fields = vec![
        ("input_lens", Part::list(sent, |sent| json!(sent.record.input_tokens))),
        ("output_lens", Part::list(sent, |sent| json!(sent.record.output_tokens.filter(|_| is_ok(sent)).unwrap_or(0)))),
        ("errors", Part::list(sent, |sent| json!(if is_ok(sent) { "" } else { sent.record.outcome.as_str() }))),
    ];
    if of.serving.is_streamed {
        let ttft = |sent: &'a Sent<'a>| json!(sent.ttft().filter(|_| is_ok(sent)).map_or(0.0, |ns| ns / S));
        fields.push(("ttfts", Part::list(sent, ttft)));
    }
    if measured.has_all_chunks {
        let gaps = |sent: &'a Sent<'a>| json!(sent.gaps().filter(|_| is_ok(sent)).map(|ns| ns / S).collect::<Vec<_>>());
        fields.push(("itls", Part::list(sent, gaps)));
    }
    fields
}
