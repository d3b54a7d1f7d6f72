//! JMH: `-rf json`.

use serde_json::Value;

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, label,
};
use crate::results::format::{Label, Place, Shape, Unit};
use Relation::Unlike;

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "jmh",
    tool: "JMH",
    versions: "1.37, by its documented format",
    recognised_by: "a list with `jmhVersion`, `benchmark` and `primaryMetric`",
    examples: &[ResultExample {
        name: "throughput",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("jmh-result.json", include_str!("../examples/jmh.json"))],
    }],
    parts: &[Part {
        name: "results",
        form: Form::Json,
        recognises: |document| {
            let first = document.as_array().and_then(|results| results.first());
            first.is_some_and(|first| {
                ["benchmark", "mode"].iter().all(|name| first.get(name).is_some_and(Value::is_string))
                    && first.get("primaryMetric").is_some()
            })
        },
        version: Version::OfTool("[]/jmhVersion", &["1"]),
        scopes: &[
            Scope { at: "[]", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS },
            Scope { at: "[]/primaryMetric/rawData[]", kind: ScopeKind::Samples, labels: LABELS, fields: SAMPLES },
        ],
        not_read: &[
            ("[]/primaryMetric/scoreError", "half of an interval by the tool; a text if there is one iteration"),
            ("[]/primaryMetric/scoreConfidence", "an interval by the tool"),
            ("[]/primaryMetric/rawDataHistogram", "a histogram"),
            ("[]/secondaryMetrics", "metrics of profilers"),
            ("[]/jvm", "a path"),
            ("[]/jvmArgs", "the configuration, which is no result"),
            ("[]/jdkVersion", "a version that the tool states"),
            ("[]/vmName", "a version that the tool states"),
            ("[]/vmVersion", "a version that the tool states"),
            ("[]/forks", "the configuration, which is no result"),
            ("[]/warmupIterations", "the configuration, which is no result"),
            ("[]/warmupTime", "the configuration, which is no result"),
            ("[]/warmupBatchSize", "the configuration, which is no result"),
            ("[]/measurementIterations", "the configuration, which is no result"),
            ("[]/measurementTime", "the configuration, which is no result"),
        ],
    }],
};

const LABELS: &[Label] = &[
    label("benchmark", "benchmark"),
    label("mode", "mode"),
    label("threads", "threads"),
    label("batch_size", "measurementBatchSize"),
    Label { name: "parameter", place: Place::Members { at: "params", but: &[] } },
];
const UNITS: Unit = Unit::StatedAt(
    "primaryMetric/scoreUnit",
    &[
        ("ops/s", "1/s"),
        ("ops/ms", "1/ms"),
        ("ops/us", "1/us"),
        ("ops/ns", "1/ns"),
        ("s/op", "s"),
        ("ms/op", "ms"),
        ("us/op", "us"),
        ("ns/op", "ns"),
    ],
);
const SCORE: &str = "operations per time, or the time of an operation, by the mode: the mean of iterations";

static FIELDS: &[ResultField] = &[
    ResultField {
        field: "primaryMetric/score",
        metric: "jmh.score",
        unit: UNITS,
        shape: Shape::Number("mean"),
        definition: SCORE,
        relation: Unlike,
    },
    ResultField {
        field: "primaryMetric/scorePercentiles",
        metric: "jmh.score",
        unit: UNITS,
        shape: Shape::Statistics,
        definition: "percentiles over iterations",
        relation: Unlike,
    },
];

static SAMPLES: &[ResultField] = &[ResultField {
    field: "",
    metric: "jmh.score",
    unit: UNITS,
    shape: Shape::Number("value"),
    definition: "the score of each iteration of a fork",
    relation: Unlike,
}];
