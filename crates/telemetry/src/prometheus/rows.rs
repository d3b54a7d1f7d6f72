//! The responses of a Prometheus, read once, a line at a time, as the rows of each attempt, and the GPUs that labels of their series describe.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;

use assay_manifest::{Block, Instant, Name, PackQuery, PrometheusSource, Reason, TrialId};
use serde::{Deserialize, Serialize};

use super::clock::ClockOffset;
use super::findings::Findings;
use super::line::{QueryLine, QueryOf, Request};
use super::response::{SampledSeries, parse_series, parse_time};
use super::series::{QueryRow, evaluate};
use super::{MAX_ROWS, MAX_SAMPLES, MAX_SERIES};
use crate::Error;
use crate::energy::MeteredEnergy;
use crate::gpus::{LabelOrigin, LabelledGpu, MAX_LABELLED_GPUS, describes_gpu};
use crate::line::{LineFormat, Lines};

/// An attempt: its block, its trial and its number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AttemptKey {
    /// The block.
    pub block: Block,
    /// The trial.
    pub trial_id: TrialId,
    /// The number of the attempt.
    pub attempt: u32,
}

/// The rows of one query in one attempt.
#[derive(Debug)]
pub struct AttemptRows {
    /// The attempt.
    pub attempt: AttemptKey,
    /// The rows.
    pub rows: Vec<QueryRow>,
    /// The energy of all objects of the query, if it is of a meter of energy.
    pub energy: Option<MeteredEnergy>,
}

/// The rows of one Prometheus, query by query: memory holds the samples of one query in one attempt.
pub struct QueryRows<'a> {
    queries: Vec<&'a PackQuery>,
    windows: &'a BTreeMap<AttemptKey, (Instant, Instant)>,
    lines: Lines<'a, QueryLine>,
    pending: Option<PendingQuery>,
    rows_of: BTreeMap<AttemptKey, usize>,
    done: BTreeSet<QueryOf>,
    gpus: BTreeSet<LabelledGpu>,
    findings: Findings,
    is_over: bool,
}

/// A query in one attempt whose responses are being read.
struct PendingQuery {
    of: QueryOf,
    series: BTreeMap<BTreeMap<String, String>, SampledSeries>,
    samples: usize,
    /// True if it has more samples or series than are kept.
    is_too_large: bool,
    /// True if a part of the window has no response.
    is_broken: bool,
    /// The number of series lately, of a query without samples; `None` if it was not asked for.
    lately: Option<u64>,
}

impl<'a> QueryRows<'a> {
    /// Opens the responses of a Prometheus. `windows` holds the attempts of the run.
    pub fn open(
        name: &Name,
        source: &'a PrometheusSource,
        windows: &'a BTreeMap<AttemptKey, (Instant, Instant)>,
        file: impl Read + 'a,
    ) -> Result<Self, Error> {
        let shortest = windows.values().map(|(start, end)| end.ns_since(*start)).min();
        let attempts = windows.len() as u64;
        Ok(Self {
            queries: source.queries().map(|(_, query)| query).collect(),
            windows,
            lines: Lines::open(&super::file_name(name), LineFormat::Scrapes, file)?,
            pending: None,
            rows_of: BTreeMap::new(),
            done: BTreeSet::new(),
            gpus: BTreeSet::new(),
            findings: Findings::new(super::source_name(name), shortest, attempts),
            is_over: false,
        })
    }

    /// Returns the rows of the next query; `None` at the end.
    pub fn next_rows(&mut self) -> Result<Option<AttemptRows>, Error> {
        while !self.is_over {
            let line = self.lines.next()?;
            self.is_over = line.is_none();
            let of = line.as_ref().and_then(|line| line.of.clone());
            let is_complete = self.pending.as_ref().is_some_and(|pending| of.as_ref() != Some(&pending.of));
            let complete = if is_complete { self.pending.take() } else { None };
            if let Some(line) = line {
                self.take(line);
            }
            if let Some(rows) = complete.and_then(|pending| self.finish(pending)) {
                return Ok(Some(rows));
            }
        }
        Ok(None)
    }

    /// Returns the GPUs that the series of the lines read so far describe, each description once.
    pub fn gpus(&self) -> &BTreeSet<LabelledGpu> {
        &self.gpus
    }

    /// Returns what is in no row, for people.
    pub fn findings(&self) -> Vec<Reason> {
        self.findings.reasons()
    }

    fn take(&mut self, line: QueryLine) {
        let body = line.body.as_deref().ok_or_else(|| line.error.clone().unwrap_or_default());
        match (line.request, line.of) {
            (Request::Stopped, _) => self.findings.stopped = Some(line.error.unwrap_or_default()),
            (Request::Clock, _) => {
                self.findings.asked += 1;
                let received =
                    Instant::from_unix_ns(line.at.unix_ns().saturating_add(i64::try_from(line.took_ns).unwrap_or(i64::MAX)));
                let time = body.and_then(parse_time).map(|time| ClockOffset::new(line.at, received, time));
                match time {
                    Ok(offset) => self.findings.add_clock(offset),
                    Err(why) => self.findings.add_failure(why),
                }
            }
            // A line of no attempt of the run, or of a query that was read before, is of no use.
            (_, None) => self.findings.foreign += 1,
            (_, Some(of)) if !self.is_of_run(&of) => self.findings.foreign += 1,
            (request, Some(of)) => {
                let pending = self.pending.get_or_insert_with(|| PendingQuery::new(of));
                self.findings.asked += 1;
                match (request, body.and_then(parse_series)) {
                    (_, Err(why)) => {
                        pending.is_broken = true;
                        self.findings.add_failure(why);
                    }
                    (Request::Presence, Ok(response)) => {
                        let value = response.series.first().and_then(|series| series.samples.first()).map(|(_, value)| *value);
                        let count = value.filter(|value| value.is_finite()).unwrap_or(0.0);
                        pending.lately = Some(count.clamp(0.0, MAX_SERIES as f64) as u64);
                    }
                    (_, Ok(response)) => {
                        self.findings.add_warnings(response.warnings);
                        if let Some(query) = self.queries.get(pending.of.query as usize) {
                            let room = MAX_LABELLED_GPUS.saturating_sub(self.gpus.len());
                            self.gpus.extend(labelled_gpus(query, &response.series).take(room));
                        }
                        response.series.into_iter().for_each(|series| pending.add(series));
                    }
                }
            }
        }
    }

    fn is_of_run(&self, of: &QueryOf) -> bool {
        let is_pending = self.pending.as_ref().is_some_and(|pending| pending.of == *of);
        let is_known = self.windows.contains_key(&key(of)) && (of.query as usize) < self.queries.len();
        is_known && (is_pending || !self.done.contains(of))
    }

    /// Makes the rows of a query whose responses have been read.
    fn finish(&mut self, pending: PendingQuery) -> Option<AttemptRows> {
        let attempt = key(&pending.of);
        let query = *self.queries.get(pending.of.query as usize)?;
        let window = *self.windows.get(&attempt)?;
        self.done.insert(pending.of);
        if pending.is_broken {
            return None;
        }
        if pending.is_too_large {
            self.findings.queries_left_out += 1;
            return None;
        }
        let evaluated = evaluate(query, window, pending.series.into_values().collect());
        self.findings.add_query(query, &evaluated, pending.lately);
        let rows_of = self.rows_of.entry(attempt.clone()).or_default();
        let mut rows = evaluated.rows;
        let room = MAX_ROWS.saturating_sub(*rows_of);
        self.findings.rows_left_out += rows.len().saturating_sub(room) as u64;
        rows.truncate(room);
        *rows_of += rows.len();
        Some(AttemptRows { attempt, rows, energy: evaluated.energy })
    }
}

/// Returns the GPUs that the series of a query describe.
fn labelled_gpus(query: &PackQuery, series: &[SampledSeries]) -> impl Iterator<Item = LabelledGpu> {
    let is_read = describes_gpu(query.query.split('{').next().unwrap_or_default());
    let described = series.iter().filter(move |series| is_read && !series.samples.is_empty());
    described.filter_map(move |series| {
        LabelledGpu::describe(LabelOrigin::Prometheus, &query.joins, |name| series.labels.get(name).map(String::as_str))
    })
}

fn key(of: &QueryOf) -> AttemptKey {
    AttemptKey { block: of.block, trial_id: of.trial_id.clone(), attempt: of.attempt }
}

impl PendingQuery {
    fn new(of: QueryOf) -> Self {
        Self { of, series: BTreeMap::new(), samples: 0, is_too_large: false, is_broken: false, lately: None }
    }

    /// Adds the samples of a series in one more part of the window. Beyond the limits, none is kept.
    fn add(&mut self, series: SampledSeries) {
        if series.samples.is_empty() && !series.has_histograms {
            return;
        }
        self.samples = self.samples.saturating_add(series.samples.len());
        self.is_too_large |= self.samples > MAX_SAMPLES || self.series.len() > MAX_SERIES;
        if self.is_too_large {
            self.series.clear();
            return;
        }
        let known = self.series.entry(series.labels.clone()).or_default();
        known.labels = series.labels;
        known.has_histograms |= series.has_histograms;
        known.samples.extend(series.samples);
    }
}

#[cfg(test)]
mod tests;
