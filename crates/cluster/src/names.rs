//! Names of objects, and the labels by which they are found again.

use assay_manifest::{Digest, RunId};
use assay_stage::StageName;

/// The name of the ConfigMap that describes an installation.
pub const INSTALLATION: &str = "assay";
/// The label of objects that Assay manages.
pub const MANAGED_BY: (&str, &str) = ("app.kubernetes.io/managed-by", "assay");
/// The label of the run that an object belongs to.
pub const RUN: &str = "assay.dev/run";
/// The label of the stage that a Job runs.
pub const STAGE: &str = assay_stage::pod::STAGE_LABEL;
/// The label of the target that an object brings up.
pub const TARGET: &str = "assay.dev/target";
/// Kueue's label for the queue that a pod or Job waits in.
pub const QUEUE: &str = "kueue.x-k8s.io/queue-name";
/// Kueue's object for each Job or pod that waits in one of its queues, since version 0.15.
pub(crate) const WORKLOAD: &str = "Workload.v1beta2";
/// The same object of an earlier Kueue.
pub(crate) const OLD_WORKLOAD: &str = "Workload.v1beta1";

/// The label of a targets' namespace. Its value is the namespace whose runs bring their targets up there, and remove leftovers.
pub const TARGETS_OWNER: &str = "assay.dev/targets-of";

/// Returns the name of a run's root, which owns all other objects of the run.
pub fn root_name(run_id: &RunId) -> String {
    format!("assay-{run_id}")
}

/// Returns the name of the Job that drives a run.
pub fn driver_name(run_id: &RunId) -> String {
    format!("{run_id}-driver")
}

/// Returns the name of the Job of one call of a stage. Equal calls have equal names, so none is ever created twice. With a run id
/// of forty characters there is room for a thousand shards: the pods of an Indexed Job are called `<name>-<index>`, of at most 63
/// characters.
pub fn job_name(run_id: &RunId, stage: StageName, input: &Digest) -> String {
    let short: String = input.hex().chars().take(8).collect();
    format!("{run_id}-{stage}-{short}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_names_leave_room_for_the_index_of_a_pod() {
        let run_id: RunId = "a".repeat(40).parse().expect("a run id");
        for stage in StageName::ALL {
            let name = job_name(&run_id, stage, &Digest::compute(b""));
            assert!(format!("{name}-999").len() <= 63, "{name}");
        }
        assert!(driver_name(&run_id).len() <= 63 && root_name(&run_id).len() <= 63);
    }
}
