//! The links between manifests that must agree.

use assay_failure::{ErrorCode, Failure};
use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    Attempt, Block, Body, CanonicalError, CollectedTrial, Collection, Digest, Document, ExecutionPart, InputRef, Kind, Manifest,
    Name, Plan, RunId, Shard, TrialId, ordinal,
};

use crate::{Arity, StageName, chain_name};

/// A manifest whose bytes and signature were checked, and the digests that name it.
#[derive(Clone, Copy)]
pub struct Member<'a> {
    /// The manifest.
    pub document: &'a Document,
    /// The digests by which other manifests name it.
    pub reference: InputRef,
}

/// Two manifests that do not belong together, or one that is missing.
#[derive(Debug, thiserror::Error)]
pub enum BrokenLink {
    /// A manifest belongs to another run.
    #[error("the {kind} belongs to run `{found}`, not to `{expected}`")]
    OtherRun {
        /// The manifest.
        kind: Kind,
        /// The run of the others.
        expected: RunId,
        /// Its own run.
        found: RunId,
    },
    /// A manifest was made from another input than the given one.
    #[error("the {of} was made from another {}: manifest {}, bundle {}", .input.kind, .input.manifest, .input.bundle)]
    OtherInput {
        /// The manifest.
        of: Kind,
        /// The input that it names.
        input: InputRef,
    },
    /// A manifest that another one was made from is missing.
    #[error("the {of} was made from a {} that is missing: manifest {}", .input.kind, .input.manifest)]
    MissingInput {
        /// The manifest.
        of: Kind,
        /// The input that it names.
        input: InputRef,
    },
    /// A kind of manifest that the chain needs is missing.
    #[error("the chain has no {0}")]
    MissingKind(Kind),
    /// A manifest was made from fewer or more manifests of a kind than its stage takes.
    #[error("the {of} was made from {count} manifests of kind {kind}, where its stage takes {expected}")]
    InputCount {
        /// The manifest.
        of: Kind,
        /// The kind of its inputs.
        kind: Kind,
        /// The number of its inputs of this kind.
        count: usize,
        /// The number that its stage takes.
        expected: Arity,
    },
    /// A manifest lacks an input of a kind of which its stage takes all manifests.
    #[error("the {of} was not made from the {} {}, which the run has", .input.kind, .input.manifest)]
    OmittedInput {
        /// The manifest.
        of: Kind,
        /// The input that it does not name.
        input: InputRef,
    },
    /// The chain has more manifests of a kind than allowed.
    #[error("the chain has {count} manifests of kind {kind}, where one is expected")]
    TooMany {
        /// The kind.
        kind: Kind,
        /// Their number.
        count: usize,
    },
    /// A body names another plan.
    #[error("the {kind} follows plan {found}, not {expected}")]
    OtherPlan {
        /// The manifest.
        kind: Kind,
        /// The digest of the given plan.
        expected: Digest,
        /// The digest that it names.
        found: Digest,
    },
    /// A Summary names another Collection, or a Publication another Summary.
    #[error("the {kind} names the {of} {found}, but the chain holds {expected}")]
    OtherEvidence {
        /// The manifest.
        kind: Kind,
        /// The kind that it names.
        of: Kind,
        /// The digest in the chain.
        expected: Digest,
        /// The digest that it names.
        found: Digest,
    },
    /// The trials of a Collection are not those of the Plan.
    #[error("the collection does not account for the plan's trials: {0}")]
    Trials(String),
    /// An attempt is in an execution part or in the Collection, but not in both.
    #[error("the collection and the execution parts disagree: {0}")]
    Attempts(String),
    /// The counted attempt is not the one that the rule selects.
    #[error("the collection counts another attempt of trial `{trial}` than the first valid one")]
    WrongAttemptCounted {
        /// The trial.
        trial: TrialId,
    },
    /// A block has no Environment.
    #[error("block {0} has no environment of its own")]
    MissingEnvironment(u32),
    /// A block or an incarnation is missing: they are numbered from 0 without gaps.
    #[error("the chain has block {}.{}, and no block {}.{} before it", .found.index, .found.incarnation, .missing.index, .missing.incarnation)]
    Gap {
        /// The block that is present.
        found: Block,
        /// The block that is missing.
        missing: Block,
    },
    /// Two manifests have the same name, of which at most one is ever accepted.
    #[error("the chain has two manifests that are `{0}`")]
    Duplicate(String),
    /// A Source is inconsistent.
    #[error("the source contradicts itself: {0}")]
    Source(String),
    /// The Plan was made from another Source than the given one.
    #[error("the plan does not follow from the source: {0}")]
    PlanSource(String),
    /// The installed packages of a variant are not those that the Plan names, or an attempt ran without them.
    #[error("the packages of the variant `{variant}` are not those of the plan: {detail}")]
    Stack {
        /// The variant.
        variant: Name,
        /// The difference.
        detail: String,
    },
    /// The plan has no canonical form.
    #[error("the plan has no digest")]
    Canonical(#[from] CanonicalError),
}

impl BrokenLink {
    /// Returns the stable identifier of the error.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::OtherRun { .. } => ErrorCode::OtherRun,
            Self::OtherInput { .. } => ErrorCode::OtherInput,
            Self::MissingInput { .. } => ErrorCode::MissingInput,
            Self::MissingKind(_) => ErrorCode::MissingStage,
            Self::InputCount { .. } => ErrorCode::WrongInputCount,
            Self::OmittedInput { .. } => ErrorCode::InputLeftOut,
            Self::TooMany { .. } => ErrorCode::TooMany,
            Self::OtherPlan { .. } => ErrorCode::OtherPlan,
            Self::OtherEvidence { .. } => ErrorCode::OtherEvidence,
            Self::Trials(_) => ErrorCode::TrialsUnaccounted,
            Self::Attempts(_) => ErrorCode::AttemptsUnaccounted,
            Self::WrongAttemptCounted { .. } => ErrorCode::OtherAttemptCounted,
            Self::MissingEnvironment(_) => ErrorCode::BlockWithoutEnvironment,
            Self::Gap { .. } => ErrorCode::BlockMissing,
            Self::Duplicate(_) => ErrorCode::AcceptedTwice,
            Self::Source(_) => ErrorCode::SourceContradictsItself,
            Self::PlanSource(_) => ErrorCode::PlanSourceDiffers,
            Self::Stack { .. } => ErrorCode::StackDiffers,
            Self::Canonical(_) => ErrorCode::NotCanonical,
        }
    }
}

/// Manifests that do not belong together fail verification.
impl From<BrokenLink> for Failure {
    fn from(broken: BrokenLink) -> Self {
        Self::from_error(broken.code(), &broken)
    }
}

/// Checks that manifests belong together: one run, one plan, and no manifest made from an input other than the given ones.
pub fn check_links(run_id: &RunId, members: &[Member<'_>]) -> Result<(), BrokenLink> {
    for member in members {
        let header = member.document.header();
        if header.run_id != *run_id {
            return Err(BrokenLink::OtherRun { kind: header.kind, expected: run_id.clone(), found: header.run_id.clone() });
        }
    }
    check_inputs(members)?;
    crate::source::check_source(manifests_of_kind(members).next(), manifests_of_kind(members).next())?;
    check_plan(members)?;
    check_evidence(members)
}

/// Checks that every input whose kind is among the manifests is one of them.
fn check_inputs(members: &[Member<'_>]) -> Result<(), BrokenLink> {
    let known: BTreeSet<InputRef> = members.iter().map(|member| member.reference).collect();
    let kinds: BTreeSet<Kind> = known.iter().map(|reference| reference.kind).collect();
    for (of, input) in links(members) {
        if kinds.contains(&input.kind) && !known.contains(&input) {
            return Err(BrokenLink::OtherInput { of, input });
        }
    }
    Ok(())
}

fn links<'a>(members: &'a [Member<'_>]) -> impl Iterator<Item = (Kind, InputRef)> + 'a {
    members.iter().flat_map(|member| {
        let header = member.document.header();
        header.inputs.iter().map(move |input| (header.kind, *input))
    })
}

fn check_plan(members: &[Member<'_>]) -> Result<(), BrokenLink> {
    let Some(plan) = manifests_of_kind::<Plan>(members).next() else { return Ok(()) };
    let expected = plan.body.digest()?;
    for member in members {
        if let Some(found) = plan_digest_of(member.document).filter(|found| *found != expected) {
            return Err(BrokenLink::OtherPlan { kind: member.document.kind(), expected, found });
        }
    }
    Ok(())
}

fn plan_digest_of(document: &Document) -> Option<Digest> {
    Some(match document {
        Document::Source(_)
        | Document::Plan(_)
        | Document::RunEnd(_)
        | Document::Verdict(_)
        | Document::Tombstone(_)
        | Document::Calibration(_)
        | Document::ForeignEvidence(_)
        | Document::SearchResult(_)
        | Document::ForeignVerdict(_) => {
            return None;
        }
        Document::Environment(manifest) => manifest.body.plan_digest,
        Document::ExecutionPart(manifest) => manifest.body.plan_digest,
        Document::Recording(manifest) => manifest.body.plan_digest,
        Document::Collection(manifest) => manifest.body.plan_digest,
        Document::Summary(manifest) => manifest.body.plan_digest,
        Document::Publication(manifest) => manifest.body.plan_digest,
        Document::Checkpoint(manifest) => manifest.body.plan_digest,
    })
}

/// Checks that a Summary names the given Collection, and a Publication the given Summary.
fn check_evidence(members: &[Member<'_>]) -> Result<(), BrokenLink> {
    for member in members {
        let (of, found) = match member.document {
            Document::Summary(manifest) => (Kind::Collection, manifest.body.artifact_manifest_digest),
            Document::Publication(manifest) => (Kind::Summary, manifest.body.summary),
            _ => continue,
        };
        let here = members.iter().find(|other| other.reference.kind == of).map(|other| other.reference.manifest);
        if let Some(expected) = here.filter(|expected| *expected != found) {
            return Err(BrokenLink::OtherEvidence { kind: member.document.kind(), of, expected, found });
        }
    }
    Ok(())
}

/// Checks that a run's chain is complete: every kind and every named input is present, every block has its environment, and every
/// planned trial and every attempt is accounted for.
pub fn check_complete(run_id: &RunId, members: &[Member<'_>]) -> Result<(), BrokenLink> {
    check_single(members, Kind::Publication)?;
    check_publishable(run_id, members)
}

/// Checks that a run's chain is complete up to its Summary, as publish needs it.
pub fn check_publishable(run_id: &RunId, members: &[Member<'_>]) -> Result<(), BrokenLink> {
    check_links(run_id, members)?;
    [Kind::Source, Kind::Plan, Kind::Collection, Kind::Summary].into_iter().try_for_each(|kind| check_single(members, kind))?;
    for kind in [Kind::Environment, Kind::ExecutionPart] {
        if !members.iter().any(|member| member.document.kind() == kind) {
            return Err(BrokenLink::MissingKind(kind));
        }
    }
    check_named_inputs(members)?;
    check_distinct(members)?;
    members.iter().try_for_each(|member| check_contract(member.document, members))?;
    check_blocks(members)?;
    check_trials(members)?;
    crate::stacks::check_stacks(members)
}

/// Checks that every input that a manifest names is present.
fn check_named_inputs(members: &[Member<'_>]) -> Result<(), BrokenLink> {
    let known: BTreeSet<InputRef> = members.iter().map(|member| member.reference).collect();
    match links(members).find(|(_, input)| !known.contains(input)) {
        Some((of, input)) => Err(BrokenLink::MissingInput { of, input }),
        None => Ok(()),
    }
}

/// Checks that a manifest was made from as many manifests of each kind as its stage takes; if it takes several of a kind, from
/// all of them.
fn check_contract(document: &Document, members: &[Member<'_>]) -> Result<(), BrokenLink> {
    let of = document.kind();
    let takes = StageName::ALL.into_iter().find(|stage| stage.output_kind() == of).map_or(&[][..], StageName::input_kinds);
    let count = |kind: Kind| document.header().inputs.iter().filter(|input| input.kind == kind).count();
    if let Some((kind, expected)) = takes.iter().copied().find(|(kind, arity)| !arity.admits(count(*kind))) {
        return Err(BrokenLink::InputCount { of, kind, count: count(kind), expected });
    }
    let takes_all = |kind: Kind| takes.iter().any(|(taken, arity)| *taken == kind && *arity != Arity::One);
    let is_left_out = |input: &InputRef| takes_all(input.kind) && !document.header().inputs.contains(input);
    match members.iter().map(|member| member.reference).find(is_left_out) {
        Some(input) => Err(BrokenLink::OmittedInput { of, input }),
        None => Ok(()),
    }
}

fn check_single(members: &[Member<'_>], kind: Kind) -> Result<(), BrokenLink> {
    match members.iter().filter(|member| member.document.kind() == kind).count() {
        0 => Err(BrokenLink::MissingKind(kind)),
        1 => Ok(()),
        count => Err(BrokenLink::TooMany { kind, count }),
    }
}

/// Checks that no two members have the same name, because at most one result of a stage is ever accepted. A published folder
/// relies on that too.
fn check_distinct(members: &[Member<'_>]) -> Result<(), BrokenLink> {
    let mut named: BTreeMap<String, InputRef> = BTreeMap::new();
    for member in members.iter().filter(|member| member.document.kind() != Kind::RunEnd) {
        let name = chain_name(member.document);
        match named.insert(name.clone(), member.reference) {
            Some(other) if other != member.reference => return Err(BrokenLink::Duplicate(name)),
            _ => {}
        }
    }
    Ok(())
}

fn check_blocks(members: &[Member<'_>]) -> Result<(), BrokenLink> {
    let environments: BTreeSet<_> =
        manifests_of_kind::<assay_manifest::Environment>(members).map(|manifest| manifest.body.block).collect();
    if let Some(part) = manifests_of_kind::<ExecutionPart>(members).find(|part| !environments.contains(&part.body.block)) {
        return Err(BrokenLink::MissingEnvironment(part.body.block.index));
    }
    for &found in &environments {
        let missing = match found {
            Block { index: 0, incarnation: 0 } => continue,
            Block { index, incarnation: 0 } => Block { index: index - 1, incarnation: 0 },
            Block { index, incarnation } => Block { index, incarnation: incarnation - 1 },
        };
        if !environments.contains(&missing) {
            return Err(BrokenLink::Gap { found, missing });
        }
    }
    Ok(())
}

/// Checks that the trials of plan and collection and the attempts of the execution parts match one for one, and that the counted
/// attempts follow the rule.
fn check_trials(members: &[Member<'_>]) -> Result<(), BrokenLink> {
    let (Some(plan), Some(collection)) =
        (manifests_of_kind::<Plan>(members).next(), manifests_of_kind::<Collection>(members).next())
    else {
        return Ok(());
    };
    let planned = plan.body.trials.iter().map(|trial| &trial.trial_id);
    let collected = collection.body.trials.iter().map(|trial| &trial.trial_id);
    if !planned.eq(collected) {
        let (planned, collected) = (plan.body.trials.len(), collection.body.trials.len());
        return Err(BrokenLink::Trials(format!("{planned} planned, {collected} collected, or in another order")));
    }
    let executed = executed_attempts(members)?;
    check_accounted(&executed, &collection.body.trials)?;
    collection.body.trials.iter().try_for_each(|trial| check_counted(&executed, trial))
}

/// The key of an attempt: the digest of its part, its trial and its number.
type AttemptKey<'a> = (Digest, &'a TrialId, u32);

fn executed_attempts<'a>(members: &[Member<'a>]) -> Result<BTreeMap<AttemptKey<'a>, &'a Attempt>, BrokenLink> {
    let parts =
        members.iter().filter_map(|member| Some((member.reference.manifest, ExecutionPart::from_document(member.document)?)));
    let mut executed = BTreeMap::new();
    for (digest, part) in parts.collect::<BTreeMap<_, _>>() {
        for attempt in &part.body.attempts {
            let key = (digest, &attempt.trial_id, attempt.attempt);
            if executed.insert(key, attempt).is_some() {
                return Err(BrokenLink::Attempts(format!("{} twice", describe_attempt(key))));
            }
        }
    }
    Ok(executed)
}

fn describe_attempt((part, trial, attempt): AttemptKey<'_>) -> String {
    format!("the part {part} has attempt {} of trial `{trial}`", ordinal(attempt))
}

fn check_accounted(executed: &BTreeMap<AttemptKey<'_>, &Attempt>, trials: &[CollectedTrial]) -> Result<(), BrokenLink> {
    let mut accounted = BTreeSet::new();
    for trial in trials {
        for attempt in &trial.attempts {
            let key = (attempt.part, &trial.trial_id, attempt.attempt);
            if !executed.contains_key(&key) {
                return Err(BrokenLink::Attempts(format!("only the collection says that {}", describe_attempt(key))));
            }
            if !accounted.insert(key) {
                return Err(BrokenLink::Attempts(format!("the collection says twice that {}", describe_attempt(key))));
            }
        }
    }
    match executed.keys().find(|key| !accounted.contains(*key)) {
        Some(key) => Err(BrokenLink::Attempts(format!("{}, and the collection does not say so", describe_attempt(*key)))),
        None => Ok(()),
    }
}

fn check_counted(executed: &BTreeMap<AttemptKey<'_>, &Attempt>, trial: &CollectedTrial) -> Result<(), BrokenLink> {
    let is_valid = |part, attempt| executed.get(&(part, &trial.trial_id, attempt)).is_some_and(|found| found.validity.valid);
    let tries = trial.attempts.iter().map(|found| ShardOutcome {
        block: found.block,
        attempt: found.attempt,
        shard: found.shard,
        valid: is_valid(found.part, found.attempt),
    });
    let counts = counted_attempt(tries);
    let follows = trial.attempts.iter().all(|found| found.counted == (counts == Some((found.block, found.attempt))));
    if follows && trial.counted == counts.is_some() {
        return Ok(());
    }
    Err(BrokenLink::WrongAttemptCounted { trial: trial.trial_id.clone() })
}

/// One shard's part of an attempt at a trial, as [`counted_attempt`] takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardOutcome {
    /// The block and incarnation that it ran in.
    pub block: Block,
    /// The number of the attempt, from 0.
    pub attempt: u32,
    /// The shard.
    pub shard: Shard,
    /// True if there is no reason against it.
    pub valid: bool,
}

/// Returns the attempt that counts for a trial: the first that is valid in every shard, so that the best one cannot be chosen. A
/// lost shard invalidates its attempt, because the rest is not the planned load.
///
/// `tries` are those of all shards, in any order.
pub fn counted_attempt(tries: impl IntoIterator<Item = ShardOutcome>) -> Option<(Block, u32)> {
    let mut attempts: BTreeMap<(Block, u32), Vec<ShardOutcome>> = BTreeMap::new();
    for tried in tries {
        attempts.entry((tried.block, tried.attempt)).or_default().push(tried);
    }
    let counts = |shards: &[ShardOutcome]| {
        let present: BTreeSet<u32> = shards.iter().map(|tried| tried.shard.index).collect();
        shards.iter().all(|tried| tried.valid && (0..tried.shard.count).all(|index| present.contains(&index)))
    };
    attempts.into_iter().find(|(_, shards)| counts(shards)).map(|(attempt, _)| attempt)
}

pub(crate) fn manifests_of_kind<'a, B: Body + 'a>(members: &'a [Member<'_>]) -> impl Iterator<Item = &'a Manifest<B>> {
    members.iter().filter_map(|member| B::from_document(member.document))
}

#[cfg(test)]
mod tests;
