//! Google Benchmark: `--benchmark_format=json`.

use serde_json::Value;

use crate::failed;
use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, label, one,
};
use crate::results::format::{Label, Shape, Unit};
use Relation::Unlike;

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "google-benchmark",
    tool: "Google Benchmark",
    versions: "1.8, by its documented format",
    recognised_by: "`context` and `benchmarks` with `real_time`, `cpu_time` and `time_unit`",
    examples: &[ResultExample {
        name: "repetitions",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("benchmark.json", include_str!("../examples/google-benchmark.json"))],
    }],
    parts: &[Part {
        name: "benchmarks",
        form: Form::Prepared(|document, left_out| {
            left_out.take_out(document, "benchmarks", "benchmarks[]", reason);
            Ok(())
        }),
        recognises: |document| {
            let first = document.get("benchmarks").and_then(Value::as_array).and_then(|benchmarks| benchmarks.first());
            document.get("context").is_some()
                && first.is_some_and(|first| ["name", "real_time", "time_unit"].iter().all(|name| first.get(name).is_some()))
        },
        version: Version::OfTool("context/library_version", &["1"]),
        scopes: &[Scope { at: "benchmarks[]", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS }],
        not_read: &[
            ("context", "facts of the machine, which the tool states"),
            ("benchmarks[]/run_name", "a name, which `name` has as well"),
            ("benchmarks[]/run_type", "the kind of the row"),
            ("benchmarks[]/family_index", "a place in the order"),
            ("benchmarks[]/per_family_instance_index", "a place in the order"),
            ("benchmarks[]/repetitions", "the configuration, which is no result"),
            ("benchmarks[]/aggregate_unit", "the kind of the row"),
            ("benchmarks[]/cpu_coefficient", FIT),
            ("benchmarks[]/real_coefficient", FIT),
            ("benchmarks[]/big_o", "the complexity that was fitted"),
            (
                "benchmarks[]/rms",
                "the root mean square of the errors of the fitted complexity, as a share of the mean CPU time, which is no time",
            ),
        ],
    }],
};

/// Returns the reason why the numbers of a benchmark are not read.
fn reason(benchmark: &Value) -> Option<&'static str> {
    if failed::google_benchmark(benchmark).is_some() {
        return Some("the benchmark failed or was skipped");
    }
    // The members for times of such an aggregate hold a ratio. The row `RMS` is one, too, and has no such members.
    let is_ratio = benchmark.get("aggregate_unit").and_then(Value::as_str) == Some("percentage");
    match benchmark.get("aggregate_name").and_then(Value::as_str) {
        _ if !is_ratio || benchmark.get("real_time").is_none() => None,
        Some("cv") => Some("a coefficient of variation, which is no time"),
        _ => Some("a ratio that the benchmark defines, which is no time"),
    }
}

/// The reason for the members of the row `BigO`.
const FIT: &str = "the coefficient of the fitted complexity, which is the time of no benchmark";

const LABELS: &[Label] = &[
    label("benchmark", "name"),
    label("aggregate", "aggregate_name"),
    label("repetition", "repetition_index"),
    label("threads", "threads"),
];
const UNITS: Unit = Unit::StatedAt("time_unit", &[("ns", "ns"), ("us", "us"), ("ms", "ms"), ("s", "s")]);

static FIELDS: &[ResultField] = &[
    time("real_time", "google-benchmark.real_time", "the wall time of one iteration"),
    time("cpu_time", "google-benchmark.cpu_time", "the CPU time of one iteration"),
    one(
        "iterations",
        "google-benchmark.iterations",
        "1",
        "the number of iterations; of an aggregate, that of repetitions",
        Unlike,
    ),
    one("items_per_second", "google-benchmark.items_per_s", "1/s", "items that the benchmark counts, per second", Unlike),
    one("bytes_per_second", "google-benchmark.bytes_per_s", "bytes/s", "bytes that the benchmark counts, per second", Unlike),
];

const fn time(field: &'static str, metric: &'static str, definition: &'static str) -> ResultField {
    ResultField { field, metric, unit: UNITS, shape: Shape::Number("value"), definition, relation: Unlike }
}
