//! `assay runs`: lists the runs of a store with their states, or removes their evidence.

use assay_manifest::RunId;
use assay_runner::default_store;
use assay_runs::{RunEntry, list_entries};
use assay_stage::{Exit, Failure};
use assay_store::Store;
use serde_json::json;

use crate::commands::remove::Remove;
use crate::output;

/// List runs, the latest last, each with its asserted start time. The list is read from the store without verification, and from
/// the user's cache if a published run has not changed: `assay verify` checks a run. An unreadable run is listed as such, and the command fails at its end.
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

impl Runs {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if let Some(RunsAction::Rm(remove)) = self.action {
            return remove.run();
        }
        let store = Store::open_existing(&self.store.map_or_else(default_store, Ok)?)?;
        let mut unreadable = None;
        let mut runs = Vec::new();
        for (run_id, entry) in list_entries(&store)? {
            runs.push(entry.unwrap_or_else(|failure| {
                let run = unreadable_entry(&run_id, &failure);
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

/// Returns the entry of a run that cannot be read.
fn unreadable_entry(run_id: &RunId, failure: &Failure) -> RunEntry {
    let state = format!("unreadable ({})", failure.code);
    RunEntry { run_id: run_id.clone(), begun_at: None, pipeline: String::new(), commit: String::new(), state }
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
