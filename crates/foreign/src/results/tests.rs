//! Whole readings: every example of every format, each row of each table, credentials and the commonest damage.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use insta::assert_snapshot;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::format::{Relation, ResultFormat, Scope, ScopeKind, Shape, Unit};
use super::{RESULT_FORMATS, ResultFile, Results, ResultsError, read_results, results_page};

/// A value that no output may contain.
const CANARY: &str = "canary-4f2b9c7d1e";

fn read(files: &[(&str, &str)]) -> Result<Results, ResultsError> {
    let files: Vec<ResultFile<'_>> = files.iter().map(|(path, text)| ResultFile { path, bytes: text.as_bytes() }).collect();
    read_results(&files)
}

fn one(text: &str) -> Result<Results, ResultsError> {
    read(&[("file", text)])
}

/// Returns the first example of a format, whose first file is changed.
fn changed(format: &str, from: &str, to: &str) -> Result<Results, ResultsError> {
    let format = RESULT_FORMATS.iter().find(|known| known.name == format).expect("a format");
    let (path, text) = format.examples[0].files[0];
    assert!(text.contains(from), "{from}");
    read(&[(path, &text.replacen(from, to, 1))])
}

/// Returns the numbers of an example as text: three statistics of each metric at most, so that a snapshot can be read.
fn describe(results: &Results) -> String {
    let mut text = format!("{} {:?}\n", results.format.name, results.version);
    for row in results.rows.iter().filter(|row| ["value", "mean", "p99", "count"].contains(&row.statistic.as_str())) {
        let labels: Vec<String> = row.labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let _ = writeln!(text, "{} {} {} {} {}", row.metric, row.statistic, row.value, row.unit, labels.join(","));
    }
    let samples = String::from_utf8_lossy(&results.samples);
    let _ = writeln!(text, "{} samples, such as {}", results.sample_rows, samples.lines().next().unwrap_or_default());
    for field in &results.not_read {
        let _ = writeln!(text, "not read: {} x {}: {}", field.count, field.field, field.why);
    }
    text
}

#[test]
fn every_example_is_recognised_and_read() {
    for format in RESULT_FORMATS {
        assert!(!format.examples.is_empty(), "{}", format.name);
        for example in format.examples {
            let results = read(example.files).unwrap_or_else(|error| panic!("{}: {error}", example.name));
            assert_eq!((results.format.name, results.files.len()), (format.name, example.files.len()), "{}", example.name);
            assert_snapshot!(format!("results-{}-{}", format.name, example.name), describe(&results));
            // The names of files decide nothing.
            let renamed: Vec<(&str, &str)> = example.files.iter().map(|(_, text)| ("x", *text)).collect();
            let again = read(&renamed).expect("read");
            assert_eq!(again.rows.len(), results.rows.len(), "{}", example.name);
        }
    }
}

/// A text is as limited as a JSON document. A large file of no known format is left out like any other.
#[test]
fn a_text_above_the_limit_is_refused() {
    let format = RESULT_FORMATS.iter().find(|known| known.name == "loadgen").expect("a format");
    let (_, text) = format.examples[0].files[0];
    let line = format!("{}\n", "a ".repeat(32 << 10));
    let large = format!("{text}{}", line.repeat(1 + (64 << 20) / line.len()));
    assert_eq!(one(&large).expect_err("too large").to_string(), "more than 64 MiB in one document of `file`");
    let other = large.replacen("MLPerf Results Summary", "Other", 1);
    assert_eq!(read(&[("log", &other), ("summary", text)]).expect("read").files.len(), 1);
    assert_eq!(one(&other).expect_err("unknown"), ResultsError::Unknown);
}

/// The version decides if two pieces of evidence are of one tool, so it is no label.
#[test]
fn a_benchmark_report_states_the_version_of_its_tool() {
    let results = changed("benchmark-report", "tool_version: 0.3.0", "tool_version: 0.4.0").expect("read");
    let stated = [&results.format_version, &results.tool, &results.version].map(Option::as_deref);
    assert_eq!(stated, [Some("0.2"), Some("inference-perf"), Some("0.4.0")], "that of the format is another");
    assert!(results.rows.iter().all(|row| !row.labels.contains_key("tool_version")));
    let unnamed = changed("benchmark-report", "tool: inference-perf, ", "").expect("read");
    assert_eq!([unnamed.format_version.as_deref(), unnamed.tool.as_deref()], [Some("0.2"), None]);
    let aiperf = changed("aiperf", "mean", "mean").expect("read");
    assert_eq!([&aiperf.format_version, &aiperf.tool], [&None, &None], "its files are those of one tool");
    let report = include_str!("examples/benchmark-report.yaml");
    let other = report.replace("tool: inference-perf", "tool: guidellm");
    let refused = read(&[("a", report), ("b", &other)]).expect_err("two tools").to_string();
    assert_eq!(refused, "the files state two tools that measured, `inference-perf` and `guidellm`: import each by itself");
}

/// The metadata of an experiment states how the requests of all of its runs were made.
#[test]
fn the_metadata_beside_runs_of_genai_bench_labels_their_numbers() {
    let format = RESULT_FORMATS.iter().find(|known| known.name == "genai-bench").expect("a format");
    let [run, _, metadata] = format.examples[0].files else { panic!("two runs and their metadata") };
    let labels = |change: &dyn Fn(&str) -> String| {
        let results = read(&[*run, (metadata.0, &change(metadata.1))]).expect("read");
        let sampled = series(&results, "genai-bench.ttft").into_keys().next().expect("samples");
        (results.rows[0].labels.clone(), sampled)
    };
    let (before, sampled) = labels(&str::to_owned);
    let found: Vec<String> = before.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let expected = [
        "api_backend=vllm",
        "batch_size=1",
        "concurrency=1",
        "dataset_path=None",
        "max_requests_per_run=6",
        "max_time_per_run_s=60",
        "request.ignore_eos=true",
        "scenario=D(50,10)",
        "task=text-to-text",
    ];
    assert_eq!(found, expected);
    assert!(sampled.contains("\"api_backend\":\"vllm\""), "{sampled}");
    for (from, to) in [
        ("\"ignore_eos\": true", "\"ignore_eos\": false"),
        ("\"ignore_eos\": true", "\"chat_template_kwargs\": {\"enable_thinking\": false}"),
        ("\"api_backend\": \"vllm\"", "\"api_backend\": \"openai\""),
        ("\"dataset_path\": \"None\"", "\"dataset_path\": \"prompts.csv\""),
    ] {
        let (after, sampled_after) = labels(&|text| {
            assert!(text.contains(from), "{from}");
            text.replace(from, to)
        });
        assert!(after != before && sampled_after != sampled, "{to}");
    }
    // Each folder has its own metadata.
    let other = metadata.1.replace("\"api_backend\": \"vllm\"", "\"api_backend\": \"openai\"");
    let apart =
        read(&[("a/run.json", run.1), ("a/m.json", metadata.1), ("b/run.json", run.1), ("b/m.json", &other)]).expect("read");
    let backends: BTreeSet<&str> = apart.rows.iter().map(|row| row.labels["api_backend"].as_str()).collect();
    assert_eq!(backends.into_iter().collect::<Vec<_>>(), ["openai", "vllm"]);
    assert!(apart.rows.iter().all(|row| !row.labels.contains_key("file")), "these labels tell them apart");
    let both = read(&[*run, ("m.json", metadata.1), ("n.json", &other)]).expect("read");
    assert_eq!(both.rows[0].labels["api_backend"], "vllm or openai", "nothing tells which one is of the run");
}

/// Each member of the datasets states the load, whatever its kind.
#[test]
fn each_member_of_the_datasets_of_aiperf_is_a_label() {
    let labels = |to: &str| {
        let results = changed("aiperf", "\"type\": \"synthetic\",", to).expect(to);
        results.rows[0].labels.clone()
    };
    let before = labels("\"type\": \"synthetic\",");
    assert_eq!((before["dataset_type"].as_str(), before["input_tokens"].as_str()), ("synthetic", "50"));
    assert!(!before.keys().any(|name| name.contains("seed") || name.starts_with("datasets.main.prompts.isl")), "{before:?}");
    for (member, label) in [
        ("\"type\": \"synthetic\", \"prefix_prompts\": {\"pool_size\": 4},", "datasets.main.prefix_prompts.pool_size=4"),
        ("\"type\": \"file\", \"path\": \"prompts.jsonl\",", "datasets.main.path=prompts.jsonl"),
        ("\"type\": \"synthetic\", \"images\": [{\"width\": 512}],", "datasets.main.images.0.width=512"),
    ] {
        let after = labels(member);
        let (name, value) = label.split_once('=').expect("a label");
        assert_eq!(after.get(name).map(String::as_str), Some(value), "{after:?}");
    }
    let inline = format!("\"type\": \"inline\", \"records\": [{}],", vec!["{\"text\": \"a b\", \"n\": 1}"; 500].join(","));
    let after = labels(&inline);
    assert!(after.len() <= 64 && after["datasets"].contains("... sha256:"), "{after:?}");
    let keyed = changed("aiperf", "\"type\": \"synthetic\",", &format!("\"type\": \"synthetic\", \"api_key\": \"{CANARY}\","));
    assert!(matches!(keyed, Err(ResultsError::Credential { .. })), "a credential is no label: the file is refused");
    let phase =
        changed("aiperf", "\"concurrency\": 2", "\"concurrency\": 2, \"concurrency_ramp\": {\"duration\": 10}").expect("read");
    assert_eq!(phase.rows[0].labels["phase.concurrency_ramp.duration"], "10");
}

/// A file whose figures do not agree is read, and the remark has both figures.
#[test]
fn figures_that_do_not_agree_are_remarked() {
    let remarks = |format: &str, from: &str, to: &str| changed(format, from, to).expect("read").remarks;
    let added = |format: &str, from: &str, to: &str| {
        let known = remarks(format, from, from);
        remarks(format, from, to).into_iter().filter(|remark| !known.contains(remark)).collect::<Vec<_>>()
    };
    let mut all = Vec::new();
    for (format, from, to) in [
        ("vllm", "\"completed\": 4", "\"completed\": 3"),
        ("vllm", "\"num_prompts\": 4", "\"num_prompts\": 5"),
        ("vllm", "\"duration\": 1.25", "\"duration\": 2.5"),
        ("vllm", "\"total_token_throughput\": 192.0", "\"total_token_throughput\": 292.0"),
        ("vllm", "\"request_goodput\": null", "\"request_goodput\": 3.3"),
        ("vllm", "\"p99_ttft_ms\": 7.076", "\"p99_ttft_ms\": 1.076"),
        ("vllm", "\"mean_e2el_ms\": 8.475", "\"mean_e2el_ms\": 6.2"),
        ("sglang", "\"mean_ttft_ms\": 20.5", "\"mean_ttft_ms\": 220.5"),
        ("sglang", "\"duration\": 0.5", "\"duration\": 0.7"),
        ("genai-bench", "\"num_requests\": 58", "\"num_requests\": 60"),
        ("genai-bench", "\"requests_per_second\": 51.9841328006938", "\"requests_per_second\": 99.5"),
        ("guidellm", "\"request_totals\": {\n     \"successful\": 6", "\"request_totals\": {\n     \"successful\": 5"),
        ("inference-perf", "\"count\": 120", "\"count\": 130"),
        ("inference-perf", "\"mean\": 0.81", "\"mean\": 0.05"),
        ("genai-bench", "\"mean\": 0.017200028034557332", "\"mean\": 0.0077"),
        (
            "aiperf",
            "\"good_request_count\": {\n  \"unit\": \"requests\",\n  \"avg\": 8.0",
            "\"good_request_count\": {\n  \"unit\": \"requests\",\n  \"avg\": 9.0",
        ),
        ("aiperf", "\"avg\": 15.20027225", "\"avg\": 1.520027225"),
        ("aiperf", "\"p99\": 16.964844059999997", "\"p99\": 0.5"),
        ("pytest-benchmark", "\"rounds\": 8", "\"rounds\": 9"),
        ("hyperfine", "\"exit_codes\": [0, ", "\"exit_codes\": ["),
        ("hyperfine", "\"mean\": 0.1042", "\"mean\": 0.2042"),
        ("loadgen", "99.00 percentile latency (ns)   : 820570769", "99.00 percentile latency (ns)   : 82057076"),
        ("benchmark-report", "p99: 0.11,", "p99: 0.011,"),
        ("benchmark-report", "failures: 1", "failures: 1000"),
    ] {
        let found = added(format, from, to);
        assert!(!found.is_empty(), "{format}: {to}");
        all.extend(found);
    }
    assert_snapshot!("results-remarks", all.join("\n"));
    for format in RESULT_FORMATS {
        for example in format.examples {
            let found = read(example.files).expect("read").remarks;
            let is_shortened = example.origin == super::format::SHORTENED;
            assert_eq!(found.is_empty(), !is_shortened, "{} {}: {found:?}", format.name, example.name);
        }
    }
}

#[test]
fn a_version_whose_files_are_not_known_is_remarked() {
    let remarks =
        |format, from, to| changed(format, from, to).expect("read").remarks.pop().filter(|remark| remark.contains("version"));
    let of_report = |to| remarks("benchmark-report", "version: \"0.2\"", to);
    assert_eq!(
        of_report("version: \"0.9\"").as_deref(),
        Some(
            "the files are of version 0.9 of Benchmark Report, and what is read is that of version 0.2, by its documented format: \
             definitions may differ"
        )
    );
    assert!(of_report("version: \"0.20\"").is_some_and(|remark| remark.contains("version 0.20 ")));
    for known in ["version: \"0.2\"", "version: \"0.2.1\""] {
        assert_eq!(of_report(known), None, "{known}");
    }
    assert!(remarks("aiperf", "\"aiperf_version\": \"0.13.0\"", "\"aiperf_version\": \"0.14.0\"").is_some());
    let exported = changed("aiperf", "\"aiperf_version\": \"0.13.0\"", "\"aiperf_version\": \"assay-0.1.0\"").expect("read");
    let of_export = "the files state that Assay 0.1.0 exported them from a run, and AIPerf did not make them: the run itself has the evidence";
    assert_eq!(exported.remarks, [of_export]);
    let of_library = |to| remarks("google-benchmark", "\"library_version\": \"v1.8.3\", ", to);
    assert!(of_library("\"library_version\": \"v2.0\", ").is_some());
    for unstated in ["", "\"library_version\": \"\", ", "\"library_version\": \"v1.8.3\", "] {
        assert_eq!(of_library(unstated), None, "what is not stated is not known to be another: {unstated}");
    }
}

#[test]
fn the_number_of_remarks_is_limited() {
    let run = |number: u32| format!("{{\"command\": \"c{number}\", \"mean\": 1, \"user\": 1, \"system\": 1, \"max\": 0.5}}");
    let runs = (0..60).map(run).collect::<Vec<_>>().join(",");
    let remarks = one(&format!("{{\"results\": [{runs}]}}")).expect("read").remarks;
    assert_eq!(
        (remarks.len(), remarks[0].as_str()),
        (51, "figures of `file`, entry 1 do not agree: of `hyperfine.wall_time`, its mean is 1 s, and its max is 0.5 s")
    );
    assert_eq!(remarks[50], "and 10 more remarks of this kind");
}

/// Google Benchmark writes a row with the coefficient of a fitted complexity, and one with the error of the fit, which are no times.
#[test]
fn the_rows_of_a_fitted_complexity_are_named_as_what_they_are() {
    let rows = r#"{"name": "BM_Sum_BigO", "run_name": "BM_Sum", "run_type": "aggregate", "repetitions": 1, "threads": 1, "aggregate_name": "BigO", "aggregate_unit": "time", "cpu_coefficient": 0.1, "real_coefficient": 0.1, "big_o": "N", "time_unit": "ns"},
        {"name": "BM_Sum_RMS", "run_name": "BM_Sum", "run_type": "aggregate", "repetitions": 1, "threads": 1, "aggregate_name": "RMS", "aggregate_unit": "percentage", "rms": 0.02},
        {"name": "BM_Sum_gap", "run_name": "BM_Sum", "run_type": "aggregate", "repetitions": 2, "threads": 1, "aggregate_name": "gap", "aggregate_unit": "percentage", "iterations": 2, "real_time": 0.5, "cpu_time": 0.5, "time_unit": "ns"}
  ]"#;
    let results = changed("google-benchmark", "\n  ]", &format!(",\n{rows}")).expect("read");
    assert_eq!(results.rows, changed("google-benchmark", "\n  ]", "\n  ]").expect("read").rows, "they are no numbers");
    let why = |field: &str| {
        let found = results.not_read.iter().filter(|found| found.field == field);
        found.map(|found| found.why.as_str()).collect::<Vec<_>>().join("; ")
    };
    let rms = "the root mean square of the errors of the fitted complexity, as a share of the mean CPU time, which is no time";
    assert_eq!(why("benchmarks[].rms"), rms);
    assert_eq!(
        why("benchmarks[].cpu_coefficient"),
        "the coefficient of the fitted complexity, which is the time of no benchmark"
    );
    let ratios = "a coefficient of variation, which is no time; a ratio that the benchmark defines, which is no time";
    assert_eq!(why("benchmarks[]"), ratios);
}

// A difference between two runs that is no label would let their numbers be compared as if they were of one load.
#[test]
fn the_configuration_that_a_file_states_is_a_label() {
    let labels = |format: &str, from: &str, to: &str| {
        let results = changed(format, from, to).expect("read");
        results.rows.first().map(|row| row.labels.clone()).unwrap_or_default()
    };
    for (format, from, to) in [
        ("sglang", "\"random_input_len\": 50", "\"random_input_len\": 8192"),
        ("sglang", "\"dataset_name\": \"random\"", "\"dataset_name\": \"sharegpt\""),
        ("sglang", "\"backend\": \"sglang\"", "\"backend\": \"vllm\""),
        ("vllm", "\"num_prompts\": 4", "\"num_prompts\": 5"),
        ("vllm", "\"burstiness\": 1.0", "\"burstiness\": 0.5"),
        ("vllm", "\"backend\": \"openai-chat\"", "\"backend\": \"openai\""),
        ("benchmark-report", "rate_qps: 2.0", "rate_qps: 2.0, input_seq_len: {distribution: fixed, value: 512}"),
        ("benchmark-report", "rate_qps: 2.0", "rate_qps: 2.0, output_seq_len: {distribution: fixed, value: 512}"),
        ("benchmark-report", "rate_qps: 2.0", "rate_qps: 2.0, source: sampled"),
        ("aiperf", "\"mean\": 50.0", "\"mean\": 8192.0"),
        ("guidellm", "\"prompt_tokens\": 50,", "\"prompt_tokens\": 8192,"),
        ("loadgen", "target_qps : 10", "target_qps : 20"),
        ("aiperf", "\"time_to_first_token\": 50.0", "\"time_to_first_token\": 5.0"),
        ("guidellm", "\"prefix_buckets\": null", "\"prefix_buckets\": [{\"prefix_tokens\": 4000}]"),
        ("guidellm", "\"max_concurrency\": 2", "\"max_concurrency\": 8"),
        ("jmh", "\"measurementBatchSize\": 1", "\"measurementBatchSize\": 1000"),
        ("k6", "\"vus_max\": {\"value\": 10", "\"vus_max\": {\"value\": 1000"),
    ] {
        let (before, after) = (labels(format, from, from), labels(format, from, to));
        assert!(!before.is_empty() && before != after, "{format}: {to}: {after:?}");
    }
}

/// LoadGen writes the tokens per second twice if it has the latencies of tokens.
#[test]
fn both_numbers_of_a_summary_of_loadgen_are_read() {
    let twice = "Additional Stats\n================================================\nCompleted tokens per second                 : 74638.54\n";
    let results =
        changed("loadgen", "Additional Stats\n================================================\n", twice).expect("read");
    let value = |metric: &str| results.rows.iter().find(|row| row.metric == metric).map(|row| row.value);
    assert_eq!(value("loadgen.completed_tokens_per_s"), Some(3_200.5));
    assert_eq!(value("loadgen.additional_completed_tokens_per_s"), Some(74_638.54));
    let summary = "Completed tokens per second: 3200.50\n";
    let refused = changed("loadgen", summary, &summary.repeat(2)).expect_err("a number that is stated twice in one section");
    assert_eq!(refused.to_string(), "`Completed tokens per second` in `mlperf_log_summary.txt` is no finite number");
    assert!(refused.hint().is_some_and(|hint| hint.contains("stated twice")));
}

/// inference-perf sets the rate of a closed loop to its number of requests, so a label of it would be wrong.
#[test]
fn a_closed_loop_of_inference_perf_has_no_request_rate() {
    let labels = |text: &str| {
        let results = changed("inference-perf", "\"requested_rate\": 2.0,", text).expect("read");
        let labels: BTreeSet<String> =
            results.rows.iter().flat_map(|row| row.labels.iter().map(|(name, value)| format!("{name}={value}"))).collect();
        let left_out = results
            .not_read
            .iter()
            .any(|field| field.field == "load_summary/requested_rate" && field.why.contains("closed loop"));
        (labels.into_iter().collect::<Vec<_>>().join(" "), left_out)
    };
    assert_eq!(labels("\"requested_rate\": 2.0,"), ("request_rate=2".to_owned(), false));
    assert_eq!(labels("\"requested_rate\": 120, \"concurrency\": 8,"), ("concurrency=8".to_owned(), true));
    assert_eq!(labels("\"concurrency\": 8,"), ("concurrency=8".to_owned(), false));
}

fn scopes(format: &ResultFormat) -> impl Iterator<Item = (&'static super::format::Part, &'static Scope)> {
    format.parts.iter().flat_map(|part| part.scopes.iter().map(move |scope| (part, scope)))
}

/// Puts a value at a path of a document.
fn put(document: &mut Value, path: &str, value: Value) {
    if path.is_empty() {
        *document = value;
        return;
    }
    let (name, rest) = path.split_once('/').unwrap_or((path, ""));
    let (name, is_list) = name.strip_suffix("[]").map_or((name, false), |name| (name, true));
    if name.is_empty() {
        if !document.is_array() {
            *document = json!([{}]);
        }
        return put(&mut document[0], rest, value);
    }
    let member = if document.is_object() {
        &mut document[name]
    } else {
        *document = json!({});
        &mut document[name]
    };
    if is_list {
        if !member.is_array() {
            *member = json!([{}]);
        }
        put(&mut member[0], rest, value);
    } else {
        put(member, rest, value);
    }
}

/// Each row of each table: a document of this field alone beside what the part is recognised by gives this metric, with its unit, and the value is
/// refused if it is no number.
#[test]
fn each_row_of_each_table_reads_its_field() {
    for format in RESULT_FORMATS {
        for (part, scope) in scopes(format) {
            for field in scope.fields {
                let value = |number: Value| {
                    let (at, number) = match field.shape {
                        Shape::Number(_) => (super::path::join(&super::path::without_conditions(scope.at), field.field), number),
                        Shape::Statistics if field.field.contains("{}") => (
                            super::path::join(&super::path::without_conditions(scope.at), &field.field.replace("{}", "p99")),
                            number,
                        ),
                        Shape::Statistics => {
                            (super::path::join(&super::path::without_conditions(scope.at), field.field), json!({"p99": number}))
                        }
                    };
                    let mut document = json!({});
                    put(&mut document, &at, number);
                    if let Unit::StatedAt(place, known) = field.unit {
                        let object = match (field.shape, field.field.rsplit_once('/')) {
                            (Shape::Statistics, _) => super::path::join(&super::path::without_conditions(scope.at), field.field),
                            (Shape::Number(_), Some((object, _))) => {
                                super::path::join(&super::path::without_conditions(scope.at), object)
                            }
                            (Shape::Number(_), None) => String::new(),
                        };
                        let outer = scope.at.split('/').next().unwrap_or_default();
                        let object = match place {
                            place if place.starts_with('_') => "",
                            place if place.contains('/') => outer,
                            _ => &object,
                        };
                        put(&mut document, &super::path::join(object, place), json!(known[0].0));
                    }
                    let mut rows = super::rows::Found::default();
                    let spot = super::rows::Spot { file: 0, path: "f", document: 1 };
                    rows.read(spot, part, &document).map(|()| rows)
                };
                let name = format!("{} {}", format.name, field.field);
                let rows = value(json!(7.5)).unwrap_or_else(|error| panic!("{name}: {error}"));
                if scope.kind == ScopeKind::Samples {
                    let lines = rows.samples.values().next().unwrap_or_else(|| panic!("{name}"));
                    let values: Value = serde_json::from_slice(lines.trim_ascii()).expect("a row");
                    assert_eq!(values[field.metric], json!(7.5), "{name}");
                    assert!(rows.units.contains_key(field.metric), "{name}");
                } else {
                    let found =
                        rows.rows.iter().find(|found| found.row.metric == field.metric).unwrap_or_else(|| panic!("{name}"));
                    assert_eq!(found.row.value.to_bits(), 7.5_f64.to_bits(), "{name}");
                    assert!(!found.row.unit.is_empty());
                }
                let wrong = value(json!("fast")).expect_err(&name);
                assert!(matches!(wrong, ResultsError::NoNumber { .. }), "{name}: {wrong}");
            }
        }
    }
}

/// A metric has one definition: its name has the prefix of its tool, or is that of a metric of Assay that is defined alike.
#[test]
fn names_without_a_prefix_are_metrics_of_assay() {
    let ours: BTreeSet<String> = assay_metric::reference_page().split('`').map(str::to_owned).collect();
    let is_ours = |name: &str| ["", "_mean", "_p50"].iter().any(|statistic| ours.contains(&format!("{name}{statistic}")));
    for format in RESULT_FORMATS {
        for (_, scope) in scopes(format) {
            for field in scope.fields {
                let has_prefix = field.metric.starts_with(&format!("{}.", format.name));
                match field.relation {
                    Relation::Equal => assert!(!has_prefix && is_ours(field.metric), "{} is no metric of Assay", field.metric),
                    Relation::Differs(..) | Relation::Unlike => assert!(has_prefix, "{} of {}", field.metric, format.name),
                }
                if let Relation::Differs(near, _) = field.relation {
                    assert!(is_ours(near) || ["input_tokens", "output_tokens"].contains(&near), "{near} is no metric of Assay");
                }
            }
        }
    }
}

#[test]
fn numbers_that_are_none_are_named() {
    let message = |result: Result<Results, ResultsError>| result.expect_err("refused").to_string();
    assert_eq!(
        message(changed("vllm", "\"mean_ttft_ms\": 6.425", "\"mean_ttft_ms\": NaN")),
        "`mean_ttft_ms` in `vllm-4.0qps-m.json` is no finite number"
    );
    assert_eq!(message(changed("vllm", "\"failed\": 0", "\"failed\": -1")), "`failed` in `vllm-4.0qps-m.json` is below zero");
    assert_eq!(message(changed("perf-stat", "1012.31,", "nan,")), "`counters[].value` in `perf.csv` is no finite number");
    assert_eq!(
        message(changed("aiperf", "\"unit\": \"ms\"", "\"unit\": \"parsecs\"")),
        "the unit of `request_latency.avg` in `profile_export_aiperf.json` is not known"
    );
    assert_eq!(
        message(changed("genai-bench", "\"_time_unit\": \"s\"", "\"_time_unit\": \"fortnights\"")),
        "the unit of `aggregated_metrics.stats.ttft.max` in `D50_10_text-to-text_num_concurrency_1_time_1s.json` is not known"
    );
}

#[test]
fn files_that_are_none_of_a_format_are_refused() {
    let message = |result: Result<Results, ResultsError>| result.expect_err("refused").to_string();
    let unknown = "no file is of a format whose results can be imported";
    for text in ["", "{}", "[]", "text", "{\"aiperf_version\": 1}", "\u{0}"] {
        assert_eq!(message(one(text)), unknown, "{text}");
    }
    for (text, problem) in [
        ("{\"a\": 1,\n", "it ends too early, at line 2, column 0"),
        ("{\"a\": }", "it is not JSON at line 1, column 7"),
        ("", "it ends too early, at line 1, column 0"),
    ] {
        assert_eq!(message(read(&[("r.json", text)])), format!("`r.json` is damaged in document 1: {problem}"));
    }
    let files = |format: &str| RESULT_FORMATS.iter().find(|known| known.name == format).expect("a format").examples[0].files[0];
    assert_eq!(
        message(read(&[files("vllm"), files("sglang")])),
        "`vllm-4.0qps-m.json` is of vllm bench serve, and `sglang_1129_8_random.jsonl` of sglang.bench_serving: import the results of each \
         tool by themselves"
    );
    let (path, text) = files("sglang");
    assert!(
        message(read(&[(path, &text[..text.len() - 9])])).starts_with("`sglang_1129_8_random.jsonl` is damaged in document 2")
    );
    let (path, text) = files("aiperf");
    let newer = text.replace("\"aiperf_version\": \"0.13.0\"", "\"aiperf_version\": \"0.14.0\"");
    assert_eq!(
        message(read(&[(path, text), ("b", &newer)])),
        "the files state two versions of the tool, `0.13.0` and `0.14.0`: import each by itself"
    );
    assert_eq!(
        message(read(&[("experiment_metadata.json", include_str!("examples/genai-bench-metadata.json"))])),
        "the files of genai-bench state no number that is read"
    );
}

#[test]
fn equal_loads_of_several_files_are_told_apart() {
    let format = RESULT_FORMATS.iter().find(|known| known.name == "vllm").expect("a format");
    let (_, text) = format.examples[0].files[0];
    let alone = read(&[("a", text)]).expect("read");
    assert!(alone.rows.iter().all(|row| !row.labels.contains_key("file")));
    let both = read(&[("a", text), ("b", text)]).expect("read");
    assert_eq!(both.rows.len(), 2 * alone.rows.len());
    assert_eq!(both.rows.last().and_then(|row| row.labels.get("file")).map(String::as_str), Some("b"));
    let twice = read(&[("a", text), ("a", text)]).expect_err("the same place").to_string();
    assert!(twice.contains("twice for the same load"), "{twice}");
}

/// Returns the labels of the samples of a metric, with the values of each.
fn series(results: &Results, metric: &str) -> BTreeMap<String, Vec<Value>> {
    let mut series: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in results.samples.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let line: Value = serde_json::from_slice(line).expect("a row");
        if let Some(value) = line["values"].get(metric) {
            series.entry(line["labels"].to_string()).or_default().push(value.clone());
        }
    }
    series
}

/// A sweep of AIPerf has a folder for each concurrency. Its requests do not state the concurrency.
#[test]
fn samples_of_different_runs_are_told_apart() {
    let aiperf = include_str!("examples/aiperf-requests.jsonl");
    let swept = read(&[("c2/profile_export.jsonl", aiperf), ("c64/profile_export.jsonl", aiperf)]).expect("read");
    let found = series(&swept, "aiperf.e2e");
    assert_eq!(found.values().map(Vec::len).collect::<Vec<_>>(), [3, 3], "{found:?}");
    assert!(found.keys().all(|labels| labels.contains("/profile_export.jsonl\"") && !labels.contains("document")), "{found:?}");
    let alone = series(&one(aiperf).expect("read"), "aiperf.e2e");
    assert!(alone.len() == 1 && alone.keys().all(|labels| !labels.contains("file")), "{alone:?}");

    let run = |rate: u64, ttft: f64| {
        let text = RESULT_FORMATS.iter().find(|known| known.name == "sglang").expect("a format").examples[0].files[0].1;
        let mut run: Value = serde_json::from_str(&text.lines().next().expect("a line").replace("Infinity", "0")).expect("JSON");
        (run["request_rate"], run["ttfts"]) = (json!(rate), json!([ttft, ttft, ttft, ttft]));
        run.to_string()
    };
    let thrice = series(&one(&[run(1, 0.1), run(1, 0.2), run(1, 0.3)].join("\n")).expect("read"), "sglang.ttft");
    assert_eq!(thrice.values().map(Vec::len).collect::<Vec<_>>(), [4, 4, 4], "{thrice:?}");
    assert!(thrice.keys().all(|labels| labels.contains("\"document\":")), "{thrice:?}");
    let rates = series(&one(&[run(1, 0.1), run(2, 0.2)].join("\n")).expect("read"), "sglang.ttft");
    assert!(rates.len() == 2 && rates.keys().all(|labels| !labels.contains("document")), "labels tell them apart: {rates:?}");
}

#[test]
fn samples_have_the_parameters_of_their_benchmark() {
    let jmh = read(RESULT_FORMATS.iter().find(|known| known.name == "jmh").expect("a format").examples[0].files).expect("read");
    let found = series(&jmh, "jmh.score");
    assert!(found.keys().all(|labels| labels.contains("\"parameter.size\":\"1024\"")), "{found:?}");
    let hyperfine = changed("hyperfine", "mean", "mean").expect("read");
    let found = series(&hyperfine, "hyperfine.wall_time");
    assert!(found.keys().all(|labels| labels.contains("\"parameter.lines\":\"1000\"")), "{found:?}");
}

/// Two executions of one command are an A/A comparison.
#[test]
fn equal_entries_of_a_document_are_numbered() {
    let results = changed("hyperfine", "sort -n numbers.txt", "sort numbers.txt").expect("read");
    let means: Vec<(f64, Option<&str>)> = results
        .rows
        .iter()
        .filter(|row| (row.metric.as_str(), row.statistic.as_str()) == ("hyperfine.wall_time", "mean"))
        .map(|row| (row.value, row.labels.get("entry").map(String::as_str)))
        .collect();
    assert_eq!(means, [(0.1042, Some("1")), (0.2046, Some("2"))]);
    assert!(results.rows.iter().all(|row| !row.labels.contains_key("file")));
    let found = series(&results, "hyperfine.wall_time");
    let of = |entry: &str| {
        found.iter().find(|(labels, _)| labels.contains(&format!("\"entry\":\"{entry}\""))).map(|(_, of)| of[0].clone())
    };
    assert_eq!((of("1"), of("2")), (Some(json!(0.1031)), Some(json!(0.2031))));
    let different = changed("hyperfine", "mean", "mean").expect("read");
    assert!(different.rows.iter().all(|row| !row.labels.contains_key("entry")));
}

#[test]
fn a_long_label_is_shortened_with_a_digest() {
    let label = |command: &str| {
        let results = changed("hyperfine", "sort numbers.txt", command).expect("read");
        results.rows[0].labels["command"].clone()
    };
    let (a, b) = (label(&"é".repeat(1_000)), label(&("é".repeat(999) + "e")));
    assert!(a.len() <= 1_000 && a.starts_with("éé") && a.contains("... sha256:"), "{a}");
    assert_ne!(a, b, "the digest tells them apart");
    assert_eq!(label(&"x".repeat(1_000)), "x".repeat(1_000));
}

/// Each row has its own labels, so a small file with many labels and statistics would take gigabytes.
#[test]
fn labels_and_rows_are_limited_before_they_take_memory() {
    let members = |count: usize, name: &str| (0..count).map(|at| format!("\"{name}{at}\": \"x\"")).collect::<Vec<_>>().join(",");
    let labels = |count: usize| changed("jmh", "\"size\": \"1024\"", &members(count, "p")).expect("read").rows[0].labels.clone();
    assert_eq!(labels(60).len(), 64, "with the benchmark, the mode, the threads and the size of a batch");
    let many = labels(61);
    assert_eq!((many.len(), many["parameter"].starts_with("{\"p0\":\"x\"")), (5, true), "more of them are one label: {many:?}");
    let percentiles = (0..60_000).map(|at| format!("\"{}\": 1.0", f64::from(at) / 1_000.0)).collect::<Vec<_>>().join(",");
    let many = changed("jmh", "\"0.0\": 1018.0", &percentiles).expect_err("too many").to_string();
    assert_eq!(many, "more than 50000 numbers");
    let long = (0..60).map(|at| format!("\"p{at}\": \"{}\"", "x".repeat(900))).collect::<Vec<_>>().join(",");
    let text = RESULT_FORMATS.iter().find(|known| known.name == "jmh").expect("a format").examples[0].files[0].1;
    let text = text.replace("\"size\": \"1024\"", &long).replace("\"0.0\": 1018.0", &percentiles);
    assert_eq!(one(&text).expect_err("too many").to_string(), "more than 64 MiB of labels");
}

#[test]
fn times_of_groups_of_iterations_are_divided() {
    let estimates = include_str!("examples/criterion-estimates.json");
    let times = |iters: &str, times: &str| {
        let sample = format!("{{\"sampling_mode\":\"Linear\",\"iters\":{iters},\"times\":{times}}}");
        read(&[("sum/new/estimates.json", estimates), ("sum/new/sample.json", &sample)])
    };
    let found = series(&times("[1, 2, 3]", "[10.0, 20.0, 30.0]").expect("read"), "criterion.iteration_time");
    assert_eq!(found.into_values().collect::<Vec<_>>(), [[json!(10.0), json!(10.0), json!(10.0)]]);
    // A sample whose groups have half as many iterations and equal times is half as fast.
    let slower = series(&times("[1, 1, 2]", "[20.0, 20.0, 40.0]").expect("read"), "criterion.iteration_time");
    assert_eq!(slower.into_values().collect::<Vec<_>>(), [[json!(20.0), json!(20.0), json!(20.0)]]);
    for iters in ["[1, 2]", "[1, 0, 3]", "[1, \"2\", 3]"] {
        let refused = times(iters, "[10.0, 20.0, 30.0]").expect_err("refused").to_string();
        assert_eq!(refused, "`sum/new/sample.json` has not one number in `iters`, of at least 1, for each in `times`", "{iters}");
    }
}

/// Returns the number of values of a field that were not read for a reason.
fn not_read(results: &Results, field: &str, why: &str) -> Option<u64> {
    results.not_read.iter().find(|found| (found.field.as_str(), found.why.as_str()) == (field, why)).map(|found| found.count.0)
}

#[test]
fn failed_requests_have_no_samples() {
    let failed = changed("vllm", "\"ttfts\": [0.0061", "\"ttfts\": [0.0").expect("read");
    assert_eq!(series(&failed, "vllm.ttft").into_values().next().map(|of| of.len()), Some(3));
    assert_eq!(not_read(&failed, "ttfts", "the request failed"), Some(1));
    let all = changed("vllm", "mean_ttft_ms", "mean_ttft_ms").expect("read");
    assert_eq!(
        (series(&all, "vllm.ttft").into_values().next().map(|of| of.len()), not_read(&all, "ttfts", "the request failed")),
        (Some(4), None)
    );

    let requests = include_str!("examples/aiperf-requests.jsonl");
    let cancelled = one(&requests.replacen("\"was_cancelled\":false", "\"was_cancelled\":true", 1)).expect("read");
    assert_eq!(cancelled.sample_rows, 2);
    assert!(not_read(&cancelled, "(request)", "the request was cancelled").is_some());
    let failed = changed("genai-bench", "\"error_code\": null", "\"error_code\": 500").expect("read");
    assert!(not_read(&failed, "individual_request_metrics[]", "the request failed").is_some());
}

#[test]
fn failed_and_skipped_benchmarks_are_left_out() {
    let failed = changed(
        "google-benchmark",
        "\"iterations\": 7000, \"real_time\": 101.5",
        "\"error_occurred\": true, \"real_time\": 101.5",
    );
    let failed = failed.expect("read");
    assert!(failed.rows.iter().all(|row| row.value.to_bits() != 101.5_f64.to_bits()));
    assert!(not_read(&failed, "benchmarks[]", "the benchmark failed or was skipped").is_some());
    let skipped =
        changed("google-benchmark", "\"iterations\": 7000, \"real_time\": 101.5", "\"skipped\": true, \"real_time\": 101.5");
    assert_eq!(skipped.expect("read").rows, failed.rows);
    // The members of a coefficient of variation are left out, and counted.
    let read = changed("google-benchmark", "\"context\"", "\"context\"").expect("read");
    assert_eq!(not_read(&read, "benchmarks[]", "a coefficient of variation, which is no time"), Some(13));
    assert_eq!(not_read(&read, "benchmarks[]", "the benchmark failed or was skipped"), None);

    let failed = changed("hyperfine", "\"exit_codes\": [0,", "\"exit_codes\": [1,").expect("read");
    assert!(failed.rows.iter().all(|row| row.labels["command"] == "sort -n numbers.txt"));
    assert_eq!(failed.sample_rows, 5);
    assert!(not_read(&failed, "results[]", "an execution of the command failed").is_some());

    for (from, to, why) in [
        ("\"was_cancelled\": false", "\"was_cancelled\": true", "the run was cancelled"),
        ("\"is_complete\": true", "\"is_complete\": false", "the run is not complete"),
    ] {
        let refused = changed("aiperf", from, to).expect_err(why).to_string();
        assert_eq!(refused, format!("the files of AIPerf state no number that is read: {why}"));
        let summary = include_str!("examples/aiperf-summary.json").replacen(from, to, 1);
        let requests = include_str!("examples/aiperf-requests.jsonl");
        let results = read_both(&summary, requests);
        assert_eq!((results.rows.len(), results.sample_rows, results.version.as_deref()), (0, 3, Some("0.13.0")));
        assert!(not_read(&results, "(summary)", why).is_some());
    }
}

fn read_both(first: &str, second: &str) -> Results {
    read(&[("first", first), ("second", second)]).expect("read")
}

/// Only differences may be below zero.
#[test]
fn counts_below_zero_are_refused() {
    let message = |result: Result<Results, ResultsError>| result.expect_err("refused").to_string();
    let k6 = include_str!("examples/k6.json");
    let count = one(&k6.replacen("\"count\": ", "\"count\": -", 1));
    assert!(message(count).ends_with(" in `file` is below zero"));
    assert_eq!(
        message(changed("google-benchmark", "\"iterations\": 7000", "\"iterations\": -7000")),
        "`benchmarks[].iterations` in `benchmark.json` is below zero"
    );
    let metrics: BTreeSet<&str> = RESULT_FORMATS
        .iter()
        .flat_map(|format| scopes(format))
        .flat_map(|(_, scope)| scope.fields)
        .map(|field| field.metric)
        .collect();
    for difference in super::format::DIFFERENCES {
        assert!(metrics.contains(difference), "{difference}");
    }
    let lower = include_str!("examples/inference-perf.json");
    let delay: Value = serde_json::from_str(lower).expect("JSON");
    let with = |statistic: &str| {
        let mut changed = delay.clone();
        changed["load_summary"]["schedule_delay"] = json!({statistic: -0.5});
        one(&changed.to_string())
    };
    assert!(with("mean").is_ok(), "a request may be sent early");
    assert_eq!(message(with("std")), "`load_summary.schedule_delay.std` in `file` is below zero");
}

#[test]
fn a_field_that_no_table_has_is_counted() {
    let results =
        changed("vllm", "\"failed\": 0", "\"failed\": 0, \"novel\": [{\"score\": 1}, {\"score\": 2}], \"two words\": 1")
            .expect("read");
    let found =
        |field: &str| results.not_read.iter().find(|found| found.field == field).map(|found| (found.count.0, found.why.as_str()));
    assert_eq!(found("novel[].score"), Some((2, "no table of Assay has this field")));
    assert_eq!(found("(a name that is not shown)"), Some((1, "no table of Assay has this field")));
    assert_eq!(found("request_goodput"), Some((1, "the tool states no value")));
    assert_eq!(found("generated_texts"), Some((4, "texts of responses")));
    assert_eq!(found("mean_ttft_ms"), None);
}

/// Tools write command lines and headers into their results.
#[test]
fn a_file_with_a_credential_is_refused_and_not_quoted() {
    let cases = [
        ("aiperf", "\"streaming\": true", format!("\"streaming\": true, \"api_key\": \"{CANARY}\"")),
        ("aiperf", "--endpoint-type 'chat'", format!("--endpoint-type 'chat' --api-key '{CANARY}'")),
        ("aiperf", "--endpoint-type 'chat'", format!("--endpoint-type 'chat' --header 'Authorization: Bearer {CANARY}'")),
        ("guidellm", "\"api_key\": null", format!("\"api_key\": \"{CANARY}\"")),
        ("guidellm", "\\\"headers\\\":null", format!("\\\"headers\\\":{{\\\"Authorization\\\":\\\"Bearer {CANARY}\\\"}}")),
        ("vllm", "\"label\": null", format!("\"label\": null, \"extra_headers\": [\"Authorization: Bearer {CANARY}\"]")),
        (
            "sglang",
            "\"tag\": null",
            format!("\"tag\": null, \"server_info\": [{{\"name\": \"PGPASSWORD\", \"value\": \"{CANARY}\"}}]"),
        ),
        ("vllm", "\"label\": null", format!("\"label\": null, \"seen\": {{\"X-Api-Key:{CANARY}\": 1}}")),
        ("aiperf", "--endpoint-type 'chat'", format!("--endpoint-type 'chat' --url http://h/v1?sig={CANARY}")),
        ("sglang", "\"tag\": null", format!("\"tag\": null, \"server_info\": {{\"api_key\": \"{CANARY}\"}}")),
    ];
    for (format, from, to) in cases {
        let error = changed(format, from, &to).expect_err(&to);
        assert!(matches!(error, ResultsError::Credential { .. }), "{format}: {error}");
        assert!(!format!("{error} {error:?}").contains(CANARY));
    }
    let metadata = include_str!("examples/genai-bench-metadata.json").replace("--api-key none", &format!("--api-key {CANARY}"));
    assert!(matches!(one(&metadata), Err(ResultsError::Credential { .. })));
}

#[test]
fn the_page_has_every_field() {
    let page = results_page();
    for format in RESULT_FORMATS {
        for (_, scope) in scopes(format) {
            for field in scope.fields {
                assert!(page.contains(&format!("| `{}` |", field.metric)), "{}", field.metric);
            }
        }
    }
}

proptest! {
    #[test]
    fn whatever_a_file_holds_it_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read_results(&[ResultFile { path: "f", bytes: &bytes }]);
    }

    /// An example with some bytes changed: nothing panics, and what is read is finite.
    #[test]
    fn a_damaged_example_is_read_or_refused(
        format in 0..RESULT_FORMATS.len(), place in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>(),
    ) {
        let (path, text) = RESULT_FORMATS[format].examples[0].files[0];
        let mut bytes = text.as_bytes().to_vec();
        bytes[place.index(text.len())] = byte;
        for bytes in [&bytes[..], &bytes[..cut.index(text.len())]] {
            if let Ok(results) = read_results(&[ResultFile { path, bytes }]) {
                prop_assert!(results.rows.iter().all(|row| row.value.is_finite()));
            }
        }
    }
}
