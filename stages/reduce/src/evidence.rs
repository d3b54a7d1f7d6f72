//! The raw evidence, read back: attempts with the values that their scripts printed.

use std::collections::{BTreeMap, BTreeSet};

use assay_claim::CountedAttempt;
use assay_foreign::harness;
use assay_indicator::{Output, Value};
use assay_manifest::{
    Artifact, Attempt, Body, CPU_TIME, CaseId, CollectedAttempt, Collection, Digest, Document, ExecutionPart, Header,
    IndicatorOutcome, Kind, MAX_MANIFEST_BYTES, MAX_RSS, Plan, PlannedTrial, PointId, Recording, ordinal,
};
use assay_stage::{Context, ErrorCode, Failure};

/// One attempt as it was collected.
pub(crate) struct ShardAttempt {
    pub(crate) collected: CollectedAttempt,
    pub(crate) attempt: Attempt,
}

/// The attempts of each planned trial, in the plan's order. The output of their scripts is read one point at a time: memory holds
/// the outputs of one point, however many a run has.
pub(crate) struct Attempts(pub(crate) Vec<(PlannedTrial, Vec<ShardAttempt>)>);

impl Attempts {
    /// Finds every attempt that the Collection lists, by the digest of the execution part that holds it.
    pub(crate) fn load(ctx: &Context, plan: &Plan, collection: &Collection) -> Result<Self, Failure> {
        let parts: BTreeSet<Digest> =
            collection.trials.iter().flat_map(|trial| trial.attempts.iter().map(|attempt| attempt.part)).collect();
        let parts = parts.into_iter().map(|digest| Ok((digest, load(ctx, digest)?))).collect::<Result<_, Failure>>()?;
        Self::find(plan, collection, &parts)
    }

    fn find(plan: &Plan, collection: &Collection, parts: &Parts) -> Result<Self, Failure> {
        let planned = plan.trials.iter().map(|trial| &trial.trial_id);
        if !planned.eq(collection.trials.iter().map(|trial| &trial.trial_id)) {
            return Err(Failure::new(ErrorCode::TrialsUnaccounted, "the collection's trials are not the plan's, in its order"));
        }
        let trials = plan.trials.iter().zip(&collection.trials).map(|(planned, collected)| {
            let attempts = collected.attempts.iter().map(|attempt| find_attempt(parts, planned, attempt));
            Ok((planned.clone(), attempts.collect::<Result<_, Failure>>()?))
        });
        trials.collect::<Result<_, _>>().map(Self)
    }

    /// Returns the attempts that count, each with the shard that made it.
    pub(crate) fn counted(&self) -> impl Iterator<Item = CountedAttempt<'_>> {
        let counted = self.0.iter().flat_map(|(_, attempts)| attempts).filter(|shard| shard.collected.counted);
        counted.map(|ShardAttempt { collected, attempt }| CountedAttempt {
            block: collected.block,
            shard: collected.shard,
            attempt,
        })
    }

    /// Returns the attempts of the trials of one point, trial by trial, with the output of their scripts.
    pub(crate) fn for_point(
        &self,
        case_id: &CaseId,
        point_id: &PointId,
        read: impl Fn(&Attempt) -> Result<Option<Output>, Failure>,
    ) -> Result<Vec<Trial<'_>>, Failure> {
        let of_point = self.0.iter().filter(|(trial, _)| trial.case_id == *case_id && trial.point_id == *point_id);
        let mut trials = Vec::new();
        for (_, attempts) in of_point {
            let evidence = attempts.iter().map(|shard| Ok(Evidence { shard, output: read(&shard.attempt)? }));
            trials.push(evidence.collect::<Result<_, Failure>>()?);
        }
        Ok(trials)
    }
}

/// The attempts of one trial, in order.
pub(crate) type Trial<'a> = Vec<Evidence<'a>>;

/// One attempt with its output, if that is a result.
pub(crate) struct Evidence<'a> {
    pub(crate) shard: &'a ShardAttempt,
    pub(crate) output: Option<Output>,
}

impl Evidence<'_> {
    /// Returns true if this attempt counts for its trial.
    pub(crate) fn counts(&self) -> bool {
        self.shard.collected.counted
    }
}

type Parts = BTreeMap<Digest, ExecutionPart>;

/// Reads the recordings that the Collection was made from.
pub(crate) fn read_recordings(ctx: &Context, collection: &Header) -> Result<Vec<Recording>, Failure> {
    let recordings = collection.inputs.iter().filter(|input| input.kind == Kind::Recording);
    recordings.map(|input| load(ctx, input.manifest)).collect()
}

/// The largest list of evidence: a million artifacts.
const MAX_LIST_BYTES: u64 = 256 << 20;

/// Reads the list of every raw artifact of the run.
pub(crate) fn read_evidence_list(ctx: &Context, collection: &Collection) -> Result<Vec<Artifact>, Failure> {
    let list = ctx.get(&collection.evidence, MAX_LIST_BYTES)?;
    let unreadable = |error| Failure::new(ErrorCode::Evidence, "the list of evidence cannot be read").because(&error);
    serde_json::from_slice(&list).map_err(unreadable)
}

/// Reads the body of a manifest that the Collection names.
fn load<B: Body + Clone>(ctx: &Context, digest: Digest) -> Result<B, Failure> {
    let bytes = ctx.store().get(&digest, MAX_MANIFEST_BYTES)?;
    let document = Document::parse(&bytes).map_err(|error| Failure::from_error(ErrorCode::Manifest, &error))?;
    let body = B::from_document(&document).map(|manifest| manifest.body.clone());
    body.ok_or_else(|| Failure::new(ErrorCode::OtherKind, format!("{digest} is a {} and no {}", document.kind(), B::KIND)))
}

fn find_attempt(parts: &Parts, trial: &PlannedTrial, collected: &CollectedAttempt) -> Result<ShardAttempt, Failure> {
    let part = parts.get(&collected.part);
    let attempt = part.and_then(|part| part.find_attempt(&trial.trial_id, collected.attempt)).cloned();
    let missing = || {
        let which = format!("attempt {} of trial `{}`", ordinal(collected.attempt), trial.trial_id);
        Failure::new(ErrorCode::AttemptsUnaccounted, format!("the part {} has no {which}", collected.part))
    };
    Ok(ShardAttempt { collected: collected.clone(), attempt: attempt.ok_or_else(missing)? })
}

/// Reads the result that a script printed or that was measured of a command, if it ran to its end and gave a result.
pub(crate) fn read_output(ctx: &Context, plan: &Plan, attempt: &Attempt) -> Result<Option<Output>, Failure> {
    let Some(printed) = attempt.result() else { return Ok(None) };
    if attempt.indicator.as_ref().is_none_or(|outcome| outcome.malformed.is_some()) {
        return Ok(None);
    }
    let bytes = ctx.get(printed, assay_indicator::MAX_BYTES as u64)?;
    let output = harness::parse_attempt(plan, attempt, &bytes).map_err(|error| {
        Failure::new(ErrorCode::Malformed, format!("`{}` is not the result that execute found in it", printed.name))
            .because(&error)
    })?;
    if let Some(outcome) = attempt.indicator.as_ref().filter(|_| attempt.command_times().is_some()) {
        check_measured(outcome, &output).map_err(|what| {
            let message = format!("`{}` says another {what} than the attempt that it is of", printed.name);
            Failure::new(ErrorCode::MeasuredDiffers, message)
        })?;
    }
    Ok(Some(output))
}

/// Checks that the measurements of all invocations add up to the attempt's own resource use. If the two differ, it is not known
/// which one is wrong. A process that failed is in the sum of the attempt alone.
fn check_measured(outcome: &IndicatorOutcome, output: &Output) -> Result<(), &'static str> {
    let of = |metric: &str| samples(output, metric).unwrap_or_default();
    let used_ms = (outcome.usage.utime_us.0.saturating_add(outcome.usage.stime_us.0)) as f64 / 1e3;
    let most_kib = of(MAX_RSS).iter().copied().reduce(f64::max);
    let ended_well = outcome.exit_code == Some(0);
    let cpu_ms: f64 = of(CPU_TIME).iter().sum();
    // Each is a whole number of microseconds: less than one is lost by adding them up as floating-point numbers.
    let is_same = |stated: f64, actual: f64, least: f64| stated <= actual + least && (!ended_well || stated >= actual - least);
    if !is_same(cpu_ms, used_ms, 1e-3) {
        return Err(CPU_TIME);
    }
    let is_known = |kib| is_same(kib, outcome.usage.maxrss_kib.0 as f64, 0.5);
    if most_kib.is_none_or(is_known) { Ok(()) } else { Err(MAX_RSS) }
}

/// Returns the samples of a metric in one output: a number is one sample, a list of numbers is the trial's samples.
pub(crate) fn samples<'a>(output: &'a Output, metric: &str) -> Option<&'a [f64]> {
    match output.result.iter().find(|(path, _)| path == metric).map(|(_, value)| value) {
        Some(Value::Number(number)) => Some(std::slice::from_ref(number)),
        Some(Value::Samples(samples)) if !samples.is_empty() => Some(samples),
        _ => None,
    }
}

/// Returns the paths of all numeric values in an output.
pub(crate) fn numeric_paths(output: &Output) -> impl Iterator<Item = &str> {
    let is_numeric = |value: &Value| matches!(value, Value::Number(_) | Value::Samples(_));
    output.result.iter().filter(move |(_, value)| is_numeric(value)).map(|(path, _)| path.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use assay_manifest::Shard;

    #[test]
    fn what_was_measured_comes_to_what_the_attempt_used() {
        let outcome = |exit_code: i32| -> IndicatorOutcome {
            serde_json::from_value(serde_json::json!({
                "exit_code": exit_code, "leftovers": 0, "parameters": {},
                "usage": {
                    "utime_us": "3000", "stime_us": "500", "maxrss_kib": "2048", "ixrss": "0", "idrss": "0", "isrss": "0", "minflt": "0",
                    "majflt": "0", "nswap": "0", "inblock": "0", "oublock": "0", "msgsnd": "0", "msgrcv": "0", "nsignals": "0",
                    "nvcsw": "0", "nivcsw": "0",
                },
            }))
            .expect("an outcome")
        };
        let check = |exit_code: i32, cpu: &str, rss: &str| {
            let document = format!(
                r#"{{"name": "w", "@parameters": {{}}, "@result": {{"cpu_time_ms": {cpu}, "wall_time_ms": [9], "max_rss_kib": {rss}}}}}"#
            );
            check_measured(&outcome(exit_code), &assay_indicator::parse(document.as_bytes()).expect("a result"))
        };
        assert_eq!(check(0, "[1.5, 2.0]", "[2048, 1000]"), Ok(()));
        assert_eq!(check(0, "[1.5, 1.9]", "[2048, 1000]"), Err("cpu_time_ms"), "less than was used");
        assert_eq!(check(0, "[1.5, 2.1]", "[2048, 1000]"), Err("cpu_time_ms"), "more than was used");
        assert_eq!(check(0, "[1.5, 2.0]", "[2047, 1000]"), Err("max_rss_kib"));
        assert_eq!(check(0, "[1.5, 2.0]", "[]"), Ok(()), "of a small program it is not known");
        assert_eq!(check(3, "[1.5]", "[1000]"), Ok(()), "the invocation that failed has no time");
        assert_eq!(check(3, "[1.5, 2.1]", "[1000]"), Err("cpu_time_ms"), "no more than all have used");
    }

    #[test]
    fn every_shard_s_part_of_an_attempt_that_counts_is_looked_at() {
        let planned = fixture::plan(1).trials.remove(0);
        let of_shard = |index, number, counted| ShardAttempt {
            collected: CollectedAttempt { shard: Shard { index, count: 2 }, ..fixture::collected(number, counted) },
            attempt: fixture::attempt(&planned, number, counted),
        };
        let shards = vec![of_shard(0, 0, false), of_shard(1, 0, false), of_shard(0, 1, true), of_shard(1, 1, true)];
        let attempts = Attempts(vec![(planned, shards)]);
        let counted: Vec<_> = attempts.counted().map(|counted| (counted.shard.index, counted.attempt.attempt)).collect();
        assert_eq!(counted, [(0, 1), (1, 1)]);
    }
}
