//! Asks each Prometheus that the pipeline names for the raw samples of every attempt, after all of them have run.
//!
//! Every response is kept as it came, in a file of the evidence; reduce makes rows of them. No failure of a Prometheus fails the stage:
//! it is kept in the place of the response.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant as Moment};

use assay_manifest::{Artifact, Block, ExecutionPart, Instant, PackQuery, Plan, PrometheusSource, TrialId};
use assay_probe::{Client, CredentialError, Headers, Limits, RequestError, read_tls};
use assay_stage::{Clock, Context, Event, Failure, with_causes};
use assay_telemetry::prometheus::{
    MEDIA_TYPE, QueryLine, QueryOf, Request, clock_url, file_name, parse_series, presence_query, query_url, read_body,
    samples_query, source_name,
};

use crate::line_file::LineFile;

/// The limits of one request: a Prometheus ends a query after two minutes by default. A larger response is requested in parts.
const LIMITS: Limits = Limits { time: Duration::from_mins(1), bytes: 32 << 20 };

/// The longest part of a window that is requested at once, in nanoseconds: 1,000 series once a second are 20 MB in that time.
const MAX_PART_NS: u64 = 600_000_000_000;

/// The shortest part that a response is divided into, in nanoseconds.
const MIN_PART_NS: u64 = 1_000_000_000;

/// The time after which a Prometheus is asked no further: collect has a time limit of its own.
const MAX_TIME: Duration = Duration::from_mins(10);

/// The number of failures in a row after which it is asked no further.
const MAX_FAILURES: u32 = 5;

/// The largest file of one Prometheus, packed.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// The part of the messages by which a Prometheus refuses a query with too many samples (`--query.max-samples`).
const TOO_MANY_SAMPLES: &str = "too many samples";

/// An attempt with its window, over all shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptToAsk {
    /// The block.
    pub block: Block,
    /// The trial.
    pub trial_id: TrialId,
    /// The number of the attempt.
    pub attempt: u32,
    /// The start of the first shard.
    pub start: Instant,
    /// The end of the last shard.
    pub end: Instant,
}

/// Asks every Prometheus of the plan, and stores the responses.
pub(crate) fn read_samples(ctx: &Context, plan: &Plan, parts: &[&ExecutionPart]) -> Result<Vec<Artifact>, Failure> {
    let attempts = attempts(parts);
    let mut found = Vec::new();
    for (name, source) in plan.prometheus_sources() {
        ctx.emit(Event::Note { message: format!("asks `{}` for the samples of {} attempts", source_name(name), attempts.len()) });
        let path = ctx.scratch().join(format!("prometheus-{name}"));
        ask_prometheus(source, &attempts, &path, || ctx.check_cancelled())?;
        found.push(ctx.put_file(file_name(name), MEDIA_TYPE, &path)?);
    }
    Ok(found)
}

/// Returns the attempts in the order of their starts.
fn attempts(parts: &[&ExecutionPart]) -> Vec<AttemptToAsk> {
    let mut windows: BTreeMap<(Block, &TrialId, u32), (Instant, Instant)> = BTreeMap::new();
    for part in parts {
        for attempt in &part.attempts {
            let (start, end) = (attempt.window.start, attempt.window.end);
            let window = windows.entry((part.block, &attempt.trial_id, attempt.attempt)).or_insert((start, end));
            *window = (window.0.min(start), window.1.max(end));
        }
    }
    let one = |((block, trial_id, attempt), (start, end)): ((Block, &TrialId, u32), _)| AttemptToAsk {
        block,
        trial_id: trial_id.clone(),
        attempt,
        start,
        end,
    };
    let mut attempts: Vec<_> = windows.into_iter().map(one).collect();
    attempts.sort_by_key(|attempt| (attempt.start, attempt.end));
    attempts
}

/// Asks a Prometheus for the samples of its queries in these attempts, and writes a line for each request to a file.
///
/// # Errors
/// If the file cannot be written, or `check` fails, which is called before each request. A failure of the Prometheus is a line.
pub fn ask_prometheus(
    source: &PrometheusSource,
    attempts: &[AttemptToAsk],
    path: &Path,
    check: impl Fn() -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut lines = LineFile::create(path)?;
    match client(source) {
        Ok(client) => {
            let queries: Vec<&PackQuery> = source.queries().map(|(_, query)| query).collect();
            let parts_ns = vec![MAX_PART_NS; queries.len()];
            let asking = Asking { client, source, queries, parts_ns, lines: &mut lines, began: Moment::now(), failures: 0 };
            asking.run(attempts, &check)?;
        }
        // The credentials are missing: the run has been measured all the same.
        Err(error) => lines.write(&stopped(with_causes(&error)))?,
    }
    lines.finish().map(drop)
}

fn client(source: &PrometheusSource) -> Result<Client, CredentialError> {
    let tls = read_tls(source.tls.as_ref(), source.insecure_skip_tls_verify)?;
    Ok(Client::with_tls(Headers::read(&source.headers)?, tls))
}

/// The requests to one Prometheus.
struct Asking<'a> {
    client: Client,
    source: &'a PrometheusSource,
    queries: Vec<&'a PackQuery>,
    /// The longest part of a window in which the response to each query was not too large.
    parts_ns: Vec<u64>,
    lines: &'a mut LineFile,
    began: Moment,
    /// The number of failures since the last response.
    failures: u32,
}

/// The way in which a response can be used.
#[derive(Debug, PartialEq, Eq)]
enum Usable {
    /// It has series.
    Series,
    /// It has none.
    Empty,
    /// It is too large, and so would be any of the same time.
    TooLarge,
    /// It cannot be used.
    No,
}

impl Asking<'_> {
    fn run(mut self, attempts: &[AttemptToAsk], check: &dyn Fn() -> Result<(), Failure>) -> Result<(), Failure> {
        self.ask_clock()?;
        for attempt in attempts {
            for query in 0..self.queries.len() {
                if let Some(why) = self.ask_query(attempt, query, check)? {
                    return self.lines.write(&stopped(why));
                }
            }
        }
        // The clocks may have moved apart meanwhile; the better bound of both counts.
        self.ask_clock()
    }

    fn reason_to_stop(&self) -> Option<String> {
        if self.failures >= MAX_FAILURES {
            return Some(format!("{MAX_FAILURES} requests failed one after the other"));
        }
        if self.began.elapsed() > MAX_TIME {
            return Some(format!("its responses took more than {} s", MAX_TIME.as_secs()));
        }
        (self.lines.written() > MAX_FILE_BYTES).then(|| format!("its responses are larger than {MAX_FILE_BYTES} bytes"))
    }

    fn ask_clock(&mut self) -> Result<(), Failure> {
        let url = clock_url(&self.source.url);
        let line = self.request(&url, blank(Request::Clock));
        self.failures += u32::from(line.body.is_none());
        self.lines.write(&line)
    }

    /// Asks for the samples of a query in an attempt, part by part, and if there are none, whether there were any lately. Returns the reason
    /// if the server is to be asked no further.
    fn ask_query(
        &mut self,
        attempt: &AttemptToAsk,
        query: usize,
        check: &dyn Fn() -> Result<(), Failure>,
    ) -> Result<Option<String>, Failure> {
        let Some(selector) = self.queries.get(query).map(|query| self.source.selector(query)) else { return Ok(None) };
        let of = QueryOf {
            block: attempt.block,
            trial_id: attempt.trial_id.clone(),
            attempt: attempt.attempt,
            query: u32::try_from(query).unwrap_or(u32::MAX),
        };
        let (mut from, mut is_empty) = (attempt.start, true);
        loop {
            check()?;
            if let Some(why) = self.reason_to_stop() {
                if from > attempt.start {
                    // Half of a window is no row.
                    self.lines.write(&QueryLine { of: Some(of), error: Some(why.clone()), ..blank(Request::Samples) })?;
                }
                return Ok(Some(why));
            }
            let part_ns = self.parts_ns.get(query).copied().unwrap_or(MAX_PART_NS);
            let to = Instant::from_unix_ns(from.unix_ns().saturating_add(part_ns.cast_signed())).min(attempt.end);
            let (promql, time) = samples_query(&selector, from, to);
            let (line, usable) = self.ask(Request::Samples, &of, promql, time);
            if usable == Usable::TooLarge && part_ns > MIN_PART_NS {
                // The response is requested in halves, and no line is kept of it.
                self.parts_ns.iter_mut().skip(query).take(1).for_each(|part| *part = (to.ns_since(from) / 2).max(MIN_PART_NS));
                continue;
            }
            self.failures += u32::from(usable == Usable::TooLarge);
            self.lines.write(&line)?;
            is_empty &= usable == Usable::Empty;
            // The rest of a query without one of its parts is of no use.
            if to >= attempt.end || !matches!(usable, Usable::Series | Usable::Empty) {
                break;
            }
            from = to;
        }
        if is_empty {
            let (line, _) = self.ask(Request::Presence, &of, presence_query(&selector), attempt.end);
            self.lines.write(&line)?;
        }
        Ok(None)
    }

    fn ask(&mut self, request: Request, of: &QueryOf, promql: String, time: Instant) -> (QueryLine, Usable) {
        let url = query_url(&self.source.url, &promql, Some(time));
        let line = QueryLine { of: Some(of.clone()), promql: Some(promql), time: Some(time), ..blank(request) };
        let line = self.request(&url, line);
        let usable = match (&line.body, &line.error) {
            (Some(body), _) => match parse_series(body) {
                Ok(response) if response.series.is_empty() => Usable::Empty,
                Ok(_) => Usable::Series,
                Err(_) => Usable::No,
            },
            (None, Some(error)) if is_too_large(error) => Usable::TooLarge,
            (None, _) => Usable::No,
        };
        self.failures = match usable {
            Usable::No => self.failures + 1,
            Usable::TooLarge => self.failures,
            Usable::Series | Usable::Empty => 0,
        };
        (line, usable)
    }

    /// Sends a request and completes its line.
    fn request(&self, url: &str, line: QueryLine) -> QueryLine {
        let (at, watch) = (Clock.now(), Clock.start());
        let response = self.client.get(url, LIMITS);
        let took_ns = watch.elapsed_ns();
        let status = response.as_ref().ok().map(|response| response.status);
        let body = response.map_err(|error| describe(&error));
        let body = body.and_then(|response| read_body(response.is_success(), &response.status_text(), response.body));
        let (body, error) = match body {
            Ok(body) => (Some(body), None),
            Err(why) => (None, Some(why)),
        };
        QueryLine { at, took_ns, status, body, error, ..line }
    }
}

/// The text of a response that is larger than the limit, by which it is found again.
const LARGER: &str = "the response is larger than";

fn describe(error: &RequestError) -> String {
    match error {
        RequestError::TooLarge(limit) => format!("{LARGER} {limit} bytes"),
        error => error.to_string(),
    }
}

fn is_too_large(error: &str) -> bool {
    error.starts_with(LARGER) || error.contains(TOO_MANY_SAMPLES)
}

fn blank(request: Request) -> QueryLine {
    let at = Clock.now();
    QueryLine { request, of: None, promql: None, time: None, at, took_ns: 0, status: None, body: None, error: None }
}

fn stopped(why: String) -> QueryLine {
    QueryLine { error: Some(why), ..blank(Request::Stopped) }
}

#[cfg(test)]
mod tests;
