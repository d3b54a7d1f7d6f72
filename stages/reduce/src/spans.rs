//! The rows of servers' spans: how long each kind of span took, and which part of the client's latency it was.
//!
//! A span is of the request whose id is its trace id. Durations are each machine's own, so no clocks are compared; a share is the
//! duration of a span by that of its request from the first byte sent to the end of the response, as the client measured it.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use assay_manifest::{Artifact, Block, PlannedTrial, PointSummary, Reason};
use assay_stage::{Context, Failure};
use assay_telemetry::traces::{Refusals, Span, each_span};
use assay_telemetry::{BlockSource, MetricKind, Source, Statistics, ValueStatistics};
use assay_warehouse::Row;
use assay_warehouse::records::{RecordColumn, RecordError, RecordFile};

use crate::dimensions::Dimensions;
use crate::evidence::ShardAttempt;
use crate::rows::RowContext;
use crate::telemetry::{Observation, attempt_row, point_of, read_failure};
use crate::{open_records, row_failure, unreadable_records};

/// The most requests of one block whose spans are looked for, some 200 MB.
const MAX_REQUESTS: usize = 2_000_000;

/// The most spans of one block whose durations are kept, some 200 MB.
const MAX_SPANS: usize = 8_000_000;

/// The most names of spans of one attempt.
const MAX_NAMES: usize = 200;

/// The rows of all receivers of a run, and what is in none.
#[derive(Default)]
pub(crate) struct SpanRows {
    pub(crate) rows: Vec<Row>,
    pub(crate) issues: Vec<Reason>,
}

/// Returns the rows of the spans that each receiver of the plan got.
pub(crate) fn rows(
    ctx: &Context,
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
    evidence: &[Artifact],
) -> Result<SpanRows, Failure> {
    let mut found = SpanRows::default();
    for receiver in context.plan.telemetry.iter().filter(|source| source.otlp.is_some()) {
        let source = Source::traces(&receiver.name);
        for (block, attempts) in served_attempts(context) {
            let mut joined = Joined::read(&attempts, &|artifact: &Artifact| open_records(ctx, artifact))?;
            let place = BlockSource { block, source: source.clone() };
            let open = |artifact: &Artifact| -> Result<Box<dyn Read>, Failure> {
                ctx.check_cancelled()?;
                Ok(Box::new(ctx.materialise(artifact)?.open()?))
            };
            let refusals = each_span(evidence, &place, &open, |span| joined.add(&span)).map_err(read_failure)?;
            found.issues.extend(joined.issues(&source, &refusals));
            for (attempt, spans) in attempts.iter().zip(&joined.attempts) {
                found.rows.extend(attempt_rows(context, dimensions, points, &source, attempt, spans)?);
            }
        }
    }
    Ok(found)
}

/// One attempt at an endpoint, over all its shards.
struct ServedAttempt<'a> {
    trial: &'a PlannedTrial,
    attempt: u32,
    shards: Vec<&'a ShardAttempt>,
}

/// Returns the attempts of each block that have records.
fn served_attempts<'a>(context: &RowContext<'a>) -> BTreeMap<Block, Vec<ServedAttempt<'a>>> {
    let mut all: BTreeMap<Block, Vec<ServedAttempt<'a>>> = BTreeMap::new();
    for (trial, shards) in &context.attempts.0 {
        let mut attempts: BTreeMap<(Block, u32), Vec<&ShardAttempt>> = BTreeMap::new();
        for shard in shards.iter().filter(|shard| shard.attempt.serving.is_some()) {
            attempts.entry((shard.collected.block, shard.attempt.attempt)).or_default().push(shard);
        }
        for ((block, attempt), shards) in attempts {
            all.entry(block).or_default().push(ServedAttempt { trial, attempt, shards });
        }
    }
    all
}

/// A request that spans are looked for.
#[derive(Clone, Copy, Debug)]
struct Request {
    /// The place of its attempt.
    attempt: usize,
    /// Its duration by the client, from the first byte sent to the end of the response; `None` if it was not sent, or did not end.
    duration_ns: Option<u64>,
    has_spans: bool,
}

/// The durations of the spans of one attempt.
#[derive(Debug, Default)]
struct AttemptSpans {
    /// Durations in seconds by name, each with its share of the request if that is known.
    by_name: BTreeMap<String, (Vec<f64>, Vec<f64>)>,
    requests: u64,
    requests_with_spans: u64,
}

/// The requests of a block, joined with the spans of servers.
#[derive(Debug, Default)]
struct Joined {
    requests: HashMap<u128, Request>,
    attempts: Vec<AttemptSpans>,
    spans: usize,
    /// Spans of no request of the block.
    foreign: u64,
    /// Spans that end before they begin, or beyond a limit.
    left_out: u64,
    requests_left_out: u64,
}

impl Joined {
    fn read(attempts: &[ServedAttempt<'_>], open: &dyn Fn(&Artifact) -> Result<RecordFile, Failure>) -> Result<Self, Failure> {
        let mut joined = Self::default();
        for (place, attempt) in attempts.iter().enumerate() {
            joined.attempts.push(AttemptSpans::default());
            for outcome in attempt.shards.iter().filter_map(|shard| shard.attempt.serving.as_ref()) {
                let file = open(&outcome.records)?;
                joined.add_records(place, &file).map_err(|error| unreadable_records(&outcome.records, &error))?;
            }
        }
        Ok(joined)
    }

    fn add_records(&mut self, attempt: usize, file: &RecordFile) -> Result<(), RecordError> {
        let columns = [RecordColumn::RequestId, RecordColumn::Sent, RecordColumn::End];
        for batch in file.batches(&columns, 0..file.row_groups())? {
            let batch = batch?;
            let (sent, end) = (batch.ints(RecordColumn::Sent)?, batch.ints(RecordColumn::End)?);
            for (row, id) in batch.request_ids()?.into_iter().enumerate() {
                let duration = sent.get(row).zip(end.get(row)).and_then(|(sent, end)| u64::try_from(end.checked_sub(sent)?).ok());
                self.add_request(id, attempt, duration);
            }
        }
        Ok(())
    }

    fn add_request(&mut self, id: u128, attempt: usize, duration_ns: Option<u64>) {
        if self.requests.len() >= MAX_REQUESTS {
            self.requests_left_out += 1;
            return;
        }
        self.requests.insert(id, Request { attempt, duration_ns, has_spans: false });
        if let Some(spans) = self.attempts.get_mut(attempt) {
            spans.requests += 1;
        }
    }

    fn add(&mut self, span: &Span) {
        let Some(request) = self.requests.get_mut(&span.trace_id) else {
            self.foreign += 1;
            return;
        };
        let (Some(duration_ns), Some(spans)) = (span.duration_ns(), self.attempts.get_mut(request.attempt)) else {
            self.left_out += 1;
            return;
        };
        let is_new = !std::mem::replace(&mut request.has_spans, true);
        spans.requests_with_spans += u64::from(is_new);
        let is_full = self.spans >= MAX_SPANS || spans.by_name.len() >= MAX_NAMES && !spans.by_name.contains_key(&span.name);
        if is_full {
            self.left_out += 1;
            return;
        }
        self.spans += 1;
        let (durations, shares) = spans.by_name.entry(span.name.clone()).or_default();
        durations.push(duration_ns as f64 / 1e9);
        shares.extend(request.duration_ns.filter(|ns| *ns > 0).map(|ns| duration_ns as f64 / ns as f64));
    }

    /// Returns what is in no row, for people.
    fn issues(&self, source: &Source, refusals: &Refusals) -> Vec<Reason> {
        let of = |spans: &AttemptSpans| (spans.requests, spans.requests_with_spans);
        let (requests, with) = self.attempts.iter().map(of).fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1));
        let without = requests - with;
        let unjoined =
            [(without, format!("of {requests} requests have no spans")), (self.foreign, "spans are of no request".to_owned())];
        let left_out = [
            (self.left_out, format!("spans end before they begin, or are beyond {MAX_NAMES} names or {MAX_SPANS} spans")),
            (self.requests_left_out, format!("requests are beyond the limit of {MAX_REQUESTS}")),
        ];
        let text = |counts: &[(u64, String)]| {
            let counts = counts.iter().filter(|(count, _)| *count > 0);
            counts.map(|(count, what)| format!("{count} {what}")).collect::<Vec<_>>()
        };
        let refused = refusals.first.as_ref().map(|first| format!("{} refused, the first one: {first}", refusals.count));
        let reason = |code: &str, parts: Vec<String>| {
            (!parts.is_empty()).then(|| Reason::new(code, format!("`{source}`: {}", parts.join(", "))))
        };
        let left_out: Vec<String> = text(&left_out).into_iter().chain(refused).collect();
        reason("spans_unjoined", text(&unjoined)).into_iter().chain(reason("spans_left_out", left_out)).collect()
    }
}

/// Returns the rows of an attempt: for each name of a span its durations and shares.
fn attempt_rows(
    context: &RowContext<'_>,
    dimensions: &Dimensions,
    points: &[PointSummary],
    source: &Source,
    attempt: &ServedAttempt<'_>,
    spans: &AttemptSpans,
) -> Result<Vec<Row>, Failure> {
    let windows = attempt.shards.iter().map(|shard| &shard.attempt.window);
    let start = windows.clone().map(|window| window.start).min();
    let Some(window) = start.zip(windows.map(|window| window.end).max()) else { return Ok(Vec::new()) };
    let target = context.plan.case(&attempt.trial.case_id).map_or("unknown", |case| case.target.as_str());
    let observed = Observation {
        trial: attempt.trial,
        attempt: attempt.attempt,
        window,
        source: &source.to_string(),
        scope: (source.scope().kind, target),
        recorders: &[],
        gap_ns: 0,
    };
    let point = point_of(points, attempt.trial)?;
    let row = |statistics: &Statistics| attempt_row(context, dimensions, point, &observed, statistics);
    statistics(spans).iter().map(row).collect::<Result<_, _>>().map_err(|error| row_failure(&error))
}

fn statistics(spans: &AttemptSpans) -> Vec<Statistics> {
    let of = |metric: &str, name: &str, unit: &str, values: &[f64]| Statistics {
        object: None,
        metric: format!("{metric}{{span=\"{}\"}}", name.replace('\\', r"\\").replace('"', "\\\"")),
        kind: MetricKind::Gauge,
        unit: unit.to_owned(),
        n: values.len() as u64,
        keys: None,
        values: ValueStatistics::of(values),
    };
    let names = spans.by_name.iter().flat_map(|(name, (durations, shares))| {
        let share = (!shares.is_empty()).then(|| of("span_share_of_request", name, "ratio", shares));
        std::iter::once(of("span_duration_seconds", name, "s", durations)).chain(share)
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(trace_id: u128, name: &str, start_ns: u64, end_ns: u64) -> Span {
        Span { trace_id, span_id: 1, parent_id: 0, start_ns, end_ns, name: name.to_owned() }
    }

    fn joined() -> Joined {
        let mut joined = Joined { attempts: vec![AttemptSpans::default(), AttemptSpans::default()], ..Joined::default() };
        joined.add_request(1, 0, Some(2_000_000_000));
        joined.add_request(2, 0, None);
        joined.add_request(3, 1, Some(1_000_000_000));
        joined
    }

    fn shown(joined: &Joined) -> String {
        let line = |statistics: &Statistics| {
            let values = statistics.values.expect("values");
            format!("{} n {} mean {} {}", statistics.metric, statistics.n, values.mean, statistics.unit)
        };
        let rows = joined.attempts.iter().flat_map(|spans| statistics(spans).iter().map(line).collect::<Vec<_>>());
        let issues = joined.issues(&Source::traces(&"t".parse().expect("a name")), &Refusals::default());
        rows.chain(issues.iter().map(|issue| format!("{}: {}", issue.code, issue.detail))).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn spans_are_joined_with_their_requests() {
        let mut joined = joined();
        joined.add(&span(1, "queue", 10, 500_000_010));
        joined.add(&span(1, "decode", 500_000_010, 1_500_000_010));
        joined.add(&span(2, "queue", 0, 1_500_000_000));
        joined.add(&span(9, "queue", 0, 1));
        joined.add(&span(1, "odd", 5, 1));
        insta::assert_snapshot!(shown(&joined), @r#"
        span_duration_seconds{span="decode"} n 1 mean 1 s
        span_share_of_request{span="decode"} n 1 mean 0.5 ratio
        span_duration_seconds{span="queue"} n 2 mean 1 s
        span_share_of_request{span="queue"} n 1 mean 0.25 ratio
        spans_unjoined: `otlp/t`: 1 of 3 requests have no spans, 1 spans are of no request
        spans_left_out: `otlp/t`: 1 spans end before they begin, or are beyond 200 names or 8000000 spans
        "#);
    }

    #[test]
    fn names_beyond_the_limit_are_counted() {
        let mut joined = joined();
        for number in 0..MAX_NAMES + 3 {
            joined.add(&span(1, &format!("n{number}"), 0, 1));
        }
        assert_eq!((joined.attempts[0].by_name.len(), joined.left_out), (MAX_NAMES, 3));
        joined.add(&span(1, "n0", 0, 1));
        assert_eq!(joined.left_out, 3, "a known name has room");
    }

    #[test]
    fn refusals_are_an_issue() {
        let refusals = Refusals { count: 2, first: Some("a request is compressed".to_owned()) };
        let issues = Joined::default().issues(&Source::traces(&"t".parse().expect("a name")), &refusals);
        insta::assert_snapshot!(issues[0].detail, @"`otlp/t`: 2 refused, the first one: a request is compressed");
        assert_eq!(Joined::default().issues(&Source::host(), &Refusals::default()), []);
    }
}
