//! The sums over the requests of a trial, and the formulas of the metrics that have one value for each trial.

use crate::SHARE_BITS;

/// The value of a metric with the number of its samples, or the reason why there is none.
pub type MeasuredValue = Result<(f64, u64), String>;

/// A sum of whole numbers, which does not depend on their order, and their count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The number of values.
    pub n: u64,
    /// Their sum.
    pub sum: i128,
}

impl Sum {
    /// Adds a value.
    #[inline]
    pub fn add(&mut self, value: i64) {
        self.n += 1;
        self.sum += i128::from(value);
    }

    /// Adds the values of another sum.
    pub fn merge(&mut self, other: Self) {
        self.n += other.n;
        self.sum += other.sum;
    }

    /// Returns the mean; `None` if the count is 0.
    pub fn mean(self) -> Option<f64> {
        (self.n > 0).then(|| self.sum as f64 / self.n as f64)
    }
}

/// The work of responses within a span of time. A response that lies only partly in the span counts by its share, in units of
/// 2^-32: see [`share_within`](crate::share_within).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkTotals {
    /// The number of responses with a share above 0.
    pub responses: u64,
    /// The sum of their shares of a request.
    pub request_shares: u128,
    /// The sum of their input tokens, each count times the share of its response.
    pub input_tokens: u128,
    /// The same sum of their output tokens.
    pub output_tokens: u128,
    /// The number of responses with an unknown count of output tokens.
    pub without_token_count: u64,
}

impl WorkTotals {
    /// Adds a share of a response with its input and output tokens.
    #[inline]
    pub fn add(&mut self, share: u64, input: Option<i64>, output: Option<i64>) {
        if share == 0 {
            return;
        }
        let of = |tokens: i64| u128::from(share) * u128::from(tokens.max(0).unsigned_abs());
        self.responses += 1;
        self.request_shares += u128::from(share);
        self.input_tokens += input.map_or(0, of);
        match output {
            Some(tokens) => self.output_tokens += of(tokens),
            None => self.without_token_count += 1,
        }
    }

    /// Adds the work of other responses.
    pub fn merge(&mut self, other: Self) {
        self.responses += other.responses;
        self.request_shares += other.request_shares;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.without_token_count += other.without_token_count;
    }

    /// Returns `tokens`, a sum over these responses, or an error if any of them has no token count.
    fn counted(&self, tokens: u128) -> Result<u128, String> {
        match self.without_token_count {
            0 => Ok(tokens),
            without_token_count => {
                Err(format!("token counts are missing for {without_token_count} of {}", quantity(self.responses, "response")))
            }
        }
    }
}

/// The sums over the requests of a trial. None depends on the order of the requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requested input tokens of successful requests.
    pub isl_requested: Sum,
    /// Input tokens of successful requests, by the workload's tokenizer.
    pub isl: Sum,
    /// Input tokens of successful requests, as the endpoint counts them.
    pub isl_endpoint: Sum,
    /// Input tokens by the workload's tokenizer, of those requests whose input tokens the endpoint counted as well.
    pub isl_compared: Sum,
    /// Output tokens of successful requests.
    pub osl: Sum,
    /// Input tokens of successful requests that came from the prefix cache.
    pub cached: Sum,
    /// Input tokens of the requests whose cached tokens are reported: by the endpoint's count, or else by the workload's tokenizer.
    pub cached_of: Sum,
    /// Responses with a requested and an actual output length.
    pub with_both_lengths: u64,
    /// Those of them that differ from it: see [`is_length_mismatch`](crate::is_length_mismatch).
    pub mismatched: u64,
    /// The work of successful requests within the window.
    pub completed: WorkTotals,
    /// The sessions that this work is of, in shares of a session: a request that is a turn of `n` is 1 / `n` of one.
    pub completed_sessions: u128,
    /// The part of it that met every SLO.
    pub completed_good: WorkTotals,
    /// The work that was done in the steady state.
    pub steady: WorkTotals,
    /// Requests of the measured phase that met every SLO.
    pub good: u64,
    /// Requests of the measured phase that were sent.
    pub sent: u64,
    /// Those of them that had to wait for a place among the requests in flight.
    pub queued: u64,
    /// The first send time among them, in nanoseconds since the trial's start.
    pub sent_first_ns: Option<i64>,
    /// The last one.
    pub sent_last_ns: Option<i64>,
}

impl Totals {
    /// Counts a sent request, with its send time.
    #[inline]
    pub fn add_sent(&mut self, sent_ns: i64) {
        self.sent += 1;
        self.sent_first_ns = Some(self.sent_first_ns.map_or(sent_ns, |first| first.min(sent_ns)));
        self.sent_last_ns = self.sent_last_ns.max(Some(sent_ns));
    }

    /// Adds the sums over other requests.
    pub fn merge(&mut self, other: Self) {
        self.isl_requested.merge(other.isl_requested);
        self.isl.merge(other.isl);
        self.isl_endpoint.merge(other.isl_endpoint);
        self.isl_compared.merge(other.isl_compared);
        self.osl.merge(other.osl);
        self.cached.merge(other.cached);
        self.cached_of.merge(other.cached_of);
        self.with_both_lengths += other.with_both_lengths;
        self.mismatched += other.mismatched;
        self.completed.merge(other.completed);
        self.completed_sessions += other.completed_sessions;
        self.completed_good.merge(other.completed_good);
        self.steady.merge(other.steady);
        self.good += other.good;
        self.sent += other.sent;
        self.queued += other.queued;
        self.sent_first_ns = self.sent_first_ns.into_iter().chain(other.sent_first_ns).min();
        self.sent_last_ns = self.sent_last_ns.max(other.sent_last_ns);
    }
}

/// The input tokens of successful requests that earlier requests have as the beginning of their prompts, by the plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepeatedInput {
    /// The requests.
    pub requests: u64,
    /// The tokens of them that a cache without limits finds, in whole blocks.
    pub repeated: u64,
    /// All of their input tokens.
    pub tokens: u64,
}

/// The inputs of the formulas of a trial.
#[derive(Clone, Debug)]
pub struct TrialTotals<'a> {
    /// Requests that were due in the measured phase.
    pub requests: u64,
    /// Those of them with the outcome `ok`.
    pub ok: u64,
    /// Those of them that the client cancelled as planned: neither good nor failed. `None` if the workload cancels none.
    pub cancelled: Option<u64>,
    /// The sums over the requests.
    pub totals: &'a Totals,
    /// The length of the window; `None` if it has none.
    pub window_ns: Option<u64>,
    /// The length of the steady state, or the reason why there is none.
    pub steady_ns: Result<u64, String>,
    /// True if requests are sent by a schedule, not when a response comes.
    pub is_open_loop: bool,
    /// True if due requests wait while as many are in flight as the workload allows.
    pub has_cap: bool,
    /// True if requests are turns of sessions.
    pub has_sessions: bool,
    /// True if the workload has SLOs.
    pub has_slos: bool,
    /// The reason why responses have no output tokens; `None` if they have.
    pub no_output: Option<String>,
    /// The documents of each request; `None` if requests have none.
    pub documents: Option<u32>,
    /// The input that is repeated by the plan, or the reason why it is not known.
    pub repeated: Result<RepeatedInput, String>,
    /// The GPUs of the measured system, or the reason why their number is not known.
    pub gpus: Result<GpuCounts, String>,
    /// The price of one second of the measured system, or the reason why there is none.
    pub price_per_s: Result<f64, String>,
}

/// The GPUs of a measured system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuCounts {
    /// All of them, whatever their role.
    pub all: u64,
    /// Those of each role, or the reason why they are not known.
    pub by_role: Result<RoleGpus, String>,
}

/// The GPUs of a system whose prompts and responses are computed by different ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleGpus {
    /// Those that compute prompts, up to the first token.
    pub prefill: u64,
    /// Those that compute the tokens after the first one.
    pub decode: u64,
}

impl RoleGpus {
    /// Returns the number of all of them.
    pub fn sum(self) -> u64 {
        self.prefill.saturating_add(self.decode)
    }
}

impl TrialTotals<'_> {
    /// Converts a sum of shares of requests or tokens to their number per second of the window; `n` is the number of samples.
    fn per_second(&self, shares: u128, n: u64) -> MeasuredValue {
        let seconds = self.window_ns.map(seconds).ok_or("the measured phase has no length")?;
        Ok((whole(shares) / seconds, n))
    }

    /// Converts a sum of shares of requests or tokens to their number per second of the steady state.
    fn steady_per_second(&self, shares: u128) -> MeasuredValue {
        let steady_ns = self.steady_ns.clone()?;
        Ok((whole(shares) / seconds(steady_ns), self.totals.steady.responses))
    }

    /// Fails with the reason if responses have no output tokens.
    fn need_output(&self) -> Result<(), String> {
        self.no_output.clone().map_or(Ok(()), Err)
    }

    /// Returns the number of requests that were due and that the client did not cancel as planned.
    fn uncancelled(&self) -> u64 {
        self.requests.saturating_sub(self.cancelled.unwrap_or(0))
    }

    /// Fails if the workload has no SLOs.
    fn need_slos(&self) -> Result<(), String> {
        if self.has_slos { Ok(()) } else { Err("the workload has no SLOs".to_owned()) }
    }

    /// Returns the output tokens of responses per second of the window.
    fn output_rate(&self, of: &WorkTotals) -> MeasuredValue {
        self.need_output()?;
        self.per_second(of.counted(of.output_tokens)?, of.responses)
    }

    /// Returns the price of one unit of work; `rate` is the number of units per second, and `work` the name of the unit.
    fn cost(&self, rate: MeasuredValue, work: &str) -> MeasuredValue {
        let price_per_s = self.price_per_s.clone()?;
        match rate? {
            (rate, n) if rate > 0.0 => Ok((price_per_s / rate, n)),
            _ => Err(format!("no {work} completed in the measured phase")),
        }
    }
}

/// The reason for the absence of a value that only the endpoint can report.
const NOT_REPORTED: &str = "the endpoint does not report it";
/// The reason for the absence of a value that only a cap over an open loop gives.
pub const NO_CAP: &str = "the workload has no `max_concurrency`";
/// The reason for the absence of a share of requests.
const NONE_DUE: &str = "no request was due in the measured phase";

pub(crate) fn request_throughput(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.per_second(trial.totals.completed.request_shares, trial.totals.completed.responses)
}

pub(crate) fn request_throughput_steady(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.steady_per_second(trial.totals.steady.request_shares)
}

pub(crate) fn output_throughput(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.output_rate(&trial.totals.completed)
}

pub(crate) fn output_throughput_per_gpu(trial: &TrialTotals<'_>) -> MeasuredValue {
    per_gpu(output_throughput(trial), trial.gpus.clone()?.all)
}

pub(crate) fn total_throughput_per_gpu(trial: &TrialTotals<'_>) -> MeasuredValue {
    per_gpu(total_throughput(trial), trial.gpus.clone()?.all)
}

pub(crate) fn input_throughput_per_prefill_gpu(trial: &TrialTotals<'_>) -> MeasuredValue {
    per_gpu(input_throughput(trial), trial.gpus.clone()?.by_role?.prefill)
}

pub(crate) fn output_throughput_per_decode_gpu(trial: &TrialTotals<'_>) -> MeasuredValue {
    per_gpu(output_throughput(trial), trial.gpus.clone()?.by_role?.decode)
}

/// Returns a rate for each of these GPUs.
fn per_gpu(rate: MeasuredValue, gpus: u64) -> MeasuredValue {
    match gpus {
        0 => Err("the target has no GPU".to_owned()),
        gpus => rate.map(|(rate, n)| (rate / gpus as f64, n)),
    }
}

pub(crate) fn output_throughput_steady(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.need_output()?;
    let steady = &trial.totals.steady;
    trial.steady_per_second(steady.counted(steady.output_tokens)?)
}

/// Returns the part of the window that is steady state; the rest is ramp and drain.
pub(crate) fn steady_fraction(trial: &TrialTotals<'_>) -> MeasuredValue {
    let steady_ns = trial.steady_ns.clone()?;
    let window_ns = trial.window_ns.ok_or("the measured phase has no length")?;
    Ok((steady_ns as f64 / window_ns as f64, trial.requests))
}

pub(crate) fn input_throughput(trial: &TrialTotals<'_>) -> MeasuredValue {
    let completed = &trial.totals.completed;
    trial.per_second(completed.input_tokens, completed.responses)
}

pub(crate) fn total_throughput(trial: &TrialTotals<'_>) -> MeasuredValue {
    let completed = &trial.totals.completed;
    trial.per_second(completed.counted(completed.input_tokens + completed.output_tokens)?, completed.responses)
}

pub(crate) fn document_throughput(trial: &TrialTotals<'_>) -> MeasuredValue {
    let documents = trial.documents.ok_or("its requests have no documents")?;
    request_throughput(trial).map(|(rate, n)| (rate * f64::from(documents), n))
}

pub(crate) fn goodput_requests(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.need_slos()?;
    trial.per_second(trial.totals.completed_good.request_shares, trial.totals.completed_good.responses)
}

pub(crate) fn goodput_tokens(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.need_slos()?;
    trial.output_rate(&trial.totals.completed_good)
}

pub(crate) fn good_fraction(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.need_slos()?;
    share(trial.totals.good, trial.uncancelled(), NONE_DUE)
}

pub(crate) fn error_rate(trial: &TrialTotals<'_>) -> MeasuredValue {
    share(trial.uncancelled().saturating_sub(trial.ok), trial.uncancelled(), NONE_DUE)
}

pub(crate) fn isl_requested(trial: &TrialTotals<'_>) -> MeasuredValue {
    mean(trial.totals.isl_requested, || no_response_has(trial.ok, "a requested length"))
}

pub(crate) fn isl(trial: &TrialTotals<'_>) -> MeasuredValue {
    mean(trial.totals.isl, || no_request_succeeded(trial.requests))
}

pub(crate) fn isl_endpoint(trial: &TrialTotals<'_>) -> MeasuredValue {
    mean(trial.totals.isl_endpoint, || NOT_REPORTED.to_owned())
}

/// Returns the endpoint's count of input tokens over that of the workload's tokenizer, less 1, for requests that both counted.
pub(crate) fn isl_difference(trial: &TrialTotals<'_>) -> MeasuredValue {
    let (ours, theirs) = (trial.totals.isl_compared, trial.totals.isl_endpoint);
    match ours.sum {
        _ if ours.n == 0 => Err(NOT_REPORTED.to_owned()),
        0 => Err("by the workload's tokenizer the prompts have no tokens".to_owned()),
        sum => Ok(((theirs.sum - sum) as f64 / sum as f64, ours.n)),
    }
}

pub(crate) fn osl(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.need_output()?;
    mean(trial.totals.osl, || no_response_has(trial.ok, "a token count"))
}

pub(crate) fn osl_mismatch(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.need_output()?;
    let totals = trial.totals;
    share(totals.mismatched, totals.with_both_lengths, "no response has both a token count and a requested length")
}

/// Returns the number of gaps between consecutive send times, over the time from the first to the last. The time after the
/// last request does not count, so the end of the trial does not change the rate. A closed loop offers no rate: its send times follow
/// from the responses.
pub(crate) fn offered_rate(trial: &TrialTotals<'_>) -> MeasuredValue {
    if !trial.is_open_loop {
        return Err("a closed loop offers a concurrency, not a rate".to_owned());
    }
    let Totals { sent, sent_first_ns, sent_last_ns, .. } = *trial.totals;
    let span = sent_last_ns.zip(sent_first_ns).and_then(|(last, first)| last.checked_sub(first)).filter(|ns| *ns > 0);
    match (span, sent.checked_sub(1).filter(|gaps| *gaps > 0)) {
        (Some(ns), Some(gaps)) => Ok((gaps as f64 / (ns as f64 / 1e9), sent)),
        _ => Err("fewer than two requests were sent at different times".to_owned()),
    }
}

pub(crate) fn queued_share(trial: &TrialTotals<'_>) -> MeasuredValue {
    if !trial.has_cap {
        return Err(NO_CAP.to_owned());
    }
    share(trial.totals.queued, trial.totals.sent, "no request was sent")
}

pub(crate) fn cancelled_share(trial: &TrialTotals<'_>) -> MeasuredValue {
    let cancelled = trial.cancelled.ok_or("the workload cancels no request")?;
    share(cancelled, trial.totals.sent, "no request was sent")
}

pub(crate) fn cached_tokens(trial: &TrialTotals<'_>) -> MeasuredValue {
    let Sum { n, sum } = trial.totals.cached;
    if n > 0 { Ok((sum as f64, n)) } else { Err(NOT_REPORTED.to_owned()) }
}

pub(crate) fn cached_share(trial: &TrialTotals<'_>) -> MeasuredValue {
    let (cached, of) = (trial.totals.cached, trial.totals.cached_of);
    if of.sum > 0 { Ok((cached.sum as f64 / of.sum as f64, of.n)) } else { Err(NOT_REPORTED.to_owned()) }
}

pub(crate) fn theoretical_cached_share(trial: &TrialTotals<'_>) -> MeasuredValue {
    let repeated = trial.repeated.clone()?;
    share(repeated.repeated, repeated.tokens, "no request succeeded").map(|(share, _)| (share, repeated.requests))
}

/// Returns the cached tokens over those that a cache without limits would have found, if all successful requests report theirs.
pub(crate) fn reuse_efficiency(trial: &TrialTotals<'_>) -> MeasuredValue {
    let RepeatedInput { requests, repeated, .. } = trial.repeated.clone()?;
    let Sum { n, sum } = trial.totals.cached;
    match repeated {
        _ if n == 0 => Err(NOT_REPORTED.to_owned()),
        _ if n < requests => Err(format!("only {n} of {} report it", quantity(requests, "response"))),
        0 => Err("no prompt begins like an earlier one".to_owned()),
        repeated => Ok((sum as f64 / repeated as f64, n)),
    }
}

pub(crate) fn cost_per_request(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.cost(request_throughput(trial), "request")
}

pub(crate) fn cost_per_session(trial: &TrialTotals<'_>) -> MeasuredValue {
    if !trial.has_sessions {
        return Err("requests are not turns of sessions".to_owned());
    }
    let completed = trial.totals.completed_sessions;
    trial.cost(trial.per_second(completed, trial.totals.completed.responses), "turn of a session")
}

/// Returns the price of a million output tokens.
pub(crate) fn cost_per_million_tokens(trial: &TrialTotals<'_>) -> MeasuredValue {
    trial.cost(output_throughput(trial), "output token").map(|(price, n)| (price * 1e6, n))
}

fn share(part: u64, of: u64, why_none: &str) -> MeasuredValue {
    if of > 0 { Ok((part as f64 / of as f64, of)) } else { Err(why_none.to_owned()) }
}

fn mean(sum: Sum, why_none: impl FnOnce() -> String) -> MeasuredValue {
    sum.mean().map(|mean| (mean, sum.n)).ok_or_else(why_none)
}

/// Converts shares of requests, or of tokens, to a number of them. Exact for whole numbers below 2^53.
fn whole(shares: u128) -> f64 {
    shares as f64 / (1_u64 << SHARE_BITS) as f64
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Returns the reason for the absence of a value that needs a successful request.
pub fn no_request_succeeded(requests: u64) -> String {
    format!("none of {} succeeded", quantity(requests, "request"))
}

/// Returns the reason for the absence of a value that no response has.
pub fn no_response_has(responses: u64, what: &str) -> String {
    format!("none of {} has {what}", quantity(responses, "response"))
}

/// Returns `count` with its noun: `1 response`, `5 responses`.
pub fn quantity(count: impl Into<u64>, noun: &str) -> String {
    match count.into() {
        1 => format!("1 {noun}"),
        count => format!("{count} {noun}s"),
    }
}
