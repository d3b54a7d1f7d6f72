//! Benchmark Report v0.2 of llm-d-benchmark, in YAML or JSON.

use assay_spec::{MAX_OBJECT_BYTES, parse_documents};
use serde_json::Value;

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Label, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Shape, Unit,
    Version, label, one,
};
use Relation::{Differs, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "benchmark-report",
    tool: "Benchmark Report",
    versions: "0.2, by its documented format",
    recognised_by: "`version`, `run` and `results.request_performance`",
    examples: &[ResultExample {
        name: "yaml",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("report.yaml", include_str!("../examples/benchmark-report.yaml"))],
    }],
    parts: &[
        Part { name: "report", form: Form::Json, recognises: is_report, version: VERSION, scopes: SCOPES, not_read: NOT_READ },
        Part {
            name: "report",
            form: Form::Text(parse),
            recognises: is_report,
            version: VERSION,
            scopes: SCOPES,
            not_read: NOT_READ,
        },
    ],
};

const VERSION: Version = Version::OfFormat {
    format: "version",
    known: &["0.2"],
    tool: "scenario/load/standardized/tool",
    tool_version: "scenario/load/standardized/tool_version",
};

const SCOPES: &[Scope] =
    &[Scope { at: "results/request_performance/aggregate", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS }];

const LABELS: &[Label] = &[
    label("tool", "scenario/load/standardized/tool"),
    label("stage", "scenario/load/standardized/stage"),
    label("request_rate", "scenario/load/standardized/rate_qps"),
    label("concurrency", "scenario/load/standardized/concurrency"),
    label("parallelism", "scenario/load/standardized/parallelism"),
    label("source", "scenario/load/standardized/source"),
    label("input_distribution", "scenario/load/standardized/input_seq_len/distribution"),
    label("input_tokens", "scenario/load/standardized/input_seq_len/value"),
    label("input_std_dev", "scenario/load/standardized/input_seq_len/std_dev"),
    label("input_min", "scenario/load/standardized/input_seq_len/min"),
    label("input_max", "scenario/load/standardized/input_seq_len/max"),
    label("output_distribution", "scenario/load/standardized/output_seq_len/distribution"),
    label("output_tokens", "scenario/load/standardized/output_seq_len/value"),
    label("output_std_dev", "scenario/load/standardized/output_seq_len/std_dev"),
    label("output_min", "scenario/load/standardized/output_seq_len/min"),
    label("output_max", "scenario/load/standardized/output_seq_len/max"),
    label("prefix_tokens", "scenario/load/standardized/prefix/prefix_len/value"),
    label("prefix_groups", "scenario/load/standardized/prefix/num_groups"),
    label("prefix_users", "scenario/load/standardized/prefix/num_users_per_group"),
    label("prefixes", "scenario/load/standardized/prefix/num_prefixes"),
    label("turns", "scenario/load/standardized/multi_turn/max_turns/value"),
];

const NOT_READ: &[(&str, &str)] = &[
    ("run", "names, times and texts of the run"),
    ("scenario", "the configuration that is no label"),
    ("results/session_performance", "metrics of sessions"),
    ("results/observability", "metrics of the server"),
    ("results/component_health", "states of components"),
    ("results/profiling", "profiles"),
];

/// The report takes the definitions of the tool that made the load, so nothing in it is comparable across tools.
const BY_TOOL: &str = "defined by the tool that made the load, which the label `tool` names";
const TIMES: &[(&str, &str)] =
    &[("s", "s"), ("ms", "ms"), ("us", "us"), ("s/token", "s"), ("ms/token", "ms"), ("us/token", "us")];
const RATES: &[(&str, &str)] = &[("tokens/s", "tokens/s"), ("queries/s", "requests/s"), ("requests/s", "requests/s")];
const COUNTS: &[(&str, &str)] = &[("count", "tokens"), ("tokens", "tokens")];

static FIELDS: &[ResultField] = &[
    one("requests/total", "benchmark-report.requests", "requests", "requests that were sent", Unlike),
    one("requests/failures", "benchmark-report.failed_requests", "requests", "requests without a complete response", Unlike),
    one("requests/incomplete", "benchmark-report.incomplete_requests", "requests", "requests that were not finished", Unlike),
    of("requests/input_length", "benchmark-report.input_tokens", COUNTS, Unlike),
    of("requests/output_length", "benchmark-report.output_tokens", COUNTS, Unlike),
    of("latency/time_to_first_token", "benchmark-report.ttft", TIMES, Differs("ttft_ms", BY_TOOL)),
    of("latency/time_per_output_token", "benchmark-report.tpot", TIMES, Differs("tpot_ms", BY_TOOL)),
    of("latency/inter_token_latency", "benchmark-report.itl", TIMES, Differs("itl_ms", BY_TOOL)),
    of("latency/normalized_time_per_output_token", "benchmark-report.ntpot", TIMES, Differs("e2e_per_output_token_ms", BY_TOOL)),
    of("latency/request_latency", "benchmark-report.request_latency", TIMES, Differs("e2e_ms", BY_TOOL)),
    of("throughput/input_token_rate", "benchmark-report.input_tokens_per_s", RATES, Differs("input_tokens_per_s", BY_TOOL)),
    of("throughput/output_token_rate", "benchmark-report.output_tokens_per_s", RATES, Differs("output_tokens_per_s", BY_TOOL)),
    of("throughput/total_token_rate", "benchmark-report.total_tokens_per_s", RATES, Differs("total_tokens_per_s", BY_TOOL)),
    of("throughput/request_rate", "benchmark-report.request_throughput", RATES, Differs("request_throughput_per_s", BY_TOOL)),
];

const fn of(
    field: &'static str,
    metric: &'static str,
    units: &'static [(&'static str, &'static str)],
    relation: Relation,
) -> ResultField {
    let unit = Unit::StatedAt("units", units);
    ResultField { field, metric, unit, shape: Shape::Statistics, definition: BY_TOOL, relation }
}

fn is_report(document: &Value) -> bool {
    let results = document.get("results").and_then(|results| results.get("request_performance"));
    document.get("version").is_some() && document.get("run").is_some() && results.is_some()
}

/// Parses YAML; `None` if the text is not one document of it.
fn parse(text: &str) -> Option<Value> {
    // A text of another format would cost the time of a YAML parser.
    if text.len() > MAX_OBJECT_BYTES || !text.contains("request_performance") {
        return None;
    }
    let mut documents = parse_documents("report.yaml", text.as_bytes()).ok()?.into_iter();
    documents.next().filter(|_| documents.next().is_none())
}
