//! Checks that the sides of a comparison are alike except for the variable under test, with the gate's own rules.

use assay_failure::first_names;
use assay_gate::{Schedules, differences};
use assay_manifest::{Difference, Environment, Plan, Reason};

use crate::CountedAttempt;

/// The name of the rule that both sides of a comparison are alike in everything that is not under test, and of the Summary's
/// issue if they are not.
pub const SIDES_DIFFER: &str = "sides_differ";

/// The name of the rule that both sides of a comparison share hardware, and of the Summary's issue if they do not.
pub const CONFOUNDED: &str = "confounded_with_placement";

/// The largest number of differences that a message names.
const MAX_DIFFERENCES: usize = 4;

/// Reports the differences between the sides besides the variable under test, over the attempts that count: a claim about one
/// side against the other is a claim about them too. `None` without a comparison.
pub fn find_side_differences<'a>(
    plan: &Plan,
    counted: impl IntoIterator<Item = CountedAttempt<'a>>,
    environments: &[&Environment],
) -> Option<Reason> {
    let comparison = plan.comparison.as_ref()?;
    let offered =
        |counted: CountedAttempt<'a>| Some((&counted.attempt.trial_id, counted.attempt.serving.as_ref()?.schedule_digest));
    let schedules: Schedules<'_> = counted.into_iter().filter_map(offered).collect();
    let found = differences(plan, environments, &schedules, comparison);
    if found.is_empty() {
        return None;
    }
    let or_none = |value: &str| if value.is_empty() { "none".to_owned() } else { value.to_owned() };
    let named =
        |found: &Difference| format!("`{}` ({} against {})", found.what, or_none(&found.baseline), or_none(&found.candidate));
    let named = first_names(&found.iter().map(named).collect::<Vec<_>>(), MAX_DIFFERENCES);
    let variable = &comparison.variable_under_test;
    let detail = format!("besides `{variable}` the baseline and the candidate differ in {named}");
    Some(Reason::new(SIDES_DIFFER, detail))
}

/// Reports the reason why the sides may differ by their machines alone. `None` without a comparison.
pub fn find_confounded_sides(plan: &Plan, environments: &[&Environment]) -> Option<Reason> {
    let comparison = plan.comparison.as_ref()?;
    assay_gate::find_confounding(environments, comparison).map(|why| Reason::new(CONFOUNDED, why))
}
