//! Whether what each side executed is known by the digests of its bytes.

use assay_manifest::{Environment, Intent, Plan, Reason, TargetKind};

use crate::Counted;

/// The word of the rule that everything that was executed has a digest, and of the Summary's issue where something has none.
pub const UNPINNED_EXECUTABLE: &str = "unpinned_executable";

/// The most files that are named.
const MAX_NAMED: usize = 4;

/// What was executed in the attempts that count and has no digest: another build would have given the same evidence. A run that
/// only explores is told of its indicators alone: of the rest the Environment says it.
pub fn unpinned_executables<'a>(
    plan: &Plan,
    counted: impl IntoIterator<Item = Counted<'a>>,
    environments: &[&Environment],
) -> Option<Reason> {
    let attempts: Vec<_> = counted.into_iter().map(|counted| counted.attempt).collect();
    let unpinned = |target: &assay_manifest::Target| assay_gate::unpinned(environments, attempts.iter().copied(), &target.name);
    let judged = |target: &&assay_manifest::Target| plan.intent != Intent::Exploratory || target.kind == TargetKind::Host;
    let mut found: Vec<String> = plan.targets.iter().filter(judged).flat_map(unpinned).collect();
    found.sort();
    found.dedup();
    if found.is_empty() {
        return None;
    }
    let more = found.len().saturating_sub(MAX_NAMED);
    let more = if more == 0 { String::new() } else { format!(" and {more} more") };
    let named: Vec<_> = found.into_iter().take(MAX_NAMED).collect();
    Some(Reason::new(UNPINNED_EXECUTABLE, format!("no digest is known of {}{more}", named.join(", "))))
}
