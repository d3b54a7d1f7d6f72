//! MLflow: a file store with one experiment for the pipeline and one run for each trial.

use std::collections::BTreeMap;

use serde_json::json;

use crate::error::ExportError;
use crate::format::{ExportField, ExportFormat, Needs, differs, left_out, same};
use crate::names::{hex_id, origin, trial_name};
use crate::output::Output;
use crate::run::{ExportedLoad, ExportedRun, ExportedTrial, ExportedValue};

/// The most bytes of the name of a file, without the digits behind it.
const MAX_NAME: usize = 200;

/// The most metrics of which the names are remarked.
const MAX_REMARKS: usize = 20;

/// The format.
pub(crate) static FORMAT: ExportFormat = ExportFormat {
    name: "mlflow",
    tool: "MLflow",
    version: "the file store of 3.17, by its files",
    files: "`mlruns/EXPERIMENT/RUN/` with `meta.yaml`, `metrics`, `params` and `tags`, for each trial",
    loads: "all",
    needs: Needs::Manifests,
    fields: FIELDS,
    write,
};

const FIELDS: &[ExportField] = &[
    same("experiment_id", "follows from the name of the pipeline"),
    same("name", "the pipeline, after `assay/`"),
    differs("artifact_location", "a path in the store, relative to it", "the tool writes an absolute path of its machine"),
    differs("artifact_uri", "a path in the store, relative to it", "the tool writes an absolute path of its machine"),
    same("creation_time", "the start of the run, in milliseconds since 1970"),
    same("last_update_time", "the end of the run, in milliseconds since 1970"),
    same("lifecycle_stage", "`active`"),
    same("run_id", "follows from the run and the trial"),
    same("run_name", "the run, the load and the trial"),
    same("start_time", "the start of the trial, in milliseconds since 1970"),
    same("end_time", "the end of the attempt that counts, in milliseconds since 1970"),
    same("status", "3, finished"),
    same("source_type", "4, local"),
    same("source_name", "empty"),
    same("source_version", "empty"),
    same("entry_point_name", "empty"),
    same("tags[]", "none: they are files"),
    same("user_id", "`assay`"),
    differs(
        "metrics.{}",
        "the values of the trial under their names in Assay, at the end of the attempt and step 0",
        "the tool takes no name with other characters than letters, digits, `_`, `-` and `.`: each other one is `_`, and equal and long names end with digits of their own",
    ),
    same("params.{}", "workload, target, and the values of the point; for serving, the model and the API"),
    same(
        "tags.assay_{}",
        "the run, the digest of its result, the version of Assay, the case, the point, the trial and the workload's digest",
    ),
    same("tags.unit.{}", "the unit of each metric"),
    same("tags.mlflow.runName", "as `run_name`"),
    left_out("tags.mlflow.user", "a name of a person"),
    left_out("tags.mlflow.source.name", "a path"),
    left_out("artifacts", "`assay export` without this format writes the rows"),
    left_out("datasets", "the export `openlineage` has the inputs by digest"),
];

fn write(run: &ExportedRun, out: &mut Output<'_>) -> Result<(), ExportError> {
    let trials: Vec<_> = run.loads.iter().flat_map(|load| load.trials.iter().map(move |trial| (load, trial))).collect();
    if trials.is_empty() {
        return Err(ExportError::NoTrial);
    }
    out.remarks.extend(renamed(&trials));
    let experiment = experiment_id(run);
    out.text(&format!("mlruns/{experiment}/meta.yaml"), experiment_meta(run, &experiment))?;
    for (load, trial) in trials {
        for (path, text) in trial_files(run, &experiment, load, trial) {
            out.text(&path, text)?;
        }
    }
    Ok(())
}

/// Returns the id of the experiment: 18 digits, as the tool draws them.
fn experiment_id(run: &ExportedRun) -> String {
    let hex = hex_id(&["mlflow", &run.pipeline]);
    let number = u128::from_str_radix(&hex, 16).unwrap_or_default();
    format!("{:018}", number % 900_000_000_000_000_000 + 100_000_000_000_000_000)
}

/// Returns members as YAML: a text in double quotes of JSON is one of YAML, too.
fn yaml(members: &[(&str, serde_json::Value)]) -> String {
    members.iter().map(|(name, value)| format!("{name}: {value}\n")).collect::<Vec<_>>().concat()
}

fn experiment_meta(run: &ExportedRun, experiment: &str) -> String {
    yaml(&[
        ("artifact_location", json!(format!("mlruns/{experiment}"))),
        ("creation_time", json!(ms(run.start_ns))),
        ("experiment_id", json!(experiment)),
        ("last_update_time", json!(ms(run.end_ns))),
        ("lifecycle_stage", json!("active")),
        ("name", json!(format!("assay/{}", run.pipeline))),
    ])
}

fn ms(unix_ns: i64) -> i64 {
    unix_ns.div_euclid(1_000_000)
}

fn trial_files(run: &ExportedRun, experiment: &str, load: &ExportedLoad, trial: &ExportedTrial) -> Vec<(String, String)> {
    let id = hex_id(&["mlflow", &run.run_id, &trial.trial_id]);
    let name = format!("{}-{}", run.run_id, trial_name(run, load, trial));
    let folder = format!("mlruns/{experiment}/{id}");
    let file = |place: &str, text: String| (format!("{folder}/{place}"), text);
    let mut files = vec![file("meta.yaml", run_meta(experiment, &id, &name, trial))];
    for (metric, value) in metric_names(trial) {
        files.push(file(&format!("metrics/{metric}"), format!("{} {} 0\n", ms(trial.end_ns), json!(value.value))));
        files.push(file(&format!("tags/unit.{metric}"), value.unit.clone()));
    }
    files.extend(params(load).into_iter().map(|(name, value)| file(&format!("params/{name}"), value)));
    files.extend(origin(run, load, trial).map(|(name, value)| file(&format!("tags/{name}"), value)));
    files.push(file("tags/mlflow.runName", name));
    files
}

fn run_meta(experiment: &str, id: &str, name: &str, trial: &ExportedTrial) -> String {
    yaml(&[
        ("artifact_uri", json!(format!("mlruns/{experiment}/{id}/artifacts"))),
        ("end_time", json!(ms(trial.end_ns))),
        ("entry_point_name", json!("")),
        ("experiment_id", json!(experiment)),
        ("lifecycle_stage", json!("active")),
        ("run_id", json!(id)),
        ("run_name", json!(name)),
        ("source_name", json!("")),
        ("source_type", json!(4)),
        ("source_version", json!("")),
        ("start_time", json!(ms(trial.start_ns))),
        ("status", json!(3)),
        ("tags", json!([])),
        ("user_id", json!("assay")),
    ])
}

/// Returns the values of a trial by the name of their metric in the store. Of several metrics with one name, all but the first have digits of their own.
fn metric_names(trial: &ExportedTrial) -> BTreeMap<String, &ExportedValue> {
    let mut names: BTreeMap<String, &ExportedValue> = BTreeMap::new();
    for value in &trial.values {
        let plain = file_name(&value.metric);
        let name = if names.contains_key(&plain) { with_digits(&plain, &value.metric) } else { plain };
        names.insert(name, value);
    }
    names
}

/// Returns a remark for each metric that has another name in the store.
fn renamed(trials: &[(&ExportedLoad, &ExportedTrial)]) -> Vec<String> {
    let names = trials.iter().flat_map(|(_, trial)| metric_names(trial));
    let renamed: BTreeMap<&str, String> =
        names.filter(|(name, value)| *name != value.metric).map(|(name, value)| (value.metric.as_str(), name)).collect();
    let more = renamed.len().saturating_sub(MAX_REMARKS);
    let remark = |(original, name): (&&str, &String)| format!("the metric `{}` has the name `{name}`", original.escape_debug());
    let more = (more > 0).then(|| format!("and {more} more metrics have other names"));
    renamed.iter().take(MAX_REMARKS).map(remark).chain(more).collect()
}

/// Returns a name that is a name of a file and of a metric: letters, digits, `_`, `-` and `.`, and neither `.` first nor empty nor longer than a file
/// system takes.
fn file_name(name: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ['_', '-', '.'].contains(&c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    match plain.get(..MAX_NAME) {
        Some(start) if plain.len() > MAX_NAME => with_digits(start, name),
        _ if plain.is_empty() || plain.starts_with('.') => format!("_{plain}"),
        _ => plain,
    }
}

/// Returns a name with digits that follow from the whole name of its metric.
fn with_digits(plain: &str, original: &str) -> String {
    let digits: String = hex_id(&["metric", original]).chars().take(8).collect();
    format!("{plain}-{digits}")
}

fn params(load: &ExportedLoad) -> BTreeMap<String, String> {
    let mut params: BTreeMap<String, String> = load.value.iter().map(|(name, value)| (file_name(name), value.clone())).collect();
    params.insert("workload".to_owned(), load.workload.clone());
    params.insert("target".to_owned(), load.target.clone());
    if let Some(serving) = &load.serving {
        params.insert("model".to_owned(), serving.model.clone());
        params.insert("api".to_owned(), serving.api.clone());
    }
    params
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_metric_is_a_name_of_a_file() {
        let cases =
            [("ttft_ms_p99", "ttft_ms_p99"), ("@result.a/b", "_result.a_b"), ("..", "_.."), ("", "_"), ("a b\u{e9}", "a_b_")];
        for (name, expected) in cases {
            assert_eq!(file_name(name), expected);
        }
        let [one, other] = ["a", "b"].map(|end| file_name(&("x".repeat(300) + end)));
        assert!(one.len() == MAX_NAME + 9 && one != other && one.starts_with("xxx"), "{one}");
    }
}
