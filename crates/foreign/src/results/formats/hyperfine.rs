//! hyperfine: `--export-json`.

use serde_json::Value;

use crate::failed;
use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, all, label,
    one,
};
use crate::results::format::{Label, Place};
use Relation::Unlike;

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "hyperfine",
    tool: "hyperfine",
    versions: "1.19, by its documented format",
    recognised_by: "`results` with `command`, `mean`, `user` and `system`",
    examples: &[ResultExample {
        name: "two-commands",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[("hyperfine.json", include_str!("../examples/hyperfine.json"))],
    }],
    parts: &[Part {
        name: "results",
        form: Form::Prepared(|document, left_out| {
            let why = |result: &Value| failed::hyperfine(result).map(|_| "an execution of the command failed");
            left_out.take_out(document, "results", "results[]", why);
            Ok(())
        }),
        recognises: |document| {
            let first = document.get("results").and_then(Value::as_array).and_then(|results| results.first());
            first.is_some_and(|first| ["command", "mean", "user", "system"].iter().all(|name| first.get(name).is_some()))
        },
        version: Version::Unstated,
        scopes: &[
            Scope { at: "results[]", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS },
            Scope {
                at: "results[]/times[]",
                kind: ScopeKind::Samples,
                labels: LABELS,
                fields: &[one("", "hyperfine.wall_time", "s", "the wall time of one execution", Unlike)],
            },
        ],
        not_read: &[
            ("results[]/exit_codes", "exit codes of each execution"),
            ("results[]/memory_usage_byte", "the memory of each execution"),
        ],
    }],
};

const LABELS: &[Label] =
    &[label("command", "command"), Label { name: "parameter", place: Place::Members { at: "parameters", but: &[] } }];

static FIELDS: &[ResultField] = &[
    all("", "hyperfine.wall_time", "s", "the wall time of an execution, less that of the shell; `std` is of the sample", Unlike),
    one("user", "hyperfine.user_time", "s", "the mean CPU time in user mode", Unlike),
    one("system", "hyperfine.system_time", "s", "the mean CPU time in the kernel", Unlike),
];
