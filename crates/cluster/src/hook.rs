//! Hooks of Argo CD: a Job that drives a run in a phase of a synchronization, and fails the phase if the run or its gates do.

use std::fmt;
use std::time::Duration;

use assay_manifest::{Digest, Name};
use serde_json::{Value, json};

use crate::job::driver_spec;
use crate::own_source::{JOB, add_label_variable, mount, mount_git_credentials};
use crate::{Installation, MANAGED_BY, Object, STAGE};

/// The folder of the definition in the driver's container.
const DEFINITION_FOLDER: &str = "/definition";

/// Characters of a pipeline's name that the names of its Job and of its runs begin with. A run's name has at most 40, of which `-` and 8 digits
/// tell it apart.
const MAX_NAME: usize = 40 - 9;

/// The time in seconds after which a finished Job is removed. Argo CD reads its result long before; people may read its log until then.
const TTL_SECONDS: u32 = 24 * 3600;

/// The variable with the unique id of the pod's Job, which all pods of Assay have.
const JOB_UID: &str = "ASSAY_JOB_UID";

/// A phase of a synchronization in which a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPhase {
    /// Before the objects are applied.
    PreSync,
    /// While the objects are applied.
    Sync,
    /// After all objects are applied and healthy.
    PostSync,
    /// After a synchronization failed.
    SyncFail,
    /// After the objects of an Application are deleted.
    PostDelete,
}

impl HookPhase {
    /// All phases, in the order of a synchronization.
    pub const ALL: [Self; 5] = [Self::PreSync, Self::Sync, Self::PostSync, Self::SyncFail, Self::PostDelete];

    /// Returns the value of the annotation.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreSync => "PreSync",
            Self::Sync => "Sync",
            Self::PostSync => "PostSync",
            Self::SyncFail => "SyncFail",
            Self::PostDelete => "PostDelete",
        }
    }
}

impl fmt::Display for HookPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The definition that a hook runs.
#[derive(Clone, Copy, Debug)]
pub enum HookSource<'a> {
    /// A pipeline of a repository, at the head of a branch when the hook runs.
    Repository {
        /// The pipeline's file, from the repository's root.
        path: &'a str,
        /// The repository's address.
        repository: &'a str,
        /// The branch.
        branch: &'a str,
    },
    /// The definition of another tool, which travels in a ConfigMap.
    Definition {
        /// The name of its file.
        file: &'a str,
        /// Its text.
        text: &'a str,
    },
}

/// A hook that runs a pipeline.
#[derive(Clone, Copy, Debug)]
pub struct SyncHook<'a> {
    /// The installation.
    pub installation: &'a Installation,
    /// The pipeline's name.
    pub name: &'a Name,
    /// Its definition.
    pub source: HookSource<'a>,
    /// The phase.
    pub phase: HookPhase,
    /// The wave within the phase; lower ones come first.
    pub wave: Option<i32>,
    /// The longest time that a run may take.
    pub deadline: Duration,
}

/// Returns the name of the Job of a pipeline's hook.
fn hook_job_name(name: &Name) -> String {
    let name: String = name.as_str().chars().take(MAX_NAME).collect();
    name.trim_end_matches('-').to_owned()
}

/// Builds the objects of a hook: the Job, and before it the ConfigMap of a definition that lies in no repository. Everything else that they need is
/// of the installation.
pub fn hook_objects(hook: &SyncHook<'_>) -> Vec<Object> {
    let definition = match hook.source {
        HookSource::Definition { file, text } => Some(definition_map(hook, file, text)),
        HookSource::Repository { .. } => None,
    };
    definition.into_iter().chain([job(hook)]).collect()
}

/// Returns the metadata of both objects. Argo CD deletes those of the last synchronization before it creates them.
fn metadata(hook: &SyncHook<'_>) -> Value {
    let mut annotations = json!({
        "argocd.argoproj.io/hook": hook.phase.as_str(),
        "argocd.argoproj.io/hook-delete-policy": "BeforeHookCreation",
    });
    if let Some(wave) = hook.wave {
        annotations["argocd.argoproj.io/sync-wave"] = json!(wave.to_string());
    }
    json!({
        "name": hook_job_name(hook.name),
        "namespace": hook.installation.namespace,
        "labels": {MANAGED_BY.0: MANAGED_BY.1},
        "annotations": annotations,
    })
}

/// Argo CD applies ConfigMaps before Jobs of the same phase and wave.
fn definition_map(hook: &SyncHook<'_>, file: &str, text: &str) -> Object {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(hook), "data": {file: text}})
}

fn job(hook: &SyncHook<'_>) -> Object {
    let labels = json!({MANAGED_BY.0: MANAGED_BY.1, STAGE: "driver"}).as_object().cloned().unwrap_or_default();
    let mut spec = driver_spec(hook.installation, labels, command(hook));
    // Each synchronization measures once. A pod that its node evicts is replaced all the same, and continues the run.
    spec["backoffLimit"] = json!(0);
    spec["activeDeadlineSeconds"] = json!(hook.deadline.as_secs().max(1));
    spec["ttlSecondsAfterFinished"] = json!(TTL_SECONDS);
    let pod = &mut spec["template"]["spec"];
    add_label_variable(pod, JOB, "batch.kubernetes.io/job-name");
    match hook.source {
        HookSource::Repository { .. } => mount_git_credentials(pod),
        HookSource::Definition { .. } => {
            let volume = json!({"name": "definition", "configMap": {"name": hook_job_name(hook.name)}});
            mount(pod, volume, json!({"name": "definition", "mountPath": DEFINITION_FOLDER, "readOnly": true}));
        }
    }
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata(hook), "spec": spec})
}

/// Returns the command of the driver: a run of its own for each Job, and the gates of its pipeline.
fn command(hook: &SyncHook<'_>) -> Vec<String> {
    let job = format!("$({JOB})/$({JOB_UID})");
    let words = ["/assay/assay", "drive", "--hook-job", &job].map(str::to_owned);
    let source = match hook.source {
        HookSource::Repository { path, repository, branch } => {
            ["--pipeline", path, "--repo", repository, "--commit", branch].map(str::to_owned).to_vec()
        }
        HookSource::Definition { file, text } => {
            let digest = Digest::compute(text.as_bytes()).to_string();
            ["--definition".to_owned(), format!("{DEFINITION_FOLDER}/{file}"), "--definition-digest".to_owned(), digest].to_vec()
        }
    };
    words.into_iter().chain(source).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::installation;

    const PIPELINE: HookSource<'_> =
        HookSource::Repository { path: "pipelines/p.yaml", repository: "https://git.example.org/a.git", branch: "main" };

    fn objects(source: HookSource<'_>, phase: HookPhase, wave: Option<i32>) -> Vec<Object> {
        let (installation, name) = (installation(), "after-deployment".parse().expect("a name"));
        let deadline = Duration::from_mins(90);
        hook_objects(&SyncHook { installation: &installation, name: &name, source, phase, wave, deadline })
    }

    #[test]
    fn a_hook_of_a_pipeline() {
        insta::assert_snapshot!(crate::to_yaml(&objects(PIPELINE, HookPhase::PostSync, None)).expect("YAML"));
    }

    #[test]
    fn a_definition_travels_with_its_hook() {
        let source = HookSource::Definition { file: "job.yaml", text: "kind: BenchmarkJob\n" };
        let [map, job] = objects(source, HookPhase::PreSync, Some(-1)).try_into().expect("two objects");
        assert_eq!(map["data"], json!({"job.yaml": "kind: BenchmarkJob\n"}));
        let digest = Digest::compute(b"kind: BenchmarkJob\n").to_string();
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        let words: Vec<&str> = container["command"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        assert_eq!(words[4..], ["--definition", "/definition/job.yaml", "--definition-digest", &digest]);
        let mut variables: Vec<&str> =
            container["env"].as_array().into_iter().flatten().filter_map(|variable| variable["name"].as_str()).collect();
        variables.sort_unstable();
        assert!(variables.contains(&JOB) && variables.contains(&JOB_UID), "{variables:?}");
        assert!(variables.windows(2).all(|two| two[0] != two[1]), "the API server refuses a name twice: {variables:?}");
        for object in [&map, &job] {
            let annotations = &object["metadata"]["annotations"];
            assert_eq!(annotations["argocd.argoproj.io/hook"], "PreSync");
            assert_eq!(annotations["argocd.argoproj.io/sync-wave"], "-1");
            assert_eq!(object["metadata"]["name"], "after-deployment");
        }
        let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().expect("volumes");
        assert!(volumes.iter().any(|volume| volume["configMap"]["name"] == "after-deployment"));
        assert!(!volumes.iter().any(|volume| volume["name"] == "git"), "no repository is fetched");
    }

    #[test]
    fn each_phase_has_its_annotation_and_no_wave_unless_one_is_named() {
        for phase in HookPhase::ALL {
            let [job] = objects(PIPELINE, phase, None).try_into().expect("one object");
            let annotations = job["metadata"]["annotations"].as_object().expect("annotations");
            assert_eq!((annotations.len(), &annotations["argocd.argoproj.io/hook"]), (2, &json!(phase.as_str())));
        }
    }

    #[test]
    fn a_long_name_leaves_room_for_what_tells_runs_apart() {
        let name = "a2345678901234567890123456789-b-c".parse().expect("a name");
        assert_eq!(hook_job_name(&name), "a2345678901234567890123456789-b");
        let name = "a23456789012345678901234567890-b".parse().expect("a name");
        assert_eq!(hook_job_name(&name), "a23456789012345678901234567890", "no hyphen at the end");
    }
}
