//! `assay runs`: lists the runs of a store with their states, or removes their evidence.

use assay_manifest::RunId;
use assay_runs::{RunEntry, RunFigure, list_entries, open_store};
use assay_stage::{Exit, Failure};
use serde_json::{Value, json};

use crate::commands::remove::Remove;
use crate::output;

/// List runs, the latest last, each with its asserted start time, the models and endpoints of its Plan, and the headline figure of its
/// Summary (`-` if it has none). The list is read from the store without verification, and from
/// the user's cache if a published run has not changed: `assay verify` checks a run. An unreadable run is listed as such, and the command fails at its end.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Runs {
    #[command(subcommand)]
    action: Option<RunsAction>,
    /// The artifact store [default: `.assay` of the repository, or the user's data folder]
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
        let store = open_store(self.store.as_deref())?;
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
                        "run_id": run.run_id, "begun_at": run.begun_at, "pipeline": run.pipeline, "commit": Some(&run.commit).filter(|commit| !commit.is_empty()), "state": run.state,
                        "models": run.models, "endpoints": run.endpoints, "headline": run.headline.as_ref().map(figure_json),
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
    RunEntry {
        run_id: run_id.clone(),
        begun_at: None,
        pipeline: String::new(),
        commit: String::new(),
        state,
        models: Vec::new(),
        endpoints: Vec::new(),
        headline: None,
    }
}

/// Returns the headline figure of a run as JSON: its fields are data, and the text for people is left out.
fn figure_json(figure: &RunFigure) -> Value {
    json!({
        "metric": figure.metric, "value": figure.value, "unit": figure.unit, "interval": figure.interval,
        "interval_kind": figure.interval_kind,
        "place": figure.place, "address": figure.address,
    })
}

/// The largest width of a column whose text comes from definitions; longer texts are cut.
const MAX_WIDTH: usize = 40;

/// Prints the table. Minutes are enough to recognise a run; `--json` has the rest.
fn print_table(runs: &[RunEntry]) {
    let header = ["RUN", "BEGUN (UTC)", "PIPELINE", "COMMIT", "MODEL", "ENDPOINT", "HEADLINE", "STATE"].map(str::to_owned);
    let rows: Vec<[String; 8]> = std::iter::once(header).chain(runs.iter().map(cells)).collect();
    let widths: Vec<usize> = (0..8)
        .map(|place| rows.iter().filter_map(|row| row.get(place)).map(|cell| cell.chars().count()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        output::line(cells.join("  ").trim_end());
    }
}

fn cells(run: &RunEntry) -> [String; 8] {
    let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let begun = run.begun_at.map(|at| format!("{:.16}", at.to_string()).replace('T', " "));
    [
        run.run_id.to_string(),
        or_none(begun.unwrap_or_default()),
        or_none(run.pipeline.clone()),
        or_none(run.commit.clone()),
        or_none(cut(&run.models)),
        or_none(cut(&run.endpoints)),
        or_none(run.headline.as_ref().map(|figure| figure.text.clone()).unwrap_or_default()),
        run.state.clone(),
    ]
}

/// Returns the first text and the number of the others, cut to [`MAX_WIDTH`].
fn cut(texts: &[String]) -> String {
    let Some((first, others)) = texts.split_first() else { return String::new() };
    let more = if others.is_empty() { String::new() } else { format!(" +{}", others.len()) };
    let room = MAX_WIDTH.saturating_sub(more.chars().count());
    let shown: String = if first.chars().count() <= room {
        first.clone()
    } else {
        first.chars().take(room.saturating_sub(1)).chain(['…']).collect()
    };
    shown + &more
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_and_others_are_counted() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!([cut(&[]), cut(&texts(&["one"])), cut(&texts(&["one", "two", "three"]))], ["", "one", "one +2"]);
        let long = cut(&texts(&[&"x".repeat(60), "two"]));
        assert_eq!((long.chars().count(), long.ends_with("…x +1")), (MAX_WIDTH, false));
        assert!(long.ends_with("x… +1"), "{long}");
    }
}
