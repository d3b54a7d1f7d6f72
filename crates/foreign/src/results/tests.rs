//! Whole readings: every example of every format, each row of each table, credentials and the commonest damage.

use std::collections::BTreeSet;
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
                    let line: Value = serde_json::from_slice(rows.samples.trim_ascii()).expect("a row");
                    assert_eq!(line["values"][field.metric], json!(7.5), "{name}");
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

#[test]
fn a_field_that_no_table_has_is_counted() {
    let results = changed(
        "vllm",
        "\"failed\": 0",
        "\"failed\": 0, \"novel\": [{\"score\": 1}, {\"score\": 2}], \"hf_abcdefghijklmnopqrstuvwx\": 1",
    )
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
