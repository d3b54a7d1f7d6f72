//! Remarks explain what the cells of a table only indicate.

use assay_manifest::{IntervalKind, Stability};

use super::section::{MetricStatistics, PointSection};
use crate::render::text::{columns, fit, wrap};

/// Maximum width of a remark's line in a terminal: longer lines are hard to read.
const MAX_COLUMNS: usize = 100;

/// Maximum number of lines of a remark on the first screen.
pub(crate) const MAX_LINES: usize = 3;

/// The subject of a remark, those first that matter most to a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RemarkKind {
    /// Requests failed.
    FailedRequests,
    /// The endpoint's counts of tokens differ from those of the client.
    TokenCounts,
    /// A value is absent.
    Absent,
    /// An attempt does not count, and its trial has no other that counts.
    Excluded,
    /// The rules of a scenario, with each that is not met.
    Scenario,
    /// The trials do not agree; many such remarks are folded into one.
    Unstable,
    /// A quantile of few samples, a time between tokens that came together, or a cache that was not cold.
    Caveat,
    /// An interval is absent.
    NoInterval,
    /// There are too few trials for a judgement of stability.
    UnknownStability,
    /// An attempt does not count, and its trial counts with a later one.
    Repeated,
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
            (true, _) => format!("{}, every metric: {}", self.point, self.text),
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
    let of_unknown = if measured.stability == Stability::Unknown { "stability " } else { "" };
    format!("{of_unknown}{}, {}", measured.stability, measured.stability_reason)
}

/// Returns true if the intervals of a point are within its run.
pub(crate) fn is_within_run(point: &PointSection) -> bool {
    let mut ends = point.rows.iter().filter_map(|row| row.measured.as_ref().ok()?.interval.as_ref().ok());
    ends.any(|ends| ends.kind == IntervalKind::WithinRun)
}

/// Returns the remark on a point whose intervals are within its run; `None` if they are between trials.
pub(super) fn within_run(point: &PointSection) -> Option<Remark> {
    is_within_run(point).then(|| {
        let text = "intervals are within run, of one trial, and do not hold the variation from run to run";
        Remark::for_point(RemarkKind::Caveat, &point.label, text.to_owned())
    })
}

/// Returns the remarks on the metrics of a point: all that their cells only indicate.
pub(crate) fn remarks(point: &PointSection) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = within_run(point).into_iter().collect();
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
    remarks
}

/// Returns a remark as at most `limit` lines that fit `width` columns. A longer one ends at the last clause that fits; if not even the
/// first does, it is cut, and ends with an ellipsis.
pub(crate) fn lines(remark: &str, width: usize, limit: usize) -> Vec<String> {
    let fitting = |text: &str| Some(all_lines(text, width)).filter(|lines| lines.len() <= limit);
    let shorter = clause_ends(remark).into_iter().rev().find_map(|end| fitting(remark.get(..end)?));
    if let Some(lines) = fitting(remark).or(shorter) {
        return lines;
    }
    let width = width.min(MAX_COLUMNS);
    let mut lines = wrap(remark, width);
    if lines.len() > limit {
        let rest = lines.split_off(limit.saturating_sub(1)).join(" ");
        lines.push(rest);
    }
    lines.iter().map(|line| fit(line, width)).collect()
}

/// Returns a remark as lines that fit `width` columns. A word that is wider than a line is broken.
pub(crate) fn all_lines(remark: &str, width: usize) -> Vec<String> {
    let width = width.min(MAX_COLUMNS);
    wrap(remark, width).iter().flat_map(|line| break_line(line, width)).collect()
}

/// Returns the clauses of a remark, which are listed where all of it is shown: its parts between semicolons.
pub(crate) fn clauses(remark: &str) -> Vec<&str> {
    let mut begin = 0;
    let ends = clause_ends(remark).into_iter().chain([remark.len()]);
    let clauses = ends.filter_map(|end| remark.get(std::mem::replace(&mut begin, end + 1)..end).map(str::trim));
    clauses.filter(|clause| !clause.is_empty()).collect()
}

/// Breaks a line, which may be a single long word, into pieces of at most `width` columns.
fn break_line(line: &str, width: usize) -> Vec<String> {
    let mut pieces = vec![String::new()];
    for character in line.chars() {
        if let Some(piece) = pieces.last_mut() {
            piece.push(character);
            if columns(piece) > width {
                piece.pop();
                pieces.push(character.to_string());
            }
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Returns the places at which a text may end without its last clauses: at semicolons outside of parentheses and of code.
fn clause_ends(text: &str) -> Vec<usize> {
    let (mut ends, mut depth, mut is_code) = (Vec::new(), 0_usize, false);
    for (place, character) in text.char_indices() {
        match character {
            '`' => is_code = !is_code,
            '(' if !is_code => depth += 1,
            ')' if !is_code => depth = depth.saturating_sub(1),
            ';' if !is_code && depth == 0 => ends.push(place),
            _ => {}
        }
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remark_ends_at_a_clause_if_it_is_too_long() {
        assert_eq!(lines("one two three", 100, 2), ["one two three"]);
        assert_eq!(lines("one two three", 7, 2), ["one two", "three"]);
        assert_eq!(lines("one two three four five", 7, 2), ["one two", "three …"]);
        assert_eq!(lines("one; two; three", 9, 1), ["one; two"]);
        assert_eq!(lines("one; two; three", 9, 2), ["one; two;", "three"]);
        assert_eq!(lines("one (a; b); two; three", 12, 1), ["one (a; b)"], "no clause ends within parentheses");
        assert_eq!(lines("one `a; b`; two; three", 12, 1), ["one `a; b`"], "or within code");
        assert_eq!(lines("one two; three", 5, 1), ["one …"], "no clause fits");
        assert_eq!(lines(&"x".repeat(300), 200, 2), ["x".repeat(99) + "…"], "as wide as the terminal may be");
    }

    #[test]
    fn clauses_are_apart_at_semicolons_outside_of_parentheses() {
        assert_eq!(clauses("one (a; b); `two; 2`; three;"), ["one (a; b)", "`two; 2`", "three"]);
        assert_eq!(clauses("one"), ["one"]);
        assert!(clauses("").is_empty());
    }

    #[test]
    fn nothing_of_a_remark_is_cut_where_all_of_it_is_shown() {
        assert_eq!(all_lines("one two three four five", 7), ["one two", "three", "four", "five"]);
        assert_eq!(all_lines("abcdefghi j", 4), ["abcd", "efgh", "i", "j"]);
        assert_eq!(all_lines(&"x".repeat(300), 200).iter().map(String::len).sum::<usize>(), 300);
    }
}
