//! The failed requests of a point by outcome and status code, each with the error of the first of them.

use std::collections::BTreeMap;

use assay_manifest::{Count, FailedRequests, ServingPoint};
use assay_record::Outcome;
use assay_warehouse::records::{RecordColumn as Column, RecordError};

use super::trial::{RowGroupSpan, ScannedTrial, in_parallel};

/// The columns that are read of a part of a file with failed requests.
const COLUMNS: [Column; 4] = [Column::GlobalIndex, Column::Outcome, Column::HttpStatus, Column::Error];

/// Failed requests by outcome and status code.
type Failures = BTreeMap<(Outcome, Option<u16>), FailureTally>;

/// Failed requests with the same outcome and status code. Every part adds up in any order.
#[derive(Debug, Default)]
struct FailureTally {
    count: u64,
    /// The error of the first request that has one, after the request's index.
    first: Option<(i64, String)>,
}

impl FailureTally {
    fn add(&mut self, index: i64, error: Option<&str>) {
        self.count += 1;
        if let Some(error) = error.filter(|_| self.first.as_ref().is_none_or(|(first, _)| index < *first)) {
            self.first = Some((index, error.to_owned()));
        }
    }

    fn merge(&mut self, other: Self) {
        self.count += other.count;
        let is_earlier = |(index, _): &(i64, String)| self.first.as_ref().is_none_or(|(first, _)| index < first);
        if other.first.as_ref().is_some_and(is_earlier) {
            self.first = other.first;
        }
    }
}

/// Returns the failed requests of the measured phases of some trials, the most frequent kinds first. Parts of the records without
/// failed requests are not read.
pub(super) fn failures(trials: &[ScannedTrial<'_>], threads: usize) -> Result<Vec<FailedRequests>, RecordError> {
    let mut of_point = Failures::new();
    for scanned in trials {
        let has_failed = |span: &&RowGroupSpan<'_>| span.measured.count() > span.ok.count();
        let spans: Vec<&RowGroupSpan<'_>> = scanned.row_groups.iter().filter(has_failed).collect();
        let mut of_trial = Failures::new();
        for of_span in in_parallel(threads, &spans, |span| failures_of_span(span))? {
            for (kind, tally) in of_span {
                of_trial.entry(kind).or_default().merge(tally);
            }
        }
        for (kind, tally) in of_trial {
            let known = of_point.entry(kind).or_default();
            known.count += tally.count;
            // The message of an earlier trial stays.
            known.first = known.first.take().or(tally.first);
        }
    }
    let mut kinds: Vec<_> = of_point.into_iter().collect();
    kinds.sort_by_key(|(_, tally)| std::cmp::Reverse(tally.count));
    kinds.truncate(ServingPoint::MAX_FAILURES);
    let listed = |((outcome, http_status), tally): ((Outcome, Option<u16>), FailureTally)| FailedRequests {
        outcome: outcome.to_string(),
        http_status,
        message: tally.first.map(|(_, error)| error),
        count: Count(tally.count),
    };
    Ok(kinds.into_iter().map(listed).collect())
}

fn failures_of_span(span: &RowGroupSpan<'_>) -> Result<Failures, RecordError> {
    let mut failures = Failures::new();
    span.each(&COLUMNS, |batch, before| {
        let outcomes: Vec<Outcome> = batch.words(Column::Outcome)?;
        let (indices, statuses) = (batch.ints(Column::GlobalIndex)?, batch.ints(Column::HttpStatus)?);
        for (row, outcome) in outcomes.into_iter().enumerate() {
            if span.measured.get(before + row) && outcome.is_failure() {
                let status = statuses.get(row).and_then(|status| u16::try_from(status).ok());
                let index = indices.get(row).unwrap_or(i64::MAX);
                failures.entry((outcome, status)).or_default().add(index, batch.error(row)?);
            }
        }
        Ok(())
    })?;
    Ok(failures)
}
