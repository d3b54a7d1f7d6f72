//! From the raw samples of a query in one attempt to its rows.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Instant, PackQuery, QueryKind, SeriesFold};
use assay_stats::MAX_MAGNITUDE;

use super::response::SampledSeries;
use crate::energy::{EnergyMeter, MeteredEnergy, MeteredObject, energy, meter};
use crate::keys::{KeyConflicts, ObjectKeys};
use crate::metric::{MetricKind, labels};
use crate::slice::{MAX_NAME_BYTES, Statistics, ValueStatistics, increase};

/// The fewest samples of a metric in an attempt: one says nothing of the time before and after it.
const MIN_SAMPLES: usize = 2;

/// A time without samples that is longer than this many intervals is a gap, as in a recording.
const GAP_INTERVALS: i64 = 3;

/// A row: the statistics of one metric of one object over an attempt.
#[derive(Debug)]
pub struct QueryRow {
    /// The kind of the object.
    pub scope_kind: &'static str,
    /// The object: the values of the labels that identify it, joined by `/`.
    pub scope_id: String,
    /// The statistics; without values if there are too few samples.
    pub statistics: Statistics,
    /// The time of the window without samples, in nanoseconds.
    pub gap_ns: u64,
    /// The interval between samples, the median, in nanoseconds; `None` if there are too few.
    pub interval_ns: Option<u64>,
}

/// The rows of a query in one attempt, and what is in none of them.
#[derive(Debug, Default)]
pub struct EvaluatedQuery {
    /// The rows, by object and metric.
    pub rows: Vec<QueryRow>,
    /// The number of series with samples in the window.
    pub series: u64,
    /// Series with fewer than two samples in the window. They have a row without values.
    pub too_coarse: u64,
    /// Series that overlap in time and of which the query says that there is one for each object.
    pub ambiguous: u64,
    /// Series that lack a label that identifies their object.
    pub without_scope: u64,
    /// Series whose names in rows would be too long.
    pub long_names: u64,
    /// Series of native histograms.
    pub histograms: u64,
    /// Times at which a counter fell: it was reset, and counts from 0 again.
    pub resets: u64,
    /// Samples that are no number, or no count.
    pub not_numbers: u64,
    /// The energy of all objects, if the query is of a meter of energy.
    pub energy: Option<MeteredEnergy>,
    /// Rows whose series differ in a key.
    pub(crate) conflicts: KeyConflicts,
}

/// The object and the metric's name that series are put together by.
type RowKey = (String, String);

/// Makes the rows of a query of its series in a window. Samples outside of the window are ignored.
pub fn evaluate(query: &PackQuery, window: (Instant, Instant), series: Vec<SampledSeries>) -> EvaluatedQuery {
    let mut found = EvaluatedQuery::default();
    let mut groups: BTreeMap<RowKey, Vec<SampledSeries>> = BTreeMap::new();
    for mut one in series {
        found.histograms += u64::from(one.has_histograms);
        one.samples.retain(|(ms, _)| (window.0..=window.1).contains(&instant(*ms)));
        if one.samples.is_empty() {
            continue;
        }
        found.series += 1;
        match row_key(query, &one) {
            None => found.without_scope += 1,
            Some((scope, name)) if scope.len().max(name.len()).max(keys(query, &one).longest()) > MAX_NAME_BYTES => {
                found.long_names += 1;
            }
            Some(key) => groups.entry(key).or_default().push(one),
        }
    }
    found.energy =
        meter(&query.name).filter(|_| query.fold.is_none() && found.series > 0).map(|meter| metered(meter, window, &groups));
    for (key, members) in groups {
        let row = row(query, window, key, &members, &mut found);
        found.rows.extend(row);
    }
    found
}

fn instant(ms: i64) -> Instant {
    Instant::from_unix_ns(ms.saturating_mul(1_000_000))
}

/// Returns the object and the metric's name of a series; `None` if it lacks a label of the object.
fn row_key(query: &PackQuery, series: &SampledSeries) -> Option<RowKey> {
    let value = |label: &String| series.labels.get(label).filter(|value| !value.is_empty());
    let scope: Vec<&str> = query.scope_labels.iter().map(|label| value(label).map(String::as_str)).collect::<Option<_>>()?;
    let named: Vec<(&str, &str)> =
        query.labels.iter().filter_map(|label| Some((label.as_str(), value(label)?.as_str()))).collect();
    Some((scope.join("/"), format!("{}{}", query.name, labels(&named))))
}

/// Returns the energy of all objects of a query.
fn metered(meter: &EnergyMeter, window: (Instant, Instant), groups: &BTreeMap<RowKey, Vec<SampledSeries>>) -> MeteredEnergy {
    let objects = groups.iter().map(|((scope_id, metric), members)| {
        let is_reading = |value: f64| (0.0..=MAX_MAGNITUDE).contains(&value);
        let mut readings: Vec<(Instant, f64)> = Vec::new();
        for member in members {
            // A sample at the border of two parts of a window is in both of them.
            let mut samples = member.samples.clone();
            samples.dedup_by_key(|(ms, _)| *ms);
            readings.extend(samples.into_iter().filter(|(_, value)| is_reading(*value)).map(|(ms, value)| (instant(ms), value)));
        }
        MeteredObject { object: format!("{scope_id} {metric}"), readings }
    });
    energy(meter, window, objects.collect())
}

/// Returns the keys that the labels of a series hold.
fn keys(query: &PackQuery, series: &SampledSeries) -> ObjectKeys {
    ObjectKeys::read(&query.joins, |label| series.labels.get(label).map(String::as_str))
}

fn row(
    query: &PackQuery,
    (start, end): (Instant, Instant),
    (scope_id, metric): RowKey,
    members: &[SampledSeries],
    found: &mut EvaluatedQuery,
) -> Option<QueryRow> {
    let points: Vec<Points> = members.iter().map(|member| Points::new(query.kind, member, found)).collect();
    let together = match query.fold {
        Some(fold) => Points::folded(fold, &points),
        None => Points::joined(points),
    };
    let Some(mut points) = together else {
        found.ambiguous += members.len() as u64;
        return None;
    };
    if let Some(per) = &query.per {
        let parts: BTreeSet<&String> = members.iter().filter_map(|member| member.labels.get(per)).collect();
        points.values.iter_mut().for_each(|value| *value /= parts.len().max(1) as f64);
    }
    if query.kind == QueryKind::Share {
        points.values.iter_mut().for_each(|value| *value = value.min(1.0));
    }
    let is_too_coarse = points.times.len() < MIN_SAMPLES;
    found.too_coarse += if is_too_coarse { members.len() as u64 } else { 0 };
    let interval = interval_ms(&points.times);
    let all_keys: Vec<ObjectKeys> = members.iter().map(|member| keys(query, member)).collect();
    let (keys, conflicts) = ObjectKeys::common(&all_keys);
    found.conflicts.add(conflicts);
    let values = if is_too_coarse { None } else { ValueStatistics::of(&points.values) };
    Some(QueryRow {
        scope_kind: query.scope_kind.as_str(),
        scope_id,
        gap_ns: interval.map_or(end.ns_since(start), |interval| gap_ns(&points.times, interval, start, end)),
        interval_ns: interval.map(|ms| ms as u64 * 1_000_000),
        statistics: Statistics {
            object: None,
            metric,
            kind: match query.kind {
                QueryKind::Gauge => MetricKind::Gauge,
                QueryKind::Counter => MetricKind::Counter,
                QueryKind::Share => MetricKind::Share,
            },
            unit: query.unit.clone(),
            n: points.times.len() as u64,
            keys: Some(keys),
            values,
        },
    })
}

/// The values of one metric over time.
#[derive(Debug, Default)]
struct Points {
    /// The times of the samples, in milliseconds, ascending.
    times: Vec<i64>,
    /// A gauge's values at these times; a counter's increases per second up to these times, from the second one on.
    values: Vec<f64>,
    /// The places in `times` of the values.
    at: Vec<usize>,
}

impl Points {
    fn new(kind: QueryKind, series: &SampledSeries, found: &mut EvaluatedQuery) -> Self {
        let mut points = Self::default();
        let mut before: Option<(i64, f64)> = None;
        for (ms, value) in series.samples.iter().copied() {
            let is_sample = match kind {
                QueryKind::Gauge => value.abs() <= MAX_MAGNITUDE,
                QueryKind::Counter | QueryKind::Share => (0.0..=MAX_MAGNITUDE).contains(&value),
            };
            // A sample at the border of two parts of a window is in both of them.
            if before.is_some_and(|(last, _)| last >= ms) {
                continue;
            }
            if !is_sample {
                found.not_numbers += 1;
                continue;
            }
            let last = before.replace((ms, value));
            points.times.push(ms);
            match (kind, last) {
                (QueryKind::Gauge, _) => points.push(value),
                (_, Some((last_ms, last))) => {
                    found.resets += u64::from(value < last);
                    points.push(increase(last, value) / ((ms - last_ms) as f64 / 1e3));
                }
                (_, None) => {}
            }
        }
        points
    }

    fn push(&mut self, value: f64) {
        self.values.push(value);
        self.at.push(self.times.len().saturating_sub(1));
    }

    /// Puts series of one object together that follow each other in time, such as those of a GPU before and after a pod got it; `None`
    /// if they overlap, or if one has a single sample: that of a series that is read less often lies before or after those of another one by chance. Nothing
    /// is known of the increase from one counter to the next.
    fn joined(mut all: Vec<Self>) -> Option<Self> {
        all.retain(|points| !points.times.is_empty());
        if all.len() > 1 && all.iter().any(|points| points.times.len() < MIN_SAMPLES) {
            return None;
        }
        all.sort_by_key(|points| points.times.first().copied());
        let mut joined = Self::default();
        for points in all {
            if joined.times.last().zip(points.times.first()).is_some_and(|(last, first)| last >= first) {
                return None;
            }
            let offset = joined.times.len();
            joined.times.extend(points.times);
            joined.values.extend(points.values);
            joined.at.extend(points.at.iter().map(|at| at + offset));
        }
        Some(joined)
    }

    /// Folds series of one object, at the times that all of them have; `None` if they were read at different times, as by two servers.
    fn folded(fold: SeriesFold, all: &[Self]) -> Option<Self> {
        let mut counts: BTreeMap<i64, usize> = BTreeMap::new();
        let mut sums: BTreeMap<i64, (usize, f64)> = BTreeMap::new();
        for points in all {
            points.times.iter().for_each(|ms| *counts.entry(*ms).or_default() += 1);
            for (at, value) in points.at.iter().zip(&points.values) {
                let Some(ms) = points.times.get(*at) else { continue };
                let (count, sum) = sums.entry(*ms).or_insert((0, *value));
                *sum = match (fold, *count) {
                    (_, 0) => *value,
                    (SeriesFold::Sum, _) => *sum + value,
                    (SeriesFold::Max, _) => sum.max(*value),
                    (SeriesFold::Min, _) => sum.min(*value),
                };
                *count += 1;
            }
        }
        let mut folded = Self::default();
        for (ms, _) in counts.into_iter().filter(|(_, count)| *count == all.len()) {
            folded.times.push(ms);
            if let Some((_, value)) = sums.get(&ms).filter(|(count, _)| *count == all.len()) {
                folded.push(*value);
            }
        }
        let were_read_apart = folded.times.len() < MIN_SAMPLES && all.iter().all(|points| points.times.len() >= MIN_SAMPLES);
        (!were_read_apart).then_some(folded)
    }
}

/// Returns the median time between samples, in milliseconds; `None` for fewer than two.
fn interval_ms(times: &[i64]) -> Option<i64> {
    let mut gaps: Vec<i64> = pairs(times).map(|(before, after)| after - before).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied()
}

/// Returns each value with its successor.
fn pairs<T: Copy>(values: &[T]) -> impl Iterator<Item = (T, T)> {
    values.iter().copied().zip(values.iter().copied().skip(1))
}

/// Returns the time of a window that lies in gaps: between samples, and at both ends.
fn gap_ns(times: &[i64], interval_ms: i64, start: Instant, end: Instant) -> u64 {
    let limit = interval_ms.saturating_mul(GAP_INTERVALS).saturating_mul(1_000_000) as u64;
    let inner = times.iter().map(|ms| instant(*ms));
    let ends: Vec<Instant> = std::iter::once(start).chain(inner).chain([end]).collect();
    let spans = pairs(&ends).map(|(before, after)| after.ns_since(before));
    spans.filter(|span| *span > limit).sum()
}

#[cfg(test)]
mod tests;
