//! The stdout and stderr of a trial's attempts, for `assay logs RUN --trial TRIAL`.

use std::collections::BTreeSet;

use assay_manifest::{Artifact, Attempt, ExecutionPart, TrialId};
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Failure, first_names};

use crate::output;

/// The limit on one output that is printed; more is never kept of one.
const MAX_OUTPUT_BYTES: u64 = 64 << 20;

/// Prints the outputs of the attempts of a trial, from the evidence of a verified run. Without `attempt`, which counts from 1, the
/// outputs of all attempts.
pub(crate) fn print(run: &VerifiedRun, trial: &TrialId, attempt: Option<u32>) -> Result<(), Failure> {
    let parts: Vec<_> = run.chain.all::<ExecutionPart>().map(|(_, part)| &part.body).collect();
    let of_trial = parts.iter().flat_map(|part| &part.attempts).filter(|known| known.trial_id == *trial);
    let is_requested = |known: &&Attempt| attempt.is_none_or(|number| known.attempt.checked_add(1) == Some(number));
    let mut attempts: Vec<&Attempt> = of_trial.filter(is_requested).collect();
    attempts.sort_by_key(|known| known.attempt);
    if attempts.is_empty() {
        let of_attempt = attempt.map(|number| format!(" and its attempt {number}")).unwrap_or_default();
        let message = format!("the run `{}` has no attempt of the trial `{trial}`{of_attempt}", run.chain.run_id);
        return Err(Failure::new(ErrorCode::NoSuchTrial, message).hint(describe_trials(&parts)));
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

/// Number of trials that a hint names.
const NAMED_TRIALS: usize = 5;

/// Returns the names of the trials that were attempted.
fn describe_trials(parts: &[&ExecutionPart]) -> String {
    let trials: BTreeSet<String> =
        parts.iter().flat_map(|part| &part.attempts).map(|attempt| format!("`{}`", attempt.trial_id)).collect();
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
    let number = attempt.attempt.saturating_add(1);
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
