//! The measured requests of a trial, with the instants that other tools take latencies from.

use assay_record::{Outcome, Record, TokenSource};

use crate::run::ServingTrial;

/// Nanoseconds in a millisecond.
pub(crate) const MS: f64 = 1e6;
/// Nanoseconds in a second.
pub(crate) const S: f64 = 1e9;

/// A request that was sent, as a tool that counts from the send time sees it. Durations are in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Sent<'a> {
    pub(crate) record: &'a Record,
    /// The start: the send time, or the start of the connection if each request opens one. Nanoseconds since the trial's start.
    pub(crate) start_ns: i64,
    is_streamed: bool,
}

/// The measured requests of a trial.
pub(crate) struct Measured<'a> {
    /// Those that succeeded.
    pub(crate) ok: Vec<Sent<'a>>,
    /// Those that were sent and did not succeed.
    pub(crate) not_ok: Vec<Sent<'a>>,
    /// The number of those that were due.
    pub(crate) due: usize,
    /// True if the times of all token events of successful requests are known.
    pub(crate) has_all_chunks: bool,
}

impl<'a> Measured<'a> {
    pub(crate) fn new(of: ServingTrial<'_>, requests: &'a [Record]) -> Self {
        let sent = requests.iter().filter_map(|record| Sent::new(of, record));
        let (ok, not_ok): (Vec<_>, Vec<_>) = sent.partition(|sent| sent.record.outcome.is_ok());
        let has_chunks = |sent: &Sent<'_>| sent.record.chunks.len() == sent.record.token_events as usize;
        let has_all_chunks = of.serving.is_streamed && ok.iter().all(has_chunks);
        Self { ok, not_ok, due: requests.len(), has_all_chunks }
    }

    /// Returns the requests that were sent and failed.
    pub(crate) fn sent_and_failed(&self) -> impl Iterator<Item = &Sent<'a>> {
        self.not_ok.iter().filter(|sent| !sent.is_cancelled())
    }

    /// Returns the number of requests that the client cancelled as planned.
    pub(crate) fn cancelled(&self) -> usize {
        self.not_ok.iter().filter(|sent| sent.is_cancelled()).count()
    }

    /// Returns the remark on the times of tokens that a trial, called `name` in the files, does not have.
    pub(crate) fn missing_times(&self, of: ServingTrial<'_>, name: &str) -> Option<String> {
        of.not_streamed(name).or_else(|| self.without_later_token(name))
    }

    /// Returns the remark on a trial of whose responses none has a second token.
    fn without_later_token(&self, name: &str) -> Option<String> {
        let has_none =
            !self.ok.is_empty() && self.ok.iter().all(|sent| sent.record.output_tokens.is_some_and(|tokens| tokens < 2));
        has_none.then(|| format!("`{name}` has no time of later tokens or between them: no response has a second token"))
    }

    /// Returns the requests that were sent, in the order in which they were due.
    pub(crate) fn in_order(&self) -> Vec<Sent<'a>> {
        let mut sent: Vec<_> = self.ok.iter().chain(&self.not_ok).copied().collect();
        sent.sort_by_key(|sent| sent.record.global_index);
        sent
    }

    /// Returns the requests that the client ended: those that it cancelled as planned, and those in flight at the end.
    pub(crate) fn ended_by_client(&self) -> usize {
        self.not_ok.iter().filter(|sent| sent.record.outcome.is_of_client()).count()
    }

    /// Returns the samples of the successful requests that have one.
    pub(crate) fn samples<'s>(&'s self, sample: impl Fn(&Sent<'a>) -> Option<f64> + 's) -> impl Iterator<Item = f64> + 's {
        self.ok.iter().filter_map(sample)
    }

    /// Returns the sum of a count over the successful requests; `None` if one of them lacks it, or if there are none.
    pub(crate) fn total(&self, count: impl Fn(&Sent<'a>) -> Option<u32>) -> Option<u64> {
        let sum = self.ok.iter().map(|sent| count(sent).map(u64::from)).sum::<Option<u64>>();
        sum.filter(|_| !self.ok.is_empty())
    }

    /// Returns the time from the first of these starts of the successful requests to the last of these ends, in seconds; `None` if it is not above 0.
    pub(crate) fn span_s(&self, start: impl Fn(&Sent<'a>) -> i64, end: impl Fn(&Sent<'a>) -> Option<i64>) -> Option<f64> {
        span_s(self.ok.iter(), start, end)
    }

    /// Returns the same time of all requests that were sent, those that failed included.
    pub(crate) fn span_of_all_s(&self, start: impl Fn(&Sent<'a>) -> i64, end: impl Fn(&Sent<'a>) -> Option<i64>) -> Option<f64> {
        span_s(self.ok.iter().chain(&self.not_ok), start, end)
    }
}

fn span_s<'s, 'a: 's>(
    sent: impl Iterator<Item = &'s Sent<'a>> + Clone,
    start: impl Fn(&Sent<'a>) -> i64,
    end: impl Fn(&Sent<'a>) -> Option<i64>,
) -> Option<f64> {
    let first = sent.clone().map(start).min()?;
    let last = sent.filter_map(end).max()?;
    last.checked_sub(first).filter(|span| *span > 0).map(|ns| ns as f64 / S)
}

impl<'a> Sent<'a> {
    fn new(of: ServingTrial<'_>, record: &'a Record) -> Option<Self> {
        let connects = record.connect_start_ns.filter(|_| of.serving.opens_connections);
        Some(Self { record, start_ns: connects.or(record.sent_ns)?, is_streamed: of.serving.is_streamed })
    }

    /// Returns true if the client cancelled the request as planned.
    pub(crate) fn is_cancelled(self) -> bool {
        self.record.outcome == Outcome::Cancelled
    }

    /// Returns the status code that says why a request failed; `None` without one, and for a response that failed behind a status of success.
    pub(crate) fn status_of_failure(self) -> Option<u16> {
        self.record.http_status.filter(|status| !(200..300).contains(status))
    }

    fn since_start(self, at_ns: Option<i64>) -> Option<f64> {
        at_ns?.checked_sub(self.start_ns).map(|ns| ns as f64)
    }

    /// Returns the first token event - start, if responses are streamed.
    pub(crate) fn ttft(self) -> Option<f64> {
        self.since_start(self.record.first_token_ns.filter(|_| self.is_streamed))
    }

    /// Returns the first content event - start, if responses are streamed.
    pub(crate) fn ttfo(self) -> Option<f64> {
        self.since_start(self.record.first_content_ns.filter(|_| self.is_streamed))
    }

    /// Returns the last token event - start.
    pub(crate) fn to_last_token(self) -> Option<f64> {
        self.since_start(self.record.last_token_ns)
    }

    /// Returns the end of the response - start.
    pub(crate) fn to_end(self) -> Option<f64> {
        self.since_start(self.record.end_ns)
    }

    /// Returns the last token event - first token event, if responses are streamed.
    pub(crate) fn decode(self) -> Option<f64> {
        Some(self.to_last_token()? - self.ttft()?)
    }

    /// Returns a time over the output tokens after the first one.
    pub(crate) fn per_later_token(self, duration: Option<f64>) -> Option<f64> {
        let later = self.record.output_tokens?.checked_sub(1).filter(|tokens| *tokens > 0)?;
        duration.map(|duration| duration / f64::from(later))
    }

    /// Returns the times between token events.
    pub(crate) fn gaps(self) -> impl Iterator<Item = f64> + 'a {
        let chunks = self.record.chunks.iter();
        chunks.clone().zip(chunks.skip(1)).map(|(one, next)| next.at_ns.saturating_sub(one.at_ns) as f64)
    }

    /// Returns true if the endpoint counted the output tokens.
    pub(crate) fn is_counted_by_endpoint(self) -> bool {
        matches!(self.record.output_source, TokenSource::Usage | TokenSource::ContinuousUsage)
    }

    /// Returns the input tokens as counted by the endpoint, else by the client.
    pub(crate) fn input_tokens(self) -> u32 {
        self.record.input_tokens_endpoint.unwrap_or(self.record.input_tokens)
    }
}
