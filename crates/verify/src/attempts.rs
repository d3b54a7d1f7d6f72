//! Checks the attempts that execute and collect report against the Plan and against each other. Only execute saw an attempt, so a
//! fact that the manifests repeat has to be the same each time.

use std::collections::{BTreeMap, BTreeSet};

use assay_claim::find_drift;
use assay_envelope::Verified;
use assay_manifest::{
    Attempt, AttemptStatus, Block, Body as _, Collection, Count, Digest, Document, Environment, ExecutionPart, FrozenWorkload,
    HostChange, InputRef, Name, Plan, ProvisionedReplica, ProvisionedTarget, RESPONSE_FLOOD, Reason, Shard, TOO_MANY_ERRORS,
    TrialId, ValidityLimits, ordinal,
};
use assay_record::Outcome;

use crate::index::PlanIndex;
use crate::{Error, Result};

/// Checks every attempt of every execution part: it belongs to the planned case, point and script; a valid one agrees with
/// itself; its reasons are those that its own figures give; attempts are numbered without gaps; its records are among its evidence; the Collection lists it under the same trial
/// as its part does.
pub fn check_attempts(documents: &[Verified<Document>]) -> Result<()> {
    let plan = documents.iter().find_map(|verified| Plan::from_document(verified.value())).map(|plan| &plan.body);
    let planned = plan.map(PlanIndex::new);
    let parts: BTreeMap<Digest, &ExecutionPart> = documents
        .iter()
        .filter_map(|verified| Some((verified.manifest_digest(), &ExecutionPart::from_document(verified.value())?.body)))
        .collect();
    check_blocks(documents)?;
    for environment in documents.iter().filter_map(|verified| Environment::from_document(verified.value())) {
        plan.map_or(Ok(()), |plan| check_targets(plan, &environment.body))?;
    }
    for part in parts.values() {
        check_shard(part.shard)?;
        check_numbers(part)?;
        for attempt in &part.attempts {
            check_consistency(attempt)?;
            check_schedule(part, attempt)?;
            if let Some(plan) = &planned {
                check_planned(plan, attempt)?;
                check_validity(plan, attempt)?;
                check_errors(plan, part.shard, attempt)?;
            }
        }
    }
    for collection in documents.iter().filter_map(|verified| Collection::from_document(verified.value())) {
        check_places(&collection.body, &parts)?;
        check_drift(&collection.body, documents)?;
    }
    Ok(())
}

/// Checks that the Collection reports the same differences between blocks as the Environments do.
fn check_drift(collection: &Collection, documents: &[Verified<Document>]) -> Result<()> {
    let environments = documents.iter().filter_map(|verified| Environment::from_document(verified.value()));
    let found = find_drift(&environments.map(|environment| &environment.body).collect::<Vec<_>>());
    if found == collection.drift {
        return Ok(());
    }
    Err(Error::Drift { stated: collection.drift.len(), found: found.len() })
}

fn differs(attempt: &Attempt, what: &str) -> Error {
    Error::Attempt { attempt: attempt.attempt, trial: attempt.trial_id.clone(), difference: what.to_owned() }
}

fn ensure(holds: bool, attempt: &Attempt, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(differs(attempt, what)) }
}

/// Checks that an Environment has the plan's targets, by name and kind, each once.
fn check_targets(plan: &Plan, environment: &Environment) -> Result<()> {
    let is_planned = |id: &Name, kind| plan.targets.iter().any(|target| target.name == *id && target.kind == kind);
    if let Some(target) = environment.targets.iter().find(|target| !is_planned(&target.id, target.kind)) {
        return Err(Error::OtherTarget { target: target.id.clone(), kind: target.kind });
    }
    let mut seen = BTreeSet::new();
    if let Some(target) = environment.targets.iter().find(|target| !seen.insert(&target.id)) {
        return Err(Error::TargetTwice(target.id.clone()));
    }
    for target in &environment.targets {
        check_replicas(plan, target)?;
    }
    Ok(())
}

/// Checks that the servers behind a target's address are those that the plan lists, or, if it lists none, pods of the target.
fn check_replicas(plan: &Plan, target: &ProvisionedTarget) -> Result<()> {
    let listed = plan.target(&target.id).map_or(&[][..], |planned| &planned.replicas);
    let is_listed = target.replicas.iter().map(|replica| &replica.address).eq(listed);
    let is_pod = |replica: &ProvisionedReplica| target.pods.iter().any(|pod| Some(&pod.name) == replica.pod.as_ref());
    if is_listed || listed.is_empty() && target.replicas.iter().all(is_pod) {
        return Ok(());
    }
    Err(Error::OtherReplicas(target.id.clone()))
}

/// Checks that each block's measurements and recordings were made from the Environment of that block.
fn check_blocks(documents: &[Verified<Document>]) -> Result<()> {
    let environments: BTreeMap<Digest, Block> = documents
        .iter()
        .filter_map(|verified| Some((verified.manifest_digest(), Environment::from_document(verified.value())?.body.block)))
        .collect();
    for document in documents.iter().map(Verified::value) {
        let block = match document {
            Document::ExecutionPart(manifest) => manifest.body.block,
            Document::Recording(manifest) => manifest.body.block,
            _ => continue,
        };
        let of = |input: &InputRef| environments.get(&input.manifest).copied();
        if let Some(other) = document.header().inputs.iter().filter_map(of).find(|other| *other != block) {
            return Err(Error::OtherBlock { kind: document.kind(), stated: block, environment: other });
        }
    }
    Ok(())
}

fn check_shard(shard: Shard) -> Result<()> {
    if shard.index < shard.count {
        return Ok(());
    }
    Err(Error::NoShard(shard))
}

/// Checks that the attempts of a trial are numbered from 0 in each part, in the order in which they ran: a gap shows that one was
/// left out.
fn check_numbers(part: &ExecutionPart) -> Result<()> {
    let mut next: BTreeMap<&TrialId, u32> = BTreeMap::new();
    for attempt in &part.attempts {
        let expected = next.entry(&attempt.trial_id).or_default();
        ensure(attempt.attempt == *expected, attempt, &format!("stands where attempt {} should", ordinal(*expected)))?;
        *expected = expected.saturating_add(1);
    }
    Ok(())
}

fn check_consistency(attempt: &Attempt) -> Result<()> {
    let validity = &attempt.validity;
    ensure(validity.valid == validity.reasons.is_empty(), attempt, "is valid and has reasons against it, or neither")?;
    if validity.valid {
        ensure(attempt.status == AttemptStatus::Completed, attempt, &format!("is valid, and is `{}`", attempt.status))?;
        let ended_well = |exit_code: Option<i32>, malformed: &Option<String>| exit_code == Some(0) && malformed.is_none();
        let holds = attempt.indicator.as_ref().is_none_or(|indicator| ended_well(indicator.exit_code, &indicator.malformed));
        ensure(holds, attempt, "is valid, and its script failed or gave no result")?;
    }
    let folder = format!("trials/{}/{}/", attempt.trial_id, attempt.attempt);
    let other = attempt.evidence.iter().find(|artifact| !artifact.name.starts_with(&folder));
    ensure(other.is_none(), attempt, "names evidence of another attempt as its own")?;
    let records = attempt.serving.as_ref().map(|serving| &serving.records);
    ensure(records.is_none_or(|records| attempt.evidence.contains(records)), attempt, "names records that are not its evidence")
}

fn check_schedule(part: &ExecutionPart, attempt: &Attempt) -> Result<()> {
    let Some(serving) = &attempt.serving else { return Ok(()) };
    let is_same = part.schedule_digests.get(&attempt.trial_id) == Some(&serving.schedule_digest);
    ensure(is_same, attempt, "followed another schedule than its part names for the trial")
}

fn check_planned(plan: &PlanIndex<'_>, attempt: &Attempt) -> Result<()> {
    let planned = plan.trial(&attempt.trial_id);
    let is_planned = planned.is_some_and(|trial| trial.case_id == attempt.case_id && trial.point_id == attempt.point_id);
    ensure(is_planned, attempt, "is of another case or point than the plan says")?;
    let Some(workload) = plan.workload_of(attempt.case_id.as_str()) else { return Ok(()) };
    let is_script_of_plan = attempt.indicator.as_ref().is_none_or(|outcome| is_script_of(workload, outcome.script_sha256));
    ensure(is_script_of_plan, attempt, "ran another script than the plan pins")?;
    ensure(
        is_measured_as_planned(workload, attempt),
        attempt,
        "has times of a command, and the plan has a script, or the other way round",
    )
}

/// Judges an attempt again by the limits of the plan: the reasons about its client and its machine are those that its own figures give.
/// A plan of an earlier Assay has no limits, and then nothing is judged; nor is an attempt whose load never ran.
fn check_validity(plan: &PlanIndex<'_>, attempt: &Attempt) -> Result<()> {
    let Some(limits) = &plan.plan.trial_policy.validity else { return Ok(()) };
    let has = |code: &str| attempt.validity.reasons.iter().any(|reason| reason.code == code);
    if let (Some(before), Some(after)) = (&attempt.host_before, &attempt.host_after) {
        let change = HostChange { before, after, window_ns: attempt.window.duration_ns.0 };
        let found = limits.machine_reasons(change);
        let is_same = ValidityLimits::MACHINE_CODES.into_iter().all(|code| has(code) == is_among(code, &found));
        ensure(is_same, attempt, "has other reasons about its machine than its counters give by the limits of the plan")?;
    }
    let Some(serving) = &attempt.serving else { return Ok(()) };
    let has_cap = plan.serving_of(&attempt.case_id).is_some_and(|work| work.max_concurrency.is_some());
    let found = limits.client_reasons(&serving.client, has_cap);
    // One reason states what an endpoint's flood did to the client.
    let is_same = if has(RESPONSE_FLOOD) {
        !found.is_empty() && !ValidityLimits::CLIENT_CODES.into_iter().any(has)
    } else {
        ValidityLimits::CLIENT_CODES.into_iter().all(|code| has(code) == is_among(code, &found))
    };
    ensure(is_same, attempt, "has other reasons about its client than the client's health gives by the limits of the plan")
}

/// Judges by the counted outcomes whether failed requests ended an attempt early: if the plan states a number of them, those that count it have fewer.
/// The share of the last ones that failed is in the records alone.
fn check_errors(plan: &PlanIndex<'_>, shard: Shard, attempt: &Attempt) -> Result<()> {
    let Some(serving) = &attempt.serving else { return Ok(()) };
    let limit = plan.serving_of(&attempt.case_id).and_then(|work| work.stop_on_errors);
    let ended_early = attempt.validity.reasons.iter().any(|reason| reason.code == TOO_MANY_ERRORS);
    let failed: u64 =
        [&serving.outcomes, &serving.warmup_outcomes].into_iter().flatten().filter(is_error).map(|(_, count)| count.0).sum();
    let number = limit.and_then(|limit| limit.count_of_shard(shard.count));
    let is_met = number.is_some_and(|number| failed >= number);
    let may_be_met = limit.is_some_and(|limit| limit.recent.is_some_and(|recent| failed >= recent.failures()));
    ensure(
        !ended_early || is_met || may_be_met,
        attempt,
        "ended early on failed requests, and fewer failed than end it by the plan",
    )?;
    ensure(!attempt.validity.valid || !is_met, attempt, "is valid, and as many requests failed as end it by the plan")
}

/// Returns true for an outcome of requests that the endpoint failed.
fn is_error((name, _): &(&String, &Count)) -> bool {
    name.parse::<Outcome>().is_ok_and(|outcome| outcome.is_failure() && !outcome.is_of_client())
}

fn is_among(code: &str, reasons: &[Reason]) -> bool {
    reasons.iter().any(|reason| reason.code == code)
}

/// Returns true if the times of a command are present exactly if the attempt ran one.
fn is_measured_as_planned(workload: &FrozenWorkload, attempt: &Attempt) -> bool {
    let has_command = workload.indicator.as_ref().is_some_and(|work| work.command.is_some());
    attempt.command_times().is_some() == (has_command && attempt.indicator.is_some())
}

fn is_script_of(workload: &FrozenWorkload, ran: Option<Digest>) -> bool {
    let planned = workload.indicator.as_ref().and_then(|indicator| indicator.script.as_ref());
    planned.map(|script| script.artifact.digest) == ran
}

fn check_places(collection: &Collection, parts: &BTreeMap<Digest, &ExecutionPart>) -> Result<()> {
    for trial in &collection.trials {
        for found in &trial.attempts {
            let is_same = parts.get(&found.part).is_none_or(|part| (part.block, part.shard) == (found.block, found.shard));
            if !is_same {
                return Err(Error::AttemptPlace { attempt: found.attempt, trial: trial.trial_id.clone() });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
