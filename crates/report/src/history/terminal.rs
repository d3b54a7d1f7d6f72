//! Histories in a terminal: each a chart of points, and under it its changes.

use super::model::{Report, Series};
use super::phrases;
use crate::render::number::significant;
use crate::render::text::counted;

/// Number of rows of a chart.
const ROWS: usize = 8;

/// The width of a chart's labels, in columns.
const LABELS: usize = 12;

/// Maximum number of series with a chart; the rest are only counted.
const MAX_SERIES: usize = 20;

impl Report {
    /// Returns the histories for a terminal of `width` columns, the first ones if there are many.
    pub fn terminal(&self, width: usize) -> String {
        let mut lines: Vec<String> = self.series.iter().take(MAX_SERIES).flat_map(|series| series_lines(series, width)).collect();
        if let Some(more) = self.series.len().checked_sub(MAX_SERIES).filter(|more| *more > 0) {
            lines.push(format!("and {more} more series: name one with METRIC, --case, --point; `--html FILE` has all"));
        }
        lines.join("\n").trim_end().to_owned()
    }
}

fn series_lines(series: &Series, width: usize) -> Vec<String> {
    let mut lines =
        vec![format!("{} {} {} by {}, {}", series.case, series.point, series.metric, series.pipeline, phrases::unit(series))];
    let values: Vec<f64> = series.runs.iter().map(|run| run.value).collect();
    let marked: Vec<usize> = series.all_changes().iter().map(|change| change.index).collect();
    lines.extend(chart(&values, &marked, width));
    if let (Some(first), Some(last)) = (series.runs.first(), series.runs.last()) {
        let runs = counted(series.runs.len() as u64, "run");
        lines.push(format!("  {runs}: {} to {}", phrases::run_label(first), phrases::run_label(last)));
    }
    lines.extend(phrases::omission_note(series).map(|text| format!("  {text}")));
    lines.extend(series.all_changes().iter().map(|change| format!("  ^ {}", phrases::describe_change(series, change))));
    lines.extend(phrases::ambiguous_lines(series).into_iter().map(|text| format!("  ~ {}", text.replace('`', ""))));
    match &series.changes {
        Ok(_) if marked.is_empty() => lines.push("  no change of level was found".to_owned()),
        Ok(_) => {}
        Err(why) => lines.push(format!("  not searched for changes: {why}")),
    }
    lines.push(String::new());
    lines
}

/// Returns the values as points; the newest ones if there are more values than columns; a `^` below each change.
fn chart(values: &[f64], changes: &[usize], width: usize) -> Vec<String> {
    let columns = width.saturating_sub(LABELS + 2).max(10);
    let from = values.len().saturating_sub(columns);
    let shown = values.get(from..).unwrap_or_default();
    let (low, high) =
        shown.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    let row =
        |value: f64| if high > low { ((high - value) / (high - low) * (ROWS - 1) as f64).round() as usize } else { ROWS / 2 };
    let mut lines: Vec<String> = (0..ROWS)
        .map(|line| {
            let label = match line {
                0 => significant(high, Some((low, high))),
                line if line == ROWS - 1 && high > low => significant(low, Some((low, high))),
                _ => String::new(),
            };
            let points: String = shown.iter().map(|value| if row(*value) == line { '•' } else { ' ' }).collect();
            format!("{label:>LABELS$} │{}", points.trim_end())
        })
        .collect();
    let marks: String = (from..values.len()).map(|index| if changes.contains(&index) { '^' } else { ' ' }).collect();
    if marks.contains('^') {
        lines.push(format!("{:LABELS$}  {}", "", marks.trim_end()));
    }
    if from > 0 {
        lines.push(format!("{:LABELS$}  the newest {} of {}", "", shown.len(), counted(values.len() as u64, "run")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_marks_its_changes_and_shows_the_newest() {
        let values: Vec<f64> = (0..12).map(|i| if i < 6 { 1.0 } else { 2.0 }).collect();
        let lines = chart(&values, &[6], 40);
        assert_eq!(lines.first().map(String::as_str), Some("         2.0 │      ••••••"));
        assert_eq!(lines.get(ROWS - 1).map(String::as_str), Some("         1.0 │••••••"));
        assert_eq!(lines.last().map(String::as_str), Some("                    ^"));
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        let lines = chart(&many, &[0], 40);
        assert!(lines.iter().all(|line| line.chars().count() <= 40 && !line.contains('^')), "what is not shown is not marked");
        assert_eq!((lines.len(), lines.last().map(|line| line.trim())), (ROWS + 1, Some("the newest 26 of 100 runs")));
        assert_eq!(chart(&[5.0, 5.0], &[], 40).len(), ROWS);
    }
}
