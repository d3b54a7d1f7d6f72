//! The files that each side executed, by the digests of their bytes.

use std::collections::{BTreeMap, BTreeSet};

use assay_failure::first_names;
use assay_manifest::{
    Attempt, Case, CaseId, Check, Comparison, Digest, Environment, Executable, ExecutableRole, Name, ProvisionedTarget, Side,
    TargetKind,
};

use crate::evidence::Run;
use crate::sides::is_on_side;

/// The name of the check that every executable of a side has a digest, and of the reason for a missing digest.
const UNPINNED: &str = "unpinned_executable";

/// The name of the list of differing executables.
const EXECUTABLES: &str = "executables";

/// The name of the remark that the commands of both sides were the same program.
const ALIKE: &str = "executables_alike";

/// The name of the check that a side executed the same files from its first trial to its last.
const CHANGED: &str = "executable_changed";

/// The most files that are named.
const MAX_NAMED: usize = 8;

/// Describes everything that a target executed without a digest: its processes, pods or endpoint in any block, and the scripts of
/// its attempts.
pub fn unpinned<'a>(environments: &[&Environment], attempts: impl Iterator<Item = &'a Attempt>, target: &Name) -> Vec<String> {
    let mut found: BTreeSet<String> = provisioned(environments, target).flat_map(ProvisionedTarget::describe_unpinned).collect();
    for attempt in attempts.filter(|attempt| attempt.case_id.names()[1] == target.as_str()) {
        let Some(outcome) = &attempt.indicator else { continue };
        if outcome.executables.is_empty() {
            found.insert(format!("what the indicator of {} executed on the target `{target}`", attempt.case_id));
        }
        let without = outcome.executables.iter().filter(|executable| executable.digest.is_none());
        found.extend(without.map(|executable| {
            let why = executable.unpinned.as_deref().unwrap_or("it was not read");
            format!("the {} `{}` of the target `{target}` ({why})", executable.role, executable.path)
        }));
    }
    found.into_iter().collect()
}

fn provisioned<'a>(environments: &[&'a Environment], target: &Name) -> impl Iterator<Item = &'a ProvisionedTarget> {
    let targets = environments.iter().flat_map(|environment| &environment.targets);
    targets.filter(|found| found.id == *target).collect::<Vec<_>>().into_iter()
}

/// Returns one check for each side that executed something without a digest, one for each side whose files were replaced, and the
/// list of differences between the sides.
pub(crate) fn checks(run: &Run<'_>, comparison: &Comparison) -> Vec<Check> {
    let sides = [("baseline", &comparison.baseline), ("candidate", &comparison.candidate)];
    let mut checks: Vec<Check> = sides.into_iter().filter_map(|(name, side)| check_digests(run, name, side)).collect();
    checks.extend(sides.into_iter().filter_map(|(name, side)| check_replaced(run, name, side)));
    checks.extend(list_differences(run, comparison));
    checks.extend(check_alike(run, comparison));
    checks
}

/// Checks that each program, interpreter or artifact of a side was the same file in all of its trials. Otherwise the result is a
/// mixture.
fn check_replaced(run: &Run<'_>, name: &str, side: &Side) -> Option<Check> {
    let detail = describe_replaced(attempts(run, side))?;
    Some(Check::inconclusive(CHANGED, &format!("the {name} in run {}", run.run_id), false, detail))
}

/// Describes a program, interpreter or artifact that was not the same file in all of these attempts of its case; `None` if there is none.
pub fn describe_replaced<'a>(attempts: impl IntoIterator<Item = &'a Attempt>) -> Option<String> {
    let stays = |executable: &&Executable| executable.role != ExecutableRole::Argument;
    let mut digests: BTreeMap<(&CaseId, &str), BTreeSet<Digest>> = BTreeMap::new();
    for attempt in attempts {
        for executable in attempt.indicator.iter().flat_map(|outcome| &outcome.executables).filter(stays) {
            digests.entry((&attempt.case_id, executable.path.as_str())).or_default().extend(executable.digest);
        }
    }
    let ((_, path), found) = digests.into_iter().find(|(_, digests)| digests.len() > 1)?;
    Some(format!("`{path}` was {} different files in turn: it was replaced while the run went on", found.len()))
}

/// Returns the programs of the commands of a side.
fn programs(run: &Run<'_>, side: &Side) -> BTreeSet<Digest> {
    let is_command = |attempt: &&Attempt| attempt.command_times().is_some();
    let outcomes = attempts(run, side).into_iter().filter(is_command).filter_map(|attempt| attempt.indicator.as_ref());
    let executables = outcomes.flat_map(|outcome| &outcome.executables);
    executables
        .filter(|executable| executable.role == ExecutableRole::Program)
        .filter_map(|executable| executable.digest)
        .collect()
}

/// Remarks that both commands are the same program. This may be right (a change of a comment alone), or a build did not happen.
fn check_alike(run: &Run<'_>, comparison: &Comparison) -> Option<Check> {
    let (baseline, candidate) = (programs(run, &comparison.baseline), programs(run, &comparison.candidate));
    let digests: Vec<String> = baseline.iter().map(Digest::short).collect();
    let detail = format!(
        "both sides executed the same file ({}): a build that should differ did not happen. What it loads is compared where `artifacts` names it",
        digests.join(", ")
    );
    (!baseline.is_empty() && baseline == candidate)
        .then(|| Check::inconclusive(ALIKE, &format!("run {}", run.run_id), true, detail))
}

fn check_digests(run: &Run<'_>, name: &str, side: &Side) -> Option<Check> {
    let found = unpinned(&run.environments, attempts(run, side).into_iter(), &side.target);
    let subject = format!("the {name} in run {}", run.run_id);
    let check = || Check::inconclusive(UNPINNED, &subject, false, format!("no digest is known of {}", first_names(&found, 1)));
    (!found.is_empty()).then(check)
}

/// Returns the valid attempts of a side.
fn attempts<'a>(run: &Run<'a>, side: &Side) -> Vec<&'a Attempt> {
    let of_side = |case: &&Case| is_on_side(case, side);
    let cases: BTreeSet<_> = run.plan.cases.iter().filter(of_side).map(|case| &case.case_id).collect();
    let all = run.parts.iter().flat_map(|part| &part.attempts);
    all.filter(|attempt| attempt.validity.valid && cases.contains(&attempt.case_id)).collect()
}

/// The files of a side by role and last part of the path, with their digests and images.
type Files = BTreeMap<(String, String), BTreeSet<String>>;

fn files(run: &Run<'_>, side: &Side) -> Files {
    let mut files = Files::new();
    let mut note = |role: String, name: &str, digest: String| {
        let name = name.rsplit('/').next().unwrap_or(name).to_owned();
        files.entry((role, name)).or_default().insert(digest);
    };
    let known = |executable: &Executable| executable.digest.map_or_else(|| "unknown".to_owned(), |digest| digest.short());
    for target in provisioned(&run.environments, &side.target) {
        for executable in &target.executables {
            note(executable.role.to_string(), &executable.path, known(executable));
        }
        if matches!(target.kind, TargetKind::Endpoint | TargetKind::InferenceService) {
            note("version".to_owned(), "the endpoint", target.version.value.clone().unwrap_or_else(|| "unknown".to_owned()));
        }
        for container in target.pods.iter().flat_map(|pod| &pod.containers) {
            let digest = container.image.digest.map_or_else(|| "unknown".to_owned(), |digest| digest.short());
            note("image".to_owned(), &container.name, digest);
        }
    }
    for attempt in attempts(run, side) {
        for executable in attempt.indicator.iter().flat_map(|outcome| &outcome.executables) {
            note(executable.role.to_string(), &executable.path, known(executable));
        }
    }
    files
}

/// Lists the differences between the files that the sides executed; `None` if there are none. The list does not affect the
/// verdict, because a comparison of two builds is a comparison of different files.
fn list_differences(run: &Run<'_>, comparison: &Comparison) -> Option<Check> {
    let (baseline, candidate) = (files(run, &comparison.baseline), files(run, &comparison.candidate));
    let names: BTreeSet<_> = baseline.keys().chain(candidate.keys()).collect();
    let of = |files: &Files, name: &(String, String)| {
        files.get(name).map_or_else(|| "none".to_owned(), |digests| digests.iter().cloned().collect::<Vec<_>>().join("+"))
    };
    // The files of a side without a valid attempt are unknown, which is not a difference of files.
    let both_ran = [&comparison.baseline, &comparison.candidate].iter().all(|side| !attempts(run, side).is_empty());
    let is_known = |name: &&(String, String)| both_ran || (baseline.contains_key(*name) && candidate.contains_key(*name));
    let differing = names.into_iter().filter(is_known).filter(|name| baseline.get(*name) != candidate.get(*name));
    let lines: Vec<_> = differing
        .map(|name| format!("{} `{}` ({} against {})", name.0, name.1, of(&baseline, name), of(&candidate, name)))
        .collect();
    if lines.is_empty() {
        return None;
    }
    let detail = format!("the sides differ in {}", first_names(&lines, MAX_NAMED));
    Some(Check::inconclusive(EXECUTABLES, &format!("run {}", run.run_id), true, detail))
}
