//! The hot metrics of a pipeline: the receivers of each run's headline numbers.

use super::{MAX_MAP, NAME_TYPE};
use crate::field::{Choice, Rule, Table, Type, Uniqueness, choice, default, optional, required};
use crate::format::{HEADER, HTTP_URL};

/// The most receivers of one pipeline: they get the numbers one after the other.
const MAX_RECEIVERS: usize = 8;
/// The most active series that a pipeline may allow.
const MAX_ACTIVE_SERIES: i64 = 2_000_000;

/// The labels of hot metrics. No other is allowed, because each of their values is a series.
pub(crate) static HOT_LABELS: [Choice; 8] = [
    choice("run_id", "The run."),
    choice("benchmark_case_id", "The case."),
    choice("cluster", "The cluster of the case's target; `local` without one."),
    choice("region", "Its region."),
    choice("node_pool", "Its node pool."),
    choice("gpu_model", "The model of its GPUs."),
    choice("scheduler_path", "Its scheduling path."),
    choice("concurrency_bucket", "The load of the point, as a power of two."),
];

pub(crate) static HOT_METRICS: Table = Table {
    name: "hot metrics",
    doc: "The time-series stores that get the headline numbers of each run, for dashboards and alerts.",
    selector: None,
    fields: &[
        required(
            "receivers",
            &Type::List { item: &Type::Object(&RECEIVER), min: 1, max: MAX_RECEIVERS, unique: Uniqueness::Field("name") },
            "The receivers.",
        ),
        default(
            "labels",
            &Type::List { item: &Type::Choice(&HOT_LABELS), min: 1, max: HOT_LABELS.len(), unique: Uniqueness::Item },
            r#"["run_id", "benchmark_case_id", "cluster", "region", "node_pool", "gpu_model", "scheduler_path", "concurrency_bucket"]"#,
            "The labels of the series, `benchmark_case_id` among them. There are no others.",
        ),
        default(
            "max_active_series",
            &Type::Integer { min: 1, max: MAX_ACTIVE_SERIES },
            "2000000",
            "The most series. A run with more is not pushed; with the `query` of a receiver, those that it has already count, too.",
        ),
        default("exploratory", &Type::Bool, "false", "Push the runs of an exploratory pipeline, too."),
    ],
    rules: &[],
};

static RECEIVER: Table = Table {
    name: "receiver",
    doc: "A time-series store that gets hot metrics, by its protocol.",
    selector: None,
    fields: &[
        required("name", &NAME_TYPE, "Its name."),
        optional(
            "remote_write",
            &Type::Text(&HTTP_URL),
            "The address of Prometheus remote write 1.0, such as `https://prometheus.example.org/api/v1/write`.",
        ),
        optional("pushgateway", &Type::Text(&HTTP_URL), "The address of a Pushgateway, such as `http://pushgateway:9091`."),
        optional(
            "otlp",
            &Type::Text(&HTTP_URL),
            "The address of OTLP metrics over HTTP, such as `http://collector:4318/v1/metrics`.",
        ),
        default(
            "headers",
            &Type::Map { key: &HEADER, value: &Type::HeaderSource, min: 0, max: MAX_MAP },
            "{}",
            "Headers sent with each request. One that carries credentials is a reference, such as \
             `Authorization: {from_env: PROMETHEUS_TOKEN, scheme: Bearer}`.",
        ),
        optional(
            "query",
            &Type::Text(&HTTP_URL),
            "The address of the query API of a Prometheus, such as `https://prometheus.example.org/api/v1/query`, which counts the active series \
             before the push. It gets the same headers.",
        ),
    ],
    rules: &[Rule::ExactlyOne(&["remote_write", "pushgateway", "otlp"])],
};
