//! The list of all runs of the published cases, finished or not, so that no lucky run can be selected.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    Body as _, Digest, Document, EndState, Kind, ListedRun, MAX_MANIFEST_BYTES, Plan, RunEnd, RunId, RunOutcome,
};
use assay_stage::{AcceptedResult, Context, ErrorCode, Failure, Layout, StageName};
use assay_verify::try_map_in_threads;

/// The number of runs that are read at a time: a reader mostly waits for the store.
const READERS: usize = 16;

/// Lists every run that announced one of the plan's cases, and this run with all of them.
pub(crate) fn runs_of_cases(ctx: &Context, plan: &Plan) -> Result<Vec<ListedRun>, Failure> {
    let mut cases_of: BTreeMap<RunId, BTreeSet<String>> = BTreeMap::new();
    for case in &plan.cases {
        let prefix = Layout::runs_of_case(&case.case_id);
        for path in ctx.store().list(&prefix)? {
            let run = path.rsplit('/').next().unwrap_or_default();
            let run: RunId = run.parse().map_err(|_| Failure::new(ErrorCode::Listing, format!("`{path}` names no run")))?;
            cases_of.entry(run).or_default().insert(case.case_id.to_string());
        }
    }
    cases_of.insert(ctx.run_id().clone(), plan.cases.iter().map(|case| case.case_id.to_string()).collect());
    let cases_of: Vec<(RunId, Vec<String>)> =
        cases_of.into_iter().map(|(run_id, cases)| (run_id, cases.into_iter().collect())).collect();
    try_map_in_threads(READERS, &cases_of, |(run_id, cases)| list_run(ctx, run_id, cases))
}

fn list_run(ctx: &Context, run_id: &RunId, cases: &[String]) -> Result<ListedRun, Failure> {
    let (outcome, evidence) = if run_id == ctx.run_id() { (RunOutcome::This, None) } else { outcome(ctx, run_id)? };
    Ok(ListedRun { run_id: run_id.clone(), cases: cases.to_vec(), outcome, evidence })
}

/// Returns the outcome of another run: by its Summary, otherwise by its last end. Listed by digest, so that a reader can verify
/// it.
fn outcome(ctx: &Context, run_id: &RunId) -> Result<(RunOutcome, Option<Digest>), Failure> {
    let layout = Layout::for_run(run_id);
    if let Some(summary) = AcceptedResult::list_stage(ctx.store(), run_id, StageName::Reduce)?.next() {
        let digest = summary?.manifest;
        return read_manifest(ctx, run_id, digest, Kind::Summary).map(|_| (RunOutcome::Finished, Some(digest)));
    }
    let ends = ctx.store().list(&format!("{}/ends", layout.run()))?;
    let Some(end) = ends.last().map(|path| AcceptedResult::read(ctx.store(), path)).transpose()?.flatten() else {
        return Ok((RunOutcome::Unfinished, None));
    };
    let digest = end.manifest;
    let document = read_manifest(ctx, run_id, digest, Kind::RunEnd)?;
    let outcome = match RunEnd::from_document(&document).map(|end| end.body.state) {
        Some(EndState::Cancelled) => RunOutcome::Cancelled,
        Some(EndState::Failed) => RunOutcome::Failed,
        None => RunOutcome::Unfinished,
    };
    Ok((outcome, Some(digest)))
}

/// Returns the manifest that a pointer of another run names, which has to be that run's.
fn read_manifest(ctx: &Context, run_id: &RunId, digest: Digest, kind: Kind) -> Result<Document, Failure> {
    let document = Document::parse(&ctx.store().get(&digest, MAX_MANIFEST_BYTES)?)
        .map_err(|error| Failure::from_error(ErrorCode::Manifest, &error))?;
    if document.header().run_id == *run_id && document.kind() == kind {
        return Ok(document);
    }
    let message = format!("a pointer of run `{run_id}` leads to a {} of run `{}`", document.kind(), document.header().run_id);
    Err(Failure::new(ErrorCode::PointerElsewhere, message))
}
