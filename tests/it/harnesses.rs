//! Scripts that run a benchmark harness: its output becomes the numbers of a run.

use serde_json::json;

use crate::pipeline::{list, text};
use crate::support::{Fixture, PIPELINE, pipeline, script};

/// The output of `go test -bench` of Go 1.26.
const GO: &str = include_str!("../../crates/foreign/src/harness/fixtures/go-1.26.txt");

/// The output of Google Benchmark.
const GOOGLE: &str = include_str!("../../crates/foreign/src/harness/fixtures/google-benchmark-1.9.5.json");

/// The metric of a workload that is judged.
const DECLARED: &str = "BenchmarkFields-2.time_nanoseconds";

/// Returns a run `one` of a script that prints the output of a harness.
fn run(format: &str, printed: &str, declared: &str) -> (Fixture, crate::support::CommandResult) {
    let fixture = Fixture::bare();
    let workload = format!(
        "apiVersion: assay.dev/v1alpha1
kind: Workload
metadata: {{name: only}}
spec:
  type: indicator
  script: {{path: run.sh}}
  output: {format}
  files: [printed]
  metrics: [{{path: '{declared}', unit: ns, better: lower}}]
"
    );
    fixture.indicator("only", &script("echo progress >&2\ncat printed"), "");
    fixture.write("workloads/only/workload.yaml", &workload);
    fixture.write("workloads/only/printed", printed);
    fixture.write(PIPELINE, &pipeline("exploratory", &["only"], 5, ""));
    fixture.commit("a harness");
    let ran = fixture.assay(&["run", PIPELINE, "--run-id", "one", "--json"]);
    (fixture, ran)
}

#[test]
fn each_benchmark_of_a_harness_is_a_metric_with_its_samples() {
    let (fixture, ran) = run("go-bench", GO, DECLARED);
    let shown = ran.success().json();
    let points = list(&shown["summary"]["points"]);
    let metrics: Vec<(&str, &str, bool)> = list(&points[0]["metrics"])
        .iter()
        .map(|metric| (text(&metric["metric"]), text(&metric["unit"]), metric["primary"] == json!(true)))
        .collect();
    assert!(metrics.contains(&(DECLARED, "ns", true)), "{metrics:?}");
    assert!(
        metrics.contains(&("BenchmarkCount/word_of-2.time_nanoseconds", "ns", false)),
        "by the name of its unit: {metrics:?}"
    );
    assert!(metrics.contains(&("BenchmarkFields-2.allocated_bytes", "bytes", false)), "{metrics:?}");
    fixture.verify_recomputed("one");
    let is_it = |number: &&serde_json::Value| number["metric"] == DECLARED && number["statistic"] == "median";
    let number = list(&shown["numbers"]).iter().find(is_it).expect("it is published");
    // The median of the three samples of each trial, which are all the same here.
    assert_eq!(number["value"], json!(93344.0), "{number}");
    let walked = fixture.assay(&["trace", text(&number["address"]), "--recompute"]).success().stdout;
    assert!(walked.contains("samples") && walked.contains("52089"), "the raw samples of the harness: {walked}");
}

#[test]
fn an_output_that_is_not_of_the_harness_is_no_number() {
    let (_, other) = run("go-bench", GOOGLE, DECLARED);
    let refused = other.refuses(30, "no_valid_trial");
    assert!(
        refused.stderr.contains(
            "the output cannot be read as one of go-bench: it is one of google-benchmark: write `output: google-benchmark`"
        ),
        "{}",
        refused.stderr
    );
    for (printed, why) in [
        ("", "the output is empty: let the script print what the harness prints"),
        (GOOGLE.get(..400).expect("a part"), "the output is cut: its JSON has no end, EOF while parsing"),
        ("12 tests ran\n", "the output is not JSON: trailing characters at line 1 column 4; it begins with `12 tests ran`"),
    ] {
        let (_, ran) = run("google-benchmark", printed, DECLARED);
        let refused = ran.refuses(30, "no_valid_trial");
        assert!(
            refused.stderr.contains(&format!("the output cannot be read as one of google-benchmark: {why}")),
            "{}",
            refused.stderr
        );
    }
    let (_, failed) = run("go-bench", &format!("{GO}--- FAIL: BenchmarkX (0.00s)\n"), DECLARED);
    let refused = failed.refuses(30, "no_valid_trial");
    assert!(refused.stderr.contains("the benchmark `BenchmarkX` failed"), "{}", refused.stderr);
    let (_, absent) = run("google-benchmark", GOOGLE, DECLARED);
    let refused = absent.refuses(30, "no_valid_trial");
    assert!(refused.stderr.contains("the result has no metric `BenchmarkFields-2.time_nanoseconds`"), "{}", refused.stderr);
}
