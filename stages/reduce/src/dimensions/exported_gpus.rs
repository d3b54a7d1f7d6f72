//! The GPUs of a target by the labels of dcgm-exporter's series, as far as they are known to be the target's: by the UIDs of its pods, else by the names of its
//! nodes. Nothing is derived from times or numbers of devices.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::Host;
use assay_telemetry::prometheus::LabelledGpu;

/// The facts that labels state about a target's GPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExportedGpus {
    pub(super) model: Option<String>,
    pub(super) count: Option<i64>,
    pub(super) driver_version: Option<String>,
    /// The reasons why a fact is absent although a Prometheus has GPUs.
    pub(super) unknown: Vec<String>,
    /// Labels that contradict each other.
    pub(super) conflicts: Vec<String>,
}

/// The place of a target: its pods if it has any, and its nodes.
pub(super) struct Place<'a> {
    pub(super) pods: BTreeSet<&'a str>,
    pub(super) nodes: BTreeSet<&'a str>,
}

impl ExportedGpus {
    /// Reads the GPUs of a target.
    pub(super) fn read(all: &[LabelledGpu], place: &Place<'_>) -> Self {
        let is_in = |value: &Option<String>, of: &BTreeSet<&str>| value.as_ref().is_some_and(|value| of.contains(value.as_str()));
        let of_pods: Vec<&LabelledGpu> = all.iter().filter(|gpu| is_in(&gpu.pod_uid, &place.pods)).collect();
        let of_nodes: Vec<&LabelledGpu> = all.iter().filter(|gpu| is_in(&gpu.node_name, &place.nodes)).collect();
        match (of_pods.is_empty(), of_nodes.is_empty()) {
            (false, _) => Self::of(&of_pods, true),
            (true, false) if place.pods.is_empty() => Self::of(&of_nodes, true),
            (true, false) => Self::of_shared_nodes(&of_nodes),
            (true, true) if all.is_empty() => Self::default(),
            (true, true) => {
                let why = "no series of a GPU has the UID of one of its pods or the name of one of its nodes";
                Self { unknown: vec![why.to_owned()], ..Self::default() }
            }
        }
    }

    /// Reads the GPUs of nodes on which others may have some: what all of them have in common is the target's, too.
    fn of_shared_nodes(gpus: &[&LabelledGpu]) -> Self {
        let mut found = Self::of(gpus, false);
        if found.model.as_ref().is_some_and(|model| model.contains(SEPARATOR)) {
            found.model = None;
            found.unknown.push("its nodes have GPUs of several models, and no series has the UID of one of its pods".to_owned());
        }
        found
    }

    fn of(gpus: &[&LabelledGpu], are_all_its_own: bool) -> Self {
        let mut conflicts = Vec::new();
        let models = by_gpu(gpus, |gpu| gpu.model.as_ref());
        let drivers = by_gpu(gpus, |gpu| gpu.driver_version.as_ref());
        conflicts.extend(several(&models, "models"));
        conflicts.extend(several(&drivers, "versions of the driver"));
        let distinct = |values: &BTreeMap<&str, BTreeSet<&str>>| -> BTreeSet<String> {
            let is_known = values.values().all(|values| values.len() == 1);
            if is_known { values.values().flatten().map(|value| (*value).to_owned()).collect() } else { BTreeSet::new() }
        };
        let (models, drivers) = (distinct(&models), distinct(&drivers));
        let driver_version = if drivers.len() == 1 { drivers.first().cloned() } else { None };
        let differ =
            || format!("its GPUs have the versions `{}` of the driver", drivers.iter().cloned().collect::<Vec<_>>().join("`, `"));
        let unknown = (drivers.len() > 1).then(differ).into_iter().collect();
        let uuids: BTreeSet<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        Self {
            model: (!models.is_empty()).then(|| models.into_iter().collect::<Vec<_>>().join(SEPARATOR)),
            count: i64::try_from(uuids.len()).ok().filter(|_| are_all_its_own),
            driver_version,
            unknown,
            conflicts,
        }
    }
}

/// The text between several models.
pub(super) const SEPARATOR: &str = " + ";

/// Returns the values that the series of each GPU state, by its unique id. A GPU whose labels lack the value is there without one.
fn by_gpu<'a>(
    gpus: &[&'a LabelledGpu],
    of: impl Fn(&'a LabelledGpu) -> Option<&'a String>,
) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut values: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for gpu in gpus {
        values.entry(&gpu.uuid).or_default().extend(of(gpu).map(String::as_str));
    }
    values
}

fn several(by_gpu: &BTreeMap<&str, BTreeSet<&str>>, what: &str) -> Vec<String> {
    let named = |values: &BTreeSet<&str>| values.iter().copied().collect::<Vec<_>>().join("` and `");
    let several = by_gpu.iter().filter(|(_, values)| values.len() > 1);
    several.map(|(uuid, values)| format!("the GPU `{uuid}` has the {what} `{}` in labels", named(values))).collect()
}

/// Returns the contradictions between the driver of a host and labels about the same GPUs, by their unique ids. The driver's own statement stands.
pub(super) fn contradictions(all: &[LabelledGpu], hosts: &[&Host]) -> Vec<String> {
    let mut found = BTreeSet::new();
    for gpu in hosts.iter().filter_map(|host| host.facts.gpus.value.as_deref()).flatten() {
        for labelled in all.iter().filter(|labelled| labelled.uuid == gpu.uuid) {
            let stated = [("model", &gpu.model, &labelled.model), ("driver", &gpu.driver_version, &labelled.driver_version)];
            let differing =
                stated.iter().filter_map(|(what, own, label)| Some((what, own, label.as_ref().filter(|label| label != own)?)));
            found.extend(differing.map(|(what, own, label)| {
                format!("the {what} of the GPU `{}` is `{own}` by the driver on its host, and `{label}` in labels", gpu.uuid)
            }));
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(uuid: &str, node: &str, pod: &str, model: &str, driver: &str) -> LabelledGpu {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (node_name, pod_uid, model, driver_version) = (text(node), text(pod), text(model), text(driver));
        LabelledGpu { uuid: uuid.to_owned(), node_name, pod_uid, model, driver_version }
    }

    fn read(all: &[LabelledGpu], pods: &[&str], nodes: &[&str]) -> ExportedGpus {
        ExportedGpus::read(all, &Place { pods: pods.iter().copied().collect(), nodes: nodes.iter().copied().collect() })
    }

    fn shown(found: &ExportedGpus) -> (Option<&str>, Option<i64>, Option<&str>) {
        (found.model.as_deref(), found.count, found.driver_version.as_deref())
    }

    #[test]
    fn gpus_are_those_of_the_pods_else_those_of_a_machine_of_its_own() {
        let all =
            [gpu("a", "n", "mine", "H200", "570"), gpu("b", "n", "mine", "H200", "570"), gpu("c", "n", "others", "A100", "570")];
        assert_eq!(shown(&read(&all, &["mine"], &["n"])), (Some("H200"), Some(2), Some("570")));
        assert_eq!(
            shown(&read(&all, &[], &["n"])),
            (Some("A100 + H200"), Some(3), Some("570")),
            "a target that is no pod has the machine"
        );
    }

    #[test]
    fn gpus_that_may_be_of_others_are_unknown_unless_all_are_alike() {
        let alike = [gpu("a", "n", "", "H200", "570"), gpu("b", "n", "", "H200", "570")];
        assert_eq!(shown(&read(&alike, &["mine"], &["n"])), (Some("H200"), None, Some("570")), "the number is unknown");
        let mixed = [gpu("a", "n", "", "H200", "570"), gpu("b", "n", "", "A100", "570")];
        let found = read(&mixed, &["mine"], &["n"]);
        assert_eq!(shown(&found), (None, None, Some("570")));
        assert_eq!(found.unknown, ["its nodes have GPUs of several models, and no series has the UID of one of its pods"]);
    }

    #[test]
    fn gpus_of_other_machines_are_not_the_targets() {
        let found = read(&[gpu("a", "elsewhere", "others", "H200", "570")], &["mine"], &["n"]);
        assert_eq!(shown(&found), (None, None, None));
        assert_eq!(found.unknown, ["no series of a GPU has the UID of one of its pods or the name of one of its nodes"]);
        assert_eq!(read(&[], &["mine"], &["n"]), ExportedGpus::default(), "a run without such a source has no open question");
    }

    #[test]
    fn labels_that_contradict_each_other_are_named_and_none_is_taken() {
        let two_models =
            [gpu("a", "n", "mine", "H200", "570"), gpu("a", "n", "mine", "H100", "570"), gpu("b", "n", "mine", "H200", "570")];
        let found = read(&two_models, &["mine"], &["n"]);
        assert_eq!(
            (shown(&found), found.conflicts.join("")),
            ((None, Some(2), Some("570")), "the GPU `a` has the models `H100` and `H200` in labels".to_owned())
        );
        let two_drivers = [gpu("a", "n", "mine", "H200", "570"), gpu("b", "m", "mine", "H200", "580")];
        let found = read(&two_drivers, &["mine"], &["n"]);
        assert_eq!(
            (shown(&found), found.unknown.join("")),
            ((Some("H200"), Some(2), None), "its GPUs have the versions `570`, `580` of the driver".to_owned())
        );
    }

    #[test]
    fn a_gpu_whose_labels_lack_the_model_leaves_it_unknown() {
        let found = read(&[gpu("a", "n", "mine", "H200", "570"), gpu("b", "n", "mine", "", "570")], &["mine"], &["n"]);
        assert_eq!(shown(&found), (None, Some(2), Some("570")));
    }
}
