//! The content of a verdict's report, before it is rendered.

pub(crate) mod acknowledgements;
mod fine_print;
pub(crate) mod lineage;
mod magnitude;
pub(crate) mod row;
mod sentence;
pub(crate) mod strip;

use assay_manifest::Outcome;

use super::inputs::{EarlierVerdict, Inputs};
use crate::render::command::{store_option, trace_command};
use crate::render::fine_print::FinePrint;
use crate::render::strip::StripItem;
use crate::render::text::{clean, short_commit};

use acknowledgements::AcknowledgementLine;
use lineage::RunLineage;
use row::Row;

pub use magnitude::Magnitude;

/// Maximum number of runs whose command and digests are listed: the latest ones.
const MAX_RUNS: usize = 20;

/// A verdict, ready to be rendered. Made by [`Report::build`].
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub(crate) gate: String,
    pub(crate) outcome: Outcome,
    pub(crate) blocks: bool,
    pub(crate) blocks_on_inconclusive: bool,
    pub(crate) digest: Option<String>,
    pub(crate) judged_on: String,
    /// The largest change for the worse that passes, as a share.
    pub(crate) budget: f64,
    /// The share of false alarms among alarms that this look allows.
    pub(crate) q: f64,
    /// One sentence: the outcome, what decided it, the number of pairs, the smallest detectable change.
    pub(crate) sentence: String,
    pub(crate) strip: Vec<StripItem>,
    /// The metrics that decide the outcome, worst first.
    pub(crate) primary: Vec<Row>,
    /// The metrics that are only reported, worst first.
    pub(crate) others: Vec<Row>,
    pub(crate) checks: Vec<CheckLine>,
    pub(crate) accepted: Vec<AcknowledgementLine>,
    /// All earlier verdicts, oldest first.
    pub(crate) earlier: Vec<EarlierLine>,
    pub(crate) fine_print: Vec<FinePrint>,
    /// The commands that check the verdict: they replay it, verify its runs, and trace one number back to its evidence.
    pub(crate) commands: Vec<String>,
    /// The latest judged runs, at most [`MAX_RUNS`].
    pub(crate) runs: Vec<RunLineage>,
    /// Number of judged runs that are not listed.
    pub(crate) runs_left_out: usize,
    pub(crate) store: Option<String>,
}

/// An absolute rule and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckLine {
    pub(crate) name: String,
    pub(crate) scope: String,
    /// True if it passed.
    pub(crate) passed: bool,
    /// True if it failed and was accepted beforehand.
    pub(crate) is_accepted: bool,
    /// True if a failure blocks by itself; otherwise a failure leaves the verdict inconclusive.
    pub(crate) blocks: bool,
    pub(crate) detail: String,
}

/// An earlier verdict, formatted for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EarlierLine {
    pub(crate) number: u32,
    pub(crate) gate: String,
    pub(crate) outcome: &'static str,
    pub(crate) look: u32,
    pub(crate) commit: String,
    pub(crate) judged_on: String,
    pub(crate) digest: String,
}

impl Report {
    /// Builds the report of a verdict.
    pub fn build(inputs: &Inputs<'_>) -> Self {
        let verdict = inputs.verdict;
        let rows = row::worst_first(inputs);
        let (primary, others): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.verdict.primary);
        let accepted = acknowledgements::acknowledgement_lines(verdict);
        Self {
            gate: verdict.gate.to_string(),
            outcome: verdict.outcome,
            blocks: verdict.blocks,
            blocks_on_inconclusive: verdict.policy.block_on_inconclusive,
            digest: inputs.verdict_digest.map(|digest| digest.to_string()),
            judged_on: verdict.judged_on.to_seconds(),
            budget: verdict.policy.budget,
            q: fine_print::q_of_look(verdict),
            sentence: sentence::sentence(verdict, &primary),
            strip: strip::items(inputs, &primary, &accepted),
            checks: verdict.checks.iter().map(CheckLine::new).collect(),
            accepted,
            earlier: inputs.earlier.iter().map(EarlierLine::new).collect(),
            fine_print: fine_print::items(verdict, &primary),
            commands: commands(inputs, &primary),
            runs: latest(&verdict.runs, MAX_RUNS).iter().map(RunLineage::new).collect(),
            runs_left_out: verdict.runs.len().saturating_sub(MAX_RUNS),
            store: inputs.store.map(str::to_owned),
            primary,
            others,
        }
    }

    /// Returns one sentence: the outcome first, what decided it, the number of pairs, and the smallest detectable change. Backticks
    /// mark names. It is safe for a terminal; other outputs have to escape it.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Returns the outcome and whether it blocks: `Regressed, and it blocks`.
    pub(crate) fn headline(&self) -> String {
        sentence::outcome_text(self.outcome, self.blocks, &self.primary)
    }
}

impl CheckLine {
    fn new(check: &assay_manifest::Check) -> Self {
        Self {
            name: clean(&check.name),
            scope: clean(&check.scope),
            passed: check.passed,
            is_accepted: !check.passed && check.acknowledged.is_some(),
            blocks: check.blocks,
            detail: clean(&check.detail),
        }
    }
}

impl EarlierLine {
    fn new(earlier: &EarlierVerdict) -> Self {
        Self {
            number: earlier.number,
            gate: earlier.gate.to_string(),
            outcome: earlier.outcome,
            look: earlier.look,
            commit: earlier.commit.as_deref().map_or_else(|| "unknown".to_owned(), short_commit),
            judged_on: earlier.judged_on.to_seconds(),
            digest: earlier.digest.to_string(),
        }
    }
}

/// Returns the last `most` items.
fn latest<T>(all: &[T], most: usize) -> &[T] {
    all.get(all.len().saturating_sub(most)..).unwrap_or_default()
}

/// Returns the commands that check a verdict: replay it, verify the runs that it judged, trace the deciding number to its evidence.
fn commands(inputs: &Inputs<'_>, primary: &[Row]) -> Vec<String> {
    let store = store_option(inputs.store);
    let replay = inputs.verdict_digest.map(|digest| format!("assay gate --replay {digest}{store}"));
    let verify = latest(&inputs.verdict.runs, MAX_RUNS).iter().map(|run| format!("assay verify {}{store}", run.run_id));
    let decided = primary.first().and_then(|row| row.origins.last()).and_then(|origin| origin.candidate.median.as_ref());
    let trace = decided.map(|(_, address)| trace_command(address, inputs.store));
    replay.into_iter().chain(verify).chain(trace).collect()
}
