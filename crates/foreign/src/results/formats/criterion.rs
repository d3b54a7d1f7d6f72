//! criterion.rs: `estimates.json` and `sample.json` of a benchmark's folder.

use serde_json::{Value, json};

use crate::results::format::{
    BY_DOCUMENTED_FORMAT, Form, Part, Relation, ResultExample, ResultField, ResultFormat, Scope, ScopeKind, Version, one,
};
use crate::results::format::{Label, Place, Shape, Unit};
use crate::results::left_out::{LeftOut, Uneven};
use Relation::Unlike;

/// The format.
pub(crate) static FORMAT: ResultFormat = ResultFormat {
    name: "criterion",
    tool: "criterion.rs",
    versions: "0.5 to 0.7, by its documented format",
    recognised_by: "`mean`, `median`, `std_dev` and `median_abs_dev` with `point_estimate` (estimates); `sampling_mode`, `iters` and `times` (sample)",
    examples: &[ResultExample {
        name: "two-files",
        origin: BY_DOCUMENTED_FORMAT,
        files: &[
            ("sum/new/estimates.json", include_str!("../examples/criterion-estimates.json")),
            ("sum/new/sample.json", include_str!("../examples/criterion-sample.json")),
        ],
    }],
    parts: &[
        Part {
            name: "estimates",
            form: Form::Json,
            recognises: |document| {
                let has_estimate =
                    |name: &&str| document.get(name).and_then(|found| found.get("point_estimate")).is_some_and(Value::is_number);
                ["mean", "median", "std_dev", "median_abs_dev"].iter().all(has_estimate)
            },
            version: Version::Unstated,
            scopes: &[Scope { at: "", kind: ScopeKind::Statistics, labels: LABELS, fields: FIELDS }],
            not_read: &[
                ("mean", "intervals and errors by the bootstrap of the tool"),
                ("median", "intervals and errors by the bootstrap of the tool"),
                ("std_dev", "intervals and errors by the bootstrap of the tool"),
                ("median_abs_dev", "intervals and errors by the bootstrap of the tool"),
                ("slope", "intervals and errors by the bootstrap of the tool"),
            ],
        },
        Part {
            name: "sample",
            form: Form::Prepared(divide),
            recognises: |document| {
                document.get("sampling_mode").is_some_and(Value::is_string)
                    && ["iters", "times"].iter().all(|name| document.get(name).is_some_and(Value::is_array))
            },
            version: Version::Unstated,
            scopes: &[Scope { at: ITERATION_TIMES, kind: ScopeKind::Samples, labels: LABELS, fields: SAMPLE }],
            not_read: &[("sampling_mode", "the way in which iterations were grouped")],
        },
    ],
};

const LABELS: &[Label] = &[Label { name: "folder", place: Place::Folder }];
const TIME: &str = "the time of one iteration";

static FIELDS: &[ResultField] = &[
    estimate("mean/point_estimate", "criterion.time", "mean", TIME),
    estimate("median/point_estimate", "criterion.time", "p50", TIME),
    estimate("std_dev/point_estimate", "criterion.time", "std", TIME),
    estimate("median_abs_dev/point_estimate", "criterion.time", "mad", TIME),
    estimate("slope/point_estimate", "criterion.slope", "value", "the slope of times over iterations, by linear regression"),
];

/// The place of the times that [`divide`] computes.
const ITERATION_TIMES: &str = "iteration_times[]";

static SAMPLE: &[ResultField] =
    &[one("", "criterion.iteration_time", "ns", "`times` / `iters` of one group of iterations", Unlike)];

/// Divides the time of each group by the number of its iterations, which differs from group to group.
fn divide(sample: &mut Value, _: &mut LeftOut) -> Result<(), Uneven> {
    const UNEVEN: Uneven = Uneven("times", "iters");
    let mut list = |name: &str| match sample.as_object_mut().and_then(|members| members.remove(name)) {
        Some(Value::Array(items)) => items.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>().ok_or(UNEVEN),
        _ => Err(UNEVEN),
    };
    let (times, counts) = (list("times")?, list("iters")?);
    if times.len() != counts.len() || counts.iter().any(|count| *count < 1.0) {
        return Err(UNEVEN);
    }
    let quotients: Vec<f64> = times.iter().zip(&counts).map(|(time, count)| time / count).collect();
    if let Some(members) = sample.as_object_mut() {
        members.insert("iteration_times".to_owned(), json!(quotients));
    }
    Ok(())
}

const fn estimate(field: &'static str, metric: &'static str, statistic: &'static str, definition: &'static str) -> ResultField {
    ResultField { field, metric, unit: Unit::Is("ns"), shape: Shape::Number(statistic), definition, relation: Unlike }
}
