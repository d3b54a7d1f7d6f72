//! A verdict as the body of a check run, the mechanism by which GitHub allows or blocks the merge of a pull request.

use assay_manifest::Outcome;
use serde_json::{Value, json};

use super::markdown::sections::join_within;
use super::model::Report;
use super::model::row::Row;
use crate::render::text::counted;

/// GitHub's limit of a summary and of a text, in characters. A text of at most as many bytes is always within it.
const MAX_OUTPUT: usize = 65_535;

impl Report {
    /// Returns the body of a check run, for `POST /repos/{owner}/{repo}/check-runs`; the caller adds `head_sha`. A regression is a
    /// `failure`, an inconclusive verdict is `action_required` if it blocks and otherwise `neutral`, and all else is a `success`.
    pub fn check_run(&self) -> Value {
        let fitting = |sections: &[_]| join_within(sections, MAX_OUTPUT).unwrap_or_else(|| self.headline());
        let details = self.detail_sections();
        let has_details = details.iter().any(|section| !section.rows.is_empty());
        json!({
            "name": format!("assay gate: {}", self.gate),
            "status": "completed",
            "conclusion": self.conclusion(),
            "output": {
                "title": self.title(),
                "summary": fitting(&self.summary_sections()),
                "text": if has_details { fitting(&details) } else { String::new() },
            },
        })
    }

    fn conclusion(&self) -> &'static str {
        match (self.outcome, self.blocks) {
            (Outcome::Regressed, _) => "failure",
            (Outcome::Inconclusive, true) => "action_required",
            (Outcome::Inconclusive, false) => "neutral",
            (Outcome::Improved | Outcome::Unchanged, _) => "success",
        }
    }

    /// Returns `Regressed, and it blocks: 1 of 12 metrics`, without names, because some places show a title unescaped.
    fn title(&self) -> String {
        let is_such = |row: &&Row| row.verdict.outcome == self.outcome && row.verdict.acknowledged.is_none();
        let metrics = counted(self.primary.len() as u64, "metric");
        match (
            self.primary.iter().filter(is_such).count(),
            self.checks.iter().filter(|check| !check.passed && !check.is_accepted).count(),
        ) {
            (0, 0) => format!("{}: {metrics}", self.headline()),
            (0, failed) => format!("{}: {} failed", self.headline(), counted(failed as u64, "check")),
            (some, _) => format!("{}: {some} of {metrics}", self.headline()),
        }
    }
}
