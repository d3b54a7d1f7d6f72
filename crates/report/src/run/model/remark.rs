//! Remarks explain what the cells of a table only indicate. A report has each in full; a terminal shows the gist, once for all loads
//! and metrics that it applies to.

use assay_manifest::Stability;

use super::section::PointSection;
use crate::render::text::{columns, counted, fit, wrap};

/// Maximum number of remarks of a case in a terminal; the report has all of them.
const MAX_BRIEF: usize = 12;

/// Maximum number of loads or metrics that a brief remark names.
const MAX_NAMES: usize = 3;

/// Maximum width of a remark's line in a terminal: longer lines are hard to read.
const MAX_COLUMNS: usize = 100;

/// Maximum number of lines of a remark in a terminal.
const MAX_LINES: usize = 2;

/// A remark on a point, or on some of its metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    /// The name of the point.
    pub(crate) point: String,
    /// The metrics that it is about; empty if it is about the point.
    pub(crate) metrics: Vec<String>,
    /// Number of metrics in the table; `None` if a remark on all of them is not summarised as one on everything.
    pub(crate) table_metrics: Option<usize>,
    /// The text. Its gist comes first, and ends at a semicolon.
    pub(crate) text: String,
}

impl Remark {
    /// Returns a remark on a point.
    pub(crate) fn for_point(point: &str, text: String) -> Self {
        Self { point: point.to_owned(), metrics: Vec::new(), table_metrics: None, text }
    }

    fn is_about_all(&self) -> bool {
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

    fn gist(&self) -> &str {
        self.text.split_once("; ").map_or(&self.text, |(gist, _)| gist)
    }

    /// Returns true if it differs from another in the point alone.
    fn has_same_content(&self, other: &Self) -> bool {
        let of_same = (self.is_about_all() && other.is_about_all()) || self.metrics == other.metrics;
        of_same && self.gist() == other.gist()
    }

    /// Merges another remark on other metrics of the same point, if the gist is the same. Returns true if it was merged.
    fn merge(&mut self, other: &Self) -> bool {
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

/// Returns the remarks on a point: all that its cells only indicate.
pub(crate) fn remarks(point: &PointSection) -> Vec<Remark> {
    let mut remarks: Vec<Remark> = Vec::new();
    for row in &point.rows {
        let mut say = |text: String| {
            let metrics = vec![row.metric.clone()];
            remarks.push(Remark { point: point.label.clone(), metrics, table_metrics: None, text });
        };
        match &row.measured {
            Err(reason) => say(format!("absent, {reason}")),
            Ok(measured) => {
                if let Err(reason) = &measured.interval {
                    say(format!("no interval, {reason}"));
                }
                if measured.stability != Stability::Stable {
                    say(format!("{}, {}", measured.stability, measured.stability_reason));
                }
            }
        }
    }
    remarks.extend(point.exclusions.iter().map(|exclusion| Remark::for_point(&point.label, format!("excluded {exclusion}"))));
    remarks
}

/// Returns the gist of the remarks of a case with `points` points, for a terminal: one remark for several metrics or points with the
/// same gist. Further differences are left to the report. `point_word` is the noun for a point: `load`.
pub(crate) fn summarize(remarks: &[Remark], points: usize, point_word: &str) -> Vec<String> {
    let mut of_points: Vec<Remark> = Vec::new();
    for remark in remarks {
        if !of_points.iter_mut().any(|known| known.merge(remark)) {
            of_points.push(remark.clone());
        }
    }
    let mut groups: Vec<(&Remark, Vec<&Remark>)> = Vec::new();
    for remark in &of_points {
        match groups.iter_mut().find(|(known, _)| known.has_same_content(remark)) {
            Some((_, others)) => others.push(remark),
            None => groups.push((remark, Vec::new())),
        }
    }
    let more = groups.len().saturating_sub(MAX_BRIEF);
    let brief = groups.iter().take(MAX_BRIEF).map(|(remark, others)| {
        let mut at: Vec<&str> = std::iter::once(remark).chain(others).map(|remark| remark.point.as_str()).collect();
        at.dedup();
        let place = if points > 1 && at.len() == points { format!("every {point_word}") } else { names(&at) };
        let are_alike = others.iter().all(|other| other.text == remark.text);
        let text = if are_alike { &remark.text } else { remark.gist() };
        let about = match (remark.is_about_all(), remark.metrics.is_empty()) {
            (true, _) => ", everything".to_owned(),
            (false, true) => String::new(),
            (false, false) => format!(", {}", names(&remark.metrics)),
        };
        format!("{place}{about}: {text}")
    });
    brief.chain((more > 0).then(|| format!("and {}, in the report", counted(more as u64, "more remark")))).collect()
}

/// Returns the first few of some names, and the number of further ones.
fn names<S: AsRef<str>>(names: &[S]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_NAMES).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(MAX_NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
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

    fn remark(point: &str, metrics: &[&str], text: &str) -> Remark {
        let metrics = metrics.iter().map(|name| (*name).to_owned()).collect();
        Remark { point: point.to_owned(), metrics, table_metrics: Some(9), text: text.to_owned() }
    }

    fn remark_on_all(point: &str, text: &str) -> Remark {
        Remark { table_metrics: Some(2), ..remark(point, &["a", "b"], text) }
    }

    #[test]
    fn what_several_points_have_to_say_is_said_once() {
        let remarks = [
            remark_on_all("concurrency 1", "no interval, 3 samples; 5 are needed"),
            remark("concurrency 1", &["TTFT p99"], "unstable; noise: 9.64 %"),
            remark_on_all("concurrency 4", "no interval, 3 samples; 5 are needed"),
            remark("concurrency 4", &["TTFT p99"], "unstable; noise: 7 %"),
            remark("concurrency 4", &[], "5 of 9 requests failed"),
        ];
        insta::assert_snapshot!(summarize(&remarks, 2, "load").join("\n"), @r"
        every load, everything: no interval, 3 samples; 5 are needed
        every load, TTFT p99: unstable
        concurrency 4: 5 of 9 requests failed
        ");
        assert_eq!(summarize(&remarks[..1], 1, "load"), ["concurrency 1, everything: no interval, 3 samples; 5 are needed"]);
        assert_eq!(summarize(&remarks[..2], 3, "load")[1], "concurrency 1, TTFT p99: unstable; noise: 9.64 %");
    }

    #[test]
    fn what_several_metrics_have_to_say_is_said_once() {
        let of = |point: &str, metric: &str, text: &str| Remark { table_metrics: Some(2), ..remark(point, &[metric], text) };
        let remarks = [
            of("concurrency 1", "TTFT p99", "unknown, 3 trials"),
            of("concurrency 1", "E2E p99", "unknown, 3 trials; noise: 9.64 %"),
            of("concurrency 4", "E2E p99", "unknown, 3 trials; noise: 7 %"),
            of("concurrency 4", "TTFT p99", "unknown, 3 trials; noise: 8 %"),
        ];
        assert_eq!(summarize(&remarks, 2, "load"), ["every load, everything: unknown, 3 trials"]);
        assert_eq!(summarize(&remarks[..3], 2, "load")[1], "concurrency 4, E2E p99: unknown, 3 trials; noise: 7 %");
        let failed = [Remark::for_point("p", "a; x".to_owned()), Remark::for_point("p", "a; y".to_owned())];
        assert_eq!(summarize(&failed, 9, "load"), ["p: a"]);
    }

    #[test]
    fn a_long_list_is_counted() {
        let many: Vec<Remark> = (0..20).map(|number| remark("p", &["a", "b", "c", "d", "e"], &format!("r{number}"))).collect();
        let brief = summarize(&many, 1, "point");
        assert_eq!((brief[0].as_str(), brief[12].as_str()), ("p, a, b, c and 2 more: r0", "and 8 more remarks, in the report"));
        assert_eq!(brief.len(), 13);
    }

    #[test]
    fn all_of_it_is_in_a_report() {
        assert_eq!(remark_on_all("p", "x; y").full_text(), "p, everything: x; y");
        assert_eq!(remark("p", &["a", "b"], "x; y").full_text(), "p, a, b: x; y");
        assert_eq!(Remark::for_point("p", "x".to_owned()).full_text(), "p: x");
    }

    #[test]
    fn a_remark_has_two_lines_at_most() {
        assert_eq!(lines("one two three", 100), ["one two three"]);
        assert_eq!(lines("one two three", 7), ["one two", "three"]);
        assert_eq!(lines("one two three four five", 7), ["one two", "three …"]);
        assert_eq!(lines(&"x".repeat(300), 200), ["x".repeat(99) + "…"], "as wide as the terminal may be");
    }
}
