//! Histories in a terminal: each a chart of points, and under it its changes.

use super::model::{Report, Run, Series};
use super::phrases;
use crate::render::number::{Format, significant};
use crate::render::text::counted;

/// Number of rows of a chart.
const ROWS: usize = 8;

/// The width of a chart's labels, in columns.
const LABELS: usize = 12;

/// The most digits that are added to a label to tell it from that of the other end.
const MAX_DIGITS: i32 = 12;

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
    let [top, bottom] = labels(low, high);
    let mut lines: Vec<String> = (0..ROWS)
        .map(|line| {
            let label = match line {
                0 => top.as_str(),
                line if line == ROWS - 1 => bottom.as_str(),
                _ => "",
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

/// Returns the labels of both ends of the axis, with as many digits as tell them apart. If a label has no room for so many, or if all values are equal,
/// the lower end has none.
fn labels(low: f64, high: f64) -> [String; 2] {
    let ends = Some((low, high));
    let finer = |digits: i32| {
        [high, low].map(|value| match digits {
            0 => significant(value, ends),
            _ => Format::new(value, ends).finer_by(digits).show(value),
        })
    };
    let is_shown =
        |[top, bottom]: &[String; 2]| top != bottom && [top, bottom].iter().all(|label| label.chars().count() <= LABELS);
    let differing = (0..=MAX_DIGITS).map(finer).find(is_shown).filter(|_| high > low);
    differing.unwrap_or_else(|| [significant(high, ends), String::new()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::fixture;

    #[test]
    fn the_ends_of_an_axis_have_labels_that_differ_or_one_alone() {
        let ends = |low, high| labels(low, high).map(|label| label.trim().to_owned());
        assert_eq!(ends(1.0, 2.0), ["2.0", "1.0"]);
        assert_eq!(ends(1_000.1, 1_000.2), ["1000.2", "1000.1"]);
        assert_eq!(ends(10.000_4, 10.001), ["10.001", "10.000"]);
        assert_eq!(ends(21_681.8, 21_681.9), ["21,681.9", "21,681.8"]);
        assert_eq!(ends(7.0, 7.0), ["7.00", ""]);
        assert_eq!(ends(1e12, 1.000_000_1e12)[1], "");
        assert_eq!(ends(1.0, 1.0 + 1e-13)[1], "", "no label has room for so many digits");
        for (low, high) in [(5.0, 5.004), (0.1, 0.100_01), (-3.0, -2.999_9), (99_999.0, 100_000.0)] {
            let [top, bottom] = labels(low, high);
            assert!(top != bottom && top.len() <= LABELS, "{top} {bottom}");
        }
    }

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
