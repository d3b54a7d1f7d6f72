//! The pod that measures how much load a shard can make: placed and limited as a shard is, with nothing else of a shard.

use assay_manifest::{Digest, RunId};
use serde_json::json;

use crate::affinity::{avoid_nodes, join_affinities};
use crate::probe::OncePod;
use crate::{LoadPod, Object};

/// A probe of how much load a shard can make.
pub struct CeilingPod<'a> {
    /// The namespace that it runs in: that of the targets.
    pub namespace: &'a str,
    /// The run.
    pub run_id: &'a RunId,
    /// The image of all stages, by digest.
    pub image: &'a str,
    /// The placement and limits of a shard.
    pub load: &'a LoadPod,
    /// Nodes that serve.
    pub avoid: &'a [String],
    /// Fingerprints of machines that were measured before: on such a machine nothing is measured.
    pub known: &'a [Digest],
}

impl CeilingPod<'_> {
    /// The pod's name.
    pub fn name(&self) -> String {
        format!("ceiling-{}", self.run_id)
    }
}

/// Builds the pod of a probe.
pub fn ceiling_pod(probe: &CeilingPod<'_>) -> Object {
    let LoadPod { resources, node_selector, affinity, tolerations, priority_class, must_avoid } = probe.load;
    let mut command = vec!["/assay/assay-provision".to_owned(), "ceiling".to_owned()];
    command.extend(probe.known.iter().map(Digest::to_string));
    let once = OncePod { namespace: probe.namespace, run_id: probe.run_id, image: probe.image };
    let mut pod = once.pod(&probe.name(), &command, resources);
    let optional = [
        ("nodeSelector", (!node_selector.is_empty()).then(|| json!(node_selector))),
        ("affinity", join_affinities(avoid_nodes(probe.avoid, *must_avoid), affinity.as_ref())),
        ("tolerations", (!tolerations.is_empty()).then(|| json!(tolerations))),
        ("priorityClassName", priority_class.as_ref().map(|class| json!(class))),
    ];
    for (field, value) in optional {
        if let Some(value) = value {
            pod["spec"][field] = value;
        }
    }
    pod
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::Resources;
    use assay_manifest::Role;

    fn load(cpu: Option<&str>) -> LoadPod {
        let asked = crate::pod_override::parse_stage_override(Role::Execute, "tolerations: [{key: load, operator: Exists}]")
            .expect("it may ask that");
        let resources = Resources { cpu: cpu.map(str::to_owned), memory: None };
        LoadPod::new(&resources, &BTreeMap::from([("pool".to_owned(), "load".to_owned())]), &asked, true)
    }

    #[test]
    fn it_is_placed_and_limited_as_a_shard_and_has_nothing_else_of_one() {
        let run_id = "nightly-1".parse().expect("a run id");
        let image = format!("assay.test/assay@sha256:{}", "0".repeat(64));
        let (avoid, known) = (["gpu-1".to_owned()], [Digest::compute(b"")]);
        let probe = CeilingPod {
            namespace: "assay-targets",
            run_id: &run_id,
            image: &image,
            load: &load(Some("4")),
            avoid: &avoid,
            known: &known,
        };
        insta::assert_snapshot!(crate::to_yaml(&[ceiling_pod(&probe)]).expect("YAML"));
    }

    #[test]
    fn a_part_of_a_cpu_is_no_whole_one() {
        let has = |cpu| load(cpu).has_whole_cpu();
        assert!(has(None) && has(Some("1")) && has(Some("2.5")));
        assert!(!has(Some("500m")) && !has(Some("0.5")));
    }

    #[test]
    fn what_provision_is_told_is_what_it_reads() {
        let text = serde_json::to_string(&load(None)).expect("JSON");
        assert_eq!(serde_json::from_str::<LoadPod>(&text).expect("a load pod"), load(None));
    }
}
