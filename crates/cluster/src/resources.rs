//! The resources of a node that a stage may use.

use assay_stage::StageName;
use serde_json::{Value, json};

/// The resources of a node that a stage may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// CPUs, as a quantity.
    pub cpu: Option<String>,
    /// Memory, as a quantity.
    pub memory: Option<String>,
}

impl Resources {
    /// Returns the requests and limits of a stage. A stage that makes load gets exclusive whole CPUs (QoS class Guaranteed, by
    /// equal requests and limits), unless its pipeline asks for a part of one; of other stages only the memory is limited.
    pub(crate) fn for_stage(&self, stage: StageName) -> Value {
        let is_load = stage == StageName::Execute;
        let cpu = self.cpu.as_deref().unwrap_or(if is_load { "1" } else { "100m" });
        let memory = self.memory.as_deref().unwrap_or(match stage {
            StageName::Execute | StageName::Collect | StageName::Reduce | StageName::Publish => "1Gi",
            StageName::Plan | StageName::Provision | StageName::Record => "512Mi",
        });
        let mut limits = json!({"memory": memory});
        if is_load && cpu.bytes().all(|byte| byte.is_ascii_digit()) {
            limits["cpu"] = json!(cpu);
        }
        let requested = match (&self.memory, is_load) {
            (Some(asked), _) => asked,
            (None, true) => memory,
            (None, false) => "128Mi",
        };
        json!({"requests": {"cpu": cpu, "memory": requested}, "limits": limits})
    }
}
