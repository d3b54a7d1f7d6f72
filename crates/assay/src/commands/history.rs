//! `assay history`: shows a metric from run to run, and its change points.

use std::path::{Path, PathBuf};

use assay_manifest::{Address, Digest, Instant};
use assay_report::counted;
use assay_report::history::{self, Subject};
use assay_runs::{LeftOutRun, RunValue, Series, SeriesFilter, SeriesReading, named_store, read_series};
use assay_stage::{ErrorCode, Exit, Failure};
use assay_stats::change_point::{
    self, AmbiguousPart, Budget, ChangePoint, ChangePointError, DEFAULT_LEVEL, Rule, Scale, WINDOW, replay_reports,
};

use crate::commands::foreign_history::{self, ForeignHistoryRequest};
use crate::commands::query::{left_out_document, report_fetched, report_left_out};
use crate::commands::store_options::StoreOptions;
use crate::output;

/// The number of runs for which a change is reported as new, so that the next night makes up for one without a report.
const NEWEST: usize = 3;

/// Show a metric over all runs with its change points. History never blocks: a change between two days may come from the machine.
#[derive(clap::Args)]
pub(crate) struct History {
    /// The metric [default: every primary metric]
    #[arg(value_name = "METRIC")]
    metric: Option<String>,
    /// With `--foreign`: only these pieces of evidence. A name, a beginning of names with a `*`, or a digest
    #[arg(value_name = "EVIDENCE", requires = "foreign")]
    evidence: Vec<String>,
    /// Show a metric of another tool over the foreign evidence of the store (`assay import results`), such as `vllm.ttft` or `vllm.ttft_p99`;
    /// without METRIC, list the evidence and its metrics. Never joined with runs
    #[arg(long, conflicts_with_all = ["case", "point", "issue", "no_cache"])]
    foreign: bool,
    /// The case [default: every case]
    #[arg(long, value_name = "CASE")]
    case: Option<String>,
    /// The point [default: every point]
    #[arg(long, value_name = "POINT")]
    point: Option<String>,
    /// Write the histories to this file, as an HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write new changes of the newest runs to this file, as Markdown for an issue; if there are none, an existing issue file is
    /// removed
    #[arg(long, value_name = "FILE")]
    issue: Option<PathBuf>,
    /// Fail if a run or a piece of evidence has to be left out because its signer is unknown or it does not verify
    #[arg(long)]
    strict: bool,
    /// Verify every run and read every file again, also those that this account has read before and that have not changed
    #[arg(long)]
    no_cache: bool,
    #[command(flatten)]
    place: StoreOptions,
    /// Print the result as one JSON document
    #[arg(long)]
    json: bool,
}

impl History {
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        if self.foreign {
            return foreign_history::run(&ForeignHistoryRequest {
                words: self.metric.into_iter().chain(self.evidence).collect(),
                place: self.place.runs(),
                strict: self.strict,
                html: self.html,
                json: self.json,
            });
        }
        let asked = SeriesFilter { metric: self.metric.as_deref(), case: self.case.as_deref(), point: self.point.as_deref() };
        let SeriesReading { series: mut all, fetched, left_out, is_established } =
            read_series(&self.place.runs(), &asked, !self.no_cache)?;
        if let Some(first) = left_out.first().filter(|_| self.strict) {
            return Err(first.refusal().hint("without `--strict`, the run is left out by name"));
        }
        report_left_out(&left_out);
        report_fetched(fetched);
        all.retain(|series| self.metric.is_some() || series.primary);
        if all.is_empty() {
            let what = self.metric.as_deref().map_or_else(|| "a primary metric".to_owned(), |metric| format!("`{metric}`"));
            return Err(Failure::new(ErrorCode::NoHistory, format!("no run of the store reports {what} there"))
                .hint("`assay query 'SELECT DISTINCT benchmark_case_id, point_id, metric FROM outcomes'` lists what there is"));
        }
        let searched: Vec<history::Series> = all.iter().map(search).collect();
        let uri = self.place.runs().store_uri()?;
        let inputs = history::Inputs { series: &searched, level: DEFAULT_LEVEL, store: named_store(&uri), origin: None };
        self.tell(&searched, &history::Report::build(&inputs), &left_out)?;
        Ok(output::established(is_established))
    }

    fn tell(&self, searched: &[history::Series], report: &history::Report, left_out: &[LeftOutRun]) -> Result<(), Failure> {
        if self.json {
            let document = |series: &history::Series| {
                let mut document = series.document();
                document["left_out"] = left_out_document(left_out);
                document
            };
            output::json(&searched.iter().map(document).collect::<Vec<_>>())?;
        } else {
            output::report(report.terminal(output::width()));
        }
        if let Some(file) = &self.html {
            write(file, &report.html())?;
            output::diagnostic(format!("wrote the history to {}", file.display()));
        }
        if let Some(file) = &self.issue {
            write_issue(file, report)?;
        }
        Ok(())
    }
}

/// Writes or removes the file of an issue. An old issue left in place would be posted again if there is none now. A file that is
/// no issue is the user's.
fn write_issue(file: &Path, report: &history::Report) -> Result<(), Failure> {
    if std::fs::read_to_string(file)
        .map_or_else(|_| file.exists(), |there| !there.is_empty() && !history::Report::is_issue(&there))
    {
        let message = format!("`{}` is there and no issue that this wrote, so it was left as it is", file.display());
        return Err(Failure::new(ErrorCode::FileDiffers, message).hint("name another file"));
    }
    let Some(issue) = report.issue() else {
        return match std::fs::remove_file(file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(not_written(file, &error)),
            _ => {
                output::diagnostic("the newest runs show nothing new: no issue");
                Ok(())
            }
        };
    };
    write(file, &issue)?;
    let count = counted(report.count_newly_changed() as u64, "metric");
    output::diagnostic(format!("the newest runs show a change of {count}: {}", file.display()));
    Ok(())
}

fn not_written(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(ErrorCode::Output, format!("cannot write `{}`", file.display())).because(error).lasting()
}

pub(super) fn write(file: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(file, text).map_err(|error| not_written(file, &error))
}

/// Returns a series with its change points, as a report shows it.
fn search(series: &Series) -> history::Series {
    let Changes { changes, ambiguous, newest_change } = Changes::search(&series.values(), seed(series));
    history::Series {
        subject: Subject::Point { pipeline: series.pipeline.clone(), case: series.case.clone(), point: series.point.clone() },
        metric: series.metric.clone(),
        unit: series.unit.clone(),
        better: series.better,
        runs: runs(series),
        changes,
        ambiguous,
        newest_change,
        other_work: series.other_work as u64,
    }
}

/// The changes of level in a series of values.
#[expect(clippy::struct_field_names, reason = "`changes` are the changes, beside what is not one for certain")]
pub(super) struct Changes {
    /// The changes, oldest first; or the reason why the values were not searched.
    pub(super) changes: Result<Vec<history::Change>, String>,
    /// The stretches in which no further changes can be distinguished.
    pub(super) ambiguous: Vec<history::AmbiguousStretch>,
    /// The change that only the newest values show.
    pub(super) newest_change: Option<history::Change>,
}

impl Changes {
    /// Searches values, oldest first. The seed is that of the permutations: it derives from the identity of the series, so that a further value
    /// changes no earlier decision.
    pub(super) fn search(values: &[f64], seed: [u8; 32]) -> Self {
        let scale = if values.iter().all(|value| *value > 0.0) { Scale::Log } else { Scale::Raw };
        let found = change_point::search(values, Rule::new(scale), seed);
        Self {
            ambiguous: found.as_ref().map(|found| found.ambiguous.iter().map(stretch).collect()).unwrap_or_default(),
            changes: found
                .and_then(change_point::SearchResult::into_points)
                .map(|all| all.iter().map(change).collect())
                .map_err(|why: ChangePointError| why.to_string()),
            newest_change: news(values, scale, seed).as_ref().map(change),
        }
    }
}

/// Returns the change that a nightly which searched after each run would have reported after one of the last [`NEWEST`] runs. A
/// change that it reported before is old, whenever it happened: a small step takes weeks to show.
fn news(values: &[f64], scale: Scale, seed: [u8; 32]) -> Option<ChangePoint> {
    let from = values.len().saturating_sub(2 * WINDOW);
    let reports = replay_reports(values, from, scale, Budget::default(), seed).ok()?;
    reports.last().filter(|last| values.len() - last.after < NEWEST).map(|last| last.change)
}

/// Returns the runs of a series, each with the one before it.
fn runs(series: &Series) -> Vec<history::Run> {
    let before = std::iter::once(None).chain(series.runs.iter().map(Some));
    series.runs.iter().zip(before).map(|(of, before)| run(of, before)).collect()
}

fn run(of: &RunValue, before: Option<&RunValue>) -> history::Run {
    history::Run {
        id: of.run.clone(),
        value: of.value,
        // The tables hold no instant before 1970, and 0 if none is known.
        started: (of.started > 0).then(|| Instant::from_unix_ns(of.started)),
        commit: of.commit.clone(),
        hardware_changed: before.is_some_and(|before| before.hardware != of.hardware),
        software_changed: before.is_some_and(|before| before.software != of.software),
        pipeline_changed: before.is_some_and(|before| before.definition != of.definition),
        tool_changed: false,
        evidence: None,
        address: of.run.parse().ok().map(|run| Address::new(&run, Address::TABLE, &of.row, "value")),
    }
}

fn change(found: &ChangePoint) -> history::Change {
    history::Change {
        index: found.index,
        before: found.before,
        after: found.after,
        change: found.change,
        interval: found.interval.map(|interval| (interval.low, interval.high)),
        p: found.p,
    }
}

fn stretch(untold: &AmbiguousPart) -> history::AmbiguousStretch {
    history::AmbiguousStretch { from: untold.part.start, to: untold.part.end, autocorrelation: untold.memory }
}

/// Returns the seed of permutations.
fn seed(series: &Series) -> [u8; 32] {
    let text = format!("{} {} {} {}", series.pipeline, series.case, series.point, series.metric);
    *Digest::compute(text.as_bytes()).as_bytes()
}

#[cfg(test)]
mod tests {
    use assay_manifest::BetterDirection;

    use super::*;

    fn series(values: &[f64], hardware: impl Fn(usize) -> &'static str) -> Series {
        let of = |(place, value): (usize, &f64)| RunValue {
            run: format!("run-{place}"),
            value: *value,
            started: 0,
            commit: None,
            workload: "work".to_owned(),
            definition: "pipeline".to_owned(),
            hardware: hardware(place).to_owned(),
            software: "software".to_owned(),
            row: "0123456789ab".to_owned(),
        };
        Series {
            pipeline: "nightly".to_owned(),
            case: "sort.local.default".to_owned(),
            point: "default".to_owned(),
            metric: "latency_ms".to_owned(),
            unit: "ms".to_owned(),
            better: Some(BetterDirection::Lower),
            primary: true,
            runs: values.iter().enumerate().map(of).collect(),
            other_work: 0,
        }
    }

    /// Returns thirty runs with a ripple of half a percent, a tenth slower from `step` on.
    fn stepped(step: usize) -> Vec<f64> {
        (0..30).map(|i| (1.0 + 0.005 * ((i * 7 % 5) as f64 - 2.0)) * if i < step { 100.0 } else { 110.0 }).collect()
    }

    fn issue(series: history::Series) -> Option<String> {
        history::Report::build(&history::Inputs { series: &[series], level: DEFAULT_LEVEL, store: None, origin: None }).issue()
    }

    #[test]
    fn a_step_is_placed_and_charged_to_the_environment_where_that_changed_too() {
        let found = search(&series(&stepped(15), |_| "a"));
        let changes = found.changes.as_ref().expect("searched");
        assert_eq!(changes.iter().map(|change| change.index).collect::<Vec<_>>(), [15]);
        assert!(changes[0].change.is_some_and(|share| (0.09..0.11).contains(&share)), "{changes:?}");
        assert!(!found.runs[15].hardware_changed);
        assert!(found.newest_change.is_none(), "half of the history has seen it");
        let moved = search(&series(&stepped(15), |place| if place < 15 { "a" } else { "b" }));
        let changed: Vec<usize> = (0..30).filter(|place| moved.runs[*place].hardware_changed).collect();
        assert_eq!((changed, moved.runs[15].software_changed), (vec![15], false));
    }

    #[test]
    fn where_nothing_can_be_told_stands_beside_the_changes() {
        // A clear step, and after it slow waves.
        let wave = |place: u32| 20.0 * (f64::from(place) / 16.0).sin() + 0.5 * f64::from(place * 7 % 5);
        let values: Vec<f64> = stepped(30)
            .into_iter()
            .chain(stepped(30).into_iter().map(|value| value * 3.0))
            .chain((0..100).map(|place| 300.0 + wave(place)))
            .collect();
        let found = search(&series(&values, |_| "a"));
        assert_eq!(found.changes.as_ref().map(|all| all.first().map(|change| change.index)), Ok(Some(30)));
        let [untold, ..] = found.ambiguous.as_slice() else { panic!("untold: {:?}", found.changes) };
        assert!(untold.to > 60 && untold.autocorrelation > 0.8, "{untold:?}");
    }

    #[test]
    fn what_the_newest_runs_show_is_news() {
        // The nights on which the change is news.
        let nights = |values: &[f64]| -> Vec<usize> {
            (1..=values.len()).filter(|n| news(&values[..*n], Scale::Log, [7; 32]).is_some()).collect()
        };
        assert_eq!(nights(&stepped(22)), [27, 28, 29], "a clear step shows with its fifth run, and is told three times");
        let found = search(&series(&stepped(24), |_| "a"));
        assert_eq!(found.newest_change.map(|change| change.index), Some(24));
        let issue = issue(found).expect("news");
        assert!(
            issue.contains("from run-24: 100 to 110 ms") && issue.contains("run-24/outcome_fact/0123456789ab/value"),
            "{issue}"
        );
        assert!(search(&series(&stepped(30), |_| "a")).newest_change.is_none());
        // A step of the size of the noise takes longer to show than a night or six, and is news all the same.
        let mut noise = 1_u64;
        let mut ripple = || {
            noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (noise >> 40) as f64 / f64::from(1 << 24) - 0.5
        };
        let small: Vec<f64> = (0..70).map(|i| if i < 40 { 100.0 } else { 102.0 } + 4.0 * ripple()).collect();
        let nights = nights(&small);
        assert_eq!(nights.len(), NEWEST, "{nights:?}");
        assert!(nights[0] > 46, "{nights:?}");
    }
}
