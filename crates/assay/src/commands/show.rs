//! `assay show`: prints the result of a run, verified before it is shown.

use assay_manifest::{Collection, Plan, Publication, Summary};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_store::Store;
use assay_verify::VerifiedTombstone;
use serde_json::json;

use crate::commands::calibrate;
use crate::commands::documents::{self, Located};
use crate::commands::foreign_evidence;
use crate::commands::foreign_verdict;
use crate::commands::hot_metrics;
use crate::commands::removed::resume_hint;
use crate::commands::results::results;
use crate::commands::search_result;
use crate::commands::store_options::StoreOptions;
use crate::commands::times;
use crate::output;

/// Show a run's result: the first screen, or the whole report.
#[derive(clap::Args)]
pub(crate) struct Show {
    /// The run's name or published folder, or the digest of a calibration, of a search result, of foreign evidence or of a
    /// verdict over foreign evidence
    #[arg(value_name = "RUN|PATH|sha256:HEX")]
    run: String,
    #[command(flatten)]
    place: StoreOptions,
    /// Print the whole report: every table, every remark, the state of the evidence and the fine print
    #[arg(long, conflicts_with_all = ["markdown", "json"])]
    all: bool,
    /// Print the whole report as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Print the results as one JSON document
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if calibrate::is_digest(&self.run) {
            let place = self.place.runs();
            return match documents::locate(&place, &self.run)? {
                Some(Located::SearchResult(located)) => search_result::show(&place, located, self.json),
                Some(Located::ForeignEvidence(located)) => foreign_evidence::show(&place, located, self.json),
                Some(Located::ForeignVerdict(reference)) => foreign_verdict::show(&place, reference, self.json),
                None => calibrate::show(&place, &self.run, self.json),
            };
        }
        let opened = self.place.open(&self.run)?;
        let unpublished = || {
            Failure::new(ErrorCode::NotPublished, format!("the run `{}` has no result yet", opened.chain.run_id))
                .hint(format!("{}; `assay verify` states how far it came", resume_hint(&opened)))
        };
        let store = opened.store.as_deref().map(Store::open_existing).transpose()?;
        let run_id = &opened.chain.run_id;
        let times = store.as_ref().map(|store| times::read(store, run_id)).unwrap_or_default();
        let receipts = store.as_ref().map(|store| hot_metrics::read_receipts(store, run_id)).transpose()?.unwrap_or_default();
        let report = opened.report("assay show")?.ok_or_else(unpublished)?;
        if self.json {
            let plan = &opened.chain.one::<Plan>().ok_or_else(unpublished)?.body;
            let summary = &opened.chain.one::<Summary>().ok_or_else(unpublished)?.body;
            let grade = opened.chain.one::<Publication>().map(|publication| &publication.body.grade);
            output::json(&json!({
                "run_id": run_id,
                "pipeline": plan.pipeline.name,
                "status": summary.status,
                "grade": grade,
                "removals": opened.removals.tombstones.iter().map(VerifiedTombstone::describe).collect::<Vec<_>>(),
                "drift": opened.chain.one::<Collection>().map(|collection| &collection.body.drift),
                "results": results(run_id, plan, summary),
                "times": times::json(&times),
                "hot_metrics": receipts,
            }))?;
        } else {
            let (width, color) = (output::width(), output::has_color());
            output::report(match (self.all, self.markdown) {
                (true, _) => report.terminal(width, color),
                (_, true) => report.markdown(),
                _ => report.terminal_summary(width, color),
            });
            if self.all {
                times::table(&times).into_iter().for_each(output::line);
                hot_metrics::table(&receipts).into_iter().for_each(output::line);
            }
        }
        Ok(output::established(opened.chain.is_established()))
    }
}
