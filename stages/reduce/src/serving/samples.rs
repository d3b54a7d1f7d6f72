//! Distributions: samples of each metric from the records, trial by trial and pooled, in bounded memory.
//!
//! A metric is computed at a time, or the parts of one, with only the columns that they need. Samples are held as far as there is room; beyond
//! that, the records are read again ([`Selection`]). Sums are of whole numbers, so that no order of shards or threads changes a digit.

use std::collections::BTreeMap;

use assay_manifest::{Count, PooledLatency};
use assay_metric::{
    Estimator, Field, Formula, Jitter, MeasuredValue, Metric, MetricName, NO_CAP, Quotient, RequestFields, Requirement, Sum, Use,
    gaps, no_request_succeeded, no_response_has, quantity,
};
use assay_stats::selection::{decode_key, encode_key};
use assay_stats::{SelectedQuantile, Selection, WantedQuantile};
use assay_warehouse::records::{Ints, MAX_CHUNKS, RecordColumn as Column, RecordError};

use super::Limits;
use super::trial::{RowGroupSpan, RowMarks, Rules, ScannedTrial, start_column};
use super::views::probabilities;

/// Returns the metrics of which each request has at most one sample, the slow ones first so that threads end together.
fn latencies() -> Vec<Metric> {
    let mut all: Vec<Metric> = Metric::ALL.iter().copied().filter(|metric| metric.is_per_request()).collect();
    let is_quotient = |metric: Metric| matches!(metric.definition().formula, Formula::Quotient(_));
    all.sort_by_key(|metric| std::cmp::Reverse((is_quotient(*metric), metric.has_use(Use::Curve))));
    all
}

/// Returns the column that holds a fact of requests.
pub(super) fn column(field: Field, rules: &Rules) -> Column {
    match field {
        Field::Start => start_column(rules.has_intended),
        Field::Intended => Column::Intended,
        Field::Ready => Column::Ready,
        Field::ConnectStart => Column::ConnectStart,
        Field::ConnectEnd => Column::ConnectEnd,
        Field::Sent => Column::Sent,
        Field::FirstToken => Column::FirstToken,
        Field::FirstContent => Column::FirstContent,
        Field::LastToken => Column::LastToken,
        Field::OutputTokens => Column::OutputTokens,
        Field::FirstEventTokens => Column::FirstEventTokens,
        Field::InputTokens => Column::InputTokens,
        Field::EndpointInputTokens => Column::InputTokensEndpoint,
        Field::CachedTokens => Column::CachedTokens,
        Field::Turn => Column::Turn,
        Field::Stream => Column::Stream,
        Field::SessionTurns => Column::SessionTurns,
        Field::SessionDone => Column::SessionDone,
        Field::SessionStart => Column::SessionStart,
        Field::SessionPauses => Column::SessionPauses,
        Field::Planned => Column::Planned,
        Field::InputTokensRequested => Column::InputTokensRequested,
        Field::OutputTokensRequested => Column::OutputTokensRequested,
    }
}

/// The statistics of one distribution.
#[derive(Debug)]
pub(super) struct Distribution {
    /// For each trial, its statistics in the order of their names.
    pub(super) trials: Vec<Vec<(&'static str, MeasuredValue)>>,
    /// The number of samples and the results for the probabilities, pooled over trials, if the metric has a curve.
    pub(super) pooled: Option<PooledDistribution>,
}

/// A distribution over all trials.
#[derive(Debug)]
pub(super) struct PooledDistribution {
    pub(super) metric: Metric,
    pub(super) n: u64,
    pub(super) quantiles: Vec<SelectedQuantile>,
    quotient: bool,
}

impl PooledDistribution {
    /// Returns a result in milliseconds: only latencies have curves.
    pub(super) fn ms(&self, quantile: SelectedQuantile) -> Option<f64> {
        sample_of(quantile, self.quotient).map(|ns| self.metric.definition().unit.from_sample(ns))
    }
}

pub(super) fn sample_of(quantile: SelectedQuantile, quotient: bool) -> Option<f64> {
    if quotient { quantile.decoded_value(decode_key) } else { quantile.value() }
}

/// The number of binary places below the nanosecond (below the unit, if a metric is no latency) in sums of quotients. A sum of
/// fixed-point numbers does not depend on its order.
pub(super) const FRACTION_BITS: u32 = 16;

pub(super) fn fixed_point(value: f64) -> i128 {
    let scale = f64::from(1_u32 << FRACTION_BITS);
    // Conversions to 64 bits are quick, and hold 1.6 days in nanoseconds with their fraction.
    if value.abs() < 1.4e14 { i128::from((value * scale).round_ties_even() as i64) } else { (value as i128) << FRACTION_BITS }
}

/// The state of one quantity, from records to statistics, over some trials.
struct Channel {
    metric: Metric,
    /// True if samples are quotients, given by the keys of doubles.
    quotient: bool,
    selections: Vec<Selection>,
    sums: Vec<Sum>,
    pooled: Option<Selection>,
    trial: Option<usize>,
    summing: bool,
    pooling: bool,
}

impl Channel {
    fn new(metric: Metric, quotient: bool, trials: &[ScannedTrial<'_>], room: usize) -> Self {
        let separate = trials.len() > 1;
        let has_curve = metric.has_use(Use::Curve);
        let room = if separate && has_curve { room / 2 } else { room };
        let grid = || probabilities().into_iter().map(WantedQuantile::Quantile);
        let selection = |scanned: &ScannedTrial<'_>| {
            let mut wants: Vec<WantedQuantile> = names(metric)
                .iter()
                .filter_map(|name| wanted_quantile(name.statistic.estimator(), scanned.tally.uncancelled()))
                .collect();
            if has_curve && !separate {
                wants.extend(grid());
            }
            Selection::new(wants, room)
        };
        Self {
            metric,
            quotient,
            selections: trials.iter().map(selection).collect(),
            sums: vec![Sum::default(); trials.len()],
            pooled: (has_curve && separate).then(|| Selection::new(grid().collect(), room)),
            trial: None,
            summing: false,
            pooling: false,
        }
    }

    /// A channel of the samples of all trials together only.
    fn pooling(metric: Metric, quotient: bool, pooled: Selection) -> Self {
        let (selections, sums) = (Vec::new(), Vec::new());
        Self { metric, quotient, selections, sums, pooled: Some(pooled), trial: None, summing: false, pooling: false }
    }

    /// Returns its two pooled quantiles; `None` without a sample.
    fn pooled_latency(&self) -> Option<PooledLatency> {
        let pooled = self.pooled.as_ref()?;
        let unit = self.metric.definition().unit;
        let quantiles = pooled.quantiles();
        let [p50, p99] = quantiles.as_slice() else { return None };
        let [p50, p99] = [p50, p99].map(|quantile| sample_of(*quantile, self.quotient).map(|sample| unit.from_sample(sample)));
        Some(PooledLatency { n: Count(pooled.n()), p50_ms: p50?, p99_ms: p99? })
    }

    fn begin(&mut self, trial: Option<usize>, first: bool) {
        (self.trial, self.summing, self.pooling) = (trial, first, first || trial.is_none());
    }

    /// Announces the maximum number of samples.
    fn expect(&mut self, samples: usize, of_all: usize) {
        self.trial.and_then(|trial| self.selections.get_mut(trial)).into_iter().for_each(|selection| selection.reserve(samples));
        self.pooled.iter_mut().for_each(|pooled| pooled.reserve(of_all));
    }

    #[inline]
    fn add(&mut self, ns: i64) {
        self.add_key(ns, 1, || i128::from(ns));
    }

    #[inline]
    fn add_quotient(&mut self, sample: f64, times: u64) {
        self.add_key(encode_key(sample), times, || fixed_point(sample));
    }

    #[inline]
    fn add_key(&mut self, key: i64, times: u64, summand: impl FnOnce() -> i128) {
        if let Some(trial) = self.trial {
            if let Some(sum) = self.sums.get_mut(trial).filter(|_| self.summing) {
                sum.n += times;
                sum.sum += summand() * i128::from(times);
            }
            if let Some(selection) = self.selections.get_mut(trial) {
                selection.add_times(key, times);
            }
        }
        if self.pooling
            && let Some(pooled) = &mut self.pooled
        {
            pooled.add_times(key, times);
        }
    }

    /// Ends a pass over one trial, and returns true if no further pass is needed.
    fn settle(&mut self) -> bool {
        self.trial.and_then(|trial| self.selections.get_mut(trial)).is_none_or(Selection::settle)
    }

    fn settle_pooled(&mut self) -> bool {
        self.pooled.as_mut().is_none_or(Selection::settle)
    }

    fn is_pooled(&self) -> bool {
        self.pooled.as_ref().is_none_or(Selection::is_settled)
    }

    fn finish(self, trials: &[ScannedTrial<'_>], why_none: impl Fn(&ScannedTrial<'_>) -> String) -> Distribution {
        let scale = if self.quotient { f64::from(1_u32 << FRACTION_BITS) } else { 1.0 };
        let mut of_trials = Vec::new();
        for ((scanned, selection), sum) in trials.iter().zip(&self.selections).zip(&self.sums) {
            let mut quantiles = selection.quantiles().into_iter();
            let n = selection.n();
            let measured = names(self.metric).iter().map(|name| {
                let estimator = name.statistic.estimator();
                let sample = match estimator {
                    Estimator::Value | Estimator::Mean => sum.mean().map(|mean| mean / scale).ok_or_else(|| why_none(scanned)),
                    Estimator::Quantile(_) => sample_of(quantiles.next().unwrap_or(SelectedQuantile::Absent), self.quotient)
                        .ok_or_else(|| why_none(scanned)),
                    Estimator::WithFailures(q) => match quantiles.next() {
                        Some(SelectedQuantile::Beyond) => Err(beyond(q, scanned.tally.uncancelled(), n)),
                        quantile => sample_of(quantile.unwrap_or(SelectedQuantile::Absent), self.quotient)
                            .ok_or_else(|| why_none(scanned)),
                    },
                };
                let n = if name.statistic.counts_failures() { scanned.tally.uncancelled() } else { n };
                (name.text, sample.map(|sample| (name.definition().unit.from_sample(sample), n)))
            });
            of_trials.push(measured.collect());
        }
        let of_trial = names(self.metric).iter().filter(|name| wanted_quantile(name.statistic.estimator(), 0).is_some()).count();
        let pooled = self.metric.has_use(Use::Curve).then_some(self.metric).and_then(|metric| {
            let (selection, skip) = match (&self.pooled, self.selections.first()) {
                (Some(pooled), _) => (pooled, 0),
                (None, first) => (first?, of_trial),
            };
            let quantiles = selection.quantiles().into_iter().skip(skip).collect();
            Some(PooledDistribution { metric, n: selection.n(), quantiles, quotient: self.quotient })
        });
        Distribution { trials: of_trials, pooled }
    }
}

pub(super) fn names(metric: Metric) -> &'static [MetricName] {
    metric.definition().names
}

fn wanted_quantile(estimator: Estimator, requests: u64) -> Option<WantedQuantile> {
    match estimator {
        Estimator::Value | Estimator::Mean => None,
        Estimator::Quantile(q) => Some(WantedQuantile::Quantile(q)),
        Estimator::WithFailures(q) => Some(WantedQuantile::QuantileWithMissing { q, of: requests }),
    }
}

fn beyond(q: f64, requests: u64, n: u64) -> String {
    format!(
        "the {} % quantile rests on requests that have no value; {n} of {} have one",
        q * 100.0,
        quantity(requests, "request")
    )
}

/// Feeds channels until each is complete: each trial by itself, then the pooled samples. `scan` gives every sample of a trial.
fn settle(
    trials: &[ScannedTrial<'_>],
    channels: &mut [Channel],
    mut scan: impl FnMut(&ScannedTrial<'_>, &mut [Channel], bool) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    for (place, scanned) in trials.iter().enumerate() {
        let mut first = true;
        loop {
            for channel in channels.iter_mut() {
                channel.begin(Some(place), first);
            }
            scan(scanned, channels, first)?;
            // Every channel ends the pass, independent of the others.
            let open = channels.iter_mut().map(Channel::settle).filter(|done| !done).count();
            if open == 0 {
                break;
            }
            first = false;
        }
    }
    for channel in channels.iter_mut() {
        channel.settle_pooled();
    }
    settle_pooled(channels, |channels| trials.iter().try_for_each(|scanned| scan(scanned, channels, false)))
}

/// Feeds channels with the samples of all trials until their pooled quantiles are known. `scan` gives every sample.
fn settle_pooled(
    channels: &mut [Channel],
    mut scan: impl FnMut(&mut [Channel]) -> Result<(), RecordError>,
) -> Result<(), RecordError> {
    while !channels.iter().all(Channel::is_pooled) {
        for channel in channels.iter_mut() {
            channel.begin(None, false);
        }
        scan(channels)?;
        for channel in channels.iter_mut() {
            channel.settle_pooled();
        }
    }
    Ok(())
}

/// One job of a thread.
#[derive(Clone, Debug)]
enum Job {
    Chunks,
    /// A metric, or metrics that are parts of one: what they read is read once for all of them.
    Latencies(Vec<Metric>),
}

impl Job {
    /// Returns the jobs of all metrics, the slow ones first so that threads end together.
    fn all() -> Vec<Self> {
        let of_part = |metric: &Metric| part(*metric).map(|quotient| quotient.reads);
        let metrics = latencies();
        let groups = metrics.chunk_by(|one, other| of_part(one).is_some() && of_part(one) == of_part(other));
        std::iter::once(Self::Chunks).chain(groups.map(|group| Self::Latencies(group.to_vec()))).collect()
    }
}

/// Returns the quotient of a metric that is a part of one.
fn part(metric: Metric) -> Option<&'static Quotient> {
    let Formula::Quotient(quotient) = metric.definition().formula else { return None };
    Some(quotient).filter(|quotient| quotient.is_part)
}

/// Computes the distributions of all metrics over some trials, several threads at a time.
pub(super) fn distributions(
    trials: &[ScannedTrial<'_>],
    rules: &Rules,
    limits: Limits,
) -> Result<Vec<Distribution>, RecordError> {
    let jobs = Job::all();
    let room = limits.room / limits.threads.clamp(1, jobs.len());
    let results = super::trial::in_parallel(limits.threads, &jobs, |job| match job {
        Job::Chunks => chunks(trials, room),
        Job::Latencies(metrics) => latencies_of(metrics, trials, rules, room),
    })?;
    Ok(results.into_iter().flatten().collect())
}

/// Returns the reason why the requests of a point have no samples of a metric, if they have none.
fn unmet(metric: Metric, rules: &Rules) -> Option<&'static str> {
    let conditions = [
        (Requirement::IntendedTimes, rules.has_intended, "under closed loop no request has an intended time"),
        (Requirement::Sessions, rules.has_sessions, "requests are not turns of sessions"),
        (Requirement::ConcurrencyCap, rules.has_cap, NO_CAP),
        (Requirement::NewConnections, rules.is_connecting, "connections are reused"),
        (Requirement::PlannedTurns, rules.has_planned, "its turns have no planned times, as those of a trace and of users have"),
        (Requirement::TraceSessions, rules.plays_trace, "requests are not turns of the sessions of a trace"),
        (
            Requirement::RecordedEnds,
            rules.has_recorded_ends,
            "the trace does not record the end of every response, or has subagents, which are active side by side",
        ),
    ];
    conditions.into_iter().find(|(requirement, met, _)| metric.requires(*requirement) && !met).map(|(.., why)| why)
}

fn latencies_of(
    metrics: &[Metric],
    trials: &[ScannedTrial<'_>],
    rules: &Rules,
    room: usize,
) -> Result<Vec<Distribution>, RecordError> {
    let (met, others): (Vec<Metric>, Vec<Metric>) = metrics.iter().partition(|metric| unmet(**metric, rules).is_none());
    let absent = |metric: Metric| {
        let why = unmet(metric, rules).unwrap_or_default();
        let of_trial = || names(metric).iter().map(|name| (name.text, Err(why.to_owned()))).collect();
        Distribution { trials: trials.iter().map(|_| of_trial()).collect(), pooled: None }
    };
    let mut found: Vec<Distribution> = others.into_iter().map(absent).collect();
    let Some(formula) = met.first().map(|metric| metric.definition().formula) else { return Ok(found) };
    let of_all: usize = trials.iter().map(|scanned| samples_at_most(formula, scanned)).sum();
    // Each request is in one part, so that all parts hold as much together as one metric does.
    let room = if of_all <= room { room } else { room / met.len() };
    let channel = |metric: &Metric| Channel::new(*metric, matches!(formula, Formula::Quotient(_)), trials, room);
    let mut channels: Vec<Channel> = met.iter().map(channel).collect();
    settle(trials, &mut channels, |scanned, channels, first| {
        if let [channel] = &mut *channels
            && first
        {
            channel.expect(samples_at_most(formula, scanned), of_all);
        }
        scanned.row_groups.iter().try_for_each(|span| scan(rules, span, channels))
    })?;
    let finish = |channel: Channel| {
        let formula = channel.metric.definition().formula;
        channel.finish(trials, |scanned| absence_reason(formula, scanned))
    };
    found.extend(channels.into_iter().map(finish));
    Ok(found)
}

/// Returns the median and the 99 % quantile of each latency that has a curve, over all marked requests together. A latency that no request has is
/// left out.
pub(super) fn pooled_latencies(
    trials: &[Vec<RowGroupSpan<'_>>],
    rules: &Rules,
    limits: Limits,
) -> Result<BTreeMap<String, PooledLatency>, RecordError> {
    let metrics: Vec<Metric> = latencies().into_iter().filter(|metric| metric.has_use(Use::Curve)).collect();
    let room = limits.room / limits.threads.clamp(1, metrics.len().max(1));
    let of_metric = |metric: &Metric| {
        let quotient = matches!(metric.definition().formula, Formula::Quotient(_));
        let wants = [0.5, 0.99].map(WantedQuantile::Quantile).to_vec();
        let mut channels = [Channel::pooling(*metric, quotient, Selection::new(wants, room))];
        settle_pooled(&mut channels, |channels| trials.iter().flatten().try_for_each(|span| scan(rules, span, channels)))?;
        let [channel] = channels;
        Ok(channel.pooled_latency().map(|latency| (metric.definition().key.to_owned(), latency)))
    };
    let found: Vec<Option<(String, PooledLatency)>> = super::trial::in_parallel(limits.threads, &metrics, of_metric)?;
    Ok(found.into_iter().flatten().collect())
}

/// Returns the marks of the requests that a formula is computed of: all of the measured phase, if it reads nothing of a response.
pub(super) fn marks<'a>(formula: Formula, span: &'a RowGroupSpan<'_>) -> &'a RowMarks {
    match formula {
        Formula::Span { to, .. } if !to.is_of_response() => &span.measured,
        _ => &span.ok,
    }
}

fn samples_at_most(formula: Formula, scanned: &ScannedTrial<'_>) -> usize {
    scanned.row_groups.iter().map(|span| marks(formula, span).count()).sum()
}

fn absence_reason(formula: Formula, scanned: &ScannedTrial<'_>) -> String {
    let (requests, ok) = (scanned.tally.requests(), scanned.tally.ok());
    match formula {
        _ if requests == 0 => "no request was due in the measured phase".to_owned(),
        Formula::Span { to, .. } if !to.is_of_response() => "no request was sent".to_owned(),
        _ if ok == 0 => no_request_succeeded(requests),
        Formula::Span { to, .. } => no_response_has(ok, to.description()),
        Formula::Quotient(quotient) => no_response_has(ok, quotient.description),
        Formula::Gaps | Formula::TokenEvents | Formula::Trial(_) => no_response_has(ok, "a list of two token events"),
    }
}

/// Gives the samples of a span to channels: to one of any latency, or to those of metrics that read the same facts.
fn scan(rules: &Rules, span: &RowGroupSpan<'_>, channels: &mut [Channel]) -> Result<(), RecordError> {
    let Some(formula) = channels.first().map(|channel| channel.metric.definition().formula) else { return Ok(()) };
    match formula {
        Formula::Span { from, to } => {
            visit_spans([from, to].map(|field| column(field, rules)), marks(formula, span), span, |from, to| {
                if let Some(ns) = to.checked_sub(from) {
                    for channel in &mut *channels {
                        channel.add(ns);
                    }
                }
            })
        }
        Formula::Quotient(quotient) => scan_quotients(quotient.reads, rules, span, channels),
        Formula::Gaps | Formula::TokenEvents | Formula::Trial(_) => Ok(()),
    }
}

/// Calls `visit` with both instants of every marked request that has them.
pub(super) fn visit_spans(
    columns: [Column; 2],
    marks: &RowMarks,
    span: &RowGroupSpan<'_>,
    mut visit: impl FnMut(i64, i64),
) -> Result<(), RecordError> {
    let [from, to] = columns;
    span.each(&columns, |batch, before| {
        let (start, at) = (batch.ints(from)?, batch.ints(to)?);
        for row in (0..batch.rows()).filter(|row| marks.get(before + row)) {
            if let (Some(from), Some(to)) = (start.get(row), at.get(row)) {
                visit(from, to);
            }
        }
        Ok(())
    })
}

fn scan_quotients(reads: &[Field], rules: &Rules, span: &RowGroupSpan<'_>, channels: &mut [Channel]) -> Result<(), RecordError> {
    let columns: Vec<Column> = reads.iter().map(|field| column(*field, rules)).collect();
    let mut channels: Vec<(&Quotient, &mut Channel)> = channels
        .iter_mut()
        .filter_map(|channel| match channel.metric.definition().formula {
            Formula::Quotient(quotient) => Some((quotient, channel)),
            _ => None,
        })
        .collect();
    span.each(&columns, |batch, before| {
        let values: Vec<Ints<'_>> = columns.iter().map(|column| batch.ints(*column)).collect::<Result<_, _>>()?;
        let mut request = RequestFields::default();
        for row in (0..batch.rows()).filter(|row| span.ok.get(before + row)) {
            for (field, values) in reads.iter().zip(&values) {
                request.set(*field, values.get(row));
            }
            for (quotient, channel) in &mut channels {
                if let Some(sample) = (quotient.sample)(&request) {
                    channel.add_quotient(sample, 1);
                }
            }
        }
        Ok(())
    })
}

/// The results of the lists of token events besides gaps.
#[derive(Clone, Copy, Debug, Default)]
struct ChunkListStatistics {
    jitter: Sum,
    /// The number of responses with several token events and without their list.
    missing: u64,
    /// The number of tokens, by the endpoint, of responses in several events for which it does not state the tokens of each
    /// event.
    unplaced: u64,
    /// The token events of these responses, and one more each: the token that ends a response brings no text.
    unplaced_events: u64,
}

/// The share of such tokens above which events regularly bring several of them: below it they are the occasional token without
/// text.
const MAX_PACKED_SHARE: f64 = 0.05;

impl ChunkListStatistics {
    /// Returns true if the gaps between events are not those between tokens.
    fn are_packed(&self) -> bool {
        self.unplaced.saturating_sub(self.unplaced_events) as f64 > MAX_PACKED_SHARE * self.unplaced as f64
    }
}

/// Computes ICL, TTST, ITL and jitter.
fn chunks(trials: &[ScannedTrial<'_>], room: usize) -> Result<Vec<Distribution>, RecordError> {
    // A request has one TTST and many gaps.
    let mut channels = [
        Channel::new(Metric::Icl, false, trials, room / 8 * 3),
        Channel::new(Metric::Ttst, false, trials, room / 4),
        Channel::new(Metric::Itl, true, trials, room / 8 * 3),
    ];
    let mut lists = vec![ChunkListStatistics::default(); trials.len()];
    settle(trials, &mut channels, |scanned, channels, first| {
        let place = trials.iter().position(|other| std::ptr::eq(other, scanned));
        let mut ignored = ChunkListStatistics::default();
        let lists = place.filter(|_| first).and_then(|place| lists.get_mut(place)).unwrap_or(&mut ignored);
        scanned.row_groups.iter().try_for_each(|span| scan_chunks(span, channels, lists))
    })?;
    let why = |scanned: &ScannedTrial<'_>| absence_reason(Formula::Gaps, scanned);
    let mut distributions: Vec<Distribution> = channels.into_iter().map(|channel| channel.finish(trials, why)).collect();
    absent_where_packed(distributions.last_mut(), &lists);
    distributions.push(jitter(trials, &lists));
    // A missing list would change the distribution.
    for distribution in &mut distributions {
        for ((scanned, lists), measured) in trials.iter().zip(&lists).zip(&mut distribution.trials) {
            if scanned.trial.all_lists && lists.missing > 0 {
                let why = format!(
                    "the list of token events is missing in {} of {}, although all were kept",
                    lists.missing,
                    quantity(scanned.tally.ok(), "response")
                );
                for (_, measured) in measured {
                    *measured = Err(why.clone());
                }
            }
        }
    }
    Ok(distributions)
}

/// Marks ITL as absent if events hold several tokens: a gap before several tokens is no inter-token latency, and without their
/// number it cannot be made one.
fn absent_where_packed(itl: Option<&mut Distribution>, lists: &[ChunkListStatistics]) {
    let Some(itl) = itl else { return };
    for (lists, measured) in lists.iter().zip(&mut itl.trials).filter(|(lists, _)| lists.are_packed()) {
        let (tokens, events) = (lists.unplaced, lists.unplaced_events);
        let why =
            format!("the endpoint counts {tokens} tokens in at most {events} events and does not report how many each holds");
        for (_, measured) in measured {
            *measured = Err(why.clone());
        }
    }
}

fn jitter(trials: &[ScannedTrial<'_>], lists: &[ChunkListStatistics]) -> Distribution {
    let of_trial = |(scanned, lists): (&ScannedTrial<'_>, &ChunkListStatistics)| {
        let none = || match scanned.tally.ok() {
            0 => absence_reason(Formula::TokenEvents, scanned),
            ok => no_response_has(ok, "a list of three token events"),
        };
        let mean = lists.jitter.mean().map(|mean| (mean / f64::from(1_u32 << FRACTION_BITS) / 1e6, lists.jitter.n));
        names(Metric::Jitter).iter().map(|name| (name.text, mean.ok_or_else(none))).collect()
    };
    Distribution { trials: trials.iter().zip(lists).map(of_trial).collect(), pooled: None }
}

/// Returns true if the instants are those of all token events of a request, whose first, last and number are known.
fn is_list_of(at: &[i64], first: Option<i64>, last: Option<i64>, events: Option<i64>) -> bool {
    let is_cut = at.len() >= MAX_CHUNKS && events.is_some();
    let is_whole = events == i64::try_from(at.len()).ok() && at.last().copied() == last;
    (is_cut || is_whole) && at.first().copied() == first && at.is_sorted()
}

fn scan_chunks(span: &RowGroupSpan<'_>, channels: &mut [Channel], lists: &mut ChunkListStatistics) -> Result<(), RecordError> {
    let [icl, ttst, itl] = channels else { return Ok(()) };
    if !span.file.has_gaps(span.groups.clone()) {
        return span.each(&[Column::TokenEvents], |batch, before| {
            let events = batch.ints(Column::TokenEvents)?;
            let several = |row: &usize| span.ok.get(before + row) && events.get(*row) > Some(1);
            lists.missing += (0..batch.rows()).filter(several).count() as u64;
            Ok(())
        });
    }
    let columns = [
        Column::FirstToken,
        Column::LastToken,
        Column::TokenEvents,
        Column::OutputTokens,
        Column::FirstEventTokens,
        Column::ChunkAt,
        Column::ChunkTokens,
    ];
    span.each(&columns, |batch, before| {
        let (events, chunks) = (batch.ints(Column::TokenEvents)?, batch.chunk_lists()?);
        let (first, last) = (batch.ints(Column::FirstToken)?, batch.ints(Column::LastToken)?);
        let (output, of_first) = (batch.ints(Column::OutputTokens)?, batch.ints(Column::FirstEventTokens)?);
        for row in (0..batch.rows()).filter(|row| span.ok.get(before + row)) {
            let at = chunks.at(row);
            if at.is_empty() && events.get(row) > Some(1) {
                lists.missing += 1;
            }
            let tokens = chunks.tokens(row);
            let wrong = |column: Column, problem| RecordError::Value {
                column: column.name(),
                index: batch.first_row() + row as u64,
                problem,
            };
            if !at.is_empty() && !is_list_of(at, first.get(row), last.get(row), events.get(row)) {
                let problem = "its token events are not as many, from the first to the last, each after the one before";
                return Err(wrong(Column::ChunkAt, problem));
            }
            if !at.is_empty() && tokens(0) != of_first.get(row) {
                return Err(wrong(
                    Column::ChunkTokens,
                    "its first token event has another number of tokens than the record states",
                ));
            }
            // A lone event makes no gap: its number of tokens does not matter.
            let is_unplaced = at.len() > 1 && (0..at.len()).any(|place| tokens(place).is_none());
            if let (Some(output), true) = (output.get(row), is_unplaced) {
                lists.unplaced += u64::try_from(output).unwrap_or(0);
                lists.unplaced_events += at.len() as u64 + 1;
            }
            let mut jitter = Jitter::default();
            if let [first, second, ..] = at {
                ttst.add(second.saturating_sub(*first));
            }
            for gap in gaps(at, |place| tokens(place).and_then(|tokens| u32::try_from(tokens).ok())) {
                icl.add(gap.gap_ns);
                let (ns, samples) = gap.itl_ns();
                itl.add_quotient(ns, samples.into());
                jitter.add(gap.gap_ns);
            }
            if let Some(ns) = jitter.mean_ns() {
                lists.jitter.n += 1;
                lists.jitter.sum += fixed_point(ns);
            }
        }
        Ok(())
    })
}
