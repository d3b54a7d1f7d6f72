//! The runs of a store as a list shows them: by their pointers, unverified.
//!
//! A published run does not change any more, so what was read of it is kept in the user's cache, for a store in a folder. It is used as
//! long as the run's folder and its first and last pointer are the same files with the same times of change, which the kernel keeps
//! and no program sets. Nothing else reads that cache: whatever is verified is read from the signed files.

use std::collections::BTreeMap;

use assay_envelope::{Bundle, MAX_BUNDLE_BYTES, Statement};
use assay_manifest::{
    Body as _, Document, EndState, Instant, IntervalKind, Plan, PointSummary, RunEnd, RunId, Source, Summary, Target, TargetKind,
};
use assay_report::{Headline, short_commit};
use assay_stage::{AcceptedResult, ErrorCode, Failure, Layout, StageName};
use assay_store::{ObjectPath, Store};
use assay_verify::map_in_parallel;
use serde::{Deserialize, Serialize};

use crate::cache::{Unchanged, read_cache, write_cache};
use crate::list::{explain_link, read_document, read_manifest, run_ids};

/// The name of the list in the cache. The number changes with the format.
const CACHE: &str = "runs-3";

/// One run, according to its pointers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunEntry {
    /// The run.
    pub run_id: RunId,
    /// The time at which its Source was signed, by the signer's clock.
    pub begun_at: Option<Instant>,
    /// The path of its pipeline.
    pub pipeline: String,
    /// Its commit, shortened, with `+` if the work tree differed from it; empty if it was started outside of a repository.
    pub commit: String,
    /// Its state, in words.
    pub state: String,
    /// The models that it measured, in the order of its workloads; empty if it has none, or if its Plan cannot be read.
    pub models: Vec<String>,
    /// The targets that it measured: the address of each, or its name if the Plan states no address.
    pub endpoints: Vec<String>,
    /// Its headline figure; `None` if it has none, or if its Summary cannot be read.
    pub headline: Option<RunFigure>,
}

/// The headline figure of a run, as its report states it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunFigure {
    /// The metric, such as `ttft_ms_p99`.
    pub metric: String,
    /// The median over the counted trials.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// The ends of its interval; `None` if it has none.
    pub interval: Option<[f64; 2]>,
    /// The variation that its interval holds; `None` if it has none.
    pub interval_kind: Option<IntervalKind>,
    /// The place where it was measured, such as `chat on vllm, concurrency 64`.
    pub place: String,
    /// The address of the number, for `assay trace`.
    pub address: String,
    /// The metric and its value for people, such as `TTFT p99 412 ms`.
    pub text: String,
}

/// A published run, as it was read.
#[derive(Serialize, Deserialize)]
struct CachedEntry {
    entry: RunEntry,
    /// The run's folder, the pointers of its Source and its Publication, the Source and the Summary.
    read_from: Unchanged,
}

/// A run's name, and its entry or the failure to read it.
pub type ListedEntry = (RunId, Result<RunEntry, Failure>);

/// Reads the entry of every run of a store, in the order of the runs' names. A run that cannot be read has its failure.
pub fn list_entries(store: &Store) -> Result<Vec<ListedEntry>, Failure> {
    let ids = run_ids(store)?;
    let mut cached: BTreeMap<RunId, CachedEntry> = read_cache(CACHE, store).unwrap_or_default();
    let count = cached.len();
    cached.retain(|_, cached| cached.read_from.holds(store));
    let missing: Vec<&RunId> = ids.iter().filter(|run_id| !cached.contains_key(*run_id)).collect();
    let read =
        map_in_parallel(&missing, |run_id| read_entry(store, run_id).map_err(|failure| explain_link(failure, store, run_id)));
    let read: BTreeMap<&RunId, _> = missing.iter().copied().zip(read).collect();
    let entries = ids.iter().filter_map(|run_id| {
        let entry = match (cached.get(run_id), read.get(run_id)) {
            (Some(cached), _) => Ok(cached.entry.clone()),
            (None, Some(Ok((entry, _)))) => Ok(entry.clone()),
            (None, Some(Err(failure))) => Err(failure.clone()),
            (None, None) => return None,
        };
        Some((run_id.clone(), entry))
    });
    let entries = entries.collect();
    let fresh: Vec<_> =
        read.into_iter().filter_map(|(run_id, read)| Some((run_id.clone(), cacheable(store, read.ok()?)?))).collect();
    if cached.len() != count || !fresh.is_empty() {
        cached.extend(fresh);
        write_cache(CACHE, store, &cached);
    }
    Ok(entries)
}

/// Returns what is kept of a run: nothing if it is not published, if it has just changed, or if the store is no folder.
fn cacheable(store: &Store, (entry, paths): (RunEntry, Option<Vec<String>>)) -> Option<CachedEntry> {
    Some(CachedEntry { entry, read_from: Unchanged::new(store, paths?)? })
}

/// Reads a run; if it is published, with the paths of what its entry rests on.
fn read_entry(store: &Store, run_id: &RunId) -> Result<(RunEntry, Option<Vec<String>>), Failure> {
    let layout = Layout::for_run(run_id);
    let accepted = AcceptedResult::read(store, &layout.source())?;
    if accepted.is_none() && store.is_link(&layout.run()) {
        return Err(Failure::new(ErrorCode::NotPlain, format!("`{}` leads to no run", layout.run())));
    }
    let source = match accepted.map(|accepted| read_manifest(store, accepted, run_id)).transpose()? {
        Some(Document::Source(source)) => Some(source.body),
        _ => None,
    };
    let (pipeline, commit) = source.as_ref().map(|source| (source.pipeline.clone(), commit(source))).unwrap_or_default();
    let begun_at = accepted.map(|accepted| signed_at(store, accepted)).transpose()?.flatten();
    let paths = store.list(&layout.run())?;
    let tombstones = format!("{}/", layout.tombstones());
    let is_removed = paths.iter().any(|path| path.starts_with(&tombstones));
    let removed = if is_removed { ", evidence removed" } else { "" };
    let [plan, summary] = [StageName::Plan, StageName::Reduce].map(|stage| accepted_result(store, &layout, &paths, stage));
    let read = accepted_path(&layout, &paths, StageName::Publish).zip(accepted).map(|(published, source)| {
        let manifests = [Some(source.manifest), Some(source.bundle), summary.map(|summary| summary.manifest)];
        let blobs = manifests.into_iter().flatten().map(|digest| ObjectPath::Blob(digest).to_string());
        [layout.run(), layout.source(), published.clone()].into_iter().chain(blobs).collect()
    });
    let state = format!("{}{removed}", state(store, &layout, &paths, run_id)?);
    let entry = RunEntry {
        run_id: run_id.clone(),
        begun_at,
        pipeline,
        commit,
        state,
        models: Vec::new(),
        endpoints: Vec::new(),
        headline: None,
    };
    Ok((with_results(entry, [plan, summary].map(|result| read_manifest(store, result?, run_id).ok())), read))
}

/// Returns the first accepted result of a stage; `None` if there is none, or if its pointer cannot be read.
fn accepted_result(store: &Store, layout: &Layout, paths: &[String], stage: StageName) -> Option<AcceptedResult> {
    AcceptedResult::read(store, accepted_path(layout, paths, stage)?).ok().flatten()
}

/// Adds what Plan and Summary state. A manifest that is missing, damaged or of another format leaves its part empty: the run is
/// listed all the same.
fn with_results(entry: RunEntry, [plan, summary]: [Option<Document>; 2]) -> RunEntry {
    let Some(plan) = plan.as_ref().and_then(Plan::from_document) else { return entry };
    let summary = summary.as_ref().and_then(Summary::from_document);
    let headline = summary.and_then(|summary| Headline::new(&entry.run_id, &plan.body, &summary.body));
    let uncounted = summary.map(|summary| uncounted_trials(&summary.body)).unwrap_or_default();
    let state = format!("{}{uncounted}", entry.state);
    RunEntry {
        state,
        models: models(&plan.body),
        endpoints: endpoints(&plan.body),
        headline: headline.map(RunFigure::from),
        ..entry
    }
}

/// Returns `, 3 of 5 trials count` if some do not; empty if all do.
fn uncounted_trials(summary: &Summary) -> String {
    let sum = |of: fn(&PointSummary) -> u32| summary.points.iter().map(|point| u64::from(of(point))).sum::<u64>();
    match (sum(|point| point.trials_counted), sum(|point| point.trials_planned)) {
        (counted, planned) if counted == planned => String::new(),
        (0, _) => ", no trial counts".to_owned(),
        (counted, planned) => format!(", {counted} of {planned} trials count"),
    }
}

fn models(plan: &Plan) -> Vec<String> {
    unique(plan.workloads.iter().filter_map(|workload| Some(workload.serving.as_ref()?.model.clone())))
}

fn endpoints(plan: &Plan) -> Vec<String> {
    let address = |target: &Target| target.url.clone().unwrap_or_else(|| target.name.to_string());
    unique(plan.targets.iter().filter(|target| target.kind != TargetKind::Host).map(address))
}

/// Returns the texts in their order, each once.
fn unique(texts: impl Iterator<Item = String>) -> Vec<String> {
    texts.fold(Vec::new(), |mut known, text| {
        if !known.contains(&text) {
            known.push(text);
        }
        known
    })
}

impl From<Headline> for RunFigure {
    fn from(headline: Headline) -> Self {
        let side = headline.side.as_ref().map(|side| format!(", {side}")).unwrap_or_default();
        let text = format!("{} {}{side}", headline.title, headline.text);
        let Headline { metric, value, unit, interval, interval_kind, place, address, .. } = headline;
        Self { metric, value, unit, interval, interval_kind, place, address: address.to_string(), text }
    }
}

/// Returns the time at which a result was signed, as its signer asserts.
fn signed_at(store: &Store, accepted: AcceptedResult) -> Result<Option<Instant>, Failure> {
    let bytes = store.get(&accepted.bundle, MAX_BUNDLE_BYTES as u64)?;
    let bundle = Bundle::parse(&bytes).map_err(|error| Failure::from_error(ErrorCode::Bundle, &error))?;
    let statement = Statement::parse(&bundle.envelope.payload).map_err(|error| Failure::from_error(ErrorCode::Bundle, &error))?;
    Ok(statement.predicate.asserted_time())
}

fn commit(source: &Source) -> String {
    let commit = source.commit.as_deref().map(short_commit).unwrap_or_default();
    if source.dirty && !commit.is_empty() { format!("{commit}+") } else { commit }
}

/// Returns the first pointer to an accepted result of a stage.
fn accepted_path<'a>(layout: &Layout, paths: &'a [String], stage: StageName) -> Option<&'a String> {
    let prefix = format!("{}/", layout.stage(stage));
    paths.iter().find(|path| path.starts_with(&prefix) && path.contains("/accepted/"))
}

/// Returns the state of a run with these pointers.
fn state(store: &Store, layout: &Layout, paths: &[String], run_id: &RunId) -> Result<String, Failure> {
    if accepted_path(layout, paths, StageName::Publish).is_some() {
        return Ok("published".to_owned());
    }
    let ends = format!("{}/ends/", layout.run());
    if let Some(last) = paths.iter().rfind(|path| path.starts_with(&ends))
        && let Some(document) = read_document(store, last, run_id)?
        && let Some(end) = RunEnd::from_document(&document)
    {
        let how = if end.body.state == EndState::Cancelled { "cancelled" } else { "failed" };
        return Ok(format!("{how} in {} ({})", end.body.stage, end.body.reason.code));
    }
    // A recording is made beside execute, and a run that has one has not come further for it.
    let stages = StageName::ALL.into_iter().filter(|stage| *stage != StageName::Record);
    let last = stages.rev().find(|stage| accepted_path(layout, paths, *stage).is_some());
    Ok(last.map_or_else(|| "unfinished".to_owned(), |stage| format!("unfinished after {stage}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_no_stage_that_a_run_has_come_to() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path().to_str().expect("UTF-8")).expect("a store");
        let run_id: RunId = "killed".parse().expect("a run id");
        let layout = Layout::for_run(&run_id);
        let state_after = |stages: &[StageName]| {
            let paths: Vec<String> = stages.iter().map(|stage| format!("{}/00/accepted/0", layout.stage(*stage))).collect();
            state(&store, &layout, &paths, &run_id).expect("a state")
        };
        let provisioned = [StageName::Plan, StageName::Provision];
        assert_eq!(state_after(&provisioned), "unfinished after provision");
        assert_eq!(state_after(&[&provisioned[..], &[StageName::Record]].concat()), "unfinished after provision");
        assert_eq!(state_after(&[&provisioned[..], &[StageName::Execute]].concat()), "unfinished after execute");
        assert_eq!(state_after(&[]), "unfinished");
    }
}
