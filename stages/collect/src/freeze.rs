//! The collect stage: checks that every planned trial is accounted for, and freezes the evidence.

use std::collections::BTreeMap;

use assay_manifest::{
    Artifact, Attempt, Block, Body as _, CollectedAttempt, CollectedTrial, Collection, Count, Digest, Drift, Environment,
    ExecutionPart, Gap, HostRole, InputRef, Instant, Manifest, Plan, PlannedTrial, Recording, TrialId, Window, canonical_json,
};
use assay_stage::{Context, Failure, Inputs, Stage, StageName};
use serde::{Deserialize, Serialize};

/// The largest recording that is read back: a day of readings of a large machine.
const MAX_SERIES_BYTES: u64 = 1 << 30;

/// Collect has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {}

/// The collect stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Collect;

impl Stage for Collect {
    type Parameters = Parameters;
    type Output = Collection;
    const NAME: StageName = StageName::Collect;

    fn run(&self, inputs: &Inputs, _: &Parameters, ctx: &Context) -> Result<Collection, Failure> {
        let plan = &inputs.one::<Plan>()?.body;
        let parts: Vec<_> = inputs.all::<ExecutionPart>().collect();
        let recordings: Vec<_> = inputs.all::<Recording>().map(|(_, manifest)| &manifest.body).collect();
        let environments: Vec<_> = inputs.all::<Environment>().map(|(_, manifest)| &manifest.body).collect();
        check_blocks(plan, &parts)?;
        let tapes = recordings.iter().map(|recording| Tape::load(ctx, recording)).collect::<Result<Vec<_>, _>>()?;

        let mut found = attempts_by_trial(&parts);
        let trials = plan.trials.iter().map(|trial| collected(trial, &mut found, &tapes)).collect();
        if let Some(extra) = found.keys().next() {
            return Err(Failure::verification(
                "unplanned_trial",
                format!("an execution part ran trial `{extra}`, which is not planned"),
            ));
        }
        let evidence = evidence(&parts, &recordings);
        check_present(ctx, &evidence)?;
        freeze(ctx, plan, trials, drift(&environments), &evidence)
    }
}

type Parts<'a> = [(InputRef, &'a Manifest<ExecutionPart>)];

/// Every block of the plan has been executed.
fn check_blocks(plan: &Plan, parts: &Parts<'_>) -> Result<(), Failure> {
    let missing = (0..plan.blocks()).find(|index| !parts.iter().any(|(_, part)| part.body.block.index == *index));
    match missing {
        Some(index) => Err(Failure::verification("missing_block", format!("no execution part is of block {index}"))),
        None => Ok(()),
    }
}

type Found<'a> = BTreeMap<&'a TrialId, Vec<(Digest, Block, &'a ExecutionPart, &'a Attempt)>>;

fn attempts_by_trial<'a>(parts: &Parts<'a>) -> Found<'a> {
    let mut found = Found::new();
    for (reference, part) in parts {
        for attempt in &part.body.attempts {
            found.entry(&attempt.trial_id).or_default().push((reference.manifest, part.body.block, &part.body, attempt));
        }
    }
    found
}

/// A planned trial with everything that was found of it. The first valid attempt counts, and no other.
fn collected(trial: &PlannedTrial, found: &mut Found<'_>, tapes: &[Tape<'_>]) -> CollectedTrial {
    let mut attempts = found.remove(&trial.trial_id).unwrap_or_default();
    attempts.sort_by_key(|(_, block, _, attempt)| (*block, attempt.attempt));
    let counted = attempts.iter().position(|(_, _, _, attempt)| attempt.validity.valid);
    let attempts = attempts.iter().enumerate().map(|(place, (part, block, body, attempt))| {
        let (samples, gaps) = coverage(*block, &attempt.window, tapes);
        CollectedAttempt {
            attempt: attempt.attempt,
            block: *block,
            shard: body.shard,
            part: *part,
            counted: Some(place) == counted,
            samples: Count(samples),
            gaps,
        }
    });
    CollectedTrial { trial_id: trial.trial_id.clone(), counted: counted.is_some(), attempts: attempts.collect() }
}

/// A recording with the instants of its readings.
struct Tape<'a> {
    recording: &'a Recording,
    readings: Vec<Instant>,
}

#[derive(Deserialize)]
struct Line {
    at: Instant,
}

impl<'a> Tape<'a> {
    fn load(ctx: &Context, recording: &'a Recording) -> Result<Self, Failure> {
        let mut readings = Vec::new();
        for series in &recording.series {
            let bytes = ctx.get(&series.artifact, MAX_SERIES_BYTES)?;
            for line in bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                let line: Line = serde_json::from_slice(line).map_err(|error| {
                    Failure::verification("recording", format!("a line of `{}` is damaged", series.artifact.name)).because(&error)
                })?;
                readings.push(line.at);
            }
        }
        Ok(Self { recording, readings })
    }
}

/// How many readings fall into a window, and which stretches of it no recording covers.
fn coverage(block: Block, window: &Window, tapes: &[Tape<'_>]) -> (u64, Vec<Gap>) {
    let tapes: Vec<_> = tapes.iter().filter(|tape| tape.recording.block == block).collect();
    let inside = |at: &&Instant| (window.start..=window.end).contains(at);
    let samples = tapes.iter().map(|tape| tape.readings.iter().filter(inside).count() as u64).sum();
    let mut spans: Vec<_> = tapes.iter().map(|tape| (tape.recording.window.start, tape.recording.window.end)).collect();
    spans.sort_unstable();
    let mut gaps = uncovered(window, &spans);
    let within = |gap: &&Gap| gap.window.start < window.end && gap.window.end > window.start;
    gaps.extend(tapes.iter().flat_map(|tape| tape.recording.gaps.iter().filter(within).cloned()));
    (samples, gaps)
}

/// The stretches of `window` outside of all `spans`, which are sorted.
fn uncovered(window: &Window, spans: &[(Instant, Instant)]) -> Vec<Gap> {
    let mut gaps = Vec::new();
    let mut covered_to = window.start;
    for (start, end) in spans {
        if *start > covered_to && covered_to < window.end {
            gaps.push(not_recorded(covered_to, (*start).min(window.end)));
        }
        covered_to = covered_to.max(*end);
    }
    if covered_to < window.end {
        gaps.push(not_recorded(covered_to, window.end));
    }
    gaps
}

fn not_recorded(start: Instant, end: Instant) -> Gap {
    let window = Window { start, end, duration_ns: Count(end.ns_since(start)) };
    Gap { source: "host".to_owned(), window, reason: "no recorder was running".to_owned() }
}

/// What differs between blocks although it should not: never pid or port, always boot, image, version and models.
fn drift(environments: &[&Environment]) -> Vec<Drift> {
    let mut environments = environments.to_vec();
    environments.sort_by_key(|environment| environment.block);
    environments.windows(2).flat_map(|pair| drift_between(pair[0], pair[1])).collect()
}

fn drift_between(before: &Environment, after: &Environment) -> Vec<Drift> {
    let differs = |what: &str, detail: String| Drift { what: what.to_owned(), before: before.block, after: after.block, detail };
    let mut drift = Vec::new();
    let [then, now] = [before, after].map(boot_ids);
    if then != now {
        drift.push(differs("boot_id", format!("{then:?}, then {now:?}")));
    }
    for target in &after.targets {
        let earlier = before.targets.iter().find(|earlier| earlier.id == target.id);
        if let Some(earlier) = earlier.filter(|earlier| earlier.identity() != target.identity()) {
            drift.push(differs("target", format!("{:?}, then {:?}", earlier.identity(), target.identity())));
        }
    }
    drift
}

fn boot_ids(environment: &Environment) -> Vec<&str> {
    environment.hosts_with(HostRole::Target).filter_map(|host| host.facts.boot_id.value.as_deref()).collect()
}

/// Every raw artifact of the run, sorted by name; equal ones once.
fn evidence(parts: &Parts<'_>, recordings: &[&Recording]) -> Vec<Artifact> {
    let parts = parts.iter().flat_map(|(_, part)| part.body.artifacts());
    let mut all: Vec<_> = parts.chain(recordings.iter().flat_map(|recording| recording.artifacts())).cloned().collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// Nothing is frozen that is not there.
fn check_present(ctx: &Context, evidence: &[Artifact]) -> Result<(), Failure> {
    for artifact in evidence {
        if !ctx.store().contains(&artifact.digest)? {
            return Err(Failure::verification(
                "evidence_missing",
                format!("the raw artifact `{}` ({}) is not in the store", artifact.name, artifact.digest),
            ));
        }
    }
    Ok(())
}

fn freeze(
    ctx: &Context,
    plan: &Plan,
    trials: Vec<CollectedTrial>,
    drift: Vec<Drift>,
    evidence: &[Artifact],
) -> Result<Collection, Failure> {
    let unwritten = |error| Failure::unexpected("evidence", "the list of evidence has no canonical form").because(&error);
    let list = canonical_json(&evidence).map_err(unwritten)?;
    Ok(Collection {
        plan_digest: plan.digest().map_err(|error| Failure::unexpected("plan", "the plan has no digest").because(&error))?,
        trials,
        drift,
        evidence: ctx.put("evidence.json", "application/json", &list)?,
        evidence_count: Count(evidence.len() as u64),
        evidence_bytes: Count(evidence.iter().map(|artifact| artifact.size.0).sum()),
    })
}
