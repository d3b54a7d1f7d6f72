//! The judgement of a comparison by the gates of its own pipeline, which makes no signed verdict.

use assay_gate::{GateInput, judge};
use assay_manifest::{Name, Sequence, Verdict};
use assay_runs::VerifiedRun;
use assay_spec::Gate;
use assay_stage::{Clock, ErrorCode, Failure};

use crate::evidence::Evidence;
use crate::request::select_gates;
use crate::rules::{RuleFile, Rules};

/// Judges which side of a comparison is better by the first gate of the run's own pipeline, by the same statistics as
/// [`crate::GateRequest::judge`].
///
/// The rules are the run's own, so this verdict is for the person who made the run: it is neither signed nor stored, and it counts as no
/// look. Evidence of unknown signers is judged too; the verdict records it.
///
/// # Errors
/// A failure if the run has no gate or no comparison, or is not finished.
pub fn judge_own_comparison(run: &VerifiedRun) -> Result<Verdict, Failure> {
    let candidate = Evidence::of(run);
    let rules = Rules::from_run(candidate.own_pipeline()?);
    let gates = select_gates(&rules, None)?;
    let gate = gates.first().ok_or_else(|| Failure::new(ErrorCode::Internal, "a pipeline with gates has no first one"))?;
    judge_by(&rules, gate, &candidate, true)
}

/// Judges a comparison by each gate of the run's own pipeline, by the question of a gate: whether the candidate is worse. Returns no verdict if the
/// pipeline has no gate.
///
/// # Errors
/// A failure if the run has gates and no comparison, or is not finished.
pub fn judge_own_gates(run: &VerifiedRun) -> Result<Vec<Verdict>, Failure> {
    let candidate = Evidence::of(run);
    let rules = Rules::from_run(candidate.own_pipeline()?);
    let rules = Rules { noise: candidate.own_file(&rules.noise_path()?)?, ..rules };
    rules.gates()?.iter().map(|gate| judge_by(&rules, gate, &candidate, false)).collect()
}

/// Judges by one gate; `both_ways` is [`GateInput::both_ways`].
fn judge_by(rules: &Rules, gate: &Gate, candidate: &Evidence<&VerifiedRun>, both_ways: bool) -> Result<Verdict, Failure> {
    let name: Name = candidate
        .run_id()
        .as_str()
        .parse()
        .map_err(|error| Failure::new(ErrorCode::Internal, "the name of a run is no name of a sequence").because(&error))?;
    let input = GateInput {
        gate: &gate.name,
        policy: rules.policy(gate),
        sequence: Sequence { name, look: 1, earlier: Vec::new() },
        acknowledgements: Vec::new(),
        judged_on: Clock.now(),
        learned: rules.history()?,
        both_ways,
        policy_changes: Vec::new(),
        definition_changes: Vec::new(),
        files: rules.files().map(RuleFile::artifact).collect(),
        runs: vec![candidate.as_run()?],
    };
    judge(&input).map_err(|refusal| Failure::from_error(ErrorCode::NothingJudged, &refusal))
}
