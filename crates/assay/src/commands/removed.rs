//! The failures of a run whose evidence was removed: a signed tombstone explains what is missing, and the run cannot be resumed.

use assay_manifest::Artifact;
use assay_runs::VerifiedRun;
use assay_stage::{ErrorCode, Failure, RESUME_HINT};
use assay_verify::{Removals, VerifiedTombstone};

/// Returns the failure of an artifact that is absent: it was removed, or it is lost. `what` names it, such as ``the curated file `a```.
pub(crate) fn absent_artifact(removals: &Removals, what: &str, artifact: &Artifact) -> Failure {
    match removals.tombstone(artifact) {
        Some(tombstone) => evidence_removed(what, tombstone),
        None => Failure::new(ErrorCode::ArtifactAbsent, format!("{what} ({}) is missing", artifact.digest)),
    }
}

/// Returns the failure of a part of a run that a tombstone explains.
fn evidence_removed(what: &str, tombstone: &VerifiedTombstone) -> Failure {
    Failure::new(ErrorCode::EvidenceRemoved, format!("{what} was {}", tombstone.describe()))
        .hint("read it in a copy of the run that still has it, if there is one")
}

/// Returns how to finish a run. One of which evidence was removed cannot be resumed.
pub(crate) fn resume_hint(opened: &VerifiedRun) -> &'static str {
    if opened.removals.tombstones.is_empty() { RESUME_HINT } else { "evidence of the run was removed, so it cannot be resumed" }
}

#[cfg(test)]
mod tests {
    use assay_manifest::{Count, Digest, RemovalScope, Tombstone};
    use assay_stage::Exit;

    use super::*;

    fn artifact(name: &str) -> Artifact {
        Artifact {
            name: name.to_owned(),
            digest: Digest::compute(name.as_bytes()),
            size: Count(7),
            media_type: "application/octet-stream".to_owned(),
        }
    }

    #[test]
    fn a_file_that_was_removed_is_not_called_missing() {
        let mut removals = Removals::default();
        removals.tombstones.push(VerifiedTombstone {
            body: Tombstone {
                sequence: 0,
                scope: RemovalScope::Results,
                reason: "older than a year".to_owned(),
                by: "anna".to_owned(),
                removed_at: "2026-11-21T09:00:00.000000000Z".parse().expect("an instant"),
                kinds: Vec::new(),
                list: artifact("removed.json"),
            },
            signer: "local-source".to_owned(),
            established: true,
            list: vec![artifact("outcome_fact.parquet")],
        });
        let failure = |name: &str| absent_artifact(&removals, &format!("the curated file `{name}`"), &artifact(name));
        let removed = failure("outcome_fact.parquet");
        assert_eq!((removed.code, removed.exit), (ErrorCode::EvidenceRemoved, Exit::Unestablished));
        assert_eq!(
            removed.message,
            "the curated file `outcome_fact.parquet` was removed by anna, 2026-11-21T09:00:00Z (asserted), signed by local-source: \
             older than a year"
        );
        let lost = failure("other.parquet");
        assert_eq!(lost.code, ErrorCode::ArtifactAbsent);
        assert!(lost.message.starts_with("the curated file `other.parquet` (sha256:"), "{}", lost.message);
    }
}
