//! `assay history`: a metric from run to run, and where its level moved.

use std::path::PathBuf;

use assay_manifest::{Better, Digest, Instant};
use assay_report::{counted, significant};
use assay_stage::{Exit, Failure};
use assay_stats::change_point::{Budget, ChangePoint, Rule, Scale, change_points, newly_changed};
use serde_json::json;

use crate::commands::opened::Where;
use crate::commands::series::{Asked, Of, Series, series};
use crate::output;

/// Rows of a chart.
const ROWS: usize = 8;
/// The most series that are charted; of more, the rest is only counted.
const SHOWN: usize = 20;

/// Shows a metric from run to run with its change points. History never blocks: what changed between two days may be the machine.
#[derive(clap::Args)]
pub(crate) struct History {
    /// The metric; every primary one if left out
    #[arg(value_name = "METRIC")]
    metric: Option<String>,
    /// The case; every case if left out
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
    /// The point; every point if left out
    #[arg(long, value_name = "POINT")]
    point: Option<String>,
    /// Write what changed with the newest runs into this file, as Markdown for an issue; nothing is written where nothing did
    #[arg(long, value_name = "FILE")]
    issue: Option<PathBuf>,
    #[command(flatten)]
    place: Where,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// A series with what its history shows.
struct Seen {
    series: Series,
    /// Where the level moved, or why that is not known.
    changes: Result<Vec<ChangePoint>, String>,
    /// The change that the newest runs show.
    news: Option<ChangePoint>,
}

impl History {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let asked = Asked { metric: self.metric.as_deref(), case: self.case.as_deref(), point: self.point.as_deref() };
        let mut all = series(&self.place, &asked)?;
        all.retain(|series| self.metric.is_some() || series.primary);
        if all.is_empty() {
            let what = self.metric.as_deref().map_or_else(|| "a primary metric".to_owned(), |metric| format!("`{metric}`"));
            return Err(Failure::usage("no_history", format!("no run of the store reports {what} there"))
                .hint("`assay query 'SELECT DISTINCT benchmark_case_id, point_id, metric FROM outcomes'` lists what there is"));
        }
        let seen: Vec<Seen> = all.into_iter().map(Seen::of).collect();
        if self.json {
            output::json(&seen.iter().map(Seen::json).collect::<Vec<_>>())?;
        } else {
            seen.iter().take(SHOWN).for_each(Seen::show);
            if seen.len() > SHOWN {
                output::talk(format!(
                    "and {}: name one with METRIC, --case, --point",
                    counted((seen.len() - SHOWN) as u64, "more series")
                ));
            }
        }
        let news: Vec<&Seen> = seen.iter().filter(|seen| seen.news.is_some()).collect();
        if let Some(file) = self.issue.as_ref().filter(|_| !news.is_empty()) {
            std::fs::write(file, issue(&news)).map_err(|error| {
                Failure::environment("output", format!("cannot write `{}`", file.display())).because(&error).lasting()
            })?;
            output::talk(format!("{} changed with the newest runs: {}", counted(news.len() as u64, "metric"), file.display()));
        }
        Ok(Exit::Done)
    }
}

impl Seen {
    fn of(series: Series) -> Self {
        let values = series.values();
        let scale = if values.iter().all(|value| *value > 0.0) { Scale::Log } else { Scale::Raw };
        let seed = seed(&series);
        let changes = change_points(&values, Rule::new(scale), seed).map_err(|error| error.to_string());
        // What is old was news once: only what the newest runs show is.
        let known = changes.as_ref().ok().and_then(|changes| changes.iter().rev().find(|change| !is_new(change, &values)));
        let news = newly_changed(&values, known.map(|change| change.index), scale, Budget::default(), seed).ok().flatten();
        let news = news.filter(|change| is_new(change, &values));
        Self { series, changes, news }
    }

    fn json(&self) -> serde_json::Value {
        let series = &self.series;
        let change = |change: &ChangePoint| {
            let run = series.runs.get(change.index);
            json!({
                "run": run.map(|of| &of.run),
                "commit": run.and_then(|of| of.commit.as_ref()),
                "p": change.p,
                "before": change.before,
                "after": change.after,
                "change": change.change,
                "low": change.interval.map(|interval| interval.low),
                "high": change.interval.map(|interval| interval.high),
                "environment": environment(series, change),
            })
        };
        json!({
            "case": series.case,
            "point": series.point,
            "metric": series.metric,
            "unit": series.unit,
            "other_work": series.other_work,
            "runs": series.runs.iter().map(|of| json!({"run": of.run, "value": of.value, "commit": of.commit})).collect::<Vec<_>>(),
            "changes": self.changes.as_ref().map(|changes| changes.iter().map(change).collect::<Vec<_>>()).ok(),
            "not_searched": self.changes.as_ref().err(),
            "news": self.news.as_ref().map(change),
        })
    }

    fn show(&self) {
        let series = &self.series;
        let better = series.better.map(|better| format!(", {better} is better")).unwrap_or_default();
        output::line(format!("{} {} {}, {}{better}", series.case, series.point, series.metric, series.unit));
        let indexes: Vec<usize> = self.changes.iter().flatten().map(|change| change.index).collect();
        chart(&series.values(), &indexes, output::width()).iter().for_each(output::line);
        if let (Some(first), Some(last)) = (series.runs.first(), series.runs.last()) {
            output::line(format!("  {}: {} to {}", counted(series.runs.len() as u64, "run"), named(first), named(last)));
        }
        if series.other_work > 0 {
            output::line(format!("  {} of other work left out", counted(series.other_work as u64, "run")));
        }
        match &self.changes {
            Ok(changes) if changes.is_empty() => output::line("  no change of level was found"),
            Ok(changes) => changes.iter().for_each(|change| output::line(format!("  ^ {}", told(series, change)))),
            Err(why) => output::line(format!("  not searched for changes: {why}")),
        }
        output::line("");
    }
}

/// Whether a change lies among the newest runs: so few that a nightly that asked before could not have seen it.
fn is_new(change: &ChangePoint, values: &[f64]) -> bool {
    values.len() - change.index <= 2 * assay_stats::change_point::MIN_SIDE
}

/// The seed of permutations: what is permuted, and nothing that anybody chose.
fn seed(series: &Series) -> [u8; 32] {
    let head = format!("{} {} {}\n", series.case, series.point, series.metric);
    let runs = series.runs.iter().map(|of| format!("{} {:016x}\n", of.run, of.value.to_bits()));
    let text: String = std::iter::once(head).chain(runs).collect();
    *Digest::of(text.as_bytes()).as_bytes()
}

fn named(of: &Of) -> String {
    let date = Instant::from_unix_ns(of.started).to_seconds();
    format!("{} ({})", of.run, date.get(..10).unwrap_or(&date))
}

/// A change in words.
fn told(series: &Series, change: &ChangePoint) -> String {
    let Some(of) = series.runs.get(change.index) else { return String::new() };
    let share = change.change.map_or_else(String::new, |share| {
        let interval = change
            .interval
            .map_or_else(String::new, |interval| format!(" [{:+.1}, {:+.1}]", interval.low * 100.0, interval.high * 100.0));
        format!(", {:+.1} %{interval}{}", share * 100.0, direction(series.better, share))
    });
    let commit = of.commit.as_deref().map(|commit| format!(", commit {}", output::short(commit))).unwrap_or_default();
    let environment = environment(series, change).map(|what| format!("; {what}")).unwrap_or_default();
    let (before, after) = (significant(change.before, None), significant(change.after, None));
    format!("from {}{commit}: {before} to {after} {}{share}, p {:.4}{environment}", named(of), series.unit, change.p)
}

fn direction(better: Option<Better>, share: f64) -> &'static str {
    match better {
        Some(Better::Lower) if share > 0.0 => ", worse",
        Some(Better::Higher) if share < 0.0 => ", worse",
        Some(_) => ", better",
        None => "",
    }
}

/// What of the surroundings changed with it: then it may be no change of what is measured.
fn environment(series: &Series, change: &ChangePoint) -> Option<String> {
    let (before, after) = (series.runs.get(change.index.checked_sub(1)?)?, series.runs.get(change.index)?);
    let changed: Vec<_> = [("hardware", before.hardware != after.hardware), ("software", before.software != after.software)]
        .into_iter()
        .filter_map(|(what, differs)| differs.then_some(what))
        .collect();
    (!changed.is_empty()).then(|| format!("environment: the {} changed with that run", changed.join(" and the ")))
}

/// The values as points of a terminal, the newest of them where there are more than columns; a `^` below each change.
fn chart(values: &[f64], changes: &[usize], width: usize) -> Vec<String> {
    let labels = 12;
    let columns = width.saturating_sub(labels + 2).max(10);
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
            format!("{label:>labels$} │{}", points.trim_end())
        })
        .collect();
    let marks: String = (from..values.len()).map(|index| if changes.contains(&index) { '^' } else { ' ' }).collect();
    if marks.contains('^') {
        lines.push(format!("{:labels$}  {}", "", marks.trim_end()));
    }
    lines
}

/// What changed, for an issue.
fn issue(news: &[&Seen]) -> String {
    let mut lines = vec![
        "The level of these metrics moved with the newest runs. History never blocks: a paired run tells whether it is the \
                          change or the machine."
            .to_owned(),
        String::new(),
    ];
    for seen in news {
        let Some(change) = &seen.news else { continue };
        let what = assay_report::escape_markdown(&seen.series.in_words());
        lines.push(format!("- {what}: {}", assay_report::escape_markdown(&told(&seen.series, change))));
    }
    lines.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(values: &[f64], hardware: impl Fn(usize) -> &'static str) -> Series {
        let of = |(place, value): (usize, &f64)| Of::made_up(&format!("run-{place}"), *value, hardware(place));
        Series {
            case: "sort.local.default".to_owned(),
            point: "default".to_owned(),
            metric: "latency_ms".to_owned(),
            unit: "ms".to_owned(),
            better: Some(Better::Lower),
            primary: true,
            runs: values.iter().enumerate().map(of).collect(),
            other_work: 0,
        }
    }

    /// Thirty runs with a ripple of half a percent, a tenth slower from `step` on.
    fn stepped(step: usize) -> Vec<f64> {
        (0..30).map(|i| (1.0 + 0.005 * ((i * 7 % 5) as f64 - 2.0)) * if i < step { 100.0 } else { 110.0 }).collect()
    }

    #[test]
    fn a_step_is_placed_told_and_charged_to_the_environment_where_that_changed_too() {
        let seen = Seen::of(series(&stepped(15), |_| "a"));
        let changes = seen.changes.as_ref().expect("searched");
        assert_eq!(changes.iter().map(|change| change.index).collect::<Vec<_>>(), [15]);
        let told = |seen: &Seen| super::told(&seen.series, &seen.changes.as_ref().expect("searched")[0]);
        let text = told(&seen);
        assert!(
            text.starts_with("from run-15 (1970-01-01): 100") && text.contains("worse") && !text.contains("environment"),
            "{text}"
        );
        assert!(seen.news.is_none(), "half of the history has seen it");
        let moved = Seen::of(series(&stepped(15), |place| if place < 15 { "a" } else { "b" }));
        assert!(told(&moved).ends_with("environment: the hardware changed with that run"), "{}", told(&moved));
    }

    #[test]
    fn what_the_newest_runs_show_is_news() {
        let seen = Seen::of(series(&stepped(24), |_| "a"));
        assert_eq!(seen.news.map(|change| change.index), Some(24));
        assert!(issue(&[&seen]).contains("run"), "{}", issue(&[&seen]));
        assert!(Seen::of(series(&stepped(30), |_| "a")).news.is_none());
    }

    #[test]
    fn a_chart_marks_its_changes_and_shows_the_newest() {
        let values: Vec<f64> = (0..12).map(|i| if i < 6 { 1.0 } else { 2.0 }).collect();
        let lines = chart(&values, &[6], 40);
        assert_eq!(lines.first().map(String::as_str), Some("         2.0 │      ••••••"));
        assert_eq!(lines.get(ROWS - 1).map(String::as_str), Some("         1.0 │••••••"));
        assert_eq!(lines.last().map(String::as_str), Some("                    ^"));
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        let lines = chart(&many, &[0], 40);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 40) && lines.len() == ROWS,
            "a change that is not shown is not marked"
        );
        assert_eq!(chart(&[5.0, 5.0], &[], 40).len(), ROWS);
    }
}
