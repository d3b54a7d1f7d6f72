//! Every format over small runs: the files, the tables, and the numbers that Assay's own readers find in the files.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::Path;

use assay_foreign::{ResultFile, Results, read_results};
use assay_record::{Outcome, Record};
use proptest::prelude::*;
use serde_json::Value;

use crate::example::{indicator_run, request, script_run, serving_run};
use crate::output::{Export, ExportedFile};
use crate::{
    Content, EXPORT_FORMATS, ExportError, ExportFormat, ExportSink, ExportedArrival, ExportedRun, ExportedTrial, MissingTrial,
    Needs, exports_page,
};

fn format(name: &str) -> &'static ExportFormat {
    EXPORT_FORMATS.iter().copied().find(|format| format.name == name).expect("a format")
}

/// The formats of runs of serving.
fn serving_formats() -> impl Iterator<Item = &'static ExportFormat> {
    EXPORT_FORMATS.into_iter().filter(|format| format.name != "amun")
}

/// Writes a format of a run whose records are in memory.
fn written(format: &ExportFormat, run: &ExportedRun) -> Result<Export, ExportError> {
    let mut files: Vec<ExportedFile> = Vec::new();
    let remarks = format.write(run, &|_| Ok(Vec::new()), &mut files)?;
    Ok(Export { files, remarks })
}

fn export(name: &str, run: &ExportedRun) -> Export {
    written(format(name), run).expect("written")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text")
}

fn file<'a>(export: &'a Export, path: &str) -> &'a str {
    let found = export.files.iter().find(|file| file.path.to_str() == Some(path));
    text(&found.unwrap_or_else(|| panic!("no {path} among {:?}", paths(export))).bytes)
}

fn paths(export: &Export) -> Vec<&str> {
    export.files.iter().map(|file| file.path.to_str().expect("text")).collect()
}

fn json(export: &Export, path: &str) -> Value {
    serde_json::from_str(file(export, path)).expect("JSON")
}

/// All files of a format, one after the other.
fn whole(export: &Export) -> String {
    let files = export.files.iter().map(|file| format!("==> {}\n{}", file.path.display(), text(&file.bytes)));
    let remarks = export.remarks.iter().map(|remark| format!("remark: {remark}\n"));
    files.chain(remarks).collect()
}

#[test]
fn the_files_of_each_format() {
    for known in serving_formats() {
        insta::assert_snapshot!(format!("files_{}", known.name), whole(&export(known.name, &serving_run())));
    }
    for name in ["openlineage", "mlflow", "amun"] {
        insta::assert_snapshot!(format!("indicators_{name}"), whole(&export(name, &script_run())));
    }
}

/// A run of which this many trials after two do not count.
fn missing(count: u32) -> ExportedRun {
    let mut run = serving_run();
    let load = &mut run.loads[0];
    load.trials_planned += count;
    let reason = |index| (index % 2 == 0).then(|| "client_behind".to_owned());
    load.missing = (2..2 + count).map(|index| MissingTrial { index, reason: reason(index) }).collect();
    run
}

/// The paths of the values of a document, as tables of fields spell them.
fn leaves(path: &str, value: &Value, found: &mut BTreeSet<String>) {
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match value {
        Value::Object(members) if members.is_empty() => drop(found.insert(join("{}"))),
        Value::Object(members) => members.iter().for_each(|(name, value)| leaves(&join(name), value, found)),
        Value::Array(items) if items.is_empty() => drop(found.insert(format!("{path}[]"))),
        Value::Array(items) => items.iter().for_each(|item| leaves(&format!("{path}[]"), item, found)),
        _ => drop(found.insert(path.to_owned())),
    }
}

fn fields_of(export: &Export) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for file in &export.files {
        let (path, text) = (file.path.to_str().expect("text"), text(&file.bytes));
        let place = path.rsplit('/').nth(1).unwrap_or_default();
        if path.starts_with("inspection-") {
            match path.rsplit('/').next().unwrap_or_default() {
                "Dockerfile" => drop(found.insert("build/Dockerfile".to_owned())),
                "log" => drop(found.insert(if place == "build" { "build/log" } else { "results/log" }.to_owned())),
                name => leaves(name, &serde_json::from_str(text).expect("JSON"), &mut found),
            }
        } else if path.ends_with("meta.yaml") {
            for (name, value) in text.lines().filter_map(|line| line.split_once(": ")) {
                leaves(name, &serde_json::from_str(value).expect("a value"), &mut found);
            }
        } else if path.starts_with("mlruns/") {
            found.insert(format!("{place}.{}", path.rsplit('/').next().expect("a name")));
        } else if path.ends_with("summary.txt") {
            let is_value = |line: &&str| !line.starts_with("  ");
            let names = text.lines().filter(is_value).filter_map(|line| line.split_once(" : "));
            // A `.` would separate names.
            found.extend(names.map(|(name, _)| name.trim().replace('.', ",")));
        } else if let Ok(document) = serde_json::from_str(text) {
            leaves("", &document, &mut found);
        } else {
            for line in text.lines() {
                let line = line.strip_prefix(":::MLLOG ").unwrap_or(line);
                leaves("", &serde_json::from_str(line).expect("JSON"), &mut found);
            }
        }
    }
    found
}

/// True if a path of a value is a field, or within it.
fn is_within(field: &str, path: &str) -> bool {
    let is_one = |(pattern, name): (&str, &str)| match pattern.split_once("{}") {
        Some((before, after)) => name.len() >= before.len() + after.len() && name.starts_with(before) && name.ends_with(after),
        None => pattern == name,
    };
    field.split('.').count() <= path.split('.').count() && field.split('.').zip(path.split('.')).all(is_one)
}

#[test]
fn the_tables_name_what_is_written_and_nothing_else() {
    for known in EXPORT_FORMATS {
        let exports = [serving_run(), script_run()].map(|run| written(known, &run));
        let found: BTreeSet<String> = exports.into_iter().flatten().flat_map(|export| fields_of(&export)).collect();
        let mut unseen: BTreeSet<&str> = BTreeSet::new();
        for field in known.fields {
            let is_seen = found.iter().any(|path| is_within(field.field, path));
            match field.content {
                Content::LeftOut(_) => {
                    let written = |path: &&String| {
                        let others = known.fields.iter().filter(|other| !matches!(other.content, Content::LeftOut(_)));
                        is_within(field.field, path) && !others.into_iter().any(|other| is_within(other.field, path))
                    };
                    assert_eq!(found.iter().find(written), None, "{}: `{}` is left out", known.name, field.field);
                }
                _ if !is_seen => drop(unseen.insert(field.field)),
                _ => {}
            }
        }
        assert!(unseen.is_empty(), "{}: the table names fields that no file has: {unseen:?}\n{found:#?}", known.name);
        let is_unnamed = |path: &&String| {
            let mut written = known.fields.iter().filter(|field| !matches!(field.content, Content::LeftOut(_)));
            // An empty list has no fields of its elements.
            !written.any(|field| is_within(field.field, path) || (path.ends_with("[]") && field.field.starts_with(path.as_str())))
        };
        assert_eq!(
            found.iter().filter(is_unnamed).collect::<Vec<_>>(),
            Vec::<&String>::new(),
            "{}: no table names them",
            known.name
        );
    }
}

/// The files of an MLflow run are one value each: its tags name the run of Assay. The records of AIPerf are beside their summary.
#[test]
fn every_file_names_its_run_and_its_result() {
    let run = serving_run();
    let parts = [run.run_id.as_str(), &run.result.to_string(), "0.1.0"];
    for known in serving_formats() {
        let export = export(known.name, &run);
        let is_result = |path: &str| !path.starts_with("mlruns/") && !path.ends_with("/profile_export.jsonl");
        for file in export.files.iter().filter(|file| file.path.to_str().is_some_and(is_result)) {
            for part in parts {
                assert!(text(&file.bytes).contains(part), "{}: {part}", file.path.display());
            }
        }
        assert!(parts.iter().all(|part| whole(&export).contains(part)), "{}", known.name);
    }
    let mlflow = export("mlflow", &run);
    let tags = paths(&mlflow).into_iter().filter(|path| path.ends_with("/tags/assay_result_digest")).count();
    assert_eq!(tags, 3, "one for each trial");
}

/// Each trial has a result of its own, which ties it to its run; a trial that does not count leaves a gap.
#[test]
fn an_inspection_has_a_result_for_each_trial_that_counts() {
    let mut run = script_run();
    run.loads[0].trials.remove(0);
    let mut other = serving_run().loads.remove(0);
    other.case_id = "chat.other.default".to_owned();
    run.loads.push(other);
    let export = export("amun", &run);
    let id = paths(&export)[0].split('/').next().expect("an id").to_owned();
    assert!(id.starts_with("inspection-chat-261129090010-") && id.len() == "inspection-chat-261129090010-".len() + 16, "{id}");
    let expected =
        ["build/Dockerfile", "build/log", "build/specification", "results/1/hwinfo", "results/1/log", "results/1/result"];
    assert_eq!(paths(&export), expected.map(|path| format!("{id}/{path}")));
    let result = json(&export, &format!("{id}/results/1/result"));
    assert_eq!(result["assay"]["assay_run_id"], run.run_id);
    assert_eq!(result["hwinfo"], json(&export, &format!("{id}/results/1/hwinfo")));
    assert_eq!(
        export.remarks,
        [
            "`chat.engine.default` at `concurrency-2`: 1 of 2 trials count",
            "`chat.other.default` is not in the files: it runs no script"
        ]
    );
}

fn read(export: &Export, keep: &dyn Fn(&str) -> bool) -> Results {
    let files: Vec<_> = export.files.iter().filter(|file| keep(file.path.to_str().expect("text"))).collect();
    let files: Vec<_> =
        files.iter().map(|file| ResultFile { path: file.path.to_str().expect("text"), bytes: &file.bytes }).collect();
    read_results(&files).expect("Assay's reader takes the files")
}

#[test]
fn files_that_state_a_version_say_that_assay_exported_them() {
    for name in ["aiperf", "genai-bench", "guidellm"] {
        let run = serving_run();
        let stated = format!("the files state that Assay {} exported them from a run", run.version);
        let remarks = read(&export(name, &run), &|_| true).remarks;
        assert!(remarks.iter().any(|remark| remark.starts_with(&stated)), "{name}: {remarks:?}");
    }
}

/// The numbers of a trial by metric and statistic.
fn numbers(results: &Results) -> BTreeMap<(String, String), f64> {
    let rows = results.rows.iter().map(|row| ((row.metric.clone(), row.statistic.clone()), row.value));
    rows.collect()
}

/// A number that a reader finds: metric, statistic, value.
type Number = (&'static str, &'static str, f64);

/// The formats that Assay reads, with the files of the first trial of the closed loop.
const READ: [(&str, &str, &[&str]); 6] = [
    ("vllm", "vllm", &["concurrency-2-trial-1.json"]),
    ("benchmark-report", "benchmark-report", &["concurrency-2-trial-1.json"]),
    ("aiperf", "aiperf", &["concurrency-2-trial-1/profile_export_aiperf.json", "concurrency-2-trial-1/profile_export.jsonl"]),
    (
        "genai-bench",
        "genai-bench",
        &[
            "chat.engine.default-trial-1/D50_5_text-to-text_num_concurrency_2_time_1s.json",
            "chat.engine.default-trial-1/experiment_metadata.json",
        ],
    ),
    ("guidellm", "guidellm", &["chat.engine.default-trial-1/benchmarks.json"]),
    ("loadgen", "loadgen", &["rate-4-trial-1/mlperf_log_summary.txt"]),
];

/// TTFT 10, 20 and 30 ms; gaps 1, 2 and 3 ms; 0.5 ms from the last token to the end; sent at 0, 5 and 40 ms. So the last tokens are 14, 28 and
/// 42 ms after the send times, and the last end is at 82.5 ms.
#[test]
fn own_readers_find_the_numbers_that_follow_from_the_records() {
    let expected: [(&str, &[Number]); 6] = [
        (
            "vllm",
            &[
                ("vllm.ttft", "mean", 20.0),
                ("vllm.ttft", "p50", 20.0),
                ("vllm.ttft", "p99", 29.8),
                ("vllm.tpot", "mean", 2.0),
                ("vllm.itl", "mean", 2.0),
                ("vllm.e2e", "mean", 28.0),
                ("vllm.duration", "value", 0.0825),
                ("vllm.completed_requests", "value", 3.0),
                ("vllm.failed_requests", "value", 0.0),
                ("vllm.total_input_tokens", "value", 150.0),
                ("vllm.total_output_tokens", "value", 15.0),
                ("vllm.output_tokens_per_s", "value", 15.0 / 0.0825),
            ],
        ),
        (
            "benchmark-report",
            &[
                ("benchmark-report.requests", "value", 3.0),
                ("benchmark-report.failed_requests", "value", 0.0),
                ("benchmark-report.ttft", "mean", 20.0),
                ("benchmark-report.ttft", "p99", 29.8),
                ("benchmark-report.tpot", "mean", 2.0),
                ("benchmark-report.request_latency", "mean", 28.25),
                ("benchmark-report.request_throughput", "mean", 4.5),
                ("benchmark-report.input_tokens", "mean", 50.0),
            ],
        ),
        (
            "aiperf",
            &[
                ("aiperf.ttft", "mean", 20.0),
                ("aiperf.ttft", "count", 3.0),
                ("aiperf.ttft", "sum", 60.0),
                ("aiperf.e2e", "p50", 28.0),
                ("aiperf.itl", "max", 3.0),
                ("icl_ms", "count", 12.0),
                ("ttst_ms", "mean", 2.0),
                ("aiperf.duration", "mean", 0.082),
                ("aiperf.request_throughput", "mean", 3.0 / 0.082),
                ("aiperf.usage_cached_tokens", "sum", 48.0),
                ("aiperf.error_rate", "mean", 0.0),
            ],
        ),
        (
            "genai-bench",
            &[
                ("genai-bench.ttft", "mean", 0.02),
                ("genai-bench.e2e", "mean", 0.0285),
                ("genai-bench.tpot", "max", 0.003_125),
                ("genai-bench.input_tokens", "sum", 156.0),
                ("genai-bench.completed_requests", "value", 3.0),
                ("genai-bench.run_duration", "value", 0.0825),
            ],
        ),
        (
            "guidellm",
            &[
                ("guidellm.ttft", "mean", 20.0),
                ("guidellm.e2e", "mean", 0.0285),
                ("guidellm.itl", "mean", 2.0),
                ("guidellm.time_per_output_token", "max", 8.4),
                ("guidellm.successful_requests", "value", 3.0),
                ("guidellm.duration", "value", 0.0825),
            ],
        ),
        (
            "loadgen",
            &[
                ("loadgen.latency", "mean", 28_750_000.0),
                ("loadgen.latency", "p50", 28_750_000.0),
                ("loadgen.latency", "p99", 42_750_000.0),
                ("loadgen.ttft", "min", 10_250_000.0),
                ("loadgen.tpot", "max", 3_125_000.0),
                ("loadgen.completed_samples_per_s", "value", 2.0 / 0.08275),
            ],
        ),
    ];
    for ((name, _, files), (of, rows)) in READ.iter().zip(expected) {
        assert_eq!(*name, of);
        let mut run = serving_run();
        if *name == "guidellm" {
            run.loads.truncate(1);
        }
        let found = numbers(&read(&export(name, &run), &|path| files.contains(&path)));
        for (metric, statistic, value) in rows {
            let key = ((*metric).to_owned(), (*statistic).to_owned());
            let read = found.get(&key).unwrap_or_else(|| panic!("{metric} {statistic} in {found:#?}"));
            assert!((read - value).abs() <= 1e-12 * value.abs(), "{metric} {statistic}: {read}, not {value}");
        }
    }
}

#[test]
fn own_readers_take_all_files_of_each_format() {
    for (name, format, _) in READ {
        let results = read(&export(name, &serving_run()), &|path| !path.ends_with("detail.txt"));
        assert_eq!(results.format.name, format);
        assert!(!results.rows.is_empty());
    }
}

#[test]
fn requests_are_read_back_bit_for_bit() {
    let run = serving_run();
    let results = read(&export("vllm", &run), &|path| path == "concurrency-2-trial-1.json");
    let samples: Vec<Value> = text(&results.samples).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let ttfts: Vec<f64> = samples.iter().filter_map(|sample| sample["values"]["vllm.ttft"].as_f64()).collect();
    let of = |record: &Record| (record.first_token_ns.expect("a token") - record.sent_ns.expect("sent")) as f64 / 1e9;
    let own: Vec<f64> = run.loads[0].trials[0].requests.iter().map(of).collect();
    assert_eq!(
        ttfts.iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
        own.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
    );
}

#[test]
fn failed_requests_are_counted_and_have_no_latency() {
    let run = serving_run();
    let second = json(&export("vllm", &run), "concurrency-2-trial-2.json");
    assert_eq!((&second["completed"], &second["failed"], &second["num_prompts"]), (&2.into(), &4.into(), &6.into()));
    assert_eq!(second["errors"], serde_json::json!(["", "http_error", "cancelled", "connect_error", ""]));
    assert_eq!(second["ttfts"], serde_json::json!([0.01, 0.0, 0.0, 0.0, 0.03]));
    let summary = json(&export("aiperf", &run), "concurrency-2-trial-2/profile_export_aiperf.json");
    let counts = ["request_count", "error_request_count", "completed_request_count"].map(|tag| summary[tag]["avg"].clone());
    assert_eq!(counts, [2.0, 3.0, 5.0], "the tool counts a cancelled request as an error");
    let lines = file(&export("aiperf", &run), "concurrency-2-trial-2/profile_export.jsonl").to_owned();
    let codes: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON")["error"]["code"].clone()).collect();
    assert_eq!(codes, [Value::Null, 503.into(), 499.into(), Value::Null, Value::Null]);
    let guidellm = json(&export("guidellm", &run), "chat.engine.default-trial-2/benchmarks.json");
    let totals = &guidellm["benchmarks"][0]["metrics"]["request_totals"];
    assert_eq!(*totals, serde_json::json!({"successful": 2, "errored": 2, "incomplete": 1, "total": 5}));
}

/// The duration is from the first send time to the last token event, both of requests that succeeded: `BenchmarkDurationMetric` of AIPerf 0.13.0
/// folds over valid records alone. A failed request that begins before or ends after them changes nothing. The tool's rates are over the longer
/// time of its phase, so the table states that these differ.
#[test]
fn rates_of_aiperf_are_over_the_duration_and_are_stated_to_differ() {
    let differing: BTreeSet<&str> = format("aiperf").differing().map(|(field, _)| field).collect();
    for rate in ["request_throughput", "output_token_throughput", "total_token_throughput", "input_token_throughput"] {
        assert!(differing.contains(rate), "{rate}");
    }
    assert!(!differing.contains("benchmark_duration"));
    let rates = |run: &ExportedRun| {
        let summary = json(&export("aiperf", run), "concurrency-2-trial-2/profile_export_aiperf.json");
        ["benchmark_duration", "request_throughput", "request_count"].map(|tag| summary[tag]["avg"].as_f64().expect("a number"))
    };
    let mut run = serving_run();
    let [duration, throughput, count] = rates(&run);
    assert!((throughput - count / duration).abs() < 1e-12);
    let requests = &mut run.loads[0].trials[1].requests;
    let failed =
        requests.iter_mut().find(|request| !request.outcome.is_ok() && request.sent_ns.is_some()).expect("a failed request");
    (failed.sent_ns, failed.end_ns) = (Some(-1_000_000_000), Some(9_000_000_000));
    assert!(rates(&run).iter().zip([duration, throughput, count]).all(|(now, before)| (now - before).abs() < 1e-12));
    let ok = run.loads[0].trials[1].requests.iter_mut().find(|request| request.outcome.is_ok()).expect("a request");
    ok.sent_ns = ok.sent_ns.map(|sent| sent - 1_000_000_000);
    assert!((rates(&run)[0] - duration - 1.0).abs() < 1e-9, "a second more: {:?} {duration}", rates(&run));
}

/// vLLM takes the time of all requests, so one that fails late makes its rates lower.
#[test]
fn the_duration_of_vllm_includes_failed_requests() {
    let mut run = serving_run();
    let numbers = |run: &ExportedRun| {
        let document = json(&export("vllm", run), "concurrency-2-trial-2.json");
        ["duration", "request_throughput"].map(|name| document[name].clone())
    };
    assert_eq!(numbers(&run), [0.0825, 2.0 / 0.0825].map(Value::from));
    let requests = &mut run.loads[0].trials[1].requests;
    let failed = requests.iter_mut().find(|request| request.outcome == Outcome::HttpError).expect("a failed request");
    failed.end_ns = Some(4_000_000_000);
    assert_eq!(numbers(&run), [4.0, 0.5].map(Value::from));
}

/// Planned cancellations are no errors, whatever their status is, and a request without a response is one. So the codes add up to the number of errors.
#[test]
fn the_error_codes_of_genai_bench_are_those_of_the_failed_requests() {
    let mut run = serving_run();
    let cancelled = run.loads[0].trials[1].requests.iter_mut().find(|request| request.outcome == Outcome::Cancelled);
    cancelled.expect("a cancelled request").http_status = Some(200);
    // A response may fail behind a status of success.
    let late = run.loads[0].trials[1].requests.iter_mut().find(|request| request.outcome == Outcome::ConnectError);
    late.expect("a failed request").http_status = Some(200);
    let document =
        json(&export("genai-bench", &run), "chat.engine.default-trial-2/D50_5_text-to-text_num_concurrency_2_time_1s.json");
    let rows = document["individual_request_metrics"].as_array().expect("rows");
    let errors: Vec<_> = rows.iter().filter_map(|row| row.get("error_code")).collect();
    assert_eq!((rows.len(), errors), (4, vec![&Value::from(503), &Value::from(-1)]), "a cancelled request is no row");
    let aggregate = &document["aggregated_metrics"];
    assert_eq!(aggregate["error_codes_frequency"], serde_json::json!({"-1": 1, "503": 1}));
    assert_eq!(aggregate["num_error_requests"], 2);
    assert!(format("genai-bench").differing().any(|(field, _)| field == "aggregated_metrics.error_rate"));
}

#[test]
fn latencies_count_from_the_connection_if_each_request_opens_one() {
    let mut run = serving_run();
    let load = &mut run.loads[0];
    let record = &mut load.trials[0].requests[0];
    record.connect_start_ns = record.sent_ns.map(|sent| sent - 2_000_000);
    let ttft = |run: &ExportedRun| json(&export("vllm", run), "concurrency-2-trial-1.json")["ttfts"][0].clone();
    assert_eq!(ttft(&run), 0.01, "an idle connection was opened before");
    run.loads[0].serving.as_mut().expect("serving").opens_connections = true;
    assert_eq!(ttft(&run), 0.012);
}

#[test]
fn what_the_records_do_not_hold_is_left_out_and_said() {
    let mut run = serving_run();
    assert!(export("vllm", &run).remarks.is_empty());
    run.loads[0].trials[0].requests[0].chunks.pop();
    let sampled = export("vllm", &run);
    assert_eq!(
        sampled.remarks,
        ["`concurrency-2-trial-1` has no times between token events: the records do not hold all of them"]
    );
    let document = json(&sampled, "concurrency-2-trial-1.json");
    assert!(document.get("itls").is_none() && document.get("mean_itl_ms").is_none() && document.get("mean_ttft_ms").is_some());
    run.loads[0].serving.as_mut().expect("serving").is_streamed = false;
    let document = json(&export("vllm", &run), "concurrency-2-trial-1.json");
    assert!(document.get("ttfts").is_none() && document.get("mean_ttft_ms").is_none() && document.get("mean_e2el_ms").is_some());
    for known in ["vllm", "aiperf", "genai-bench", "guidellm"] {
        let remarks = export(known, &run).remarks;
        let said = remarks.iter().filter(|remark| remark.ends_with("the responses were not streamed")).count();
        assert_eq!(said, 2, "{known}: {remarks:?}");
        assert!(!remarks.iter().any(|remark| remark.contains("the records do not hold")), "{known}: {remarks:?}");
    }
}

#[test]
fn responses_of_one_token_are_said_to_have_no_later_one() {
    let mut run = serving_run();
    run.loads.truncate(1);
    run.loads[0].trials.truncate(1);
    run.loads[0].trials_planned = 1;
    for request in &mut run.loads[0].trials[0].requests {
        (request.output_tokens, request.token_events) = (Some(1), 1);
        request.chunks.truncate(1);
    }
    for known in ["vllm", "aiperf", "genai-bench", "guidellm"] {
        let expected = "`concurrency-2-trial-1` has no time of later tokens or between them: no response has a second token";
        assert_eq!(export(known, &run).remarks, [expected], "{known}");
    }
}

/// Responses of these APIs have no tokens, and the tool writes 0.
#[test]
fn an_api_without_output_tokens_has_none_in_all() {
    let totals = |api: &str| {
        let mut run = serving_run();
        run.loads[0].serving.as_mut().expect("serving").api = api.to_owned();
        run.loads[0].trials[0].requests.iter_mut().for_each(|request| request.output_tokens = None);
        let document = json(&export("vllm", &run), "concurrency-2-trial-1.json");
        ["total_output_tokens", "output_throughput"].map(|name| document.get(name).and_then(Value::as_f64))
    };
    assert_eq!(totals("rerank"), [Some(0.0), Some(0.0)]);
    assert_eq!(totals("chat"), [None, None], "unknown token counts are not 0");
}

/// Each remark is made about the run that it is true of, and about no other.
#[test]
fn remarks_are_of_the_loads_that_a_format_lacks() {
    let closed = || {
        let mut run = serving_run();
        run.loads.truncate(1);
        run
    };
    for known in serving_formats().filter(|format| !["loadgen", "genai-bench"].contains(&format.name)) {
        assert_eq!(export(known.name, &closed()).remarks, Vec::<String>::new(), "{}", known.name);
    }
    let cancelled = "requests of `concurrency-2-trial-2` that the client cancelled as planned, which are not in the files because the tool cancels none: 1";
    assert_eq!(export("genai-bench", &closed()).remarks, [cancelled]);
    assert_eq!(
        export("genai-bench", &serving_run()).remarks,
        ["`rate-4-trial-1` is not in the files: the tool has no load but a concurrency without sessions", cancelled]
    );
    let mut other = serving_run();
    other.loads[1].serving.as_mut().expect("serving").arrival = ExportedArrival::Other;
    assert_eq!(export("guidellm", &other).remarks, ["`rate-4-trial-1` is not in the files: the tool has no such load"]);
    for known in ["vllm", "benchmark-report"] {
        let no_field =
            "`rate-4-trial-1` does not state its load: the tool has no field for sessions, users, a trace or a rate that changes";
        assert_eq!(export(known, &other).remarks, [no_field], "{known}");
    }
    let mut failed = serving_run();
    failed.loads[1].trials[0].requests.clear();
    assert_eq!(
        export("guidellm", &failed).remarks,
        ["`rate-4-trial-1` is not in the files: no request succeeded, and the tool demands times"]
    );
    let mut sampled = closed();
    sampled.loads[0].trials[0].requests[0].chunks.pop();
    let remarks = export("aiperf", &sampled).remarks;
    assert!(
        matches!(remarks.as_slice(), [one] if one.contains("`concurrency-2-trial-1` has no `inter_chunk_latency`")),
        "{remarks:?}"
    );
    let mut fewer = closed();
    fewer.loads[0].trials_planned += 1;
    for known in serving_formats() {
        let remarks = export(known.name, &fewer).remarks;
        assert_eq!(remarks[0], "`chat.engine.default` at `concurrency-2`: 2 of 3 trials count", "{}", known.name);
        let named = export("openlineage", &missing(25)).remarks.remove(0);
        assert!(named.contains("27 trials count; in no file: trial 3 (`client_behind`), trial 4 (no attempt), "), "{named}");
        assert!(named.ends_with("trial 22 (no attempt) and 5 more"), "{named}");
    }
    let mut mixed = closed();
    let mut indicator = indicator_run().loads.remove(0);
    indicator.case_id = "micro.host.default".to_owned();
    mixed.loads.push(indicator);
    assert_eq!(export("vllm", &mixed).remarks, ["`micro.host.default` is not in the files: it is not serving"]);
}

#[test]
fn a_run_that_a_format_does_not_hold_is_refused_by_name() {
    let refused = |name: &str, run: &ExportedRun| written(format(name), run).expect_err("refused").to_string();
    for known in serving_formats().filter(|format| !["openlineage", "mlflow"].contains(&format.name)) {
        assert_eq!(
            refused(known.name, &indicator_run()),
            format!("the format `{}` holds results of serving, and the run has none", known.name)
        );
    }
    let no_script = "the format `amun` holds indicators with a script, and the run has no such load";
    assert_eq!([refused("amun", &serving_run()), refused("amun", &indicator_run())], [no_script; 2]);
    let mut none = script_run();
    none.loads.iter_mut().for_each(|load| load.trials.clear());
    assert_eq!(refused("amun", &none), "no trial of the run counts, so there is no result to export");
    let mut empty = serving_run();
    empty.loads.iter_mut().for_each(|load| load.trials.clear());
    assert_eq!(refused("vllm", &empty), "no trial of the run counts, so there is no result to export");
    assert_eq!(refused("mlflow", &empty), "no trial of the run counts, so there is no result to export");
    let mut open = serving_run();
    open.loads.remove(0);
    assert_eq!(
        refused("genai-bench", &open),
        "the format `genai-bench` holds closed loops of serving without sessions: loads with a concurrency, and the run has no such load"
    );
    open.loads[0].serving.as_mut().expect("serving").arrival = ExportedArrival::Other;
    assert!(matches!(written(format("guidellm"), &open), Err(ExportError::NoLoad { .. })));
    let mut alike = indicator_run();
    let twin = crate::ExportedValue { metric: "@result.latency:us".to_owned(), ..alike.loads[0].trials[0].values[0].clone() };
    alike.loads[0].trials[0].values.push(twin);
    let exported = export("mlflow", &alike);
    let metrics: Vec<&str> = paths(&exported).into_iter().filter_map(|path| Some(path.split_once("/metrics/")?.1)).collect();
    let digits = "_result.latency_us-";
    assert!(metrics.contains(&"_result.latency_us") && metrics.iter().any(|name| name.starts_with(digits)), "{metrics:?}");
    assert_eq!(exported.remarks.len(), 2, "{:?}", exported.remarks);
    assert_eq!(exported.remarks[0], "the metric `@result.latency/us` has the name `_result.latency_us`");
    assert!(
        exported.remarks[1].starts_with("the metric `@result.latency:us` has the name `_result.latency_us-"),
        "{:?}",
        exported.remarks
    );
}

#[test]
fn an_mlperf_result_is_never_valid() {
    let files = whole(&export("loadgen", &serving_run()));
    assert!(files.contains("Result is : INVALID") && files.contains("\"key\":\"result_validity\""));
    assert!(!files.contains("Result is : VALID") && !files.contains("\"value\":\"VALID\""));
    let export = export("loadgen", &serving_run());
    let has = |path: &str| paths(&export).contains(&path);
    assert!(has("rate-4-trial-1/mlperf_log_summary.txt") && !has("concurrency-2-trial-1/mlperf_log_summary.txt"));
    assert_eq!(export.remarks.len(), 2, "{:?}", export.remarks);
}

/// The reader of LoadGen's own checker (`MLPerfLog` of `log_parser.py`) demands a marked JSON document a line, takes any key, and counts errors by
/// `metadata.is_error`.
#[test]
fn a_log_of_loadgen_states_failures_and_cancellations() {
    let files = export("loadgen", &serving_run());
    let log = |path: &str| -> (BTreeMap<String, Value>, Vec<String>) {
        let (mut values, mut errors) = (BTreeMap::new(), Vec::new());
        for line in file(&files, path).lines() {
            let message: Value = serde_json::from_str(line.strip_prefix(":::MLLOG ").expect("marked")).expect("JSON");
            let key = message["key"].as_str().expect("a key").to_owned();
            errors.extend(message["metadata"]["is_error"].as_bool().expect("a flag").then(|| key.clone()));
            assert!(values.insert(key, message["value"].clone()).is_none(), "each key once");
        }
        (values, errors)
    };
    let counts = |path: &str| {
        let (values, errors) = log(path);
        (["ok", "failed", "cancelled", "not_sent"].map(|outcome| values[&format!("assay_requests_{outcome}")].clone()), errors)
    };
    let failed = counts("concurrency-2-trial-2/mlperf_log_detail.txt");
    assert_eq!(failed, ([2, 2, 1, 1].map(Value::from), vec!["assay_requests_failed".to_owned()]));
    let clean = counts("concurrency-2-trial-1/mlperf_log_detail.txt");
    assert_eq!(clean, ([3, 0, 0, 0].map(Value::from), Vec::new()));
    assert!(file(&files, "rate-4-trial-1/mlperf_log_summary.txt").contains("\nassay_requests_failed : 0\n"));
}

#[test]
fn a_run_without_a_result_has_failed() {
    let mut run = serving_run();
    let kinds = |run: &ExportedRun| -> Vec<Value> {
        let export = export("openlineage", run);
        file(&export, "events.ndjson")
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["eventType"].clone())
            .collect()
    };
    assert_eq!(kinds(&run), ["START", "COMPLETE"]);
    run.has_result = false;
    assert_eq!(kinds(&run), ["START", "FAIL"]);
}

#[test]
fn files_of_several_cases_have_their_names() {
    let mut run = serving_run();
    let mut other = run.loads[0].clone();
    other.case_id = "chat.other.default".to_owned();
    run.loads.push(other);
    let export = export("vllm", &run);
    assert!(paths(&export).contains(&"chat.other.default-concurrency-2-trial-2.json"), "{:?}", paths(&export));
    assert_eq!(paths(&export).iter().collect::<BTreeSet<_>>().len(), 5);
}

/// Records are loaded trial by trial, by the formats that need them; what fails there, or where files are written, ends the export.
#[test]
fn records_are_loaded_and_files_written_one_after_the_other() {
    let held = serving_run();
    let mut run = held.clone();
    run.loads.iter_mut().flat_map(|load| &mut load.trials).for_each(|trial| trial.requests.clear());
    for known in serving_formats() {
        let loaded = RefCell::new(Vec::new());
        let load = |trial: &ExportedTrial| {
            loaded.borrow_mut().push(trial.trial_id.clone());
            held_requests(&held, trial)
        };
        let mut files: Vec<ExportedFile> = Vec::new();
        known.write(&run, &load, &mut files).expect("written");
        assert_eq!(files, export(known.name, &held).files, "{}", known.name);
        let loaded: BTreeSet<String> = loaded.into_inner().into_iter().collect();
        let needs_records = known.needs == Needs::Records;
        assert_eq!(!loaded.is_empty(), needs_records, "{}", known.name);
        let failed = known.write(&run, &|_| Err("no store".into()), &mut Vec::<ExportedFile>::new());
        assert_eq!(matches!(failed, Err(ExportError::Requests(_))), needs_records, "{}", known.name);
        let full = known.write(&run, &|trial| held_requests(&held, trial), &mut FullDisk);
        assert!(matches!(full, Err(ExportError::Write { .. })), "{}: {full:?}", known.name);
    }
}

/// Returns the records that the trial of another run of the same name holds.
#[expect(clippy::unnecessary_wraps, reason = "the type of a function that loads records")]
fn held_requests(held: &ExportedRun, trial: &ExportedTrial) -> Result<Vec<Record>, Box<dyn std::error::Error + Send + Sync>> {
    let trials = held.loads.iter().flat_map(|load| &load.trials);
    Ok(trials.filter(|held| held.trial_id == trial.trial_id).map(|held| held.requests.clone()).next().unwrap_or_default())
}

/// A place that takes no byte.
struct FullDisk;

impl ExportSink for FullDisk {
    fn write(&mut self, _: &Path, content: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
        content(&mut &mut [][..])
    }
}

#[test]
fn the_page_has_every_field() {
    let page = exports_page();
    for known in EXPORT_FORMATS {
        for field in known.fields {
            assert!(page.contains(&format!("| `{}` |", field.field)), "{}: {}", known.name, field.field);
        }
    }
}

proptest! {
    /// Whatever the instants are, each format writes files or says why not, its numbers are finite, and statistics follow from the requests.
    #[test]
    fn whatever_the_instants_are_the_numbers_are_those_of_the_requests(
        times in prop::collection::vec((0_i64..1_000, 0_i64..1_000, 0_i64..100), 1..40), streamed in any::<bool>(),
    ) {
        let mut run = serving_run();
        run.loads.truncate(1);
        let requests = times.iter().zip(0..).map(|((sent, ttft, gap), index)| request(index, *sent, *ttft, *gap)).collect();
        run.loads[0].trials.truncate(1);
        run.loads[0].trials[0].requests = requests;
        run.loads[0].serving.as_mut().expect("serving").is_streamed = streamed;
        for known in EXPORT_FORMATS {
            if let Ok(export) = written(known, &run) {
                prop_assert!(!whole(&export).contains("NaN"));
            }
        }
        let document = json(&export("vllm", &run), "concurrency-2-trial-1.json");
        let mean = times.iter().map(|(_, ttft, _)| *ttft as f64 * 1e6).sum::<f64>() / times.len() as f64 / 1e6;
        prop_assert_eq!(document["mean_ttft_ms"].as_f64(), streamed.then_some(mean));
    }

    /// Records of any content, such as those of a hostile endpoint: no panic.
    #[test]
    fn any_record_is_written(sent in any::<Option<i64>>(), first in any::<Option<i64>>(), last in any::<Option<i64>>(), end in any::<Option<i64>>(), tokens in any::<Option<u32>>()) {
        let mut run = serving_run();
        for record in run.loads.iter_mut().flat_map(|load| &mut load.trials).flat_map(|trial| &mut trial.requests) {
            (record.sent_ns, record.first_token_ns, record.last_token_ns, record.end_ns, record.output_tokens) = (sent, first, last, end, tokens);
        }
        for known in EXPORT_FORMATS {
            let _ = written(known, &run);
        }
    }
}
