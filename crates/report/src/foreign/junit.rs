//! A verdict over foreign evidence for CI systems: as JUnit XML, and as the body of a check run of GitHub's.

use assay_manifest::{ForeignMetricVerdict, ForeignVerdict, Outcome};
use serde_json::{Value, json};

use super::ForeignReport;
use super::phrases::{cells, labels};
use crate::render::junit::{Case, CaseResult, Suite, document};
use crate::render::text::{clean, counted};

/// GitHub's limit of a summary, in characters. A text of at most as many bytes is always within it.
const MAX_SUMMARY: usize = 65_535;

impl ForeignReport<'_> {
    /// Returns the verdict as JUnit XML: a test case for each metric that was judged, and one that fails or is skipped if none was. A regression is a
    /// failure of the type `regression`, and an inconclusive metric is one of the type `inconclusive` if the rules block on it; of an advisory verdict
    /// both are skipped. Metrics that are only reported are skipped.
    ///
    /// The class of a case is the labels of its number; its properties are `unit`, `better`, `outcome`, `primary`, `ratio`, `ci_low`, `ci_high` (candidate over
    /// baseline), `p` (one-sided, for the worse) and `p_adjusted`. An absent value has no property.
    pub fn junit(&self) -> String {
        let verdict = self.verdict;
        let metrics = self.metrics(true).chain(self.metrics(false));
        let judged = match self.metrics(true).next() {
            Some(_) => CaseResult::Passed,
            None => self.inconclusive("no metric was judged".to_owned()),
        };
        let judged =
            Case { class: "gate".to_owned(), name: "something was judged".to_owned(), result: judged, properties: Vec::new() };
        let judged_on = verdict.judged_on.to_seconds();
        let properties = [
            ("about", ForeignVerdict::ABOUT.to_owned()),
            ("gate", verdict.gate.to_string()),
            ("outcome", verdict.outcome.to_string()),
            ("advisory", verdict.advisory.to_string()),
            ("verdict", self.digest.to_string()),
        ];
        let suite = Suite {
            name: "foreign evidence",
            timestamp: judged_on.trim_end_matches('Z'),
            properties: properties.into(),
            cases: metrics.map(|metric| self.case(metric)).chain([judged]).collect(),
        };
        document(&format!("assay gate {}", verdict.gate), &[suite])
    }

    /// Returns the body of a check run, for `POST /repos/{owner}/{repo}/check-runs`; the caller adds `head_sha`. An advisory verdict is `neutral` unless
    /// nothing is worse.
    pub fn check_run(&self) -> Value {
        let verdict = self.verdict;
        let conclusion = match (verdict.outcome, verdict.blocks) {
            (Outcome::Regressed, true) => "failure",
            (Outcome::Inconclusive, true) => "action_required",
            (Outcome::Regressed | Outcome::Inconclusive, false) => "neutral",
            (Outcome::Improved | Outcome::Unchanged, _) => "success",
        };
        let such = self.metrics(true).filter(|metric| metric.outcome == verdict.outcome).count();
        let metrics = counted(self.metrics(true).count() as u64, "metric");
        json!({
            "name": format!("assay gate over foreign evidence: {}", verdict.gate),
            "status": "completed",
            "conclusion": conclusion,
            "output": {
                "title": format!("{}, over foreign evidence: {such} of {metrics}", self.headline()),
                "summary": self.markdown(MAX_SUMMARY),
            },
        })
    }

    fn case(&self, metric: &ForeignMetricVerdict) -> Case {
        let number = &metric.number;
        let [_, _, _, _, _, _, change, interval, ..] = cells(metric);
        let why = metric.reason.as_ref().map_or_else(String::new, |reason| format!("; {}", clean(&reason.detail)));
        let message = format!("{}: {change} {interval}{why}", metric.outcome);
        let result = match metric.outcome {
            _ if !metric.primary => CaseResult::Skipped(format!("reported only, {message}")),
            Outcome::Regressed if !self.verdict.advisory => CaseResult::Failed("regression", message),
            Outcome::Regressed => CaseResult::Skipped(format!("advisory, {message}")),
            Outcome::Inconclusive => self.inconclusive(message),
            Outcome::Improved | Outcome::Unchanged => CaseResult::Passed,
        };
        let mut properties = vec![
            ("unit", clean(&number.unit)),
            ("better", metric.better.to_string()),
            ("outcome", metric.outcome.to_string()),
            ("primary", metric.primary.to_string()),
        ];
        if let Some(change) = &metric.change {
            properties.push(("ratio", change.ratio.to_string()));
            properties.extend(change.low.map(|low| ("ci_low", low.to_string())));
            properties.extend(change.high.map(|high| ("ci_high", high.to_string())));
            properties.push(("p", change.p_worse.to_string()));
            properties.push(("p_adjusted", metric.p_worse_adjusted.to_string()));
        }
        Case {
            class: labels(number),
            name: format!("{} {}", clean(&number.metric), clean(&number.statistic)),
            result,
            properties,
        }
    }

    fn inconclusive(&self, message: String) -> CaseResult {
        if self.verdict.rules.block_on_inconclusive && !self.verdict.advisory {
            CaseResult::Failed("inconclusive", message)
        } else {
            CaseResult::Skipped(message)
        }
    }
}
