//! A verdict as JUnit XML, which every CI system can show: a test case for each metric of each point, and for each check.

use std::collections::BTreeMap;

use super::model::Report;
use super::model::row::{MetricOutcome, Row};
use crate::render::junit::{Case, CaseResult, Suite, document};

impl Report {
    /// Returns the verdict as JUnit XML: a suite for each workload and one for the checks. A regression is a failure of the type
    /// `regression`, unless it is acknowledged. An inconclusive metric is skipped, or is a failure of the type `inconclusive` if the
    /// rules block on it. Metrics that are only reported are skipped. A check that blocks by itself is a failure of the type `check`.
    ///
    /// Properties of a case: `ratio`, `ci_low`, `ci_high` (candidate over baseline), `p` (one-sided, for the worse), `p_adjusted` (for
    /// the family), `p_unpaired` (two-sided, of rank sums as if nothing were paired), `q` (what this look may spend), `n` (pairs),
    /// `more_pairs`, `outcome`, `primary` and `acknowledged`; of a suite: `gate`, `outcome` and `verdict`, the digest of its manifest.
    /// An absent value has no property.
    pub fn junit(&self) -> String {
        let mut suites: BTreeMap<&str, Vec<Case>> = BTreeMap::new();
        for row in self.primary.iter().chain(&self.others) {
            suites.entry(&row.workload).or_default().push(self.metric_case(row));
        }
        // A workload's name cannot contain a space.
        suites.insert("of the gate", self.gate_cases());
        let suites: Vec<_> = suites.into_iter().map(|(name, cases)| self.suite(name, cases)).collect();
        document(&format!("assay gate {}", self.gate), &suites)
    }

    fn suite<'a>(&'a self, name: &'a str, cases: Vec<Case>) -> Suite<'a> {
        let digest = self.digest.as_ref().map(|digest| ("verdict", digest.clone()));
        let outcome = [("gate", self.gate.clone()), ("outcome", self.outcome.to_string())];
        let properties = outcome.into_iter().chain(digest).collect();
        Suite { name, timestamp: self.judged_on.trim_end_matches('Z'), properties, cases }
    }

    fn metric_case(&self, row: &Row) -> Case {
        Case {
            class: format!("{}.{}", row.workload, row.point),
            name: row.metric.clone(),
            result: self.result(row),
            properties: self.numbers(row),
        }
    }

    fn result(&self, row: &Row) -> CaseResult {
        let why = [row.change_text(), row.magnitude_text().to_owned(), row.reason.clone()];
        let why: Vec<String> = why.into_iter().filter(|text| !text.is_empty()).collect();
        let message = format!("{}: {}", row.outcome.as_str(), why.join("; "));
        match row.outcome {
            _ if !row.verdict.primary => CaseResult::Skipped(format!("reported only, {message}")),
            MetricOutcome::Regressed => CaseResult::Failed("regression", message),
            MetricOutcome::Inconclusive if self.blocks_on_inconclusive => CaseResult::Failed("inconclusive", message),
            MetricOutcome::Inconclusive => CaseResult::Skipped(message),
            MetricOutcome::Acknowledged | MetricOutcome::Improved | MetricOutcome::Unchanged => CaseResult::Passed,
        }
    }

    /// Returns the numbers with all digits: a machine rounds them itself.
    fn numbers(&self, row: &Row) -> Vec<(&'static str, String)> {
        let mut numbers = vec![("outcome", row.outcome.as_str().to_owned()), ("primary", row.verdict.primary.to_string())];
        if let Some(change) = &row.verdict.change {
            numbers.push(("ratio", change.ratio.to_string()));
            numbers.extend(change.low.map(|low| ("ci_low", low.to_string())));
            numbers.extend(change.high.map(|high| ("ci_high", high.to_string())));
            numbers.push(("p", change.p_worse.to_string()));
            numbers.push(("p_adjusted", row.verdict.p_worse_adjusted.to_string()));
            numbers.extend(change.p_unpaired.map(|p| ("p_unpaired", p.to_string())));
        }
        numbers.push(("q", self.q.to_string()));
        numbers.push(("n", row.verdict.pairs.len().to_string()));
        numbers.extend(row.verdict.more_pairs.map(|more| ("more_pairs", more.to_string())));
        numbers.extend((row.outcome == MetricOutcome::Acknowledged).then(|| ("acknowledged", row.reason.clone())));
        numbers
    }

    /// Returns a case for each check, and one stating that something was judged: a file without test cases reads as success.
    fn gate_cases(&self) -> Vec<Case> {
        let inconclusive = |message: String| {
            if self.blocks_on_inconclusive { CaseResult::Failed("inconclusive", message) } else { CaseResult::Skipped(message) }
        };
        let mut cases: Vec<Case> = Vec::new();
        for check in &self.checks {
            let result = match (check.passed || check.is_accepted, check.blocks) {
                (true, _) => CaseResult::Passed,
                (false, true) => CaseResult::Failed("check", check.detail.clone()),
                (false, false) => inconclusive(check.detail.clone()),
            };
            cases.push(Case {
                class: format!("check.{}", check.name),
                name: check.scope.clone(),
                result,
                properties: check.is_accepted.then(|| ("acknowledged", check.detail.clone())).into_iter().collect(),
            });
        }
        let judged = if self.primary.is_empty() { inconclusive(self.sentence.clone()) } else { CaseResult::Passed };
        let name = "something was judged".to_owned();
        cases.push(Case { class: "gate".to_owned(), name, result: judged, properties: Vec::new() });
        cases
    }
}
