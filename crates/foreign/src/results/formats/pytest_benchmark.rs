//! pytest-benchmark: `--benchmark-json`.

use serde_json::Value;

use crate::results::format::{
    Form, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, all, label, one,
};
use crate::results::format::{Label, WRITTEN_BY_TOOL};
use Relation::Unlike;

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "pytest-benchmark",
    tool: "pytest-benchmark",
    versions: "5, from its files",
    recognised_by: "`machine_info` and `benchmarks` with `fullname` and `stats`",
    examples: &[ResultExample {
        name: "three-tests",
        origin: WRITTEN_BY_TOOL,
        files: &[("benchmark.json", include_str!("../examples/pytest-benchmark.json"))],
    }],
    parts: &[Part {
        name: "benchmarks",
        form: Form::Json,
        recognises: |document| {
            let first = document.get("benchmarks").and_then(Value::as_array).and_then(|benchmarks| benchmarks.first());
            document.get("machine_info").is_some()
                && first.is_some_and(|first| first.get("fullname").is_some() && first.get("stats").is_some_and(Value::is_object))
        },
        version: Version::OfTool("version", &["5"]),
        scopes: &[
            Scope { at: "benchmarks[]/stats", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS },
            Scope {
                at: "benchmarks[]/stats/data[]",
                kind: ScopeKind::Samples,
                labels: LABELS,
                fields: &[one("", "pytest-benchmark.time", "s", "the time of one call, as the mean of a round", Unlike)],
            },
        ],
        not_read: &[
            ("machine_info", "facts of the machine, which the tool states"),
            ("commit_info", "the commit, which the tool states"),
            ("datetime", "a time"),
            ("benchmarks[]/options", "the configuration, which is no result"),
            ("benchmarks[]/extra_info", "what the test adds"),
            ("benchmarks[]/params", "parameters, which `fullname` has as well"),
            ("benchmarks[]/param", "parameters, which `fullname` has as well"),
            ("benchmarks[]/group", "a name"),
            ("benchmarks[]/name", "a name, which `fullname` has as well"),
            ("benchmarks[]/stats/iqr_outliers", "the tool's judgement of outliers"),
            ("benchmarks[]/stats/stddev_outliers", "the tool's judgement of outliers"),
            ("benchmarks[]/stats/outliers", "the tool's judgement of outliers"),
            ("benchmarks[]/stats/ld15iqr", "the tool's judgement of outliers"),
            ("benchmarks[]/stats/hd15iqr", "the tool's judgement of outliers"),
        ],
    }],
};

const LABELS: &[Label] = &[label("benchmark", "fullname")];

static FIELDS: &[ResultField] = &[
    all("", "pytest-benchmark.time", "s", "the time of one call, as the mean of each round; `std` is of the sample", Unlike),
    one("iqr", "pytest-benchmark.iqr", "s", "third quartile - first quartile", Unlike),
    one("ops", "pytest-benchmark.calls_per_s", "1/s", "1 / mean time", Unlike),
    one("rounds", "pytest-benchmark.rounds", "1", "the number of rounds", Unlike),
    one("iterations", "pytest-benchmark.iterations", "1", "calls in a round", Unlike),
];
