//! The intervals of a point that was planned as one trial: within its run, with sessions as clusters.
//!
//! Metrics are read one at a time, each with the columns that it needs and the session of each request: once to select the quantiles and to
//! add up the samples of each session, once to count the samples of each session at or below each quantile, and once to select the ends.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{Count, Interval, IntervalKind};
use assay_metric::{CountedRequest, Estimator, Field, Formula, Jitter, Metric, MetricName, Ratio, RequestFields, Sum, gaps};
use assay_record::Outcome;
use assay_stats::cluster::{quantile_interval, quantile_ranks, ratio_interval};
use assay_stats::selection::encode_key;
use assay_stats::{CONFIDENCE_LEVEL, Cluster, NoInterval, SelectedQuantile, Selection, WantedQuantile};
use assay_warehouse::records::{Batch, Ints, RecordColumn as Column, RecordError};

use super::Limits;
use super::samples::{FRACTION_BITS, column, fixed_point, marks, names, sample_of};
use super::trial::{RowGroupSpan, Rules, ScannedTrial, in_parallel};

/// The maximum number of sessions whose sums are held: with the counts of seven quantiles, 44 MiB for each thread.
const MAX_SESSIONS: usize = 500_000;

/// An interval, or the reason why there is none.
type Found = Result<Interval, String>;

/// Returns the intervals of the wanted metrics of a trial of sessions.
pub(super) fn intervals(
    scanned: &ScannedTrial<'_>,
    wanted: &BTreeSet<&str>,
    rules: &Rules,
    limits: Limits,
) -> Result<BTreeMap<&'static str, Found>, RecordError> {
    let is_wanted = |metric: &&Metric| names(**metric).iter().any(|name| wanted.contains(name.text));
    let metrics: Vec<Metric> = Metric::ALL.iter().filter(is_wanted).copied().collect();
    let Some(sessions) = Sessions::read(scanned)? else {
        let why =
            format!("there are more than {MAX_SESSIONS} sessions, the most whose sums are held for an interval within its run");
        return Ok(metrics.iter().flat_map(|metric| refused(*metric, &why)).collect());
    };
    let trial = Trial { scanned, rules, sessions, room: limits.room / limits.threads.clamp(1, metrics.len().max(1)) };
    let of_metric = |metric: &Metric| match (metric.definition().formula, metric.ratio()) {
        (Formula::Trial(_), Ok(ratio)) => trial.of_ratio(*metric, ratio),
        (Formula::Trial(_), Err(why)) => Ok(refused(*metric, why)),
        _ => trial.of_samples(*metric),
    };
    Ok(in_parallel(limits.threads, &metrics, of_metric)?.into_iter().flatten().collect())
}

/// Returns no interval for any name of a metric.
fn refused(metric: Metric, why: &str) -> Vec<(&'static str, Found)> {
    names(metric).iter().map(|name| (name.text, Err(why.to_owned()))).collect()
}

/// The sessions of the measured phase.
struct Sessions {
    /// Their numbers, ascending.
    ids: Vec<i64>,
    /// The requests of each that succeeded or failed.
    uncancelled: Vec<u64>,
}

impl Sessions {
    /// Reads the sessions; `None` if there are more than [`MAX_SESSIONS`].
    fn read(scanned: &ScannedTrial<'_>) -> Result<Option<Self>, RecordError> {
        let mut ids: Vec<i64> = Vec::new();
        for span in &scanned.row_groups {
            span.each(&[Column::Session], |batch, before| {
                let sessions = batch.ints(Column::Session)?;
                for row in (0..batch.rows()).filter(|row| span.measured.get(before + row)) {
                    ids.push(session_of(sessions, batch, row)?);
                }
                Ok(())
            })?;
            ids.sort_unstable();
            ids.dedup();
            if ids.len() > MAX_SESSIONS {
                return Ok(None);
            }
        }
        let mut sessions = Self { uncancelled: vec![0; ids.len()], ids };
        for span in &scanned.row_groups {
            span.each(&[Column::Session, Column::Outcome], |batch, before| {
                let (of, outcomes) = (batch.ints(Column::Session)?, batch.words::<Outcome>(Column::Outcome)?);
                let counts = |row: usize, outcome: Outcome| span.measured.get(before + row) && outcome != Outcome::Cancelled;
                for (row, _) in outcomes.into_iter().enumerate().filter(|(row, outcome)| counts(*row, *outcome)) {
                    let place = sessions.place(session_of(of, batch, row)?);
                    place.and_then(|place| sessions.uncancelled.get_mut(place)).into_iter().for_each(|count| *count += 1);
                }
                Ok(())
            })?;
        }
        Ok(Some(sessions))
    }

    fn place(&self, id: i64) -> Option<usize> {
        self.ids.binary_search(&id).ok()
    }
}

/// Returns the session of a request.
fn session_of(sessions: Ints<'_>, batch: &Batch, row: usize) -> Result<i64, RecordError> {
    let none = || RecordError::Value {
        column: Column::Session.name(),
        index: batch.first_row() + row as u64,
        problem: "requests are turns of sessions, and this one is of none",
    };
    sessions.get(row).ok_or_else(none)
}

/// A sample of a metric: its key for selections, its number of times, and its fixed-point value.
#[derive(Clone, Copy)]
struct Sample {
    key: i64,
    times: u64,
    fixed: i128,
}

impl Sample {
    fn whole(ns: i64) -> Self {
        Self { key: ns, times: 1, fixed: i128::from(ns) }
    }

    fn quotient(value: f64, times: u64) -> Self {
        Self { key: encode_key(value), times, fixed: fixed_point(value) }
    }
}

/// Returns true if the samples of a metric are quotients, given by the keys of doubles.
fn is_quotient(metric: Metric) -> bool {
    matches!(metric.definition().formula, Formula::Quotient(_)) || matches!(metric, Metric::Itl | Metric::Jitter)
}

/// The only trial of a point.
struct Trial<'a> {
    scanned: &'a ScannedTrial<'a>,
    rules: &'a Rules,
    sessions: Sessions,
    /// The number of samples that one metric may hold at a time.
    room: usize,
}

/// A quantile of a metric and what its interval is computed from.
struct Quantile {
    q: f64,
    /// The number of all values, if requests without a sample rank above all others.
    of: Option<u64>,
    /// The largest key at or below the quantile; `None` if the quantile has no value.
    at_most: Option<i64>,
    /// The number of samples of each session at or below the quantile.
    below: Vec<u64>,
}

impl Quantile {
    fn at(&self, rank: f64) -> WantedQuantile {
        match self.of {
            Some(of) => WantedQuantile::QuantileWithMissing { q: rank, of },
            None => WantedQuantile::Quantile(rank),
        }
    }
}

impl Trial<'_> {
    /// Returns the intervals of a metric that has samples.
    fn of_samples(&self, metric: Metric) -> Result<Vec<(&'static str, Found)>, RecordError> {
        let (sums, mut quantiles) = self.sums_and_quantiles(metric)?;
        self.count_below(metric, &mut quantiles)?;
        let ranks: Vec<Result<[f64; 2], NoInterval>> = quantiles
            .iter()
            .map(|quantile| quantile_ranks(&self.clusters_of_quantile(&sums, quantile), quantile.q, CONFIDENCE_LEVEL))
            .collect();
        let ends_of = |(ranks, quantile): (&Result<[f64; 2], NoInterval>, &Quantile)| -> Vec<WantedQuantile> {
            ranks.iter().flatten().map(|rank| quantile.at(*rank)).collect()
        };
        let wants: Vec<WantedQuantile> = ranks.iter().zip(&quantiles).flat_map(ends_of).collect();
        let ends = if wants.is_empty() { Vec::new() } else { self.select(metric, wants, |_, _| {})? };
        let mut ends = ends.into_iter();
        let mut of_quantiles = ranks.into_iter().zip(&quantiles).map(|(ranks, quantile)| {
            let [low, high] = match ranks {
                Ok(_) => {
                    [ends.next(), ends.next()].map(|end| sample_of(end.unwrap_or(SelectedQuantile::Absent), is_quotient(metric)))
                }
                Err(why) => return Err(by_sessions(&why)),
            };
            let sessions = self.clusters_of_quantile(&sums, quantile).len();
            match low.zip(high) {
                Some((low, high)) => Ok((quantile_interval(low, high, CONFIDENCE_LEVEL), sessions)),
                None => Err("within its run, the upper end of the interval rests on requests that have no value".to_owned()),
            }
        });
        let of_name = |name: &MetricName| {
            let found = match name.statistic.estimator() {
                Estimator::Value | Estimator::Mean => mean_interval(metric, &sums),
                Estimator::Quantile(_) | Estimator::WithFailures(_) => {
                    of_quantiles.next().unwrap_or_else(|| Err("it was not computed".to_owned()))
                }
            };
            let unit = name.definition().unit;
            (name.text, found.map(|(interval, sessions)| stated(&interval, sessions, |end| unit.from_sample(end))))
        };
        Ok(names(metric).iter().map(of_name).collect())
    }

    fn clusters_of_quantile(&self, sums: &[Sum], quantile: &Quantile) -> Vec<Cluster> {
        let counts = sums.iter().zip(&self.sessions.uncancelled);
        let values = counts.map(|(sum, uncancelled)| if quantile.of.is_some() { *uncancelled } else { sum.n });
        let clusters = values.zip(&quantile.below).filter(|(of, _)| *of > 0);
        clusters.map(|(of, below)| Cluster { part: *below as f64, of: of as f64 }).collect()
    }

    /// Adds up the samples of each session, and selects the quantiles of the metric's names, in their order.
    fn sums_and_quantiles(&self, metric: Metric) -> Result<(Vec<Sum>, Vec<Quantile>), RecordError> {
        let uncancelled = self.scanned.tally.uncancelled();
        let mut quantiles: Vec<Quantile> = names(metric)
            .iter()
            .filter_map(|name| match name.statistic.estimator() {
                Estimator::Value | Estimator::Mean => None,
                Estimator::Quantile(q) => Some(Quantile { q, of: None, at_most: None, below: Vec::new() }),
                Estimator::WithFailures(q) => Some(Quantile { q, of: Some(uncancelled), at_most: None, below: Vec::new() }),
            })
            .collect();
        let mut sums = vec![Sum::default(); self.sessions.ids.len()];
        let add = |place: usize, sample: Sample| {
            if let Some(sum) = sums.get_mut(place) {
                sum.n += sample.times;
                sum.sum += sample.fixed * i128::from(sample.times);
            }
        };
        let wants = quantiles.iter().map(|quantile| quantile.at(quantile.q)).collect();
        for (quantile, found) in quantiles.iter_mut().zip(self.select(metric, wants, add)?) {
            // No sample lies between the two that a quantile is interpolated between.
            quantile.at_most = if let SelectedQuantile::Between { below, .. } = found { Some(below) } else { None };
        }
        Ok((sums, quantiles))
    }

    fn count_below(&self, metric: Metric, quantiles: &mut [Quantile]) -> Result<(), RecordError> {
        for quantile in quantiles.iter_mut() {
            quantile.below = vec![0; self.sessions.ids.len()];
        }
        if quantiles.is_empty() {
            return Ok(());
        }
        self.each_sample(metric, |place, sample| {
            for quantile in quantiles.iter_mut().filter(|quantile| quantile.at_most.is_some_and(|most| sample.key <= most)) {
                quantile.below.get_mut(place).into_iter().for_each(|below| *below += sample.times);
            }
        })
    }

    /// Selects quantiles of all samples; `visit` has each sample once. Without wanted quantiles it is one pass.
    fn select(
        &self,
        metric: Metric,
        wants: Vec<WantedQuantile>,
        mut visit: impl FnMut(usize, Sample),
    ) -> Result<Vec<SelectedQuantile>, RecordError> {
        let mut selection = Selection::new(wants, self.room);
        let mut first = true;
        loop {
            self.each_sample(metric, |place, sample| {
                if first {
                    visit(place, sample);
                }
                selection.add_times(sample.key, sample.times);
            })?;
            if selection.settle() {
                return Ok(selection.quantiles());
            }
            first = false;
        }
    }

    /// Calls `visit` with every sample of a metric and the place of its session.
    fn each_sample(&self, metric: Metric, mut visit: impl FnMut(usize, Sample)) -> Result<(), RecordError> {
        let formula = metric.definition().formula;
        for span in &self.scanned.row_groups {
            match formula {
                Formula::Span { from, to } => self.each_fact(&[from, to], formula, span, &mut visit, |fields| {
                    fields.get(to)?.checked_sub(fields.get(from)?).map(Sample::whole)
                })?,
                Formula::Quotient(quotient) => self.each_fact(quotient.reads, formula, span, &mut visit, |fields| {
                    (quotient.sample)(fields).map(|sample| Sample::quotient(sample, 1))
                })?,
                Formula::Gaps | Formula::TokenEvents => self.each_gap(metric, span, &mut visit)?,
                Formula::Trial(_) => {}
            }
        }
        Ok(())
    }

    fn each_fact(
        &self,
        reads: &[Field],
        formula: Formula,
        span: &RowGroupSpan<'_>,
        visit: &mut impl FnMut(usize, Sample),
        sample: impl Fn(&RequestFields) -> Option<Sample>,
    ) -> Result<(), RecordError> {
        let marks = marks(formula, span);
        self.each_request(reads, false, span, |row, _, fields, place| {
            if marks.get(row)
                && let Some(sample) = sample(fields)
            {
                visit(place, sample);
            }
        })
    }

    /// Calls `visit` with each request of the measured phase: its row in the span, its outcome if that is read, these facts, and the place of
    /// its session.
    fn each_request(
        &self,
        reads: &[Field],
        reads_outcome: bool,
        span: &RowGroupSpan<'_>,
        mut visit: impl FnMut(usize, Option<Outcome>, &RequestFields, usize),
    ) -> Result<(), RecordError> {
        let of_facts: Vec<Column> = reads.iter().map(|field| column(*field, self.rules)).collect();
        let mut columns: Vec<Column> = of_facts.iter().copied().chain([Column::Session]).collect();
        columns.extend(reads_outcome.then_some(Column::Outcome));
        columns.sort_unstable_by_key(|column| column.name());
        columns.dedup();
        span.each(&columns, |batch, before| {
            let values: Vec<Ints<'_>> = of_facts.iter().map(|column| batch.ints(*column)).collect::<Result<_, _>>()?;
            let outcomes: Vec<Outcome> = if reads_outcome { batch.words(Column::Outcome)? } else { Vec::new() };
            let sessions = batch.ints(Column::Session)?;
            let mut fields = RequestFields::default();
            for row in (0..batch.rows()).filter(|row| span.measured.get(before + row)) {
                for (field, values) in reads.iter().zip(&values) {
                    fields.set(*field, values.get(row));
                }
                if let Some(place) = self.sessions.place(session_of(sessions, batch, row)?) {
                    visit(before + row, outcomes.get(row).copied(), &fields, place);
                }
            }
            Ok(())
        })
    }

    fn each_gap(
        &self,
        metric: Metric,
        span: &RowGroupSpan<'_>,
        visit: &mut impl FnMut(usize, Sample),
    ) -> Result<(), RecordError> {
        if !span.file.has_gaps(span.groups.clone()) {
            return Ok(());
        }
        span.each(&[Column::ChunkAt, Column::ChunkTokens, Column::Session], |batch, before| {
            let (chunks, sessions) = (batch.chunk_lists()?, batch.ints(Column::Session)?);
            for row in (0..batch.rows()).filter(|row| span.ok.get(before + row)) {
                let Some(place) = self.sessions.place(session_of(sessions, batch, row)?) else { continue };
                let (at, tokens) = (chunks.at(row), chunks.tokens(row));
                let gaps = gaps(at, |place| tokens(place).and_then(|tokens| u32::try_from(tokens).ok()));
                match metric {
                    Metric::Icl => gaps.for_each(|gap| visit(place, Sample::whole(gap.gap_ns))),
                    Metric::Itl => gaps.for_each(|gap| {
                        let (ns, samples) = gap.itl_ns();
                        visit(place, Sample::quotient(ns, samples.into()));
                    }),
                    Metric::Ttst => gaps.take(1).for_each(|gap| visit(place, Sample::whole(gap.gap_ns))),
                    _ => {
                        let mut jitter = Jitter::default();
                        gaps.for_each(|gap| jitter.add(gap.gap_ns));
                        jitter.mean_ns().into_iter().for_each(|ns| visit(place, Sample::quotient(ns, 1)));
                    }
                }
            }
            Ok(())
        })
    }

    /// Returns the intervals of a metric that is a ratio of sums over requests.
    fn of_ratio(&self, metric: Metric, ratio: &Ratio) -> Result<Vec<(&'static str, Found)>, RecordError> {
        let mut reads: Vec<Field> = ratio.reads.to_vec();
        let is_of_slos = metric == Metric::GoodFraction;
        if is_of_slos {
            self.rules.slos.iter().for_each(|(slo, _)| reads.extend_from_slice(&fields_of(slo.metric().definition().formula)));
        }
        let mut sums = vec![[0_i128; 2]; self.sessions.ids.len()];
        for span in &self.scanned.row_groups {
            self.each_request(&reads, true, span, |_, outcome, fields, place| {
                let is_ok = outcome.is_some_and(Outcome::is_ok);
                let is_within = || self.rules.slos.iter().all(|(slo, at_most)| slo.is_within(*at_most, fields));
                let request = CountedRequest {
                    fields: *fields,
                    is_ok,
                    is_cancelled: outcome == Some(Outcome::Cancelled),
                    is_good: is_of_slos && is_ok && is_within(),
                };
                if let (Some(parts), Some(sums)) = ((ratio.parts)(&request), sums.get_mut(place)) {
                    sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += i128::from(part));
                }
            })?;
        }
        let with_parts = sums.iter().filter(|[part, of]| *part != 0 || *of != 0);
        let clusters: Vec<Cluster> = with_parts.map(|[part, of]| Cluster { part: *part as f64, of: *of as f64 }).collect();
        let cut = |end: f64| if ratio.is_share { end.clamp(0.0, 1.0) } else { end };
        let found = ratio_interval(&clusters, CONFIDENCE_LEVEL).map_err(|why| by_sessions(&why));
        let found = found.map(|interval| stated(&interval, clusters.len(), cut));
        Ok(names(metric).iter().map(|name| (name.text, found.clone())).collect())
    }
}

/// Returns the interval of a mean, and its number of sessions.
fn mean_interval(metric: Metric, sums: &[Sum]) -> Result<(assay_stats::Interval, usize), String> {
    let scale = if is_quotient(metric) { f64::from(1_u32 << FRACTION_BITS) } else { 1.0 };
    let with_samples = sums.iter().filter(|sum| sum.n > 0);
    let clusters: Vec<Cluster> = with_samples.map(|sum| Cluster { part: sum.sum as f64 / scale, of: sum.n as f64 }).collect();
    let interval = ratio_interval(&clusters, CONFIDENCE_LEVEL).map_err(|why| by_sessions(&why))?;
    Ok((interval, clusters.len()))
}

/// Returns the facts that a formula of a latency reads.
fn fields_of(formula: Formula) -> Vec<Field> {
    match formula {
        Formula::Span { from, to } => vec![from, to],
        Formula::Quotient(quotient) => quotient.reads.to_vec(),
        Formula::Gaps | Formula::TokenEvents | Formula::Trial(_) => Vec::new(),
    }
}

/// Returns the reason of an absent interval: what it calls clusters are sessions.
fn by_sessions(why: &NoInterval) -> String {
    format!("within its run, with sessions as clusters: {why}")
}

fn stated(interval: &assay_stats::Interval, sessions: usize, convert: impl Fn(f64) -> f64) -> Interval {
    Interval {
        low: convert(interval.low),
        high: convert(interval.high),
        level: interval.level,
        method: interval.method.name().to_owned(),
        kind: IntervalKind::WithinRun,
        sessions: Some(Count(sessions as u64)),
    }
}
