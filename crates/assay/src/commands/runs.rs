//! `assay runs`: lists the runs of a store with their states, or removes their evidence.

use assay_envelope::{Bundle, MAX_BUNDLE_BYTES, Statement};
use assay_manifest::{Body as _, Document, EndState, Instant, RunEnd, RunId, Source};
use assay_runner::default_store;
use assay_runs::{read_document, read_manifest, run_ids};
use assay_stage::{AcceptedResult, ErrorCode, Exit, Failure, Layout, StageName};
use assay_store::Store;
use assay_verify::map_in_parallel;
use serde_json::json;

use crate::commands::remove::Remove;
use crate::output;

/// List runs, the latest last, each with its asserted start time. The list is read from the store without verification: `assay
/// verify` checks a run. An unreadable run is listed as such, and the command fails at its end.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Runs {
    #[command(subcommand)]
    action: Option<RunsAction>,
    /// The artifact store [default: `.assay` of the repository]
    #[arg(long, value_name = "URI", env = "ASSAY_STORE")]
    store: Option<String>,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

/// An action on runs.
#[derive(clap::Subcommand)]
enum RunsAction {
    /// Remove the evidence of runs, and leave signed tombstones
    Rm(Remove),
}

/// One run, according to its pointers.
struct RunEntry {
    run_id: RunId,
    /// The time at which its Source was signed, by the signer's clock.
    begun_at: Option<Instant>,
    pipeline: String,
    commit: String,
    state: String,
}

impl Runs {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if let Some(RunsAction::Rm(remove)) = self.action {
            return remove.run();
        }
        let store = Store::open_existing(&self.store.map_or_else(default_store, Ok)?)?;
        let mut unreadable = None;
        let mut runs = Vec::new();
        let ids = run_ids(&store)?;
        let entries = map_in_parallel(&ids, |run_id| read_entry(&store, run_id));
        for (run_id, entry) in ids.iter().zip(entries) {
            runs.push(entry.unwrap_or_else(|failure| {
                let run = RunEntry { state: format!("unreadable ({})", failure.code), ..RunEntry::unknown(run_id.clone()) };
                let message = format!("run `{run_id}`: {}", failure.message);
                unreadable.get_or_insert(Failure { message, ..failure });
                run
            }));
        }
        runs.sort_by_key(|run| run.begun_at);
        if self.json {
            let list: Vec<_> = runs
                .iter()
                .map(|run| {
                    json!({
                        "run_id": run.run_id, "begun_at": run.begun_at, "pipeline": run.pipeline, "commit": run.commit, "state": run.state
                    })
                })
                .collect();
            output::json(&list)?;
        } else if runs.is_empty() {
            output::diagnostic(format!("the store `{}` has no runs", store.uri()));
        } else {
            print_table(&runs);
        }
        unreadable.map_or(Ok(Exit::Done), Err)
    }
}

impl RunEntry {
    /// Returns a run of which only the name is known.
    fn unknown(run_id: RunId) -> Self {
        Self { run_id, begun_at: None, pipeline: String::new(), commit: String::new(), state: String::new() }
    }
}

/// Prints the table. Minutes are enough to recognise a run; `--json` has the rest.
fn print_table(runs: &[RunEntry]) {
    let begun =
        |run: &RunEntry| run.begun_at.map_or_else(|| "-".to_owned(), |at| format!("{:.16}", at.to_string()).replace('T', " "));
    output::line(format!("{:<40} {:<16} {:<24} {:<13} STATE", "RUN", "BEGUN (UTC)", "PIPELINE", "COMMIT"));
    for run in runs {
        output::line(format!("{:<40} {:<16} {:<24} {:<13} {}", run.run_id, begun(run), run.pipeline, run.commit, run.state));
    }
}

fn read_entry(store: &Store, run_id: &RunId) -> Result<RunEntry, Failure> {
    let layout = Layout::for_run(run_id);
    let accepted = AcceptedResult::read(store, &layout.source())?;
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
    let state = format!("{}{removed}", state(store, &layout, &paths, run_id)?);
    Ok(RunEntry { state, run_id: run_id.clone(), begun_at, pipeline, commit })
}

/// Returns the time at which a result was signed, as its signer asserts.
fn signed_at(store: &Store, accepted: AcceptedResult) -> Result<Option<Instant>, Failure> {
    let bytes = store.get(&accepted.bundle, MAX_BUNDLE_BYTES as u64)?;
    let bundle = Bundle::parse(&bytes).map_err(|error| Failure::from_error(ErrorCode::Bundle, &error))?;
    let statement = Statement::parse(&bundle.envelope.payload).map_err(|error| Failure::from_error(ErrorCode::Bundle, &error))?;
    Ok(statement.predicate.asserted_time())
}

fn commit(source: &Source) -> String {
    let commit = source.commit.as_deref().map_or_else(|| "-".to_owned(), assay_report::short_commit);
    if source.dirty { format!("{commit}+") } else { commit }
}

/// Returns the state of a run with these pointers.
fn state(store: &Store, layout: &Layout, paths: &[String], run_id: &RunId) -> Result<String, Failure> {
    let accepted = |stage: StageName| {
        let prefix = format!("{}/", layout.stage(stage));
        paths.iter().any(|path| path.starts_with(&prefix) && path.contains("/accepted/"))
    };
    if accepted(StageName::Publish) {
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
    let last = StageName::ALL.into_iter().rev().find(|stage| accepted(*stage));
    Ok(last.map_or_else(|| "unfinished".to_owned(), |stage| format!("unfinished after {stage}")))
}
