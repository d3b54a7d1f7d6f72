//! k6: `--summary-export`.

use serde_json::Value;

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Label, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, all,
    label, one,
};
use Relation::{Differs, Unlike};

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "k6",
    tool: "k6",
    versions: "1, the flat form of `--summary-export`, by its documented format",
    recognised_by: "`root_group` and `metrics` with `iterations`",
    examples: &[ResultExample {
        name: "http",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("summary.json", include_str!("../examples/k6.json"))],
    }],
    parts: &[Part {
        name: "summary",
        form: Form::Json,
        recognises: |document| {
            let metrics = document.get("metrics");
            document.get("root_group").is_some_and(Value::is_object)
                && metrics.and_then(|metrics| metrics.get("iterations")).is_some()
        },
        version: Version::Unstated,
        scopes: &[Scope { at: "metrics", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS }],
        not_read: &[("root_group", "checks by name"), ("metrics/checks", "checks of the script")],
    }],
};

const LABELS: &[Label] = &[label("vus_max", "vus_max/value")];

const SEND: &str =
    "counted from the send time, without the wait for a connection; Assay counts from the intended time if a request has one";

static FIELDS: &[ResultField] = &[
    all("http_req_duration", "k6.http_duration", "ms", "sending + waiting + receiving", Differs("e2e_ms", SEND)),
    all("http_req_blocked", "k6.http_blocked", "ms", "wait for a connection", Unlike),
    all(
        "http_req_connecting",
        "k6.http_connecting",
        "ms",
        "TCP connect; 0 on an open connection",
        Differs("connect_ms", "0 for a request on an open connection, and without TLS"),
    ),
    all("http_req_tls_handshaking", "k6.http_tls", "ms", "TLS handshake; 0 on an open connection", Unlike),
    all("http_req_sending", "k6.http_sending", "ms", "time to write the request", Unlike),
    all("http_req_waiting", "k6.http_waiting", "ms", "first byte - end of the request", Unlike),
    all("http_req_receiving", "k6.http_receiving", "ms", "last byte - first byte", Unlike),
    all("iteration_duration", "k6.iteration_duration", "ms", "one iteration of the script, its pauses included", Unlike),
    one("http_reqs/count", "k6.requests", "requests", "requests of the whole run", Unlike),
    one(
        "http_reqs/rate",
        "k6.request_throughput",
        "requests/s",
        "requests / time of the run",
        Differs(
            "request_throughput_per_s",
            "failed requests included, over the time of the run; Assay counts successful ones over its window",
        ),
    ),
    one(
        "http_req_failed/value",
        "k6.failed_fraction",
        "ratio",
        "failed requests / requests",
        Differs("error_rate", "dropped iterations are not counted"),
    ),
    one("iterations/count", "k6.iterations", "1", "iterations of the script", Unlike),
    one("iterations/rate", "k6.iterations_per_s", "1/s", "iterations / time of the run", Unlike),
    one("dropped_iterations/count", "k6.dropped_iterations", "1", "iterations that were due and not started", Unlike),
    one("data_sent/count", "k6.sent", "bytes", "bytes that were sent", Unlike),
    one("data_received/count", "k6.received", "bytes", "bytes that were received", Unlike),
    one("vus/value", "k6.vus", "1", "virtual users at the end", Unlike),
    one("vus_max/value", "k6.vus_max", "1", "allocated virtual users", Unlike),
];
