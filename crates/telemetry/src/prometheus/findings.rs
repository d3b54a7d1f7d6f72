//! The parts of a Prometheus' responses that are in no row, as issues of the Summary.

use std::collections::BTreeMap;

use assay_manifest::{PackQuery, Reason};

use super::clock::ClockOffset;
use super::series::EvaluatedQuery;
use super::{MAX_ROWS, MAX_SAMPLES, MAX_SERIES};
use crate::keys::KeyConflicts;

/// The most metrics that an issue names.
const MAX_NAMED: usize = 6;

/// The most warnings that are kept.
const MAX_WARNINGS: usize = 3;

/// The longest warning and cause in an issue, in characters.
const MAX_QUOTED: usize = 200;

/// The largest share of the shortest attempt by which the clocks may differ: samples at the edges then belong to another time.
const MAX_CLOCK_SHARE: f64 = 0.05;

/// The counts beside the rows of a source.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    source: String,
    /// The length of the shortest attempt, in nanoseconds.
    shortest_ns: Option<u64>,
    /// The number of attempts.
    attempts: u64,
    /// Requests.
    pub(crate) asked: u64,
    failed: u64,
    first_failure: Option<String>,
    /// The reason why requests were not sent.
    pub(crate) stopped: Option<String>,
    clock: Option<ClockOffset>,
    warnings: Vec<String>,
    warned: u64,
    /// Attempts in which a metric has no series, by metric; with what it means.
    absent: BTreeMap<String, (u64, String)>,
    /// Series without two samples, by metric.
    too_coarse: BTreeMap<String, u64>,
    ambiguous: BTreeMap<String, u64>,
    without_scope: BTreeMap<String, (u64, Vec<String>)>,
    resets: BTreeMap<String, u64>,
    not_numbers: BTreeMap<String, u64>,
    histograms: BTreeMap<String, u64>,
    conflicts: KeyConflicts,
    long_names: u64,
    /// Rows and queries beyond the limits.
    pub(crate) rows_left_out: u64,
    pub(crate) queries_left_out: u64,
    /// Lines of no query of the run.
    pub(crate) foreign: u64,
}

impl Findings {
    pub(crate) fn new(source: String, shortest_ns: Option<u64>, attempts: u64) -> Self {
        Self { source, shortest_ns, attempts, ..Self::default() }
    }

    pub(crate) fn add_failure(&mut self, why: String) {
        self.failed += 1;
        self.first_failure.get_or_insert(why);
    }

    pub(crate) fn add_warnings(&mut self, warnings: Vec<String>) {
        for warning in warnings {
            self.warned += 1;
            if self.warnings.len() < MAX_WARNINGS && !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
    }

    /// Adds a comparison of the clocks. The one that bounds the offset best is kept.
    pub(crate) fn add_clock(&mut self, offset: ClockOffset) {
        if self.clock.is_none_or(|known| offset.uncertainty_ns < known.uncertainty_ns) {
            self.clock = Some(offset);
        }
    }

    /// Adds what a query in one attempt has in no row; `lately` is the number of series that it had in the hour before the attempt's
    /// end, if it has no samples in the attempt.
    pub(crate) fn add_query(&mut self, query: &PackQuery, evaluated: &EvaluatedQuery, lately: Option<u64>) {
        let add = |counts: &mut BTreeMap<String, u64>, count: u64| {
            if count > 0 {
                *counts.entry(query.name.clone()).or_default() += count;
            }
        };
        let lately = lately.unwrap_or(0);
        if evaluated.series == 0 && lately == 0 && evaluated.histograms == 0 {
            self.absent.entry(query.name.clone()).or_insert_with(|| (0, query.missing.clone())).0 += 1;
        }
        add(&mut self.too_coarse, evaluated.too_coarse + if evaluated.series == 0 { lately } else { 0 });
        add(&mut self.ambiguous, evaluated.ambiguous);
        add(&mut self.resets, evaluated.resets);
        add(&mut self.not_numbers, evaluated.not_numbers);
        add(&mut self.histograms, evaluated.histograms);
        if evaluated.without_scope > 0 {
            let labels = || (0, query.scope_labels.clone());
            self.without_scope.entry(query.name.clone()).or_insert_with(labels).0 += evaluated.without_scope;
        }
        self.long_names += evaluated.long_names;
        self.conflicts.add(evaluated.conflicts);
    }

    /// Returns the issues.
    pub(crate) fn reasons(&self) -> Vec<Reason> {
        let found = [
            ("prometheus_failed", self.failure()),
            ("prometheus_clock", self.clock()),
            ("prometheus_warnings", self.warning()),
            ("telemetry_absent", self.absence()),
            (
                "telemetry_too_coarse",
                counted(&self.too_coarse, "series of an attempt have fewer than two samples in it, and no value"),
            ),
            ("telemetry_ambiguous", self.ambiguity()),
            ("telemetry_resets", counted(&self.resets, "times a counter fell, and was counted from 0 again")),
            ("telemetry_keys_differ", self.key_conflicts()),
            ("telemetry_left_out", self.omission()),
        ];
        let reason = |(code, detail): (&str, Option<String>)| Some(Reason::new(code, format!("`{}`: {}", self.source, detail?)));
        found.into_iter().filter_map(reason).collect()
    }

    fn failure(&self) -> Option<String> {
        let failed = (self.failed > 0).then(|| {
            let why = quoted(self.first_failure.as_deref().unwrap_or_default());
            format!("{} of its {} responses cannot be used, and are in no row; the first one: {why}", self.failed, self.asked)
        });
        let stopped = self.stopped.as_ref().map(|why| format!("it was asked no further: {}", quoted(why)));
        let parts: Vec<String> = failed.into_iter().chain(stopped).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Describes clocks that differ by more than a share of the shortest attempt.
    fn clock(&self) -> Option<String> {
        let (clock, shortest) = (self.clock?, self.shortest_ns?);
        let is_large = clock.at_least_ns() as f64 > MAX_CLOCK_SHARE * shortest as f64;
        is_large.then(|| {
            let direction = if clock.offset_ns < 0 { "behind" } else { "ahead of" };
            format!(
                "its clock is {} s {direction} that of the stage collect, within {} s, and the shortest attempt has {} s: samples near \
                 the ends of an attempt may be of another time",
                seconds(clock.offset_ns.unsigned_abs()),
                seconds(clock.uncertainty_ns),
                seconds(shortest),
            )
        })
    }

    fn warning(&self) -> Option<String> {
        let warnings: Vec<String> = self.warnings.iter().map(|warning| quoted(warning)).collect();
        (self.warned > 0).then(|| format!("it warned {} times, so rows may be incomplete: {}", self.warned, warnings.join("; ")))
    }

    /// Describes the metrics that have no series in any attempt or in some, by what it means.
    fn absence(&self) -> Option<String> {
        let mut alike: BTreeMap<(u64, &str), Vec<&String>> = BTreeMap::new();
        for (metric, (attempts, missing)) in &self.absent {
            alike.entry((*attempts, missing)).or_default().push(metric);
        }
        let one = |((attempts, missing), metrics): ((u64, &str), Vec<&String>)| {
            let names = named(metrics.iter().map(|metric| format!("`{metric}`")));
            let some =
                if attempts < self.attempts { format!(" in {attempts} of {} attempts", self.attempts) } else { String::new() };
            format!("no series of {names}{some} ({missing})")
        };
        let all: Vec<String> = alike.into_iter().rev().map(one).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn ambiguity(&self) -> Option<String> {
        let several = counted(
            &self.ambiguous,
            "series have the same object as another one at the same time; narrow them by `match`, such as to one replica",
        );
        let lacking = (!self.without_scope.is_empty()).then(|| {
            let one = |(metric, (count, labels)): (&String, &(u64, Vec<String>))| {
                format!(
                    "{count} of `{metric}` (it needs {})",
                    labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ")
                )
            };
            let sum: u64 = self.without_scope.values().map(|(count, _)| count).sum();
            format!("{sum} series lack a label of their object: {}", named(self.without_scope.iter().map(one)))
        });
        let parts: Vec<String> = several.into_iter().chain(lacking).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    fn key_conflicts(&self) -> Option<String> {
        let counts = self.conflicts.by_column().into_iter().filter(|(_, count)| *count > 0);
        let counts: BTreeMap<String, u64> = counts.map(|(column, count)| (column.to_owned(), count)).collect();
        counted(&counts, "keys of rows are null, because the series of one row differ in them")
    }

    fn omission(&self) -> Option<String> {
        let counts = [
            (self.rows_left_out, format!("rows beyond {MAX_ROWS} of one source in one attempt")),
            (self.queries_left_out, format!("queries of an attempt with more than {MAX_SAMPLES} samples or {MAX_SERIES} series")),
            (self.long_names, "series with names that are too long".to_owned()),
            (self.foreign, "responses to no query of the run".to_owned()),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let others = [
            counted(&self.not_numbers, "samples that are no number, or no count"),
            counted(&self.histograms, "series of native histograms"),
        ];
        let parts: Vec<String> = counts.chain(others.into_iter().flatten()).collect();
        (!parts.is_empty()).then(|| format!("no rows have {}", parts.join("; ")))
    }
}

/// Describes counts by metric: their sum, and the metrics.
fn counted(counts: &BTreeMap<String, u64>, what: &str) -> Option<String> {
    let sum: u64 = counts.values().sum();
    (sum > 0).then(|| format!("{sum} {what}: {}", named(counts.iter().map(|(metric, count)| format!("{count} of `{metric}`")))))
}

/// Joins the first names, and counts the others.
fn named(names: impl Iterator<Item = String>) -> String {
    let all: Vec<String> = names.collect();
    let more = all.len().saturating_sub(MAX_NAMED);
    let shown = all.get(..all.len() - more).unwrap_or_default().join(", ");
    if more == 0 { shown } else { format!("{shown} and {more} more") }
}

fn quoted(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}

/// Returns a time in seconds with three decimals.
fn seconds(ns: u64) -> String {
    let ms = ns / 1_000_000;
    format!("{}.{:03}", ms / 1000, ms % 1000)
}
