//! Variables that tell a process in which pod it runs, and the labels of the pod.

use assay_manifest::PodPlace;

/// The variable of the pod's name.
pub const POD: &str = "ASSAY_POD";
/// The variable of the pod's UID.
pub const POD_UID: &str = "ASSAY_POD_UID";
/// The variable of the node that the pod runs on.
pub const NODE: &str = "ASSAY_NODE";
/// The variable of the UID of the Job that made the pod.
pub const JOB_UID: &str = "ASSAY_JOB_UID";

/// The variable of the container image that the process runs in.
pub const CONTAINER_IMAGE: &str = "ASSAY_CONTAINER_IMAGE";

/// The label of the stage that a pod runs.
pub const STAGE_LABEL: &str = "assay.dev/stage";
/// The label of the UID of the Job that made a pod, which Kubernetes sets.
pub const JOB_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";
/// The label of a pod's place among those of its Job, which Kubernetes sets: the shard.
pub const INDEX_LABEL: &str = "batch.kubernetes.io/job-completion-index";

/// Returns the pod and node of this process, from the variables of its pod; `None` outside of pods.
pub fn read_place(variable: impl Fn(&str) -> Option<String>) -> Option<PodPlace> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty());
    Some(PodPlace { node: value(NODE)?, pod: value(POD)?, pod_uid: value(POD_UID)?, job_uid: value(JOB_UID)? })
}

/// Returns the container image that this process runs in, from its pod's variable; `None` outside of pods.
pub fn container_image() -> Option<String> {
    std::env::var(CONTAINER_IMAGE).ok().filter(|image| !image.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_knows_its_place_only_where_all_of_it_is_said() {
        let names = [POD, POD_UID, NODE, JOB_UID];
        let all = |name: &str| names.contains(&name).then(|| name.to_lowercase());
        let found = read_place(all).expect("all of it");
        assert_eq!((found.node.as_str(), found.job_uid.as_str()), ("assay_node", "assay_job_uid"));
        for missing in names {
            assert_eq!(read_place(|name| all(name).filter(|_| name != missing)), None, "{missing}");
        }
        assert_eq!(read_place(|_| Some(String::new())), None, "empty is unset");
    }
}
