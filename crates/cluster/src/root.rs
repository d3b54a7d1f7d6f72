//! The root of a run: a ConfigMap that owns all other objects of the run. Deleting it deletes the run.

use assay_manifest::{Instant, RunId};
use serde_json::{Value, json};

use crate::{Installation, MANAGED_BY, Object, RUN, root_name};

/// The annotation that asks the driver to stop the run; its value is the reason.
pub const CANCEL: &str = "assay.dev/cancel";
/// The annotation that says when the run's objects may be removed.
pub const EXPIRES: &str = "assay.dev/expires";

/// A root that exists in the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRoot {
    /// Its name.
    pub name: String,
    /// Its UID: an object of the same name that was made later is another root.
    pub uid: String,
}

impl RunRoot {
    /// Returns the owner reference of its dependents.
    pub(crate) fn reference(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "name": self.name, "uid": self.uid, "blockOwnerDeletion": false})
    }
}

/// Builds the root of a run. `facts` are for people: what runs, and from which commit.
pub fn run_root(installation: &Installation, run_id: &RunId, expires: Option<Instant>, facts: &[(&str, &str)]) -> Object {
    let mut metadata = json!({
        "name": root_name(run_id),
        "namespace": installation.namespace,
        "labels": {MANAGED_BY.0: MANAGED_BY.1, RUN: run_id},
    });
    if let Some(expires) = expires {
        metadata["annotations"] = json!({EXPIRES: expires});
    }
    let data: serde_json::Map<String, Value> = facts.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}
