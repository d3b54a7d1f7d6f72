//! The parts of a driver's pod that makes the Source of its run itself, because no client has put one into the store.

use serde_json::{Value, json};

/// The variable with the name of the pod's Job.
pub(crate) const JOB: &str = "ASSAY_JOB";

/// Adds a variable that holds a label of the pod.
pub(crate) fn add_label_variable(pod: &mut Value, variable: &str, label: &str) {
    if let Some(env) = pod["containers"][0]["env"].as_array_mut() {
        let path = format!("metadata.labels['{label}']");
        env.push(json!({"name": variable, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
    }
}

/// Mounts credentials for a Git remote, if the remote asks for any.
pub(crate) fn mount_git_credentials(pod: &mut Value) {
    let volume = json!({"name": "git", "secret": {"secretName": "assay-git", "optional": true, "defaultMode": 0o440}});
    mount(pod, volume, json!({"name": "git", "mountPath": "/git", "readOnly": true}));
}

/// Adds a volume, and its place in the container.
pub(crate) fn mount(pod: &mut Value, volume: Value, place: Value) {
    if let Some(volumes) = pod["volumes"].as_array_mut() {
        volumes.push(volume);
    }
    if let Some(mounts) = pod["containers"][0]["volumeMounts"].as_array_mut() {
        mounts.push(place);
    }
}
