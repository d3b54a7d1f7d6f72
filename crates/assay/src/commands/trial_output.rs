//! The stdout and stderr of a trial's attempts, for `assay logs RUN --trial TRIAL`.

use std::collections::BTreeSet;

use assay_manifest::{Artifact, Attempt, ExecutionPart, ordinal};
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Failure, first_names};

use crate::output;

/// The limit on one output that is printed; more is never kept of one.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// Prints the outputs of the attempts of a trial, from the evidence of a verified run. Without `attempt`, which counts from 1, the
/// outputs of all attempts.
pub(crate) fn print(run: &VerifiedRun, trial: &str, attempt: Option<u32>) -> Result<(), Failure> {
    let parts: Vec<_> = run.chain.all::<ExecutionPart>().map(|(_, part)| &part.body).collect();
    let trial = &whole_name(&parts, trial);
    let of_trial = parts.iter().flat_map(|part| &part.attempts).filter(|known| known.trial_id.to_string() == *trial);
    let is_requested = |known: &&Attempt| attempt.is_none_or(|number| ordinal(known.attempt) == number);
    let mut attempts: Vec<&Attempt> = of_trial.filter(is_requested).collect();
    attempts.sort_by_key(|known| known.attempt);
    if attempts.is_empty() {
        let number = attempt.map(|number| format!(" {number}")).unwrap_or_default();
        let message = format!("the run `{}` has no attempt{number} of the trial `{trial}`", run.chain.run_id);
        return Err(Failure::new(ErrorCode::NoSuchTrial, message).hint(describe_known(&parts, trial)));
    }
    if !attempts.iter().any(|attempt| attempt.evidence.iter().any(is_output)) {
        output::diagnostic(format!("the trial `{trial}` ran no script, so nothing was printed; `assay show` has its result"));
    }
    for attempt in attempts {
        for artifact in attempt.evidence.iter().filter(|artifact| is_output(artifact)) {
            print_output(run, attempt, artifact)?;
        }
    }
    Ok(())
}

/// Returns the name of the only trial whose name ends with this one, such as `t0` in a run of one point; else the name as it is.
fn whole_name(parts: &[&ExecutionPart], trial: &str) -> String {
    let names: BTreeSet<String> =
        parts.iter().flat_map(|part| &part.attempts).map(|attempt| attempt.trial_id.to_string()).collect();
    let mut ending = names.iter().filter(|name| name.strip_suffix(trial).is_some_and(|before| before.ends_with('.')));
    match (names.contains(trial), ending.next(), ending.next()) {
        (false, Some(only), None) => only.clone(),
        _ => trial.to_owned(),
    }
}

/// Number of trials that a hint names.
const NAMED_TRIALS: usize = 5;

/// Names the last attempt of the trial or, if it has none, the trials that were attempted.
fn describe_known(parts: &[&ExecutionPart], trial: &str) -> String {
    let attempts = || parts.iter().flat_map(|part| &part.attempts);
    let last = attempts().filter(|attempt| attempt.trial_id.to_string() == *trial).map(|attempt| attempt.attempt).max();
    match last.map(ordinal) {
        Some(1) => return "the trial has one attempt, 1".to_owned(),
        Some(last) => return format!("the trial has the attempts 1 to {last}"),
        None => {}
    }
    let trials: BTreeSet<String> = attempts().map(|attempt| format!("`{}`", attempt.trial_id)).collect();
    if trials.is_empty() {
        return "no trial of it was attempted".to_owned();
    }
    format!("its trials are {}", first_names(&trials.into_iter().collect::<Vec<_>>(), NAMED_TRIALS))
}

fn is_output(artifact: &Artifact) -> bool {
    artifact.name.ends_with("/stdout") || artifact.name.ends_with("/stderr")
}

fn print_output(run: &VerifiedRun, attempt: &Attempt, artifact: &Artifact) -> Result<(), Failure> {
    let name = artifact.name.rsplit('/').next().unwrap_or_default();
    let number = ordinal(attempt.attempt);
    output::line(format!("==> {} attempt {number}, {name}, {} bytes, {}", attempt.trial_id, artifact.size, artifact.digest));
    let Some(bytes) = run.blobs.get(&artifact.digest, MAX_OUTPUT_BYTES)? else {
        let message =
            format!("the {name} of the trial `{}`, attempt {number}, is not here: {}", attempt.trial_id, artifact.digest);
        return Err(Failure::new(ErrorCode::ArtifactAbsent, message)
            .hint("a published folder holds no raw bytes: name the run, and its store with `--store`"));
    };
    let text = String::from_utf8_lossy(&bytes);
    text.lines().for_each(output::line);
    Ok(())
}
