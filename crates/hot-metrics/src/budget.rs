//! The budget of series, which is checked before anything is sent.

use std::collections::BTreeSet;

use assay_spec::HotLabel;

use crate::batch::Batch;
use crate::error::{Error, Result};

/// Refuses a batch that would exceed the budget. `active` is the number of active series of other runs, if they were counted.
pub fn check_budget(batch: &Batch, active: Option<u64>, max: u64) -> Result<()> {
    let series = batch.series();
    if series.saturating_add(active.unwrap_or(0)) <= max {
        return Ok(());
    }
    let samples = || batch.gauges.values().flat_map(|gauge| &gauge.samples);
    let values = |label: &HotLabel| samples().filter_map(|sample| sample.labels.get(label)).collect::<BTreeSet<_>>().len() as u64;
    // Of labels with equally many values, the first in their order.
    let counted = HotLabel::ALL.into_iter().rev().map(|label| (values(&label), label));
    let (values, label) = counted.max_by_key(|(values, _)| *values).unwrap_or((0, HotLabel::RunId));
    Err(Error::Budget { series, active, max, label, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    use assay_failure::ErrorCode;

    use crate::batch::tests::batch;

    #[test]
    fn the_budget_names_the_label_that_makes_the_most_series() {
        let rows: Vec<_> = (0..6).map(|index| (index.to_string(), if index < 2 { "a" } else { "b" })).collect();
        let labels: Vec<[(HotLabel, &str); 2]> = rows
            .iter()
            .map(|(bucket, case)| [(HotLabel::ConcurrencyBucket, bucket.as_str()), (HotLabel::BenchmarkCaseId, *case)])
            .collect();
        let samples: Vec<_> = labels.iter().map(|labels| ("assay_x", labels.as_slice(), 1.0)).collect();
        let six = batch(&samples);
        check_budget(&six, None, 6).expect("as many as allowed");
        let refused = |active, max| check_budget(&six, active, max).expect_err("refused");
        assert_eq!(refused(None, 5).code(), ErrorCode::SeriesBudget);
        insta::assert_snapshot!(refused(None, 5), @"the run has 6 series, and at most 5 may be active; the label `concurrency_bucket` makes the most of them, with 6 values");
        insta::assert_snapshot!(refused(Some(95), 100), @"the run has 6 series and the receiver 95 active ones of other runs, and at most 100 may be active; the label `concurrency_bucket` makes the most of them, with 6 values");
        assert_eq!(refused(Some(u64::MAX), 7).code(), ErrorCode::SeriesBudget, "no count is too large to be added");
    }
}
