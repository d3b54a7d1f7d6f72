//! The sections of a report: cases with their points, metrics and statistics.

use std::collections::BTreeMap;

use assay_manifest::{Address, BetterDirection, CaseId, IntervalKind, Stability, WorkloadType};
use assay_metric::MetricName;

use super::exclusions::ExcludedAttempt;
use super::load::Load;
use super::work::RequestedWork;
use crate::render::text::align_points;

/// A case with its points.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CaseSection {
    pub(crate) case_id: CaseId,
    pub(crate) workload: String,
    pub(crate) side: String,
    pub(crate) workload_type: WorkloadType,
    /// For serving: the requested work.
    pub(crate) serving: Option<RequestedWork>,
    /// For serving: what the loads say together, beyond what each of them says.
    pub(crate) across_loads: Option<String>,
    pub(crate) points: Vec<PointSection>,
}

/// A metric over the points of a case: rows with the same unit that can be compared.
pub(crate) struct MetricGroup<'a> {
    pub(crate) metric: &'a str,
    pub(crate) unit: &'a str,
    pub(crate) better: Option<BetterDirection>,
    pub(crate) rows: Vec<(&'a PointSection, &'a Row)>,
}

impl CaseSection {
    /// Returns the noun for a point of the case.
    pub(crate) fn point_word(&self) -> &'static str {
        if self.serving.is_some() { "load" } else { "point" }
    }

    /// Returns true if some point has a value of this metric.
    pub(crate) fn has_measured(&self, metric: &MetricName) -> bool {
        self.points.iter().any(|point| point.measured(metric.text).is_some())
    }

    /// Returns the rows by metric: metrics in the order in which they first appear, points in the plan's order.
    pub(crate) fn groups(&self) -> Vec<MetricGroup<'_>> {
        let mut groups: Vec<MetricGroup<'_>> = Vec::new();
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        for (point, row) in self.points.iter().flat_map(|point| point.rows.iter().map(move |row| (point, row))) {
            let place = *places.entry(&row.metric).or_insert_with(|| {
                groups.push(MetricGroup { metric: &row.metric, unit: &row.unit, better: row.better, rows: Vec::new() });
                groups.len() - 1
            });
            if let Some(group) = groups.get_mut(place) {
                group.rows.push((point, row));
            }
        }
        groups
    }
}

impl MetricGroup<'_> {
    /// Returns true if some point has a value.
    pub(crate) fn is_measured(&self) -> bool {
        self.rows.iter().any(|(_, row)| row.measured.is_ok())
    }

    /// Returns the title that the rows share: `elapsed, ms, lower is better`.
    pub(crate) fn title(&self) -> String {
        let better = self.better.map_or_else(|| "not declared".to_owned(), |better| format!("{better} is better"));
        format!("{}, {}, {better}", self.metric, self.unit)
    }

    /// Returns the medians aligned at their decimal points, padded with the given characters; a missing one is `absent`.
    pub(crate) fn medians(&self, digit: char, point: char) -> Vec<String> {
        let median = |(_, row): &(_, &Row)| row.measured.as_ref().map_or("absent", |found| &found.median_text).to_owned();
        align_points(&self.rows.iter().map(median).collect::<Vec<_>>(), digit, point)
    }
}

impl MetricStatistics {
    /// Returns the coefficient of variation in percent without its sign, for a column with the sign in its header.
    pub(crate) fn cv_cell(&self) -> String {
        let cv = self.cv.as_deref().unwrap_or("—");
        cv.trim_end_matches(" %").replace("below ", "<")
    }
}

/// A point with its metrics.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PointSection {
    /// The values that define this point, such as `size 16`; its id if it has none.
    pub(crate) label: String,
    pub(crate) planned: u32,
    pub(crate) counted: u32,
    pub(crate) excluded: u32,
    pub(crate) exclusions: Vec<ExcludedAttempt>,
    /// For serving: the load, and the outcomes of its requests.
    pub(crate) serving: Option<Load>,
    pub(crate) rows: Vec<Row>,
}

impl PointSection {
    /// Returns the row of that metric, measured or absent.
    pub(crate) fn row(&self, metric: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.metric == metric)
    }

    /// Returns the primary metrics; if none is declared primary, the first metric.
    pub(crate) fn headline_rows(&self) -> impl Iterator<Item = &Row> {
        let any_primary = self.rows.iter().any(|row| row.primary);
        let is_headline = move |(place, row): &(usize, &Row)| if any_primary { row.primary } else { *place == 0 };
        self.rows.iter().enumerate().filter(is_headline).map(|(_, row)| row)
    }

    /// Returns the statistics of that metric, if it was measured.
    pub(crate) fn measured(&self, metric: &str) -> Option<&MetricStatistics> {
        self.row(metric)?.measured.as_ref().ok()
    }
}

/// A metric at a point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub(crate) metric: String,
    /// The unit of the shown values.
    pub(crate) unit: String,
    pub(crate) better: Option<BetterDirection>,
    pub(crate) primary: bool,
    /// The statistics, or the reason why they are absent.
    pub(crate) measured: Result<MetricStatistics, String>,
}

/// A metric's statistics across the counted trials of a point.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MetricStatistics {
    pub(crate) n: u64,
    /// In the shown unit, like all values here.
    pub(crate) median: f64,
    pub(crate) median_text: String,
    /// The stored value, in the declared unit.
    pub(crate) stored: String,
    pub(crate) interval: Result<DisplayInterval, String>,
    pub(crate) mean_text: String,
    pub(crate) range_text: String,
    pub(crate) cv: Option<String>,
    /// The coefficient of variation as a share; 0 if it is unknown.
    pub(crate) spread: f64,
    pub(crate) stability: Stability,
    pub(crate) stability_reason: String,
    /// In the order in which they ran.
    pub(crate) trials: Vec<Trial>,
    pub(crate) address: Address,
    pub(crate) row_id: String,
    /// The other statistics' addresses, by name.
    pub(crate) others: Vec<(String, Address)>,
}

/// An interval's ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct DisplayInterval {
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// `[398, 431]`; if both ends would look the same, their distance from the median. Followed by `within run` if it is of one trial.
    pub(crate) text: String,
    pub(crate) level: String,
    pub(crate) method: String,
    pub(crate) kind: IntervalKind,
}

/// One trial's value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Trial {
    pub(crate) name: String,
    /// The number of the attempt, from 1.
    pub(crate) attempt: u32,
    pub(crate) value: f64,
    pub(crate) text: String,
    pub(crate) samples: u64,
    pub(crate) flagged: bool,
    pub(crate) address: Address,
}

/// Returns each trial's relative distance from the median, in the order in which they ran; empty if the median is 0.
pub(crate) fn deviations(measured: &MetricStatistics) -> Vec<f64> {
    if measured.median == 0.0 {
        return Vec::new();
    }
    measured.trials.iter().map(|trial| (trial.value - measured.median) / measured.median.abs()).collect()
}
