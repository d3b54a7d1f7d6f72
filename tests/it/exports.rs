//! `assay export --format` of other tools over the real binaries: a run's numbers in each format, read back by Assay's own readers.

use std::fs;
use std::path::{Path, PathBuf};

use assay_export::EXPORT_FORMATS;
use serde_json::Value;

use crate::bench::{RUN, bench_fixture};
use crate::docs::{Reader, blocks};
use crate::pipeline::{list, text};
use crate::serving;
use crate::support::{CommandResult, Fixture, PIPELINE, binary, files_under, measured_fixture, pipeline, script};

fn export(fixture: &Fixture, run: &str, format: &str, to: &Path) -> CommandResult {
    fixture.assay(&["export", run, "--format", format, "--to", to.to_str().expect("text")])
}

/// Exports the run of four loads, and returns the folder.
fn exported(format: &str, test: &str) -> PathBuf {
    let (fixture, _) = bench_fixture();
    let folder = fixture.root().join(format!("export-{test}-{format}"));
    export(fixture, RUN, format, &folder).success();
    folder
}

/// The numbers that Assay's reader finds in an export: metric, statistic, value and labels.
fn read_back(folder: &Path) -> Vec<Value> {
    let (fixture, _) = bench_fixture();
    let read = fixture.assay(&["import", "results", folder.to_str().expect("text"), "--dry-run", "--json"]).success().json();
    list(&read["body"]["rows"]).clone()
}

/// The median over trials of a metric at a load, as `assay show` prints it.
fn shown_median(point: &str, metric: &str) -> f64 {
    let (fixture, _) = bench_fixture();
    let shown = fixture.assay(&["show", RUN, "--json"]).success().json();
    let result = list(&shown["results"]).iter().find(|result| result["point"] == point).expect("the load");
    let found = list(&result["metrics"]).iter().find(|found| found["metric"] == metric).expect("the metric");
    found["median"].as_f64().expect("a number")
}

/// A number of an export that is, by the definitions of both, a metric of `assay show`.
struct EqualNumber {
    format: &'static str,
    metric: &'static str,
    statistic: &'static str,
    /// The label that tells the load, and its value or the beginning of it.
    load: (&'static str, &'static str),
    /// The load and the metric of `assay show`.
    shown: (&'static str, &'static str),
    /// The unit of the export in that of Assay.
    unit: f64,
}

const fn equal(
    format: &'static str,
    number: (&'static str, &'static str),
    load: (&'static str, &'static str),
    shown: (&'static str, &'static str),
    unit: f64,
) -> EqualNumber {
    let (metric, statistic) = number;
    EqualNumber { format, metric, statistic, load, shown, unit }
}

/// Files of AIPerf and LoadGen state no load that is read, so the names of the files tell it.
const FOUR: (&str, &str) = ("file", "bench.simulator.default-concurrency-4-trial-");
const ONE: (&str, &str) = ("file", "bench.simulator.default-concurrency-1-trial-");

const EQUAL: [EqualNumber; 9] = [
    equal("vllm", ("vllm.ttft", "p99"), ("concurrency", "4"), ("concurrency-4", "ttft_ms_p99"), 1.0),
    equal("vllm", ("vllm.e2e", "mean"), ("concurrency", "1"), ("concurrency-1", "e2e_ms_mean"), 1.0),
    equal("benchmark-report", ("benchmark-report.ttft", "p99"), ("concurrency", "4"), ("concurrency-4", "ttft_ms_p99"), 1.0),
    equal(
        "benchmark-report",
        ("benchmark-report.request_throughput", "mean"),
        ("request_rate", "50"),
        ("rate-50", "request_throughput_per_s"),
        1.0,
    ),
    equal("aiperf", ("aiperf.ttft", "p50"), FOUR, ("concurrency-4", "ttft_ms_p50"), 1.0),
    equal("aiperf", ("icl_ms", "p99"), ONE, ("concurrency-1", "icl_ms_p99"), 1.0),
    equal("genai-bench", ("genai-bench.ttft", "p99"), ("concurrency", "4"), ("concurrency-4", "ttft_ms_p99"), 1e3),
    equal("guidellm", ("guidellm.ttft", "mean"), ("concurrency", "4"), ("concurrency-4", "ttft_ms_mean"), 1.0),
    equal("loadgen", ("loadgen.ttft", "mean"), ONE, ("concurrency-1", "ttft_ms_mean"), 1e-6),
];

#[test]
fn the_numbers_of_each_format_are_those_of_the_run() {
    for equal in EQUAL {
        let (point, own) = equal.shown;
        let rows = read_back(&exported(equal.format, &format!("{own}-{point}")));
        let is_wanted = |row: &&Value| {
            let (label, value) = equal.load;
            let is_number = row["metric"] == equal.metric && row["statistic"] == equal.statistic;
            is_number && row["labels"][label].as_str().is_some_and(|named| named.starts_with(value))
        };
        let of = |row: &Value| row["value"].as_f64().expect("a number") * equal.unit;
        let mut trials: Vec<f64> = rows.iter().filter(is_wanted).map(of).collect();
        trials.sort_by(f64::total_cmp);
        assert!((1..=3).contains(&trials.len()), "{} {} at {point}: {rows:#?}", equal.format, equal.metric);
        let shown = shown_median(point, own);
        // LoadGen writes whole nanoseconds.
        let tolerance = if equal.format == "loadgen" { 1e-6 } else { 1e-12 * shown };
        let found = median(&trials);
        assert!((found - shown).abs() <= tolerance, "{} {}: {found} beside {shown}", equal.format, equal.metric);
    }
}

/// The median of ascending values.
fn median(values: &[f64]) -> f64 {
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    f64::midpoint(low, high)
}

#[test]
fn every_format_is_written_with_what_ties_it_to_its_run_and_nothing_of_the_machine() {
    let (fixture, _) = bench_fixture();
    let root = fixture.root();
    let port =
        fixture.manifest(RUN, "provision")["body"]["targets"][0]["address"].as_str().unwrap_or("http://127.0.0.1:").to_owned();
    let result = fixture.pointer(RUN, "reduce").manifest;
    for format in EXPORT_FORMATS.iter().filter(|format| format.name != "amun") {
        let folder = root.join(format!("tied-{}", format.name));
        let printed = export(fixture, RUN, format.name, &folder).success().stdout;
        assert!(
            printed.ends_with(&format!("all fields of {}: docs/reference/exports.md#{}\n", format.tool, format.name)),
            "{printed}"
        );
        for (field, why) in format.left_out() {
            assert!(printed.contains(field) && printed.contains(why), "{field}: {printed}");
        }
        let texts: String = files_under(&folder).iter().map(|path| fs::read_to_string(path).expect("text")).collect();
        assert!(texts.contains(RUN) && texts.contains(result.as_str()), "{}", format.name);
        for part in [root.to_str().expect("text"), port.as_str(), "Authorization", "x-request-id:"] {
            assert!(!texts.contains(part), "{}: {part}", format.name);
        }
    }
}

#[test]
fn a_published_folder_has_no_records_and_all_manifests() {
    let (fixture, _) = bench_fixture();
    let published = format!("{}/", fixture.published(RUN).display());
    let to = |name: &str| fixture.root().join(format!("of-folder-{name}"));
    export(fixture, &published, "vllm", &to("vllm")).refuses(2, "no_evidence");
    assert!(!to("vllm").exists());
    for format in ["benchmark-report", "openlineage", "mlflow"] {
        export(fixture, &published, format, &to(format)).success();
    }
}

#[test]
fn what_a_format_has_no_place_for_is_refused_by_name() {
    let fixture = measured_fixture();
    let to = |name: &str| fixture.root().join(format!("refused-{name}"));
    for format in EXPORT_FORMATS {
        let ran = export(fixture, "one", format.name, &to(format.name));
        if ["openlineage", "mlflow", "amun"].contains(&format.name) {
            ran.success();
            continue;
        }
        let refused = ran.refuses(2, "export_format");
        let why = format!("the format `{}` holds results of serving, and the run has none", format.name);
        assert!(refused.stderr.contains(&why) && !to(format.name).exists(), "{}", refused.stderr);
    }
    let metrics = files_under(&to("mlflow").join("mlruns"));
    assert!(metrics.iter().any(|path| path.to_string_lossy().contains("/metrics/")), "{metrics:?}");
}

#[test]
fn options_of_rows_and_folders_that_exist_are_refused() {
    let (fixture, _) = bench_fixture();
    for (option, more) in
        [("--table", &["--table", "outcome_fact"][..]), ("--records", &["--records"]), ("--to -", &["--to", "-"])]
    {
        let refused = fixture.assay(&[&["export", RUN, "--format", "mlflow"], more].concat()).refuses(2, "export_format");
        assert!(refused.stderr.contains(&format!("`{option}` is an option of rows")), "{}", refused.stderr);
    }
    let there = fixture.root().join("there");
    fs::create_dir(&there).expect("a folder");
    export(fixture, RUN, "vllm", &there).refuses(2, "unwritable");
    assert_eq!(files_under(&there), Vec::<PathBuf>::new());
    let unknown = export(fixture, RUN, "xml", &fixture.root().join("xml")).exits(2);
    assert!(unknown.stderr.contains("benchmark-report") && unknown.stderr.contains("parquet"), "{}", unknown.stderr);
}

#[test]
fn a_folder_that_cannot_be_made_is_refused_with_what_helps() {
    let (fixture, _) = bench_fixture();
    let refused = export(fixture, RUN, "vllm", &fixture.root().join("absent/for-vllm")).refuses(2, "unwritable");
    assert!(refused.stderr.contains("hint: make the folder that it is to lie in first"), "{}", refused.stderr);
}

#[test]
fn a_limit_of_the_size_of_files_is_an_error_with_its_cause() {
    let (fixture, _) = bench_fixture();
    let to = fixture.root().join("limited");
    let script = "ulimit -f 1; exec \"$@\"";
    let mut command = fixture.command(Path::new("/bin/sh"));
    command.args(["-c", script, "sh"]).arg(binary("assay")).args(["export", RUN, "--format", "vllm", "--to"]).arg(&to);
    let refused = CommandResult::from_output(command.output().expect("it runs")).refuses(2, "unwritable");
    assert!(
        refused.stderr.contains("would be too large") && refused.stderr.contains("`ulimit -f unlimited`"),
        "{}",
        refused.stderr
    );
    assert!(!to.exists(), "nothing is left");
}

/// No format has a place for a trial that does not count: the command names each of them.
#[test]
fn trials_that_are_missing_are_named_with_the_reason() {
    let fixture = Fixture::bare();
    let body = "n=$(cat \"$HOME/../count\" 2>/dev/null || echo 0)\necho $((n + 1)) >\"$HOME/../count\"\ntest $n -eq 1 || exit 3\n\
                echo '{\"name\": \"only\", \"@parameters\": {}, \"@result\": {\"speed\": 1}}'";
    fixture.indicator("only", &script(&body.replace("$HOME/..", fixture.root().to_str().expect("text"))), "");
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 3, ""));
    fixture.commit("one trial of three counts");
    fixture.run("one");
    for format in ["mlflow", "openlineage", "amun"] {
        let to = fixture.root().join(format);
        let printed = export(&fixture, "one", format, &to).success().stdout;
        let note = "1 of 3 trials count; in no file: trial ";
        assert!(printed.contains(note) && printed.contains(" (`exit_code`), trial "), "{printed}");
    }
}

/// The requests of all shards are in one file, in the order in which they were due, and its numbers are those of the run.
#[test]
fn a_run_of_several_shards_is_exported_as_one() {
    let fixture = Fixture::bare();
    let fields = "  batching_policy: none\n  load: {mode: open, rate: [40], requests: 12}\n  lengths: D(8,4)\n";
    serving::workload_of(&fixture, "mix", fields);
    let target = "{name: sim, kind: simulator, config: {profile: fast}}";
    fixture.write(PIPELINE, &serving::pipeline(&["mix"], &[target], 2, serving::RETRY_BUDGET, "  shards: 3\n"));
    fixture.commit("three shards");
    fixture.run("three").success();
    assert_eq!(fixture.pointers("three", "execute").len(), 3, "each shard has its part");
    let shown = fixture.assay(&["show", "three", "--json"]).success().json();
    for format in EXPORT_FORMATS.iter().filter(|format| !["amun", "genai-bench"].contains(&format.name)) {
        let to = fixture.root().join(format.name);
        export(&fixture, "three", format.name, &to).success();
        if format.name == "vllm" {
            let files = files_under(&to);
            assert_eq!(files.len(), 2, "one for each trial: {files:?}");
            for file in files {
                let document: Value = serde_json::from_slice(&fs::read(file).expect("a file")).expect("JSON");
                assert_eq!((&document["num_prompts"], list(&document["ttfts"]).len()), (&12.into(), 12), "{document:#}");
                // Twelve requests at 40 a second: times of shards that did not count from one start would be far apart.
                let duration = document["duration"].as_f64().expect("a number");
                assert!((0.05..30.0).contains(&duration), "{duration}");
            }
        }
        if format.name == "aiperf" {
            let lines = fs::read_to_string(to.join("rate-40-trial-1/profile_export.jsonl")).expect("records");
            let of = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["metadata"]["session_num"].clone();
            let numbers: Vec<Value> = lines.lines().map(of).collect();
            assert_eq!(numbers, (0..12).map(Value::from).collect::<Vec<_>>(), "in the order of the schedule");
            let text = fs::read(to.join("rate-40-trial-1/profile_export_aiperf.json")).expect("a summary");
            let summary: Value = serde_json::from_slice(&text).expect("JSON");
            assert_eq!(summary["request_count"]["avg"], 12.0, "{summary:#}");
        }
        if format.name == "mlflow" {
            let values = files_under(&to).into_iter().filter(|path| path.ends_with("metrics/ttft_ms_mean"));
            let read = |path: PathBuf| {
                fs::read_to_string(path).expect("text").split(' ').nth(1).expect("a value").parse().expect("a number")
            };
            let mut values: Vec<f64> = values.map(read).collect();
            values.sort_by(f64::total_cmp);
            let found =
                list(&shown["results"][0]["metrics"]).iter().find(|found| found["metric"] == "ttft_ms_mean").expect("a metric");
            assert_eq!((values.len(), Some(median(&values))), (2, found["median"].as_f64()), "{found:#}");
        }
    }
}

/// The page is followed word by word.
#[test]
fn exports_are_followed_to_their_end() {
    let fixture = Fixture::bare();
    let mut reader = Reader::new(&fixture);
    let blocks = blocks(include_str!("../../docs/exports.md"));
    assert_eq!(blocks.len(), 4, "the page has its steps");
    for block in &blocks {
        reader.follow(block);
    }
    let first: Value =
        serde_json::from_slice(&fs::read(reader.folder.join("for-vllm/concurrency-4-trial-1.json")).expect("a file"))
            .expect("JSON");
    assert_eq!((text(&first["assay_run_id"]), &first["completed"]), ("exported", &20.into()));
}
