//! Checks that everything that a side executed has a digest.

use assay_failure::first_names;
use assay_manifest::{Environment, Intent, Plan, Reason, TargetKind};

use crate::CountedAttempt;

/// The name of the rule that every executed file has a digest, and of the Summary's issue if one has none.
pub const UNPINNED_EXECUTABLE: &str = "unpinned_executable";

/// The name of the rule that a program is the same file in all trials of its case, and of the Summary's issue if it is not: the numbers
/// then mix several programs.
pub const EXECUTABLE_REPLACED: &str = "executable_replaced";

/// The largest number of files that a message names.
const MAX_NAMED: usize = 4;

/// Reports executables without a digest in the attempts that count: another build would have given the same evidence. For an
/// exploratory run only those of indicators; the Environment lists the rest.
pub fn find_unpinned_executables<'a>(
    plan: &Plan,
    counted: impl IntoIterator<Item = CountedAttempt<'a>>,
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
    Some(Reason::new(UNPINNED_EXECUTABLE, format!("no digest is known of {}", first_names(&found, MAX_NAMED))))
}

/// Reports a program, interpreter or artifact of an indicator that was replaced between the attempts that count.
pub fn find_replaced_executable<'a>(counted: impl IntoIterator<Item = CountedAttempt<'a>>) -> Option<Reason> {
    let detail = assay_gate::describe_replaced(counted.into_iter().map(|counted| counted.attempt))?;
    Some(Reason::new(EXECUTABLE_REPLACED, detail))
}
