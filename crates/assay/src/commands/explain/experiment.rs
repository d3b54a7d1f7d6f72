//! The experiment that would confirm a finding, written as a workload and a pipeline beside those of the run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use assay_diagnosis::{Experiment, Finding};
use assay_manifest::{Name, Plan, Source, SourceFile};
use assay_runs::VerifiedRun;
use assay_spec::{MAX_OBJECT_BYTES, parse_documents};
use assay_stage::{ErrorCode, Failure};
use serde_json::{Value, json};

use crate::commands::definitions;

/// The members of a pipeline that an experiment leaves out: it judges nothing, publishes nothing and claims nothing.
const LEFT_OUT: [&str; 4] = ["claim", "gates", "publish", "schedule"];

/// An experiment as files.
pub(super) struct WrittenExperiment {
    /// The files, by their paths from the root of the repository.
    pub(super) files: BTreeMap<PathBuf, Vec<u8>>,
    /// The path of the pipeline among them.
    pub(super) pipeline: PathBuf,
}

/// Makes the experiment that would confirm a finding from the definitions of its run.
///
/// # Errors
/// Fails if the finding is confirmed by something else than a change of the workload, if the workload cannot be changed so, and if the definitions are
/// not in the store any more.
pub(super) fn make(run: &VerifiedRun, finding: &Finding) -> Result<WrittenExperiment, Failure> {
    let experiment = finding.experiment.ok_or_else(|| refuse(finding, "what would confirm it is no change of the workload"))?;
    let lost = |what: &str| Failure::new(ErrorCode::ArtifactAbsent, format!("run `{}` has no {what}", run.chain.run_id));
    let source = &run.chain.one::<Source>().ok_or_else(|| lost("Source"))?.body;
    let plan = &run.chain.one::<Plan>().ok_or_else(|| lost("Plan"))?.body;
    let case = plan.cases.iter().find(|case| case.case_id.as_str() == finding.case).ok_or_else(|| lost("such case"))?;
    let pipeline = source.file(&source.pipeline).ok_or_else(|| lost("pipeline among its files"))?;
    let (file, workload) =
        find_workload(run, source, case.workload.as_str())?.ok_or_else(|| lost("such workload among its files"))?;
    let changed = changed(workload, case.workload.as_str(), experiment).map_err(|why| refuse(finding, &why))?;
    let name = named(case.workload.as_str(), experiment);
    let folder = Path::new("workloads").join(&name);
    let comment = format!(
        "# Made by `assay explain {} --experiment`, to confirm: {}.\n# {}\n",
        run.chain.run_id, finding.title, finding.confirm
    );
    let mut files = BTreeMap::from([(folder.join("workload.yaml"), yaml(&comment, &changed)?)]);
    // What a workload names lies in its own folder, or in another place that stays where it is.
    let before = format!("{}/", Path::new(&file.path).parent().unwrap_or(Path::new("")).display());
    for beside in source.files.iter().filter(|beside| beside.path != file.path) {
        if let Some(path) = beside.path.strip_prefix(&before) {
            files.insert(folder.join(path), read(run, beside)?);
        }
    }
    let (pipeline_name, pipeline) = changed_pipeline(definition(run, pipeline)?, &name, experiment)?;
    let path = Path::new("pipelines").join(format!("{pipeline_name}.yaml"));
    files.insert(path.clone(), yaml(&comment, &pipeline)?);
    Ok(WrittenExperiment { files, pipeline: path })
}

fn refuse(finding: &Finding, why: &str) -> Failure {
    Failure::new(ErrorCode::NoExperiment, format!("no experiment can be written for `{}`: {why}", finding.rule))
        .hint(finding.confirm)
}

/// Writes the files below a folder.
///
/// # Errors
/// Fails if a file is there and differs, before anything is written, and if a file cannot be written.
pub(super) fn write(folder: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) -> Result<(), Failure> {
    let all = files.iter().map(|(path, bytes)| (folder.join(path), bytes.as_slice()));
    definitions::refuse_others(all, "remove it, or name another folder")?;
    for (path, bytes) in files {
        definitions::write(&folder.join(path), bytes)?;
    }
    Ok(())
}

fn named(name: &str, experiment: Experiment) -> String {
    format!("{name}-{}", experiment.suffix())
}

/// Returns the file of a workload with its definition.
fn find_workload<'a>(run: &VerifiedRun, source: &'a Source, name: &str) -> Result<Option<(&'a SourceFile, Value)>, Failure> {
    for file in source.files.iter().filter(|file| file.path.ends_with("/workload.yaml") || file.path.ends_with("/workload.yml")) {
        let workload = definition(run, file)?;
        if workload.pointer("/metadata/name").and_then(Value::as_str) == Some(name) {
            return Ok(Some((file, workload)));
        }
    }
    Ok(None)
}

fn changed(mut workload: Value, name: &str, experiment: Experiment) -> Result<Value, String> {
    experiment.change(&mut workload)?;
    if let Some(metadata) = workload.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), json!(named(name, experiment)));
    }
    Ok(workload)
}

/// Returns the name and the definition of the pipeline that measures the changed workload on the same targets. The name becomes that of a file, and
/// the definition is another's: a name that is none is refused.
fn changed_pipeline(mut pipeline: Value, workload: &str, experiment: Experiment) -> Result<(String, Value), Failure> {
    let before = pipeline.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let before: Name = before.parse().map_err(|error| {
        Failure::new(ErrorCode::ArtifactCorrupt, "the pipeline of the run has a name that no pipeline may have").because(&error)
    })?;
    let name = named(before.as_str(), experiment);
    if let Some(metadata) = pipeline.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), json!(name));
    }
    if let Some(spec) = pipeline.get_mut("spec").and_then(Value::as_object_mut) {
        for member in LEFT_OUT {
            spec.remove(member);
        }
        spec.insert("intent".to_owned(), json!("exploratory"));
        spec.insert("workloads".to_owned(), json!([workload]));
    }
    Ok((name, pipeline))
}

fn definition(run: &VerifiedRun, file: &SourceFile) -> Result<Value, Failure> {
    let bytes = read(run, file)?;
    let refuse = || Failure::new(ErrorCode::ArtifactCorrupt, format!("`{}` of the run is no definition", file.path));
    let mut documents = parse_documents(&file.path, &bytes).map_err(|_| refuse())?;
    documents.pop().filter(|_| documents.is_empty()).ok_or_else(refuse)
}

fn read(run: &VerifiedRun, file: &SourceFile) -> Result<Vec<u8>, Failure> {
    let bytes = run.blobs.get(&file.artifact.digest, MAX_OBJECT_BYTES as u64)?;
    bytes.ok_or_else(|| Failure::new(ErrorCode::ArtifactAbsent, format!("`{}` of the run is not in the store", file.path)))
}

fn yaml(comment: &str, document: &Value) -> Result<Vec<u8>, Failure> {
    let text = serde_saphyr::to_string(document)
        .map_err(|error| Failure::new(ErrorCode::Internal, "the experiment cannot be written as YAML").because(&error))?;
    Ok(format!("{comment}{}\n", text.trim_end()).into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_a_path_becomes_no_file() {
        let pipeline = |name: &str| json!({"metadata": {"name": name}, "spec": {"gates": []}});
        let changed = |name: &str| changed_pipeline(pipeline(name), "chat", Experiment::OneInFlight);
        let (name, written) = changed("nightly").expect("a name");
        assert_eq!((name.as_str(), &written["metadata"]["name"]), ("nightly-one-in-flight", &json!("nightly-one-in-flight")));
        assert_eq!(written["spec"], json!({"intent": "exploratory", "workloads": ["chat"]}));
        for name in ["../.github/workflows/x", "/etc/x", "a/b", ""] {
            assert_eq!(changed(name).expect_err(name).code, ErrorCode::ArtifactCorrupt);
        }
    }
}
