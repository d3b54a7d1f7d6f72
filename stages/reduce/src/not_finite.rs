//! The issue that results hold numbers that are NaN, infinite or too large for a double: Python prints them, and they become no rows.

use std::collections::BTreeSet;

use assay_manifest::Reason;
use assay_stage::first_names;

use crate::evidence::Trial;

/// The most names of values that are kept of a run.
const MAX_KEPT: usize = 1_000;
/// The most names that the issue states.
const MAX_NAMED: usize = 5;

/// The numbers of counted attempts that become no rows. A declared metric is none of them: its attempt does not count.
#[derive(Debug, Default)]
pub(crate) struct NotFinite {
    attempts: u64,
    paths: BTreeSet<String>,
}

impl NotFinite {
    /// Adds the attempts of one point.
    pub(crate) fn add(&mut self, trials: &[Trial<'_>]) {
        let counted = trials.iter().flatten().filter(|evidence| evidence.counts());
        for output in counted.filter_map(|evidence| evidence.output.as_ref()).filter(|output| !output.not_finite.is_empty()) {
            self.attempts = self.attempts.saturating_add(1);
            let room = MAX_KEPT.saturating_sub(self.paths.len());
            self.paths.extend(output.not_finite.iter().take(room).map(|path| path.escape_debug().to_string()));
        }
    }

    /// Returns the issue, if there is such a number.
    pub(crate) fn issue(self) -> Option<Reason> {
        let paths: Vec<String> = self.paths.into_iter().map(|path| format!("`{path}`")).collect();
        (self.attempts > 0).then(|| {
            let attempts = assay_metric::quantity(self.attempts, "counted attempt");
            let detail = format!(
                "in {attempts}, values are NaN, infinite or too large, and are in no row: {}",
                first_names(&paths, MAX_NAMED)
            );
            Reason::new("not_finite", detail)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::{Evidence, ShardAttempt};
    use crate::fixture;

    fn issue(outputs: &[(&str, bool)]) -> Option<String> {
        let planned = fixture::plan(1).trials.remove(0);
        let shard =
            |counted| ShardAttempt { collected: fixture::collected(0, counted), attempt: fixture::attempt(&planned, 0, counted) };
        let shards: Vec<ShardAttempt> = outputs.iter().map(|(_, counted)| shard(*counted)).collect();
        let trials: Vec<Trial<'_>> = outputs
            .iter()
            .zip(&shards)
            .map(|((result, _), shard)| {
                let document = format!(r#"{{"name": "n", "@parameters": {{}}, "@result": {{{result}}}}}"#);
                vec![Evidence { shard, output: assay_indicator::parse(document.as_bytes()).ok() }]
            })
            .collect();
        let mut found = NotFinite::default();
        found.add(&trials);
        found.issue().map(|issue| format!("{}: {}", issue.code, issue.detail))
    }

    #[test]
    fn numbers_that_are_not_finite_are_named_if_their_attempt_counts() {
        let nan = r#""spread": NaN, "fine": 1, "deep": {"x": [1, Infinity]}"#;
        insta::assert_snapshot!(issue(&[(nan, true), (r#""fine": 1"#, true), (nan, false)]).expect("an issue"), @"not_finite: in 1 counted attempt, values are NaN, infinite or too large, and are in no row: `deep.x`, `spread`");
        assert_eq!(issue(&[(r#""fine": 1"#, true), (nan, false)]), None);
    }
}
