//! How long a plan will take, by what its cases took before.

use std::time::Duration;

use assay_manifest::{Body as _, Case, CaseId, Document, ExecutionPart, MAX_MANIFEST_BYTES, RunId};
use assay_stage::{Accepted, Failure, Layout, StageName};
use assay_store::Store;

/// Earlier runs of a case that are looked into, the latest first: an estimate needs one.
const LOOKED_INTO: usize = 8;

/// The time that the trials will take if each takes as long as the median of the case's latest run; none where a case was never run.
/// What the store says is taken as it is: this is an estimate and no result.
pub(crate) fn estimate(store: &Store, cases: &[Case], trials: u32) -> Result<Option<Duration>, Failure> {
    let mut total = Duration::ZERO;
    for case in cases {
        let Some(one) = latest(store, &case.case_id)? else { return Ok(None) };
        let count = u32::try_from(case.points.len()).unwrap_or(u32::MAX).saturating_mul(trials);
        total = total.saturating_add(one.saturating_mul(count));
    }
    Ok(Some(total))
}

/// The median length of an attempt in the latest run of a case that has any.
fn latest(store: &Store, case: &CaseId) -> Result<Option<Duration>, Failure> {
    let marks = store.list(&Layout::runs_of_case(case))?;
    let runs = marks.iter().rev().filter_map(|path| path.rsplit('/').next()?.parse::<RunId>().ok());
    for run_id in runs.take(LOOKED_INTO) {
        let mut lengths = lengths(store, &run_id, case)?;
        lengths.sort_unstable();
        if let Some(median) = lengths.get(lengths.len() / 2) {
            return Ok(Some(Duration::from_nanos(*median)));
        }
    }
    Ok(None)
}

fn lengths(store: &Store, run_id: &RunId, case: &CaseId) -> Result<Vec<u64>, Failure> {
    let mut found = Vec::new();
    let accepted = store.list(&Layout::of(run_id).stage(StageName::Execute))?;
    for path in accepted.iter().filter(|path| path.contains("/accepted/")) {
        let Some(pointer) = store.read(path, Accepted::MAX_BYTES)? else { continue };
        let bytes = store.get(&Accepted::parse(path, &pointer)?.manifest, MAX_MANIFEST_BYTES)?;
        let Ok(document) = Document::parse(&bytes) else { continue };
        let Some(part) = ExecutionPart::of(&document) else { continue };
        let of_case = part.body.attempts.iter().filter(|attempt| attempt.case_id == *case && attempt.validity.valid);
        found.extend(of_case.map(|attempt| attempt.window.duration_ns.0));
    }
    Ok(found)
}
