//! Remarks explain what the cells of a table only indicate.

use assay_manifest::Stability;

use super::section::{MetricStatistics, PointSection};
use crate::render::text::{columns, fit, wrap};

/// Maximum width of a remark's line in a terminal: longer lines are hard to read.
const MAX_COLUMNS: usize = 100;

/// Maximum number of lines of a remark in a terminal.
const MAX_LINES: usize = 2;

/// The subject of a remark, those first that matter most to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RemarkKind {
    /// Requests failed.
    FailedRequests,
    /// A value is absent.
    Absent,
    /// An attempt does not count.
    Excluded,
    /// The trials do not agree; many such remarks are folded into one.
    Unstable,
    /// A quantile of few samples, or a time between tokens that came together.
    Caveat,
    /// An interval is absent.
    NoInterval,
    /// There are too few trials for a judgement of stability.
    UnknownStability,
}

/// A remark on a point, or on some of its metrics.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Remark {
    /// Its subject.
    pub(crate) kind: RemarkKind,
    /// The name of the point.
    pub(crate) point: String,
    /// The metrics that it is about; empty if it is about the point.
    pub(crate) metrics: Vec<String>,
    /// Number of metrics in the table; `None` if a remark on all of them is not summarised as one on everything.
    pub(crate) table_metrics: Option<usize>,
    /// The text. Its gist comes first, and ends at a semicolon.
    pub(crate) text: String,
    /// The spread of the trials, as a share, for remarks on unstable values; else 0.
    pub(crate) spread: f64,
}

impl Remark {
    /// Returns a remark on a point.
    pub(crate) fn for_point(kind: RemarkKind, point: &str, text: String) -> Self {
        Self { kind, point: point.to_owned(), metrics: Vec::new(), table_metrics: None, text, spread: 0.0 }
    }

    /// Returns a remark on the stability of a metric that is not stable.
    fn for_stability(point: &str, metric: String, measured: &MetricStatistics) -> Self {
        Self {
            metrics: vec![metric],
            spread: measured.spread,
            ..Self::for_point(stability_kind(measured), point, stability_text(measured))
        }
    }

    pub(super) fn is_about_all(&self) -> bool {
        self.table_metrics == Some(self.metrics.len())
    }

    /// Returns the full remark: `concurrency 64, TTFT p99: no interval, ..`.
    pub(crate) fn full_text(&self) -> String {
        match (self.is_about_all(), self.metrics.is_empty()) {
            (true, _) => format!("{}, everything: {}", self.point, self.text),
            (false, true) => format!("{}: {}", self.point, self.text),
            (false, false) => format!("{}, {}: {}", self.point, self.metrics.join(", "), self.text),
        }
    }

    pub(super) fn gist(&self) -> &str {
        self.text.split_once("; ").map_or(&self.text, |(gist, _)| gist)
    }

    /// Returns true if it differs from another in the point alone.
    pub(super) fn has_same_content(&self, other: &Self) -> bool {
        let of_same = (self.is_about_all() && other.is_about_all()) || self.metrics == other.metrics;
        of_same && self.gist() == other.gist()
    }

    /// Merges another remark on other metrics of the same point, if the gist is the same. Returns true if it was merged.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let is_alike = self.point == other.point && self.gist() == other.gist();
        if !is_alike || self.metrics.is_empty() || other.metrics.is_empty() {
            return false;
        }
        self.metrics.extend(other.metrics.iter().cloned());
        if self.text != other.text {
            self.text = self.gist().to_owned();
        }
        true
    }
}

/// Returns the kind of a remark on a value that is not stable.
pub(super) fn stability_kind(measured: &MetricStatistics) -> RemarkKind {
    if measured.stability == Stability::Unknown { RemarkKind::UnknownStability } else { RemarkKind::Unstable }
}

/// Returns the text of a remark on a value that is not stable.
pub(super) fn stability_text(measured: &MetricStatistics) -> String {
    format!("{}, {}", measured.stability, measured.stability_reason)
}

/// Returns the remarks on a point: all that its cells only indicate.
pub(crate) fn remarks(point: &PointSection) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    for row in &point.rows {
        let on_row = |kind: RemarkKind, text: String| Remark {
            metrics: vec![row.metric.clone()],
            ..Remark::for_point(kind, &point.label, text)
        };
        match &row.measured {
            Err(reason) => remarks.push(on_row(RemarkKind::Absent, format!("absent, {reason}"))),
            Ok(measured) => {
                if let Err(reason) = &measured.interval {
                    remarks.push(on_row(RemarkKind::NoInterval, format!("no interval, {reason}")));
                }
                if measured.stability != Stability::Stable {
                    remarks.push(Remark::for_stability(&point.label, row.metric.clone(), measured));
                }
            }
        }
    }
    let excluded = point.exclusions.iter();
    remarks
        .extend(excluded.map(|exclusion| Remark::for_point(RemarkKind::Excluded, &point.label, format!("excluded {exclusion}"))));
    remarks
}

/// Returns a remark as at most two lines that fit `width` columns; a longer one is cut, and ends with an ellipsis.
pub(crate) fn lines(remark: &str, width: usize) -> Vec<String> {
    let width = width.min(MAX_COLUMNS);
    let mut lines = wrap(remark, width);
    if lines.len() > MAX_LINES {
        let rest = lines.split_off(MAX_LINES - 1).join(" ");
        lines.push(fit(&rest, width));
    }
    // A word that is wider than a line keeps its line, and is cut like the rest.
    lines.into_iter().map(|line| if columns(&line) > width { fit(&line, width) } else { line }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_has_two_lines_at_most() {
        assert_eq!(lines("one two three", 100), ["one two three"]);
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("one two three four five", 7), ["one two", "three …"]);
        assert_eq!(lines(&"x".repeat(300), 200), ["x".repeat(99) + "…"], "as wide as the terminal may be");
    }
}
