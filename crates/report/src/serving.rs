//! The serving part of a case and its points: the requested work, requests by outcome, distributions and a timeline.

use std::collections::{BTreeMap, BTreeSet};

use assay_manifest::{
    ArrivalLaw, CacheMode, Count, LengthLaw, MetricSummary, Point, PointKind, PointSummary, PointView, ServingPoint, ServingWork,
    Slo, Stability, TimelineRequest,
};
use assay_metric::{Metric, MetricName, Statistic};

use crate::model::{CaseSection, MetricStatistics, PointSection, Row, Sentence, trial_count_text};
use crate::number::{grouped, percent, significant};
use crate::remark::Remark;
use crate::text::{clean, counted};

/// Maximum number of quantiles kept of a curve: more than a panel has pixels is not visible.
const MAX_QUANTILES: usize = 96;

/// Maximum number of requests in a timeline: rows of a few pixels each.
const MAX_TIMELINE: usize = 48;

/// Maximum number of failed requests in a timeline; they are kept first, because readers look for them.
const MAX_FAILED_SHOWN: usize = 16;

/// Maximum number of outcomes that a point names; there are only so many kinds of outcome, but a hostile Summary can invent more.
const MAX_OUTCOMES: usize = 12;

/// Minimum number of samples of a trial for a meaningful 99th percentile: with fewer, it lies between the two largest.
const MIN_FOR_P99: u64 = 100;

/// Maximum number of absent metrics that a point explains.
const MAX_ABSENT: usize = 100;

/// The headline metric of a serving case; the second is used if responses are not streamed.
pub(crate) const HEADLINES: [&str; 2] = ["ttft_ms_p99", "e2e_ms_p99"];

/// The metrics of throughput, best first: not every API has output tokens.
pub(crate) const THROUGHPUTS: [&str; 2] = ["output_tokens_per_s", "request_throughput_per_s"];

/// The requested work.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RequestedWork {
    pub(crate) model: String,
    pub(crate) api: &'static str,
    pub(crate) streaming: bool,
    /// True if requests are sent at a set request rate, independent of responses.
    pub(crate) open_loop: bool,
    pub(crate) arrivals: String,
    pub(crate) lengths: String,
    pub(crate) cache: &'static str,
    pub(crate) slos: Vec<SloLine>,
}

/// A limit that each request must keep.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SloLine {
    /// `TTFT`.
    pub(crate) name: &'static str,
    /// `ttft`, the prefix of metric names.
    pub(crate) metric: &'static str,
    pub(crate) limit_ms: f64,
    /// `TTFT 500 ms`.
    pub(crate) text: String,
}

/// A load level, and the outcomes of its requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Load {
    /// Concurrency, or arrivals per second; `None` if it is neither.
    pub(crate) amount: Option<f64>,
    /// `64`, `2.5/s`: the load for labels without room for words.
    pub(crate) short: String,
    /// Number of requests that were due; if no attempt counts, those of all attempts, because their outcomes are the only result.
    pub(crate) requests: u64,
    /// True if the requests belong to attempts that do not count.
    pub(crate) are_uncounted: bool,
    pub(crate) ok: u64,
    /// The other outcomes with their counts, most frequent first.
    pub(crate) failures: Vec<(String, u64)>,
    pub(crate) slo_met: Option<bool>,
    /// The instant that latencies count from; empty if nothing was measured.
    pub(crate) latency_from: String,
    pub(crate) token_sources: Vec<(String, u64)>,
    pub(crate) tpot_assumed: u64,
    pub(crate) curves: Vec<Curve>,
    pub(crate) timeline: Option<Timeline>,
}

/// A distribution that can be drawn: finite, rising, latencies above zero.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Curve {
    pub(crate) metric: String,
    pub(crate) n: u64,
    /// Number of failed requests, which lie beyond every value.
    pub(crate) failed: u64,
    /// Pairs of probability, over the available samples, and milliseconds.
    pub(crate) quantiles: Vec<(f64, f64)>,
}

/// Requests of one trial, in the order in which they started.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Timeline {
    pub(crate) trial: String,
    /// The number of shown requests and of all requests, and the rule by which they were chosen.
    pub(crate) shown_text: String,
    pub(crate) requests: Vec<TimelineRequest>,
}

/// A column of the serving table.
pub(crate) type Column = MetricName;

/// Returns the columns of a case: those that some point has, without those whose content another column shows better.
pub(crate) fn columns(case: &CaseSection) -> Vec<&'static Column> {
    let known: BTreeSet<&str> = case.points.iter().flat_map(|point| &point.rows).map(|row| row.metric.as_str()).collect();
    let measured = |metric: &str| case.points.iter().any(|point| point.measured(metric).is_some());
    let has_slos = case.serving.as_ref().is_some_and(|work| !work.slos.is_empty());
    let wanted = |column: &&Column| match column.text {
        "icl_ms_p99" => !measured("itl_ms_p99"),
        "e2e_ms_p50" => !measured("ttft_ms_p50"),
        "tpot_ms_p99" => has_slos,
        "goodput_requests_per_s" => has_slos || measured("goodput_requests_per_s"),
        _ => true,
    };
    let shown = MetricName::all().filter(|name| name.rank.is_some());
    shown.filter(|column| known.contains(column.text)).filter(wanted).collect()
}

/// Returns the title of a column with its unit: `TTFT p99, ms`, `tokens/s`.
pub(crate) fn title_with_unit(column: &Column) -> String {
    match column.statistic {
        Statistic::Value => column.title(),
        _ => format!("{}, {}", column.title(), column.definition().unit.as_str()),
    }
}

/// Returns the common name of a metric: `TTFT p99` for `ttft_ms_p99`; the metric's own name if it is not one of serving.
pub(crate) fn metric_name(metric: &str) -> String {
    MetricName::find(metric).map_or_else(|| metric.to_owned(), MetricName::title)
}

/// The suffix of a metric's twin that counts failed requests as the slowest.
pub(crate) const WITH_FAILURES: &str = "_with_failures";

/// Returns the twin of a column that counts failed requests as the slowest; `None` if no requests of the load failed.
pub(crate) fn twin<'a>(point: &'a PointSection, column: &Column) -> Option<&'a Row> {
    let failed = point.serving.as_ref().is_some_and(|load| load.failed() > 0);
    let row = || point.rows.iter().find(|row| row.metric.strip_suffix(WITH_FAILURES) == Some(column.text));
    failed.then(row).flatten()
}

impl RequestedWork {
    pub(crate) fn new(work: &ServingWork) -> Self {
        let query = work.query.as_ref().map(|law| format!(", {} query", length(law))).unwrap_or_default();
        let output = work.output.as_ref().map(|law| format!(", {} out", length(law))).unwrap_or_default();
        Self {
            model: clean(&work.model),
            api: work.api.as_str(),
            streaming: work.is_streamed(),
            open_loop: !matches!(work.arrival, ArrivalLaw::Closed),
            arrivals: arrivals(&work.arrival),
            lengths: format!("tokens {} in{query}{output}", length(&work.input)),
            cache: match work.cache {
                CacheMode::ColdSalt => "cold (each trial's prompts have a salt of their own)",
                CacheMode::ColdFlush => "cold (flushed before each trial)",
                CacheMode::Warm => "warm (each trial's prompts were sent once before)",
                CacheMode::Shared => "as earlier trials left it",
            },
            slos: work.slos.iter().map(SloLine::new).collect(),
        }
    }

    /// Returns `TTFT 500 ms, TPOT 50 ms`.
    pub(crate) fn slo_text(&self) -> String {
        self.slos.iter().map(|slo| slo.text.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the model and the requested work: `llama-8b, chat, streamed`.
    pub(crate) fn summary(&self) -> String {
        let streamed = if self.streaming { ", streamed" } else { "" };
        format!("{}, {}{streamed}", self.model, self.api)
    }
}

impl SloLine {
    fn new(slo: &Slo) -> Self {
        let row = slo.metric.metric().definition();
        let (name, metric) = (row.title, row.key);
        let limit_ms = slo.at_most_ns.0 as f64 / 1e6;
        // A limit is exact: it was declared, not measured.
        Self { name, metric, limit_ms, text: format!("{name} {limit_ms} ms") }
    }
}

fn arrivals(law: &ArrivalLaw) -> String {
    match law {
        ArrivalLaw::Closed => "closed loop: each response is followed by the next request".to_owned(),
        ArrivalLaw::Constant => "open loop, equal gaps".to_owned(),
        ArrivalLaw::Poisson => "open loop, Poisson".to_owned(),
        ArrivalLaw::Gamma { smoothness } => format!("open loop, Gamma with smoothness {smoothness}"),
    }
}

fn length(law: &LengthLaw) -> String {
    match law {
        LengthLaw::Fixed { tokens } => format!("{tokens}"),
        LengthLaw::Uniform { min, max } => format!("{min} to {max}"),
        LengthLaw::Normal { mean, stddev } => format!("N({mean}, {stddev})"),
        LengthLaw::Lognormal { mean, stddev } => format!("log-normal ({mean}, {stddev})"),
        LengthLaw::TruncatedNormal { mean, stddev, floor } => format!("N({mean}, {stddev}) from {floor}"),
        LengthLaw::TruncatedUniform { low, high, floor } => format!("U[{low}, {high}) from {floor}"),
    }
}

/// Returns the name of a load point: `64 streams`, `2.5 requests/s`; `None` for another kind of point.
pub(crate) fn label(point: &Point) -> Option<String> {
    let value = |name: &str| point.value.get(name).filter(|_| point.value.len() == 1).map(|text| clean(text));
    match point.kind {
        PointKind::Concurrency => {
            value("concurrency").map(|text| if text == "1" { "1 stream".to_owned() } else { format!("{text} streams") })
        }
        PointKind::Rate => value("rate").map(|text| format!("{text} req/s")),
        _ => None,
    }
}

impl Load {
    pub(crate) fn new(point: &Point, found: &PointSummary, view: Option<&PointView>) -> Self {
        let serving = found.serving.as_ref();
        let value = match point.kind {
            PointKind::Concurrency => point.value.get("concurrency").map(|text| (text, "")),
            PointKind::Rate => point.value.get("rate").map(|text| (text, "/s")),
            _ => None,
        };
        let short = value.map_or_else(|| clean(point.point_id.as_str()), |(text, unit)| clean(&format!("{text}{unit}")));
        let are_uncounted = serving.is_some_and(|serving| serving.requests.0 == 0 && !serving.uncounted.is_empty());
        let outcomes = serving.map(|serving| if are_uncounted { &serving.uncounted } else { &serving.outcomes });
        let uncounted = || outcomes.into_iter().flatten().fold(0_u64, |sum, (_, count)| sum.saturating_add(count.0));
        let ok = outcomes.and_then(|outcomes| outcomes.get("ok")).map_or(0, |count| count.0);
        Self {
            amount: value.and_then(|(text, _)| text.parse().ok()).filter(|amount: &f64| amount.is_finite()),
            short,
            requests: if are_uncounted { uncounted() } else { serving.map_or(0, |serving| serving.requests.0) },
            are_uncounted,
            ok,
            failures: outcomes.map(failures).unwrap_or_default(),
            slo_met: serving.and_then(|serving| serving.slo_met),
            latency_from: serving.map(|serving| latency_from(&serving.latency_from)).unwrap_or_default(),
            token_sources: serving.map(token_sources).unwrap_or_default(),
            tpot_assumed: serving.map_or(0, |serving| serving.tpot_assumed.0),
            curves: view.map(|view| view.curves.iter().map(Curve::new).collect()).unwrap_or_default(),
            timeline: view.and_then(|view| view.timeline.as_ref()).and_then(Timeline::from_view),
        }
    }

    /// Returns the number of requests with any outcome except `ok`.
    pub(crate) fn failed(&self) -> u64 {
        self.requests.saturating_sub(self.ok)
    }

    /// Returns `timeout × 30, http_error × 10`.
    pub(crate) fn failure_text(&self) -> String {
        self.failures.iter().map(|(outcome, count)| format!("{outcome} × {}", grouped(*count))).collect::<Vec<_>>().join(", ")
    }

    /// Returns the distribution of that metric.
    pub(crate) fn curve(&self, metric: &str) -> Option<&Curve> {
        self.curves.iter().find(|curve| curve.metric == metric && !curve.quantiles.is_empty())
    }
}

/// Returns a readable name of the instant that latencies count from.
fn latency_from(word: &str) -> String {
    match word {
        "sent" => "the send time".to_owned(),
        "intended" => "the intended send time".to_owned(),
        other => clean(other),
    }
}

fn failures(outcomes: &BTreeMap<String, Count>) -> Vec<(String, u64)> {
    by_count(outcomes.iter().filter(|(outcome, _)| *outcome != "ok").map(|(outcome, count)| (outcome, count.0)))
}

fn token_sources(serving: &ServingPoint) -> Vec<(String, u64)> {
    by_count(serving.token_sources.iter().map(|(source, count)| (source, count.0)))
}

/// Returns the names with their counts, most frequent first; beyond [`MAX_OUTCOMES`], the rest is one entry.
fn by_count<'a>(counts: impl Iterator<Item = (&'a String, u64)>) -> Vec<(String, u64)> {
    let mut counts: Vec<(String, u64)> =
        counts.filter(|(_, count)| *count > 0).map(|(name, count)| (clean(name), count)).collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let rest: u64 = counts.iter().skip(MAX_OUTCOMES).map(|(_, count)| count).sum();
    counts.truncate(MAX_OUTCOMES);
    counts.extend((rest > 0).then(|| ("other".to_owned(), rest)));
    counts
}

impl Curve {
    fn new(curve: &assay_manifest::Curve) -> Self {
        let mut quantiles: Vec<(f64, f64)> = Vec::new();
        for [probability, value] in &curve.quantiles {
            let rises = quantiles.last().is_none_or(|(before, low)| before < probability && low <= value);
            if (0.0..=1.0).contains(probability) && value.is_finite() && *value > 0.0 && rises {
                quantiles.push((*probability, *value));
            }
        }
        Self {
            metric: clean(&curve.metric),
            n: curve.n.0,
            failed: curve.failed.0,
            quantiles: evenly_spaced(&quantiles, MAX_QUANTILES).copied().collect(),
        }
    }

    /// Returns true if failed requests lie beyond its values; false for gaps between events, because they are not requests.
    pub(crate) fn counts_failures(&self) -> bool {
        self.failed > 0 && Metric::find(&self.metric).is_none_or(Metric::is_per_request)
    }

    /// Returns the share of failed requests among all requests of the curve.
    pub(crate) fn failed_share(&self) -> f64 {
        if self.counts_failures() { self.failed as f64 / (self.failed + self.n) as f64 } else { 0.0 }
    }

    /// Returns the share of all requests, failed ones included, that took longer than the quantile of `probability`.
    pub(crate) fn share_above(&self, probability: f64) -> f64 {
        let failed = self.failed_share();
        (1.0 - probability) * (1.0 - failed) + failed
    }

    /// Returns the value at `probability` over the available samples, by linear interpolation between two kept quantiles. `None`
    /// beyond what the number of samples resolves.
    pub(crate) fn value_at(&self, probability: f64) -> Option<f64> {
        if (1.0 - probability) * (self.n as f64) < 1.0 {
            return None;
        }
        let after = self.quantiles.iter().position(|(known, _)| *known >= probability)?;
        let (high_p, high) = *self.quantiles.get(after)?;
        let Some((low_p, low)) = after.checked_sub(1).and_then(|before| self.quantiles.get(before)) else { return Some(high) };
        Some(low + (high - low) * (probability - low_p) / (high_p - low_p))
    }
}

impl Timeline {
    fn from_view(timeline: &assay_manifest::Timeline) -> Option<Self> {
        let drawable = timeline.shown.iter().filter(|request| request.start_ms.is_finite());
        let all: Vec<&TimelineRequest> = drawable.collect();
        let mut kept: Vec<&TimelineRequest> = if all.len() <= MAX_TIMELINE {
            all.clone()
        } else {
            let (ok, failed): (Vec<_>, Vec<_>) = all.iter().copied().partition(|request| request.outcome == "ok");
            let failed: Vec<_> = evenly_spaced(&failed, MAX_FAILED_SHOWN).copied().collect();
            evenly_spaced(&ok, MAX_TIMELINE - failed.len()).copied().chain(failed).collect()
        };
        kept.sort_by(|one, other| one.start_ms.total_cmp(&other.start_ms).then(one.index.0.cmp(&other.index.0)));
        let requests: Vec<TimelineRequest> = kept.into_iter().map(clean_request).collect();
        (!requests.is_empty()).then(|| Self {
            trial: timeline.trial_id.as_str().rsplit('.').next().unwrap_or_default().to_owned(),
            shown_text: shown_text(timeline, requests.len(), all.len()),
            requests,
        })
    }
}

/// States how many requests are drawn, and names each thinning: the view's and this crate's.
fn shown_text(timeline: &assay_manifest::Timeline, shown: usize, given: usize) -> String {
    let of = format!("{shown} of {}", counted(timeline.requests.0, "request"));
    let rule = clean(&timeline.thinning);
    match (rule.as_str(), given > shown) {
        ("all", false) => format!("all {}", counted(timeline.requests.0, "request")),
        ("all", true) => format!("{of}, evenly chosen; failed ones first"),
        (_, false) => format!("{of}, thinned: {rule}"),
        (_, true) => format!("{of}, thinned: {rule}; of those, evenly chosen and failed ones first"),
    }
}

fn clean_request(request: &TimelineRequest) -> TimelineRequest {
    let finite = |instant: Option<f64>| instant.filter(|instant| instant.is_finite());
    TimelineRequest {
        index: request.index,
        start_ms: request.start_ms,
        sent_ms: finite(request.sent_ms),
        first_ms: finite(request.first_ms),
        end_ms: finite(request.end_ms),
        outcome: clean(&request.outcome),
    }
}

/// Returns at most `limit` of `items`, evenly chosen, including the first and the last.
pub(crate) fn evenly_spaced<T>(items: &[T], limit: usize) -> impl Iterator<Item = &T> {
    let shown = items.len().min(limit);
    let steps = shown.saturating_sub(1).max(1);
    (0..shown).filter_map(move |index| items.get(index * (items.len() - 1) / steps))
}

/// Returns a row for each metric that the Summary lists as not computable, with its reason.
pub(crate) fn absent_rows(serving: &ServingPoint, metrics: &[MetricSummary]) -> Vec<Row> {
    let missing = serving.absent.iter().filter(|(name, _)| !metrics.iter().any(|metric| metric.metric == **name));
    let row = |(name, reason): (&String, &String)| Row {
        metric: clean(name),
        unit: MetricName::find(name).map_or("unknown", |name| name.definition().unit.as_str()).to_owned(),
        better: None,
        primary: false,
        measured: Err(clean(reason)),
    };
    missing.take(MAX_ABSENT).map(row).collect()
}

/// Returns the largest distance of an interval's ends from its median, as a share of the median; `None` if there is no interval.
pub(crate) fn reach(measured: &MetricStatistics) -> Option<f64> {
    let ends = measured.interval.as_ref().ok()?;
    let reach = (ends.high - measured.median).max(measured.median - ends.low) / measured.median.abs();
    reach.is_finite().then_some(reach)
}

/// Returns true if every headline metric of a point is stable and all its planned trials count; otherwise the point is drawn hollow.
pub(crate) fn is_solid(point: &PointSection) -> bool {
    let headlines = THROUGHPUTS.iter().chain(&HEADLINES);
    let stable = headlines.filter_map(|metric| point.measured(metric)).all(|found| found.stability == Stability::Stable);
    stable && point.counted == point.planned
}

/// Returns the throughput of a point, in the best available unit.
pub(crate) fn throughput(point: &PointSection) -> Option<(&'static str, &MetricStatistics)> {
    THROUGHPUTS.iter().find_map(|metric| Some((*metric, point.measured(metric)?)))
}

/// Returns the unit of a throughput metric with its subject: `output tokens/s`, `requests/s`.
pub(crate) fn throughput_unit(metric: &str) -> &'static str {
    if metric == "output_tokens_per_s" { "output tokens/s" } else { "requests/s" }
}

/// Returns the sentence of a serving case: the tail latency at the load with the highest throughput, among those that met their SLOs.
pub(crate) fn sentence(case: &CaseSection, work: &RequestedWork, grade: &str) -> Sentence {
    let place = format!("{} on {}, {}", work.model, case.side, case.workload);
    let Some((point, metric, measured, why)) = headline(case, work) else {
        let headline =
            |point: &'_ PointSection| HEADLINES.iter().find_map(|metric| point.row(metric)?.measured.as_ref().err().cloned());
        let reason = all_failed(case).or_else(|| case.points.iter().find_map(headline));
        let reason = reason.unwrap_or_else(|| "nothing was measured".to_owned());
        let rest = format!("{reason}; {place}");
        return Sentence { metric: "Latency".to_owned(), number: None, interval: String::new(), rest, address: None };
    };
    let at = throughput(point).map(|(metric, found)| {
        let interval = found.interval.as_ref().map_or(String::new(), |ends| format!(" {}", ends.text));
        let unit = throughput_unit(metric);
        format!("{} {unit}{interval} and ", found.median_text)
    });
    let failed = point.serving.as_ref().filter(|load| load.failed() > 0).map(|load| {
        let share = load.failed() as f64 / load.requests.max(1) as f64;
        format!("; {} of {} failed", percent(share), counted(load.requests, "request"))
    });
    let stability = match measured.stability {
        Stability::Unknown => "stability unknown",
        known => known.as_str(),
    };
    let rest = format!(
        "at {}{}, {}: {place}; {why}{}; {grade}; {stability}",
        at.unwrap_or_default(),
        point.label,
        trial_count_text(measured.n, point.planned),
        failed.unwrap_or_default(),
    );
    Sentence {
        metric: metric_name(metric),
        number: Some(format!("{} ms", measured.median_text)),
        interval: measured.interval.as_ref().map_or_else(|_| "(no interval)".to_owned(), |ends| ends.text.clone()),
        rest,
        address: Some(measured.address.clone()),
    }
}

/// States the outcomes of the requests of a case without a counted attempt; `None` if an attempt counts, or nothing failed.
fn all_failed(case: &CaseSection) -> Option<String> {
    let loads: Vec<&Load> = case.points.iter().filter_map(|point| point.serving.as_ref()).collect();
    if loads.iter().any(|load| !load.are_uncounted) {
        return None;
    }
    let (failed, due) =
        loads.iter().fold((0_u64, 0_u64), |(failed, due), load| (failed + load.failed(), due.saturating_add(load.requests)));
    let mut causes: BTreeMap<&str, u64> = BTreeMap::new();
    for (outcome, count) in loads.iter().flat_map(|load| &load.failures) {
        *causes.entry(outcome).or_default() += count;
    }
    let (outcome, count) = causes.into_iter().max_by_key(|(_, count)| *count)?;
    Some(format!("{} of {} failed, most often with {outcome} ({})", grouped(failed), counted(due, "request"), grouped(count)))
}

type Headline<'a> = (&'a PointSection, &'static str, &'a MetricStatistics, String);

fn headline<'a>(case: &'a CaseSection, work: &RequestedWork) -> Option<Headline<'a>> {
    let metric = HEADLINES.into_iter().find(|metric| case.points.iter().any(|point| point.measured(metric).is_some()))?;
    let measured: Vec<(&PointSection, &MetricStatistics)> =
        case.points.iter().filter_map(|point| Some((point, point.measured(metric)?))).collect();
    let met = |point: &PointSection| point.serving.as_ref().is_some_and(|load| load.slo_met == Some(true));
    let loads = counted(case.points.len() as u64, "load");
    let is_only = case.points.len() == 1;
    let best = |candidates: &[(&'a PointSection, &'a MetricStatistics)]| {
        let speed = |point: &PointSection| throughput(point).map_or(f64::NEG_INFINITY, |(_, found)| found.median);
        candidates.iter().copied().max_by(|(one, _), (other, _)| speed(one).total_cmp(&speed(other)))
    };
    if work.slos.is_empty() {
        let (point, found) = best(&measured)?;
        let why = if is_only { "the only load".to_owned() } else { format!("the highest throughput of {loads}") };
        return Some((point, metric, found, why));
    }
    let meeting: Vec<_> = measured.iter().copied().filter(|(point, _)| met(point)).collect();
    if let Some((point, found)) = best(&meeting) {
        let slos = work.slo_text();
        let text = match meeting.len() {
            _ if is_only => format!("the only load, which met the SLOs ({slos})"),
            all if all == case.points.len() => format!("the highest throughput of {loads}, which all met the SLOs ({slos})"),
            1 => format!("the only one of {loads} that met the SLOs ({slos})"),
            some => format!("the highest throughput of the {some} among {loads} that met the SLOs ({slos})"),
        };
        return Some((point, metric, found, text));
    }
    let (point, found) = measured.iter().copied().min_by(|(_, one), (_, other)| one.median.total_cmp(&other.median))?;
    let slos = work.slo_text();
    let why = if is_only {
        format!("the only load, which did not meet the SLOs ({slos})")
    } else {
        format!("the lowest latency; none of {loads} met the SLOs ({slos})")
    };
    Some((point, metric, found, why))
}

/// Returns the remarks on a serving table: the reason why a value is absent, unstable or excluded, and the outcomes of failed
/// requests. Metrics of a point with the same remark are named together.
pub(crate) fn remarks(case: &CaseSection) -> Vec<Remark> {
    let columns = columns(case);
    case.points.iter().flat_map(|point| point_remarks(point, &columns)).collect()
}

fn point_remarks(point: &PointSection, columns: &[&'static Column]) -> Vec<Remark> {
    let mut said: Vec<(String, Vec<String>)> = Vec::new();
    let mut say = |what: String, name: String| match said.iter_mut().find(|(known, _)| *known == what) {
        Some((_, names)) => names.push(name),
        None => said.push((what, vec![name])),
    };
    for (column, row) in columns.iter().filter_map(|column| Some((column, point.row(column.text)?))) {
        match &row.measured {
            Err(reason) => say(format!("absent, {reason}"), column.title()),
            Ok(measured) => {
                if let Err(reason) = &measured.interval {
                    say(format!("no interval, {reason}"), column.title());
                }
                if measured.stability != Stability::Stable {
                    say(format!("{}, {}", measured.stability, measured.stability_reason), column.title());
                }
                for caveat in [p99_caveat(column, measured), zero_gap_caveat(column, measured)].into_iter().flatten() {
                    say(caveat, column.title());
                }
            }
        }
    }
    let mut remarks: Vec<Remark> = Vec::new();
    if let Some(load) = point.serving.as_ref().filter(|load| load.failed() > 0) {
        let slowest = if load.are_uncounted { String::new() } else { describe_as_slowest(point, columns) };
        let (failed, due, what) = (grouped(load.failed()), counted(load.requests, "request"), load.failure_text());
        let uncounted = if load.are_uncounted { ", in attempts that do not count" } else { "" };
        let share = if load.are_uncounted { String::new() } else { error_rates(point, load) };
        let text = format!("{failed} of {due} failed ({what}){uncounted}{share}{slowest}");
        remarks.push(Remark::for_point(&point.label, text));
    }
    remarks.extend(said.into_iter().map(|(text, metrics)| Remark {
        point: point.label.clone(),
        metrics,
        table_metrics: Some(columns.len()),
        text,
    }));
    remarks.extend(point.exclusions.iter().map(|exclusion| Remark::for_point(&point.label, format!("excluded {exclusion}"))));
    remarks
}

/// States the share of failed requests of all counted trials, beside the median of the trials' own shares, which may be 0 if one trial
/// failed.
fn error_rates(point: &PointSection, load: &Load) -> String {
    let of_all = percent(load.failed() as f64 / load.requests.max(1) as f64);
    let median = point.measured("error_rate").map(|found| percent(found.median));
    median.map_or_else(String::new, |median| format!("; {of_all} of all requests, {median} in the median of the trials"))
}

/// Returns true if a metric is about gaps between token events, of which a request has many.
fn is_gap_metric(column: &Column) -> bool {
    [Metric::Itl, Metric::Icl].contains(&column.metric)
}

/// Returns a caveat if a p99 has so few samples that it is nearly their maximum.
fn p99_caveat(column: &Column, measured: &MetricStatistics) -> Option<String> {
    let fewest = measured.trials.iter().map(|trial| trial.samples).min().filter(|_| column.statistic == Statistic::P99)?;
    let samples = if is_gap_metric(column) { "gaps" } else { "requests" };
    (fewest < MIN_FOR_P99).then(|| {
        format!(
            "p99 of fewer than {MIN_FOR_P99} {samples} is close to their maximum, so ask for at least {MIN_FOR_P99} requests a trial; \
             the smallest trial has {}",
            grouped(fewest)
        )
    })
}

/// Returns a caveat if a time between tokens is 0: tokens of one packet have the same timestamp.
fn zero_gap_caveat(column: &Column, measured: &MetricStatistics) -> Option<String> {
    let is_between_tokens = is_gap_metric(column) || column.metric == Metric::Tpot;
    (is_between_tokens && measured.median == 0.0)
        .then(|| "0, since tokens came together and no gap between them could be measured".to_owned())
}

/// States the latencies with failed requests as the slowest: those that then have a value, and those that have none.
fn describe_as_slowest(point: &PointSection, columns: &[&'static Column]) -> String {
    let mut values: Vec<String> = Vec::new();
    let mut absent: Vec<(&str, Vec<String>)> = Vec::new();
    for (row, name) in columns.iter().filter_map(|column| Some((twin(point, column)?, column.title()))) {
        match &row.measured {
            Ok(found) => values.push(format!("{name} is {} {}", found.median_text, row.unit)),
            Err(reason) => match absent.iter_mut().find(|(known, _)| known == reason) {
                Some((_, names)) => names.push(name),
                None => absent.push((reason, vec![name])),
            },
        }
    }
    let absent = absent.iter().map(|(reason, names)| format!("there is no {}: {reason}", names.join(" and no ")));
    let said: Vec<String> = values.into_iter().chain(absent).collect();
    if said.is_empty() { String::new() } else { format!("; with failures as slowest, {}", said.join("; ")) }
}

/// Formats a latency in milliseconds: `412 ms`.
pub(crate) fn milliseconds(value: f64) -> String {
    format!("{} ms", significant(value, None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remark;

    #[test]
    fn evenly_keeps_both_ends() {
        assert_eq!(evenly_spaced(&[1, 2, 3, 4, 5], 3).collect::<Vec<_>>(), [&1, &3, &5]);
        assert_eq!(evenly_spaced(&[1, 2], 3).collect::<Vec<_>>(), [&1, &2]);
        assert_eq!(evenly_spaced(&[1, 2], 1).collect::<Vec<_>>(), [&1]);
        assert!(evenly_spaced::<u8>(&[], 3).next().is_none());
    }

    #[test]
    fn failures_lie_beyond_every_value() {
        let curve =
            Curve { metric: "ttft".to_owned(), n: 900, failed: 100, quantiles: vec![(0.0, 10.0), (0.5, 20.0), (1.0, 40.0)] };
        assert!((curve.failed_share() - 0.1).abs() < 1e-12);
        // Half of 900 and all of 100 took longer than the median of the others.
        assert!((curve.share_above(0.5) - 0.55).abs() < 1e-12);
        assert!((curve.share_above(1.0) - 0.1).abs() < 1e-12);
        assert_eq!(curve.value_at(0.75), Some(30.0));
        assert_eq!(curve.value_at(0.999), None, "900 samples do not resolve a thousandth");
        let gaps = Curve { metric: "icl".to_owned(), ..curve };
        assert_eq!(gaps.share_above(1.0).total_cmp(&0.0), std::cmp::Ordering::Equal);
    }

    #[test]
    fn a_curve_keeps_what_can_be_drawn() {
        let quantiles = vec![[0.0, 0.0], [0.1, 5.0], [0.2, f64::NAN], [0.3, 4.0], [0.4, 6.0], [0.4, 7.0], [1.5, 8.0]];
        let curve = Curve::new(&assay_manifest::Curve {
            metric: "e2e".to_owned(),
            n: assay_manifest::Count(5),
            failed: assay_manifest::Count(0),
            quantiles,
        });
        assert_eq!(curve.quantiles, [(0.1, 5.0), (0.4, 6.0)]);
    }

    #[test]
    fn the_sentence_of_a_case_is_its_best_load() {
        let mut model = crate::fixture::serving::small();
        let sentence = |model: &crate::fixture::Model| model.report().sentences().collect::<Vec<_>>().join("\n");
        insta::assert_snapshot!(sentence(&model), @"TTFT p99 75.0 ms [72.1, 81.9], at 102 output tokens/s [101, 103] and 1 stream, 5 trials: llama-3.1-8b on vllm, chat; the only one of 3 loads that met the SLOs (TTFT 500 ms, TPOT 50 ms); realism grade; stable");
        for work in model.plan.workloads.iter_mut().filter_map(|workload| workload.serving.as_mut()) {
            work.slos.clear();
        }
        insta::assert_snapshot!(sentence(&model), @"TTFT p99 330 ms [230, 380], at 3330 output tokens/s [3270, 3360] and 64 streams, 5 trials: llama-3.1-8b on vllm, chat; the highest throughput of 3 loads; 1.6 % of 800 requests failed; realism grade; stable");
        for point in &mut model.summary.points {
            point.metrics.clear();
        }
        insta::assert_snapshot!(sentence(&model), @"Latency: no number, no counted trial's result has it; llama-3.1-8b on vllm, chat");
    }

    #[test]
    fn a_run_that_only_failed_says_how() {
        let report = crate::fixture::serving::refused().report();
        insta::assert_snapshot!(report.sentences().collect::<Vec<_>>().join("\n"), @"Latency: no number, 480 of 480 requests failed, most often with http_error (459); llama-3.1-8b on vllm, chat");
        let requests = report.strip.iter().find(|item| item.label == "Requests").expect("it is there");
        insta::assert_snapshot!(format!("{}\n{}", requests.headline, requests.details.join("\n")), @r"
        480 of 480 requests failed, in attempts that do not count
        http_error: 459
        connect_error: 21
        none of 160 requests succeeded: 160 http_error; most often `401: no such key`
        ");
        let screen = report.terminal(100, false);
        let table = screen.lines().skip_while(|line| !line.contains("chat.vllm.default")).take(12).collect::<Vec<_>>();
        insta::assert_snapshot!(table.join("\n"), @r"
        chat.vllm.default
          llama-3.1-8b, chat, streamed; closed loop: each response is followed by the next request;
          latencies from the send time; SLOs TTFT 500 ms, TPOT 50 ms
                                 requests          TTFT  TPOT
          load           trials        ok  failed   p99   p50  tok/s  SLOs
          ! 1 stream        0/5         0     160     —     —      —  —
          ! 64 streams      0/5         0     160     —     —      —  —
          ! 128 streams     0/5         0     160     —     —      —  —
          latencies in ms; ± is how far the interval reaches from the number above it; ! and — have a remark
          · every load: 160 of 160 requests failed (http_error × 153, connect_error × 7), in attempts that
            do not count
          · every load, everything: absent, none of 5 trials counts (all_failed)
        ");
        assert!(!screen.contains("0 of 0"), "{screen}");
        assert!(!report.markdown().contains("0 of 0"));
        assert!(!report.html().contains("0 of 0"));
    }

    #[test]
    fn a_count_of_which_nothing_is_required_is_no_agreement() {
        let mut model = crate::fixture::serving::small();
        let attempts = model.collection.trials.iter_mut().flat_map(|trial| &mut trial.attempts);
        let checks: Vec<_> = attempts.flat_map(|attempt| &mut attempt.cross_checks).collect();
        let all = checks.len();
        for check in checks {
            check.detail = "informational, nothing is required: the endpoint's chat template adds tokens".to_owned();
        }
        let report = model.report();
        let client = report.strip.iter().find(|item| item.label == "Client").expect("it is there").details.join("\n");
        assert!(client.contains("the endpoint has no counters that must agree with the client's counts"), "{client}");
        assert!(client.contains(&format!("of {all} other count")) && !client.contains("counters agree"), "{client}");
    }

    /// Returns the remarks on a case with one load, whose trials have `samples` samples of each metric and these medians.
    fn remarks_text(samples: u64, medians: &[(&str, f64)]) -> String {
        let mut model = crate::fixture::serving::small();
        model.plan.cases[0].points.truncate(1);
        for metric in &mut model.summary.points[0].metrics {
            metric.trials.iter_mut().for_each(|trial| trial.n = Count(samples));
            if let Some((_, median)) = medians.iter().find(|(name, _)| *name == metric.metric) {
                metric.median = *median;
            }
        }
        let report = model.report();
        remarks(&report.cases[0]).iter().map(Remark::full_text).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_p99_of_few_requests_says_that_it_is_a_maximum() {
        assert_eq!(remarks_text(100, &[]), "", "a hundred are enough");
        insta::assert_snapshot!(remarks_text(99, &[]), @r"
        1 stream, TTFT p99, TPOT p99, E2E p99: p99 of fewer than 100 requests is close to their maximum, so ask for at least 100 requests a trial; the smallest trial has 99
        1 stream, ITL p99: p99 of fewer than 100 gaps is close to their maximum, so ask for at least 100 requests a trial; the smallest trial has 99
        ");
        assert!(remarks_text(1, &[]).ends_with("the smallest trial has 1"));
    }

    #[test]
    fn few_requests_are_remarked_once_for_all_loads_and_in_every_rendering() {
        let mut model = crate::fixture::serving::small();
        for (place, point) in model.summary.points.iter_mut().enumerate() {
            for metric in &mut point.metrics {
                metric.trials.iter_mut().for_each(|trial| trial.n = Count(10 + place as u64));
            }
        }
        let report = model.report();
        let brief = remark::summarize(&remarks(&report.cases[0]), 3, "load");
        let about: Vec<String> = brief.into_iter().filter(|remark| remark.contains("close to their maximum")).collect();
        insta::assert_snapshot!(about.join("\n"), @r"
        1 stream, 64 streams, TTFT p99, TPOT p99, E2E p99: p99 of fewer than 100 requests is close to their maximum, so ask for at least 100 requests a trial
        1 stream, 64 streams, ITL p99: p99 of fewer than 100 gaps is close to their maximum, so ask for at least 100 requests a trial
        ");
        for text in [report.terminal(100, false), report.markdown(), report.html()] {
            assert!(text.contains("p99 of fewer than 100 requests"), "{text}");
        }
    }

    #[test]
    fn tokens_that_came_together_have_no_gaps() {
        insta::assert_snapshot!(remarks_text(160, &[("tpot_ms_p50", 0.0), ("itl_ms_p99", 0.0), ("ttft_ms_p50", 0.0)]), @"1 stream, TPOT p50, ITL p99: 0, since tokens came together and no gap between them could be measured");
        assert_eq!(remarks_text(160, &[("tpot_ms_p50", 0.001)]), "");
    }

    /// Returns the remark on the failed requests of a load with these twins.
    fn with_twins(twins: &[(&str, Result<f64, &str>)]) -> String {
        let mut model = crate::fixture::serving::small();
        let point = &mut model.summary.points[1];
        let serving = point.serving.as_mut().expect("it serves");
        serving.absent.clear();
        for (name, twin) in twins {
            match twin {
                Ok(value) => {
                    let mut metric = point.metrics[0].clone();
                    (metric.metric, metric.median) = ((*name).to_owned(), *value);
                    point.metrics.push(metric);
                }
                Err(reason) => drop(serving.absent.insert((*name).to_owned(), (*reason).to_owned())),
            }
        }
        let report = model.report();
        remarks(&report.cases[0]).iter().map(Remark::full_text).find(|remark| remark.contains("failed (")).expect("it is said")
    }

    #[test]
    fn failures_as_slowest_are_told_in_plain_words() {
        assert_eq!(
            with_twins(&[]),
            "64 streams: 13 of 800 requests failed (timeout × 11, http_error × 2); 1.6 % of all requests, 1.9 % in the median of the trials"
        );
        let why = "the 99 % rank lies beyond those that have a value, 3 of 4";
        let twins = [
            ("ttft_ms_p50_with_failures", Ok(130.0)),
            ("ttft_ms_p99_with_failures", Err(why)),
            ("e2e_ms_p99_with_failures", Err(why)),
        ];
        insta::assert_snapshot!(with_twins(&twins), @"64 streams: 13 of 800 requests failed (timeout × 11, http_error × 2); 1.6 % of all requests, 1.9 % in the median of the trials; with failures as slowest, TTFT p50 is 130 ms; there is no TTFT p99 and no E2E p99: the 99 % rank lies beyond those that have a value, 3 of 4");
    }

    #[test]
    fn the_only_load_is_no_plural() {
        let mut model = crate::fixture::serving::small();
        model.plan.cases[0].points.truncate(1);
        let why = |model: &crate::fixture::Model| {
            let sentence = model.report().sentences().next().expect("a sentence");
            sentence.split("; ").nth(1).expect("the reason").to_owned()
        };
        assert_eq!(why(&model), "the only load, which met the SLOs (TTFT 500 ms, TPOT 50 ms)");
        model.summary.points[0].serving.as_mut().expect("it serves").slo_met = Some(false);
        assert_eq!(why(&model), "the only load, which did not meet the SLOs (TTFT 500 ms, TPOT 50 ms)");
        for work in model.plan.workloads.iter_mut().filter_map(|workload| workload.serving.as_mut()) {
            work.slos.clear();
        }
        assert_eq!(why(&model), "the only load");
    }

    #[test]
    fn metrics_have_the_names_that_people_use() {
        let table = [
            ("ttft_ms_p99", "TTFT p99"),
            ("output_tokens_per_s", "tokens/s"),
            ("e2e_ms_p99_with_failures", "E2E p99 with failures"),
            ("something_else", "something_else"),
        ];
        for (metric, name) in table {
            assert_eq!(metric_name(metric), name);
        }
    }
}
