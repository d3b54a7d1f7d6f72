//! Histories in a terminal: each a chart of points, and under it its changes.

use super::model::{Report, Run, Series};
use super::phrases;
use crate::render::number::significant;
use crate::render::text::counted;

/// Number of rows of a chart.
const ROWS: usize = 8;

/// The width of a chart's labels, in columns.
const LABELS: usize = 12;

/// Maximum number of series with a chart; the rest are only counted.
const MAX_SERIES: usize = 20;

/// Maximum number of runs that are named because their environment changed; the rest are only counted.
const MAX_MOVES: usize = 3;

impl Report {
    /// Returns the histories for a terminal of `width` columns, the first ones if there are many.
    pub fn terminal(&self, width: usize) -> String {
        let origin = self.origin.iter().flat_map(|origin| [origin.clone(), String::new()]);
        let shown = self.series.iter().take(MAX_SERIES).flat_map(|series| series_lines(series, width));
        let mut lines: Vec<String> = origin.chain(shown).collect();
        if let Some(more) = self.series.len().checked_sub(MAX_SERIES).filter(|more| *more > 0) {
            let by = if self.origin.is_some() { "METRIC or EVIDENCE" } else { "METRIC, --case, --point" };
            lines.push(format!("and {more} more series: name one with {by}; `--html FILE` has all"));
        }
        lines.join("\n").trim_end().to_owned()
    }
}

fn series_lines(series: &Series, width: usize) -> Vec<String> {
    let mut lines = vec![format!("{}, {}", phrases::title(series), phrases::unit(series))];
    let values: Vec<f64> = series.runs.iter().map(|run| run.value).collect();
    let marked: Vec<usize> = series.all_changes().iter().map(|change| change.index).collect();
    let moved: Vec<usize> = (0..series.runs.len()).filter(|place| series.runs[*place].environment_changed()).collect();
    lines.extend(chart(&values, [('^', &marked), ('!', &moved)], width));
    if let (Some(first), Some(last)) = (series.runs.first(), series.runs.last()) {
        let runs = counted(series.runs.len() as u64, "run");
        lines.push(format!("  {runs}: {} to {}", phrases::run_label(first), phrases::run_label(last)));
    }
    lines.extend(phrases::omission_note(series).map(|text| format!("  {text}")));
    lines.extend(series.all_changes().iter().map(|change| format!("  ^ {}", phrases::describe_change(series, change))));
    lines.extend(environment_lines(series));
    lines.extend(phrases::ambiguous_lines(series).into_iter().map(|text| format!("  ~ {}", text.replace('`', ""))));
    match &series.changes {
        Ok(_) if marked.is_empty() => lines.push("  no change of level was found".to_owned()),
        Ok(_) => {}
        Err(why) => lines.push(format!("  not searched for changes: {why}")),
    }
    lines.push(String::new());
    lines
}

/// Returns a line for each of the newest runs whose environment or pipeline's file differs from that of the run before.
fn environment_lines(series: &Series) -> Vec<String> {
    let changed = || series.runs.iter().rev().filter_map(|run| Some((run, phrases::environment_difference(run)?)));
    let line = |(run, what): (&Run, String)| format!("  ! the {what} changed with {}", phrases::run_label(run));
    let more = changed().count().saturating_sub(MAX_MOVES);
    let more =
        (more > 0).then(|| format!("  ! and {} before, in the page of `--html FILE`", counted(more as u64, "more such run")));
    changed().take(MAX_MOVES).map(line).chain(more).collect()
}

/// Returns the values as points; the newest ones if there are more values than columns; below them a line of each mark that has a
/// place there.
fn chart(values: &[f64], marks: [(char, &[usize]); 2], width: usize) -> Vec<String> {
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
    for (mark, places) in marks {
        let line: String = (from..values.len()).map(|index| if places.contains(&index) { mark } else { ' ' }).collect();
        if line.contains(mark) {
            lines.push(format!("{:LABELS$}  {}", "", line.trim_end()));
        }
    }
    if from > 0 {
        lines.push(format!("{:LABELS$}  the newest {} of {}", "", shown.len(), counted(values.len() as u64, "run")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::fixture;

    #[test]
    fn a_chart_marks_its_changes_and_shows_the_newest() {
        let values: Vec<f64> = (0..12).map(|i| if i < 6 { 1.0 } else { 2.0 }).collect();
        let lines = chart(&values, [('^', &[6]), ('!', &[])], 40);
        assert_eq!(lines.first().map(String::as_str), Some("         2.0 │      ••••••"));
        assert_eq!(lines.get(ROWS - 1).map(String::as_str), Some("         1.0 │••••••"));
        assert_eq!(lines.last().map(String::as_str), Some("                    ^"));
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        let lines = chart(&many, [('^', &[0]), ('!', &[])], 40);
        assert!(lines.iter().all(|line| line.chars().count() <= 40 && !line.contains('^')), "what is not shown is not marked");
        assert_eq!((lines.len(), lines.last().map(|line| line.trim())), (ROWS + 1, Some("the newest 26 of 100 runs")));
        assert_eq!(chart(&[5.0, 5.0], [('^', &[]), ('!', &[])], 40).len(), ROWS);
    }

    #[test]
    fn a_changed_file_of_the_pipeline_is_marked() {
        let mut series = fixture::steady();
        assert!(!series_lines(&series, 80).iter().any(|line| line.contains('!')));
        series.runs[3].pipeline_changed = true;
        let lines = series_lines(&series, 80);
        assert!(lines.contains(&format!("{:LABELS$}     !", "")), "{lines:#?}");
        let named = format!("  ! the pipeline's file changed with {}", phrases::run_label(&series.runs[3]));
        assert!(lines.contains(&named), "{lines:#?}");
        for run in &mut series.runs[4..8] {
            run.hardware_changed = true;
        }
        let lines = series_lines(&series, 80);
        let of_moves: Vec<&String> = lines.iter().filter(|line| line.starts_with("  ! ")).collect();
        assert_eq!(of_moves.len(), 4, "{lines:#?}");
        assert!(of_moves[3].contains("and 2 more such runs before"), "{lines:#?}");
    }
}
