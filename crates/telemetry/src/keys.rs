//! The keys of an observed object, by which its rows are joined with other tables. They are the values of labels, and are never derived
//! from anything else.

use assay_manifest::JoinLabels;
use serde::{Deserialize, Serialize};

/// The keys of the object of a row; `None` for a key that no label holds, or that the row's series differ in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectKeys {
    /// The vendor's unique id of the GPU.
    pub gpu_uuid: Option<String>,
    /// The name of the node.
    pub node_name: Option<String>,
    /// The UID of the pod.
    pub pod_uid: Option<String>,
}

/// The number of rows in which the series differ in a key, by key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyConflicts {
    pub(crate) gpu_uuid: u64,
    pub(crate) node_name: u64,
    pub(crate) pod_uid: u64,
}

impl ObjectKeys {
    /// Returns the values of the labels that hold keys.
    pub(crate) fn read<'a>(joins: &JoinLabels, value: impl Fn(&str) -> Option<&'a str>) -> Self {
        let of = |label: &Option<String>| value(label.as_deref()?).filter(|value| !value.is_empty()).map(str::to_owned);
        Self { gpu_uuid: of(&joins.gpu_uuid), node_name: of(&joins.node_name), pod_uid: of(&joins.pod_uid) }
    }

    /// Returns the keys that all series of a row have in common, and the keys that they differ in. A series without a value differs from
    /// one that has a value: a GPU that a pod has for half of the attempt is not the pod's.
    pub(crate) fn common(all: &[Self]) -> (Self, KeyConflicts) {
        let (gpu_uuid, gpus) = common(all, |keys| &keys.gpu_uuid);
        let (node_name, nodes) = common(all, |keys| &keys.node_name);
        let (pod_uid, pods) = common(all, |keys| &keys.pod_uid);
        let conflicts = KeyConflicts { gpu_uuid: gpus.into(), node_name: nodes.into(), pod_uid: pods.into() };
        (Self { gpu_uuid, node_name, pod_uid }, conflicts)
    }

    /// Returns the length of the longest value, in bytes.
    pub(crate) fn longest(&self) -> usize {
        [&self.gpu_uuid, &self.node_name, &self.pod_uid].into_iter().flatten().map(String::len).max().unwrap_or(0)
    }
}

/// Returns the value that all have, and true if they differ.
fn common(all: &[ObjectKeys], of: impl Fn(&ObjectKeys) -> &Option<String>) -> (Option<String>, bool) {
    let Some((first, others)) = all.split_first() else { return (None, false) };
    let differ = others.iter().any(|other| of(other) != of(first));
    (of(first).clone().filter(|_| !differ), differ)
}

impl KeyConflicts {
    pub(crate) fn add(&mut self, other: Self) {
        self.gpu_uuid += other.gpu_uuid;
        self.node_name += other.node_name;
        self.pod_uid += other.pod_uid;
    }

    /// Returns each key, as its column is named, with the number of its conflicts.
    pub(crate) fn by_column(self) -> [(&'static str, u64); 3] {
        [("gpu_uuid", self.gpu_uuid), ("node_name", self.node_name), ("pod_uid", self.pod_uid)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(gpu: &str, node: &str, pod: &str) -> ObjectKeys {
        let labels = [("UUID", gpu), ("Hostname", node), ("pod_uid", pod)];
        let name = |name: &str| Some(name.to_owned());
        let joins = JoinLabels { gpu_uuid: name("UUID"), node_name: name("Hostname"), pod_uid: name("pod_uid") };
        ObjectKeys::read(&joins, |label| labels.iter().find(|(name, _)| *name == label).map(|(_, value)| *value))
    }

    #[test]
    fn a_key_is_the_value_of_its_label_and_nothing_else() {
        let found = keys("GPU-1", "node-7", "");
        assert_eq!((found.gpu_uuid.as_deref(), found.node_name.as_deref(), found.pod_uid), (Some("GPU-1"), Some("node-7"), None));
        let none = ObjectKeys::read(&JoinLabels::default(), |_| Some("GPU-1"));
        assert_eq!(none, ObjectKeys::default(), "no label is named");
    }

    #[test]
    fn keys_in_which_series_differ_are_null_and_counted() {
        let (found, conflicts) = ObjectKeys::common(&[keys("GPU-1", "n", "a"), keys("GPU-1", "n", "b")]);
        assert_eq!((found.gpu_uuid.as_deref(), found.node_name.as_deref(), found.pod_uid), (Some("GPU-1"), Some("n"), None));
        assert_eq!(conflicts.by_column(), [("gpu_uuid", 0), ("node_name", 0), ("pod_uid", 1)]);
        let (found, conflicts) = ObjectKeys::common(&[keys("GPU-1", "", ""), keys("GPU-1", "n", "")]);
        assert_eq!((found.node_name, conflicts.node_name, conflicts.pod_uid), (None, 1, 0), "one of them has none");
        assert_eq!(ObjectKeys::common(&[]), (ObjectKeys::default(), KeyConflicts::default()));
    }
}
