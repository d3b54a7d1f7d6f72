//! The node and the CPUs of a shard of load.

use std::collections::BTreeMap;

use assay_spec::PodOverride;
use assay_stage::StageName;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Resources;

/// The settings that decide on which node a shard of load runs, and how much of its CPUs it has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadPod {
    pub(crate) resources: Value,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) affinity: Option<Value>,
    pub(crate) tolerations: Vec<Value>,
    pub(crate) priority_class: Option<String>,
    pub(crate) must_avoid: bool,
}

impl LoadPod {
    /// Takes the settings of execute's pods from a pipeline. `must_avoid` keeps them off the nodes of their targets in any case.
    pub fn new(resources: &Resources, node_selector: &BTreeMap<String, String>, asked: &PodOverride, must_avoid: bool) -> Self {
        Self {
            resources: resources.for_stage(StageName::Execute),
            node_selector: node_selector.clone(),
            affinity: asked.affinity().cloned(),
            tolerations: asked.tolerations().to_vec(),
            priority_class: asked.priority_class().map(str::to_owned),
            must_avoid,
        }
    }

    /// Returns true if a shard has at least one CPU.
    pub fn has_whole_cpu(&self) -> bool {
        let cpus = self.resources["requests"]["cpu"].as_str().and_then(|cpu| cpu.parse::<f64>().ok());
        cpus.is_some_and(|cpus| cpus >= 1.0)
    }
}
