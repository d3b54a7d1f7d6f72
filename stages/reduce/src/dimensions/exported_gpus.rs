//! The GPUs of a target by the labels of dcgm-exporter's series, as far as they are known to be the target's: by the UIDs of its pods, else by the names of its
//! nodes. Nothing is derived from times or numbers of devices.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::Host;
use assay_telemetry::{LabelOrigin, LabelledGpu};

/// The facts that labels state about a target's GPUs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ExportedGpus {
    pub(super) model: Option<LabelledFact>,
    pub(super) count: Option<i64>,
    pub(super) driver_version: Option<LabelledFact>,
    /// The reasons why a fact is absent although labels describe GPUs.
    pub(super) unknown: Vec<String>,
    /// Labels that contradict each other.
    pub(super) conflicts: Vec<String>,
}

/// A fact that labels state of all GPUs of a target.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LabelledFact {
    pub(super) value: String,
    /// The scrape if one has a series of every GPU, else the Prometheus.
    pub(super) origin: LabelOrigin,
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
        let of_pods = with_same_gpus(all, |gpu| is_in(&gpu.pod_uid, &place.pods));
        let of_nodes = with_same_gpus(all, |gpu| is_in(&gpu.node_name, &place.nodes));
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
        if found.model.as_ref().is_some_and(|model| model.value.contains(SEPARATOR)) {
            found.model = None;
            found.unknown.push("its nodes have GPUs of several models, and no series has the UID of one of its pods".to_owned());
        }
        found
    }

    fn of(gpus: &[&LabelledGpu], are_all_its_own: bool) -> Self {
        let models = StatedValues::read(gpus, |gpu| gpu.model.as_ref());
        let drivers = StatedValues::read(gpus, |gpu| gpu.driver_version.as_ref());
        let (distinct_models, distinct_drivers) = (models.distinct(), drivers.distinct());
        let driver_version = if distinct_drivers.len() == 1 { distinct_drivers.first().copied() } else { None };
        let differ = || {
            let versions = distinct_drivers.iter().copied().collect::<Vec<_>>().join("`, `");
            format!("its GPUs have the versions `{versions}` of the driver")
        };
        let model = (!distinct_models.is_empty()).then(|| distinct_models.iter().copied().collect::<Vec<_>>().join(SEPARATOR));
        let uuids: BTreeSet<&str> = gpus.iter().map(|gpu| gpu.uuid.as_str()).collect();
        Self {
            model: model.map(|value| LabelledFact { value, origin: models.origin() }),
            count: i64::try_from(uuids.len()).ok().filter(|_| are_all_its_own),
            driver_version: driver_version.map(|value| LabelledFact { value: value.to_owned(), origin: drivers.origin() }),
            unknown: (distinct_drivers.len() > 1).then(differ).into_iter().collect(),
            conflicts: models.conflicts("models").chain(drivers.conflicts("versions of the driver")).collect(),
        }
    }
}

/// Returns the descriptions that are chosen, and all others of the same GPUs: a series without a pod describes the GPU as well.
fn with_same_gpus(all: &[LabelledGpu], is_chosen: impl Fn(&LabelledGpu) -> bool) -> Vec<&LabelledGpu> {
    let chosen: BTreeSet<&str> = all.iter().filter(|gpu| is_chosen(gpu)).map(|gpu| gpu.uuid.as_str()).collect();
    all.iter().filter(|gpu| chosen.contains(gpu.uuid.as_str())).collect()
}

/// The text between several models.
pub(super) const SEPARATOR: &str = " + ";

/// The values of one fact that the series of each GPU state, with the origins of these series, by the GPU's unique id. A GPU whose labels lack the value is there
/// without one.
struct StatedValues<'a>(BTreeMap<&'a str, BTreeMap<&'a str, BTreeSet<LabelOrigin>>>);

impl<'a> StatedValues<'a> {
    fn read(gpus: &[&'a LabelledGpu], of: impl Fn(&'a LabelledGpu) -> Option<&'a String>) -> Self {
        let mut values: BTreeMap<&str, BTreeMap<&str, BTreeSet<LabelOrigin>>> = BTreeMap::new();
        for gpu in gpus {
            let of_gpu = values.entry(&gpu.uuid).or_default();
            if let Some(value) = of(gpu) {
                of_gpu.entry(value).or_default().insert(gpu.origin);
            }
        }
        Self(values)
    }

    /// Returns the different values of all GPUs; none if a GPU has none, or several.
    fn distinct(&self) -> BTreeSet<&'a str> {
        let is_known = self.0.values().all(|values| values.len() == 1);
        if is_known { self.0.values().flat_map(|values| values.keys().copied()).collect() } else { BTreeSet::new() }
    }

    /// Returns the scrape if one has a series of every GPU, else the Prometheus.
    fn origin(&self) -> LabelOrigin {
        let is_scraped = |origins: &BTreeSet<LabelOrigin>| origins.contains(&LabelOrigin::Scrape);
        let are_scraped = self.0.values().all(|values| values.values().all(is_scraped));
        if are_scraped { LabelOrigin::Scrape } else { LabelOrigin::Prometheus }
    }

    /// Returns the GPUs of which series state several values.
    fn conflicts(&self, what: &str) -> impl Iterator<Item = String> {
        let several = self.0.iter().filter(|(_, values)| values.len() > 1);
        several.map(move |(uuid, values)| {
            let stated = values.iter().map(|(value, origins)| format!("`{value}` in those of {}", origins_in_words(origins)));
            format!("the GPU `{uuid}` has several {what} in labels: {}", stated.collect::<Vec<_>>().join(", "))
        })
    }
}

fn origins_in_words(origins: &BTreeSet<LabelOrigin>) -> String {
    let words = origins.iter().map(|origin| match origin {
        LabelOrigin::Scrape => "a scrape",
        LabelOrigin::Prometheus => "a Prometheus",
    });
    words.collect::<Vec<_>>().join(" and ")
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

    /// A GPU in the series of a Prometheus.
    fn gpu(uuid: &str, node: &str, pod: &str, model: &str, driver: &str) -> LabelledGpu {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let (node_name, pod_uid, model, driver_version) = (text(node), text(pod), text(model), text(driver));
        LabelledGpu { uuid: uuid.to_owned(), node_name, pod_uid, model, driver_version, origin: LabelOrigin::Prometheus }
    }

    fn scraped(gpu: LabelledGpu) -> LabelledGpu {
        LabelledGpu { origin: LabelOrigin::Scrape, ..gpu }
    }

    fn read(all: &[LabelledGpu], pods: &[&str], nodes: &[&str]) -> ExportedGpus {
        ExportedGpus::read(all, &Place { pods: pods.iter().copied().collect(), nodes: nodes.iter().copied().collect() })
    }

    fn shown(found: &ExportedGpus) -> (Option<&str>, Option<i64>, Option<&str>) {
        let [model, driver] = [&found.model, &found.driver_version].map(|fact| fact.as_ref().map(|fact| fact.value.as_str()));
        (model, found.count, driver)
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
            (
                (None, Some(2), Some("570")),
                "the GPU `a` has several models in labels: `H100` in those of a Prometheus, `H200` in those of a Prometheus"
                    .to_owned()
            )
        );
        let two_drivers = [gpu("a", "n", "mine", "H200", "570"), gpu("b", "m", "mine", "H200", "580")];
        let found = read(&two_drivers, &["mine"], &["n"]);
        assert_eq!(
            (shown(&found), found.unknown.join("")),
            ((Some("H200"), Some(2), None), "its GPUs have the versions `570`, `580` of the driver".to_owned())
        );
    }

    #[test]
    fn a_fact_is_of_the_scrape_if_that_has_all_gpus() {
        let [a, b] = ["a", "b"].map(|uuid| gpu(uuid, "n", "", "H200", "570"));
        let origins = |all: &[LabelledGpu]| {
            let found = read(all, &[], &["n"]);
            assert_eq!(shown(&found), (Some("H200"), Some(2), Some("570")), "each GPU counts once");
            [found.model, found.driver_version].map(|fact| fact.expect("it is known").origin)
        };
        let (of_scrape, of_prometheus) = ([LabelOrigin::Scrape; 2], [LabelOrigin::Prometheus; 2]);
        assert_eq!(origins(&[a.clone(), b.clone()]), of_prometheus);
        assert_eq!(origins(&[scraped(a.clone()), scraped(b.clone())]), of_scrape);
        assert_eq!(origins(&[a.clone(), b.clone(), scraped(a.clone()), scraped(b.clone())]), of_scrape);
        assert_eq!(origins(&[a.clone(), b.clone(), scraped(a)]), of_prometheus, "the scrape has one of two GPUs");
    }

    #[test]
    fn a_scrape_that_contradicts_a_prometheus_is_named_and_neither_is_taken() {
        let found = read(&[gpu("a", "n", "", "H200", "570"), scraped(gpu("a", "n", "", "H200", "580"))], &[], &["n"]);
        assert_eq!(shown(&found), (Some("H200"), Some(1), None));
        assert_eq!(
            found.conflicts,
            [
                "the GPU `a` has several versions of the driver in labels: `570` in those of a Prometheus, `580` in those of a scrape"
            ]
        );
        let of_pod = read(&[gpu("a", "n", "mine", "H200", "570"), scraped(gpu("a", "", "", "H100", "570"))], &["mine"], &["n"]);
        assert_eq!(shown(&of_pod), (None, Some(1), Some("570")), "the scrape has no pod, and the same GPU");
    }

    #[test]
    fn a_gpu_whose_labels_lack_the_model_leaves_it_unknown() {
        let found = read(&[gpu("a", "n", "mine", "H200", "570"), gpu("b", "n", "mine", "", "570")], &["mine"], &["n"]);
        assert_eq!(shown(&found), (None, Some(2), Some("570")));
    }
}
