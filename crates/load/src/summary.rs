//! The result of a trial, and the health of the client.

use assay_record::{Outcome, Phase};

/// A trial that ran to its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrialSummary {
    /// Requests by phase and outcome; every record that the sink received is counted once.
    pub counts: Counts,
    /// The start of the measured phase, in nanoseconds since the trial's start.
    pub measured_from_ns: i64,
    /// The end of the trial's window as this shard sees it ([`assay_metric::MeasuredPhase::window`]): by the clock, or by count
    /// with the end of the last measured request. In nanoseconds since the trial's start.
    pub measured_to_ns: i64,
    /// The end of the last request, in nanoseconds since the trial's start.
    pub ended_ns: i64,
    /// The time by which turns of sessions came earlier because nothing was in flight, in nanoseconds.
    pub idle_cut_ns: i64,
    /// True if it was cancelled early.
    pub cancelled: bool,
    /// True if it ended early because more requests were in flight than [`Trial::over_saturation`](crate::Trial::over_saturation) allows.
    pub over_saturated: bool,
    /// True if it ended early because as many requests failed as [`Trial::stop_on_errors`](crate::Trial::stop_on_errors) states.
    pub too_many_errors: bool,
    /// The client's measurements of itself.
    pub client: ClientStats,
}

/// Requests by phase and outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    cells: [[u64; OUTCOMES]; 2],
}

const OUTCOMES: usize = Outcome::ALL.len();

/// Counts each request once.
impl FromIterator<(Phase, Outcome)> for Counts {
    fn from_iter<I: IntoIterator<Item = (Phase, Outcome)>>(requests: I) -> Self {
        let mut counts = Self::default();
        requests.into_iter().for_each(|(phase, outcome)| counts.add(phase, outcome));
        counts
    }
}

impl Counts {
    /// Returns the number of a phase's requests with this outcome.
    pub fn count(&self, phase: Phase, outcome: Outcome) -> u64 {
        self.cells[phase as usize][outcome as usize]
    }

    /// Returns the number of requests that were due in a phase.
    pub fn due(&self, phase: Phase) -> u64 {
        self.cells[phase as usize].iter().sum()
    }

    pub(crate) fn add(&mut self, phase: Phase, outcome: Outcome) {
        self.cells[phase as usize][outcome as usize] += 1;
    }
}

/// The lateness of measured requests, in nanoseconds after their intended times, over all that were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Requests that were sent.
    pub n: u64,
    /// Median, to within 1/32 above.
    pub ns_p50: i64,
    /// 99th percentile, to within 1/32 above.
    pub ns_p99: i64,
    /// Maximum.
    pub ns_max: i64,
}

/// The delay of the event loop to its sockets in the measured phase and the drain. Each delay is an upper bound: from the
/// earliest instant at which the socket can have been ready to its read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// The time that is judged, in nanoseconds: from the start of the measured phase to the end of the last request.
    pub judged_ns: i64,
    /// The part of it in which sockets waited for the loop for [`DELAY_GRAIN`](crate::DELAY_GRAIN) or longer.
    pub late_ns: i64,
    /// Measured requests that succeeded.
    pub requests: u64,
    /// Those whose first or last token event was read late by [`DELAY_GRAIN`](crate::DELAY_GRAIN) or more.
    pub late_requests: u64,
    /// The sum of their times from send to end.
    pub request_ns: i64,
    /// The part of it for which the last token events waited for the client.
    pub request_late_ns: i64,
    /// Token events of these requests.
    pub token_events: u64,
    /// Reads that were late by more than [`Trial::late_read_ns`](crate::Trial::late_read_ns).
    pub late_reads: u64,
    /// TTFT at the 99th percentile as measured, and its lower bound, to within 1/32 above.
    pub ttft_p99: Option<(i64, i64)>,
    /// The same for E2E.
    pub e2e_p99: Option<(i64, i64)>,
    /// Waits that a signal ended: the process was stopped and continued, or handled a signal.
    pub interruptions: u64,
    /// Time for which the loop's thread was runnable but did not run; absent if the kernel does not count it.
    pub run_delay_ns: Option<i64>,
}

/// The client's measurements of itself, over both phases unless a field says otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientStats {
    /// Lateness of the measured phase; absent if no request that had an intended time was sent.
    pub lateness: Option<Lateness>,
    /// Requests per second that were due in the measured phase; absent if it had no length.
    pub requested_per_s: Option<f64>,
    /// Requests per second that were sent in the measured phase; absent if it had no length.
    pub sent_per_s: Option<f64>,
    /// The delay of the loop's start, in nanoseconds; 0 if it waited for the start.
    pub started_late_ns: i64,
    /// The delay of the loop to its sockets, and its share of the latencies.
    pub delays: Delays,
    /// The longest time between two polls of the sockets: at work, stopped, or asleep beyond the deadline. An upper bound.
    pub longest_stall_ns: i64,
    /// 99th percentile of the time that the loop worked between two waits, in nanoseconds, to within 1/32 above.
    pub busy_ns_p99: i64,
    /// User CPU time of the whole process, in nanoseconds; the kernel reports it in ticks of (mostly) 10 ms.
    pub cpu_user_ns: i64,
    /// System CPU time of the whole process, in nanoseconds; likewise in ticks.
    pub cpu_system_ns: i64,
    /// CPU time of the loop's thread, exact.
    pub loop_cpu_ns: i64,
    /// Reads that returned bytes.
    pub reads: u64,
    /// Reads that filled the buffer, so that more bytes were waiting.
    pub full_reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Those that filled the buffer.
    pub full_read_bytes: u64,
    /// Those of responses that exceeded a limit of the client, or came to [`FLOOD_BYTES`](crate::FLOOD_BYTES).
    pub excess_bytes: u64,
    /// Events of streams.
    pub events: u64,
    /// Token events among them.
    pub token_events: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Requests that were sent on another connection, because the server had closed their kept-alive one before it can have read
    /// any of them.
    pub resends: u64,
    /// Requests that were not prepared when they were due.
    pub starved: u64,
    /// Times that the writer was behind when the loop had records for it.
    pub sink_stalls: u64,
    /// Time that the loop waited for the writer because the reserve was full too, in nanoseconds.
    pub sink_wait_ns: i64,
    /// The maximum requests in flight.
    pub most_in_flight: u64,
}
