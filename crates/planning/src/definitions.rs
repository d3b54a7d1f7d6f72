//! The comparison of imported definitions with what an import of their original gives.

use std::collections::BTreeMap;

use assay_failure::{ErrorCode, Failure};
use assay_foreign::{Import, ImportOptions, VERSION, import};
use assay_manifest::DefinitionImport;

use crate::SourceFiles;

/// The result of importing definitions again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionCheck {
    /// They were not imported: they are as their author wrote them.
    NotImported,
    /// An import of their original gives the same.
    Same,
    /// Another version of Assay imported them, and this one gives others, for this reason.
    NotCompared(String),
}

/// Checks that the definitions of a Source are those that an import of their original gives, if they were imported.
///
/// # Errors
/// Fails with `definitions_differ` if this version imported them and gives others, or if the Source has other files, too.
pub fn check_definitions(files: &SourceFiles<'_>) -> Result<DefinitionCheck, Failure> {
    let Some(stated) = &files.source.import else { return Ok(DefinitionCheck::NotImported) };
    let source = assay_foreign::Source::File { name: &stated.file, bytes: files.bytes(&stated.file) };
    let given = import(&source, &ImportOptions::default());
    let difference = match &given {
        Ok(given) => find_difference(files, stated, given),
        Err(error) => Some(error.to_string()),
    };
    let Some(difference) = difference else { return Ok(DefinitionCheck::Same) };
    let DefinitionImport { file, version, .. } = stated;
    if version != VERSION {
        return Ok(DefinitionCheck::NotCompared(format!(
            "definitions not compared: Assay {version} imported them from `{file}`, and an import by this version differs: {difference}"
        )));
    }
    let message = format!("the definitions are not those that an import of `{file}` gives: {difference}");
    Err(Failure::new(ErrorCode::DefinitionsDiffer, message))
}

/// Returns the first difference between the files of a Source and those of an import.
fn find_difference(files: &SourceFiles<'_>, stated: &DefinitionImport, given: &Import) -> Option<String> {
    if given.format != stated.format {
        return Some(format!("the file is {}", given.title));
    }
    let is_original = |path: &str| path == stated.file;
    let pinned = files.source.files.iter().map(|file| file.path.as_str()).filter(|path| !is_original(path));
    let pinned: BTreeMap<&str, &[u8]> = pinned.map(|path| (path, files.bytes(path))).collect();
    let given: BTreeMap<&str, &[u8]> = given.files.iter().map(|file| (file.path.as_str(), file.text.as_bytes())).collect();
    let mut paths = pinned.keys().chain(given.keys());
    paths.find(|path| pinned.get(*path) != given.get(*path)).map(|path| match (pinned.get(path), given.get(path)) {
        (Some(_), Some(_)) => format!("`{path}` has other bytes"),
        (Some(_), None) => format!("`{path}` is not among them"),
        (None, _) => format!("`{path}` is missing"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use assay_manifest::{Artifact, Digest, Source};
    use serde_json::json;

    const JOB: &str = "apiVersion: ome.io/v1beta1
kind: BenchmarkJob
metadata: {name: job}
spec:
  endpoint: {endpoint: {url: 'http://h:1', apiFormat: openai, modelName: m}}
  task: text-to-text
  trafficScenarios: ['D(1,2)']
  numConcurrency: [1]
  maxTimePerIteration: 1
  maxRequestsPerIteration: 1
  outputLocation: {storageUri: 's3://b/p'}
";

    /// Checks the definitions of the job after a change of the files, and of what the Source states.
    fn check(change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>, &mut DefinitionImport)) -> Result<DefinitionCheck, Failure> {
        let source = assay_foreign::Source::File { name: "job.yaml", bytes: JOB.as_bytes() };
        let import = import(&source, &ImportOptions::default()).expect("a job");
        let mut files: BTreeMap<String, Vec<u8>> =
            import.files.iter().map(|file| (file.path.clone(), file.text.clone().into_bytes())).collect();
        files.insert("job.yaml".to_owned(), JOB.as_bytes().to_vec());
        let mut stated =
            DefinitionImport { file: "job.yaml".to_owned(), format: "ome-benchmarkjob".to_owned(), version: VERSION.to_owned() };
        change(&mut files, &mut stated);
        let artifact = |path: &str, bytes: &[u8]| {
            json!({"path": path, "executable": false, "artifact": {
                "name": path, "digest": Digest::compute(bytes), "size": bytes.len().to_string(), "media_type": "text/plain",
            }})
        };
        let source: Source = serde_json::from_value(json!({
            "kind": "adhoc", "dirty": false, "objects": [], "pipeline": "pipelines/job.yaml", "import": stated,
            "files": files.iter().map(|(path, bytes)| artifact(path, bytes)).collect::<Vec<_>>(),
            "files_digest": Digest::compute(b""),
        }))
        .expect("a source");
        let loaded = SourceFiles::load(&source, |artifact: &Artifact| Ok(files[&artifact.name].clone())).expect("its files");
        check_definitions(&loaded)
    }

    fn refusal(change: impl FnOnce(&mut BTreeMap<String, Vec<u8>>, &mut DefinitionImport)) -> String {
        let failure = check(change).expect_err("refused");
        assert_eq!(failure.code, ErrorCode::DefinitionsDiffer);
        failure.message
    }

    #[test]
    fn imported_definitions_are_those_that_their_original_gives() {
        assert_eq!(check(|_, _| {}).expect("the same"), DefinitionCheck::Same);
        let edit = |path: &'static str, from: &'static str, to: &'static str| {
            move |files: &mut BTreeMap<String, Vec<u8>>, _: &mut DefinitionImport| {
                let text = String::from_utf8(files[path].clone()).expect("a text");
                assert!(text.contains(from), "{text}");
                files.insert(path.to_owned(), text.replace(from, to).into_bytes());
            }
        };
        insta::assert_snapshot!(refusal(edit("pipelines/job.yaml", "http://h:1", "http://h:2")), @"the definitions are not those that an import of `job.yaml` gives: `pipelines/job.yaml` has other bytes");
        insta::assert_snapshot!(refusal(edit("job.yaml", "modelName: m", "modelName: n")), @"the definitions are not those that an import of `job.yaml` gives: `workloads/job-d-1-2/workload.yaml` has other bytes");
        insta::assert_snapshot!(refusal(edit("job.yaml", "name: job", "name: other")), @"the definitions are not those that an import of `job.yaml` gives: `pipelines/job.yaml` is not among them");
        insta::assert_snapshot!(refusal(edit("job.yaml", "BenchmarkJob", "Deployment")), @"the definitions are not those that an import of `job.yaml` gives: it is none of the formats that can be imported");
        let more = |files: &mut BTreeMap<String, Vec<u8>>, _: &mut DefinitionImport| {
            files.insert("workloads/job-d-1-2/README.md".to_owned(), Vec::new());
        };
        assert!(refusal(more).ends_with("`workloads/job-d-1-2/README.md` is not among them"));
        let fewer = |files: &mut BTreeMap<String, Vec<u8>>, _: &mut DefinitionImport| {
            files.remove("workloads/job-d-1-2/workload.yaml");
        };
        assert!(refusal(fewer).ends_with("`workloads/job-d-1-2/workload.yaml` is missing"));
        let of_another_format =
            |_: &mut BTreeMap<String, Vec<u8>>, stated: &mut DefinitionImport| stated.format = "other".to_owned();
        assert!(refusal(of_another_format).ends_with("the file is an OME BenchmarkJob"));
    }

    #[test]
    fn definitions_of_another_version_are_compared_only_if_they_are_the_same() {
        let other = |_: &mut BTreeMap<String, Vec<u8>>, stated: &mut DefinitionImport| stated.version = "0.0.0".to_owned();
        assert_eq!(check(other).expect("the same"), DefinitionCheck::Same);
        let differing = |files: &mut BTreeMap<String, Vec<u8>>, stated: &mut DefinitionImport| {
            stated.version = "0.0.0".to_owned();
            files.insert("pipelines/job.yaml".to_owned(), b"other".to_vec());
        };
        let DefinitionCheck::NotCompared(reason) = check(differing).expect("no failure") else { panic!("a difference") };
        insta::assert_snapshot!(reason, @"definitions not compared: Assay 0.0.0 imported them from `job.yaml`, and an import by this version differs: `pipelines/job.yaml` has other bytes");
    }
}
